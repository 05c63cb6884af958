"""Import: what rows change, what is rejected, and what a repeated import leaves alone."""

from __future__ import annotations

import csv
import gzip
import io
import json
import unicodedata
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from kb_pipeline.adapters import importing
from kb_pipeline.adapters.importing import last_complete_week
from kb_pipeline.errors import CorpusBusyError, UsageError
from kb_pipeline_tests.fakes.corpus import Corpus, Decisions


def outcome(result: Any) -> tuple[int, int, int, int]:
    return result.accepted, result.updated, result.unchanged, len(result.rejects)


FULL: dict[str, Any] = {
    "id": "a", "kind": "skill", "title": "Deploy by hand", "body": "Two\nlines", "rationale": "because",
    "alternatives": ["do it later"], "steps": ["build", "push"], "tags": ["ops"], "tenant": "t", "repository": "r",
    "module": "m", "state": "active", "confidence": 0.5, "pinned": True, "keep_distinct": True,
    "review_state": "approved", "sensitivity": "restricted", "created_at": "2026-01-02T03:04:05Z",
    "updated_at": "2026-02-03T04:05:06.5Z", "expires_at": "2027-01-01T00:00:00Z",
    "last_matched_at": "2026-10-01T00:00:00Z", "last_retrieved_at": "2026-09-01T00:00:00Z",
    "last_validated_at": "2026-08-01T00:00:00Z", "completed_at": "2026-07-01T00:00:00Z", "attempts": 5, "successes": 4,
    "retrievals": 9, "supersedes": ["x"], "generated_from": ["y"], "visible_to": ["team"], "origin": "human",
    "source_type": "runbook", "proposed_by": "ann", "author": "bob",
    "evidence": [
        {"type": "file", "path": "a.py", "commit": "c0ffee", "line_start": 1, "line_end": 3, "symbol": "f", "by": "me"},
        {"type": "graph", "edge": "a->b"},
        {"type": "doc", "ref": "ADR-7"},
    ],
    "usage": [
        {"id": "u1", "type": "retrieved", "at": "2026-08-02T00:00:00Z", "workflow_run": "w", "context_pack": "p"},
        {"id": "u2", "type": "outcome", "at": "2026-08-03T00:00:00Z", "used_in": "d", "outcome": "success"},
    ],
    "invalidation_policy": [{"when": "file_changed", "strict": False}],
}  # fmt: skip


def test_every_field_comes_back(corpus: Corpus) -> None:
    assert outcome(corpus.load(FULL)) == (1, 0, 0, 0)
    row = corpus.rows(full=True)["a"]
    for name, value in FULL.items():
        expected = "2026-02-03T04:05:06.500000Z" if name == "updated_at" else value
        assert row[name] == expected, name
    plain = corpus.rows()["a"]
    assert "usage" not in plain
    assert {name: row[name] for name in plain} == plain


def test_unknown_fields_come_back_at_top_level_as_they_were(corpus: Corpus) -> None:
    extra = {
        "team": "red",
        "reviewed": False,
        "note": None,
        "empty": [],
        "deep": {"b": [1, 2.5, None], "a": ""},
        "n": 10**20,
    }
    corpus.load({"id": "a"} | extra)
    row = corpus.rows()["a"]
    assert {name: row[name] for name in extra if name in row} == extra
    assert outcome(corpus.load({"id": "a"} | extra)) == (0, 0, 1, 0)
    assert outcome(corpus.load({"id": "a"} | extra | {"reviewed": True})) == (0, 1, 0, 0)


