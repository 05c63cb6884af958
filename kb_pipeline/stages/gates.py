"""Gates (K1-K4): what keeps a candidate out of the knowledge base.

Gates decide on candidates alone; on other live entries they are measured and reported. A candidate that is too close to
an active entry of its scope and kind strengthens that entry if their specifics agree; if they differ, a person decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kb_pipeline import schemas
from kb_pipeline.allpairs.pairs import nearest_neighbours
from kb_pipeline.policy.model import GatesPolicy
from kb_pipeline.text.compare import compare
from kb_pipeline.vocabulary import LIVE_STATES, ActionType, ReasonCode, State, Verdict


def name_too_short(policy: GatesPolicy) -> pl.Expr:
    """K1 (gates.min_name_chars): the trimmed title has too few code points."""
    return pl.col("name_chars") < policy.min_name_chars


def generic_name(policy: GatesPolicy) -> pl.Expr:
    """K2 (gates.generic_name_patterns): the title says nothing in particular."""
    title = pl.col("title").str.strip_chars()
    return pl.any_horizontal(
        pl.lit(False), *(title.str.contains(f"(?i){pattern}") for pattern in policy.generic_name_patterns)
    )


def not_distinctive(policy: GatesPolicy) -> pl.Expr:
    """K3 (gates.min_distinctiveness): its words are everybody's words. Without tokens there is no verdict."""
    return (pl.col("distinctiveness") < policy.min_distinctiveness).fill_null(False)


RULES = {
    ReasonCode.GATES_NAME_TOO_SHORT: name_too_short,
    ReasonCode.GATES_GENERIC_NAME: generic_name,
    ReasonCode.GATES_NOT_DISTINCTIVE: not_distinctive,
}

_KEPT = [ActionType.ADMIT.value, ActionType.REFUSE.value]

RULE_KEYS = {
    ReasonCode.GATES_PASSED: "gates.admit_to",
    ReasonCode.GATES_NAME_TOO_SHORT: "gates.min_name_chars",
    ReasonCode.GATES_GENERIC_NAME: "gates.generic_name_patterns",
    ReasonCode.GATES_NOT_DISTINCTIVE: "gates.min_distinctiveness",
    ReasonCode.GATES_TOO_SIMILAR: "gates.min_intake_similarity",
    ReasonCode.GATES_TOO_SIMILAR_DIFFERS: "gates.min_intake_similarity",
}


def judge_gates(
    entries: pl.DataFrame, distinctiveness: pl.DataFrame, nearest: pl.DataFrame, policy: GatesPolicy
) -> pl.DataFrame:
    """GATES of every live entry, in the order of ``entries``.

    The gates are asked in the order K1, K2, K3, K4; all that speak against an entry are listed.

    Args:
        entries: ENTRIES.
        distinctiveness: DISTINCTIVENESS of the same entries in the same order.
        nearest: columns entry_id, nearest_id, max_similarity, too_similar (Boolean) and may_strengthen (Boolean: the
            specifics agree and nothing contradicts), for candidates that have an active neighbour.
        policy: thresholds.
    """
    joined = (
        entries.hstack(distinctiveness.drop("entry_id"))
        .filter(pl.col("state").is_in(LIVE_STATES))
        .join(nearest, on="entry_id", how="left", maintain_order="left")
        .with_columns(pl.col("title").str.strip_chars().str.len_chars().cast(pl.Int64).alias("name_chars"))
    )
    flags = {reason.value: rule(policy) for reason, rule in RULES.items()}
    too_similar = pl.col("too_similar").fill_null(False)
    agrees = pl.col("may_strengthen").fill_null(False)
    flags[ReasonCode.GATES_TOO_SIMILAR.value] = too_similar & agrees
    flags[ReasonCode.GATES_TOO_SIMILAR_DIFFERS.value] = too_similar & ~agrees
    annotated = joined.with_columns(
        pl.concat_list(
            pl.when(flag).then(pl.lit(word)).otherwise(pl.lit(None, dtype=pl.String)) for word, flag in flags.items()
        )
        .list.drop_nulls()
        .alias("gate_reasons")
    )
    reasons = pl.col("gate_reasons")
    own_faults = pl.any_horizontal(*(reasons.list.contains(reason.value) for reason in RULES))
    decided = annotated.with_columns(
        # A person who took back what a gate decided has decided: the candidate waits until its text changes.
        pl.when(
            (pl.col("state") != State.CANDIDATE) | (pl.col("kept_rules").list.set_intersection(_KEPT).list.len() > 0)
        )
        .then(pl.lit(None, dtype=pl.String))
        .when(own_faults)
        .then(pl.lit("refuse"))
        .when(reasons.list.contains(ReasonCode.GATES_TOO_SIMILAR.value))
        .then(pl.lit("strengthen"))
        .when(reasons.list.contains(ReasonCode.GATES_TOO_SIMILAR_DIFFERS.value))
        .then(pl.lit("review"))
        .otherwise(pl.lit("admit"))
        .alias("gate_decision")
    )
    return schemas.GATES.select(decided)


