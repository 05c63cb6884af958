"""kb eval mutants: texts changed in one place, and how the offline rule takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.options import json_option, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_BODY_CHARS = 1_000_000


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--texts", type=click.IntRange(min=1), metavar="N", help="Take the first N texts only.")
@click.option("--seed", default=7, show_default=True, help="The same seed makes the same mutants.")
@click.option("--kind", default="rule", show_default=True, help="Kind that the entries are taken for.")
@json_option
def mutants(file: Path | None, texts: int | None, seed: int, kind: str, as_json: bool) -> None:
    """Change each text of FILE (import rows; else the sample) in one place, kind by kind, and see what the rule says.

    No change of meaning may merge; ends with 4 when one does. Changes of form should merge, numbers, units and negations
    should become conflicts.
    """
    from itertools import islice

    from kb_pipeline.errors import UnknownNameError, UsageError
    from kb_pipeline.sample import sample_path
    from kb_pipeline.stages.evaluation_mutants import measure_mutants, measure_reformattings
    from kb_pipeline.vocabulary import Kind

    if kind not in set(Kind):
        raise UnknownNameError("kind", kind, [known.value for known in Kind])
    bodies = list(islice(_texts(file or sample_path()), texts))
    if not bodies:
        raise UsageError(f"{file} holds no text: give a file of import rows with titles or bodies")
    changed = measure_mutants(bodies, kind=kind, seed=seed)
    reformatted = measure_reformattings(bodies, kind=kind, seed=seed)
    if as_json:
        print_json(
            {"file": str(file or "sample"), "texts": len(bodies), "mutants": changed, "reformatted": reformatted}
        )
    else:
        _tell(len(bodies), changed, reformatted)
    if changed["total"]["merged"]:
        raise click.exceptions.Exit(4)


def _texts(path: Path) -> Iterator[str]:
    """Entry texts of a file of import rows, in its order; rows that an import would reject are left out."""
    from kb_pipeline.adapters.row_files import read_chunks
    from kb_pipeline.text.normalise import entry_text

    for chunk in read_chunks(path, max_body_chars=_MAX_BODY_CHARS):
        for row in chunk.rows:
            text = entry_text(row.title, row.body, row.rationale, row.alternatives, row.steps)
            if text.strip():
                yield text


def _tell(count: int, changed: Mapping[str, Any], reformatted: Mapping[str, Any]) -> None:
    width = max(map(len, (*changed["kinds"], *reformatted["kinds"], "change of meaning")))
    click.echo(f"{'change of meaning'.ljust(width)}       n  merged  in conflict")
    for name, row in changed["kinds"].items():
        click.echo(f"{name.ljust(width)}  {row['n']:6,}  {row['merged']:6,}  {row['flagged']:11,}")
    total, must_flag = changed["total"], changed["must_flag"]
    form = reformatted["total"]
    click.echo(f"{count:,} texts, {total['n']:,} mutants of {len(changed['kinds'])} kinds:")
    most = "" if total["merged_high"] is None else f", at most {total['merged_high']:.4%} by the 95 % interval"
    click.echo(f"  merged though the meaning changed: {total['merged']:,}{most}")
    if must_flag["n"]:
        click.echo(
            f"  numbers, units and negations that become a conflict: {must_flag['flagged']:,} of {must_flag['n']:,}"
        )
    if form["n"]:
        click.echo(f"  reformatted copies that merge: {form['merged']:,} of {form['n']:,} ({form['merged_share']:.4f})")
