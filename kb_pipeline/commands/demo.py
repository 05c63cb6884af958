"""kb demo: from nothing to a curated corpus in one command - the bundled sample, or a file of your own."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.options import run_options

if TYPE_CHECKING:
    from kb_pipeline.adapters.database import Database

SAMPLE = "sample"
_SOME_REJECTED = 3
_MOST_WEEKS = 60


@click.command()
@click.option(
    "--file", type=click.Path(path_type=Path), help="Your own rows (.jsonl, .csv, .parquet), else the sample."
)
@click.option("--corpus", help="Name of the corpus, else the file's name, or 'sample'.")
@run_options
@click.pass_context
def demo(context: click.Context, /, file: Path | None, corpus: str | None, **asked: Any) -> None:
    """Import the bundled sample (or --file) and curate its weeks in order. Safe to repeat: done weeks are not redone."""
    from kb_pipeline.commands.curate import backfill
    from kb_pipeline.commands.entries import import_
    from kb_pipeline.defs.clock import open_database
    from kb_pipeline.sample import sample_path

    name = corpus or (_name_of(file) if file else SAMPLE)
    some_rejected = 0
    try:
        context.invoke(
            import_,
            path=file or sample_path(),
            corpus=name,
            policy_file=asked["policy_file"],
            actor=asked["actor"],
        )
    except click.exceptions.Exit as ended:
        if ended.exit_code != _SOME_REJECTED:
            raise
        # The rows that are right are there and are curated; how the import ended is told at the end.
        some_rejected = _SOME_REJECTED
    database = open_database()
    first, last = _weeks(database, name, is_sample=file is None and corpus is None)
    click.echo(f"curating the weeks from {first} to {last}", err=True)
    try:
        context.invoke(backfill, corpus=name, first=first.isoformat(), last=last.isoformat(), **asked)
    except click.exceptions.Exit as ended:
        raise click.exceptions.Exit(ended.exit_code or some_rejected) from None


def _name_of(file: Path) -> str:
    """A corpus name from a file name: its stem, with what no corpus name may hold replaced."""
    stem = file.name.split(".")[0]
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in stem).strip("-._")
    return cleaned[:100] or "own"


def _weeks(database: Database, corpus: str, *, is_sample: bool) -> tuple[date, date]:
    """The weeks to curate: those of the corpus's history that are missing, or the last one again when none is."""
    from kb_pipeline.adapters.importing import last_complete_week
    from kb_pipeline.adapters.runs import first_entry_week, last_applied_week
    from kb_pipeline.defs.clock import now
    from kb_pipeline.defs.partitions import first_week
    from kb_pipeline.sample import LAST_WEEK

    last = LAST_WEEK if is_sample else last_complete_week(now()).date()
    done = last_applied_week(database, corpus)
    first = max(first_entry_week(database, corpus), first_week()) if done is None else done + timedelta(days=7)
    last = max(last, done or last)
    if done is None and (last - first).days // 7 >= _MOST_WEEKS:
        click.echo(
            f"the history begins in the week of {first}: only the last week is curated now. All of it, in order: "
            f"kb backfill --corpus {corpus}",
            err=True,
        )
        first = last
    return min(first, last), last
