"""Who may read and who may change: token, session of a browser, and forms that only our own pages can send.

Belongs here: the check before every request, and the headers after it. A browser gets a session by opening the address with the
token once; its forms carry a proof that another site cannot know. A program sends the token itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response
from fastapi.responses import PlainTextResponse

from kb_pipeline.web.settings import Settings

SESSION = "kb_session"
FORM_PROOF = "form"

_HEADERS = {
    # Texts of entries are escaped; should one slip through, it may neither run nor load nor send anything.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def settings_of(request: Request) -> Settings:
    """The settings of the server that takes the request."""
    found: Settings = request.app.state.settings
    return found


async def guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Answers only what is addressed to us by one of our names, and says how a browser must treat the answer.

    A page of somebody else's whose name was turned to our address would be taken for ours by the browser.
    """
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname
    if name not in settings_of(request).own_names:
        return PlainTextResponse("this server does not answer to that name (kb serve --name adds one)", 421)
    response = await call_next(request)
    for header, value in _HEADERS.items():
        response.headers.setdefault(header, value)
    return response


def may_read(request: Request) -> None:
    """Refuses whoever may not read: on the loopback nobody, elsewhere all who show neither token nor session.

    Raises:
        HTTPException: 401.
    """
    settings = settings_of(request)
    if not settings.is_local and not has_session(request) and not has_token(request):
        raise HTTPException(401, "open the address that kb serve printed, or send its token (Authorization: Bearer)")


def may_change(request: Request) -> None:
    """Refuses a program that does not show the token.

    Raises:
        HTTPException: 401.
    """
    if not has_token(request):
        raise HTTPException(401, "a change takes the token that kb serve printed (Authorization: Bearer TOKEN)")


def may_send(request: Request, proof: str) -> None:
    """Refuses a form that does not come from a page of ours in a browser with a session.

    Raises:
        HTTPException: 401 without a session, 403 from elsewhere.
    """
    settings = settings_of(request)
    if not has_session(request):
        raise HTTPException(401, "open the address that kb serve printed once; after that this browser may answer")
    origin = request.headers.get("origin")
    if origin not in (None, "null") and urlsplit(str(origin)).netloc != request.headers.get("host"):
        raise HTTPException(403, "this form was sent by another site")
    if not settings.is_proof(FORM_PROOF, proof):
        raise HTTPException(403, "this page is older than the server; load it again")


def has_session(request: Request) -> bool:
    """Whether the browser was opened with the token."""
    return settings_of(request).is_proof(SESSION, request.cookies.get(SESSION, ""))


def has_token(request: Request) -> bool:
    """Whether the request carries the token."""
    kind, _, shown = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and settings_of(request).is_token(shown.strip())


def open_session(settings: Settings, response: Response) -> None:
    """Gives a browser its session; scripts cannot read it and no other site can send it."""
    response.set_cookie(SESSION, settings.proof(SESSION), httponly=True, samesite="strict", path="/")
