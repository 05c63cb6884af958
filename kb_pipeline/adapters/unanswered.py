"""What a run's judge did not answer: kept with the run, so that a repeated week tells the same.

Belongs here: replies that are no verdicts on two texts - a failure, a pair over the budget. Does not belong here: verdicts,
which hold for two texts in whatever run they meet (caches).
"""

from __future__ import annotations

import polars as pl

from kb_pipeline.adapters.caches import with_specifics
from kb_pipeline.adapters.database import Database, copy_in

_OF_ANSWERS = ("superseded_side", "suggested_body", "body_fault")
"""What only an answer has: null here."""

_COLUMNS = (
    "content_hash_l", "content_hash_r", "kind_l", "kind_r", "verdict", "reason", "judge", "judge_confidence", "explanation",
)  # fmt: skip


def write_unanswered(database: Database, run_id: str, frame: pl.DataFrame) -> None:
    """Keeps the replies of a run that are no verdicts (columns as ``read_unanswered`` gives them), in place of earlier ones."""
    with database.transaction() as cursor:
        cursor.execute("DELETE FROM unanswered_pairs WHERE run_id = %s", (run_id,))
        copy_in(cursor, "unanswered_pairs", frame.drop(_OF_ANSWERS).with_columns(pl.lit(run_id).alias("run_id")))


def read_unanswered(database: Database, run_id: str) -> pl.DataFrame:
    """The replies of a run that are no verdicts, with the columns of ``caches.read_verdicts``."""
    return with_specifics(
        database.read(
            f"SELECT {', '.join(_COLUMNS)}, specifics_only_l::text AS specifics_only_l, "
            f"specifics_only_r::text AS specifics_only_r, {', '.join(f'NULL::text AS {name}' for name in _OF_ANSWERS)} "
            "FROM unanswered_pairs WHERE run_id = $1",
            (run_id,),
        )
    )
