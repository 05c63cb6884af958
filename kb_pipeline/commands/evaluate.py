"""kb eval: how well guards, judge and encoder decide labelled pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.commands.evaluate_mutants import mutants
from kb_pipeline.commands.evaluate_queries import queries
from kb_pipeline.commands.options import end_progress, json_option, print_json, progress

if TYPE_CHECKING:
    import polars as pl

    from kb_pipeline.adapters.labelled_pairs import LabelledPairs
    from kb_pipeline.defs.judged_pairs import PairVectors
    from kb_pipeline.policy.model import Policy
    from kb_pipeline.vocabulary import PairLabel

_JUDGES = {"auto": "auto", "rule": "rule", "rules": "rule", "anthropic": "anthropic", "replay": "replay"}
_ROW_COLUMNS = (
    "a", "b", "stratum", "label", "similarity", "band", "verdict", "judge", "action", "reason", "specifics_only_l",
    "specifics_only_r",
)  # fmt: skip

policy_option = click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="Your policy file (else KB_POLICY)."
)


@click.group("eval")
def evaluate() -> None:
    """Measure a run's decisions on labelled pairs, or the answers to golden queries; calibrate a model."""


evaluate.add_command(queries)


@evaluate.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--judge", metavar="NAME", help="auto, rule, anthropic or replay (else what the policy says).")
@click.option("--map", "mapping", metavar="1=MERGE,0=KEEP_BOTH", help="What the labels of the file mean.")
@click.option("--kind", default="fact", show_default=True, help="Kind of pairs that name none.")
@click.option(
    "--every-pair", is_flag=True, help="Take every pair for a candidate, whatever its similarity; no encoder."
)
@click.option(
    "--rows", type=click.Path(path_type=Path), metavar="OUT", help="Write each pair with its outcome (JSONL)."
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="OUT", help="Draw the outcome (.png, .svg or .pdf).")
@click.option("--profile", default="weekly", show_default=True, help="Set of policy values.")
@policy_option
@json_option
def pairs(
    file: Path,
    judge: str | None,
    mapping: str | None,
    kind: str,
    every_pair: bool,
    rows: Path | None,
    plot: Path | None,
    profile: str,
    policy_file: Path | None,
    as_json: bool,
) -> None:
    """Run search, guards and judge on labelled pairs (JSONL: a, b, label, stratum), each pair as a corpus of its own.

    FILE may be the word gold: the gold set that comes with kb_pipeline. Shares have 95 % Wilson intervals.
    """
    from kb_pipeline.adapters.pair_plots import check_plot_path, write_pair_plot
    from kb_pipeline.defs.judged_pairs import decide_pairs, judge_named
    from kb_pipeline.policy.load import load_policy
    from kb_pipeline.stages.evaluation import tally

    if plot is not None:
        check_plot_path(plot)
    policy = load_policy(profile, file=policy_file)
    chosen = judge_named(_judge_name(judge), policy)
    labelled = _labelled(file, policy, _meanings(mapping), kind)
    found = None if every_pair else _vectors(labelled, policy)
    decided, failed = decide_pairs(labelled, policy, chosen, found)
    strata = tally(decided)
    if rows is not None:
        _write_rows(rows, decided)
    if plot is not None:
        write_pair_plot(plot, strata)
    thresholds = None if found is None else found.thresholds
    if as_json:
        *names, total = strata
        print_json(
            {
                "file": str(file),
                "judge": chosen.name,
                "judge_fingerprint": chosen.fingerprint,
                "judge_failures": failed,
                "policy_fingerprint": policy.fingerprint,
                "model": None if every_pair else policy.encoder.model,
                "thresholds": thresholds
                and {"merge": thresholds.min_merge_similarity, "borderline": thresholds.min_borderline_similarity},
                "strata": {name: strata[name] for name in names},
                "total": strata[total],
            }
        )
    else:
        click.echo(_table(strata))
        borderline = None if thresholds is None else thresholds.min_borderline_similarity
        click.echo(_sentences(strata, chosen.name, borderline))
    if failed:
        click.echo(f"kb: the judge failed on {failed} pairs: both entries are kept", err=True)
        raise click.exceptions.Exit(5)


