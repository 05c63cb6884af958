r"""Phrases by which a text shows what it is made of: reasons, steps, event records, several topics.

Belongs here: patterns for whole columns of texts, so they are in the dialect that Polars reads: no look-around; and the
one test of them for a single text. Every one
must make sense to a reader who has never seen the texts that it is tried on. Does not belong here: what follows from a
match (stages/flags).
"""

from __future__ import annotations

import re
from functools import cache

REASONS: tuple[str, ...] = (
    # A clause of reason, purpose or consequence.
    r"(?i)\b(?:because|since|therefore|thus|hence|otherwise|whereas|so that|in order to|as a result|"
    r"given that|as long as)\b",
    r"(?i)\b(?:due|owing|thanks) to\b",
    r"(?i)\bso (?:as to|we|it|they|the|this|that|there|an?|no|each|every|both|you|users?|nobody|nothing)\b",
    r"(?i)\bto (?:avoid|prevent|reduce|allow|enable|ensure|support|keep|make|match|let|simplify|improve|"
    r"protect|minimi[sz]e|"
    r"preserve|save|eliminate|maintain|guarantee|align|mirror|stop|help|handle|lower|speed|limit|isolate|share)\b",
    r"(?i)\bfor (?:the sake of )?(?:better |more |backwards? |forward |greater )?(?:consistency|clarity|"
    r"simplicity|safety|security|"
    r"performance|speed|compatibility|readability|reliability|maintainability|convenience|privacy|compliance|cost|"
    r"efficiency|isolation|portability|debugging|testability|\w+ reasons)\b",
    # What was weighed against what.
    r"(?i)\b(?:instead of|rather than|in favou?r of|over (?:the|an?)|versus|vs\.?|trade-?offs?|compared (?:to|with)|"
    r"priority over|unlike|outweighs?)\b",
    r"(?i)\b(?:better|safer|simpler|cheaper|faster|cleaner|easier|clearer|too (?:slow|large|complex|"
    r"expensive|risky|many|much))\b",
    r"(?i)\b(?:unnecessary|redundant|overkill|obsolete|deprecated|insecure|unsafe|brittle|irrelevant|wrong|"
    r"essential|necessary|"
    r"sufficient|best practice|defen[cs]e[ -]in[ -]depth|already|cannot|can't|principles?|correct|"
    r"the right (?:place|point|level|tool)|"
    r"yagni|kiss|dry|single source of truth)\b",
    # A word that names the reason itself, or a heading above it.
    r"(?i)\b(?:reasons?|reasoning|rationale|motivat\w+|justif\w+|why|purpose|goals?|benefits?|drawbacks?|advantages?|"
    r"disadvantages?|pros|cons|consequences?|context|problems?)\b",
    # What it does to the world, as the ground for doing it.
    r"(?i)\b(?:avoids?|prevents?|allows?|enables?|ensures?|reduces?|eliminates?|simplif(?:y|ies)|preserves?|"
    r"keeps|lets|makes|"
    r"needs|needed|requires?|causes?|causing|breaks?|fails?|protects?|provides?|aids?|warrants?)\b",
    # The same in other languages.
    r"(?i)\b(?:weil|denn|damit|deshalb|daher|begründung|grund|parce que|car|afin (?:de|que)|pour (?:éviter|"
    r"que)|raison|porque|"
    r"para (?:que|evitar)|debido a|motivo|perché|affinché|per evitare|pois|omdat|zodat)\b",
    r"(?i)因为|由于|为了|以便|原因|理由|因此|ため|ので|から|때문|위해|이유|потому|так как|чтобы|поэтому|причин|لأن|بسبب|כי|בגלל",
)
"""A text that gives a ground for what it says matches one of these."""

STEP_MARKS: tuple[str, ...] = (
    r"(?im)^[ \t>]*(?:[-*+•]|\d{1,2}[.)]|step \d+)[ \t]+\S",
    r"(?m)^[ \t]*(?:```|~~~|::$|\$ |> |# ?\w+ )",
    r"`[^`\n]+`",
    r"(?i)\(\d{1,2}\) \S|\bstep \d|\b(?:first|then|next|after that|afterwards|finally)\b[, ]",
    r"->|→|=>|\s--?[a-z][\w-]+",
)
"""Something that can be followed: a list, a command, an order in time."""

