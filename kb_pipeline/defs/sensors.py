"""Sensors: what starts weeks by itself.

One sensor takes in new corpora and hands out, for each, the oldest complete week that is missing. The next week of a
corpus is only asked for when the one before has taken effect, so missed weeks are caught up in order, and a corpus whose
week failed waits for an operator without holding up the others.
"""

from datetime import timedelta

import dagster as dg

from kb_pipeline.adapters.exporting import known_corpora
from kb_pipeline.adapters.importing import last_complete_week
from kb_pipeline.adapters.runs import next_week
from kb_pipeline.defs.clock import now, open_database
from kb_pipeline.defs.jobs import weekly_curation
from kb_pipeline.defs.partitions import corpora, partition_key

_EVERY_SECONDS = 300


@dg.sensor(
    job=weekly_curation,
    minimum_interval_seconds=_EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Takes in new corpora and runs each corpus's oldest missing week, in order.",
)
def missing_weeks(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """One run request for every corpus that has a complete week to catch up."""
    database = open_database()
    last = last_complete_week(now()).date()
    names = known_corpora(database)
    known = set(context.instance.get_dynamic_partitions("corpus"))
    requests = []
    for corpus in names:
        week, attempt = next_week(database, corpus, last)
        if week <= last:
            key = partition_key(corpus, week)
            requests.append(dg.RunRequest(run_key=f"{key}#{attempt}", partition_key=key))
    added = [name for name in names if name not in known]
    waiting = len(names) - len(requests)
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[corpora.build_add_request(added)] if added else [],
        skip_reason=None
        if requests
        else dg.SkipReason(
            f"all {waiting} corpora are curated up to the week of {last}; next after {last + timedelta(14)}"
        ),
    )
