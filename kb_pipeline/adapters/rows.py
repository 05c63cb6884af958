"""Import rows: what a row may hold, how it is checked, and the canonical JSON in which rows leave again.

Belongs here: one row. Does not belong here: files of rows (row_files), and what an import does to the database
(importing). Field names and rules are those of the import format.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from kb_pipeline.vocabulary import ConflictState, Kind, Origin, ReviewState, Sensitivity, State


def parse_time(value: Any) -> Any:
    """ISO 8601 text as a UTC datetime; without a zone, UTC is meant. Anything else is refused."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise ValueError(f"{value!r} is not an ISO 8601 time") from error
    if not isinstance(value, date):
        raise ValueError(f"{value!r} is not an ISO 8601 time")
    if not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    if value.tzinfo is not None:
        try:
            value = value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"{value.isoformat()} is out of range") from error
    # A column of nanoseconds gives instances of a subclass, which frames would take for another type.
    return datetime.combine(value.date(), value.time(), UTC)


def _null_is_empty(value: Any) -> Any:
    return [] if value is None else value


Time = Annotated[datetime, BeforeValidator(parse_time)]
Texts = Annotated[list[str], BeforeValidator(_null_is_empty)]
Count = Annotated[int, Field(ge=0, le=2**62)]


def _fault_of(field: str, reason: str) -> PydanticCustomError:
    """A fault that more than one field has a part in, told of one of them."""
    return PydanticCustomError("row_rule", "{reason}", {"field": field, "reason": reason})


class EvidenceRow(BaseModel):
    """A piece of evidence: a file span, symbol, graph edge, document, decision record or person."""

    model_config = ConfigDict(extra="allow")
    type: str | None = None
    path: str | None = None
    commit: str | None = None
    line_start: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    line_end: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    symbol: str | None = None
    edge: str | None = None
    ref: str | None = None

    @model_validator(mode="after")
    def _span_is_ordered(self) -> EvidenceRow:
        if self.line_start is not None and self.line_end is not None and self.line_end < self.line_start:
            raise _fault_of("line_end", f"{self.line_end} lies before line_start {self.line_start}")
        return self


class UsageRow(BaseModel):
    """One use of an entry."""

    model_config = ConfigDict(extra="ignore")
    id: str | None = None
    type: str
    at: Time
    workflow_run: str | None = None
    context_pack: str | None = None
    used_in: str | None = None
    outcome: str | dict[str, Any] | None = None


class ImportRow(BaseModel):
    """A row as users write it. Unknown fields stay in ``model_extra`` and come back in the export."""

    model_config = ConfigDict(extra="allow")
    id: Annotated[str, Field(min_length=1, max_length=512)]
    kind: Kind
    title: str | None = None
    body: str | None = None
    rationale: str | None = None
    alternatives: Texts = Field(default_factory=list)
    steps: Texts = Field(default_factory=list)
    tags: Texts = Field(default_factory=list)
    tenant: str | None = None
    repository: str | None = None
    module: str | None = None
    state: State | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    pinned: bool | None = None
    keep_distinct: bool | None = None
    review_state: ReviewState | None = None
    sensitivity: Sensitivity | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    expires_at: Time | None = None
    last_matched_at: Time | None = None
    last_retrieved_at: Time | None = None
    last_validated_at: Time | None = None
    completed_at: Time | None = None
    attempts: Count | None = None
    successes: Count | None = None
    retrievals: Count | None = None
    supersedes: Texts = Field(default_factory=list)
    generated_from: Texts = Field(default_factory=list)
    visible_to: Texts = Field(default_factory=list)
    origin: Origin | None = None
    source_type: str | None = None
    proposed_by: str | None = None
    author: str | None = None
    evidence: Annotated[list[EvidenceRow], BeforeValidator(_null_is_empty)] = Field(default_factory=list)
    usage: Annotated[list[UsageRow], BeforeValidator(_null_is_empty)] = Field(default_factory=list)
    invalidation_policy: Annotated[list[Any], BeforeValidator(_null_is_empty)] = Field(default_factory=list)
    state_reason: str | None = None
    state_changed_at: Time | None = None
    merged_into: str | None = None
    superseded_by: str | None = None
    conflict_state: ConflictState | None = None
    content_hash: str | None = None
    quality_score: Annotated[float, Field(ge=0, le=1)] | None = None
    distinctiveness: Annotated[float, Field(ge=0, le=1)] | None = None
    vector_key: str | None = None
    verdict_keys: Texts = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_whole(self) -> ImportRow:
        if not (self.title and self.title.strip()) and not (self.body and self.body.strip()):
            raise _fault_of("title", "is empty, and so is body: a row needs one of them")
        if self.attempts is not None and self.successes is not None and self.successes > self.attempts:
            raise _fault_of("successes", f"{self.successes} exceed attempts {self.attempts}")
        if self.attempts is None and self.successes:
            raise _fault_of("successes", f"{self.successes} without attempts")
        return self


