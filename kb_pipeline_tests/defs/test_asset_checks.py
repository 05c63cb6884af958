"""Checks as Dagster shows them: what blocks stops before anything is applied, what warns only speaks."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kb_pipeline.defs import judged_pairs
from kb_pipeline.defs.frames import frame_path
from kb_pipeline.defs.publish import check_result
from kb_pipeline.gold import gold_pairs
from kb_pipeline.schemas import FRAMES
from kb_pipeline.stages import checks
from kb_pipeline.stages.checks import CheckResult
from kb_pipeline_tests.defs.conftest import NewDesk, failed_steps
from kb_pipeline_tests.fakes.frames import policy
from kb_pipeline_tests.fakes.house import WEEK

HALTING: dict[str, Any] = {"apply": {"max_changed_share": 0, "min_changed_entries": 0}}


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    return {found.check_name: found for found in result.get_asset_check_evaluations()}


def made(result: dg.ExecuteInProcessResult) -> set[str]:
    return {str(event.asset_key.path[-1]) for event in result.get_asset_materialization_events() if event.asset_key}


@pytest.fixture(scope="module")
def good(new_desk: NewDesk) -> dg.ExecuteInProcessResult:
    """A good week, beside frames of another week that nobody can read."""
    desk = new_desk()
    with desk.inside():
        for name in FRAMES:
            unreadable = frame_path(name, desk.name, date(2026, 10, 19))
            unreadable.parent.mkdir(parents=True, exist_ok=True)
            unreadable.write_bytes(b"no frame")
    return desk.run(week=WEEK)


def test_a_good_week_passes_every_check_and_reads_no_other(good: dg.ExecuteInProcessResult) -> None:
    assert good.success
    found = evaluations(good)
    assert set(found) == {*checks.BLOCKING, *checks.WARNING}
    assert all(check.passed for check in found.values())
    of_plan = {name for name, check in found.items() if check.asset_key.path[-1] == "curation_plan"}
    assert of_plan == set(checks.BLOCKING)
    assert {check.partition for check in found.values()} == {good.dagster_run.tags["dagster/partition"]}
    assert all(check.description for check in found.values())


def test_a_blocking_check_stops_before_anything_is_applied(new_desk: NewDesk) -> None:
    desk = new_desk(HALTING)
    before = desk.state()
    result = desk.run(week=WEEK)
    assert not result.success
    found = evaluations(result)
    assert set(found) == set(checks.BLOCKING)
    assert [name for name, check in found.items() if not check.passed] == ["blast_radius"]
    assert found["blast_radius"].severity is dg.AssetCheckSeverity.ERROR
    assert "1 of 4 active entries would change, 0 are allowed" in str(found["blast_radius"].description)
    assert "curation_plan" in made(result) and made(result).isdisjoint({"applied_actions", "health_report"})
    assert set(failed_steps(result)) == {"curation_plan"}
    assert "blast_radius" in failed_steps(result)["curation_plan"]
    status, message = desk.last()
    assert status == "halted" and message is not None and message.startswith("blast_radius: ")
    assert desk.state() == before
    # What was found can be looked at.
    assert b"halted" in desk.corpus.files(WEEK)["memory-health-report.yaml"]
    assert desk.run(week=WEEK, config={"allow_large_change": True}).success
    assert desk.merged() == {"b": "a"}


def test_rules_that_merge_a_wrong_gold_pair_stop_the_run(
    new_desk: NewDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = gold_pairs().read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    assert first["label"] == "MERGE" and first["a"]["body"] == first["b"]["body"]
    # The rules stay as they are: another set, in which a reader says that two equal texts are not the same.
    other = tmp_path / "pairs.jsonl"
    other.write_text("\n".join([json.dumps(first | {"label": "KEEP_BOTH"}), *lines[1:]]), "utf-8")
    desk = new_desk()
    before = desk.state()
    with monkeypatch.context() as patch:
        patch.setattr(judged_pairs, "gold_pairs", lambda: other)
        result = desk.run(week=WEEK)
    found = evaluations(result)["gold_precision"]
    assert (result.success, found.passed, found.severity) == (False, False, dg.AssetCheckSeverity.ERROR)
    assert "1 of " in str(found.description) and found.metadata["gold_false_merges"].value == 1
    assert desk.state() == before and desk.last()[0] == "halted"
    # With the set as it is shipped, the same week goes through.
    result = desk.run(week=WEEK)
    assert result.success and evaluations(result)["gold_precision"].passed
    assert desk.merged() == {"b": "a"}


def test_policy_says_how_severe_a_check_is(new_desk: NewDesk) -> None:
    desk = new_desk(HALTING | {"checks": {"severity": {"blast_radius": "warn"}}})
    result = desk.run(week=WEEK)
    assert result.success
    found = evaluations(result)["blast_radius"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert desk.merged() == {"b": "a"}
    assert desk.last()[0] == "ok"


@pytest.mark.parametrize(
    ("chosen", "is_blocking", "severity"),
    [
        ({}, True, dg.AssetCheckSeverity.ERROR),
        ({}, False, dg.AssetCheckSeverity.WARN),
        ({"coverage": "error"}, False, dg.AssetCheckSeverity.ERROR),
        ({"coverage": "warn"}, True, dg.AssetCheckSeverity.WARN),
    ],
)
def test_a_finding_as_dagster_shows_it(
    chosen: dict[str, str], is_blocking: bool, severity: dg.AssetCheckSeverity
) -> None:
    found = CheckResult("coverage", False, "not looked at: 3 pairs", blocking=is_blocking, numbers={"pairs": 3})
    severities = {"severity": chosen} if chosen else {"severity": {"coverage": "error" if is_blocking else "warn"}}
    shown = check_result(found, "health_report", checks.severity_of(policy(checks=severities), found))
    assert (shown.passed, shown.severity, shown.description) == (False, severity, "not looked at: 3 pairs")
    assert shown.metadata["pairs"].value == 3
    assert shown.asset_key == dg.AssetKey("health_report")


def test_numbers_and_previews_are_shown_but_no_text(good: dg.ExecuteInProcessResult) -> None:
    shown = {
        str(event.asset_key.path[-1]): event.materialization.metadata
        for event in good.get_asset_materialization_events()
        if event.asset_key
    }  # type: ignore[attr-defined]
    entries = shown["knowledge_entries"]
    assert entries["dagster/row_count"].value == 4
    assert entries["as_of"].value == "2026-11-02T00:00:00+00:00"
    assert shown["duplicate_pairs"]["searched_entries"].value == 3
    assert shown["applied_actions"]["transitions"].value == 1
    assert "| a | fact |" in entries["preview"].value
    report = shown["health_report"]
    assert {"summary", "states", "distinctiveness", "similarity", "folder"} <= set(report)
    assert report["states"].value.startswith("![states](data:image/png;base64,")
    everything = " ".join(str(value.value) for metadata in shown.values() for value in metadata.values())
    assert "dry run" not in everything and "Invoices" not in everything
    assert all(len(str(metadata)) < 100_000 for metadata in shown.values())
