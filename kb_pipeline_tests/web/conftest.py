"""What the tests of the review pages share: a corpus with questions of several kinds, and a client of the application."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kb_pipeline.adapters.database_url import connect
from kb_pipeline.web.app import build_app
from kb_pipeline.web.settings import Settings
from kb_pipeline_tests.conftest import new_database
from kb_pipeline_tests.fakes.house import House, HouseCorpus

TOKEN = "token-of-the-tests-0123456789"
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
NASTY = '<script>alert(1)</script> \u202egnp.exe & "quoted" <img src=x onerror=alert(2)>'

ROWS: tuple[dict[str, Any], ...] = (
    {"id": "tide-a", "kind": "rule", "body": "The tide gate must be closed at night."},
    {"id": "tide-b", "kind": "rule", "body": "The tide gate must not be closed at night."},
    {"id": "crane-a", "body": "The north crane lifts at most 40 tons of steel in calm weather, says the yard book."},
    {"id": "crane-b", "body": "The north crane lifts at most 40 tons of steel in calm weather, so says the yard book."},
    {"id": "nasty-a", "body": f"The pilot ladder is checked {NASTY} before every boarding of the vessel by crews"},
    {"id": "nasty-b", "body": f"The pilot ladder is checked {NASTY} before each boarding of the vessel by crews"},
    {"id": "key-a", "body": f"The token of the tug radio is {SECRET} and lies in the drawer."},
)


@pytest.fixture(scope="session")
def curated_once(
    house: House, postgres_server: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A house whose one corpus was curated once."""
    with new_database(postgres_server, f"TEMPLATE {migrated_template}") as url:
        own = dataclasses.replace(house, home=tmp_path_factory.mktemp("yard"), database_url=url)
        corpus = own.corpus("yard")
        corpus.load(*ROWS).ok()
        corpus.curate().ok()
        # A database that somebody is connected to cannot be copied.
        with closing(connect(postgres_server)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (url.partition("?")[0].rpartition("/")[2],),
            )
        yield own


@pytest.fixture
def review(curated_once: House, postgres_server: str) -> Iterator[HouseCorpus]:
    """A copy of that corpus for one test; the process has the environment of its house and policy."""
    template = curated_once.database_url.partition("?")[0].rpartition("/")[2]
    with new_database(postgres_server, f"TEMPLATE {template}") as url, pytest.MonkeyPatch.context() as patch:
        house = dataclasses.replace(curated_once, database_url=url)
        for name, value in house.environment(KB_POLICY=str(house.home / "yard.policy.yaml")).items():
            patch.setenv(name, value)
        yield house.corpus("yard")


@pytest.fixture
def settings() -> Settings:
    return Settings(token=TOKEN, actor="ida")


@pytest.fixture
def client(review: HouseCorpus, settings: Settings) -> TestClient:
    """A program or browser that shows nothing yet."""
    return TestClient(build_app(settings), base_url="http://127.0.0.1:8765", follow_redirects=False)


@pytest.fixture
def browser(client: TestClient) -> TestClient:
    """A browser that was opened with the token."""
    assert client.get("/", params={"token": TOKEN}).status_code == 303
    return client


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def questions(client: TestClient, corpus: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Open questions by the ids of their entries."""
    listed = client.get(f"/api/v1/corpora/{corpus}/queue").json()["questions"]
    return {tuple(sorted(entry["entry_id"] for entry in row["entries"])): row for row in listed}
