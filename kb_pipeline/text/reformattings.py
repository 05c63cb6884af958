"""Texts changed in form only: two such texts must still merge.

Belongs here: the kinds of reformatting, one line or function each. Does not belong here: changes of meaning
(``mutants``), assertions (tests) and tables (``bench/decision_quality.py``).
"""

from __future__ import annotations

import random
import re
import unicodedata

from kb_pipeline.text.changes import Change, at, by, outside_code, swapped, to

_LONE = r"(?<=[a-z] )"


def _every(pattern: str, new: str) -> Change:
    return lambda _, text: re.sub(pattern, new, text)


def _lower(_: random.Random, text: str) -> str:
    """Plain words in lower case; names, paths, code and what stands in brackets of code are left."""
    plain = r"(?<![\w./`\\@$#<\[{(=+-])[A-Z][a-z]+(?![\w/`(\\=<>\]})+|[]|[.:]\w|-\w*[A-Z\d_])"
    return re.sub(plain, lambda match: match.group().lower(), text)


def _wrap(rng: random.Random, text: str) -> str:
    """Hard-wrapped lines, broken before lower-case words."""
    words = text.split(" ")
    width = rng.choice((5, 9))
    lines = [
        "\n" + word if place % width == width - 1 and word[:1].islower() else word for place, word in enumerate(words)
    ]
    return " ".join(lines).replace(" \n", "\n")


def _bullet(rng: random.Random, text: str) -> str | None:
    mark = rng.choice(("* ", "- ", "• ", "+ "))
    if re.match(r"\s*(?:[-*+•]\s|#|\d+[.)]|\||>)", text) or (mark == "+ " and re.search(r"(?m)^\s*- ", text)):
        return None
    return mark + text


def _smart_quotes(_: random.Random, text: str) -> str:
    text = re.sub(r"(?<=\w)'(?=\w)", "’", text)
    return re.sub(r'(?<![\w"])"([^"\n]+)"(?![\w"])', "“\\1”", text)


def _full_stop(_: random.Random, text: str) -> str | None:
    text = text.rstrip()
    if re.search(r"[a-z)]\.$", text):
        return text[:-1]
    return text + "." if re.search(r"[\w)]$", text) else None


def _emphasis(mark: str) -> Change:
    return outside_code(at(_LONE + r"[a-z]{3,}(?= [a-z])", lambda _, m: f"{mark}{m.group()}{mark}"))


_SPELLED = {"ms": " milliseconds", "s": " seconds", "MB": " megabytes", "GB": " gigabytes", "%": " percent"}
_SHORT = {"seconds": "s", "minutes": " min", "hours": "h", "milliseconds": "ms", "days": " d"}
_KEPT_ARTICLES = (
    "few|little|number|while|second|minute|hour|day|night|week|month|year|time|quarter|lot|bit|couple|hundred"
)
_VERBS = r"\b([Dd]o|[Dd]oes|[Ii]s|[Aa]re|[Ss]hould)"

