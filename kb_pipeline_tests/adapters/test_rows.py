"""Import rows: every fault is found and named by its field, and rows leave as they came."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kb_pipeline.adapters.rows import (
    RowFault,
    canonical_json,
    format_time,
    parse_time,
    read_json_row,
    read_mapping_row,
)
from kb_pipeline_tests.fakes.frames import cases

TABLE = cases("rows")
REJECTED = [pytest.param(case, id=case["case"]) for case in TABLE["rejected"]]
TAKEN = [pytest.param(case, id=case["case"]) for case in TABLE["taken"]]


def full(case: dict[str, Any]) -> dict[str, Any]:
    values = {"id": "a", "kind": "fact", "title": "A title"} | case["row"]
    return {name: value for name, value in values.items() if value is not None}


def as_line(values: Any) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


@pytest.mark.parametrize("case", REJECTED)
def test_a_faulty_row_is_rejected_with_field_and_reason(case: dict[str, Any]) -> None:
    with pytest.raises(RowFault) as fault:
        read_json_row(as_line(full(case)))
    assert fault.value.field == case["field"]
    assert case["reason"] in fault.value.reason


@pytest.mark.parametrize("case", TAKEN)
def test_a_good_row_is_taken_from_json_and_from_a_mapping(case: dict[str, Any]) -> None:
    values = full(case)
    row = read_json_row(as_line(values))
    assert row == read_mapping_row(values)
    for name, value in case["row"].items():
        if name in type(row).model_fields and value is not None and not isinstance(value, list):
            assert getattr(row, name) == value


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"id":"a"', "is not JSON"),
        (b"id: a", "is not JSON"),
        (b'{"id":"a","kind":"fact","title":"\xff"}', "is not JSON"),
        (b'{"id":"a","kind":"fact","title":"\\ud800"}', "is not JSON"),
        (b'{"id":"a","kind":"fact","title":"t","x":' + b"[" * 3000 + b"]" * 3000 + b"}", "is not JSON"),
        (b'[{"id":"a"}]', "should be an object"),
        (b'"a"', "should be an object"),
        (b"null", "should be an object"),
    ],
)
def test_what_is_no_json_object_is_rejected(line: bytes, reason: str) -> None:
    with pytest.raises(RowFault) as fault:
        read_json_row(line)
    assert fault.value.field == "row"
    assert reason in fault.value.reason


@pytest.mark.parametrize(
    ("field", "where"),
    [
        ('"n": NaN', "n"),
        ('"n": 1e999', "n"),
        ('"deep": {"n": [1, -Infinity]}', "deep.n.1"),
        ('"invalidation_policy": [{"n": NaN}]', "invalidation_policy.0.n"),
        ('"evidence": [{"weight": NaN}]', "evidence.0.weight"),
        ('"usage": [{"type": "outcome", "at": "2026-01-01", "outcome": {"n": NaN}}]', "usage.0.outcome.n"),
        ('"confidence": NaN', "confidence"),
    ],
)
def test_numbers_that_json_cannot_carry_are_rejected(field: str, where: str) -> None:
    with pytest.raises(RowFault) as fault:
        read_json_row(f'{{"id": "a", "kind": "fact", "title": "t", {field}}}'.encode())
    assert fault.value.field == where


@pytest.mark.parametrize("case", TABLE["times"], ids=lambda case: case["said"])
def test_times_are_read_as_utc(case: dict[str, str]) -> None:
    row = read_json_row(as_line(full({"row": {"created_at": case["said"]}})))
    assert format_time(row.created_at) == case["means"]


def test_times_that_are_no_text() -> None:
    assert parse_time(date(2026, 2, 3)) == datetime(2026, 2, 3, tzinfo=UTC)
    assert parse_time(datetime(2026, 2, 3, 1)) == datetime(2026, 2, 3, 1, tzinfo=UTC)
    east = timezone(timedelta(hours=2))
    assert parse_time(datetime(2026, 2, 3, 1, tzinfo=east)) == datetime(2026, 2, 2, 23, tzinfo=UTC)
    for value in (17, 1.5, None, True, [2026]):
        with pytest.raises(ValueError, match="is not an ISO 8601 time"):
            parse_time(value)


def test_a_mapping_may_hold_numbers_as_text_and_values_of_a_column_file() -> None:
    row = read_mapping_row(
        full(
            {
                "row": {
                    "attempts": "3",
                    "confidence": "0.5",
                    "pinned": "true",
                    "when": date(2026, 1, 2),
                    "cost": Decimal("1.50"),
                }
            }
        )
    )
    assert (row.attempts, row.confidence, row.pinned) == (3, 0.5, True)
    assert canonical_json(row.model_extra) == '{"cost":"1.50","when":"2026-01-02"}'
    with pytest.raises(RowFault) as fault:
        read_mapping_row(full({"row": {"blob": b"\x00\x01"}}))
    assert (fault.value.field, fault.value.reason) == ("blob", "is of type bytes, which JSON cannot carry")


def test_a_long_value_is_not_repeated_in_the_reason() -> None:
    with pytest.raises(RowFault) as fault:
        read_json_row(as_line(full({"row": {"confidence": "x" * 5000}})))
    assert len(fault.value.reason) < 120


def test_canonical_json_is_sorted_tight_and_keeps_letters() -> None:
    assert canonical_json({"b": [1, 2.5], "a": {"é": None, "z": True}}) == '{"a":{"z":true,"é":null},"b":[1,2.5]}'
    assert canonical_json({"at": datetime(2026, 1, 1, tzinfo=UTC)}) == '{"at":"2026-01-01T00:00:00Z"}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(math.nan)
    with pytest.raises(TypeError, match="bytes"):
        canonical_json(b"x")


def test_times_are_written_in_utc_with_fractions_only_where_there_are_any() -> None:
    assert format_time(None) is None
    assert format_time(datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))) == "2026-01-01T11:00:00Z"
    assert format_time(datetime(2026, 1, 1, 0, 0, 0, 250000, tzinfo=UTC)) == "2026-01-01T00:00:00.250000Z"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@example({"\x00": None})
@example({"a": {"\x00": None}})
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), JSON, max_size=4))
def test_unknown_fields_are_kept_as_they_are_or_the_row_is_rejected(extra: dict[str, Any]) -> None:
    values = {f"x_{name}": value for name, value in extra.items()}
    text = json.dumps(values)
    try:
        row = read_json_row(as_line({"id": "a", "kind": "fact", "title": "A title"} | values))
    except RowFault as fault:
        assert "\\u0000" in text
        assert "NUL" in fault.reason
        return
    assert "\\u0000" not in text
    assert json.loads(canonical_json(row.model_extra)) == values
