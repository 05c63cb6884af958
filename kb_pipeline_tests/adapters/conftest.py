"""One database for the tests of adapters that only need a corpus of their own in it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.database_url import connect, with_database
from kb_pipeline_tests.fakes.corpus import Corpus
from kb_pipeline_tests.fakes.desk import ASKED, ROWS, Desk
from kb_pipeline_tests.fakes.messages_api import MessagesApi, verdict

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_database_url(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """URL of a database with the project's schema that many tests share, each with a corpus of its own."""
    name = f"kb_test_{uuid.uuid4().hex}"
    _run(postgres_server, f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    yield with_database(postgres_server, name)
    _run(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def corpus(shared_database_url: str) -> Corpus:
    """A new corpus."""
    return Corpus(shared_database_url, f"team{next(_numbers)}")


@pytest.fixture
def desk(corpus: Corpus) -> Desk:
    """The review desk of a corpus whose run has asked about a merge and a conflict."""
    corpus.load(*ROWS)
    corpus.curate(decided=ASKED)
    return Desk(corpus)


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    """A Messages API on the loopback that takes every two texts for different."""
    with MessagesApi(lambda body: verdict("distinct")) as server:
        yield server


@pytest.fixture
def database(database_url: str) -> Database:
    """A database of the test's own."""
    return Database(database_url)


def _run(url: str, statement: str) -> None:
    with closing(connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)
