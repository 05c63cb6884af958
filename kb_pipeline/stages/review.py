"""Review (P4, P5, M5, M8): what an answer of a person does, before anything is written.

Belongs here: which answers a question allows, and what each does to states, texts, approvals and conflicts. The same
function tells a reviewer beforehand what would happen. Does not belong here: reading and writing (adapters), sentences
(review_words).

    accept   what the question proposes; with a body, the entry that stays gets it as its text
    edit     the entry says something else from now on
    keep     the entry or both entries stay as they are: a pair is settled, a candidate is let in
    archive  the entry goes out of use
    dismiss  nothing is done, and the same is not asked again until a text changes
    approve  a person vouches for the entry, after the checks of the list
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kb_pipeline.errors import ReviewError
from kb_pipeline.text.characters import fold_characters
from kb_pipeline.text.normalise import content_hash, entry_text, fold
from kb_pipeline.text.specifics import difference, specifics
from kb_pipeline.transitions import TRANSITIONS
from kb_pipeline.vocabulary import LIVE_STATES, ReasonCode, RecommendationType, Resolution, ReviewAction, State

_ONE = {ReviewAction.ACCEPT, ReviewAction.EDIT, ReviewAction.KEEP, ReviewAction.ARCHIVE, ReviewAction.DISMISS,
        ReviewAction.APPROVE}  # fmt: skip
_TWO = {ReviewAction.ACCEPT, ReviewAction.EDIT, ReviewAction.KEEP, ReviewAction.ARCHIVE, ReviewAction.DISMISS}

ALLOWED: dict[RecommendationType | None, frozenset[ReviewAction]] = {
    RecommendationType.MERGE: frozenset(_TWO),
    RecommendationType.CONFLICT: frozenset(_TWO),
    RecommendationType.SUPERSEDE: frozenset(_TWO),
    RecommendationType.ARCHIVE: frozenset(_ONE),
    RecommendationType.FLAG: frozenset(_ONE),
    RecommendationType.REFRESH: frozenset(_ONE),
    RecommendationType.ADMIT: frozenset(_ONE),
    None: frozenset({ReviewAction.EDIT, ReviewAction.ARCHIVE, ReviewAction.APPROVE}),
}
"""What may be answered to each question; None stands for an entry that nobody asked about."""


@dataclass(frozen=True)
class Subject:
    """An entry as a reviewer sees it. ``notice`` stands for its text where that must not be shown."""

    entry_id: str
    kind: str
    scope: str
    state: State
    title: str
    raw_title: str | None
    body: str | None
    rationale: str | None
    alternatives: tuple[str, ...]
    steps: tuple[str, ...]
    text: str
    content_hash: str
    source_hash: str
    review_state: str
    conflict_state: str
    evidence_count: int
    secret_kinds: tuple[str, ...]
    notice: str | None
    rank: int
    has_invalidation_policy: bool

    def with_body(self, body: str) -> Subject:
        """The same entry with another body."""
        parts = (self.raw_title, body, self.rationale, self.alternatives, self.steps)
        return replace(self, body=body, text=entry_text(*parts), content_hash=content_hash(*parts))


@dataclass(frozen=True)
class Question:
    """What is asked, about which entries, in the order in which they were named: A, then B."""

    subjects: tuple[Subject, ...]
    recommendation_id: str | None = None
    recommendation_type: RecommendationType | None = None
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What a person says. ``entry_id`` names one of two entries, ``confirmed`` that lost specifics are meant."""

    action: ReviewAction
    entry_id: str | None = None
    resolution: Resolution | None = None
    body: str | None = None
    confirmed: bool = False


@dataclass(frozen=True)
class Move:
    """One entry changes its state."""

    entry_id: str
    from_state: State
    to_state: State
    reason: ReasonCode | str
    merged_into: str | None = None
    superseded_by: str | None = None


