"""judge_verdicts: what the judges say of every pair."""

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import read_verdicts, write_verdicts
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges import choose_judge
from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.runs import add_counts, latest_run
from kb_pipeline.adapters.text_features import TEXT_VERSION
from kb_pipeline.defs.assets.wiring import asset_options, output
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.judge_frames import (
    CACHE_KEY,
    REPLY_SCHEMA,
    open_for_network,
    reply_frame,
    requests,
    unanswered,
    verdict_frame,
    with_texts,
)
from kb_pipeline.vocabulary import Verdict


@dg.asset(**asset_options("judge_verdicts", "duplicates", "anthropic", "postgres"))
def judge_verdicts(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    duplicate_pairs: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """MERGE, KEEP_BOTH, CONFLICT or UNSURE for every pair: by rule first, by a model for what the rule leaves open.

    Verdicts are kept by text and judge: a pair that was settled is not asked again until a text changes. A judge that
    fails keeps both entries and makes the run degraded.
    """
    corpus, week = corpus_and_week(context.partition_key)
    database = knowledge_base.database
    judge = choose_judge(curation.policy(corpus).judge, script)
    pairs = with_texts(duplicate_pairs, knowledge_entries)
    rule, asked_rule = _answers(database, corpus, RuleJudge(script), pairs)
    network, asked_network = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean}), pairs.clear().select(CACHE_KEY)
    if judge.is_network:
        network, asked_network = _answers(database, corpus, judge, open_for_network(pairs, rule))
    verdicts = verdict_frame(pairs, rule, network, pl.concat([asked_rule, asked_network]))
    name = judge.name if judge.is_network else f"{judge.name} (offline)"
    add_counts(
        database,
        latest_run(database, corpus, week).run_id,
        judge=name,
        judge_fingerprint=judge.fingerprint,
        pairs_judged=verdicts.filter(~pl.col("from_cache")).height,
        pairs_sent=asked_network.height,
        judge_failures=int(verdicts["failed"].sum()),
    )
    counts = dict(verdicts["verdict"].value_counts().iter_rows())
    failed = int(verdicts["failed"].sum())
    if failed:
        context.log.warning(f"the judge failed on {failed} pairs: both entries are kept and the run is degraded")
    return output(
        verdicts,
        judge=name,
        judge_fingerprint=judge.fingerprint,
        pairs_judged_now=verdicts.filter(~pl.col("from_cache")).height,
        pairs_sent_to_model=asked_network.height,
        judge_failures=failed,
        **{f"verdict_{verdict.value}": counts.get(verdict.value, 0) for verdict in Verdict},
    )


def _answers(database: Database, corpus: str, judge, pairs: pl.DataFrame):  # type: ignore[no-untyped-def]
    """Replies of a judge to all pairs, from its cache where it has them; and the pairs of texts that it was asked now."""
    fingerprint = f"{judge.fingerprint}/{TEXT_VERSION}"
    known = read_verdicts(database, corpus, fingerprint).select(list(REPLY_SCHEMA))
    todo = unanswered(pairs, known)
    asked = requests(todo)
    fresh = reply_frame(asked, list(judge.decide(asked)))
    write_verdicts(database, fingerprint, fresh.filter("cacheable").drop("failed", "cacheable"))
    both = pl.concat([known.with_columns(pl.lit(False).alias("failed")), fresh.drop("cacheable")])
    return both, todo.select(CACHE_KEY)
