"""Texts changed in one place so that the meaning changes: two such texts must never merge unasked.

Belongs here: the kinds of mutation, one line or function each. Does not belong here: changes of form
(``reformattings``), assertions (tests) and tables (``bench/decision_quality.py``).
"""

from __future__ import annotations

import random
import re

from kb_pipeline.text.changes import Change, at, by, swapped, to
from kb_pipeline.text.units import NUMBER_WORDS

_UNITS = "seconds minutes hours days weeks months ms s min h MB GB KB TB px em rem % bytes"
_PLAIN_NUMBER = r"(?<![\w.,:/#-])\d{1,6}(?![\w.,:/-]*\w)"
_NAME = r"\b(?:[a-z]+[A-Z]\w+|[a-z]+_[a-z_]+|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[A-Z_]*)\b"
_NUMBER_WORDS = "|".join(NUMBER_WORDS)
_BEFORE = r"(?<=[\s`(])"


def _bump(rng: random.Random, match: re.Match[str]) -> str:
    return str(int(match.group()) + rng.choice((1, 2, 5, 10)))


def _transpose(_: random.Random, match: re.Match[str]) -> str | None:
    digits = match.group()
    new = digits[:-2] + digits[-1] + digits[-2]
    return new if new[0] != "0" else None


def _other_unit(rng: random.Random, match: re.Match[str]) -> str:
    amount, unit = match.groups()
    same = {"seconds": "s", "minutes": "min", "hours": "h"}
    others = [other for other in _UNITS.split() if same.get(other, other) != same.get(unit, unit)]
    return amount + rng.choice([other for other in others if len(other) < 4 or amount[-1] == " "])


def _letter(rng: random.Random, word: str) -> str:
    place = rng.randrange(len(word))
    return word[:place] + rng.choice("bcdfgkmnprtvwz") + word[place + 1 :]


def _typo(rng: random.Random, match: re.Match[str]) -> str | None:
    new = _letter(rng, match.group())
    return new if new.lower() != match.group().lower() else None


def _pair(template: str) -> Change:
    r"""Rewrite two neighbouring words; the template names them ``\1`` and ``\2``."""

    def replace(_: random.Random, match: re.Match[str]) -> str | None:
        return match.expand(template) if match.group(1).lower() != match.group(2).lower() else None

    return at(r"\b([A-Za-z]{4,}) ([A-Za-z]{4,})\b", replace)


def _swap_operands(_: random.Random, match: re.Match[str]) -> str | None:
    left, middle, right = match.groups()
    return f"{right} {middle} {left}" if left.lower() != right.lower() else None


def _in_code(pattern: str, new: str) -> Change:
    """Replace one match of ``pattern`` inside a code span."""

    def change(rng: random.Random, text: str) -> str | None:
        places = [
            span.start(1) + place.start()
            for span in re.finditer(r"(?<!`)`([^`\n]+)`(?!`)", text)
            for place in re.finditer(pattern, span.group(1))
        ]
        if not places:
            return None
        start = rng.choice(places)
        match = re.compile(pattern).match(text, start)
        return text[:start] + new + text[match.end() if match else start + 1 :]

    return change


def _inserted(rng: random.Random, match: re.Match[str]) -> str:
    word = rng.choice(("only", "never", "sometimes", "also", "external", "first", "optional", "legacy"))
    return f" {word} "


def _first_sentence_last(_: random.Random, text: str) -> str | None:
    parts = re.split(r"(?<=[.;]) ", text)
    if len(parts) < 2 or not parts[-1].strip() or parts[0].rstrip(".;") == parts[1].rstrip(".;"):
        return None
    return " ".join([*parts[1:], parts[0]])


def _not_moved(_: random.Random, match: re.Match[str]) -> str | None:
    words = match.group(1)
    return f"{words}not " if words not in ("the ", "a ", "an ") else None


def _shifted_day(_: random.Random, match: re.Match[str]) -> str:
    return match.group(1) + f"{int(match.group(2)) % 28 + 1:02d}"


