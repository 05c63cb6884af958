"""Prints which labelled duplicates become candidates: ``python bench/candidate_recall.py [--data DIR]``.

Reads the labelled pairs and corpora of the shared data folder (``KB_SHARED_DATA``, or ``../shared/data`` beside the
repository); nothing of them is kept. Each set is searched by the dedup stage itself, under the shipped policy: once by
the bands of the vectors alone, once with shared words. Between them stands what the vectors would find if they were
given as many pairs as both signals make, by a lower threshold. With ``--queue`` also what becomes of the pairs found by
words under the offline judge, and how well their scores order labelled ones.

Duplicates: labels MERGE, SUBSET and CONFLICT of the hand-labelled pairs (undoubtful, both sides in one scope), reworded
command descriptions, paraphrases of MRPC, pairs of STS-B with a score of 4.5 or more. Sets of pairs are one block each.
The second table is about memories at all levels of similarity: labels/README.md tells how these pairs were drawn.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))
sys.path.insert(0, str(REPOSITORY / "bench"))

from decision_quality import Row, rows_of, wilson  # noqa: E402
from memory_labels import memory_labels, report_agreement, weighted_recall  # noqa: E402

from kb_pipeline import schemas  # noqa: E402
from kb_pipeline.adapters.encoder import load_encoder  # noqa: E402
from kb_pipeline.adapters.text_features import merge_key  # noqa: E402
from kb_pipeline.policy.load import load_policy  # noqa: E402
from kb_pipeline.policy.model import Thresholds  # noqa: E402
from kb_pipeline.stages.dedup import find_duplicates  # noqa: E402
from kb_pipeline.stages.dedup_words import limit_questions, question_score  # noqa: E402
from kb_pipeline.text.compare import compare  # noqa: E402
from kb_pipeline.text.normalise import entry_text, entry_title  # noqa: E402

LOWEST = 0.5
"""Cosine from which pairs are collected for the column at the same number of pairs."""
MEMORIES = "labels, agent_memory"
Pair = tuple[str, str]


@dataclass
class Set:
    """Entries and labelled pairs of their ids: the duplicates among them, and all of them with what they are."""

    entries: pl.DataFrame
    duplicates: list[Pair] = field(default_factory=list)
    known: dict[Pair, bool] = field(default_factory=dict)


def entry_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of id, text, kind and scope as the dedup stage reads them."""
    return pl.DataFrame(
        [
            {"title": None}
            | row
            | {"merge_key": merge_key(row["text"]), "tenant": None, "keep_distinct": False, "state": "active"}
            for row in rows
        ],
        schema_overrides={"tenant": pl.String, "title": pl.String, "merge_key": pl.String},
    ).sort("entry_id")


def corpus_set(data: Path, name: str) -> Set:
    """A real corpus with its hand-labelled pairs."""
    rows = [
        {
            "entry_id": row["id"],
            "text": entry_text(
                row.get("title"), row.get("body"), row.get("rationale"), row.get("alternatives"), row.get("steps")
            ),
            "title": entry_title(row.get("title"), row.get("body")),
            "kind": row["kind"],
            "scope": f"{row.get('repository')}\x1f{row.get('module')}",
        }
        for row in rows_of(data / "corpora" / f"{name}.jsonl.gz")
    ]
    place = {row["entry_id"]: (row["scope"], row["kind"]) for row in rows}
    made = Set(entry_frame(rows))
    for row in rows_of(data / "pairs" / "curation_labels.jsonl.gz"):
        if row["source"] != name or row["doubtful"] or place[row["id_a"]] != place[row["id_b"]]:
            continue
        pair = (min(row["id_a"], row["id_b"]), max(row["id_a"], row["id_b"]))
        made.known[pair] = row["label"] in ("MERGE", "SUBSET", "CONFLICT")
        if made.known[pair]:
            made.duplicates.append(pair)
    return made


def pair_set(data: Path, name: str, is_duplicate: Callable[[Row], bool]) -> Set:
    """All texts of a file of pairs as one block."""
    ids: dict[str, str] = {}
    labels: dict[Pair, bool] = {}
    for row in rows_of(data / "pairs" / f"{name}.jsonl.gz"):
        a, b = (ids.setdefault(row[side], f"{len(ids):06}") for side in ("a", "b"))
        if a != b:
            labels[min(a, b), max(a, b)] = is_duplicate(row)
    rows = [{"entry_id": entry, "text": text, "kind": "fact", "scope": name} for text, entry in ids.items()]
    return Set(entry_frame(rows), [pair for pair, same in labels.items() if same], labels)


