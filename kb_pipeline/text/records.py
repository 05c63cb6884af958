"""A machine's record of one occasion, told from knowledge by form (ledger P7).

Belongs here: what such a text looks like, as expressions over whole frames. Does not belong here: what is done about one;
the flags ask a person, and the search by shared words leaves it alone.
"""

from __future__ import annotations

import polars as pl

from kb_pipeline.text import phrases

_MAX_RECORD_CHARS = 800
_FEWEST_FIELDS = 3


def beyond_title() -> pl.Expr:
    """What ``text`` says beyond ``title`` (columns of ENTRIES): empty when it is the title alone."""
    title, text = pl.col("title").fill_null(""), pl.col("text")
    return (
        pl.when(text.str.strip_chars() == title.str.strip_chars())
        .then(pl.lit(""))
        .when((title != "") & text.str.starts_with(pl.concat_str(title, pl.lit("\n"))))
        .then(text.str.slice(title.str.len_chars() + 1))
        .otherwise(text)
    )


def is_record(body: pl.Expr) -> pl.Expr:
    """Whether a text is a machine's record of one occasion, without anything that holds beyond it; null for a long text.

    Args:
        body: what ``text`` (column of ENTRIES) says beyond its title, as ``beyond_title`` gives it.
    """
    short = pl.col("text").str.len_chars() <= _MAX_RECORD_CHARS
    said = pl.when(short).then(pl.when(body.str.strip_chars() == "").then("text").otherwise(body))
    fields = said.str.count_matches(phrases.plain_edges(phrases.RECORD_FIELD)) >= _FEWEST_FIELDS
    event = _has(said, phrases.EVENT) & _has(said, phrases.INSTANCE)
    return (fields | event | _has(said, phrases.LOG_LINE)) & ~_has(said, phrases.GUIDANCE)


def _has(text: pl.Expr, pattern: str) -> pl.Expr:
    return text.str.contains(phrases.plain_edges(pattern))
