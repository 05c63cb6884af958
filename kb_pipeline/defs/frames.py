"""Frames between steps as files: Parquet under ``$KB_HOME/frames/<asset>/<corpus>/<week>.parquet``.

Belongs here: places, atomic writing, and the mark that says which run a frame belongs to. Every frame of a week bears the
mark of the ``knowledge_entries`` it was made from, so that steps which are run apart from each other cannot mix two runs.
"""

import io
import os
import tempfile
from datetime import date
from pathlib import Path

import polars as pl

from kb_pipeline.adapters.database_url import kb_home
from kb_pipeline.errors import WeekError
from kb_pipeline.schemas import ENTRIES, FRAMES

FIRST_FRAME = ENTRIES.name
_RUN = "kb_run_id"


def frames_folder() -> Path:
    """Where frames between steps are kept."""
    return kb_home() / "frames"


def frame_path(name: str, corpus: str, week: date) -> Path:
    """The file of one frame of a week."""
    return frames_folder() / name / corpus / f"{week}.parquet"


def write_frame(frame: pl.DataFrame, name: str, corpus: str, week: date, run_id: str) -> Path:
    """Writes a frame with the mark of its run: a crash leaves the old file or the new one.

    Raises:
        SchemaError: the frame does not fit its schema.
        OSError: the file system refuses.
    """
    FRAMES[name].check(frame)
    path = frame_path(name, corpus, week)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    try:
        # By way of memory: writing a file itself, Polars hides what the file system says, a full disk say.
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd", metadata={_RUN: run_id})
        Path(beside).write_bytes(content.getbuffer())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return path


def read_frame(name: str, corpus: str, week: date) -> pl.DataFrame:
    """Reads a frame of the run that the week's entries were loaded by.

    Raises:
        WeekError: it is not there, or another run left it there.
        SchemaError: it does not fit its schema.
    """
    if (mine := _mark(name, corpus, week)) != (wanted := run_of_frames(corpus, week)):
        raise WeekError(
            f"{name} of week {week} of corpus {corpus!r} is of run {mine}, and the entries of the week are of run {wanted}: "
            f"materialize {name} of this week first, or the whole week"
        )
    frame = pl.read_parquet(frame_path(name, corpus, week))
    FRAMES[name].check(frame)
    return frame


def run_of_frames(corpus: str, week: date) -> str:
    """The run that the frames of a week belong to: the one that loaded its entries.

    Raises:
        WeekError: nobody did, on this machine.
    """
    return _mark(FIRST_FRAME, corpus, week)


def _mark(name: str, corpus: str, week: date) -> str:
    path = frame_path(name, corpus, week)
    if not path.is_file():
        raise WeekError(
            f"{name} of week {week} of corpus {corpus!r} is not there ({path}): "
            f"materialize {name} of this week first, or the whole week"
        )
    return pl.read_parquet_metadata(path)[_RUN]
