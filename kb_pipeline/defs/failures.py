"""Failures: how an error of ours travels through Dagster, and how it is found again at the other end.

Belongs here: what Dagster is told when a step fails, and the error that a chain of Dagster's own errors began with.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from kb_pipeline.errors import KbError, UsageError

_RETRY_AFTER_SECONDS = 5


def readable(step: Callable[..., Any], max_retries: int) -> Callable[..., Any]:
    """The step, whose errors are shown by their own sentence, and which is tried again after what may pass by itself.

    A retry policy of Dagster would try a step again that somebody stopped, and one that only a person can mend.
    """
    if inspect.isgeneratorfunction(step):

        @functools.wraps(step)
        def several(*arguments: Any, **named: Any) -> Iterator[Any]:
            with as_failure(max_retries):
                yield from step(*arguments, **named)

        return several

    @functools.wraps(step)
    def one(*arguments: Any, **named: Any) -> Any:
        with as_failure(max_retries):
            return step(*arguments, **named)

    return one


def cause_of(error: BaseException) -> BaseException:
    """The error that a step raised, without what Dagster wraps around it."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    # Dagster re-raises in handlers, so that a chain of contexts may come back to an error it has passed.
    while found is not None and all(found is not passed for passed in chain):
        chain.append(found)
        found = getattr(found, "user_exception", None) or found.__cause__ or found.__context__
    own = next((link for link in chain if isinstance(link, KbError)), None)
    return own or next((link for link in chain if not isinstance(link, dg.DagsterError | dg.RetryRequested)), chain[-1])


def recorded_failure(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """Which step of a run failed and why, in one sentence, from what Dagster recorded; None when none did."""
    for record in instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=1).records:
        event = record.event_log_entry.get_dagster_event()
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            return f"step {event.step_key} failed: {failure.user_failure_data.description}"
        error = failure.error
        while error is not None and error.cause is not None:
            error = error.cause
        # The first line alone: a database's further ones may quote what an entry says.
        lines = error.message.strip().splitlines() if error is not None else []
        return f"step {event.step_key} failed" + (f": {lines[0]}" if lines else "")
    return None


@contextmanager
def as_failure(max_retries: int = 0) -> Iterator[None]:
    """Errors of ours become failures that Dagster shows by their own sentence."""
    try:
        yield
    except UsageError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except Exception as error:
        if max_retries:
            raise dg.RetryRequested(max_retries, _RETRY_AFTER_SECONDS) from error
        if isinstance(error, KbError):
            raise dg.Failure(str(error)) from error
        raise
