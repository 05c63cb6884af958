"""judge_verdicts: what the judges say of every pair."""

from collections.abc import Mapping
from itertools import islice

import dagster as dg
import polars as pl

from kb_pipeline.adapters.caches import in_batches, read_verdicts, write_verdicts
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges import Judge, choose_judge
from kb_pipeline.adapters.judges.batch_store import BatchStore
from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.runs import add_counts, load_counts, run_status
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.adapters.snapshots import load_settled_pairs
from kb_pipeline.adapters.text_features import TEXT_VERSION
from kb_pipeline.adapters.unanswered import read_unanswered, write_unanswered
from kb_pipeline.defs.assets.wiring import Step, output, step_of, week_asset
from kb_pipeline.defs.judge_costs import spending
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.dedup_words import limit_questions, strongest_first
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
    without_secrets,
)
from kb_pipeline.stages.merge_bodies import checked_bodies
from kb_pipeline.stages.review_answers import answered_by_people, without_settled
from kb_pipeline.vocabulary import JUDGE_FAILURES, ReasonCode, RunStatus, Verdict

_NETWORK_BATCH, _RULE_BATCH = 20, 5_000


@week_asset("3_dedup", "anthropic", "postgres", max_retries=1)
def judge_verdicts(
    context: dg.AssetExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    knowledge_entries: pl.DataFrame,
    duplicate_pairs: pl.DataFrame,
) -> dg.Output[pl.DataFrame]:
    """MERGE, KEEP_BOTH, CONFLICT, SUPERSEDES or UNSURE for every pair: by rule first, by a model for what the rule leaves open.

    Verdicts are kept by text and judge: a pair that was settled is not asked again until a text changes. A judge that
    fails keeps both entries and makes the run degraded. A repeated week asks nobody: it tells what its first run was told.
    """
    step = step_of(context, knowledge_base, curation)
    database, corpus = step.database, step.corpus
    pairs = with_texts(duplicate_pairs, knowledge_entries)
    settled = load_settled_pairs(database, step.run)
    rule, _, asked_rule = answers(database, corpus, RuleJudge(script), pairs)
    asked_network = pairs.clear().select(CACHE_KEY)
    first = _told_before(step)
    usage: dict[str, float | None] = {}
    estimate: dict[str, float | None] = {}
    if first is None:

        def expect(numbers: Mapping[str, float | None]) -> None:
            """Records what is going to be asked before it is, so that it is known whatever ends the run."""
            add_counts(database, step.run.run_id, judge_estimate=dict(numbers))
            context.log.info("the judge is going to be asked, by estimate: " + spending(numbers))

        judge = choose_judge(
            step.policy.judge,
            script,
            batch_store=lambda questions: BatchStore(database, corpus, questions),
            on_estimate=expect,
        )
        name, fingerprint = judge.name if judge.is_network else f"{judge.name} (offline)", judge.fingerprint
        network = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean})
        if judge.judges_open_pairs:
            undecided = without_settled(open_for_network(pairs, rule), settled)
            network, open_still, asked_network = answers(database, corpus, judge, strongest_first(undecided))
            usage = dict(judge.usage) | {"cost_usd": judge.cost_usd} if judge.usage else {}
            estimate = dict(judge.estimate)
            write_unanswered(database, step.run.run_id, open_still.select(list(REPLY_SCHEMA)))
    else:
        told = load_counts(database, first)
        name, fingerprint, usage = told["judge"], told["judge_fingerprint"], told.get("judge_usage", {})
        estimate = told.get("judge_estimate", {})
        network = _told_again(database, corpus, fingerprint, first)
    verdicts = answered_by_people(
        verdict_frame(pairs, rule, network, pl.concat([asked_rule, asked_network])), knowledge_entries, settled
    )
    verdicts = limit_questions(verdicts, knowledge_entries, step.policy.dedup)
    verdicts = checked_bodies(
        knowledge_entries, verdicts, step.policy.merge, max_body_chars=step.policy.load.max_body_chars
    )
    in_batches_still = int((network["reason"] == ReasonCode.JUDGE_BATCH_PENDING).sum())
    add_counts(
        database,
        step.run.run_id,
        judge=name,
        judge_fingerprint=fingerprint,
        pairs_judged=verdicts.filter(~pl.col("from_cache")).height,
        pairs_sent=asked_network.height,
        judge_failures=int(verdicts["failed"].sum()),
        judge_usage=usage,
        judge_estimate=estimate,
        pairs_in_batches=in_batches_still,
    )
    if in_batches_still:
        context.log.info(f"{in_batches_still} pairs lie with the judge as a batch; the next run takes up the answers")
    counts = dict(verdicts["verdict"].value_counts().iter_rows())
    failed = int(verdicts["failed"].sum())
    if failed:
        context.log.warning(f"the judge failed on {failed} pairs: both entries are kept and the run is degraded")
    return output(
        verdicts,
        judge=name,
        judge_fingerprint=fingerprint,
        pairs_judged_now=verdicts.filter(~pl.col("from_cache")).height,
        pairs_sent_to_model=asked_network.height,
        judge_failures=failed,
        pairs_in_batches=in_batches_still,
        **{f"judge_{word}": number for word, number in usage.items()},
        **{f"judge_estimate_{word}": number for word, number in estimate.items()},
        **{f"verdict_{verdict.value}": counts.get(verdict.value, 0) for verdict in Verdict},
    )


