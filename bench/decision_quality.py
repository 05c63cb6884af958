"""Prints how the offline rule decides labelled pairs and mutants: ``python bench/decision_quality.py [--data DIR]``.

Reads the labelled pairs and corpora of the shared data folder (``KB_SHARED_DATA``, or ``../shared/data`` beside the
repository); nothing of them is kept. For each set: n, automatic merges and the false ones among them, conflicts,
precision and recall with 95 % Wilson intervals. Then mutants (must not merge; some kinds must be flagged) and
reformattings (must merge) of real rules and agent memories, by kind with ``--kinds``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from kb_pipeline.stages import evaluation  # noqa: E402
from kb_pipeline.text.canonical import canonical_key  # noqa: E402
from kb_pipeline.text.changes import Mutant, generate  # noqa: E402
from kb_pipeline.text.compare import compare  # noqa: E402
from kb_pipeline.text.mutants import FLAGGED, MUTATIONS  # noqa: E402
from kb_pipeline.text.normalise import entry_text  # noqa: E402
from kb_pipeline.text.reformattings import REFORMATTINGS  # noqa: E402
from kb_pipeline.vocabulary import Verdict  # noqa: E402

Row = dict[str, Any]


def _sts(row: Row) -> str:
    return "same" if row["label"] >= 4.5 else "paraphrase" if row["label"] >= 4 else "other"


def _label(meaning: dict[Any, str]) -> Callable[[Row], str]:
    return lambda row: meaning.get(row["label"], "other")


_NLI = _label(
    {"CONTRADICTION": "conflict", "contradiction": "conflict", "ENTAILMENT": "paraphrase", "entailment": "paraphrase"}
)
SETS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "tldr_sibling_distinct": ("skill", _label({"distinct": "distinct"})),
    "tldr_reworded_dups": ("skill", _label({"duplicate": "same"})),
    "curation_labels": (
        "rule",
        _label({"MERGE": "same", "KEEP_BOTH": "distinct", "SUBSET": "distinct", "CONFLICT": "conflict"}),
    ),
    "sick_train_trial": ("rule", _NLI),
    "breaking_nli_a": ("rule", _NLI),
    "glue_ax": ("rule", _NLI),
    "negation_nli_snli": ("rule", _NLI),
    "wikifactcheck_neg_a": ("rule", _NLI),
    "mrpc_train_val": ("rule", _label({1: "paraphrase", 0: "distinct"})),
    "stsb_train_dev": ("rule", _sts),
    "eslint_vs_tseslint": ("rule", _label({"extends": "distinct"})),
    "supersession": ("decision", _label({"b_supersedes_a": "distinct"})),
}
MERGEABLE = frozenset({"same", "paraphrase"})


def wilson(hits: int, n: int) -> str:
    """Return ``hits / n`` with its 95 % Wilson interval, or a dash when ``n`` is 0."""
    interval = evaluation.wilson(hits, n)
    if interval is None:
        return "-"
    low, high = interval
    return f"{hits / n:.3f} [{low:.3f}-{high:.3f}]"


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows of a gzipped JSONL file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def report_pairs(data: Path, show: bool) -> None:
    """Print the table of labelled pairs; with ``show`` also every false merge."""
    print(f"{'set':24}{'meaning':12}{'n':>6}{'merged':>8}{'conflict':>9}  share merged / in conflict")
    totals: Counter[str] = Counter()
    for name, (kind, meaning_of) in SETS.items():
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in rows_of(data / "pairs" / f"{name}.jsonl.gz"):
            meaning = meaning_of(row)
            found = compare(row["a"], row["b"], kind, kind)
            counts[meaning]["n"] += 1
            counts[meaning][found.verdict.value] += 1
            identical = row["a"].strip() == row["b"].strip()
            if found.verdict is Verdict.MERGE and meaning not in MERGEABLE:
                totals["identical texts labelled otherwise" if identical else "false merges"] += 1
                if show and not identical:
                    print("   FALSE MERGE", row["label"], repr(row["a"]), repr(row["b"]))
            totals["not-same pairs"] += meaning not in MERGEABLE
        for meaning, count in sorted(counts.items()):
            merged, conflicts = count[Verdict.MERGE.value], count[Verdict.CONFLICT.value]
            shares = f"{wilson(merged, count['n'])} / {wilson(conflicts, count['n'])}"
            print(f"{name:24}{meaning:12}{count['n']:>6}{merged:>8}{conflicts:>9}  {shares}")
        conflicts_found = sum(count[Verdict.CONFLICT.value] for count in counts.values())
        if counts["conflict"]["n"]:
            right = counts["conflict"][Verdict.CONFLICT.value]
            print(
                f"{'':24}conflicts: recall {wilson(right, counts['conflict']['n'])} precision {wilson(right, conflicts_found)}"
            )
    print(dict(totals))


def real_texts(data: Path) -> list[str]:
    """Return the entry texts of the rules and the agent memories, in a fixed random order."""
    texts = [
        entry_text(row.get("title"), row.get("body"))
        for name in ("agent_rules", "agent_memory")
        for row in rows_of(data / "corpora" / f"{name}.jsonl.gz")
    ]
    random.Random(11).shuffle(texts)
    return texts


def report_changes(title: str, mutants: Iterable[Mutant], must_merge: bool, show: bool, by_kind: bool) -> None:
    """Print how many changed copies keep the canonical key of their original."""
    n: Counter[str] = Counter()
    same: Counter[str] = Counter()
    vetoed = flagged = to_flag = 0
    started = time.process_time()
    for mutant in mutants:
        n[mutant.kind] += 1
        is_same = canonical_key(mutant.original) == canonical_key(mutant.changed)
        same[mutant.kind] += is_same
        if is_same and must_merge and n[mutant.kind] <= 300:
            vetoed += compare(mutant.original, mutant.changed, "rule", "rule").verdict is not Verdict.MERGE
        if is_same and show and not must_merge:
            print("   FALSE MERGE", mutant.kind, repr(mutant.original[:300]), repr(mutant.changed[:300]))
        if not must_merge and mutant.kind in FLAGGED and n[mutant.kind] <= 1500:
            to_flag += 1
            flagged += compare(mutant.original, mutant.changed, "rule", "rule").verdict is Verdict.CONFLICT
    total, kept = sum(n.values()), sum(same.values())
    seconds = time.process_time() - started
    print(f"{title}: {total} of {len(n)} kinds, same canonical key {kept} = {wilson(kept, total)}, {seconds:.0f} CPU-s")
    if must_merge:
        print(f"   vetoed by the ledger among the first of each kind: {vetoed}")
    else:
        print(f"   numbers, units and negations flagged as conflicts: {wilson(flagged, to_flag)}")
    if by_kind:
        for kind in sorted(n):
            print(f"   {kind:24}{n[kind]:>7}{same[kind]:>7}  {same[kind] / n[kind]:.4f}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("KB_SHARED_DATA", REPOSITORY / "../shared/data"))
    )
    parser.add_argument("--texts", type=int, default=12_321, help="how many real texts are changed")
    parser.add_argument("--show", action="store_true", help="print every false merge")
    parser.add_argument("--kinds", action="store_true", help="print changes by kind")
    options = parser.parse_args()
    report_pairs(options.data, options.show)
    texts = real_texts(options.data)[: options.texts]
    report_changes("mutants", generate(texts, MUTATIONS, 7), False, options.show, options.kinds)
    report_changes("reformattings", generate(texts, REFORMATTINGS, 8), True, options.show, options.kinds)


if __name__ == "__main__":
    main()
