"""Closed lists of words, written as running text.

Belongs here: the readers of such lists. Does not belong here: the lists themselves, which stand where they are used.
"""

from __future__ import annotations


def closed_list(text: str) -> frozenset[str]:
    """Return the words of ``text``, parted by white space."""
    return frozenset(text.split())


def ordered_list(text: str) -> tuple[str, ...]:
    """Return the words of ``text`` in their order."""
    return tuple(text.split())
