"""JSON as a model was asked for it: what the standard leaves open, or Python's reader lets pass, is an error."""

from __future__ import annotations

import json
from typing import Any


def strict_json(text: str) -> Any:
    """The value of a JSON text in which no key stands twice and every number is one.

    Raises:
        ValueError: it is not JSON, repeats a key, holds NaN or Infinity, or is nested beyond reading.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)
