"""Contracts of frames: each kind of violation is found and named, and no text of an entry is quoted."""

from __future__ import annotations

import logging
import socket
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from kb_pipeline import schemas
from kb_pipeline.adapters.expectations import RANGES, WORD_LISTS, WORDS, check_contracts
from kb_pipeline.errors import UnknownNameError
from kb_pipeline.schemas import FRAMES, FrameSchema

TEXT = "the harbour master keeps the spare key under the third stone"


def fitting(schema: FrameSchema, rows: int = 4) -> pl.DataFrame:
    """A frame that keeps its contract: ids count up, every word is the first allowed one, every number is 1."""
    values: dict[str, list[Any]] = {}
    for name, column in schema.columns.items():
        if name in WORDS:
            values[name] = [min(WORDS[name])] * rows
        elif name in WORD_LISTS:
            values[name] = [[min(WORD_LISTS[name])]] * rows
        elif column.dtype == pl.String:
            letter = "r" if name.endswith("_r") else "l"
            values[name] = [f"{letter}{row}" if name.endswith(("_id", "_l", "_r")) else TEXT for row in range(rows)]
        else:
            one: dict[Any, Any] = {
                pl.Boolean(): True,
                pl.Int64(): 1,
                pl.Float64(): 1.0,
                schemas.Time: datetime(2026, 1, 5, tzinfo=UTC),
                schemas.Texts: [TEXT],
            }
            values[name] = [one[pl.Series([], dtype=column.dtype).dtype]] * rows
    return schema.build(values)


def put(frame: pl.DataFrame, row: int, values: dict[str, Any]) -> pl.DataFrame:
    """The frame with these columns' values replaced in one row."""
    for column, value in values.items():
        held = frame[column].to_list()
        held[row] = value
        frame = frame.with_columns(pl.Series(column, held, dtype=frame.schema[column]))
    return frame


def failures(name: str, frame: pl.DataFrame) -> list[str]:
    (result,) = check_contracts({name: frame})
    assert result.frame == name
    assert result.passed == (not result.failures)
    return list(result.failures)


def test_fitting_frames_pass() -> None:
    results = check_contracts({name: fitting(schema) for name, schema in FRAMES.items()})
    assert [(result.frame, result.failures) for result in results] == [(name, ()) for name in FRAMES]
    # Every column that may not be null is asked about, and so are the order of the columns and the key.
    for result in results:
        required = sum(not column.nullable for column in FRAMES[result.frame].columns.values())
        assert result.evaluated_count >= required + 2


def test_empty_frames_and_nulls_where_they_are_allowed_pass() -> None:
    for schema in (schemas.VERDICTS, schemas.PLAN, schemas.GATES):
        frame = fitting(schema).with_columns(
            pl.lit(None, dtype=column.dtype).alias(name) for name, column in schema.columns.items() if column.nullable
        )
        assert failures(schema.name, frame) == []
        assert failures(schema.name, schema.empty()) == []


@pytest.mark.parametrize("schema", FRAMES.values(), ids=FRAMES)
def test_nulls_unknown_words_and_values_out_of_range_are_found_in_every_column(schema: FrameSchema) -> None:
    required = [name for name, column in schema.columns.items() if not column.nullable]
    words: dict[str, Any] = {name: "no such word" for name in schema.columns if name in WORDS}
    words |= {name: [min(WORD_LISTS[name]), "no such word"] for name in schema.columns if name in WORD_LISTS}
    ranged = {name: RANGES[name] for name in schema.columns if name in RANGES}
    step = {name: 1 if schema.columns[name].dtype == pl.Int64 else 0.001 for name in ranged}
    frame = put(fitting(schema), 0, dict.fromkeys(required))
    frame = put(frame, 1, words | {name: least - step[name] for name, (least, _) in ranged.items()})
    frame = put(frame, 2, {name: top + step[name] for name, (_, top) in ranged.items() if top is not None})

    found = failures(schema.name, frame)
    about = [
        sentence for sentence in found if "is not smaller than" not in sentence and "is greater than" not in sentence
    ]
    expected = [f"column {name} is null in 1 of 4 rows" for name in required]
    expected += [f"column {name} holds a word outside its closed set in 1 of 4 rows" for name in words]
    expected += [
        f"column {name} is below {least:g} in 1 of 4 rows"
        if top is None
        else f"column {name} lies outside {least:g} to {top:g} in 2 of 4 rows"
        for name, (least, top) in ranged.items()
    ]
    assert sorted(sentence.partition(", e.g.")[0] for sentence in about) == sorted(
        f"frame {schema.name}: {sentence}" for sentence in expected
    )
    assert "no such word" not in "".join(found)


