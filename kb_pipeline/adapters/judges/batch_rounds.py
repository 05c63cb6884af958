"""Pairs put to a model as Message Batches, over the end of a run: sent once, waited for, taken up by whoever comes next.

Belongs here: which stored batch is whose, how long is waited, what a batch's answers are worth (canaries, X2). Does not
belong here: the calls (batches_client), the rows (batch_store), and what a reply decides (the judge and its script).

What is sent is written down first. A batch without an id - the process was killed, or the request was cut off while it was
made - is looked for among the batches that the service lists: one of about that time with as many questions, whose results
carry our names. Only if there is none is it taken for never made. What that leaves: a batch that the service took but does
not list yet, when the next run looks within moments of the kill, would be paid for twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic

from kb_pipeline.adapters.judges import ReplyT, RequestT, Script
from kb_pipeline.adapters.judges.batch_store import (
    MAX_REPLY_CHARS,
    BatchStore,
    Key,
    StoredBatch,
    StoredQuestion,
)
from kb_pipeline.adapters.judges.batches_client import (
    GONE_STATUS,
    MAX_BATCH_BYTES,
    MAX_BATCH_REQUESTS,
    BatchesClient,
    is_unanswered,
    may_have_been_made,
)
from kb_pipeline.adapters.judges.messages_client import Failure, Question, Said
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.vocabulary import ReasonCode

GROUP_PAIRS = 20
"""So many pairs are asked about after each two canaries: one question in ten to twenty is a check."""

CANARIES_OF_GROUP = 2
RESULTS_KEPT = timedelta(days=29)
_CLOCK_SLACK = timedelta(minutes=15)
_SLOWER, _SLOWEST = 1.5, 30.0


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A batch of the service that is (or, before its results are read, may be) a stored one."""

    stored: StoredBatch
    batch_id: str
    is_certain: bool


