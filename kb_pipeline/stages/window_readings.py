"""Which recent texts a model reads together, and which it has read before (P2).

Belongs here: the choice. A reading stays within one scope and one group of kinds, so that whatever the model confuses, it
confuses within what may be compared at all. A text is a reason to ask once; texts that were read before only ride along
where they may be the other half of a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from kb_pipeline.policy.judging import CuratorPolicy
from kb_pipeline.stages.window import Reading, WindowText
from kb_pipeline.vocabulary import LIVE_STATES, Kind, Sensitivity

READ_KEY = ["scope", "kind", "content_hash"]
"""A text in its place: what a model has read is remembered by it."""

_WHY = (Kind.DECISION, Kind.ARCHITECTURE_DECISION)
_HOW = (Kind.SKILL, Kind.RUNBOOK)


def kind_group() -> pl.Expr:
    """``why`` for decisions, ``how`` for skills and runbooks, ``what`` for all other kinds."""
    kind = pl.col("kind")
    return (
        pl.when(kind.is_in([each.value for each in _WHY]))
        .then(pl.lit("why"))
        .when(kind.is_in([each.value for each in _HOW]))
        .then(pl.lit("how"))
        .otherwise(pl.lit("what"))
    )


def plan_readings(
    entries: pl.DataFrame,
    window: pl.Series,
    pairs: pl.DataFrame,
    known: pl.DataFrame,
    policy: CuratorPolicy,
    *,
    max_text_chars: int,
) -> tuple[list[Reading], int]:
    """The readings of a pass, the newest texts first, and how many texts wait for the next one.

    Never part of a reading: a text that holds a secret, is restricted, speaks to a judge, is too long, or is not live.

    Args:
        entries: ENTRIES.
        window: ids of the recent entries, the newest first.
        pairs: PAIRS that may be duplicates: the other half rides along.
        known: columns of READ_KEY: texts that were read before.
        policy: how many readings, and how large.
        max_text_chars: a longer text is never sent (code points).
    """
    may_go = entries.filter(
        pl.col("state").is_in(LIVE_STATES)
        & (pl.col("secret_kinds").list.len() == 0)
        & (pl.col("sensitivity") != Sensitivity.RESTRICTED)
        & ~pl.col("addresses_judge")
        & (pl.col("text").str.len_chars() <= min(max_text_chars, policy.max_call_chars))
        & (pl.col("text").str.strip_chars() != "")
    ).with_columns(kind_group().alias("group"))
    order = pl.DataFrame({"entry_id": window}, schema={"entry_id": pl.String}).with_row_index("place")
    texts = (
        may_go.join(order, on="entry_id", how="left", maintain_order="left")
        .sort("place", nulls_last=True, maintain_order=True)
        .unique(READ_KEY, keep="first", maintain_order=True)
        .join(known.select(READ_KEY).unique().with_columns(pl.lit(True).alias("is_read")), on=READ_KEY, how="left",
              maintain_order="left")
        .with_columns(pl.col("is_read").fill_null(False), pl.col("place").is_not_null().alias("is_recent"))
    )  # fmt: skip
    recent = texts.filter("is_recent")
    place_of = {entry: place for entry, *place in texts.select("entry_id", "scope", "group").iter_rows()}
    text_of = {
        row["entry_id"]: WindowText(row["entry_id"], row["kind"], row["content_hash"], row["text"])
        for row in texts.join(_worth_showing(recent, pairs), on="entry_id", how="semi").iter_rows(named=True)
    }
    partners = _partners(pairs, place_of)
    readings: list[Reading] = []
    left = 0
    for (scope, _), group in recent.group_by("scope", "group", maintain_order=True):
        unread = group.filter(~pl.col("is_read"))["entry_id"].to_list()
        read = group.filter("is_read")["entry_id"].to_list()
        for chosen, asked_for in _chunks(unread, read, partners, text_of, policy):
            if len(readings) >= policy.max_calls:
                left += asked_for
                continue
            readings.append(Reading(str(scope), tuple(text_of[entry] for entry in chosen)))
    return readings, left


def texts_read(readings: Iterable[Reading]) -> pl.DataFrame:
    """Columns of READ_KEY: all texts of these readings."""
    rows = [(reading.scope, text.kind, text.content_hash) for reading in readings for text in reading.texts]
    return pl.DataFrame(rows, schema=dict.fromkeys(READ_KEY, pl.String), orient="row").unique(maintain_order=True)


def _worth_showing(recent: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Ids of the recent entries and of whatever may be the other half of a pair with one of them."""
    sides = [recent.select("entry_id"), *(pairs.select(pl.col(side).alias("entry_id")) for side in _SIDES)]
    return pl.concat(sides).unique()


_SIDES = ("entry_id_l", "entry_id_r")


def _partners(pairs: pl.DataFrame, place_of: dict[str, list[str]]) -> dict[str, list[str]]:
    """For each entry the others that it may be a duplicate of, within its place, the most similar first."""
    found: dict[str, list[str]] = {}
    strength = pl.coalesce("similarity", "word_similarity", 0.0)
    for left, right in pairs.sort(-strength, *_SIDES).select(_SIDES).iter_rows():
        if left in place_of and place_of[left] == place_of.get(right):
            found.setdefault(left, []).append(right)
            found.setdefault(right, []).append(left)
    return found


def _chunks(
    unread: list[str],
    read: list[str],
    partners: dict[str, list[str]],
    text_of: dict[str, WindowText],
    policy: CuratorPolicy,
) -> Iterator[tuple[list[str], int]]:
    """Ids of one reading after another, and how many of them were not read before."""
    waiting = list(unread)
    fresh = set(unread)
    while waiting:
        chosen: list[str] = []
        room = policy.max_call_chars

        def take(entry: str, chosen: list[str] = chosen) -> bool:
            nonlocal room
            size = len(text_of[entry].text)
            if entry in chosen or len(chosen) >= policy.max_entries_per_call or size > room:
                return False
            chosen.append(entry)
            room -= size
            return True

        for entry in list(waiting):
            if entry in chosen:
                continue
            if not take(entry):
                break
            for partner in partners.get(entry, ()):
                take(partner)
        taken = [entry for entry in chosen if entry in fresh]
        fresh.difference_update(taken)
        waiting = [entry for entry in waiting if entry in fresh]
        for entry in read:
            take(entry)
        yield chosen, len(taken)
