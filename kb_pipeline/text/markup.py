"""Markdown that does not change what a text says: emphasis and list bullets; and code, which must not be touched.

Belongs here: masking code spans and fenced blocks, removing paired emphasis marks and bullets outside code.
Does not belong here: words and punctuation (``chunks``).

Code is masked first: each span or block is replaced by a mark in the private-use area, and comes back verbatim when
the words are split. So nothing here can reach into code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CODE_OPEN, CODE_CLOSE = "\ue000", "\ue001"
CODE_MARK = re.compile(f"{CODE_OPEN}(\\d+){CODE_CLOSE}")


class Code(NamedTuple):
    """One piece of code: its text, and whether it was a fenced block."""

    text: str
    fenced: bool


_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)*(?:[-*+][ \t]+|\d+[.)][ \t]+)?(`{3,}|~{3,})([^`]*)$")
# A span never reaches over a fenced block: its mark would be lost inside.
_SPAN = re.compile(
    rf"(?<![`\\])`(?!`)([^`\n{CODE_OPEN}]+(?:\n(?![ \t]*\n)[^`\n{CODE_OPEN}]*)*)`(?!`)"
    rf"|(?<![`\\])``(?!`)([^\n{CODE_OPEN}]{{1,400}}?)(?<!`)``(?!`)"
)


def mask_code(text: str) -> tuple[str, list[Code]]:
    """Replace code by marks.

    Returns:
        The text with ``CODE_OPEN index CODE_CLOSE`` in place of each span or block, and the pieces by index. A fence
        that is never closed runs to the end of the text.
    """
    codes: list[Code] = []
    if "```" in text or "~~~" in text:
        text = _mask_fences(text, codes)
    if "`" in text:

        def keep(match: re.Match[str]) -> str:
            codes.append(Code(match.group(1) or match.group(2), fenced=False))
            return f"{CODE_OPEN}{len(codes) - 1}{CODE_CLOSE}"

        text = _SPAN.sub(keep, text)
    return text, codes


def _mask_fences(text: str, codes: list[Code]) -> str:
    kept: list[str] = []
    block: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match.group(1).startswith(fence) and not match.group(2).strip():
                codes.append(Code("\n".join(block), fenced=True))
                kept.append(f"{CODE_OPEN}{len(codes) - 1}{CODE_CLOSE}")
                fence = ""
            else:
                block.append(line.rstrip())
        elif match:
            fence = match.group(1)
            block = [match.group(2).strip()]
        else:
            kept.append(line)
    if fence:
        codes.append(Code("\n".join(block), fenced=True))
        kept.append(f"{CODE_OPEN}{len(codes) - 1}{CODE_CLOSE}")
    return "\n".join(kept)


# Emphasis opens after a character that belongs to no word, path or pattern and closes before one, holds no mark of
# its own kind, and begins like prose: so globs (*.py, src/**), products (2*3*4) and pointers stay as they are.
_STARS = re.compile(
    r"(?<![A-Za-z0-9_*/\\.])(\*{1,3})(?=[^\W_]|[\"'(\["
    + CODE_OPEN
    + r"])([^*\n]*(?:\n(?![ \t]*\n)[^*\n]*)*[^\s*/\\])\1"
    r"(?![A-Za-z0-9_*/]|\.\w)"
)
_UNDERLINES = re.compile(
    r"(?<![A-Za-z0-9_*/\\.$@#-])(_{1,3})(?=[^\W_]|[\"'(\[*"
    + CODE_OPEN
    + r"])([^_\n]*[^\s_/\\])\1(?![A-Za-z0-9_/(]|\.\w)"
)
_DUNDER = re.compile(r"[a-z][a-z0-9]*")
_SUNDERS = frozenset({"missing", "value", "name", "order", "ignore", "fields", "pack"})
_BULLET = re.compile(r"^[ \t]*[-*+•‣▪◦●○·–—][ \t]+", re.MULTILINE)
_PLUS_LINE = re.compile(r"^[ \t]*\+[ \t]", re.MULTILINE)
_MINUS_LINE = re.compile(r"^[ \t]*-[ \t]", re.MULTILINE)


def _underlined(match: re.Match[str]) -> str:
    marks, content = match.group(1), match.group(2)
    # __init__ is a name, and so are the sunder names of enums; _only_ is emphasis.
    if _DUNDER.fullmatch(content) and (len(marks) > 1 or content in _SUNDERS):
        return match.group()
    return content


def strip_emphasis(text: str) -> str:
    """Remove paired emphasis marks (stars and underlines) from a text whose code is masked."""
    if "*" in text:
        text = _STARS.sub(r"\2", text)
        if "*" in text:
            text = _STARS.sub(r"\2", text)
    if "_" in text:
        text = _UNDERLINES.sub(_underlined, text)
    return text


LINK_TEXT, LINK_TARGET = "\ue002", "\ue003"
_LINK = re.compile(r"(?<![\w\])])\[((?:[^\[\]\n]|\n(?![ \t]*\n)){1,300})\]\(([^()\s]{1,500})\)(?:[.,;:]+(?=\s|$))?")


def open_links(text: str) -> str:
    """Set the words of a Markdown link free: they are prose, its target is a token of its own."""
    return _LINK.sub(rf"{LINK_TEXT} \1 {LINK_TARGET}\2", text)


def strip_bullets(text: str) -> str:
    """Remove list bullets at line starts; lines of a diff (``+`` and ``-`` in one text) keep theirs."""
    if _PLUS_LINE.search(text) and _MINUS_LINE.search(text):
        return text
    return _BULLET.sub("", text)
