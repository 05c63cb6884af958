"""The text of an entry, its hash, and the form in which two texts count as exactly equal.

Belongs here: folding of what must not make a new version (BOM, line ends, Unicode composition), the joined entry
text, the content hash and exact normalisation (definitions, "Text and tokens"). Does not belong here: word rules
beyond case (``canonical``).

``content_hash`` = SHA-256 of the JSON array [title, body, rationale, alternatives, steps] after folding.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence

from kb_pipeline.text.chunks import exact_chunks, prepare
from kb_pipeline.text.markup import CODE_MARK, Code


def fold(text: str) -> str:
    """Fold the differences that make no new version: BOM, CRLF and CR, composed or decomposed Unicode."""
    if text.startswith("\ufeff"):
        text = text.lstrip("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _fold_all(texts: Sequence[str] | None) -> list[str]:
    return [fold(text) for text in texts or ()]


def entry_text(
    title: str | None,
    body: str | None,
    rationale: str | None = None,
    alternatives: Sequence[str] | None = None,
    steps: Sequence[str] | None = None,
) -> str:
    """Join the fields of an entry by newlines, the title only when the body does not start with it.

    Every part is folded; empty parts are left out.
    """
    title, body = fold(title or ""), fold(body or "")
    parts = [body, fold(rationale or ""), *_fold_all(alternatives), *_fold_all(steps)]
    if title.strip() and not _starts_with(body, title):
        parts.insert(0, title)
    return "\n".join(part for part in parts if part.strip())


def _starts_with(body: str, title: str) -> bool:
    """Whether ``body`` begins with ``title``, both in exact normal form, and a word ends there."""
    if not body.strip() or _first_sign(body) != _first_sign(title):
        return False
    head, start = exact_normal(body[: 2 * len(title) + 80]), exact_normal(title)
    if not start or not head.startswith(start):
        return False
    return len(head) == len(start) or not (head[len(start)].isalnum() or head[len(start)] == "_")


def _first_sign(text: str) -> str:
    """The first letter or digit, folded: texts that differ in it cannot begin alike, and most are told apart by it."""
    for char in text:
        if char.isalnum():
            return unicodedata.normalize("NFKC", char).casefold()[:1]
    return ""


def entry_title(title: str | None, body: str | None) -> str:
    """Return the title, or the body's first line that is not blank when there is no title."""
    if title and title.strip():
        return fold(title)
    for line in fold(body or "").split("\n"):
        if line.strip():
            return line.strip()
    return ""


def content_hash(
    title: str | None,
    body: str | None,
    rationale: str | None = None,
    alternatives: Sequence[str] | None = None,
    steps: Sequence[str] | None = None,
) -> str:
    """Return the SHA-256 (hex) of the folded fields; a missing field equals an empty one."""
    fields = [fold(title or ""), fold(body or ""), fold(rationale or ""), _fold_all(alternatives), _fold_all(steps)]
    encoded = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()


def exact_normal(text: str) -> str:
    """Return the form in which two texts are exactly equal.

    NFC, full-width forms, white space, typographic quotes and hyphens, invisible characters, paired emphasis outside
    code, list bullets and the final full stop are folded; case only in plain words outside code, flags and paths.
    """
    prepared, codes = prepare(text)
    joined = " ".join(exact_chunks(prepared))
    return CODE_MARK.sub(lambda match: _exact_code(codes[int(match.group(1))]), joined) if codes else joined


def _exact_code(code: Code) -> str:
    if code.fenced:
        return "```" + "\n".join(line for line in code.text.split("\n") if line.strip()) + "```"
    inner = re.sub(r"[ \t]*\n[ \t]*", " ", code.text)
    # A blank at one end of a span can be its point; one at both ends is padding.
    if len(inner) > 2 and inner[0] == inner[-1] == " " and inner.strip():
        inner = inner[1:-1]
    return f"`{inner}`"
