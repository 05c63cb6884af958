"""distinctiveness_scores, gate_results, quality_scores, retirement_decisions and quality_flags: entries by rule."""

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.snapshots import load_activity
from kb_pipeline.defs.assets.wiring import output, step_of, week_asset
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages.distinctiveness import corpus_version, score_distinctiveness
from kb_pipeline.stages.flags import find_flags
from kb_pipeline.stages.gates import NEAREST_SCHEMA, judge_gates, nearest_active
from kb_pipeline.stages.retire import decide_retirement
from kb_pipeline.stages.score import score_quality
from kb_pipeline.vocabulary import State


@week_asset("2_score", "polars")
def distinctiveness_scores(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """How distinctive each entry's words are within its tenant's corpus; recomputed whenever the corpus changes."""
    step = step_of(context, knowledge_base, curation)
    scores = score_distinctiveness(knowledge_entries, step.policy.distinctiveness)
    mean = scores["distinctiveness"].mean()
    return output(
        scores, corpus_version=corpus_version(knowledge_entries), mean=mean if isinstance(mean, float) else 0.0
    )


@week_asset("2_score", "polars", "faiss")
def gate_results(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    distinctiveness_scores: pl.DataFrame,
    entry_embeddings: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Which candidates are admitted, refused, or only strengthen what is known already; measured on all live entries."""
    step = step_of(context, knowledge_base, curation)
    encoder = knowledge_base.encoder(step.policy)
    # Vectors are only needed where a candidate waits: its scope and kind, and what is active there.
    waiting = knowledge_entries.filter(pl.col("state") == State.CANDIDATE).select("scope", "kind").unique()
    places = knowledge_entries.with_row_index("row").join(waiting, on=["scope", "kind"], how="semi").sort("row")
    if places.height:
        hashes = places["content_hash"]
        vectors, owner = read_vectors(step.database, step.corpus, encoder.fingerprint, hashes)
        rows = places["row"].cast(pl.Int64).to_numpy()
        limit = knowledge_base.thresholds(step.policy).min_intake_similarity
        nearest = nearest_active(knowledge_entries, vectors, rows[owner], limit)
    else:
        nearest = pl.DataFrame(schema=NEAREST_SCHEMA)
    gates = judge_gates(knowledge_entries, distinctiveness_scores, nearest, step.policy.gates)
    decided = gates["gate_decision"].drop_nulls().value_counts().iter_rows()
    return output(gates, **{f"candidates_{word}": number for word, number in decided})


@week_asset("2_score", "polars", "scipy")
def quality_scores(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Interval of the success rate, freshness, and days on the staleness clock of each entry."""
    step = step_of(context, knowledge_base, curation)
    activity = load_activity(step.database, step.run)
    scores = score_quality(knowledge_entries, activity, step.policy.score, step.policy.retire, as_of=step.run.as_of)
    return output(scores, usage_events=activity.height, without_clock=scores["staleness_days"].null_count())


@week_asset("2_score", "polars")
def retirement_decisions(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    quality_scores: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """Which active entries have had their time, and which a protection saves."""
    step = step_of(context, knowledge_base, curation)
    decisions = decide_retirement(knowledge_entries, quality_scores, step.policy.retire)
    counts = decisions["retire_decision"].value_counts().iter_rows()
    return output(decisions, **{f"entries_{word}": number for word, number in counts})


@week_asset("2_score", "polars")
def quality_flags(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """What is wrong with an entry on its own: no steps, no ground, no statement, an event record, a broken reference."""
    step = step_of(context, knowledge_base, curation)
    flags = find_flags(knowledge_entries, step.policy.flags)
    counts = flags["flag_reasons"].explode().drop_nulls().value_counts().sort("flag_reasons").iter_rows()
    return output(
        flags,
        entries_flagged=flags["flag_severity"].drop_nulls().len(),
        **{reason.replace(".", "_"): number for reason, number in counts},
    )
