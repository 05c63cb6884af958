"""The checks between plan and apply: what no plan may ever do, and what deserves a warning.

Each check is a function of frames that says what it found. A failed blocking check stops the run before anything is
applied (exit 4); the others only speak. Blast radius is ledger X4; the list is that of the house.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kb_pipeline.policy.model import Policy
from kb_pipeline.transitions import BY_PERSON_ONLY, TRANSITIONS
from kb_pipeline.vocabulary import LIVE_STATES, ActionType, Band, Severity, State, Verdict


@dataclass(frozen=True)
class CheckResult:
    """What a check found. ``numbers`` are shown as metadata; ``sentence`` is for people."""

    name: str
    passed: bool
    sentence: str
    blocking: bool = True
    numbers: dict[str, Any] = field(default_factory=dict)


BLOCKING = (
    "schema",
    "no_entry_lost",
    "one_transition_per_entry",
    "allowed_transitions",
    "winners_stay",
    "scope_not_crossed",
    "specifics_equal",
    "blast_radius",
    "gold_precision",
    "golden_queries",
)
_LISTED_QUERIES = 10
WARNING = ("coverage", "distinctiveness_drift", "borderline_backlog", "judge_degraded")


def check_plan(
    policy: Policy,
    entries: pl.DataFrame,
    plan: pl.DataFrame,
    verdicts: pl.DataFrame,
    *,
    expected_count: int,
    allow_large_change: bool,
) -> list[CheckResult]:
    """The blocking checks on a plan, in the order of BLOCKING.

    ``schema``, ``gold_precision`` and ``golden_queries`` are asked elsewhere: they need a library's help, no plan, or a search.

    Args:
        policy: blast radius limits.
        entries: ENTRIES.
        plan: PLAN.
        verdicts: VERDICTS.
        expected_count: entries that the database holds for this week.
        allow_large_change: the operator lets a large change pass.
    """
    return [
        no_entry_lost(entries, plan, expected_count),
        one_transition_per_entry(plan),
        allowed_transitions(entries, plan),
        winners_stay(entries, plan),
        scope_not_crossed(entries, plan),
        specifics_equal(plan, verdicts),
        blast_radius(policy, entries, plan, allow_large_change=allow_large_change),
    ]


def no_entry_lost(entries: pl.DataFrame, plan: pl.DataFrame, expected_count: int) -> CheckResult:
    """Every entry of the database was looked at, and every planned entry exists."""
    problems = []
    if entries.height != expected_count:
        problems.append(f"{entries.height} entries were read, the database holds {expected_count}")
    named = pl.concat([plan["entry_id"], plan["other_entry_id"]]).drop_nulls().unique()
    if unknown := named.filter(~named.is_in(entries["entry_id"].implode())).sort().to_list():
        problems.append(f"the plan names unknown entries {unknown[:5]}")
    return _result("no_entry_lost", problems, f"all {expected_count} entries are there", entries=entries.height)


def one_transition_per_entry(plan: pl.DataFrame) -> CheckResult:
    """No entry changes state twice in one run."""
    moved = plan.filter(pl.col("to_state").is_not_null())
    twice = moved.group_by("entry_id").len().filter(pl.col("len") > 1)["entry_id"].sort().to_list()
    return _result(
        "one_transition_per_entry",
        [f"{len(twice)} entries would change state more than once, e.g. {twice[:5]}"] if twice else [],
        f"{moved.height} entries change state, each once",
        transitions=moved.height,
    )


def allowed_transitions(entries: pl.DataFrame, plan: pl.DataFrame) -> CheckResult:
    """Every change of state begins where the entry is, stands in the table, and is no person's alone (M1)."""
    moved = plan.filter(pl.col("to_state").is_not_null()).join(
        entries.select("entry_id", "state"), on="entry_id", how="left", maintain_order="left"
    )
    wrong = []
    for entry, old, new, state in moved.select("entry_id", "from_state", "to_state", "state").iter_rows():
        if state is not None and old != state:
            wrong.append(f"{entry} is {state} and not {old}")
        elif State(new) not in TRANSITIONS[State(old)] or (State(old), State(new)) in BY_PERSON_ONLY:
            wrong.append(f"{entry} {old} -> {new}")
    return _result("allowed_transitions", wrong[:5], "every change of state is an allowed one")


