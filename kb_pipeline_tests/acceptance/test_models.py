"""Vectors of two models never meet, and a model without thresholds of its own is refused (behaviour 15, K16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kb_pipeline_tests.fakes.house import House, NewCorpus
from kb_pipeline_tests.fakes.tiny_encoder import build_tiny_model

NEXT = "2026-11-09T08:00:00+00:00"


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"id": f"e{n}", "title": f"The pump of dock {n} is tested with pressure {n * 3}"} for n in range(first, last)
    ]


def test_another_model_encodes_everything_anew(new_corpus: NewCorpus, tmp_path: Path) -> None:
    corpus = new_corpus({"dedup": {"min_borderline_similarity": 0.1}})
    corpus.load(*rows(0, 6)).ok()
    first = corpus.curate("--json").ok().json
    before = corpus.pairs()
    corpus.load(*rows(6, 12)).ok()
    corpus.policy["encoder"] = {"model": build_tiny_model(tmp_path / "other", seed="other")}
    second = corpus.curate("--json", KB_NOW=NEXT).ok().json
    after = corpus.pairs()
    assert (first["texts_encoded"], second["texts_encoded"]) == (6, 12)
    assert first["model_fingerprint"] != second["model_fingerprint"]
    assert before.keys() <= after.keys()
    assert all(before[pair]["similarity"] != after[pair]["similarity"] for pair in before)
    # A pair of an old and a new text is as close as any: both were read by one model.
    mixed = [row["similarity"] for pair, row in after.items() if pair[0] in {"e0", "e1"} and pair[1] in {"e6", "e7"}]
    assert mixed and min(mixed) > 0.5
    held = corpus.query(
        "SELECT model_fingerprint, count(DISTINCT content_hash) AS texts FROM embeddings WHERE content_hash IN "
        "(SELECT content_hash FROM entry_versions WHERE corpus = %s) GROUP BY model_fingerprint",
        corpus.name,
    )
    assert sorted(row["texts"] for row in held) == [6, 12]


def test_a_model_without_thresholds_is_refused_by_name(new_corpus: NewCorpus, house: House, tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "unknown-model", calibrated=False)
    corpus = new_corpus({"encoder": {"model": model}})
    corpus.load(*rows(0, 3)).ok()
    before = corpus.export()
    done = corpus.curate()
    assert done.code == 2
    assert "unknown-model" in done.err and "no calibrated thresholds" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert corpus.export() == before
    corpus.policy["encoder"] = {"model": house.model}
    assert corpus.curate().code == 0
