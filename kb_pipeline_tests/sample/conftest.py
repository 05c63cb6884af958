"""The sample's rows and truth, read once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kb_pipeline.sample import load_truth, sample_path


@pytest.fixture(scope="session")
def rows() -> dict[str, dict[str, Any]]:
    """Import rows by id, in the order of the file."""
    parsed = [json.loads(line) for line in sample_path().read_text("utf-8").splitlines()]
    by_id = {row["id"]: row for row in parsed}
    assert len(by_id) == len(parsed), "an id stands twice"
    return by_id


@pytest.fixture(scope="session")
def truth() -> dict[str, Any]:
    """The sample's truth."""
    return load_truth()
