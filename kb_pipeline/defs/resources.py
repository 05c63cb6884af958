"""Resources: where things are (from the environment, at run time) and how a run was asked for.

Policy says what is decided; these say where the database is, who asks, and which policy file holds. The clock of a run
is read here and in the assets, nowhere below.
"""

import os
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from kb_pipeline.adapters.continuing import continue_run
from kb_pipeline.adapters.database import Database
from kb_pipeline.adapters.encoder import Encoder, load_encoder
from kb_pipeline.adapters.runs import Run
from kb_pipeline.defs.clock import default_actor, open_database
from kb_pipeline.defs.frames import run_of_frames
from kb_pipeline.defs.golden_measure import golden_path
from kb_pipeline.errors import UsageError, WeekError
from kb_pipeline.policy.load import POLICY_FILE_VARIABLE, load_policy
from kb_pipeline.policy.model import Policy, Thresholds
from kb_pipeline.vocabulary import Mode


class KnowledgeBase(dg.ConfigurableResource[Any]):
    """The database, the run that steps belong to, and what is loaded once a process."""

    _database: Database | None = PrivateAttr(default=None)
    _run: Run | None = PrivateAttr(default=None)

    @property
    def database(self) -> Database:
        """The database, opened at first use."""
        if self._database is None:
            self._database = open_database()
        return self._database

    def begin(self, run: Run) -> Run:
        """Takes a run that was just opened as the one that the steps to come belong to."""
        self._run = run
        return run

    def run(self, corpus: str, week: date, policy: Policy) -> Run:
        """The run that a step of this week belongs to, looked up once; steps apart from each other share one.

        Raises:
            WeekError: there is none to go on with, or the policy changed since it began.
        """
        if self._run is None:
            self._run = continue_run(
                self.database,
                corpus,
                week,
                frames_of=run_of_frames(corpus, week),
                policy_fingerprint=policy.fingerprint,
            )
        if self._run.policy_fingerprint != policy.fingerprint:
            raise WeekError(
                f"the policy changed while run {self._run.run_id} was at work: run week {week} of corpus {corpus!r} again"
            )
        return self._run

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
        file = self.policy_file or os.environ.get(POLICY_FILE_VARIABLE, "")
        return _policy(self.profile, self.mode, file, _stamp(file), corpus)

    def golden_path(self, corpus: str) -> Path | None:
        """Where the golden queries of a corpus are; None when its policy names none."""
        return golden_path(self.policy(corpus), self.policy_file)

    @property
    def out_folder(self) -> Path:
        """Where the files of a run go: ``out``, else ``KB_REPORTS``, else ./reports."""
        return Path(self.out or os.environ.get("KB_REPORTS") or "reports")

    @property
    def who(self) -> str:
        """Who asked."""
        return self.actor or default_actor()


def _stamp(file: str) -> tuple[int, int]:
    """What changes when a file is edited."""
    try:
        found = Path(file).stat()
    except OSError:  # reading it says what is wrong
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _policy(profile: str, mode: str, file: str, stamp: tuple[int, int], corpus: str) -> Policy:
    """A policy that every step of a run asks for; read anew when its file changes (``stamp``)."""
    del stamp
    policy = load_policy(profile, file=Path(file) if file else None, corpus=corpus)
    if not mode or mode == policy.apply.mode:
        return policy
    if mode not in list(Mode):
        raise UsageError(f"mode {mode!r} is unknown; use recommend or apply")
    return policy.model_copy(update={"apply": policy.apply.model_copy(update={"mode": Mode(mode)})})
