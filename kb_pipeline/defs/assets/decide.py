"""merge_plan, conflict_records and curation_plan: what the run would do, and the checks that stand before doing it."""

from collections.abc import Iterator
from dataclasses import asdict

import dagster as dg
import polars as pl

from kb_pipeline.adapters.expectations import check_contracts
from kb_pipeline.adapters.runs import add_counts, close_run
from kb_pipeline.adapters.snapshots import count_entries
from kb_pipeline.defs.assets.wiring import check_specs, output, shown, step_of, week_asset
from kb_pipeline.defs.golden_measure import measure_plan
from kb_pipeline.defs.judged_pairs import gold_measure
from kb_pipeline.defs.planning import load_standing
from kb_pipeline.defs.publish import WeekInputs, check_result, publish
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages import checks, conflicts, flags, merge, refresh, supersede
from kb_pipeline.stages.checks import CheckResult, check_plan
from kb_pipeline.stages.plan import PlanIdentity, build_plan, recommendation_id
from kb_pipeline.vocabulary import Mode, RecommendationType, RunStatus, Severity


@week_asset("3_dedup", "polars")
def merge_plan(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    judge_verdicts: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Which entry goes into which: clusters in which every pair is a duplicate, and a winner by a total order."""
    step = step_of(context, knowledge_base, curation)
    merges = merge.plan_merges(knowledge_entries, judge_verdicts, step.policy.merge)
    chain = merge.longest_chain(knowledge_entries, merges)
    add_counts(step.database, step.run.run_id, longest_chain=chain)
    counts = merges["merge_decision"].value_counts().iter_rows()
    return output(merges, longest_chain=chain, **{f"pairs_to_{word}": number for word, number in counts})


@week_asset("3_dedup", "polars")
def conflict_records(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    judge_verdicts: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Pairs of entries that say opposite things, or give different values for the same."""
    step_of(context, knowledge_base, curation)
    records = conflicts.record_conflicts(knowledge_entries, judge_verdicts)
    return output(records, **dict(records["conflict_type"].value_counts().iter_rows()))


_DESCRIPTIONS = {
    "schema": "The frames that the plan rests on keep their contracts (Great Expectations).",
    "no_entry_lost": "Every entry of the corpus was looked at, and the plan names no unknown one.",
    "one_transition_per_entry": "No entry changes its state twice in one run.",
    "allowed_transitions": "Every change of state begins where the entry is, and is one that a rule may make.",
    "winners_stay": "An entry that takes another one in is active and stays so.",
    "scope_not_crossed": "Nothing merges across tenants, repositories, modules or kinds.",
    "specifics_equal": "Texts that merge without a person hold the same numbers, names and negations.",
    "blast_radius": "No repository loses more of its active entries than apply.max_changed_share allows.",
    "gold_precision": "Of the rules' merges on the shipped gold set, judge.min_gold_precision or more are right.",
    "golden_queries": "Golden queries find their answers as well after the plan as before it (search.max_golden_drop).",
}


@week_asset(
    "4_apply",
    "polars",
    "greatexpectations",
    check_specs=check_specs("curation_plan", {name: _DESCRIPTIONS[name] for name in checks.BLOCKING}, blocking=True),
)
def curation_plan(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    gate_results: pl.DataFrame,
    retirement_decisions: pl.DataFrame,
    judge_verdicts: pl.DataFrame,
    merge_plan: pl.DataFrame,
    conflict_records: pl.DataFrame,
    distinctiveness_scores: pl.DataFrame,
    quality_scores: pl.DataFrame,
    quality_flags: pl.DataFrame,
) -> Iterator[dg.Output[pl.DataFrame] | dg.AssetCheckResult]:
    """Every action of the run, before anything is applied. What fails a check here is never applied."""
    step = step_of(context, knowledge_base, curation)
    policy, database, run = step.policy, step.database, step.run
    standing = load_standing(database, run, knowledge_entries)
    unasked = standing.unasked(flags.open_flags(quality_flags, knowledge_entries, standing.queue), knowledge_entries)
    replaced = supersede.find_replaced(knowledge_entries, policy.supersede)
    outdated = refresh.unasked(
        refresh.find_outdated(knowledge_entries, retirement_decisions, policy.refresh, policy.retire, as_of=run.as_of),
        standing.queue,
    )
    plan = build_plan(
        PlanIdentity(step.corpus, step.week, run.as_of, run.policy_fingerprint, run.epoch),
        knowledge_entries,
        gate_results,
        retirement_decisions,
        judge_verdicts,
        merge_plan,
        conflict_records,
        flags=unasked,
        replaced=replaced,
        outdated=outdated,
        **standing.of_plan(policy, knowledge_entries),
        mode=Mode(run.mode),
    )
    results = plan_checks(
        policy,
        knowledge_entries,
        plan,
        judge_verdicts,
        expected_count=count_entries(database, run)[0],
        allow_large_change=curation.allow_large_change,
    )
    path, golden = curation.golden_path(step.corpus), None
    if path is not None:
        encoder = knowledge_base.encoder(policy)
        golden = measure_plan(database, run, policy, path, plan, conflict_records, encoder)
    results.append(checks.golden_queries(policy, golden))
    settled = plan.filter((pl.col("recommendation_type") == RecommendationType.FLAG) | pl.col("to_state").is_not_null())
    left = unasked.join(settled, on="entry_id", how="anti").height
    add_counts(
        database,
        run.run_id,
        checks=[asdict(result) for result in results],
        flags_left=left,
        renewals_left=_renewals_left(
            plan, replaced, outdated, knowledge_entries, {*standing.answered, *standing.queue["recommendation_id"]}
        ),
        golden_queries=golden,
    )
    if failed := [
        result for result in results if not result.passed and checks.severity_of(policy, result) is Severity.HIGH
    ]:
        # Nothing downstream will run: what was found is published here, so that somebody can look at it.
        frames = WeekInputs(
            knowledge_entries, distinctiveness_scores, gate_results, quality_scores, retirement_decisions,
            judge_verdicts, merge_plan, conflict_records, plan, quality_flags,
        )  # fmt: skip
        message = "; ".join(f"{result.name}: {result.sentence}" for result in failed)
        publish(database, run, policy, curation, frames, RunStatus.HALTED, results)
        close_run(database, run.run_id, RunStatus.HALTED, message=message)
        context.log.error(f"halted before applying, nothing was changed. {message}")
    counts = plan["action"].value_counts().iter_rows()
    yield dg.Output(plan, metadata={**shown(plan), **{f"actions_{word}": number for word, number in counts}})
    for result in results:
        yield check_result(result, "curation_plan", checks.severity_of(policy, result))


def _renewals_left(
    plan: pl.DataFrame, replaced: pl.DataFrame, outdated: pl.DataFrame, entries: pl.DataFrame, known: set[str]
) -> int:
    """How many questions whether an entry is replaced, or still holds, a run had no room for."""
    texts = dict(entries.select("entry_id", "content_hash").iter_rows())
    asked = {recommendation_id(row) for row in plan.drop_nulls("recommendation_type").iter_rows(named=True)} | known
    # In mode recommend nothing moves; who would have is asked about in another way.
    asked_away = pl.col("recommendation_type").is_in([RecommendationType.MERGE, RecommendationType.ARCHIVE])
    moved = set(plan.filter(pl.col("to_state").is_not_null() | asked_away.fill_null(False))["entry_id"])
    wanted = [
        (RecommendationType.SUPERSEDE, old, new, None)
        for old, new in replaced.select("entry_id", "superseded_by").iter_rows()
    ]
    wanted += [
        (RecommendationType.REFRESH, entry, None, occasion)
        for entry, occasion in outdated.select("entry_id", "occasion").iter_rows()
    ]
    return sum(
        recommendation_id(
            {
                "recommendation_type": kind.value,
                "entry_id": entry,
                "content_hash": texts[entry],
                "other_entry_id": other,
                "other_content_hash": texts[other] if other else None,
                "occasion": occasion,
            }
        )
        not in asked
        for kind, entry, other, occasion in wanted
        if not {entry, other} & moved
    )


def plan_checks(
    policy: Policy,
    entries: pl.DataFrame,
    plan: pl.DataFrame,
    verdicts: pl.DataFrame,
    *,
    expected_count: int,
    allow_large_change: bool,
) -> list[CheckResult]:
    """The blocking checks: the contracts of the main frames, what no plan may ever do, and whether the rules still hold."""
    contracts = check_contracts({"knowledge_entries": entries, "judge_verdicts": verdicts, "curation_plan": plan})
    broken = [failure for contract in contracts for failure in contract.failures]
    evaluated = sum(contract.evaluated_count for contract in contracts)
    return [
        CheckResult("schema", not broken, "; ".join(broken) or f"{evaluated} expectations hold"),
        *check_plan(
            policy, entries, plan, verdicts, expected_count=expected_count, allow_large_change=allow_large_change
        ),
        checks.gold_precision(policy, gold_measure(policy)),
    ]
