"""Verdicts as a file: what a judge said of the texts of a corpus, for the replay judge and for whoever wants to read it.

Belongs here: which verdicts are written, and their lines. Equal verdicts give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import require_corpus
from kb_pipeline.adapters.rows import canonical_json
from kb_pipeline.errors import UnknownNameError, UsageError

_OF_CORPUS = (
    "(SELECT v.content_hash FROM entry_versions v WHERE v.corpus = $1 "
    "UNION ALL SELECT d.content_hash FROM entry_edits d WHERE d.corpus = $1)"
)
_LEFT_OUT = frozenset({"decided_at", "judge_fingerprint"})
"""When it was said, and under which settings: not what was said."""


def recorded_judges(database: Database, corpus: str) -> list[str]:
    """Fingerprints of the judges whose verdicts on texts of a corpus are kept: models first, and that of the last run first.

    Raises:
        UnknownNameError: no such corpus.
    """
    require_corpus(database, corpus)
    frame = database.read(
        "WITH judges AS (SELECT judge_fingerprint, bool_and(judge = 'rule') AS is_rule, max(decided_at) AS decided_at "
        f"FROM judge_verdicts WHERE content_hash_l IN {_OF_CORPUS} GROUP BY judge_fingerprint) "
        "SELECT judge_fingerprint FROM judges ORDER BY is_rule, (SELECT max(started_at) FROM memory_maintenance_jobs "
        # The version of the text features stands behind the judge's own fingerprint.
        "WHERE corpus = $1 AND starts_with(judge_fingerprint, (counts->>'judge_fingerprint') || '/')) DESC NULLS LAST, "
        "decided_at DESC, judge_fingerprint",
        (corpus,),
    )
    return frame["judge_fingerprint"].to_list()


def verdict_lines(database: Database, corpus: str, judge_fingerprint: str | None = None) -> Iterator[str]:
    """One canonical JSON line for each verdict, sorted by texts and kinds.

    Args:
        database: where from.
        corpus: the corpus whose texts were judged.
        judge_fingerprint: the judge; the first of ``recorded_judges`` by default.

    Raises:
        UnknownNameError: no such corpus, or no verdict of that judge.
        UsageError: no verdict at all is kept for the corpus.
    """
    judges = recorded_judges(database, corpus)
    if not judges:
        raise UsageError(f"no verdicts are kept for corpus {corpus!r}; curate it first, then they can be written")
    if judge_fingerprint is not None and judge_fingerprint not in judges:
        raise UnknownNameError("judge", judge_fingerprint, judges)
    chosen = judge_fingerprint or judges[0]
    frame = database.read(
        f"SELECT row_to_json(j)::text AS line FROM judge_verdicts j WHERE j.judge_fingerprint = $2 "
        f"AND j.content_hash_l IN {_OF_CORPUS} AND j.content_hash_r IN {_OF_CORPUS} "
        'ORDER BY j.content_hash_l COLLATE "C", j.content_hash_r COLLATE "C", j.kind_l COLLATE "C", j.kind_r COLLATE "C"',
        (corpus, chosen),
    )
    return (
        canonical_json({name: value for name, value in json.loads(line).items() if name not in _LEFT_OUT})
        for line in frame["line"]
    )
