"""The judge that repeats recorded verdicts: for tests, and for running history again exactly, offline (ledger K9).

Belongs here: the file of recorded verdicts (JSON Lines, as ``kb verdicts`` writes them) and its faults. Does not belong here:
what a verdict is (the script: the judge stage), and how they are recorded (recorded_verdicts).

A line holds content_hash_l, content_hash_r, kind_l, kind_r, verdict, reason, judge, judge_confidence, explanation and
whatever else a reply has; other keys are not read. What is not recorded is UNSURE, and a person decides.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from kb_pipeline.adapters.judges import Script
from kb_pipeline.adapters.secrets import find_secrets
from kb_pipeline.errors import RecordedVerdictsError
from kb_pipeline.vocabulary import ReasonCode

KEY_FIELDS = ("content_hash_l", "content_hash_r", "kind_l", "kind_r")
NAME = "replay"

RequestT = TypeVar("RequestT", bound=Any)
ReplyT = TypeVar("ReplyT")


class ReplayJudge(Generic[RequestT, ReplyT]):
    """Tells of each pair what the file tells; nothing leaves the machine.

    Args:
        script: what a verdict is (the judge stage).
        path: the file of recorded verdicts.
        max_text_chars: a pair with a longer text is not answered, as it would not have been asked.

    Raises:
        RecordedVerdictsError: the file cannot be read, or a line of it is no verdict, or two lines contradict each other.
    """

    is_network = False
    judges_open_pairs = True
    name = NAME
    usage: Mapping[str, int] = MappingProxyType({})
    estimate: Mapping[str, float | None] = MappingProxyType({})
    cost_usd: float | None = None

    def __init__(self, script: Script[RequestT, ReplyT], path: Path, *, max_text_chars: int) -> None:
        self._script = script
        self._max_text_chars = max_text_chars
        content = _read(path)
        self._recorded = _records(script, path, content)
        self.fingerprint = f"{NAME}/{hashlib.sha256(content).hexdigest()[:16]}"

    def decide(self, requests: Sequence[RequestT]) -> Iterator[ReplyT]:
        """One reply per request, in their order."""
        for request in requests:
            reason = self._script.withheld_reason(request, self._max_text_chars)
            if reason is None and any(find_secrets([request.text_l, request.text_r])):
                reason = ReasonCode.JUDGE_SECRET
            recorded = self._recorded.get(tuple(str(getattr(request, name)) for name in KEY_FIELDS))
            if reason is not None:
                yield self._script.unasked_reply(request, reason, judge=self.name)
            elif recorded is None:
                yield self._script.unasked_reply(request, ReasonCode.JUDGE_NOT_RECORDED, judge=self.name)
            else:
                yield self._script.recorded_reply(request, recorded)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordedVerdictsError.unreadable(path, str(error.strerror)) from error


def _records(script: Script[Any, Any], path: Path, content: bytes) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """The record of every pair; each line is read as a reply once, so that a fault shows before anything is decided."""
    found: dict[tuple[str, ...], tuple[int, Any, Mapping[str, Any]]] = {}
    # Only a line feed ends a line: a sentence may hold other characters that some readers take for one.
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordedVerdictsError.wrong_line(path, number, "is not JSON") from error
        if not isinstance(row, dict):
            raise RecordedVerdictsError.wrong_line(path, number, "is not a JSON object")
        for name in KEY_FIELDS:
            if not isinstance(row.get(name), str):
                raise RecordedVerdictsError.wrong_line(path, number, f"{name}: must be a text")
        try:
            reply = script.recorded_reply(_ANY_PAIR, row)
        except ValueError as error:
            raise RecordedVerdictsError.wrong_line(path, number, str(error)) from error
        key = tuple(row[name] for name in KEY_FIELDS)
        if key in found and found[key][1] != reply:
            raise RecordedVerdictsError.wrong_line(
                path, number, f"contradicts line {found[key][0]}, which is about the same two texts"
            )
        found.setdefault(key, (number, reply, row))
    return {key: row for key, (_, _, row) in found.items()}


class _AnyPair:
    """Stands for a pair where only the record is looked at."""

    pair_id = ""


_ANY_PAIR: Any = _AnyPair()
