"""The page: self-contained, escaped, well formed, small, and the same every time."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from kb_pipeline import schemas
from kb_pipeline.adapters.report_html import health_html
from kb_pipeline_tests.stages.week_frames import (
    HEADER,
    RESTRICTED_WORD,
    SECRET_WORD,
    action,
    empty_week,
    entries,
    pair,
    question,
    week_frames,
    with_status,
)

VOID = {"meta", "br", "path", "use", "rect", "line", "circle", "img", "link", "hr", "input"}


class Markup(HTMLParser):
    """Collects ids and complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.faults: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "srcset") and value:
                self.links.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


@pytest.fixture(scope="module")
def html() -> str:
    return health_html(week_frames(example_pairs=12))


@pytest.mark.parametrize(
    "week",
    [week_frames(), empty_week(), with_status("halted"), with_status("degraded"), with_status("ok", mode="recommend")],
    ids=["ok", "empty", "halted", "degraded", "recommend"],
)
def test_well_formed_and_self_contained(week: object) -> None:
    text = health_html(week)  # type: ignore[arg-type]
    markup = Markup(text)
    assert markup.faults == []
    assert markup.open == []
    assert len(markup.ids) == len(set(markup.ids))
    assert all(link.startswith("#") for link in markup.links)
    assert {link[1:] for link in markup.links} <= set(markup.ids)
    assert not markup.tags & {"script", "link", "img", "iframe", "object"}
    outside = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in text
    assert "url(http" not in text


def test_entry_text_is_escaped(html: str) -> None:
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in html


def test_difference_is_marked(html: str) -> None:
    assert "<mark>do not</mark>" in html
    assert "<mark>2</mark>" in html
    assert "<mark>3</mark>" in html
    assert "<mark>and its replica have</mark>" in html


def test_other_scripts_are_shown_with_their_direction(html: str) -> None:
    assert "部署前" in html
    assert "Größere Buchungen" in html
    assert 'dir="auto"' in html


def test_nothing_withheld_is_shown(html: str) -> None:
    assert SECRET_WORD not in html
    assert RESTRICTED_WORD not in html
    assert "[text withheld: looks like it holds a secret]" in html
    assert "[text withheld: restricted]" in html


def test_run_and_clock_stand_in_the_header_block_alone(html: str) -> None:
    header = replace(HEADER, run_id="run-again", generated_at=datetime(2027, 1, 4, 5, 6, tzinfo=UTC), actor="another")
    again = health_html(week_frames(example_pairs=12, header=header))
    assert html != again
    block = re.compile(r"<!-- header -->.*?<!-- end of header -->", re.DOTALL)
    assert block.sub("", html) == block.sub("", again)
    assert html == health_html(week_frames(example_pairs=12))


def test_every_status_says_so_first() -> None:
    assert "nothing was changed" in health_html(with_status("halted"))
    assert "--allow-large-change" in health_html(with_status("halted"))
    assert "judge failed on some pairs" in health_html(with_status("degraded"))


def test_empty_parts_say_so() -> None:
    text = health_html(empty_week())
    for words in (
        "held no entries",
        "No entry was retired",
        "No conflict is open",
        "Nothing was left out",
        "no trend yet",
    ):
        assert words in text


def test_page_of_a_large_corpus_stays_small() -> None:
    count = 20_000
    texts = [
        f"Entry {i} says that service {i % 97} listens on port {8000 + i % 500} and nothing else. " * 6
        for i in range(count)
    ]
    rows = [
        {"entry_id": f"m{i:05d}", "kind": "fact", "repository": f"org/r{i % 200}", "title": text[:120], "text": text}
        for i, text in enumerate(texts)
    ]
    pairs = [
        pair(f"m{i:05d}", f"m{i + 1:05d}", 0.86 + (i % 14) / 100, band, "UNSURE", "judge.residue")
        for i, band in zip(range(0, count - 1, 2), ["exact", "merge", "borderline", "lexical"] * count, strict=False)
    ]
    plan = [
        action("retire", f"m{i:05d}", reason="retire.stale", from_state="active", to_state="archived")
        for i in range(0, count, 10)
    ]
    queue = [
        question(i, "MERGE", "medium", [f"m{i:05d}", f"m{i + 1:05d}"], "judge.residue", 5, 0.9) for i in range(3000)
    ]
    week = week_frames(
        entries=entries(rows),
        verdicts=schemas.VERDICTS.build(pairs),
        plan=schemas.PLAN.build(plan),
        queue=schemas.QUEUE.build(queue),
        merges=schemas.MERGES.empty(),
        conflicts=schemas.CONFLICTS.empty(),
        example_pairs=50,
        max_listed_pairs=100,
    )
    text = health_html(week)
    assert len(text.encode()) < 1_500_000
    assert "20,000 entries" in text