_TURNED = {"(": ")", ")": "(", "[": "]", "]": "[", "{": "}", "}": "{", "<": ">", ">": "<"}

MUTATIONS: dict[str, Change] = {
    "number": at(_PLAIN_NUMBER, _bump),
    "number_transposed": at(r"(?<![\w.,:/-])\d{2,6}(?![\w.,:/-]*\w)", _transpose),
    "number_any": at(r"\d+", _bump),
    "number_decimal": at(r"\b(\d+)\.(\d+)\b", to(r"\1\2")),
    "number_sign": at(r"(?<=[\s(`])(\d+)\b", to(r"-\1")),
    "number_range": at(r"\b(\d+)-(\d+)\b", lambda _, m: f"{m.group(1)}-{int(m.group(2)) + 1}"),
    "number_power": at(r"\b10(?=[\s,.)])", to("10²")),
    "number_zero": at(r"(?<![\w.])(\d+)\b(?!\.)", to(r"0\1")),
    "ordinal_digit": at(r"\b(\d+)(?=st\b|nd\b|rd\b|th\b)", _bump),
    "time": at(r"\b(\d\d?):(\d\d)\b", to(r"\2:\1")),
    "unit": at(r"\b(\d+ ?)(" + "|".join(_UNITS.split()) + r")(?!\w)", _other_unit),
    "unit_case": at(r"(?<=\d)( ?)(MB|GB|KB|kB)\b", lambda _, m: m.group(1) + m.group(2).swapcase()),
    "unit_byte_bit": at(r"(?<=\d)( ?)([MGK])B\b", to(r"\1\2b")),
    "percent": at(r"(?<=\d)%", to("")),
    "currency": at(r"[$€£](?=\d)", by({"$": "€", "€": "$", "£": "$"})),
    "negation_added": at(r"\b(should|must|is|are|can|will|does|do|may) (?!not\b)", to(r"\1 not ")),
    "negation_start": at(
        r"^(?:Use|Add|Keep|Run|Set|Avoid|Create|Write|Ensure|Include|Make|Call|Return|Check|Test)\b",
        lambda _, m: "Do not " + m.group().lower(),
    ),
    "negation_never": at(r"\b(must|should|will|always) (?!not\b|never\b)", to(r"\1 never ")),
    "negation_dropped": at(r"(?i)\b(?:do not|don't|never|not) ", to("")),
    "negation_without": swapped("with/without"),
    "negation_moved": at(r"\bnot ((?:\w+ ){1,4})", _not_moved),
    "antonym": swapped(
        "enable/disable, allow/forbid, include/exclude, add/remove, start/stop, always/never, before/after, above/below, "
        "public/private, required/optional, valid/invalid, local/remote, minimum/maximum, first/last, input/output, "
        "synchronous/asynchronous, static/dynamic, explicit/implicit, manual/automatic, internal/external, more/less, "
        "increase/decrease, open/close, read/write, client/server, parent/child, true/false, large/small, up/down, "
        "single/multiple, mutable/immutable, encrypt/decrypt, import/export, upload/download, prefer/avoid"
    ),
    "quantifier": swapped("all/some, every/any, each/one, many/few, least/most, only/also, both/either, most/several"),
    "modal": swapped("must/may, should/could, can/must, will/might, required/recommended"),
    "connective": swapped("and/or, if/unless, but/and, when/until, because/although, while/after"),
    "preposition": swapped("in/on, to/from, into/out of, over/under, by/for, through/around, inside/outside"),
    "sibling": swapped(
        "yaml/json, red/blue, linux/windows, python/java, get/post, class/function, method/property, file/folder, "
        "unit/integration, test/build, docker/podman, mysql/postgres, http/https, monday/tuesday, table/view, "
        "component/module, string/integer, array/object, warning/error, button/link, user/admin, staging/production"
    ),
    "lookalike": swapped(
        "important/import, production/product, found/find, complete/compete, form/from, casual/causal, except/expect, "
        "affect/effect, quite/quiet, then/than, assure/ensure, principal/principle, trial/trail"
    ),
    "ordinal": swapped("first/second, third/fourth, primary/secondary, initial/final"),
    "pronoun": swapped("it/them, this/that, these/those, its/their, you/they"),
    "flag_name": at(_BEFORE + r"--[a-z][\w-]+", lambda rng, m: "--" + _letter(rng, m.group()[2:])),
    "flag_dash": at(_BEFORE + r"--(?=[a-z])", to("-")),
    "flag_case": at(r"(?<=[\s`(]-)[A-Za-z](?=[\s`)])", lambda _, m: m.group().swapcase()),
    "flag_bare": at(_BEFORE + r"--?(?=[a-z])", to("")),
    "path_segment": at(r"(?<=/)[a-z]{3,}(?=[/`.\s])", lambda rng, m: _letter(rng, m.group())),
    "path_slash": at(r"(?<=\w)/(?=[\s`])", to("")),
    "path_root": at(_BEFORE + r"(?:\./|~/|/)(?=\w)", to("")),
    "path_dot": at(_BEFORE + r"\.(?=[a-z])", to("")),
    "path_backslash": at(r"(?<=\w)/(?=\w)", to(r"\\")),
    "extension": at(
        r"\.(?:ts|js|py|json|md|yaml|yml|tsx|css|html)\b", lambda _, m: ".js" if m.group() == ".ts" else ".ts"
    ),
    "url": at(r"https?://[^\s)`]+", lambda _, m: m.group().rstrip(".,") + "2"),
    "url_scheme": at(r"https://", to("http://")),
    "glob": at(r"\*(?=[./])", to("")),
    "identifier_letter": at(_NAME, _typo),
    "identifier_case": at(
        r"\b(?:[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}[A-Z_]*)\b", lambda _, m: m.group().lower()
    ),
    "identifier_underscore": at(r"(?<=\w)_(?=\w)|\b_(?=[a-z])", to("")),
    "identifier_kebab": at(r"(?<=[a-z])_(?=[a-z])", to("-")),
    "identifier_dunder": at(r"__(\w+?)__", to(r"\1")),
    "identifier_dot": at(r"(?<=[a-z])(?<!\b[ei])\.(?=[a-z])", to("")),
    "identifier_bang": at(r"(?<=\w)[?!](?=[`\s])", to("")),
    "identifier_call": at(r"(?<=\w)\(\)", to("")),
    "code_case": _in_code(r"[A-Z](?=[a-z]+\b)", "q"),
    "code_bracket": _in_code(r"[(){}\[\]]", ""),
    "code_comma": _in_code(r"(?<!\.),", ""),
    "code_quote": _in_code(r"['\"]", ""),
    "code_operator": _in_code(r"[=<>!&|+]", "~"),
    "code_space": _in_code(r" ", ""),
    "code_colon": _in_code(r"[:;]|\.(?!g)(?![,)])", ""),
    "code_word": _in_code(r"\b[a-z]{3,}\b", "other"),
    "bracket_turned": at(r"[(){}\[\]<>]", by(_TURNED)),
    "bracket_dropped": at(r"[(){}\[\]](?=\w)", to("")),
    "bracket_array": at(r"\[\](\w+)|\b(\w+)\[\]", lambda _, m: f"{m.group(1)}[]" if m.group(1) else f"[]{m.group(2)}"),
    "checkbox": at(r"\[[ xX]\]", lambda _, m: "[ ]" if m.group() != "[ ]" else "[x]"),
    "checkbox_dropped": at(r"\[[ xX]\] ", to("")),
    "mark": at("[✅❌✓✗⚠]", lambda _, m: "❌" if m.group() != "❌" else "✅"),
    "mark_dropped": at("[✅❌✓✗]", to("")),
    "date": at(r"\b(20\d\d-\d\d-)(\d\d)\b", _shifted_day),
    "year": at(r"\b(?:19|20)\d\d\b", _bump),
    "weekday": swapped("monday/tuesday, wednesday/thursday, friday/saturday, january/february, march/april"),
    "version": at(r"\bv?\d+\.\d+(?:\.\d+)?\b", lambda _, m: m.group() + ".1"),
    "version_prefix": at(r"\bv(?=\d)", to("")),
    "env": at(r"\$\{?[A-Z_]+\}?|\b[A-Z]+_[A-Z_]+\b", lambda _, m: m.group().replace("_", "", 1).lstrip("$") + "X"),
    "sigil": at(_BEFORE + r"[$@#](?=\w)", to("")),
    "key_value": at(r"(?<=\w=)[\w'\"]+", lambda _, m: m.group() + "1"),
    "comparison": at(
        r"(?<=\s)(?:>=|<=|>|<|==|!=)(?=\s)",
        by({">": ">=", "<": "<=", ">=": ">", "<=": "<", "==": "!=", "!=": "=="}),
    ),
    "arrow": at(r"→|->", by({"→": "←", "->": "<-"})),
    "hash": at(r"\b[0-9a-f]{7,40}\b", lambda _, m: m.group()[:-1] + ("0" if m.group()[-1] != "0" else "1")),
    "word_order": _pair(r"\2 \1"),
    "operands": at(
        r"\b([A-Za-z_`]{3,}) (before|after|over|instead of|rather than|to|from|into|than|with) ([A-Za-z_`]{3,})(?![\w`])",
        _swap_operands,
    ),
    "words_joined": at(r"\b([a-z]{7,}) ([a-z]{7,})\b", to(r"\1\2")),
    "words_hyphened_away": at(r"(?<!-)\b([a-z]{3,})-(?!the-|\1)([a-z]{3,})\b(?!-)", to(r"\2 \1")),
    "word_dropped": at(r"\b(?!(?i:the|an?)\b)[A-Za-z]{3,} ", to("")),
    "word_inserted": at(r"(?<=[a-z]) (?=[a-z]{3,})", _inserted),
    "word_doubled": at(r"\b([A-Za-z]{4,})\b", to(r"\1 \1")),
    "word_changed": at(r"\b[a-z]{4,}\b", _typo),
    "plural": at(
        # Behind a number "day" and "days" are one unit.
        rf"(?<!\d )(?:\b(?i:{_NUMBER_WORDS}) \w+|\b([a-z]{{3,}})s)\b",
        lambda _, m: None if not m.group(1) or re.search("[sui]$|ward$", m.group(1)) else m.group(1),
    ),
    "tense": at(r"\b([a-z]{3,}e)d\b", to(r"\1")),
    "sentence_order": _first_sentence_last,
    "sentence_dropped": at(r"(?<=[.!?]) [A-Z][^.!?]{10,}[.!?]", to("")),
    "question": at(r"(?<=[a-z])\.$", to("?")),
    "few": at(r"(?i)\ba (?=few|little|number of)", to("")),
    "quote_dropped": at(r"\"([^\"\n]+)\"", to(r"\1")),
    "quote_kind": at(r"'([^'\n ]+)'(?!\w)", to(r'"\1"')),
    "heading": at(r"(?m)^#+ ", to("")),
    "strike": at(r"\b([a-z]{4,} [a-z]{4,})\b", to(r"~~\1~~")),
    "possessive": at(r"(?<=[a-z])'s\b", to("")),
    "letter_case": at(r"(?<=[\s`\"'])[A-Z](?=[`\"'])", lambda _, m: m.group().lower()),
    "slash_words": at(r"(?<=[a-z])/(?=[a-z])", to(" and ")),
    "tail": at(r"\b[a-z]{4,}(?=[.!]?$)", to("elsewhere")),
}
"""One-place changes of meaning, by kind."""

FLAGGED = frozenset({"number", "unit", "negation_added", "negation_start"})
"""Kinds after which a pair should be shown as a conflict (decision-quality targets: number, unit, not)."""
