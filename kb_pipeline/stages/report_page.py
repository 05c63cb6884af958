"""The health report as one page: summary, what to do next, key numbers, trend, stages, facts of the run (M17).

Belongs here: the page as data. Does not belong here: sections of single stages (report_sections, report_pair_sections)
and markup (adapters). Run id and clock stand in the header alone.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from kb_pipeline.stages.report_blocks import (
    Block,
    Cell,
    Figure,
    Page,
    Section,
    Table,
    Task,
    Tile,
    Words,
    counted,
    day,
    moment,
    number,
    percent,
    signed,
)
from kb_pipeline.stages.report_health import actions_required, health_counts, plural
from kb_pipeline.stages.report_pair_sections import pair_sections
from kb_pipeline.stages.report_sections import SEVERITY_TONES, entry_sections, more
from kb_pipeline.stages.report_texts import EntryTexts
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.stages.report_words import ACTIONS, CHECKS, QUESTIONS, ground_words, reason_words
from kb_pipeline.vocabulary import ActionType, ReasonCode, RecommendationType, State

_SHOWN_QUESTIONS = 25


def page(week: WeekData) -> Page:
    """The page of a week. The same frames give the same page but for ``header``."""
    texts = EntryTexts(week)
    counts, _ = health_counts(week)
    header = week.header
    sections = [*entry_sections(week, texts), *pair_sections(week, texts), _apply(week), _report(week, texts)]
    return Page(
        title=header.corpus,
        subtitle=f"Week from {day(header.week)}, as of {moment(header.as_of)}"
        + (" (the week is not over: preliminary)" if header.partial else ""),
        status=header.status,
        status_words=status_words(week),
        summary=summary(week, counts),
        tasks=_tasks(week, counts),
        tiles=_tiles(week, counts),
        trend=_trend(week, counts),
        notes=week.notes,
        sections=sections,
        header=[
            ("Corpus", header.corpus),
            ("Week", header.week.isoformat()),
            ("As of", moment(header.as_of)),
            ("Run", header.run_id),
            ("Report made", moment(header.generated_at)),
            ("Profile", header.profile),
            ("Mode", header.mode),
            ("Status", header.status),
            ("Judge", header.judge),
            ("Policy", header.policy_fingerprint),
            ("Model", header.model_fingerprint or "none"),
        ],
        plots=plots(week),
    )


def status_words(week: WeekData) -> str:
    """How the run ended, in a sentence."""
    if week.halted:
        return "Halted by a check: nothing was changed. What follows is what the run would have done."
    changed = week.plan.filter(pl.col("to_state").is_not_null()).height
    failed = " The judge failed on some pairs; those entries were kept." if week.degraded else ""
    if week.recommends:
        return f"Recommendation only: no entry was changed, a person decides.{failed}"
    return f"Done: {plural(changed, 'entry', 'entries')} changed state.{failed}"


def summary(week: WeekData, counts: dict[str, Any]) -> list[str]:
    """The week in a few sentences, from the totals of ``health_counts``."""
    if not counts["entry_count"]:
        return ["The knowledge base held no entries at the end of this week."]
    sentences = [
        f"The knowledge base holds {plural(counts['entry_count'], 'entry', 'entries')}; "
        f"{counts['active']:,} of them are in use."
    ]
    sentences.append(
        "No entry changed in this run."
        if not any(counts[name] for name in ("retired", "merged", "admitted", "refused"))
        else f"In this run {plural(counts['retired'], 'entry was', 'entries were')} retired, "
        f"{plural(counts['merged'], 'duplicate')} merged into another entry, "
        f"{plural(counts['admitted'], 'new entry', 'new entries')} let in and {counts['refused']:,} refused."
    )
    open_conflicts, waiting = counts["conflict_count"], counts["queue_length"]
    sentences.append(
        f"{_number_or_no(open_conflicts, 'conflict is', 'conflicts are')} open and "
        f"{_number_or_no(waiting, 'question waits', 'questions wait').replace('No', 'no')} for a person."
    )
    return sentences


def plots(week: WeekData) -> dict[str, dict[str, Any]]:
    """Figure name -> numbers: values as float64 arrays, thresholds (or None), labels and counts.

    ``distinctiveness`` and ``confidence``: values, limit. ``similarity``: values, merge, borderline. ``states``: names,
    before, after. ``trend``: weeks (labels), active, queue_length, conflicted, retired, merged.
    """
    limit = week.thresholds.get
    active = week.entries.filter(pl.col("state") == State.ACTIVE)
    before = dict(week.entries.group_by("state").len().iter_rows())
    after = dict(week.after.group_by("state").len().iter_rows())
    names = [state.value for state in State if before.get(state) or after.get(state)]
    series = trend_rows(week, health_counts(week)[0])
    keys = ("active", "queue_length", "conflicted", "retired", "merged")
    return {
        "distinctiveness": {
            "values": week.distinctiveness["distinctiveness"].drop_nulls().to_numpy(),
            "limit": limit("min_distinctiveness"),
        },
        "confidence": {"values": active["confidence"].drop_nulls().to_numpy(), "limit": None},
        "similarity": {
            "values": week.verdicts["similarity"].drop_nulls().to_numpy(),
            "merge": limit("min_merge_similarity"),
            "borderline": limit("min_borderline_similarity"),
        },
        "states": {
            "names": [name.replace("_", " ") for name in names],
            "before": [before.get(name, 0) for name in names],
            "after": [after.get(name, 0) for name in names],
        },
        "trend": {"weeks": [row["week"] for row in series]} | {key: [row[key] for row in series] for key in keys},
    }


def trend_rows(week: WeekData, counts: dict[str, Any]) -> list[dict[str, Any]]:
    """Earlier weeks and this one, oldest first, with the columns of ``trend``."""
    earlier = week.earlier_weeks
    this = {name: week.header.week if name == "week" else counts.get(name) for name in week.trend.columns}
    return [*earlier.iter_rows(named=True), this]


def _tasks(week: WeekData, counts: dict[str, Any]) -> list[Task]:
    tasks = [Task(sentence) for sentence in actions_required(week, counts)]
    failed = {check.name for check in week.checks if check.blocking and not check.passed}
    if week.halted and failed == {"blast_radius"}:
        header = week.header
        command = f"kb curate --corpus {header.corpus} --week {header.week.isoformat()} --allow-large-change"
        tasks[0] = Task(f"{tasks[0].text} If the changes are right, let them pass:", command)
    if counts["conflict_count"] or counts["other_questions"]:
        tasks.append(
            Task(
                "Work through what waits with both texts side by side: kb serve opens pages for a browser. In a terminal:",
                f"kb review list --corpus {week.header.corpus}",
            )
        )
    return tasks


def _tiles(week: WeekData, counts: dict[str, Any]) -> list[Tile]:
    earlier = week.earlier_weeks.tail(1)
    last = earlier.row(0, named=True) if earlier.height else {}

    def tile(label: str, key: str) -> Tile:
        if last.get(key) is None:
            return Tile(label, number(counts[key]))
        change = counts[key] - last[key]
        return Tile(
            label, number(counts[key]), f"{signed(change)} since the week before" if change else "as the week before"
        )

    return [
        tile("in use", "active"),
        Tile("retired in this run", number(counts["retired"])),
        Tile("merged in this run", number(counts["merged"])),
        tile("questions waiting", "queue_length"),
        Tile("conflicts open", number(counts["conflict_count"])),
        Tile("in use with evidence", percent(counts["evidence_coverage"])),
    ]


def _trend(week: WeekData, counts: dict[str, Any]) -> list[Block]:
    rows = trend_rows(week, counts)
    if len(rows) < 2:
        return [Words("This is the first week that was curated, so there is no trend yet.")]
    heads = {
        "active": "In use",
        "queue_length": "Questions",
        "conflicted": "In conflict",
        "retired": "Retired",
        "merged": "Merged",
        "mean_distinctiveness": "Distinctiveness",
    }
    listed = [
        (
            Cell(day(row["week"])),
            *(Cell(number(row[key], 2 if key == "mean_distinctiveness" else 0), "number") for key in heads),
        )
        for row in reversed(rows[-26:])
    ]
    figures = {
        "trend_active": ("Entries in use", ("active",)),
        "trend_queue": ("Questions waiting for a person", ("queue_length",)),
        "trend_conflicted": ("Entries in an open conflict", ("conflicted",)),
        "trend_left": ("Retired and merged, week by week", ("retired", "merged")),
    }
    return [
        *(Figure(name, caption, _movement(rows, keys)) for name, (caption, keys) in figures.items()),
        Table("The numbers of these weeks", ("Week", *heads.values()), listed, folded=True),
    ]


def _movement(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> str:
    """What a trend figure shows, in words, for those who cannot see it."""
    first, last = rows[0], rows[-1]
    if len(keys) == 1:
        (key,) = keys
        start, end = (f"{row[key]:,} in the week of {day(row['week'])}" for row in (first, last))
        return f"From {start} to {end}."
    totals = " and ".join(f"{sum(row[key] or 0 for row in rows):,} {key}" for key in keys)
    return f"{totals} in {plural(len(rows), 'week')}."


def _apply(week: WeekData) -> Section:
    counts = dict(week.plan.group_by("action").len().iter_rows())
    happened = "Planned, not done" if week.halted else "Done"
    actions = [
        (Cell(ACTIONS[action].capitalize()), counted(counts[action])) for action in ActionType if action in counts
    ]
    checks = [
        (
            Cell(CHECKS.get(check.name, check.name), detail=check.name),
            Cell(
                "passed" if check.passed else "stopped the run" if check.blocking else "warns",
                "mark",
                tone="good" if check.passed else "bad" if check.blocking else "warn",
            ),
            Cell(check.sentence),
        )
        for check in sorted(week.checks, key=lambda check: (check.passed, not check.blocking))
    ]
    lead = (
        "Checks stand between the plan and its application: if one of those that must hold fails, nothing at all is "
        "changed. Every change can be undone, for one entry or for the whole run (kb rollback, with the run's id from "
        "the end of this page)."
    )
    return Section(
        "apply",
        "What was changed, and was it safe?",
        lead,
        [
            Table(happened, ("What", "How many"), actions, empty="The plan held no action."),
            Table("Checks", ("Check", "Result", "What it found"), checks, empty="No check was run."),
        ],
    )


def _report(week: WeekData, texts: EntryTexts) -> Section:
    shown = week.queue.head(_SHOWN_QUESTIONS)
    texts.load(entry for ids in shown["entry_ids"] for entry in ids)
    rows = [
        (
            Cell(QUESTIONS[RecommendationType(row["recommendation_type"])]),
            *(texts.cell(entry) for entry in (row["entry_ids"] + [None, None])[:2]),
            Cell(_why(row)),
            Cell(row["severity"], "mark", tone=SEVERITY_TONES.get(row["severity"], "")),
            counted((week.header.as_of - row["since"]).days),
        )
        for row in shown.iter_rows(named=True)
    ]
    table = Table(
        "The first questions",
        ("Question", "Entry", "Other entry", "Why", "Urgency", "Days waiting"),
        rows,
        empty="No question waits for a person.",
        more=more(week.queue.height, shown.height, "questions", "memory-review-queue.yaml"),
    )
    lead = (
        f"{_number_or_no(week.queue.height, 'question waits', 'questions wait')} for a person, in the order in which "
        "to look: conflicts first, then the pairs most likely to be the same."
    )
    return Section("report", "What waits for a person?", lead, [table])


def _why(row: dict[str, Any]) -> str:
    if row["recommendation_type"] == RecommendationType.FLAG and row["reason"] != ReasonCode.LOAD_SECRET:
        return ground_words(row["reason"], row["explanation"])
    return reason_words(row["reason"])


def _number_or_no(value: int, one: str, many: str) -> str:
    return plural(value, one, many) if value else f"No {many}"
