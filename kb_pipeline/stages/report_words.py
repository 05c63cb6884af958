"""Plain words for every code a report can show.

Belongs here: one sentence a reader without knowledge of the code understands, for each member of the vocabulary that
reaches a report, and the sentence that says what was measured on an entry. Does not belong here: layout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kb_pipeline.vocabulary import ActionType, Band, ReasonCode, RecommendationType, State, Verdict

SECRET_TEXT = "[text withheld: looks like it holds a secret]"  # noqa: S105 - a notice, not a password
"""Stands wherever the text of an entry with a suspected secret would stand."""

RESTRICTED_TEXT = "[text withheld: restricted]"
"""Stands wherever the text of a restricted entry would stand."""

REVALIDATION_REASON = (
    "This version does not compare entries with their sources, so whether their evidence still holds is not known."
)
QUALITY_BANDS_REASON = "This version does not compute an overall quality score, so there are no bands."

REASONS: dict[str, str] = {
    ReasonCode.IMPORT_STATE: "An import gave the entry this state.",
    ReasonCode.DISTINCTIVENESS_NO_TOKENS: "The text holds no words, so its distinctiveness cannot be measured.",
    ReasonCode.GATES_PASSED: "The new entry passes every gate.",
    ReasonCode.GATES_NAME_TOO_SHORT: "The title is too short to say what the entry is about.",
    ReasonCode.GATES_GENERIC_NAME: "The title is generic: it would fit almost anything.",
    ReasonCode.GATES_NOT_DISTINCTIVE: "Nearly all of its words are words that most entries use.",
    ReasonCode.GATES_TOO_SIMILAR: "An active entry says the same already; that entry was strengthened instead.",
    ReasonCode.GATES_TOO_SIMILAR_DIFFERS: (
        "It is very close to an active entry but differs in a number, name or negation, so a person decides."
    ),
    ReasonCode.RETIRE_LOW_CI_UPPER: "It was tried often enough and hardly ever helped.",
    ReasonCode.RETIRE_STALE: "Nobody has needed it for a long time.",
    ReasonCode.FLAGS_NO_STEPS: "It is a skill or runbook, but holds nothing that could be followed.",
    ReasonCode.FLAGS_NO_RATIONALE: "It is a decision, but gives no ground for it.",
    ReasonCode.FLAGS_VAGUE_FACT: "It is a fact with nothing but a short title, which states nothing.",
    ReasonCode.FLAGS_EVENT_LOG: "It records what happened once, written by a machine, and says nothing that holds beyond.",
    ReasonCode.FLAGS_GONE_REFERENCE: "It points at an entry that is unknown or out of use.",
    ReasonCode.FLAGS_SEVERAL_TOPICS: "It holds several topics, so none of them is found well.",
    ReasonCode.FLAGS_BY_JUDGE: "A model that read it among other recent entries found it wanting; its own words say why.",
    ReasonCode.ELIGIBILITY_NOT_ACTIVE: "It is not in use.",
    ReasonCode.ELIGIBILITY_IN_CONFLICT: "It stands in a severe open conflict, so neither side is given out.",
    ReasonCode.ELIGIBILITY_EXPIRED: "Its time is over.",
    ReasonCode.ELIGIBILITY_REJECTED: "A person rejected it.",
    ReasonCode.ELIGIBILITY_NOT_PERMITTED: "Whoever asks may not see it.",
    ReasonCode.ELIGIBILITY_HOLDS_SECRET: "Its text seems to hold a secret.",
    ReasonCode.ELIGIBILITY_OUT_OF_SCOPE: "It belongs to another owner, repository or module.",
    ReasonCode.ELIGIBILITY_LOW_CONFIDENCE: "Its confidence is too low.",
    ReasonCode.JUDGE_EXACT: "The two texts are the same, apart from layout and punctuation.",
    ReasonCode.JUDGE_CANONICAL: "The two texts say the same, word for word, in another notation.",
    ReasonCode.JUDGE_CONTRADICTION: "The two texts are alike except that one denies or reverses what the other says.",
    ReasonCode.JUDGE_VALUE_MISMATCH: "The two texts are alike except for a number, unit, date or version.",
    ReasonCode.JUDGE_SUBSET: "One text holds everything specific in the other, and more.",
    ReasonCode.JUDGE_SPECIFICS_DIFFER: "Each text holds numbers, names or conditions that the other lacks.",
    ReasonCode.JUDGE_MACHINE_RECORDS: "Both are a machine's record of one occasion each: alike, and not the same.",
    ReasonCode.JUDGE_FAR_APART: "They share words, but too little speaks for one meaning to trouble a person with them.",
    ReasonCode.JUDGE_QUEUE_FULL: "They share words; better pairs of that sort fill the queue already.",
    ReasonCode.WINDOW_DUPLICATE: "A model that read both among other recent entries took them for the same.",
    ReasonCode.JUDGE_SPECIFICS_OVERLAP: "They share most of the smaller one's numbers and names; each has others besides.",
    ReasonCode.JUDGE_OTHER_THING: "One sentence, but another thing in one place of it.",
    ReasonCode.JUDGE_PARTS_SWAPPED: "The same words, but two parts have changed places.",
    ReasonCode.JUDGE_RESIDUE: "Numbers and names agree, but the wording differs; no rule can tell whether it matters.",
    ReasonCode.JUDGE_SAME_RULE: "The judge read both texts and found that they state the same rule.",
    ReasonCode.JUDGE_DISTINCT: "The judge read both texts and found that they say different things.",
    ReasonCode.JUDGE_SUPERSEDES: "The judge read both texts and found that one was written to replace the other.",
    ReasonCode.JUDGE_LOW_CONFIDENCE: "The judge was not sure enough, so a person decides.",
    ReasonCode.JUDGE_ORDER_DISAGREES: (
        "The judge said one thing in one order of the texts and another in the other order, so a person decides."
    ),
    ReasonCode.JUDGE_CANARY_FAILED: (
        "The judge was wrong about a pair whose answer is known, so what it would say here was set aside."
    ),
    ReasonCode.JUDGE_NOT_ALLOWED: "One of the texts is restricted, so no judge may see it and a person decides.",
    ReasonCode.JUDGE_SECRET: "One of the texts seems to hold a secret, so it was not shown to the judge.",
    ReasonCode.JUDGE_BUDGET_SPENT: "The judge's budget for this run was used up, so a person decides, or the next run asks.",
    ReasonCode.JUDGE_BATCH_PENDING: "The question lies with the judge's service, and the next run takes up the answer.",
    ReasonCode.JUDGE_BATCH_UNANSWERED: (
        "The judge's service ended the batch without an answer to this pair, so both entries were kept until the next run."
    ),
    ReasonCode.JUDGE_NOT_RECORDED: "The recorded verdicts say nothing of this pair, so a person decides.",
    ReasonCode.JUDGE_TOO_LONG: "One of the texts is too long for the judge, so a person decides.",
    ReasonCode.JUDGE_ADDRESSED: "One of the texts talks to the judge instead of stating knowledge: a person decides.",
    ReasonCode.JUDGE_INVALID_REPLY: "The judge's answer could not be understood, so both entries were kept.",
    ReasonCode.JUDGE_REFUSED: "The judge refused to answer, so both entries were kept.",
    ReasonCode.JUDGE_TRUNCATED: "The judge's answer was cut off, so both entries were kept.",
    ReasonCode.JUDGE_TIMEOUT: "The judge did not answer in time, so both entries were kept.",
    ReasonCode.JUDGE_UNAVAILABLE: "The judge could not be reached, so both entries were kept.",
    ReasonCode.JUDGE_REJECTED_REQUEST: "The judge's service rejected the question, so both entries were kept.",
    ReasonCode.MERGE_SPECIFICS_DIFFER: (
        "The judge calls them the same, but a number, name or negation differs, so a person decides."
    ),
    ReasonCode.MERGE_CHAIN: (
        "Each is close to a third entry, but the two are not duplicates of each other, so a person decides."
    ),
    ReasonCode.MERGE_PRODUCT: (
        "One of the two has taken in another text before, so merging it once more is for a person to decide."
    ),
    ReasonCode.MERGE_SENSITIVITY_DIFFERS: "The two may not be seen by the same people, so a person decides.",
    ReasonCode.MERGE_SPECIFICS_LOST: (
        "The judge calls them the same, but its text for both loses a number, name or negation, so a person decides."
    ),
    ReasonCode.MERGE_SPECIFICS_INVENTED: (
        "The judge calls them the same, but its text for both holds a number, name or negation of neither: a person decides."
    ),
    ReasonCode.MERGE_BODY_EMPTY: "The judge calls them the same, but its text for both is empty: a person decides.",
    ReasonCode.MERGE_BODY_TOO_SHORT: (
        "The judge calls them the same, but its text for both is much shorter than either, so a person decides."
    ),
    ReasonCode.MERGE_BODY_TOO_LONG: (
        "The judge calls them the same, but its text for both is too long, and nothing is cut: a person decides."
    ),
    ReasonCode.MERGE_BODY_STRANGE: (
        "The judge calls them the same, but its text for both is made of other words than theirs, so a person decides."
    ),
    ReasonCode.MERGE_BODY_SECRET: (
        "The judge calls them the same, but its text for both seems to hold a secret and was dropped: a person decides."
    ),
    ReasonCode.MERGE_BODY_CONTROL_CHARACTERS: (
        "The judge calls them the same, but its text for both holds control characters and was dropped: a person decides."
    ),
    ReasonCode.MERGE_BODY_ADDRESSES_JUDGE: (
        "The judge calls them the same, but its text for both speaks to a judge or repeats its orders: a person decides."
    ),
    ReasonCode.SUPERSEDE_DECLARED: "The newer entry names the other one as replaced, and both are still in use.",
    ReasonCode.SUPERSEDE_SAME_TITLE: "Both have one title, and the later text says that it replaces what was before.",
    ReasonCode.REFRESH_EXPIRED: (
        "Its own expiry date has passed, so it is not given out any more: a new date comes from its source."
    ),
    ReasonCode.REFRESH_UNVALIDATED: "Nobody has found it to hold for longer than its kind or its own policy allows.",
    ReasonCode.LOAD_ADDRESSES_JUDGE: "The text talks to a judge or model instead of stating knowledge.",
    ReasonCode.LOAD_SECRET: "The text seems to hold a secret: remove it, and change the secret.",
    ReasonCode.MERGE_KEPT_BY_PERSON: "A person took an earlier merge back, so the entry stays until its text changes.",
    ReasonCode.MERGE_MODE_RECOMMEND: "The run only recommends, so a person decides on the merge.",
    ReasonCode.CONFLICTS_CONTRADICTION: "The two entries say opposite things about the same matter.",
    ReasonCode.CONFLICTS_VALUE_MISMATCH: "The two entries give different values for the same thing.",
    ReasonCode.CONFLICTS_TEXT_CHANGED: "One of the two says another thing now, so the conflict is over.",
    ReasonCode.CONFLICTS_SIDE_GONE: "One of the two is out of use now, so the conflict is over.",
    ReasonCode.JUDGE_KEPT_BY_PERSON: "A person read both texts and keeps both, until one of them changes.",
    ReasonCode.JUDGE_DISMISSED_BY_PERSON: "A person turned the merge of these two down, until one of them changes.",
    ReasonCode.REVIEW_ADMITTED: "A person let the new entry in.",
    ReasonCode.REVIEW_APPROVED: "A person approved it.",
    ReasonCode.REVIEW_ARCHIVED: "A person took it out of use.",
    ReasonCode.REVIEW_CONFLICT_DECIDED: "A person decided which side of the conflict holds.",
    ReasonCode.REVIEW_FLAGGED: "A person agreed that something is wrong with it.",
    ReasonCode.REVIEW_MERGED: "A person read both texts and merged them.",
    ReasonCode.REVIEW_OUT_OF_DATE: "A person agreed that it may be out of date.",
    ReasonCode.REVIEW_SUPERSEDED: "A person agreed that another entry replaces it.",
}
"""Reason code -> what it means."""

RETIRE_RULES: dict[str, str] = {
    ReasonCode.RETIRE_LOW_CI_UPPER.value: "retire.max_ci_upper",
    ReasonCode.RETIRE_STALE.value: "retire.max_unmatched_days",
}
"""Reason code of a retirement -> policy key that sets it; also for entries whose question waits since another week."""

PROTECTIONS: dict[str, str] = {
    "pinned": "a person pinned it",
    "approved": "a person approved it",
    "protected_kind": "its kind is protected by policy",
    "kept_by_person": "a person took an earlier retirement back",
}
"""Word of a protection -> why the entry stays (ledger K17)."""

STATES: dict[State, str] = {
    State.CANDIDATE: "new, not yet let in",
    State.APPROVED: "approved by a person, not yet in use",
    State.ACTIVE: "in use",
    State.NEEDS_REVIEW: "a person has to look before it is used again",
    State.STALE: "may be out of date",
    State.INVALIDATED: "its source no longer supports it",
    State.SUPERSEDED: "replaced by a newer entry",
    State.EXPIRED: "its time is over",
    State.ARCHIVED: "out of use, kept, can be brought back",
    State.BLOCKED: "shut off for safety",
}
"""State -> what it means."""

BANDS: dict[Band, str] = {
    Band.EXACT: "Same text",
    Band.MERGE: "Very similar",
    Band.BORDERLINE: "Similar",
    Band.LEXICAL: "Found by shared words",
}
"""Band -> heading; strongest band first."""

VERDICTS: dict[Verdict, str] = {
    Verdict.MERGE: "the same",
    Verdict.KEEP_BOTH: "different, both stay",
    Verdict.CONFLICT: "they disagree",
    Verdict.SUPERSEDES: "one replaces the other",
    Verdict.UNSURE: "a person must decide",
}
"""Verdict -> what it says of two entries."""

VERDICT_HEADS: dict[Verdict, str] = {
    Verdict.MERGE: "Same",
    Verdict.KEEP_BOTH: "Different",
    Verdict.CONFLICT: "Disagree",
    Verdict.SUPERSEDES: "Replaced",
    Verdict.UNSURE: "Undecided",
}
"""Verdict -> head of a column."""

QUESTIONS: dict[RecommendationType, str] = {
    RecommendationType.MERGE: "Do these say the same?",
    RecommendationType.FLAG: "Is this entry good enough?",
    RecommendationType.SUPERSEDE: "Does one replace the other?",
    RecommendationType.REFRESH: "Does this still hold?",
    RecommendationType.ARCHIVE: "Shall this go out of use?",
    RecommendationType.CONFLICT: "Which of these is right?",
    RecommendationType.ADMIT: "Shall this be let in?",
}
"""What the queue asks -> the question in words."""

ACTIONS: dict[ActionType, str] = {
    ActionType.ADMIT: "new entries let in",
    ActionType.REFUSE: "new entries refused and archived",
    ActionType.STRENGTHEN: "entries strengthened by a repeat of what they say",
    ActionType.RETIRE: "entries retired",
    ActionType.MERGE: "duplicates merged into another entry",
    ActionType.OPEN_CONFLICT: "conflicts opened",
    ActionType.CLOSE_CONFLICT: "conflicts ended by a change of one side",
    ActionType.RECOMMEND: "questions put to a person",
}
"""Action -> what happened to so many."""

CHECKS: dict[str, str] = {
    "schema": "All data have the expected form",
    "no_entry_lost": "No entry got lost",
    "one_transition_per_entry": "No entry changes twice",
    "allowed_transitions": "Only allowed changes of state",
    "winners_stay": "An entry that takes another in stays",
    "scope_not_crossed": "No merge across owners, repositories or kinds",
    "specifics_equal": "Merged texts agree in numbers, names and negations",
    "blast_radius": "The change is not larger than allowed",
    "gold_precision": "What the rules merge among the gold pairs is right",
    "golden_queries": "Golden queries find their answers after the plan as well as before it",
    "coverage": "Everything was looked at",
    "distinctiveness_drift": "Distinctiveness is stable",
    "borderline_backlog": "Few borderline pairs wait",
    "judge_degraded": "The judge answered",
}
"""Name of a check -> what it makes sure of; an unlisted check shows its name."""


def ground_words(reason: str, explanation: str | None) -> str:
    """The sentences of a question about one entry: of every ground when its explanation lists several, and its details."""
    parts = (explanation or "").split("; ") if explanation else []
    codes = [part for part in parts if part in REASONS] or [reason]
    details = [part for part in parts if part not in REASONS]
    return " ".join([*map(reason_words, codes), *([f"({', '.join(details)})"] if details else [])])


def reason_words(code: str) -> str:
    """The sentence of a reason code; the code itself when it comes from a newer or foreign record."""
    return REASONS.get(code, code)


def measured_retirement(reason: str, row: Mapping[str, Any], thresholds: Mapping[str, float]) -> str:
    """What was measured on an entry that a retirement rule speaks against.

    Args:
        reason: reason code of the rule.
        row: attempts, successes, performance_ci_upper, staleness_days of the entry.
        thresholds: policy values by key.
    """
    if reason == ReasonCode.RETIRE_LOW_CI_UPPER:
        limit = _limit(thresholds, "max_ci_upper", "; below {:.2f} an entry is retired")
        return (
            f"{row['successes']:,} of {row['attempts']:,} uses succeeded. Even at best that points to a success rate "
            f"of {row['performance_ci_upper']:.3f}{limit}."
        )
    if reason == ReasonCode.RETIRE_STALE and row["staleness_days"] is not None:
        limit = _limit(thresholds, "max_unmatched_days", " (limit {:,.0f})")
        return f"No match for {int(row['staleness_days']):,} days{limit}."
    return reason_words(reason)


def measured_gate(reason: str, row: Mapping[str, Any], thresholds: Mapping[str, float]) -> str:
    """What was measured on an entry that does not pass a gate.

    Args:
        reason: reason code of the gate.
        row: name_chars, distinctiveness, max_similarity and nearest_id of the entry.
        thresholds: policy values by key.
    """
    words = reason_words(reason)
    if reason == ReasonCode.GATES_NAME_TOO_SHORT:
        limit = _limit(thresholds, "min_name_chars", ", at least {:,.0f} are wanted")
        return f"The title has only {row['name_chars']:,} characters{limit}."
    if reason == ReasonCode.GATES_NOT_DISTINCTIVE and row["distinctiveness"] is not None:
        limit = _limit(thresholds, "min_distinctiveness", ", at least {:.0%} are wanted")
        # Rounded down, so that 0.2996 does not read as the 30 % it misses.
        share = math.floor(row["distinctiveness"] * 1000) / 10
        return f"Only {share:g}% of its words are not everybody's words{limit}."
    if reason in (ReasonCode.GATES_TOO_SIMILAR, ReasonCode.GATES_TOO_SIMILAR_DIFFERS) and row["nearest_id"]:
        return f"{words} Nearest: {row['nearest_id']}, similarity {row['max_similarity']:.2f}."
    return words


def _limit(thresholds: Mapping[str, float], key: str, words: str) -> str:
    value = thresholds.get(key)
    return "" if value is None else words.format(value)
