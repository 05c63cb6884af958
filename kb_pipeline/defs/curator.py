"""A pass over recent entries (P2-P4), from the corpus to its questions. Nothing here knows Dagster.

Belongs here: the order of the steps. Each of them is the function that the weekly assets call; only what is looked at is
smaller, and nothing but questions comes out. See docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.applying import apply_plan
from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.encoding import encode_missing
from kb_pipeline.adapters.judges import choose_judge
from kb_pipeline.adapters.judges.batch_store import BatchStore
from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.passes import last_pass, recent_texts
from kb_pipeline.adapters.runs import Run, add_counts, close_run
from kb_pipeline.adapters.snapshots import (
    count_entries,
    load_activity,
    load_entries,
    load_settled_pairs,
)
from kb_pipeline.adapters.text_features import add_text_features
from kb_pipeline.allpairs.candidates import owner_similarities
from kb_pipeline.defs.assets.judge import answers
from kb_pipeline.defs.planning import load_standing
from kb_pipeline.defs.publish import recommendation_ids
from kb_pipeline.defs.resources import KnowledgeBase
from kb_pipeline.defs.window import WindowFindings, read_window
from kb_pipeline.policy.judging import JudgePolicy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages import checks, conflicts, flags, refresh, supersede
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.dedup import find_duplicates
from kb_pipeline.stages.dedup_words import limit_questions, strongest_first
from kb_pipeline.stages.distinctiveness import score_distinctiveness
from kb_pipeline.stages.gates import NEAREST_SCHEMA, judge_gates
from kb_pipeline.stages.judge_frames import CACHE_KEY, REPLY_SCHEMA, open_for_network, verdict_frame, with_texts
from kb_pipeline.stages.merge import plan_merges
from kb_pipeline.stages.merge_bodies import checked_bodies
from kb_pipeline.stages.plan import PlanIdentity, build_plan
from kb_pipeline.stages.retire import decide_retirement
from kb_pipeline.stages.review_answers import answered_by_people, without_settled
from kb_pipeline.stages.score import score_quality
from kb_pipeline.stages.window_findings import with_named_pairs
from kb_pipeline.vocabulary import ActionType, Band, Mode, RunStatus, Severity, State

Log = Callable[[str], None]
_PAIR = ["entry_id_l", "entry_id_r"]


@dataclass(frozen=True)
class _Judged:
    """VERDICTS of the pairs around recent entries, what a model says of single ones, and who judged."""

    verdicts: pl.DataFrame
    findings: WindowFindings
    judge_fingerprint: str


def run_pass(knowledge_base: KnowledgeBase, policy: Policy, run: Run, log: Log) -> RunStatus:
    """Looks at the recent entries of a corpus and asks people about them. The caller holds the corpus lock.

    Returns:
        How the pass ended: ok, degraded when a configured judge failed, halted when a check did not hold.
    """
    database, corpus = knowledge_base.database, run.corpus
    entries, _ = add_text_features(database, corpus, load_entries(database, run, policy.scope_fields))
    seen, newer = count_entries(database, run)
    recent = recent_texts(
        database, run, run.as_of - timedelta(days=policy.curator.max_age_days), last_pass(database, corpus)
    ).join(entries.filter(_may_be_asked_about()).select("entry_id"), on="entry_id", how="semi", maintain_order="left")
    window = recent["entry_id"].head(policy.curator.max_entries)
    add_counts(
        database, run.run_id, entries=entries.height, newer=newer, recent=recent.height, window=len(window),
        recent_left=recent.height - len(window),
    )  # fmt: skip
    log(f"{len(window)} recent entries of {corpus} as of {run.as_of}, of {entries.height}")
    retirement = _retirement(database, run, policy, entries)
    judged = _judged(knowledge_base, policy, run, entries, retirement, window, log)
    plan, found_conflicts = _planned(database, policy, run, entries, retirement, window, judged)
    # Contracts of frames and the gold set guard what a week does by itself; nothing of a pass is done.
    results = checks.check_plan(policy, entries, plan, judged.verdicts, expected_count=seen, allow_large_change=False)
    add_counts(database, run.run_id, checks=[asdict(result) for result in results])
    broken = [result for result in results if not result.passed and checks.severity_of(policy, result) is Severity.HIGH]
    if broken:
        message = "; ".join(f"{result.name}: {result.sentence}" for result in broken)
        close_run(database, run.run_id, RunStatus.HALTED, message=message)
        return RunStatus.HALTED
    failures = int(judged.verdicts["failed"].sum()) + judged.findings.failure_count
    status = RunStatus.DEGRADED if failures else RunStatus.OK
    asked = plan["recommendation_type"].value_counts(sort=True).sort("recommendation_type").iter_rows()
    apply_plan(
        database,
        run,
        entries,
        plan,
        found_conflicts,
        pl.DataFrame(schema={"entry_id": pl.String, "distinctiveness": pl.Float64}),
        recommendation_ids=recommendation_ids(plan),
        status=status,
        model_fingerprint=knowledge_base.encoder(policy).fingerprint,
        judge_fingerprint=judged.judge_fingerprint,
        counts={"actions": {ActionType.RECOMMEND.value: plan.height}, "asked": dict(asked)},
    )
    return status


def _may_be_asked_about() -> pl.Expr:
    """Admission is the matter of the gates: a candidate is decided by the week, which asks where it cannot."""
    return pl.col("state").is_in([State.ACTIVE, State.APPROVED, State.NEEDS_REVIEW, State.STALE])


def _retirement(database: Database, run: Run, policy: Policy, entries: pl.DataFrame) -> pl.DataFrame:
    activity = load_activity(database, run)
    quality = score_quality(entries, activity, policy.score, policy.retire, as_of=run.as_of)
    return decide_retirement(entries, quality, policy.retire)


def _judged(
    knowledge_base: KnowledgeBase,
    policy: Policy,
    run: Run,
    entries: pl.DataFrame,
    retirement: pl.DataFrame,
    window: pl.Series,
    log: Log,
) -> _Judged:
    """Pairs around the window, found and judged as a week does; and the window, read by the model as a whole."""
    database, corpus = knowledge_base.database, run.corpus
    encoder, thresholds = knowledge_base.encoder(policy), knowledge_base.thresholds(policy)
    in_window = pl.col("entry_id").is_in(window.implode())
    _, encoded = encode_missing(database, corpus, entries.filter(in_window), encoder)
    vectors, owner = read_vectors(database, corpus, encoder.fingerprint, entries["content_hash"])
    search = find_duplicates(entries, retirement, vectors, owner, policy.dedup, thresholds, around=window)
    settled = load_settled_pairs(database, run)
    findings = WindowFindings.none()
    if policy.curator.ask_model and choose_judge(policy.judge, script).is_network:
        findings = read_window(database, corpus, policy, entries, window, search.pairs, log)
    judge = choose_judge(
        _what_is_left(policy.judge, findings),
        script,
        # What lies in a batch of a week is not asked a second time.
        batch_store=lambda questions: BatchStore(database, corpus, questions),
    )
    pairs = with_texts(_with_named(search.pairs, findings.pairs, entries, vectors, owner), entries)
    rule, _, asked_rule = answers(database, corpus, RuleJudge(script), pairs)
    network, asked_network = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean}), pairs.clear().select(CACHE_KEY)
    if judge.judges_open_pairs:
        undecided = strongest_first(without_settled(open_for_network(pairs, rule), settled))
        network, _, asked_network = answers(database, corpus, judge, undecided)
    verdicts = verdict_frame(pairs, rule, network, pl.concat([asked_rule, asked_network]))
    verdicts = with_named_pairs(verdicts, findings.pairs, judge=judge.name)
    verdicts = answered_by_people(verdicts, entries, settled)
    # A pass asks as many questions by words as its own part of the corpus is due.
    of_window = entries.with_columns(
        pl.when(in_window).then("state").otherwise(pl.lit(State.ARCHIVED.value)).alias("state")
    )
    verdicts = limit_questions(verdicts, of_window, policy.dedup)
    verdicts = checked_bodies(entries, verdicts, policy.merge, max_body_chars=policy.load.max_body_chars)
    add_counts(
        database,
        run.run_id,
        texts_encoded=encoded,
        model_fingerprint=encoder.fingerprint,
        pairs=search.pairs.height,
        pairs_over_limit=search.dropped_count,
        thresholds=asdict(thresholds),
        judge=judge.name if judge.is_network else f"{judge.name} (offline)",
        judge_fingerprint=judge.fingerprint,
        pairs_judged=verdicts.filter(~pl.col("from_cache")).height,
        pairs_sent=asked_network.height,
        judge_failures=int(verdicts["failed"].sum()),
        judge_usage=dict(judge.usage) | {"cost_usd": judge.cost_usd} if judge.usage else {},
        **findings.counts,
    )
    return _Judged(verdicts, findings, judge.fingerprint)


def _what_is_left(policy: JudgePolicy, findings: WindowFindings) -> JudgePolicy:
    """The judge's limits after the readings of the window, which come out of the same purse."""
    return policy.model_copy(
        update={
            "max_tokens": None if policy.max_tokens is None else max(1, policy.max_tokens - findings.tokens),
            "max_cost_usd": None if policy.max_cost_usd is None else max(0.0, policy.max_cost_usd - findings.cost_usd),
        }
    )


