"""Functions that run in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def begin_call(function: Callable[[], T]) -> Future[T]:
    """Call a function in a thread, in a copy of the context; the interpreter does not wait for it at its end."""
    future, context = Future[T](), copy_context()

    def call() -> None:
        try:
            future.set_result(context.run(function))
        except BaseException as e:  # noqa: BLE001 - for who waits for the result
            future.set_exception(e)

    Thread(target=call, daemon=True).start()
    return future
