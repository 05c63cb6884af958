"""Contracts of frames, checked with Great Expectations (ledger D1): what every consumer of a frame may rely on.

Belongs here: expectations derived from the frame schemas and the vocabulary - columns in order, no nulls where none are
allowed, unique keys, closed sets of words, ranges, ordered pairs. Does not belong here: the rules that a plan must keep
(stages/checks), nor types (schemas checks them whenever a frame is written).

A column name means the same in every frame, so one table by column name serves them all. Great Expectations sees no
text: texts and lists enter as lengths, lists of reason codes as the number of unknown ones. Its findings are row
positions, which become ids here. It reads nothing but pandas, so each frame is converted once; columns that nothing is
expected of go without their values.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from kb_pipeline.errors import UnknownNameError
from kb_pipeline.schemas import FRAMES, FrameSchema
from kb_pipeline.vocabulary import (
    ActionType,
    Band,
    ConflictState,
    ConflictType,
    Kind,
    ReasonCode,
    RecommendationType,
    ReviewState,
    Sensitivity,
    Severity,
    State,
    Verdict,
)

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.pandas_datasource import PandasDatasource
    from great_expectations.expectations.expectation import Expectation

WORDS: dict[str, frozenset[str]] = {
    "action": frozenset(ActionType),
    "band": frozenset(Band),
    "conflict_state": frozenset(ConflictState),
    "conflict_type": frozenset(ConflictType),
    "distinctiveness_reason": frozenset(ReasonCode),
    "from_state": frozenset(State),
    "gate_decision": frozenset({"admit", "refuse", "strengthen", "review"}),
    "kind": frozenset(Kind),
    "merge_decision": frozenset({"merge", "review"}),
    "reason": frozenset(ReasonCode),
    "recommendation_type": frozenset(RecommendationType),
    "retire_decision": frozenset({"retire", "review", "keep"}),
    "review_state": frozenset(ReviewState),
    "sensitivity": frozenset(Sensitivity),
    "severity": frozenset(Severity),
    "state": frozenset(State),
    "to_state": frozenset(State),
    "verdict": frozenset(Verdict),
}
"""Column -> the words it may hold, in whichever frame it stands."""

WORD_LISTS: dict[str, frozenset[str]] = {
    "gate_reasons": frozenset(ReasonCode),
    "retire_reasons": frozenset(ReasonCode),
}
"""List column -> the words its lists may hold."""

RANGES: dict[str, tuple[float, float | None]] = {
    **dict.fromkeys(("confidence", "judge_confidence", "distinctiveness", "freshness"), (0.0, 1.0)),
    **dict.fromkeys(("performance_ci_lower", "performance_ci_upper"), (0.0, 1.0)),
    **dict.fromkeys(("similarity", "max_similarity"), (-1.0, 1.0)),
    **dict.fromkeys(("attempts", "successes", "retrievals", "evidence_count"), (0, None)),
    **dict.fromkeys(("token_count", "name_chars", "window_count", "staleness_days"), (0, None)),
}
"""Column -> least and greatest value, both allowed."""

ORDERED: tuple[tuple[str, str, bool], ...] = (
    ("entry_id_l", "entry_id_r", False),
    ("successes", "attempts", True),
    ("performance_ci_lower", "performance_ci_upper", True),
)
"""(smaller column, larger column, may be equal)."""

_SAMPLE_ROWS = 5
_NOT_NULL, _BETWEEN = "ExpectColumnValuesToNotBeNull", "ExpectColumnValuesToBeBetween"
_MISSING = "required_values_missing"
"""Added to what is looked at: how many of a row's values are null and must not be."""


@dataclass(frozen=True)
class ContractResult:
    """What the contract of one frame says: ``evaluated_count`` expectations were asked, ``failures`` are sentences."""

    frame: str
    passed: bool
    evaluated_count: int
    failures: tuple[str, ...]


