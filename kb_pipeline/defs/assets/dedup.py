"""entry_embeddings and duplicate_pairs: vectors of the texts, and which pairs may say the same."""

from dataclasses import asdict

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.encoding import encode_missing
from kb_pipeline.adapters.runs import add_counts
from kb_pipeline.defs.assets.wiring import output, step_of, week_asset
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages.dedup import find_duplicates
from kb_pipeline.vocabulary import Band


@week_asset("1_load", "sentencetransformers", "postgres", max_retries=1)
def entry_embeddings(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """A vector for each window of each live text; a text that has vectors of this model is never encoded again."""
    step = step_of(context, knowledge_base, curation)
    encoder = knowledge_base.encoder(step.policy)
    embeddings, encoded = encode_missing(
        step.database,
        step.corpus,
        knowledge_entries,
        encoder,
        lambda done, todo: context.log.info(f"encoded {done} of {todo} texts"),
    )
    add_counts(step.database, step.run.run_id, texts_encoded=encoded, model_fingerprint=encoder.fingerprint)
    return output(embeddings, texts_encoded_now=encoded, model_fingerprint=encoder.fingerprint)


@week_asset("3_dedup", "faiss", "numpy")
def duplicate_pairs(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    retirement_decisions: pl.DataFrame,
    entry_embeddings: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Pairs of active entries of one scope and kind with equal texts, close vectors, or rare words in common."""
    step = step_of(context, knowledge_base, curation)
    encoder = knowledge_base.encoder(step.policy)
    hashes = knowledge_entries["content_hash"]
    vectors, owner = read_vectors(step.database, step.corpus, encoder.fingerprint, hashes)
    thresholds = knowledge_base.thresholds(step.policy)
    search = find_duplicates(knowledge_entries, retirement_decisions, vectors, owner, step.policy.dedup, thresholds)
    add_counts(
        step.database,
        step.run.run_id,
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