def winners_stay(entries: pl.DataFrame, plan: pl.DataFrame) -> CheckResult:
    """An entry that takes another one in is active and stays so."""
    winners = plan.filter(pl.col("action") == ActionType.MERGE)["other_entry_id"].unique()
    leaving = plan.filter(pl.col("to_state").is_not_null() & ~pl.col("to_state").is_in(LIVE_STATES))["entry_id"]
    active = entries.filter(pl.col("state") == State.ACTIVE)["entry_id"]
    lost = winners.filter(winners.is_in(leaving.implode()) | ~winners.is_in(active.implode())).sort().to_list()
    problems = [f"entries {lost[:5]} take others in and do not stay active"] if lost else []
    return _result("winners_stay", problems, f"{len(winners)} winners stay active")


def scope_not_crossed(entries: pl.DataFrame, plan: pl.DataFrame) -> CheckResult:
    """Merges and strengthening stay within one scope and kind (definitions, "Pairs")."""
    pairs = plan.filter(pl.col("action").is_in([ActionType.MERGE, ActionType.STRENGTHEN]))
    scope = entries.select("entry_id", pl.struct("scope", "kind").alias("place"))
    crossed = (
        pairs.select("entry_id", "other_entry_id")
        .join(scope, on="entry_id", how="left")
        .join(scope, left_on="other_entry_id", right_on="entry_id", how="left", suffix="_other")
        .filter(pl.col("place").ne_missing(pl.col("place_other")))
    )
    problems = [f"{a} and {b} differ in scope or kind" for a, b, *_ in crossed.head(5).iter_rows()]
    return _result("scope_not_crossed", problems, f"{pairs.height} merges and strengthenings stay within their scope")


def specifics_equal(plan: pl.DataFrame, verdicts: pl.DataFrame) -> CheckResult:
    """Every automatic merge rests on a verdict MERGE whose two texts have the same specifics (X1).

    Within a cluster - the winner and all that go into it - such verdicts lead from every loser to the winner, and no
    verdict says anything else.
    """
    merges = plan.filter(pl.col("action") == ActionType.MERGE).select("entry_id", "other_entry_id")
    winner = pl.col("other_entry_id").alias("winner")
    cluster = pl.concat(
        [merges.select(winner, pl.col("entry_id").alias("member")), merges.select(winner, winner.alias("member"))]
    ).unique()
    within = (
        verdicts.join(cluster, left_on="entry_id_l", right_on="member")
        .join(cluster, left_on="entry_id_r", right_on="member", suffix="_r")
        .filter(pl.col("winner") == pl.col("winner_r"))
        .sort("entry_id_l", "entry_id_r")
        .with_columns(
            (
                (pl.col("verdict") == Verdict.MERGE)
                & (pl.col("specifics_only_l").list.len() == 0)
                & (pl.col("specifics_only_r").list.len() == 0)
            ).alias("agrees")
        )
    )
    leader: dict[str, str] = {}
    for left, right in within.filter("agrees").select("entry_id_l", "entry_id_r").iter_rows():
        leader[_root(leader, right)] = _root(leader, left)
    silent = [(loser, stays) for loser, stays in merges.iter_rows() if _root(leader, loser) != _root(leader, stays)]
    differing = within.filter(~pl.col("agrees")).select("entry_id_l", "entry_id_r").head(5)
    problems = [f"{a} and {b} would merge though their specifics differ" for a, b in differing.iter_rows()]
    problems += [f"{a} would go into {b} though no verdict says so" for a, b in silent[:5]]
    return _result("specifics_equal", problems, f"the specifics of all {merges.height} merges agree")


