"""What all tests share: an environment without the developer's own settings, and a real PostgreSQL server.

The server is started once for all tests, in a directory of its own; ``KB_TEST_DATABASE_URL`` names another one (its
role must be allowed to create databases). Each test that asks for a database gets a new one.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from kb_pipeline.adapters.database_url import connect, with_database
from kb_pipeline.adapters.migrations import migrate
from kb_pipeline.adapters.postgres_server import EmbeddedPostgres
from kb_pipeline_tests.fakes.house import House
from kb_pipeline_tests.fakes.tiny_encoder import build_tiny_model


class _ByFile(LoadScopeScheduling):
    """Tests of one file share what they set up, so one process runs them; and one runs all about the sample's weeks."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return "sample" if path.name.startswith("test_sample_") and path.parent.name == "acceptance" else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """How tests are dealt out to processes (pytest --numprocesses)."""
    return _ByFile(config, log)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches the developer's database by accident: KB_HOME cannot be created until a test sets its own."""
    for name in list(os.environ):
        if name.startswith(("PG", "KB_DATABASE", "KB_DAGSTER", "DAGSTER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KB_HOME", f"{__file__}/home")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a database on the server of this test session."""
    configured = os.environ.get("KB_TEST_DATABASE_URL")
    if configured:
        yield configured
        return
    directory = Path(tempfile.mkdtemp(prefix="kb-tests-"))
    server = EmbeddedPostgres(directory / "postgres")
    try:
        url = server.start()
        # Nothing here has to survive a power cut.
        _run(url, "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
        yield url
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def migrated_template(postgres_server: str) -> Iterator[str]:
    """Name of a database with the project's schema, which is copied for each test."""
    with new_database(postgres_server) as url:
        migrate(url)
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def database_url(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """URL of a new database with the project's schema; dropped after the test."""
    with new_database(postgres_server, f"TEMPLATE {migrated_template}") as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: str) -> Iterator[str]:
    """URL of a new database without any table; dropped after the test."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def house(postgres_server: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A whole installation with a tiny encoder. Tests share it, each with corpora of its own names."""
    home = tmp_path_factory.mktemp("house")
    model = build_tiny_model(home / "tiny")
    with new_database(postgres_server, f"TEMPLATE {migrated_template}") as url, new_database(postgres_server) as own:
        yield House(home=home, database_url=url, dagster_url=own, model=model)


@pytest.fixture(scope="session")
def other_house(
    house: House, postgres_server: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A second installation: a knowledge base and a data directory of its own, Dagster's records shared."""
    with new_database(postgres_server, f"TEMPLATE {migrated_template}") as url:
        yield dataclasses.replace(house, home=tmp_path_factory.mktemp("other-house"), database_url=url)


@contextmanager
def new_database(server_url: str, options: str = "") -> Iterator[str]:
    """URL of a new database, dropped afterwards; ``TEMPLATE name`` makes it a copy."""
    name = f"kb_test_{uuid.uuid4().hex}"
    _run(server_url, f"CREATE DATABASE {name} {options}")
    try:
        yield with_database(server_url, name)
    finally:
        _run(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _run(url: str, *statements: str) -> None:
    with closing(connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for statement in statements:
            cursor.execute(statement)


settings.register_profile("kb", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("kb")