_IMPERATIVES = (
    "add|adjust|allow|analy[sz]e|apply|approve|archive|ask|assign|attach|avoid|back up|bring|build|bump|call|cancel|change|"
    "check|choose|clean|clear|click|clone|close|collect|commit|compare|configure|confirm|connect|consider|convert|copy|"
    "cordon|create|debug|decide|define|delete|deploy|describe|determine|disable|download|drain|drop|edit|enable|ensure|"
    "enter|escalate|examine|execute|export|extract|fetch|fill|find|fix|follow|force|generate|get|give|go|grant|identify|"
    "import|increase|inform|inspect|install|investigate|invoke|isolate|keep|kill|launch|let|list|load|locate|log|look|make|"
    "merge|migrate|modify|monitor|mount|move|note|notify|open|page|pass|pick|post|prepare|press|provide|publish|pull|push|"
    "put|query|raise|read|reboot|rebuild|record|recreate|reduce|refer|refresh|register|release|reload|remove|rename|"
    "repeat|replace|report|request|reset|resolve|restart|restore|retry|return|revert|review|revoke|roll|rotate|run|save|"
    "scale|scan|schedule|search|select|send|set|share|shut|sign|specify|start|stop|submit|switch|sync|tag|take|tell|test|"
    "transfer|trigger|try|turn|type|unmount|update|upgrade|upload|use|validate|verify|wait|watch|write"
)
IMPERATIVE = (
    r"(?im)(?:^[ \t>*_\[]*|[.!:;,][ \t]+\[?|[ \t](?:and|or|then)[ \t]+)(?:(?:and|or|then|please|always|never|do not|don't|"
    rf"you (?:(?:must|should|can|may)(?: also)?|need to|may need to)) )?(?:{_IMPERATIVES})\b"
)
"""A sentence or clause that tells somebody to do something, in English."""

ENGLISH = r"(?i)\b(?:the|and|are|with|that|this|from|has|been|for|by|to|our|at|on)\b"
"""Words without which hardly any English sentence does: a text without them cannot be read by English phrases."""

LABEL_TITLE = (
    r"(?i)^(?:(?:some|a few|several|various|general|more|my|our|important|useful|random|misc(?:ellaneous)?|other|basic|quick|"
    r"short)\s+){0,2}(?:notes?|things?|thoughts?|info(?:rmation)?|details?|facts?|stuff|ideas?|remarks?|observations?|tips?|"
    r"learnings?|overview|summary|everything|something)\b(?:\s+(?:to|on|about|of|regarding|concerning|for|from|that|you|we|i|"
    r"around)\b|\W*$)"
)
"""A title that says that there is something to say, and not what."""

_RUN_FIELDS = (
    r"agent|session|worker|job|task|run|build|pid|process|host|node|branch|worktree|commit|capability|"
    r"failure|failure reason|"
    r"exit code|status|state|result|outcome|detected by|triggered by|started|started at|ended|ended at|"
    r"finished|finished at|"
    r"completed at|duration|elapsed|timestamp|time|attempt|attempts|retries|conflicting files|files changed|"
    r"score|event|level"
)
RECORD_FIELD = rf"(?im)(?:^|[.;,|] )[ \t]*(?:{_RUN_FIELDS})[ \t]*[:=][ \t]*\S"
"""A named value of one run of a machine, as in ``Exit code: 1``."""

_ACTORS = (
    r"agents?|sub-?agents?|sessions?|workers?|jobs?|tasks?|runs?|builds?|builders?|pipelines?|"
    r"process(?:es)?|deploy(?:ment)?s?|"
    r"merge(?: conflict)?s?|missions?|workflows?|containers?|pods?|watchdogs?|coordinators?|"
    r"cron(?:job)?s?|file \S+"
)
EVENT = (
    rf"(?i)^[ \t>*_\[]*(?:the )?(?:\S+ )?(?:{_ACTORS})\b[^.!?\n]{{0,60}}?\b"
    r"(?:died|dead|crashed|exited|terminated|killed|timed out|"
    r"stalled|failed|started|completed|finished|succeeded|resolved|restarted|aborted|cancell?ed|scored|"
    r"(?:required|needed|took|had|made) \d+ (?:edits?|retries|attempts?|tries|iterations?|changes?|s|ms|min|"
    r"minutes|seconds))\b"
)
"""The text opens with what happened to one piece of work."""

