"""Texts changed in one place: mutations that change the meaning and must never merge, reformattings that must.

Belongs here: a seeded generator over real texts, one function a kind. Does not belong here: assertions (tests) and
tables (``bench/decision_quality.py``).

``MUTATIONS`` maps a kind to a function ``(rng, text) -> text or None``; None means that the text has no place for it.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

Change = Callable[[random.Random, str], "str | None"]


class Mutant(NamedTuple):
    """A text and its changed copy. ``kind`` names the change."""

    kind: str
    original: str
    changed: str


def _at_one(rng: random.Random, text: str, pattern: str, replace: Callable[[re.Match[str]], str | None]) -> str | None:
    """Apply ``replace`` to one match of ``pattern`` drawn at random; None when nothing changes."""
    matches = list(re.finditer(pattern, text))
    rng.shuffle(matches)
    for match in matches:
        new = replace(match)
        if new is not None and new != match.group():
            return text[: match.start()] + new + text[match.end() :]
    return None


def _swapper(pairs: str, prose_only: bool = False) -> Change:
    """A change that replaces one word by its partner; ``pairs`` holds lines ``a/b``, both directions."""
    table: dict[str, str] = {}
    for pair in pairs.split(","):
        left, right = pair.strip().split("/")
        table[left], table[right] = right, left
    pattern = r"\b(?:" + "|".join(sorted(map(re.escape, table), key=len, reverse=True)) + r")\b"
    if prose_only:
        pattern = rf"(?<![\w./@#$=+-]){pattern}(?![\w(/=+-]|[.:]\w)"

    def change(rng: random.Random, text: str) -> str | None:
        def replace(match: re.Match[str]) -> str:
            word = match.group()
            new = table[word.lower()]
            return new.capitalize() if word[0].isupper() else new

        return _at_one(rng, text, f"(?i){pattern}", replace)

    return change


def _at(pattern: str, replace: Callable[[random.Random, re.Match[str]], str | None]) -> Change:
    def change(rng: random.Random, text: str) -> str | None:
        return _at_one(rng, text, pattern, lambda match: replace(rng, match))

    return change


def _bump(rng: random.Random, match: re.Match[str]) -> str:
    return str(int(match.group()) + rng.choice((1, 2, 5, 10)))


def _transpose(_: random.Random, match: re.Match[str]) -> str | None:
    digits = match.group()
    swapped = digits[:-2] + digits[-1] + digits[-2]
    return swapped if swapped != digits and swapped[0] != "0" else None


_UNITS = [
    "seconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "months",
    "ms",
    "s",
    "min",
    "h",
    "MB",
    "GB",
    "KB",
    "TB",
    "px",
    "em",
    "rem",
    "%",
    "bytes",
]
_PLAIN_NUMBER = r"(?<![\w.,:/#-])\d{1,6}(?![\w.,:/-]*\w)"


def _unit(rng: random.Random, match: re.Match[str]) -> str:
    fitting = [unit for unit in _UNITS if unit != match.group(2) and (len(unit) < 4 or match.group(1)[-1] == " ")]
    return match.group(1) + rng.choice(fitting)


def _negate(_: random.Random, match: re.Match[str]) -> str:
    return match.group(1) + " not" + match.group(2)


def _negate_start(_: random.Random, text: str) -> str | None:
    match = re.match(
        r"([-*\s>]*)(Use|Add|Keep|Run|Set|Avoid|Create|Write|Ensure|Include|Make|Call|Return|Check|Test)\b", text
    )
    if not match:
        return None
    return match.group(1) + "Do not " + match.group(2).lower() + text[match.end() :]


def _swap_words(rng: random.Random, text: str) -> str | None:
    return _at_one(
        rng,
        text,
        r"\b([A-Za-z]{4,}) ([A-Za-z]{4,})\b",
        lambda match: (
            f"{match.group(2)} {match.group(1)}" if match.group(1).lower() != match.group(2).lower() else None
        ),
    )


def _swap_operands(rng: random.Random, text: str) -> str | None:
    return _at_one(
        rng,
        text,
        r"\b([A-Za-z_`]{3,}) (before|after|over|instead of|rather than|to|from|into|than|with) ([A-Za-z_`]{3,})(?![\w`])",
        lambda match: (
            f"{match.group(3)} {match.group(2)} {match.group(1)}"
            if match.group(1).lower() != match.group(3).lower()
            else None
        ),
    )


def _letter(rng: random.Random, word: str) -> str:
    place = rng.randrange(len(word))
    return word[:place] + rng.choice("bcdfgkmnprtvwz") + word[place + 1 :]


def _typo(rng: random.Random, match: re.Match[str]) -> str | None:
    word = match.group()
    new = _letter(rng, word)
    return new if new.lower() != word.lower() else None


def _flip_case(_: random.Random, match: re.Match[str]) -> str:
    return match.group().swapcase()


def _drop(_: random.Random, match: re.Match[str]) -> str:
    return ""


_CODE = r"(?<=`)[^`\n]+(?=`)"


def _in_code(pattern: str, new: str) -> Change:
    def change(rng: random.Random, text: str) -> str | None:
        spans = [match for match in re.finditer(r"`([^`\n]+)`", text) if re.search(pattern, match.group(1))]
        if not spans:
            return None
        span = rng.choice(spans)
        places = list(re.finditer(pattern, span.group(1)))
        place = rng.choice(places)
        start = span.start(1) + place.start()
        return text[:start] + new + text[start + len(place.group()) :]

    return change


def _bracket_turn(rng: random.Random, text: str) -> str | None:
    turns = {"(": ")", ")": "(", "[": "]", "]": "[", "{": "}", "}": "{", "<": ">", ">": "<"}
    return _at_one(rng, text, r"[(){}\[\]<>]", lambda match: turns[match.group()])


def _drop_word(rng: random.Random, text: str) -> str | None:
    return _at_one(rng, text, r"\b(?!(?i:the|an?)\b)[A-Za-z]{3,} ", lambda match: "")


def _insert_word(rng: random.Random, text: str) -> str | None:
    word = rng.choice(["only", "never", "sometimes", "also", "external", "first", "optional", "legacy"])
    return _at_one(rng, text, r"(?<=[a-z]) (?=[a-z]{3,})", lambda match: f" {word} ")


def _double(rng: random.Random, text: str) -> str | None:
    return _at_one(rng, text, r"\b[A-Za-z]{4,}\b", lambda match: f"{match.group()} {match.group()}")


def _move_last(_: random.Random, text: str) -> str | None:
    parts = re.split(r"(?<=[.;]) ", text)
    if len(parts) < 2 or parts[0].rstrip(".;") == parts[1].rstrip(".;"):
        return None
    return " ".join([*parts[1:], parts[0]])


def _not_moved(rng: random.Random, text: str) -> str | None:
    match = re.search(r"\bnot ((?:\w+ ){1,4})", text)
    if not match or match.group(1) in ("the ", "a ", "an "):
        return None
    return text[: match.start()] + match.group(1) + "not " + text[match.end() :]


_IDENTIFIER = r"\b(?:[a-z]+[A-Z]\w+|[a-z]+_[a-z_]+|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[A-Z_]*)\b"

MUTATIONS: dict[str, Change] = {
    "number": _at(_PLAIN_NUMBER, _bump),
    "number_transposed": _at(r"(?<![\w.,:/-])\d{2,6}(?![\w.,:/-]*\w)", _transpose),
    "number_any": _at(r"\d+", _bump),
    "number_decimal": _at(r"\b\d+\.\d+\b", lambda _, match: match.group().replace(".", "")),
    "number_sign": _at(r"(?<=[\s(`])\d+\b", lambda _, match: "-" + match.group()),
    "number_range": _at(r"\b(\d+)-(\d+)\b", lambda _, match: f"{match.group(1)}-{int(match.group(2)) + 1}"),
    "number_power": _at(r"\b10(?=[\s,.)])", lambda _, match: "10²"),
    "unit": _at(r"\b(\d+ ?)(" + "|".join(_UNITS) + r")(?!\w)", _unit),
    "unit_case": _at(r"(?<=\d)( ?)(MB|GB|KB|kB)\b", lambda _, match: match.group(1) + match.group(2).swapcase()),
    "negation_added": _at(r"\b(should|must|is|are|can|will|does|do|may)( )(?!not\b)", _negate),
    "negation_start": _negate_start,
    "negation_dropped": _at(
        r"(?i)\b(?:do not|don't|never|must not(?= )|not) ", lambda _, m: "must " if "must" in m.group() else ""
    ),
    "negation_moved": _not_moved,
    "antonym": _swapper(
        "enable/disable, allow/forbid, include/exclude, add/remove, start/stop, always/never, before/after, above/below, "
        "public/private, required/optional, valid/invalid, local/remote, minimum/maximum, first/last, input/output, "
        "synchronous/asynchronous, static/dynamic, explicit/implicit, manual/automatic, internal/external, more/less, "
        "increase/decrease, open/close, read/write, client/server, parent/child, true/false, with/without, large/small, "
        "single/multiple, mutable/immutable, encrypt/decrypt, import/export, upload/download, prefer/avoid, up/down"
    ),
    "quantifier": _swapper(
        "all/some, every/any, each/one, many/few, at least/at most, only/also, both/either, most/several"
    ),
    "modal": _swapper("must/may, should/could, can/must, will/might, required/recommended"),
    "connective": _swapper("and/or, if/unless, but/and, when/until, because/although, while/after"),
    "preposition": _swapper("in/on, to/from, into/out of, over/under, by/for, through/around, inside/outside"),
    "sibling": _swapper(
        "yaml/json, red/blue, linux/windows, python/java, get/post, class/function, method/property, file/folder, "
        "unit/integration, test/build, docker/podman, mysql/postgres, http/https, monday/tuesday, table/view, "
        "component/module, string/integer, array/object, warning/error, button/link, user/admin, staging/production"
    ),
    "lookalike": _swapper(
        "important/import, production/product, found/find, complete/compete, form/from, casual/causal, except/expect, "
        "affect/effect, quite/quiet, then/than, desert/dessert, assure/ensure, principal/principle, trial/trail"
    ),
    "ordinal": _swapper("first/second, third/fourth, primary/secondary, initial/final"),
    "flag_name": _at(r"(?<=[\s`(])--[a-z][\w-]+", lambda rng, match: "--" + _letter(rng, match.group()[2:])),
    "flag_dash": _at(r"(?<=[\s`(])--(?=[a-z])", lambda _, match: "-"),
    "flag_case": _at(r"(?<=[\s`(]-)[A-Za-z](?=[\s`)])", _flip_case),
    "flag_bare": _at(r"(?<=[\s`(])--?(?=[a-z])", _drop),
    "path_segment": _at(r"(?<=/)[a-z]{3,}(?=[/`.\s])", lambda rng, match: _letter(rng, match.group())),
    "path_slash": _at(r"(?<=\w)/(?=[\s`])", _drop),
    "path_root": _at(r"(?<=[\s`(])(?:\./|~/|/)(?=\w)", _drop),
    "path_dot": _at(r"(?<=[\s`(])\.(?=[a-z])", _drop),
    "extension": _at(
        r"\.(?:ts|js|py|json|md|yaml|yml|tsx|css|html)\b", lambda _, m: {".ts": ".js"}.get(m.group(), ".ts")
    ),
    "url": _at(r"https?://[^\s)`]+", lambda _, match: match.group().rstrip(".,") + "2"),
    "glob": _at(r"\*(?=[./])", _drop),
    "identifier_letter": _at(_IDENTIFIER, _typo),
    "identifier_case": _at(
        r"\b(?:[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[A-Z_]*)\b", lambda _, match: match.group().lower()
    ),
    "identifier_underscore": _at(r"(?<=\w)_(?=\w)|\b_(?=[a-z])", _drop),
    "identifier_dunder": _at(r"__(\w+?)__", lambda _, match: match.group(1)),
    "identifier_dot": _at(r"(?<=[a-z])(?<!\b[ei])\.(?=[a-z])", _drop),
    "identifier_bang": _at(r"(?<=\w)[?!](?=[`\s])", _drop),
    "code_case": _in_code(r"[A-Z](?=[a-z]+\b)", "q"),
    "code_bracket": _in_code(r"[(){}\[\]]", ""),
    "code_comma": _in_code(r",", ""),
    "code_quote": _in_code(r"['\"]", ""),
    "code_operator": _in_code(r"[=<>!&|+]", "~"),
    "code_space": _in_code(r" ", ""),
    "code_colon": _in_code(r"[:;.]", ""),
    "bracket_turned": _bracket_turn,
    "bracket_array": _at(r"\[\](\w+)|\b(\w+)\[\]", lambda _, m: f"{m.group(1)}[]" if m.group(1) else f"[]{m.group(2)}"),
    "checkbox": _at(r"\[[ xX]\]", lambda _, match: "[ ]" if match.group() != "[ ]" else "[x]"),
    "checkbox_dropped": _at(r"\[[ xX]\] ", _drop),
    "mark": _at("[✅❌✓✗⚠]", lambda _, match: "❌" if match.group() != "❌" else "✅"),
    "mark_dropped": _at("[✅❌✓✗]", _drop),
    "date": _at(r"\b(20\d\d-\d\d-)(\d\d)\b", lambda _, m: m.group(1) + f"{int(m.group(2)) % 28 + 1:02d}"),
    "version": _at(r"\bv?\d+\.\d+(?:\.\d+)?\b", lambda _, m: m.group() + ".1"),
    "version_prefix": _at(r"\bv(?=\d)", _drop),
    "env": _at(
        r"\$\{?[A-Z_]+\}?|\b[A-Z]+_[A-Z_]+\b", lambda _, match: match.group().replace("_", "", 1).lstrip("$") + "X"
    ),
    "sigil": _at(r"(?<=[\s`(])[$@#](?=\w)", _drop),
    "key_value": _at(r"(?<=\w=)[\w'\"]+", lambda _, match: match.group() + "1"),
    "comparison": _at(
        r"(?<=\s)(?:>=|<=|>|<|==|!=)(?=\s)",
        lambda _, m: {">": ">=", "<": "<=", ">=": ">", "<=": "<"}.get(m.group(), "="),
    ),
    "word_order": _swap_words,
    "operands": _swap_operands,
    "word_dropped": _drop_word,
    "word_inserted": _insert_word,
    "word_doubled": _double,
    "word_changed": _at(r"\b[a-z]{4,}\b", _typo),
    "plural": _at(
        r"(?<!\d )\b[a-z]{3,}s\b", lambda _, m: m.group()[:-1] if not m.group().endswith(("ss", "us", "is")) else None
    ),
    "tense": _at(r"\b[a-z]{3,}ed\b", lambda _, m: m.group()[:-1]),
    "sentence_order": _move_last,
    "question": _at(r"(?<=[a-z])\.$", lambda _, match: "?"),
    "few": _at(r"(?i)\ba (?=few|little|number of)", _drop),
    "quote_dropped": _at(r"\"[^\"\n]+\"", lambda _, m: m.group()[1:-1]),
    "quote_kind": _at(r"'[^'\n ]+'(?!\w)", lambda _, m: f'"{m.group()[1:-1]}"'),
    "heading": _at(r"(?m)^#+ ", _drop),
    "strike": _at(r"\b[a-z]{4,} [a-z]{4,}\b", lambda _, m: f"~~{m.group()}~~"),
    "percent": _at(r"(?<=\d)%", _drop),
    "possessive": _at(r"(?<=[a-z])'s\b", _drop),
    "letter_case": _at(r"(?<=[\s`\"'])[A-Z](?=[`\"'])", lambda _, m: m.group().lower()),
}
"""One-place changes of meaning; two texts that differ so must never merge unasked."""

FLAGGED = frozenset({"number", "unit", "negation_added", "negation_start"})
"""Kinds after which the pair should be shown as a conflict."""


def _outside_code(change: Change) -> Change:
    """Apply a change to the prose before, between or behind code spans, never inside."""

    def changed(rng: random.Random, text: str) -> str | None:
        parts = re.split(r"(```.*?(?:```|\Z)|`[^`\n]*`)", text, flags=re.DOTALL)
        places = list(range(0, len(parts), 2))
        rng.shuffle(places)
        for place in places:
            new = change(rng, parts[place])
            if new is not None and new != parts[place]:
                parts[place] = new
                return "".join(parts)
        return None

    return changed


def _everywhere(pattern: str, new: str) -> Change:
    return lambda _, text: re.sub(pattern, new, text)


def _plain_lower(_: random.Random, text: str) -> str:
    return re.sub(
        r"(?<![\w./`\\@$#<[{=+-])[A-Z][a-z]+(?![\w/`(\\=<>\]}+|[]|[.:]\w|-\w*[A-Z\d_])",
        lambda match: match.group().lower(),
        text,
    )


def _plain_title(rng: random.Random, text: str) -> str | None:
    return _at_one(rng, text, r"(?<=[a-z] )[a-z]{2,}(?= [a-z])", lambda match: match.group().capitalize())


def _wrap(rng: random.Random, text: str) -> str:
    words = text.split(" ")
    width = rng.choice((5, 9))
    return " ".join(
        "\n" + word if place % width == width - 1 and word and word[0].isalpha() and word[0].islower() else word
        for place, word in enumerate(words)
    ).replace(" \n", "\n")


def _bullet(rng: random.Random, text: str) -> str | None:
    mark = rng.choice(("* ", "- ", "• ", "+ "))
    if re.match(r"\s*(?:[-*+•]\s|#|\d+[.)]|\||>)", text) or (mark == "+ " and re.search(r"(?m)^\s*- ", text)):
        return None
    return mark + text


def _word_emphasis(mark: str) -> Change:
    return lambda rng, text: _at_one(
        rng, text, r"(?<=[a-z] )[a-z]{3,}(?= [a-z])", lambda match: f"{mark}{match.group()}{mark}"
    )


def _smart_quotes(_: random.Random, text: str) -> str:
    text = re.sub(r"(?<=\w)'(?=\w)", "’", text)
    return re.sub(r'(?<![\w"])"([^"\n]+)"(?![\w"])', "“\\1”", text)


REFORMATTINGS: dict[str, Change] = {
    "spaces": _everywhere(r"(?<=[a-z,]) (?=[a-z])", "  "),
    "padding": lambda _, text: f"\n  {text}  \n",
    "wrap": _wrap,
    "crlf": lambda rng, text: _wrap(rng, text).replace("\n", "\r\n"),
    "bullet": _bullet,
    "bold": _word_emphasis("**"),
    "italic": _word_emphasis("*"),
    "underline": _word_emphasis("_"),
    "bold_lead": lambda _, t: re.sub(r"^([A-Z][a-z]+(?: [a-z]+){0,2}):(?= )", r"**\1:**", t),
    "smart_quotes": _smart_quotes,
    "no_break_space": _everywhere(r"(?<=[a-z]) (?=[a-z])", "\u00a0"),
    "invisible": _at(r"(?<=[a-z]) (?=[a-z])", lambda _, match: "\u200b "),
    "soft_hyphen": _at(r"(?<=[a-z]{3})(?=[a-z]{3})", lambda _, match: "\u00ad"),
    "bom": lambda _, text: "\ufeff" + text,
    "decomposed": lambda _, text: unicodedata.normalize("NFD", text),
    "full_width": _everywhere(r"(?<=[a-z]),(?= )", "\uff0c"),
    "lower": _outside_code(_plain_lower),
    "title": _plain_title,
    "full_stop": lambda _, t: (
        t.rstrip()[:-1] if re.search(r"[a-z)]\.$", t.rstrip()) else t.rstrip() + "." * bool(re.search(r"[\w)]$", t))
    ),
    "article_dropped": _outside_code(_at(r"(?<=[a-z] )the (?=[a-z])", _drop)),
    "article_changed": _outside_code(
        _at(
            r"(?<=[a-z] )a(?= [b-df-hj-np-tv-z][a-z]{3,})(?! (?:few|little|number|while|second|minute|hour|day|week|month|year|time|quarter|lot|bit|couple|hundred|thousand|dozen|million))",
            lambda _, m: "the",
        )
    ),
    "contraction": _outside_code(
        _at(r"\b([Dd]o|[Dd]oes|[Ii]s|[Aa]re|[Ss]hould) not\b", lambda _, m: m.group(1) + "n't")
    ),
    "contraction_back": _outside_code(
        _at(r"\b([Dd]o|[Dd]oes|[Ii]s|[Aa]re|[Ss]hould)n't\b", lambda _, m: m.group(1) + " not")
    ),
    "cannot": _swapper("cannot/can't", prose_only=True),
    "british": _outside_code(
        _at(r"\b([a-z]{3,})iz(e|ed|es|ing|ation)\b(?![\w(./=-])", lambda _, m: m.group(1) + "is" + m.group(2))
    ),
    "colour": _outside_code(
        _swapper(
            "color/colour, behavior/behaviour, favor/favour, center/centre, gray/grey, labeled/labelled, canceled/cancelled, artifact/artefact, catalog/catalogue",
            prose_only=True,
        )
    ),
    "grouped": _at(r"(?<=[a-z] )[1-9]\d{3}(?= [a-z])", lambda _, m: f"{int(m.group()):,}"),
    "unit_words": _outside_code(
        _at(
            r"(?<=[a-z] )(\d+) ?(ms|s|MB|GB|%)(?= [a-z])",
            lambda _, m: (
                m.group(1)
                + {"ms": " milliseconds", "s": " seconds", "MB": " megabytes", "GB": " gigabytes", "%": " percent"}[
                    m.group(2)
                ]
            ),
        )
    ),
    "unit_short": _outside_code(
        _at(
            r"(?<![\w.-])(\d+)[ -](seconds|minutes|hours|milliseconds|days)\b",
            lambda _, m: (
                m.group(1)
                + {"seconds": "s", "minutes": " min", "hours": "h", "milliseconds": "ms", "days": " d"}[m.group(2)]
            ),
        )
    ),
    "number_word": _outside_code(
        _at(
            r"(?<=[a-z] )(two|three|four|five|ten)(?= [a-z])",
            lambda _, m: {"two": "2", "three": "3", "four": "4", "five": "5", "ten": "10"}[m.group()],
        )
    ),
    "hyphen": _outside_code(
        _at(r"(?<=[a-z] )([a-z]{3,})-([a-z]{3,})(?= [a-z])", lambda _, m: f"{m.group(1)} {m.group(2)}")
    ),
    "compound": _outside_code(
        _swapper(
            "filename/file name, filesystem/file system, database/data base, timestamp/time stamp, workflow/work flow, namespace/name space, endpoint/end point, codebase/code base, whitespace/white space, backend/back end, frontend/front end, username/user name, login/log in, timeout/time out, runtime/run time",
            prose_only=True,
        )
    ),
    "synonym": _outside_code(
        _swapper(
            "show/display, config/configuration, repo/repository, info/information, docs/documentation", prose_only=True
        )
    ),
    "for_example": _outside_code(_at(r"\be\.g\.,? ", lambda _, m: "for example ")),
    "order_to": _outside_code(_at(r"\bin order to\b", lambda _, m: "to")),
    "comma": _outside_code(_at(r"(?<=[a-z]),(?= and [a-z])", _drop)),
    "semicolon": _outside_code(_at(r"(?<=[a-z]);(?= [a-z])", lambda _, m: ",")),
    "dash": _outside_code(_at(r" (?:-|—|–) ", lambda _, m: {" - ": " — ", " — ": " - ", " – ": " - "}[m.group()])),
    "ellipsis": _outside_code(_at(r"(?<=[a-z])\.\.\.", lambda _, m: "…")),
    "ampersand": _outside_code(_at(r"(?<=[a-z]) & (?=[a-z])", lambda _, m: " and ")),
}
"""Changes of form; two texts that differ so must still merge."""


def generate(texts: Iterable[str], table: dict[str, Change], seed: int, kinds_per_text: int = 0) -> Iterator[Mutant]:
    """Yield changed copies of each text.

    Args:
        texts: real texts.
        table: ``MUTATIONS`` or ``REFORMATTINGS``.
        seed: makes the run repeatable.
        kinds_per_text: so many kinds drawn for each text; 0 means every kind.
    """
    rng = random.Random(seed)
    kinds = sorted(table)
    for text in texts:
        for kind in rng.sample(kinds, kinds_per_text) if kinds_per_text else kinds:
            changed = table[kind](rng, text)
            if changed is not None and changed != text:
                yield Mutant(kind, text, changed)
