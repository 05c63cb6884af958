"""Jobs: the weekly curation of one corpus, in one process."""

import dagster as dg

weekly_curation = dg.define_asset_job(
    name="weekly_curation",
    description="Curates one corpus for one week: loads, scores, retires, merges, opens conflicts, applies, reports.",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
)