REFORMATTINGS: dict[str, Change] = {
    "spaces": outside_code(_every(r"(?<=[a-z,]) (?=[a-z])", "  ")),
    "padding": lambda _, text: f"\n  {text}  \n",
    "wrap": outside_code(_wrap),
    "crlf": lambda _, text: text.replace("\n", "\r\n") if "\n" in text else None,
    "bullet": _bullet,
    "bold": _emphasis("**"),
    "italic": _emphasis("*"),
    "underline": _emphasis("_"),
    "bold_lead": at(r"^([A-Z][a-z]+(?: [a-z]+){0,2}):(?= )", to(r"**\1:**")),
    "smart_quotes": _smart_quotes,
    "no_break_space": _every(r"(?<=[a-z]) (?=[a-z])", "\u00a0"),
    "invisible": at(r"(?<=[a-z]) (?=[a-z])", to("\u200b ")),
    "soft_hyphen": at(r"(?<=[a-z]{3})(?=[a-z]{3})", to("\u00ad")),
    "bom": lambda _, text: "\ufeff" + text,
    "decomposed": lambda _, text: unicodedata.normalize("NFD", text),
    "full_width": _every(r"(?<=[a-z]),(?= )", "\uff0c"),
    "lower": outside_code(_lower),
    "title": outside_code(at(_LONE + r"[a-z]{2,}(?= [a-z])", lambda _, m: m.group().capitalize())),
    "full_stop": _full_stop,
    "article_dropped": outside_code(at(_LONE + "the (?=[a-z])(?!most)", to(""))),
    "article_changed": outside_code(
        at(_LONE + rf"a(?= [b-df-hj-np-tv-z][a-z]{{3,}})(?! (?:{_KEPT_ARTICLES}))", to("the"))
    ),
    "contraction": outside_code(at(_VERBS + r" not\b", to(r"\1n't"))),
    "contraction_back": outside_code(at(_VERBS + r"n't\b", to(r"\1 not"))),
    "cannot": outside_code(swapped("cannot/can't", prose_only=True)),
    "british": outside_code(at(_LONE + r"([a-z]{2,}[a-rt-z])iz(e|ed|es|ing|ation)\b(?![\w(./=-])", to(r"\1is\2"))),
    "colour": outside_code(
        swapped(
            "color/colour, behavior/behaviour, favor/favour, center/centre, gray/grey, labeled/labelled, "
            "canceled/cancelled, artifact/artefact, catalog/catalogue",
            prose_only=True,
        )
    ),
    "grouped": at(_LONE + r"[1-9]\d{3}(?= [a-z])", lambda _, m: f"{int(m.group()):,}"),
    "unit_words": outside_code(
        at(_LONE + r"(\d+) ?(ms|s|MB|GB|%)(?= [a-z])", lambda _, m: m.group(1) + _SPELLED[m.group(2)])
    ),
    "unit_short": outside_code(
        at(
            r"(?<![\w.-])(\d+)[ -](seconds|minutes|hours|milliseconds|days)\b",
            lambda _, m: m.group(1) + _SHORT[m.group(2)],
        )
    ),
    "number_word": outside_code(
        at(
            _LONE + r"(?:two|three|four|five|ten)(?= [a-z])",
            by({"two": "2", "three": "3", "four": "4", "five": "5", "ten": "10"}),
        )
    ),
    "hyphen": outside_code(at(_LONE + r"([a-z]{3,})-([a-z]{3,})(?= [a-z])", to(r"\1 \2"))),
    "compound": outside_code(
        swapped(
            "filename/file name, filesystem/file system, database/data base, timestamp/time stamp, workflow/work flow, "
            "namespace/name space, endpoint/end point, codebase/code base, whitespace/white space, backend/back end, "
            "frontend/front end, username/user name, login/log in, timeout/time out, runtime/run time",
            prose_only=True,
        )
    ),
    "synonym": outside_code(
        swapped(
            "show/display, config/configuration, repo/repository, info/information, docs/documentation", prose_only=True
        )
    ),
    "for_example": outside_code(at(r"(?<![\[{])\be\.g\.,? ", to("for example "))),
    "order_to": outside_code(at(r"\bin order to\b", to("to"))),
    "comma": outside_code(at(r"(?<=[a-z]),(?= and [a-z])", to(""))),
    "semicolon": outside_code(at(_LONE + r"([a-z]+);(?= [a-z])", to(r"\1,"))),
    "dash": outside_code(at(r" (?:-|—|–) ", by({" - ": " — ", " — ": " - ", " – ": " - "}))),
    "ellipsis": outside_code(at(r"(?<=[a-z])\.\.\.", to("…"))),
    "ampersand": outside_code(at(r"(?<=[a-z]) & (?=[a-z])", to(" and "))),
}
"""Changes of form, by kind."""
