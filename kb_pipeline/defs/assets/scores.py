"""distinctiveness_scores, gate_results, quality_scores and retirement_decisions: what each entry is worth by rule."""

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.runs import latest_run
from kb_pipeline.adapters.snapshots import load_activity
from kb_pipeline.defs.assets.wiring import asset_options, output
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages.distinctiveness import corpus_version, score_distinctiveness
from kb_pipeline.stages.gates import NEAREST_SCHEMA, judge_gates, nearest_active
from kb_pipeline.stages.retire import decide_retirement
from kb_pipeline.stages.score import score_quality
from kb_pipeline.vocabulary import State


@dg.asset(**asset_options("distinctiveness_scores", "scores", "polars"))
def distinctiveness_scores(
    context: dg.AssetExecutionContext, curation: Curation, knowledge_entries: pl.DataFrame
) -> dg.Output[pl.DataFrame]:
    """How distinctive each entry's words are within its tenant's corpus; recomputed whenever the corpus changes."""
    corpus, _ = corpus_and_week(context.partition_key)
    scores = score_distinctiveness(knowledge_entries, curation.policy(corpus).distinctiveness)
    mean = scores["distinctiveness"].mean()
    return output(
        scores, corpus_version=corpus_version(knowledge_entries), mean=mean if isinstance(mean, float) else 0.0
    )


@dg.asset(**asset_options("gate_results", "scores", "polars", "faiss"))
def gate_results(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    distinctiveness_scores: pl.DataFrame,
    entry_embeddings: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Which candidates are admitted, refused, or only strengthen what is known already; measured on all live entries."""
    corpus, _ = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    encoder = knowledge_base.encoder(policy)
    # Vectors are only needed where a candidate waits: its scope and kind, and what is active there.
    waiting = knowledge_entries.filter(pl.col("state") == State.CANDIDATE).select("scope", "kind").unique()
    places = knowledge_entries.with_row_index("row").join(waiting, on=["scope", "kind"], how="semi").sort("row")
    if places.height:
        hashes = places["content_hash"]
        vectors, owner = read_vectors(knowledge_base.database, corpus, encoder.fingerprint, hashes)
        rows = places["row"].cast(pl.Int64).to_numpy()
        limit = knowledge_base.thresholds(policy).min_intake_similarity
        nearest = nearest_active(knowledge_entries, vectors, rows[owner], limit)
    else:
        nearest = pl.DataFrame(schema=NEAREST_SCHEMA)
    gates = judge_gates(knowledge_entries, distinctiveness_scores, nearest, policy.gates)
    decided = gates["gate_decision"].drop_nulls().value_counts().iter_rows()
    return output(gates, **{f"candidates_{word}": number for word, number in decided})


@dg.asset(**asset_options("quality_scores", "scores", "polars", "scipy"))
def quality_scores(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Interval of the success rate, freshness, and days on the staleness clock of each entry."""
    corpus, week = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    run = latest_run(knowledge_base.database, corpus, week)
    activity = load_activity(knowledge_base.database, run)
    scores = score_quality(knowledge_entries, activity, policy.score, policy.retire, as_of=run.as_of)
    return output(scores, usage_events=activity.height, without_clock=scores["staleness_days"].null_count())


@dg.asset(**asset_options("retirement_decisions", "decisions", "polars"))
def retirement_decisions(
    context: dg.AssetExecutionContext,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    quality_scores: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Which active entries have had their time, and which a protection saves."""
    corpus, _ = corpus_and_week(context.partition_key)
    decisions = decide_retirement(knowledge_entries, quality_scores, curation.policy(corpus).retire)
    counts = decisions["retire_decision"].value_counts().iter_rows()
    return output(decisions, **{f"entries_{word}": number for word, number in counts})
