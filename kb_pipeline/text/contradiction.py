"""Whether one sentence contradicts another: same words but for one thing that turns the meaning.

Belongs here: the test of two token sequences for a negation, an opposite or another value in one place (ledger M8
``contradiction`` and ``value_mismatch``). Does not belong here: what a conflict leads to, and splitting texts into
sentences (``compare``).

Parity of negations proves nothing: what counts is where they stand. Two sentences contradict when their words agree
once negations are taken out, and one of them is negated where the other is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from kb_pipeline.text.amounts import one_amount
from kb_pipeline.text.antonyms import Sort, opposition, stem
from kb_pipeline.text.characters import SPACELESS
from kb_pipeline.text.cues import FOREIGN_NEGATIONS, SPACELESS_NEGATIONS, SPACELESS_NO_NEGATION
from kb_pipeline.text.synonyms import CONTRACTIONS, JOIN
from kb_pipeline.text.units import UNITS
from kb_pipeline.text.values import competes, is_reference_label
from kb_pipeline.text.wordlists import closed_list

_CUES = closed_list("not never no none nobody nothing neither nor without avoid refrain non") | FOREIGN_NEGATIONS
_LIGHT = closed_list(
    "do does did is are was were be been being am there it that which who any some always ever from you of-the "
    "ne ein eine einen einem einer eines un une des du de"
)
_KEPT_WITHIN = {
    "without": "with",
    "nobody": "person",
    "nothing": "thing",
    "ohne": "mit",
    "sans": "avec",
    "sin": "con",
    "senza": "con",
    "sem": "com",
    "zonder": "met",
    "без": "с",
}
"""What is left of a word that denies once its denial is taken out."""
_SAME_WORDS = {
    "someone": "person",
    "somebody": "person",
    "anyone": "person",
    "anybody": "person",
    "people": "person",
    "something": "thing",
    "anything": "thing",
}
_PARTICLES = closed_list("to from into in onto on off of out with at for")
_BEFORE_ACTION = closed_list(
    "must should shall will can may always never not to please be is are was were being do does did and or then"
)
_CHOICE = closed_list(
    "prefer prefers preferred default defaults choose chose chosen make makes keep keeps mark declare"
)
_SPACELESS = re.compile(f"([{SPACELESS}]+)")
_AGREEMENT = tuple(map(closed_list, ("is are", "was were", "has have", "does do", "this these", "that those")))
_MAX_DIFFERENCES = 6
_MAX_MATCHED = 250_000
_MAX_EXTRA_WORDS = 3


class Clash(NamedTuple):
    """Why two sentences contradict: another value in one place or not, and both readings.

    ``is_opposite`` marks a word replaced by its opposite, ``position`` where it stands in the left sentence.
    """

    is_value: bool
    is_opposite: bool
    left: str
    right: str
    position: int


_Region = tuple[int, int, int, int]


def find_clash(left: Sequence[str], right: Sequence[str], *, is_whole: bool = True) -> Clash | None:
    """Return the clash between two canonical sequences, or None. Symmetric but for the sides of the result.

    ``is_whole`` says that the sequences are whole texts; in single sentences, a number behind a reference label
    ("issue 260") only says that the texts speak of two things.
    """
    if left == right or not left or not right:
        return None
    set_l, set_r = set(left), set(right)
    if max(len(set_l - set_r), len(set_r - set_l)) > _MAX_DIFFERENCES + 2:
        return None
    lowered_l, lowered_r = calm(left), calm(right)
    regions = regions_of(lowered_l, lowered_r)
    if regions is None:
        return None
    return (
        _value_clash(lowered_l, lowered_r, regions, is_whole)
        or _opposite_clash(lowered_l, lowered_r, regions)
        or _negation_clash(lowered_l, lowered_r)
    )


def calm(tokens: Sequence[str]) -> list[str]:
    """The tokens as they are compared here: emphasis in capitals ("NEVER") lowered, Chinese and Japanese runs parted."""
    calm: list[str] = []
    for token in tokens:
        if not token.isascii() and _SPACELESS.search(token):
            # Scripts without spaces: a sign is a word.
            calm.extend(
                sign for part in _SPACELESS.split(token) for sign in (part if _is_run(part) else (part,)) if sign
            )
        elif len(token) > 1 and token.isupper() and token.replace("'", "").isalpha() and token not in UNITS:
            lowered = token.lower()
            calm.extend(CONTRACTIONS.get(lowered, (lowered,)))
        else:
            calm.append(token)
    return calm


def _is_run(part: str) -> bool:
    return bool(_SPACELESS.fullmatch(part))


def regions_of(left: list[str], right: list[str]) -> list[_Region] | None:
    """The places where the sequences differ, as (start, end) in each; None when they are too many to be one change."""
    if len(left) == len(right):
        places = [place for place in range(len(left)) if left[place] != right[place]]
        if len(places) <= 3:
            return _joined(places)
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    middle_l, middle_r = left[start : len(left) - end], right[start : len(right) - end]
    if len(middle_l) * len(middle_r) > _MAX_MATCHED:
        return None
    matcher = SequenceMatcher(None, middle_l, middle_r, autojunk=False)
    return [
        (start + i1, start + i2, start + j1, start + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _joined(places: list[int]) -> list[_Region]:
    regions: list[_Region] = []
    for place in places:
        if regions and regions[-1][1] == place:
            start = regions.pop()[0]
            regions.append((start, place + 1, start, place + 1))
        else:
            regions.append((place, place + 1, place, place + 1))
    return regions


def _around(tokens: list[str], start: int, end: int) -> str:
    return " ".join(tokens[max(0, start - 1) : end + 1]).replace(JOIN, " ")


def _value_clash(left: list[str], right: list[str], regions: list[_Region], is_whole: bool) -> Clash | None:
    """Every difference is a value against a value of the same sort: numbers, units, dates, versions, key=value.

    Beside them words may differ that only agree with the number ("one approval is", "two approvals are").
    """
    values: list[_Region] = []
    for region in regions:
        i1, i2, j1, j2 = region
        if i2 - i1 != j2 - j1:
            return None
        pairs = list(zip(left[i1:i2], right[j1:j2], strict=True))
        is_value = [competes(own, other) for own, other in pairs]
        if any(is_value):
            values.append(region)
        if not all(known or _agree(*pair) for known, pair in zip(is_value, pairs, strict=True)):
            return None
        if i1 > 0 and is_reference_label(left[i1 - 1], is_whole=is_whole):
            return None
    if not values or len(left) < 2 or (len(regions) > 1 and _is_bare_list(left, regions)):
        return None
    if len(values) == 1 and _are_one_amount(left, right, values[0]):
        return None
    i1, i2, j1, j2 = values[0]
    return Clash(True, False, _around(left, i1, i2), _around(right, j1, j2), i1)


def _agree(left: str, right: str) -> bool:
    """Whether two words are the singular and the plural of one."""
    return stem(left) == stem(right) or any(left in words and right in words for words in _AGREEMENT)


def _are_one_amount(left: list[str], right: list[str], region: _Region) -> bool:
    """Whether the only difference is how one amount is written: 60 s and 1 min."""
    i1, i2, j1, j2 = region
    if i2 - i1 == 1 and i1 > 0 and left[i1] in UNITS:
        i1, j1 = i1 - 1, j1 - 1
    return i2 - i1 == 2 and one_amount(*left[i1:i2]) == one_amount(*right[j1:j2])


def _is_bare_list(tokens: list[str], regions: list[_Region]) -> bool:
    """Whether several differing values stand behind a label and nothing is said of them: references, not settings."""
    differing = {position for i1, i2, *_ in regions for position in range(i1, i2)}
    words = [token for position, token in enumerate(tokens) if position not in differing and len(token) > 1]
    return sum(word.isalpha() for word in words) < 2


def _opposite_clash(left: list[str], right: list[str], regions: list[_Region]) -> Clash | None:
    """One difference is a word against its opposite; others, if any, are the particles that go with it."""
    found: _Region | None = None
    sort: Sort | None = None
    for region in regions:
        i1, i2, j1, j2 = region
        own, other = left[i1:i2], right[j1:j2]
        if not own or not other or len(own) > 3 or len(other) > 3:
            return None
        if len(own) == len(other) == 1 and own[0] in _PARTICLES and other[0] in _PARTICLES and len(regions) > 1:
            continue
        if found:
            return None
        sort = opposition(_phrase(own), _phrase(other)) or _opposed_throughout(own, other, left[:i1])
        if sort is None:
            return None
        found = region
    if found is None or sort is None:
        return None
    i1, i2, j1, j2 = found
    # "from start to end" against "from end to end": the opposite stands in the text already, nothing is turned.
    if set(right[j1:j2]) & set(left) - _PARTICLES or set(left[i1:i2]) & set(right) - _PARTICLES:
        return None
    if sort is Sort.OPERATION and not (_is_action(left, i1) and _is_action(right, j1)):
        return None
    if sort is Sort.COUNTERPART and not (_CHOICE & set(left[:i1]) and _CHOICE & set(right[:j1])):
        return None
    return Clash(False, True, _around(left, i1, i2), _around(right, j1, j2), i1)


def _opposed_throughout(own: list[str], other: list[str], before: list[str]) -> Sort | None:
    """Whether each word of a choice stands against its opposite ("prefer many small", "prefer few large").

    Elsewhere two opposites may cancel each other ("always succeeds", "never fails").
    """
    if len(own) < 2 or len(own) != len(other) or not _CHOICE & set(before):
        return None
    sorts = [opposition(left, right) for left, right in zip(own, other, strict=True)]
    return Sort.POLAR if all(sorts) else None


def _phrase(tokens: list[str]) -> str:
    """The tokens as the lists of opposites write a phrase."""
    return "_".join(tokens).replace(JOIN, "_")


def _is_action(tokens: list[str], place: int) -> bool:
    """Whether the word at ``place`` is what is to be done: it leads, or follows a modal or an auxiliary."""
    return place == 0 or tokens[place - 1] in _BEFORE_ACTION or not any(map(str.isalnum, tokens[place - 1]))


def _reduced(tokens: list[str]) -> tuple[list[str], list[int]]:
    """The stems of the words that carry meaning, and the places among them where a negation stood."""
    words: list[str] = []
    places: list[int] = []
    for index, written in enumerate(tokens):
        word = written[2:] if written.startswith("n'") and len(written) > 2 else written
        if word in _CUES or _denies(tokens, index):
            places.append(len(words))
            kept = _KEPT_WITHIN.get(word)
            if kept:
                words.append(kept)
        elif word == "1" and index and tokens[index - 1] == "no" and tokens[index + 1 : index + 2] != ["%"]:
            words.append("person")
        elif word not in _LIGHT:
            words.append(stem(_SAME_WORDS.get(word, word)))
    return words, places


def _denies(tokens: list[str], index: int) -> bool:
    """Whether a sign of a script without spaces denies what follows (and is no part of a word like "different")."""
    sign = tokens[index]
    if sign not in SPACELESS_NEGATIONS:
        return False
    return "".join(tokens[index : index + 2]) not in SPACELESS_NO_NEGATION and (
        "".join(tokens[max(0, index - 1) : index + 1]) not in SPACELESS_NO_NEGATION
    )


def _negation_clash(left: list[str], right: list[str]) -> Clash | None:
    """The words agree, and the negations do not: one side has more of them, or has them elsewhere."""
    if not _CUES & {*left, *right} and not any(
        _denies(side, place) for side in (left, right) for place in range(len(side))
    ):
        return None
    words_l, places_l = _reduced(left)
    words_r, places_r = _reduced(right)
    if not words_l or not words_r or places_l == places_r:
        return None
    more = len(places_l) - len(places_r)
    if words_l == words_r:
        is_clash = _is_elsewhere(places_l, places_r) if more == 0 else _turns(left if more > 0 else right, abs(more))
    elif more == 1 and not places_r:
        is_clash = _is_statement(left) and _covers(words_l, words_r)
    elif more == -1 and not places_l:
        is_clash = _is_statement(right) and _covers(words_r, words_l)
    else:
        is_clash = False
    return Clash(False, False, _around(left, 1, 11), _around(right, 1, 11), 0) if is_clash else None


def _is_elsewhere(places_l: list[int], places_r: list[int]) -> bool:
    """Whether as many negations at other places say the opposite.

    Not where the whole is denied on one side and a condition on the other: "Do not lock what is shared" and "Lock what
    is not shared" complete each other.
    """
    return (0 in places_l) == (0 in places_r)


def _turns(denial: list[str], more: int) -> bool:
    """Whether so many more negations say the opposite: two in one clause may cancel each other."""
    if more != 2:
        return more == 1
    first, *_, last = (place for place, word in enumerate(denial) if word in _CUES)
    return "and" in denial[first:last]


def _covers(wide: list[str], narrow: list[str]) -> bool:
    """Whether ``narrow`` speaks of a special case of ``wide``: the same words in order and a few more.

    "There is no man playing a flute" contradicts "A man is playing a large flute". Only for statements: an order may
    have exceptions ("Do not use tabs", "Use tabs in Makefiles").
    """
    if not 2 <= len(wide) <= len(narrow) <= len(wide) + _MAX_EXTRA_WORDS:
        return False
    rest = iter(narrow)
    return all(word in rest for word in wide)


def _is_statement(denial: list[str]) -> bool:
    """Whether the negation is that of a statement ("there is no", "nobody", "is not"), not of an order."""
    for place, word in enumerate(denial):
        if word in ("nobody", "no") and (place == 0 or denial[place - 1] in ("is", "are", "was", "were")):
            return True
        if word == "not" and place and denial[place - 1] in ("is", "are", "was", "were"):
            return True
    return False
