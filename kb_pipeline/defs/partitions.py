"""Partitions: corpus (added as corpora are imported) x week (Monday 00:00 UTC, half-open, named by its Monday)."""

import os
from datetime import date

import dagster as dg

from kb_pipeline.adapters.runs import parse_week

FIRST_WEEK_VARIABLE = "KB_FIRST_WEEK"

corpora = dg.DynamicPartitionsDefinition(name="corpus")


def first_week() -> date:
    """Monday of the earliest week that can be curated: ``KB_FIRST_WEEK``, else the first Monday of 2015."""
    return parse_week(os.environ.get(FIRST_WEEK_VARIABLE) or "2015-01-05")


weeks = dg.WeeklyPartitionsDefinition(
    # end_offset 1: the running week may be curated too, as a partial one.
    start_date=first_week().isoformat(),
    day_offset=1,
    timezone="UTC",
    end_offset=1,
)
corpus_weeks = dg.MultiPartitionsDefinition({"corpus": corpora, "week": weeks})


def corpus_and_week(partition_key: str) -> tuple[str, date]:
    """Corpus and week of a partition key, ``acme|2026-11-16`` say.

    Raises:
        WeekError: the second part is no Monday.
    """
    if isinstance(partition_key, dg.MultiPartitionKey):
        keys = partition_key.keys_by_dimension
        return keys["corpus"], parse_week(keys["week"])
    corpus, _, week = partition_key.rpartition("|")
    return corpus, parse_week(week)


def partition_key(corpus: str, week: date) -> dg.MultiPartitionKey:
    """The partition key of a corpus and week."""
    return dg.MultiPartitionKey({"corpus": corpus, "week": week.isoformat()})
