"""What a judge was going to take and what it took, in words: for the log, the report and whoever pays.

Belongs here: sentences made of a run's counts ``judge_estimate`` and ``judge_usage``.
"""

from collections.abc import Mapping
from typing import Any

from kb_pipeline.stages.report_health import plural


def spending(numbers: Mapping[str, float | None]) -> str:
    """``10 questions, 4,000 tokens read, 900 written, $0.01``; a cost that is not known is left out."""
    read = sum(int(numbers.get(name) or 0) for name in ("input_tokens", "cached_tokens", "cache_write_tokens"))
    cost = numbers.get("cost_usd")
    return (
        f"{plural(int(numbers.get('calls') or 0), 'question')}, {read:,} tokens read, "
        f"{int(numbers.get('output_tokens') or 0):,} written" + ("" if cost is None else f", ${cost:.4f}")
    )


def judge_notes(counts: Mapping[str, Any], *, model: str) -> list[str]:
    """What the report says of the judge's cost and of what lies in batches; nothing for a judge that asks nobody.

    Args:
        counts: counts of the run.
        model: model of the network judge, as policy names it.
    """
    notes = []
    usage, estimate = counts.get("judge_usage") or {}, counts.get("judge_estimate") or {}
    if usage.get("calls"):
        canaries = int(usage.get("canaries") or 0)
        notes.append(
            f"The model answered {spending(usage)}. {plural(canaries, 'pair')} with a known answer "
            f"{'was' if canaries == 1 else 'were'} put to it as a check."
        )
    if estimate.get("calls"):
        notes.append(f"By estimate, made before anything was sent: {spending(estimate)}.")
    if (usage.get("calls") or estimate.get("calls")) and usage.get("cost_usd", estimate.get("cost_usd")) is None:
        notes.append(f"What this costs is not known: policy judge.prices names no price of {model}.")
    if waiting := int(counts.get("pairs_in_batches") or 0):
        notes.append(
            f"{plural(waiting, 'pair')} {'lies' if waiting == 1 else 'lie'} with the judge as a batch that had not ended; "
            "the next run takes up the answers."
        )
    return notes
