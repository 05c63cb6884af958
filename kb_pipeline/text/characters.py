"""Characters that look or mean the same, brought to one form.

Belongs here: the folding of single characters: invisible ones, white space, typographic quotes and hyphens,
full-width forms. Does not belong here: markup (``markup``) and words (``chunks``).

Compatibility normalisation (NFKC) is deliberately not used: it would turn ``10²`` into ``102`` and ``ﬁ`` tables of
other alphabets into look-alikes. Full-width forms are folded one by one instead (definitions, "Text and tokens").
"""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = (
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_LINE_BREAKS = "\x0b\x0c\x85\u2028\u2029"


def _table() -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for code in range(32):
        if chr(code) not in "\t\n":
            table[code] = " "
    table.update({ord(char): None for char in _INVISIBLE})
    table.update({ord(char): " " for char in _SPACES})
    table.update({ord(char): "\n" for char in _LINE_BREAKS})
    table.update({ord(char): "'" for char in "\u2018\u2019\u201a\u201b\u02bc\u00b4"})
    table.update({ord(char): '"' for char in "\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f"})
    table.update({ord(char): "-" for char in "\u2010\u2011\u2212"})
    table.update({code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)})
    table.update({0x3002: ".", 0xFF61: ".", 0x3001: ",", 0xFF64: ","})
    # Private-use characters mark code and links in ``markup``: a text may not bring its own.
    table.update({0xE000: " ", 0xE001: " ", 0xE002: " ", 0xE003: " ", 0x7F: " "})
    return table


_TABLE = _table()
# In a long text a search for the few characters of the table is faster than a look-up of every one.
_FOLDED = re.compile("[" + re.escape("".join(map(chr, _TABLE))) + "]")


def _folded(match: re.Match[str]) -> str:
    return _TABLE[ord(match.group())] or ""


_HALF_WIDTH_KANA = re.compile("[\uff65-\uff9f]+")

SPACELESS = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""A character class (without brackets) of the scripts that write no spaces between words."""

_HAN_KANA = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SPACE_BESIDE_HAN = re.compile(
    rf"(?<=[{_HAN_KANA}])[ \t\n]+(?=[{_HAN_KANA}\w.,:;!?(\"'])"
    rf"|(?<=[\w.,:;!?)\"'])[ \t\n]+(?=[{_HAN_KANA}])"
    rf"|(?<=[{_HAN_KANA}][.,:;!?])[ \t\n]+"
)


def fold_characters(text: str) -> str:
    """Return ``text`` with look-alike characters in one form, line feeds and plain spaces.

    White space beside Chinese and Japanese characters is taken out, since those scripts set it for looks only.
    """
    if text.isascii():
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text if text.isprintable() else text.translate(_TABLE)
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _FOLDED.sub(_folded, text)
    if _HALF_WIDTH_KANA.search(text):
        text = _HALF_WIDTH_KANA.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    text = _SPACE_BESIDE_HAN.sub("", text)
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    """Return ``text`` with a mark in place of what could move a cursor, colour a terminal or turn the writing around."""
    return "".join(
        "\ufffd" if unicodedata.category(char) in _STEERING and char not in "\n\t\u200c\u200d" else char
        for char in text
    )


_STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
