"""Pairs that need a judge, and the network judge on the loopback."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.judges.anthropic_judge import AnthropicJudge
from kb_pipeline.adapters.judges.batch_store import BatchStore
from kb_pipeline.stages import judge as script
from kb_pipeline.stages.judge import PairReply, PairRequest
from kb_pipeline.vocabulary import Band, Kind, ReasonCode
from kb_pipeline_tests.fakes.messages_api import MessagesApi

KEY = "loopback-key-7d1f0c"


def pairs(count: int, **changes: Any) -> list[PairRequest]:
    made = [
        PairRequest(
            pair_id=f"p{number}",
            entry_id_l=f"l{number}",
            entry_id_r=f"r{number}",
            content_hash_l=f"hl{number}",
            content_hash_r=f"hr{number}",
            kind_l=Kind.RULE,
            kind_r=Kind.RULE,
            text_l=f"Left statement number {number} of the marmalade factory.",
            text_r=f"Right statement number {number} of the marmalade factory.",
            similarity=0.95,
            band=Band.MERGE,
        )
        for number in range(count)
    ]
    return [dataclasses.replace(pair, **changes) for pair in made]


def number_of(body: dict[str, Any]) -> int:
    found = re.search(r"Left statement number (\d+)", str(body["messages"][0]["content"]))
    assert found is not None
    return int(found[1])


def network_judge(api: MessagesApi, **changes: Any) -> AnthropicJudge[PairRequest, PairReply]:
    settings: dict[str, Any] = {
        "model": "claude-haiku-4-5",
        "api_key": KEY,
        "base_url": api.url,
        "timeout_seconds": 5.0,
        "max_retries": 0,
        "min_confidence": 0.75,
    }
    return AnthropicJudge(script, **(settings | changes))


def batch_judge(api: MessagesApi, database: Database, **changes: Any) -> AnthropicJudge[PairRequest, PairReply]:
    """The network judge of a new run, which sends all by batch."""
    settings: dict[str, Any] = {
        "delivery": "batch",
        "batch_poll_seconds": 0.05,
        "max_batch_wait_seconds": 5.0,
        "batch_store": lambda questions: BatchStore(database, "acme", questions),
    }
    return network_judge(api, **(settings | changes))


def reasons(replies: list[PairReply]) -> list[ReasonCode]:
    return [reply.reason for reply in replies]
