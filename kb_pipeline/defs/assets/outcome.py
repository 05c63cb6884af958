"""applied_actions and health_report: the one step that writes, and what people read."""

from datetime import timedelta

import dagster as dg
import polars as pl

from kb_pipeline.adapters.applying import apply_plan
from kb_pipeline.adapters.report_plots import plot_png
from kb_pipeline.adapters.report_queries import load_trend
from kb_pipeline.adapters.runs import load_counts
from kb_pipeline.adapters.snapshots import previous_scores
from kb_pipeline.defs.assets.wiring import check_specs, output, step_of, week_asset
from kb_pipeline.defs.publish import (
    WeekInputs,
    check_result,
    missed,
    publish,
    recommendation_ids,
    week_queue,
)
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.schemas import APPLIED
from kb_pipeline.stages import checks
from kb_pipeline.stages.checks import CheckResult
from kb_pipeline.stages.report_text import markdown_summary
from kb_pipeline.vocabulary import ActionType, RunStatus

_DESCRIPTIONS = {
    "coverage": "Nothing was left out that the run should have looked at.",
    "distinctiveness_drift": "The mean distinctiveness moved no more than policy allows since the week before.",
    "borderline_backlog": "Not too many borderline pairs wait for a person.",
    "judge_degraded": "A configured judge answered every pair.",
}
_FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=9), warn_window=timedelta(days=8))
"""A week is curated soon after its end; a day late is a warning. One corpus that stalls alone is named by the sensor."""
_PLOTS = ("states", "distinctiveness", "similarity")


@week_asset("4_apply", "postgres")
def applied_actions(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    distinctiveness_scores: pl.DataFrame,
    judge_verdicts: pl.DataFrame,
    conflict_records: pl.DataFrame,
    curation_plan: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """The plan, written to the histories in one transaction: all of it or nothing. Applying twice changes nothing."""
    step = step_of(context, knowledge_base, curation)
    database, run = step.database, step.run
    counts = load_counts(database, run.run_id)
    failures = int(judge_verdicts["failed"].sum())
    changed = (
        distinctiveness_scores.select("entry_id", pl.col("distinctiveness").round(6))
        .join(previous_scores(database, run), on="entry_id", how="left")
        .filter(pl.col("distinctiveness").ne_missing(pl.col("recorded").round(6)))
        .select("entry_id", "distinctiveness")
    )
    actions = dict(curation_plan["action"].value_counts().iter_rows())
    applied = apply_plan(
        database,
        run,
        knowledge_entries,
        curation_plan,
        conflict_records,
        changed,
        recommendation_ids=recommendation_ids(curation_plan),
        status=RunStatus.DEGRADED if failures else RunStatus.OK,
        model_fingerprint=counts["model_fingerprint"],
        judge_fingerprint=counts["judge_fingerprint"],
        counts={"actions": {action.value: actions.get(action.value, 0) for action in ActionType}},
        details={"allow_large_change": True} if curation.allow_large_change else None,
    )
    context.log.info(f"{applied.action_count} actions written, {applied.transition_count} entries changed state")
    frame = curation_plan.with_columns(pl.lit(run.rerun_of is None).alias("applied_now"))
    return output(
        APPLIED.select(frame),
        actions_written=applied.action_count,
        transitions=applied.transition_count,
        run_id=run.run_id,
        rerun_of=run.rerun_of or "no",
    )


@week_asset(
    "4_apply",
    "yaml",
    "matplotlib",
    check_specs=check_specs("health_report", {name: _DESCRIPTIONS[name] for name in checks.WARNING}, blocking=False),
    freshness_policy=_FRESH,
)
def health_report(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    distinctiveness_scores: pl.DataFrame,
    gate_results: pl.DataFrame,
    quality_scores: pl.DataFrame,
    retirement_decisions: pl.DataFrame,
    judge_verdicts: pl.DataFrame,
    merge_plan: pl.DataFrame,
    conflict_records: pl.DataFrame,
    curation_plan: pl.DataFrame,
    quality_flags: pl.DataFrame,
    applied_actions: pl.DataFrame,
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Health of the corpus at the end of the week: report tables, YAML files and a page for analysts."""
    step = step_of(context, knowledge_base, curation)
    policy, database, run = step.policy, step.database, step.run
    frames = WeekInputs(
        knowledge_entries, distinctiveness_scores, gate_results, quality_scores, retirement_decisions, judge_verdicts,
        merge_plan, conflict_records, curation_plan, quality_flags,
    )  # fmt: skip
    trend = load_trend(database, step.corpus, step.week)
    results = checks.check_health(
        policy,
        distinctiveness_scores,
        trend["mean_distinctiveness"].to_list()[-1] if trend.height else None,
        judge_verdicts,
        week_queue(database, run, frames),
        not_looked_at=missed(load_counts(database, run.run_id)),
    )
    status = RunStatus.DEGRADED if judge_verdicts["failed"].any() else RunStatus.OK
    before_apply = [CheckResult(**found) for found in load_counts(database, run.run_id)["checks"]]
    report, files = publish(database, run, policy, curation, frames, status, [*before_apply, *results])
    return dg.MaterializeResult(
        metadata={
            "summary": dg.MetadataValue.md(markdown_summary(report)),
            **{name: dg.MetadataValue.md(_image(name, plot_png(report, name))) for name in _PLOTS},
            "folder": dg.MetadataValue.path(str(files[0].parent.resolve())),
        },
        check_results=[check_result(result, "health_report", checks.severity_of(policy, result)) for result in results],
    )


def _image(name: str, png: bytes) -> str:
    import base64

    return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"
