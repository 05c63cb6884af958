"""Files of import rows, read as a stream: JSONL, CSV and Parquet, plain or gzip, in chunks of bounded memory.

Belongs here: file formats, line numbers, duplicate ids within a file. What a row may hold stands in rows.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from kb_pipeline.adapters.rows import ImportRow, RowFault, read_json_row, read_mapping_row
from kb_pipeline.errors import UsageError

_LIST_FIELDS = frozenset(
    {"alternatives", "steps", "tags", "supersedes", "generated_from", "visible_to", "evidence", "usage", "verdict_keys"}
    | {"invalidation_policy"}
)

_CHUNK_CHARS = 50_000_000


@dataclass(frozen=True)
class Reject:
    """A row that was not taken: where it stood, which field is wrong, why, and the row itself."""

    line: int
    field: str
    reason: str
    row: str


@dataclass
class Chunk:
    """Some rows of a file with their line numbers, and those that were rejected on the way."""

    rows: list[ImportRow] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def read_chunks(path: Path, *, chunk_rows: int = 10_000, max_body_chars: int) -> Iterator[Chunk]:
    """The rows of a file in chunks of at most ``chunk_rows``, in file order.

    Args:
        path: ``.jsonl`` (or ``.ndjson``, ``.json``), ``.csv`` or ``.parquet``; the first two also with ``.gz``.
        chunk_rows: rows held in memory at once; fewer when their bodies are long.
        max_body_chars: a longer body is rejected.

    Raises:
        UsageError: the file is missing, cannot be read, is of an unknown kind, or is no file of its kind.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = next((s for s in reversed(suffixes) if s != ".gz"), "")
    seen: set[str] = set()
    chunk, size, held_chars = Chunk(), 0, 0
    try:
        for line, read, shown in _parsed(path, kind):
            size += 1
            try:
                row = read()
                _check(row, seen, max_body_chars)
                chunk.rows.append(row)
                chunk.lines.append(line)
                held_chars += len(row.body or "")
            except RowFault as fault:
                chunk.rejects.append(Reject(line, fault.field, fault.reason, shown()))
            if size >= chunk_rows or held_chars >= _CHUNK_CHARS:
                yield chunk
                chunk, size, held_chars = Chunk(), 0, 0
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {error}. Nothing of it was imported.") from error
    if size:
        yield chunk


def _check(row: ImportRow, seen: set[str], max_body_chars: int) -> None:
    if row.id in seen:
        raise RowFault("id", f"{row.id!r} stands in this file before")
    if row.body is not None and len(row.body) > max_body_chars:
        raise RowFault(
            "body", f"has {len(row.body)} characters, more than load.max_body_chars = {max_body_chars} allows"
        )
    seen.add(row.id)


def _parsed(path: Path, kind: str) -> Iterator[tuple[int, Any, Any]]:
    if kind in (".jsonl", ".ndjson", ".json"):
        with _open(path) as stream:
            for number, line in enumerate(stream, 1):
                text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
                if text:
                    yield number, lambda t=text: read_json_row(t), lambda t=text: t.decode("utf-8", "backslashreplace")
    elif kind == ".csv":
        yield from _parsed_csv(path)
    elif kind == ".parquet":
        yield from _parsed_parquet(path)
    else:
        raise UsageError(f"{path} is of an unknown kind: use .jsonl, .csv (each also with .gz) or .parquet")


def _parsed_csv(path: Path) -> Iterator[tuple[int, Any, Any]]:
    csv.field_size_limit(2**31 - 1)
    with _open(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
        lines: list[str] = []
        # The lines of the present row are remembered, for a reject of what is no row.
        reader = csv.DictReader(_remembered(text, lines), strict=True)
        try:
            if not reader.fieldnames or "id" not in reader.fieldnames:
                raise UsageError(f"{path} has no column 'id' in its first line; its columns are {reader.fieldnames}")
            while True:
                lines.clear()
                try:
                    values = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    # A quote that never ends takes the rest of the file with it; after other faults reading goes on.
                    yield reader.reader.line_num, lambda e=error: _refuse(f"is not CSV ({e})"), lambda: "".join(lines)
                    continue
                yield reader.line_num, lambda v=values: _from_csv(v), lambda v=values: json.dumps(v, ensure_ascii=False)
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"{path}, near line {reader.line_num}: {error}. Nothing of it was imported.") from error


def _remembered(lines: Iterable[str], memory: list[str]) -> Iterator[str]:
    for line in lines:
        memory.append(line)
        yield line


def _refuse(reason: str) -> ImportRow:
    raise RowFault("row", reason)


def _from_csv(values: dict[str | None, Any]) -> ImportRow:
    if None in values:
        raise RowFault("row", "has more fields than the first line names")
    clean: dict[str, Any] = {}
    for name, value in cast("dict[str, str | None]", values).items():
        if value is None or value == "":
            continue
        clean[name] = value
        if name in _LIST_FIELDS:
            try:
                clean[name] = json.loads(value)
            except ValueError as error:
                raise RowFault(name, "is not a JSON array, as list fields of a CSV file must be") from error
    return read_mapping_row(clean)


def _parsed_parquet(path: Path) -> Iterator[tuple[int, Any, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=10_000):
                for values in batch.to_pylist():
                    number += 1
                    clean = {name: value for name, value in values.items() if value is not None}
                    yield number, lambda v=clean: read_mapping_row(_without_nulls(v)), lambda v=clean: repr(v)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{path} is not a Parquet file: {error}. Nothing of it was imported.") from error


def _without_nulls(value: Any) -> Any:
    # A Parquet struct column gives every row every key; a key without a value was never written.
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as stream:
            yield cast("BinaryIO", stream)
    else:
        with path.open("rb") as plain:
            yield plain
