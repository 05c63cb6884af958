"""The judge stage as frames: which pairs are asked what, and what the replies make of them (K7-K9, X1).

Belongs here: the join of pairs, entries and replies. Every pair is first judged by rule; a network judge is asked only about
what the rule leaves open, and never sees a text that holds a secret, is restricted, or speaks to the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.stages.judge import PairReply, PairRequest
from kb_pipeline.text.specifics import ledger_difference
from kb_pipeline.vocabulary import Band, Kind, ReasonCode, Sensitivity, Verdict

CACHE_KEY = ["content_hash_l", "content_hash_r", "kind_l", "kind_r"]
REPLY_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "content_hash_l": pl.String,
    "content_hash_r": pl.String,
    "kind_l": pl.String,
    "kind_r": pl.String,
    "verdict": pl.String,
    "reason": pl.String,
    "judge": pl.String,
    "judge_confidence": pl.Float64,
    "explanation": pl.String,
    "specifics_only_l": pl.List(pl.String),
    "specifics_only_r": pl.List(pl.String),
    "superseded_side": pl.String,
    "suggested_body": pl.String,
    "body_fault": pl.String,
}
"""A reply about two texts: what the verdict cache holds, in its order."""


def with_texts(pairs: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """PAIRS with hash, kind, text and what may be sent of both sides: same rows, same order.

    Adds content_hash_*, kind_*, text_* and withheld (a reason code, null where a network judge may see the pair).
    """
    facts = entries.select("entry_id", "content_hash", "kind", "text", "secret_kinds", "sensitivity", "addresses_judge")
    joined = pairs
    for side in ("l", "r"):
        joined = joined.join(
            facts.rename({name: f"{name}_{side}" for name in facts.columns}),
            on=f"entry_id_{side}",
            how="left",
            maintain_order="left",
        )
    secret = pl.any_horizontal(pl.col("secret_kinds_l", "secret_kinds_r").list.len() > 0)
    restricted = pl.any_horizontal(pl.col("sensitivity_l", "sensitivity_r") == Sensitivity.RESTRICTED)
    addressed = pl.any_horizontal("addresses_judge_l", "addresses_judge_r")
    withheld = (
        pl.when(secret)
        .then(pl.lit(ReasonCode.JUDGE_SECRET.value))
        .when(restricted)
        .then(pl.lit(ReasonCode.JUDGE_NOT_ALLOWED.value))
        .when(addressed)
        .then(pl.lit(ReasonCode.JUDGE_ADDRESSED.value))
    )
    return joined.select(
        *pairs.columns, *(f"{n}_{s}" for n in ("content_hash", "kind", "text") for s in ("l", "r")),
        withheld.alias("withheld"),
    )  # fmt: skip


def unanswered(pairs: pl.DataFrame, replies: pl.DataFrame) -> pl.DataFrame:
    """The pairs that ``replies`` (REPLY_SCHEMA) says nothing about, each pair of texts once."""
    return pairs.join(replies, on=CACHE_KEY, how="anti", maintain_order="left").unique(
        CACHE_KEY, keep="first", maintain_order=True
    )


def requests(pairs: pl.DataFrame) -> list[PairRequest]:
    """One request per pair, in their order; the pair id is the row number."""
    return [
        PairRequest(
            pair_id=str(number),
            entry_id_l=row["entry_id_l"],
            entry_id_r=row["entry_id_r"],
            content_hash_l=row["content_hash_l"],
            content_hash_r=row["content_hash_r"],
            kind_l=Kind(row["kind_l"]),
            kind_r=Kind(row["kind_r"]),
            text_l=row["text_l"],
            text_r=row["text_r"],
            similarity=row["similarity"],
            band=Band(row["band"]),
        )
        for number, row in enumerate(pairs.iter_rows(named=True))
    ]


def reply_frame(
    asked: Sequence[PairRequest],
    replies: Sequence[PairReply],
    known_specifics: Mapping[tuple[str, str], tuple[list[str], list[str]]] | None = None,
) -> pl.DataFrame:
    """REPLY_SCHEMA plus failed, cacheable and model, one row per reply; specifics are taken from both raw texts."""
    known = known_specifics or {}
    rows = []
    for request, reply in zip(asked, replies, strict=True):
        only_l, only_r = known.get((request.content_hash_l, request.content_hash_r)) or ledger_difference(
            request.text_l, request.text_r
        )
        rows.append(
            {
                "content_hash_l": request.content_hash_l,
                "content_hash_r": request.content_hash_r,
                "kind_l": request.kind_l.value,
                "kind_r": request.kind_r.value,
                "verdict": reply.verdict.value,
                "reason": reply.reason.value,
                "judge": reply.judge,
                "judge_confidence": reply.judge_confidence,
                "explanation": reply.explanation,
                "specifics_only_l": only_l,
                "specifics_only_r": only_r,
                "superseded_side": reply.superseded_side,
                "suggested_body": reply.suggested_body,
                "body_fault": None if reply.body_fault is None else reply.body_fault.value,
                "failed": reply.failed,
                "cacheable": reply.cacheable,
                "model": reply.model,
            }
        )
    return pl.DataFrame(rows, schema=REPLY_SCHEMA | {"failed": pl.Boolean, "cacheable": pl.Boolean, "model": pl.String})


def without_secrets(replies: pl.DataFrame, kinds_of: Callable[[list[str]], Sequence[Sequence[str]]]) -> pl.DataFrame:
    """Replies without the suggested bodies that seem to hold a secret: same rows, same order.

    A model may make one up, or copy what no detector saw in the entries: it goes no further, into no cache either.

    Args:
        replies: columns of REPLY_SCHEMA, at least.
        kinds_of: kinds of secret found in each of these texts.
    """
    bodies = replies["suggested_body"].drop_nulls().unique(maintain_order=True).to_list()
    told = [body for body, kinds in zip(bodies, kinds_of(bodies) if bodies else [], strict=True) if kinds]
    is_told = pl.col("suggested_body").is_in(told).fill_null(False)
    return replies.with_columns(
        pl.when(is_told).then(None).otherwise("suggested_body").alias("suggested_body"),
        pl.when(is_told).then(pl.lit(ReasonCode.MERGE_BODY_SECRET.value)).otherwise("body_fault").alias("body_fault"),
    )


def open_for_network(pairs: pl.DataFrame, rule_replies: pl.DataFrame) -> pl.DataFrame:
    """The pairs that the rule leaves open and whose texts may leave the machine, the most similar first.

    A budget that does not reach for all is spent where a duplicate is most likely; the rest waits for the next run. What
    the rule merges needs no judge; what it sees as a contradiction or a value difference no judge may overrule.
    """
    settled = rule_replies.filter(pl.col("verdict").is_in([Verdict.MERGE, Verdict.CONFLICT])).select(CACHE_KEY)
    still_open = pairs.filter(pl.col("withheld").is_null()).join(
        settled, on=CACHE_KEY, how="anti", maintain_order="left"
    )
    return still_open.sort("similarity", descending=True, nulls_last=True, maintain_order=True)


def verdict_frame(
    pairs: pl.DataFrame, rule_replies: pl.DataFrame, network_replies: pl.DataFrame, fresh: pl.DataFrame
) -> pl.DataFrame:
    """VERDICTS: same rows, same order as ``pairs``. A network reply stands over the rule's.

    Suggested bodies are as the judge gave them; ``merge_bodies.checked_bodies`` says which of them may be suggested.

    Args:
        pairs: PAIRS with texts, see ``with_texts``.
        rule_replies: a reply of the rule judge for every pair.
        network_replies: replies of the network judge (REPLY_SCHEMA plus failed), where there are any.
        fresh: columns of CACHE_KEY: the pairs of texts that were judged in this run.
    """
    columns = list(REPLY_SCHEMA)
    empty = pl.DataFrame(schema=REPLY_SCHEMA | {"failed": pl.Boolean})
    network = network_replies.select(*columns, "failed") if network_replies.height else empty
    rule = rule_replies.select(*columns, pl.lit(False).alias("failed")).join(network, on=CACHE_KEY, how="anti")
    joined = pairs.join(
        pl.concat([network, rule]).unique(CACHE_KEY, keep="first", maintain_order=True),
        on=CACHE_KEY,
        how="left",
        maintain_order="left",
    ).join(
        fresh.select(CACHE_KEY).unique().with_columns(pl.lit(False).alias("from_cache")),
        on=CACHE_KEY,
        how="left",
        maintain_order="left",
    )
    return schemas.VERDICTS.select(joined.with_columns(pl.col("from_cache").fill_null(True)))
