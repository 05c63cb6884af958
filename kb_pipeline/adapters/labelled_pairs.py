"""Files of labelled pairs: two texts or import rows a line, and what a reader says of them (JSONL, plain or gzip).

Belongs here: reading and checking such a file, and making entries of its pairs. Does not belong here: judging them.

Each pair stands in a scope of its own, as if it were a corpus of two entries: nothing is compared across pairs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.row_changes import version_of
from kb_pipeline.adapters.rows import ImportRow, RowFault, read_json_row
from kb_pipeline.adapters.snapshots import with_scope_and_text
from kb_pipeline.errors import LabelledPairsError
from kb_pipeline.vocabulary import Kind, PairLabel, State

NO_STRATUM = "all"
"""Stratum of pairs that name none."""

ALL_STRATA = "total"
"""No stratum may have this name: it is that of the row over all of them."""

_SCOPE = ("tenant", "repository", "module")
_UNDATED = datetime(2020, 1, 6, tzinfo=UTC)
_RAW_SCHEMA: dict[str, Any] = (
    dict.fromkeys(("entry_id", "pair_id", "kind", "tenant", "repository", "module", "title", "body"), pl.String)
    | dict.fromkeys(("rationale", "alternatives", "steps", "content_hash", "review_state", "sensitivity"), pl.String)
    | dict.fromkeys(("state", "state_reason", "merged_into", "conflict_state", "extra"), pl.String)
    | dict.fromkeys(("supersedes", "generated_from", "invalidation_policy"), pl.String)
    | dict.fromkeys(("pinned", "keep_distinct"), pl.Boolean)
    | dict.fromkeys(("attempts", "successes", "retrievals", "evidence_count"), pl.Int64)
    | dict.fromkeys(("created_at", "updated_at", "expires_at", "last_validated_at", "first_effective_at"), schemas.Time)
    | dict.fromkeys(("state_changed_at", "last_matched_at", "last_retrieved_at"), schemas.Time)
    | {"confidence": pl.Float64}
)


@dataclass(frozen=True)
class LabelledPairs:
    """Labelled pairs of a file, in its order.

    ``pairs`` has the columns pair_id, stratum, label (a ``PairLabel``), a and b (as they stood in the file, JSON),
    entry_id_l and entry_id_r. ``entries`` are their ENTRIES without text features, by id; a is always the left one.
    """

    pairs: pl.DataFrame
    entries: pl.DataFrame


def read_labelled_pairs(
    path: Path,
    *,
    mapping: Mapping[str, PairLabel] | None = None,
    kind: Kind = Kind.FACT,
    scope_fields: tuple[str, ...] = (),
    max_body_chars: int,
) -> LabelledPairs:
    """The pairs of a file.

    Args:
        path: JSONL; each line an object with ``a`` and ``b`` (a text or an import row), ``label`` and, if it likes,
            ``stratum``. A row needs no id; what it does not say of kind and scope is as on the other side.
        mapping: label of the file -> what it means; labels that are words of ``PairLabel`` mean themselves.
        kind: kind of pairs of which neither side says one.
        scope_fields: unknown fields of a row that belong to its scope (policy ``scope_fields``).
        max_body_chars: a longer text is an error (policy ``load.max_body_chars``).

    Raises:
        LabelledPairsError: the file cannot be read, holds no pair, a line is no labelled pair, or a label has no meaning.
    """
    meanings = {label.value: label for label in PairLabel} | dict(mapping or {})
    unmapped: Counter[str] = Counter()
    listed: list[dict[str, Any]] = []
    raw: list[dict[str, Any]] = []
    for line, pair in _lines(path):
        missing = [name for name in ("a", "b", "label") if pair.get(name) is None]
        if missing:
            raise LabelledPairsError.wrong_line(path, line, missing[0], "is required")
        shown = _label_text(pair["label"])
        if shown not in meanings:
            unmapped[shown] += 1
            continue
        pair_id = f"{line:08d}"
        # Rows first: what is wrong with one is not blamed on the text that takes its place over from it.
        read = {
            side: _row(path, line, side, pair, kind) for side in sorted("ab", key=lambda s: isinstance(pair[s], str))
        }
        sides = {f"{pair_id}-{side}": read[side] for side in ("a", "b")}
        for entry_id, row in sides.items():
            if len(row.body or "") > max_body_chars:
                problem = f"has more characters than load.max_body_chars = {max_body_chars} allows"
                raise LabelledPairsError.wrong_line(path, line, entry_id[-1], problem)
            raw.append(_entry(path, line, pair_id, entry_id, row))
        left, right = sides
        a, b = (json.dumps(pair[side], ensure_ascii=False) for side in ("a", "b"))
        stratum = NO_STRATUM if pair.get("stratum") is None else str(pair["stratum"])
        if stratum == ALL_STRATA:
            raise LabelledPairsError.wrong_line(path, line, "stratum", f"{stratum!r} is the name of the row over all")
        listed.append(
            {"pair_id": pair_id, "stratum": stratum, "label": meanings[shown].value, "a": a, "b": b}
            | {"entry_id_l": left, "entry_id_r": right}
        )
    if unmapped:
        raise LabelledPairsError.unmapped(path, unmapped, sorted(label.value for label in PairLabel))
    if not listed:
        raise LabelledPairsError.empty(path)
    return LabelledPairs(
        pl.DataFrame(listed, schema=dict.fromkeys(listed[0], pl.String)),
        _entries(pl.DataFrame(raw, schema=_RAW_SCHEMA), scope_fields),
    )


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
                if not text:
                    continue
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise LabelledPairsError.wrong_line(path, number, "line", f"is not JSON ({error})") from error
                if not isinstance(value, dict):
                    raise LabelledPairsError.wrong_line(path, number, "line", "is not an object with a, b and label")
                yield number, value
    except (OSError, EOFError, zlib.error) as error:
        raise LabelledPairsError.unreadable(path, error) from error


def _label_text(label: Any) -> str:
    """A label as a mapping names it: texts as they are, numbers and the like as JSON writes them."""
    return label.strip() if isinstance(label, str) else json.dumps(label)


def _row(path: Path, line: int, side: str, pair: Mapping[str, Any], kind: Kind) -> ImportRow:
    """One side of a pair as an import row; what it leaves open of kind and scope is as on the other side."""
    own, other = pair[side], pair["b" if side == "a" else "a"]
    values = {"body": own} if isinstance(own, str) else own
    if not isinstance(values, dict):
        raise LabelledPairsError.wrong_line(path, line, side, "is neither a text nor an import row")
    # A text has no place of its own; a row says where it belongs, and says so by leaving fields out as well.
    shared = other if isinstance(other, dict) else {}
    place = {} if isinstance(own, dict) else {name: value for name, value in shared.items() if name not in _OWN_FIELDS}
    whole = {"kind": shared["kind"] if shared.get("kind") in set(Kind) else kind.value}
    whole |= place | {"id": f"{line}{side}"} | values
    try:
        return read_json_row(json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except RowFault as fault:
        raise LabelledPairsError.wrong_line(path, line, f"{side}.{fault.field}", fault.reason) from fault


_OWN_FIELDS = frozenset(ImportRow.model_fields) - set(_SCOPE)
"""What one row says of itself alone. Unknown fields may belong to the scope, so a text beside a row takes them over."""


def _entry(path: Path, line: int, pair_id: str, entry_id: str, row: ImportRow) -> dict[str, Any]:
    """Columns of _RAW_SCHEMA."""
    try:
        version = version_of(row)
    except RowFault as fault:
        raise LabelledPairsError.wrong_line(path, line, f"{entry_id[-1]}.{fault.field}", fault.reason) from fault
    since = row.updated_at or row.created_at or _UNDATED
    known = {
        "entry_id": entry_id,
        "pair_id": pair_id,
        "first_effective_at": since,
        "state": row.state or State.ACTIVE,
        "state_reason": row.state_reason,
        "state_changed_at": row.state_changed_at or since,
        "merged_into": row.merged_into,
        "conflict_state": row.conflict_state or "none",
        "last_matched_at": row.last_matched_at,
        "last_retrieved_at": row.last_retrieved_at,
        "evidence_count": len(row.evidence),
        **{name: getattr(row, name) or 0 for name in ("attempts", "successes", "retrievals")},
    }
    return {name: known[name] if name in known else version[name] for name in _RAW_SCHEMA}


def _entries(raw: pl.DataFrame, scope_fields: tuple[str, ...]) -> pl.DataFrame:
    complete = with_scope_and_text(raw, scope_fields).with_columns(
        pl.concat_str("pair_id", "scope", separator=" ").alias("scope"),
        pl.lit([], dtype=pl.List(pl.String)).alias("kept_rules"),
    )
    features = ("exact_key", "merge_key", "secret_kinds", "addresses_judge")
    return complete.select(name for name in schemas.ENTRIES.columns if name not in features).sort("entry_id")
