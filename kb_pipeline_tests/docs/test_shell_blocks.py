"""The README's shell blocks marked as tested run as they stand, one after another, on the rows that the README shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kb_pipeline_tests.docs.pages import ROOT, Block, blocks
from kb_pipeline_tests.fakes.house import House

README = ROOT / "README.md"
TESTED = [block for block in blocks(README) if block.info == "sh tested"]
CORPUS = "acme"


@pytest.fixture(scope="module")
def written(house: House) -> House:
    """The house with the files that the README shows; its policies get the encoder of the tests."""
    for block in blocks(README):
        _, _, name = block.info.partition(" ")
        if name.endswith(".jsonl"):
            (house.home / name).write_text(block.text, "utf-8")
        if name.endswith(".yaml"):
            values = YAML(typ="safe").load(block.text)
            with (house.home / name).open("w", encoding="utf-8") as file:
                YAML(typ="safe").dump(values | {"encoder": {"model": house.model}}, file)
    (house.home / "encoder.yaml").write_text(json.dumps({"encoder": {"model": house.model}}), "utf-8")
    return house


def run(house: House, block: Block) -> None:
    run_id = ""
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "kb", f"only kb is run by this test, not {line!r}"
        if "RUN_ID" in words:
            run_id = run_id or house.kb("runs", "--corpus", CORPUS, "--json").ok().json[0]["run_id"]
            words = [run_id if word == "RUN_ID" else word for word in words]
        house.kb(*words[1:], KB_POLICY=str(house.home / "encoder.yaml")).ok()


def rows(house: House) -> dict[str, dict[str, object]]:
    lines = house.kb("export", "--corpus", CORPUS).ok().out.splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def test_tested_blocks_run_and_do_what_the_readme_says(written: House) -> None:
    first, golden, back, recent, backfill, policy, measure = TESTED
    run(written, first)
    shown = rows(written)
    assert (shown["up-2"]["merged_into"], shown["up-2"]["state"]) == ("up-1", "archived")
    assert {name for name, row in shown.items() if row["conflict_state"] == "open"} == {"up-1", "up-3"}
    assert (shown["new-1"]["state"], shown["new-1"]["state_reason"]) == ("archived", "gates.name_too_short")
    assert Path(written.home / "rejects.jsonl").read_text("utf-8") == ""
    assert len((written.home / "acme.jsonl").read_text("utf-8").splitlines()) == 4

    run(written, golden)
    asked = written.kb("eval", "queries", "golden_queries.jsonl", "--corpus", CORPUS, "--json").ok().json["results"]
    assert [row["expected"][-1]["status"] for row in asked] == ["merged", "unknown"]

    run(written, back)
    assert {row["state"] for row in rows(written).values()} == {"active", "candidate"}

    before = rows(written)
    run(written, recent)
    assert rows(written) == before, "a pass over recent entries asks, and changes nothing"

    run(written, backfill)
    after = rows(written)
    assert after["up-2"]["state"] == "active", "a person's keep outlasts the week that is done again"
    assert after["new-1"]["state"] == "archived"
    runs = written.kb("runs", "--corpus", CORPUS, "--json").ok().json
    weeks = {row["week"] for row in runs if row["job_type"] == "curate"}
    assert weeks == {"2026-10-05", "2026-10-12", "2026-10-19", "2026-10-26"}

    run(written, policy)
    assert rows(written) == after

    run(written, measure)
    outcome = [json.loads(line) for line in (written.home / "outcome.jsonl").read_text("utf-8").splitlines()]
    assert [row["action"] for row in outcome] == ["merge", "conflict"]
    assert (written.home / "outcome.png").stat().st_size > 1000


def test_exit_codes_are_those_of_the_table(written: House) -> None:
    (written.home / "faulty.jsonl").write_text(
        '{"id": "a"}\n{"id": "b", "kind": "fact", "title": "One good row"}\n', "utf-8"
    )
    assert written.kb("import", "faulty.jsonl", "--corpus", "codes").code == 3
    assert written.kb("curate", "--corpus", "unknown").code == 2
    assert written.kb("curate").code == 2
    assert written.kb("runs").code == 0
    (written.home / "strict.yaml").write_text(
        json.dumps({"encoder": {"model": written.model}, "apply": {"min_changed_entries": 0, "max_changed_share": 0}}),
        "utf-8",
    )
    assert written.kb("import", "rows.jsonl", "--corpus", "codes2").code == 0
    halted = written.kb("curate", "--corpus", "codes2", "--policy", "strict.yaml")
    assert halted.code == 4
    assert "blast_radius" in halted.out