@evaluate.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--model", required=True, metavar="DIR", help="A sentence-transformers model without a record.")
@click.option("--model-id", metavar="NAME", help="Its name in reports (else the name of the directory).")
@click.option("--map", "mapping", metavar="1=MERGE,0=KEEP_BOTH", help="What the labels of the file mean.")
@click.option("--kind", default="fact", show_default=True, help="Kind of pairs that name none.")
@click.option("--replace", is_flag=True, help="Replace a record that is there already.")
@policy_option
@json_option
def calibrate(
    file: Path,
    model: str,
    model_id: str | None,
    mapping: str | None,
    kind: str,
    replace: bool,
    policy_file: Path | None,
    as_json: bool,
) -> None:
    """Find the similarities at which a model is as rarely wrong as all-MiniLM-L6-v2 at its own, and record them.

    Wrong is a pair of FILE that is no duplicate and yet as similar as that. The record is written beside the model; FILE
    may be the word gold. Runs refuse a model without such a record.
    """
    from kb_pipeline.adapters.encoder import load_encoder, load_for_calibration
    from kb_pipeline.adapters.encoder_models import CALIBRATION_FILE, MINILM, find_uncalibrated, write_calibration
    from kb_pipeline.defs.calibration import calibrate_model
    from kb_pipeline.errors import UsageError
    from kb_pipeline.policy.load import load_policy

    policy = load_policy(file=policy_file)
    files = find_uncalibrated(model, model_id or Path(model).name or "model")
    if (files.path / CALIBRATION_FILE).exists() and not replace:
        raise UsageError(f"{files.path / CALIBRATION_FILE} is there already; --replace measures anew and replaces it")
    labelled = _labelled(file, policy, _meanings(mapping), kind)
    size = policy.encoder.batch_size
    reference, candidate = load_encoder(MINILM, batch_size=size), load_for_calibration(files, batch_size=size)
    found = calibrate_model(file, labelled, policy, reference, candidate, _tell_encoding)
    end_progress()
    written = write_calibration(files, merge=found.merge, borderline=found.borderline)
    if as_json:
        print_json({"model": str(files.path), "record": str(written), **found.document()})
        return
    click.echo(f"{candidate.name}: merge {found.merge:g}, borderline {found.borderline:g}, written to {written}")
    click.echo(f"measured on {found.distinct_count} pairs that are no duplicates and {found.duplicate_count} that are:")
    for line in found.lines(reference.name, candidate.name):
        click.echo(f"  {line}")


def _judge_name(name: str | None) -> str | None:
    from kb_pipeline.errors import UnknownNameError

    if name is None:
        return None
    if name not in _JUDGES:
        raise UnknownNameError("judge", name, _JUDGES)
    return _JUDGES[name]


def _meanings(mapping: str | None) -> dict[str, PairLabel]:
    """``1=MERGE,0=KEEP_BOTH`` as a dictionary."""
    from kb_pipeline.errors import UnknownNameError, UsageError
    from kb_pipeline.vocabulary import PairLabel

    meanings: dict[str, PairLabel] = {}
    for part in filter(None, (part.strip() for part in (mapping or "").split(","))):
        label, sign, meaning = (word.strip() for word in part.rpartition("="))
        if not sign or not label:
            raise UsageError(f"--map: {part!r} is not of the form LABEL=MEANING, as in 1=MERGE,0=KEEP_BOTH")
        if meaning not in set(PairLabel):
            raise UnknownNameError("meaning of a label", meaning, [known.value for known in PairLabel])
        if meanings.setdefault(label, PairLabel(meaning)) != meaning:
            raise UsageError(f"--map: label {label!r} is given two meanings, {meanings[label]} and {meaning}")
    return meanings


