"""The text that a judge suggests for two entries (X1, behaviour 13): which of them may even be shown to a person.

A suggested text stands for both entries once a person accepts it, so it is held against both: it may lose nothing that
either pins down (numbers, names, paths, negations), pin down nothing that neither does, be neither much shorter than the
shorter nor longer than both together, and be made of their words. Nothing is cut to fit. What does not pass is refused with
its reason; the entries stay as they are and a person is asked. What passes is a suggestion: no rule ever applies it.

    after     = title of the entry that stays, when it has one of its own, and the suggested body
    lost      = (specifics(a) ∪ specifics(b)) - specifics(after)      ∪: the larger count of each
    invented  = specifics(after) that neither a nor b holds at all
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import MergePolicy
from kb_pipeline.prompts import PAIR_PROMPT, load_prompt
from kb_pipeline.stages.merge import winner_rank
from kb_pipeline.text.injection import addresses_judge
from kb_pipeline.text.normalise import entry_text
from kb_pipeline.text.specifics import Specific, difference, specifics
from kb_pipeline.text.tokens import token_sets
from kb_pipeline.vocabulary import ReasonCode

RULE_KEYS = {
    ReasonCode.MERGE_BODY_TOO_SHORT: "merge.min_body_share",
    ReasonCode.MERGE_BODY_TOO_LONG: "merge.max_body_share",
    ReasonCode.MERGE_BODY_STRANGE: "merge.max_new_word_share",
}
"""Reason code -> policy key; the other grounds are no matter of policy."""

_TELLING_RUN_WORDS = 7
"""So many words of the prompt in a row, in a suggested text, were copied and not written."""

_MAX_LISTED = 12
_MAX_DETAIL_CHARS = 600


@dataclass(frozen=True)
class Fault:
    """Why a suggested text is refused, and what it loses or invents, in words."""

    reason: ReasonCode
    detail: str | None = None


def body_fault(
    body: str, text_l: str, text_r: str, after: str, policy: MergePolicy, *, max_body_chars: int
) -> Fault | None:
    """Why this text may not be suggested for the two, or None.

    Args:
        body: the suggested text.
        text_l: text of the one entry.
        text_r: text of the other.
        after: the text of the entry that stays, with this body.
        policy: bounds of length and of strange words.
        max_body_chars: the longest body of an entry (load.max_body_chars).
    """
    if not body.strip():
        return Fault(ReasonCode.MERGE_BODY_EMPTY)
    if len(body) > min(max_body_chars, policy.max_body_share * (len(text_l) + len(text_r))):
        return Fault(
            ReasonCode.MERGE_BODY_TOO_LONG, f"{len(body):,} characters for {len(text_l):,} and {len(text_r):,}"
        )
    if _speaks_to_a_judge(body, text_l, text_r):
        return Fault(ReasonCode.MERGE_BODY_ADDRESSES_JUDGE)
    if len(after) < policy.min_body_share * min(len(text_l), len(text_r)):
        return Fault(
            ReasonCode.MERGE_BODY_TOO_SHORT, f"{len(body):,} characters for {len(text_l):,} and {len(text_r):,}"
        )
    held_l, held_r, held = specifics(text_l), specifics(text_r), specifics(after)
    if lost := difference(held_l | held_r, held)[0]:
        return Fault(ReasonCode.MERGE_SPECIFICS_LOST, _listed(lost))
    unknown: Counter[Specific] = Counter({one: 1 for one in held if one not in held_l and one not in held_r})
    if invented := difference(unknown, Counter())[0]:
        return Fault(ReasonCode.MERGE_SPECIFICS_INVENTED, _listed(invented))
    if _new_word_share(body, text_l, text_r) > policy.max_new_word_share:
        return Fault(ReasonCode.MERGE_BODY_STRANGE)
    return None


def checked_bodies(
    entries: pl.DataFrame, verdicts: pl.DataFrame, policy: MergePolicy, *, max_body_chars: int
) -> pl.DataFrame:
    """VERDICTS, same rows and order: a suggested body that does not pass is taken out, ``body_fault`` says why.

    The explanation of such a row goes on with the ground, and with what the text loses or invents.

    Args:
        entries: ENTRIES.
        verdicts: VERDICTS; suggested bodies as the judge gave them.
        policy: bounds, and the order that says which entry stays.
        max_body_chars: the longest body of an entry (load.max_body_chars).
    """
    suggested = verdicts.filter(pl.col("suggested_body").is_not_null())
    rank = dict(winner_rank(entries, policy).iter_rows()) if suggested.height else {}
    ids = pl.concat([suggested["entry_id_l"], suggested["entry_id_r"]]).unique()
    facts = {
        row["entry_id"]: row
        for row in entries.filter(pl.col("entry_id").is_in(ids.implode()))
        .select("entry_id", "text", "title", "has_title")
        .iter_rows(named=True)
    }
    # Only pairs that a model calls the same come here: few, and never the corpus.
    rows = []
    for left_id, right_id, body in suggested.select("entry_id_l", "entry_id_r", "suggested_body").iter_rows():
        left, right = facts[left_id], facts[right_id]
        stays = left if rank[left_id] < rank[right_id] else right
        after = entry_text(stays["title"] if stays["has_title"] else None, body)
        fault = body_fault(body, left["text"], right["text"], after, policy, max_body_chars=max_body_chars)
        if fault is not None:
            rows.append((left_id, right_id, fault.reason.value, fault.detail))
    schema = dict.fromkeys(("entry_id_l", "entry_id_r", "found", "detail"), pl.String)
    refused = pl.DataFrame(rows, schema=schema, orient="row")
    ground = pl.coalesce("found", "body_fault")
    words = pl.concat_str(
        pl.col("explanation"),
        pl.format("Its text for both was refused ({}{}).", ground, pl.concat_str(pl.lit(": "), "detail").fill_null("")),
        separator=" ",
        ignore_nulls=True,
    )
    return schemas.VERDICTS.select(
        verdicts.join(refused, on=["entry_id_l", "entry_id_r"], how="left", maintain_order="left").with_columns(
            pl.when(pl.col("found").is_null()).then("suggested_body").alias("suggested_body"),
            ground.alias("body_fault"),
            pl.when(ground.is_null()).then("explanation").otherwise(words).alias("explanation"),
        )
    )


def _speaks_to_a_judge(body: str, text_l: str, text_r: str) -> bool:
    """Whether the text tells a judge what to answer, or repeats what the judge was told, and the entries do not."""
    if addresses_judge(body):
        return True
    prompt = load_prompt(PAIR_PROMPT)
    told = _runs(f"{prompt.instructions}\n{prompt.question}") & _runs(body)
    if told - _runs(text_l) - _runs(text_r):
        return True
    seen, said = f"{text_l}\n{text_r}".lower(), body.lower()
    return any(mark in said and mark not in seen for mark in _MARKS)


_MARKS = ("<entry_a", "<entry_b", "</entry_a", "</entry_b", '"merged_body"')
"""What a suggested text copies from the form of a prompt or a reply."""


def _runs(text: str) -> set[tuple[str, ...]]:
    """Every run of _TELLING_RUN_WORDS words in a row."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + _TELLING_RUN_WORDS]) for at in range(len(words) - _TELLING_RUN_WORDS + 1)}


def _new_word_share(body: str, text_l: str, text_r: str) -> float:
    """Share of the distinct words of a text that stand in neither of the other two, 0 to 1; 0 without words."""
    words = token_sets(pl.Series([body, text_l, text_r]))
    own = words.filter(pl.col("row") == 0)["token"]
    known = words.filter(pl.col("row") != 0)["token"].unique()
    return int((~own.is_in(known.implode())).sum()) / max(len(own), 1)


def _listed(found: list[str]) -> str:
    more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
    return ("; ".join(found[:_MAX_LISTED])[:_MAX_DETAIL_CHARS]) + more
