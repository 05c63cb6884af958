"""What a search reads of a corpus, each thing once: tokens, vectors and the vectors of queries.

Belongs here: putting caches, encoder and the search stage together for views of one set of entries, whatever they hold
eligible. Nothing here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from kb_pipeline.adapters.caches import read_vectors
from kb_pipeline.adapters.database import Database
from kb_pipeline.errors import EncoderError
from kb_pipeline.policy.model import Policy
from kb_pipeline.stages.search import best_windows, rank_entries
from kb_pipeline.text.tokens import token_sets

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kb_pipeline.adapters.encoder import Encoder

    Vectors = npt.NDArray[np.float32]

_NO_VECTORS = "ranked by words alone: the corpus has no vectors yet (kb curate makes them)"


class SearchIndex:
    """Ranks entries of ``facts`` (RETRIEVAL_FACTS); nothing is read or encoded before a query needs it."""

    def __init__(
        self, database: Database, corpus: str, policy: Policy, facts: pl.DataFrame, encoder: Encoder | None = None
    ) -> None:
        """An index over these entries.

        Args:
            database: where the vectors are.
            corpus: whose texts these are.
            policy: the model, and how ranks are joined.
            facts: RETRIEVAL_FACTS of all entries that a view may hold.
            encoder: the model, if it is loaded already.
        """
        self._database = database
        self._corpus = corpus
        self._policy = policy
        self._facts = facts.select("entry_id", "text", "content_hash", "quality_score").with_row_index("place")
        self._encoder = encoder
        self._tokens: pl.DataFrame | None = None
        self._held: tuple[pl.Series, pl.DataFrame, pl.DataFrame] | None = None
        self._vectors: tuple[Vectors, npt.NDArray[np.int64]] | None = None
        self._queries: dict[str, Vectors] = {}

    def rank(self, query: str, eligible: pl.Series) -> tuple[pl.DataFrame, str | None]:
        """SEARCH over the eligible entries, and what a reader must know of how it was done (None: all as meant).

        Args:
            query: what is looked for.
            eligible: Boolean, one for each row of ``facts``.
        """
        held, tokens = self._held_by(eligible)
        similarity, note = self._similarity(query, held)
        return rank_entries(held, query, similarity, self._policy.search, tokens), note

    def _held_by(self, eligible: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The eligible entries and their tokens, numbered from 0; kept for as long as the same view asks."""
        if self._held is None or not self._held[0].equals(eligible):
            held = self._facts.filter(eligible)
            if self._tokens is None:
                self._tokens = token_sets(self._facts["text"])
            places = held.select(pl.col("place").alias("row")).with_row_index("new_row")
            tokens = self._tokens.join(places, on="row").select(pl.col("new_row").alias("row"), "token")
            self._held = eligible, held, tokens
        return self._held[1:]

    def prepare(self, queries: Sequence[str]) -> None:
        """Encodes queries together, which is several times faster than one by one. Without a model nothing happens."""
        todo = [query for query in dict.fromkeys(queries) if query not in self._queries]
        try:
            vectors, owner = self._model().encode(todo)
        except EncoderError:  # ``rank`` says so of each query
            return
        self._queries |= {query: vectors[owner == place] for place, query in enumerate(todo)}

    def _similarity(self, query: str, held: pl.DataFrame) -> tuple[npt.NDArray[np.float64] | None, str | None]:
        try:
            asked = self._encoded(query)
            vectors, owner = self._stored()
        except EncoderError as error:
            return None, f"ranked by words alone: {error}"
        if not len(owner):
            return None, _NO_VECTORS
        if not len(asked):
            return None, "ranked by words alone: the model finds nothing to encode in the query"
        best = best_windows(vectors, owner, asked, self._facts.height)[held["place"].to_numpy()]
        without = int((best != best).sum())
        if without == held.height:
            return None, _NO_VECTORS
        note = f"{without:,} of {held.height:,} entries have no vectors yet and are ranked by words alone"
        return best, note if without else None

    def _model(self) -> Encoder:
        if self._encoder is None:
            from kb_pipeline.adapters.encoder import load_encoder

            self._encoder = load_encoder(self._policy.encoder.model, self._policy.encoder.batch_size)
        return self._encoder

    def _stored(self) -> tuple[Vectors, npt.NDArray[np.int64]]:
        if self._vectors is None:
            hashes = self._facts["content_hash"]
            self._vectors = read_vectors(self._database, self._corpus, self._model().fingerprint, hashes)
        return self._vectors

    def _encoded(self, query: str) -> Vectors:
        if query not in self._queries:
            self._queries[query] = self._model().encode([query])[0]
        return self._queries[query]
