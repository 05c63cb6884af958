"""How the offline rule takes texts that were changed in one place (ledger X0): a change of meaning must never merge.

Belongs here: counting, kind by kind, over changed copies of given texts. Does not belong here: the kinds of change
(``text.mutants``, ``text.reformattings``).

A false merge is a mutant that the rule merges with its original. A mutant is flagged when the rule opens a conflict;
kinds in ``FLAGGED`` (number, unit, negation) should be. A reformatted copy should merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kb_pipeline.stages.evaluation import wilson
from kb_pipeline.text.changes import Mutant, generate
from kb_pipeline.text.compare import compare
from kb_pipeline.text.mutants import FLAGGED, MUTATIONS
from kb_pipeline.text.reformattings import REFORMATTINGS
from kb_pipeline.vocabulary import Verdict


def measure_mutants(texts: Iterable[str], *, kind: str, seed: int) -> dict[str, Any]:
    """Counts of one-place changes of meaning, by kind and over all.

    Args:
        texts: entry texts.
        kind: kind of all entries, a value of ``Kind``.
        seed: the same texts and seed give the same mutants.

    Returns:
        ``kinds``: kind of change -> n, merged (false merges) and flagged (conflicts opened); ``total``: the same over all,
        with ``merged_high``, the upper end of the 95 % interval of the share of false merges (null without mutants), and
        ``must_flag`` with n and flagged of the kinds that should become a conflict.
    """
    kinds = _counted(generate(texts, MUTATIONS, seed), kind)
    total = _sum(kinds.values())
    interval = wilson(total["merged"], total["n"])
    must_flag = _sum(counts for name, counts in kinds.items() if name in FLAGGED)
    return {
        "kinds": kinds,
        "total": total | {"merged_high": interval and round(interval[1], 6)},
        "must_flag": must_flag,
    }


def measure_reformattings(texts: Iterable[str], *, kind: str, seed: int) -> dict[str, Any]:
    """The same counts of changes of form, which should merge; ``merged_share`` is theirs (null without any)."""
    kinds = _counted(generate(texts, REFORMATTINGS, seed), kind)
    total = _sum(kinds.values())
    share = round(total["merged"] / total["n"], 4) if total["n"] else None
    return {"kinds": kinds, "total": total | {"merged_share": share}}


def _counted(mutants: Iterable[Mutant], kind: str) -> dict[str, dict[str, int]]:
    n: Counter[str] = Counter()
    verdicts: Counter[tuple[str, Verdict]] = Counter()
    for mutant in mutants:
        n[mutant.kind] += 1
        verdicts[mutant.kind, compare(mutant.original, mutant.changed, kind, kind).verdict] += 1
    return {
        name: {
            "n": n[name],
            "merged": verdicts[name, Verdict.MERGE],
            "flagged": verdicts[name, Verdict.CONFLICT],
        }
        for name in sorted(n)
    }


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, Any]:
    rows = list(counts)
    return {name: sum(row[name] for row in rows) for name in ("n", "merged", "flagged")}