class BatchRounds(Generic[RequestT, ReplyT]):
    """The batches of one run and one corpus. ``heard``, ``failures`` and ``waiting`` together tell what became of a question.

    Args:
        client: makes and reads batches.
        store: keeps them.
        script: prompts, canaries and the reading of replies (the judge stage).
        question_of: what is asked about a pair.
        judge: name of the judge, for replies.
        min_confidence: a less confident verdict on a canary is no right one, 0-1.
        max_wait_seconds: patience with all batches of this run together.
        first_poll_seconds: the first look comes at once, the second after so long, each later one half as long again after.
    """

    def __init__(
        self,
        client: BatchesClient,
        store: BatchStore,
        script: Script[RequestT, ReplyT],
        *,
        question_of: Callable[[RequestT], Question],
        judge: str,
        min_confidence: float,
        max_wait_seconds: float,
        first_poll_seconds: float,
    ) -> None:
        self._client = client
        self._store = store
        self._script = script
        self._question_of = question_of
        self._judge = judge
        self._min_confidence = min_confidence
        self._patience_seconds = max_wait_seconds
        self._first_poll_seconds = first_poll_seconds
        self._next_canary = 0
        self._canaries: dict[Key, tuple[Any, bool]] = {
            key_of(pair): (pair, is_same) for pair, is_same in script.CANARIES
        }
        self.heard: dict[Key, Said] = {}
        self.failures: dict[Key, Failure] = {}
        self.waiting: set[Key] = set()

    def knows(self, key: Key) -> bool:
        """Whether a question has been answered, has failed in this run, or waits."""
        return key in self.heard or key in self.failures or key in self.waiting

    def take_up(self) -> None:
        """Takes up what earlier runs have sent, as far as it has ended; what was never answered may be asked again."""
        self.heard = self._store.heard()
        awaited: list[_Awaited] = []
        for stored in self._store.open_batches():
            if datetime.now(UTC) - stored.intended_at > RESULTS_KEPT:
                self._store.given_up(stored.batch_key, "lost", "the service keeps results no longer")
            elif stored.batch_id is not None:
                awaited.append(_Awaited(stored, stored.batch_id, is_certain=True))
            else:
                found = self._find(stored)
                if isinstance(found, Failure):
                    self._fail(stored, found)
                elif found:
                    awaited += found
                else:
                    self._store.given_up(stored.batch_key, "lost", "the service has made no such batch")
        self._await(awaited, is_new=False)
        self.waiting = self._store.waiting() - self.failures.keys()

    def ask(self, requests: Sequence[RequestT]) -> None:
        """Sends questions, with canaries among them, and takes up the answers that come while there is patience."""
        awaited: list[_Awaited] = []
        for chunk in self._chunks(requests):
            batch_key = uuid.uuid4().hex[:20]
            named = [
                (StoredQuestion(f"{batch_key}-{number}", key_of(pair), is_canary), question)
                for number, (pair, question, is_canary) in enumerate(chunk)
            ]
            stored = StoredBatch(batch_key, None, datetime.now(UTC))
            self._store.intend(batch_key, [question for question, _ in named])
            self._client.client.count("canaries", sum(question.is_canary for question, _ in named))
            made = self._client.submit([(question.custom_id, body) for question, body in named])
            if isinstance(made, str):
                self._store.made(batch_key, made)
                awaited.append(_Awaited(stored, made, is_certain=True))
            elif not may_have_been_made(made):
                self._fail(stored, made)
                self._store.given_up(batch_key, "refused", made.detail)
            else:
                found = self._find(stored)
                if isinstance(found, Failure) or not found:
                    self._fail(stored, made)
                else:
                    awaited += found
        self._await(awaited, is_new=True)
        self.waiting = self._store.waiting() - self.failures.keys()

    def forget(self, keys: Sequence[Key]) -> None:
        """Answers that could not be used: the next run asks again."""
        self._store.forget(keys)

    def _chunks(self, requests: Sequence[RequestT]) -> Iterator[list[tuple[Any, Question, bool]]]:
        """(pair, question, is it a canary) in batches that the service takes, two canaries before each GROUP_PAIRS pairs."""
        chunk: list[tuple[Any, Question, bool]] = []
        size, asked = 0, 0
        for request in requests:
            question = self._question_of(request)
            more = len(question.user.encode()) + len(question.system.encode()) + 4_000
            if chunk and (len(chunk) + 1 + CANARIES_OF_GROUP > MAX_BATCH_REQUESTS or size + more > MAX_BATCH_BYTES):
                yield chunk
                chunk, size, asked = [], 0, 0
            if asked % GROUP_PAIRS == 0:
                chunk += [(pair, self._question_of(pair), True) for pair in self._some_canaries()]
            chunk.append((request, question, False))
            size, asked = size + more, asked + 1
        if chunk:
            yield chunk

    def _some_canaries(self) -> list[Any]:
        pairs = self._script.CANARIES
        chosen = [pairs[(self._next_canary + step) % len(pairs)][0] for step in range(CANARIES_OF_GROUP)]
        self._next_canary += CANARIES_OF_GROUP
        return chosen

    def _find(self, stored: StoredBatch) -> list[_Awaited] | Failure:
        """The batches of the service that may be this one."""
        start = stored.intended_at - _CLOCK_SLACK
        listed = self._client.made_between(start, stored.intended_at + _CLOCK_SLACK)
        if isinstance(listed, Failure):
            return listed
        known, count = self._store.known_ids(), len(self._store.questions(stored.batch_key))
        return [
            _Awaited(stored, batch.batch_id, is_certain=False)
            for batch in listed
            if batch.batch_id not in known and batch.request_count == count
        ]

    def _await(self, awaited: list[_Awaited], *, is_new: bool) -> None:
        """Looks at batches until they have ended or patience has."""
        if not awaited:
            return
        started = time.monotonic()
        pause, still, found = self._first_poll_seconds, list(awaited), set[str]()
        while True:
            trouble: dict[str, Failure] = {}
            for batch in list(still):
                if batch not in still:
                    continue
                state = self._client.look(batch.batch_id)
                if isinstance(state, Failure) and state.status != GONE_STATUS:
                    trouble[batch.batch_id] = state
                elif isinstance(state, Failure) or (state.is_ended and not state.has_results):
                    still.remove(batch)
                    self._lose(batch, is_new)
                elif state.is_ended:
                    still.remove(batch)
                    if self._take(batch, is_new):
                        found.add(batch.stored.batch_key)
                        still = [other for other in still if other.stored != batch.stored]
            left = self._patience_seconds - (time.monotonic() - started)
            if not still or left <= 0 or self._client.client.is_closed:
                break
            time.sleep(min(pause, left))
            pause = min(pause * _SLOWER, self._first_poll_seconds * _SLOWEST)
        self._patience_seconds = max(0.0, left)
        for batch in still:
            if batch.batch_id in trouble:
                self._fail(batch.stored, trouble[batch.batch_id])
        open_still = found | {batch.stored.batch_key for batch in still}
        for stored in {batch.stored for batch in awaited if not batch.is_certain}:
            if stored.batch_key not in open_still:
                # All that were listed belong to somebody else.
                self._lose(_Awaited(stored, "", is_certain=True), is_new)

    def _lose(self, batch: _Awaited, is_new: bool) -> None:
        """The service has no results of a batch any more: what it was asked may be asked again, in the next run if it is new."""
        if not batch.is_certain:
            return
        if is_new:
            self._fail(batch.stored, Failure(ReasonCode.JUDGE_BATCH_UNANSWERED, "the service has lost the batch"))
        self._store.given_up(batch.stored.batch_key, "lost", "the service has no results of this batch")

    def _take(self, batch: _Awaited, is_new: bool) -> bool:
        """Takes up the results of a batch that has ended. False when they are not those of the stored batch."""
        results = self._client.results(batch.batch_id)
        if isinstance(results, Failure):
            if results.status == GONE_STATUS:
                self._lose(batch, is_new)
                return batch.is_certain
            self._fail(batch.stored, results)
            return True
        questions = {question.custom_id: question for question in self._store.questions(batch.stored.batch_key)}
        ours = [(name, result) for name, result in results if name in questions]
        if not ours:
            if batch.is_certain:
                # A page of somebody between us and the service, say: the results are read again in the next run.
                self._fail(
                    batch.stored, Failure(ReasonCode.JUDGE_INVALID_REPLY, "the results answer none of the questions")
                )
            return batch.is_certain
        if not batch.is_certain:
            self._store.made(batch.stored.batch_key, batch.batch_id)
        if strangers := len(results) - len(ours):
            self._client.client.count("unknown_results", strangers)
        answers = self._answers(ours, questions)
        problem = self._problem(answers, questions)
        unanswered = frozenset(name for name, answer in answers.items() if is_unanswered(answer))
        if problem is not None:
            answers, unanswered = dict.fromkeys(answers, problem), frozenset()
        self._store.ended(batch.stored.batch_key, _without_secrets(answers), unanswered)
        for name, answer in answers.items():
            question = questions[name]
            if question.is_canary:
                continue
            if isinstance(answer, Said):
                self.heard[question.key] = answer
            elif is_new or name not in unanswered:
                self.failures[question.key] = answer
        return True

    def _answers(
        self, results: list[tuple[str, object]], questions: dict[str, StoredQuestion]
    ) -> dict[str, Said | Failure]:
        """An answer or a failure for every question; one that was answered twice, and differently, counts for nothing."""
        seen: dict[str, object] = {}
        twice = set()
        for name, result in results:
            if name in seen and seen[name] != result:
                twice.add(name)
            seen[name] = result
        answers: dict[str, Said | Failure] = {}
        for name in questions:
            if name in twice:
                answers[name] = Failure(ReasonCode.JUDGE_INVALID_REPLY, "answered twice")
            elif name in seen:
                answers[name] = _storable(self._client.read(seen[name]))
            else:
                answers[name] = Failure(ReasonCode.JUDGE_BATCH_UNANSWERED, "no result")
        return answers

    def _problem(self, answers: dict[str, Said | Failure], questions: dict[str, StoredQuestion]) -> Failure | None:
        """Why the verdicts of a whole batch are set aside: a pair with a known answer was judged wrongly, or none was judged."""
        right = set()
        for question in questions.values():
            answer = answers[question.custom_id]
            known = self._canaries.get(question.key)
            if not question.is_canary or known is None or is_unanswered(answer):
                continue
            pair, is_same = known
            if isinstance(answer, Failure):
                return Failure(
                    answer.reason, f"set aside: no usable answer to a pair with a known one ({answer.detail})"
                )
            reply: Any = self._script.read_reply(
                pair, answer.text, judge=self._judge, model=answer.model, min_confidence=self._min_confidence
            )
            if reply.failed:
                return Failure(
                    reply.reason, f"set aside: no usable answer to a pair with a known one ({reply.explanation})"
                )
            if not self._script.is_right(is_same, reply):
                return Failure(
                    ReasonCode.JUDGE_CANARY_FAILED, "set aside: the model was wrong about a pair with a known answer"
                )
            right.add(is_same)
        if right == {True, False} or all(is_unanswered(answer) for answer in answers.values()):
            return None
        return Failure(ReasonCode.JUDGE_CANARY_FAILED, "set aside: the pairs with a known answer were left unanswered")

    def _fail(self, stored: StoredBatch, failure: Failure) -> None:
        """The questions of a batch fail in this run."""
        for question in self._store.questions(stored.batch_key):
            if not question.is_canary:
                self.failures[question.key] = failure


