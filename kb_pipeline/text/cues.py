"""The closed lists of small words that turn, bound or weaken what a text says (ledger X1).

Belongs here: negations of the commoner languages, modals, quantifiers, bounds, order in time and place, stances
(enable, forbid) and check marks, as data. Does not belong here: walking a text (``specifics``), opposites of every sort
(``opposites``).

A word of another language stands here only when English, code and the other listed languages do not write it for
something else ("no", "sin", "plus" and "non" need a word of their language near by).
"""

from __future__ import annotations

from kb_pipeline.text.wordlists import closed_list, ordered_list


def _table(lines: str) -> dict[str, str]:
    """``value: form form ...`` a line, as form -> value; underscores join the words of a phrase."""
    return {
        form.replace("_", " "): value.strip().replace("_", " ")
        for value, _, forms in (line.partition(":") for line in lines.strip().splitlines())
        for form in forms.split()
    }


FOREIGN_NEGATIONS: frozenset[str] = closed_list(
    # German, Dutch, Scandinavian
    "nicht nichts kein keine keinen keinem keiner keines nie niemals niemand niemandem niet geen nooit "
    "inte ingen inget inga aldrig ikke ikkje intet aldri "
    # French, Spanish, Portuguese, Italian
    "pas jamais aucun aucune nunca jamás tampoco ningún ninguna ninguno nadie não nenhum nenhuma ninguém nessuno nessuna "
    # Slavic
    "не нет никогда никто ничего нельзя нема ніколи nigdy żaden żadna žádný nikdy "
    # Greek, Turkish, Arabic, Hebrew, Hindi
    "δεν μην ποτέ değil yok asla لا لم لن ليس ليست לא אין नहीं"
)
FOREIGN_WITHOUT: frozenset[str] = closed_list("ohne zonder uten utan senza без bez χωρίς بدون ללא")
_FRENCH = closed_list("le la les un une des du de et ou est sont que qui dans pour par avec sur il elle on")
CONTEXT_NEGATIONS: dict[str, tuple[str, frozenset[str]]] = {
    "non": ("not", closed_list("il lo la gli le che è di del della dei un una per con sono si da")),
    "sin": ("without", closed_list("el la los las un una que es en de del por para con se al")),
    "sem": ("without", closed_list("o os as um uma que em de do da dos das por para com se ao")),
    "mai": ("not", closed_list("il lo la gli che è di del della non un una per con")),
    "sans": ("without", _FRENCH),
    "plus": ("not", closed_list("ne")),
    "rien": ("not", closed_list("ne")),
    "personne": ("not", closed_list("ne")),
}
"""Words that negate only where a word of their own language stands within three words of them. French "n'est" counts as
"ne"."""

NEGATIONS: dict[str, str] = (
    dict.fromkeys(ordered_list("not never no none nobody nothing nowhere neither nor avoid avoids avoiding"), "not")
    | {"without": "without", "unless": "unless", "except": "except"}
    | dict.fromkeys(FOREIGN_NEGATIONS, "not")
    | dict.fromkeys(FOREIGN_WITHOUT, "without")
)
NEGATION_PHRASES: dict[tuple[str, str], str] = {
    ("no", "longer"): "no longer",
    ("any", "longer"): "no longer",
    ("instead", "of"): "instead of",
    ("rather", "than"): "instead of",
}
"""Two words that exclude what follows; "no longer" is one negation, whatever its first word."""

SPACELESS_NEGATIONS = "不没沒未无無非勿"
"""Signs that negate the word behind them in Chinese and Japanese."""

SPACELESS_NO_NEGATION: frozenset[str] = closed_list(
    "不同 不仅 不僅 不但 不断 不斷 不过 不過 不管 不论 不論 不少 不足 不久 未来 未來 非常 无论 無論 差不多 不是吗 没关系 是不是 "
    "要不要 能不能 会不会 会不會 除非 并非不 無料 無線 无线 不可或缺 不得不 不明 不具合 不要不"
)
"""Words that hold such a sign and negate nothing."""

SPACELESS_ENDINGS: tuple[str, ...] = ("ません", "ない", "なかった", "ずに")
"""Endings by which Japanese denies a verb."""

MODALS: dict[str, str] = _table("""
must: must shall
should: should ought
may: may might
can: can could
always: always
only: only
""")

QUANTIFIERS: dict[str, str] = _table("""
all: all every each everything everyone everybody everywhere
any: any anything anyone anybody anywhere
some: some something someone somebody somewhere
most: most
many: many
few: few
several: several
both: both
either: either
half: half
""")
QUANTIFIER_PHRASES: dict[tuple[str, str], str] = {("lots", "of"): "many", ("lot", "of"): "many"}

BOUNDS: dict[tuple[str, str], str] = {
    ("at", "least"): "at least",
    ("at", "most"): "at most",
    ("up", "to"): "at most",
    ("more", "than"): "more than",
    ("greater", "than"): "more than",
    ("larger", "than"): "more than",
    ("longer", "than"): "more than",
    ("less", "than"): "less than",
    ("fewer", "than"): "less than",
    ("smaller", "than"): "less than",
    ("shorter", "than"): "less than",
}
BOUND_WORDS: dict[str, str] = _table("""
minimum: minimum
maximum: maximum max
exactly: exactly
about: approximately approx roughly
more: more
less: less fewer
""")

ORDERS: dict[str, str] = _table("""
before: before
after: after
until: until till til
above: above
below: below beneath
""")
ORDER_PHRASES: dict[tuple[str, str], str] = {("prior", "to"): "before", ("ahead", "of"): "before"}

STANCES: dict[str, str] = _table("""
enable: enable enables enabled enabling activate activates activated activating
disable: disable disables disabled disabling deactivate deactivates deactivated deactivating
allow: allow allows allowed allowing permit permits permitted permitting
forbid: forbid forbids forbidden forbidding disallow disallows disallowed prohibit prohibits prohibited deny denies denied
include: include includes included including
exclude: exclude excludes excluded excluding omit omits omitted omitting
grant: grant grants granted granting
revoke: revoke revokes revoked revoking
accept: accept accepts accepted accepting approve approves approved approving
reject: reject rejects rejected rejecting refuse refuses refused refusing
encrypt: encrypt encrypts encrypted encrypting
decrypt: decrypt decrypts decrypted decrypting
lock: lock locks locked locking
unlock: unlock unlocks unlocked unlocking
install: install installs installed installing
uninstall: uninstall uninstalls uninstalled uninstalling
increase: increase increases increased increasing
decrease: decrease decreases decreased decreasing reduce reduces reduced reducing
required: required mandatory compulsory
optional: optional optionally
recommended: recommended
deprecated: deprecated
valid: valid
invalid: invalid
public: public
private: private
internal: internal
external: external
manual: manual manually
automatic: automatic automatically
synchronous: synchronous synchronously
asynchronous: asynchronous asynchronously async
mutable: mutable
immutable: immutable
true: true
false: false
""")
"""Words with an opposite of their own that decide what is to be done; their difference is shown, and keeps texts apart."""

MARKS: dict[str, str] = (
    dict.fromkeys("✅✓✔☑", "yes") | dict.fromkeys("❌✗✘✖🚫⛔", "no") | {"⚠": "warning", "☐": "open", "☒": "done"}
)
"""Signs that say yes or no."""

ORDINALS: dict[str, str] = {
    word: str(place)
    for place, word in enumerate(
        ordered_list("first second third fourth fifth sixth seventh eighth ninth tenth"), start=1
    )
}