@dataclass(frozen=True)
class Effects:
    """All that an answer does. Nothing of it is done twice, and an undo takes all of it back.

    Attributes:
        moves: changes of state.
        merges: (giver, receiver) of use and evidence.
        edits: entries as they read afterwards.
        approved: ids of entries that a person vouches for.
        validated: ids of entries that a person found to hold.
        resolution: how the conflict of the two ends.
        settles: ``all`` or ``merge``: what the two are not, while their texts stay.
        spares: (entry id, rule) that is set aside for the entry's text.
    """

    moves: tuple[Move, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    edits: tuple[Subject, ...] = ()
    approved: tuple[str, ...] = ()
    validated: tuple[str, ...] = ()
    resolution: Resolution | None = None
    settles: str | None = None
    spares: tuple[tuple[str, str], ...] = ()

    @property
    def changes_entries(self) -> bool:
        """Whether later work may stand on it."""
        return bool(self.moves or self.edits or self.approved or self.validated or self.resolution)


def decide(question: Question, answer: Answer, *, admit_to: str) -> Effects:
    """What an answer does.

    Args:
        question: what is asked.
        answer: what a person says.
        admit_to: state of a candidate that is let in.

    Raises:
        ReviewError: the answer does not fit the question, or an entry cannot change as it asks.
    """
    allowed = ALLOWED[question.recommendation_type]
    if answer.action not in allowed:
        asked = question.recommendation_type or "no question"
        words = ", ".join(action for action in ReviewAction if action in allowed)
        raise ReviewError(f"{answer.action} does not answer {asked}; answers are: {words}")
    match answer.action:
        case ReviewAction.ACCEPT:
            return _accept(question, answer, admit_to)
        case ReviewAction.EDIT:
            return Effects(edits=(_edited(_chosen(question, answer), answer.body),))
        case ReviewAction.ARCHIVE:
            subject = _chosen(question, answer)
            if question.recommendation_type is RecommendationType.CONFLICT:
                # Whoever archives one side keeps the other.
                stays = Resolution.KEEP_B if subject is question.subjects[0] else Resolution.KEEP_A
                return _resolve(question.subjects, stays)
            return Effects(moves=(_move(subject, State.ARCHIVED, ReasonCode.REVIEW_ARCHIVED),))
        case ReviewAction.KEEP:
            return _keep(question, admit_to)
        case ReviewAction.DISMISS:
            settles = "merge" if question.recommendation_type is RecommendationType.MERGE else None
            return Effects(settles=settles, spares=_spared(question))
        case ReviewAction.APPROVE:
            return _approve(_chosen(question, answer), admit_to)


def lost_specifics(before: Sequence[str], after: str) -> list[str]:
    """What the texts before pin down (numbers, names, negations) and the text after does not, readable and sorted."""
    held = specifics("")
    for text in before:
        held |= specifics(text)
    return difference(held, specifics(after))[0]


def refuse_body(body: str, *, max_chars: int, secret_kinds: Sequence[str]) -> None:
    """Refuses a body that cannot be a text of an entry.

    Args:
        body: what a person wrote.
        max_chars: longest body (load.max_body_chars).
        secret_kinds: kinds of secret that were found in the text it makes.

    Raises:
        ReviewError: it is empty, too long, holds a NUL or a secret. The text itself is not told.
    """
    if not fold_characters(body).strip():  # what cannot be seen is no text
        raise ReviewError("the new body is empty; to take the entry out of use, archive it")
    if len(body) > max_chars:
        raise ReviewError(
            f"the new body has {len(body):,} characters; load.max_body_chars allows {max_chars:,}, and nothing is cut"
        )
    if "\x00" in body:
        raise ReviewError("the new body holds a NUL character, which cannot be stored")
    if secret_kinds:
        raise ReviewError(f"the new body seems to hold a secret ({', '.join(secret_kinds)}); take it out and try again")


def _accept(question: Question, answer: Answer, admit_to: str) -> Effects:
    asked, subjects = question.recommendation_type, question.subjects
    if answer.body is not None and asked is not RecommendationType.MERGE:
        raise ReviewError(f"a body goes with accepting a MERGE, not {asked}; to change one text, edit it")
    if (answer.resolution is not None) != (asked is RecommendationType.CONFLICT):
        words = ", ".join(Resolution)
        raise ReviewError(
            f"a CONFLICT is decided with one of {words} (--resolution)"
            if answer.resolution is None
            else f"{answer.resolution} decides a CONFLICT, and this is {asked}"
        )
    match asked:
        case RecommendationType.MERGE:
            return _merge(subjects, answer.body)
        case RecommendationType.CONFLICT:
            assert answer.resolution is not None  # noqa: S101 - asked for above
            return _resolve(subjects, answer.resolution)
        case RecommendationType.SUPERSEDE:
            old, new = subjects
            if new.state is State.CANDIDATE:
                raise ReviewError(f"{new.entry_id} is a candidate and cannot replace another entry; let it in first")
            move = _move(old, State.SUPERSEDED, ReasonCode.REVIEW_SUPERSEDED)
            return Effects(moves=(replace(move, superseded_by=new.entry_id),))
        case RecommendationType.ARCHIVE:
            reason = question.reason or ReasonCode.REVIEW_ARCHIVED
            return Effects(moves=(_move(subjects[0], State.ARCHIVED, reason),))
        case RecommendationType.ADMIT:
            return Effects(moves=(_move(subjects[0], State(admit_to), ReasonCode.REVIEW_ADMITTED),))
        case RecommendationType.REFRESH:
            # What has run out by its own date is over; anything else may be out of date.
            wanted = State.EXPIRED if question.reason == ReasonCode.REFRESH_EXPIRED else State.STALE
            state = wanted if wanted in TRANSITIONS[subjects[0].state] else State.NEEDS_REVIEW
            return Effects(moves=(_move(subjects[0], state, ReasonCode.REVIEW_OUT_OF_DATE),))
        case _:
            # A flagged candidate is refused: it may not wait in a state that only admitted entries have.
            state = State.ARCHIVED if subjects[0].state is State.CANDIDATE else State.NEEDS_REVIEW
            return Effects(moves=(_move(subjects[0], state, ReasonCode.REVIEW_FLAGGED),))


def _merge(subjects: tuple[Subject, ...], body: str | None) -> Effects:
    winner, loser = merge_sides(subjects)
    if (winner.scope, winner.kind) != (loser.scope, loser.kind):
        raise ReviewError(
            f"{loser.entry_id} and {winner.entry_id} differ in scope or kind, and nothing is merged across; "
            "archive one of them, or keep both"
        )
    if winner.state is State.CANDIDATE:
        raise ReviewError(
            f"{winner.entry_id} is a candidate and cannot take another entry in; let one of them in first"
        )
    move = _move(loser, State.ARCHIVED, ReasonCode.REVIEW_MERGED)
    edited = () if body is None or _is_same(winner, body) else (winner.with_body(body),)
    return Effects(
        moves=(replace(move, merged_into=winner.entry_id),),
        merges=((loser.entry_id, winner.entry_id),),
        edits=edited,
    )


def merge_sides(subjects: Sequence[Subject]) -> tuple[Subject, Subject]:
    """(entry that stays, entry that goes): one in use before one that is not, then the order of merges (K10)."""
    first, second = sorted(subjects, key=lambda subject: (subject.state is not State.ACTIVE, subject.rank))
    return first, second


def _resolve(subjects: tuple[Subject, ...], resolution: Resolution) -> Effects:
    a, b = subjects
    losing = {
        Resolution.KEEP_A: (b,),
        Resolution.KEEP_B: (a,),
        Resolution.NEITHER: (a, b),
        Resolution.KEEP_BOTH: (),
        Resolution.MANUAL: (),
    }[resolution]
    return Effects(
        moves=tuple(_move(side, State.ARCHIVED, ReasonCode.REVIEW_CONFLICT_DECIDED) for side in losing),
        resolution=resolution,
        # Without this the next run would find the same two texts in conflict again.
        settles=None if losing else "all",
    )


def _keep(question: Question, admit_to: str) -> Effects:
    admitted = tuple(
        _move(subject, State(admit_to), ReasonCode.REVIEW_ADMITTED)
        for subject in question.subjects
        if subject.state is State.CANDIDATE
    )
    if len(question.subjects) == 2:
        is_conflict = question.recommendation_type is RecommendationType.CONFLICT
        return Effects(moves=admitted, settles="all", resolution=Resolution.KEEP_BOTH if is_conflict else None)
    is_refresh = question.recommendation_type is RecommendationType.REFRESH
    validated = (question.subjects[0].entry_id,) if is_refresh else ()
    return Effects(moves=admitted, validated=validated, spares=() if admitted else _spared(question))


def _spared(question: Question) -> tuple[tuple[str, str], ...]:
    """The rule that the question came from, set aside for the entry: a person has said no to it."""
    first, asked = question.subjects[0], question.recommendation_type
    if asked is RecommendationType.MERGE:
        # A candidate that says what another entry says would be refused by the gates: it waits instead.
        return tuple((one.entry_id, "strengthen") for one in question.subjects if one.state is State.CANDIDATE)
    if asked is RecommendationType.ARCHIVE:
        return ((first.entry_id, "refuse" if first.state is State.CANDIDATE else "retire"),)
    return ((first.entry_id, "admit"),) if asked is RecommendationType.ADMIT else ()


def _approve(subject: Subject, admit_to: str) -> Effects:
    if subject.secret_kinds:
        raise ReviewError(
            f"{subject.entry_id} seems to hold a secret ({', '.join(subject.secret_kinds)}) and cannot be approved; "
            "edit it first"
        )
    if subject.state is State.CANDIDATE:
        moves: tuple[Move, ...] = (_move(subject, State(admit_to), ReasonCode.REVIEW_APPROVED),)
    elif subject.state in LIVE_STATES and subject.state is not State.ACTIVE:
        moves = (_move(subject, State.ACTIVE, ReasonCode.REVIEW_APPROVED),)
    else:
        moves = ()
    return Effects(moves=moves, approved=(subject.entry_id,), validated=(subject.entry_id,))


def _chosen(question: Question, answer: Answer) -> Subject:
    by_id: Mapping[str, Subject] = {subject.entry_id: subject for subject in question.subjects}
    if answer.entry_id is None and len(by_id) > 1:
        raise ReviewError(f"say which of the two with --entry: {' or '.join(by_id)}")
    name = answer.entry_id or question.subjects[0].entry_id
    if name not in by_id:
        raise ReviewError(f"entry {name!r} is not asked about here; it is about {' and '.join(by_id)}")
    return by_id[name]


def _edited(subject: Subject, body: str | None) -> Subject:
    if body is None:
        raise ReviewError("an edit needs the new body: --body FILE or --body-text TEXT")
    if _is_same(subject, body):
        raise ReviewError(f"{subject.entry_id} reads like that already; nothing would change")
    return subject.with_body(body)


def _is_same(subject: Subject, body: str) -> bool:
    return fold(subject.body or "") == fold(body)


def _move(subject: Subject, to_state: State, reason: ReasonCode | str) -> Move:
    if to_state not in TRANSITIONS[subject.state]:
        raise ReviewError(f"entry {subject.entry_id} is {subject.state} and cannot become {to_state}")
    return Move(subject.entry_id, subject.state, to_state, reason)