class RowFault(Exception):  # noqa: N818 - a finding about one row, not a failure of the program
    """Why a row is rejected: the field and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


def read_json_row(line: bytes) -> ImportRow:
    """A row from a line of JSON.

    Raises:
        RowFault: the line is not JSON, or the row breaks a rule; names the field.
    """
    try:
        row = ImportRow.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise _fault(error) from error
    return _checked(row) if _SUSPICIOUS.search(line) else row


def read_mapping_row(values: dict[str, Any]) -> ImportRow:
    """A row from a mapping (CSV or Parquet), whose texts are taken for numbers where the field is a number.

    Raises:
        RowFault: the row breaks a rule; names the field.
    """
    try:
        row = ImportRow.model_validate(values)
    except ValidationError as error:
        raise _fault(error) from error
    return _checked(row)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, non-ASCII kept: equal values give equal bytes."""
    return _ENCODER.encode(value)


def derived_id(*parts: Any) -> str:
    """A stable id: the first 32 hex digits of the SHA-256 of the parts."""
    # Parts are separated by a control character that no JSON and no time holds, and ids only by intent.
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:32]


def format_time(value: datetime | None) -> str | None:
    """A time as ISO 8601 in UTC, with ``Z``; fractions only where there are any."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


_SUSPICIOUS = re.compile(rb"\\u0000|\x00|NaN|Infinity|[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
"""What a line of JSON must hold for its row to hold something that cannot be stored; most lines need no second look."""


def _checked(row: ImportRow) -> ImportRow:
    # With empty fields too: their names may hold what cannot be stored.
    if flaw := _flaw(row.model_dump(), ""):
        raise RowFault(*flaw)
    return row


def _flaw(value: Any, path: str) -> tuple[str, str] | None:
    """Where and why a value of a row cannot be stored: NUL, a float that is no number, a type without a JSON form."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if "\x00" in str(key):
                return path or "field name", "holds a NUL character"
            if found := _flaw(inner, f"{path}.{key}" if path else str(key)):
                return found
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if found := _flaw(inner, f"{path}.{number}"):
                return found
    elif isinstance(value, str):
        return (path, "holds a NUL character") if "\x00" in value else None
    elif isinstance(value, float):
        return None if math.isfinite(value) else (path, f"is {value}, which JSON cannot carry")
    elif value is not None and not isinstance(value, (bool, int, date, time, Decimal)):
        return path, f"is of type {type(value).__name__}, which JSON cannot carry"
    return None


def _fault(error: ValidationError) -> RowFault:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "row"
    if first["type"] == "json_invalid":
        return RowFault("row", f"is not JSON ({first['msg'].removeprefix('Invalid JSON: ')})")
    if first["type"] == "missing":
        return RowFault(field, "is required")
    if first["type"] == "row_rule":
        return RowFault(".".join([*(str(part) for part in first["loc"]), first["ctx"]["field"]]), first["msg"])
    if first["type"] == "value_error":
        return RowFault(field, first["msg"].removeprefix("Value error, "))
    shown = repr(first["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return RowFault(field, first["msg"] if field == "row" else f"{first['msg']} (got {shown})")