def _labelled(file: Path, policy: Policy, meanings: Mapping[str, PairLabel], kind: str) -> LabelledPairs:
    from importlib.resources import as_file

    from kb_pipeline.adapters.labelled_pairs import read_labelled_pairs
    from kb_pipeline.errors import UnknownNameError
    from kb_pipeline.gold import gold_pairs
    from kb_pipeline.vocabulary import Kind

    if kind not in set(Kind):
        raise UnknownNameError("kind", kind, [known.value for known in Kind])
    shipped = str(file) == "gold" and not file.exists()
    with as_file(gold_pairs()) as gold:
        return read_labelled_pairs(
            gold if shipped else file,
            mapping=meanings,
            kind=Kind(kind),
            scope_fields=policy.scope_fields,
            max_body_chars=policy.load.max_body_chars,
        )


def _vectors(labelled: LabelledPairs, policy: Policy) -> PairVectors:
    from kb_pipeline.adapters.encoder import load_encoder
    from kb_pipeline.defs.judged_pairs import PairVectors, encode_pairs

    encoder = load_encoder(policy.encoder.model, batch_size=policy.encoder.batch_size)
    thresholds = policy.thresholds(encoder.calibration.merge, encoder.calibration.borderline)
    vectors, owner = encode_pairs(labelled, encoder, _tell_encoding)
    end_progress()
    return PairVectors(vectors, owner, thresholds)


def _tell_encoding(done: int, todo: int) -> None:
    progress(f"{done:,} of {todo:,} windows encoded")


def _write_rows(path: Path, decided: pl.DataFrame) -> None:
    """One line a pair, in the order of the file; a and b as they stood there."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in decided.select(_ROW_COLUMNS).iter_rows(named=True):
            whole = row | {"a": json.loads(row["a"]), "b": json.loads(row["b"])}
            file.write(json.dumps(whole, ensure_ascii=False) + "\n")


def _table(strata: Mapping[str, Mapping[str, Any]]) -> str:
    """The strata as a table; the total only where there is more than one."""
    head = ("stratum", "pairs", "candidates", "merges", "false", "queued", "conflicts", "precision", "recall")
    counts = ("pairs", "candidates", "merges", "false_merges", "queued", "conflicts")
    shown = strata if len(strata) > 2 else dict(list(strata.items())[:1])
    lines = [head] + [
        (name, *(f"{row[count]:,}" for count in counts), share(row, "precision"), share(row, "recall"))
        for name, row in shown.items()
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 0 < column < 7 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _sentences(strata: Mapping[str, Mapping[str, Any]], judge: str, borderline: float | None) -> str:
    total = list(strata.values())[-1]
    search = (
        "every pair taken for a candidate" if borderline is None else f"candidates from similarity {borderline:g} on"
    )
    facts = [
        ("duplicates that are candidates", "candidate_recall"),
        ("duplicates merged or queued", "found_recall"),
        ("queued pairs that are duplicates", "queue_precision"),
        ("conflicts opened that are conflicts", "conflict_precision"),
        ("conflicts that were opened", "conflict_recall"),
        ("conflicts that the judge sees, candidates or not", "verdict_conflict_recall"),
        ("outcome as the label says, or a question", "agreement"),
    ]
    lines = [f"Judge: {judge}; {search}. Shares of all pairs, with 95 % Wilson intervals:"]
    lines += [f"  {words}: {share(total, name)}" for words, name in facts]
    lines.append(f"  merges that lose a number, name or negation: {total['merges_with_loss']}")
    return "\n".join(lines)


def share(row: Mapping[str, Any], name: str) -> str:
    """``0.912 [0.871-0.941]``, or a dash where nothing was counted."""
    if row[name] is None:
        return "-"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}-{row[f'{name}_high']:.3f}]"


evaluate.add_command(mutants)