def check_contracts(frames: Mapping[str, pl.DataFrame]) -> list[ContractResult]:
    """One result for each frame, in the order given.

    A failure names frame, column, number of rows and the keys of some of them, never a text of an entry.

    Args:
        frames: name of a schema in ``schemas.FRAMES`` -> frame.

    Raises:
        UnknownNameError: no schema has that name.
    """
    for name in frames:
        if name not in FRAMES:
            raise UnknownNameError("frame", name, FRAMES)
    if not frames:
        return []
    with _quietly():
        source = _source()
        return [_check(source, FRAMES[name], frame) for name, frame in frames.items()]


@dataclass(frozen=True)
class _Clause:
    """One expectation: its type and arguments, the columns it is about, and what a row does that fails it."""

    expectation: str
    columns: tuple[str, ...]
    fault: str
    arguments: dict[str, Any]

    def build(self, number: int) -> Expectation:
        from great_expectations import expectations

        # The meta comes back with the result: results are not in the order of the suite.
        made: Expectation = getattr(expectations, self.expectation)(**self.arguments, meta={"clause": number})
        return made


def _check(source: PandasDatasource, schema: FrameSchema, frame: pl.DataFrame) -> ContractResult:
    import great_expectations as gx

    def suite(clauses: Sequence[_Clause]) -> gx.ExpectationSuite:
        return gx.ExpectationSuite(schema.name, expectations=[clause.build(i) for i, clause in enumerate(clauses)])

    clauses = [_order(schema.columns), *_row_clauses(schema, frame)]
    asked = {name for clause in clauses for name in clause.columns}
    required = [clause.columns[0] for clause in clauses if clause.expectation == _NOT_NULL]
    view = frame.select(
        *(_view(schema, name, dtype, asked) for name, dtype in frame.schema.items()),
        pl.sum_horizontal(pl.col(name).is_null() for name in required).alias(_MISSING)
        if required
        else pl.lit(0).alias(_MISSING),
    )
    whole = source.add_dataframe_asset(schema.name).add_batch_definition_whole_dataframe("whole")
    batch = whole.get_batch({"dataframe": view.to_pandas()})
    # A clause costs some milliseconds whatever the frame: the many that forbid nulls are first asked as one, and yes or no
    # costs half of what rows cost. Only a frame that breaks its contract is asked which of its rows break which clause.
    brief = [
        _order([*schema.columns, _MISSING]),
        *(clause for clause in clauses[1:] if clause.expectation != _NOT_NULL),
        _Clause(_BETWEEN, (_MISSING,), "", {"column": _MISSING, "min_value": 0, "max_value": 0}),
    ]
    if batch.validate(suite(brief), result_format="BOOLEAN_ONLY").success:
        return ContractResult(schema.name, True, len(clauses), ())
    clauses[0] = _order([*schema.columns, _MISSING])
    outcome = batch.validate(
        suite(clauses), result_format={"result_format": "SUMMARY", "partial_unexpected_count": _SAMPLE_ROWS}
    )
    failed: dict[int, dict[str, Any]] = {}
    for one in outcome.results:
        if not one.success and one.expectation_config is not None:
            failed[one.expectation_config.meta["clause"]] = one.result
    failures = tuple(_sentence(schema, frame, clauses[number], failed[number]) for number in sorted(failed))
    return ContractResult(schema.name, not failures, len(clauses), failures)


def _order(columns: Iterable[str]) -> _Clause:
    return _Clause("ExpectTableColumnsToMatchOrderedList", (), "", {"column_list": list(columns)})