def _with_named(
    pairs: pl.DataFrame, named: pl.DataFrame, entries: pl.DataFrame, vectors: Any, owner: Any
) -> pl.DataFrame:
    """PAIRS, and those that only the model named; they count as found by another signal than the vectors."""
    new = named.select(_PAIR).join(pairs, on=_PAIR, how="anti")
    row = entries.select("entry_id").with_row_index("row")
    sides = (
        new.join(row, left_on=key, right_on="entry_id", maintain_order="left")["row"].cast(pl.Int64) for key in _PAIR
    )
    cosines = pl.Series(owner_similarities(vectors, owner, *(side.to_numpy() for side in sides)))
    added = new.with_columns(
        cosines.cast(pl.Float64).fill_nan(None).clip(-1.0, 1.0).round(5).alias("similarity"),
        pl.lit(Band.LEXICAL.value).alias("band"),
        pl.lit(None, pl.Float64).alias("word_similarity"),
    )
    return pl.concat([pairs, schemas.PAIRS.select(added)]).sort(_PAIR)


def _planned(
    database: Database,
    policy: Policy,
    run: Run,
    entries: pl.DataFrame,
    retirement: pl.DataFrame,
    window: pl.Series,
    judged: _Judged,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(PLAN, CONFLICTS) of the pass: what a week would do about the window, all of it as questions."""
    in_window = pl.col("entry_id").is_in(window.implode())
    standing = load_standing(database, run, entries)
    found = flags.find_flags(entries, policy.flags)
    if policy.curator.flag_gates:
        distinct = score_distinctiveness(entries, policy.distinctiveness)
        gates = judge_gates(entries, distinct, pl.DataFrame(schema=NEAREST_SCHEMA), policy.gates)
        found = flags.add_gates(found, entries, gates)
    unasked = standing.unasked(flags.open_flags(found, entries, standing.queue).filter(in_window), entries)
    replaced = supersede.find_replaced(entries, policy.supersede)
    outdated = refresh.unasked(
        refresh.find_outdated(entries, retirement, policy.refresh, policy.retire, as_of=run.as_of), standing.queue
    )
    found_conflicts = conflicts.record_conflicts(entries, judged.verdicts)
    plan = build_plan(
        PlanIdentity(run.corpus, run.week, run.as_of, run.policy_fingerprint, run.epoch),
        entries,
        schemas.GATES.empty(),
        retirement.filter(in_window),
        judged.verdicts,
        plan_merges(entries, judged.verdicts, policy.merge),
        found_conflicts,
        flags=unasked,
        replaced=replaced.filter(in_window | pl.col("superseded_by").is_in(window.implode())),
        outdated=outdated.filter(in_window),
        **standing.of_plan(policy, entries),
        mode=Mode.RECOMMEND,
        issues=judged.findings.issues,
    )
    # A secret elsewhere in the corpus is the week's to find: this pass speaks of recent entries alone.
    recent = pl.col("other_entry_id").is_not_null() | in_window
    return plan.filter(recent), found_conflicts
