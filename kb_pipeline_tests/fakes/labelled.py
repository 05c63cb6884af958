"""Labelled pairs for tests: written to a file and read back as kb eval reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import as_file
from pathlib import Path
from typing import Any

from kb_pipeline.adapters.labelled_pairs import LabelledPairs, read_labelled_pairs
from kb_pipeline.gold import gold_pairs

MAX_CHARS = 8_000_000


def gold(**options: Any) -> LabelledPairs:
    """The shipped gold set."""
    with as_file(gold_pairs()) as path:
        return read_labelled_pairs(path, max_body_chars=MAX_CHARS, **options)


def write_pairs(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    """A file of labelled pairs; a text stands for a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def labelled(path: Path, *rows: Mapping[str, Any] | str, **options: Any) -> LabelledPairs:
    """These rows, read."""
    return read_labelled_pairs(write_pairs(path, *rows), **({"max_body_chars": MAX_CHARS} | options))
