"""The as-of view of a corpus: the frames a run starts from.

Belongs here: reading entries, activity, open questions and open conflicts as they stood at the end of the week, seeing
only changes recorded before the run began, so that a re-run of a past week sees what its first run saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.database import Database, one_of
from kb_pipeline.adapters.rows import canonical_json
from kb_pipeline.adapters.runs import Run
from kb_pipeline.text.normalise import entry_text, entry_title

_TEXT_LISTS = ("alternatives", "steps")
_ALL_RULES = ("admit", "refuse", "strengthen", "retire", "merge", "open_conflict", "close_conflict")
"""What a run leaves alone in an entry that a person has changed after the end of the week."""


class View(Protocol):
    """What is seen of a corpus: what took effect before a time and was recorded up to a change. A run is one."""

    @property
    def corpus(self) -> str:
        """The corpus."""

    @property
    def as_of(self) -> datetime:
        """The time before which things took effect."""

    @property
    def snapshot_change_id(self) -> int:
        """The last change that is seen."""


def load_entries(
    database: Database, run: View, scope_fields: tuple[str, ...], entry_ids: Sequence[str] | None = None
) -> pl.DataFrame:
    """ENTRIES of a run without the text features (exact_key, merge_key, secret_kinds, addresses_judge), by id.

    Further columns (raw_title, body, ...) come along; the schema leaves them out.

    Args:
        database: where from.
        run: corpus, time and last visible change.
        scope_fields: unknown fields of a row that belong to its scope.
        entry_ids: only these entries; None is all.
    """
    only = "" if entry_ids is None else ", (SELECT array_agg(i.value) FROM json_array_elements_text($2::json) i)"
    parameters = (run.corpus,) if entry_ids is None else (run.corpus, canonical_json(sorted(entry_ids)))
    raw = database.read(
        f"""
        SELECT s.entry_id, s.kind, s.tenant, s.repository, s.module, s.title, s.body, s.rationale,
               s.alternatives::text AS alternatives, s.steps::text AS steps, s.content_hash, s.confidence, s.pinned,
               s.keep_distinct, s.review_state, s.sensitivity, s.created_at, s.updated_at, s.last_validated_at,
               s.first_effective_at, s.state, s.state_reason, s.state_changed_at, s.merged_into, s.conflict_state,
               s.attempts, s.successes, s.retrievals, s.last_matched_at, s.last_retrieved_at,
               s.evidence_count::bigint, s.supersedes::text AS supersedes, s.generated_from::text AS generated_from,
               s.title AS raw_title, s.source_hash, s.invalidation_policy::text AS invalidation_policy,
               s.extra::text AS extra
        FROM entry_snapshot($1, '{run.as_of.isoformat()}', {run.snapshot_change_id}{only}) s
        ORDER BY s.entry_id COLLATE "C"
        """,
        parameters,
    )
    kept = (
        database.read(
            f"""
            SELECT DISTINCT p.entry_id, p.content_hash, p.rule
            FROM person_decisions p
            WHERE p.corpus = $1 AND p.decision = 'keep' AND p.change_id <= {run.snapshot_change_id}
              AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = p.corpus AND x.action_id = p.action_id
                              AND x.change_id <= {run.snapshot_change_id})
            ORDER BY p.entry_id, p.rule
            """,
            (run.corpus,),
        )
        .cast(pl.String)
        .group_by("entry_id", "content_hash", maintain_order=True)
        .agg(pl.col("rule").alias("kept_rules"))
    )
    answered = _changed_by_a_person_since(database, run)
    return (
        with_scope_and_text(raw, scope_fields)
        .join(kept, on=["entry_id", "content_hash"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("entry_id").is_in(answered))
            .then(pl.lit(pl.Series([list(_ALL_RULES)], dtype=schemas.Texts)).first())
            .otherwise(pl.col("kept_rules").fill_null([]))
            .alias("kept_rules")
        )
    )


def with_scope_and_text(raw: pl.DataFrame, scope_fields: tuple[str, ...]) -> pl.DataFrame:
    """Stored rows of entries with ``scope`` and ``text`` added and ``title`` completed: same rows, same order.

    Args:
        raw: the fields of entries; alternatives, steps and extra as JSON texts.
        scope_fields: unknown fields of a row that belong to its scope.
    """
    scoped = raw.with_columns(
        pl.col("extra").str.json_path_match(f"$['{name}']").alias(f"scope_{name}") for name in scope_fields
    ).with_columns(
        pl.struct("tenant", "repository", "module", *(f"scope_{name}" for name in scope_fields))
        .struct.json_encode()
        .alias("scope")
    )
    return _with_text(scoped)


def _changed_by_a_person_since(database: Database, run: View) -> list[str]:
    """Entries that a person's answer changes after the end of the week: the run knows of it and does not get in its way."""
    frame = database.read(
        f"""
        SELECT DISTINCT m.value AS entry_id
        FROM review_actions r CROSS JOIN LATERAL json_array_elements_text(r.entry_ids) m
        WHERE r.corpus = $1 AND r.changes_entries AND r.effective_at >= '{run.as_of.isoformat()}'
          AND r.change_id <= {run.snapshot_change_id}
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id
                          AND x.change_id <= {run.snapshot_change_id})
        """,
        (run.corpus,),
    )
    return list(frame["entry_id"].to_list())


