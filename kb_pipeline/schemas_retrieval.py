"""The frames of retrieval: what decides on eligibility, what was decided, and the results of a search.

Belongs here: shape, as in ``schemas``; these frames flow within one command, not between the steps of a run.
"""

from __future__ import annotations

import polars as pl

from kb_pipeline.schemas import Column, FrameSchema, Texts, Time

RETRIEVAL_FACTS = FrameSchema(
    "retrieval_facts",
    "what decides whether an entry may be retrieved, and what is searched",
    {
        "entry_id": Column(pl.String, "the entry"),
        "kind": Column(pl.String, "what sort of knowledge"),
        "title": Column(pl.String, "title, or the body's first line"),
        "text": Column(pl.String, "all text of the entry"),
        "content_hash": Column(pl.String, "SHA-256 of the text fields"),
        "tenant": Column(pl.String, "owner of the entry", nullable=True),
        "repository": Column(pl.String, "repository it is about", nullable=True),
        "module": Column(pl.String, "module it is about", nullable=True),
        "extra": Column(pl.String, "its unknown fields, as JSON", nullable=True),
        "state": Column(pl.String, "state"),
        "merged_into": Column(pl.String, "the entry it was merged into", nullable=True),
        "quality_score": Column(pl.Float64, "its quality score, 0-1", nullable=True),
        "review_state": Column(pl.String, "what a person said of it"),
        "sensitivity": Column(pl.String, "who may see it"),
        "visible_to": Column(Texts, "who alone may see it; empty: whoever the sensitivity allows"),
        "confidence": Column(pl.Float64, "the entry's own confidence, 0-1", nullable=True),
        "expires_at": Column(Time, "when its time is over", nullable=True),
        "conflict_state": Column(pl.String, "whether it stands in an open conflict"),
        "severe_conflicts": Column(Texts, "entries it is in an open conflict of high severity with"),
        "mild_conflicts": Column(Texts, "other open conflicts, as: id (severity word)"),
        "holds_secret": Column(pl.Boolean, "its text seems to hold a secret"),
    },
    key=("entry_id",),
)

ELIGIBILITY = FrameSchema(
    "eligibility",
    "whether an entry may be retrieved, with every reason against it (M13)",
    {
        "entry_id": Column(pl.String, "the entry"),
        "eligible": Column(pl.Boolean, "nothing speaks against it"),
        "reasons": Column(Texts, "reason codes that speak against it"),
        "words": Column(Texts, "the same in words, without anything of its text"),
        "notes": Column(Texts, "what a reader should know although it keeps nobody out"),
    },
    key=("entry_id",),
)

SEARCH = FrameSchema(
    "search_results",
    "entries in the order in which they answer a query",
    {
        "entry_id": Column(pl.String, "the entry"),
        "score": Column(pl.Float64, "sum of the reciprocal ranks, weighted by quality"),
        "similarity": Column(pl.Float64, "best cosine of the query with a window of the text", nullable=True),
        "word_score": Column(pl.Float64, "BM25 of the query's words; 0: none of them"),
        "quality_score": Column(pl.Float64, "the entry's quality score, 0-1", nullable=True),
    },
    key=("entry_id",),
)
