"""The review desk: what a command line or an HTTP API calls to read the queue, answer it and take answers back.

Belongs here: bringing together what stages decide and what adapters read and write, each answer under the lock of its
corpus. Nothing here decides, and nothing knows how it was called.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.review_items import (
    Present,
    is_entry,
    load_evidence_of_questions,
    load_facts,
    load_subjects,
    present,
    refuse_closed,
    resolve_question_id,
    reviewed_since,
)
from kb_pipeline.adapters.reviewing import Reviewed, Shown, Undone, undo_review, write_review
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.adapters.snapshots import load_queue
from kb_pipeline.errors import ReviewError, UnknownNameError
from kb_pipeline.policy.model import Policy
from kb_pipeline.schemas import ENTRIES
from kb_pipeline.stages.merge import winner_rank
from kb_pipeline.stages.queue import in_order, still_waiting
from kb_pipeline.stages.report_rows import withheld_texts
from kb_pipeline.stages.review import (
    Answer,
    Effects,
    Question,
    Subject,
    decide,
    lost_specifics,
    merge_sides,
    refuse_body,
)
from kb_pipeline.stages.review_words import computed_checks, effect_words, ticked
from kb_pipeline.text.characters import printable
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType, ReviewAction, State

_WAIT_SECONDS = 10.0
"""How long an answer waits for another one, or for an import, before it is refused."""


@dataclass(frozen=True)
class Item:
    """A question as a reviewer sees it. Texts of its subjects with a notice must not be shown, nor what was said of them."""

    question: Question
    severity: str
    value: float | None
    since: datetime
    explanation: str | None
    similarity: float | None
    verdict: str | None
    judge: str | None
    suggested_body: str | None
    run_id: str | None

    @property
    def is_withheld(self) -> bool:
        """Whether one of the texts must not be shown."""
        return any(subject.notice for subject in self.question.subjects)


@dataclass(frozen=True)
class Waiting:
    """The queue of a corpus at one moment.

    Attributes:
        view: the moment.
        asked: QUEUE of all that was asked and nobody has answered.
        waiting: QUEUE of what of this still waits, in the order in which a person should look.
    """

    view: Present
    asked: pl.DataFrame
    waiting: pl.DataFrame


@dataclass(frozen=True)
class Queue:
    """The open questions: how many there are, and those of the page that was asked for, in order."""

    open_count: int
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Done:
    """An answer that was given: what it did, in words, and what an edit lost."""

    written: Reviewed
    question: Question
    effects: Effects
    lost: tuple[str, ...] = ()
    words: tuple[str, ...] = field(default=())


def open_questions(database: Database, corpus: str, policy: Policy, *, limit: int = 0, offset: int = 0) -> Queue:
    """The queue as it stands now, in the order in which a person should look.

    Args:
        database: where from.
        corpus: the corpus.
        policy: policy in force.
        limit: how many to read; 0 is all.
        offset: how many to pass over.

    Raises:
        UnknownNameError: no such corpus.
    """
    found = waiting_questions(database, corpus)
    items = items_of(database, found.view, policy, found.waiting.slice(offset, limit or None))
    return Queue(found.waiting.height, tuple(items))


def waiting_questions(database: Database, corpus: str, known: Waiting | None = None) -> Waiting:
    """The queue as it stands now.

    Args:
        database: where from.
        corpus: the corpus.
        known: the queue as it was read before: where only people have answered since, what they touched is read anew,
            and nothing else.

    Raises:
        UnknownNameError: no such corpus.
    """
    view = present(database, corpus)
    if known is not None and known.view == view:
        return known
    touched = None if known is None else reviewed_since(database, corpus, known.view.snapshot_change_id)
    if known is None or touched is None:
        asked = load_queue(database, view)
        return Waiting(view, asked, in_order(still_waiting(asked, load_facts(database, corpus))))
    questions, entries = touched
    is_touched = pl.col("recommendation_id").is_in(questions)
    asked = pl.concat([known.asked.filter(~is_touched), load_queue(database, view, recommendation_ids=questions)])
    about = asked.select("recommendation_id", "entry_ids").explode("entry_ids")
    about = about.filter(pl.col("entry_ids").is_in(entries))
    anew = asked.join(about, on="recommendation_id", how="semi", maintain_order="left")
    again = still_waiting(anew, load_facts(database, corpus, anew))
    over = anew.join(again, on="recommendation_id", how="anti")["recommendation_id"].to_list()
    waiting = known.waiting.filter(~pl.col("recommendation_id").is_in([*over, *questions]))
    added = again.join(waiting, on="recommendation_id", how="anti", maintain_order="left")
    # A question that stays keeps its place: nothing that its place depends on can change.
    return Waiting(view, asked, in_order(pl.concat([waiting, added])) if added.height else waiting)


def items_of(database: Database, view: Present, policy: Policy, queue: pl.DataFrame) -> list[Item]:
    """Questions as a reviewer sees them, for some rows of QUEUE."""
    return list(_items(database, view, policy, queue))


def find_item(database: Database, corpus: str, policy: Policy, name: str) -> Item:
    """One open question, by its id or the beginning of it.

    Raises:
        UnknownNameError: no such corpus or question.
        ReviewError: it is not open any more; the message says why.
    """
    view = present(database, corpus)
    recommendation_id = resolve_question_id(database, corpus, name)
    asked = load_queue(database, view, recommendation_ids=[recommendation_id])
    facts = load_facts(database, corpus, asked)
    if still_waiting(asked, facts).is_empty():
        refuse_closed(database, corpus, recommendation_id, asked, facts)
    (item,) = _items(database, view, policy, asked)
    return item


def answer(
    database: Database,
    corpus: str,
    policy: Policy,
    target: str,
    given: Answer,
    *,
    actor: str,
    now: datetime,
    ticks: frozenset[ApprovalCheck] = frozenset(),
    shown_hash: str | None = None,
    use_suggested: bool = False,
) -> Done:
    """Answers a question, or does something to an entry that nobody asked about: all of it, or nothing.

    The id of a question names the texts that it is about: when one has changed, or somebody else was faster, nothing is
    done.

    Args:
        database: where to.
        corpus: the corpus.
        policy: policy in force.
        target: id of a question (or the beginning of it), or of an entry.
        given: the answer.
        actor: who answers.
        now: the clock.
        ticks: what a person has looked at, for an approval.
        shown_hash: content hash of the entry as the person saw it; for a question its id says it.
        use_suggested: take the body that the judge suggested.

    Raises:
        UnknownNameError: no such corpus, question or entry.
        ReviewError: stale, answered already, not allowed, or in need of a confirmation; nothing was changed.
        CorpusBusyError: a run or import holds the corpus.
    """
    present(database, corpus)
    with database.corpus_lock(corpus, wait_seconds=_WAIT_SECONDS):
        if target.startswith("rec_") and not is_entry(database, corpus, target):
            item = find_item(database, corpus, policy, target)
            question = item.question
            if use_suggested:
                if item.suggested_body is None:
                    raise ReviewError(f"question {question.recommendation_id} has no suggested body")
                given = Answer(given.action, given.entry_id, given.resolution, item.suggested_body, given.confirmed)
        else:
            question = _unasked(database, corpus, policy, target, shown_hash)
        effects = decide(question, given, admit_to=policy.gates.admit_to)
        lost = _checked_body(question, given, policy)
        details: dict[str, Any] = {"lost": lost} if lost else {}
        if given.action is ReviewAction.APPROVE:
            (entry_id,) = effects.approved
            subject = next(one for one in question.subjects if one.entry_id == entry_id)
            details["checks"] = ticked(_checks(database, corpus, subject), ticks)
        shown = Shown(
            {subject.entry_id: subject.content_hash for subject in question.subjects},
            question.recommendation_id,
            question.recommendation_type,
        )
        written = write_review(
            database, corpus, given.action, shown, effects, actor=actor, now=now, details=details or None
        )
    return Done(written, question, effects, tuple(lost), tuple(effect_words(effects)))


def undo(database: Database, corpus: str, target: str, *, actor: str) -> Undone:
    """Takes an answer back, by its own id or that of its question (or the beginning of it).

    Raises:
        UnknownNameError: no such corpus or answer.
        ReviewError: taken back already, or something was built on it.
        CorpusBusyError: a run or import holds the corpus.
    """
    present(database, corpus)
    if target.startswith("rec_"):
        target = resolve_question_id(database, corpus, target)
    return undo_review(database, corpus, target, actor=actor)


def checks_of(database: Database, corpus: str, item: Item) -> dict[str, dict[ApprovalCheck, bool | None]]:
    """The list of an approval for each entry of a question, as far as it can be known."""
    return {one.entry_id: _checks(database, corpus, one) for one in item.question.subjects}


def _checks(database: Database, corpus: str, subject: Subject) -> dict[ApprovalCheck, bool | None]:
    view = present(database, corpus)
    about = load_queue(database, view, entry_id=subject.entry_id)
    waiting = still_waiting(about, load_facts(database, corpus, about))
    merges = waiting.filter(pl.col("recommendation_type") == RecommendationType.MERGE)
    return computed_checks(subject, has_open_merge=not merges.is_empty())


def _checked_body(question: Question, given: Answer, policy: Policy) -> list[str]:
    """What a new body loses of the texts it stands for; refused when it cannot be a text, or when nobody meant the loss."""
    if given.body is None or given.action not in (ReviewAction.ACCEPT, ReviewAction.EDIT):
        return []
    if given.action is ReviewAction.EDIT:
        (receiver,) = [one for one in question.subjects if given.entry_id in (None, one.entry_id)]
        before = [receiver.text]
    else:
        receiver, before = merge_sides(question.subjects)[0], [one.text for one in question.subjects]
    after = receiver.with_body(given.body).text
    kinds = find_secrets([after])[0]
    refuse_body(given.body, max_chars=policy.load.max_body_chars, secret_kinds=kinds)
    lost = lost_specifics(before, after)
    if lost and not given.confirmed:
        # Of texts that must not be shown, not even their numbers are told.
        told = (
            "parts that are withheld here"
            if any(one.notice for one in question.subjects)
            else printable("; ".join(lost))
        )
        raise ReviewError(f"the new body loses: {told}. If that is meant, say so with --yes; nothing was changed")
    return lost


def _unasked(database: Database, corpus: str, policy: Policy, entry_id: str, shown_hash: str | None) -> Question:
    view = present(database, corpus)
    found = _subjects(database, view, policy, [entry_id])
    if not found:
        ids = load_facts(database, corpus)["entry_id"].to_list()
        raise UnknownNameError(f"entry or question of corpus {corpus}", entry_id, ids)
    subject = found[entry_id]
    if shown_hash is not None and shown_hash != subject.content_hash:
        raise ReviewError(f"the text of {entry_id} has changed since you looked at it; nothing was changed")
    if subject.state in (State.ARCHIVED, State.BLOCKED, State.SUPERSEDED, State.EXPIRED, State.INVALIDATED):
        raise ReviewError(f"entry {entry_id} is {subject.state}; only entries that are in use are reviewed")
    return Question((subject,))


def _items(database: Database, view: Present, policy: Policy, queue: pl.DataFrame) -> Iterable[Item]:
    rows = queue.to_dicts()
    subjects = _subjects(database, view, policy, [entry for row in rows for entry in row["entry_ids"]])
    spoke = {
        row["recommendation_id"]: row
        for row in load_evidence_of_questions(
            database, view.corpus, [row["recommendation_id"] for row in rows]
        ).iter_rows(named=True)
    }
    for row in rows:
        ground = spoke[row["recommendation_id"]]
        question = Question(
            tuple(subjects[entry] for entry in row["entry_ids"]),
            row["recommendation_id"],
            RecommendationType(row["recommendation_type"]),
            row["reason"],
        )
        yield Item(
            question, row["severity"], row["value"], row["since"], row["explanation"], ground["similarity"],
            ground["verdict"], ground["judge"], ground["suggested_body"], ground["run_id"],
        )  # fmt: skip


def _subjects(database: Database, view: Present, policy: Policy, entry_ids: Sequence[str]) -> dict[str, Subject]:
    frame = load_subjects(database, view, tuple(policy.scope_fields), list(entry_ids))
    entries = ENTRIES.select(frame)
    notices = withheld_texts(entries)
    rank = dict(winner_rank(entries, policy.merge).iter_rows())
    return {
        row["entry_id"]: Subject(
            entry_id=row["entry_id"],
            kind=row["kind"],
            scope=row["scope"],
            state=State(row["state"]),
            title=notices.get(row["entry_id"]) or row["title"] or "(no title)",
            raw_title=row["raw_title"],
            body=row["body"],
            rationale=row["rationale"],
            alternatives=tuple(json.loads(row["alternatives"] or "[]") or ()),
            steps=tuple(json.loads(row["steps"] or "[]") or ()),
            text=row["text"],
            content_hash=row["content_hash"],
            source_hash=row["source_hash"],
            review_state=row["review_state"],
            conflict_state=row["conflict_state"],
            evidence_count=row["evidence_count"],
            secret_kinds=tuple(row["secret_kinds"]),
            notice=notices.get(row["entry_id"]),
            rank=rank[row["entry_id"]],
            has_invalidation_policy=bool(json.loads(row["invalidation_policy"] or "null")),
        )
        for row in frame.iter_rows(named=True)
    }
