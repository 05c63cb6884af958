"""The ``kb`` command: parses words, calls what does the work, and turns errors into sentences and exit codes.

Belongs here: the list of commands and the handling of errors. Each command stands in ``commands`` and imports what it
needs when it runs, so that ``kb --help`` answers at once.

Exit codes: 0 done; 1 unexpected; 2 wrong usage, configuration or input file; 3 import finished, some rows rejected;
4 halted by a check, nothing applied; 5 finished, but degraded.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

_COMMANDS = {
    "demo": "demo:demo",
    "init": "setup:init",
    "import": "entries:import_",
    "curate": "curate:curate",
    "backfill": "curate:backfill",
    "export": "entries:export_",
    "pairs": "entries:pairs",
    "verdicts": "entries:verdicts",
    "runs": "history:runs",
    "rollback": "history:rollback",
    "review": "review:review",
    "serve": "serve:serve",
    "explain": "history:explain",
    "eligible": "retrieval:eligible",
    "search": "retrieval:search",
    "eval": "evaluate:evaluate",
    "policy": "policy:policy",
    "ui": "setup:ui",
    "stop": "setup:stop",
}

_PLACE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
"""What the file system says when a place cannot be written, though the error may not name it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for, and listed in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        del ctx
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        command: click.Command = getattr(importlib.import_module(f"kb_pipeline.commands.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; an unknown one is answered with the nearest known."""
        if args and args[0] not in _COMMANDS:
            from kb_pipeline.errors import UnknownNameError

            raise UnknownNameError("command", args[0], _COMMANDS, "kb --help lists all.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; a reader of our pipe who has gone (head, say) is no error, and nobody is left to tell."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # caught here, because click would end the process with 1
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kb-pipeline", prog_name="kb")
def kb() -> None:
    """Keeps knowledge bases honest: curates entries week by week, archives and never deletes.

    Errors are one sentence; --debug, anywhere in the line, adds the traceback.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs ``kb`` and exits with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    sys.exit(run([word for word in words if word != "--debug"], debug=debug))


def run(words: Sequence[str], *, debug: bool = False) -> int:
    """Runs one command line and returns its exit code. Errors go to stderr as one sentence."""
    import warnings

    from kb_pipeline.errors import KbError

    # Beta features of Dagster that the definitions use on purpose; the warnings say nothing to a user of kb.
    warnings.filterwarnings("ignore", module="kb_pipeline", message=".*currently in (beta|preview).*")
    try:
        if Path(".env").is_file():
            from kb_pipeline.adapters.env_file import load_env_file

            load_env_file()
        # Outside standalone mode click hands the code of an Exit back as the result instead of raising it.
        code = kb.main(list(words), prog_name="kb", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except KbError as error:
        _tell(error, debug=debug)
        return error.exit_code
    except OSError as error:
        from kb_pipeline.errors import PlaceError

        if error.filename is None and error.errno not in _PLACE_ERRORS:
            _tell(error, debug=debug)
            return 1
        said = PlaceError.refused_by_system(error).with_traceback(error.__traceback__)
        _tell(said, debug=debug)
        return said.exit_code
    except Exception as error:
        _tell(error, debug=debug)
        return 1
    return code if isinstance(code, int) else 0


def _tell(error: BaseException, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exception(error)
        return
    from kb_pipeline.errors import KbError

    if isinstance(error, KbError):
        click.echo(f"kb: {error}", err=True)
    else:
        first = (str(error).strip() or "no message").splitlines()[0]
        click.echo(f"kb: unexpected {type(error).__name__}: {first} (run again with --debug for details)", err=True)