def key_of(request: Any) -> Key:
    """What names a question: the two texts by their hashes and the two kinds, entry A first."""
    return request.content_hash_l, request.content_hash_r, str(request.kind_l), str(request.kind_r)


def _without_secrets(answers: dict[str, Said | Failure]) -> dict[str, Said | Failure]:
    """The answers as they may be kept: a model may make up a secret, or copy one that no detector saw in an entry.

    Such an answer is read in this run and not kept; what it says besides is kept as a verdict.
    """
    said = {name: answer.text for name, answer in answers.items() if isinstance(answer, Said)}
    found = find_secrets(list(said.values()))
    told = {name for name, kinds in zip(said, found, strict=True) if kinds}
    fault = Failure(ReasonCode.JUDGE_SECRET, "not kept: the answer seems to hold a secret")
    return {name: fault if name in told else answer for name, answer in answers.items()}


def _storable(answer: Said | Failure) -> Said | Failure:
    """The answer, unless its text is none that could have been asked for, or none that a database takes."""
    if isinstance(answer, Failure):
        return answer
    if len(answer.text) > MAX_REPLY_CHARS:
        return Failure(ReasonCode.JUDGE_INVALID_REPLY, f"reply of {len(answer.text)} characters")
    try:
        (answer.text + answer.model).encode()
    except UnicodeEncodeError:
        return Failure(ReasonCode.JUDGE_INVALID_REPLY, "reply is no Unicode text")
    if "\x00" in answer.text or "\x00" in answer.model:
        return Failure(ReasonCode.JUDGE_INVALID_REPLY, "reply holds a NUL")
    return answer
