"""The HTTP API of the review queue: JSON under ``/api/v1``, described by ``/openapi.json``.

Belongs here: the shapes that programs send and get. What an answer does is decided at the review desk.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from kb_pipeline.defs.review_values import full_values, item_values
from kb_pipeline.stages.review import Answer
from kb_pipeline.vocabulary import ApprovalCheck, Resolution, ReviewAction
from kb_pipeline.web.access import may_change, may_read
from kb_pipeline.web.desk import Desk

MOST_PER_PAGE = 200

router = APIRouter(prefix="/api/v1", tags=["review"])


class AnswerBody(BaseModel):
    """An answer to a question."""

    model_config = ConfigDict(extra="forbid")

    action: Annotated[ReviewAction, Field(description="what to do; the question tells what each would change")]
    entry_id: Annotated[str | None, Field(description="which of two entries is meant")] = None
    resolution: Annotated[Resolution | None, Field(description="how a conflict is decided")] = None
    body: Annotated[str | None, Field(description="new text of the entry that stays")] = None
    suggested: Annotated[bool, Field(description="with the body that the judge suggested")] = False
    confirmed: Annotated[bool, Field(description="the new text may lose numbers, names or negations")] = False
    ticks: Annotated[list[ApprovalCheck], Field(description="checks of an approval that a person has made")] = []
    actor: Annotated[str, Field(max_length=200, description="who answers; else whom the server was started for")] = ""


def desk_of(request: Request) -> Desk:
    """The desk of the server that takes the request."""
    found: Desk = request.app.state.desk
    return found


AtDesk = Annotated[Desk, Depends(desk_of)]
OfCorpus = Annotated[str, Path(description="name of the corpus")]
OfQuestion = Annotated[str, Path(description="id of the question, or the beginning of it")]


@router.get("/corpora", dependencies=[Depends(may_read)])
def corpora(desk: AtDesk) -> list[dict[str, Any]]:
    """Every corpus, with the number of its open questions."""
    return [{"corpus": corpus, "open": count} for corpus, count in desk.corpora()]


@router.get("/corpora/{corpus}/queue", dependencies=[Depends(may_read)])
def queue(
    desk: AtDesk,
    corpus: OfCorpus,
    limit: Annotated[int, Query(ge=1, le=MOST_PER_PAGE, description="so many questions")] = 50,
    offset: Annotated[int, Query(ge=0, description="after so many others")] = 0,
) -> dict[str, Any]:
    """The open questions of a corpus in the order in which to look, page by page."""
    count, items = desk.page(corpus, limit=limit, offset=offset)
    admit_to = desk.policy(corpus).gates.admit_to
    questions = [item_values(item, now=desk.now, admit_to=admit_to) for item in items]
    return {"corpus": corpus, "open": count, "offset": offset, "questions": questions}


@router.get("/corpora/{corpus}/queue/{recommendation_id}", dependencies=[Depends(may_read)])
def question(desk: AtDesk, corpus: OfCorpus, recommendation_id: OfQuestion) -> dict[str, Any]:
    """One question: both texts with their difference marked, what was said, and what each answer would do."""
    item = desk.item(corpus, recommendation_id)
    admit_to = desk.policy(corpus).gates.admit_to
    return full_values(item, desk.checks(corpus, item), now=desk.now, admit_to=admit_to)


@router.post("/corpora/{corpus}/queue/{recommendation_id}/answers", dependencies=[Depends(may_change)], status_code=201)
def answer(desk: AtDesk, corpus: OfCorpus, recommendation_id: OfQuestion, body: AnswerBody) -> dict[str, Any]:
    """Answers a question: all of it, or nothing. Whoever comes second is told so (409)."""
    done = desk.answer(
        corpus,
        recommendation_id,
        Answer(body.action, body.entry_id, body.resolution, body.body, body.confirmed),
        actor=body.actor,
        ticks=frozenset(body.ticks),
        suggested=body.suggested,
    )
    return {
        "answer": done.written.action_id,
        "recommendation_id": done.question.recommendation_id,
        "action": body.action,
        "effects": list(done.words),
        "effective_at": done.written.effective_at,
        "entries": [subject.entry_id for subject in done.question.subjects],
        "lost": list(done.lost),
    }


@router.post("/corpora/{corpus}/answers/{action_id}/undo", dependencies=[Depends(may_change)])
def undo(
    desk: AtDesk,
    corpus: OfCorpus,
    action_id: Annotated[str, Path(description="id of the answer or of its question")],
    actor: Annotated[
        str, Query(max_length=200, description="who takes it back; else whom the server was started for")
    ] = "",
) -> dict[str, Any]:
    """Takes an answer back, by its own id or that of its question."""
    done = desk.undo(corpus, action_id, actor=actor)
    return {
        "undone": done.action_id,
        "action": done.action,
        "entries": list(done.entry_ids),
        "recommendation_id": done.recommendation_id,
    }