def test_the_faults_of_a_file_are_rejected_and_the_rest_goes_on(corpus: Corpus) -> None:
    lines = [
        b'{"id": "good", "kind": "fact", "title": "t"}',
        b"not json",
        b'{"id": "b", "kind": "fact"}',
        b'{"id": "c", "kind": "fact", "title": 7}',
        b'{"id": "d", "kind": "fact", "title": "a\\u0000b"}',
        b'{"id": "e", "kind": "fact", "title": "t", "attempts": -1}',
        b'{"id": "f", "kind": "fact", "title": "t", "attempts": 1, "successes": 2}',
        b'{"id": "g", "kind": "fact", "title": "t", "created_at": "2026-02-30"}',
        b'{"id": "good", "kind": "fact", "title": "again"}',
        b'{"id": "h", "kind": "fact", "title": "t", "content_hash": "0000"}',
        b'{"id": "also good", "kind": "fact", "title": "t"}',
    ]
    result = corpus.load_bytes(b"\n".join(lines))
    assert outcome(result) == (2, 0, 0, 9)
    assert [(reject.line, reject.field) for reject in result.rejects] == [
        (2, "row"), (3, "title"), (4, "title"), (5, "title"), (6, "attempts"), (7, "successes"), (8, "created_at"),
        (9, "id"), (10, "content_hash"),
    ]  # fmt: skip
    assert sorted(corpus.rows()) == ["also good", "good"]
    assert corpus.rows()["good"]["title"] == "t"
    # A reject can be mended and imported: it is the row itself.
    assert json.loads(result.rejects[-1].row)["id"] == "h"


def test_a_repeated_import_changes_nothing_at_all(corpus: Corpus) -> None:
    rows = [
        FULL,
        {"id": "b", "attempts": 3},
        {"id": "c", "created_at": "2026-01-01", "usage": [{"type": "cited", "at": "2026-02-01"}]},
    ]
    corpus.load(*rows)
    before = corpus.everything()
    assert len(before["changes"]) == 1
    for _ in range(2):
        assert outcome(corpus.load(*rows)) == (0, 0, 3, 0)
        assert corpus.everything() == before
    # The control: one changed word is one update.
    assert outcome(corpus.load(*rows[:2], rows[2] | {"title": "Another title"})) == (0, 1, 2, 0)
    assert len(corpus.everything()["changes"]) == 2


