"""Values of context variables within a block of code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def set_within_block(variable: ContextVar[T], value: T) -> Generator[None]:
    """Set a context variable, and restore its former value at the end of the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
