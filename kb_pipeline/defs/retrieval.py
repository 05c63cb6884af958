"""The retrieval view of a corpus: eligible entries, excluded ones with reasons, search, and the golden-query probe.

Belongs here: putting readers and stages together for `kb eligible`, `kb search`, `kb explain` and whoever wants the same.
Nothing here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.retrieval import load_facts, read_golden_queries
from kb_pipeline.defs.search_index import SearchIndex
from kb_pipeline.errors import UnknownNameError, UsageError
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.eligibility import Asked, judge_eligibility, told_of
from kb_pipeline.stages.golden_queries import GoldenQuery, ProbeResult, last_of, probe
from kb_pipeline.vocabulary import ReasonCode

_SCOPE_FIELDS = ("tenant", "repository", "module")


@dataclass
class View:
    """What may be retrieved of a corpus, by whom and for where.

    Attributes:
        facts: RETRIEVAL_FACTS.
        eligibility: ELIGIBILITY of the same entries in the same order.
        index: searches these entries; views of one set of texts may share it.
    """

    corpus: str
    policy: Policy
    asked: Asked
    facts: pl.DataFrame
    eligibility: pl.DataFrame
    index: SearchIndex

    @property
    def eligible(self) -> pl.DataFrame:
        """RETRIEVAL_FACTS of the eligible entries, by id."""
        return self.facts.filter(self.eligibility["eligible"])

    @property
    def excluded(self) -> pl.DataFrame:
        """ELIGIBILITY of the excluded entries, by id. Entries of other tenants than the one asked for are not named."""
        foreign = self._foreign()
        return self.eligibility.filter(~pl.col("eligible") & ~foreign)

    @property
    def foreign_count(self) -> int:
        """Entries of other tenants than the one asked for."""
        return int(self._foreign().sum())

    def told(self, entry_id: str) -> dict[str, Any]:
        """Whether one entry may be retrieved, and every reason for or against, in words."""
        return told_of(self.eligibility.row(by_predicate=pl.col("entry_id") == entry_id, named=True))

    def search(self, query: str) -> tuple[pl.DataFrame, str | None]:
        """SEARCH over the eligible entries, and what a reader must know of how it was done (None: all as meant).

        Raises:
            UsageError: an empty query.
        """
        if not query.strip():
            raise UsageError("the query is empty: say what to look for")
        return self.index.rank(query, self.eligibility["eligible"])

    def probe(self, queries: Sequence[GoldenQuery], *, within: int | None = None) -> ProbeResult:
        """Hit rate and MRR of this view for golden queries (X7); the first ``within`` answers count, else policy says."""
        self.index.prepare([golden.query for golden in queries])
        return probe(
            queries,
            lambda query: self.search(query)[0]["entry_id"].to_list(),
            within=within or self.policy.search.hits_within,
            successors=self._successors(),
        )

    def expected(self, queries: Sequence[GoldenQuery]) -> dict[str, dict[str, Any]]:
        """Whether each entry that golden queries expect can be found: id -> status, reasons (codes) and why (a sentence).

        Status is ``eligible``, ``merged`` (found in the entry it went into), ``excluded`` or ``unknown``.
        """
        told = {row["entry_id"]: row for row in self.eligibility.iter_rows(named=True)}
        successors = self._successors()
        found: dict[str, dict[str, Any]] = {}
        for entry in dict.fromkeys(entry for golden in queries for entry in golden.expected_ids):
            last = last_of(entry, successors)
            if entry not in told:
                found[entry] = {"status": "unknown", "reasons": [], "why": "the corpus holds no such entry"}
            elif told[entry]["eligible"]:
                found[entry] = {"status": "eligible", "reasons": [], "why": "it may be retrieved"}
            elif last in told and told[last]["eligible"]:
                found[entry] = {"status": "merged", "reasons": [], "why": f"it was merged into {last}"}
            else:
                reasons = told[entry]["reasons"]
                found[entry] = {"status": "excluded", "reasons": reasons, "why": safe_warning(reasons)}
        return found

    def _successors(self) -> dict[str, str]:
        """Merged entry -> the entry it went into."""
        return dict(self.facts.select("entry_id", "merged_into").drop_nulls().iter_rows())

    def _foreign(self) -> pl.Series:
        tenant = self.asked.scope.get("tenant")
        if tenant is None:
            return pl.Series([False] * self.facts.height, dtype=pl.Boolean)
        return self.facts.select(pl.col("tenant").ne_missing(pl.lit(tenant))).to_series()


def open_view(
    database: Database,
    corpus: str,
    policy: Policy,
    *,
    now: datetime,
    as_of: datetime | None = None,
    scope: Mapping[str, str] | None = None,
    readers: Collection[str] = (),
    entry_ids: Sequence[str] | None = None,
) -> View:
    """The retrieval view of a corpus.

    Args:
        database: where from.
        corpus: which.
        policy: thresholds, and the scope fields beside tenant, repository and module.
        now: the clock.
        as_of: as it stood then; None is now.
        scope: field -> value; fields that are not named are not asked.
        readers: names that whoever asks goes by.
        entry_ids: only these entries; None is all.

    Raises:
        UnknownNameError: no such corpus, or no such scope field.
    """
    known = [*_SCOPE_FIELDS, *policy.scope_fields]
    for name in scope or {}:
        if name not in known:
            raise UnknownNameError("scope field", name, known, "Others are named by policy scope_fields.")
    facts = load_facts(database, corpus, as_of=as_of, entry_ids=entry_ids)
    asked = Asked(as_of or now, dict(scope or {}), tuple(readers))
    return View(
        corpus,
        policy,
        asked,
        facts,
        judge_eligibility(facts, policy.eligibility, asked),
        SearchIndex(database, corpus, policy, facts),
    )


def golden_queries(path: Path) -> list[GoldenQuery]:
    """The queries of a file.

    Raises:
        UsageError: the file is not one of golden queries; it names the line.
    """
    return [GoldenQuery(query, expected) for query, expected in read_golden_queries(path)]


def safe_warning(reasons: Sequence[str]) -> str:
    """What may be said of an excluded entry to whoever asked: why, and nothing of what it says."""
    from kb_pipeline.stages.report_words import reason_words

    guarded = ReasonCode.ELIGIBILITY_NOT_PERMITTED.value
    told = [guarded] if guarded in reasons else list(reasons)
    return " ".join(reason_words(reason) for reason in told)
