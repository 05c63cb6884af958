"""Entries whose text talks to the judge (behaviour 23).

Belongs here: one conservative test that flags such texts. Does not belong here: the defence itself: a flagged text
changes no decision, and an unflagged one is fenced as data all the same (ledger X2).
"""

from __future__ import annotations

import re

from kb_pipeline.text.characters import fold_characters

_VERDICTS = r"(?:MERGE|KEEP_BOTH|KEEP BOTH|CONFLICT|SUPERSEDES|UNSURE|DUPLICATES?)"
_PATTERNS = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        # A verdict asked for by name, in the capitals the judge's answer uses.
        (
            r"\b(?i:answer|reply|respond|return|output|say|print|verdict|decide|choose|label|classify)\b"
            r"(?i:[ :=\"'`*]+(?:with|as|is|only|them|this|these|it|the|verdict|exactly|pair|must|be))*[ :=\"'`*]+"
            + _VERDICTS
            + r"\b",
            0,
        ),
        (_VERDICTS + r"[\"'`]?[ ,;]+(?i:with|at)\s+(?i:a )?(?i:judge[_ ])?(?i:confidence)\b", 0),
        (
            r"\b(?:these|the|both|this)\b[^.\n]{0,40}\b(?:entries|entry|texts?|memories|memory|rules?|items?|records?|pairs?)?"
            r"[^.\n]{0,20}\b(?:are|is|as)\b[^.\n]{0,15}\bduplicates?\b[^.\n]{0,60}"
            r"\b(?:merge|answer|reply|respond|confidence|verdict)\b",
            re.IGNORECASE,
        ),
        (
            r"^[ \t>*#\"'-]{0,20}(?:system|assistant|developer|judge|curator)(?: (?:message|prompt|note))?\s*:"
            r"[^\n]{0,160}\b(?:duplicates?|merge|keep_both|verdict|confidence|archive|judge|ignore)\b",
            re.IGNORECASE | re.MULTILINE,
        ),
        (
            r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,20}\b(?:all|any|the|your|previous|prior|above|earlier)\b"
            r"[^.\n]{0,20}\b(?:instructions?|prompts?|guidelines|system message)\b",
            re.IGNORECASE,
        ),
        (
            r"\b(?:dear|attention|note to(?: the)?|instructions? (?:to|for)(?: the)?|hey)[ ,]+"
            r"(?:judge|curator|deduplicator|reviewing model|language model|llm)\b",
            re.IGNORECASE,
        ),
        (r"\b(?:you are|as) (?:the|an?|now the) (?:duplicate |dedup |merge )?(?:judge|curator)\b", re.IGNORECASE),
        (r"</?(?:system|assistant|entry_[lr12ab]|entry-[lr12ab])>|\[/?INST\]|<\|im_(?:start|end)\|>", re.IGNORECASE),
        (
            r"\b(?:treat|mark|consider|count|regard|label|classify)\b[^.\n]{0,60}\b(?:entry|entries|memory|memories|text|texts|"
            r"record|records|one|pair|this|these|both)\b[^.\n]{0,20}\bas (?:an? |exact |the )*duplicates?\b",
            re.IGNORECASE,
        ),
        (
            r"\b(?:if|when|while|whenever)\b[^.\n]{0,30}\b(?:comparing|judging|reviewing|deduplicating|evaluating)\b"
            r"[^.\n]{0,20}\b(?:this|these|both|the other) (?:entry|entries|memory|memories|texts?|pair|records?)\b",
            re.IGNORECASE,
        ),
        (r"\b(?:judge_confidence|\"verdict\"|'verdict')\s*[:=]", re.IGNORECASE),
    )
)


def addresses_judge(text: str) -> bool:
    """Return whether ``text`` tells a judge what to answer. Meant to flag few texts; it decides nothing."""
    text = fold_characters(text)
    return any(pattern.search(text) for pattern in _PATTERNS)