def _row_clauses(schema: FrameSchema, frame: pl.DataFrame) -> Iterator[_Clause]:
    """What is expected of the rows, for the columns that the frame has."""
    outside = "holds a word outside its closed set"
    for name, column in schema.columns.items():
        if name not in frame.columns:
            continue
        own = {"column": name}
        if not column.nullable:
            yield _Clause(_NOT_NULL, (name,), "is null", own)
        if name in WORDS:
            yield _Clause("ExpectColumnValuesToBeInSet", (name,), outside, own | {"value_set": sorted(WORDS[name])})
        if name in WORD_LISTS:
            none = own | {"min_value": 0, "max_value": 0}
            yield _Clause(_BETWEEN, (name,), outside, none)
        if name in RANGES:
            least, greatest = RANGES[name]
            fault = f"is below {least:g}" if greatest is None else f"lies outside {least:g} to {greatest:g}"
            between = own | {"min_value": least, "max_value": greatest}
            yield _Clause(_BETWEEN, (name,), fault, between)
    for smaller, larger, may_equal in ORDERED:
        if {smaller, larger} <= schema.columns.keys() & set(frame.columns):
            fault = f"is greater than {larger}" if may_equal else f"is not smaller than {larger}"
            pair = {"column_A": larger, "column_B": smaller, "or_equal": may_equal}
            pair["ignore_row_if"] = "either_value_is_missing"
            yield _Clause("ExpectColumnPairValuesAToBeGreaterThanB", (smaller, larger), fault, pair)
    if schema.key and set(schema.key) <= set(frame.columns):
        if len(schema.key) == 1:
            yield _Clause("ExpectColumnValuesToBeUnique", schema.key, "repeats a key", {"column": schema.key[0]})
        else:
            key = {"column_list": list(schema.key), "ignore_row_if": "never"}
            yield _Clause("ExpectCompoundColumnsToBeUnique", schema.key, "repeats a key", key)


def _view(schema: FrameSchema, name: str, dtype: pl.DataType, asked: set[str]) -> pl.Expr:
    """A column as Great Expectations may see it: no text, and nothing that pandas would hold as Python objects.

    A column that nothing is expected of keeps its place and loses its values.
    """
    column = pl.col(name)
    if name not in asked:
        return pl.lit(0, dtype=pl.Int8).alias(name)
    if isinstance(dtype, pl.List):
        if name not in WORD_LISTS:
            return column.list.len()
        unknown = ~pl.element().is_in(sorted(WORD_LISTS[name]))
        return column.list.eval(unknown.cast(pl.Int64)).list.sum()
    seen_as_it_is = {*WORDS, *RANGES, *schema.key, *(name for pair in ORDERED for name in pair[:2])}
    if dtype == pl.String and name not in seen_as_it_is:
        return column.str.len_bytes()
    if dtype.is_float():
        # pandas takes NaN for a missing value; here it is a value, and a wrong one.
        return column.fill_nan(-float("inf"))
    return column


def _sentence(schema: FrameSchema, frame: pl.DataFrame, clause: _Clause, found: dict[str, Any]) -> str:
    if not clause.columns:
        return f"frame {schema.name}: columns are {frame.columns}, expected {list(schema.columns)} in this order"
    where = f"frame {schema.name}: column {clause.columns[0]}"
    if "unexpected_count" not in found:
        types = ", ".join(f"{name} is {frame.schema[name]}" for name in clause.columns)
        return f"{where} cannot be compared ({types})"
    if "Unique" in clause.expectation:
        where = f"frame {schema.name}: key {', '.join(schema.key)}"
    count = int(found["unexpected_count"])
    rows = sorted(found["partial_unexpected_index_list"])[:_SAMPLE_ROWS]
    key = [name for name in schema.key if name in frame.columns]
    samples = frame.select(key)[rows].rows() if key else [(f"row {row}",) for row in rows]
    shown = ", ".join(" / ".join(str(part) for part in sample) for sample in samples)
    return f"{where} {clause.fault} in {count} of {frame.height} rows, e.g. {shown}"


@contextmanager
def _quietly() -> Iterator[None]:
    """Keeps the library's log to itself: what it finds is returned, and its traces may quote values."""
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _source() -> PandasDatasource:
    """A datasource of a context in memory, that draws no progress bars and reports to nobody."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
        store_backend_defaults=InMemoryStoreBackendDefaults(),
    )
    return gx.get_context(mode="ephemeral", project_config=config).data_sources.add_pandas("frames")
