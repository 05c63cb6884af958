"""Documents as YAML 1.2 text that every loader reads alike.

Belongs here: writing dictionaries, lists, texts, numbers, booleans and null in block style. ruamel.yaml writes some
1,000 to 2,000 rows a second, and a large week has more than ten thousand; so the few shapes that reports use are
written here, and tests hold the result against ruamel.yaml (YAML 1.2) and PyYAML (1.1).

A text is left bare only if it is one plain word of letters, digits and ``. _ / -`` that starts with a letter and means
nothing else in YAML 1.1 or 1.2; every other text is a double-quoted scalar.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_TAKEN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"})
# What YAML does not take as printable, or takes as a line break (JSON leaves these as they are).
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def yaml_text(document: dict[str, Any]) -> str:
    """A document as YAML: UTF-8-safe text, keys in the order of the dictionary, one value a line.

    Args:
        document: nested dictionaries with text keys (up to 1,000 characters), lists, texts, integers, floats, booleans
            and None.

    Raises:
        TypeError: a value of another type; says where it stands.
    """
    return "\n".join(_block(document, "", "document")) + "\n"


def _block(value: dict[str, Any] | list[Any], indent: str, where: str) -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for number, (key, item) in enumerate(items):
        here = f"{where}[{number}]" if key is None else f"{where}.{key}"
        if key is not None and not isinstance(key, str):
            raise TypeError(f"{where}: key {key!r} is a {type(key).__name__}, expected text")
        start = f"{indent}-" if key is None else f"{indent}{_text(key)}:"
        if isinstance(item, dict | list) and item:
            inner = list(_block(item, indent + "  ", here))
            if key is None and isinstance(item, dict):
                yield f"{indent}- {inner[0].lstrip()}"
                yield from inner[1:]
            else:
                yield start
                yield from inner
        else:
            yield f"{start} {_scalar(item, here)}"


def _scalar(value: Any, where: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, dict | list) and not value:
        return "{}" if isinstance(value, dict) else "[]"
    raise TypeError(f"{where}: a {type(value).__name__} cannot be written")


def _text(value: str) -> str:
    if _BARE.match(value) and value.lower() not in _TAKEN:
        return value
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 knows a float by its point.
    return text if "." in text else text.replace("e", ".0e")