def _told_before(step: Step) -> str | None:
    """The run whose answers are told again: the first of this week, or this one if it is over. None while it is going on."""
    if step.run.rerun_of is not None:
        return step.run.rerun_of
    return step.run.run_id if run_status(step.database, step.run.run_id) is not RunStatus.RUNNING else None


def _told_again(database: Database, corpus: str, fingerprint: str, run_id: str) -> pl.DataFrame:
    """What a network judge said in a run: its verdicts, and for the pairs it left open then, that they were open."""
    still_open = read_unanswered(database, run_id).select(list(REPLY_SCHEMA))
    known = read_verdicts(database, corpus, f"{fingerprint}/{TEXT_VERSION}").select(list(REPLY_SCHEMA))
    # The rule's own verdicts stand in the other frame: an offline run has none here.
    said = known.filter(pl.col("judge") != script.RULE_JUDGE).join(still_open, on=CACHE_KEY, how="anti")
    return pl.concat([still_open, said]).with_columns(pl.col("reason").is_in(list(JUDGE_FAILURES)).alias("failed"))


def answers(
    database: Database, corpus: str, judge: Judge[PairRequest, PairReply], pairs: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Replies of a judge to all pairs, from its cache where it has them; those that are no verdicts; and who was asked now.

    Verdicts are kept as they arrive: a step that is tried again does not ask a second time what was answered.
    """
    fingerprint = f"{judge.fingerprint}/{TEXT_VERSION}"
    known = read_verdicts(database, corpus, fingerprint).select(list(REPLY_SCHEMA))
    todo = unanswered(pairs, known)
    asked = requests(todo)
    replies = iter(judge.decide(asked))
    both, still_open = [known.with_columns(pl.lit(False).alias("failed"))], [reply_frame([], [])]
    for batch in in_batches(len(asked), _NETWORK_BATCH if judge.is_network else _RULE_BATCH):
        fresh = without_secrets(reply_frame(asked[batch], list(islice(replies, len(asked[batch])))), find_secrets)
        write_verdicts(database, fingerprint, fresh.filter("cacheable").drop("failed", "cacheable"))
        still_open.append(fresh.filter(~pl.col("cacheable")))
        both.append(fresh.drop("cacheable", "model"))
    return pl.concat(both), pl.concat(still_open), todo.select(CACHE_KEY)
