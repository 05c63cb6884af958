"""Wrong usage, configuration and input: the exit code, and one sentence that names what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_pipeline_tests.commands.conftest import Curated
from kb_pipeline_tests.fakes.house import Done, House


def refused(done: Done, *fragments: str, code: int = 2) -> None:
    """One sentence on stderr that holds these words, nothing on stdout."""
    assert done.code == code, done
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert "Traceback" not in done.err
    for fragment in fragments:
        assert fragment in done.err, done.err


@pytest.mark.parametrize("words", ["curate", "backfill --from 2026-10-26", "export", "pairs", "runs", "explain log-a"])
def test_an_unknown_corpus_is_named_and_the_nearest_offered(curated: Curated, words: str) -> None:
    refused(curated.house.kb(*words.split(), "--corpus", "bridgo"), "unknown corpus 'bridgo'", "'bridge'")
    assert "corpus" not in curated.corpus.kb(*words.split()).err


@pytest.mark.parametrize(
    ("week", "fragments"),
    [
        ("2026-10-28", ("Wednesday", "2026-10-26")),
        ("next", ("'next' is not a date", "Monday")),
        ("2026-02-30", ("is not a date",)),
        ("2026-11-09", ("lies in the future", "2026-11-02")),
        ("1999-01-04", ("lies before", "KB_FIRST_WEEK")),
        ("2026-10-19", ("lies before 2026-10-26", "Weeks go forward")),
    ],
)
def test_weeks_that_cannot_be_curated(curated: Curated, week: str, fragments: tuple[str, ...]) -> None:
    refused(curated.corpus.curate("--week", week), *fragments)


def test_weeks_that_were_never_reported_and_ranges_the_wrong_way_round(curated: Curated) -> None:
    refused(curated.corpus.kb("pairs", "--week", "2026-10-12"), "was never curated", "2026-10-26")
    refused(curated.corpus.kb("backfill", "--from", "2026-10-26", "--to", "2026-10-19"), "lies after")


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        ("gates:\n  min_name_char: 30\n", ("'gates.min_name_char'", "'min_name_chars'")),
        ("gate:\n  min_name_chars: 30\n", ("'gate'", "'gates'")),
        ("gates:\n  min_distinctiveness: 3\n", ("gates.min_distinctiveness", "3")),
        ("gates: [1\n", ("is not valid YAML",)),
        ("- gates\n", ("must be a mapping",)),
        ("corpora:\n  other:\n    retir: {}\n", ("corpora.other", "'retire'")),
        ("merge:\n  winner_order: [older]\n", ("smaller_id",)),
        (None, ("cannot be read",)),
    ],
)
def test_a_policy_file_that_is_wrong_names_file_key_and_nearest(
    curated: Curated, tmp_path: Path, content: str | None, fragments: tuple[str, ...]
) -> None:
    path = tmp_path / "my-policy.yaml"
    if content is not None:
        path.write_text(content)
    refused(curated.corpus.curate("--policy", path), str(path), *fragments)
    refused(curated.corpus.curate(KB_POLICY=str(path)), str(path), *fragments)
    refused(curated.house.kb("policy", "check", "--file", path), str(path), *fragments)


def test_a_right_policy_file_passes(house: House, tmp_path: Path) -> None:
    path = tmp_path / "my-policy.yaml"
    path.write_text("gates:\n  min_name_chars: 30\n")
    checked = house.kb("policy", "check", "--file", path).ok().out
    shown = house.kb("policy", "show", "--file", path).ok().out
    assert "min_name_chars: 30" in shown
    fingerprint = shown.splitlines()[0].split()[-1]
    assert len(fingerprint) == 16 and fingerprint in checked
    assert fingerprint not in house.kb("policy", "show").ok().out


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://keeper:hunter2secret@127.0.0.1:1/kb",
        "postgresql://keeper:hunter2secret@/",
        "mysql://keeper:hunter2secret@127.0.0.1/kb",
        "postgresql://keeper:hunter2secret@x@127.0.0.1/kb",
        "hunter2secret",
    ],
)
def test_a_wrong_database_url_is_told_without_its_password(house: House, url: str) -> None:
    done = house.kb("runs", KB_DATABASE_URL=url)
    refused(done)
    assert "hunter2" not in done.err
    assert "KB_DATABASE_URL" in done.err or "127.0.0.1" in done.err


def test_a_wrong_password_is_told_without_it(house: House) -> None:
    wrong = house.database_url.replace(house.database_url.split(":")[2].split("@")[0], "hunter2secret")
    done = house.kb("runs", KB_DATABASE_URL=wrong)
    refused(done, "password")
    assert "hunter2" not in done.err


def test_an_encoder_that_is_not_there(curated: Curated, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"encoder:\n  model: {tmp_path}/no-model-here\n")
    before = curated.corpus.export()
    refused(curated.corpus.curate("--week", "2026-11-02", "--policy", path), "no-model-here", "encoder")
    assert curated.corpus.export() == before


def test_a_judge_without_its_key(curated: Curated, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"encoder:\n  model: {curated.house.model}\njudge:\n  name: anthropic\n")
    refused(curated.corpus.curate("--week", "2026-11-02", "--policy", path), "ANTHROPIC_API_KEY", "is not set")


def test_unknown_names_are_answered_with_the_nearest(curated: Curated) -> None:
    refused(curated.corpus.curate("--profile", "wekly"), "'wekly'", "'weekly'")
    refused(curated.house.kb("curat"), "'curat'", "'curate'")
    refused(curated.house.kb("rollback", curated.run_id[:-1] + "x"), "unknown run", curated.run_id)
    refused(curated.corpus.kb("explain", "log-c"), "'log-c'", "Did you mean 'log-")
    refused(curated.house.kb("rollback", curated.run_id, "--entry", "plain-a"), "plain-a", "changed nothing")


def test_wrong_words_on_the_line(curated: Curated) -> None:
    for words in (["curate"], ["curate", "--corpus", "bridge", "--mode", "sometimes"], ["export", "--no-such-option"]):
        done = curated.house.kb(*words)
        assert (done.code, done.out) == (2, "") and "Error:" in done.err
    refused(curated.corpus.kb("export", "--as-of", "yesterday"), "--as-of", "yesterday")


def test_files_that_cannot_be_imported(house: House, tmp_path: Path) -> None:
    text = tmp_path / "rows.txt"
    text.write_text("{}")
    refused(house.kb("import", tmp_path / "missing.jsonl", "--corpus", "files"), "missing.jsonl")
    refused(house.kb("import", tmp_path, "--corpus", "files"), str(tmp_path))
    refused(house.kb("import", text, "--corpus", "files"), "rows.txt")
    refused(house.kb("import", text, "--corpus", "../up"), "'../up'")
    damaged = tmp_path / "rows.parquet"
    damaged.write_bytes(b"PAR1 but not really")
    refused(house.kb("import", damaged, "--corpus", "files"), "rows.parquet")
    good = tmp_path / "rows.jsonl"
    good.write_text('{"id": "a", "kind": "fact", "body": "The pier is dry."}\n')
    assert house.kb("import", good, "--corpus", "files").code == 0


def test_places_that_cannot_be_written(curated: Curated, tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "export.jsonl"
    refused(curated.corpus.kb("export", "--out", nowhere), str(nowhere))
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    refused(curated.corpus.curate(KB_HOME=str(in_the_way / "home")), str(in_the_way))


def test_a_clock_that_says_nothing(curated: Curated) -> None:
    refused(curated.corpus.curate(KB_NOW="tomorrow"), "KB_NOW", "tomorrow")
    future = ("--week", "2026-11-09")
    refused(curated.corpus.curate(*future, KB_NOW="2026-11-08T23:59:59"), "lies in the future")
    assert "future" not in curated.corpus.curate(*future, "--profile", "none", KB_NOW="2026-11-09T00:00:00").err


def test_a_traceback_is_shown_on_demand_alone(curated: Curated) -> None:
    shown = curated.house.kb("export", "--corpus", "bridgo", "--debug")
    assert shown.code == 2
    assert "Traceback" in shown.err and "unknown corpus 'bridgo'" in shown.err
    assert "Traceback" not in curated.house.kb("export", "--corpus", "bridgo").err
