"""Partitions: corpus x week, and the names that both may have."""

from __future__ import annotations

from datetime import UTC, date, datetime

import dagster as dg
import pytest

from kb_pipeline.defs.partitions import corpora, corpus_and_week, corpus_weeks, first_week, partition_key, weeks
from kb_pipeline.errors import WeekError

WEEK = date(2026, 11, 16)


@pytest.mark.parametrize("corpus", ["acme", "a", "a.b-c_D", "2026-11-16", "x" * 100, "A..B", "team--7"])
def test_a_key_and_its_parts(corpus: str) -> None:
    key = partition_key(corpus, WEEK)
    assert str(key) == f"{corpus}|2026-11-16"
    assert corpus_and_week(key) == (corpus, WEEK)
    assert corpus_and_week(str(key)) == (corpus, WEEK)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("corpus", [corpus])
        assert corpus_weeks.get_partition_key_from_str(str(key)).keys_by_dimension == key.keys_by_dimension
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            assert corpus_weeks.has_partition_key(key)
            assert not corpus_weeks.has_partition_key(partition_key(corpus + "x", WEEK))


@pytest.mark.parametrize("key", ["acme|2026-11-17", "acme|november", "acme", "acme|", ""])
def test_a_key_without_a_week_is_refused(key: str) -> None:
    with pytest.raises(WeekError):
        corpus_and_week(key)


def test_weeks_begin_on_mondays_and_the_running_one_is_the_last() -> None:
    now = datetime(2026, 12, 9, 12, tzinfo=UTC)
    with dg.partition_loading_context(effective_dt=now):
        keys = weeks.get_partition_keys()
    assert keys[0] == "2015-01-05"
    assert keys[-2:] == ["2026-11-30", "2026-12-07"]
    assert {date.fromisoformat(key).weekday() for key in keys} == {0}
    window = weeks.time_window_for_partition_key("2026-11-30")
    assert (window.start.isoformat(), window.end.isoformat()) == (
        "2026-11-30T00:00:00+00:00",
        "2026-12-07T00:00:00+00:00",
    )


def test_the_first_week_can_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(first_week()) == "2015-01-05"
    monkeypatch.setenv("KB_FIRST_WEEK", "2009-06-01")
    assert str(first_week()) == "2009-06-01"
    monkeypatch.setenv("KB_FIRST_WEEK", "2009-06-02")
    with pytest.raises(WeekError, match="2009-06-01"):
        first_week()


def test_corpora_are_added_as_they_come() -> None:
    assert corpora.name == "corpus"
    assert corpora.build_add_request(["acme"]).partition_keys == ["acme"]
