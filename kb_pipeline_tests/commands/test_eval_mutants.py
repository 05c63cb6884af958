"""kb eval mutants: every kind is counted, a false merge ends with 4, and wrong files end with 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kb_pipeline.cli import main
from kb_pipeline.commands.evaluate import evaluate


def _rows(path: Path, *bodies: str) -> Path:
    path.write_text(
        "".join(json.dumps({"id": f"m{n}", "kind": "rule", "body": body}) + "\n" for n, body in enumerate(bodies)),
        encoding="utf-8",
    )
    return path


def test_no_mutant_of_the_sample_merges() -> None:
    done = CliRunner().invoke(evaluate, ["mutants", "--texts", "120", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["texts"] == 120
    assert len(told["mutants"]["kinds"]) >= 50
    total, must_flag = told["mutants"]["total"], told["mutants"]["must_flag"]
    assert total["merged"] == 0 and total["n"] >= 2000 and 0 < total["merged_high"] < 0.002
    assert must_flag["flagged"] >= 0.92 * must_flag["n"] > 90
    assert told["reformatted"]["total"]["merged_share"] >= 0.98


def test_the_table_names_each_kind_and_sums_up(tmp_path: Path) -> None:
    file = _rows(tmp_path / "rows.jsonl", "Retry the upload 3 times before you must give up.", "Do not log the token.")
    done = CliRunner().invoke(evaluate, ["mutants", str(file)])
    assert done.exit_code == 0, done.output
    assert "negation_dropped" in done.output and "2 texts," in done.output
    assert "merged though the meaning changed: 0" in done.output


def test_a_false_merge_ends_with_four(tmp_path: Path) -> None:
    # A compound of a number and a plural is one of the known slips: the rule takes it for the unit.
    file = _rows(tmp_path / "rows.jsonl", "Pad the header of the frame with a 20-bytes block.")
    done = CliRunner().invoke(evaluate, ["mutants", str(file), "--json"])
    assert done.exit_code == 4
    assert json.loads(done.output)["mutants"]["kinds"]["plural"]["merged"] == 1


def test_the_same_seed_makes_the_same_mutants(tmp_path: Path) -> None:
    file = _rows(tmp_path / "rows.jsonl", "Keep 5 replicas in each zone and never fewer than 3.")
    first, second = (CliRunner().invoke(evaluate, ["mutants", str(file), "--json"]).output for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--kind", "novel"], "kind"), ([], "holds no text")],
)
def test_wrong_use_ends_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    file = _rows(tmp_path / "rows.jsonl")
    with pytest.raises(SystemExit) as ended:
        main(["eval", "mutants", str(file), *arguments])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
