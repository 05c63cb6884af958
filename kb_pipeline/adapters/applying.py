"""Apply: writes a plan to the histories in one transaction, so that a crash leaves the old state or the new.

Belongs here: how each action becomes events. Event ids are the plan's derived ids: what was applied already is not
applied again. Everything takes effect exactly at the run's as_of. Statistics and evidence of a merged entry go to the
winner as events of their own; the loser keeps its rows and changes only its state (K9, K13).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.database import Cursor, Database, copy_in
from kb_pipeline.adapters.importing import add_usage, open_change, refresh
from kb_pipeline.adapters.rows import canonical_json, derived_id
from kb_pipeline.adapters.runs import Run
from kb_pipeline.errors import KbError
from kb_pipeline.vocabulary import ActionType, JobType, Mode, RunStatus, UsageType

_PIPELINE = "pipeline"


@dataclass(frozen=True)
class Applied:
    """What an apply did: actions written now, and entries whose state changed."""

    action_count: int
    transition_count: int


def apply_plan(
    database: Database,
    run: Run,
    entries: pl.DataFrame,
    plan: pl.DataFrame,
    conflicts: pl.DataFrame,
    scores: pl.DataFrame,
    *,
    recommendation_ids: list[str],
    status: RunStatus,
    model_fingerprint: str,
    judge_fingerprint: str,
    counts: dict[str, Any],
    details: dict[str, Any] | None = None,
) -> Applied:
    """Applies a plan: all of it, or nothing. The caller holds the corpus lock.

    Args:
        database: where to.
        run: the run; a re-run applies nothing.
        entries: ENTRIES.
        plan: PLAN.
        conflicts: CONFLICTS.
        scores: columns entry_id and distinctiveness of the entries whose score changed.
        recommendation_ids: id of each recommend row of the plan, in its order.
        status: how the run is recorded, ok or degraded.
        model_fingerprint: encoder in force.
        judge_fingerprint: judge in force.
        counts: numbers of the run, recorded with it.
        details: what an operator allowed, recorded with the change.

    Raises:
        KbError: another run of the corpus took effect since this one began.
        DatabaseError: the database went away; nothing was applied.
    """
    with database.transaction() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 4022))", (run.corpus,))
        if _is_done(cursor, run):
            return Applied(0, 0)  # a step that is repeated after it had done its work
        cursor.execute("SELECT action_id FROM curation_actions WHERE corpus = %s AND week = %s", (run.corpus, run.week))
        known = [row[0] for row in cursor.fetchall()]
        new = plan.filter(~pl.col("action_id").is_in(known))
        transitions = 0
        applied_change: int | None = None
        if run.rerun_of is None:
            applied_change = open_change(
                cursor,
                run.corpus,
                "curation",
                actor_type=_PIPELINE,
                actor_id=run.actor,
                run_id=run.run_id,
                details=details,
            )
            asked = plan.filter(pl.col("action") == ActionType.RECOMMEND).with_columns(
                pl.Series("recommendation_id", recommendation_ids, dtype=pl.String)
            )
            # A run that only recommends changes nothing but the queue: not even recorded scores.
            kept_scores = scores if run.mode is Mode.APPLY else scores.clear()
            transitions = _write(
                cursor, run, entries, new, asked, conflicts, kept_scores, applied_change, model_fingerprint
            )
        cursor.execute(
            "UPDATE memory_maintenance_jobs SET status = %s, completed_at = now(), applied_change_id = %s, "
            "model_fingerprint = %s, judge_fingerprint = %s, selected_count = %s, updated_count = %s, "
            "counts = counts || %s::jsonb WHERE run_id = %s",
            (
                status, applied_change, model_fingerprint, judge_fingerprint, entries.height, transitions,
                canonical_json(counts), run.run_id,
            ),
        )  # fmt: skip
    return Applied(0 if run.rerun_of else new.height, transitions)


def _is_done(cursor: Cursor, run: Run) -> bool:
    """Whether the run took effect before; false when it may now.

    Raises:
        KbError: it may not, because it is over or another one came between.
    """
    cursor.execute(
        "SELECT status, applied_change_id IS NOT NULL, rolled_back_by IS NOT NULL FROM memory_maintenance_jobs "
        "WHERE run_id = %s FOR UPDATE",
        (run.run_id,),
    )
    status, is_applied, is_undone = cursor.fetchone() or (None, False, False)
    week = "" if run.job_type is JobType.CURATOR_PASS else f" of week {run.week}"
    what = f"run {run.run_id}{week} of corpus {run.corpus!r}"
    if is_undone:
        raise KbError(f"{what} was rolled back; nothing was applied. Start the week again.")
    if is_applied or (run.rerun_of is not None and status in (RunStatus.OK, RunStatus.DEGRADED)):
        return True
    if run.rerun_of is None and run.job_type is JobType.CURATE:
        _refuse_if_overtaken(cursor, run)
    if status == RunStatus.HALTED:
        raise KbError(
            f"{what} was halted by its checks; nothing was applied. Look at its report, then start the week again "
            "(--allow-large-change lets a large change pass)."
        )
    if status != RunStatus.RUNNING:
        raise KbError(f"{what} is over ({status}); nothing was applied. Start the week again.")
    return False


def _refuse_if_overtaken(cursor: Cursor, run: Run) -> None:
    # A pass over recent entries, and its rollback, change nothing that a week stands on: they only ask.
    cursor.execute(
        "SELECT c.run_id, c.change_type FROM changes c LEFT JOIN memory_maintenance_jobs j ON j.run_id = c.run_id "
        "WHERE c.corpus = %s AND c.change_id > %s AND c.change_type IN ('curation', 'rollback', 'review') "
        "AND j.job_type IS DISTINCT FROM %s ORDER BY c.change_id LIMIT 1",
        (run.corpus, run.snapshot_change_id, JobType.CURATOR_PASS),
    )
    other = cursor.fetchone()
    if other is not None:
        happened = {
            "curation": f"run {other[0]} of corpus {run.corpus!r} took effect",
            "rollback": f"run {other[0]} of corpus {run.corpus!r} was rolled back",
            "review": f"a person answered a question of corpus {run.corpus!r}",
        }[other[1]]
        raise KbError(f"{happened} after this run had read the corpus; nothing was applied. Start the week again.")


def _write(
    cursor: Cursor,
    run: Run,
    entries: pl.DataFrame,
    plan: pl.DataFrame,
    asked: pl.DataFrame,
    conflicts: pl.DataFrame,
    scores: pl.DataFrame,
    change_id: int,
    model_fingerprint: str,
) -> int:
    stamp = [
        pl.lit(run.corpus).alias("corpus"),
        pl.lit(run.run_id).alias("run_id"),
        pl.lit(change_id).alias("change_id"),
        pl.lit(run.as_of).cast(schemas.Time).alias("effective_at"),
    ]
    policy = pl.lit(run.policy_fingerprint).alias("policy_fingerprint")
    copy_in(
        cursor,
        "curation_actions",
        plan.select(
            "action_id", "action", "entry_id", "other_entry_id", "reason", "rule", "from_state", "to_state",
            "content_hash", "other_content_hash", "similarity", "verdict", "judge", *stamp, policy,
            pl.lit(run.week).alias("week"),
            pl.lit(run.epoch).alias("epoch"),
            pl.lit(model_fingerprint).alias("model_fingerprint"),
        ),
    )  # fmt: skip
    moved = plan.filter(pl.col("to_state").is_not_null())
    copy_in(
        cursor,
        "entry_state_history",
        moved.select(
            pl.col("action_id").alias("event_id"), "entry_id", "from_state", "to_state", "reason", "rule", "action_id",
            pl.when(pl.col("action") == ActionType.MERGE).then("other_entry_id").alias("merged_into"),
            pl.lit(_PIPELINE).alias("actor_type"),
            pl.lit(run.actor).alias("actor_id"),
            *stamp, policy,
        ),
    )  # fmt: skip
    _transfer(cursor, run, entries, plan, change_id)
    copy_in(
        cursor,
        "recommendations",
        asked.filter(pl.col("action_id").is_in(plan["action_id"].implode())).select(
            "recommendation_id", "recommendation_type", "severity", "reason", "explanation", "suggested_body", "value",
            "action_id",
            pl.concat_list("entry_id", "other_entry_id").list.drop_nulls().alias("entry_ids"),
            pl.concat_list("content_hash", "other_content_hash").list.drop_nulls().alias("content_hashes"),
            *stamp,
        ),
    )  # fmt: skip
    scope = entries.select(pl.col("entry_id").alias("entry_id_l"), "tenant", "repository", "module")
    opened = plan.filter(pl.col("action") == ActionType.OPEN_CONFLICT).select("conflict_id", "action_id")
    copy_in(
        cursor,
        "conflicts",
        conflicts.join(opened, on="conflict_id")
        .join(scope, on="entry_id_l")
        .select(
            "conflict_id", "conflict_type", "severity", "reason", "tenant", "repository", "module", "entry_id_l",
            "entry_id_r", "content_hash_l", "content_hash_r", "explanation", "action_id",
            pl.lit("open").alias("status"),
            pl.when(pl.col("severity") == "high")
            .then(pl.lit("exclude_both_from_default_retrieval"))
            .otherwise(pl.lit("ask_a_person"))
            .alias("action"),
            *stamp,
        ),
    )  # fmt: skip
    _close_conflicts(cursor, run, plan, change_id)
    score_action = score_action_id(run)
    copy_in(
        cursor,
        "quality_assessments",
        scores.select(
            pl.concat_str(pl.lit(score_action[:16]), pl.lit(":"), "entry_id").alias("assessment_id"),
            "entry_id", "distinctiveness",
            pl.lit("distinctiveness").alias("assessor"),
            pl.lit(score_action).alias("action_id"),
            *stamp,
        ),
    )  # fmt: skip
    touched = [*plan["entry_id"], *plan["other_entry_id"].drop_nulls(), *scores["entry_id"]]
    refresh(cursor, run.corpus, touched)
    return moved.height


def _close_conflicts(cursor: Cursor, run: Run, plan: pl.DataFrame, change_id: int) -> None:
    """A conflict that is over gets a row more, which a rollback voids: it is open again then."""
    closed = plan.filter(pl.col("action") == ActionType.CLOSE_CONFLICT)
    cursor.execute(
        """
        INSERT INTO conflicts (conflict_id, corpus, conflict_type, severity, status, action, reason, tenant, repository,
                               module, entry_id_l, entry_id_r, content_hash_l, content_hash_r, explanation, action_id,
                               run_id, change_id, effective_at)
        SELECT DISTINCT ON (c.conflict_id)
               c.conflict_id, c.corpus, c.conflict_type, c.severity, 'resolved', 'none', t.reason, c.tenant, c.repository,
               c.module, c.entry_id_l, c.entry_id_r, c.content_hash_l, c.content_hash_r, c.explanation, t.action_id,
               %(run)s, %(change)s, %(as_of)s
        FROM unnest(%(conflict)s::text[], %(action)s::text[], %(reason)s::text[]) AS t (conflict_id, action_id, reason)
        JOIN conflicts c ON c.corpus = %(corpus)s AND c.conflict_id = t.conflict_id
        ORDER BY c.conflict_id, c.effective_at DESC, c.change_id DESC
        """,
        {
            "run": run.run_id, "change": change_id, "as_of": run.as_of, "corpus": run.corpus,
            "conflict": closed["conflict_id"].to_list(),
            "action": closed["action_id"].to_list(),
            "reason": closed["reason"].to_list(),
        },
    )  # fmt: skip


def score_action_id(run: Run) -> str:
    """The action that all score records of a run belong to: a rollback voids them with one row."""
    return derived_id(run.corpus, run.week, run.as_of, run.policy_fingerprint, "*", "score", run.epoch)


def _transfer(cursor: Cursor, run: Run, entries: pl.DataFrame, plan: pl.DataFrame, change_id: int) -> None:
    """Statistics and evidence of merged entries, and the strengthening of entries a candidate restates."""
    # In a merge the statistics come from entry_id and go to other_entry_id; a strengthening names its receiver first.
    merges = plan.filter(pl.col("action") == ActionType.MERGE)
    numbers = entries.select("entry_id", "attempts", "successes", "retrievals", "last_matched_at", "last_retrieved_at")
    common: list[pl.Expr] = [
        pl.lit(run.corpus).alias("corpus"),
        pl.col("action_id").alias("event_id"),
        pl.lit(run.as_of).cast(schemas.Time).alias("effective_at"),
        pl.lit(change_id).alias("change_id"),
        pl.col("action_id"),
    ]
    add_usage(
        cursor,
        merges.select("entry_id", "other_entry_id", "action_id")
        .join(numbers, on="entry_id")
        .select(
            pl.col("other_entry_id").alias("entry_id"),
            pl.lit(UsageType.TRANSFERRED.value).alias("usage_type"),
            "attempts",
            "successes",
            "retrievals",
            pl.col("last_matched_at").alias("matched_at"),
            pl.col("last_retrieved_at").alias("retrieved_at"),
            *common,
        ),
    )
    strengthened = plan.filter(pl.col("action") == ActionType.STRENGTHEN)
    add_usage(
        cursor,
        strengthened.select(
            "entry_id",
            pl.lit(UsageType.STRENGTHENED.value).alias("usage_type"),
            *(pl.lit(0).alias(name) for name in ("attempts", "successes", "retrievals")),
            pl.lit(run.as_of).cast(schemas.Time).alias("matched_at"),
            *common,
        ),
    )
    # Each action brings all it can give, though another brings the same: one of them may be voided alone.
    givers = [
        *merges.select("entry_id", "other_entry_id", "action_id").iter_rows(),
        *strengthened.select("other_entry_id", "entry_id", "action_id").iter_rows(),
    ]
    bring_evidence(
        cursor,
        run.corpus,
        givers,
        change_id=change_id,
        effective_at=run.as_of,
        seen_at=run.as_of,
        seen_change_id=run.snapshot_change_id,
    )


def bring_evidence(
    cursor: Cursor,
    corpus: str,
    givers: list[tuple[str, str, str]],
    *,
    change_id: int,
    effective_at: datetime,
    seen_at: datetime | None,
    seen_change_id: int,
) -> None:
    """Gives the evidence of entries to others as events.

    Args:
        cursor: transaction to write in.
        corpus: the corpus.
        givers: (entry that gives, entry that receives, action).
        change_id: the change that it belongs to.
        effective_at: when it counts.
        seen_at: evidence that took effect before this time is given; None is all.
        seen_change_id: the last change whose evidence is given.
    """
    if not givers:
        return
    giver, receiver, action = (list(column) for column in zip(*givers, strict=True))
    cursor.execute(
        """
        INSERT INTO evidence (corpus, entry_id, evidence_key, action_id, position, effective_at, change_id,
                              evidence_type, path, commit_sha, line_start, line_end, symbol, edge, ref, extra)
        SELECT DISTINCT ON (t.receiver, g.evidence_key, t.action_id)
               %(corpus)s, t.receiver, g.evidence_key, t.action_id, g.position_number, %(at)s, %(change)s,
               g.evidence_type, g.path, g.commit_sha, g.line_start, g.line_end, g.symbol, g.edge, g.ref, g.extra
        FROM unnest(%(giver)s::text[], %(receiver)s::text[], %(action)s::text[]) AS t (giver, receiver, action_id)
        JOIN visible_evidence(%(corpus)s, %(seen_at)s::timestamptz, %(seen)s, %(giver)s::text[]) g ON g.entry_id = t.giver
        ORDER BY t.receiver, g.evidence_key, t.action_id
        """,
        {
            "corpus": corpus, "at": effective_at, "change": change_id, "seen": seen_change_id, "seen_at": seen_at or "infinity",
            "giver": giver, "receiver": receiver, "action": action,
        },
    )  # fmt: skip
