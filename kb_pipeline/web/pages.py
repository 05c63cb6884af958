"""The review pages: the queue, one question side by side, its answers, and the way back.

Belongs here: what a browser asks and sends. Pages are rendered on the server from templates that escape everything; the one
script only moves and clicks, and nothing needs it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from kb_pipeline.defs.review_values import item_values, marked_sides
from kb_pipeline.stages.report_words import QUESTIONS
from kb_pipeline.stages.review import Answer
from kb_pipeline.stages.review_words import CHECKS, possible_answers, subject_words
from kb_pipeline.text.characters import printable
from kb_pipeline.vocabulary import ApprovalCheck, RecommendationType, Resolution, ReviewAction
from kb_pipeline.web.access import FORM_PROOF, has_session, may_read, may_send, open_session, settings_of
from kb_pipeline.web.api import AtDesk
from kb_pipeline.web.described import operations

if TYPE_CHECKING:
    from jinja2 import Environment

    from kb_pipeline.defs.review_desk import Item

PAGE_ITEMS = 25
_STATIC = {"review.css": "text/css", "review.js": "text/javascript"}
_LABELS = {
    Resolution.KEEP_A: "A is right",
    Resolution.KEEP_B: "B is right",
    Resolution.KEEP_BOTH: "Both hold",
    Resolution.NEITHER: "Neither holds",
    Resolution.MANUAL: "Settled elsewhere",
}
_ACCEPTS = {
    RecommendationType.MERGE: "Merge",
    RecommendationType.ADMIT: "Let in",
    RecommendationType.ARCHIVE: "Archive",
    RecommendationType.SUPERSEDE: "One replaces the other",
}

router = APIRouter(include_in_schema=False)


@router.get("/favicon.ico")
def icon() -> Response:
    """There is none, and no browser shall keep asking."""
    return Response(status_code=204)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The style sheet and the script."""
    if name not in _STATIC:
        return PlainTextResponse("there is no such file", 404)
    return Response(_template(name), media_type=_STATIC[name])


@router.get("/docs", dependencies=[Depends(may_read)], response_model=None)
def docs(request: Request) -> Response:
    """The description of the HTTP API."""
    return page(
        request,
        "docs",
        title="HTTP API",
        operations=operations(request.app.openapi()),
        base=str(request.base_url).rstrip("/"),
        is_local=settings_of(request).is_local,
    )


@router.get("/", response_model=None)
def home(request: Request, desk: AtDesk, token: str = "") -> Response:
    """All corpora; with the token, the browser gets its session first."""
    settings = settings_of(request)
    if token:
        if not settings.is_token(token):
            return page(request, "message", 401, title="Wrong token", words="Open the address that kb serve printed.")
        opened = RedirectResponse("/", 303)
        open_session(settings, opened)
        return opened
    may_read(request)
    corpora = desk.corpora()
    if len(corpora) == 1:
        return RedirectResponse(_address(corpora[0][0]), 303)
    return page(request, "home", title="Review", corpora=corpora)


