"""What commands print: one JSON document where asked, plain words else, and nothing but that in a pipe."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kb_pipeline_tests.commands.conftest import ROWS, Curated
from kb_pipeline_tests.fakes.house import House

RUN_KEYS = {"run_id", "corpus", "week", "profile", "mode", "status", "started_at", "completed_at", "counts"}
PAIR_KEYS = {
    "entry_id_l", "entry_id_r", "similarity", "band", "verdict", "reason", "judge", "specifics_only_l", "specifics_only_r",
    "word_similarity", "superseded_id",
}  # fmt: skip
EXPORT_KEYS = {
    "id", "kind", "title", "body", "state", "state_reason", "state_changed_at", "merged_into", "superseded_by",
    "conflict_state", "content_hash", "attempts", "successes", "retrievals", "confidence", "quality_score",
    "distinctiveness",
}  # fmt: skip


def test_an_import_says_what_it_did(curated: Curated) -> None:
    assert curated.imported.out == "bridge: 6 accepted, 0 updated, 0 unchanged, 0 rejected\n"
    assert curated.imported.err == ""
    again = curated.corpus.load(*ROWS)
    assert (again.code, again.out) == (0, "bridge: 0 accepted, 0 updated, 6 unchanged, 0 rejected\n")


def test_rejected_rows_are_told_and_written_and_the_rest_goes_on(house: House, tmp_path: Path) -> None:
    rows, rejects = tmp_path / "rows.jsonl", tmp_path / "rejects.jsonl"
    lines = [
        '{"id": "good", "kind": "fact", "body": "The quay is dry."}',
        '{"id": "bad", "kind": "opinion", "body": "x"}',
        "{",
    ]
    rows.write_text("\n".join(lines) + "\n")
    done = house.kb("import", rows, "--corpus", "partly", "--rejects", rejects, "--json")
    assert done.code == 3
    assert (done.json["accepted"], done.json["rejected"], done.json["rejects_file"]) == (1, 2, str(rejects))
    told = done.err.strip().splitlines()
    assert len(told) == 2 and "rows.jsonl:2: kind:" in told[0] and "rows.jsonl:3:" in told[1]
    written = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(row["line"], row["field"]) for row in written] == [(2, "kind"), (3, written[1]["field"])]
    assert all(row["reason"] for row in written)
    assert [json.loads(line)["id"] for line in house.kb("export", "--corpus", "partly").ok().out.splitlines()] == [
        "good"
    ]


def test_a_demo_of_a_file_curates_what_is_right_and_ends_as_the_import_did(house: House, tmp_path: Path) -> None:
    corpus = house.corpus("partly-shown")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "good", "kind": "fact", "body": "The quay is dry.", "created_at": "2026-10-28"}\n{\n')
    done = corpus.kb("demo", "--file", rows, "--out", tmp_path / "reports", "--actor", "ida")
    assert done.code == 3 and "rows.jsonl:2:" in done.err
    assert "looked at     1 entry" in done.out
    assert (tmp_path / "reports/partly-shown/2026-10-26/health-report.html").is_file()
    assert [run["actor_id"] for run in corpus.runs()] == ["ida"]


def test_a_run_prints_one_screen(curated: Curated) -> None:
    lines = curated.done.out.splitlines()
    assert lines[0].startswith("bridge, week of 2026-10-26: ok. Done: 2 entries changed state")
    assert len(lines) < 25
    text = curated.done.out
    for words in (
        "looked at     6 entries",
        "retired       1",
        "merged        1",
        "conflicts     1 open, 1 of them new",
    ):
        assert words in text
    assert "offline: ANTHROPIC_API_KEY is not set" in text
    assert f"Reports: {curated.house.reports}/bridge/2026-10-26" in text
    assert f"kb rollback {curated.run_id}" in text
    assert curated.done.err == ""


def test_runs_as_json_have_the_promised_keys_newest_first(curated: Curated) -> None:
    listed = curated.corpus.runs()
    assert all(run.keys() >= RUN_KEYS for run in listed)
    started = [run["started_at"] for run in listed]
    assert started == sorted(started, reverse=True)
    first = listed[-1]
    assert (first["corpus"], first["week"], first["profile"], first["mode"]) == (
        "bridge",
        "2026-10-26",
        "weekly",
        "apply",
    )
    assert (first["status"], first["updated_count"], first["counts"]["entries"]) == ("ok", 2, 6)
    assert {run["run_id"] for run in curated.house.kb("runs", "--json").ok().json} >= {first["run_id"]}
    plain = curated.corpus.kb("runs").ok().out
    # A line for each run, and under one that did not end well what happened.
    assert [line.split()[0] for line in plain.splitlines() if line[0] != " "] == [run["run_id"] for run in listed]
    assert [line.strip() for line in plain.splitlines() if line[0] == " "] == [
        run["message"] for run in listed if run["message"]
    ]


def test_pairs_have_exactly_the_promised_keys(curated: Curated) -> None:
    rows = curated.corpus.pairs()
    assert {frozenset(row) for row in rows.values()} == {frozenset(PAIR_KEYS)}
    assert list(rows) == sorted(rows) and all(left < right for left, right in rows)
    assert (rows["log-a", "log-b"]["band"], rows["log-a", "log-b"]["verdict"]) == ("exact", "MERGE")
    assert rows["horn-a", "horn-b"]["verdict"] == "CONFLICT"
    assert rows == curated.corpus.pairs("--week", "2026-10-26")


def test_an_export_row_always_has_the_promised_keys(curated: Curated) -> None:
    lines = curated.corpus.export().decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in ROWS)
    assert all(row.keys() >= EXPORT_KEYS and list(row) == sorted(row) for row in rows)
    path = curated.house.home / "export.jsonl"
    assert curated.corpus.kb("export", "--out", path).ok().out == ""
    assert path.read_bytes() == curated.corpus.export()


def test_an_export_of_a_past_moment_shows_what_was_known_then(curated: Curated) -> None:
    before = [json.loads(line) for line in curated.corpus.export("--as-of", "2026-11-01T00:00:00Z").splitlines()]
    assert {row["state"] for row in before} == {"active"}
    assert curated.corpus.export("--as-of", "2026-09-01T00:00:00Z") == b""


def test_an_entrys_story_is_told_in_plain_words(curated: Curated) -> None:
    loser = curated.corpus.kb("explain", "log-b").ok().out
    for words in (
        "archived",
        "merged into log-a",
        "judge.exact",
        curated.run_id,
        "is left out",
        "2 of 2 uses succeeded",
    ):
        assert words in loser, words
    winner = curated.corpus.kb("explain", "log-a").ok().out
    assert "took in log-b" in winner and "may be retrieved" in winner and "5 of 6 uses succeeded" in winner
    retired = curated.corpus.kb("explain", "poor-a").ok().out
    assert "active -> archived: retire.low_ci_upper (rule retire.max_ci_upper)" in retired
    torn = curated.corpus.kb("explain", "horn-a").ok().out
    assert "conflict opened" in torn and "with horn-b" in torn and "it stands in an open conflict" in torn
    story = curated.corpus.kb("explain", "log-b", "--json").ok().json
    assert story["entry"]["merged_into"] == "log-a" and story["retrieval"]["eligible"] is False
    assert [move["to_state"] for move in story["transitions"]] == ["active", "archived"]


def test_an_error_leaves_stdout_empty_even_for_json(curated: Curated) -> None:
    for words in (("curate", "--week", "2026-10-28"), ("explain", "nothing"), ("import", "nowhere.jsonl")):
        done = curated.corpus.kb(*words, "--json")
        assert (done.code, done.stdout) == (2, b"")


def test_in_a_pipe_there_is_one_document_and_nothing_else(curated: Curated) -> None:
    policy = curated.corpus.write_policy(curated.house.home / "piped.yaml")
    done = subprocess.run(
        [sys.executable, "-c", "from kb_pipeline.cli import main; main()", "curate", "--corpus", "bridge", "--json"],
        env=curated.house.environment(KB_POLICY=str(policy)),
        cwd=curated.house.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["corpus"], document["week"], document["status"]) == ("bridge", "2026-10-26", "ok")


@pytest.mark.parametrize(("reader", "lines"), [("head -n 1", 1), ("true", 0)])
def test_a_reader_who_leaves_early_is_no_error(curated: Curated, reader: str, lines: int) -> None:
    python = shlex.quote(sys.executable)
    command = f"{python} -c 'from kb_pipeline.cli import main; main()' export --corpus bridge | {reader}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env=curated.house.environment(),
        cwd=curated.house.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", lines)
