"""The YAML tables of the text tests, and the shared data where it is at hand."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

HERE = Path(__file__).parent


def table(name: str) -> Any:
    """The content of ``cases/<name>.yaml``."""
    return YAML(typ="safe").load((HERE / "cases" / f"{name}.yaml").read_text(encoding="utf-8"))


def shared_rows(relative: str) -> Iterator[dict[str, Any]]:
    """Rows of a gzipped JSONL file of the shared data; the test is skipped where that folder is not."""
    folder = Path(os.environ.get("KB_SHARED_DATA", HERE.parents[2] / "shared" / "data"))
    path = folder / relative
    if not path.is_file():
        pytest.skip(f"no shared data: {path} is missing (set KB_SHARED_DATA)")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return iter([json.loads(line) for line in lines])