@router.get("/c/{corpus}", dependencies=[Depends(may_read)], response_model=None)
def queue(
    request: Request, desk: AtDesk, corpus: str, number: Annotated[int, Query(alias="page", ge=1)] = 1, done: str = ""
) -> Response:
    """A page of the queue."""
    count, items = desk.page(corpus, limit=PAGE_ITEMS, offset=(number - 1) * PAGE_ITEMS)
    admit_to = desk.policy(corpus).gates.admit_to
    pages = max(1, -(-count // PAGE_ITEMS))
    return page(
        request,
        "queue",
        title=f"{corpus}: review queue",
        corpus=corpus,
        count=count,
        items=[item_values(item, now=desk.now, admit_to=admit_to) for item in items],
        first=(number - 1) * PAGE_ITEMS + 1,
        number=number,
        pages=pages,
        done=done,
        asks=QUESTIONS,
    )


@router.get("/c/{corpus}/q/{recommendation_id}", dependencies=[Depends(may_read)], response_model=None)
def question(request: Request, desk: AtDesk, corpus: str, recommendation_id: str, done: str = "") -> Response:
    """One question, with both texts and every answer."""
    return _question_page(request, desk, corpus, recommendation_id, done=done)


@router.post("/c/{corpus}/q/{recommendation_id}", dependencies=[Depends(may_read)], response_model=None)
def answer(
    request: Request,
    desk: AtDesk,
    corpus: str,
    recommendation_id: str,
    action: Annotated[ReviewAction, Form()],
    proof: Annotated[str, Form()] = "",
    entry_id: Annotated[str, Form()] = "",
    resolution: Annotated[str, Form()] = "",
    body: Annotated[str | None, Form()] = None,
    confirmed: Annotated[bool, Form()] = False,
    suggested: Annotated[bool, Form()] = False,
    actor: Annotated[str, Form(max_length=200)] = "",
    ticks: Annotated[list[ApprovalCheck] | None, Form()] = None,
) -> Response:
    """Takes an answer and goes on to the next question."""
    may_send(request, proof)
    following = desk.place(corpus, recommendation_id)
    given = Answer(
        action,
        entry_id or None,
        Resolution(resolution) if resolution else None,
        # A browser sends every line end as CR LF.
        None if body is None else body.replace("\r\n", "\n"),
        confirmed,
    )
    done = desk.answer(corpus, recommendation_id, given, actor=actor, ticks=frozenset(ticks or ()), suggested=suggested)
    query = f"?done={quote(done.written.action_id)}"
    return RedirectResponse(_address(corpus, following.after) + query, 303)


@router.post("/c/{corpus}/undo", dependencies=[Depends(may_read)], response_model=None)
def undo(
    request: Request,
    desk: AtDesk,
    corpus: str,
    answer_id: Annotated[str, Form()],
    proof: Annotated[str, Form()] = "",
    actor: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Takes an answer back and shows its question again."""
    may_send(request, proof)
    done = desk.undo(corpus, answer_id, actor=actor)
    return RedirectResponse(_address(corpus, done.recommendation_id), 303)


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from its template."""
    settings = settings_of(request)
    may_answer = has_session(request)
    html = (
        _environment()
        .get_template(f"{template}.html.jinja")
        .render(
            **values, may_answer=may_answer, proof=settings.proof(FORM_PROOF) if may_answer else "", address=_address
        )
    )
    return HTMLResponse(html, status)


def _question_page(request: Request, desk: AtDesk, corpus: str, recommendation_id: str, *, done: str) -> Response:
    item = desk.item(corpus, recommendation_id)
    asked = item.question
    admit_to = desk.policy(corpus).gates.admit_to
    checks = desk.checks(corpus, item) if len(asked.subjects) == 1 else {}
    return page(
        request,
        "question",
        title=f"{corpus}: {asked.recommendation_type}",
        corpus=corpus,
        asked=QUESTIONS[asked.recommendation_type or RecommendationType.FLAG],
        values=item_values(item, now=desk.now, admit_to=admit_to),
        item=item,
        explanation=None if item.is_withheld else item.explanation,
        suggested=None if item.is_withheld else item.suggested_body,
        sides=[
            {"name": name, "entry": one, "words": subject_words(one), "pieces": pieces}
            for name, one, pieces in zip("AB", asked.subjects, marked_sides(item), strict=False)
        ],
        buttons=_buttons(item, admit_to=admit_to),
        checks=[(check, CHECKS[check], known) for check, known in checks[asked.subjects[0].entry_id].items()]
        if checks
        else [],
        place=desk.place(corpus, str(asked.recommendation_id)),
        done=done,
    )


def _buttons(item: Item, *, admit_to: str) -> list[dict[str, Any]]:
    """Every answer that takes no text: what is sent, what the button says, and what it would do."""
    asked = item.question
    names = {one.entry_id: name for name, one in zip("AB", asked.subjects, strict=False)}
    found: list[dict[str, Any]] = []
    for typed, words in possible_answers(asked, admit_to=admit_to).items():
        action, _, choice = typed.partition(" ")
        option, _, chosen = choice.partition(" ")
        sent, label = {"action": action}, action.capitalize()
        if action in (ReviewAction.EDIT, ReviewAction.APPROVE):
            continue
        if option == "--resolution":
            sent["resolution"], label = chosen, _LABELS[Resolution(chosen)]
        elif option == "--entry":
            sent["entry_id"], label = chosen, f"Archive {names[chosen]}"
        elif action == ReviewAction.ACCEPT and asked.recommendation_type is not None:
            label = _ACCEPTS.get(asked.recommendation_type, "Accept")
        elif action == ReviewAction.KEEP:
            label = "Keep both" if len(asked.subjects) > 1 else "Keep as it is"
        key = {ReviewAction.ACCEPT.value: "a", ReviewAction.DISMISS.value: "d"}.get(typed, "")
        possible = not words[0].startswith("not possible")
        found.append({"sent": sent, "label": label, "key": key, "words": words, "possible": possible})
    return found


def _address(corpus: str, recommendation_id: str | None = None) -> str:
    path = f"/c/{quote(corpus, safe='')}"
    return path if recommendation_id is None else f"{path}/q/{quote(recommendation_id, safe='')}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["printable"] = printable
    return made


def _template(name: str) -> str:
    return (files("kb_pipeline.web") / "templates" / name).read_text(encoding="utf-8")
