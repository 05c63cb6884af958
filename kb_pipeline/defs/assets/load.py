"""knowledge_entries: opens the run and reads the corpus as it stood at the end of the week.

The order of weeks is kept here and not by a dependency of the asset on its own last week: that would let a backfill load
a week as soon as the one before is loaded, long before it has taken effect. Dagster queues the weeks of a backfill in
order, one at a time for each corpus (dagster.yaml); the guard of open_run refuses what comes in another order.
"""

from datetime import date

import dagster as dg
import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import add_counts, last_applied_week, open_run
from kb_pipeline.adapters.snapshots import count_entries, load_entries
from kb_pipeline.adapters.text_features import add_text_features
from kb_pipeline.defs.assets.wiring import output, week_asset
from kb_pipeline.defs.clock import now
from kb_pipeline.defs.corpus_lock import partition_of
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.processes import CORPUS_TAG
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.errors import WeekError

_BACKFILL_TAG = "dagster/backfill"


@week_asset("1_load", "postgres", "polars")
def knowledge_entries(
    context: dg.AssetExecutionContext, knowledge_base: KnowledgeBase, curation: Curation
) -> dg.Output[pl.DataFrame]:
    """Every entry of the corpus as it stood at the end of the week: the as-of view that all later steps share.

    Opens the run: weeks go forward, a re-run of a week sees what its first run saw, the running week is partial.
    """
    corpus, week = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    database = knowledge_base.database
    _refuse_to_skip(context, database, corpus, week)
    run = knowledge_base.begin(
        open_run(
            database,
            run_id=context.run.run_id,
            corpus=corpus,
            week=week,
            profile=curation.profile,
            mode=policy.apply.mode,
            policy_fingerprint=policy.fingerprint,
            actor=curation.who,
            now=now(),
        )
    )
    entries, computed = add_text_features(database, corpus, load_entries(database, run, policy.scope_fields))
    _, newer = count_entries(database, run)
    add_counts(database, run.run_id, entries=entries.height, newer=newer, texts_keyed=computed)
    context.log.info(f"{entries.height} entries of {corpus} as of {run.as_of}; {newer} are newer and not looked at")
    return output(
        entries,
        as_of=run.as_of.isoformat(),
        partial=run.partial,
        rerun_of=run.rerun_of or "no",
        policy_fingerprint=policy.fingerprint,
        newer_entries=newer,
        texts_keyed_now=computed,
    )


def _refuse_to_skip(context: dg.AssetExecutionContext, database: Database, corpus: str, week: date) -> None:
    """A person may pass over a week; the weeks of a backfill do not, because a failed one is not meant to be missing.

    Raises:
        WeekError: an earlier week of the same backfill failed and was not curated since.
    """
    backfill = context.run.tags.get(_BACKFILL_TAG)
    if backfill is None:
        return
    failed = dg.RunsFilter(
        tags={_BACKFILL_TAG: backfill, CORPUS_TAG: corpus},
        statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED],
    )
    done = last_applied_week(database, corpus)
    missing = {partition_of(run)[1]: run.run_id for run in context.instance.get_runs(failed)}
    missing = {other: run_id for other, run_id in missing.items() if other < week and (done is None or other > done)}
    if missing:
        first = min(missing)
        raise WeekError(
            f"week {first} of corpus {corpus!r} in this backfill did not end well (run {missing[first]}), and week {week} "
            f"builds on it. See why, run week {first} again, and then the weeks after it."
        )
