"""kb eval: table, JSON, rows and plot of labelled pairs; wrong labels and files end with 2; calibration of a model."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.encoder_models import MINILM_PACKAGE
from kb_pipeline_tests.commands.test_errors import refused
from kb_pipeline_tests.fakes.house import Done, House
from kb_pipeline_tests.fakes.labelled import write_pairs
from kb_pipeline_tests.fakes.messages_api import MessagesApi
from kb_pipeline_tests.fakes.tiny_encoder import build_tiny_model

ROWS: tuple[dict[str, Any], ...] = (
    {"a": "The horn is tested daily.", "b": "- The horn is tested daily", "label": 1, "stratum": "reformatted"},
    {"a": "The horn is tested daily.", "b": "The horn is not tested daily.", "label": 0, "stratum": "near-miss"},
    {"a": {"kind": "rule", "body": "Sound it."}, "b": {"kind": "rule", "body": "Paint it."}, "label": 0},
    {"a": "Ünser Häfen ist 港.", "b": "ZZZ", "label": 1},
)
MAP = ("--map", "1=MERGE,0=CONFLICT")
HORN = "The brass horn of the harbour ferry gets tested and polished by its youngest mate"
KEYS = {"a", "b", "label", "similarity", "band", "verdict", "action", "reason"}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.jsonl", *ROWS)


def evaluate(house: House, *words: str | Path, **variables: str | None) -> Done:
    policy = house.home / "eval.policy.yaml"
    policy.write_text(json.dumps({"encoder": {"model": house.model}}), "utf-8")
    return house.kb("eval", "pairs", *words, **({"KB_POLICY": str(policy)} | variables))


def test_a_table_by_stratum_and_in_all(house: House, pairs: Path) -> None:
    done = evaluate(house, pairs, *MAP).ok()
    lines = done.out.splitlines()
    assert lines[0].split() == [
        "stratum",
        "pairs",
        "candidates",
        "merges",
        "false",
        "queued",
        "conflicts",
        "precision",
        "recall",
    ]
    assert [line.split()[0] for line in lines[1:5]] == ["reformatted", "near-miss", "all", "total"]
    assert lines[1].split()[1:8] == ["1", "1", "1", "0", "0", "0", "1.000"]
    assert lines[2].split()[1:] == ["1", "1", "0", "0", "0", "1", "-", "-"]
    assert "Judge: rule; candidates from similarity 0.85 on" in done.out
    assert done.err == ""


def test_one_json_document_with_counts_rates_and_what_was_in_force(house: House, pairs: Path) -> None:
    found = evaluate(house, pairs, *MAP, "--json").ok().json
    assert list(found["strata"]) == ["all", "near-miss", "reformatted"]
    assert (found["judge"], found["judge_failures"], found["model"]) == ("rule", 0, house.model)
    assert found["thresholds"] == {"merge": 0.92, "borderline": 0.85}
    total = found["total"]
    assert (total["pairs"], total["merges"], total["false_merges"], total["conflicts"]) == (4, 1, 0, 1)
    assert total["precision_low"] < total["precision"] == total["precision_high"] == 1.0
    assert (total["recall"], total["conflict_recall"]) == (0.5, 0.5)
    bare = evaluate(house, pairs, *MAP, "--json", "--every-pair").ok().json
    assert (bare["thresholds"], bare["model"]) == (None, None)
    assert bare["total"]["candidates"] == 4 > total["candidates"]


def test_rows_are_written_in_order_with_both_sides_as_they_were(house: House, pairs: Path, tmp_path: Path) -> None:
    evaluate(house, pairs, *MAP, "--rows", tmp_path / "out.jsonl").ok()
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(row["a"], row["b"]) for row in rows] == [(row["a"], row["b"]) for row in ROWS]
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["label"] for row in rows] == ["MERGE", "CONFLICT", "CONFLICT", "MERGE"]
    assert [row["action"] for row in rows] == ["merge", "conflict", "keep", "keep"]
    assert [row["reason"] for row in rows[:2]] == ["judge.exact", "conflicts.contradiction"]
    assert (rows[0]["band"], rows[3]["band"]) == ("exact", None)
    assert rows[3]["similarity"] is not None


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_plot_whose_bytes_are_always_the_same(
    house: House, pairs: Path, tmp_path: Path, suffix: str, start: bytes
) -> None:
    plots = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for plot in plots:
        evaluate(house, pairs, *MAP, "--every-pair", "--plot", plot).ok()
    one, two = (plot.read_bytes() for plot in plots)
    assert one.startswith(start) and one == two
    if suffix == ".svg":
        assert all(words in one.decode() for words in ("reformatted (1)", "near-miss (1)", "total (4)"))


def test_the_gold_set_has_a_name(house: House) -> None:
    found = evaluate(house, "gold", "--every-pair", "--judge", "rules", "--json").ok().json
    assert (found["total"]["pairs"], found["total"]["false_merges"], len(found["strata"])) == (314, 0, 6)


def test_what_cannot_be_used_is_refused_in_one_sentence(house: House, pairs: Path, tmp_path: Path) -> None:
    refused(evaluate(house, pairs), "labels without a meaning", "'0' (2 pairs)", "'1' (2 pairs)")
    refused(evaluate(house, pairs, "--map", "1=MERGE"), "'0' (2 pairs)")
    refused(evaluate(house, pairs, "--map", "1"), "'1' is not of the form LABEL=MEANING")
    refused(evaluate(house, pairs, "--map", "1=MERG"), "'MERG'", "'MERGE'")
    refused(evaluate(house, pairs, "--map", "1=MERGE,1=CONFLICT"), "two meanings")
    refused(evaluate(house, pairs, *MAP, "--judge", "rul"), "judge 'rul'", "'rule'")
    refused(evaluate(house, pairs, *MAP, "--judge", "anthropic"), "ANTHROPIC_API_KEY")
    refused(evaluate(house, pairs, *MAP, "--kind", "opinion"), "kind 'opinion'")
    refused(evaluate(house, pairs, *MAP, "--plot", tmp_path / "p.gif"), "unknown kind", ".png")
    refused(evaluate(house, pairs, *MAP, "--plot", tmp_path / "no" / "p.png"), "there is no such folder")
    refused(evaluate(house, pairs, *MAP, "--every-pair", "--rows", tmp_path / "no" / "r.jsonl"), "cannot be used")
    refused(evaluate(house, tmp_path / "nothing.jsonl"), "nothing.jsonl", "cannot be read")
    assert not list(tmp_path.glob("*.gif"))


def test_a_label_that_holds_an_equals_sign(house: House, tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "p.jsonl", ROWS[0] | {"label": "a=b"})
    assert evaluate(house, path, "--map", "a=b=MERGE", "--every-pair", "--json").ok().json["total"]["duplicates"] == 1


def test_a_network_judge_is_asked_about_candidates_alone(house: House, tmp_path: Path) -> None:
    path = write_pairs(
        tmp_path / "p.jsonl",
        {"a": f"{HORN} before departure.", "b": f"{HORN} before sailing.", "label": "MERGE"},
        {"a": "Sound it.", "b": "Quite another thing.", "label": "KEEP_BOTH"},
        {"a": "The horn is tested daily.", "b": "The horn is not tested daily.", "label": "CONFLICT"},
    )
    with MessagesApi() as api:
        words = ("--judge", "anthropic", "--json", "--rows", tmp_path / "o.jsonl")
        done = evaluate(house, path, *words, **api.environment())
        assert len(api.prompts) == 1, "only what the rule leaves open, and only candidates"
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert [row["judge"] for row in rows] == ["anthropic", "rule", "rule"]
    assert [row["action"] for row in rows][1:] == ["keep", "conflict"]


@pytest.mark.skipif(
    importlib.util.find_spec(MINILM_PACKAGE) is None, reason="the weights of all-MiniLM-L6-v2 are missing"
)
def test_a_model_is_calibrated_once_and_can_then_be_used(house: House, tmp_path: Path, pairs: Path) -> None:
    model = build_tiny_model(tmp_path / "ours", seed="ours", calibrated=False)
    own = tmp_path / "own.yaml"
    own.write_text(json.dumps({"encoder": {"model": model}}), "utf-8")
    refused(house.kb("eval", "pairs", pairs, *MAP, "--policy", own), "no calibrated thresholds")
    refused(house.kb("eval", "calibrate", pairs, *MAP, "--model", model), "no duplicates, and 100 are needed")
    assert not (tmp_path / "ours" / "kb_calibration.json").exists()
    found = house.kb("eval", "calibrate", "gold", "--model", model, "--json").ok().json
    record = json.loads((tmp_path / "ours" / "kb_calibration.json").read_text("utf-8"))
    assert (record["model_id"], record["merge"]) == ("ours", found["calibrated"]["merge"]["threshold"])
    assert found["calibrated"]["merge"]["errors"] <= found["reference"]["merge"]["errors"]
    used = house.kb("eval", "pairs", pairs, *MAP, "--policy", own, "--json").ok().json
    assert used["thresholds"] == {"merge": record["merge"], "borderline": record["borderline"]}
    refused(house.kb("eval", "calibrate", "gold", "--model", model), "--replace")
    assert "wrong" in house.kb("eval", "calibrate", "gold", "--model", model, "--replace").ok().out
