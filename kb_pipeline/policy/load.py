"""Reads policy: the shipped defaults, a profile over them, and the user's file over both.

A user's file holds any of the keys of ``policy.yaml`` and, under ``corpora:``, the same keys for single corpora. Every
wrong key is named with its file and the nearest valid key.
"""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kb_pipeline.errors import PolicyError, UnknownNameError
from kb_pipeline.policy.model import Policy

_HERE = Path(__file__).parent
POLICY_FILE_VARIABLE = "KB_POLICY"


def profile_names() -> list[str]:
    """Names of the shipped profiles, sorted."""
    return sorted(path.stem for path in (_HERE / "profiles").glob("*.yaml"))


def load_policy(profile: str = "weekly", *, file: Path | None = None, corpus: str | None = None) -> Policy:
    """Policy in force for a profile and corpus.

    Args:
        profile: name of a shipped profile.
        file: the user's policy file; None reads the path in ``KB_POLICY``, if that is set.
        corpus: corpus whose own values, under ``corpora:`` in the user's file, come last.

    Raises:
        UnknownNameError: no such profile.
        PolicyError: a file cannot be read, or holds a wrong key or value; every one is named.
    """
    if profile not in profile_names():
        raise UnknownNameError("profile", profile, profile_names())
    values = _shipped(profile)
    source = f"profile {profile}"
    if file is None and os.environ.get(POLICY_FILE_VARIABLE):
        file = Path(os.environ[POLICY_FILE_VARIABLE])
    if file is not None:
        source = str(file)
        user = read_mapping(file)
        corpora = user.pop("corpora", {}) or {}
        if not isinstance(corpora, dict) or not all(isinstance(v, dict) for v in corpora.values()):
            raise PolicyError(source, ["corpora must map corpus names to policy sections"])
        values = overlay(values, user)
        for name in sorted(corpora):  # a typo under another corpus is an error now, not on the day it is curated
            own = build(overlay(copy.deepcopy(values), corpora[name]), f"{source} (corpora.{name})")
            if name == corpus:
                return own
    return build(values, source)


@cache
def _shipped(profile: str) -> dict[str, Any]:
    """The defaults with a profile over them. They do not change while a process lives, and every step asks."""
    return overlay(read_mapping(_HERE / "policy.yaml"), read_mapping(_HERE / "profiles" / f"{profile}.yaml"))


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file as a plain mapping.

    Raises:
        PolicyError: the file is missing, unreadable, no YAML, or no mapping.
    """
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise PolicyError(str(path), [f"is not valid YAML: {' '.join(str(error).split())}"]) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise PolicyError(str(path), ["must be a mapping of sections"])
    return loaded


def overlay(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base``: mappings are joined key by key, everything else is replaced. Returns a new mapping."""
    joined = dict(base)
    for key, value in over.items():
        known = joined.get(key)
        joined[key] = overlay(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
    return joined


def build(values: Mapping[str, Any], source: str) -> Policy:
    """Validates merged values.

    Raises:
        PolicyError: names every wrong key (with the nearest valid one) and every wrong value.
    """
    try:
        return Policy.model_validate(values)
    except ValidationError as error:
        raise PolicyError(source, _sentences(error)) from error


def _sentences(error: ValidationError) -> Iterable[str]:
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(fault["loc"][-1]), _keys_at(fault["loc"][:-1]), n=1)
            yield f"unknown key {path!r}" + (f", did you mean {near[0]!r}?" if near else "")
        elif fault["type"] == "missing":
            yield f"missing key {path!r}"
        else:
            yield f"{path} = {fault['input']!r}: {fault['msg'].removeprefix('Value error, ')}"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Policy
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return list(model.model_fields)
