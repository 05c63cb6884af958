"""What all assets share: how they are declared, what their steps start from, and what they show in the UI.

Belongs here: partitions, owners, column schemas, row counts and previews. Previews never show the text of an entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import polars as pl

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.runs import Run
from kb_pipeline.defs.failures import readable
from kb_pipeline.defs.partitions import corpus_and_week, corpus_weeks
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.policy.model import Policy
from kb_pipeline.schemas import FRAMES, Time

OWNERS = ["team:knowledge-base"]
_HIDDEN = (
    "text",
    "title",
    "explanation",
    "suggested_body",
    "exact_key",
    "merge_key",
    "content_hash",
    "other_content_hash",
)
_PREVIEW_ROWS = 8
_PREVIEW_COLUMNS = 9


@dataclass(frozen=True)
class Step:
    """What a step starts from."""

    corpus: str
    week: date
    policy: Policy
    database: Database
    run: Run


def step_of(context: dg.AssetExecutionContext, knowledge_base: KnowledgeBase, curation: Curation) -> Step:
    """Partition, policy and run of a step.

    Raises:
        WeekError: the week was not begun, was rolled back, or began under another policy.
    """
    corpus, week = corpus_and_week(context.partition_key)
    policy = curation.policy(corpus)
    return Step(corpus, week, policy, knowledge_base.database, knowledge_base.run(corpus, week, policy))


def week_asset(
    group: str, *kinds: str, max_retries: int = 0, **options: Any
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Declares the asset of one corpus and week that a function makes; a frame schema of the same name is shown.

    ``max_retries`` is for steps that lean on a model: what they encoded or asked before they failed is not done again.
    """

    def declare(step: Callable[..., Any]) -> dg.AssetsDefinition:
        name = step.__name__
        shared: dict[str, Any] = {"name": name, "group_name": group, "kinds": set(kinds), "owners": OWNERS}
        shared |= {"partitions_def": corpus_weeks, "metadata": _column_schema(name)}
        declared: dg.AssetsDefinition = dg.asset(**shared, **options)(readable(step, max_retries))
        return declared

    return declare


def check_specs(asset: str, descriptions: Mapping[str, str], *, blocking: bool) -> list[dg.AssetCheckSpec]:
    """Checks that an asset evaluates itself, for its own partition alone."""
    return [
        dg.AssetCheckSpec(name, asset=asset, blocking=blocking, description=text, partitions_def=corpus_weeks)
        for name, text in descriptions.items()
    ]


def _column_schema(name: str) -> dict[str, Any]:
    schema = FRAMES.get(name)
    if schema is None:
        return {}
    columns = [
        dg.TableColumn(
            column,
            "Datetime (UTC)" if spec.dtype == Time else str(spec.dtype),
            description=spec.meaning,
            constraints=dg.TableColumnConstraints(nullable=spec.nullable, unique=schema.key == (column,)),
        )
        for column, spec in schema.columns.items()
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=columns)}


def output(frame: pl.DataFrame, **numbers: Any) -> dg.Output[pl.DataFrame]:
    """A frame with its preview and the numbers that an operator wants to see first."""
    return dg.Output(frame, metadata={**shown(frame), **numbers})


def shown(frame: pl.DataFrame) -> dict[str, Any]:
    """Row count and a small preview in Markdown, without texts."""
    columns = [name for name in frame.columns if name not in _HIDDEN][:_PREVIEW_COLUMNS]
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in frame.select(columns).head(_PREVIEW_ROWS).iter_rows():
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    preview = "\n".join(lines) if frame.height else "no rows"
    return {"dagster/row_count": frame.height, "preview": dg.MetadataValue.md(preview)}


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return text.replace("|", "\\|").replace("\n", " ")[:60]
