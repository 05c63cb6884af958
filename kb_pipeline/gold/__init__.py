"""The gold set: labelled pairs of team knowledge that every judge is measured on (ledger X6).

``pairs.jsonl`` holds one pair a line: ``id``, ``stratum``, ``label``, ``difference`` (what tells the texts apart),
``after`` where the kind of difference was seen in a public set, and ``a`` and ``b`` as import rows. Every text was written for
this project and labelled before any rule was run on it. A rule is never changed because of a single pair here, and a
label only when a reader would call it wrong.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def gold_pairs() -> Traversable:
    """The shipped file of labelled pairs (JSONL, UTF-8)."""
    return files(__name__).joinpath("pairs.jsonl")
