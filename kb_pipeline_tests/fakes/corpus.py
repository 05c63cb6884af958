"""A corpus in a real database: rows in, weeks curated with decisions given by hand, rows out.

The decisions are given as the frames of stages would hold them; plan, apply, rollback, import and export are real.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.adapters.applying import Applied, apply_plan
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.exporting import export_lines
from kb_pipeline.adapters.importing import ImportResult, import_rows
from kb_pipeline.adapters.row_files import read_chunks
from kb_pipeline.adapters.rows import canonical_json
from kb_pipeline.adapters.runs import Run, open_run
from kb_pipeline.adapters.snapshots import (
    load_answered,
    load_entries,
    load_open_conflicts,
    load_queue,
    load_settled_pairs,
)
from kb_pipeline.stages import gates as gate_rules
from kb_pipeline.stages import retire as retire_rules
from kb_pipeline.stages.conflicts import conflicts_over, record_conflicts
from kb_pipeline.stages.plan import PlanIdentity, build_plan, recommendation_id
from kb_pipeline.stages.queue import still_waiting
from kb_pipeline.stages.review_answers import answered_by_people
from kb_pipeline.vocabulary import Mode, RunStatus
from kb_pipeline_tests.fakes.frames import frame

WEEK = date(2026, 11, 16)
NEXT_WEEK = date(2026, 11, 23)
NOW = datetime(2026, 12, 9, 12, tzinfo=UTC)
"""The clock of the tests: the week of 2026-11-30 is the last complete one."""


@dataclass
class Decisions:
    """What the stages of a week decided, in short: ids, and for merges the loser and the winner."""

    merges: Mapping[str, str] = field(default_factory=dict)
    retire: tuple[str, ...] = ()
    admit: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    strengthen: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[tuple[str, str], ...] = ()
    unsure: tuple[tuple[str, str], ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Corpus:
    """One corpus of a test's database."""

    url: str
    name: str = "team"

    @property
    def database(self) -> Database:
        return Database(self.url)

    def load(self, *rows: Mapping[str, Any], now: datetime = NOW) -> ImportResult:
        """Imports rows, with kind ``fact`` and a title where they have none."""
        plain = [{"kind": "fact", "title": f"Knowledge of {row.get('id')}"} | dict(row) for row in rows]
        return self.load_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in plain), now=now)

    def load_bytes(self, content: bytes, name: str = "rows.jsonl", now: datetime = NOW) -> ImportResult:
        """Imports the content of a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            chunks = read_chunks(path, chunk_rows=50, max_body_chars=8_000_000)
            return import_rows(self.database, self.name, chunks, actor="tester", now=now)

    def export(self, *, full: bool = False, as_of: datetime | None = None) -> bytes:
        """The export, as the bytes of its file."""
        lines = export_lines(self.database, self.name, as_of=as_of, full=full)
        return b"".join(line.encode() + b"\n" for line in lines)

    def rows(self, **options: Any) -> dict[str, dict[str, Any]]:
        """The rows of the export by id."""
        return {row["id"]: row for row in map(json.loads, self.export(**options).splitlines())}

    def query(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of a query."""
        with self.database.transaction() as cursor:
            cursor.execute(statement, values)
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []

    def count(self, table: str) -> int:
        """Number of rows of the corpus in a table."""
        return int(self.query(f"SELECT count(*) AS n FROM {table} WHERE corpus = %s", self.name)[0]["n"])

    def open(
        self,
        week: date = WEEK,
        *,
        run_id: str | None = None,
        policy: str = "policy",
        mode: Mode = Mode.APPLY,
        now: datetime = NOW,
    ) -> Run:
        """Opens a run of a week."""
        number = self.query("SELECT count(*) AS n FROM memory_maintenance_jobs")[0]["n"]
        return open_run(
            self.database,
            run_id=run_id or f"run{number}",
            corpus=self.name,
            week=week,
            profile="weekly",
            mode=mode,
            policy_fingerprint=policy,
            actor="tester",
            now=now,
        )

    def entries(self, run: Run, scope_fields: tuple[str, ...] = ()) -> pl.DataFrame:
        """ENTRIES of a run, with text features that say nothing."""
        return schemas.ENTRIES.select(
            load_entries(self.database, run, scope_fields).with_columns(
                pl.lit(None, pl.String).alias("exact_key"),
                pl.lit(None, pl.String).alias("merge_key"),
                pl.lit(pl.Series([[]], dtype=schemas.Texts)).first().alias("secret_kinds"),
                pl.lit(False).alias("addresses_judge"),
            )
        )

    def plan(self, run: Run, decided: Decisions) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """(ENTRIES, PLAN, CONFLICTS) of a run."""
        found = self.entries(run)
        verdicts = [
            {"entry_id_l": min(pair), "entry_id_r": max(pair), "verdict": verdict, "reason": reason}
            for pairs, verdict, reason in (
                (decided.merges.items(), "MERGE", "judge.exact"),
                (decided.conflicts, "CONFLICT", "judge.contradiction"),
                (decided.unsure, "UNSURE", "judge.residue"),
            )
            for pair in pairs
        ]
        settled = load_settled_pairs(self.database, run)
        table = answered_by_people(frame(schemas.VERDICTS, verdicts), found, settled)
        conflicts = record_conflicts(found, table)
        close: dict[str, Any] = {
            "gate_reasons": ["gates.too_similar"],
            "gate_decision": "strengthen",
            "max_similarity": 0.97,
        }
        gates: list[dict[str, Any]] = [
            *({"entry_id": entry, "gate_decision": "admit"} for entry in decided.admit),
            *(
                {"entry_id": entry, "gate_decision": "refuse", "gate_reasons": ["gates.not_distinctive"]}
                for entry in decided.refuse
            ),
            *(close | {"entry_id": entry, "nearest_id": near} for entry, near in decided.strengthen.items()),
        ]
        is_open = load_open_conflicts(self.database, run)
        stale = {"retire_reasons": ["retire.stale"], "retire_decision": "retire"}
        made = build_plan(
            PlanIdentity(run.corpus, run.week, run.as_of, run.policy_fingerprint, run.epoch),
            found,
            frame(schemas.GATES, gates),
            frame(schemas.RETIREMENT, [stale | {"entry_id": entry} for entry in decided.retire]),
            table,
            frame(
                schemas.MERGES,
                [
                    {"loser_id": loser, "winner_id": winner, "reason": "judge.exact"}
                    for loser, winner in decided.merges.items()
                ],
            ),
            conflicts,
            flags=schemas.FLAGS.empty(),
            replaced=schemas.REPLACED.empty(),
            outdated=schemas.OUTDATED.empty(),
            max_new={"flags": 0},
            queue=still_waiting(load_queue(self.database, run), found),
            answered=load_answered(self.database, run),
            open_conflicts=set(is_open["conflict_id"]),
            conflicts_over=partial(conflicts_over, is_open, found),
            admit_to="active",
            rule_keys={code.value: key for code, key in (gate_rules.RULE_KEYS | retire_rules.RULE_KEYS).items()},
            mode=run.mode,
        )
        return found, made, conflicts

    def apply(self, run: Run, decided: Decisions) -> Applied:
        """Plans and applies what was decided."""
        found, made, conflicts = self.plan(run, decided)
        scores = pl.DataFrame(
            {"entry_id": list(decided.scores), "distinctiveness": list(decided.scores.values())},
            schema={"entry_id": pl.String, "distinctiveness": pl.Float64},
        )
        asked = made.filter(pl.col("action") == "recommend")
        return apply_plan(
            self.database,
            run,
            found,
            made,
            conflicts,
            scores,
            recommendation_ids=[recommendation_id(row) for row in asked.iter_rows(named=True)],
            status=RunStatus.OK,
            model_fingerprint="model",
            judge_fingerprint="rule",
            counts={"entries": found.height},
        )

    def curate(self, week: date = WEEK, *, decided: Decisions | None = None, **options: Any) -> Run:
        """One whole run of a week."""
        run = self.open(week, **options)
        self.apply(run, decided or Decisions())
        return run

    def everything(self) -> dict[str, list[str]]:
        """All rows of the corpus in all tables that are state, for comparisons of the whole."""
        tables = (
            "changes", "entry_versions", "entry_state_history", "usage_events", "evidence", "quality_assessments",
            "event_voids", "entries", "curation_actions", "recommendations", "conflicts", "person_decisions",
            "review_actions", "entry_edits", "entry_approvals", "pair_decisions",
        )  # fmt: skip
        return {
            table: sorted(
                canonical_json({k: str(v) for k, v in row.items()})
                for row in self.query(f"SELECT * FROM {table} WHERE corpus = %s", self.name)
            )
            for table in tables
        }

    def projections_are_true(self) -> bool:
        """Whether ``entries`` is what the histories give when it is built anew."""
        before = self.query("SELECT * FROM entries WHERE corpus = %s ORDER BY entry_id", self.name)
        self.query("SELECT refresh_entries(%s)", self.name)
        return before == self.query("SELECT * FROM entries WHERE corpus = %s ORDER BY entry_id", self.name)
