"""kb curate and kb backfill: one week, or weeks in order."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.options import corpus_option, end_progress, json_option, print_json, progress, run_options

if TYPE_CHECKING:
    from kb_pipeline.adapters.database import Database
    from kb_pipeline.commands.in_process import RunRequest, RunResult

HALTED, DEGRADED = 4, 5


@click.command()
@corpus_option
@click.option("--week", help="The week, by its Monday; else the last complete one.")
@run_options
@json_option
def curate(corpus: str, week: str | None, as_json: bool, **asked: Any) -> None:
    """Curate one week of a corpus and print what was found, changed and asked.

    With --profile curator: look at the recent entries alone, now, and ask people about them. Nothing is applied.
    """
    from kb_pipeline.adapters.runs import default_week, parse_week
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.vocabulary import Profile

    request = _request(asked, corpus)
    database = open_database()
    if request.profile == Profile.CURATOR:
        _look_at_recent_entries(database, corpus, week, request, as_json=as_json)
        return
    chosen = parse_week(week) if week else default_week(database, corpus, now())
    _require_week(database, corpus, chosen)
    from kb_pipeline.commands.in_process import runner

    progress(f"{corpus}, week {chosen}: curating")
    with runner(database) as weeks:
        result = weeks.run_week(corpus, chosen, request)
    end_progress()
    if as_json:
        print_json(
            {"run_id": result.run_id, "corpus": corpus, "week": chosen, "status": result.status, **result.counts}
        )
    else:
        for line in _summary(database, result, request):
            click.echo(line)
    raise click.exceptions.Exit(_exit_code(result))


@click.command()
@corpus_option
@click.option("--from", "first", help="First week, by its Monday; else the first that is not done.")
@click.option("--to", "last", help="Last week; else the last complete one.")
@run_options
def backfill(corpus: str, first: str | None, last: str | None, **asked: Any) -> None:
    """Curate weeks of a corpus in order, each seeing what took effect before its end and nothing later."""
    from kb_pipeline.adapters.importing import last_complete_week
    from kb_pipeline.adapters.runs import first_undone_week, parse_week
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.errors import UsageError, WeekError
    from kb_pipeline.vocabulary import Profile

    if asked["profile"] == Profile.CURATOR:
        raise UsageError(f"--profile {Profile.CURATOR} looks at recent entries and at no week: use kb curate")
    request = _request(asked, corpus)
    database = open_database()
    end = parse_week(last) if last else last_complete_week(now()).date()
    # When all is done, the last week is computed again, so that its summary is shown and its files are there.
    start = parse_week(first) if first else min(first_undone_week(database, corpus), end)
    if start > end:
        raise WeekError(f"--from {start} lies after --to {end}")
    _require_week(database, corpus, end)
    from kb_pipeline.commands.in_process import runner

    count = (end - start).days // 7 + 1
    worst, result = 0, None
    with runner(database) as weeks:
        for number in range(count):
            week = start + timedelta(days=7 * number)
            progress(f"{corpus}, week {week} ({number + 1} of {count})")
            result = weeks.run_week(corpus, week, request)
            end_progress()
            click.echo(_line(week.isoformat(), result))
            worst = max(worst, _exit_code(result))
            if _exit_code(result) == HALTED:
                break
    if result is not None:
        click.echo()
        for line in _summary(database, result, request):
            click.echo(line)
    raise click.exceptions.Exit(worst if result is None or _exit_code(result) != HALTED else HALTED)


def _look_at_recent_entries(
    database: Database, corpus: str, week: str | None, request: RunRequest, *, as_json: bool
) -> None:
    """A pass of the curator."""
    from kb_pipeline.adapters.exporting import require_corpus
    from kb_pipeline.errors import UsageError

    if week is not None:
        raise UsageError(f"--profile {request.profile} looks at recent entries as of now: leave --week away")
    if request.mode == "apply":
        raise UsageError(f"--profile {request.profile} only recommends: leave --mode away, or use another profile")
    require_corpus(database, corpus)
    from kb_pipeline.commands.in_process import runner
    from kb_pipeline.commands.summary import pass_lines

    progress(f"{corpus}: looking at recent entries")
    with runner(database) as runs:
        result = runs.run_pass(corpus, request)
    end_progress()
    if as_json:
        print_json({"run_id": result.run_id, "corpus": corpus, "status": result.status, **result.counts})
    else:
        for line in pass_lines(database, result):
            click.echo(line)
    raise click.exceptions.Exit(_exit_code(result))


def _request(asked: dict[str, Any], corpus: str) -> RunRequest:
    """The request, after policy and golden queries were read once: a typo is an error before anything starts."""
    from kb_pipeline.defs.golden_measure import golden_path
    from kb_pipeline.defs.retrieval import golden_queries
    from kb_pipeline.policy.load import load_policy

    policy = load_policy(asked["profile"], file=asked["policy_file"], corpus=corpus)
    if (path := golden_path(policy, asked["policy_file"])) is not None:
        golden_queries(path)
    from kb_pipeline.commands.in_process import RunRequest

    out: Path | None = asked["out"]
    return RunRequest(
        profile=asked["profile"],
        mode=asked["mode"] or "",
        policy_file=str(asked["policy_file"] or ""),
        allow_large_change=asked["allow_large_change"],
        out=str(out) if out else "",
        actor=asked["actor"],
    )


def _require_week(database: Database, corpus: str, week: Any) -> None:
    from kb_pipeline.adapters.exporting import require_corpus
    from kb_pipeline.adapters.runs import refuse_future
    from kb_pipeline.defs.clock import now
    from kb_pipeline.defs.partitions import first_week
    from kb_pipeline.errors import WeekError

    require_corpus(database, corpus)
    refuse_future(week, now())
    if week < first_week():
        raise WeekError(
            f"week {week} lies before {first_week()}, the first that can be curated; KB_FIRST_WEEK moves it"
        )


def _exit_code(result: RunResult) -> int:
    from kb_pipeline.vocabulary import RunStatus

    return {RunStatus.HALTED: HALTED, RunStatus.DEGRADED: DEGRADED}.get(result.status, 0)


def _line(week: str, result: RunResult) -> str:
    actions = result.counts.get("actions", {})
    parts = [f"{actions.get(name, 0):>4} {word}" for name, word in _WORDS.items()]
    return f"{week}  {result.status:<8} {result.counts.get('entries', 0):>7,} entries {' '.join(parts)}"


_WORDS = {
    "admit": "admitted",
    "refuse": "refused",
    "retire": "retired",
    "merge": "merged",
    "open_conflict": "conflicts",
    "recommend": "questions",
}


def _summary(database: Database, result: RunResult, request: RunRequest) -> list[str]:
    from kb_pipeline.commands.summary import summary_of

    return summary_of(database, result.run_id, request)
