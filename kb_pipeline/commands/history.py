"""kb runs, kb rollback, kb explain: what happened, why, and the way back."""

from __future__ import annotations

from typing import Any

import click

from kb_pipeline.commands.options import actor_option, corpus_option, json_option, print_json


@click.command()
@click.option("--corpus", metavar="NAME", help="Only runs of this corpus.")
@json_option
def runs(corpus: str | None, as_json: bool) -> None:
    """List runs, newest first."""
    import json

    from kb_pipeline.adapters.exporting import require_corpus
    from kb_pipeline.adapters.runs import list_runs
    from kb_pipeline.defs.clock import open_database
    from kb_pipeline.vocabulary import JobType

    database = open_database()
    if corpus is not None:
        require_corpus(database, corpus)
    rows = list_runs(database, corpus).to_dicts()
    if as_json:
        print_json([row | {"counts": json.loads(row["counts"])} for row in rows])
        return
    if not rows:
        click.echo("no runs yet; start one with: kb curate --corpus NAME")
    for row in rows:
        changed = "" if row["updated_count"] is None else f"{row['updated_count']:>6,} changed"
        note = f"  repeats {row['rerun_of']}" if row["rerun_of"] else "  partial week" if row["partial"] else ""
        if row["job_type"] == JobType.CURATOR_PASS:
            note = f"  recent entries, {row['as_of']:%Y-%m-%d %H:%M} UTC"
        click.echo(
            f"{row['run_id']}  {row['corpus']:<16} {row['week']}  {row['profile']:<7} {row['mode']:<9} "
            f"{row['status']:<11} {changed}{note}"
        )
        if row["message"]:
            click.echo(f"    {row['message']}")


@click.command()
@click.argument("run_id")
@click.option("--entry", metavar="ID", help="Only this entry's part: a person's keep, until its text changes.")
@actor_option
@json_option
def rollback(run_id: str, entry: str | None, actor: str, as_json: bool) -> None:
    """Undo a run, or one entry's part of it. Refused when a later run built on it."""
    from kb_pipeline.adapters.rolling_back import roll_back_entry, roll_back_run
    from kb_pipeline.defs.clock import default_actor, open_database

    database = open_database()
    who = actor or default_actor()
    done = (
        roll_back_run(database, run_id, actor=who)
        if entry is None
        else roll_back_entry(database, run_id, entry, actor=who)
    )
    if as_json:
        print_json(
            {"run_id": run_id, "corpus": done.corpus, "actions": done.action_count, "entries": list(done.entry_ids)}
        )
        return
    click.echo(f"rolled back {done.action_count} actions of run {run_id}: {len(done.entry_ids)} entries returned")
    if entry is not None:
        click.echo(f"{entry} is kept: the rule will not touch this text again")


@click.command()
@click.argument("entry_id")
@corpus_option
@json_option
def explain(entry_id: str, corpus: str, as_json: bool) -> None:
    """Tell an entry's story: scores, every change with rule and reason, and whether it may be retrieved."""
    from kb_pipeline.adapters.story import load_story, story_lines
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.defs.retrieval import open_view
    from kb_pipeline.policy.load import load_policy

    database = open_database()
    story: dict[str, Any] = load_story(database, corpus, entry_id)
    view = open_view(database, corpus, load_policy(corpus=corpus), now=now(), entry_ids=[entry_id])
    story["retrieval"] = view.told(entry_id)
    if as_json:
        print_json(story)
        return
    for line in story_lines(story):
        click.echo(line)
