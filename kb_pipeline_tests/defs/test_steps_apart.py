"""Steps run apart from each other: one asset made anew, a run taken up where it failed, and what must not mix."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kb_pipeline.adapters.rolling_back import roll_back_run
from kb_pipeline.adapters.runs import load_counts
from kb_pipeline.defs.frames import frame_path
from kb_pipeline_tests.defs.conftest import Desk, NewDesk, failed_steps
from kb_pipeline_tests.fakes.corpus import Corpus
from kb_pipeline_tests.fakes.house import WEEK
from kb_pipeline_tests.fakes.messages_api import MessagesApi

BEFORE = "2026-10-19"
LATER_STEPS = (
    "judge_verdicts", "merge_plan", "conflict_records", "curation_plan", "applied_actions", "health_report",
)  # fmt: skip
HALTING: dict[str, Any] = {"apply": {"max_changed_share": 0, "min_changed_entries": 0}}


def curated(new_desk: NewDesk) -> Desk:
    """A corpus with one curated week, in which something was merged."""
    desk = new_desk()
    assert desk.run(week=WEEK).success
    assert desk.merged() == {"b": "a"}
    return desk


@pytest.fixture
def done(new_desk: NewDesk) -> Desk:
    return curated(new_desk)


@pytest.fixture(scope="module")
def shared(new_desk: NewDesk) -> Desk:
    """One for the tests that leave it as it was."""
    return curated(new_desk)


def body(files: dict[str, bytes]) -> dict[str, list[bytes]]:
    """Files of a week without the clock of their header."""
    return {
        name: [line for line in content.splitlines() if b"generated" not in line.lower()]
        for name, content in files.items()
    }


def refusal(desk: Desk, asset: str, week: str = WEEK) -> str:
    """Why the one asset that was asked for was not made; nothing changes with it."""
    before = desk.state(), desk.corpus.files(week), [row["status"] for row in desk.rows()]
    (told,) = failed_steps(desk.run(asset, week=week)).values()
    after = desk.state(), desk.corpus.files(week), [row["status"] for row in desk.rows()]
    assert after == before
    return told


def test_one_asset_of_a_finished_week_is_made_anew_and_changes_nothing(shared: Desk) -> None:
    before = shared.state(), shared.rows(), body(shared.corpus.files())
    for asset in ("health_report", "duplicate_pairs", "judge_verdicts", "curation_plan", "applied_actions"):
        assert shared.run(asset, week=WEEK).success
        assert (shared.state(), shared.rows(), body(shared.corpus.files())) == before
        if asset != "health_report":
            assert shared.frame(asset, WEEK).height
    # A week that was never begun has no single steps.
    told = refusal(shared, "duplicate_pairs", week=BEFORE)
    assert f"entry_embeddings of week {BEFORE} of corpus {shared.name!r} is not there" in told
    assert "or the whole week" in told and not told.startswith("dagster")


def test_an_earlier_week_can_be_reported_again(done: Desk) -> None:
    later = "2026-11-02"
    done.corpus.load({"id": "e", "title": "The office is closed on public holidays", "created_at": "2026-11-03"}).ok()
    assert done.run(week=later).success
    before = done.state(), body(done.corpus.files()), body(done.corpus.files(later))
    assert done.run("health_report", week=WEEK).success
    assert (done.state(), body(done.corpus.files()), body(done.corpus.files(later))) == before


def test_entries_alone_begin_a_run_that_ends_with_them(done: Desk) -> None:
    first = done.rows()[0]["run_id"]
    assert done.run("knowledge_entries", week=WEEK).success
    status, message = done.last()
    assert status == "failed" and message == "the run ended before its actions were applied; nothing was changed"
    assert done.rows()[0]["rerun_of"] == first
    # The frames of the first run do not mix with these entries: a report of both would be of neither.
    assert f"is of run {first}" in refusal(done, "health_report")
    # What is made of them goes on with the run that they began.
    assert done.run("entry_embeddings", "quality_scores", "retirement_decisions", week=WEEK).success
    assert done.run("duplicate_pairs", week=WEEK).success
    assert done.last()[0] == "failed"
    assert load_counts(done.database, done.rows()[0]["run_id"])["pairs"] == 1
    # The rest of the week ends it, as a repetition of the first.
    assert done.run("distinctiveness_scores", "gate_results", "quality_flags", *LATER_STEPS, week=WEEK).success
    assert done.last() == ("ok", None)
    assert [row["updated_count"] for row in done.rows()] == [0, 1]


def test_another_policy_does_not_go_on_with_a_run(shared: Desk) -> None:
    own = shared.corpus.policy
    shared.set_policy(own | {"retire": {"max_unmatched_days": 3}})
    told = refusal(shared, "retirement_decisions")
    shared.set_policy(own)
    assert "began under policy" in told and "steps of two policies do not mix" in told


def test_a_week_that_was_rolled_back_is_run_from_its_beginning(done: Desk) -> None:
    roll_back_run(done.database, done.rows()[0]["run_id"], actor="ann")
    for asset in ("applied_actions", "health_report", "duplicate_pairs"):
        told = refusal(done, asset)
        assert "was rolled back" in told and "kb curate" in told
    assert done.merged() == {}
    assert done.run(week=WEEK).success
    assert done.merged() == {"b": "a"}


def test_a_halted_plan_is_not_applied_alone(new_desk: NewDesk) -> None:
    desk = new_desk(HALTING)
    assert not desk.run(week=WEEK).success
    assert desk.last()[0] == "halted"
    told = refusal(desk, "applied_actions")
    assert "was halted by its checks; nothing was applied" in told and "--allow-large-change" in told
    # A second look at the plan halts again.
    assert not desk.run("curation_plan", "applied_actions", week=WEEK).success
    assert desk.merged() == {}


def test_a_run_that_failed_is_taken_up_where_it_failed(new_desk: NewDesk) -> None:
    with MessagesApi() as api:
        desk = new_desk({"judge": {"name": "anthropic", "api_key_env": "DESK_KEY", "base_url": api.url}})
        result = desk.run(week=WEEK)
        assert set(failed_steps(result)) == {"judge_verdicts"}
        status, message = desk.last()
        assert status == "failed"
        assert message is not None and message.startswith("step judge_verdicts failed: policy judge.name is anthropic")
        assert "DESK_KEY" in message
        assert "nothing was applied" not in message and desk.merged() == {}
        assert desk.run(*LATER_STEPS, week=WEEK, DESK_KEY="secret").success
    assert desk.last() == ("ok", None)
    assert len(desk.rows()) == 1
    assert desk.merged() == {"b": "a"}
    again = desk.corpus.curate(DESK_KEY="secret")
    assert again.code == 0 and "the same was found" in again.out


def test_a_plan_is_not_applied_over_what_happened_since(new_desk: NewDesk) -> None:
    desk = new_desk()
    everything = [key.path[-1] for key in desk.defs.resolve_asset_graph().get_all_asset_keys()]
    plan = [name for name in everything if name not in ("applied_actions", "health_report")]
    assert desk.run(*plan, week=BEFORE).success
    other = Corpus(desk.database.url, desk.name).curate(date.fromisoformat(WEEK))
    told = refusal(desk, "applied_actions", week=BEFORE)
    assert f"run {other.run_id} of corpus {desk.name!r} took effect after this run had read the corpus" in told
    # Not even when what happened was undone: the plan saw another corpus.
    roll_back_run(desk.database, other.run_id, actor="ann")
    assert "took effect after" in refusal(desk, "applied_actions", week=BEFORE)
    assert desk.run(week=BEFORE).success


def test_weeks_in_the_wrong_order_are_refused_with_the_reason(shared: Desk) -> None:
    before = shared.state()
    result = shared.run(week=BEFORE)
    (told,) = failed_steps(result).values()
    assert f"week {BEFORE} of corpus {shared.name!r} lies before {WEEK}" in told and "kb rollback" in told
    assert shared.state() == before
    with shared.inside():
        assert not frame_path("knowledge_entries", shared.name, date.fromisoformat(BEFORE)).exists()


def test_a_policy_that_changes_in_the_middle_of_a_run_stops_it(done: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from kb_pipeline.defs import resources

    asked: list[str] = []
    read = resources._stamp

    def edited(file: str) -> tuple[int, int]:
        asked.append(file)
        if len(asked) == 4:
            done.set_policy(done.corpus.policy | {"retire": {"max_unmatched_days": 3}})
        return read(file)

    monkeypatch.setattr(resources, "_stamp", edited)
    result = done.run(week=WEEK)
    assert any("the policy changed while run" in told for told in failed_steps(result).values())
    assert done.last()[0] == "failed"
