"""kb review: the queue of questions, their answers, and the way back from each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kb_pipeline.commands.options import actor_option, corpus_option, json_option, print_json
from kb_pipeline.vocabulary import ApprovalCheck, Resolution, ReviewAction

if TYPE_CHECKING:
    from kb_pipeline.policy.model import Policy

F = TypeVar("F", bound=Callable[..., Any])

_policy_option = click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY)."
)
_entry_option = click.option("--entry", metavar="ID", help="Which of the two entries.")


def _answering(command: F) -> F:
    """What all answers take: the question or entry, who answers, and how it is told."""
    for option in reversed((click.argument("target"), corpus_option, _policy_option, actor_option, json_option)):
        command = option(command)
    return command


def _body_options(command: F) -> F:
    """Where a new body comes from."""
    for option in reversed(
        (
            click.option(
                "--body", "body_file", type=click.Path(path_type=Path), help="File with the new body (UTF-8)."
            ),
            click.option("--body-text", metavar="TEXT", help="The new body itself."),
            click.option("--yes", is_flag=True, help="The new body may lose numbers, names or negations."),
        )
    ):
        command = option(command)
    return command


def _shown_option(command: F) -> F:
    return click.option(
        "--text", "shown_hash", metavar="HASH", help="Only if the entry still reads as it did (content hash)."
    )(command)


@click.group()
def review() -> None:
    """Answer what the weekly runs ask: the review queue, and what a person does to single entries.

    TARGET is the id of a question (its beginning is enough) or, where it says so, of an entry.
    """


@review.command("list")
@corpus_option
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=0), help="How many; 0 is all.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="How many to pass over.")
@_policy_option
@json_option
def list_(corpus: str, limit: int, offset: int, policy_file: Path | None, as_json: bool) -> None:
    """List the open questions in the order in which to look."""
    from kb_pipeline.commands.review_output import item_lines
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.defs.review_desk import open_questions
    from kb_pipeline.defs.review_values import item_values

    policy, at = _policy(policy_file, corpus), now()
    queue = open_questions(open_database(), corpus, policy, limit=limit, offset=offset)
    admit_to = policy.gates.admit_to
    if as_json:
        listed = [item_values(item, now=at, admit_to=admit_to) for item in queue.items]
        print_json({"corpus": corpus, "open": queue.open_count, "questions": listed})
        return
    if not queue.open_count:
        click.echo(f"{corpus}: no question is open")
        return
    click.echo(f"{corpus}: {queue.open_count:,} open question{'s' if queue.open_count > 1 else ''}")
    for item in queue.items:
        click.echo()
        for line in item_lines(item, now=at, admit_to=admit_to):
            click.echo(line)
    if (left := queue.open_count - offset - len(queue.items)) > 0:
        click.echo(f"\n{left:,} more: --offset {offset + len(queue.items)}")


@review.command()
@click.argument("target")
@corpus_option
@_policy_option
@json_option
def show(target: str, corpus: str, policy_file: Path | None, as_json: bool) -> None:
    """Show one question: both texts with their difference marked, what was said, and what each answer does."""
    from kb_pipeline.commands.review_output import show_lines
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.defs.review_desk import checks_of, find_item
    from kb_pipeline.defs.review_values import full_values

    database, policy, at = open_database(), _policy(policy_file, corpus), now()
    item = find_item(database, corpus, policy, target)
    checks = checks_of(database, corpus, item)
    admit_to = policy.gates.admit_to
    if as_json:
        print_json(full_values(item, checks, now=at, admit_to=admit_to))
        return
    for line in show_lines(item, checks, now=at, admit_to=admit_to):
        click.echo(line)


@review.command()
@_answering
@click.option("--resolution", type=click.Choice([how.value for how in Resolution]), help="How a conflict is decided.")
@_body_options
@click.option("--suggested", is_flag=True, help="With the body that the judge suggested.")
def accept(resolution: str | None, suggested: bool, **given: Any) -> None:
    """Do what the question proposes. With a body: the entry that stays gets it as its text."""
    if suggested and (given["body_file"] or given["body_text"] is not None):
        raise click.UsageError("--suggested takes the judge's body; leave --body and --body-text out")
    _answer(ReviewAction.ACCEPT, given, resolution=resolution, use_suggested=suggested)


@review.command()
@_answering
@_entry_option
@_body_options
@_shown_option
def edit(**given: Any) -> None:
    """Give an entry a new text. TARGET may be an entry."""
    _answer(ReviewAction.EDIT, given)


@review.command()
@_answering
def keep(**given: Any) -> None:
    """Keep the entry, or both: a pair is settled and not asked about again until a text changes."""
    _answer(ReviewAction.KEEP, given)


@review.command()
@_answering
@_entry_option
@_shown_option
def archive(**given: Any) -> None:
    """Take an entry out of use. TARGET may be an entry."""
    _answer(ReviewAction.ARCHIVE, given)


@review.command()
@_answering
def dismiss(**given: Any) -> None:
    """Turn the question down: nothing changes, and it is not asked again until a text changes."""
    _answer(ReviewAction.DISMISS, given)


@review.command()
@_answering
@_entry_option
@click.option(
    "--tick",
    "ticks",
    multiple=True,
    type=click.Choice([*(check.value for check in ApprovalCheck), "all"]),
    help="A check that you have made; all of them: --tick all.",
)
@_shown_option
def approve(ticks: tuple[str, ...], **given: Any) -> None:
    """Vouch for an entry, after the checks of the list. TARGET may be an entry."""
    made = frozenset(ApprovalCheck) if "all" in ticks else frozenset(map(ApprovalCheck, ticks))
    _answer(ReviewAction.APPROVE, given, ticks=made)


@review.command()
@click.argument("target")
@corpus_option
@actor_option
@json_option
def undo(target: str, corpus: str, actor: str, as_json: bool) -> None:
    """Take an answer back. TARGET is the id of the answer, or of the question."""
    from kb_pipeline.defs.clock import default_actor, open_database
    from kb_pipeline.defs.review_desk import undo as take_back

    done = take_back(open_database(), corpus, target, actor=actor or default_actor())
    if as_json:
        print_json(
            {
                "corpus": corpus, "undone": done.action_id, "action": done.action, "entries": list(done.entry_ids),
                "recommendation_id": done.recommendation_id,
            }
        )  # fmt: skip
        return
    click.echo(f"taken back: {done.action} of {' and '.join(done.entry_ids)}")
    if done.recommendation_id:
        click.echo(f"question {done.recommendation_id} is open again, while its texts stay")


def _answer(
    action: ReviewAction,
    given: dict[str, Any],
    *,
    resolution: str | None = None,
    ticks: frozenset[ApprovalCheck] = frozenset(),
    use_suggested: bool = False,
) -> None:
    from kb_pipeline.defs.clock import default_actor, now, open_database
    from kb_pipeline.defs.review_desk import answer
    from kb_pipeline.stages.review import Answer
    from kb_pipeline.text.characters import printable

    corpus = given["corpus"]
    done = answer(
        open_database(),
        corpus,
        _policy(given["policy_file"], corpus),
        given["target"],
        Answer(
            action,
            entry_id=given.get("entry"),
            resolution=Resolution(resolution) if resolution else None,
            body=_body(given),
            confirmed=given.get("yes", False),
        ),
        actor=given["actor"] or default_actor(),
        now=now(),
        ticks=ticks,
        shown_hash=given.get("shown_hash"),
        use_suggested=use_suggested,
    )
    written = done.written
    if given["as_json"]:
        print_json(
            {
                "corpus": corpus, "answer": written.action_id, "action": action, "effects": list(done.words),
                "effective_at": written.effective_at, "recommendation_id": done.question.recommendation_id,
                "entries": [subject.entry_id for subject in done.question.subjects], "lost": list(done.lost),
            }
        )  # fmt: skip
        return
    for line in done.words:
        click.echo(printable(line))
    if done.lost and not any(subject.notice for subject in done.question.subjects):
        click.echo(printable(f"lost with the old text: {'; '.join(done.lost)}"))
    click.echo(f"to take it back: kb review undo {written.action_id} --corpus {corpus}")


def _body(given: dict[str, Any]) -> str | None:
    from kb_pipeline.errors import UsageError

    path, text = given.get("body_file"), given.get("body_text")
    if path is not None and text is not None:
        raise click.UsageError("give the new body as --body FILE or as --body-text, not both")
    if path is None:
        return None if text is None else str(text)
    try:
        return str(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _policy(path: Path | None, corpus: str) -> Policy:
    from kb_pipeline.policy.load import load_policy

    return load_policy(file=path, corpus=corpus)
