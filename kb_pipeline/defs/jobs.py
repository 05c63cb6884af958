"""Jobs: the weekly curation of one corpus, in one process."""

import dagster as dg

from kb_pipeline.adapters.runs import close_run
from kb_pipeline.defs.clock import open_database
from kb_pipeline.defs.partitions import corpus_weeks
from kb_pipeline.vocabulary import RunStatus


@dg.failure_hook
def record_failure(context: dg.HookContext) -> None:
    """Marks the run as failed in the table of runs; one that was halted or has finished keeps its own end."""
    message = str(context.op_exception) if context.op_exception else f"step {context.op.name} failed"
    close_run(open_database(), context.run_id, RunStatus.FAILED, message=message)


weekly_curation = dg.define_asset_job(
    name="weekly_curation",
    description="Curates one corpus for one week: loads, scores, retires, merges, opens conflicts, applies, reports.",
    selection=dg.AssetSelection.all(),
    partitions_def=corpus_weeks,
    executor_def=dg.in_process_executor,
    hooks={record_failure},
    tags={"kb/job": "weekly_curation"},
)
