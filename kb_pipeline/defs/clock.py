"""What a process asks of its surroundings: the clock, who acts, and the database. Nothing here knows Dagster.

The clock of kb_pipeline is read in this one place; everything below is told the time.
"""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.database_url import database_url
from kb_pipeline.adapters.migrations import migrate
from kb_pipeline.errors import UsageError


def open_database() -> Database:
    """The project's database: the embedded server is started and the schema brought up to date if need be."""
    url = database_url()
    migrate(url)
    return Database(url)


def default_actor() -> str:
    """Who acts: ``KB_ACTOR``, else the login name."""
    named = os.environ.get("KB_ACTOR")
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user id without a name
        return f"uid-{os.getuid()}"


def now() -> datetime:
    """The clock, in UTC. ``KB_NOW`` sets it, for trials and tests of past and future weeks; without a zone it is UTC.

    Raises:
        UsageError: ``KB_NOW`` is no time.
    """
    fixed = os.environ.get("KB_NOW")
    if not fixed:
        return datetime.now(UTC)
    try:
        told = datetime.fromisoformat(fixed)
    except ValueError as error:
        raise UsageError(f"KB_NOW is {fixed!r}; set it to an ISO 8601 time, as in 2026-11-02T08:00:00Z") from error
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
