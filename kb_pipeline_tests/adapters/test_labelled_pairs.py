"""Files of labelled pairs: texts and rows, labels of other people, and lines that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kb_pipeline.adapters.labelled_pairs import read_labelled_pairs
from kb_pipeline.errors import LabelledPairsError
from kb_pipeline.vocabulary import Kind, PairLabel
from kb_pipeline_tests.fakes.labelled import labelled, write_pairs

SAME: dict[str, Any] = {"a": "The pump is tested on Mondays.", "b": "Pumps are tested on Mondays.", "label": "MERGE"}


def test_texts_are_entries_of_one_scope_and_kind_and_of_no_other_pair(tmp_path: Path) -> None:
    found = labelled(tmp_path / "p.jsonl", SAME, SAME | {"label": "KEEP_BOTH", "stratum": "related"})
    assert found.pairs["label"].to_list() == ["MERGE", "KEEP_BOTH"]
    assert found.pairs["stratum"].to_list() == ["all", "related"]
    entries = found.entries
    assert entries["text"].to_list() == [SAME["a"], SAME["b"]] * 2
    assert entries["kind"].unique().to_list() == ["fact"]
    scopes = entries["scope"].to_list()
    assert scopes[0] == scopes[1] != scopes[2] == scopes[3]
    assert found.pairs["entry_id_l"].to_list() == entries["entry_id"].to_list()[::2]
    assert (found.pairs["entry_id_l"] < found.pairs["entry_id_r"]).all()


def test_a_text_beside_a_row_has_the_rows_kind_and_place_but_nothing_else(tmp_path: Path) -> None:
    row = {
        "kind": "rule",
        "body": "Valves are opened slowly.",
        "repository": "dock",
        "platform": "quay",
        "pinned": True,
    }
    found = labelled(
        tmp_path / "p.jsonl",
        SAME | {"a": row},
        {"a": SAME["a"], "b": row, "label": "MERGE"},
        scope_fields=("platform",),
    )
    for left, right in ((0, 1), (2, 3)):
        pair = found.entries[left : right + 1]
        assert pair["kind"].to_list() == ["rule", "rule"]
        assert pair["scope"].n_unique() == 1 and "quay" in pair["scope"][0]
        assert sorted(pair["pinned"].to_list()) == [False, True]


def test_two_rows_say_for_themselves_where_they_belong(tmp_path: Path) -> None:
    one = {
        "id": "x",
        "kind": "rule",
        "title": "Valves",
        "body": "Slowly.",
        "steps": ["turn", "wait"],
        "tenant": "north",
    }
    found = labelled(tmp_path / "p.jsonl", {"a": one, "b": one | {"tenant": "south"}, "label": "KEEP_BOTH"})
    assert found.entries["scope"].n_unique() == 2
    assert found.entries["text"].to_list() == ["Valves\nSlowly.\nturn\nwait"] * 2
    # A row that names no tenant has none, whatever the other says.
    bare = labelled(tmp_path / "q.jsonl", {"a": one, "b": {"kind": "rule", "body": "x"}, "label": "KEEP_BOTH"})
    assert bare.entries["tenant"].to_list() == ["north", None]


def test_labels_of_other_people_are_translated(tmp_path: Path) -> None:
    rows = [SAME | {"label": label} for label in (1, 0, "dup", True, "CONFLICT", 2.5)]
    meanings = {"1": "MERGE", "0": "KEEP_BOTH", "dup": "SUBSET", "true": "MERGE", "2.5": "SUPERSEDES"}
    mapping = {label: PairLabel(meaning) for label, meaning in meanings.items()}
    found = labelled(tmp_path / "p.jsonl", *rows, mapping=mapping)
    assert found.pairs["label"].to_list() == ["MERGE", "KEEP_BOTH", "SUBSET", "MERGE", "CONFLICT", "SUPERSEDES"]
    # A mapping also stands over a word that has a meaning of its own.
    turned = labelled(tmp_path / "q.jsonl", SAME, mapping={"MERGE": PairLabel.KEEP_BOTH})
    assert turned.pairs["label"].to_list() == ["KEEP_BOTH"]


def test_labels_without_a_meaning_are_all_named_with_their_numbers(tmp_path: Path) -> None:
    rows = [SAME | {"label": label} for label in ("noise", "noise", 7, "MERGE")]
    with pytest.raises(LabelledPairsError) as told:
        labelled(tmp_path / "p.jsonl", *rows)
    for words in ("'noise' (2 pairs)", "'7' (1 pairs)", "KEEP_BOTH", "--map"):
        assert words in str(told.value)
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ":2: line: is not JSON"),
        ("[1]", ":2: line: is not an object"),
        ('{"a": "x", "b": "y"}', ":2: label: is required"),
        ('{"a": "x", "b": "y", "label": "MERGE", "stratum": "total"}', ":2: stratum: 'total' is the name"),
        ('{"a": "x", "label": "MERGE"}', ":2: b: is required"),
        ('{"a": "x", "b": 5, "label": "MERGE"}', ":2: b: is neither a text nor an import row"),
        ('{"a": "  ", "b": "y", "label": "MERGE"}', ":2: a.title: is empty"),
        ('{"a": "x", "b": {"kind": "opinion", "body": "y"}, "label": "MERGE"}', ":2: b.kind:"),
        ('{"a": "x\\u0000", "b": "y", "label": "MERGE"}', ":2: a.body: holds a NUL"),
        ('{"a": {"body": "x", "content_hash": "00"}, "b": "y", "label": "MERGE"}', ":2: a.content_hash:"),
        (json.dumps(SAME | {"b": "y" * 50}), ":2: b: has more characters than load.max_body_chars = 40"),
    ],
)
def test_a_line_that_is_no_labelled_pair_is_named_by_line_and_field(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(LabelledPairsError) as told:
        labelled(tmp_path / "p.jsonl", SAME, line, max_body_chars=40)
    assert words in str(told.value)


def test_compressed_files_a_byte_order_mark_and_empty_lines(tmp_path: Path) -> None:
    plain = write_pairs(tmp_path / "p.jsonl", "\ufeff" + json.dumps(SAME), "", SAME)
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (read_labelled_pairs(path, max_body_chars=100) for path in (plain, packed))
    assert first.pairs.height == 2
    assert first.pairs.equals(second.pairs) and first.entries.equals(second.entries)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.jsonl", b"\n", "holds no labelled pair"),
        ("p.jsonl.gz", b"no gzip", "cannot be read"),
        ("q", None, "No such"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LabelledPairsError, match=words):
        read_labelled_pairs(path, max_body_chars=100)


def test_the_kind_of_pairs_that_name_none_may_be_chosen(tmp_path: Path) -> None:
    found = labelled(tmp_path / "p.jsonl", SAME, SAME | {"a": {"kind": "lesson", "body": "x"}}, kind=Kind.SKILL)
    assert found.entries["kind"].to_list() == ["skill", "skill", "lesson", "lesson"]
