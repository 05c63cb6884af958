"""Words that turn a statement into its opposite when one replaces the other.

Belongs here: looking up whether two words are opposites, through their inflected forms and through prefixes that
negate. Does not belong here: the lists (``opposites``) and where in a sentence an opposition counts
(``contradiction``).
"""

from __future__ import annotations

from enum import Enum

from kb_pipeline.text.opposites import COUNTERPARTS, OPERATIONS, POLAR
from kb_pipeline.text.wordlists import closed_list


class Sort(Enum):
    """How far an opposition reaches (``opposites`` says what each means)."""

    POLAR = "polar"
    OPERATION = "operation"
    COUNTERPART = "counterpart"


_IRREGULAR: dict[str, str] = {
    "began": "begin",
    "begun": "begin",
    "shown": "show",
    "hid": "hide",
    "sent": "send",
    "wrote": "write",
    "written": "write",
    "bought": "buy",
    "sold": "sell",
    "gave": "give",
    "given": "give",
    "took": "take",
    "taken": "take",
    "came": "come",
    "went": "go",
    "gone": "go",
    "rose": "rise",
    "risen": "rise",
    "fell": "fall",
    "fallen": "fall",
    "grew": "grow",
    "grown": "grow",
    "sat": "sit",
    "stood": "stand",
    "slept": "sleep",
    "woke": "wake",
    "lost": "lose",
    "won": "win",
    "shrank": "shrink",
    "threw": "throw",
    "thrown": "throw",
    "caught": "catch",
    "froze": "freeze",
    "frozen": "freeze",
    "forbidden": "forbid",
    "hidden": "hide",
    "chosen": "choose",
    "kept": "keep",
    "ran": "run",
    "made": "make",
    "held": "hold",
}


def stem(word: str) -> str:
    """Return a rough stem, for meeting inflected forms of opposites: never used where a merge is decided."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= 3:
        return word
    for ending, replacement in (("ies", "y"), ("ied", "y"), ("sses", "ss")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + replacement
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")) and len(word) - len(ending) >= 2:
            base = word[: -len(ending)]
            if ending in ("ing", "ed"):
                if not any(char in "aeiouy" for char in base):
                    return word
                if len(base) > 2 and base[-1] == base[-2] and base[-1] not in "lsz":
                    base = base[:-1]
            return base.removesuffix("e")
    return word.removesuffix("e")


def _stems(phrase: str) -> str:
    return "_".join(map(stem, phrase.split("_")))


_SIDES: dict[str, dict[tuple[Sort, int], set[int]]] = {}
for _sort, _lines in ((Sort.POLAR, POLAR), (Sort.OPERATION, OPERATIONS), (Sort.COUNTERPART, COUNTERPARTS)):
    for _number, _line in enumerate(_lines.replace("\n", ";").strip(";").split(";")):
        for _side, _words in enumerate(_line.split("|")):
            for _word in _words.split():
                for _form in {_word, _stems(_word)}:
                    _SIDES.setdefault(_form, {}).setdefault((_sort, _number), set()).add(_side)

_NEGATING_PREFIXES = ("un", "non", "dis", "in", "im", "ir", "il", "de")
_NO_NEGATION = frozenset(
    map(
        stem,
        closed_list(
            "able age base bate bug cent claim clare clear clever clime cline clude code come count course "
            "cover crease crete crypt cuss deed dex duce fault feat fend fer fine flat flate form fuse grade "
            "grate guise hale here herit itial join lay less like lime liver mand member miss mobile mount "
            "notation pact pair part parture patch pend pict place play plete port pose posit position press "
            "prison pulse put rail ride rive scend scent scribe serve side sign sire sist spair spect spire "
            "spite stall stance stant stead stroke stroy struct tach tact tail tegrity tempt tend tense tent "
            "ter terest termine tern test tile tract tribute trict turb under union unique unit unite until up "
            "value velop vent vert vest viable vice vise voke volve vote ward "
        ),
    )
)


def opposition(left: str, right: str) -> Sort | None:
    """Return how two words or phrases (joined by underscores) are opposites, or None."""
    if left == right:
        return None
    for own, other in ((left, right), (_stems(left), _stems(right))):
        groups_l, groups_r = _SIDES.get(own), _SIDES.get(other)
        if groups_l and groups_r:
            for (sort, number), sides in groups_l.items():
                if {1 - side for side in sides} & groups_r.get((sort, number), set()):
                    return sort
    return Sort.POLAR if _prefixed(left, right) or _prefixed(right, left) else None


def _prefixed(positive: str, negative: str) -> bool:
    """Whether ``negative`` is ``positive`` with a negating prefix ("valid", "invalid")."""
    if len(positive) < 4 or not negative.endswith(positive):
        return False
    return negative[: -len(positive)].rstrip("-_") in _NEGATING_PREFIXES and stem(positive) not in _NO_NEGATION
