"""kb import, kb export, kb pairs, kb verdicts: entries in and out, and what was said of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kb_pipeline.commands.options import (
    actor_option,
    as_of_time,
    corpus_option,
    end_progress,
    json_option,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb_pipeline.adapters.importing import ImportResult

_CORPUS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHOWN_REJECTS = 10


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@corpus_option
@click.option("--rejects", type=click.Path(path_type=Path), help="Where rejected rows are written (JSONL).")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY).")
@actor_option
@json_option
def import_(path: Path, corpus: str, rejects: Path | None, policy_file: Path | None, actor: str, as_json: bool) -> None:
    """Load entries from JSONL, CSV or Parquet (.gz too). Importing a file again changes nothing."""
    from kb_pipeline.adapters.importing import import_rows
    from kb_pipeline.adapters.row_files import read_chunks
    from kb_pipeline.defs.clock import default_actor, now, open_database
    from kb_pipeline.errors import UsageError
    from kb_pipeline.policy.load import load_policy

    if not _CORPUS_NAME.fullmatch(corpus):
        raise UsageError(
            f"corpus name {corpus!r} cannot be used: take letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    if not path.is_file():
        raise UsageError(f"{path} is not a file; give a .jsonl, .csv or .parquet file to import")
    policy = load_policy(file=policy_file, corpus=corpus)
    result = import_rows(
        open_database(),
        corpus,
        read_chunks(path, max_body_chars=policy.load.max_body_chars),
        actor=actor or default_actor(),
        now=now(),
        progress=lambda seen: progress(f"{seen:,} rows read"),
    )
    end_progress()
    written = _write_rejects(result, rejects)
    counts = {
        "accepted": result.accepted,
        "updated": result.updated,
        "unchanged": result.unchanged,
        "rejected": len(result.rejects),
    }
    if as_json:
        print_json({"corpus": corpus, **counts, "rejects_file": str(written) if written else None})
    else:
        click.echo(f"{corpus}: " + ", ".join(f"{number:,} {word}" for word, number in counts.items()))
    for reject in result.rejects[:_SHOWN_REJECTS]:
        click.echo(f"{path}:{reject.line}: {reject.field}: {reject.reason}", err=True)
    if len(result.rejects) > _SHOWN_REJECTS:
        more = len(result.rejects) - _SHOWN_REJECTS
        click.echo(f"and {more} more" + ("" if written else "; --rejects FILE writes all of them"), err=True)
    if result.rejects:
        raise click.exceptions.Exit(3)


def _write_rejects(result: ImportResult, path: Path | None) -> Path | None:
    if path is None:
        return None
    from kb_pipeline.adapters.rows import canonical_json
    from kb_pipeline.errors import UsageError

    lines = [
        canonical_json({"line": r.line, "field": r.field, "reason": r.reason, "row": r.row}) for r in result.rejects
    ]
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"the rows were imported, but the rejects cannot be written to {path}: {error.strerror}"
        ) from error
    return path


@click.command("export")
@corpus_option
@click.option("--as-of", help="The state at this time (ISO 8601), else now.")
@click.option("--full", is_flag=True, help="With usage rows and the keys of vectors and verdicts.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write, else stdout.")
def export_(corpus: str, as_of: str | None, full: bool, out: Path | None) -> None:
    """Write entries as canonical JSONL: one entry a line, sorted by id; an import takes it back."""
    from kb_pipeline.adapters.exporting import export_lines
    from kb_pipeline.defs.clock import open_database

    _write_lines(export_lines(open_database(), corpus, as_of=as_of_time(as_of), full=full), out)


@click.command("verdicts")
@corpus_option
@click.option("--judge", metavar="FINGERPRINT", help="Whose verdicts, else those of the model that was asked last.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write, else stdout.")
def verdicts(corpus: str, judge: str | None, out: Path | None) -> None:
    """Write what a judge said of pairs of texts as JSONL, for judge.replay_file: hashes and verdicts, no texts."""
    from kb_pipeline.adapters.recorded_verdicts import verdict_lines
    from kb_pipeline.defs.clock import open_database

    _write_lines(verdict_lines(open_database(), corpus, judge), out)


def _write_lines(lines: Iterator[str], out: Path | None) -> None:
    """Writes lines to stdout, or to a file that is there as a whole or not at all."""
    import os
    import tempfile

    from kb_pipeline.errors import UsageError

    if out is None:
        stream = sys.stdout.buffer
        for line in lines:
            stream.write(line.encode() + b"\n")
        stream.flush()
        return
    try:
        handle, beside = tempfile.mkstemp(dir=out.absolute().parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                for line in lines:
                    file.write(line.encode() + b"\n")
            Path(beside).chmod(0o644)
            Path(beside).replace(out)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error


@click.command()
@corpus_option
@click.option("--week", help="The week, by its Monday; else the last one that was curated.")
def pairs(corpus: str, week: str | None) -> None:
    """Print duplicate candidates as JSONL: similarity, band, verdict, reason."""
    from kb_pipeline.adapters.exporting import require_corpus
    from kb_pipeline.adapters.report_queries import last_reported_week, read_pairs
    from kb_pipeline.adapters.rows import canonical_json
    from kb_pipeline.adapters.runs import parse_week
    from kb_pipeline.defs.clock import open_database

    database = open_database()
    require_corpus(database, corpus)
    chosen = last_reported_week(database, corpus, parse_week(week) if week else None)
    for row in read_pairs(database, corpus, chosen).iter_rows(named=True):
        click.echo(canonical_json(row))
