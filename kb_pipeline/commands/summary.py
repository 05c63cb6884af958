"""The one-screen summary of a run, made from the frames that the run left behind."""

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import load_counts, load_run, run_status
from kb_pipeline.commands.in_process import RunRequest
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
