"""The sample's weeks a second time: nothing new, the same files; the way back, and forward again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from kb_pipeline_tests.acceptance.sample_run import (
    CORPUS,
    LAST,
    Files,
    SampleRun,
    dagster_events,
    read_files,
    sample_corpus,
    without_run_and_time,
)
from kb_pipeline_tests.fakes.house import Done


@dataclass(frozen=True)
class Again:
    """The last week run again, rolled back, refused to be rolled back twice, and run once more."""

    repeated: Done
    after_repeat: bytes
    files_repeated: Files
    repeat_run: dict[str, object]
    rolled_back: Done
    after_rollback: bytes
    refused: Done
    after_second: bytes
    second_run: dict[str, object]


@pytest.fixture(scope="module")
def again(sample: SampleRun) -> Again:
    house, corpus = sample.house, sample.corpus
    repeated = house.kb("demo").ok()
    after_repeat, files_repeated, runs = corpus.export("--full"), read_files(house), corpus.runs()
    rolled_back = house.kb("rollback", sample.runs[0]["run_id"], "--json")
    after_rollback = corpus.export("--full")
    refused = house.kb("rollback", sample.runs[0]["run_id"])
    corpus.curate().ok()
    return Again(
        repeated=repeated,
        after_repeat=after_repeat,
        files_repeated=files_repeated,
        repeat_run=runs[0],
        rolled_back=rolled_back,
        after_rollback=after_rollback,
        refused=refused,
        after_second=corpus.export("--full"),
        second_run=corpus.runs()[0],
    )


def without_event_ids(export: bytes) -> list[dict[str, Any]]:
    """Rows of a full export; the ids of events that a run made are left out, because each try has its own."""
    rows = [json.loads(line) for line in export.splitlines()]
    for row in rows:
        for use in row.get("usage", ()):
            if use["type"] == "strengthened":
                del use["id"]
    return rows


def test_the_demo_does_not_redo_what_is_done(sample: SampleRun, again: Again) -> None:
    assert f"{len(sample.imported)} unchanged" in again.repeated.out
    assert "nothing was changed" in again.repeated.out
    assert again.after_repeat == sample.after


def test_a_repeated_week_encodes_judges_and_changes_nothing(sample: SampleRun, again: Again) -> None:
    first = sample.runs[0]
    assert (first["counts"]["texts_encoded"], first["counts"]["pairs_judged"], first["updated_count"]) > (0, 0, 0)
    repeat = again.repeat_run
    assert repeat["rerun_of"] == first["run_id"]
    counts = repeat["counts"]
    assert isinstance(counts, dict)
    assert (counts["texts_encoded"], counts["pairs_judged"], counts["texts_keyed"], repeat["updated_count"]) == (
        0,
        0,
        0,
        0,
    )
    assert counts["actions"] == first["counts"]["actions"]


def test_a_repeated_week_writes_the_same_files_but_for_run_and_time(sample: SampleRun, again: Again) -> None:
    assert again.files_repeated[LAST] != sample.files[LAST]
    before = without_run_and_time(sample.files[LAST], sample.runs[0]["run_id"])
    after = without_run_and_time(again.files_repeated[LAST], str(again.repeat_run["run_id"]))
    assert sorted(before) == sorted(after)
    for name, content in before.items():
        assert after[name] == content, name
    assert {week for week in sample.files if sample.files[week] != again.files_repeated[week]} == {LAST}


def test_only_run_and_times_differ_in_the_header(sample: SampleRun, again: Again) -> None:
    for name in ("memory-pruning-plan.yaml", "memory-review-queue.yaml", "duplicate-pairs.yaml"):
        one, other = (files[LAST][name].decode().splitlines() for files in (sample.files, again.files_repeated))
        differing = [a.split(":")[0].strip() for a, b in zip(one, other, strict=True) if a != b]
        assert set(differing) <= {"run_id", "generated_at"} and "run_id" in differing


def test_a_rollback_gives_back_the_export_of_before(sample: SampleRun, again: Again) -> None:
    assert again.rolled_back.ok().json["actions"] > 0
    assert sample.before != sample.after
    assert again.after_rollback == sample.before
    assert again.refused.code == 2 and "rolled back already" in again.refused.err


def test_a_week_that_was_rolled_back_can_be_run_again(sample: SampleRun, again: Again) -> None:
    assert again.second_run["rerun_of"] is None
    assert again.second_run["updated_count"] == sample.runs[0]["updated_count"]
    assert again.after_second != sample.before
    assert without_event_ids(again.after_second) == without_event_ids(sample.after)


def test_an_export_taken_in_elsewhere_is_the_same_export(sample: SampleRun, again: Again) -> None:
    house = sample.house
    other = house.corpus("sample-copy")
    for words in ((), ("--full",)):
        path = house.home / "sample-export.jsonl"
        path.write_bytes(sample_corpus(house).export(*words))
        other = house.corpus(f"sample-copy{len(words)}")
        done = other.kb("import", path, "--json").ok()
        assert done.json["accepted"] == len(sample.rows)
        assert other.export(*words) == path.read_bytes()
        assert other.kb("import", path, "--json").ok().json["unchanged"] == len(sample.rows)


def test_a_secret_stands_in_no_report_no_record_of_dagster_and_no_output(sample: SampleRun, again: Again) -> None:
    house = sample.house
    text = sample.imported[sample.truth["secret"]["entry"]]["body"]
    secret = next(word for word in text.split() if word.startswith("AKIA"))
    places = {f"{week}/{name}": content for week, files in read_files(house).items() for name, content in files.items()}
    places |= {f"command {n}": done.stdout + done.err.encode() for n, done in enumerate(sample.said)}
    places |= {str(path): path.read_bytes() for path in (house.home / "dagster").rglob("*") if path.is_file()}
    assert [place for place, content in places.items() if secret.encode() in content] == []
    assert dagster_events(house, secret) == 0
    pairs = sample_corpus(house).kb("pairs").ok().stdout
    assert secret.encode() not in pairs
    told = sample_corpus(house).kb("explain", sample.truth["secret"]["entry"]).ok().out
    assert secret not in told
    # The same search finds what may be told, and the owner's own export holds the text.
    entry, partner = sample.truth["secret"]["entry"], sample.truth["secret"]["partner"]
    assert any(entry.encode() in content and partner.encode() in content for content in places.values())
    assert dagster_events(house, f"{CORPUS}|{LAST}") > 0
    assert entry.encode() in pairs and entry in told
    assert secret in json.dumps(sample.rows)


def test_an_entry_that_holds_a_secret_is_flagged_without_it(sample: SampleRun, again: Again) -> None:
    entry = sample.truth["secret"]["entry"]
    asked = [row for row in sample.report("memory-review-queue.yaml")["queue"] if entry in row["memories"]]
    assert "load.secret" in {row["reason"] for row in asked}
