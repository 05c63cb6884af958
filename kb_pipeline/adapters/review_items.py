"""The review queue as it stands now: its questions, and the entries that they are about.

Belongs here: reading. Does not belong here: which of the questions are still open and in what order (stages.queue), nor
what an answer does (stages.review, reviewing).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database, one_of
from kb_pipeline.adapters.exporting import last_change, require_corpus
from kb_pipeline.adapters.rows import canonical_json
from kb_pipeline.adapters.snapshots import load_entries
from kb_pipeline.adapters.text_features import add_text_features
from kb_pipeline.errors import ReviewError, UnknownNameError
from kb_pipeline.vocabulary import ReviewAction

_DONE = {
    ReviewAction.ACCEPT: "accepted it",
    ReviewAction.EDIT: "answered it with an edit",
    ReviewAction.KEEP: "answered it with keep",
    ReviewAction.ARCHIVE: "answered it by archiving",
    ReviewAction.DISMISS: "dismissed it",
    ReviewAction.APPROVE: "answered it with an approval",
}
_MIN_PREFIX_CHARS = len("rec_") + 4
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Present:
    """A corpus as it stands now: everything that was recorded, whenever it takes effect."""

    corpus: str
    snapshot_change_id: int
    as_of: datetime = _END_OF_TIME


def present(database: Database, corpus: str) -> Present:
    """The corpus as it stands now.

    Raises:
        UnknownNameError: no such corpus.
    """
    require_corpus(database, corpus)
    return Present(corpus, last_change(database, corpus))


def is_entry(database: Database, corpus: str, entry_id: str) -> bool:
    """Whether the corpus holds an entry of this id."""
    found = database.read("SELECT count(*) AS n FROM entries WHERE corpus = $1 AND entry_id = $2", (corpus, entry_id))
    return bool(found["n"][0])


def load_facts(database: Database, corpus: str, queue: pl.DataFrame | None = None) -> pl.DataFrame:
    """State, text and mark of entries, without their texts: entry_id, state, content_hash, keep_distinct.

    Args:
        database: where from.
        corpus: the corpus.
        queue: QUEUE: only the entries that it is about; None is all.
    """
    facts = (
        "SELECT e.entry_id, e.state, e.content_hash, v.keep_distinct FROM entries e "
        "JOIN entry_versions v USING (corpus, entry_id, version_number) WHERE e.corpus = "
    )
    if queue is None:
        found = database.read(f"{facts} $1", (corpus,))
    else:
        ids = queue["entry_ids"].explode().drop_nulls().unique().sort().to_list()
        found = database.read(f"{facts} $1 AND e.entry_id {one_of(2)}", (corpus, canonical_json(ids)))
    return found.cast(
        {"entry_id": pl.String, "state": pl.String, "content_hash": pl.String, "keep_distinct": pl.Boolean}
    )


def load_subjects(
    database: Database, view: Present, scope_fields: tuple[str, ...], entry_ids: list[str]
) -> pl.DataFrame:
    """ENTRIES of these ids, with raw_title, body, rationale, alternatives, steps (JSON), source_hash, invalidation_policy."""
    if not entry_ids:
        entry_ids = [""]  # no entry has this id: a frame of the right columns without rows
    raw = load_entries(database, view, scope_fields, sorted(set(entry_ids)))
    more = ("raw_title", "body", "rationale", "alternatives", "steps", "source_hash", "invalidation_policy")
    complete, _ = add_text_features(database, view.corpus, raw)
    return complete.join(raw.select("entry_id", *more).cast(pl.String), on="entry_id", maintain_order="left")


def load_evidence_of_questions(database: Database, corpus: str, recommendation_ids: list[str]) -> pl.DataFrame:
    """What spoke for each question when it was asked: recommendation_id, similarity, verdict, judge, suggested_body, run_id."""
    return database.read(
        f"""
        SELECT DISTINCT ON (r.recommendation_id) r.recommendation_id, a.similarity, a.verdict, a.judge, r.suggested_body,
               r.run_id
        FROM recommendations r
        LEFT JOIN curation_actions a ON a.action_id = r.action_id
        WHERE r.corpus = $1 AND r.recommendation_id {one_of(2)}
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id)
        ORDER BY r.recommendation_id, r.effective_at
        """,
        (corpus, canonical_json(recommendation_ids)),
    )


def reviewed_since(database: Database, corpus: str, change_id: int) -> tuple[list[str], list[str]] | None:
    """What answers and their undoing have touched since a change: ids of questions, and ids of entries.

    None where something else has changed the corpus: a run, a rollback or an import.

    Args:
        database: where from.
        corpus: the corpus.
        change_id: the last change that is known.
    """
    since = "SELECT c.change_id FROM changes c WHERE c.corpus = $1 AND c.change_id > $2"
    other = database.read(f"SELECT count(*) AS n FROM ({since} AND c.change_type <> 'review') o", (corpus, change_id))[
        "n"
    ][0]
    if other:
        return None
    touched = database.read(
        f"""
        SELECT r.recommendation_id, m.value AS entry_id
        FROM review_actions r CROSS JOIN LATERAL json_array_elements_text(r.touched_ids) m
        WHERE r.corpus = $1 AND (r.change_id = ANY (ARRAY({since})) OR r.action_id = ANY (ARRAY(
            SELECT x.action_id FROM event_voids x WHERE x.corpus = $1 AND x.change_id = ANY (ARRAY({since})))))
        """,
        (corpus, change_id),
    )
    ids = touched["recommendation_id"].drop_nulls().unique().sort().to_list()
    return ids, touched["entry_id"].unique().sort().to_list()


def resolve_question_id(database: Database, corpus: str, name: str) -> str:
    """The id of a question; its beginning is enough where only one begins so.

    Raises:
        UnknownNameError: there is no such question, or several begin so.
    """
    frame = database.read(
        "SELECT DISTINCT recommendation_id FROM recommendations WHERE corpus = $1 AND "
        "(recommendation_id = $2 OR ($3 AND starts_with(recommendation_id, $2)))",
        (corpus, name, len(name) >= _MIN_PREFIX_CHARS),
    )
    found = sorted(frame["recommendation_id"].to_list())
    if name in found:
        return name
    if len(found) != 1:
        raise UnknownNameError(
            f"question of corpus {corpus}", name, found, f"kb review list --corpus {corpus} lists the open ones."
        )
    return str(found[0])


def load_answer(database: Database, corpus: str, recommendation_id: str) -> dict[str, Any] | None:
    """The answer that stands for a question: action_id, action, actor_id, effective_at; None while there is none."""
    frame = database.read(
        """
        SELECT r.action_id, r.action, r.actor_id, r.effective_at FROM review_actions r
        WHERE r.corpus = $1 AND r.recommendation_id = $2
          AND NOT EXISTS (SELECT 1 FROM event_voids x WHERE x.corpus = r.corpus AND x.action_id = r.action_id)
        ORDER BY r.change_id DESC LIMIT 1
        """,
        (corpus, recommendation_id),
    )
    return frame.row(0, named=True) if frame.height else None


def refuse_closed(
    database: Database, corpus: str, recommendation_id: str, queue: pl.DataFrame, facts: pl.DataFrame
) -> None:
    """Raises ReviewError with the reason why a question is not open any more.

    Args:
        database: where from.
        corpus: the corpus.
        recommendation_id: the question, which is known not to be open.
        queue: QUEUE with this question, empty when it was answered or taken back.
        facts: as ``load_facts`` gives them.
    """
    answer = load_answer(database, corpus, recommendation_id)
    if answer is not None:
        raise ReviewError(
            f"question {recommendation_id} was answered already: {answer['actor_id']} {_DONE[answer['action']]} on "
            f"{answer['effective_at']:%Y-%m-%d}; nothing was changed (undo: kb review undo {answer['action_id']} "
            f"--corpus {corpus})"
        )
    if queue.is_empty():
        raise ReviewError(
            f"question {recommendation_id} was taken back with the run that asked it; there is nothing to answer"
        )
    ids, texts = queue["entry_ids"][0].to_list(), queue["content_hashes"][0].to_list()
    known = {row["entry_id"]: row for row in facts.iter_rows(named=True)}
    for entry_id, text in zip(ids, texts, strict=True):
        if known[entry_id]["content_hash"] != text:
            raise ReviewError(
                f"question {recommendation_id} is out of date: the text of {entry_id} has changed since it was asked; "
                "nothing was changed"
            )
    gone = next((row for row in known.values() if row["state"] in _OUT), None)
    if gone is not None:
        raise ReviewError(
            f"question {recommendation_id} is out of date: {gone['entry_id']} is {gone['state']} by now; nothing was "
            "changed"
        )
    raise ReviewError(
        f"question {recommendation_id} was answered by marking an entry as distinct (keep_distinct); nothing was changed"
    )


_OUT = frozenset({"archived", "blocked", "superseded", "expired", "invalidated"})
