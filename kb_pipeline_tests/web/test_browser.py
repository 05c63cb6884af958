"""The review pages in a real browser: the whole way from the queue to an answer and back, by keys alone."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from kb_pipeline.web.app import build_app
from kb_pipeline.web.settings import Settings
from kb_pipeline_tests.fakes.house import HouseCorpus
from kb_pipeline_tests.web.conftest import TOKEN

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)


@pytest.fixture
def served(review: HouseCorpus) -> Iterator[str]:
    """Address of a running server over the corpus."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(build_app(Settings(port=port, token=TOKEN, actor="ida")), port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def page(served: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.errors = []
        tab.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.on("console", lambda said: tab.errors.append(said.text) if said.type == "error" else None)
        tab.on("dialog", lambda dialog: (tab.errors.append(dialog.message), dialog.dismiss()))
        tab.goto(f"{served}/?token={TOKEN}")
        yield tab
        assert tab.errors == []
        browser.close()


def test_see_compare_accept_and_undo_by_keys(page: Any, review: HouseCorpus) -> None:
    page.wait_for_selector("a.item")
    assert "?token" not in page.url
    count = page.locator("a.item").count()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement === document.querySelectorAll('a.item')[0]")
    page.locator("a.item", has_text="crane-a").click()
    page.wait_for_selector("h1:has-text('Do these say the same?')")
    assert page.locator("mark").all_inner_texts()
    before = review.export("--full")
    asked = page.url
    page.keyboard.press("a")
    page.wait_for_selector(".done")
    assert list(review.merged()) == ["crane-b"]
    page.keyboard.press("u")
    page.wait_for_url(asked)
    assert review.export("--full") == before
    page.goto(page.url.partition("/q/")[0])
    assert page.locator("a.item").count() == count


SUGGESTED = "The north crane lifts at most 40 tons of steel in calm weather: so says the yard book."


def suggest(review: HouseCorpus, body: str) -> None:
    """Puts a suggested text to the question about the cranes, as a judge would have."""
    review.query("UPDATE recommendations SET suggested_body = %s WHERE entry_ids::text LIKE '%%crane%%'", body)


def test_a_suggested_text_is_seen_taken_by_key_and_taken_back(page: Any, review: HouseCorpus) -> None:
    suggest(review, SUGGESTED)
    page.locator("a.item", has_text="crane-a").click()
    page.wait_for_selector("h2:has-text('Suggested text for both')")
    assert page.locator(".suggested .text").inner_text() == SUGGESTED
    assert page.locator(".suggested mark").count() >= 1
    assert "gets a new text" in page.locator("form", has_text="Merge with the suggested text").inner_text()
    before, asked = review.export("--full"), page.url
    page.keyboard.press("s")
    page.wait_for_selector(".done")
    ((loser, winner),) = review.merged().items()
    assert review.rows()[winner]["body"] == SUGGESTED
    assert review.rows()[loser]["body"] != SUGGESTED
    page.keyboard.press("u")
    page.wait_for_url(asked)
    assert review.export("--full") == before


def test_a_text_of_ones_own_starts_from_the_suggestion(page: Any, review: HouseCorpus) -> None:
    suggest(review, SUGGESTED)
    page.locator("a.item", has_text="crane-a").click()
    page.locator("summary", has_text="Merge with a text of your own").click()
    form = page.locator("details[open] form")
    assert form.locator("textarea").input_value() == SUGGESTED
    form.locator("textarea").fill(" \u200b ")
    form.locator("button").click()
    page.wait_for_selector("h1:has-text('Nothing was changed')")
    assert "the new body is empty" in page.locator(".said").inner_text()
    page.errors.clear()  # the browser notes the refusal as an error of its own
    page.go_back()
    page.locator("summary", has_text="Merge with a text of your own").click()
    form.locator("textarea").fill(SUGGESTED + " Ask twice.")
    form.locator("button").click()
    page.wait_for_selector(".done")
    assert SUGGESTED + " Ask twice." in {row["body"] for row in review.rows().values()}


def test_a_suggestion_does_not_run_either(page: Any, review: HouseCorpus) -> None:
    suggest(review, "<script>alert(3)</script> <b>The north crane lifts at most 40 tons</b> \u202egnp.exe")
    page.locator("a.item", has_text="crane-a").click()
    page.wait_for_selector(".suggested")
    assert "<script>alert(3)</script>" in page.locator(".suggested .text").inner_text()
    assert page.locator("main script, main b").count() == 0


def test_edit_by_key_and_moving_on(page: Any, review: HouseCorpus) -> None:
    page.locator("a.item", has_text="tide-a").click()
    page.wait_for_selector("h1:has-text('Which of these is right?')")
    page.keyboard.press("e")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    # In a text, keys are letters.
    page.keyboard.press("Control+A")
    page.keyboard.type("The tide gate must be closed at night, j and k and d and a.")
    page.locator("#edit button").click()
    page.wait_for_selector(".done")
    assert "j and k and d and a" in review.rows()["tide-a"]["body"]


def test_what_an_entry_says_does_not_run(page: Any) -> None:
    page.locator("a.item", has_text="nasty-a").click()
    page.wait_for_selector("h1")
    assert "<script>alert(1)</script>" in page.locator(".text").first.inner_text()
    assert page.locator("main script, main img").count() == 0


def test_a_phone_sees_all_of_it(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("a.item").first.click()
    page.wait_for_selector(".answers")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator(".answers button").first.bounding_box()["width"] > 250
