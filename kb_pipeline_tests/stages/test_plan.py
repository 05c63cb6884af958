"""The plan: decisions become actions or questions, ids are derived, and nothing is asked twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.stages import conflicts, gates, merge, merge_bodies, refresh, retire, supersede
from kb_pipeline.stages.flags import find_flags, open_flags
from kb_pipeline.stages.plan import STATE_CHANGES, PlanIdentity, build_plan, recommendation_id
from kb_pipeline.vocabulary import ActionType, Mode, ReasonCode
from kb_pipeline_tests.fakes.frames import AS_OF, cases, entries, frame, policy

TABLE = cases("plan")
IDENTITY = PlanIdentity("team", date(2026, 11, 16), AS_OF, "policy", 0)
ENTRIES = entries(
    {"id": "a", "body": "text of a"},
    {"id": "b", "body": "text of b"},
    {"id": "c", "body": "text of c", "state": "candidate"},
)
RULE_KEYS = {
    code.value: key
    for stage in (gates, retire, supersede, refresh, merge_bodies)
    for code, key in stage.RULE_KEYS.items()
}


def of_texts(conflict: dict[str, Any]) -> dict[str, Any]:
    """A conflict of the texts as they stand, unless it names others."""
    texts = dict(ENTRIES.select("entry_id", "content_hash").iter_rows())
    return {f"content_hash_{side}": texts[conflict[f"entry_id_{side}"]] for side in "lr"} | conflict


def plan(
    case: dict[str, Any], mode: Mode = Mode.APPLY, identity: PlanIdentity = IDENTITY, found: pl.DataFrame = ENTRIES
) -> pl.DataFrame:
    queue = case.get("queue", [])
    is_open = frame(schemas.CONFLICTS, map(of_texts, case.get("open_conflicts", [])))
    return build_plan(
        identity,
        found,
        frame(schemas.GATES, case.get("gates", [])),
        frame(schemas.RETIREMENT, case.get("retirement", [])),
        frame(schemas.VERDICTS, case.get("verdicts", [])),
        frame(schemas.MERGES, case.get("merges", [])),
        frame(schemas.CONFLICTS, map(of_texts, case.get("conflicts", []))),
        flags=case["flags"] if "flags" in case else schemas.FLAGS.empty(),
        replaced=frame(schemas.REPLACED, case.get("replaced", [])),
        outdated=frame(schemas.OUTDATED, case.get("outdated", [])),
        max_new={"flags": 20, "supersede": 20, "refresh": 20} | case.get("max_new", {}),
        queue=queue if isinstance(queue, pl.DataFrame) else frame(schemas.QUEUE, queue),
        open_conflicts=set(is_open["conflict_id"]),
        conflicts_over=partial(conflicts.conflicts_over, is_open, found),
        admit_to="active",
        rule_keys=RULE_KEYS,
        mode=mode,
        issues=case.get("issues"),
        answered=case.get("answered", ()),
    )


def actions(made: pl.DataFrame) -> list[list[str | None]]:
    return [
        list(row)
        for row in made.select("action", "entry_id", "other_entry_id", "to_state", "recommendation_type").iter_rows()
    ]


def asked(made: pl.DataFrame) -> list[str]:
    return [recommendation_id(row) for row in made.filter(pl.col("action") == "recommend").iter_rows(named=True)]


@pytest.mark.parametrize("name", TABLE)
def test_cases(name: str) -> None:
    case = TABLE[name]
    made = plan(case)
    assert actions(made) == case["actions"]
    schemas.PLAN.check(made)
    if "asked" in case:
        questions = plan(case, Mode.RECOMMEND)
        assert actions(questions) == case["asked"]
        schemas.PLAN.check(questions)


def test_every_action_is_a_case() -> None:
    assert {action[0] for case in TABLE.values() for action in case["actions"]} == {
        action.value for action in ActionType
    }


def test_rows_say_what_they_rest_on() -> None:
    row = plan(TABLE["merge"]).row(0, named=True)
    hashes = dict(ENTRIES.select("entry_id", "content_hash").iter_rows())
    assert (row["content_hash"], row["other_content_hash"]) == (hashes["b"], hashes["a"])
    assert (row["from_state"], row["to_state"], row["rule"]) == ("active", "archived", "judge")
    assert (row["similarity"], row["verdict"], row["judge"]) == (0.95, "MERGE", "rule")
    row = plan(TABLE["retire"]).row(0, named=True)
    assert (row["reason"], row["rule"], row["explanation"]) == (
        "retire.stale",
        "retire.max_unmatched_days",
        "retire.stale",
    )
    row = plan(TABLE["protected"]).row(0, named=True)
    assert row["explanation"] == "retire.low_ci_upper; protected: pinned"
    assert (row["from_state"], row["to_state"], row["severity"]) == (None, None, "low")


def test_in_mode_recommend_nothing_changes() -> None:
    for case in TABLE.values():
        made = plan(case, Mode.RECOMMEND)
        assert set(made["action"]) <= {ActionType.RECOMMEND}
        assert made["to_state"].null_count() == made.height
        # The control: in mode apply the same decisions do change something, wherever they should.
        applied = plan(case)
        moved = applied.filter(pl.col("to_state").is_not_null())
        assert set(moved["action"]) <= {action.value for action in STATE_CHANGES}
        assert made.height >= moved["entry_id"].n_unique()


def test_ids_are_derived_from_all_that_makes_a_run() -> None:
    def ids(**changed: Any) -> set[str]:
        return set(plan(TABLE["strengthen"], identity=replace(IDENTITY, **changed))["action_id"])

    same = ids()
    assert ids() == same
    for changed in (
        {"corpus": "other"},
        {"week": date(2026, 11, 9)},
        {"as_of": AS_OF - timedelta(seconds=1)},
        {"policy_fingerprint": "changed"},
        {"epoch": 1},
    ):
        assert ids(**changed).isdisjoint(same)


def test_what_waits_already_is_not_asked_again() -> None:
    first = plan(TABLE["protected"])
    waiting = [{"recommendation_id": i, "entry_ids": ["a"], "content_hashes": ["h"]} for i in asked(first)]
    assert len(waiting) == 1
    assert plan(TABLE["protected"] | {"queue": waiting}).is_empty()
    # Another text is another question.
    edited = entries({"id": "a", "body": "another text of a"}, {"id": "b"}, {"id": "c"})
    assert plan(TABLE["protected"] | {"queue": waiting}, found=edited).height == 1
    # What is done is not held up by a question about it.
    waiting[0]["recommendation_id"] = asked(plan(TABLE["merge"], Mode.RECOMMEND))[0]
    assert actions(plan(TABLE["merge"] | {"queue": waiting})) == TABLE["merge"]["actions"]


def test_a_question_about_a_pair_is_the_same_from_both_sides() -> None:
    one = plan({"merges": [{"loser_id": "b", "winner_id": "a", "merge_decision": "review", "reason": "merge.chain"}]})
    two = plan({"merges": [{"loser_id": "a", "winner_id": "b", "merge_decision": "review", "reason": "merge.chain"}]})
    three = plan(TABLE["unsure"])
    assert asked(one) == asked(two) == asked(three)
    assert asked(plan(TABLE["conflict"])) != asked(one)


def test_texts_that_a_person_should_see_are_flagged() -> None:
    found = entries(
        {"id": "a", "secret_kinds": ["aws_key", "password"], "addresses_judge": True},
        {"id": "b", "addresses_judge": True},
        {"id": "c", "state": "candidate", "secret_kinds": ["token"]},
        {"id": "d", "state": "archived", "secret_kinds": ["token"], "addresses_judge": True},
        {"id": "e"},
    )
    case = {"flags": open_flags(find_flags(found, policy().flags), found, schemas.QUEUE.empty())}
    made = plan(case, found=found)
    rows = list(made.select("entry_id", "recommendation_type", "reason", "severity", "explanation").iter_rows())
    assert rows == [
        ("a", "FLAG", "load.secret", "high", "aws_key; password"),
        ("b", "FLAG", "load.addresses_judge", "medium", None),
        ("c", "FLAG", "load.secret", "high", "token"),
    ]
    assert plan(case, Mode.RECOMMEND, found=found).equals(made)


FLAGS = frame(
    schemas.FLAGS,
    [
        {"entry_id": "b", "flag_reasons": ["flags.no_steps", "flags.several_topics"], "flag_severity": "high",
         "flag_value": 0.72},
        {"entry_id": "a", "flag_reasons": ["flags.gone_reference"], "flag_severity": "low", "flag_value": 0.3,
         "gone_references": ["kb-9 (unknown)"]},
        {"entry_id": "c", "flag_reasons": ["load.addresses_judge"], "flag_severity": "medium", "flag_value": 0.2},
    ],
)  # fmt: skip


def test_an_entry_with_several_flags_is_one_question_that_names_all() -> None:
    made = plan({"flags": FLAGS})
    rows = list(
        made.select("entry_id", "recommendation_type", "reason", "severity", "explanation", "value").iter_rows()
    )
    assert rows == [
        ("a", "FLAG", "flags.gone_reference", "low", "kb-9 (unknown)", 0.3),
        ("b", "FLAG", "flags.no_steps", "high", "flags.no_steps; flags.several_topics", 0.72),
        ("c", "FLAG", "load.addresses_judge", "medium", None, 0.2),
    ]
    assert plan({"flags": FLAGS}, Mode.RECOMMEND).equals(made)


def test_flags_are_asked_about_in_a_bounded_number_the_best_first() -> None:
    assert plan({"flags": FLAGS, "max_new": {"flags": 1}})["entry_id"].to_list() == ["b", "c"]
    # Words to a judge are always asked about.
    assert plan({"flags": FLAGS, "max_new": {"flags": 0}})["entry_id"].to_list() == ["c"]


def test_what_a_model_found_wrong_is_asked_about_beside_the_flags() -> None:
    flags = frame(
        schemas.FLAGS,
        [{"entry_id": "a", "flag_reasons": ["flags.vague_fact"], "flag_severity": "medium", "flag_value": 0.5}],
    )
    issues = pl.DataFrame(
        {"entry_id": ["a", "b"], "severity": ["high", "low"], "sentence": ["It names no port.", "It rambles."]}
    )
    rows = {row["entry_id"]: row for row in plan({"flags": flags, "issues": issues}).iter_rows(named=True)}
    told = {name: (row["reason"], row["severity"], row["value"], row["explanation"]) for name, row in rows.items()}
    assert told == {
        "a": ("flags.vague_fact", "high", 0.7, "flags.vague_fact; It names no port."),
        "b": ("flags.by_judge", "low", 0.3, "It rambles."),
    }
    assert {row["recommendation_type"] for row in rows.values()} == {"FLAG"}
    # They count among the bounded questions, the best first, and what leaves is not asked about.
    assert plan({"flags": flags, "issues": issues, "max_new": {"flags": 1}})["entry_id"].to_list() == ["a"]
    gone = plan(
        {
            "issues": issues,
            "retirement": [{"entry_id": "b", "retire_decision": "retire", "retire_reasons": ["retire.stale"]}],
        }
    )
    assert [row[:2] for row in actions(gone)] == [["recommend", "a"], ["retire", "b"]]
    assert plan({"flags": flags})["explanation"].to_list() == [None]


def test_nobody_is_asked_about_an_entry_that_leaves() -> None:
    made = plan(TABLE["merge"] | {"flags": FLAGS, "max_new": {"flags": 1}})
    assert actions(made) == [
        *TABLE["merge"]["actions"],
        ["recommend", "a", None, None, "FLAG"],
        ["recommend", "c", None, None, "FLAG"],
    ]


def test_two_grounds_for_one_question_are_one_question() -> None:
    both = TABLE["unsure"] | {
        "gates": [
            {
                "entry_id": "a",
                "gate_decision": "review",
                "gate_reasons": ["gates.too_similar_differs"],
                "nearest_id": "b",
            }
        ]
    }
    made = plan(both)
    assert actions(made) == [["recommend", "a", "b", None, "MERGE"]]
    assert made["reason"].to_list() == ["gates.too_similar_differs"]


def test_the_queue_is_ordered_by_likeness_less_a_step_for_what_differs() -> None:
    unsure = {"verdict": "UNSURE", "reason": "judge.residue"}
    made = plan(
        {
            "verdicts": [
                unsure | {"entry_id_l": "a", "entry_id_r": "b", "similarity": 0.9},
                unsure | {"entry_id_l": "a", "entry_id_r": "c", "similarity": 0.95, "specifics_only_l": ["number 3"]},
                unsure | {"entry_id_l": "b", "entry_id_r": "c", "similarity": None},
            ]
        }
    )
    values = list(made.select("entry_id", "other_entry_id", "value", "severity").iter_rows())
    assert values == [("a", "b", 0.9, "medium"), ("a", "c", 0.85, "low"), ("b", "c", 0.0, "medium")]


def test_one_replaces_the_other_is_asked_instead_of_whether_they_say_the_same() -> None:
    both = TABLE["one says that it replaces the other"] | {"verdicts": TABLE["unsure"]["verdicts"]}
    made = plan(both)
    assert actions(made) == [["recommend", "b", "a", None, "SUPERSEDE"]]
    # While it waits, the other question is not asked either; once somebody said no, it is.
    (waiting,) = asked(made)
    queue = [{"recommendation_id": waiting, "recommendation_type": "SUPERSEDE", "entry_ids": ["a", "b"],
              "content_hashes": ["h", "h"]}]  # fmt: skip
    assert plan(both | {"queue": queue}).is_empty()
    assert actions(plan(both | {"answered": (waiting,)})) == TABLE["unsure"]["actions"]
    # The judge found the same: one question, with the ground that the entry itself gives.
    said = {"verdict": "SUPERSEDES", "reason": "judge.supersedes", "superseded_side": "r"}
    made = plan(both | {"verdicts": [said | {"entry_id_l": "a", "entry_id_r": "b"}]})
    assert (asked(made), made["reason"].to_list()) == ([waiting], ["supersede.declared"])


def test_equal_texts_merge_whatever_replaces_what() -> None:
    made = plan(TABLE["one says that it replaces the other"] | {"merges": TABLE["merge"]["merges"]})
    assert actions(made) == TABLE["merge"]["actions"]


def test_the_judges_side_says_which_entry_is_old() -> None:
    said = {"entry_id_l": "a", "entry_id_r": "b", "verdict": "SUPERSEDES", "reason": "judge.supersedes",
            "judge": "anthropic", "explanation": "B names a later year."}  # fmt: skip
    for side, expected in (("l", ("a", "b")), ("r", ("b", "a"))):
        row = plan({"verdicts": [said | {"superseded_side": side}]}).row(0, named=True)
        assert (row["entry_id"], row["other_entry_id"]) == expected
        assert (row["severity"], row["similarity"], row["value"]) == ("medium", 0.95, 0.95)
        assert (row["verdict"], row["judge"], row["explanation"]) == (
            "SUPERSEDES",
            "anthropic",
            "B names a later year.",
        )


def test_a_suggested_text_goes_with_questions_alone() -> None:
    body = {"suggested_body": "One text for both."}
    merge_of = TABLE["merge"]["merges"][0] | body
    assert plan({"merges": [merge_of]})["suggested_body"].to_list() == [None]
    # The control: where a person is asked, the same text is suggested.
    assert plan({"merges": [merge_of]}, Mode.RECOMMEND)["suggested_body"].to_list() == ["One text for both."]
    asks = TABLE["merge for a person"]["merges"][0] | body
    assert plan({"merges": [asks]})["suggested_body"].to_list() == ["One text for both."]
    unsure = TABLE["unsure"]["verdicts"][0] | body
    assert plan({"verdicts": [unsure]})["suggested_body"].to_list() == ["One text for both."]


def test_whether_it_still_holds_is_another_question_after_a_validation() -> None:
    case = TABLE["does it still hold"]
    (first,) = asked(plan(case))
    assert plan(case | {"answered": (first,)}).is_empty()
    later = case["outdated"][0] | {"occasion": "2026-08-01"}
    (second,) = asked(plan({"outdated": [later], "answered": (first,)}))
    assert first != second


def test_questions_of_each_sort_are_bounded_apart() -> None:
    outdated = [
        {"entry_id": entry, "reason": reason, "severity": "low", "occasion": "2026-01-01", "value": 0.1}
        for entry, reason in (("a", "refresh.expired"), ("b", "refresh.unvalidated"), ("c", "retire.stale"))
    ]
    case = {"outdated": outdated, "flags": FLAGS, "replaced": TABLE["one says that it replaces the other"]["replaced"]}
    made = plan(case | {"max_new": {"refresh": 1, "flags": 0}})
    asked_about = {tuple(row) for row in made.select("entry_id", "reason").iter_rows()}
    # What a rule of retirement spares is always asked about, and so are words to a judge.
    assert asked_about == {
        ("a", "refresh.expired"), ("c", "retire.stale"), ("c", "load.addresses_judge"), ("b", "supersede.declared"),
    }  # fmt: skip


def test_every_reason_has_a_policy_key_that_exists() -> None:
    for name in TABLE:
        for mode in Mode:
            made = plan(TABLE[name], mode)
            assert set(made["reason"]) <= {code.value for code in ReasonCode}
            for rule in made["rule"].unique():
                # A policy key, or the stage whose section of the policy it is.
                section, _, key = rule.partition(".")
                assert section in [*type(policy()).model_fields, "conflicts"]
                assert not key or hasattr(getattr(policy(), section), key)
    assert merge.RULE_KEY and conflicts.RULE_KEY


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(TABLE)), min_size=1, max_size=4, unique=True),
    st.sampled_from(list(Mode)),
    st.data(),
)
def test_the_order_of_rows_is_irrelevant(names: list[str], mode: Mode, data: st.DataObject) -> None:
    keys = {
        "gates": "entry_id",
        "retirement": "entry_id",
        "merges": "loser_id",
        "conflicts": "conflict_id",
        "verdicts": "verdict",
        "replaced": "entry_id",
        "outdated": "entry_id",
    }
    case: dict[str, Any] = {}
    for part, key in keys.items():
        rows = {row[key]: row for name in names for row in TABLE[name].get(part, [])}
        case[part] = list(rows.values())
    made = plan(case, mode)
    mixed = {part: data.draw(st.permutations(rows)) for part, rows in case.items()}
    assert plan(mixed, mode).equals(made)
    schemas.PLAN.check(made)