def blast_radius(policy: Policy, entries: pl.DataFrame, plan: pl.DataFrame, *, allow_large_change: bool) -> CheckResult:
    """X4: per tenant and repository, no more leaves the active entries than policy allows."""
    leaving = plan.filter((pl.col("from_state") == State.ACTIVE) & pl.col("to_state").is_not_null())
    shares = (
        entries.select("entry_id", "tenant", "repository", (pl.col("state") == State.ACTIVE).alias("active"))
        .with_columns(pl.col("entry_id").is_in(leaving["entry_id"].implode()).alias("changes"))
        .group_by("tenant", "repository")
        .agg(pl.col("active").sum(), pl.col("changes").sum())
        .with_columns(
            pl.max_horizontal(
                pl.lit(float(policy.apply.min_changed_entries)), pl.col("active") * policy.apply.max_changed_share
            ).alias("limit")
        )
        .sort("tenant", "repository")
    )
    over = shares.filter(pl.col("changes") > pl.col("limit"))
    problems = [
        f"{_place(row)}: {row['changes']} of {row['active']} active entries would change, {row['limit']:g} are allowed "
        "(apply.max_changed_share, apply.min_changed_entries; --allow-large-change lets it pass)"
        for row in over.iter_rows(named=True)
    ]
    numbers = {"largest_change": int(shares["changes"].max() or 0), "places_over_limit": over.height}  # type: ignore[arg-type]
    if problems and allow_large_change:
        return CheckResult("blast_radius", True, "allowed by the operator: " + "; ".join(problems), numbers=numbers)
    sentence = "the change is small enough in every repository"
    return _result("blast_radius", problems, sentence, **numbers)


def gold_precision(policy: Policy, measured: Mapping[str, Any]) -> CheckResult:
    """X6 (judge.min_gold_precision): what the rules merge on the gold set is right.

    Args:
        policy: the limit.
        measured: counts and rates of the rule judge over the whole gold set, see the evaluation stage.
    """
    merges, wrong, pairs = measured["merges"], measured["false_merges"], measured["pairs"]
    numbers = {"gold_pairs": pairs, "gold_merges": merges, "gold_false_merges": wrong}
    limit, precision = policy.judge.min_gold_precision, measured["precision"]
    if precision is None:
        return CheckResult("gold_precision", True, f"the rules merge none of {pairs} gold pairs", numbers=numbers)
    # From the counts: a rounded precision could hide one wrong merge of many thousands.
    problem = (
        f"{wrong} of {merges} merges by rule on the gold set are wrong: precision {precision:g}, "
        f"judge.min_gold_precision = {limit:g} (kb eval pairs gold --every-pair --judge rule shows them)"
    )
    too_low = merges - wrong < limit * merges
    sentence = f"{merges - wrong} of {merges} merges by rule on the gold set are right"
    return _result("gold_precision", [problem] if too_low else [], sentence, **numbers)


def golden_queries(policy: Policy, measured: Mapping[str, Any] | None) -> CheckResult:
    """X7 (search.max_golden_drop): queries with known answers find them as well after the plan as before it.

    Args:
        policy: the limit.
        measured: numbers of the golden queries before the run and after its plan; None when policy names no file.
    """
    if measured is None:
        return CheckResult("golden_queries", True, "no golden queries are set (search.golden_queries)")
    names = ("hit_rate_before", "hit_rate_after", "mrr_before", "mrr_after")
    numbers = {"queries": measured["queries"], **{name: round(measured[name], 4) for name in names}}
    sentence = (
        f"{measured['queries']} golden queries: hit rate within {measured['within']} {numbers['hit_rate_before']:g} before "
        f"and {numbers['hit_rate_after']:g} after, mean reciprocal rank {numbers['mrr_before']:g} before and "
        f"{numbers['mrr_after']:g} after"
    )
    limit, worse = policy.search.max_golden_drop, measured["worse"]
    if measured["fall"] <= limit:
        return CheckResult("golden_queries", True, sentence, numbers=numbers)
    listed = ", ".join(map(str, worse[:_LISTED_QUERIES])) + (", …" if len(worse) > _LISTED_QUERIES else "")
    problem = f"{sentence}; search.max_golden_drop = {limit:g} is the most that may be lost; worse are queries {listed}"
    return CheckResult("golden_queries", False, problem, numbers=numbers)


