"""Recorded verdicts, told again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.judges import choose_judge
from kb_pipeline.adapters.judges.replay import KEY_FIELDS, ReplayJudge
from kb_pipeline.errors import PolicyError, RecordedVerdictsError, UsageError
from kb_pipeline.policy.load import build, load_policy, overlay
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.judge import PairReply, PairRequest
from kb_pipeline.vocabulary import ReasonCode, Verdict
from kb_pipeline_tests.fakes.pairs import pairs

Row = dict[str, Any]


def line_of(pair: PairRequest, **changes: Any) -> Row:
    said = {
        "verdict": "MERGE",
        "reason": "judge.same_rule",
        "judge": "anthropic",
        "judge_confidence": 0.9,
        "explanation": "Both say\u2028the same.",
        "model": "claude-haiku-4-5",
        "specifics_only_l": [],
    }
    return {name: str(getattr(pair, name)) for name in KEY_FIELDS} | said | changes


def replay(path: Path, *lines: Row | str) -> ReplayJudge[PairRequest, PairReply]:
    text = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    path.write_text(text, "utf-8", newline="\n")
    return ReplayJudge(script, path, max_text_chars=20_000)


def test_a_recorded_verdict_is_told_as_it_was_said(tmp_path: Path) -> None:
    first, second, third = pairs(3)
    judge = replay(
        tmp_path / "v.jsonl",
        line_of(third, verdict="CONFLICT", reason="judge.contradiction", judge_confidence=1, explanation=None),
        "",
        line_of(first),
        line_of(first),
    )
    merged, unknown, conflict = judge.decide([first, second, third])
    assert [reply.pair_id for reply in (merged, unknown, conflict)] == ["p0", "p1", "p2"]
    assert (merged.verdict, merged.judge, merged.judge_confidence, merged.model) == (
        Verdict.MERGE, "anthropic", 0.9, "claude-haiku-4-5",
    )  # fmt: skip
    assert merged.explanation == "Both say\u2028the same." and merged.cacheable and not merged.failed
    assert (conflict.verdict, conflict.judge_confidence, conflict.explanation) == (Verdict.CONFLICT, 1.0, None)
    assert (unknown.verdict, unknown.reason, unknown.failed, unknown.cacheable) == (
        Verdict.UNSURE, ReasonCode.JUDGE_NOT_RECORDED, False, False,
    )  # fmt: skip
    assert (judge.is_network, judge.judges_open_pairs, judge.usage, judge.cost_usd) == (False, True, {}, None)


def test_a_record_holds_for_its_order_and_kinds_alone(tmp_path: Path) -> None:
    (pair,) = pairs(1)
    judge = replay(tmp_path / "v.jsonl", line_of(pair))
    (turned,) = judge.decide([script.swapped(pair)])
    assert turned.reason is ReasonCode.JUDGE_NOT_RECORDED


def test_what_would_not_have_been_asked_is_not_answered(tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    hidden, long = pairs(2)
    hidden = dataclasses.replace(hidden, text_r=f"The deploy token is {secret}.")
    long = dataclasses.replace(long, text_l="long " * 5000)
    judge = replay(tmp_path / "v.jsonl", line_of(hidden), line_of(long))
    assert [reply.reason for reply in judge.decide([hidden, long])] == [
        ReasonCode.JUDGE_SECRET,
        ReasonCode.JUDGE_TOO_LONG,
    ]


(PAIR,) = pairs(1)
FAULTS: dict[str, tuple[Row | str, str]] = {
    "no JSON": ("{", "is not JSON"),
    "a list": ("[]", "is not a JSON object"),
    "no hash": (line_of(PAIR, content_hash_l=None), "content_hash_l: must be a text"),
    "a kind that is a number": (line_of(PAIR, kind_r=7), "kind_r: must be a text"),
    "no verdict": (line_of(PAIR, verdict=None), "verdict: is missing"),
    "an unknown verdict": (line_of(PAIR, verdict="SAME"), "verdict: is none that this version knows"),
    "an unknown reason": (line_of(PAIR, reason="judge.mood"), "reason: is none that this version knows"),
    "a confidence above 1": (line_of(PAIR, judge_confidence=1.5), "judge_confidence: must be a number from 0 to 1"),
    "a confidence that is a word": (line_of(PAIR, judge_confidence="high"), "judge_confidence: must be a number"),
    "a sentence that is none": (line_of(PAIR, explanation=["marmalade"]), "explanation: must be a text"),
    "a contradiction": (line_of(PAIR, verdict="KEEP_BOTH", reason="judge.distinct"), "contradicts line 2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_line_is_named_with_its_number(tmp_path: Path, name: str) -> None:
    line, fault = FAULTS[name]
    path = tmp_path / "v.jsonl"
    good = replay(path, "", line_of(PAIR))
    assert [reply.verdict for reply in good.decide([PAIR])] == [Verdict.MERGE]
    with pytest.raises(RecordedVerdictsError) as raised:
        replay(path, "", line_of(PAIR), line)
    assert f"{path}:3: {fault}" in str(raised.value) and raised.value.exit_code == 2
    assert "marmalade" not in str(raised.value)


def test_bytes_that_are_no_text_are_a_faulty_line(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(RecordedVerdictsError, match=r"v\.jsonl:1: is not JSON"):
        ReplayJudge(script, path, max_text_chars=100)
    with pytest.raises(RecordedVerdictsError, match="cannot be read"):
        ReplayJudge(script, tmp_path, max_text_chars=100)


def test_the_fingerprint_is_that_of_the_record(tmp_path: Path) -> None:
    one = replay(tmp_path / "a.jsonl", line_of(PAIR))
    same = replay(tmp_path / "b.jsonl", line_of(PAIR))
    other = replay(tmp_path / "b.jsonl", line_of(PAIR, judge_confidence=0.8))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_policy_names_the_record(tmp_path: Path) -> None:
    values = load_policy(file=_nothing(tmp_path)).model_dump()
    with pytest.raises(PolicyError, match=r"needs judge\.replay_file"):
        build(overlay(values, {"judge": {"name": "replay"}}), "mine")
    path = tmp_path / "v.jsonl"
    replay(path, line_of(PAIR))
    chosen = build(overlay(values, {"judge": {"name": "replay", "replay_file": str(path)}}), "mine").judge
    judge = choose_judge(chosen, script, {"ANTHROPIC_API_KEY": "a key"})
    assert isinstance(judge, ReplayJudge)
    with pytest.raises(UsageError, match="kb verdicts"):
        choose_judge(chosen.model_copy(update={"replay_file": None}), script, {})


def test_a_limit_on_the_cost_needs_a_price(tmp_path: Path) -> None:
    values = load_policy(file=_nothing(tmp_path)).model_dump()
    limited = build(overlay(values, {"judge": {"max_cost_usd": 2.0}}), "mine").judge
    price = limited.price()
    assert price is not None and price.batch_share == 0.5
    dated = build(overlay(values, {"judge": {"model": f"{limited.model}-20251001"}}), "mine").judge
    assert dated.price() == price
    unknown = {"judge": {"model": "claude-of-tomorrow", "max_cost_usd": 2.0}}
    with pytest.raises(PolicyError, match="names no price of the model claude-of-tomorrow"):
        build(overlay(values, unknown), "mine")
    assert build(overlay(values, {"judge": {"model": "claude-of-tomorrow"}}), "mine").judge.price() is None


def _nothing(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text("{}\n")
    return path
