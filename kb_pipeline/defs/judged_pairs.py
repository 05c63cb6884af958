"""Labelled pairs, taken through the steps of a week: what a run would do with them. Nothing here knows Dagster.

Belongs here: the order of the steps, without a database. Each of them is the function that the asset of the same
name calls; there is no second way to decide a pair. What comes out is measured by the evaluation stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from importlib.resources import as_file
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.judges import Judge, choose_judge
from kb_pipeline.adapters.judges.rule import RuleJudge
from kb_pipeline.adapters.labelled_pairs import LabelledPairs, read_labelled_pairs
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.adapters.text_features import compute_features, with_features
from kb_pipeline.allpairs.candidates import owner_similarities
from kb_pipeline.gold import gold_pairs
from kb_pipeline.policy.model import Policy, Thresholds
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.conflicts import conflicts_over, record_conflicts
from kb_pipeline.stages.dedup import find_duplicates
from kb_pipeline.stages.dedup_words import limit_questions
from kb_pipeline.stages.evaluation import TOTAL, planned_actions, tally
from kb_pipeline.stages.judge import PairReply, PairRequest
from kb_pipeline.stages.judge_frames import (
    REPLY_SCHEMA,
    open_for_network,
    reply_frame,
    requests,
    unanswered,
    verdict_frame,
    with_texts,
    without_secrets,
)
from kb_pipeline.stages.merge import plan_merges
from kb_pipeline.stages.merge_bodies import checked_bodies
from kb_pipeline.stages.plan import PlanIdentity, build_plan
from kb_pipeline.vocabulary import Band, Mode

if TYPE_CHECKING:
    from kb_pipeline.adapters.encoder import Encoder

PairJudge = Judge[PairRequest, PairReply]
Vectors = npt.NDArray[np.float32]
Owners = npt.NDArray[np.int64]

_IDENTITY = PlanIdentity("labelled pairs", date(2020, 1, 6), datetime(2020, 1, 13, tzinfo=UTC), "", 0)
_KEYS = ["entry_id_l", "entry_id_r"]
_MEASURED: dict[tuple[str, str], dict[str, Any]] = {}
_GOLD_BODY_CHARS = 1_000_000
"""The gold set is ours: what a policy accepts from users is no matter here."""


@dataclass(frozen=True)
class PairVectors:
    """Vectors of the entries of labelled pairs, and the similarities in force for their model.

    ``vectors`` is float32 [W, d], rows of length 1; ``owner`` int64 [W], ascending: the row of the entry.
    """

    vectors: Vectors
    owner: Owners
    thresholds: Thresholds


def encode_pairs(
    labelled: LabelledPairs, encoder: Encoder, progress: Callable[[int, int], None] | None = None
) -> tuple[Vectors, Owners]:
    """Vectors of all entries and the entry each belongs to; each text is encoded once, whatever number of pairs it is in."""
    texts = labelled.entries["text"].unique().sort()
    vectors, owner = encoder.encode(texts.to_list(), progress)
    windows = np.bincount(owner, minlength=len(texts))
    first = np.concatenate([[0], np.cumsum(windows)[:-1]])
    place = pl.DataFrame({"text": texts, "first": first, "windows": windows})
    of_entry = labelled.entries.select("text").join(place, on="text", how="left", maintain_order="left")
    counts = of_entry["windows"].to_numpy()
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return vectors[np.repeat(of_entry["first"].to_numpy(), counts) + within], owners


def decide_pairs(
    labelled: LabelledPairs, policy: Policy, judge: PairJudge, found: PairVectors | None
) -> tuple[pl.DataFrame, int]:
    """What a run would do with each pair, in the order of ``labelled.pairs``, and on how many pairs the judge failed.

    Columns: those of ``labelled.pairs``, and similarity, band (null where a run would not look at the pair), verdict,
    judge, action, reason, specifics_only_l, specifics_only_r, is_candidate, lost_count. A pair that a run would not
    look at has the verdict of the rule, for the record, and the action ``keep``.

    Args:
        labelled: the pairs.
        policy: everything that decides.
        judge: who is asked about the candidates that the rule leaves open; the rule judge asks nobody.
        found: vectors, for candidates as a run finds them. None: every pair that the guards of the search let pass is
            a candidate, whatever its similarity, and needs no model.
    """
    entries = with_features(labelled.entries, _features(labelled.entries))
    keep = entries.select("entry_id", pl.lit("keep").alias("retire_decision"))
    if found is None:
        # One direction for all: the search then finds whatever scope, kind, state and marks allow.
        vectors, owner = np.ones((entries.height, 1), dtype=np.float32), np.arange(entries.height, dtype=np.int64)
        thresholds = Thresholds(1.0, 1.0, 1.0)
    else:
        vectors, owner, thresholds = found.vectors, found.owner, found.thresholds
    dedup = policy.dedup.model_copy(update={"max_pairs": max(policy.dedup.max_pairs, labelled.pairs.height)})
    candidates = find_duplicates(entries, keep, vectors, owner, dedup, thresholds).pairs
    if found is None:
        is_exact = pl.col("band") == Band.EXACT
        candidates = candidates.with_columns(
            pl.lit(None, pl.Float64).alias("similarity"),
            pl.when(is_exact).then("band").otherwise(pl.lit(Band.LEXICAL.value)).alias("band"),
        )
    verdicts, failed = _judged(_all_pairs(labelled, candidates, found), candidates, entries, judge, policy)
    if found is not None:
        # Labelled pairs are no corpus: what they ask is limited by its worth, not by its number.
        unlimited = policy.dedup.model_copy(update={"max_word_questions": labelled.pairs.height})
        verdicts = limit_questions(verdicts, entries, unlimited)
    plan = _plan(entries, verdicts.join(candidates, on=_KEYS, how="semi", maintain_order="left"), policy)
    decided = (
        labelled.pairs.join(
            verdicts.select(*_KEYS, "similarity", "verdict", "reason", "judge", "specifics_only_l", "specifics_only_r"),
            on=_KEYS,
            how="left",
            maintain_order="left",
        )
        .join(candidates.select(*_KEYS, "band"), on=_KEYS, how="left", maintain_order="left")
        .with_columns(
            pl.col("band").is_not_null().alias("is_candidate"),
            (pl.col("specifics_only_l").list.len() + pl.col("specifics_only_r").list.len()).alias("lost_count"),
        )
    )
    return planned_actions(decided, plan).with_columns(pl.coalesce("plan_reason", "reason").alias("reason")), failed


def judge_named(name: str | None, policy: Policy) -> PairJudge:
    """The judge of a policy, or another one by its name.

    Raises:
        UsageError: the judge needs a key that is not set.
    """
    chosen = policy.judge if name is None else policy.judge.model_copy(update={"name": name})
    return choose_judge(chosen, script)


def gold_measure(policy: Policy) -> dict[str, Any]:
    """Counts and rates of the rule judge on the shipped gold set, over all strata.

    Every pair is judged, whatever its similarity. Measured once a process for each set of values that can change it.
    """
    with as_file(gold_pairs()) as path:
        key = str(path), policy.model_dump_json(include={"dedup", "merge", "gates"})
        if key not in _MEASURED:
            labelled = read_labelled_pairs(path, max_body_chars=_GOLD_BODY_CHARS)
            _MEASURED[key] = tally(decide_pairs(labelled, policy, RuleJudge(script), None)[0])[TOTAL]
    return _MEASURED[key]


def pair_similarities(labelled: LabelledPairs, vectors: Vectors, owner: Owners) -> pl.Series:
    """The best cosine of any two windows of each pair, in the order of ``labelled.pairs``; null without vectors.

    Args:
        labelled: the pairs.
        vectors: float32 [W, d], rows of length 1.
        owner: int64 [W], ascending: the row of ``labelled.entries``.
    """
    row = labelled.entries.select("entry_id").with_row_index("row")
    left, right = (
        labelled.pairs.join(row, left_on=key, right_on="entry_id", how="left", maintain_order="left")["row"]
        .cast(pl.Int64)
        .to_numpy()
        for key in _KEYS
    )
    return pl.Series("similarity", owner_similarities(vectors, owner, left, right)).cast(pl.Float64).fill_nan(None)


def _features(entries: pl.DataFrame) -> pl.DataFrame:
    return compute_features(entries.select("content_hash", "text").unique("content_hash", maintain_order=True))


def _all_pairs(labelled: LabelledPairs, candidates: pl.DataFrame, found: PairVectors | None) -> pl.DataFrame:
    """PAIRS of all labelled pairs. What is no candidate counts as found by another signal, so that it can be judged."""
    pairs = labelled.pairs.select(_KEYS)
    if found is None:
        similarity = pl.Series("similarity", [None] * pairs.height, dtype=pl.Float64)
    else:
        similarity = pair_similarities(labelled, found.vectors, found.owner)
    return schemas.PAIRS.select(
        pairs.with_columns(similarity.clip(-1.0, 1.0).round(5))
        .join(candidates.select(*_KEYS, "band", "word_similarity"), on=_KEYS, how="left", maintain_order="left")
        .with_columns(pl.col("band").fill_null(Band.LEXICAL.value))
    )


def _judged(
    pairs: pl.DataFrame, candidates: pl.DataFrame, entries: pl.DataFrame, judge: PairJudge, policy: Policy
) -> tuple[pl.DataFrame, int]:
    """VERDICTS of all pairs, as judge_verdicts gives them, and how many candidates the judge failed on."""
    texts = with_texts(pairs, entries)
    rule, fresh = _replies(RuleJudge(script), texts)
    network = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean})
    if judge.judges_open_pairs:
        asked = texts.join(candidates, on=_KEYS, how="semi", maintain_order="left")
        network, _ = _replies(judge, open_for_network(asked, rule))
    verdicts = checked_bodies(
        entries, verdict_frame(texts, rule, network, fresh), policy.merge, max_body_chars=policy.load.max_body_chars
    )
    return verdicts, int(verdicts["failed"].sum())


def _replies(judge: PairJudge, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """REPLY_SCHEMA and failed, each pair of texts once, and the pairs that were asked."""
    todo = unanswered(texts, pl.DataFrame(schema=REPLY_SCHEMA))
    asked = requests(todo)
    replies = without_secrets(reply_frame(asked, list(judge.decide(asked))), find_secrets)
    return replies.drop("cacheable", "model"), todo


def _plan(entries: pl.DataFrame, verdicts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """PLAN of a first run over these entries, from their pairs alone."""
    return build_plan(
        _IDENTITY,
        entries,
        schemas.GATES.empty(),
        schemas.RETIREMENT.empty(),
        verdicts,
        plan_merges(entries, verdicts, policy.merge),
        record_conflicts(entries, verdicts),
        flags=schemas.FLAGS.empty(),
        replaced=schemas.REPLACED.empty(),
        outdated=schemas.OUTDATED.empty(),
        max_new={},
        queue=schemas.QUEUE.empty(),
        open_conflicts=set(),
        conflicts_over=partial(conflicts_over, schemas.CONFLICTS.empty(), entries),
        admit_to=policy.gates.admit_to,
        rule_keys={},
        mode=Mode.APPLY,
    )
