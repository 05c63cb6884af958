"""URLs: forms that are accepted, errors that help and keep passwords, and Dagster's own database."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2.extensions
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters import database_url as urls
from kb_pipeline.adapters.env_file import load_env_file
from kb_pipeline.errors import DatabaseError

SECRET = "Zq8hunter"


def _ask(url: str, statement: str) -> object:
    with closing(urls.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.fixture
def account(postgres_server: str) -> Iterator[str]:
    """URL of a new role, which may do nothing, in the server's database."""
    role = f"kb_role_{uuid.uuid4().hex[:8]}"
    _ask(postgres_server, f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'")
    parts = psycopg2.extensions.parse_dsn(postgres_server)
    yield f"postgresql://{role}:{SECRET}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    _ask(postgres_server, f"DROP ROLE {role}")


def test_home_is_the_variable_or_a_directory_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_HOME", "some/where")
    assert urls.kb_home() == tmp_path / "some/where"
    monkeypatch.delenv("KB_HOME")
    assert urls.kb_home() == tmp_path / ".kb"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_scheme_of_a_configured_server(
    scheme: str, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DATABASE_URL", f"  {scheme}{empty_database_url.removeprefix('postgresql')}\n")
    url = urls.database_url()
    assert url == empty_database_url
    assert _ask(url, "SELECT 1") == 1
    engine = sqlalchemy.create_engine(urls.sqlalchemy_url(url))
    assert engine.dialect.driver == "psycopg2"
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT current_database()")) == url.partition("?")[0].split("/")[-1]
    engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h:5433/d",
        "postgresql://u@[::1]:5433/d?sslmode=require",
        "postgresql:///d?host=/var/run/my%20socket",
        "postgresql://u:p@h1:1,h2:2/d?target_session_attrs=any",
    ],
)
def test_libpq_and_sqlalchemy_read_a_url_alike(url: str) -> None:
    parts = psycopg2.extensions.parse_dsn(url)
    address = sqlalchemy.engine.make_url(urls.sqlalchemy_url(url))
    _, arguments = address.get_dialect()().create_connect_args(address)
    assert {name: str(value) for name, value in arguments.items()} == parts
    assert psycopg2.extensions.parse_dsn(urls.with_database(url, "e")) == {**parts, "dbname": "e"}


@given(password=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_password_survives_and_is_never_described(password: str) -> None:
    address = sqlalchemy.URL.create("postgresql", "u", password, "h", 5432, "d")
    url = urls.with_database(address.render_as_string(hide_password=False), "e")
    assert psycopg2.extensions.parse_dsn(url)["password"] == password
    assert sqlalchemy.engine.make_url(urls.sqlalchemy_url(url)).password == password
    assert urls.describe(url) == "postgresql://u@h:5432/e"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:{}@h/d", "not a PostgreSQL URL"),
        ("host=h password={} dbname=d", "not a PostgreSQL URL"),
        ("postgresql://u:{}@h", "names no database"),
        ("postgresql://u:a@{}@h/d", "no valid host, port and database"),
        ("postgresql://u:12/{}@h/d", "no valid host, port and database"),
        ("postgresql://u:{}/x@h/d", "no valid host, port and database"),
        ("postgresql://u:{}%zz@h/d", "cannot be read"),
        ("postgresql://u:a#{}@h/d?x=1", "cannot be read"),
    ],
)
def test_a_wrong_url_is_refused_without_quoting_it(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_DATABASE_URL", url.format(SECRET))
    with pytest.raises(DatabaseError, match=f"KB_DATABASE_URL .*{said}") as caught:
        urls.database_url()
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_wrong_password_and_missing_database_are_named(account: str) -> None:
    assert _ask(account, "SELECT 1") == 1
    wrong = f"{SECRET}-wrong"
    with pytest.raises(DatabaseError, match=r"password authentication failed .* Check user and password") as caught:
        urls.connect(account.replace(SECRET, wrong))
    assert wrong not in str(caught.value)
    with pytest.raises(DatabaseError, match=r'database "absent" does not exist. Create it, or correct') as caught:
        urls.connect(urls.with_database(account, "absent"))
    assert SECRET not in str(caught.value)


def test_unreachable_server_is_named() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with pytest.raises(DatabaseError, match=rf"postgresql://u@127\.0\.0\.1:{port}/d: .*refused.*Start the server"):
            urls.connect(f"postgresql://u:{SECRET}@127.0.0.1:{port}/d")


def test_dagsters_database_is_created_beside_a_configured_one(
    empty_database_url: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DATABASE_URL", empty_database_url)
    name = f"{empty_database_url.partition('?')[0].split('/')[-1]}_dagster"
    url = urls.dagster_database_url()
    assert urls.dagster_database_url() == url
    assert _ask(url, "SELECT current_database()") == name
    _ask(postgres_server, f"DROP DATABASE {name}")
    monkeypatch.setenv("KB_DAGSTER_DATABASE_URL", f"postgres{postgres_server.removeprefix('postgresql')}")
    chosen = psycopg2.extensions.parse_dsn(urls.dagster_database_url())
    assert chosen == psycopg2.extensions.parse_dsn(postgres_server)


def test_a_role_that_may_not_create_dagsters_database_is_told_the_statement(
    account: str, empty_database_url: str, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(_ask(empty_database_url, "SELECT current_database()"))
    monkeypatch.setenv("KB_DATABASE_URL", urls.with_database(account, name))
    with pytest.raises(DatabaseError, match=r'may not create it: .* run CREATE DATABASE "') as caught:
        urls.dagster_database_url()
    statement = str(caught.value).partition("run ")[2].partition(";")[0]
    assert SECRET not in str(caught.value)
    try:
        _ask(postgres_server, statement)
        assert _ask(urls.dagster_database_url(), "SELECT 1") == 1
    finally:
        _ask(postgres_server, f"DROP DATABASE {statement.split()[2]}")


def test_env_file_fills_what_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Setting a variable first makes monkeypatch take it away at the end.
    for name in ("KB_TEST_NEW", "KB_TEST_EMPTY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PWD", "/somewhere/else")
    monkeypatch.setenv("KB_ACTOR", "ann")
    assert load_env_file() == []
    Path(".env").write_text("KB_TEST_NEW=${PWD}/new\nKB_ACTOR=bob\nKB_TEST_EMPTY=\n")
    assert load_env_file() == ["KB_TEST_NEW"]
    assert (os.environ["KB_TEST_NEW"], os.environ["KB_ACTOR"]) == (f"{tmp_path}/new", "ann")
