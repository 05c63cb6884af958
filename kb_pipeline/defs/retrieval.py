"""The retrieval view of a corpus: eligible entries, excluded ones with reasons, search, and the golden-query probe.

Belongs here: putting readers and stages together for `kb eligible`, `kb search`, `kb explain` and whoever wants the same.
Nothing here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.retrieval import load_facts, read_golden_queries
from kb_pipeline.errors import EncoderError, UnknownNameError, UsageError
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.eligibility import Asked, judge_eligibility, told_of
from kb_pipeline.stages.golden_queries import GoldenQuery, ProbeResult, probe
from kb_pipeline.stages.search import best_windows, rank_entries
from kb_pipeline.vocabulary import ReasonCode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kb_pipeline.adapters.encoder import Encoder

_SCOPE_FIELDS = ("tenant", "repository", "module")


@dataclass
class View:
    """What may be retrieved of a corpus, by whom and for where.

    Attributes:
        facts: RETRIEVAL_FACTS.
        eligibility: ELIGIBILITY of the same entries in the same order.
    """

    database: Database
    corpus: str
    policy: Policy
    asked: Asked
    facts: pl.DataFrame
    eligibility: pl.DataFrame
    _vectors: tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] | None = field(default=None, repr=False)
    _encoder: Encoder | None = field(default=None, repr=False)

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
        found = self.eligible
        similarity, note = self._similarity(query, found)
        return rank_entries(found.select("entry_id", "text"), query, similarity, self.policy.search), note

    def probe(self, path: Path) -> ProbeResult:
        """Hit rate and MRR of this view for a file of golden queries (X7).

        Raises:
            UsageError: the file is not one of golden queries.
        """
        queries = [GoldenQuery(query, expected) for query, expected in read_golden_queries(path)]
        return probe(queries, lambda query: self.search(query)[0]["entry_id"].to_list())

    def _foreign(self) -> pl.Series:
        tenant = self.asked.scope.get("tenant")
        if tenant is None:
            return pl.Series([False] * self.facts.height, dtype=pl.Boolean)
        return self.facts.select(pl.col("tenant").ne_missing(pl.lit(tenant))).to_series()

    def _similarity(self, query: str, found: pl.DataFrame) -> tuple[npt.NDArray[np.float64] | None, str | None]:
        from kb_pipeline.adapters.encoder import load_encoder

        try:
            if self._encoder is None:
                self._encoder = load_encoder(self.policy.encoder.model, self.policy.encoder.batch_size)
            if self._vectors is None:
                self._vectors = read_vectors(
                    self.database, self.corpus, self._encoder.fingerprint, found["content_hash"]
                )
            vectors, owner = self._vectors
            if not len(owner):
                return None, "ranked by words alone: the corpus has no vectors yet (kb curate makes them)"
            asked, _ = self._encoder.encode([query])
        except EncoderError as error:
            return None, f"ranked by words alone: {error}"
        if not len(asked):
            return None, "ranked by words alone: the model finds nothing to encode in the query"
        without = found.height - len(set(owner.tolist()))
        note = (
            f"{without:,} of {found.height:,} entries have no vectors yet and are ranked by words alone"
            if without
            else None
        )
        return best_windows(vectors, owner, asked, found.height), note


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
    return View(database, corpus, policy, asked, facts, judge_eligibility(facts, policy.eligibility, asked))


def safe_warning(reasons: Sequence[str]) -> str:
    """What may be said of an excluded entry to whoever asked: why, and nothing of what it says."""
    from kb_pipeline.stages.report_words import reason_words

    guarded = ReasonCode.ELIGIBILITY_NOT_PERMITTED.value
    told = [guarded] if guarded in reasons else list(reasons)
    return " ".join(reason_words(reason) for reason in told)
