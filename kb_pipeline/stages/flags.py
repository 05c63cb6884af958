"""Flags (P7, behaviour 23): what is wrong with an entry on its own, found by rule.

A flag changes nothing: it asks a person. Rules are a table of reason code and expression, each with its urgency; rows are
annotated, never dropped. They read form, not truth: whether a decision names a ground, not whether the ground is good.

    value = 0.3 low, 0.5 medium, 0.7 high + 0.1 x use / most use + 0.02 x further flags; words to a judge: 0.9
    use = log2(1 + retrievals + successes)
"""

from __future__ import annotations

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.policy.model import FlagsPolicy
from kb_pipeline.text import phrases
from kb_pipeline.text.records import beyond_title, is_record
from kb_pipeline.vocabulary import LIVE_STATES, Kind, ReasonCode, RecommendationType, Severity, State

_DECISIONS = [Kind.DECISION.value, Kind.ARCHITECTURE_DECISION.value]
_SKILLS = [Kind.SKILL.value, Kind.RUNBOOK.value]
_STATEMENTS = [
    kind.value for kind in (Kind.FACT, Kind.RULE, Kind.CONVENTION, Kind.PATTERN, Kind.LESSON, Kind.EVALUATION_LESSON)
]
_GONE_STATES = [State.ARCHIVED.value, State.INVALIDATED.value, State.EXPIRED.value, State.BLOCKED.value]
_KEPT = ["flags", "recommend"]
_OF_PAIRS = [ReasonCode.GATES_TOO_SIMILAR.value, ReasonCode.GATES_TOO_SIMILAR_DIFFERS.value]
_GATES_VALUE = 0.2
_MIN_ID_CHARS = 6

BODY = pl.col("body")
"""What an entry says beyond its title; ``find_flags`` adds the column."""


def addresses_judge(policy: FlagsPolicy) -> pl.Expr:
    """Behaviour 23 (flags.find_words_to_judge): the text tells a judge what to answer."""
    return pl.lit(policy.find_words_to_judge) & pl.col("addresses_judge")


def no_steps(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.min_instructions): a skill or runbook without steps, list or command, and with too few instructions.

    Instructions are found in English alone: a body in another language counts as followed.
    """
    body = _of_kinds(BODY, _SKILLS)
    told = _count(body, phrases.IMPERATIVE) >= policy.min_instructions
    unread = (body.str.strip_chars() != "") & ~_has(body, phrases.ENGLISH)
    return (pl.col("step_count") == 0) & ~(_has(body, *phrases.STEP_MARKS) | told | unread)


def no_rationale(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.require_rationale): a decision that names no ground, neither in its field nor in its text.

    Texts without English words are only judged when there is nothing but a title.
    """
    text = _of_kinds(pl.col("text"), _DECISIONS)
    readable = (BODY.str.strip_chars() == "") | _has(text, phrases.ENGLISH)
    return pl.lit(policy.require_rationale) & ~pl.col("has_rationale") & readable & ~_has(text, *phrases.REASONS)


def vague_fact(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.min_fact_words): a fact that is nothing but a title, and the title is too short or a mere label.

    A number, a name in code or a path makes a short title say something; scripts without spaces have no words to count.
    """
    title = pl.col("title").str.strip_chars()
    says = title.str.contains(r"[0-9`_/\\=<>{}]|\w[.:]\w|[a-z][A-Z]|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]")
    short = title.str.count_matches(r"[\p{L}\p{N}]+") < policy.min_fact_words
    vague = (short & ~says) | title.str.contains(phrases.LABEL_TITLE)
    return pl.lit(policy.min_fact_words > 0) & (pl.col("kind") == Kind.FACT) & (BODY.str.strip_chars() == "") & vague


def event_log(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.find_event_logs): a record of one occasion that a machine wrote, without anything that holds beyond it."""
    return pl.lit(policy.find_event_logs) & is_record(BODY)


