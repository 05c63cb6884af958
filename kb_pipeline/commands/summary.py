"""The one-screen summary of a run, made from the frames that the run left behind."""

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import load_counts, load_run, run_status
from kb_pipeline.commands.in_process import RunRequest, RunResult
from kb_pipeline.defs.clock import now
from kb_pipeline.defs.frames import frame_path
from kb_pipeline.defs.publish import WeekInputs, week_frames
from kb_pipeline.defs.resources import Curation
from kb_pipeline.stages.checks import CheckResult
from kb_pipeline.stages.report_text import summary_lines

_FRAMES = (
    "knowledge_entries", "distinctiveness_scores", "gate_results", "quality_scores", "retirement_decisions",
    "judge_verdicts", "merge_plan", "conflict_records", "curation_plan", "quality_flags",
)  # fmt: skip


def summary_of(database: Database, run_id: str, request: RunRequest) -> list[str]:
    """Lines for the terminal: what was looked at, changed and asked, where the reports are, and what to do next."""
    run = load_run(database, run_id)
    counts = load_counts(database, run_id)
    curation = Curation(**request.config())
    frames = WeekInputs(*(pl.read_parquet(frame_path(name, run.corpus, run.week)) for name in _FRAMES))
    week = week_frames(
        database,
        run,
        curation.policy(run.corpus),
        counts,
        frames,
        run_status(database, run_id),
        [CheckResult(**found) for found in counts["checks"]],
        generated_at=now(),
    )
    lines = summary_lines(week, curation.out_folder)
    if run.rerun_of is not None:
        lines = [line.replace(run.run_id, run.rerun_of) for line in lines]
        lines.insert(
            1, f"This week was curated before (run {run.rerun_of}): the same was found, and nothing was changed."
        )
    return lines


def pass_lines(database: Database, result: RunResult) -> list[str]:
    """Lines for the terminal about a pass over recent entries: what was looked at and asked, and what to do next."""
    run, counts = load_run(database, result.run_id), result.counts
    lines = [
        f"{run.corpus}: {counts['window']:,} recent entries of {counts['entries']:,} looked at, as of {run.as_of:%Y-%m-%d %H:%M} "
        f"UTC - {result.status}"
    ]
    asked = counts.get("asked", {})
    new = ", ".join(f"{number:,} {word}" for word, number in asked.items())
    lines.append(f"  asked       {new or 'nothing new'}")
    lines.append(
        f"  pairs       {counts['pairs']:,} around them; judged by {counts['judge']}, {counts['pairs_sent']:,} sent"
    )
    if (readings := counts.get("window_readings")) is not None:
        lines.append(f"  model read  {counts['window_texts']:,} texts in {readings:,} calls")
    if failures := counts["judge_failures"] + counts.get("window_failures", 0):
        lines.append(f"  failed      {failures:,} answers; they are asked again by a later pass")
    left = {
        "recent entries over curator.max_entries": counts["recent_left"],
        "texts over curator.max_calls, read by the next pass": counts.get("texts_waiting", 0),
    }
    lines += [f"  left        {number:,} {what}" for what, number in left.items() if number]
    if result.message:
        lines.append(f"  {result.message}")
    lines.append(
        f"  run {result.run_id} - kb review list --corpus {run.corpus}"
        + (f", kb rollback {result.run_id}" if asked else "")
    )
    return lines