def check_health(
    policy: Policy,
    distinctiveness: pl.DataFrame,
    previous_mean: float | None,
    verdicts: pl.DataFrame,
    queue: pl.DataFrame,
    *,
    not_looked_at: dict[str, int],
) -> list[CheckResult]:
    """The warning checks, in the order of WARNING.

    Args:
        policy: limits.
        distinctiveness: DISTINCTIVENESS.
        previous_mean: mean distinctiveness of the week before, None in the first week.
        verdicts: VERDICTS.
        queue: QUEUE after the run.
        not_looked_at: reason -> number of entries or pairs that a step left out though it should see them.
    """
    missed = {reason: number for reason, number in not_looked_at.items() if number}
    mean = distinctiveness["distinctiveness"].mean()
    drift = None if previous_mean is None or not isinstance(mean, float) else abs(mean - previous_mean)
    limit = policy.checks.max_distinctiveness_drift
    borderline = set(
        verdicts.filter((pl.col("band") == Band.BORDERLINE) & (pl.col("verdict") == Verdict.UNSURE))
        .select(pl.concat_list("entry_id_l", "entry_id_r"))
        .to_series()
        .list.join("\x1f")
        .to_list()
    )
    waiting = queue.filter(pl.col("entry_ids").list.join("\x1f").is_in(sorted(borderline))).height
    failed = int(verdicts["failed"].sum())
    return [
        CheckResult(
            "coverage",
            not missed,
            "everything was looked at"
            if not missed
            else "not looked at: " + ", ".join(f"{number} {reason}" for reason, number in sorted(missed.items())),
            blocking=False,
            numbers=missed,
        ),
        CheckResult(
            "distinctiveness_drift",
            drift is None or drift <= limit,
            "no week before to compare with" if drift is None else f"the mean moved by {drift:.3f} (limit {limit:g})",
            blocking=False,
            numbers={} if not isinstance(mean, float) else {"mean": round(mean, 4)},
        ),
        CheckResult(
            "borderline_backlog",
            waiting <= policy.checks.max_borderline_backlog,
            f"{waiting} borderline pairs wait for a person (limit {policy.checks.max_borderline_backlog})",
            blocking=False,
            numbers={"waiting": waiting},
        ),
        CheckResult(
            "judge_degraded",
            failed == 0,
            "the judge answered every pair" if not failed else f"the judge failed on {failed} pairs: they are kept",
            blocking=False,
            numbers={"failed": failed},
        ),
    ]


def severity_of(policy: Policy, result: CheckResult) -> Severity:
    """HIGH blocks or fails, LOW warns: what the policy says, else blocking checks are errors."""
    chosen = policy.checks.severity.get(result.name, "error" if result.blocking else "warn")
    return Severity.HIGH if chosen == "error" else Severity.LOW


def _root(leader: dict[str, str], entry_id: str) -> str:
    while leader.setdefault(entry_id, entry_id) != entry_id:
        entry_id = leader[entry_id]
    return entry_id


def _place(row: dict[str, Any]) -> str:
    return "/".join(str(row[name]) for name in ("tenant", "repository") if row[name] is not None) or "no repository"


def _result(name: str, problems: list[str], sentence: str, **numbers: Any) -> CheckResult:
    return CheckResult(name, not problems, "; ".join(problems) if problems else sentence, numbers=numbers)
