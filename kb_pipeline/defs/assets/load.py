"""knowledge_entries: opens the run and reads the corpus as it stood at the end of the week."""

import dagster as dg
import polars as pl

from kb_pipeline.adapters.runs import add_counts, open_run
from kb_pipeline.adapters.snapshots import count_entries, load_entries
from kb_pipeline.adapters.text_features import add_text_features
from kb_pipeline.defs.assets.wiring import output, week_asset
from kb_pipeline.defs.clock import now
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.resources import Curation, KnowledgeBase

_LAST_WEEK = dg.AssetDep(
    "knowledge_entries",
    partition_mapping=dg.MultiPartitionMapping(
        {
            "corpus": dg.DimensionPartitionMapping("corpus", dg.IdentityPartitionMapping()),
            "week": dg.DimensionPartitionMapping("week", dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)),
        }
    ),
)
"""Orders the weeks of one backfill; what enforces the order is the guard in open_run."""


@week_asset("1_load", "postgres", "polars", deps=[_LAST_WEEK])
def knowledge_entries(
    context: dg.AssetExecutionContext, knowledge_base: KnowledgeBase, curation: Curation
) -> dg.Output[pl.DataFrame]:
    """Every entry of the corpus as it stood at the end of the week: the as-of view that all later steps share.

    Opens the run: weeks go forward, a re-run of a week sees what its first run saw, the running week is partial.
    """
    corpus, week = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    database = knowledge_base.database
    run = knowledge_base.begin(
        open_run(
            database,
            run_id=context.run_id,
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
