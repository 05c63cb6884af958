"""What a plan would do to the golden queries (X7): the eligible view before a run and as the plan would leave it.

Belongs here: putting readers and stages together for the check that stands before applying. Nothing here knows Dagster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.retrieval import load_facts
from kb_pipeline.adapters.runs import Run
from kb_pipeline.adapters.snapshots import load_open_conflicts
from kb_pipeline.defs.retrieval import View, golden_queries
from kb_pipeline.defs.search_index import SearchIndex
from kb_pipeline.policy.load import POLICY_FILE_VARIABLE
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.eligibility import Asked, judge_eligibility
from kb_pipeline.stages.planned_view import facts_after
from kb_pipeline.vocabulary import ActionType

if TYPE_CHECKING:
    from kb_pipeline.adapters.encoder import Encoder


def golden_path(policy: Policy, policy_file: str | Path | None = None) -> Path | None:
    """Where the golden queries of a policy are; None when it names none.

    Args:
        policy: the policy in force.
        policy_file: the user's policy file, else the one that ``KB_POLICY`` names: a relative path counts from its folder.
    """
    if policy.search.golden_queries is None:
        return None
    named = policy_file or os.environ.get(POLICY_FILE_VARIABLE)
    return (Path(named).parent if named else Path()) / policy.search.golden_queries


def measure_plan(
    database: Database,
    run: Run,
    policy: Policy,
    path: Path,
    plan: pl.DataFrame,
    conflicts: pl.DataFrame,
    encoder: Encoder,
) -> dict[str, Any]:
    """Hit rate and MRR before the run and after its plan.

    Keys: queries, within, hit_rate_before, hit_rate_after, mrr_before, mrr_after, fall (0-1, of the number that falls more)
    and worse (queries, numbered from 1, whose answer would stand later or be gone).

    Args:
        database: where from.
        run: whose plan it is.
        policy: how is searched, and within how many answers a hit counts.
        path: the file of golden queries.
        plan: PLAN.
        conflicts: CONFLICTS that the run found.
        encoder: the model of the run.

    Raises:
        UsageError: the file is not one of golden queries.
    """
    queries = golden_queries(path)
    facts = load_facts(database, run.corpus, as_of=run.as_of, last_seen=run.snapshot_change_id)
    opened, closed = (
        plan.filter(pl.col("action") == action).select("conflict_id")
        for action in (ActionType.OPEN_CONFLICT, ActionType.CLOSE_CONFLICT)
    )
    open_before = load_open_conflicts(database, run)
    open_after = pl.concat(
        [
            open_before.join(closed, on="conflict_id", how="anti"),
            conflicts.join(opened, on="conflict_id", how="semi"),
        ]
    )
    index, asked = SearchIndex(database, run.corpus, policy, facts, encoder), Asked(run.as_of)
    before, after = (
        View(run.corpus, policy, asked, held, judge_eligibility(held, policy.eligibility, asked), index).probe(queries)
        for held in (facts, facts_after(facts, plan, open_after))
    )
    return {
        "queries": before.query_count,
        "within": policy.search.hits_within,
        "hit_rate_before": before.hit_rate,
        "hit_rate_after": after.hit_rate,
        "mrr_before": before.mrr,
        "mrr_after": after.mrr,
        "fall": after.fall_since(before),
        "worse": after.worse_since(before),
    }
