"""What goes wrong from outside: a killed process, two at once, a database that goes away, a folder that is none.

Whatever happens, the old state or the new one stands, one sentence says what to do, and the next run succeeds.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kb_pipeline.adapters.database_url import connect
from kb_pipeline_tests.fakes.house import House, HouseCorpus, NewCorpus, query
from kb_pipeline_tests.fakes.messages_api import Answer, MessagesApi, verdict

Row = dict[str, Any]
GATE_LOCK = 990_001
WAIT_SECONDS = 120


def duplicates() -> list[Row]:
    """A pair that merges, with statistics and evidence, and an entry that is retired."""
    text = {"body": "The bridge watch tests the horn at noon on Mondays."}
    return [
        {"id": "one", "attempts": 30, "successes": 20, "evidence": [{"type": "file", "path": "docs/e1.md"}]} | text,
        {"id": "other", "attempts": 12, "successes": 6, "evidence": [{"type": "file", "path": "docs/e2.md"}]} | text,
        {"id": "poor", "body": "Kick the bilge pump when it stalls.", "attempts": 40, "successes": 1},
    ]


def assert_curated(corpus: HouseCorpus) -> None:
    """The state after one whole run, and no trace of half of one."""
    rows = corpus.rows()
    assert {entry: row["state"] for entry, row in rows.items()} == {
        "one": "active",
        "other": "archived",
        "poor": "archived",
    }
    assert (rows["one"]["attempts"], len(rows["one"]["evidence"]), rows["other"]["merged_into"]) == (42, 2, "one")


def until(condition: Callable[[], bool]) -> None:
    """Waits for something that another process does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@contextmanager
