"""The week a report is about: header, checks and the frames of the run (ledger M17, D1).

Belongs here: the data that every part of the report reads, and the entries as the run leaves them. Does not belong
here: any number, row or sentence of a report (report_health, report_rows, report_documents, report_page).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property

import polars as pl

from kb_pipeline.vocabulary import ActionType, ConflictState, Mode, RunStatus, State

MOVES = {
    "retired": ActionType.RETIRE,
    "merged": ActionType.MERGE,
    "admitted": ActionType.ADMIT,
    "refused": ActionType.REFUSE,
}
"""Count of a report -> action that it counts; each changes an entry's state."""


@dataclass(frozen=True)
class ReportHeader:
    """Which run of which partition is reported.

    Attributes:
        corpus: the corpus.
        week: its Monday.
        as_of: end of the week, or the moment of the run for the running week (UTC).
        partial: the week was not over.
        run_id: the run; with ``generated_at`` the only thing that differs when the same run is done again.
        generated_at: when the report was made (UTC).
        actor: who ran it; stands in summaries, never in files.
        profile: name of the policy profile.
        mode: ``apply`` or ``recommend``.
        status: ``ok``, ``halted`` or ``degraded``.
        policy_fingerprint: fingerprint of all thresholds.
        model_fingerprint: fingerprint of the encoder, None when nothing was encoded.
        judge: who judged, in words.
    """

    corpus: str
    week: date
    as_of: datetime
    partial: bool
    run_id: str
    generated_at: datetime
    actor: str
    profile: str
    mode: str
    status: str
    policy_fingerprint: str
    model_fingerprint: str | None
    judge: str


@dataclass(frozen=True)
class CheckLine:
    """What one check said; a failed blocking check halted the run."""

    name: str
    passed: bool
    blocking: bool
    sentence: str


@dataclass(frozen=True)
class WeekData:
    """Everything a report is made of. Frames are those of ``kb_pipeline.schemas``.

    Attributes:
        header: which run.
        entries: ENTRIES, as they stood before the run.
        distinctiveness: DISTINCTIVENESS.
        gates: GATES.
        quality: QUALITY.
        retirement: RETIREMENT.
        verdicts: VERDICTS, every pair that was found.
        merges: MERGES.
        conflicts: CONFLICTS, all that are open after the run.
        plan: PLAN.
        flags: FLAGS.
        queue: QUEUE, as it stands after the run and in its order.
        trend: earlier weeks, oldest first: week (Date), entry_count, active, candidates, needs_review, archived,
            conflicted, queue_length, retired, merged (integers), mean_distinctiveness (0-1 or null).
        checks: what the checks said.
        not_looked_at: reason in words -> how many.
        notes: plain sentences that a reader must know.
        thresholds: policy values by key (min_name_chars, min_distinctiveness, min_intake_similarity, min_attempts,
            max_ci_upper, max_unmatched_days, min_merge_similarity, min_borderline_similarity); a key may be missing.
        max_listed_pairs: pairs listed in duplicate-pairs.yaml; the rest is counted.
        example_pairs: pairs of each band shown side by side.
        judge_costs: ``estimate`` and ``usage`` -> name -> number: calls, tokens and cost_usd (null: not known) of the judge,
            before and after; empty for a judge that costs nothing.
    """

    header: ReportHeader
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
    queue: pl.DataFrame
    trend: pl.DataFrame
    checks: tuple[CheckLine, ...]
    not_looked_at: dict[str, int]
    notes: tuple[str, ...]
    thresholds: dict[str, float]
    max_listed_pairs: int
    example_pairs: int
    judge_costs: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def halted(self) -> bool:
        """A check stopped the run: nothing of the plan was applied."""
        return self.header.status == RunStatus.HALTED

    @property
    def degraded(self) -> bool:
        """The run finished, but a configured judge failed on some pairs."""
        return self.header.status == RunStatus.DEGRADED

    @property
    def recommends(self) -> bool:
        """The run only asks and changes nothing."""
        return self.header.mode == Mode.RECOMMEND

    @property
    def changes_entries(self) -> bool:
        """What the plan holds took effect on entries: neither halted nor only recommended."""
        return not (self.halted or self.recommends)

    @property
    def applied_plan(self) -> pl.DataFrame:
        """PLAN as far as it took effect: without rows when the run was halted."""
        return self.plan.clear() if self.halted else self.plan

    @property
    def earlier_weeks(self) -> pl.DataFrame:
        """The rows of ``trend`` before this week, oldest first."""
        return self.trend.filter(pl.col("week") < self.header.week).sort("week")

    @cached_property
    def after(self) -> pl.DataFrame:
        """``entries_after`` of this week, made once."""
        return entries_after(self)


