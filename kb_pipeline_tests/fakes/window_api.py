"""What a model may say of many recent entries: reading a prompt back, and replies that know the planted entries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kb_pipeline.stages.window import _PLANTED as PLANTED
from kb_pipeline.stages.window import PROMPT

_ENTRY = re.compile(
    r'^<entry id="(?P<id>e\d+)" kind="(?P<kind>\w+)" mark="(?P<mark>\w+)">\n(?P<text>.*?)\n</entry mark="(?P=mark)">$',
    re.M | re.S,
)


def is_reading(body: Mapping[str, Any]) -> bool:
    """Whether a request puts many entries at once."""
    return any(part.get("text") == PROMPT.instructions for part in body["system"])


def entries_of(prompt: str) -> dict[str, str]:
    """Name and text of every entry of a prompt, planted ones included."""
    return {found["id"]: found["text"] for found in _ENTRY.finditer(prompt)}


def planted_of(texts: Mapping[str, str]) -> tuple[str, str, str]:
    """Names of the planted entries: the two that say the same, and the third."""
    for texts_planted in PLANTED:
        names = [next((name for name, text in texts.items() if text == planted), None) for planted in texts_planted]
        if None not in names:
            return tuple(names)  # type: ignore[return-value]
    raise AssertionError("no planted entries")


def name_of(texts: Mapping[str, str], words: str) -> str:
    """The one entry whose text holds these words."""
    (name,) = [name for name, text in texts.items() if words in text]
    return name


def duplicate(
    a: str, b: str, confidence: float = 0.9, reason: str = "Both say the same.", body: Any = None
) -> dict[str, Any]:
    """An item of a reply."""
    return {"a": a, "b": b, "confidence": confidence, "reason": reason, "merged_body": body}


def issue(name: str, severity: str = "medium", text: str = "It does not say what to do.") -> dict[str, Any]:
    """An item of a reply."""
    return {"id": name, "severity": severity, "issue": text}


def reply(prompt: str, duplicates: Sequence[Any] = (), issues: Sequence[Any] = (), *, planted: bool = True) -> str:
    """The text of a reply: these items, after the planted pair, which a good model names."""
    one, again, _ = planted_of(entries_of(prompt))
    named = [duplicate(again, one, 0.97)] if planted else []
    return json.dumps({"duplicates": [*named, *duplicates], "issues": list(issues)})
