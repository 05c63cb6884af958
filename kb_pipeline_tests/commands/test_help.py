"""``kb`` and its help answer at once: the list of commands stands, and nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kb_pipeline.cli import _COMMANDS
from kb_pipeline_tests.fakes.house import House

HEAVY = (
    "anthropic", "dagster", "detect_secrets", "faiss", "great_expectations", "matplotlib", "numpy", "pandas", "polars",
    "psycopg2", "pydantic", "pyarrow", "scipy", "sentence_transformers", "sqlalchemy", "torch",
)  # fmt: skip
SCRIPT = """
import sys
from kb_pipeline import cli
code = cli.run({words!r})
print("LOADED", *sorted({{name.split(".")[0] for name in sys.modules}} & set({heavy!r})))
sys.exit(code)
"""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["curate", "--help"], ["no-such-command"]])
def test_nothing_heavy_is_imported_before_a_command_runs(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(words=words, heavy=HEAVY)], capture_output=True, text=True, check=False
    )
    assert done.returncode == (2 if words == ["no-such-command"] else 0), done.stderr
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_the_list_of_heavy_modules_is_seen_when_one_is_loaded() -> None:
    script = "import polars\n" + SCRIPT.format(words=["--help"], heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "polars" in done.stdout.splitlines()[-1]


def test_help_lists_every_command_with_a_line(house: House) -> None:
    lines = house.kb("--help").ok().out.splitlines()
    for name in (*_COMMANDS, "init", "import", "curate", "backfill", "export", "pairs", "runs", "rollback", "explain"):
        assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in lines), name


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_tells_its_options(house: House, name: str) -> None:
    told = house.kb(name, "--help").ok().out
    assert f"kb {name}" in told
    assert len(told.splitlines()) > 5
