"""Frames between steps: Parquet files under ``$KB_HOME/frames/<asset>/<corpus>/<week>.parquet``.

A frame is checked against its schema when it is written and when it is read. Files are written beside their place and
moved there, so that a crash leaves the old frame or the new one.
"""

import os
import tempfile
from pathlib import Path

import dagster as dg
import polars as pl

from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.defs.resources import frames_folder
from kb_pipeline.schemas import FRAMES


class FrameIOManager(dg.ConfigurableIOManager):
    """Writes and reads the frames of one partition."""

    def handle_output(self, context: dg.OutputContext, obj: pl.DataFrame) -> None:
        """Writes a frame; its schema is the one named after the asset."""
        path = _path(context.asset_key, context.partition_key)
        FRAMES[context.asset_key.path[-1]].check(obj)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
        try:
            obj.write_parquet(beside, compression="zstd")
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        context.add_output_metadata({"file": dg.MetadataValue.path(str(path)), "dagster/row_count": obj.height})

    def load_input(self, context: dg.InputContext) -> pl.DataFrame:
        """Reads the frame of the run's own partition."""
        path = _path(context.asset_key, context.partition_key)
        name = context.asset_key.path[-1]
        if not path.exists():
            raise dg.Failure(
                f"{name} of {context.partition_key} is not there ({path}). Materialize {name} of this week first."
            )
        frame = pl.read_parquet(path)
        FRAMES[name].check(frame)
        return frame


def _path(asset_key: dg.AssetKey, partition_key: str) -> Path:
    corpus, week = corpus_and_week(partition_key)
    return frames_folder() / asset_key.path[-1] / corpus / f"{week}.parquet"
