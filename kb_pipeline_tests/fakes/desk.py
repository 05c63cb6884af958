"""The review desk of a test's corpus: questions asked, answers given and taken back by people of the test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from kb_pipeline.defs.review_desk import Done, Item, answer, open_questions, undo
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType, ReviewAction
from kb_pipeline_tests.fakes.corpus import NOW, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "a", "body": "Retry 3 times.", "created_at": "2026-01-01", "attempts": 30, "successes": 21,
     "evidence": [{"ref": "e1"}], "distinctiveness": 0.75},
    {"id": "b", "body": "Try again, 3 times.", "created_at": "2026-01-02", "attempts": 12, "review_state": "approved",
     "evidence": [{"ref": "e2"}], "usage": [{"id": "u1", "type": "retrieved", "at": "2026-02-01"}]},
    {"id": "c", "body": "Retry 5 times.", "created_at": "2026-01-03"},
    {"id": "d", "body": "The pier is dry.", "created_at": "2026-01-04", "kind": "decision"},
    {"id": "n", "body": "A new entry.", "created_at": "2026-01-05", "state": "candidate"},
]  # fmt: skip
ASKED = Decisions(unsure=(("a", "b"),), conflicts=(("a", "c"),))
ALL_CHECKS = frozenset(ApprovalCheck)


@cache
def policy() -> Policy:
    return load_policy()


@dataclass
class Desk:
    """The review desk of one corpus."""

    corpus: Corpus
    now: datetime = NOW

    def question(self, kind: str) -> str:
        """Id of the one open question of a type."""
        (found,) = [i for i in self.items() if i.question.recommendation_type == kind]
        assert found.question.recommendation_id is not None
        return found.question.recommendation_id

    def items(self) -> tuple[Item, ...]:
        return open_questions(self.corpus.database, self.corpus.name, policy()).items

    def kinds(self) -> list[str]:
        return [str(item.question.recommendation_type) for item in self.items()]

    def do(self, action: str, target: str, *, ticks: frozenset[ApprovalCheck] = ALL_CHECKS, **given: Any) -> Done:
        who = given.pop("actor", "ann")
        shown = given.pop("shown_hash", None)
        given_answer = Answer(ReviewAction(action), **given)
        return answer(
            self.corpus.database, self.corpus.name, policy(), target, given_answer,
            actor=who, now=self.now, ticks=ticks, shown_hash=shown,
        )  # fmt: skip

    def undo(self, target: str) -> None:
        undo(self.corpus.database, self.corpus.name, target, actor="bob")

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.corpus.rows().items()}

    def ask(self, kind: RecommendationType, *entry_ids: str, reason: str = "load.addresses_judge") -> str:
        """Puts a question of a type to people that no stage of these tests asks by itself."""
        rows = self.corpus.rows()
        name = f"rec_{kind.lower()}{''.join(entry_ids)}".ljust(28, "0")
        self.corpus.query(
            "INSERT INTO recommendations (recommendation_id, corpus, recommendation_type, severity, entry_ids, "
            "content_hashes, reason, value, action_id, change_id, effective_at) SELECT %s, %s, %s, 'low', "
            "to_json(%s::text[]), to_json(%s::text[]), %s, 0.5, %s, max(change_id), '2026-11-20' FROM changes "
            "WHERE corpus = %s",
            name, self.corpus.name, kind.value, list(entry_ids), [rows[e]["content_hash"] for e in entry_ids], reason,
            f"asked {name}", self.corpus.name,
        )  # fmt: skip
        return name