def count_entries(database: Database, run: Run) -> tuple[int, int]:
    """(entries visible to the run, entries that are newer than its end or came after it began)."""
    frame = database.read(
        f"""
        SELECT count(DISTINCT v.entry_id) FILTER (
                   WHERE v.effective_at < '{run.as_of.isoformat()}'
                   -- An entry is there from when it has a text and a state: an imported state may be younger.
                   AND EXISTS (SELECT 1 FROM entry_state_history h
                               WHERE h.corpus = v.corpus AND h.entry_id = v.entry_id AND h.action_id IS NULL
                               AND h.effective_at < '{run.as_of.isoformat()}'
                               AND h.change_id <= {run.snapshot_change_id})) AS seen,
               count(DISTINCT v.entry_id) AS known
        FROM entry_versions v WHERE v.corpus = $1 AND v.change_id <= {run.snapshot_change_id}
        """,
        (run.corpus,),
    )
    seen, known = frame.row(0)
    return int(seen), int(known) - int(seen)


def load_activity(database: Database, run: Run) -> pl.DataFrame:
    """When each tenant's corpus was used: columns tenant and used_at, oldest first."""
    frame = database.read(
        f"SELECT tenant, used_at FROM corpus_activity($1, '{run.as_of.isoformat()}', {run.snapshot_change_id}) "
        "ORDER BY used_at",
        (run.corpus,),
    )
    return frame.select(pl.col("tenant").cast(pl.String), pl.col("used_at").cast(schemas.Time))


def load_answered(database: Database, run: View) -> list[str]:
    """Ids of the questions that people have answered. They name the texts: the same question is not asked again."""
    frame = database.read(
        f"""
        SELECT DISTINCT r.recommendation_id FROM review_actions r
        WHERE r.corpus = $1 AND r.recommendation_id IS NOT NULL AND r.change_id <= {run.snapshot_change_id}
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id
                          AND x.change_id <= {run.snapshot_change_id})
        ORDER BY r.recommendation_id
        """,
        (run.corpus,),
    )
    return list(frame["recommendation_id"].to_list())


def load_settled_pairs(database: Database, run: View) -> pl.DataFrame:
    """Pairs of texts that a person said are two: entry_id_l, entry_id_r, content_hash_l, content_hash_r, covers."""
    frame = database.read(
        f"""
        SELECT d.entry_id_l, d.entry_id_r, d.content_hash_l, d.content_hash_r, min(d.covers) AS covers
        FROM pair_decisions d
        WHERE d.corpus = $1 AND d.change_id <= {run.snapshot_change_id}
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = d.corpus AND x.action_id = d.action_id
                          AND x.change_id <= {run.snapshot_change_id})
        GROUP BY d.entry_id_l, d.entry_id_r, d.content_hash_l, d.content_hash_r
        ORDER BY d.entry_id_l, d.entry_id_r
        """,
        (run.corpus,),
    )
    return frame.cast(pl.String)


