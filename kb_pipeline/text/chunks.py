"""Words and punctuation: the one splitting of prose that normal forms and canonical sequences share.

Belongs here: cutting a text into tokens, folding the case of plain words, punctuation that carries no meaning, number
and unit forms, contractions, spelling. Does not belong here: phrases and articles, which need the words around them
(``canonical``).

A token that comes from code begins with ``CODE`` so that no word rule meets it; ``plain`` takes the mark off. Rules
that lose something are few and listed: the commas, semicolons, colons and full stops at the end of a word, the case
of plain words, and the hyphens between plain words. Every other sign is a token and so keeps two texts apart:
brackets, quotes, question and exclamation marks, arrows, check marks, dashes, operators.
"""

from __future__ import annotations

import re

from kb_pipeline.text import spelling, synonyms, units
from kb_pipeline.text.characters import fold_characters
from kb_pipeline.text.markup import (
    CODE_CLOSE,
    CODE_MARK,
    CODE_OPEN,
    Code,
    mask_code,
    open_links,
    strip_bullets,
    strip_emphasis,
)

CODE = "\x00"
_LETTERS = re.compile(r"[^\W\d_]+")
_HYPHENED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_APOSTROPHED = re.compile(r"[^\W\d_]+'[^\W\d_]+")
_COUNTED = re.compile(r"(\d+)-([^\W\d_]{3,}(?:-[^\W\d_]+)*)")
_MNEMONIC = re.compile(r"([^\W\d_]{0,8})\[([^\W\d_])\]([a-z]+(?:-[a-z]+)*)")
_AUTOLINK = re.compile(r"<https?://[^<>]+>")
_SIGNED = re.compile(r"([~≈<>=]*)(.*)", re.DOTALL)
_AMOUNT = re.compile(r"([$€£¥])(\d{1,3}(?:,\d{3})+(?:\.\d+)?)")
_ARROWS = str.maketrans(
    {
        "–": "-",
        "‒": "-",
        "—": " - ",
        "―": " - ",
        "→": "->",
        "⇒": "=>",
        "←": "<-",
        "≥": ">=",
        "≤": "<=",
        "≠": "!=",
        "…": "...",
    }
)
_OPENERS, _CLOSERS = "([{", ")]}"
_OTHER_END = {")": "(", "]": "[", "}": "{"}
_UNITS_WITH_CAPITAL = frozenset(unit for unit in units.UNITS if unit != unit.lower()) | {"Ms"}
_CODE_WRAP = re.compile(r"[ \t]*\n[ \t]*")
_CUT_SHORT = re.compile(r"\w(?:\.\.\.|…)$")
_MAX_WORD_CHARS = 1000
_CACHE_LIMIT = 200_000
_CACHE: dict[str, tuple[tuple[str, ...], int]] = {}


def is_plain_word(core: str) -> bool:
    """Whether ``core`` is a word whose case says nothing: letters only, no capital but perhaps the first."""
    if not _LETTERS.fullmatch(core):
        return False
    rest = core[1:]
    return rest == rest.lower() and (len(core) > 1 or core == core.lower())


def plain(token: str) -> str:
    """Take the mark of code off a token."""
    return token[1:] if token[0] == CODE else token


def _word(core: str) -> tuple[str, ...]:
    """Canonical tokens of a core: what is left of a chunk once brackets and end punctuation are off."""
    if _LETTERS.fullmatch(core):
        # Mb, Hz and their like are units, and a unit's case counts.
        if not is_plain_word(core) or core in _UNITS_WITH_CAPITAL:
            return (synonyms.CASED_WORDS.get(core, core),)
        return _plain_word(core.casefold())
    if "'" in core and _APOSTROPHED.fullmatch(core):
        first, last = core.split("'")
        if is_plain_word(first) and last == last.lower():
            known = synonyms.CONTRACTIONS.get(core.casefold())
            if known or last != "s":
                return known or (core.casefold(),)
            *others, owner = _plain_word(first.casefold())
            return (*others, f"{owner}'s")
        return (core,)
    if "-" in core:
        parts = _hyphened_words(core)
        if parts:
            return tuple(token for part in parts for token in _word(part))
    if core[0].isdigit() or (core[0] in "+-" and core[1:2].isdigit()):
        return _number(core)
    if core[0] == "<" and _AUTOLINK.fullmatch(core):
        return (core[1:-1],)
    if core[0] in "~≈<>=" and len(core) > 1:
        sign, amount = _SIGNED.fullmatch(core).groups()  # type: ignore[union-attr]
        if amount[:1].isdigit():
            first, *rest = _number(amount)
            return (sign + first, *rest)
    match = _AMOUNT.fullmatch(core)
    if match:
        return (match.group(1) + units.plain_number(match.group(2)),)
    if core in ("e.g", "E.g", "i.e", "I.e"):
        return (synonyms.WORDS[core.lower()],)
    if core == "&":
        return ("and",)
    if core in ("w/", "w/o"):
        return ("with",) if core == "w/" else ("without",)
    return (core,)