def test_rejected_rows_alone_leave_no_trace(corpus: Corpus) -> None:
    corpus.load({"id": "a"})
    before = corpus.everything()
    assert outcome(corpus.load_bytes(b"{}\n[]\n")) == (0, 0, 0, 2)
    assert outcome(corpus.load_bytes(b"")) == (0, 0, 0, 0)
    assert corpus.everything() == before


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("line ends", {"body": "one\ntwo"}, {"body": "one\r\ntwo"}),
        ("old line ends", {"body": "one\ntwo"}, {"body": "one\rtwo"}),
        ("byte order mark", {"body": "one"}, {"body": "\ufeffone"}),
        ("composition", {"title": "Café"}, {"title": unicodedata.normalize("NFD", "Café")}),
        ("in a step", {"steps": ["é"]}, {"steps": [unicodedata.normalize("NFD", "é")]}),
        ("in an unknown field", {"extra": {"é": ["a\nb"]}}, {"extra": {unicodedata.normalize("NFD", "é"): ["a\r\nb"]}}),
        (
            "in evidence",
            {"evidence": [{"path": "é.py"}]},
            {"evidence": [{"path": unicodedata.normalize("NFD", "é.py")}]},
        ),
        (
            "order of evidence",
            {"evidence": [{"path": "a"}, {"path": "b"}]},
            {"evidence": [{"path": "b"}, {"path": "a"}]},
        ),
        ("zone", {"created_at": "2026-01-01T12:00:00Z"}, {"created_at": "2026-01-01T13:00:00+01:00"}),
        ("absent and null", {}, {"body": None, "tags": [], "pinned": False}),
        ("number", {"confidence": 1}, {"confidence": 1.0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invisible_differences_make_no_new_version(
    corpus: Corpus, name: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    corpus.load({"id": "a"} | first)
    before = corpus.everything()
    assert outcome(corpus.load({"id": "a"} | second)) == (0, 0, 1, 0)
    assert corpus.everything() == before
    assert outcome(corpus.load({"id": "a"} | first | {"body": "really another text"})) == (0, 1, 0, 0)
    assert corpus.count("entry_versions") == 2


def test_a_byte_order_mark_before_the_file_and_windows_line_ends(corpus: Corpus) -> None:
    content = b'{"id":"a","kind":"fact","title":"t"}\n{"id":"b","kind":"fact","title":"t"}\n'
    corpus.load_bytes(content)
    assert outcome(corpus.load_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))) == (0, 0, 2, 0)


def test_all_formats_mean_the_same(corpus: Corpus) -> None:
    rows = [
        {"id": "a", "kind": "fact", "title": "T", "tags": ["x"], "attempts": 2, "pinned": True, "team": "red",
         "evidence": [{"type": "file", "path": "a.py", "line_start": 3}], "created_at": "2026-01-02T03:04:05Z"},
        {"id": "b", "kind": "rule", "body": "line\nline", "confidence": 0.25, "created_at": "2026-01-02T03:04:05Z"},
    ]  # fmt: skip
    plain = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert outcome(corpus.load_bytes(plain)) == (2, 0, 0, 0)
    names = sorted({name for row in rows for name in row})
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names)
    writer.writeheader()
    writer.writerows({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows)
    table = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(table)
    for name, content in (
        ("rows.jsonl.gz", gzip.compress(plain)),
        ("rows.csv", stream.getvalue().encode()),
        ("rows.csv.gz", gzip.compress(stream.getvalue().encode())),
        ("rows.parquet", table.getvalue()),
    ):
        assert outcome(corpus.load_bytes(content, name)) == (0, 0, 2, 0), name


def test_a_huge_body_is_taken_whole_or_rejected(corpus: Corpus) -> None:
    corpus.load({"id": "a", "body": "ä" * 3_000_000}, {"id": "b", "body": "x" * 8_000_001})
    rows = corpus.rows()
    assert list(rows) == ["a"]
    assert rows["a"]["body"] == "ä" * 3_000_000


def test_texts_that_look_like_the_signs_of_the_transport(corpus: Corpus) -> None:
    odd = [
        "\\N",
        "\\.",
        '"',
        '""',
        "a,b",
        "\t",
        " ",
        "\\x00",
        "null",
        "{}",
        "'; DROP TABLE entries; --",
        "%s %(x)s $1",
        "\u2028",
    ]
    rows: list[dict[str, Any]] = [
        {"id": f"e{n:02d}", "title": text, "body": f"x{text}\n{text}", "tags": [text], "author": text}
        for n, text in enumerate(odd)
    ]
    assert outcome(corpus.load(*rows)) == (len(odd), 0, 0, 0)
    back = corpus.rows()
    for row in rows:
        for name in ("title", "body", "tags", "author"):
            assert back[row["id"]][name] == row[name]
    assert outcome(corpus.load(*rows)) == (0, 0, len(odd), 0)
    assert outcome(corpus.load({"id": "'; x", "tenant": "\\N"}, {"id": "\\N", "tenant": ""})) == (2, 0, 0, 0)
    assert {"'; x", "\\N"} <= set(corpus.rows())


def test_the_content_hash_must_agree(corpus: Corpus) -> None:
    corpus.load({"id": "a", "title": "T", "body": "B"})
    right = corpus.rows()["a"]["content_hash"]
    assert outcome(corpus.load({"id": "a", "title": "T", "body": "B", "content_hash": right})) == (0, 0, 1, 0)
    result = corpus.load({"id": "a", "title": "T", "body": "changed", "content_hash": right}, {"id": "b"})
    assert outcome(result) == (1, 0, 0, 1)
    assert result.rejects[0].field == "content_hash"
    assert right in result.rejects[0].reason
    assert corpus.rows()["a"]["body"] == "B"


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "seen_from"),
    [
        ({"created_at": "2026-03-01T10:00:00Z"}, "2026-03-01T10:00:00Z"),
        ({"created_at": "2026-03-01", "updated_at": "2026-04-01"}, "2026-04-01T00:00:00Z"),
        ({"updated_at": "2026-04-01"}, "2026-04-01T00:00:00Z"),
        ({}, "2026-11-30T00:00:00Z"),
    ],
)
def test_an_entry_counts_from_its_own_time(corpus: Corpus, times: dict[str, str], seen_from: str) -> None:
    corpus.load({"id": "a"} | times)
    moment = datetime.fromisoformat(seen_from)
    assert corpus.rows(as_of=moment) == {}
    assert list(corpus.rows(as_of=moment.replace(microsecond=1))) == ["a"]