def load_queue(
    database: Database, run: View, *, recommendation_ids: Sequence[str] | None = None, entry_id: str | None = None
) -> pl.DataFrame:
    """QUEUE as it stood before the run: what earlier runs asked, was not voided, and nobody has answered.

    Args:
        database: where from.
        run: corpus, time and last visible change.
        recommendation_ids: only these questions, a few.
        entry_id: only questions about this entry.
    """
    answered = load_answered(database, run)
    only = ""
    parameters: tuple[str, ...] = (run.corpus,)
    if recommendation_ids is not None:
        only = f"AND r.recommendation_id {one_of(2)}"
        parameters = (run.corpus, canonical_json(sorted(recommendation_ids)))
    elif entry_id is not None:
        only = "AND EXISTS (SELECT 1 FROM json_array_elements_text(r.entry_ids) m WHERE m.value = $2)"
        parameters = (run.corpus, entry_id)
    frame = database.read(
        f"""
        SELECT DISTINCT ON (r.recommendation_id) r.recommendation_id, r.recommendation_type, r.severity,
               r.entry_ids::text AS entry_ids, r.content_hashes::text AS content_hashes, r.reason, r.explanation,
               r.value, r.effective_at AS since
        FROM recommendations r
        WHERE r.corpus = $1 AND r.effective_at < '{run.as_of.isoformat()}' AND r.change_id <= {run.snapshot_change_id}
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id
                          AND x.change_id <= {run.snapshot_change_id})
          {only}
        ORDER BY r.recommendation_id, r.effective_at
        """,
        parameters,
    )
    lists = frame.with_columns(
        pl.col("entry_ids", "content_hashes").cast(pl.String).str.json_decode(pl.List(pl.String))
    )
    return schemas.QUEUE.select(lists.filter(~pl.col("recommendation_id").is_in(answered)))


def load_open_conflicts(database: Database, run: Run) -> pl.DataFrame:
    """CONFLICTS that were open before the run."""
    frame = database.read(
        f"""
        SELECT * FROM (
            SELECT DISTINCT ON (c.conflict_id) c.conflict_id, c.conflict_type, c.severity, c.status, c.entry_id_l,
                   c.entry_id_r, c.content_hash_l, c.content_hash_r,
                   NULL::double precision AS similarity, c.reason, '' AS judge, c.explanation
            FROM conflicts c
            WHERE c.corpus = $1 AND c.effective_at < '{run.as_of.isoformat()}'
              AND c.change_id <= {run.snapshot_change_id}
              AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = c.corpus AND x.action_id = c.action_id
                              AND x.change_id <= {run.snapshot_change_id})
            ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        ) last WHERE last.status = 'open'
        """,
        (run.corpus,),
    )
    return schemas.CONFLICTS.select(frame)


def previous_scores(database: Database, run: Run) -> pl.DataFrame:
    """Last recorded distinctiveness of each entry before the run: columns entry_id, recorded."""
    frame = database.read(
        f"""
        SELECT DISTINCT ON (q.entry_id) q.entry_id, q.distinctiveness AS recorded
        FROM quality_assessments q
        WHERE q.corpus = $1 AND q.effective_at < '{run.as_of.isoformat()}' AND q.change_id <= {run.snapshot_change_id}
          AND (q.action_id IS NULL OR NOT EXISTS (
                  SELECT 1 FROM event_voids x WHERE x.corpus = q.corpus AND x.action_id = q.action_id
                  AND x.change_id <= {run.snapshot_change_id}))
        ORDER BY q.entry_id, q.effective_at DESC, q.change_id DESC
        """,
        (run.corpus,),
    )
    return frame.select(pl.col("entry_id").cast(pl.String), pl.col("recorded").cast(pl.Float64))


def _with_text(raw: pl.DataFrame) -> pl.DataFrame:
    """Adds ``text`` and completes ``title``. Only rows with both title and body need more than a column."""
    lists = {name: raw[name].cast(pl.String).str.json_decode(pl.List(pl.String)).to_list() for name in _TEXT_LISTS}
    plain = zip(raw["title"], raw["body"], raw["rationale"], lists["alternatives"], lists["steps"], strict=True)
    texts = [entry_text(title, body, why, others or [], steps or []) for title, body, why, others, steps in plain]
    titles = [entry_title(title, body) for title, body in zip(raw["title"], raw["body"], strict=True)]
    return raw.with_columns(
        pl.Series("text", texts, dtype=pl.String),
        pl.Series("title", titles, dtype=pl.String),
        (pl.col("rationale").cast(pl.String).fill_null("").str.strip_chars() != "").alias("has_rationale"),
        pl.Series("step_count", [len(steps or ()) for steps in lists["steps"]], dtype=pl.Int64),
        *(
            pl.col(name).cast(pl.String).str.json_decode(pl.List(pl.String)).fill_null([]).list.drop_nulls()
            for name in ("supersedes", "generated_from")
        ),
    )
