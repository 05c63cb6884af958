"""Merges (K9, K10, X1, X3): which entry goes into which, and which merges a person must decide.

A cluster merges only if every pair in it is a duplicate, not just neighbours: equal texts are one node, and two nodes
join only when all pairs between their clusters have the verdict MERGE and agreeing specifics. The winner is the first
by ``winner_order``, a total order. All others of the cluster go into it, and the winner keeps its own text: a text that a
judge suggests for both goes along with questions alone (merge_bodies), and where it was refused a person decides.
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import MergePolicy
from kb_pipeline.vocabulary import Band, ReasonCode, ReviewState, Verdict

RULE_KEY = "merge.winner_order"


def winner_rank(entries: pl.DataFrame, policy: MergePolicy) -> pl.DataFrame:
    """Columns entry_id and winner_rank (Int64, 0 wins): K10 as one total order over all entries."""
    order: dict[str, tuple[pl.Expr, bool]] = {
        "pinned": (pl.col("pinned"), True),
        "approved": (pl.col("review_state") == ReviewState.APPROVED, True),
        "confidence": (pl.col("confidence").fill_null(-1.0), True),
        "usage": (pl.col("attempts") + pl.col("retrievals"), True),
        "older": (pl.col("created_at").dt.epoch("us").fill_null(2**62), False),
        "smaller_id": (pl.col("entry_id"), False),
    }
    chosen = [order[key] for key in policy.winner_order]
    return (
        entries.sort([expression for expression, _ in chosen], descending=[down for _, down in chosen])
        .select("entry_id")
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("winner_rank"))
    )


def plan_merges(entries: pl.DataFrame, verdicts: pl.DataFrame, policy: MergePolicy) -> pl.DataFrame:
    """MERGES of a run, by loser id: those that are made, and those that go to review with the reason.

    Args:
        entries: ENTRIES.
        verdicts: VERDICTS of the run's pairs.
        policy: the winner's order.
    """
    rank = dict(winner_rank(entries, policy).iter_rows())
    kept = set(entries.filter(pl.col("kept_rules").list.contains("merge"))["entry_id"].to_list())
    wanted = verdicts.filter(pl.col("verdict") == Verdict.MERGE)
    agreeing = pl.all_horizontal(pl.col("specifics_only_l", "specifics_only_r").list.len() == 0)
    rows: list[dict[str, object]] = []

    def review(pair: dict[str, object], reason: ReasonCode) -> None:
        left, right = str(pair["entry_id_l"]), str(pair["entry_id_r"])
        loser, winner = (left, right) if rank[left] > rank[right] else (right, left)
        rows.append(_row(pair, loser, winner, "review", reason))

    for pair in wanted.filter(~agreeing).iter_rows(named=True):
        fault = pair["body_fault"]
        review(pair, ReasonCode(str(fault)) if fault else ReasonCode.MERGE_SPECIFICS_DIFFER)

    # Only pairs that a judge wants merged are walked here: few, and never the corpus.
    sound: dict[tuple[str, str], dict[str, object]] = {}
    strongest_first = wanted.filter(agreeing).sort(
        pl.col("band") != Band.EXACT, -pl.col("similarity").fill_null(0.0), "entry_id_l", "entry_id_r"
    )
    sensitivity = dict(entries.select("entry_id", "sensitivity").iter_rows())
    products = merge_products(entries)
    for pair in strongest_first.iter_rows(named=True):
        ids = {pair["entry_id_l"], pair["entry_id_r"]}
        if ids & kept:
            review(pair, ReasonCode.MERGE_KEPT_BY_PERSON)
        elif sensitivity[pair["entry_id_l"]] != sensitivity[pair["entry_id_r"]]:
            # Evidence of one would be seen by the readers of the other.
            review(pair, ReasonCode.MERGE_SENSITIVITY_DIFFERS)
        elif pair["band"] != Band.EXACT and ids & products:
            review(pair, ReasonCode.MERGE_PRODUCT)
        elif pair["body_fault"] is not None:
            # Whoever writes one text for both and gets it wrong has not understood that they say the same.
            review(pair, ReasonCode(str(pair["body_fault"])))
        else:
            sound[pair["entry_id_l"], pair["entry_id_r"]] = pair

    pairs_of: dict[str, list[tuple[str, dict[str, object]]]] = {}
    for (left, right), pair in sound.items():
        pairs_of.setdefault(left, []).append((right, pair))
        pairs_of.setdefault(right, []).append((left, pair))
    clusters, chained = _cliques(sound)
    for pair in chained:
        review(pair, ReasonCode.MERGE_CHAIN)
    for members in clusters:
        winner = min(members, key=rank.__getitem__)
        for loser in sorted(members - {winner}):
            # What speaks for this merge: the pair of the two, else the strongest of the loser within the cluster.
            direct = sound.get((min(loser, winner), max(loser, winner)))
            ground = direct or next(pair for other, pair in pairs_of[loser] if other in members)
            rows.append(_row(ground, loser, winner, "merge", ReasonCode(str(ground["reason"]))))
    return schemas.MERGES.build(rows).sort("loser_id", "winner_id")


def merge_products(entries: pl.DataFrame) -> set[str]:
    """Entries that have taken in another text: what they stand for is not theirs alone (behaviour of chains, X3).

    Merging such an entry once more, unasked, could leave an archived text with a survivor that is no duplicate of it. Those
    that took in only equal texts are as they were.
    """
    taken = entries.filter(
        pl.col("merged_into").is_not_null()
        & ~pl.col("state_reason")
        .is_in([ReasonCode.JUDGE_EXACT.value, ReasonCode.JUDGE_CANONICAL.value])
        .fill_null(False)
    )
    return set(taken["merged_into"].to_list())


def longest_chain(entries: pl.DataFrame, merges: pl.DataFrame) -> int:
    """How many merges lie between an archived entry and the one that stands for it now: 0 without merges."""
    links = pl.concat(
        [
            entries.filter(pl.col("merged_into").is_not_null()).select(
                pl.col("entry_id").alias("loser"), "merged_into"
            ),
            merges.filter(pl.col("merge_decision") == "merge").select(
                pl.col("loser_id").alias("loser"), pl.col("winner_id").alias("merged_into")
            ),
        ]
    ).unique("loser", keep="last", maintain_order=True)
    depth, ends = 0, links["merged_into"].unique()
    while len(ends) and depth <= links.height:
        depth += 1
        ends = links.filter(pl.col("loser").is_in(ends.implode()))["merged_into"].unique()
    return depth


def _cliques(
    sound: dict[tuple[str, str], dict[str, object]],
) -> tuple[list[set[str]], list[dict[str, object]]]:
    """Clusters in which every pair is a duplicate, and the pairs that would have made a chain (X3)."""
    # Equal texts are one node, named by the group's smallest id: thousands of copies cost no more than one.
    text_of = {right: left for (left, right), pair in sound.items() if pair["band"] == Band.EXACT}
    entries_of: dict[str, set[str]] = {}
    for entry in (entry for ids in sound for entry in ids):
        entries_of.setdefault(text_of.get(entry, entry), set()).add(entry)
    edges = {frozenset((text_of.get(left, left), text_of.get(right, right))) for left, right in sound}
    cluster_of = {text: {text} for text in entries_of}
    chained = []
    for (left, right), pair in sound.items():
        a, b = cluster_of[text_of.get(left, left)], cluster_of[text_of.get(right, right)]
        if a is b:
            continue
        if all(frozenset((x, y)) in edges for x in a for y in b):
            a |= b
            cluster_of |= dict.fromkeys(b, a)
        else:
            chained.append(pair)
    distinct = {id(cluster): cluster for cluster in cluster_of.values()}
    clusters = [set().union(*(entries_of[text] for text in texts)) for texts in distinct.values()]
    return sorted((cluster for cluster in clusters if len(cluster) > 1), key=min), chained


def _row(pair: dict[str, object], loser: str, winner: str, decision: str, reason: ReasonCode) -> dict[str, object]:
    return {
        "loser_id": loser,
        "winner_id": winner,
        "similarity": pair["similarity"],
        "verdict": pair["verdict"],
        "judge": pair["judge"],
        "reason": reason.value,
        "merge_decision": decision,
        "explanation": pair["explanation"],
        # In a cluster the ground may be another pair, and its text is none for these two.
        "suggested_body": pair["suggested_body"]
        if {pair["entry_id_l"], pair["entry_id_r"]} == {loser, winner}
        else None,
    }
