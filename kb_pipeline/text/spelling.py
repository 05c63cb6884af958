"""Spelling variants of one English word, brought to one spelling.

Belongs here: British and American spellings and a few double forms, as rules over closed lists of stems.
Does not belong here: inflection. Plural and tense are differences (decision-quality: "plural and tense are residue").
"""

from __future__ import annotations

import re

_ISE = re.compile(r"([a-z]{3,})is(e|ed|es|ing|er|ers|able|ation|ations|ational)")
_YSE = re.compile(r"(anal|catal|paral|dial|electrol|hydrol)ys(e|ed|es|ing|er|ers)")
_OUR = re.compile(
    r"((?:un|dis|mis|re|multi|mono|bi)?(?:col|behavi|fav|hon|lab|neighb|flav|harb|hum|rum|vap|arm|endeav|rig|vig|savi|"
    r"sav|od|splend|tum|glam|clam))our([a-z]*)"
)
_DOUBLE_L = re.compile(
    r"((?:un|mis|re|pre)?(?:cancel|label|model|travel|signal|channel|fuel|marshal|tunnel|level|total|initial|dial|"
    r"panel|parallel|equal|funnel|quarrel|counsel|rival|spiral|stencil|swivel|tassel|trial|yodel|duel|jewel|bevel|"
    r"chisel|gravel|grovel|libel|pencil|ravel|revel|shovel|shrivel|snorkel|towel|trammel|unravel))"
    r"l(ed|ing|er|ers|able|ings)"
)
_RE_ENDING = re.compile(r"(cent|lit|theat|fib|calib|millimet|centimet|kilomet)re(s|d)?")

_WHOLE_WORDS: dict[str, str] = {
    "grey": "gray",
    "greys": "grays",
    "greyed": "grayed",
    "greyscale": "grayscale",
    "catalogue": "catalog",
    "catalogues": "catalogs",
    "catalogued": "cataloged",
    "dialogue": "dialog",
    "dialogues": "dialogs",
    "analogue": "analog",
    "licence": "license",
    "licences": "licenses",
    "defence": "defense",
    "defences": "defenses",
    "offence": "offense",
    "pretence": "pretense",
    "judgement": "judgment",
    "judgements": "judgments",
    "acknowledgement": "acknowledgment",
    "acknowledgements": "acknowledgments",
    "ageing": "aging",
    "artefact": "artifact",
    "artefacts": "artifacts",
    "sceptical": "skeptical",
    "whilst": "while",
    "amongst": "among",
    "towards": "toward",
    "afterwards": "afterward",
    "learnt": "learned",
    "spelt": "spelled",
    "focussed": "focused",
    "focusses": "focuses",
    "focussing": "focusing",
    "fulfil": "fulfill",
    "fulfils": "fulfills",
    "fulfilment": "fulfillment",
    "enrol": "enroll",
    "enrolment": "enrollment",
    "instalment": "installment",
    "skilful": "skillful",
    "adviser": "advisor",
    "advisers": "advisors",
    "practise": "practice",
    "practised": "practiced",
    "practising": "practicing",
    "metre": "meter",
    "metres": "meters",
    "programme": "program",
    "programmes": "programs",
    "mould": "mold",
    "plough": "plow",
    "sulphur": "sulfur",
    "aluminium": "aluminum",
    "cosy": "cozy",
    "tyre": "tire",
    "okay": "ok",
    "alright": "ok",
    "benefitted": "benefited",
    "benefitting": "benefiting",
    "targetted": "targeted",
    "targetting": "targeting",
    "useable": "usable",
    "parseable": "parsable",
    "shareable": "sharable",
    "scaleable": "scalable",
    "writeable": "writable",
    "saveable": "savable",
    "sizeable": "sizable",
    "moveable": "movable",
    "likeable": "likable",
    "rateable": "ratable",
    "cacheable": "cachable",
    "queueing": "queuing",
    "encyclopaedia": "encyclopedia",
    "orientated": "oriented",
    "indices": "indexes",
    "appendices": "appendixes",
    "vertices": "vertexes",
}


def one_spelling(word: str) -> str:
    """Return the one spelling that stands for all variants of ``word`` (lower case, letters only).

    The result need not be a word ("otherwize"): it only has to be the same for variants, and different otherwise.
    """
    known = _WHOLE_WORDS.get(word)
    if known is not None:
        return known
    match = _ISE.fullmatch(word)
    if match:
        return f"{match.group(1)}iz{match.group(2)}"
    match = _YSE.fullmatch(word)
    if match:
        return f"{match.group(1)}yz{match.group(2)}"
    match = _OUR.fullmatch(word)
    if match:
        return f"{match.group(1)}or{match.group(2)}"
    match = _DOUBLE_L.fullmatch(word)
    if match:
        return f"{match.group(1)}{match.group(2)}"
    match = _RE_ENDING.fullmatch(word)
    if match:
        return f"{match.group(1)}er{match.group(2) or ''}"
    return word
