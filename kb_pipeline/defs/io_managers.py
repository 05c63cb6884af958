"""The IO manager: frames go from step to step as files, one for each asset and partition.

Every run of this project uses it, so this is also where a run gets hold of its corpus: nothing else may write frames or
histories of that corpus until the run's process ends.
"""

import dagster as dg
import polars as pl

from kb_pipeline.defs.corpus_lock import CorpusLock
from kb_pipeline.defs.failures import as_failure
from kb_pipeline.defs.frames import FIRST_FRAME, read_frame, run_of_frames, write_frame
from kb_pipeline.defs.partitions import corpus_and_week


class FrameIOManager(dg.ConfigurableIOManager):
    """Writes and reads the frames of one partition."""

    corpus_lock: CorpusLock

    def handle_output(self, context: dg.OutputContext, obj: pl.DataFrame) -> None:
        """Writes a frame; its schema is the one named after the asset."""
        name = context.asset_key.path[-1]
        corpus, week = corpus_and_week(context.partition_key)
        with as_failure():
            run_id = context.run_id if name == FIRST_FRAME else run_of_frames(corpus, week)
            path = write_frame(obj, name, corpus, week, run_id)
        context.add_output_metadata({"file": dg.MetadataValue.path(str(path)), "dagster/row_count": obj.height})

    def load_input(self, context: dg.InputContext) -> pl.DataFrame:
        """Reads the frame of the run's own partition."""
        corpus, week = corpus_and_week(context.partition_key)
        with as_failure():
            return read_frame(context.asset_key.path[-1], corpus, week)
