"""The sample's golden queries: true of the sample, answered by what its weeks leave, and made worse by none of them (X7)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from kb_pipeline.defs.retrieval import View, golden_queries, open_view
from kb_pipeline.policy.load import load_policy
from kb_pipeline.sample import LAST_WEEK, golden_queries_path
from kb_pipeline_tests.acceptance.sample_run import CORPUS, SampleRun

END = datetime.combine(LAST_WEEK + timedelta(days=7), time(), UTC)
WEEKS = 4
"""So many of the last weeks are probed; a view of 26 weeks takes a minute."""


def view(sample: SampleRun, at: datetime) -> View:
    return open_view(sample.house.database, CORPUS, load_policy(), now=END, as_of=at)


def test_every_expected_entry_is_there_and_every_query_finds_an_answer(sample: SampleRun) -> None:
    queries = golden_queries(golden_queries_path())
    assert len(queries) >= 30 and len({golden.query for golden in queries}) == len(queries)
    then = view(sample, END + timedelta(seconds=1))
    told = then.expected(queries)
    assert {row["status"] for row in told.values()} <= {"eligible", "merged"}
    assert sum(row["status"] == "merged" for row in told.values()) >= 10
    found = then.probe(queries)
    assert found.hit_rate == 1.0 and found.mrr is not None and found.mrr >= 0.85


def test_no_week_makes_them_worse_than_policy_allows(sample: SampleRun) -> None:
    queries = golden_queries(golden_queries_path())
    limit = load_policy().search.max_golden_drop
    for week in range(WEEKS):
        as_of = END - timedelta(days=7 * week)
        # What a run does takes effect at its as_of: the next second sees it.
        before, after = (view(sample, at).probe(queries) for at in (as_of, as_of + timedelta(seconds=1)))
        assert after.fall_since(before) <= limit, (as_of, after.worse_since(before))
        assert before.hit_rate is not None and before.hit_rate > 0.8
