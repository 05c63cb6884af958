"""The generated page says what the code says, and nothing is missing from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from kb_pipeline.commands import policy_page
from kb_pipeline.definitions import defs
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.checks import BLOCKING, WARNING
from kb_pipeline.stages.report_documents import documents
from kb_pipeline.vocabulary import ReasonCode, State
from kb_pipeline_tests.docs.pages import ROOT, codes, table
from kb_pipeline_tests.stages.week_frames import week_frames

PAGE = ROOT / "docs" / "policies.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == policy_page.page(), "docs/policies.md is out of date: make docs"


def test_the_page_does_not_depend_on_the_environment(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("gates: {min_name_chars: 3}\n", "utf-8")
    command = [sys.executable, "-m", "kb_pipeline.commands.policy_page", str(tmp_path / "page.md")]
    done = subprocess.run(
        command, cwd=ROOT, env={"KB_POLICY": str(own), "PYTHONHASHSEED": "7"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "page.md").read_bytes() == PAGE.read_bytes()


def test_a_wrong_call_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert policy_page.main([]) == 2
    assert "FILE" in capsys.readouterr().err


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += keys(inner, f"{prefix}{name}.")
        else:
            found.append(f"{prefix}{name}")
    return found


def rows() -> list[str]:
    return [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]


def test_every_policy_key_stands_once_with_its_default() -> None:
    defaults = load_policy()
    wanted = keys(Policy)
    assert {"scope_fields", "gates.min_name_chars", "report.example_pairs"} <= set(wanted)
    for key in wanted:
        (row,) = [line for line in rows() if line.startswith(f"| `{key}` |")]
        value = defaults
        for part in key.split("."):
            value = getattr(value, part)
        if isinstance(value, bool):
            assert f"| `{str(value).lower()}` | true, false |" in row
        elif isinstance(value, str):
            assert f"| `{value}` |" in row
        elif isinstance(value, int | float):
            assert f"| `{value:.10g}` |" in row


def test_every_reason_code_state_and_check_stands_once() -> None:
    for name in [*ReasonCode, *State, *BLOCKING, *WARNING]:
        assert len([line for line in rows() if line.startswith(f"| `{name}` |")]) == 1, name


def test_reason_codes_name_policy_keys_that_exist() -> None:
    named = [key for row in table(PAGE, "code") for key in codes(row[1])]
    assert named
    assert set(named) <= set(keys(Policy))


def test_the_flow_is_that_of_the_definitions_and_the_policy() -> None:
    assets = {name for _, names, _ in policy_page.FLOW for name in names.split(", ")}
    assert assets == {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    sections = {name for _, _, names in policy_page.FLOW for name in names.split(", ")}
    assert sections == set(Policy.model_fields) - {"scope_fields", *policy_page.OUTSIDE_THE_FLOW}


def test_every_file_of_a_week_is_listed() -> None:
    listed = {codes(row[0])[0] for row in table(PAGE, "file")}
    assert listed == {*documents(week_frames()), "health-report.html"}


def test_report_tables_and_views_are_listed() -> None:
    (health,) = [row for row in table(PAGE, "table") if row[0] == "`report_health`"]
    assert health[1].startswith("corpus, week, as_of, run_id, repository, entry_count, active")
    assert health[1].endswith("not_looked_at")
    assert {codes(row[0])[0] for row in table(PAGE, "view")} == {
        path.stem for path in (ROOT / "sql/views").glob("*.sql")
    }
    assert all(row[1] for row in table(PAGE, "view"))
