"""kb eval queries: how well the retrieval view answers queries whose answers are known (X7)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.options import corpus_option, json_option, print_json
from kb_pipeline.commands.retrieval import header, policy_option, reader_option, scope_option, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb_pipeline.defs.retrieval import View
    from kb_pipeline.stages.golden_queries import GoldenQuery, ProbeResult

_MAX_QUERY_CHARS = 70


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@corpus_option
@scope_option
@reader_option
@click.option("--as-of", help="The state at this time (ISO 8601), else now.")
@click.option(
    "--within", type=click.IntRange(1), help="A hit is an answer among the first so many (else the policy's)."
)
@policy_option
@json_option
def queries(
    file: Path,
    corpus: str,
    scope: str | None,
    readers: tuple[str, ...],
    as_of: str | None,
    within: int | None,
    policy_file: Path | None,
    as_json: bool,
) -> None:
    """Ask golden queries of the retrieval view (JSONL: query, expected_ids); print hit rate, reciprocal rank and ranks.

    Any of the expected ids answers a query; one that was merged is found in the entry it went into.
    """
    from kb_pipeline.defs.retrieval import golden_queries

    golden = golden_queries(file)
    view = view_of(corpus, scope, readers, as_of, policy_file)
    found = view.probe(golden, within=within)
    expected = view.expected(golden)
    _, note = view.search(golden[0].query)
    if as_json:
        results = [
            {
                "query": asked.query,
                "rank": rank,
                "expected": [{"id": entry, **expected[entry]} for entry in asked.expected_ids],
            }
            for asked, rank in zip(golden, found.first_ranks, strict=True)
        ]
        numbers = {"queries": found.query_count, "within": found.within, "hit_rate": found.hit_rate, "mrr": found.mrr}
        print_json(header(view) | {"file": str(file), **numbers, "note": note, "results": results})
        return
    if note:
        click.echo(note, err=True)
    for line in _lines(view, golden, found, expected):
        click.echo(line)


def _lines(
    view: View, golden: Sequence[GoldenQuery], found: ProbeResult, expected: dict[str, dict[str, Any]]
) -> list[str]:
    lines = [f"{rank or '-':>4}  {_short(asked.query)}" for asked, rank in zip(golden, found.first_ranks, strict=True)]
    lines.append("")
    lines.append(
        f"{found.query_count:,} queries among {view.eligible.height:,} eligible entries: hit rate within {found.within} "
        f"{found.hit_rate:.3f}, mean reciprocal rank {found.mrr:.3f}"
    )
    out = {entry: told for entry, told in expected.items() if told["status"] != "eligible"}
    if out:
        lines.append("expected and not to be found under their own id:")
        lines += [f"  {entry}: {told['why']}" for entry, told in out.items()]
    return lines


def _short(query: str) -> str:
    words = " ".join(query.split())
    return words if len(words) <= _MAX_QUERY_CHARS else words[: _MAX_QUERY_CHARS - 1] + "…"
