"""Jobs: the weekly curation of one corpus, in one process."""

import dagster as dg

from kb_pipeline.adapters.continuing import end_open_runs
from kb_pipeline.defs.clock import open_database
from kb_pipeline.defs.corpus_lock import partition_of
from kb_pipeline.defs.failures import cause_of
from kb_pipeline.defs.partitions import corpus_weeks


@dg.failure_hook
def record_failure(context: dg.HookContext) -> None:
    """Records why the run failed in the table of runs; one that was halted or has taken effect keeps its own end."""
    error = None if context.op_exception is None else cause_of(context.op_exception)
    message = f"step {context.op.name} failed: {error or 'its page in Dagster says why'}"
    run = context.instance.get_run_by_id(context.run_id)
    assert run is not None  # noqa: S101 - it is running this very hook
    # The run holds its corpus, so what still claims to be running there is its own.
    end_open_runs(open_database(), partition_of(run)[0], message)


weekly_curation = dg.define_asset_job(
    name="weekly_curation",
    description="Curates one corpus for one week: loads, scores, retires, merges, opens conflicts, applies, reports.",
    selection=dg.AssetSelection.all(),
    partitions_def=corpus_weeks,
    executor_def=dg.in_process_executor,
    hooks={record_failure},
)
