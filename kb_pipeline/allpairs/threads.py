"""Threads for arithmetic: results in the order of the tasks, and no library that starts threads of its own.

Belongs here: the pool and the limits on BLAS and OpenMP. Does not belong here: what is computed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

In = TypeVar("In")
Out = TypeVar("Out")


class _BlasLimit:
    """Counts who needs BLAS at one thread: the first one in sets it, the last one out restores what was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._limit = ThreadpoolController().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = _BlasLimit()
"""Context in which each BLAS call of the process takes one thread: work is spread by threads of our own, and BLAS
threads that wait for a processor taken by another program cost more than they bring."""


def _one_openmp_thread(controller: ThreadpoolController) -> None:
    """Gives the calling worker one OpenMP thread; the setting belongs to the worker and ends with it."""
    controller.limit(limits=1, user_api="openmp")


def usable_threads(threads: int | None) -> int:
    """``threads``, or the number of processors that this process may use."""
    if threads is not None:
        return max(1, threads)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[In], Out], tasks: Iterable[In], threads: int) -> Iterator[Out]:
    """Runs ``work`` on each task in a pool and yields the results in the order of the tasks.

    At most ``2 * threads`` results wait, so a slow reader holds up the pool instead of filling the memory. Until the
    iterator is finished or closed, BLAS calls of the whole process take one thread each.
    """
    with ONE_BLAS_THREAD:
        pool = ThreadPoolExecutor(threads, initializer=_one_openmp_thread, initargs=(ThreadpoolController(),))
        pending: deque[Future[Out]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(work, task))
                if len(pending) > 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