def _hyphened_words(core: str) -> list[str] | None:
    """The plain words that hyphens join, or None.

    Single letters stay bound ("x-y" may be a difference, "is-a" a name), but for e-mail and its like.
    """
    if not _HYPHENED.fullmatch(core):
        return None
    parts = core.split("-")
    return parts if all(is_plain_word(part) and (len(part) > 1 or part == "e") for part in parts) else None


def _plain_word(lowered: str) -> tuple[str, ...]:
    if lowered == "cannot":
        return ("can", "not")
    number = units.NUMBER_WORDS.get(lowered)
    if number is not None:
        return (number,)
    word = spelling.one_spelling(lowered)
    return (synonyms.WORDS.get(word, word),)


def _number(core: str) -> tuple[str, ...]:
    if units.NUMBER.fullmatch(core):
        return (core,)
    if units.GROUPED_NUMBER.fullmatch(core):
        return (units.plain_number(core),)
    match = units.NUMBER_WITH_UNIT.fullmatch(core)
    if match:
        return (units.plain_number(match.group(1)), units.UNITS[match.group(2)])
    match = units.HYPHENED_UNIT.fullmatch(core)
    if match and match.group(2) in units.UNITS:
        return (units.plain_number(match.group(1)), units.UNITS[match.group(2)])
    match = _COUNTED.fullmatch(core)
    if match and all(is_plain_word(part) for part in match.group(2).split("-")):
        return (match.group(1), *_word(match.group(2)))
    ordinal = units.ORDINAL_FORMS.get(core)
    return (ordinal,) if ordinal else (core,)


def cut(chunk: str) -> tuple[list[str], str, list[str]]:
    """Split a chunk without white space into opening signs, core and closing signs.

    Commas, semicolons, colons and a full stop at the end are dropped; every other sign is kept as a token. A chunk of
    signs alone comes back whole (a lone ``.`` is a path, ``--`` ends the options), except a lone comma.
    """
    if not any(char.isalnum() or char in "_" + CODE_OPEN for char in chunk):
        return ([], "" if chunk == "," else chunk, [])
    if len(chunk) > _MAX_WORD_CHARS:
        return ([], chunk, [])
    if _MNEMONIC.fullmatch(chunk.rstrip(".,;:")):
        return ([], chunk.rstrip(".,;:"), [])
    start: list[str] = []
    end: list[str] = []
    while chunk[0] in "([{\"'" and chunk[:2] not in ("[]", "()", "{}") and not _MNEMONIC.match(chunk):
        start.append(chunk[0])
        chunk = chunk[1:]
    while True:
        last = chunk[-1]
        before = chunk[-2:-1]
        if last in ",;:":
            if before == last:
                break
            chunk = chunk[:-1]
        elif last == ".":
            body = chunk.rstrip(".")
            if len(chunk) - len(body) > 1:
                end.append(chunk[len(body) :])
                chunk = body
            elif before.isalnum() or before in ")]}\"'%_+*>!?;" + CODE_CLOSE:
                chunk = body
            else:
                break
        elif last in "!?\"'" or (last in _CLOSERS and chunk.count(last) > chunk.count(_OTHER_END[last])):
            end.append(last)
            chunk = chunk[:-1]
        else:
            break
    end.reverse()
    return (start, chunk, end)


def _depth(chunk: str) -> int:
    return sum(chunk.count(char) for char in _OPENERS) - sum(chunk.count(char) for char in _CLOSERS)


def _opens_code(chunk: str) -> bool:
    """Whether the chunk leaves a bracket open that is no parenthesis of prose."""
    body = chunk.lstrip("(\"'")
    return _depth(body) > 0


def _chunk(chunk: str) -> tuple[tuple[str, ...], int]:
    """Tokens of one chunk of prose, and 1 if it opens a bracket of code."""
    if _opens_code(chunk):
        return ((chunk,), 1)
    start, core, end = cut(chunk)
    if not core:
        return ((), 0)
    if core in ("a", "A") and chunk[-1] != core:
        return ((*start, CODE + core, *end), 0)  # no article is followed by a sign: ("module A")
    match = _MNEMONIC.fullmatch(core)
    middle = _word("".join(match.groups())) if match else _word(core)
    return ((*start, *middle, *end), 0)


def _remember(chunk: str) -> tuple[tuple[str, ...], int]:
    if len(_CACHE) >= _CACHE_LIMIT:
        _CACHE.clear()
    known = _CACHE[chunk] = _chunk(chunk)
    return known


