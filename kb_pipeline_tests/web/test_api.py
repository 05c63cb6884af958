"""The HTTP API: what it tells, whom it lets change things, and what it says when it does not."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kb_pipeline.vocabulary import ReviewAction
from kb_pipeline.web.app import build_app
from kb_pipeline.web.desk import Desk
from kb_pipeline.web.settings import Settings
from kb_pipeline_tests.fakes.house import HouseCorpus
from kb_pipeline_tests.web.conftest import SECRET, bearer, questions


def test_the_queue_is_that_of_the_command(client: TestClient, review: HouseCorpus) -> None:
    told = review.kb("review", "list", "--json").ok().json
    asked = client.get(f"/api/v1/corpora/{review.name}/queue").json()
    assert (asked["corpus"], asked["open"]) == (review.name, told["open"]) and asked["open"] >= 3
    ids = [row["recommendation_id"] for row in told["questions"]]
    assert [row["recommendation_id"] for row in asked["questions"]] == ids
    second = client.get(f"/api/v1/corpora/{review.name}/queue", params={"limit": 1, "offset": 1}).json()
    assert [row["recommendation_id"] for row in second["questions"]] == ids[1:2]
    assert {"corpus": review.name, "open": told["open"]} in client.get("/api/v1/corpora").json()


def test_one_question_has_both_texts_with_their_difference(client: TestClient, review: HouseCorpus) -> None:
    row = questions(client, review.name)["tide-a", "tide-b"]
    found = client.get(f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}").json()
    assert found["type"] == "CONFLICT" and "accept --resolution keep_a" in found["effect"]
    only = [
        "".join(piece["text"] for piece in entry["marked"] if piece["kind"] == "only") for entry in found["entries"]
    ]
    assert sorted(word.strip() for word in only) == ["", "not"]


def test_a_secret_is_told_of_and_not_shown(client: TestClient, review: HouseCorpus) -> None:
    row = questions(client, review.name)["key-a",]
    address = f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}"
    api, page = client.get(address), client.get(f"/c/{review.name}/q/{row['recommendation_id']}")
    assert api.status_code == page.status_code == 200
    listed = client.get(f"/api/v1/corpora/{review.name}/queue").text + client.get(f"/c/{review.name}").text
    assert not any(SECRET in text for text in (api.text, page.text, listed))
    assert api.json()["entries"][0]["withheld"]


def test_an_answer_and_its_undo(client: TestClient, review: HouseCorpus) -> None:
    before = review.export("--full")
    row = questions(client, review.name)["crane-a", "crane-b"]
    address = f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}/answers"
    done = client.post(address, json={"action": "accept", "actor": "jo"}, headers=bearer())
    assert done.status_code == 201 and done.json()["effects"]
    assert list(review.merged()) == ["crane-b"]
    assert ("crane-a", "crane-b") not in questions(client, review.name)
    undone = client.post(f"/api/v1/corpora/{review.name}/answers/{done.json()['answer']}/undo", headers=bearer())
    assert undone.json()["recommendation_id"] == row["recommendation_id"]
    assert review.export("--full") == before
    assert ("crane-a", "crane-b") in questions(client, review.name)
    actors = review.query(
        "SELECT actor_id FROM changes WHERE corpus = %s AND change_type = 'review' ORDER BY 1", review.name
    )
    assert [actor["actor_id"] for actor in actors] == ["ida", "jo"]


def test_of_two_at_once_one_is_told(client: TestClient, review: HouseCorpus) -> None:
    row = questions(client, review.name)["tide-a", "tide-b"]
    address = f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}/answers"

    def answer(how: str) -> int:
        return client.post(address, json={"action": "accept", "resolution": how}, headers=bearer()).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(answer, ["keep_a", "keep_b"])) == [201, 409]
    assert list(review.states().values()).count("archived") == 1
    again = client.post(address, json={"action": "dismiss"}, headers=bearer())
    assert again.status_code == 409 and "error" in again.json()


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"authorization": "Basic eDp5"}, bearer("")])
def test_no_change_without_the_token(client: TestClient, review: HouseCorpus, headers: dict[str, str]) -> None:
    before = review.export("--full")
    row = questions(client, review.name)["tide-a", "tide-b"]
    address = f"/api/v1/corpora/{review.name}"
    answer = client.post(
        f"{address}/queue/{row['recommendation_id']}/answers", json={"action": "dismiss"}, headers=headers
    )
    undo = client.post(f"{address}/answers/x/undo", headers=headers)
    assert (answer.status_code, undo.status_code) == (401, 401)
    assert review.export("--full") == before and ("tide-a", "tide-b") in questions(client, review.name)


def test_a_session_of_a_browser_is_no_token(browser: TestClient, review: HouseCorpus) -> None:
    row = questions(browser, review.name)["tide-a", "tide-b"]
    address = f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}/answers"
    assert browser.post(address, json={"action": "dismiss"}).status_code == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/corpora/nobody/queue", 404),
        ("/api/v1/corpora/{corpus}/queue/rec_nothing", 404),
        ("/api/v1/corpora/{corpus}/queue?limit=0", 422),
        ("/api/v1/corpora/{corpus}/queue?limit=100000", 422),
        ("/api/v1/nothing", 404),
    ],
)
def test_errors_are_sentences(client: TestClient, review: HouseCorpus, path: str, status: int) -> None:
    answer = client.get(path.format(corpus=review.name))
    assert answer.status_code == status
    assert len(answer.json()["error"]) > 5


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "destroy"}, 422),
        ({"action": "edit", "entry_id": "tide-a", "body": " \n"}, 409),
        ({"action": "edit", "entry_id": "nobody", "body": "A new body."}, 409),
        ({"action": "accept"}, 409),
        ({"action": "accept", "resolution": "maybe"}, 422),
        ({"action": "dismiss", "unknown": 1}, 422),
        ({"action": "edit", "entry_id": "tide-a", "body": f"The code is {SECRET}."}, 409),
    ],
)
def test_what_cannot_be_answered_changes_nothing(
    client: TestClient, review: HouseCorpus, body: dict[str, object], status: int
) -> None:
    before = review.export("--full")
    row = questions(client, review.name)["tide-a", "tide-b"]
    address = f"/api/v1/corpora/{review.name}/queue/{row['recommendation_id']}/answers"
    answer = client.post(address, json=body, headers=bearer())
    assert answer.status_code == status, answer.text
    assert SECRET not in answer.text
    assert review.export("--full") == before


def test_the_description_names_every_address(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/api/v1/corpora",
        "/api/v1/corpora/{corpus}/queue",
        "/api/v1/corpora/{corpus}/queue/{recommendation_id}",
        "/api/v1/corpora/{corpus}/queue/{recommendation_id}/answers",
        "/api/v1/corpora/{corpus}/answers/{action_id}/undo",
    }
    assert "AnswerBody" in json.dumps(described)


def test_the_page_of_the_description_says_what_the_server_checks(client: TestClient) -> None:
    text = client.get("/docs").text
    described = client.get("/openapi.json").json()
    for path in described["paths"]:
        assert f"<code>{path}</code>" in text
    for name in described["components"]["schemas"]["AnswerBody"]["properties"]:
        assert f'<th scope="row"><code>{name}</code></th>' in text
    for action in ReviewAction:
        assert action in text
    assert "integer from 1 to 200" in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)


def test_queues_are_read_ahead_and_again_after_a_change(
    review: HouseCorpus, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_pipeline.web.desk._FRESH_SECONDS", 0.01)
    desk, stop = Desk(settings), threading.Event()
    reader = threading.Thread(target=desk.keep_fresh, args=(stop,))
    reader.start()
    try:
        first = _until(lambda: desk.kept(review.name))
        review.load({"id": "tide-a", "kind": "rule", "body": "The tide gate stays open."}).ok()
        again = _until(lambda: (found := desk.kept(review.name)) is not first and found)
        assert again.waiting.height < first.waiting.height
    finally:
        stop.set()
        reader.join(20)
    assert not reader.is_alive()


def test_a_database_that_is_away_is_told_once_while_reading_ahead(
    review: HouseCorpus, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kb_pipeline.web.desk._FRESH_SECONDS", 0.01)
    monkeypatch.setenv("KB_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/away")
    stop = threading.Event()
    reader = threading.Thread(target=Desk(settings).keep_fresh, args=(stop,))
    reader.start()
    _until(lambda: caplog.records)
    time.sleep(0.2)
    stop.set()
    reader.join(20)
    assert not reader.is_alive()
    assert len([one for one in caplog.records if "cannot be read ahead" in one.getMessage()]) == 1


def _until(found: Callable[[], Any]) -> Any:
    """What ``found`` gives as soon as it gives something."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.02)
    raise AssertionError("nothing came within 30 s")


def test_on_the_network_reading_takes_the_token_too(review: HouseCorpus, settings: Settings) -> None:
    open_to_all = Settings(token=settings.token, host="0.0.0.0", names=("kb.example",))
    client = TestClient(build_app(open_to_all), base_url="http://kb.example", follow_redirects=False)
    for path in ("/", f"/c/{review.name}", "/api/v1/corpora", f"/api/v1/corpora/{review.name}/queue"):
        assert client.get(path).status_code == 401, path
        assert client.get(path, headers=bearer()).status_code in (200, 303), path


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("127.0.0.1:8765", 200), ("localhost", 200), ("", 421)]
)
def test_only_our_own_names_are_answered(client: TestClient, host: str, status: int) -> None:
    assert client.get("/api/v1/corpora", headers={"host": host}).status_code == status
