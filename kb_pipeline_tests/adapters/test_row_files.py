"""Files of import rows: formats, line numbers, rejects, and what a damaged file leads to."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kb_pipeline.adapters import row_files
from kb_pipeline.adapters.row_files import Chunk, Reject, read_chunks
from kb_pipeline.errors import UsageError

ROWS: list[dict[str, Any]] = [
    {"id": "a", "kind": "fact", "title": "First", "tags": ["x", "y"], "attempts": 3, "successes": 1, "team": "red"},
    {"id": "b", "kind": "rule", "body": "Two\nlines, and a \"quote\"", "pinned": True, "confidence": 0.5},
    {"id": "c", "kind": "skill", "title": "数据", "steps": ["one", "two"], "created_at": "2026-01-02T03:04:05Z",
     "evidence": [{"type": "file", "path": "a.py"}], "usage": [{"type": "cited", "at": "2026-02-01T00:00:00Z"}]},
]  # fmt: skip


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    names = sorted({name for row in rows for name in row})
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()})
    return stream.getvalue().encode()


def read(path: Path, **limits: Any) -> tuple[list[Chunk], list[tuple[int, str]], list[Reject]]:
    """Chunks, (line, id) of the rows taken, and the rejects."""
    chunks = list(read_chunks(path, **({"max_body_chars": 1000} | limits)))
    taken = [(line, row.id) for chunk in chunks for line, row in zip(chunk.lines, chunk.rows, strict=True)]
    return chunks, taken, [reject for chunk in chunks for reject in chunk.rejects]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.ndjson", "ROWS.JSONL.GZ", "rows.v1.2.jsonl.gz", "rows.csv", "rows.csv.gz"]
)
def test_all_formats_give_the_same_rows(tmp_path: Path, name: str) -> None:
    content = as_csv(ROWS) if ".csv" in name else jsonl(ROWS)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    plain = [chunk.rows for chunk in read_chunks(written(tmp_path / "plain.jsonl", jsonl(ROWS)), max_body_chars=99)]
    chunks, _, rejects = read(path)
    assert rejects == []
    assert [chunk.rows for chunk in chunks] == plain


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    with_nulls = {name for row in ROWS for name in row}
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(with_nulls) | row for row in ROWS]), path)
    chunks, taken, rejects = read(path)
    assert rejects == []
    assert taken == [(1, "a"), (2, "b"), (3, "c")]
    plain = next(iter(read_chunks(written(tmp_path / "plain.jsonl", jsonl(ROWS)), max_body_chars=99)))
    assert chunks[0].rows == plain.rows


def test_parquet_with_times_of_its_own(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    frame = pl.DataFrame({"id": ["a"], "kind": ["fact"], "title": ["t"]}).with_columns(
        created_at=pl.lit(moment).cast(pl.Datetime("ns", "UTC")),
        updated_at=pl.lit(moment).dt.replace_time_zone(None).cast(pl.Datetime("ms")),
        expires_at=pl.lit(date(2026, 12, 31)),
        checked=pl.lit(date(2026, 6, 30)),
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    (row,) = read(tmp_path / "rows.parquet")[0][0].rows
    assert (row.created_at, row.updated_at, row.expires_at) == (moment, moment, datetime(2026, 12, 31, tzinfo=UTC))
    assert type(row.created_at) is datetime
    assert row.model_extra == {"checked": date(2026, 6, 30)}


def test_invisible_marks_round_rows_do_not_matter(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + jsonl(ROWS[:1]).replace(b"\n", b"\r\n") + b"\r\n  \n" + jsonl(ROWS[1:2]).rstrip(b"\n")
    _, taken, rejects = read(written(tmp_path / "rows.jsonl", content))
    assert (taken, rejects) == ([(1, "a"), (4, "b")], [])
    content = b"\xef\xbb\xbf" + as_csv(ROWS[:2])
    _, taken, rejects = read(written(tmp_path / "rows.csv", content))
    assert ([name for _, name in taken], rejects) == (["a", "b"], [])


def test_rejects_name_line_field_reason_and_row(tmp_path: Path) -> None:
    lines = [
        b'{"id": "a", "kind": "fact", "title": "good"}',
        b'{"id": "b", "kind": "fact"',
        b'{"id": "c", "kind": "fact", "title": "t", "attempts": -1}',
        b"",
        b'{"id": "a", "kind": "fact", "title": "again"}',
        b'{"id": "b", "kind": "fact", "title": "not taken before"}',
        b"\xff\xfe",
    ]
    _, taken, rejects = read(written(tmp_path / "rows.jsonl", b"\n".join(lines)))
    assert taken == [(1, "a"), (6, "b")]
    assert [(reject.line, reject.field) for reject in rejects] == [(2, "row"), (3, "attempts"), (5, "id"), (7, "row")]
    assert "stands in this file before" in rejects[2].reason
    assert [reject.row for reject in rejects[:3]] == [line.decode() for line in (lines[1], lines[2], lines[4])]
    assert rejects[3].row == "\\xff\\xfe"


def test_duplicate_ids_are_found_across_chunks(tmp_path: Path) -> None:
    rows = [{"id": f"e{n % 7}", "kind": "fact", "title": f"row {n}"} for n in range(10)]
    chunks, taken, rejects = read(written(tmp_path / "rows.jsonl", jsonl(rows)), chunk_rows=3)
    assert [len(chunk.rows) + len(chunk.rejects) for chunk in chunks] == [3, 3, 3, 1]
    assert len(taken) == 7
    assert [reject.line for reject in rejects] == [8, 9, 10]


def test_a_body_over_the_limit_is_rejected_and_never_cut(tmp_path: Path) -> None:
    rows = [{"id": f"e{n}", "kind": "fact", "body": "ä" * n} for n in (999, 1000, 1001)]
    chunks, taken, rejects = read(written(tmp_path / "rows.jsonl", jsonl(rows)), max_body_chars=1000)
    assert [name for _, name in taken] == ["e999", "e1000"]
    assert [len(row.body or "") for row in chunks[0].rows] == [999, 1000]
    assert (rejects[0].line, rejects[0].field) == (3, "body")
    assert "1001 characters, more than load.max_body_chars = 1000" in rejects[0].reason
    huge = [{"id": "e", "kind": "fact", "body": "x" * 4_000_000}]
    for path in (written(tmp_path / "huge.jsonl", jsonl(huge)), written(tmp_path / "huge.csv", as_csv(huge))):
        chunks, _, rejects = read(path, max_body_chars=5_000_000)
        assert [len(row.body or "") for row in chunks[0].rows] == [4_000_000]


def test_long_bodies_make_shorter_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_CHUNK_CHARS", 500)
    rows = [{"id": f"e{n}", "kind": "fact", "body": "x" * 200} for n in range(4)]
    path = written(tmp_path / "rows.jsonl", jsonl(rows))
    assert [len(chunk.rows) for chunk in read_chunks(path, max_body_chars=300)] == [3, 1]


def test_faults_of_a_csv_file(tmp_path: Path) -> None:
    content = (
        b'id,kind,body,tags\r\na,fact,"two\r\nlines","[""x""]"\r\nb,fact,body,x\r\nc,fact,body,,surplus\r\nd,fact\r\n'
        b'e,fact,"x"y,\r\n\r\nf,fact,good,\r\ng,fact,"never ends,\r\nh,fact,lost,\r\n'
    )
    chunks, taken, rejects = read(written(tmp_path / "rows.csv", content))
    assert [name for _, name in taken] == ["a", "f"]
    assert chunks[0].rows[0].body == "two\r\nlines"
    assert chunks[0].rows[0].tags == ["x"]
    found = [(reject.line, reject.field, reject.reason) for reject in rejects]
    assert [(line, field) for line, field, _ in found] == [
        (4, "tags"),
        (5, "row"),
        (6, "title"),
        (7, "row"),
        (11, "row"),
    ]
    assert "JSON array" in found[0][2]
    assert "more fields than the first line names" in found[1][2]
    assert "is not CSV" in found[3][2] and "is not CSV" in found[4][2]
    assert rejects[3].row == 'e,fact,"x"y,\r\n'
    assert "never ends" in rejects[4].row and "lost" in rejects[4].row


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.txt", b"", "unknown kind"),
        ("rows", b"", "unknown kind"),
        ("rows.csv", b"", "has no column 'id'"),
        ("rows.csv", b"name,kind\nx,fact\n", "has no column 'id'"),
        ("rows.csv", b"id,kind,title\na,fact,\xff\n", "Nothing of it was imported"),
        ("rows.parquet", b"PAR1 or not", "is not a Parquet file"),
        ("rows.jsonl.gz", b"{}", "cannot be read"),
        ("rows.jsonl.gz", gzip.compress(jsonl(ROWS), mtime=0)[:-12], "cannot be read"),
        ("rows.jsonl.gz", gzip.compress(jsonl(ROWS), mtime=0)[:20] + b"\xff" * 60, "cannot be read"),
        ("rows.csv.gz", gzip.compress(as_csv(ROWS), mtime=0)[:30], "cannot be read"),
    ],
)
def test_a_file_that_is_none_of_its_kind_is_refused_as_a_whole(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        read(path)
    assert str(path) in str(error.value)
    assert error.value.exit_code == 2


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path / "missing.csv", tmp_path / "missing.parquet"):
        with pytest.raises(UsageError, match="cannot be read"):
            read(path)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "folder.jsonl")


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    for name, content in (("rows.jsonl", b""), ("rows.jsonl", b"\xef\xbb\xbf\n\n"), ("rows.csv", b"id,kind,title\n")):
        assert read(written(tmp_path / name, content)) == ([], [], [])
