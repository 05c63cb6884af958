"""Texts that talk to the judge are flagged, ordinary ones are not."""

from __future__ import annotations

import pytest

from kb_pipeline.text.injection import addresses_judge
from kb_pipeline_tests.text.table_cases import shared_rows, table

TABLE = table("injection")


@pytest.mark.parametrize("text", TABLE["addresses"])
def test_flags(text: str) -> None:
    assert addresses_judge(text)


@pytest.mark.parametrize("text", TABLE["spares"])
def test_spares(text: str) -> None:
    assert not addresses_judge(text)


def test_flags_hardly_any_real_entry() -> None:
    texts = [row["body"] for row in shared_rows("corpora/agent_memory.jsonl.gz")]
    assert sum(map(addresses_judge, texts)) <= len(texts) // 200
