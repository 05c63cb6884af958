# ruff: noqa: E501 - rows of a table read best as rows
"""A small but complete week for report tests: every band, verdict, decision, state of affairs and withheld text once.

The frames are written by hand, so that a change of another stage changes no golden file.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from kb_pipeline import schemas
from kb_pipeline.stages.report import CheckLine, ReportHeader, WeekFrames
from kb_pipeline_tests.stages.week_flags import PLAIN_FIELDS, week_flags

WEEK = date(2026, 11, 16)
AS_OF = datetime(2026, 11, 23, tzinfo=UTC)
SECRET_WORD = "ghp_N0tARealTokenButItLooksLikeOne1234"
RESTRICTED_WORD = "salary bands"

HEADER = ReportHeader(
    corpus="harbor",
    week=WEEK,
    as_of=AS_OF,
    partial=False,
    run_id="run-2026-11-23-a",
    generated_at=datetime(2026, 11, 23, 6, 0, 12, tzinfo=UTC),
    actor="tess",
    profile="weekly",
    mode="apply",
    status="ok",
    policy_fingerprint="3f1c0a77b2d94e10",
    model_fingerprint="minilm:2f1a",
    judge="rule (offline)",
)

THRESHOLDS = {
    "min_name_chars": 25,
    "min_distinctiveness": 0.30,
    "min_intake_similarity": 0.85,
    "min_attempts": 20,
    "max_ci_upper": 0.40,
    "max_unmatched_days": 90,
    "min_merge_similarity": 0.92,
    "min_borderline_similarity": 0.85,
}

BERTH, DOCK = "harborline/berth-api", "harborline/drydock"

_LONG = " ".join(
    f"Step {number}: check that shard {number} has caught up before the next one is moved." for number in range(60)
)

ENTRIES: list[dict[str, Any]] = [
    {"entry_id": "e01", "kind": "rule", "repository": BERTH, "title": "Retry a failed webhook with growing pauses", "text": "Retry a failed webhook with growing pauses\nStart at 10 seconds and double the pause up to five times.", "confidence": 0.9, "attempts": 30, "successes": 26, "retrievals": 41, "evidence_count": 1, "pinned": True},
    {"entry_id": "e02", "kind": "rule", "repository": BERTH, "title": "Retry a failed webhook with growing pauses", "text": "Retry a failed webhook with growing pauses.\n- Start at 10s and double the pause up to 5 times", "confidence": 0.7, "attempts": 12, "successes": 9, "retrievals": 8, "evidence_count": 2},
    {"entry_id": "e03", "kind": "fact", "repository": BERTH, "title": "Backups of the booking database run on Sundays", "text": "Backups of the booking database run on Sundays.", "confidence": 0.8, "attempts": 3, "successes": 3, "retrievals": 5},
    {"entry_id": "e04", "kind": "fact", "repository": BERTH, "title": "Backups of the booking database do not run on Sundays", "text": "Backups of the booking database do not run on Sundays.", "confidence": 0.6, "retrievals": 1, "module": "bookings"},
    {"entry_id": "e05", "kind": "convention", "repository": DOCK, "title": "A terraform plan is applied after 2 approvals", "text": "A terraform plan is applied after 2 approvals.", "confidence": 0.55},
    {"entry_id": "e06", "kind": "convention", "repository": DOCK, "title": "A terraform plan is applied after 3 approvals", "text": "A terraform plan is applied after 3 approvals.", "confidence": 0.55, "evidence_count": 1},
    {"entry_id": "e07", "kind": "runbook", "repository": DOCK, "title": "Move the shards one at a time when rebalancing", "text": "Move the shards one at a time when rebalancing\n" + _LONG, "confidence": 0.75, "attempts": 5, "successes": 4},
    {"entry_id": "e08", "kind": "runbook", "repository": DOCK, "title": "Moving shards while rebalancing, step by step", "text": "Moving shards while rebalancing, step by step\n" + _LONG.replace("shard 41 has", "shard 41 and its replica have"), "confidence": 0.7},
    {"entry_id": "e09", "kind": "lesson", "repository": BERTH, "title": "Clear the CDN cache by hand after each release", "text": "Clear the CDN cache by hand after each release, or old prices stay visible.", "confidence": 0.4, "attempts": 24, "successes": 3, "retrievals": 24},
    {"entry_id": "e10", "kind": "lesson", "repository": BERTH, "title": "The staging cluster sleeps between 20:00 and 06:00", "text": "The staging cluster sleeps between 20:00 and 06:00.", "confidence": None},
    {"entry_id": "e11", "kind": "architecture_decision", "repository": None, "title": "Money is stored as integer minor units", "text": "Money is stored as integer minor units with its currency.", "confidence": 0.95, "evidence_count": 1, "review_state": "approved"},
    {"entry_id": "e12", "kind": "fact", "repository": DOCK, "title": "Deploy token of the old registry", "text": f"The old registry takes the token {SECRET_WORD}.", "confidence": 0.5, "secret_kinds": ["github token"]},
    {"entry_id": "e13", "kind": "fact", "repository": DOCK, "title": "Deploy token for the former registry", "text": f"The former registry takes the token {SECRET_WORD}.", "confidence": 0.5, "secret_kinds": ["github token"]},
    {"entry_id": "e14", "kind": "fact", "repository": None, "title": f"Who may see the {RESTRICTED_WORD}", "text": f"The {RESTRICTED_WORD} are open to team leads.", "sensitivity": "restricted"},
    {"entry_id": "e15", "kind": "fact", "repository": None, "title": f"The {RESTRICTED_WORD} and who sees them", "text": f"Team leads may open the {RESTRICTED_WORD}.", "sensitivity": "restricted"},
    {"entry_id": "e16", "kind": "fact", "repository": DOCK, "title": "部署前必须在预发布环境运行完整的回归测试", "text": "部署前必须在预发布环境运行完整的回归测试。失败时不得继续。", "confidence": 0.85, "evidence_count": 1},
    {"entry_id": "e17", "kind": "fact", "repository": DOCK, "title": "部署前应在预发布环境运行完整的回归测试集", "text": "部署前应在预发布环境运行完整的回归测试集。失败时停止。", "confidence": 0.8},
    {"entry_id": "e18", "kind": "rule", "repository": BERTH, "title": "Fix <script>alert('x')</script> in the price banner & footer", "text": "Fix <script>alert('x')</script> in the price banner & footer before June.", "confidence": 0.65, "addresses_judge": True},
    {"entry_id": "c01", "kind": "rule", "repository": BERTH, "title": "Größere Buchungen brauchen eine zweite Freigabe", "text": "Größere Buchungen brauchen eine zweite Freigabe durch die Schichtleitung.", "state": "candidate"},
    {"entry_id": "c02", "kind": "fact", "repository": BERTH, "title": "Notes 7", "text": "Notes 7\nsee above", "state": "candidate"},
    {"entry_id": "c03", "kind": "fact", "repository": BERTH, "title": "Backups of the booking database run on Sunday nights", "text": "Backups of the booking database run on Sundays", "state": "candidate", "evidence_count": 1},
    {"entry_id": "c04", "kind": "convention", "repository": DOCK, "title": "A terraform plan is applied after 4 approvals", "text": "A terraform plan is applied after 4 approvals.", "state": "candidate"},
    {"entry_id": "a01", "kind": "task", "repository": BERTH, "title": "Rotate the signing keys in August", "text": "Rotate the signing keys in August.", "state": "archived", "state_reason": "retire.stale"},
    {"entry_id": "n01", "kind": "convention", "repository": DOCK, "title": "מפתחות נשמרים בכספת בלבד ולא בקוד", "text": "מפתחות נשמרים בכספת בלבד ולא בקוד.", "state": "needs_review"},
]  # fmt: skip


def entries(rows: list[dict[str, Any]] | None = None) -> pl.DataFrame:
    """ENTRIES from rows that say only what matters."""
    filled = []
    for row in ENTRIES if rows is None else rows:
        text = row.get("text", row["title"])
        filled.append(
            {
                "tenant": "harbor",
                "module": None,
                "scope": f"harbor/{row.get('repository') or ''}",
                "text": text,
                "content_hash": hashlib.sha256(text.encode()).hexdigest(),
                "confidence": 0.5,
                "pinned": False,
                "keep_distinct": False,
                "review_state": "unreviewed",
                "sensitivity": "internal",
                "created_at": AS_OF - timedelta(days=200),
                "updated_at": None,
                "last_validated_at": None,
                "first_effective_at": AS_OF - timedelta(days=200),
                "state": "active",
                "state_reason": None,
                "state_changed_at": AS_OF - timedelta(days=100),
                "merged_into": None,
                "conflict_state": "none",
                "last_matched_at": AS_OF - timedelta(days=9, hours=5),
                "kept_rules": [],
                "exact_key": None,
                "merge_key": None,
                "secret_kinds": [],
                "addresses_judge": False,
            }
            | PLAIN_FIELDS
            | row
        )
    return schemas.ENTRIES.build(filled).sort("entry_id")


def pair(
    left: str, right: str, similarity: float | None, band: str, verdict: str, reason: str, **more: Any
) -> dict[str, Any]:
    """A row of VERDICTS by the offline judge."""
    return {
        "entry_id_l": left,
        "entry_id_r": right,
        "similarity": similarity,
        "band": band,
        "verdict": verdict,
        "reason": reason,
        "judge": "rule",
        "judge_confidence": None,
        "explanation": None,
        "failed": False,
        "from_cache": False,
        "specifics_only_l": [],
        "specifics_only_r": [],
        "word_similarity": None,
    } | more


PAIRS = [
    pair("e01", "e02", 0.9731, "exact", "MERGE", "judge.canonical"),
    pair("e03", "e04", 0.9512, "merge", "CONFLICT", "judge.contradiction", specifics_only_r=["not"], explanation="'runs' against 'does not run'"),
    pair("e05", "e06", 0.9874, "merge", "CONFLICT", "judge.value_mismatch", specifics_only_l=["2"], specifics_only_r=["3"]),
    pair("e07", "e08", 0.9333, "merge", "UNSURE", "judge.residue"),
    pair("e12", "e13", 0.9655, "merge", "UNSURE", "judge.secret", specifics_only_l=[SECRET_WORD], explanation=f"{SECRET_WORD} stands on one side"),
    pair("e14", "e15", 0.9101, "borderline", "UNSURE", "judge.not_allowed", specifics_only_l=[RESTRICTED_WORD]),
    pair("e16", "e17", 0.8899, "borderline", "KEEP_BOTH", "judge.specifics_differ", judge_confidence=0.81, judge="claude-haiku-4-5", explanation="One forbids to go on, the other only stops."),
    pair("e09", "e18", None, "lexical", "KEEP_BOTH", "judge.timeout", failed=True, word_similarity=0.5217),
]  # fmt: skip


def action(name: str, entry_id: str, other: str | None = None, **more: Any) -> dict[str, Any]:
    """A row of PLAN."""
    return {
        "action_id": hashlib.sha256(f"{name}{entry_id}{other}{more.get('recommendation_type')}".encode()).hexdigest()[
            :32
        ],
        "action": name,
        "entry_id": entry_id,
        "other_entry_id": other,
        "reason": "gates.passed",
        "rule": "gates.admit_to",
        "from_state": None,
        "to_state": None,
        "content_hash": "h",
        "other_content_hash": None,
        "similarity": None,
        "verdict": None,
        "judge": None,
        "recommendation_type": None,
        "severity": None,
        "explanation": None,
        "value": None,
    } | more


def _archived(
    name: str, entry_id: str, other: str | None, reason: str, rule: str, was: str = "active"
) -> dict[str, Any]:
    return action(name, entry_id, other, reason=reason, rule=rule, from_state=was, to_state="archived")


def _asked(entry_id: str, other: str | None, kind: str, severity: str, reason: str, value: float) -> dict[str, Any]:
    return action(
        "recommend",
        entry_id,
        other,
        recommendation_type=kind,
        severity=severity,
        reason=reason,
        rule="judge.name",
        value=value,
    )


PLAN = [
    action("admit", "c01", from_state="candidate", to_state="active"),
    _archived("refuse", "c02", None, "gates.name_too_short", "gates.min_name_chars", "candidate"),
    _archived("refuse", "c03", "e03", "gates.too_similar", "dedup.thresholds_by_model", "candidate"),
    action("strengthen", "e03", "c03", reason="gates.too_similar", rule="dedup.thresholds_by_model", similarity=0.97),
    _archived("retire", "e09", None, "retire.low_ci_upper", "retire.max_ci_upper"),
    _archived("retire", "e10", None, "retire.stale", "retire.max_unmatched_days"),
    _archived("merge", "e02", "e01", "judge.canonical", "judge.name") | {"similarity": 0.9731, "verdict": "MERGE"},
    action("open_conflict", "e03", "e04", reason="conflicts.contradiction", rule="judge.name", severity="high"),
    _asked("e03", "e04", "CONFLICT", "high", "conflicts.contradiction", 0.9512),
    _asked("e07", "e08", "MERGE", "medium", "judge.residue", 0.9333),
    _asked("e12", "e13", "MERGE", "low", "judge.secret", 0.8655),
    _asked("e14", "e15", "MERGE", "low", "judge.not_allowed", 0.8101),
    _asked("c04", "e06", "MERGE", "medium", "gates.too_similar_differs", 0.9612),
    _asked("e11", None, "REFRESH", "low", "retire.stale", 0.0),
]

CONFLICTS = [
    {"conflict_id": "conf_a", "conflict_type": "contradiction", "severity": "high", "entry_id_l": "e03", "entry_id_r": "e04", "content_hash_l": "h", "content_hash_r": "h", "similarity": 0.9512, "reason": "conflicts.contradiction", "judge": "rule", "explanation": "'runs' against 'does not run'"},
    {"conflict_id": "conf_b", "conflict_type": "value_mismatch", "severity": "medium", "entry_id_l": "e05", "entry_id_r": "e06", "content_hash_l": "h", "content_hash_r": "h", "similarity": None, "reason": "conflicts.value_mismatch", "judge": "", "explanation": "2 against 3"},
]  # fmt: skip


def question(
    number: int,
    kind: str,
    severity: str,
    ids: list[str],
    reason: str,
    days: int,
    value: float,
    words: str | None = None,
    suggested: str | None = None,
) -> dict[str, Any]:
    """A row of QUEUE."""
    return {
        "recommendation_id": f"rec_{number:02d}",
        "recommendation_type": kind,
        "severity": severity,
        "entry_ids": ids,
        "content_hashes": ["h"] * len(ids),
        "reason": reason,
        "explanation": words,
        "suggested_body": suggested,
        "value": value,
        "since": AS_OF - timedelta(days=days),
    }


QUEUE = [
    question(1, "CONFLICT", "medium", ["e05", "e06"], "conflicts.value_mismatch", 14, 0.9874, "2 against 3"),
    question(
        2, "CONFLICT", "high", ["e03", "e04"], "conflicts.contradiction", 0, 0.9512, "'runs' against 'does not run'"
    ),
    question(3, "MERGE", "medium", ["c04", "e06"], "gates.too_similar_differs", 0, 0.9612),
    question(
        4,
        "MERGE",
        "medium",
        ["e07", "e08"],
        "judge.residue",
        0,
        0.9333,
        suggested="One text: for both,\n# in two lines.",
    ),
    question(
        5, "MERGE", "low", ["e12", "e13"], "judge.secret", 0, 0.8655, f"{SECRET_WORD} stands on one side", SECRET_WORD
    ),
    question(6, "MERGE", "low", ["e14", "e15"], "judge.not_allowed", 0, 0.8101),
    question(7, "REFRESH", "low", ["e11"], "retire.stale", 0, 0.0, "retire.stale; protected: approved, protected_kind"),
]

MERGES = [
    {"loser_id": "e02", "winner_id": "e01", "similarity": 0.9731, "verdict": "MERGE", "judge": "rule", "reason": "judge.canonical", "merge_decision": "merge", "explanation": None},
    {"loser_id": "e17", "winner_id": "e16", "similarity": 0.8899, "verdict": "MERGE", "judge": "rule", "reason": "merge.kept_by_person", "merge_decision": "review", "explanation": None},
]  # fmt: skip

GATES_DECIDED = {
    "c01": ([], "admit", 0.52, "e11"),
    "c02": (["gates.name_too_short", "gates.generic_name"], "refuse", None, None),
    "c03": (["gates.too_similar"], "strengthen", 0.97, "e03"),
    "c04": (["gates.too_similar_differs"], "review", 0.9612, "e06"),
    "e12": (["gates.not_distinctive"], None, None, None),
}

TREND = [
    {"week": WEEK - timedelta(weeks=3), "entry_count": 19, "active": 17, "candidates": 1, "needs_review": 0, "archived": 1, "conflicted": 0, "queue_length": 1, "retired": 0, "merged": 2, "mean_distinctiveness": 0.58},
    {"week": WEEK - timedelta(weeks=2), "entry_count": 21, "active": 18, "candidates": 2, "needs_review": 1, "archived": 1, "conflicted": 2, "queue_length": 3, "retired": 1, "merged": 0, "mean_distinctiveness": 0.61},
    {"week": WEEK - timedelta(weeks=1), "entry_count": 23, "active": 19, "candidates": 3, "needs_review": 1, "archived": 1, "conflicted": 2, "queue_length": 4, "retired": 0, "merged": 1, "mean_distinctiveness": 0.60},
]  # fmt: skip

TREND_SCHEMA = {"week": pl.Date, **dict.fromkeys(list(TREND[0])[1:-1], pl.Int64), "mean_distinctiveness": pl.Float64}

CHECKS = (
    CheckLine("no_entry_lost", True, True, "all 24 entries are there"),
    CheckLine("blast_radius", True, True, "the change is small enough in every repository"),
    CheckLine("coverage", False, False, "not looked at: 2 entries newer than the week"),
)


def week_frames(**changes: Any) -> WeekFrames:
    """The example week; any field can be replaced. Frames that go row by row with the entries follow them."""
    held: pl.DataFrame = changes.pop("entries", entries())
    ids = held["entry_id"].to_list()
    live = set(held.filter(~pl.col("state").is_in(["archived"]))["entry_id"])
    retire = {"e09": ["retire.low_ci_upper"], "e10": ["retire.stale"], "e11": ["retire.stale"]}
    shields = {"e01": ["pinned"], "e11": ["approved", "protected_kind"]}
    fields: dict[str, Any] = {
        "header": HEADER,
        "entries": held,
        "distinctiveness": schemas.DISTINCTIVENESS.build(
            [
                {
                    "entry_id": entry,
                    "token_count": 6 + at % 9,
                    "distinctiveness": round(0.2 + (at * 37 % 80) / 100, 3) if entry in live else None,
                    "distinctiveness_reason": None,
                }
                for at, entry in enumerate(ids)
            ]
        ),
        "gates": schemas.GATES.build(
            [
                {
                    "entry_id": entry,
                    "name_chars": len(title),
                    "max_similarity": GATES_DECIDED.get(entry, ([], None, None, None))[2],
                    "nearest_id": GATES_DECIDED.get(entry, ([], None, None, None))[3],
                    "gate_reasons": GATES_DECIDED.get(entry, ([], None, None, None))[0],
                    "gate_decision": GATES_DECIDED.get(entry, ([], None, None, None))[1],
                }
                for entry, title in held.select("entry_id", "title").iter_rows()
                if entry in live
            ]
        ),
        "quality": schemas.QUALITY.build(
            [
                {
                    "entry_id": entry,
                    "performance_ci_lower": 0.05,
                    "performance_ci_upper": 0.3012 if entry == "e09" else 0.97,
                    "freshness": 0.8 if entry < "e10" else 0.4,
                    "staleness_days": 131.4 if entry in ("e10", "e11") else 9.2,
                }
                for entry in ids
            ]
        ),
        "retirement": schemas.RETIREMENT.build(
            [
                {
                    "entry_id": entry,
                    "retire_reasons": retire.get(entry, []),
                    "protected_because": shields.get(entry, []),
                    "retire_decision": "keep" if entry not in retire else "review" if entry in shields else "retire",
                }
                for entry in ids
            ]
        ),
        "verdicts": schemas.VERDICTS.build(PAIRS),
        "merges": schemas.MERGES.build(MERGES),
        "conflicts": schemas.CONFLICTS.build(CONFLICTS),
        "plan": schemas.PLAN.build(PLAN),
        "flags": week_flags(ids),
        "queue": schemas.QUEUE.build(QUEUE),
        "trend": pl.DataFrame(TREND, schema=TREND_SCHEMA),
        "checks": CHECKS,
        "not_looked_at": {"entries newer than the week": 2, "pairs over the limit": 0},
        "notes": ("No key for a judge is set, so pairs were judged by rule alone.",),
        "thresholds": THRESHOLDS,
        "max_listed_pairs": 6,
        "example_pairs": 3,
    }
    return WeekFrames(**(fields | changes))


def empty_week() -> WeekFrames:
    """A week in which the corpus holds nothing."""
    parts = ("verdicts", "merges", "conflicts", "plan", "queue")
    none = {
        **{name: getattr(schemas, name.upper()).empty() for name in parts},
        "trend": pl.DataFrame(schema=TREND_SCHEMA),
        "checks": (),
        "not_looked_at": {},
        "notes": (),
    }
    return week_frames(entries=schemas.ENTRIES.empty(), **none)


def with_status(status: str, **header: Any) -> WeekFrames:
    """The example week with another end."""
    failed = CheckLine("blast_radius", False, True, "harbor: 3 of 18 active entries would change, 2 are allowed")
    checks = (*CHECKS[:1], failed) if status == "halted" else CHECKS
    return week_frames(header=replace(HEADER, status=status, **header), checks=checks)
