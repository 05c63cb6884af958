"""Tokens for corpus statistics: distinct words per text, as a frame.

Belongs here: the vectorised tokeniser for distinctiveness (ledger K5) and word statistics (definitions, "Tokens"):
Unicode words, case-folded; scripts without spaces as character bigrams. Does not belong here: the canonical
sequence, which keeps order and signs.
"""

from __future__ import annotations

import polars as pl

_SPACELESS = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Javanese}"
)
_WORD = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_SPACELESS}]]"
_TOKEN = rf"{_WORD}+(?:['.]{_WORD}+)*|[{_SPACELESS}]+"
_RUN = rf"^[{_SPACELESS}]+$"


def token_sets(texts: pl.Series) -> pl.DataFrame:
    """Return the distinct tokens of each text.

    Args:
        texts: strings; a null text has no tokens.

    Returns:
        A frame with ``row`` (UInt32, the position in ``texts``) and ``token`` (String), each pair once, in no
        promised order. A text without tokens has no rows.
    """
    frame = (
        pl.DataFrame({"text": texts.cast(pl.String)}).with_row_index("row").with_columns(pl.col("row").cast(pl.UInt32))
    )
    ascii_only = frame.height == 0 or bool((frame["text"].str.len_bytes() == frame["text"].str.len_chars()).all())
    text = pl.col("text")
    if not ascii_only:
        text = text.str.normalize("NFC").str.replace_all("[’ʼ＇]", "'")
    words = (
        frame.lazy()
        .select("row", text.str.to_lowercase().str.extract_all(_TOKEN).list.unique().alias("token"))
        .explode("token")
        .drop_nulls("token")
        .collect()
    )
    if ascii_only:
        return words
    return _fold_unusual(words)


def _fold_unusual(words: pl.DataFrame) -> pl.DataFrame:
    """Case-fold what lower case leaves (ß, ς) and cut runs of spaceless scripts into bigrams."""
    is_run = pl.col("token").str.contains(_RUN)
    plain = words.filter(~is_run)
    unusual = plain["token"].filter(plain["token"].str.contains(r"[^\x00-\x7F]")).unique()
    folded = [token.casefold() for token in unusual]
    plain = plain.with_columns(pl.col("token").replace(unusual, pl.Series(folded, dtype=pl.String)))
    runs = words.filter(is_run)
    pairs = [
        runs.select("row", pl.col("token").str.slice(offset).str.extract_all("(?s)..").alias("token"))
        for offset in (0, 1)
    ]
    single = runs.filter(pl.col("token").str.len_chars() == 1)
    bigrams = pl.concat([frame.explode("token").drop_nulls("token") for frame in pairs])
    return pl.concat([plain, bigrams, single]).unique()
