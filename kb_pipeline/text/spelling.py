"""Spelling variants of one English word, brought to one spelling.

Belongs here: British and American spellings and a few double forms, as rules over closed lists of stems.
Does not belong here: inflection. Plural and tense are differences (decision-quality: "plural and tense are residue").
"""

from __future__ import annotations

import re

from kb_pipeline.text.wordlists import closed_list

_ISE = re.compile(r"((?:un|re|de|dis|pre|mis|over|non)?)([a-z]+)is(e|ed|es|ing|er|ers|able|ation|ations|ational)")
_ISE_STEMS = closed_list(
    "actual american amort anonym apolog atom author brutal cannibal canon capital catalog categor cauter central "
    "character civil colon commercial compartmental computer conceptual container contextual critic crystal "
    "crystall custom democrat digit digital discret docker dramat econom emphas energ epitom equal eternal eulog "
    "external factual familiar fantas fertil final formal galvan general global harmon homolog hospital human "
    "hybrid hypnot hypothes ideal idol immun incentiv individual industrial initial institutional internal ion "
    "italic item jeopard journal legal lemmat liberal linear literal local magnet marginal material maxim mechan "
    "memo memor mesmer metabol mineral minim mobil modern modular monet monopol moral motor national natural "
    "neutral nominal normal notar objectiv operational optim organ ostrac oxid parallel parameter pasteur patron "
    "penal personal philosoph plagiar plural polar polit popular pressur priorit privat professional proselyt "
    "pseudonym psych public pulver quant radical random raster ration rational real recogn region regular "
    "revolution ritual robot rubber sanit satir scandal scrutin secular sensational sensit sentimental sequential "
    "serial sexual signal social spatial special stabil standard steril stigmat strateg styl subjectiv subsid "
    "summar symbol sympath synchron synthes system systemat tabular tantal tempor terror textual theor token "
    "traumat trivial union unit urban util vandal vapor vector verbal victim virtual visual vital vocal vulcan "
    "weapon western winter canonical international pessim alphabet granular color commodit parametr parenthes daemon factor"
)
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

    The result need not be a word: it only has to be the same for variants of a word, and different otherwise.
    """
    known = _WHOLE_WORDS.get(word)
    if known is not None:
        return known
    match = _ISE.fullmatch(word)
    if match and (match.group(2) in _ISE_STEMS or match.group(1) + match.group(2) in _ISE_STEMS):
        return f"{match.group(1)}{match.group(2)}iz{match.group(3)}"
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
