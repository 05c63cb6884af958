"""Prints where the offline rule errs, by kind: ``python bench/rule_errors.py [--data DIR] [--show KIND] [--top 20]``.

Over the shipped gold set and the labelled pairs of the shared data folder (``KB_SHARED_DATA``, or ``../shared/data`` beside
the repository), each pair taken as if search had found it. A kind of error is what went wrong, the reason that the rule
gave, and how the two texts differ; of each the number, the sets, and the places of some pairs in their files (line numbers
from 1). ``--show`` prints the texts of one kind to the terminal; nothing of them is kept.

What can go wrong: false merge; missed duplicate (kept apart, nobody is asked); false conflict; missed conflict; queued for
nothing (a person is asked about two texts that are no duplicates).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))
sys.path.insert(0, str(REPOSITORY / "bench"))

from decision_quality import MERGEABLE, SETS, rows_of  # noqa: E402

from kb_pipeline.gold import gold_pairs  # noqa: E402
from kb_pipeline.text.canonical import canonical_tokens  # noqa: E402
from kb_pipeline.text.compare import compare  # noqa: E402
from kb_pipeline.text.contradiction import calm, regions_of  # noqa: E402
from kb_pipeline.text.normalise import entry_text  # noqa: E402
from kb_pipeline.vocabulary import Verdict  # noqa: E402

_GOLD_MEANINGS = {"MERGE": "same", "CONFLICT": "conflict"}
_PLACE = ("tenant", "repository", "module", "project", "user", "kind", "state")
_FEW_WORDS = 3


class Pair(NamedTuple):
    """One labelled pair: its set and place there, both texts and kinds, and what a reader says of it."""

    set: str
    place: str
    left: str
    right: str
    kind_l: str
    kind_r: str
    meaning: str


def labelled_pairs(data: Path) -> Iterator[Pair]:
    """The pairs of the gold set, then those of the shared data."""
    for line in gold_pairs().read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sides = (row["a"], row["b"])
        left, right = (
            entry_text(*(side.get(name) for name in ("title", "body", "rationale", "alternatives", "steps")))
            for side in sides
        )
        kind_l, kind_r = (side["kind"] for side in sides)
        # Another scope or a mark keeps a pair from being compared at all: that is no matter of this rule.
        place_l, place_r = ({name: side.get(name) for name in _PLACE} for side in sides)
        if place_l != place_r or any(side.get("keep_distinct") for side in sides):
            continue
        yield Pair("gold", row["id"], left, right, kind_l, kind_r, _GOLD_MEANINGS.get(row["label"], "distinct"))
    for name, (kind, meaning_of) in SETS.items():
        for number, row in enumerate(rows_of(data / "pairs" / f"{name}.jsonl.gz"), 1):
            yield Pair(name, str(number), row["a"], row["b"], kind, kind, meaning_of(row))


def error_of(verdict: Verdict, meaning: str) -> str | None:
    """What is wrong about a verdict, or None."""
    if verdict is Verdict.MERGE:
        return None if meaning in MERGEABLE else "false merge"
    if verdict is Verdict.CONFLICT:
        return None if meaning == "conflict" else "false conflict"
    if meaning == "conflict":
        return "missed conflict"
    if verdict is Verdict.KEEP_BOTH:
        return "missed duplicate" if meaning in MERGEABLE else None
    return None if meaning in MERGEABLE else "queued for nothing"


def shape(left: str, right: str) -> str:
    """How two texts differ: in their order, in one place, by words more, in a few places, or in many."""
    own, other = calm(canonical_tokens(left)), calm(canonical_tokens(right))
    if sorted(own) == sorted(other):
        return "order of words"
    regions = regions_of(own, other)
    if regions is None or len(regions) > _FEW_WORDS:
        return "many places"
    if all(i1 == i2 or j1 == j2 for i1, i2, j1, j2 in regions):
        return "words more"
    if len(regions) == 1:
        i1, i2, j1, j2 = regions[0]
        return "one word" if i2 - i1 == j2 - j1 == 1 else "one place"
    return "few places"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("KB_SHARED_DATA", REPOSITORY / "../shared/data"))
    )
    parser.add_argument("--top", type=int, default=20, help="how many kinds of error are printed")
    parser.add_argument("--show", metavar="KIND", help="print the texts of the kinds whose line holds this")
    options = parser.parse_args()
    found: dict[str, list[Pair]] = defaultdict(list)
    judged: Counter[str] = Counter()
    for pair in labelled_pairs(options.data):
        if pair.meaning == "other":
            continue  # no duplicate, and not said to be worth keeping apart either
        if pair.left.strip() == pair.right.strip() and pair.meaning not in MERGEABLE:
            continue  # one text twice, labelled as contradicting itself
        judged[pair.meaning] += 1
        seen = compare(pair.left, pair.right, pair.kind_l, pair.kind_r)
        error = error_of(seen.verdict, pair.meaning)
        if error:
            found[f"{error} | {seen.reason.value} | {shape(pair.left, pair.right)}"].append(pair)
    print("pairs by meaning:", dict(judged))
    # What decides wrongly weighs more than what only costs a look.
    rank = ["false merge", "false conflict", "missed conflict", "missed duplicate", "queued for nothing"]
    sums = Counter({error: sum(len(p) for kind, p in found.items() if kind.startswith(error)) for error in rank})
    print("errors:", dict(sums))
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))[: options.top]
    for kind, pairs in sorted(ordered, key=lambda item: (rank.index(item[0].split(" | ")[0]), -len(item[1]))):
        sets = Counter(pair.set for pair in pairs)
        places = ", ".join(f"{pair.set}:{pair.place}" for pair in pairs[:3])
        print(f"{len(pairs):>6}  {kind}\n        {dict(sets.most_common(4))}; {places}")
        if options.show and options.show in kind:
            for pair in pairs:
                print(f"          {pair.set}:{pair.place}\n            {pair.left!r}\n            {pair.right!r}")


if __name__ == "__main__":
    main()
