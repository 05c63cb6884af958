"""Jobs: the weekly curation of one corpus, in one process."""

import dagster as dg

from kb_pipeline.defs.partitions import corpus_weeks

weekly_curation = dg.define_asset_job(
    name="weekly_curation",
    description="Curates one corpus for one week: loads, scores, retires, merges, opens conflicts, applies, reports.",
    selection=dg.AssetSelection.all(),
    partitions_def=corpus_weeks,
    executor_def=dg.in_process_executor,
)
