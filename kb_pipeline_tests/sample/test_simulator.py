"""The simulator is deterministic, keeps its promises, and its truth is what the rules on use recover."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from kb_pipeline.sample.histories import Fate
from kb_pipeline.sample.simulator import simulate_usage, write_simulated

START = date(2026, 1, 5)
MATCHES = {"retrieved", "included", "cited"}


def entries(count: int) -> list[dict[str, Any]]:
    """Rows that exist from the start, with totals that must not survive."""
    return [{"id": f"e{n}", "kind": "fact", "title": f"entry {n}", "attempts": 9, "successes": 1} for n in range(count)]


def retires(facts: dict[str, Any]) -> bool:
    """The rule on performance, written down once more."""
    wins, losses = facts["successes"], facts["attempts"] - facts["successes"]
    return facts["attempts"] >= 20 and bool(betaincinv(1 + wins, 1 + losses, 0.975) < 0.40)


def test_the_same_seed_gives_the_same_history_in_any_order() -> None:
    rows, truth = simulate_usage(entries(80), weeks=20, start=START, seed=5)
    shuffled = [dict(reversed(row.items())) for row in reversed(entries(80))]
    again, truth_again = simulate_usage(shuffled, weeks=20, start=START, seed=5)
    assert sorted(rows, key=lambda r: r["id"]) == sorted(again, key=lambda r: r["id"])
    assert truth == truth_again
    other, _ = simulate_usage(entries(80), weeks=20, start=START, seed=6)
    assert other != rows


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), extra=st.integers(1, 20))
def test_an_entry_keeps_its_history_when_others_join(seed: int, extra: int) -> None:
    few, _ = simulate_usage(entries(5), weeks=12, start=START, seed=seed)
    many, _ = simulate_usage(entries(5 + extra), weeks=12, start=START, seed=seed)
    assert many[:5] == few


def test_totals_are_left_out_and_rows_keep_all_else() -> None:
    rows, truth = simulate_usage([{"id": "a", "title": "t", "attempts": 3, "note": [1]}], weeks=4, start=START, seed=1)
    assert "attempts" not in rows[0]
    assert rows[0]["note"] == [1]
    assert rows[0]["created_at"] == "2026-01-05T00:00:00Z"
    assert truth["a"]["matches"] == sum(use["type"] in MATCHES for use in rows[0]["usage"])


def test_the_truth_is_recovered_by_the_rule_on_performance() -> None:
    _, truth = simulate_usage(entries(1500), weeks=26, start=START, seed=11, poor_share=0.1)
    tried = [facts for facts in truth.values() if facts["attempts"] >= 20]
    poor = [facts for facts in tried if facts["poor"]]
    assert len(poor) >= 100
    assert not [facts for facts in tried if retires(facts) and not facts["poor"]]
    assert sum(map(retires, poor)) / len(poor) >= 0.85


def test_living_entries_never_go_stale_and_abandoned_ones_do() -> None:
    rows, truth = simulate_usage(
        entries(600), weeks=40, start=START, seed=3, abandoned_share=0.2, idle_weeks=(18, 19, 20)
    )
    end = datetime.combine(START, time(), UTC) + timedelta(weeks=40)
    living = [facts for facts in truth.values() if not facts["abandoned"]]
    assert len(living) >= 400
    assert all(facts["stale_since"] is None for facts in living)
    stale = [i for i, facts in truth.items() if facts["stale_since"]]
    assert len(stale) >= 50
    by_id = {row["id"]: row for row in rows}
    for i in stale:
        last = max(datetime.fromisoformat(u["at"]) for u in by_id[i]["usage"] if u["type"] in MATCHES)
        assert (end - last).days >= 90
        waited = (truth[i]["stale_since"] - last.date()).days
        # An idle stretch of three weeks takes its part beyond 14 days out of the count.
        assert 90 <= waited <= 90 + 10


def test_nothing_happens_in_idle_weeks() -> None:
    rows, _ = simulate_usage(entries(300), weeks=10, start=START, seed=2, idle_weeks=(4, 5), abandoned_share=0.5)
    weeks = {(datetime.fromisoformat(u["at"]).date() - START).days // 7 + 1 for row in rows for u in row["usage"]}
    assert weeks == {1, 2, 3, 6, 7, 8, 9, 10}


def test_states_and_dates_are_respected() -> None:
    rows = [
        {"id": "refused", "title": "t", "state": "candidate"},
        {"id": "admitted", "title": "t", "state": "candidate"},
        {"id": "archived", "title": "t", "state": "archived"},
        {"id": "young", "title": "t", "created_at": "2026-02-18T12:00:00+01:00"},
        {"id": "later", "title": "t", "created_at": "2027-01-01"},
    ]
    fates = {"admitted": Fate(used_from=date(2026, 2, 2))}
    out, truth = simulate_usage(rows, weeks=20, start=START, seed=4, fates=fates)
    first = {row["id"]: min((u["at"] for u in row.get("usage", [])), default=None) for row in out}
    assert first["refused"] is first["archived"] is first["later"] is None
    assert first["admitted"] is not None and first["admitted"] >= "2026-02-02"
    assert first["young"] is not None and first["young"] >= "2026-02-18T11:00:00Z"
    assert set(truth) == {"admitted", "young"}


def test_fates_are_met_exactly() -> None:
    fates = {
        "e0": Fate(attempts=20, successes=3),
        "e1": Fate(last_match_on=date(2026, 2, 11)),
        "e2": Fate(never=True),
        "e3": Fate(poor=True),
    }
    _, truth = simulate_usage(entries(60), weeks=26, start=START, seed=8, fates=fates)
    assert (truth["e0"]["attempts"], truth["e0"]["successes"]) == (20, 3)
    assert truth["e1"]["last_match_at"].startswith("2026-02-11")
    assert truth["e1"]["stale_since"] == date(2026, 5, 12)
    assert (truth["e2"]["matches"], truth["e2"]["stale_since"]) == (0, date(2026, 4, 5))
    assert truth["e3"]["poor"] is True and truth["e3"]["true_success_rate"] < 0.2


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([{"id": "a"}], {"start": date(2026, 1, 6)}, "no Monday"),
        ([{"id": "a"}], {"poor_share": 0.7, "abandoned_share": 0.7}, "at most 1"),
        ([{"id": "a"}, {"id": "a"}], {}, "stands twice"),
        ([{"title": "no id"}], {}, "missing"),
    ],
)
def test_wrong_input_is_named(rows: list[dict[str, Any]], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate_usage(rows, **{"weeks": 4, "start": START, "seed": 1, **options})


def test_write_simulated_writes_rows_and_truth(tmp_path: Path) -> None:
    source, out, truth_out = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "truth.json"))
    source.write_text("".join(json.dumps(row) + "\n" for row in entries(30)), "utf-8")
    written = write_simulated(source, out, truth_out, weeks=26, start=START, seed=9, abandoned_share=0.3)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    truth = json.loads(truth_out.read_text("utf-8"))
    assert written == sum(len(row["usage"]) for row in rows) > 0
    assert set(truth) == {row["id"] for row in rows}
    assert any(facts["stale_since"] for facts in truth.values())


def test_real_texts_get_a_history_whose_truth_is_recovered() -> None:
    shared = Path(os.environ.get("KB_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = shared / "corpora" / "agent_memory.jsonl.gz"
    if not path.exists():
        pytest.skip(f"needs the shared corpus {path}; set KB_SHARED_DATA to the folder that holds corpora/")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        corpus = [json.loads(line) for line in lines]
    rows, truth = simulate_usage(corpus, weeks=26, start=date(2026, 5, 4), seed=1, poor_share=0.08, abandoned_share=0.1)
    assert len(rows) == len(corpus)
    poor = [facts for facts in truth.values() if facts["poor"] and facts["attempts"] >= 20]
    assert len(poor) >= 50
    assert sum(map(retires, poor)) / len(poor) >= 0.85
    assert not [i for i, facts in truth.items() if retires(facts) and not facts["poor"]]
    assert {i for i, f in truth.items() if f["stale_since"]} <= {i for i, f in truth.items() if f["abandoned"]}
