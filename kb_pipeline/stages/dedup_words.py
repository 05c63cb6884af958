"""Duplicate candidates by shared words (K6): pairs that say the same in words that the encoder puts too far apart.

Belongs here: the lexical half of the dedup stage, and what it may ask of people. Each text is its set of tokens, weighted
by how rare they are among the live entries of its tenant:

    weight of a token = ln((1 + n) / (1 + entries that hold it)) + 1        n = live entries of the tenant

and word similarity is the cosine of two such texts. An entry finds the ``word_neighbours`` most similar ones of its block
(scope and kind) from ``min_word_similarity`` on. Such a pair counts if the mean of its cosine and its word similarity is
``min_word_pair_score`` or more: neither signal is right often enough alone. What the vectors found as well keeps the band
they gave it. Machine-written records of one occasion look alike without saying the same, so this search leaves them out.

Many of these pairs are only about the same thing. Whoever reads the queue should not pay for that: a pair that stays
unsettled is a question only if cosine and words together say so and few others are better, and a judge with a budget sees
it after the pairs of the other bands. Two records of a machine are no question at all: each is a flag of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.allpairs.around import words_around
from kb_pipeline.allpairs.words import word_neighbours, word_rows
from kb_pipeline.policy.model import DedupPolicy
from kb_pipeline.text.records import beyond_title, is_record
from kb_pipeline.text.tokens import token_sets
from kb_pipeline.vocabulary import LIVE_STATES, Band, ReasonCode, State, Verdict

Rows = npt.NDArray[np.int64]

_NEAR = {"l": pl.Int64, "r": pl.Int64, "word_similarity": pl.Float64}
_FOUND = {"l": pl.Int64, "r": pl.Int64, "similarity": pl.Float64, "word_similarity": pl.Float64}


_MAX_ENTRIES_OF_A_TITLE = 10
"""A title that more entries share is a label, and says nothing about any two of them."""


def pairs_by_words(
    entries: pl.DataFrame,
    searched: pl.DataFrame,
    known: pl.DataFrame,
    policy: DedupPolicy,
    cosines: Callable[[Rows, Rows], npt.NDArray[np.float64]],
    *,
    around: npt.NDArray[np.int64] | None = None,
) -> tuple[pl.DataFrame, int]:
    """Columns l, r (rows of ``entries``, l < r), similarity, word_similarity of new pairs; and how many max_pairs cut off.

    The pairs are sorted by (l, r).

    Args:
        entries: ENTRIES; tokens are counted over its live ones.
        searched: columns row (of ``entries``) and block; rows of different blocks never meet.
        known: columns l and r, the pairs that are found already. They count against max_pairs.
        policy: neighbours, floors and limit.
        cosines: similarity of the texts of two rows each (-1 to 1), NaN where one has no vectors.
        around: int64, rows of ``entries``: only what these find, and what bears the same title as one of them. None: all.
    """
    if policy.word_neighbours and policy.skip_machine_records:
        records = entries.select(is_record(beyond_title()).fill_null(False)).to_series()
        searched = searched.filter(~records.gather(searched["row"]))
    if policy.word_neighbours == 0 or searched.height < 2:
        return pl.DataFrame(schema=_FOUND), 0
    places = searched.select(pl.col("row").cast(pl.Int64), "block").with_row_index("place")
    words = weighted_words(entries).join(places.select("row", "place"), on="row")
    rows = word_rows(
        words["place"].cast(pl.Int64).to_numpy(),
        (words["token"].rank("dense").cast(pl.Int64) - 1).to_numpy(),
        words["weight"].to_numpy(),
        places.height,
    )
    block = places["block"].to_numpy()
    titles = np.full(places.height, -1, dtype=np.int64)
    if around is None:
        near = word_neighbours(rows, block, policy.word_neighbours, policy.min_word_similarity)
    else:
        asking = np.flatnonzero(places["row"].is_in(around).to_numpy())
        titles = _titles(entries)[places["row"].to_numpy()]
        near = words_around(rows, block, asking, policy.word_neighbours, policy.min_word_similarity, titles)
    row = places["row"].to_numpy()
    # A block's rows come in the order of the entries, so the smaller place is the smaller row.
    found = pl.DataFrame({"l": row[near.i], "r": row[near.j], "word_similarity": near.similarity}, schema=_NEAR)
    found = found.with_columns(one_title=(titles[near.i] >= 0) & (titles[near.i] == titles[near.j]))
    new = found.join(known.cast({"l": pl.Int64, "r": pl.Int64}), on=["l", "r"], how="anti", maintain_order="left")
    cosine = pl.Series("similarity", cosines(new["l"].to_numpy(), new["r"].to_numpy()), dtype=pl.Float64)
    worth = new.with_columns(cosine.fill_nan(None)).filter(
        (question_score() >= policy.min_word_pair_score) | pl.col("one_title")
    )
    kept = worth.sort("word_similarity", "l", "r", descending=[True, False, False]).head(
        max(0, policy.max_pairs - known.height)
    )
    return kept.select(list(_FOUND)).sort("l", "r"), worth.height - kept.height


def _titles(entries: pl.DataFrame) -> npt.NDArray[np.int64]:
    """int64, a number for each title in normal form (case, signs and spaces aside); -1 where few or too many words are shared.

    Args:
        entries: ENTRIES.
    """
    live = pl.col("state").is_in(LIVE_STATES)
    title = (
        pl.col("title")
        .str.normalize("NFKC")
        .str.to_lowercase()
        .str.replace_all(r"[^\p{L}\p{N}]+", " ")
        .str.strip_chars()
    )
    shared = entries.select(live.alias("live"), title.alias("title"), pl.struct("scope", "kind").alias("place"))
    counted = shared.select(
        pl.struct("place", "title").rank("dense").cast(pl.Int64).alias("number"),
        pl.col("live").sum().over("place", "title").alias("holders"),
        "live",
        (pl.col("title").str.len_chars() > 0).alias("says"),
    )
    is_shared = pl.col("live") & pl.col("says") & pl.col("holders").is_between(2, _MAX_ENTRIES_OF_A_TITLE)
    return counted.select(pl.when(is_shared).then("number").otherwise(-1)).to_series().to_numpy()


def weighted_words(entries: pl.DataFrame) -> pl.DataFrame:
    """Columns row (Int64), token and weight (Float64, above 0) of the distinct tokens of each live entry.

    Args:
        entries: ENTRIES.
    """
    live = (
        entries.select("tenant", "text", "state")
        .with_row_index("row")
        .filter(pl.col("state").is_in(LIVE_STATES))
        .with_columns(pl.col("tenant").rank("dense").fill_null(0), pl.len().over("tenant").alias("entry_count"))
        .with_row_index("place")
    )
    held = pl.len().over("tenant", "token")
    return (
        token_sets(live["text"])
        .join(live.select("place", "row", "tenant", "entry_count"), left_on="row", right_on="place")
        .select(
            pl.col("row_right").cast(pl.Int64).alias("row"),
            "token",
            (((1 + pl.col("entry_count")) / (1 + held)).log() + 1).alias("weight"),
        )
    )


def question_score() -> pl.Expr:
    """How likely a pair found by words is worth a person's time, 0 to 1: mean of its cosine and its word similarity.

    The two err in different places, so their mean is a better guide than the words alone (docs/measurements.md). Where the
    model has no vectors for a text, in a script that it does not know for instance, the words are all there is.
    """
    return (pl.coalesce("similarity", "word_similarity") + pl.col("word_similarity")) / 2


def limit_questions(verdicts: pl.DataFrame, entries: pl.DataFrame, policy: DedupPolicy) -> pl.DataFrame:
    """VERDICTS in which unsettled pairs are kept, and not asked about, unless they are worth it. Same rows, same order.

    Two machine-written records of one occasion each are never a question, in whatever band: their reason becomes
    ``judge.machine_records``. Of the pairs found by words those below min_word_question_score are none (``judge.far_apart``).
    Of the others each tenant gets the best ones, so many for every hundred of its active entries that has begun; the reason
    of the rest is ``judge.queue_full``. What a model has read and doubts stays a question, whatever the score.

    Args:
        verdicts: VERDICTS.
        entries: ENTRIES.
        policy: whether records are left out, the least score of a question, and how many there may be.
    """
    facts = entries.select(
        pl.col("entry_id"),
        pl.col("tenant").fill_null("\x00"),
        ((pl.col("state") == State.ACTIVE).sum().over("tenant") / 100).ceil().alias("hundreds"),
        (pl.lit(policy.skip_machine_records) & is_record(beyond_title()).fill_null(False)).alias("is_record"),
    )
    records = facts.filter("is_record")["entry_id"].implode()
    is_open = (pl.col("verdict") == Verdict.UNSURE) & pl.col("judge_confidence").is_null()
    of_records = is_open & pl.col("entry_id_l").is_in(records) & pl.col("entry_id_r").is_in(records)
    by_words = is_open & (pl.col("band") == Band.LEXICAL)
    is_near = question_score() >= policy.min_word_question_score
    asked = (
        verdicts.filter(by_words & is_near & ~of_records)
        .join(facts, left_on="entry_id_l", right_on="entry_id")
        .sort(-question_score(), "entry_id_l", "entry_id_r")
        .filter(pl.int_range(pl.len()).over("tenant") < pl.col("hundreds") * policy.max_word_questions)
        .select("entry_id_l", "entry_id_r", pl.lit(True).alias("is_asked"))
    )
    is_kept = of_records | (by_words & pl.col("is_asked").is_null())
    why = (
        pl.when(of_records)
        .then(pl.lit(ReasonCode.JUDGE_MACHINE_RECORDS.value))
        .when(is_near)
        .then(pl.lit(ReasonCode.JUDGE_QUEUE_FULL.value))
        .otherwise(pl.lit(ReasonCode.JUDGE_FAR_APART.value))
    )
    limited = verdicts.join(asked, on=["entry_id_l", "entry_id_r"], how="left", maintain_order="left").with_columns(
        pl.when(is_kept).then(pl.lit(Verdict.KEEP_BOTH.value)).otherwise("verdict").alias("verdict"),
        pl.when(is_kept).then(why).otherwise("reason").alias("reason"),
    )
    return schemas.VERDICTS.select(limited)


def strongest_first(pairs: pl.DataFrame) -> pl.DataFrame:
    """The same pairs, those found by words at the end and the best of them first: a judge's budget is spent in this order."""
    is_lexical = pl.col("band") == Band.LEXICAL
    return pairs.sort(is_lexical, -pl.when(is_lexical).then(question_score()).fill_null(0.0), maintain_order=True)
