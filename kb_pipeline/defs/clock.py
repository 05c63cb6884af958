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
    """The clock, in UTC. ``KB_NOW`` sets it, for trials and tests of past and future weeks."""
    fixed = os.environ.get("KB_NOW")
    return datetime.fromisoformat(fixed).astimezone(UTC) if fixed else datetime.now(UTC)
