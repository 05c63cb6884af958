"""kb eligible, kb search: what may be retrieved, and what answers a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.options import as_of_time, corpus_option, json_option, print_json

if TYPE_CHECKING:
    from kb_pipeline.defs.retrieval import View

_SHOWN = 200

scope_option = click.option(
    "--scope", metavar="FIELD=VALUE,…", help="For where: tenant, repository, module. What is not named is not asked."
)
reader_option = click.option(
    "--reader", "readers", multiple=True, metavar="WHO", help="Who asks, a name or a group; may be repeated."
)
policy_option = click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY)."
)


@click.command()
@corpus_option
@scope_option
@reader_option
@click.option("--as-of", help="The state at this time (ISO 8601), else now.")
@policy_option
@json_option
def eligible(
    corpus: str, scope: str | None, readers: tuple[str, ...], as_of: str | None, policy_file: Path | None, as_json: bool
) -> None:
    """List what may be retrieved, and what may not, with reasons. Nothing of an excluded text is shown."""
    from kb_pipeline.defs.retrieval import safe_warning

    view = view_of(corpus, scope, readers, as_of, policy_file)
    if as_json:
        print_json(
            header(view)
            | {
                "eligible": [
                    _entry(row) | {"notes": notes}
                    for row, notes in zip(
                        view.eligible.iter_rows(named=True),
                        view.eligibility.filter(view.eligibility["eligible"])["notes"].to_list(),
                        strict=True,
                    )
                ],
                "excluded": [
                    {"id": row["entry_id"], "reasons": row["reasons"], "warning": safe_warning(row["reasons"])}
                    for row in view.excluded.iter_rows(named=True)
                ],
                "of_other_tenants": view.foreign_count,
            }
        )
        return
    found, out = view.eligible, view.excluded
    for row in found.head(_SHOWN).iter_rows(named=True):
        click.echo(f"{row['entry_id']}  {row['kind']:<12} {_line(row['title'])}")
    if found.height > _SHOWN:
        click.echo(f"and {found.height - _SHOWN:,} more; --json lists all")
    click.echo(f"\n{found.height:,} eligible, {out.height:,} excluded")
    for row in out.head(_SHOWN).iter_rows(named=True):
        click.echo(f"  {row['entry_id']}: {safe_warning(row['reasons'])}")
    if out.height > _SHOWN:
        click.echo(f"  and {out.height - _SHOWN:,} more; --json lists all")
    if view.foreign_count:
        click.echo(f"  {view.foreign_count:,} entries of other tenants are not named")


@click.command()
@click.argument("query")
@corpus_option
@scope_option
@reader_option
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="At most so many entries.")
@policy_option
@json_option
def search(
    query: str,
    corpus: str,
    scope: str | None,
    readers: tuple[str, ...],
    limit: int,
    policy_file: Path | None,
    as_json: bool,
) -> None:
    """Rank the entries that may be retrieved by how well they answer QUERY."""
    view = view_of(corpus, scope, readers, None, policy_file)
    ranked, note = view.search(query)
    shown = ranked.head(limit)
    facts = {row["entry_id"]: row for row in view.eligible.join(shown, on="entry_id", how="semi").iter_rows(named=True)}
    if as_json:
        results = [
            _entry(facts[row["entry_id"]])
            | {"rank": rank}
            | {name: row[name] for name in ("score", "similarity", "word_score", "quality_score")}
            for rank, row in enumerate(shown.iter_rows(named=True), start=1)
        ]
        print_json(header(view) | {"query": query, "note": note, "results": results})
        return
    if note:
        click.echo(note, err=True)
    if shown.is_empty():
        click.echo(f"nothing found among {view.eligible.height:,} eligible entries")
    for rank, row in enumerate(shown.iter_rows(named=True), start=1):
        close = "" if row["similarity"] is None else f"similarity {row['similarity']:.2f}, "
        click.echo(f"{rank:>3}  {row['entry_id']}  {_line(facts[row['entry_id']]['title'])}")
        kept = "" if row["quality_score"] is None else f", quality {row['quality_score']:.2f}"
        click.echo(f"     {close}words {row['word_score']:.2f}{kept}")


def view_of(
    corpus: str, scope: str | None, readers: tuple[str, ...], as_of: str | None, policy_file: Path | None
) -> View:
    """The retrieval view that the options of a command ask for."""
    from kb_pipeline.defs.clock import now, open_database
    from kb_pipeline.defs.retrieval import open_view
    from kb_pipeline.policy.load import load_policy

    when = as_of_time(as_of)
    asked = _scope(scope)
    policy = load_policy(file=policy_file, corpus=corpus)
    return open_view(open_database(), corpus, policy, now=now(), as_of=when, scope=asked, readers=readers)


def _scope(text: str | None) -> dict[str, str]:
    from kb_pipeline.errors import UsageError

    scope: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, sign, value = part.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise UsageError(f"--scope {text!r} cannot be read: write it as tenant=acme,repository=shop,module=cart")
        if name.strip() in scope:
            raise UsageError(f"--scope names {name.strip()} twice")
        scope[name.strip()] = value.strip()
    return scope


def header(view: View) -> dict[str, Any]:
    """What was asked, as the beginning of a JSON answer."""
    return {
        "corpus": view.corpus,
        "as_of": view.asked.at,
        "scope": dict(view.asked.scope),
        "readers": sorted(view.asked.readers),
    }


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    names = ("kind", "title", "tenant", "repository", "module", "confidence")
    return {"id": row["entry_id"]} | {name: row[name] for name in names}


def _line(title: str) -> str:
    words = " ".join(title.split())
    return words if len(words) <= 100 else words[:99] + "…"
