"""The application: pages and API over one desk, with the errors of kb_pipeline as answers that a person can act on.

Belongs here: putting the parts together. Every error of ours becomes its own sentence and a status; everything else is a bug
and is logged.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from kb_pipeline.errors import CorpusBusyError, DatabaseError, KbError, ReviewError, UnknownNameError, UsageError
from kb_pipeline.web import api, pages
from kb_pipeline.web.access import guarded
from kb_pipeline.web.desk import Desk
from kb_pipeline.web.settings import Settings

_STATUS: tuple[tuple[type[KbError], int], ...] = (
    (UnknownNameError, 404),
    (ReviewError, 409),
    (DatabaseError, 503),
    (CorpusBusyError, 503),
    (UsageError, 400),
    (KbError, 500),
)


def build_app(settings: Settings) -> FastAPI:
    """The application for these settings. Nothing is opened before the first request."""
    app = FastAPI(
        title="kb_pipeline",
        summary="The review queue of knowledge bases: read it, answer it, take answers back.",
        # The usual page for it loads scripts from elsewhere, and these pages load nothing from anywhere: /docs is our own.
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.desk = Desk(settings)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.middleware("http")(guarded)
    app.add_exception_handler(KbError, _own_error)
    app.add_exception_handler(HTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _wrong_request)
    return app


def _own_error(request: Request, error: Exception) -> Response:
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return _told(request, status, str(error))


def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return _told(request, error.status_code, str(error.detail))


def _wrong_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    # What was sent is left out: it may be the text of an entry.
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
    return _told(request, 422, said)


def _told(request: Request, status: int, words: str) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": words}, status)
    titles = {401: "Not allowed", 403: "Not allowed", 404: "Not found", 409: "Nothing was changed"}
    return pages.page(request, "message", status, title=titles.get(status, "That did not work"), words=words)