def test_a_value_that_is_no_number_is_out_of_range() -> None:
    names = [name for name, column in schemas.QUALITY.columns.items() if column.dtype == pl.Float64]
    found = failures("quality_scores", put(fitting(schemas.QUALITY), 2, dict.fromkeys(names, float("nan"))))
    for name in names:
        assert any(f"column {name} lies outside" in s or f"column {name} is below" in s for s in found)


def test_both_ends_of_a_range_are_allowed() -> None:
    pairs = fitting(schemas.PAIRS)
    assert failures("duplicate_pairs", pairs.with_columns(similarity=pl.Series([-1.0, 0.0, 1.0, None]))) == []
    assert failures("duplicate_pairs", pairs.with_columns(similarity=pl.Series([-1.01, 0.0, 1.01, None]))) != []


def test_pairs_out_of_order_are_found() -> None:
    swapped = fitting(schemas.PAIRS).rename({"entry_id_l": "entry_id_r", "entry_id_r": "entry_id_l"})
    (sentence,) = failures("duplicate_pairs", swapped.select(list(schemas.PAIRS.columns)))
    assert "column entry_id_l is not smaller than entry_id_r in 4 of 4 rows, e.g. r0 / l0, r1 / l1" in sentence
    (sentence,) = failures("duplicate_pairs", put(fitting(schemas.PAIRS), 2, {"entry_id_l": "r2"}))
    assert "column entry_id_l is not smaller than entry_id_r in 1 of 4 rows, e.g. r2 / r2" in sentence
    (sentence,) = failures("knowledge_entries", put(fitting(schemas.ENTRIES), 2, {"successes": 2}))
    assert "column successes is greater than attempts in 1 of 4 rows, e.g. l2" in sentence


def test_bytewise_order_of_ids_is_meant() -> None:
    pair = fitting(schemas.PAIRS, 1).with_columns(entry_id_l=pl.lit("Z"), entry_id_r=pl.lit("a"))
    assert failures("duplicate_pairs", pair) == []
    pair = pair.with_columns(entry_id_l=pl.lit("\uffee"), entry_id_r=pl.lit("\U0001f511"))
    assert failures("duplicate_pairs", pair) == []


def test_repeated_keys_are_found() -> None:
    (sentence,) = failures("curation_plan", put(fitting(schemas.PLAN), 2, {"action_id": "l0"}))
    assert "frame curation_plan: key action_id repeats a key in 2 of 4 rows, e.g. l0, l0" in sentence
    frame = put(fitting(schemas.VERDICTS), 2, {"entry_id_l": "l0"})
    assert failures("judge_verdicts", frame) == []  # half of a key may repeat
    (sentence,) = failures("judge_verdicts", frame.with_columns(entry_id_r=pl.lit("r9")))
    assert "key entry_id_l, entry_id_r repeats a key in 2 of 4 rows, e.g. l0 / r9, l0 / r9" in sentence


def test_columns_missing_extra_or_out_of_order_are_found() -> None:
    frame = fitting(schemas.PLAN)
    names = frame.columns
    for wrong in (frame.drop("reason"), frame.with_columns(surplus=1), frame.select(*names[1:], names[0])):
        (sentence,) = failures("curation_plan", wrong)
        assert "frame curation_plan: columns are" in sentence
        assert "in this order" in sentence


def test_a_column_of_another_type_is_a_failure_and_no_exception() -> None:
    frame = fitting(schemas.PAIRS).with_columns(similarity=pl.lit("close"))
    (sentence,) = failures("duplicate_pairs", frame)
    assert "column similarity cannot be compared (similarity is String)" in sentence


def test_failures_tell_how_many_and_a_few_ids_but_no_text() -> None:
    many = fitting(schemas.ENTRIES, 50).with_columns(
        state=pl.lit("gone"), pinned=pl.lit(None, pl.Boolean), title=pl.lit(None, pl.String)
    )
    found = failures("knowledge_entries", many)
    assert len(found) == 3
    for sentence in found:
        assert "in 50 of 50 rows, e.g. l0, l1, l2, l3, l4" in sentence
        assert "l5" not in sentence
        assert "harbour" not in sentence


def test_frames_without_a_schema_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="duplicate_pairs"):
        check_contracts({"duplicate_pair": fitting(schemas.PAIRS)})
    assert check_contracts({}) == []


def test_it_is_quiet_and_asks_no_network(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    def refuse(_: socket.socket, address: Any) -> None:
        asked.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(OSError, match="no network in this test"):
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    assert len(asked) == 1  # the trap works
    with caplog.at_level(logging.DEBUG):
        assert failures("duplicate_pairs", fitting(schemas.PAIRS).with_columns(similarity=pl.lit("close")))
    assert len(asked) == 1
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name.startswith("great_expectations")] == []
    assert logging.getLogger("great_expectations").level != logging.CRITICAL + 1