def gate_before_commit(corpus: HouseCorpus) -> Iterator[Callable[[], None]]:
    """Stops every apply of the corpus after its last write and before its commit; gives what opens the gate."""
    url = corpus.house.database_url
    query(
        url,
        f"""
        CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock({GATE_LOCK}); RETURN NEW; END $$;
        CREATE TRIGGER gate AFTER UPDATE ON memory_maintenance_jobs FOR EACH ROW
        WHEN (NEW.applied_change_id IS NOT NULL AND OLD.applied_change_id IS NULL AND NEW.corpus = '{corpus.name}')
        EXECUTE FUNCTION wait_at_gate()
        """,
    )
    with closing(connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SELECT pg_advisory_lock(%s)", (GATE_LOCK,))
        try:
            yield lambda: cursor.execute("SELECT pg_advisory_unlock(%s)", (GATE_LOCK,))
        finally:
            cursor.execute("SELECT pg_advisory_unlock_all()")
            cursor.execute("DROP TRIGGER gate ON memory_maintenance_jobs; DROP FUNCTION wait_at_gate")


def somebody_waits(corpus: HouseCorpus) -> bool:
    return bool(
        corpus.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted", GATE_LOCK)
    )


def locks(corpus: HouseCorpus) -> int:
    found = corpus.query(
        "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND objid <> %s AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())",
        GATE_LOCK,
    )
    return int(found[0]["n"])


def start(corpus: HouseCorpus, *words: str) -> subprocess.Popen[bytes]:
    """``kb curate`` in a process of its own."""
    policy = corpus.write_policy(corpus.house.home / f"{corpus.name}.policy.yaml")
    command = [
        sys.executable,
        "-c",
        "from kb_pipeline.cli import main; main()",
        "curate",
        "--corpus",
        corpus.name,
        *words,
    ]
    return subprocess.Popen(
        command,
        env=corpus.house.environment(**({"KB_POLICY": str(policy)} | corpus.variables)),
        cwd=corpus.house.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_a_process_killed_before_its_commit_leaves_the_old_state(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    corpus.load(*duplicates()).ok()
    before = corpus.export("--full")
    with gate_before_commit(corpus) as open_gate:
        process = start(corpus)
        try:
            until(lambda: somebody_waits(corpus) or process.poll() is not None)
            assert process.poll() is None
            # While it works, nobody else does: a second run and an import are refused, and change nothing.
            for refused in (corpus.curate(), corpus.load({"id": "late", "body": "Somebody was too early."})):
                assert refused.code == 1
                assert "is being worked on" in refused.err and len(refused.err.strip().splitlines()) == 1
            assert corpus.export("--full") == before
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        open_gate()
        until(lambda: locks(corpus) == 0)
    assert corpus.export("--full") == before
    assert set(corpus.states().values()) == {"active"}

    corpus.curate().ok()
    assert_curated(corpus)
    runs = corpus.runs()
    assert [run["status"] for run in runs] == ["ok", "failed"]
    assert "nothing was applied" in runs[1]["message"]


def test_an_import_or_run_is_refused_while_the_corpus_is_held_and_works_after(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    corpus.load(*duplicates()).ok()
    with corpus.house.database.corpus_lock(corpus.name):
        refused = [corpus.curate(), corpus.kb("backfill"), corpus.load({"id": "late", "body": "Too early."})]
    assert [done.code for done in refused] == [1, 1, 1]
    assert set(corpus.states().values()) == {"active"}
    assert corpus.load({"id": "late", "body": "Now it is time."}).code == 0


def test_a_database_that_goes_away_in_mid_run_leaves_the_old_state(other_house: House, postgres_server: str) -> None:
    corpus = other_house.corpus("vanishing")
    paraphrase = ("The cook locks the galley after dinner.", "After dinner the cook locks the galley.")
    pair = [{"id": f"galley-{n}", "body": text, "module": "galley"} for n, text in enumerate(paraphrase)]
    corpus.load(*duplicates(), *pair).ok()
    before = corpus.export("--full")
    database = other_house.database_url.partition("?")[0].rpartition("/")[2]

    def allow(word: str) -> None:
        with closing(connect(postgres_server)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS {word}")
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,))

    def leave(body: dict[str, Any]) -> Answer:
        allow("false")
        return verdict("same_rule")

    # The judge is asked in the middle of a run: while it answers, the database goes.
    with MessagesApi(leave) as api:
        corpus.policy["judge"] = {"base_url": api.url}
        corpus.policy["dedup"] = {"min_borderline_similarity": 0.6}
        try:
            done = corpus.curate(ANTHROPIC_API_KEY="key")
        finally:
            allow("true")
        # One pair, in both orders.
        assert len(api.calls) == 2
        assert done.code == 2
        assert "database" in done.err and "Traceback" not in done.err and len(done.err.strip().splitlines()) == 1
        assert corpus.export("--full") == before
        api.answer = lambda body: verdict("distinct")
        assert corpus.curate(ANTHROPIC_API_KEY="key").code == 0
    assert corpus.states() == {
        "one": "active", "other": "archived", "poor": "archived", "galley-0": "active", "galley-1": "active",
    }  # fmt: skip
    assert [run["status"] for run in corpus.runs()] == ["ok", "failed"]


def test_frames_that_cannot_be_written_are_said_before_anything_is_applied(
    new_corpus: NewCorpus, tmp_path: Path
) -> None:
    corpus = new_corpus()
    corpus.load(*duplicates()).ok()
    before = corpus.export("--full")
    (tmp_path / "frames").write_text("a file stands where the folder should be")
    done = corpus.curate(KB_HOME=str(tmp_path))
    assert done.code == 2
    assert str(tmp_path / "frames") in done.err and len(done.err.strip().splitlines()) == 1
    assert corpus.export("--full") == before
    assert corpus.curate().code == 0
    assert_curated(corpus)


def test_a_full_disk_is_said_before_anything_is_applied(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    corpus.load(*duplicates()).ok()
    before = corpus.export("--full")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        done = corpus.curate()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.code == 2
    assert "cannot be used" in done.err and len(done.err.strip().splitlines()) == 1
    assert corpus.export("--full") == before
    assert corpus.curate().code == 0
    assert_curated(corpus)


def test_reports_that_cannot_be_written_are_said_and_written_by_the_next_run(new_corpus: NewCorpus) -> None:
    corpus = new_corpus()
    corpus.load(*duplicates()).ok()
    in_the_way = corpus.house.home / "not-a-folder"
    in_the_way.write_text("a file stands where the folder should be")
    done = corpus.curate("--out", in_the_way)
    assert done.code == 2
    assert str(in_the_way) in done.err and "--out" in done.err and len(done.err.strip().splitlines()) == 1
    assert_curated(corpus)
    assert corpus.curate().code == 0
    assert_curated(corpus)
    assert len(corpus.files()) == 7
