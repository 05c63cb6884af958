"""The review pages: escaped, safe from other sites, and every answer in reach of a form."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from kb_pipeline_tests.fakes.house import HouseCorpus
from kb_pipeline_tests.web.conftest import NASTY, TOKEN, questions


class Page(HTMLParser):
    """Tags, attributes and forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def hidden(self) -> list[dict[str, str]]:
        """The hidden fields of each form, in order."""
        forms: list[dict[str, str]] = []
        for tag, attributes in self.tags:
            if tag == "form":
                forms.append({})
            elif tag == "input" and attributes.get("type") == "hidden":
                forms[-1][str(attributes["name"])] = str(attributes["value"])
        return forms


def opened(client: TestClient, corpus: str, *ids: str) -> tuple[str, str]:
    """(address, html) of the page of a question."""
    address = f"/c/{corpus}/q/{questions(client, corpus)[ids]['recommendation_id']}"
    answer = client.get(address)
    assert answer.status_code == 200
    return address, answer.text


def test_what_an_entry_says_is_shown_and_does_nothing(browser: TestClient, review: HouseCorpus) -> None:
    listing = browser.get(f"/c/{review.name}").text
    _, html = opened(browser, review.name, "nasty-a", "nasty-b")
    for text in (listing, html):
        page = Page(text)
        assert [a for tag, a in page.tags if tag == "script"] == [{"src": "/static/review.js", "defer": None}]
        assert not any(tag == "img" or any(name.startswith("on") for name in a) for tag, a in page.tags)
        shown = re.sub(r"<textarea.*?</textarea>", "", text, flags=re.DOTALL)
        assert "gnp.exe" in shown and "\u202e" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html and NASTY not in html
    # In a text to edit nothing is replaced: what is sent back is what was there.
    assert "&lt;img src=x onerror=alert(2)&gt;" in html


def test_every_answer_is_a_form_and_each_does_what_it_says(browser: TestClient, review: HouseCorpus) -> None:
    address, html = opened(browser, review.name, "tide-a", "tide-b")
    forms = Page(html).hidden()
    assert {form.get("resolution") for form in forms} >= {"keep_a", "keep_b", "keep_both", "neither", "manual"}
    (form,) = (form for form in forms if form.get("resolution") == "keep_b")
    done = browser.post(address, data=form)
    assert done.status_code == 303
    assert review.states()["tide-a"] == "archived"
    following = browser.get(done.headers["location"])
    assert following.status_code == 200 and "Answered." in following.text
    undo = Page(following.text).hidden()[0]
    back = browser.post(f"/c/{review.name}/undo", data=undo)
    assert (back.status_code, back.headers["location"]) == (303, address)
    assert review.states()["tide-a"] == "active"


def test_an_edit_is_a_new_version_and_line_ends_are_ours(browser: TestClient, review: HouseCorpus) -> None:
    address, html = opened(browser, review.name, "tide-a", "tide-b")
    (form,) = (form for form in Page(html).hidden() if form["action"] == "edit" and form["entry_id"] == "tide-b")
    text = "The tide gate must be closed at night.\r\nThe watch does it."
    lost = browser.post(address, data=form | {"body": text})
    assert lost.status_code == 409 and "loses" in lost.text
    assert browser.post(address, data=form | {"body": text, "confirmed": "true"}).status_code == 303
    assert review.rows()["tide-b"]["body"] == "The tide gate must be closed at night.\nThe watch does it."


def test_a_stale_page_is_told(browser: TestClient, review: HouseCorpus) -> None:
    address, html = opened(browser, review.name, "tide-a", "tide-b")
    form = next(form for form in Page(html).hidden() if form["action"] == "dismiss")
    review.load(
        {"id": "tide-a", "kind": "rule", "body": "The tide gate is never closed.", "updated_at": "2026-10-30"}
    ).ok()
    late = browser.post(address, data=form)
    assert late.status_code == 409 and "Nothing was changed" in late.text


@pytest.mark.parametrize(
    ("change", "headers", "status"),
    [
        ({"proof": "wrong"}, {}, 403),
        ({"proof": ""}, {}, 403),
        ({}, {"origin": "http://evil.example"}, 403),
        ({}, {"origin": "http://127.0.0.1:8765"}, 303),
    ],
)
def test_a_form_of_another_site_does_nothing(
    browser: TestClient, review: HouseCorpus, change: dict[str, str], headers: dict[str, str], status: int
) -> None:
    address, html = opened(browser, review.name, "tide-a", "tide-b")
    form = next(form for form in Page(html).hidden() if form["action"] == "dismiss")
    assert browser.post(address, data=form | change, headers=headers).status_code == status
    assert (("tide-a", "tide-b") in questions(browser, review.name)) is (status != 303)


def test_without_a_session_a_browser_may_only_read(client: TestClient, review: HouseCorpus) -> None:
    address, html = opened(client, review.name, "tide-a", "tide-b")
    assert Page(html).hidden() == [] and "may only read" in html
    assert client.post(address, data={"action": "dismiss", "proof": ""}).status_code == 401
    assert client.get("/", params={"token": "wrong"}).status_code == 401


def test_the_session_is_for_this_server_alone_and_holds_no_token(client: TestClient) -> None:
    cookie = client.get("/", params={"token": TOKEN}).headers["set-cookie"]
    assert TOKEN not in cookie
    assert re.search(r"HttpOnly", cookie) and re.search(r"SameSite=strict", cookie, re.IGNORECASE)


def test_pages_load_nothing_from_elsewhere_and_are_not_kept(browser: TestClient, review: HouseCorpus) -> None:
    answer = browser.get(f"/c/{review.name}")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    for name in ("review.css", "review.js"):
        assert browser.get(f"/static/{name}").status_code == 200
    assert browser.get("/static/../app.py").status_code == 404


def test_a_long_queue_comes_in_pages(browser: TestClient, review: HouseCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_pipeline.web.pages.PAGE_ITEMS", 2)
    first = browser.get(f"/c/{review.name}").text
    second = browser.get(f"/c/{review.name}", params={"page": 2}).text
    found = [re.findall(r"/q/(rec_\w+)", text) for text in (first, second)]
    assert len(found[0]) == 2 and found[1] and not set(found[0]) & set(found[1])
    assert 'rel="next"' in first and 'rel="prev"' in second
    assert browser.get(f"/c/{review.name}", params={"page": 999}).status_code == 200
