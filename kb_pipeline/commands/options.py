"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

corpus_option = click.option("--corpus", required=True, metavar="NAME", help="The corpus.")
actor_option = click.option("--actor", default="", metavar="WHO", help="Who acts (else KB_ACTOR, else the login name).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


def run_options(command: F) -> F:
    """Options of commands that curate."""
    for option in reversed(
        (
            click.option("--profile", default="weekly", show_default=True, help="Set of policy values."),
            click.option("--mode", type=click.Choice(["recommend", "apply"]), help="Else what the profile says."),
            click.option(
                "--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY)."
            ),
            click.option("--allow-large-change", is_flag=True, help="Let a change beyond the blast radius pass."),
            click.option(
                "--out", type=click.Path(path_type=Path), help="Where reports go (else KB_REPORTS, else ./reports)."
            ),
            actor_option,
        )
    ):
        command = option(command)
    return command


def as_of_time(text: str | None) -> datetime | None:
    """The time of an option ``--as-of``.

    Raises:
        UsageError: it is none.
    """
    from kb_pipeline.adapters.rows import parse_time
    from kb_pipeline.errors import UsageError

    if text is None:
        return None
    try:
        parsed: datetime = parse_time(text)
    except ValueError as error:
        raise UsageError(f"--as-of: {error}") from error
    return parsed


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, default=_plain))


def progress(message: str) -> None:
    """A line of progress on a terminal; quiet in a pipe."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{message}", nl=False, err=True)


def end_progress() -> None:
    """Clears the line of progress."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        from kb_pipeline.adapters.rows import format_time

        return format_time(value)
    return str(value)
