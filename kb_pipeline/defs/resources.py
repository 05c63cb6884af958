"""Resources: where things are (from the environment, at run time) and how a run was asked for.

Policy says what is decided; these say where the database is, who asks, and which policy file holds. The clock of a run
is read here and in the assets, nowhere below.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.database_url import kb_home
from kb_pipeline.adapters.encoder import Encoder, load_encoder
from kb_pipeline.defs.clock import default_actor, open_database
from kb_pipeline.defs.partitions import corpus_and_week
from kb_pipeline.errors import UsageError
from kb_pipeline.policy.load import load_policy
from kb_pipeline.policy.model import Policy, Thresholds
from kb_pipeline.vocabulary import Mode


class KnowledgeBase(dg.ConfigurableResource[Any]):
    """The database, and what is loaded once a process."""

    _database: Database | None = PrivateAttr(default=None)

    @property
    def database(self) -> Database:
        """The database, opened at first use."""
        if self._database is None:
            self._database = open_database()
        return self._database

    def encoder(self, policy: Policy) -> Encoder:
        """The encoder in force; loading it takes seconds, so a process does it once.

        Raises:
            EncoderError: the model is missing, damaged, or has no calibrated thresholds (K16).
        """
        return _encoder(policy.encoder.model, policy.encoder.batch_size)

    def thresholds(self, policy: Policy) -> Thresholds:
        """The similarities in force for the encoder in force (K16).

        Raises:
            EncoderError: the model has no calibration record.
        """
        calibration = self.encoder(policy).calibration
        return policy.thresholds(calibration.merge, calibration.borderline)


@lru_cache(maxsize=2)
def _encoder(model: str, batch_size: int) -> Encoder:
    return load_encoder(model, batch_size=batch_size)


class Curation(dg.ConfigurableResource[Any]):
    """How a run was asked for: profile, mode, policy file, actor, and whether a large change may pass."""

    profile: str = "weekly"
    mode: str = ""
    policy_file: str = ""
    allow_large_change: bool = False
    out: str = ""
    actor: str = ""

    def policy(self, corpus: str) -> Policy:
        """The policy in force for a corpus.

        Raises:
            PolicyError: a policy file is wrong.
            UnknownNameError: no such profile.
        """
        policy = load_policy(self.profile, file=Path(self.policy_file) if self.policy_file else None, corpus=corpus)
        if not self.mode or self.mode == policy.apply.mode:
            return policy
        if self.mode not in list(Mode):
            raise UsageError(f"mode {self.mode!r} is unknown; use recommend or apply")
        apply = policy.apply.model_copy(update={"mode": Mode(self.mode)})
        return policy.model_copy(update={"apply": apply})

    @property
    def out_folder(self) -> Path:
        """Where the files of a run go: ``out``, else ``KB_REPORTS``, else ./reports."""
        return Path(self.out or os.environ.get("KB_REPORTS") or "reports")

    @property
    def who(self) -> str:
        """Who asked."""
        return self.actor or default_actor()


class CorpusLock(dg.ConfigurableResource[Any]):
    """Holds the corpus of the run against other runs and imports, for as long as the run's process lives."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["CorpusLock"]:
        """Takes the lock of the run's corpus; a run without one partition takes none and is refused by its first step.

        Raises:
            CorpusBusyError: another run or import holds the corpus.
        """
        key = context.run.tags.get("dagster/partition") if context.run else None
        if key is None:
            yield self
            return
        corpus, _ = corpus_and_week(key)
        with open_database().corpus_lock(corpus):
            yield self


def frames_folder() -> Path:
    """Where frames between steps are kept."""
    return kb_home() / "frames"