NEAREST_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "entry_id": pl.String,
    "nearest_id": pl.String,
    "max_similarity": pl.Float64,
    "too_similar": pl.Boolean,
    "may_strengthen": pl.Boolean,
}


def nearest_active(
    entries: pl.DataFrame,
    vectors: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    min_intake_similarity: float,
) -> pl.DataFrame:
    """K4: the active entry of the same scope and kind that each candidate comes closest to (NEAREST_SCHEMA).

    Candidates without an active neighbour, or without vectors, have no row.

    Args:
        entries: ENTRIES.
        vectors: float32 [W, d] unit rows: windows of the entries' texts.
        owner: int64 [W], row of ``entries`` each window belongs to.
        min_intake_similarity: calibrated similarity from which on a candidate counts as a restatement.
    """
    facts = entries.select("entry_id", "scope", "kind", "state", "text").with_row_index("row")
    candidates = facts.filter(pl.col("state") == State.CANDIDATE)
    if candidates.is_empty():
        return pl.DataFrame(schema=NEAREST_SCHEMA)
    texts, ids, kinds = facts["text"], facts["entry_id"], facts["kind"]
    rows = []
    # One search a scope and kind, so that scopes never meet; only those with a candidate are looked at.
    for place, members in facts.join(candidates.select("scope", "kind").unique(), on=["scope", "kind"]).group_by(
        "scope", "kind", maintain_order=True
    ):
        del place
        new = members.filter(pl.col("state") == State.CANDIDATE)["row"].to_numpy()
        old = members.filter(pl.col("state") == State.ACTIVE)["row"].to_numpy()
        query, base = np.flatnonzero(np.isin(owner, new)), np.flatnonzero(np.isin(owner, old))
        if not query.size or not base.size:
            continue
        index, similarity = nearest_neighbours(vectors[query], vectors[base], k=1)
        found = (
            pl.DataFrame({"new": owner[query], "old": owner[base][index[:, 0]], "similarity": similarity[:, 0]})
            .sort("new", "similarity", "old", descending=[False, True, False])
            .unique("new", keep="first", maintain_order=True)
        )
        for row, neighbour, cosine in found.iter_rows():
            too_similar = round(cosine, 5) >= min_intake_similarity
            comparison = compare(texts[row], texts[neighbour], kinds[row], kinds[neighbour]) if too_similar else None
            rows.append(
                {
                    "entry_id": ids[row],
                    "nearest_id": ids[neighbour],
                    "max_similarity": round(cosine, 5),
                    "too_similar": too_similar,
                    "may_strengthen": comparison is not None
                    and comparison.verdict in (Verdict.MERGE, Verdict.UNSURE)
                    and not comparison.specifics_only_l
                    and not comparison.specifics_only_r,
                }
            )
    return pl.DataFrame(rows, schema=NEAREST_SCHEMA)
