"""Projections: ``entries`` and every as-of view are what the histories say, in whatever order things happened."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters.rolling_back import roll_back_entry, roll_back_run
from kb_pipeline.adapters.snapshots import count_entries, load_activity, load_open_conflicts, load_queue
from kb_pipeline_tests.fakes.corpus import NEXT_WEEK, WEEK, Corpus, Decisions

ROWS: list[dict[str, Any]] = [
    {"id": "a", "created_at": "2026-01-01", "attempts": 30, "successes": 20, "evidence": [{"path": "e1"}]},
    {
        "id": "b",
        "created_at": "2026-01-02",
        "attempts": 12,
        "successes": 3,
        "evidence": [{"path": "e2"}, {"path": "e1"}],
    },
    {"id": "c", "created_at": "2026-01-03", "usage": [{"type": "cited", "at": "2026-05-01T12:34:56Z"}]},
    {"id": "d", "created_at": "2026-01-04", "state": "candidate", "tenant": "t"},
]


def test_entries_can_be_rebuilt_from_the_histories(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    assert corpus.projections_are_true()
    first = corpus.curate(decided=Decisions(merges={"b": "a"}, conflicts=(("a", "c"),), scores={"a": 0.5, "c": 0.25}))
    assert corpus.projections_are_true()
    corpus.load(ROWS[0] | {"title": "Edited", "attempts": 33}, {"id": "e"})
    assert corpus.projections_are_true()
    roll_back_entry(corpus.database, first.run_id, "b", actor="ann")
    assert corpus.projections_are_true()
    second = corpus.curate(NEXT_WEEK, decided=Decisions(retire=("c",), admit=("d",), scores={"c": 0.5}))
    assert corpus.projections_are_true()
    roll_back_run(corpus.database, second.run_id, actor="ann")
    assert corpus.projections_are_true()
    # The control: a projection that has gone astray is seen and mended.
    corpus.query("UPDATE entries SET attempts = 999 WHERE corpus = %s AND entry_id = 'a'", corpus.name)
    assert not corpus.projections_are_true()
    assert corpus.projections_are_true()


def test_a_snapshot_shows_what_was_visible_and_nothing_later(corpus: Corpus) -> None:
    corpus.load(
        *ROWS,
        {"id": "later", "created_at": "2026-11-23T00:00:00Z"},
        {"id": "just", "created_at": "2026-11-22T23:59:59Z"},
    )
    run = corpus.open()
    assert corpus.entries(run)["entry_id"].to_list() == ["a", "b", "c", "d", "just"]
    assert count_entries(corpus.database, run) == (5, 1)
    corpus.load({"id": "recorded later", "created_at": "2026-02-01"})
    assert corpus.entries(run)["entry_id"].to_list() == ["a", "b", "c", "d", "just"]
    assert count_entries(corpus.database, run) == (5, 1)
    assert corpus.entries(corpus.open())["entry_id"].to_list() == ["a", "b", "c", "d", "just", "recorded later"]


def test_an_entry_whose_state_is_younger_than_its_text_is_newer(corpus: Corpus) -> None:
    corpus.load({"id": "x", "created_at": "2026-01-01", "state": "archived", "state_changed_at": "2026-12-01"})
    run = corpus.open()
    assert corpus.entries(run).is_empty()
    assert count_entries(corpus.database, run) == (0, 1)
    later = corpus.open(date(2026, 11, 30))
    assert corpus.entries(later)["state"].to_list() == ["archived"]
    assert count_entries(corpus.database, later) == (1, 0)


def test_a_run_does_not_see_its_own_actions_and_the_next_week_does(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    run = corpus.curate(
        decided=Decisions(merges={"b": "a"}, retire=("c",), admit=("d",), conflicts=(("a", "c"),), unsure=(("a", "c"),))
    )
    again = corpus.open()
    assert again.rerun_of == run.run_id
    assert corpus.entries(again)["state"].to_list() == ["active", "active", "active", "candidate"]
    assert corpus.entries(again)["attempts"].to_list() == [30, 12, 0, 0]
    assert load_queue(corpus.database, again).is_empty()
    assert load_open_conflicts(corpus.database, again).is_empty()
    after = corpus.open(NEXT_WEEK)
    assert corpus.entries(after)["state"].to_list() == ["active", "archived", "archived", "active"]
    assert corpus.entries(after)["attempts"].to_list() == [42, 12, 0, 0]
    assert corpus.entries(after)["conflict_state"].to_list() == ["open", "none", "open", "none"]
    assert load_queue(corpus.database, after)["recommendation_type"].sort().to_list() == ["CONFLICT", "MERGE"]
    assert load_open_conflicts(corpus.database, after).height == 1


def test_a_rerun_sees_what_the_first_run_saw(corpus: Corpus) -> None:
    corpus.load(*ROWS)
    first = corpus.open()
    seen = corpus.entries(first)
    corpus.apply(first, Decisions(merges={"b": "a"}))
    corpus.curate(NEXT_WEEK, decided=Decisions(retire=("c",)))
    # A late row, a new text and a person's keep come after it.
    corpus.load(
        {"id": "late", "created_at": "2026-02-01"},
        ROWS[0] | {"title": "Edited", "attempts": 50, "evidence": []},
        ROWS[2] | {"usage": [{"type": "cited", "at": "2026-06-01"}]},
    )
    again = corpus.open()
    assert again.rerun_of == first.run_id
    assert corpus.entries(again).equals(seen)
    # The control: a run that is no re-run sees all of it.
    assert not corpus.entries(corpus.open(date(2026, 11, 30))).equals(seen)


def test_activity_is_use_and_not_totals_nor_what_runs_did(corpus: Corpus) -> None:
    corpus.load(
        *ROWS, {"id": "e", "created_at": "2026-01-05", "tenant": "t", "last_matched_at": "2026-04-01T10:00:30Z"}
    )
    corpus.curate(decided=Decisions(merges={"b": "a"}, strengthen={"d": "e"}))
    activity = load_activity(corpus.database, corpus.open(NEXT_WEEK))
    assert activity.rows() == [
        ("t", datetime(2026, 4, 1, 10, 0, tzinfo=UTC)),
        (None, datetime(2026, 5, 1, 12, 34, tzinfo=UTC)),
    ]
    early = corpus.name + "-early"
    other = Corpus(corpus.url, early)
    other.load(ROWS[2])
    assert load_activity(other.database, other.open(date(2026, 3, 2))).is_empty()


def test_text_scope_and_lists_of_a_snapshot(corpus: Corpus) -> None:
    corpus.load(
        {"id": "a", "title": None, "body": "First line\nSecond", "team": "red"},
        {
            "id": "b",
            "title": "T",
            "body": "B",
            "rationale": "R",
            "alternatives": ["A1", "A2"],
            "steps": ["S"],
            "team": 3,
        },
        {"id": "c", "title": "Same", "body": "Same and more", "tenant": "t", "repository": "r", "module": "m"},
    )
    run = corpus.open(date(2026, 11, 30))
    rows = {row["entry_id"]: row for row in corpus.entries(run).iter_rows(named=True)}
    assert (rows["a"]["title"], rows["a"]["text"]) == ("First line", "First line\nSecond")
    assert rows["b"]["text"] == "T\nB\nR\nA1\nA2\nS"
    assert rows["c"]["text"] == "Same and more"
    assert rows["a"]["scope"] == rows["b"]["scope"] != rows["c"]["scope"]
    teams = corpus.entries(run, scope_fields=("team", "missing"))["scope"].to_list()
    assert len(set(teams)) == 3


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.sampled_from("abcd"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("merge"), st.sampled_from(["ba", "cb", "ac"])),
        st.tuples(st.just("retire"), st.sampled_from("abc")),
        st.tuples(st.just("conflict"), st.sampled_from(["ab", "bc"])),
        st.tuples(st.just("undo")),
        st.tuples(st.just("keep"), st.sampled_from("abc")),
    ),
    max_size=7,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(0, 10**9))
def test_whatever_happens_the_projections_are_true_and_undo_is_exact(
    shared_database_url: str, steps: list[tuple[Any, ...]], number: int
) -> None:
    corpus = Corpus(shared_database_url, f"steps-{number}-{len(steps)}-{datetime.now(UTC).timestamp()}")
    corpus.load(*ROWS)
    week = WEEK - timedelta(days=7 * 20)
    done: list[tuple[str, bytes]] = []
    for step in steps:
        active = {name for name, row in corpus.rows().items() if row["state"] == "active"}
        match step:
            case ("load", name, uses, edit):
                values = {"usage": [{"id": f"u{n}", "type": "cited", "at": "2026-03-01"} for n in range(uses)]}
                corpus.load(ROWS["abcd".index(name)] | values | ({"body": f"text {uses}"} if edit else {}))
                done.clear()
            case ("undo",):
                if done:
                    run_id, before = done.pop()
                    roll_back_run(corpus.database, run_id, actor="ann")
                    assert corpus.export(full=True) == before
            case ("keep", name):
                if done and name not in active and corpus.rows()[name]["state_changed_at"].startswith(str(week)):
                    roll_back_entry(corpus.database, done[-1][0], name, actor="ann")
                    assert corpus.rows()[name]["state"] == "active"
                    done.clear()
            case (kind, names) if set(names) <= active:
                decided = {
                    "merge": Decisions(merges={names[0]: names[-1]}, scores={names[0]: 0.5}),
                    "retire": Decisions(retire=(names,)),
                    "conflict": Decisions(conflicts=((names[0], names[-1]),)),
                }[kind]
                before = corpus.export(full=True)
                done.append((corpus.curate(week, decided=decided).run_id, before))
                week += timedelta(days=7)
        assert corpus.projections_are_true()
