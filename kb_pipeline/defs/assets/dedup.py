"""entry_embeddings and duplicate_pairs: vectors of the texts, and which pairs may say the same."""

from dataclasses import asdict

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.encoding import encode_missing
from kb_pipeline.adapters.runs import add_counts, latest_run
from kb_pipeline.defs.assets.wiring import asset_options, output
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages.dedup import find_duplicates
from kb_pipeline.vocabulary import Band

_RETRY = dg.RetryPolicy(max_retries=1, delay=5)


@dg.asset(
    **asset_options("entry_embeddings", "duplicates", "sentencetransformers", "postgres"),
    retry_policy=_RETRY,
)
def entry_embeddings(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """A vector for each window of each live text; a text that has vectors of this model is never encoded again."""
    corpus, week = corpus_and_week(context.partition_key)
    run = latest_run(knowledge_base.database, corpus, week)
    encoder = knowledge_base.encoder(curation.policy(corpus))
    embeddings, encoded = encode_missing(
        knowledge_base.database,
        corpus,
        knowledge_entries,
        encoder,
        lambda done, todo: context.log.info(f"encoded {done} of {todo} texts"),
    )
    add_counts(knowledge_base.database, run.run_id, texts_encoded=encoded, model_fingerprint=encoder.fingerprint)
    return output(embeddings, texts_encoded_now=encoded, model_fingerprint=encoder.fingerprint)


@dg.asset(**asset_options("duplicate_pairs", "duplicates", "faiss", "numpy"))
def duplicate_pairs(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    retirement_decisions: pl.DataFrame,
    entry_embeddings: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Pairs of active entries of one scope and kind with equal texts or close vectors, in both bands."""
    corpus, week = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    run = latest_run(knowledge_base.database, corpus, week)
    encoder = knowledge_base.encoder(policy)
    hashes = knowledge_entries["content_hash"]
    vectors, owner = read_vectors(knowledge_base.database, corpus, encoder.fingerprint, hashes)
    thresholds = knowledge_base.thresholds(policy)
    search = find_duplicates(knowledge_entries, retirement_decisions, vectors, owner, policy.dedup, thresholds)
    add_counts(
        knowledge_base.database,
        run.run_id,
        pairs=search.pairs.height,
        pairs_over_limit=search.dropped_count,
        shielded=search.shielded_count,
        without_vectors=search.unseen_count,
        recall=search.recall,
        thresholds=asdict(thresholds),
    )
    bands = dict(search.pairs["band"].value_counts().iter_rows())
    return output(
        search.pairs,
        searched_entries=search.searched_count,
        shielded_entries=search.shielded_count,
        entries_without_vectors=search.unseen_count,
        pairs_over_limit=search.dropped_count,
        recall="exact" if search.recall is None else f"{search.recall:.4f}",
        **{f"pairs_{band.value}": bands.get(band.value, 0) for band in Band},
    )
