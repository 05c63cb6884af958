"""What a retrieval reads: the facts that decide on eligibility, at any time, and files of golden queries.

Belongs here: reading. Does not belong here: which entries are eligible, and their order (stages eligibility, search).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from kb_pipeline import schemas_retrieval
from kb_pipeline.adapters.caches import read_text_keys
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import last_change, require_corpus
from kb_pipeline.adapters.rows import canonical_json, format_time
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.adapters.text_features import TEXT_VERSION
from kb_pipeline.errors import UsageError
from kb_pipeline.text.normalise import entry_text, entry_title
from kb_pipeline.vocabulary import Severity, State

_LISTS = ("alternatives", "steps", "visible_to")


def load_facts(
    database: Database,
    corpus: str,
    *,
    as_of: datetime | None = None,
    entry_ids: Sequence[str] | None = None,
    last_seen: int | None = None,
) -> pl.DataFrame:
    """RETRIEVAL_FACTS by id.

    Args:
        database: where from.
        corpus: an unknown one is refused.
        as_of: as it stood then; None is now.
        entry_ids: only these entries; None is all.
        last_seen: number of the last change that is seen; None is all of them.

    Raises:
        UnknownNameError: no such corpus.
    """
    require_corpus(database, corpus)
    time = "infinity" if as_of is None else format_time(as_of) or "infinity"
    change = last_change(database, corpus) if last_seen is None else last_seen
    only = "" if entry_ids is None else ", (SELECT array_agg(i.value) FROM json_array_elements_text($2::json) i)"
    values = (corpus,) if entry_ids is None else (corpus, canonical_json(sorted(entry_ids)))
    raw = database.read(
        f"""
        SELECT s.entry_id, s.kind, s.title, s.body, s.rationale, s.alternatives::text AS alternatives,
               s.steps::text AS steps, s.content_hash, s.tenant, s.repository, s.module, s.extra::text AS extra, s.state,
               s.merged_into, s.quality_score, s.review_state,
               s.sensitivity, s.visible_to::text AS visible_to, s.confidence, s.expires_at,
               s.conflict_state
        FROM entry_snapshot($1, '{time}', {change}{only}) s
        ORDER BY s.entry_id COLLATE "C"
        """,
        values,
    )
    lists = {name: raw[name].cast(pl.String).str.json_decode(pl.List(pl.String)) for name in _LISTS}
    parts = zip(
        raw["title"], raw["body"], raw["rationale"], lists["alternatives"].to_list(), lists["steps"].to_list(),
        strict=True,
    )  # fmt: skip
    texts = [entry_text(title, body, why, others or [], steps or []) for title, body, why, others, steps in parts]
    titles = [entry_title(title, body) for title, body in zip(raw["title"], raw["body"], strict=True)]
    facts = raw.with_columns(
        pl.Series("text", texts, dtype=pl.String),
        pl.Series("title", titles, dtype=pl.String),
        lists["visible_to"].fill_null([]).list.drop_nulls(),
    ).join(_open_conflicts(database, corpus, time, change), on="entry_id", how="left", maintain_order="left")
    known = facts.with_columns(pl.col("severe_conflicts", "mild_conflicts").fill_null([]))
    return schemas_retrieval.RETRIEVAL_FACTS.select(_with_secrets(database, corpus, known))


def read_golden_queries(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Query and expected ids of each line of a JSONL file: ``{"query": ..., "expected_ids": [...]}``.

    Raises:
        UsageError: the file cannot be read, or a line is not of this form; it names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: give a JSONL file of golden queries in UTF-8") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: not JSON") from error
        query = row.get("query") if isinstance(row, dict) else None
        expected = row.get("expected_ids") if isinstance(row, dict) else None
        if not isinstance(query, str) or not query.strip():
            raise UsageError(f"{path}:{number}: query must be a text")
        if not isinstance(expected, list) or not expected or not all(isinstance(one, str) for one in expected):
            raise UsageError(f"{path}:{number}: expected_ids must be a list of at least one id")
        found.append((query, tuple(expected)))
    if not found:
        raise UsageError(f"{path} holds no queries")
    return found


def _open_conflicts(database: Database, corpus: str, time: str, change: int) -> pl.DataFrame:
    """Columns entry_id, severe_conflicts, mild_conflicts of the entries in an open conflict."""
    rows = database.read(
        f"""
        SELECT m.entry_id, m.other, last.severity FROM (
            SELECT DISTINCT ON (c.conflict_id) c.conflict_id, c.severity, c.status, c.entry_id_l, c.entry_id_r
            FROM conflicts c
            WHERE c.corpus = $1 AND c.effective_at < '{time}' AND c.change_id <= {change}
              AND NOT EXISTS (SELECT 1 FROM event_voids v WHERE v.corpus = c.corpus AND v.action_id = c.action_id)
            ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        ) last
        CROSS JOIN LATERAL (VALUES (last.entry_id_l, last.entry_id_r), (last.entry_id_r, last.entry_id_l))
            AS m (entry_id, other)
        WHERE last.status = 'open'
        """,
        (corpus,),
    ).cast(pl.String)
    severe = pl.col("severity") == Severity.HIGH
    return (
        rows.unique()
        .sort("entry_id", "other", "severity")
        .group_by("entry_id", maintain_order=True)
        .agg(
            pl.col("other").filter(severe).alias("severe_conflicts"),
            pl.format("{} (severity {})", "other", "severity").filter(~severe).alias("mild_conflicts"),
        )
    )


def _with_secrets(database: Database, corpus: str, facts: pl.DataFrame) -> pl.DataFrame:
    """Adds holds_secret: from the cache, or found now in active texts that no run has read yet."""
    known = read_text_keys(database, corpus, TEXT_VERSION).select(
        "content_hash", (pl.col("secret_kinds").list.len() > 0).alias("holds_secret")
    )
    joined = facts.join(known, on="content_hash", how="left", maintain_order="left")
    unread = joined.filter(pl.col("holds_secret").is_null() & (pl.col("state") == State.ACTIVE)).unique("content_hash")
    fresh = pl.DataFrame(
        {
            "content_hash": unread["content_hash"],
            "found_now": [bool(kinds) for kinds in find_secrets(unread["text"].to_list())],
        },
        schema={"content_hash": pl.String, "found_now": pl.Boolean},
    )
    return joined.join(fresh, on="content_hash", how="left", maintain_order="left").with_columns(
        pl.coalesce("holds_secret", "found_now", pl.lit(False)).alias("holds_secret")
    )
