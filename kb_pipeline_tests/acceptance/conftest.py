"""What the whole-run tests share: the sample's 26 weeks, curated once, and corpora of their own for everything else."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from kb_pipeline_tests.acceptance.sample_run import SampleRun, run_sample
from kb_pipeline_tests.fakes.house import House, HouseCorpus, NewCorpus

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def sample(house: House) -> SampleRun:
    """What 26 weeks made of the bundled sample."""
    return run_sample(house)


@pytest.fixture(scope="session")
def new_corpus(house: House) -> NewCorpus:
    """Makes a corpus of the house under a new name, with policy values over the shipped ones."""

    def make(policy: Mapping[str, Any] | None = None) -> HouseCorpus:
        return house.corpus(f"team{next(_numbers)}", policy)

    return make
