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
from kb_pipeline.errors import UsageError, WeekError
from kb_pipeline.vocabulary import Profile

_BACKFILL_TAG = "dagster/backfill"


@week_asset("1_load", "postgres", "polars")
def knowledge_entries(
    context: dg.AssetExecutionContext, knowledge_base: KnowledgeBase, curation: Curation
) -> dg.Output[pl.DataFrame]:
    """Every entry of the corpus as it stood at the end of the week: the as-of view that all later steps share.

    Opens the run: weeks go forward, a re-run of a week sees what its first run saw, the running week is partial.
    """
    corpus, week = corpus_and_week(context.partition_key)
    if curation.profile == Profile.CURATOR:
        raise UsageError(
            f"profile {Profile.CURATOR} looks at recent entries and at no week: run the job curator_pass, or "
            f"kb curate --corpus {corpus} --profile {Profile.CURATOR}"
        )
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
    """A person may pass over a week; a backfill may not: each of its weeks builds on the ones before.

    Raises:
        WeekError: an earlier week of the same backfill has not taken effect.
    """
    backfill = context.run.tags.get(_BACKFILL_TAG)
    if backfill is None:
        return
    failed = dg.RunsFilter(
        tags={_BACKFILL_TAG: backfill, CORPUS_TAG: corpus},
        statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED],
    )
    asked = context.instance.get_backfill(backfill)
    weeks = [corpus_and_week(key) for key in (asked.partition_names if asked is not None else None) or ()]
    weeks += [partition_of(run) for run in context.instance.get_runs(failed)]
    done = last_applied_week(database, corpus)
    missing = [day for name, day in weeks if name == corpus and day < week and (done is None or day > done)]
    if missing:
        raise WeekError(
            f"week {min(missing)} of corpus {corpus!r} belongs to the same backfill and has not taken effect, and week "
            f"{week} builds on it. Run week {min(missing)} first (see its run if it failed), then the weeks after it."
        )
