"""What all assets share: how they are declared, and what they show in the UI.

Belongs here: partitions, owners, column schemas, row counts and previews. Previews never show the text of an entry.
"""

from typing import Any

import dagster as dg
import polars as pl

from kb_pipeline.defs.partitions import corpus_weeks
from kb_pipeline.schemas import FRAMES

OWNERS = ["team:knowledge-base"]
_HIDDEN = ("text", "title", "explanation", "exact_key", "merge_key", "content_hash", "other_content_hash")
_PREVIEW_ROWS = 8
_PREVIEW_COLUMNS = 9


def asset_options(name: str, group: str, *kinds: str) -> dict[str, Any]:
    """Arguments of ``@dg.asset`` for the asset ``name``, whose frame schema bears the same name if it has one."""
    schema = FRAMES.get(name)
    metadata: dict[str, Any] = {}
    if schema is not None:
        metadata["dagster/column_schema"] = dg.TableSchema(
            columns=[
                dg.TableColumn(
                    column,
                    str(spec.dtype),
                    description=spec.meaning,
                    constraints=dg.TableColumnConstraints(nullable=spec.nullable, unique=schema.key == (column,)),
                )
                for column, spec in schema.columns.items()
            ]
        )
    return {
        "name": name,
        "group_name": group,
        "kinds": set(kinds),
        "owners": OWNERS,
        "partitions_def": corpus_weeks,
        "metadata": metadata,
    }


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
