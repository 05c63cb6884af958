"""Two texts side by side with their difference marked.

Belongs here: cutting texts into words, finding what only one side holds, and shortening long texts so that every
difference stays visible with a little text around it. Does not belong here: markup (adapters).

Sentences are compared first, then the words of those that changed: long texts stay cheap. Words of any script are
compared; a character of a script without spaces is a word of its own. White space never differs.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

_SPACELESS = r"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF"
_LETTERS = rf"[^\W_{_SPACELESS}]+"
# Snake case is one word, and so are 2.1, 10:30 and 1,000.
_WORD = re.compile(rf"\s*(?:[{_SPACELESS}]|{_LETTERS}(?:(?:_|(?<=\d)[.,:](?=\d)){_LETTERS})*|[^\w\s]|_)")

MAX_TEXT_CHARS = 200_000
"""The rest of a longer text is neither compared nor shown."""

_JOINED = frozenset({"Mn", "Mc", "Me", "Cf"})

_CLOSING = frozenset(".!?;。！？；؟।")

MAX_COMPARED_SENTENCES = 1000
"""Sentences that are compared with each other; what follows counts as one."""

MAX_COMPARED_WORDS = 600
"""Words of a changed passage that are compared with each other; what follows counts as changed."""


@dataclass(frozen=True)
class Piece:
    """A run of text. ``kind``: ``same`` on both sides, ``only`` on this side, or a ``gap`` (text left out)."""

    text: str
    kind: Literal["same", "only", "gap"]


def marked(left: str, right: str, *, max_chars: int = 700) -> tuple[list[Piece], list[Piece]]:
    """The two texts as pieces, each shortened to about ``max_chars`` with the differences in view.

    Args:
        left: one text.
        right: the other.
        max_chars: target length of each side; a side with many differences shows the first of them.
    """
    words_l, words_r = _words(left), _words(right)
    flags_l, flags_r = _differences([w.strip() for w in words_l], [w.strip() for w in words_r])
    return _shortened(words_l, flags_l, max_chars), _shortened(words_r, flags_r, max_chars)


def shortened(text: str, max_chars: int) -> str:
    """The beginning of a text on one line, cut at a word where possible; an ellipsis stands for the rest."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    cut = line[:max_chars]
    head = cut.rpartition(" ")[0]
    return (head if len(head) > max_chars // 2 else cut).rstrip() + " …"


def _words(text: str) -> list[str]:
    """Words with the white space before them, so that joined again they are the text."""
    words: list[str] = []
    for word in _WORD.findall(text[:MAX_TEXT_CHARS]):
        # A combining mark or joiner belongs to the letter before it: apart, neither could be drawn.
        if words and unicodedata.category(word[0]) in _JOINED:
            words[-1] += word
        else:
            words.append(word)
    return words


def _differences(left: list[str], right: list[str]) -> tuple[list[bool], list[bool]]:
    """For each word of each side, whether only this side has it."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    only_l, only_r = [False] * len(left), [False] * len(right)
    ends_l, ends_r = _sentence_ends(left, start, len(left) - end), _sentence_ends(right, start, len(right) - end)
    said_l = [tuple(left[a:b]) for a, b in pairwise(ends_l)]
    said_r = [tuple(right[a:b]) for a, b in pairwise(ends_r)]
    for tag, a, b, c, d in SequenceMatcher(None, said_l, said_r, autojunk=False).get_opcodes():
        if tag != "equal":
            _mark_words(left, right, (ends_l[a], ends_l[b]), (ends_r[c], ends_r[d]), only_l, only_r)
    return only_l, only_r


def _mark_words(
    left: list[str],
    right: list[str],
    span_l: tuple[int, int],
    span_r: tuple[int, int],
    only_l: list[bool],
    only_r: list[bool],
) -> None:
    """Flags the words of two spans that only one of them holds."""
    words_l, words_r = left[slice(*span_l)], right[slice(*span_r)]
    only_l[slice(*span_l)] = [True] * len(words_l)
    only_r[slice(*span_r)] = [True] * len(words_r)
    matcher = SequenceMatcher(None, words_l[:MAX_COMPARED_WORDS], words_r[:MAX_COMPARED_WORDS], autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            only_l[span_l[0] + block.a + offset] = only_r[span_r[0] + block.b + offset] = False


def _sentence_ends(words: list[str], start: int, stop: int) -> list[int]:
    """Where the sentences of a span begin and end: ``start``, each place after a closing mark, ``stop``."""
    after = [index + 1 for index in range(start, stop) if words[index] in _CLOSING and index + 1 < stop]
    return [start, *after[:MAX_COMPARED_SENTENCES], stop]


def _shortened(words: list[str], flags: list[bool], max_chars: int) -> list[Piece]:
    fits = sum(map(len, words)) <= max_chars
    shown = [True] * len(words) if fits else _window(words, flags, max_chars)
    pieces: list[Piece] = []
    for word, only, show in zip(words, flags, shown, strict=True):
        if not show:
            _add(pieces, " … ", "gap")
        elif not only:
            _add(pieces, word, "same")
        elif pieces and pieces[-1].kind == "only":
            _add(pieces, word, "only")
        else:
            # The white space before the first marked word is no difference.
            bare = word.lstrip()
            _add(pieces, word[: len(word) - len(bare)], "same")
            _add(pieces, bare, "only")
    return pieces


def _add(pieces: list[Piece], text: str, kind: Literal["same", "only", "gap"]) -> None:
    if not text:
        return
    if not pieces or pieces[-1].kind != kind:
        pieces.append(Piece(text, kind))
    elif kind != "gap":
        pieces[-1] = Piece(pieces[-1].text + text, kind)


def _window(words: list[str], flags: list[bool], max_chars: int) -> list[bool]:
    """Which words are shown: around each difference, nearest first, until the budget is spent; else the beginning."""
    marks = [index for index, only in enumerate(flags) if only] or [0]
    distance = [len(words)] * len(words)
    for index in marks:
        distance[index] = 0
    for index in range(1, len(words)):
        distance[index] = min(distance[index], distance[index - 1] + 1)
    for index in range(len(words) - 2, -1, -1):
        distance[index] = min(distance[index], distance[index + 1] + 1)
    shown = [False] * len(words)
    left_chars = max_chars
    for index in sorted(range(len(words)), key=lambda at: (distance[at], at)):
        if len(words[index]) > max_chars:
            continue
        left_chars -= len(words[index])
        if left_chars < 0:
            break
        shown[index] = True
    return shown
