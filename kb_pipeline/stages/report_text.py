"""The week as text: one screen for the terminal, a short table for the Dagster UI.

Belongs here: the same numbers as the page, in few words. No text of an entry is ever shown here.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kb_pipeline.stages.report_blocks import number, percent
from kb_pipeline.stages.report_health import actions_required, health_counts, plural
from kb_pipeline.stages.report_page import status_words, summary
from kb_pipeline.stages.report_week import WeekData
from kb_pipeline.vocabulary import ActionType

_LABEL_CHARS = 14


def summary_lines(week: WeekData, out: Path) -> list[str]:
    """The run in one screen: what was looked at, what was done, what waits, where the reports are, what to do next.

    Args:
        week: the week.
        out: folder that the reports were written under.
    """
    header = week.header
    counts, _ = health_counts(week)
    did = dict(week.plan.group_by("action").len().iter_rows())
    partial = ", preliminary" if header.partial else ""
    lines = [f"{header.corpus}, week of {header.week.isoformat()}{partial}: {header.status}. {status_words(week)}", ""]
    missed = [f"{count:,} {reason}" for reason, count in sorted(week.not_looked_at.items()) if count]
    # A halted run did nothing: its numbers are those of the plan, and say so.
    planned = " (planned, not done)" if week.halted else ""
    conflicts = f"{counts['conflict_count']:,} open, {did.get(ActionType.OPEN_CONFLICT, 0):,} of them new"
    oldest = counts["queue_oldest_days"]
    waiting = plural(counts["queue_length"], "question")
    if oldest:
        waiting += f", the oldest for {plural(oldest, 'day')},"
    unseen = f"; not: {', '.join(missed)}" if missed else ""
    rows = {
        "looked at": plural(counts["entry_count"], "entry", "entries") + unseen,
        "in use": f"{counts['active']:,}",
        "retired": f"{did.get(ActionType.RETIRE, 0):,}{planned}",
        "merged": f"{did.get(ActionType.MERGE, 0):,}{planned}",
        "new entries": f"{did.get(ActionType.ADMIT, 0):,} let in, {did.get(ActionType.REFUSE, 0):,} refused{planned}",
        "asked": f"{plural(did.get(ActionType.RECOMMEND, 0), 'new question')}; {waiting} in the review queue",
        "conflicts": conflicts,
    }
    lines += [f"  {label:<{_LABEL_CHARS}}{words}" for label, words in rows.items()]
    failed = [check for check in week.checks if not check.passed]
    lines += [
        f"  {'check ' + ('failed' if check.blocking else 'warns'):<{_LABEL_CHARS}}{check.name}: {check.sentence}"
        for check in failed
    ]
    lines += [f"  {'note':<{_LABEL_CHARS}}{note}" for note in week.notes]
    folder = out / header.corpus / header.week.isoformat()
    lines += ["", f"Reports: {folder} (open health-report.html)"]
    tasks = actions_required(week, counts)
    lines += ["Next:", *(f"  - {task}" for task in tasks)] if tasks else ["Next: nothing to do."]
    if week.applied_plan.filter(pl.col("to_state").is_not_null()).height:
        lines.append(f"To undo this run: kb rollback {header.run_id}")
    return lines


def markdown_summary(week: WeekData) -> str:
    """The week as short Markdown: sentences, key numbers, what to do next."""
    counts, _ = health_counts(week)
    table = {
        "Entries": number(counts["entry_count"]),
        "In use": number(counts["active"]),
        "Retired": number(counts["retired"]),
        "Merged": number(counts["merged"]),
        "Let in / refused": f"{counts['admitted']:,} / {counts['refused']:,}",
        "Open conflicts": number(counts["conflict_count"]),
        "Questions waiting": number(counts["queue_length"]),
        "In use with evidence": percent(counts["evidence_coverage"]),
        "Mean distinctiveness": number(counts["mean_distinctiveness"], 2),
    }
    lines = [f"**{status_words(week)}**", "", " ".join(summary(week, counts)), "", "| | |", "|---|---:|"]
    lines += [f"| {label} | {value} |" for label, value in table.items()]
    if tasks := actions_required(week, counts):
        lines += ["", "What to do next:", "", *(f"1. {task}" for task in tasks)]
    if week.notes:
        lines += ["", *(f"> {note}" for note in week.notes)]
    return "\n".join(lines) + "\n"