def test_the_last_complete_week() -> None:
    for now, monday in (
        ("2026-12-09T12:00:00Z", "2026-11-30"),
        ("2026-12-07T00:00:00Z", "2026-11-30"),
        ("2026-12-06T23:59:59Z", "2026-11-23"),
        ("2026-12-07T01:00:00+02:00", "2026-11-23"),
    ):
        assert last_complete_week(datetime.fromisoformat(now)) == datetime.fromisoformat(monday).replace(tzinfo=UTC)


def test_an_undated_row_keeps_its_time_when_it_is_imported_again_later(corpus: Corpus) -> None:
    corpus.load({"id": "a"})
    before = corpus.everything()
    assert outcome(corpus.load({"id": "a"}, now=datetime(2027, 6, 1, tzinfo=UTC))) == (0, 0, 1, 0)
    assert corpus.everything() == before


# --- one at a time ---------------------------------------------------------------------------------------------------


def test_an_import_that_fails_half_way_leaves_nothing(corpus: Corpus) -> None:
    rows = b"".join(json.dumps({"id": f"e{n}", "kind": "fact", "title": "t"}).encode() + b"\n" for n in range(500))
    corpus.load({"id": "before"})
    before = corpus.everything()
    packed = gzip.compress(rows)
    with pytest.raises(UsageError, match="Nothing of it was imported"):
        corpus.load_bytes(packed[:-20], "rows.jsonl.gz")
    assert corpus.everything() == before
    assert outcome(corpus.load_bytes(packed, "rows.jsonl.gz")) == (500, 0, 0, 0)


def test_a_large_import_refreshes_the_whole_corpus(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": f"e{n}", "attempts": 30 + n} for n in range(4)]
    corpus.load(*rows)
    monkeypatch.setattr(importing, "_FULL_REFRESH_ROWS", 1)
    corpus.load({"id": "e"}, {"id": "f"}, rows[0] | {"attempts": 31})
    assert {name: row["attempts"] for name, row in corpus.rows().items()} == {
        "e": 0, "e0": 31, "e1": 31, "e2": 32, "e3": 33, "f": 0,
    }  # fmt: skip
    assert corpus.projections_are_true()


def test_an_import_waits_for_nobody(corpus: Corpus) -> None:
    corpus.load({"id": "a"})
    with corpus.database.corpus_lock(corpus.name), pytest.raises(CorpusBusyError, match=corpus.name):
        corpus.load({"id": "b"})
    assert outcome(corpus.load({"id": "b"})) == (1, 0, 0, 0)


def test_corpora_do_not_touch_each_other(corpus: Corpus) -> None:
    one, two = corpus, Corpus(corpus.url, f"{corpus.name}-two")
    one.load({"id": "a", "title": "of one", "created_at": "2026-01-01"})
    two.load({"id": "a", "title": "of two", "created_at": "2026-01-01", "attempts": 2, "successes": 1})
    assert one.rows()["a"]["title"] == "of one"
    assert (one.rows()["a"]["attempts"], two.rows()["a"]["attempts"]) == (0, 2)
    one.curate(decided=Decisions(retire=("a",)))
    assert (one.rows()["a"]["state"], two.rows()["a"]["state"]) == ("archived", "active")
