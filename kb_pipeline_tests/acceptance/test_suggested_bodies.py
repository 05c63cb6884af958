"""Whole runs in which a judge suggests texts for two entries, and says which of two is out of date.

A Messages API on the loopback answers the real client of the real command. Each pair stands in a module of its own. One
week in which every suggested text is good or bad in its own way; then people answer, and take their answers back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kb_pipeline.prompts import PAIR_PROMPT, load_prompt
from kb_pipeline.web.app import build_app
from kb_pipeline.web.settings import Settings
from kb_pipeline_tests.acceptance.sample_run import without_run_and_time
from kb_pipeline_tests.fakes.house import WEEK, Done, HouseCorpus, NewCorpus
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, verdict

Row = dict[str, Any]
NEXT = "2026-11-09T08:00:00+00:00"
KEY = "loopback-key-of-the-acceptance-tests"
SECRET = "AKIA7QZ5PLM2WX9RTK4V"
REASON = "Both tell the crew the same."

ADDITIONS: dict[str, tuple[str, str]] = {
    "poplar": (" Report to desk-12.", " Report to desk-34."),
    "birch": (" Report to desk-12.", " Report to desk-12."),
    "osier": (" Report to desk-12.", " Report to desk-34."),
}
BOTH_DESKS = "The poplar crew tests the ropes on the wide deck. Report to desk-12 and to desk-34."


def texts(word: str) -> tuple[str, str]:
    """The two texts of a pair: the same words in another order, which no rule can take for the same."""
    left, right = ADDITIONS.get(word, ("", ""))
    return (
        f"The {word} crew tests the ropes on the wide deck.{left}",
        f"On the wide deck the {word} crew tests the ropes.{right}",
    )


GOOD: dict[str, Answer] = {
    "amber": verdict("same_rule", reason=REASON, body=f"{texts('amber')[0]} It does so on deck."),
    "poplar": verdict("same_rule", reason=REASON, body=BOTH_DESKS),
    "olive": verdict("same_rule", confidence=0.5, reason=REASON, body=texts("olive")[1]),
}
REFUSED: dict[str, tuple[str, str]] = {
    "birch": (texts("birch")[0].partition(" Report")[0], "merge.specifics_lost"),
    "osier": (texts("osier")[0], "merge.specifics_lost"),
    "cedar": (f"{texts('cedar')[0]} The key is {SECRET}.", "merge.body_secret"),
    "fir": ("Auf dem Deck prüft die Mannschaft alle paar Seile.", "merge.body_strange"),
    "hazel": (load_prompt(PAIR_PROMPT).question[:80], "merge.body_addresses_judge"),
    "iris": ("The iris crew tests the ropes. " * 3_200, "merge.body_too_long"),
    "jasmine": ("The jasmine crew\u0000 tests the ropes on the wide deck.", "merge.body_control_characters"),
    "kelp": ("Ropes.", "merge.body_too_short"),
    "laurel": ("", "merge.body_empty"),
    "myrtle": (f"{texts('myrtle')[0]} Call port 8080.", "merge.specifics_invented"),
    "privet": ('<script>alert(1)</script> <p class="x1">The privet crew tests</p>', "merge.specifics_invented"),
}
OLD, UNDECIDED = "lotus", "mimosa"
WORDS = (*GOOD, *REFUSED, OLD, UNDECIDED)


def answer(body: dict[str, Any]) -> Answer:
    """What the judge says, by the word of the pair."""
    prompt = str(body["messages"][0]["content"])
    word = next(word for word in WORDS if f" {word} crew" in prompt)
    if word in GOOD:
        return GOOD[word]
    if word in REFUSED:
        return verdict("same_rule", reason=REASON, body=REFUSED[word][0])
    left, right = (prompt.index(text) for text in texts(word))
    # The second text is the later one, in whichever order it is shown; the other pair is judged by order alone.
    said = "b_supersedes_a" if word == OLD and left < right else "a_supersedes_b"
    return verdict(said, reason="The other one names the way that was given up.")


@dataclass(frozen=True)
class Week:
    """The week, its queue, and what the judge was asked."""

    corpus: HouseCorpus
    api: MessagesApi
    done: Done
    rows: dict[str, Row]
    queue: dict[tuple[str, ...], Row]
    prompts: int


@pytest.fixture(scope="module")
def week(new_corpus: NewCorpus) -> Iterator[Week]:
    with MessagesApi(answer, key=KEY) as api:
        corpus = new_corpus({"judge": {"base_url": api.url}, "dedup": {"min_borderline_similarity": 0.6}})
        corpus.variables["ANTHROPIC_API_KEY"] = KEY
        corpus.load(
            *(
                {"id": f"{word}-{number}", "body": text, "module": word}
                for word in WORDS
                for number, text in enumerate(texts(word), start=1)
            )
        ).ok()
        done = corpus.curate("--json")
        yield Week(corpus, api, done, corpus.rows(), corpus.queue(), len(api.prompts))


def asked(week: Week, word: str) -> Row:
    """The one question about a pair."""
    (found,) = [row for ids, row in week.queue.items() if f"{word}-1" in ids]
    return found


def states(rows: dict[str, Row], word: str) -> list[str]:
    return sorted(row["state"] for entry, row in rows.items() if entry.startswith(f"{word}-"))


def test_the_week_ends_well(week: Week) -> None:
    assert (week.done.code, week.done.json["status"]) == (0, "ok")


@pytest.mark.parametrize("word", REFUSED)
def test_a_refused_text_keeps_its_pair_and_asks_a_person(week: Week, word: str) -> None:
    assert states(week.rows, word) == ["active", "active"]
    row = asked(week, word)
    assert (row["type"], row["reason"], row["suggestedBody"]) == ("MERGE", REFUSED[word][1], None)
    assert row["explanation"].startswith(f"{REASON} Its text for both was refused ({REFUSED[word][1]}")


def test_what_a_text_loses_is_listed(week: Week) -> None:
    assert "identifier desk-12" in asked(week, "birch")["explanation"]
    assert "identifier desk-34" in asked(week, "osier")["explanation"]


def test_a_merge_without_a_person_keeps_the_winners_text(week: Week) -> None:
    assert states(week.rows, "amber") == ["active", "archived"]
    assert {entry: week.rows[entry]["body"] for entry in ("amber-1", "amber-2")} == dict(
        zip(("amber-1", "amber-2"), texts("amber"), strict=True)
    )
    assert not any("amber-1" in ids for ids in week.queue)


def test_a_good_text_goes_with_the_question(week: Week) -> None:
    for word, reason in (("poplar", "merge.specifics_differ"), ("olive", "judge.low_confidence")):
        row = asked(week, word)
        body = json.loads(GOOD[word].text or "")["merged_body"]
        assert (row["type"], row["reason"], row["suggestedBody"]) == ("MERGE", reason, body)
        assert states(week.rows, word) == ["active", "active"]


def test_a_made_up_secret_stands_nowhere(week: Week) -> None:
    stored = week.corpus.query("SELECT suggested_body, body_fault FROM judge_verdicts WHERE body_fault IS NOT NULL")
    assert {row["body_fault"] for row in stored} >= {"merge.body_secret", "merge.body_empty"}
    assert SECRET not in str(week.corpus.query("SELECT * FROM judge_verdicts"))
    assert SECRET not in str(week.corpus.query("SELECT * FROM recommendations"))
    assert SECRET.encode() not in b"".join(week.corpus.files().values())
    assert SECRET not in week.done.out + week.done.err


def test_one_that_replaces_the_other_is_a_question_when_both_orders_agree(week: Week) -> None:
    row = asked(week, OLD)
    assert (row["type"], row["reason"], row["memories"]) == ("SUPERSEDE", "judge.supersedes", ["lotus-1", "lotus-2"])
    assert states(week.rows, OLD) == ["active", "active"]
    pair = week.corpus.pairs()["lotus-1", "lotus-2"]
    assert (pair["verdict"], pair["superseded_id"]) == ("SUPERSEDES", "lotus-1")
    unsure = asked(week, UNDECIDED)
    assert (unsure["type"], unsure["reason"]) == ("MERGE", "judge.order_disagrees")
    assert week.corpus.pairs()["mimosa-1", "mimosa-2"]["superseded_id"] is None


def test_the_week_again_asks_nobody_and_gives_its_files(week: Week) -> None:
    files, run = week.corpus.files(), week.corpus.runs()[0]["run_id"]
    again = week.corpus.curate("--week", WEEK, "--json").ok()
    assert len(week.api.prompts) == week.prompts
    one, other = (
        without_run_and_time(found, run_id)
        for found, run_id in ((files, run), (week.corpus.files(), again.json["run_id"]))
    )
    assert one == other
    assert BOTH_DESKS.encode() in files["memory-review-queue.yaml"]


def test_show_tells_all_that_a_reviewer_needs(week: Week) -> None:
    shown = week.corpus.kb("review", "show", asked(week, "poplar")["recommendationId"]).ok().out
    assert "MERGE  medium  " in shown and "similarity 0." in shown
    assert f"anthropic says: {REASON}" in shown
    assert "Suggested text for both (accept --suggested)" in shown
    plain = shown.replace("[[", "").replace("]]", "")
    assert BOTH_DESKS in plain
    assert "accept --suggested" in shown.partition("Answers")[2]
    assert "gets a new text, as a new version" in shown
    old = week.corpus.kb("review", "show", asked(week, OLD)["recommendationId"]).ok().out
    assert "lotus-1  (fact, active; would be replaced)" in old
    assert "lotus-1 is superseded by lotus-2" in old


def test_an_accepted_text_is_a_new_version_of_the_winner_and_undo_restores(week: Week) -> None:
    corpus, question = week.corpus, asked(week, "poplar")["recommendationId"]
    before = corpus.export("--full")
    done = corpus.kb("review", "accept", question, "--suggested", "--json").ok().json
    rows = corpus.rows()
    (loser,) = [entry for entry in ("poplar-1", "poplar-2") if rows[entry]["state"] == "archived"]
    (winner,) = {"poplar-1", "poplar-2"} - {loser}
    assert (rows[winner]["body"], rows[winner]["state"]) == (BOTH_DESKS, "active")
    assert rows[winner]["content_hash"] != week.rows[winner]["content_hash"]
    assert (rows[loser]["body"], rows[loser]["merged_into"]) == (week.rows[loser]["body"], winner)
    assert done["lost"] == []
    corpus.kb("review", "undo", done["answer"]).ok()
    assert corpus.export("--full") == before


def test_an_accepted_supersession_and_its_undo(week: Week) -> None:
    corpus, question = week.corpus, asked(week, OLD)["recommendationId"]
    before = corpus.export("--full")
    corpus.kb("review", "accept", question).ok()
    rows = corpus.rows()
    assert (rows["lotus-1"]["state"], rows["lotus-1"]["superseded_by"]) == ("superseded", "lotus-2")
    assert rows["lotus-2"]["state"] == "active"
    eligible = corpus.kb("eligible", "--json").ok().out
    assert '"lotus-2"' in eligible
    corpus.kb("review", "undo", question).ok()
    assert corpus.export("--full") == before


def test_without_a_suggestion_there_is_nothing_to_take(week: Week) -> None:
    refused = week.corpus.kb("review", "accept", asked(week, "birch")["recommendationId"], "--suggested")
    assert refused.code == 2 and "suggests no text for both" in refused.err
    emptied = week.corpus.kb("review", "accept", asked(week, "poplar")["recommendationId"], "--body-text", " \u200b ")
    assert emptied.code == 2 and "the new body is empty" in emptied.err


def test_the_api_and_the_page_take_it_too(week: Week, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, token = week.corpus, "token-of-the-tests-0123456789"
    for name, value in corpus.house.environment(**corpus.variables).items():
        monkeypatch.setenv(name, value)
    client = TestClient(build_app(Settings(token=token, actor="ida")), base_url="http://127.0.0.1:8765")
    question = asked(week, "poplar")["recommendationId"]
    base = f"/api/v1/corpora/{corpus.name}"
    found = client.get(f"{base}/queue/{question}").json()
    assert found["suggested_body"] == BOTH_DESKS and "accept --suggested" in found["effect"]
    before = corpus.export("--full")
    sent = {"action": "accept", "suggested": True}
    headers = {"Authorization": f"Bearer {token}"}
    done = client.post(f"{base}/queue/{question}/answers", json=sent, headers=headers)
    assert done.status_code == 201, done.text
    assert BOTH_DESKS in {row["body"] for row in corpus.rows().values()}
    # Whoever looks at a page from before is told, and nothing is done twice.
    second = client.post(f"{base}/queue/{question}/answers", json=sent, headers=headers)
    assert second.status_code == 409 and "answered already" in second.json()["error"]
    assert client.post(f"{base}/answers/{done.json()['answer']}/undo", headers=headers).status_code == 200
    assert corpus.export("--full") == before
    page = client.get(f"/?token={token}", follow_redirects=True)
    page = client.get(f"/c/{corpus.name}/q/{question}")
    assert "Suggested text for both" in page.text and "Merge with the suggested text" in page.text


def test_what_was_asked_waits_and_nothing_is_asked_twice(week: Week) -> None:
    waiting = week.corpus.queue()
    assert week.corpus.curate("--json", KB_NOW=NEXT).ok().json["status"] == "ok"
    assert len(week.api.prompts) == week.prompts
    later = week.corpus.queue("2026-11-02")
    assert {row["recommendationId"] for row in later.values()} == {row["recommendationId"] for row in waiting.values()}
    assert later["poplar-2", "poplar-1"]["suggestedBody"] == BOTH_DESKS