def _code_tokens(code: Code) -> list[str]:
    if code.fenced:
        return [CODE + line for line in code.text.split("\n") if line.strip()]
    text = _CODE_WRAP.sub(" ", code.text)
    if len(text) > 2 and text[0] == text[-1] == " " and text.strip():
        text = text[1:-1]  # a blank at both ends is padding, one at one end can be the point ("`<img `")
    pieces = text.split(" ")
    if len(pieces) == 1:
        piece = pieces[0]
        parts = _hyphened_words(piece) if piece == piece.lower() else None
        if parts:
            return [CODE + part for part in parts]
        return [synonyms.CODE_WORDS.get(piece) or CODE + piece]
    return [CODE + "`", *(CODE + piece for piece in pieces), CODE + "`"]


def _mixed(chunk: str, codes: list[Code]) -> list[str]:
    """Tokens of a chunk that holds marks of code."""
    tokens: list[str] = []
    position = 0
    for match in CODE_MARK.finditer(chunk):
        if match.start() > position:
            tokens.extend(_between(chunk[position : match.start()]))
        tokens.extend(_code_tokens(codes[int(match.group(1))]))
        position = match.end()
    rest = chunk[position:]
    if rest:
        tokens.extend(_between(rest[1:] if rest[0] in ".,;:" and not rest[1:2].isalnum() else rest))
    return tokens


def _between(text: str) -> list[str]:
    """Tokens of what touches code without a space: signs one by one, but for those at the end of a clause."""
    if any(char.isalnum() for char in text):
        return list((_CACHE.get(text) or _remember(text))[0])
    if len(text) > 1 and text[-1] in ".,;:" and text[-2] in ")]}\"'!?":
        text = text[:-1]
    return list(text)


def _without_full_stop(text: str) -> str:
    """The text without its final full stop; three dots and a lone dot ("git add .") stay."""
    if text.endswith(".") and (text[-2:-1].isalnum() or text[-2:-1] in {*")]}\"'%_*>`!?"}):
        return text[:-1]
    return text


def prepare(text: str) -> tuple[str, list[Code]]:
    """Fold characters, mask code, take off emphasis and bullets; words are still as written."""
    text = _without_full_stop(fold_characters(text).strip())
    codes: list[Code] = []
    if "`" in text or "~~~" in text:
        text, codes = mask_code(text)
    if "](" in text:
        text = open_links(text)
    if "*" in text or "_" in text:
        text = strip_emphasis(text)
    return strip_bullets(text), codes


def split(text: str) -> list[str]:
    """Return the tokens of ``text`` in order, with code marked; phrases and articles are still in place."""
    text, codes = prepare(text)
    if not text.isascii():
        text = text.translate(_ARROWS)
    if "\nA " in text:
        text = text.replace("\nA ", "\na ")
    tokens: list[str] = []
    cache = _CACHE
    depth = 0
    before = ""
    for chunk in text.split():
        before, last = chunk, before
        if chunk == "A":
            # In the middle of a sentence a capital A is a name ("service A"), at its start it is an article.
            tokens.append(CODE + "A" if last and last[-1] not in ".!?:;" else "a")
            continue
        if codes and CODE_OPEN in chunk:
            tokens.extend(_mixed(chunk, codes))
            continue
        if depth > 0:
            # Inside a bracket of code commas and case count: the chunk stays as it is written.
            tokens.append(CODE + chunk)
            depth = _next_depth(chunk, depth)
            continue
        known = cache.get(chunk) or _remember(chunk)
        tokens.extend(known[0])
        if known[1]:
            depth = _next_depth(chunk, 0)
    return tokens


def _next_depth(chunk: str, depth: int) -> int:
    """Open brackets behind ``chunk``; a text that was cut short ("see the [guide for…") closes them all."""
    return 0 if _CUT_SHORT.search(chunk) else depth + _depth(chunk)


_EXACT_CACHE: dict[str, str] = {}


def exact_chunks(text: str) -> list[str]:
    """Return the chunks of a prepared text with the case of plain words folded and everything else as written."""
    folded: list[str] = []
    depth = 0
    for chunk in text.split():
        if depth > 0 or CODE_OPEN in chunk:
            folded.append(chunk)
            depth = _next_depth(chunk, depth) if depth > 0 else 0
        else:
            folded.append(_fold_case(chunk))
            depth = _next_depth(chunk, 0) if _opens_code(chunk) else 0
    return folded


def _fold_case(chunk: str) -> str:
    known = _EXACT_CACHE.get(chunk)
    if known is not None:
        return known
    folded = chunk
    if not _opens_code(chunk):
        core = cut(chunk)[1]
        parts = core.replace("'", "-").split("-")
        if core and core not in _UNITS_WITH_CAPITAL and all(map(is_plain_word, parts)):
            begin = chunk.index(core)
            folded = chunk[:begin] + core.casefold() + chunk[begin + len(core) :]
    if len(_EXACT_CACHE) >= _CACHE_LIMIT:
        _EXACT_CACHE.clear()
    _EXACT_CACHE[chunk] = folded
    return folded