def states_after(entries: pl.DataFrame, plan: pl.DataFrame) -> pl.DataFrame:
    """ENTRIES with the states and ``merged_into`` that the plan leads to: same rows, same order, same columns.

    Args:
        entries: ENTRIES.
        plan: PLAN; at most one change of state for each entry.
    """
    moves = plan.filter(pl.col("to_state").is_not_null()).select(
        "entry_id",
        "to_state",
        pl.when(pl.col("action") == ActionType.MERGE).then("other_entry_id").alias("into"),
    )
    return (
        entries.join(moves, on="entry_id", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("to_state", "state").alias("state"),
            pl.when(pl.col("to_state").is_null()).then("merged_into").otherwise("into").alias("merged_into"),
        )
        .select(entries.columns)
    )


def entries_after(week: WeekData) -> pl.DataFrame:
    """``states_after`` of what was applied, with what the counts need: same rows, same order.

    Adds distinctiveness, conflicted, has_evidence, high_value and one flag for each of retired, merged, admitted and
    refused. What a merge or a strengthening hands over counts for the entry that took it.
    """
    plan = week.applied_plan
    given = (
        plan.filter(pl.col("action") == ActionType.MERGE)
        .select(pl.col("other_entry_id").alias("entry_id"), pl.col("entry_id").alias("giver_id"))
        .vstack(
            plan.filter(pl.col("action") == ActionType.STRENGTHEN).select(
                "entry_id", pl.col("other_entry_id").alias("giver_id")
            )
        )
        .join(week.entries.select("entry_id", "evidence_count"), left_on="giver_id", right_on="entry_id")
        .group_by("entry_id")
        .agg(pl.col("evidence_count").sum().alias("given_evidence"))
    )
    handed_use = (
        plan.filter(pl.col("action") == ActionType.MERGE)
        .select(pl.col("other_entry_id").alias("winner_id"), "entry_id")
        .join(week.entries.select("entry_id", _use().alias("use")), on="entry_id")
        .group_by(pl.col("winner_id").alias("entry_id"))
        .agg(pl.col("use").sum().alias("given_use"))
    )
    in_conflict = pl.concat([week.conflicts["entry_id_l"], week.conflicts["entry_id_r"]]).unique()
    closed = plan.filter(pl.col("action") == ActionType.CLOSE_CONFLICT)
    released = pl.concat([closed["entry_id"], closed["other_entry_id"]]).unique()
    after = (
        states_after(week.entries, plan)
        .join(given, on="entry_id", how="left", maintain_order="left")
        .join(handed_use, on="entry_id", how="left", maintain_order="left")
        .join(
            week.distinctiveness.select("entry_id", "distinctiveness"), on="entry_id", how="left", maintain_order="left"
        )
        .with_columns(
            (
                pl.col("entry_id").is_in(in_conflict.implode())
                | ((pl.col("conflict_state") == ConflictState.OPEN) & ~pl.col("entry_id").is_in(released.implode()))
            ).alias("conflicted"),
            (pl.col("evidence_count") + pl.col("given_evidence").fill_null(0) > 0).alias("has_evidence"),
            (_use() + pl.col("given_use").fill_null(0)).alias("use"),
            *(
                pl.col("entry_id").is_in(plan.filter(pl.col("action") == action)["entry_id"].implode()).alias(name)
                for name, action in MOVES.items()
            ),
        )
    )
    active = pl.col("state") == State.ACTIVE
    top_decile = after.filter(active)["use"].quantile(0.9, interpolation="higher")
    return after.with_columns(
        (active & (pl.col("use") > 0) & (pl.col("use") >= pl.lit(top_decile))).fill_null(False).alias("high_value")
    ).drop("given_evidence", "given_use")


def _use() -> pl.Expr:
    return pl.col("retrievals") + pl.col("successes")


def iso_time(moment: datetime) -> str:
    """A UTC time as every file writes it, for example ``2026-11-23T00:00:00Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{moment.microsecond:06d}" if moment.microsecond else "") + "Z"
