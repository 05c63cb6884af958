"""Publishing a week: the frames of a run become report tables and files, whether it was applied or halted.

Belongs here: gathering what a report needs from frames and the table of runs. How it looks stands in the report stage and
the report adapters.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.report_files import write_week
from kb_pipeline.adapters.report_queries import load_trend
from kb_pipeline.adapters.report_tables import write_tables
from kb_pipeline.adapters.runs import Run, load_counts
from kb_pipeline.adapters.snapshots import load_activity, load_open_conflicts, load_queue
from kb_pipeline.defs.clock import now
from kb_pipeline.defs.judge_costs import judge_notes
from kb_pipeline.defs.resources import Curation
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.checks import CheckResult
from kb_pipeline.stages.plan import recommendation_id
from kb_pipeline.stages.queue import queue_after, still_waiting
from kb_pipeline.stages.report import CheckLine, ReportHeader, WeekFrames
from kb_pipeline.vocabulary import ActionType, Mode, RunStatus, Severity


@dataclass(frozen=True)
class WeekInputs:
    """The frames of one run, in the order of the flow."""

    entries: pl.DataFrame
    distinctiveness: pl.DataFrame
    gates: pl.DataFrame
    quality: pl.DataFrame
    retirement: pl.DataFrame
    verdicts: pl.DataFrame
    merges: pl.DataFrame
    conflicts: pl.DataFrame
    plan: pl.DataFrame
    flags: pl.DataFrame


def publish(
    database: Database,
    run: Run,
    policy: Policy,
    curation: Curation,
    frames: WeekInputs,
    status: RunStatus,
    results: list[CheckResult],
) -> tuple[WeekFrames, list[Path]]:
    """Writes report tables and files of a week. Returns what was reported, and where the files are."""
    counts = load_counts(database, run.run_id)
    week = week_frames(database, run, policy, counts, frames, status, results, generated_at=now())
    with database.transaction() as cursor:
        write_tables(cursor, week)
    return week, write_week(week, curation.out_folder)


def week_frames(
    database: Database,
    run: Run,
    policy: Policy,
    counts: dict[str, Any],
    frames: WeekInputs,
    status: RunStatus,
    results: list[CheckResult],
    *,
    generated_at: datetime,
) -> WeekFrames:
    """All that the report of a run is made of."""
    queue = week_queue(database, run, frames)
    before = load_open_conflicts(database, run)
    is_open = (
        frames.conflicts if run.mode is Mode.APPLY and status is not RunStatus.HALTED else frames.conflicts.clear()
    )
    is_over = frames.plan.filter(pl.col("action") == ActionType.CLOSE_CONFLICT).select("conflict_id")
    if status is RunStatus.HALTED:
        is_over = is_over.clear()
    still = before.join(is_over, on="conflict_id", how="anti").join(is_open, on="conflict_id", how="anti")
    open_now = pl.concat([is_open, still])
    model = counts.get("model_fingerprint")
    return WeekFrames(
        header=ReportHeader(
            corpus=run.corpus,
            week=run.week,
            as_of=run.as_of,
            partial=run.partial,
            run_id=run.run_id,
            generated_at=generated_at,
            actor=run.actor,
            profile=run.profile,
            mode=run.mode,
            status=status,
            policy_fingerprint=run.policy_fingerprint,
            model_fingerprint=model,
            judge=counts.get("judge", "none"),
        ),
        judge_costs={name: counts.get(f"judge_{name}") or {} for name in ("estimate", "usage")},
        entries=frames.entries,
        distinctiveness=frames.distinctiveness,
        gates=frames.gates,
        quality=frames.quality,
        retirement=frames.retirement,
        verdicts=frames.verdicts,
        merges=frames.merges,
        conflicts=open_now.sort("conflict_id"),
        plan=frames.plan,
        flags=frames.flags,
        queue=queue,
        trend=load_trend(database, run.corpus, run.week),
        checks=tuple(CheckLine(r.name, r.passed, r.blocking, r.sentence) for r in results),
        not_looked_at=not_looked_at(counts),
        notes=_notes(database, run, counts, policy),
        thresholds={
            **counts.get("thresholds", {}),
            "min_name_chars": policy.gates.min_name_chars,
            "min_distinctiveness": policy.gates.min_distinctiveness,
            "min_attempts": policy.retire.min_attempts,
            "max_ci_upper": policy.retire.max_ci_upper,
            "max_unmatched_days": policy.retire.max_unmatched_days,
        },
        max_listed_pairs=policy.report.max_listed_pairs,
        example_pairs=policy.report.example_pairs,
    )


def week_queue(database: Database, run: Run, frames: WeekInputs) -> pl.DataFrame:
    """QUEUE at the end of the run."""
    waiting = still_waiting(load_queue(database, run), frames.entries)
    return queue_after(waiting, frames.entries, frames.plan, recommendation_ids(frames.plan), as_of=run.as_of)


def recommendation_ids(plan: pl.DataFrame) -> list[str]:
    """Id of each recommend row of a plan, in its order."""
    asked = plan.filter(pl.col("action") == ActionType.RECOMMEND)
    return [recommendation_id(row) for row in asked.iter_rows(named=True)]


def not_looked_at(counts: dict[str, Any]) -> dict[str, int]:
    """What the run left out, in words, with numbers."""
    return {
        "entries newer than the week": int(counts.get("newer") or 0),
        "active entries without anything to encode": int(counts.get("without_vectors") or 0),
        "pairs over dedup.max_pairs": int(counts.get("pairs_over_limit") or 0),
        "flagged entries over flags.max_new_per_run, asked about later": int(counts.get("flags_left") or 0),
        "questions over supersede.max_new_per_run or refresh.max_new_per_run, asked later": int(
            counts.get("renewals_left") or 0
        ),
        "entries marked keep_distinct (never duplicate candidates)": int(counts.get("shielded") or 0),
    }


def missed(counts: dict[str, Any]) -> dict[str, int]:
    """Of what was left out, what a run should have looked at."""
    found = {"pairs over dedup.max_pairs": int(counts.get("pairs_over_limit") or 0)}
    recall = counts.get("recall")
    if recall is not None and recall < 1:
        found["permille of the pairs (approximate search)"] = round(1000 * (1 - recall))
    return found


def check_result(result: CheckResult, asset: str, severity: Severity) -> dg.AssetCheckResult:
    """A check's finding as Dagster shows it."""
    return dg.AssetCheckResult(
        check_name=result.name,
        asset_key=asset,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if severity is Severity.HIGH else dg.AssetCheckSeverity.WARN,
        description=result.sentence,
        metadata=result.numbers,
    )


def _notes(database: Database, run: Run, counts: dict[str, Any], policy: Policy) -> tuple[str, ...]:
    notes = []
    judge = str(counts.get("judge", ""))
    if judge.startswith("replay"):
        notes.append(
            "What the rules leave open was judged by recorded verdicts (judge.replay_file); no model was asked."
        )
    elif judge.endswith("(offline)"):
        notes.append(
            f"Pairs were judged by rule, offline: {policy.judge.api_key_env} is not set."
            if policy.judge.name == "auto"
            else "Pairs were judged by rule, offline, as policy judge.name asks."
        )
    notes += judge_notes(counts, model=policy.judge.model)
    if load_activity(database, run).is_empty():
        notes.append(
            "Staleness was not computed: the corpus holds no usage with a time (usage rows, last_matched_at), "
            "and without use there is no clock."
        )
    if run.partial:
        notes.append("The week is still running: this is a partial run, and the run after its end completes it.")
    if (recall := counts.get("recall")) is not None:
        notes.append(f"Pairs were searched approximately; measured recall {recall:.4f}.")
    return tuple(notes)
