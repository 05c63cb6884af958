"""The roof: everything Dagster needs to know of kb_pipeline, and one function that builds it with other parts.

Loads with an empty environment: databases and models are only touched when something runs.
"""

from typing import Any

import dagster as dg

from kb_pipeline.defs.assets import decide, dedup, judge, load, outcome, scores
from kb_pipeline.defs.corpus_lock import CorpusLock
from kb_pipeline.defs.curator_job import curator_pass, curator_passes
from kb_pipeline.defs.io_managers import FrameIOManager
from kb_pipeline.defs.jobs import weekly_curation
from kb_pipeline.defs.resources import Curation, KnowledgeBase
from kb_pipeline.defs.sensors import missing_weeks


def build_defs(**overrides: Any) -> dg.Definitions:
    """All definitions; ``overrides`` replace resources by name (knowledge_base, curation, corpus_lock, io_manager)."""
    lock = CorpusLock()
    resources: dict[str, Any] = {
        "knowledge_base": KnowledgeBase(),
        "curation": Curation.configure_at_launch(),
        "corpus_lock": lock,
        "io_manager": FrameIOManager(corpus_lock=lock),
    }
    return dg.Definitions(
        assets=dg.load_assets_from_modules([load, scores, dedup, judge, decide, outcome]),
        jobs=[weekly_curation, curator_pass],
        sensors=[missing_weeks, curator_passes],
        resources=resources | overrides,
        # A step takes a second or two: a process of its own for each would cost more than it gives.
        executor=dg.in_process_executor,
    )


defs = build_defs()
