"""The description of the HTTP API as rows of a page, from the OpenAPI document that the application makes of itself.

Belongs here: reading that document. It is the only source: what the page says is what the server checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_JSON = "application/json"


@dataclass(frozen=True)
class Value:
    """One thing that is sent: its name, where it goes (path, query, body), what it may be, and what it is for."""

    name: str
    place: str
    required: bool
    words: str
    description: str


@dataclass(frozen=True)
class Operation:
    """One thing that a program may ask for."""

    method: str
    path: str
    description: str
    values: tuple[Value, ...]
    changes: bool


def operations(document: dict[str, Any]) -> list[Operation]:
    """All operations of an OpenAPI 3.1 document, in its order."""
    return [
        Operation(method.upper(), path, said["description"], tuple(_values(document, said)), method != "get")
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]


def _values(document: dict[str, Any], said: dict[str, Any]) -> list[Value]:
    found = [
        Value(
            one["name"],
            one["in"],
            one.get("required", False),
            _words(document, one["schema"]),
            one.get("description", ""),
        )
        for one in said.get("parameters", ())
    ]
    if "requestBody" in said:
        body = _resolved(document, said["requestBody"]["content"][_JSON]["schema"])
        found += [
            Value(name, "body", name in body.get("required", ()), _words(document, shape), shape.get("description", ""))
            for name, shape in body["properties"].items()
        ]
    return found


def _resolved(document: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """The shape itself, where ``shape`` only names one."""
    if "$ref" not in shape:
        return shape
    found: Any = document
    for part in shape["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _words(document: dict[str, Any], shape: dict[str, Any]) -> str:
    """What a value may be, in a few words."""
    known = _resolved(document, shape)
    if "anyOf" in known:
        return " or ".join(_words(document, one) for one in known["anyOf"])
    if "enum" in known:
        return "one of " + ", ".join(map(str, known["enum"]))
    if known.get("type") == "array":
        return f"list, each {_words(document, known['items'])}"
    words = str(known.get("type", "anything"))
    if "maxLength" in known:
        words += f" of at most {known['maxLength']} characters"
    for name, key in (("from", "minimum"), ("to", "maximum")):
        if key in known:
            words += f" {name} {known[key]}"
    return words
