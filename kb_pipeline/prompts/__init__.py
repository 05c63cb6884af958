"""The wordings that a model is asked with: one Markdown file a version, beside this module.

Belongs here: reading such a file and naming its version. Does not belong here: what is put between the words, and how
an answer is read (stages). A file has two headings of the first level: *Instructions* becomes the system text, which is
the same for every question, *Question* ends the message.

A changed wording is another version even where nobody thought of a new name: the version holds a hash of the file and
of the shape of the reply, and everything that is kept by version is asked anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

PAIR_PROMPT = "pair-3"
"""The wording in force for pairs of entries."""

_PARTS = re.compile(r"^# (\w+)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[a-z]+-\d+")


@dataclass(frozen=True)
class Prompt:
    """A wording: ``name`` is that of its file, ``digest`` the SHA-256 (hex) of it."""

    name: str
    instructions: str
    question: str
    digest: str

    def version(self, reply_schema: Mapping[str, Any]) -> str:
        """Name and eight hex digits over wording and shape of the reply, for example ``pair-3-0f1e2d3c``."""
        shape = json.dumps(reply_schema, sort_keys=True, separators=(",", ":"))
        return f"{self.name}-{hashlib.sha256(f'{self.digest}{shape}'.encode()).hexdigest()[:8]}"


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt of this name, for example ``pair-3``.

    Raises:
        ValueError: the name is none, or the file does not consist of the two parts.
        FileNotFoundError: there is no such file.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a prompt: a word, a hyphen and a number, like pair-3")
    # An editor's line ends are no other wording.
    text = (files(__name__) / f"{name}.md").read_text(encoding="utf-8").replace("\r\n", "\n").strip()
    before, *parts = _PARTS.split(text)
    if before.strip() or parts[::2] != ["Instructions", "Question"]:
        raise ValueError(f"prompt {name} must consist of '# Instructions' and '# Question', in this order")
    instructions, question = (part.strip() for part in parts[1::2])
    return Prompt(name, instructions, question, hashlib.sha256(text.encode()).hexdigest())
