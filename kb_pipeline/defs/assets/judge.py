"""judge_verdicts: what the judges say of every pair."""

from itertools import islice

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import in_batches, read_verdicts, write_verdicts
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges import Judge, choose_judge
from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.runs import add_counts
from kb_pipeline.adapters.text_features import TEXT_VERSION
from kb_pipeline.defs.assets.wiring import output, step_of, week_asset
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.judge import PairReply, PairRequest
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

_NETWORK_BATCH, _RULE_BATCH = 20, 5_000


@week_asset("3_dedup", "anthropic", "postgres", max_retries=1)
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
    step = step_of(context, knowledge_base, curation)
    database, corpus = step.database, step.corpus
    judge = choose_judge(step.policy.judge, script)
    pairs = with_texts(duplicate_pairs, knowledge_entries)
    rule, asked_rule = _answers(database, corpus, RuleJudge(script), pairs)
    network, asked_network = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean}), pairs.clear().select(CACHE_KEY)
    if judge.is_network:
        network, asked_network = _answers(database, corpus, judge, open_for_network(pairs, rule))
    verdicts = verdict_frame(pairs, rule, network, pl.concat([asked_rule, asked_network]))
    name = judge.name if judge.is_network else f"{judge.name} (offline)"
    add_counts(
        database,
        step.run.run_id,
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


def _answers(
    database: Database, corpus: str, judge: Judge[PairRequest, PairReply], pairs: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Replies of a judge to all pairs, from its cache where it has them; and the pairs of texts that it was asked now.

    Verdicts are kept as they arrive: a step that is tried again does not ask a second time what was answered.
    """
    fingerprint = f"{judge.fingerprint}/{TEXT_VERSION}"
    known = read_verdicts(database, corpus, fingerprint).select(list(REPLY_SCHEMA))
    todo = unanswered(pairs, known)
    asked = requests(todo)
    replies = iter(judge.decide(asked))
    both = [known.with_columns(pl.lit(False).alias("failed"))]
    for batch in in_batches(len(asked), _NETWORK_BATCH if judge.is_network else _RULE_BATCH):
        fresh = reply_frame(asked[batch], list(islice(replies, len(asked[batch]))))
        write_verdicts(database, fingerprint, fresh.filter("cacheable").drop("failed", "cacheable"))
        both.append(fresh.drop("cacheable"))
    return pl.concat(both), todo.select(CACHE_KEY)
