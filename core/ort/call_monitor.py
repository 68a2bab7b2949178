"""Calls of backends, as told to a monitor: they may crash or hang, so another process has to know of them before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

Facts = Mapping[str, Any]
CallMonitor = Callable[[Facts | None, float | None], None]
"""Is called before each call of a backend with the facts about it and its time limit in seconds (None: without limit),
and after it with None."""
_MONITOR: ContextVar[CallMonitor | None] = ContextVar("_MONITOR", default=None)
_FACTS: ContextVar[Facts] = ContextVar("_FACTS", default=MappingProxyType({}))


@contextmanager
def monitored_by(monitor: CallMonitor) -> Generator[None]:
    """Report the calls of the block to `monitor`."""
    token = _MONITOR.set(monitor)
    try:
        yield
    finally:
        _MONITOR.reset(token)


@contextmanager
def call_facts(**facts: Any) -> Generator[None]:
    """Report the calls of the block with these facts too, such as whose model it is."""
    token = _FACTS.set({**_FACTS.get(), **facts})
    try:
        yield
    finally:
        _FACTS.reset(token)


@contextmanager
def backend_call(limit: float | None) -> Generator[None]:
    """Report the block as a call that takes at most `limit` seconds."""
    monitor = _MONITOR.get()
    if monitor is None:
        yield
        return
    monitor(_FACTS.get(), limit)
    try:
        yield
    finally:
        monitor(None, None)
