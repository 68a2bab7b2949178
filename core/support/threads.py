"""Functions that run in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def begin_call(function: Callable[[], T]) -> Future[T]:
    """Call a function in a thread, in a copy of the context; the interpreter waits for it at its end."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(copy_context().run, function)
    finally:
        pool.shutdown(wait=False)
