"""Report files of a week in ``<out>/<corpus>/<week>/`` (interfaces, "Files of a run"; behaviour 26).

Belongs here: where files go and that they appear whole. Does not belong here: what they say (stages/report).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from kb_pipeline.adapters.report_html import PagedWeek, health_html
from kb_pipeline.adapters.report_yaml import yaml_text
from kb_pipeline.errors import ReportFolderError

HTML_FILE = "health-report.html"


class FiledWeek(PagedWeek, Protocol):
    """A week that has documents and a page."""

    def documents(self) -> dict[str, dict[str, Any]]:
        """File name -> document with ``header`` first."""


def report_folder(out: Path, corpus: str, week: str) -> Path:
    """The folder of a corpus and week.

    Raises:
        ReportFolderError: the corpus cannot name a folder below ``out``.
    """
    if corpus in ("", ".", "..") or any(char in corpus for char in "/\\\0"):
        raise ReportFolderError.unusable_name(corpus)
    return out / corpus / week


def write_week(week: FiledWeek, out: Path) -> list[Path]:
    """Writes the files of a week, replacing those that are there, and returns their paths.

    Everything is made before anything is written, all of it is written beside the old files, and only then is each file
    moved into place: a reader never sees half a file, and a full disk leaves the old files as they were.

    Args:
        week: the week.
        out: folder under which corpora and weeks get theirs.

    Raises:
        ReportFolderError: the folder cannot be made or written.
    """
    documents = week.documents()
    header = documents[next(iter(documents))]["header"]
    folder = report_folder(out, header["corpus"], header["week"])
    contents = {name: yaml_text(document).encode() for name, document in documents.items()}
    contents[HTML_FILE] = health_html(week).encode()
    parts = {folder / name: folder / f".{name}.{os.getpid()}.part" for name in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, part in parts.items():
            part.write_bytes(contents[path.name])
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        for part in parts.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise ReportFolderError.not_writable(folder, error) from error
    return list(parts)
