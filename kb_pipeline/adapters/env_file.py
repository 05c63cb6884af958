"""The ``.env`` file of the working directory, which Dagster's commands read and ``kb`` therefore reads too.

Belongs here: getting its variables into the environment. Does not belong here: what the variables mean.
"""

from __future__ import annotations

import os
from pathlib import Path


def load_env_file() -> list[str]:
    """Sets the variables of ``./.env`` that are not set yet; returns their names. Does nothing without the file.

    A variable that is already set stays as it is, so that one call can be given another value on its command line.
    """
    from dotenv import dotenv_values

    path = Path(".env")
    if not path.is_file():
        return []
    # The file may say ${PWD}, which a program that started us elsewhere need not have kept up to date.
    os.environ["PWD"] = str(Path.cwd())
    new = {name: value for name, value in dotenv_values(path).items() if value and name not in os.environ}
    os.environ.update(new)
    return sorted(new)
