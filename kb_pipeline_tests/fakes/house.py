"""A whole installation for tests: a database, a data directory, and the ``kb`` command on it, run in this process.

Belongs here: the environment that a command line would find, its two streams and its exit code, and what a test reads
back: exports, files of a week, rows of tables. Nothing of ours is replaced: command, Dagster job and database are real.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kb_pipeline import cli
from kb_pipeline.adapters.database import Database
from kb_pipeline.policy.load import overlay

NOW = "2026-11-02T08:00:00+00:00"
"""The clock of these tests, a Monday morning."""

WEEK = "2026-10-26"
"""The last complete week by that clock; its end, the as_of of its runs, is 2026-11-02."""

CREATED = "2026-10-01T09:00:00Z"
"""When rows without a time of their own were written."""

_OWN_VARIABLES = ("KB_", "DAGSTER_", "ANTHROPIC_", "PG")


@dataclass(frozen=True)
class Done:
    """How a command ended: exit code and both streams."""

    code: int
    stdout: bytes
    err: str

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)

    def ok(self) -> Done:
        """This, after the command is known to have ended well."""
        assert self.code == 0, f"exit {self.code}: {self.err}"
        return self


@dataclass(frozen=True)
class House:
    """One installation: ``home`` holds frames and Dagster's files, ``model`` is the encoder of its policy."""

    home: Path
    database_url: str
    dagster_url: str
    model: str

    @property
    def database(self) -> Database:
        return Database(self.database_url)

    @property
    def reports(self) -> Path:
        """Where reports go unless a test says otherwise."""
        return self.home / "reports"

    def environment(self, **variables: str | None) -> dict[str, str]:
        """The environment of a command; a variable given as None is not set."""
        found = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
        own: dict[str, str | None] = {
            "KB_HOME": str(self.home),
            "KB_DATABASE_URL": self.database_url,
            "KB_DAGSTER_DATABASE_URL": self.dagster_url,
            "KB_REPORTS": str(self.reports),
            "KB_NOW": NOW,
            "KB_ACTOR": "tester",
        }
        return found | {name: value for name, value in (own | variables).items() if value is not None}

    def kb(self, *words: str | Path, **variables: str | None) -> Done:
        """Runs ``kb`` with these words in this process, with nothing of the developer's own around it."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
        arguments = [str(word) for word in words]
        debug = "--debug" in arguments
        with (
            _environment(self.environment(**variables)),
            contextlib.chdir(self.home),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.run([word for word in arguments if word != "--debug"], debug=debug)
        out.flush()
        assert isinstance(out.buffer, io.BytesIO)
        return Done(code, out.buffer.getvalue(), err.getvalue())

    def corpus(self, name: str, policy: Mapping[str, Any] | None = None) -> HouseCorpus:
        """A corpus of this house under the shipped policy with the house's encoder and these values over it."""
        return HouseCorpus(self, name, overlay({"encoder": {"model": self.model}}, policy or {}))


@dataclass
class HouseCorpus:
    """One corpus of a house and the policy file that its commands are given."""

    house: House
    name: str
    policy: dict[str, Any]
    variables: dict[str, str | None] = field(default_factory=dict)

    def kb(self, *words: str | Path, **variables: str | None) -> Done:
        """Runs a command about this corpus under its policy."""
        path = self.write_policy(self.house.home / f"{self.name}.policy.yaml")
        named = [*words, "--corpus", self.name]
        return self.house.kb(*named, **({"KB_POLICY": str(path)} | self.variables | variables))

    def write_policy(self, path: Path) -> Path:
        """Writes the policy file."""
        with path.open("w", encoding="utf-8") as file:
            YAML(typ="safe").dump(self.policy, file)
        return path

    def load(self, *rows: Mapping[str, Any], **variables: str | None) -> Done:
        """Imports rows; what they do not say is plain: a fact of CREATED."""
        path = self.house.home / f"{self.name}.rows.jsonl"
        plain = ({"kind": "fact", "created_at": CREATED} | dict(row) for row in rows)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain), "utf-8")
        return self.kb("import", path, **variables)

    def curate(self, *words: str | Path, **variables: str | None) -> Done:
        """Curates a week: the last complete one unless the words say otherwise."""
        return self.kb("curate", *words, **variables)

    def export(self, *words: str) -> bytes:
        """The export, as the bytes of its file."""
        return self.kb("export", *words).ok().stdout

    def rows(self, *words: str) -> dict[str, dict[str, Any]]:
        """Rows of the export by id."""
        return {row["id"]: row for row in map(json.loads, self.export(*words).splitlines())}

    def states(self) -> dict[str, str]:
        """State of every entry."""
        return {entry: row["state"] for entry, row in self.rows().items()}

    def merged(self) -> dict[str, str]:
        """Loser to winner of every merge that counts."""
        return {entry: row["merged_into"] for entry, row in self.rows().items() if row["merged_into"]}

    def pairs(self, *words: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Rows of ``kb pairs`` by their two ids."""
        rows = map(json.loads, self.kb("pairs", *words).ok().stdout.splitlines())
        return {(row["entry_id_l"], row["entry_id_r"]): row for row in rows}

    def runs(self) -> list[dict[str, Any]]:
        """``kb runs --json``, newest first."""
        listed: list[dict[str, Any]] = self.kb("runs", "--json").ok().json
        return listed

    def files(self, week: str = WEEK) -> dict[str, bytes]:
        """The files of a week by name."""
        folder = self.house.reports / self.name / week
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}

    def report(self, name: str, week: str = WEEK) -> dict[str, Any]:
        """One YAML file of a week."""
        document: dict[str, Any] = YAML(typ="safe").load(self.files(week)[name])
        return document

    def queue(self, week: str = WEEK) -> dict[tuple[str, ...], dict[str, Any]]:
        """Rows of the review queue by the ids they are about; of two questions about one pair, the last."""
        return {tuple(row["memories"]): row for row in self.report("memory-review-queue.yaml", week)["queue"]}

    def query(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of a query on the house's database."""
        return query(self.house.database_url, statement, *values)

    def actions(self, *names: str) -> list[dict[str, Any]]:
        """Actions of the corpus that count, of these types or of all."""
        return self.query(
            "SELECT * FROM curation_actions a WHERE corpus = %s AND (%s OR action = ANY (%s)) AND NOT EXISTS "
            "(SELECT 1 FROM event_voids v WHERE v.corpus = a.corpus AND v.action_id = a.action_id) "
            "ORDER BY change_id, action, entry_id",
            self.name,
            not names,
            list(names),
        )


NewCorpus = Callable[..., HouseCorpus]
"""Makes a corpus under a new name, with policy values over the shipped ones."""


def query(url: str, statement: str, *values: Any) -> list[dict[str, Any]]:
    """Rows of a statement on a database."""
    with Database(url).transaction() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