def first_of_equals(pairs: pl.DataFrame) -> Callable[[str], str]:
    """Which entry stands for an entry in the search: equal texts are one."""
    first = dict(pairs.filter(pl.col("band") == "exact").select("entry_id_r", "entry_id_l").iter_rows())
    return lambda entry: first.get(entry, entry)


def found_count(pairs: pl.DataFrame, everything: pl.DataFrame, duplicates: list[Pair]) -> int:
    """How many duplicates are among ``pairs``; ``everything`` holds the pairs of equal texts."""
    first = first_of_equals(everything)
    found = set(pairs.select("entry_id_l", "entry_id_r").iter_rows())
    count = 0
    for left, right in duplicates:
        a, b = first(left), first(right)
        count += a == b or (min(a, b), max(a, b)) in found
    return count


def report_recall(
    name: str, given: Set, vectors: npt.NDArray[np.float32], owner: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """Print one line of the table; return the pairs of both signals."""
    policy = load_policy().dedup
    limits = load_policy().thresholds(CALIBRATION.merge, CALIBRATION.borderline)
    retirement = given.entries.select("entry_id", pl.lit("keep").alias("retire_decision"))

    def search(neighbours: int, thresholds: Thresholds) -> pl.DataFrame:
        rule = policy.model_copy(update={"word_neighbours": neighbours, "max_pairs": 5_000_000})
        return find_duplicates(given.entries, retirement, vectors, owner, rule, thresholds).pairs

    before = search(0, limits)
    after = search(policy.word_neighbours, limits)
    lower = search(0, Thresholds(limits.min_merge_similarity, LOWEST, LOWEST))
    ranked = lower.sort(pl.col("band") != "exact", -pl.col("similarity")).head(after.height)
    size, n = given.entries.height, len(given.duplicates)
    cells = [
        f"{pairs.height / size:.3f} {wilson(found_count(pairs, lower, given.duplicates), n)}"
        for pairs in (before, ranked, after)
    ]
    least = ranked["similarity"].min()
    print(f"{name:22}{size:>7}{n:>6}  " + "  ".join(f"{cell:28}" for cell in cells) + f"  (cosine >= {least:.2f})")
    return after


def report_levels(given: Set, vectors: npt.NDArray[np.float32], owner: npt.NDArray[np.int64]) -> None:
    """Print recall over memories at all levels: the vectors alone, the policy in force, and other values of it."""
    policy = load_policy().dedup
    limits = load_policy().thresholds(CALIBRATION.merge, CALIBRATION.borderline)
    retirement = given.entries.select("entry_id", pl.lit("keep").alias("retire_decision"))
    labels = memory_labels()
    report_agreement(labels)
    near = labels.filter(pl.col("label") != "partial")
    tries: dict[str, dict[str, Any]] = {
        "vectors alone": {"word_neighbours": 0},
        "words from 0.35, any mean": {"min_word_similarity": 0.35, "min_word_pair_score": 0.0},
        "policy in force": {},
        "records too": {"skip_machine_records": False},
        "one neighbour": {"word_neighbours": 1},
        "three neighbours": {"word_neighbours": 3},
        "mean from 0.35": {"min_word_pair_score": 0.35},
        "mean from 0.45": {"min_word_pair_score": 0.45},
        "words from 0.20": {"min_word_similarity": 0.20},
    }
    for words, values in tries.items():
        pairs = find_duplicates(
            given.entries, retirement, vectors, owner, policy.model_copy(update=values), limits
        ).pairs
        cells = [
            f"{value:.2f} [{low:.2f}-{high:.2f}]"
            for value, low, high in (weighted_recall(labels, pairs), weighted_recall(near, pairs))
        ]
        print(f"{words:28}{pairs.height / given.entries.height:>6.3f}  {cells[0]:20}  same or conflict {cells[1]}")


def average_precision(is_right: npt.NDArray[np.bool_], score: npt.NDArray[np.float64]) -> float:
    """Mean of the precisions at the right ones, best score first."""
    right = is_right[np.argsort(-score, kind="stable")]
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


def report_queue(name: str, given: Set, pairs: pl.DataFrame) -> None:
    """Print what the offline judge makes of the pairs found by words, and how their scores order labelled ones."""
    text, kind = (dict(given.entries.select("entry_id", column).iter_rows()) for column in ("text", "kind"))
    judged = [
        compare(text[left], text[right], kind[left], kind[right])
        for left, right in pairs.select("entry_id_l", "entry_id_r").iter_rows()
    ]
    nothing = pl.lit([], dtype=schemas.Texts)
    verdicts = schemas.VERDICTS.select(
        pairs.with_columns(
            pl.Series("verdict", [seen.verdict.value for seen in judged], dtype=pl.String),
            pl.Series("reason", [seen.reason.value for seen in judged], dtype=pl.String),
            judge=pl.lit("rule"),
            judge_confidence=None,
            explanation=None,
            failed=False,
            from_cache=False,
            specifics_only_l=nothing,
            specifics_only_r=nothing,
        )
    )
    limited = limit_questions(verdicts, given.entries, load_policy().dedup)
    lexical = limited.filter(pl.col("band") == "lexical")
    counts = {
        label: frame.filter(pl.col("verdict") == "UNSURE").height
        for label, frame in (("all", limited), ("by words", lexical))
    }
    open_before = verdicts.filter((pl.col("band") == "lexical") & (pl.col("verdict") == "UNSURE")).height
    share = 100 * counts["all"] / given.entries.height
    print(
        f"{name:22}{given.entries.height:>7} entries, {lexical.height} pairs by words, {open_before} of them unsettled, "
        f"{counts['by words']} asked; questions in all {counts['all']}, {share:.1f} for 100 entries"
    )
    scored = lexical.with_columns(question_score().alias("score")).with_columns(
        pl.struct("entry_id_l", "entry_id_r")
        .map_elements(lambda ids: given.known.get((ids["entry_id_l"], ids["entry_id_r"])), return_dtype=pl.Boolean)
        .alias("known")
    )
    labelled = scored.drop_nulls("known")
    if labelled.height >= 100:
        right = labelled["known"].to_numpy()
        order = {
            column: f"{average_precision(right, labelled[column].to_numpy()):.3f}"
            for column in ("similarity", "word_similarity", "score")
        }
        close = labelled.filter(pl.col("score") >= load_policy().dedup.min_word_question_score)
        kept = wilson(int(close["known"].sum()), close.height)
        print(
            f"{'':22}labelled {labelled.height}: share of duplicates {right.mean():.3f}, at the score of a question {kept}"
        )
        print(f"{'':22}average precision by {order}")


CALIBRATION = load_encoder().calibration


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("KB_SHARED_DATA", REPOSITORY / "../shared/data"))
    )
    parser.add_argument("--queue", action="store_true", help="what pairs found by words ask of people")
    parser.add_argument("--vectors", type=Path, help="folder in which vectors are kept from one call to the next")
    options = parser.parse_args()
    data: Path = options.data
    sets: dict[str, Callable[[], Set]] = {
        MEMORIES: lambda: corpus_set(data, "agent_memory"),
        "labels, agent_rules": lambda: corpus_set(data, "agent_rules"),
        "tldr_reworded_dups": lambda: pair_set(data, "tldr_reworded_dups", lambda row: row["label"] == "duplicate"),
        "mrpc_train_val": lambda: pair_set(data, "mrpc_train_val", lambda row: row["label"] == 1),
        "stsb_train_dev": lambda: pair_set(data, "stsb_train_dev", lambda row: row["label"] >= 4.5),
    }
    encoder = load_encoder()
    print("pairs an entry and recall: vectors alone; vectors at the pairs of both; vectors and words")
    print(f"{'set':22}{'n':>7}{'dups':>6}")
    searched: dict[str, tuple[Set, pl.DataFrame]] = {}
    for name, made in sets.items():
        given = made()
        kept = options.vectors / f"{name}.npz" if options.vectors else None
        if kept is not None and kept.is_file():
            stored = np.load(kept)
            vectors, owner = stored["vectors"], stored["owner"]
        else:
            vectors, owner = encoder.encode(given.entries["text"].to_list())
            if kept is not None:
                np.savez(kept, vectors=vectors, owner=owner)
        searched[name] = (given, report_recall(name, given, vectors, owner))
        if name == MEMORIES:
            memories = (given, vectors, owner)
    print("\nmemories at all levels: pairs an entry, recall")
    report_levels(*memories)
    if options.queue:
        for name, (given, pairs) in searched.items():
            report_queue(name, given, pairs)


if __name__ == "__main__":
    main()
