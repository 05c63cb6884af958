"""Texts of entries between tags that no text can close (ledger X2).

Belongs here: the mark, and the quoting. A mark is hashed from all the texts that it will stand around, so nobody can
write a text that holds its own mark; what looks like a tag inside a text is escaped all the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

_TAG = re.compile(r"<(?=\s*/?\s*entry)", re.IGNORECASE)


def mark_of(parts: Sequence[str]) -> str:
    """24 hex digits that depend on every part and on where one ends and the next begins."""
    lengths = ":".join(str(len(part)) for part in parts)
    return hashlib.sha256("\x00".join((lengths, *parts)).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def fenced(tag: str, mark: str, text: str, attributes: Mapping[str, str] | None = None) -> str:
    """``text`` between tags with ``mark``; look-alikes of a tag are escaped and the mark itself is taken out.

    Args:
        tag: begins with ``entry``.
        mark: see ``mark_of``.
        text: whatever an entry says.
        attributes: further ones of the opening tag; their values are ours and hold no quotes.
    """
    inside = _TAG.sub("&lt;", re.sub(re.escape(mark), "", text, flags=re.IGNORECASE))
    more = "".join(f' {name}="{value}"' for name, value in (attributes or {}).items())
    return f'<{tag}{more} mark="{mark}">\n{inside}\n</{tag} mark="{mark}">'
