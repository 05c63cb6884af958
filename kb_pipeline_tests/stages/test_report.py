"""The report of a week: counts, rows, documents (golden files), what is withheld, words, and the marked difference."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline import schemas
from kb_pipeline.adapters.report_yaml import yaml_text
from kb_pipeline.stages import report_words as words
from kb_pipeline.stages.report import (
    WeekFrames,
    documents,
    health_rows,
    markdown_summary,
    pair_rows,
    pruning_rows,
    states_after,
    summary_lines,
)
from kb_pipeline.stages.report_health import health_counts
from kb_pipeline.stages.report_page import page
from kb_pipeline.stages.retire import RULE_KEYS, protections
from kb_pipeline.vocabulary import ActionType, Band, ReasonCode, RecommendationType, State, Verdict
from kb_pipeline_tests.stages.week_frames import (
    AS_OF,
    BERTH,
    DOCK,
    ENTRIES,
    HEADER,
    PAIRS,
    PLAN,
    QUEUE,
    RESTRICTED_WORD,
    SECRET_WORD,
    action,
    empty_week,
    entries,
    pair,
    week_frames,
    with_status,
)

GOLDEN = Path(__file__).parents[1] / "golden"
LATER = replace(HEADER, run_id="run-again", generated_at=datetime(2027, 1, 4, tzinfo=UTC), actor="somebody else")


def columns(table: str) -> list[str]:
    """Columns of a report table, as the migrations declare them."""
    files = sorted((Path(__file__).parents[2] / "sql/migrations").glob("*.sql"))
    sql = "\n".join(file.read_text() for file in files)
    body = sql.partition(f"CREATE TABLE {table} (")[2].partition("\n);")[0]
    names = [line.split()[0] for line in body.splitlines() if line.strip()]
    added = re.findall(rf"ALTER TABLE {table} ADD COLUMN (\w+)", sql)
    return [name for name in [*names, *added] if name not in ("UNIQUE", "PRIMARY")]


# --- words


@pytest.mark.parametrize(
    ("members", "table"),
    [
        (ReasonCode, words.REASONS),
        (State, words.STATES),
        (Band, words.BANDS),
        (Verdict, words.VERDICTS),
        (Verdict, words.VERDICT_HEADS),
        (RecommendationType, words.QUESTIONS),
        (ActionType, words.ACTIONS),
    ],
    ids=["reasons", "states", "bands", "verdicts", "heads", "questions", "actions"],
)
def test_every_code_has_words(members: type, table: dict[str, str]) -> None:
    assert set(table) == set(members)
    assert all(text.strip() for text in table.values())


def test_no_reason_is_explained_by_codes() -> None:
    for code, sentence in words.REASONS.items():
        assert sentence.endswith("."), code
        assert "_" not in sentence, code


def test_retirement_rules_and_protections_are_those_of_the_stage() -> None:
    assert {code.value: key for code, key in RULE_KEYS.items()} == words.RETIRE_RULES
    policy_words = set(protections(_RetirePolicy()))  # type: ignore[arg-type]
    assert policy_words == set(words.PROTECTIONS)


class _RetirePolicy:
    protected_kinds = ()


def test_measured_sentences_name_value_and_limit() -> None:
    week = documents(week_frames())["memory-pruning-plan.yaml"]
    by_id = {row["memoryId"]: row["explanation"] for row in week["prune"]}
    assert "3 of 24" in by_id["e09"]
    assert "0.301" in by_id["e09"]
    assert "0.40" in by_id["e09"]
    assert by_id["e10"] == "No match for 131 days (limit 90)."


def test_measured_share_is_rounded_away_from_the_limit() -> None:
    row = {"distinctiveness": 0.2999, "name_chars": 3, "nearest_id": None, "max_similarity": None}
    assert "29.9%" in words.measured_gate("gates.not_distinctive", row, {"min_distinctiveness": 0.3})


# --- states and counts


def test_states_after_keeps_rows_and_order() -> None:
    week = week_frames()
    after = states_after(week.entries, week.plan)
    assert after.columns == week.entries.columns
    assert after["entry_id"].to_list() == week.entries["entry_id"].to_list()
    states = dict(after.select("entry_id", "state").iter_rows())
    assert (states["c01"], states["c02"], states["e02"], states["e09"]) == (
        "active",
        "archived",
        "archived",
        "archived",
    )
    assert states["e01"] == states["e11"] == "active"
    assert states["c04"] == "candidate"
    assert dict(after.select("entry_id", "merged_into").drop_nulls().iter_rows()) == {"e02": "e01"}


def test_states_after_without_a_plan_changes_nothing() -> None:
    week = week_frames()
    assert states_after(week.entries, schemas.PLAN.empty()).equals(week.entries)


def test_totals_are_the_sums_of_the_repositories() -> None:
    total, rows = health_counts(week_frames())
    for key in ("entry_count", "active", "archived", "conflicted", "high_value", "retired", "merged", "queue_length"):
        assert total[key] == sum(row[key] for row in rows), key
    assert [row["repository"] for row in rows] == [None, BERTH, DOCK]
    assert (total["entry_count"], total["active"], total["archived"]) == (24, 16, 6)
    assert (total["retired"], total["merged"], total["admitted"], total["refused"]) == (2, 1, 1, 2)
    assert (total["conflict_count"], total["conflicted"], total["queue_oldest_days"]) == (2, 4, 14)


def test_evidence_of_a_merged_entry_counts_for_the_winner() -> None:
    rows = [
        {"entry_id": "w", "kind": "fact", "title": "winner"},
        {"entry_id": "x", "kind": "fact", "title": "loser", "evidence_count": 2},
    ]
    merge = action("merge", "x", "w", reason="judge.exact", from_state="active", to_state="archived")
    merged = health_counts(week_frames(entries=entries(rows), plan=schemas.PLAN.build([merge])))[0]
    apart = health_counts(week_frames(entries=entries(rows), plan=schemas.PLAN.empty()))[0]
    assert merged["evidence_coverage"] == 1.0
    assert apart["evidence_coverage"] == 0.5


@pytest.mark.parametrize(
    ("use", "expected"),
    [([0] * 10, 0), ([0] * 8 + [3, 9], 1), (list(range(1, 11)), 1), (list(range(1, 101)), 10)],
    ids=["nobody uses it", "two used", "ten", "hundred"],
)
def test_high_value_is_the_used_top_decile(use: list[int], expected: int) -> None:
    rows = [{"entry_id": f"e{i:03d}", "kind": "fact", "title": "t", "retrievals": n} for i, n in enumerate(use)]
    week = week_frames(entries=entries(rows), plan=schemas.PLAN.empty())
    assert health_counts(week)[0]["high_value"] == expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_row_order_of_the_frames_does_not_matter(random: object) -> None:
    shuffled = list(ENTRIES)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    pairs = list(PAIRS)
    random.shuffle(pairs)  # type: ignore[attr-defined]
    plan = list(PLAN)
    random.shuffle(plan)  # type: ignore[attr-defined]
    week = week_frames(entries=entries(shuffled), verdicts=schemas.VERDICTS.build(pairs), plan=schemas.PLAN.build(plan))
    assert documents(week) == documents(week_frames())


# --- rows of the tables


def test_rows_have_the_columns_of_the_tables() -> None:
    week = week_frames()
    assert health_rows(week).columns == columns("report_health")
    assert pair_rows(week).columns == columns("report_pairs")
    assert pruning_rows(week).columns == columns("report_pruning")


def test_health_rows_sum_up_and_always_exist() -> None:
    rows = health_rows(week_frames())
    assert rows["repository"].to_list() == [None, BERTH, DOCK]
    assert rows["not_looked_at"].to_list() == [2, 0, 0]
    nothing = health_rows(empty_week())
    assert nothing.height == 1
    assert nothing.row(0, named=True)["entry_count"] == 0
    assert nothing["evidence_coverage"].to_list() == [None]


def test_pairs_come_strongest_first_and_are_capped_in_the_file_alone() -> None:
    week = week_frames(max_listed_pairs=3)
    rows = pair_rows(week)
    assert rows["band"].to_list() == ["exact", *["merge"] * 4, *["borderline"] * 2, "lexical"]
    assert rows.filter(pl.col("band") == "merge")["similarity"].is_sorted(descending=True)
    document = documents(week)["duplicate-pairs.yaml"]
    assert (document["total"], document["listed"], len(document["pairs"])) == (8, 3, 3)
    assert sum(row["count"] for row in document["counts"]) == 8


def test_pruning_tells_what_happened() -> None:
    done = dict(pruning_rows(week_frames()).select("entry_id", "action").iter_rows())
    assert done == {"e09": "archive", "e10": "archive", "e11": "keep"}
    halted = dict(pruning_rows(with_status("halted")).select("entry_id", "action").iter_rows())
    assert halted == {"e09": "halted", "e10": "halted", "e11": "keep"}
    asked = week_frames(header=replace(HEADER, mode="recommend"), plan=schemas.PLAN.empty())
    assert dict(pruning_rows(asked).select("entry_id", "action").iter_rows())["e09"] == "recommend"


# --- documents


@pytest.mark.parametrize("name", sorted(documents(week_frames())))
def test_files_are_as_agreed(name: str) -> None:
    """KB_UPDATE_GOLDEN=1 writes the files anew; read the difference before you keep it."""
    text = yaml_text(documents(week_frames())[name])
    path = GOLDEN / name
    if os.environ.get("KB_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_same_frames_give_the_same_files_but_for_run_and_clock() -> None:
    first, again = documents(week_frames()), documents(week_frames(header=LATER))
    assert first != again
    for document in (*first.values(), *again.values()):
        assert next(iter(document)) == "header"
        document["header"] = {k: v for k, v in document["header"].items() if k not in ("run_id", "generated_at")}
    assert json.dumps(first) == json.dumps(again)


def test_page_differs_by_run_and_clock_in_its_header_alone() -> None:
    first, again = page(week_frames()), page(week_frames(header=LATER))
    assert first.header != again.header
    assert repr(replace(first, header=(), plots={})) == repr(replace(again, header=(), plots={}))


def test_halted_run_shows_states_as_they_were() -> None:
    week = with_status("halted")
    total = documents(week)["memory-health-report.yaml"]["repositories"][0]["memoryHealth"]
    assert (total["active"], total["candidatesPending"], total["archived"]) == (18, 4, 1)
    assert total["thisRun"] == {"admitted": 0, "refused": 0, "retired": 0, "merged": 0}
    assert "nothing was changed" in total["actionRequired"][0]
    assert documents(week)["memory-pruning-plan.yaml"]["archivedOtherwise"] == []
    shown = page(week)
    assert "--allow-large-change" in shown.tasks[0].command
    assert not page(week_frames()).tasks[0].command


def test_whoever_has_questions_is_told_how_to_answer_them() -> None:
    asked = [task.command for task in page(week_frames()).tasks]
    assert asked[-1] == "kb review list --corpus harbor"
    assert not any("kb review" in task.command for task in page(empty_week()).tasks)


def test_empty_corpus_has_all_files() -> None:
    found = documents(empty_week())
    assert len(found) == 6
    assert found["memory-health-report.yaml"]["repositories"][0]["memoryHealth"]["evidenceCoverage"] is None
    assert len(found["memory-health-report.yaml"]["repositories"]) == 1
    assert "no entries" in " ".join(page(empty_week()).summary)


def test_revalidation_says_that_it_was_not_computed() -> None:
    document = documents(week_frames())["memory-revalidation-report.yaml"]
    assert document["computed"] is False
    assert document["reason"]
    assert document["revalidations"] == []


# --- what is withheld


def everything(week: WeekFrames) -> str:
    """All that leaves through the report, as one text."""
    rows = [str(frame.to_dicts()) for frame in (week.health_rows(), week.pair_rows(), week.pruning_rows())]
    texts = [markdown_summary(week), *summary_lines(week, Path("out"))]
    return "\n".join([str(week.documents()), repr(week.page()), *rows, *texts])


def test_suspected_secrets_never_leave() -> None:
    shown = everything(week_frames(max_listed_pairs=99, example_pairs=99))
    assert SECRET_WORD not in shown
    assert words.SECRET_TEXT in shown
    open_rows = [row | {"secret_kinds": []} for row in ENTRIES]
    assert SECRET_WORD in everything(week_frames(entries=entries(open_rows), max_listed_pairs=99, example_pairs=99))


def test_restricted_texts_never_leave() -> None:
    shown = everything(week_frames(max_listed_pairs=99, example_pairs=99))
    assert RESTRICTED_WORD not in shown
    assert words.RESTRICTED_TEXT in shown
    open_rows = [row | {"sensitivity": "internal"} for row in ENTRIES]
    assert RESTRICTED_WORD in everything(week_frames(entries=entries(open_rows), max_listed_pairs=99, example_pairs=99))


def test_a_pair_with_one_withheld_text_marks_no_difference() -> None:
    one_open = [row | {"secret_kinds": []} if row["entry_id"] == "e13" else row for row in ENTRIES]
    text = [row | {"text": "Ask the registry team."} if row["entry_id"] == "e13" else row for row in one_open]
    shown = repr(page(week_frames(entries=entries(text), example_pairs=99)))
    assert "Ask the registry team." in shown
    assert SECRET_WORD not in shown


# --- page and text


def test_page_has_a_section_for_every_stage_word() -> None:
    flow = "load distinctiveness gates score revalidate retire flags dedup judge merge conflicts apply report"
    assert [section.word for section in page(week_frames()).sections] == flow.split()


def test_examples_are_capped_and_the_rest_is_counted() -> None:
    dedup = next(section for section in page(week_frames(example_pairs=1)).sections if section.word == "dedup")
    bands = [block for block in dedup.blocks if block.form == "pairs"]
    assert [len(block.pairs) for block in bands] == [1, 1, 1, 1]  # type: ignore[union-attr]
    assert "1 of 4" in bands[1].more  # type: ignore[union-attr]


def test_recommending_page_promises_nothing() -> None:
    week = week_frames(header=replace(HEADER, mode="recommend"), plan=schemas.PLAN.empty())
    shown = page(week)
    assert "no entry was changed" in shown.status_words
    assert "would be let in" in repr(shown.sections)
    assert "would be let in" not in repr(page(week_frames()).sections)


def test_first_week_has_no_trend() -> None:
    first = page(week_frames(trend=week_frames().trend.clear()))
    assert [block.form for block in first.trend] == ["words"]
    assert [block.form for block in page(week_frames()).trend] == ["figure"] * 4 + ["table"]


def test_terminal_summary_is_one_screen_and_complete() -> None:
    lines = summary_lines(week_frames(), Path("reports"))
    text = "\n".join(lines)
    assert len(lines) <= 24
    for expected in (
        "24 entries",
        "2 entries newer",
        "7 questions",
        "2 open",
        "reports/harbor/2026-11-16",
        HEADER.run_id,
    ):
        assert expected in text
    halted = "\n".join(summary_lines(with_status("halted"), Path("reports")))
    assert "planned, not done" in halted
    assert "kb rollback" not in halted
    assert "nothing to do" in "\n".join(summary_lines(empty_week(), Path("reports")))


def test_markdown_has_the_key_numbers() -> None:
    text = markdown_summary(week_frames())
    for expected in ("| Entries | 24 |", "| Questions waiting | 7 |", "What to do next"):
        assert expected in text


def test_question_age_is_counted_from_the_end_of_the_week() -> None:
    old = [row | {"since": AS_OF - timedelta(days=3, hours=23)} for row in QUEUE]
    queue = documents(week_frames(queue=schemas.QUEUE.build(old)))["memory-review-queue.yaml"]["queue"]
    assert {row["ageDays"] for row in queue} == {3}


def test_a_conflict_without_similarity_or_judge_is_shown() -> None:
    (block,) = next(section for section in page(week_frames()).sections if section.word == "conflicts").blocks
    facts = [" ".join(found.facts) for found in block.pairs]  # type: ignore[union-attr]
    assert ["Similarity" in words for words in facts] == [True, False]
    assert ["Severity: high" in words for words in facts] == [True, False]
    assert ["New in this run" in words for words in facts] == [True, False]


def test_every_pair_of_bands_and_verdicts_can_be_shown() -> None:
    rows = [
        pair("e03", "e04", 0.9, band.value, verdict.value, reason.value)
        for band in Band
        for verdict in Verdict
        for reason in (ReasonCode.JUDGE_EXACT, ReasonCode.JUDGE_TIMEOUT)
    ]
    for row in rows:
        assert page(week_frames(verdicts=schemas.VERDICTS.build([row]))).sections
