"""Where the database is: ``KB_DATABASE_URL``, or else the embedded server of ``$KB_HOME`` (``./.kb``).

Belongs here: reading and rewriting PostgreSQL URLs, connecting with errors that a user can act on, and the second
database on the same server that Dagster keeps its own records in. Does not belong here: the life of the embedded
server (postgres_server), tables (migrations).

No message of this module shows a password, nor a piece of one: a URL that libpq would cut in a wrong place, because
its password holds an unescaped ``@`` or ``/``, is refused before libpq can name the pieces.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg2
import psycopg2.errors
import psycopg2.extensions
from psycopg2 import sql

from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline.errors import DatabaseError

Parts = dict[str, str]
"""Connection parameters under libpq's names (host, port, user, password, dbname, sslmode, ...)."""

_SCHEME = re.compile(r"^postgres(?:ql)?(?:\+psycopg2)?://")
_PLAUSIBLE = {
    "host": re.compile(r"^(?:[\w.:%,-]*|/.*)$"),
    "port": re.compile(r"^[\d,]*$"),
    "dbname": re.compile(r"^[^@/]+$"),
}
_CONNECT_SECONDS = 15


def kb_home() -> Path:
    """Directory of the data that belong to one installation: ``$KB_HOME``, else ``.kb`` in the working directory."""
    return Path(os.environ.get("KB_HOME") or ".kb").expanduser().resolve()


def embedded_server() -> EmbeddedPostgres | None:
    """The embedded server of ``kb_home()``, or None when ``KB_DATABASE_URL`` names a server. Starts nothing."""
    return None if _configured("KB_DATABASE_URL") else EmbeddedPostgres(kb_home() / "postgres")


def database_url() -> str:
    """The libpq URL (``postgresql://``) of the knowledge base's database; starts the embedded server if it is needed.

    A configured server is not asked for anything here: ``connect`` says what is wrong with it.

    Raises:
        DatabaseError: the configured URL cannot be used, or the embedded server cannot be started.
    """
    server = embedded_server()
    if server is not None:
        return server.start()
    return _libpq_url(_parts(_configured("KB_DATABASE_URL"), "KB_DATABASE_URL"))


def dagster_database_url() -> str:
    """The libpq URL of the database for Dagster's own records, on the same server; created when it is missing.

    The embedded server has ``kb_dagster``. For a configured server it is ``KB_DAGSTER_DATABASE_URL``, else the name of
    the knowledge base's database with ``_dagster`` after it.

    Raises:
        DatabaseError: the server cannot be reached, or the database is missing and the role may not create it; the
            message holds the statement to run.
    """
    server = embedded_server()
    if server is not None:
        server.start()
        return server.url_of("kb_dagster")
    own = _configured("KB_DAGSTER_DATABASE_URL")
    if own:
        return _libpq_url(_parts(own, "KB_DAGSTER_DATABASE_URL"))
    url = database_url()
    name = f"{_parts(url, 'KB_DATABASE_URL')['dbname']}_dagster"
    _create_if_missing(url, name)
    return with_database(url, name)


def with_database(url: str, name: str) -> str:
    """The URL of another database on the same server, with the same account and options."""
    return _libpq_url({**_parts(url, "the database URL"), "dbname": name})


def sqlalchemy_url(url: str) -> str:
    """The URL for SQLAlchemy with its psycopg2 driver, which newer versions no longer choose by themselves."""
    return "postgresql+psycopg2://" + _libpq_url(_parts(url, "the database URL")).removeprefix("postgresql://")


def describe(url: str) -> str:
    """The URL without password and options, for messages."""
    parts = _parts(url, "the database URL")
    return _libpq_url({name: parts[name] for name in ("user", "host", "port", "dbname") if name in parts})


def connect(url: str) -> psycopg2.extensions.connection:
    """Opens a connection.

    Raises:
        DatabaseError: server not reachable, password wrong, no such database, ...: one sentence, without the password.
    """
    defaults = {"connect_timeout": str(_CONNECT_SECONDS), "application_name": "kb_pipeline"}
    settings = {**defaults, **_parts(url, "the database URL")}
    try:
        connection: psycopg2.extensions.connection = psycopg2.connect(psycopg2.extensions.make_dsn(**settings))
    except psycopg2.OperationalError as error:
        reason = " ".join(str(error).split())
        raise DatabaseError(f"cannot connect to {describe(url)}: {reason}. {_advice(reason)}") from error
    return connection


def _configured(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def _parts(url: str, source: str) -> Parts:
    """Takes a URL apart with libpq's own parser.

    Raises:
        DatabaseError: names ``source`` and what to change, and quotes nothing of the URL.
    """
    shape = (
        "expected postgresql://user:password@host:port/database, "
        "with special characters of the password escaped (@ as %40, / as %2F)"
    )
    if not _SCHEME.match(url):
        raise DatabaseError(f"{source} is not a PostgreSQL URL: {shape}.")
    try:
        parts: Parts = psycopg2.extensions.parse_dsn(_SCHEME.sub("postgresql://", url))
    except psycopg2.ProgrammingError:
        raise DatabaseError(f"{source} cannot be read: {shape}.") from None
    if not parts.get("dbname"):
        raise DatabaseError(f"{source} names no database: {shape}.")
    # What libpq takes for host, port or database may be the rest of a password with an unescaped @ or / in it.
    if not all(pattern.match(parts.get(name, "")) for name, pattern in _PLAUSIBLE.items()):
        raise DatabaseError(f"{source} has no valid host, port and database: {shape}.")
    return parts


def _libpq_url(parts: Parts) -> str:
    """Puts a URL together that libpq and SQLAlchemy read alike: sockets and lists of hosts go behind the ``?``."""
    rest = dict(parts)
    user, password, name = rest.pop("user", ""), rest.pop("password", ""), rest.pop("dbname")
    account = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = ""
    host = rest.get("host", "")
    if host and not host.startswith("/") and "," not in host:
        del rest["host"]
        port = rest.pop("port", "")
        place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    options = f"?{urlencode(rest, quote_via=quote, safe='/')}" if rest else ""
    return f"postgresql://{account}{'@' if account else ''}{place}/{quote(name, safe='')}{options}"


def _create_if_missing(url: str, name: str) -> None:
    """Creates a database on the server of ``url`` unless it is there; two processes may do so at once."""
    connection = connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if cursor.fetchone() is None:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except (psycopg2.errors.DuplicateDatabase, psycopg2.errors.UniqueViolation):
        return
    except psycopg2.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise DatabaseError(
            f"Dagster needs a database of its own, and the role {user!r} may not create it: have an administrator run "
            f'CREATE DATABASE "{name}" OWNER "{user}"; or set KB_DAGSTER_DATABASE_URL to another one.'
        ) from error
    finally:
        connection.close()


def _advice(reason: str) -> str:
    """What to do about a failed connection; the patterns are those of an English server, the last line fits all."""
    for pattern, advice in (
        ("password authentication failed", "Check user and password of the URL."),
        ("no password supplied", "Put the password into the URL or into ~/.pgpass."),
        ('" does not exist', "Create it, or correct the URL."),
        ("too many clients", "Close other connections, or raise max_connections of the server."),
        ("could not translate host name", "Check the host of the URL."),
        ("Connection refused", "Start the server, or check host and port of the URL."),
        ("timeout expired", "Check host, port and firewall."),
    ):
        if pattern in reason:
            return advice
    return "Check that the server runs and that the URL is right."
