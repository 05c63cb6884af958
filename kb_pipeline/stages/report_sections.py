"""Sections of the page about single entries: load, distinctiveness, gates, score, revalidate, retire, flags.

Belongs here: what each says. Sections about pairs, the run and the queue stand in report_pair_sections.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from kb_pipeline.stages.report_blocks import (
    NOT_KNOWN,
    Block,
    Cell,
    Figure,
    Section,
    Table,
    Words,
    counted,
    number,
    percent,
    signed,
)
from kb_pipeline.stages.report_health import health_counts, plural
from kb_pipeline.stages.report_rows import pruning_rows
from kb_pipeline.stages.report_texts import EntryTexts
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.stages.report_words import (
    PROTECTIONS,
    REVALIDATION_REASON,
    STATES,
    ground_words,
    measured_gate,
    measured_retirement,
    reason_words,
)
from kb_pipeline.vocabulary import ActionType, ReasonCode, RecommendationType, State

MAX_FLAGGED = 20
"""Flagged entries that the page shows: about as many as a run asks about."""

MAX_ROWS = 50
"""Rows a table of the page shows; the files hold all."""

SEVERITY_TONES = {"high": "bad", "medium": "warn"}
STATE_TONES = {State.ACTIVE: "good", State.NEEDS_REVIEW: "warn", State.CANDIDATE: "warn", State.BLOCKED: "bad"}


def entry_sections(week: WeekData, texts: EntryTexts) -> list[Section]:
    """The sections about entries, in the order of the stages."""
    return [
        _load(week),
        _distinctiveness(week, texts),
        _gates(week, texts),
        _score(week),
        Section(
            "revalidate",
            "Do sources still say so?",
            "Evidence of an entry can move, change or disappear. This part would say which entries lost their ground.",
            [Words(f"Not computed. {REVALIDATION_REASON}")],
        ),
        _retire(week, texts),
        _flags(week, texts),
    ]


def more(total: int, shown: int, what: str, file: str) -> str:
    """What a table leaves out, in words; empty when it shows all."""
    return f"Shown: {shown:,} of {total:,} {what}. More in {file}." if total > shown else ""


def _load(week: WeekData) -> Section:
    before = dict(week.entries.group_by("state").len().iter_rows())
    after = dict(week.after.group_by("state").len().iter_rows())
    total = max(week.entries.height, 1)
    rows = []
    for state in State:
        old, new = before.get(state, 0), after.get(state, 0)
        if old or new or state is State.ACTIVE:
            name = Cell(state.value.replace("_", " "), "mark", detail=STATES[state], tone=STATE_TONES.get(state, ""))
            change = Cell(signed(new - old) if old != new else NOT_KNOWN, "number")
            rows.append((name, counted(old), counted(new, new / total), change))
    blocks: list[Block] = [
        Table("Entries by state", ("State", "Before the run", "After the run", "Change"), rows),
    ]
    _, repositories = health_counts(week)
    places = [row for row in repositories if row["entry_count"]]
    if len(places) > 1:
        shown = sorted(places, key=lambda row: (-row["entry_count"], row["repository"] or ""))[:MAX_ROWS]
        blocks.append(
            Table(
                "Entries by repository",
                ("Repository", "Entries", "Active", "Questions", "Conflicts", "With evidence", "Retired", "Merged"),
                [_repository(row) for row in shown],
                more=more(len(places), len(shown), "repositories", "memory-health-report.yaml"),
            )
        )
    missed = [(Cell(reason), counted(count)) for reason, count in sorted(week.not_looked_at.items()) if count]
    blocks.append(Table("Not looked at", ("Why", "How many"), missed, empty="Nothing was left out."))
    lead = (
        f"The run read {plural(week.entries.height, 'entry', 'entries')}, as they stood at the end of the week. "
        "Nothing is ever deleted: an archived entry is out of use and can be brought back."
    )
    return Section("load", "What was looked at", lead, blocks)


def _repository(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        Cell(row["repository"] or "(no repository)"),
        counted(row["entry_count"]),
        counted(row["active"]),
        counted(row["queue_length"]),
        counted(row["conflict_count"]),
        Cell(percent(row["evidence_coverage"]), "number"),
        counted(row["retired"]),
        counted(row["merged"]),
    )


def _distinctiveness(week: WeekData, texts: EntryTexts) -> Section:
    lead = (
        "The share of an entry's words that are not among the words most entries use: high means that it says "
        "something of its own, low that it could be about anything."
    )
    scored = week.distinctiveness.drop_nulls("distinctiveness")
    blocks: list[Block] = []
    if scored.height:
        middle = _median(scored["distinctiveness"])
        limit = week.thresholds.get("min_distinctiveness")
        summary = f"Half of {plural(scored.height, 'entry', 'entries')} lie above {middle:.2f}."
        if limit is not None:
            low = scored.filter(pl.col("distinctiveness") < limit).height
            summary += (
                f" {plural(low, 'entry lies', 'entries lie')} below {limit:.2f}, where a new entry would be refused."
            )
        blocks.append(Figure("distinctiveness", "Distinctiveness of the entries", summary))
        least = (
            scored.join(week.after.filter(pl.col("state") == State.ACTIVE).select("entry_id"), on="entry_id")
            .sort("distinctiveness", "entry_id")
            .head(5)
        )
        texts.load(least["entry_id"])
        blocks.append(
            Table(
                "Least distinctive entries in use",
                ("Entry", "Distinctiveness", "Different words"),
                [
                    (texts.cell(entry), Cell(number(value, 2), "number", share=value), counted(words))
                    for entry, words, value in least.select("entry_id", "token_count", "distinctiveness").iter_rows()
                ],
                empty="No active entry has a score.",
            )
        )
    else:
        blocks.append(Words("No entry has a score this week."))
    silent = week.distinctiveness.filter(
        pl.col("distinctiveness_reason") == ReasonCode.DISTINCTIVENESS_NO_TOKENS.value
    ).height
    if silent:
        words = plural(silent, "entry holds no words", "entries hold no words")
        blocks.append(Words(f"{words} and could not be measured."))
    return Section("distinctiveness", "Does each entry say something of its own?", lead, blocks)


def _median(values: pl.Series) -> float:
    return float(np.median(values.to_numpy()))


def _gates(week: WeekData, texts: EntryTexts) -> Section:
    decided = (
        week.gates.filter(pl.col("gate_decision").is_not_null())
        .join(week.distinctiveness.select("entry_id", "distinctiveness"), on="entry_id", how="left")
        .sort("gate_decision", "entry_id")
    )
    would = "" if week.changes_entries else "would be "
    words = {
        "admit": (f"{would}let in", "good"),
        "refuse": (f"{would}refused", "bad"),
        "strengthen": (f"{would}taken into another", ""),
        "review": ("a person decides", "warn"),
    }
    stopped = decided.filter(pl.col("gate_decision") != "admit")
    let_in = decided.filter(pl.col("gate_decision") == "admit")
    blocks: list[Block] = []
    for frame, caption, empty in (
        (stopped, "New entries that were stopped", "No new entry was stopped."),
        (let_in, "New entries that pass", "No new entry passed."),
    ):
        shown = frame.head(MAX_ROWS)
        texts.load(shown["entry_id"])
        rows = []
        for row in shown.iter_rows(named=True):
            why = " ".join(measured_gate(reason, row, week.thresholds) for reason in row["gate_reasons"])
            verdict, tone = words[row["gate_decision"]]
            rows.append(
                (texts.cell(row["entry_id"]), Cell(verdict, "mark", tone=tone), Cell(why or "Passes every gate."))
            )
        left = f"Shown: {shown.height:,} of {frame.height:,}." if frame.height > shown.height else ""
        blocks.append(Table(caption, ("Entry", "Decision", "Why"), rows, empty, left))
    in_use = week.gates.filter(pl.col("gate_decision").is_null()).explode("gate_reasons").drop_nulls("gate_reasons")
    counts = in_use.group_by("gate_reasons").len().sort("len", "gate_reasons", descending=[True, False])
    blocks.append(
        Table(
            "Entries in use that would not pass today (measured, not acted on)",
            ("Why", "Entries"),
            [(Cell(reason_words(reason)), counted(count)) for reason, count in counts.iter_rows()],
            empty="Every entry in use would pass.",
        )
    )
    lead = (
        f"{plural(decided.height, 'new entry', 'new entries')} waited at the gates. An entry is let in when its title "
        "says something, its words are its own, and no active entry says the same already."
    )
    return Section("gates", "Which new entries were let in?", lead, blocks)


def _score(week: WeekData) -> Section:
    active = week.entries.filter(pl.col("state") == State.ACTIVE).join(week.quality, on="entry_id", how="left")
    known = active.drop_nulls("confidence")
    blocks: list[Block] = []
    if known.height:
        summary = f"Half of {plural(known.height, 'active entry', 'active entries')} lie above "
        summary += f"{_median(known['confidence']):.2f}."
        if bare := active.height - known.height:
            summary += f" {plural(bare, 'active entry has', 'active entries have')} no confidence."
        blocks.append(Figure("confidence", "Confidence of the active entries", summary))
    else:
        blocks.append(Words("No active entry has a confidence."))
    tried = active.filter(pl.col("attempts") > 0)
    enough = week.thresholds.get("min_attempts")
    rows = [
        (Cell("were used with a known outcome"), counted(tried.height)),
        (Cell("were retrieved, included or cited at least once"), counted(active.drop_nulls("last_matched_at").height)),
        (Cell("are much used (top tenth)"), counted(int(week.after["high_value"].sum()))),
        (Cell("have lost half of their freshness or more"), counted(active.filter(pl.col("freshness") <= 0.5).height)),
    ]
    if enough is not None:
        judged = active.filter(pl.col("attempts") >= enough).height
        rows.insert(
            1, (Cell(f"were used at least {enough:,.0f} times, enough to be judged by success"), counted(judged))
        )
    blocks.append(Table(f"Of {plural(active.height, 'active entry', 'active entries')}", ("How many", "Entries"), rows))
    lead = (
        "Confidence is what its author or source gives an entry. Performance is counted from use: how often it helped. "
        "Freshness falls by half with every half-life of its kind."
    )
    return Section("score", "How sure, how useful, how fresh?", lead, blocks)


def _retire(week: WeekData, texts: EntryTexts) -> Section:
    rows = pruning_rows(week)
    measured = (
        rows.join(week.retirement.select("entry_id", "retire_reasons", "protected_because"), on="entry_id")
        .join(week.entries.select("entry_id", "attempts", "successes"), on="entry_id")
        .join(week.quality, on="entry_id")
        .sort("entry_id")
    )
    leaving = measured.filter(~pl.col("protected"))
    kept = measured.filter(pl.col("protected"))
    words = {
        "archive": ("archived", ""),
        "halted": ("not done: halted", "warn"),
        "recommend": ("a person decides", "warn"),
    }
    blocks: list[Block] = []
    shown = leaving.head(MAX_ROWS)
    texts.load(shown["entry_id"])
    blocks.append(
        Table(
            "Retired" if week.changes_entries else "To be retired",
            ("Entry", "What happens", "Why", "Confidence"),
            [
                (
                    texts.cell(row["entry_id"]),
                    Cell(words[row["action"]][0], "mark", tone=words[row["action"]][1]),
                    Cell(_why(row, week)),
                    Cell(number(row["confidence"], 2), "number"),
                )
                for row in shown.iter_rows(named=True)
            ],
            empty="No entry was retired.",
            more=more(leaving.height, shown.height, "retirements", "memory-pruning-plan.yaml"),
        )
    )
    shown = kept.head(MAX_ROWS)
    texts.load(shown["entry_id"])
    blocks.append(
        Table(
            "Kept although a rule speaks against them",
            ("Entry", "Kept because", "What the rule found"),
            [
                (
                    texts.cell(row["entry_id"]),
                    Cell("; ".join(PROTECTIONS.get(word, word) for word in row["protected_because"])),
                    Cell(_why(row, week)),
                )
                for row in shown.iter_rows(named=True)
            ],
            empty="No protection was needed.",
            more=more(kept.height, shown.height, "protected entries", "memory-pruning-plan.yaml"),
        )
    )
    retired = week.applied_plan.filter(pl.col("action") == ActionType.RETIRE).height
    lead = (
        f"{plural(retired, 'entry was', 'entries were')} retired. An entry is retired when it was tried often and "
        "hardly ever helped, or when nobody needed it for long, unless something protects it."
    )
    return Section("retire", "What has had its time?", lead, blocks)


def _flags(week: WeekData, texts: EntryTexts) -> Section:
    flagged = week.flags.filter(pl.col("flag_reasons").list.len() > 0).sort(-pl.col("flag_value"), "entry_id")
    new = week.plan.filter(pl.col("recommendation_type") == RecommendationType.FLAG)["entry_id"]
    counts = (
        flagged.select(pl.col("flag_reasons"), pl.col("entry_id").is_in(new.implode()).alias("new"))
        .explode("flag_reasons")
        .group_by("flag_reasons")
        .agg(pl.len(), pl.col("new").sum())
        .sort("len", "flag_reasons", descending=[True, False])
    )
    shown = flagged.head(MAX_FLAGGED)
    texts.load(shown["entry_id"])
    blocks: list[Block] = [
        Table(
            "What was found",
            ("What", "Entries", "Asked about in this run"),
            [
                (Cell(reason_words(reason)), counted(count), counted(asked))
                for reason, count, asked in counts.iter_rows()
            ],
            empty="No entry was flagged.",
        )
    ]
    if shown.height:
        rows = [
            (
                texts.cell(row["entry_id"]),
                Cell(ground_words(row["flag_reasons"][0], "; ".join([*row["flag_reasons"], *row["gone_references"]]))),
                Cell(row["flag_severity"], "mark", tone=SEVERITY_TONES.get(row["flag_severity"], "")),
            )
            for row in shown.iter_rows(named=True)
        ]
        left = f"Shown: {shown.height:,} of {flagged.height:,}." if flagged.height > shown.height else ""
        blocks.append(Table("The first of them", ("Entry", "Why", "Urgency"), rows, more=left))
    lead = (
        f"{plural(flagged.height, 'entry is', 'entries are')} flagged. A flag changes nothing; a person is asked, about a "
        "few entries a run, the most urgent and most used first. An entry that was asked about is not asked about again "
        "until its text changes."
    )
    return Section("flags", "What could be better?", lead, blocks)


def _why(row: dict[str, Any], week: WeekData) -> str:
    return " ".join(measured_retirement(reason, row, week.thresholds) for reason in row["retire_reasons"])
