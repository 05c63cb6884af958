"""The bundled sample: the knowledge of an invented software team over 26 weeks, and what is true of it.

Belongs here: ``team_knowledge.jsonl`` (import rows with usage), ``truth.yaml`` (which entries were written to be what),
``golden_queries.jsonl`` (questions with the entries that answer them), their loaders, and the simulator that made the
usage. Does not belong here: anything that curates; tests and the acceptance run read the truth, the pipeline never does.

The team, its company, customers, vessels and key material are invented. One entry holds a text that looks like a cloud
provider's access key and one addresses a judge; both are named in the truth and are there for the scanners to find.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from kb_pipeline.sample.histories import Fate

FIRST_WEEK = date(2026, 5, 4)
"""Monday of the first week with entries."""

LAST_WEEK = date(2026, 10, 26)
"""Monday of the last of the 26 weeks; the truth holds as of the Monday after it."""


def sample_path() -> Path:
    """Path of the sample's import rows, JSONL."""
    return Path(__file__).with_name("team_knowledge.jsonl")


def golden_queries_path() -> Path:
    """Path of the sample's golden queries, JSONL: none of the answers is retired or torn within the 26 weeks."""
    return Path(__file__).with_name("golden_queries.jsonl")


def load_truth() -> dict[str, Any]:
    """Read ``truth.yaml``: sections by name, as its comments describe them; weeks and days are ``datetime.date``."""
    from ruamel.yaml import YAML

    truth: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("truth.yaml"))
    return truth


def load_usage_plan() -> dict[str, Any]:
    """The arguments with which ``simulate_usage`` gave the sample its usage, fates included."""
    plan = dict(load_truth()["usage_plan"])
    plan["fates"] = {entry_id: Fate(**fate) for entry_id, fate in plan["fates"].items()}
    return plan
