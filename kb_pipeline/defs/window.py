"""The model's reading of a window: what was read before comes from the cache, the rest is asked now (P2, P3).

Belongs here: the join of the window stage, its cache and the reader. Nothing here knows Dagster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges.window_reader import window_reader
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.adapters.window_cache import keep, known_findings, known_reads
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages import window as script
from kb_pipeline.stages.window_findings import finding_frames, named_issues, named_pairs, without_secrets
from kb_pipeline.stages.window_readings import plan_readings, texts_read
from kb_pipeline.vocabulary import ReasonCode


@dataclass(frozen=True)
class WindowFindings:
    """What the model says of a window.

    ``pairs`` as ``window_findings.named_pairs`` gives them, ``issues`` as ``named_issues`` does; ``counts`` go into the
    record of the run; ``failure_count`` readings came to nothing. ``tokens`` and ``cost_usd`` are what it took.
    """

    pairs: pl.DataFrame
    issues: pl.DataFrame
    failure_count: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def none(cls) -> WindowFindings:
        """No model was asked."""
        columns = {"confidence": pl.Float64, "sentence": pl.String, "suggested_body": pl.String}
        return cls(
            pl.DataFrame(schema={"entry_id_l": pl.String, "entry_id_r": pl.String, **columns}),
            pl.DataFrame(schema={"entry_id": pl.String, "severity": pl.String, "sentence": pl.String}),
        )


def read_window(
    database: Database,
    corpus: str,
    policy: Policy,
    entries: pl.DataFrame,
    window: pl.Series,
    pairs: pl.DataFrame,
    log: Callable[[str], None],
) -> WindowFindings:
    """What the model says of the recent entries. Each answer is kept as it arrives, so that a crash pays for none twice.

    Args:
        database: where answers are kept.
        corpus: the corpus.
        policy: the model, and how much it is asked.
        entries: ENTRIES.
        window: ids of the recent entries, the newest first.
        pairs: PAIRS around them: what may be the other half of a duplicate is read with it.
        log: told of each reading that failed.
    """
    reader = window_reader(policy.judge, script, min_confidence=policy.curator.min_confidence)
    known = known_reads(database, corpus, reader.fingerprint)
    readings, left = plan_readings(
        entries, window, pairs, known, policy.curator, max_text_chars=policy.judge.max_text_chars
    )
    failed, dropped = 0, Counter[str]()
    for reading, reply in zip(readings, reader.read(readings), strict=True):
        dropped.update(reply.dropped)
        if reply.failure is ReasonCode.JUDGE_BUDGET_SPENT:
            left += len(reading.texts)
            continue
        if reply.failure is not None:
            failed += 1
            log(f"a reading of {len(reading.texts)} recent entries came to nothing: {reply.failure}, {reply.detail}")
            continue
        found = without_secrets(*finding_frames([(reading, reply)]), find_secrets)
        keep(database, corpus, reader.fingerprint, texts_read([reading]), *found)
    duplicates, issues = known_findings(database, corpus, reader.fingerprint)
    return WindowFindings(
        pairs=_around(named_pairs(entries, duplicates, min_confidence=policy.curator.min_confidence), window),
        issues=named_issues(entries, issues, window),
        failure_count=failed,
        tokens=reader.tokens,
        cost_usd=reader.cost_usd or 0.0,
        counts={
            "window_reader": reader.fingerprint,
            "window_readings": len(readings),
            "window_texts": sum(len(reading.texts) for reading in readings),
            "window_failures": failed,
            "window_dropped": dict(dropped),
            "window_usage": dict(reader.usage) | {"cost_usd": reader.cost_usd} if reader.usage else {},
            "texts_waiting": left,
        },
    )


def _around(named: pl.DataFrame, window: pl.Series) -> pl.DataFrame:
    """The pairs of which one entry at least is recent."""
    recent = window.implode()
    return named.filter(pl.col("entry_id_l").is_in(recent) | pl.col("entry_id_r").is_in(recent))