INSTANCE = (
    r"(?i)\bpid[ :#=]*\d+|\b(?:exit|return|status) code[ :=]*\d+|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}\b|"
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b|(?:^|[\s(\"'])/(?:home|users|tmp|var|root|private)/\S+|"
    r"\b(?:during|in|of) (?:the |this )?(?:session|run|mission)\b|\b(?:branch|session|run|job|task|mission|"
    r"build)[ :#=]+\S*\d|"
    r"\b(?:attempt|retry|try) #?\d+(?: of |/)\d+|\bscored? [:=]?[ ]?\d|\b\S+-[0-9a-f]{4,}\b"
)
"""A mark of one single occasion: process id, time of day, a file of one machine, the number of a run."""

LOG_LINE = (
    r"(?i)^[ \t]*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?\S*\]?[ \t|:-]+\S|"
    r"\[?(?:debug|info|warn|warning|error|fatal|trace)\]?[ \t]*[:|\]-][ \t]*\S+.*\d\d:\d\d|level=\w+ |ts=\d|"
    r"\{\s*\"(?:event|timestamp|level|ts|run_id|session_id)\"\s*:)"
)
"""The text opens like a line of a log."""

_RECORD_FIELDS = 3


def is_event_record(text: str) -> bool:
    """Whether one text only records an occasion: several named values of a run, a line of a log, or what happened when."""
    if _compiled(GUIDANCE).search(text):
        return False
    if _compiled(LOG_LINE).search(text) or len(_compiled(RECORD_FIELD).findall(text)) >= _RECORD_FIELDS:
        return True
    return bool(_compiled(EVENT).search(text) and _compiled(INSTANCE).search(text))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


GUIDANCE = (
    r"(?i)\b(?:must|should|shall|always|never|don't|do not|avoid|prefer|instead|use|ensure|make sure|"
    r"because|so that|to fix|"
    r"root cause|workaround|solution|lesson|fix(?:ed)? by|next time|when(?:ever)?|if|unless|remember|beware|"
    r"need to)\b"
)
"""Something that holds beyond the occasion: advice, a condition, a reason."""

ASIDE = (
    r"(?i)(?:\n[ \t]*\n|[.!?][ \t\n]+)[ \t>*_-]*(?:unrelated(?:ly)?(?: (?:to (?:this|that|the above)|note|but|too))?|"
    r"also,? unrelated(?:ly)?|separately|on (?:another|a different|a separate|an unrelated|a side) (?:note|"
    r"topic|subject|matter)|"
    r"by the way|btw|p\.?s\.?|(?:completely |totally |something )different (?:topic|subject|matter)|"
    r"another (?:unrelated|separate|different) (?:\w+ )?(?:thing|note|topic|point|issue|learning|lesson|"
    r"finding|gotcha))"
    r"[ \t]*[,:—–]"
)
"""A sentence that leaves the topic and says so."""

COLLECTION_TITLE = (
    r"(?i)^\W*(?:misc(?:ellaneous|\.)?|various|assorted|random|mixed|sundry|a? ?(?:grab[- ]bag|"
    r"collection) of|several|some)\b"
    r".{0,60}\b(?:notes?|things?|tips?|tricks?|learnings?|lessons?|facts?|findings?|insights?|gotchas?|pitfalls?|"
    r"observations?|knowledge|stuff)\b"
)
"""A title that announces a collection."""

NUMBERED_TOPIC = (
    r"(?im)^[ \t#*_>-]*(?:decision|topic|subject|lesson|learning|finding|fact|insight|gotcha|"
    r"observation)s?[ ]*#?\d{1,2}[ \t]*"
    r"(?:[:.)*—–-]|$)"
)
"""A heading such as ``Lesson 2:``; two of them are two topics."""

LABELLED_PARAGRAPH = r"\n[ \t]*\n[ \t]*(?:\*\*|__)?\p{L}[^\n:.!?]{6,70}:(?:\*\*|__)? [^\n]{30,}"
"""A paragraph that opens with a name of its own, as in ``Deployment gap: the files are not copied ...``."""

PART_LABEL = (
    r"\n[ \t]*\n[ \t]*(?:\*\*|__)?(?i:(?:\w+ )?(?:notes?|examples?|resolution|fix|fixed|causes?|root cause|"
    r"why|context|status|date|"
    r"steps?|usage|impact|solution|workaround|symptoms?|problem|results?|evidence|summary|details?|important|warning|"
    r"see also|sources?|references?|caveats?|lesson|pattern|rule|rationale|reason|decision|alternatives?|"
    r"consequences?|"
    r"recommendation|mitigation|prevention|background|goal|approach|applies to|when|how|what|verification|"
    r"files?|update|"
    r"edit|exceptions?|tl;dr|key \w+|short version|long version))\b[^\n:.!?]{0,40}:"
)
"""A paragraph label that names a part of one topic, not a topic."""

DOCUMENT = r"(?m)^[ \t]*(?:#{1,6} |```|~~~|[=-]{4,}[ \t]*$|\||[-*+•][ \t]|\d{1,2}[.)][ \t])"
"""Headings, code, tables or lists: the layout of one document, whose paragraphs belong together."""

REPLACES: tuple[str, ...] = (
    r"(?i)\b(?:this|it|which) (?:now )?(?:replaces|supersedes|obsoletes|overrides|takes the place of)\b",
    r"(?i)\b(?:replaces|supersedes|obsoletes) (?:the |our |an? |all )?(?:old|older|earlier|previous|prior|former|outdated)\b",
    r"(?i)\b(?:replacing|superseding) (?:the |our |all )?(?:old|older|earlier|previous|prior|former)\b",
    r"(?i)\b(?:the |our )?(?:old|earlier|previous|prior|former) (?:rule|way|entry|note|version|policy|procedure|decision|"
    r"convention|guideline|runbook|limit|value|setting)s? (?:is|are|was|were|has been|have been) "
    r"(?:replaced|superseded|obsolete|withdrawn|retired|no longer)\b",
    r"(?i)\b(?:ersetzt|löst) (?:die|den|das) (?:alte|bisherige|frühere)|\bremplace (?:l'|la |le )?ancien|"
    r"\b(?:reemplaza|sustituye) (?:a )?(?:la|el) (?:antigu|anterior)",
)
"""A text that says that it takes the place of what was said before matches one of these."""


def plain_edges(pattern: str) -> str:
    """The pattern with word edges between ASCII letters alone: a hundred times faster on texts that hold other signs."""
    return pattern.replace(r"\b", r"(?-u:\b)")
