"""The job of a pass over recent entries, and the sensor that starts it every half hour (P2).

A pass is of one corpus and of no week, so the job is partitioned by corpus alone. The sensor knows the corpora of the
moment, and asks for a pass only where something came or changed since the last one.
"""

import dagster as dg

from kb_pipeline.adapters.exporting import known_corpora
from kb_pipeline.adapters.passes import open_pass, why_due
from kb_pipeline.adapters.runs import load_counts
from kb_pipeline.defs.clock import now, open_database
from kb_pipeline.defs.corpus_lock import CorpusLock
from kb_pipeline.defs.curator import run_pass
from kb_pipeline.defs.failures import as_failure
from kb_pipeline.defs.partitions import corpora
from kb_pipeline.defs.processes import CORPUS_TAG, UNFINISHED
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.errors import CorpusBusyError, UsageError
from kb_pipeline.vocabulary import Mode, Profile, RunStatus

EVERY_SECONDS = 30 * 60


# Dagster takes an annotated None for an output, and there is none.
@dg.op(out={}, tags={"kind": "postgres"})
def ask_about_recent_entries(  # type: ignore[no-untyped-def]
    context: dg.OpExecutionContext,
    knowledge_base: KnowledgeBase,
    curation: Curation,
    corpus_lock: CorpusLock,
):
    """Looks at the recent entries of a corpus by rule and, where a network judge is in force, by a model; only asks."""
    del corpus_lock  # it is held as long as the run
    with as_failure():
        _pass(context, knowledge_base, curation)


def _pass(context: dg.OpExecutionContext, knowledge_base: KnowledgeBase, curation: Curation) -> None:
    corpus = context.partition_key
    curation = as_curator(curation)
    policy = curation.policy(corpus)
    database = knowledge_base.database
    run = open_pass(
        database,
        run_id=context.run.run_id,
        corpus=corpus,
        profile=curation.profile,
        policy_fingerprint=policy.fingerprint,
        actor=curation.who,
        now=now(),
    )
    status = run_pass(knowledge_base, policy, run, context.log.info)
    counts = load_counts(database, run.run_id)
    if status is RunStatus.HALTED:
        raise dg.Failure("the pass was halted by its checks; nothing was asked", allow_retries=False)
    asked = ", ".join(f"{number} {word}" for word, number in counts["asked"].items()) or "nothing"
    context.log.info(f"asked: {asked}. {counts['window']} recent entries of {counts['entries']} were looked at.")
    if status is RunStatus.DEGRADED:
        context.log.warning("the judge failed in part: what it did not answer is asked again by a later pass")


def as_curator(curation: Curation) -> Curation:
    """How a pass was asked for: under its own profile unless another one was named.

    Raises:
        UsageError: it was asked to apply something.
    """
    if curation.mode == Mode.APPLY:
        raise UsageError("a pass of the curator only recommends: leave mode away, or set it to recommend")
    if curation.profile not in (Curation().profile, Profile.CURATOR):
        raise UsageError(f"a pass runs under profile {Profile.CURATOR}, not {curation.profile}")
    return curation.model_copy(update={"profile": Profile.CURATOR.value})


@dg.job(
    partitions_def=corpora,
    executor_def=dg.in_process_executor,
    description=(
        "A pass of the curator over the recent entries of one corpus: duplicates, conflicts and flags go to the review "
        "queue, and nothing is applied. It is no week and changes no week."
    ),
)
def curator_pass() -> None:
    """One step: what it keeps on its way are answers, which no later attempt pays for again."""
    ask_about_recent_entries()


@dg.sensor(
    # By its name: given the job itself, Dagster makes the sensor a second time and warns of it.
    job_name=curator_pass.name,
    minimum_interval_seconds=EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Every half hour: a pass of the curator for each corpus in which something came or changed since its last pass. "
        "A corpus that somebody works on is left for the next time."
    ),
)
def curator_passes(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """One run request for every corpus with something new."""
    database = open_database()
    known = set(context.instance.get_dynamic_partitions("corpus"))
    requests, waiting, added = [], [], []
    for corpus in known_corpora(database):
        due = why_due(database, corpus)
        busy = _who_works_on(context.instance, corpus) if due is not None else None
        if due is None or busy is not None:
            waiting.append(f"{corpus}: {busy or 'nothing new since the last pass'}")
            continue
        context.log.info(f"{corpus}: {due}")
        requests.append(dg.RunRequest(partition_key=corpus, tags={CORPUS_TAG: corpus}))
        if corpus not in known:
            added.append(corpus)
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[corpora.build_add_request(added)] if added else [],
        skip_reason=None if requests else dg.SkipReason("; ".join(waiting) or "there is no corpus yet: kb import"),
    )


def _who_works_on(instance: dg.DagsterInstance, corpus: str) -> str | None:
    """Who works on a corpus now or is about to, in words; None when nobody does."""
    working = instance.get_runs(dg.RunsFilter(tags={CORPUS_TAG: corpus}, statuses=UNFINISHED), limit=1)
    if working:
        return f"run {working[0].run_id} is at work or waits for its turn"
    try:
        with open_database().corpus_lock(corpus):
            return None
    except CorpusBusyError:
        return "a command works on it"
