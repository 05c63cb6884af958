"""What proves that two texts of one frame speak of two things, so that nobody need be asked (ledger X0).

Belongs here: another thing in one place of the same sentence ("the order service", "the stock service"), a flag more, two
parts that changed places ("from A to B", "from B to A"), a moved "only". Does not belong here: opposites, negations and
values (``contradiction``), and texts that differ in more than a few words: those may be rewording.

A difference in one place proves two things only if the words there cannot stand for one another (``near_synonyms``) and are
no small words. What changed places contradicts where an order is stated ("A before B", "prefer A to B") or each of two
things is given the other's ("A goes to X and B to Y"); else it is another thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_pipeline.text.antonyms import Sort, opposition
from kb_pipeline.text.contradiction import calm, regions_of
from kb_pipeline.text.cues import NEGATIONS
from kb_pipeline.text.near_synonyms import may_mean_the_same
from kb_pipeline.text.synonyms import JOIN
from kb_pipeline.text.units import UNITS
from kb_pipeline.text.wordlists import closed_list

_MAX_REGIONS = 3
_MAX_PLACE_WORDS = 2
_MIN_FRAME_WORDS = 2
_MAX_FRAME_WORDS = 40
_MAX_PART_WORDS = 4
_SMALL = closed_list(
    "a an the this that these those its their your our my his her it they them you we i he she one ones "
    "of in on at by for from to into onto with within as than via per over under about through across between "
    "and or but nor so if when while then also just only even "
    "is are was were be been being do does did has have had will would can could may might shall should must "
    "not no never any some all each every both either very quite really now still already again there here"
)
_FOCUS = closed_list("only just even also")
_PREPOSITIONS = closed_list(
    "of in on at by for from to into onto with within without as via per over under about through across between "
    "before after until while when if because since during behind near than"
)
_DIRECTIONS = closed_list("of to from into onto in on by for with at as via through")
_ORDERS = closed_list(
    "before after until then over above below than override overrides overriding precede precedes follow follows "
    "supersede supersedes outrank outranks beat beats win wins replace replaces"
)
_BOTH_WAYS = closed_list(
    "and or nor & / + , ; : - with versus both like equal equals match matches resemble resembles meet meets plus beside "
    "alongside between same as to talk"
)
_PAIRING = closed_list("and while but whereas")


class Apart(NamedTuple):
    """Two readings of one place. ``is_conflict`` says that not both can hold, ``is_swap`` that parts changed places."""

    is_swap: bool
    is_conflict: bool
    left: str
    right: str


def tell_apart(left: Sequence[str], right: Sequence[str], *, are_commands: bool) -> Apart | None:
    """What proves that two canonical sequences speak of two things, or None. Symmetric but for the sides.

    ``are_commands`` says that both list a command: there an opposite is another command ("start", "stop"). In other texts a
    denial or an opposite may be a contradiction that the rule could not make out, so it proves nothing.
    """
    own, other = calm(left), calm(right)
    if own == other or not own or not other:
        return None
    if len(own) == len(other) and sorted(own) == sorted(other):
        if len(own) > _MAX_FRAME_WORDS:
            return None
        return _moved_focus(own, other) or _swapped(own, other)
    regions = regions_of(own, other)
    if not regions or len(regions) > _MAX_REGIONS:
        return None
    frame = len(own) - sum(i2 - i1 for i1, i2, *_ in regions)
    if frame < _MIN_FRAME_WORDS:
        return None
    flags = _flags_more(own, other, regions)
    if flags:
        return flags
    places = [(own[i1:i2], other[j1:j2]) for i1, i2, j1, j2 in regions]
    is_long = max(len(own), len(other)) > _MAX_FRAME_WORDS
    if is_long and not all(_hold_a_name(words) for place in places for words in place):
        # In a longer text one other word is as likely a new edition of it: a person decides.
        return None
    if not are_commands and any(_may_contradict(*place) for place in places):
        return None
    if all(_are_two_things(*place) for place in places):
        return Apart(False, False, _readable(places[0][0]), _readable(places[0][1]))
    return None


def _may_contradict(own: list[str], other: list[str]) -> bool:
    """Whether the words of a place deny something, or hold a word and its opposite."""
    if NEGATIONS.keys() & {*own, *other}:
        return True
    return any(opposition(left, right) is Sort.POLAR for left in own for right in other)


def _hold_a_name(words: list[str]) -> bool:
    """Whether a number, a path, a flag or the like is among the words."""
    return any(not word.replace(JOIN, "").replace("'", "").isalpha() for word in words)


def _readable(tokens: list[str]) -> str:
    return " ".join(tokens).replace(JOIN, " ")


def _are_two_things(own: list[str], other: list[str]) -> bool:
    words_l, words_r = ([word for word in words if word.lower() not in _SMALL] for words in (own, other))
    if not words_l or len(words_l) != len(words_r) or max(len(own), len(other)) > _MAX_PLACE_WORDS:
        return False
    for word in (*words_l, *words_r):
        # A single letter stands for anything ("the n latest commits").
        if not any(map(str.isalnum, word)) or (len(word) < 2 and not word.isdigit()):
            return False
    if len(words_l) == 1 and words_l[0] in UNITS and words_r[0] in UNITS:
        return UNITS[words_l[0]] != UNITS[words_r[0]]
    return not any(may_mean_the_same(left, right) for left in words_l for right in words_r)


def _flags_more(own: list[str], other: list[str], regions: list[tuple[int, int, int, int]]) -> Apart | None:
    """One command line has a flag that the other lacks, and nothing else differs."""
    more_l = [word for i1, i2, *_ in regions for word in own[i1:i2]]
    more_r = [word for *_, j1, j2 in regions for word in other[j1:j2]]
    if bool(more_l) == bool(more_r):
        return None
    more = more_l or more_r
    if any(word.startswith("-") and len(word) > 1 for word in more) and all(
        word.startswith("-") or word in _SMALL for word in more
    ):
        return Apart(False, False, _readable(more_l) or "nothing", _readable(more_r) or "nothing")
    return None


def _moved_focus(own: list[str], other: list[str]) -> Apart | None:
    """The same words but for the place of one "only": it binds another part."""
    for focus in _FOCUS & set(own):
        if own.count(focus) == 1 and [word for word in own if word != focus] == [w for w in other if w != focus]:
            place_l, place_r = own.index(focus), other.index(focus)
            return Apart(True, False, _readable(own[place_l : place_l + 3]), _readable(other[place_r : place_r + 3]))
    return None


def _swapped(own: list[str], other: list[str]) -> Apart | None:
    """Two parts that changed places round something that does not read both ways."""
    start = 0
    while own[start] == other[start]:
        start += 1
    end = len(own)
    while own[end - 1] == other[end - 1]:
        end -= 1
    middle_l, middle_r = own[start:end], other[start:end]
    size = len(middle_l)
    for first in range(1, min(_MAX_PART_WORDS, size - 2) + 1):
        for last in range(1, min(_MAX_PART_WORDS, size - first - 1) + 1):
            between = middle_l[first : size - last]
            if middle_r == [*middle_l[size - last :], *between, *middle_l[:first]]:
                return _judged_swap(own, middle_l[:first], between, middle_l[size - last :], start)
    return None


def _judged_swap(own: list[str], first: list[str], between: list[str], last: list[str], start: int) -> Apart | None:
    # A part that begins with a preposition says where or when: it may stand anywhere.
    if first[0] in _PREPOSITIONS or last[0] in _PREPOSITIONS or not (_has_word(first) and _has_word(last)):
        return None
    readings = _readable([*first, *between, *last]), _readable([*last, *between, *first])
    if _ORDERS & set(between):
        return Apart(True, True, *readings)
    if all(word in _BOTH_WAYS or word in ("is", "are") for word in between) and between[-1] != "to":
        return None
    if "between" in own[:start]:
        return None
    is_event = any(word.endswith("ing") for word in (*first, *between, *last))
    if is_event or not (_PAIRING & set(between) or between[-1] not in _DIRECTIONS):
        return Apart(True, False, *readings)
    return Apart(True, True, *readings)


def _has_word(tokens: list[str]) -> bool:
    return any(token.lower() not in _SMALL and any(map(str.isalnum, token)) for token in tokens)
