"""YAML that both kinds of loaders read as it was meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kb_pipeline.adapters.report_yaml import yaml_text

TRICKY = [
    "", " ", "no", "Off", "y", "null", "~", "true", "NaN", ".inf", "1", "-1", "1.5", "1e3", "0x1F", "0o7", "1_000", "12:30:45",
    "2026-11-16", "2026-11-16T00:00:00Z", "- a", "a: b", "a #b", "#b", "&a", "*a", "!t", "%d", "@x", "`x`", "[x]", "{x}",
    "'q'", '"q"', "a\nb", "a\r\nb", "\t", "\\n", "tab\tin", "\x00", "\x07", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe",
    "部署前", "Größe", "מפתח", "🙂", "a" * 5000, "<<", "=", "?", "-", "...", "---", "judge.exact", "org/repo-1", "e01",
]  # fmt: skip


def loads(text: str) -> list[Any]:
    """The document as YAML 1.2 and as YAML 1.1 see it."""
    return [YAML(typ="safe", pure=True).load(text), yaml.safe_load(text)]


@pytest.mark.parametrize("text", TRICKY)
def test_texts_come_back_as_texts(text: str) -> None:
    document = {"value": text, text[:200] or "empty": 1, "list": [text, {"x": text}]}
    assert loads(yaml_text(document)) == [document, document]


@pytest.mark.parametrize(
    "value", [0, -3, 10**18, 0.0, 0.1, 1e-07, 1e21, -2.5e-10, True, False, None, [], {}, [[]], [{}]]
)
def test_values_come_back_with_their_type(value: Any) -> None:
    for loaded in loads(yaml_text({"value": value, "list": [value]})):
        assert loaded == {"value": value, "list": [value]}
        assert type(loaded["value"]) is type(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_any_document_comes_back(document: dict[str, Any]) -> None:
    assert loads(yaml_text(document)) == [document, document]


def test_keys_keep_their_order_and_plain_words_stay_bare() -> None:
    assert (
        yaml_text({"b": "judge.exact", "a": [{"y": 1, "x": "no"}]}) == 'b: judge.exact\na:\n  - "y": 1\n    x: "no"\n'
    )


@pytest.mark.parametrize("value", [object(), {1: 2}, (1,), b"x"])
def test_what_cannot_be_written_says_where(value: Any) -> None:
    with pytest.raises(TypeError, match=r"document\.rows\[1\]"):
        yaml_text({"rows": [0, value]})
