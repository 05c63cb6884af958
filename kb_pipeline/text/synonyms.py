"""The closed list of words and phrases that say the same in knowledge entries.

Belongs here: contractions, compounds written in one word or two, fixed phrases and a few full synonyms. Does not
belong here: anything inflected by rule, near-synonyms, or words that a generated thesaurus calls alike: each pair
here was read, and a wrong one merges two entries that differ (ledger X0).

A canonical form need not be pretty; it only has to be the same for all variants. Single words map to one word;
phrases (two words or more) map to a sequence of words.
"""

from __future__ import annotations

from kb_pipeline.text.wordlists import closed_list

JOIN = "\u203f"
"""Joins the words of a compound in its canonical form. Names are never written with it: a verbatim ``pull_request``
must not meet the words "pull request"."""

_AUXILIARIES = "is are was were do does did has have had should would could must might need ought may dare"
_PRONOUNS = "i you we they it there that who this"
_IRREGULAR_CONTRACTIONS: dict[str, tuple[str, ...]] = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "let's": ("let", "us"),
    "it's": ("it", "is"),
    "that's": ("that", "is"),
    "there's": ("there", "is"),
    "here's": ("here", "is"),
    "what's": ("what", "is"),
    "i'm": ("i", "am"),
}

CONTRACTIONS: dict[str, tuple[str, ...]] = (
    _IRREGULAR_CONTRACTIONS
    | {f"{verb}n't": (verb, "not") for verb in _AUXILIARIES.split()}
    | {
        f"{who}'{short}": (who, full)
        for who in _PRONOUNS.split()
        for short, full in (("re", "are"), ("ve", "have"), ("ll", "will"))
    }
)
"""Contractions with one reading; 'd (had or would) and the possessive 's have two and stay."""

_COMPOUNDS = """
add_on auto_complete auto_completion back_end back_up bit_rate bug_report boiler_plate break_point byte_code call_back
change_log check_box check_list check_out clean_up code_base command_line data_base data_set drop_down e_book e_mail
end_point fall_back file_name file_system front_end health_check host_name key_stroke key_word life_cycle
life_time log_in log_out look_ahead look_up lower_case meta_data multi_line multi_threaded name_space non_empty
non_interactive open_source path_name place_holder play_list plug_in pre_process pre_processing re_usable re_use
re_used re_using roll_back run_book run_time screen_shot set_up shut_down sign_in sign_up stack_trace start_up
style_sheet sub_command sub_directory sub_folder sub_key sub_module sub_process sub_set sub_task super_user
time_out time_stamp time_zone to_do tool_chain upper_case un_select user_name view_port web_hook web_page web_site
white_space wi_fi wild_card work_around work_flow work_space
"""
"""Compounds that are written in one word, with a hyphen or in two; each also with a plural s."""


def _compounds() -> dict[str, str]:
    forms = {compound.replace("_", ""): compound.replace("_", JOIN) for compound in _COMPOUNDS.split()}
    plurals = {f"{word}s": f"{compound}s" for word, compound in forms.items()}
    plurals |= {f"{word[:-1]}ies": f"{compound[:-1]}ies" for word, compound in forms.items() if word.endswith("y")}
    return forms | plurals


WORDS: dict[str, str] = _compounds() | {
    "show": "display",
    "shows": "displays",
    "showing": "displaying",
    "print": "display",
    "prints": "displays",
    "printing": "displaying",
    "utilize": "use",
    "utilizes": "uses",
    "utilized": "used",
    "utilizing": "using",
    "config": "configuration",
    "configs": "configurations",
    "repo": "repository",
    "repos": "repositories",
    "info": "information",
    "docs": "documentation",
    "param": "parameter",
    "params": "parameters",
    "max": "maximum",
    "specified": "given",
    "vs": "versus",
    "approx": "approximately",
    "upon": "on",
    "til": "until",
    "till": "until",
    "thru": "through",
    "e.g": f"for{JOIN}example",
    "eg": f"for{JOIN}example",
    "i.e": f"that{JOIN}is",
    "ie": f"that{JOIN}is",
    "regex": f"regular{JOIN}expression",
    "regexp": f"regular{JOIN}expression",
    "regexes": f"regular{JOIN}expressions",
    "regexps": f"regular{JOIN}expressions",
    "stdin": f"standard{JOIN}input",
    "stdout": f"standard{JOIN}output",
    "stderr": f"standard{JOIN}error",
}
"""Single words with one canonical word. Compounds are joined by ``JOIN``; the phrase table gives the same for the parted form."""