def gone_reference(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.find_gone_references): it points at an entry that is unknown or out of use, and no other took its place."""
    return pl.lit(policy.find_gone_references) & (pl.col("gone_references").list.len() > 0)


def several_topics(policy: FlagsPolicy) -> pl.Expr:
    """P7 (flags.min_topics): a short statement that says itself that it holds several: asides, numbered or named parts."""
    text = _of_kinds(pl.col("text"), _STATEMENTS)
    named = _count(text, phrases.LABELLED_PARAGRAPH) - _count(text, phrases.PART_LABEL)
    named = pl.when(_has(text, phrases.DOCUMENT)).then(0).otherwise(named)
    numbered = _count(text, phrases.NUMBERED_TOPIC)
    titled = _has(_of_kinds(pl.col("title"), _STATEMENTS), phrases.COLLECTION_TITLE)
    collection = titled & BODY.str.contains(r"\S[^\n]*\n\s*\S")
    found = (named >= policy.min_topics) | (numbered >= policy.min_topics) | _has(text, phrases.ASIDE) | collection
    return pl.lit(policy.min_topics > 0) & found


RULES = {
    ReasonCode.LOAD_ADDRESSES_JUDGE: addresses_judge,
    ReasonCode.FLAGS_NO_STEPS: no_steps,
    ReasonCode.FLAGS_NO_RATIONALE: no_rationale,
    ReasonCode.FLAGS_VAGUE_FACT: vague_fact,
    ReasonCode.FLAGS_EVENT_LOG: event_log,
    ReasonCode.FLAGS_GONE_REFERENCE: gone_reference,
    ReasonCode.FLAGS_SEVERAL_TOPICS: several_topics,
}
"""Reason code -> rule, the weightier first. The policy key of a rule stands in its docstring."""

RULE_KEYS = {
    ReasonCode.LOAD_ADDRESSES_JUDGE: "flags.find_words_to_judge",
    ReasonCode.FLAGS_NO_STEPS: "flags.min_instructions",
    ReasonCode.FLAGS_NO_RATIONALE: "flags.require_rationale",
    ReasonCode.FLAGS_VAGUE_FACT: "flags.min_fact_words",
    ReasonCode.FLAGS_EVENT_LOG: "flags.find_event_logs",
    ReasonCode.FLAGS_GONE_REFERENCE: "flags.find_gone_references",
    ReasonCode.FLAGS_SEVERAL_TOPICS: "flags.min_topics",
}


def severities() -> dict[ReasonCode, pl.Expr]:
    """How urgent a flag is: 1 low, 2 medium, 3 high. A runbook without steps fails whoever needs it in a hurry."""
    low, medium, high = pl.lit(1), pl.lit(2), pl.lit(3)
    return {
        ReasonCode.LOAD_ADDRESSES_JUDGE: medium,
        ReasonCode.FLAGS_NO_STEPS: pl.when(pl.col("kind") == Kind.RUNBOOK).then(high).otherwise(medium),
        ReasonCode.FLAGS_NO_RATIONALE: pl.when(pl.col("kind") == Kind.ARCHITECTURE_DECISION)
        .then(high)
        .otherwise(medium),
        ReasonCode.FLAGS_VAGUE_FACT: medium,
        ReasonCode.FLAGS_EVENT_LOG: medium,
        ReasonCode.FLAGS_GONE_REFERENCE: low,
        ReasonCode.FLAGS_SEVERAL_TOPICS: low,
    }


def find_flags(entries: pl.DataFrame, policy: FlagsPolicy) -> pl.DataFrame:
    """FLAGS of every entry: same rows, same order. Entries that are not live, or hold a secret, have none.

    A secret is a question of its own, and its answer is a new text.

    Args:
        entries: ENTRIES.
        policy: which rules are on, and their thresholds.
    """
    asked = pl.col("state").is_in(LIVE_STATES) & (pl.col("secret_kinds").list.len() == 0)
    read = entries.with_columns(beyond_title().alias("body"), _gone_references(entries).alias("gone_references"))
    flags = {code.value: asked & rule(policy).fill_null(False) for code, rule in RULES.items()}
    found = read.with_columns(_words(flags).alias("flag_reasons"))
    level = pl.max_horizontal(
        pl.when(pl.col("flag_reasons").list.contains(code.value)).then(weight).otherwise(0)
        for code, weight in severities().items()
    )
    use = (1 + pl.col("retrievals") + pl.col("successes")).log(2)
    more = pl.col("flag_reasons").list.len().cast(pl.Float64) - 1
    loud = pl.col("flag_reasons").list.contains(ReasonCode.LOAD_ADDRESSES_JUDGE.value)
    value = 0.1 + 0.2 * level + 0.1 * (use / use.max()).fill_nan(0.0) + 0.02 * more
    flagged = level > 0
    annotated = found.with_columns(
        level.replace_strict(
            {1: Severity.LOW.value, 2: Severity.MEDIUM.value, 3: Severity.HIGH.value},
            default=None,
            return_dtype=pl.String,
        ).alias("flag_severity"),
        pl.when(flagged & loud).then(0.9).when(flagged).then(value.round(5)).alias("flag_value"),
        pl.when(pl.col("flag_reasons").list.contains(ReasonCode.FLAGS_GONE_REFERENCE.value))
        .then("gone_references")
        .otherwise(pl.lit([], dtype=schemas.Texts))
        .alias("gone_references"),
    )
    return schemas.FLAGS.select(annotated)


def open_flags(flags: pl.DataFrame, entries: pl.DataFrame, queue: pl.DataFrame) -> pl.DataFrame:
    """The rows of FLAGS that nobody was asked about yet and no person has set aside, best first.

    Args:
        flags: FLAGS.
        entries: ENTRIES of the same entries in the same order.
        queue: QUEUE of questions that were asked about texts as they are now.
    """
    asked = queue.filter(pl.col("recommendation_type") == RecommendationType.FLAG).select(
        pl.col("entry_ids").list.first().alias("entry_id")
    )
    return (
        flags.with_columns(entries["kept_rules"])
        .filter(
            (pl.col("flag_reasons").list.len() > 0)
            & (pl.col("kept_rules").list.set_intersection(_KEPT).list.len() == 0)
        )
        .drop("kept_rules")
        .join(asked, on="entry_id", how="anti")
        .sort(-pl.col("flag_value"), "entry_id")
    )


def add_gates(flags: pl.DataFrame, entries: pl.DataFrame, gates: pl.DataFrame) -> pl.DataFrame:
    """FLAGS, same rows and order, to which active entries are added that a gate would not let in today (curator.flag_gates).

    Nothing about them is wrong in itself, so the flag is a low one and its value is the least. What speaks against an entry
    in another way already stays as it is.

    Args:
        flags: FLAGS.
        entries: ENTRIES of the same entries in the same order.
        gates: GATES of any of them.
    """
    asked = (pl.col("state") == State.ACTIVE) & (pl.col("secret_kinds").list.len() == 0)
    measured = flags.hstack(entries.select(asked.alias("asked"))).join(
        gates.select("entry_id", "gate_reasons"), on="entry_id", how="left", maintain_order="left"
    )
    # That an active entry is close to another one is the matter of the search for duplicates.
    stopped = pl.col("gate_reasons").fill_null([]).list.set_difference(_OF_PAIRS)
    is_new = pl.col("asked") & (pl.col("flag_reasons").list.len() == 0) & (stopped.list.len() > 0)
    return schemas.FLAGS.select(
        measured.with_columns(
            pl.when(is_new).then(stopped).otherwise("flag_reasons").alias("flag_reasons"),
            pl.when(is_new).then(pl.lit(Severity.LOW.value)).otherwise("flag_severity").alias("flag_severity"),
            pl.when(is_new).then(_GATES_VALUE).otherwise("flag_value").alias("flag_value"),
        )
    )


def _gone_references(entries: pl.DataFrame) -> pl.Series:
    """For each entry, as ``id (why)``: entries of its tenant that it points at and that are gone.

    Superseding what is archived is as it should be, so there only an unknown id counts. What an entry was generated from,
    or names in its text, counts when it is out of use and nothing took it in; documents and other names are no ids.
    """
    facts = entries.select("entry_id", "tenant", "state", "merged_into")
    named = [
        entries.select("entry_id", "tenant", pl.col(column).alias("target"), pl.lit(column).alias("how")).explode(
            "target"
        )
        for column in ("supersedes", "generated_from")
    ]
    gone = facts.filter(pl.col("state").is_in(_GONE_STATES) & pl.col("merged_into").is_null())
    named.append(_mentions(entries, gone["entry_id"]))
    known = facts.rename({"entry_id": "target", "state": "target_state", "merged_into": "successor"})
    out_of_use = pl.col("target_state").is_in(_GONE_STATES) & pl.col("successor").is_null()
    pointed = (
        pl.concat(named)
        .drop_nulls("target")
        .filter(pl.col("target") != pl.col("entry_id"))
        .join(known, on=["target", "tenant"], how="left", nulls_equal=True)
        .with_columns(
            pl.when((pl.col("how") == "supersedes") & pl.col("target_state").is_null())
            .then(pl.lit("unknown"))
            .when((pl.col("how") != "supersedes") & out_of_use)
            .then("target_state")
            .alias("why")
        )
    )
    replaced = pointed.filter(pl.col("how") == "supersedes").select("entry_id", "target")
    gone_now = pl.concat(
        [
            pointed.filter(pl.col("how") == "supersedes"),
            pointed.filter(pl.col("how") != "supersedes").join(replaced, on=["entry_id", "target"], how="anti"),
        ]
    ).drop_nulls("why")
    listed = (
        gone_now.select("entry_id", pl.format("{} ({})", "target", "why").alias("gone"))
        .unique()
        .sort("entry_id", "gone")
        .group_by("entry_id", maintain_order=True)
        .agg("gone")
    )
    return entries.join(listed, on="entry_id", how="left", maintain_order="left")["gone"].fill_null(
        pl.Series([[]], dtype=schemas.Texts)
    )


def _mentions(entries: pl.DataFrame, gone: pl.Series) -> pl.DataFrame:
    """Entries whose text names one of these ids: entry_id, tenant, target, how. Ids that could be words do not count."""
    distinct = gone.filter(gone.str.contains(r"\d") & (gone.str.len_chars() >= _MIN_ID_CHARS))
    live = entries.filter(pl.col("state").is_in(LIVE_STATES)).select("entry_id", "tenant", "text")
    named = pl.lit(False) if distinct.is_empty() else pl.col("text").str.contains_any(distinct.implode())
    found = live.filter(named)
    return (
        found.select(
            "entry_id",
            "tenant",
            pl.col("text")
            .str.extract_all(r"[\p{L}\p{N}][\p{L}\p{N}_:./#-]*[\p{L}\p{N}]")
            .list.unique()
            .alias("target"),
            pl.lit("text").alias("how"),
        )
        .explode("target")
        .filter(pl.col("target").is_in(distinct.implode()))
    )


def _of_kinds(text: pl.Expr, kinds: list[str]) -> pl.Expr:
    """The text of entries of these kinds and null for others: a pattern costs nothing, and says nothing, where it is null."""
    return pl.when(pl.col("kind").is_in(kinds)).then(text)


def _has(text: pl.Expr, *patterns: str) -> pl.Expr:
    """Whether any of the patterns matches; null where the text is null."""
    return text.str.contains("|".join(f"(?:{phrases.plain_edges(pattern)})" for pattern in patterns))


def _count(text: pl.Expr, pattern: str) -> pl.Expr:
    return text.str.count_matches(phrases.plain_edges(pattern)).cast(pl.Int64)


def _words(flags: dict[str, pl.Expr]) -> pl.Expr:
    """The words whose expression holds, as one list column."""
    return pl.concat_list(
        pl.when(flag).then(pl.lit(word)).otherwise(pl.lit(None, dtype=pl.String)) for word, flag in flags.items()
    ).list.drop_nulls()
