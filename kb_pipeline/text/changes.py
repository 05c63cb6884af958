"""The machinery of one-place changes of real texts.

Belongs here: applying a change to one place drawn at random, and generating changed copies. Does not belong here:
the kinds of change (``mutants``, ``reformattings``) and assertions (tests).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

Change = Callable[[random.Random, str], "str | None"]
"""A change of a text; None means that the text has no place for it."""


class Mutant(NamedTuple):
    """A text and its changed copy. ``kind`` names the change."""

    kind: str
    original: str
    changed: str


def at(pattern: str, replace: Callable[[random.Random, re.Match[str]], str | None]) -> Change:
    """A change of one match of ``pattern``, drawn at random among those that ``replace`` really alters."""

    def change(rng: random.Random, text: str) -> str | None:
        matches = list(re.finditer(pattern, text))
        rng.shuffle(matches)
        for match in matches:
            new = replace(rng, match)
            if new is not None and new != match.group():
                return text[: match.start()] + new + text[match.end() :]
        return None

    return change


def to(new: str) -> Callable[[random.Random, re.Match[str]], str]:
    r"""Replace by ``new``; groups of the match may be named (``\1``)."""
    return lambda _, match: match.expand(new)


def by(table: Mapping[str, str]) -> Callable[[random.Random, re.Match[str]], str | None]:
    """Replace by what the table holds for the match, if anything."""
    return lambda _, match: table.get(match.group())


def swapped(pairs: str, *, prose_only: bool = False) -> Change:
    """A change of one word into its partner; ``pairs`` holds ``a/b`` parted by commas, both directions."""
    table: dict[str, str] = {}
    for pair in pairs.split(","):
        left, right = pair.strip().split("/")
        table[left], table[right] = right, left
    pattern = r"\b(?:" + "|".join(sorted(map(re.escape, table), key=len, reverse=True)) + r")\b"
    if prose_only:
        pattern = rf"(?<![\w./@#$=+<>-]){pattern}(?![\w(/=+<>-]|[.:]\w)"

    def replace(_: random.Random, match: re.Match[str]) -> str | None:
        word = match.group()
        if prose_only and word[1:] != word[1:].lower():
            return None
        new = table[word.lower()]
        return new.capitalize() if word[0].isupper() else new

    return at(f"(?i){pattern}", replace)


def outside_code(change: Change) -> Change:
    """Apply a change to the prose before, between or behind code, never inside."""

    def changed(rng: random.Random, text: str) -> str | None:
        parts = re.split(r"(```.*?(?:```|\Z)|`[^`\n]*`)", text, flags=re.DOTALL)
        places = list(range(0, len(parts), 2))
        rng.shuffle(places)
        for place in places:
            new = change(rng, parts[place])
            if new is not None and new != parts[place]:
                return "".join([*parts[:place], new, *parts[place + 1 :]])
        return None

    return changed


def generate(
    texts: Iterable[str], table: Mapping[str, Change], seed: int, kinds_per_text: int | None = None
) -> Iterator[Mutant]:
    """Yield changed copies of each text: of every kind in ``table``, or of ``kinds_per_text`` drawn for each text."""
    rng = random.Random(seed)  # noqa: S311 - changes are repeated, nothing is kept secret
    kinds = sorted(table)
    for text in texts:
        for kind in kinds if kinds_per_text is None else rng.sample(kinds, kinds_per_text):
            changed = table[kind](rng, text)
            if changed is not None and changed != text:
                yield Mutant(kind, text, changed)