_SEPARATED: tuple[str, ...] = tuple(
    sorted(
        {joined for joined in WORDS.values() if JOIN in joined and joined not in (f"for{JOIN}example", f"that{JOIN}is")}
    )
)

PHRASES: dict[tuple[str, ...], tuple[str, ...]] = {tuple(joined.split(JOIN)): (joined,) for joined in _SEPARATED} | {
    ("for", "example"): (f"for{JOIN}example",),
    ("for", "instance"): (f"for{JOIN}example",),
    ("that", "is", "to", "say"): (f"that{JOIN}is",),
    ("in", "order", "to"): ("to",),
    ("so", "as", "to"): ("to",),
    ("as", "well", "as"): ("and",),
    ("prior", "to"): ("before",),
    ("make", "sure"): ("ensure",),
    ("makes", "sure"): ("ensures",),
    ("making", "sure"): ("ensuring",),
    ("per", "cent"): ("percent",),
    ("a", "lot", "of"): ("many",),
    ("lots", "of"): ("many",),
    ("has", "to"): ("must",),
    ("have", "to"): ("must",),
    ("env", "var"): ("environment", "variable"),
    ("env", "vars"): ("environment", "variables"),
    ("environment", "var"): ("environment", "variable"),
    ("environment", "vars"): ("environment", "variables"),
    ("command", "line"): (f"command{JOIN}line",),
    ("standard", "out"): (f"standard{JOIN}output",),
    ("pull", "request"): (f"pull{JOIN}request",),
    ("log", "into"): (f"log{JOIN}in", "to"),
    ("sign", "into"): (f"sign{JOIN}in", "to"),
}
"""Phrases in prose (after contractions, spelling and single words) and what stands for them."""

CASED_WORDS: dict[str, str] = {"WiFi": WORDS["wifi"]}
"""Words with capitals inside that are no names."""

CODE_WORDS: dict[str, str] = {word: WORDS[word] for word in ("stdin", "stdout", "stderr", "regex")}
"""The few words that mean the same in code marks and without; the others keep their form: `print` is not `show`."""

PHRASE_STARTS: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
for _phrase, _replacement in sorted(PHRASES.items(), key=lambda item: -len(item[0])):
    PHRASE_STARTS.setdefault(_phrase[0], []).append((_phrase, _replacement))

ARTICLES_KEPT_BEFORE: frozenset[str] = closed_list(
    "few little bit lot couple number while second minute hour day night week month year quarter time "
    "million hundred thousand dozen"
)
"""Nouns before which "a" carries meaning: "a few" is not "few", "once a day" is a rate, "a number of" is not "the"."""

LABEL_NOUNS: frozenset[str] = closed_list(
    "option plan part step class type grade section appendix vitamin team group version case side point "
    "phase variant category level tier hepatitis exhibit variable parameter node edge task host server "
    "column key letter drive model schedule annex panel record"
)
"""Nouns after which a single letter is a label ("plan A"), no article."""

FUNCTION_WORDS: frozenset[str] = closed_list(
    "is are was were be been to of in on at by for from with and or not but as than then that which who "
    "over under into onto if when while has have had do does did will can may must should would could vs "
    "versus equals"
)
"""Words before which "a" is a name ("from a to b"), no article."""
