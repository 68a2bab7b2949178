"""Pauses of Python's cyclic garbage collector: while modules are imported, and while a graph is built or rewritten."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

COLLECTION_THRESHOLD = 200_000  # objects: with Python's 700, imports are a tenth of collecting no garbage


def collect_seldom() -> None:
    """Let a process collect first when it has more objects than all modules of this package make.

    For processes of our own, before they import them.
    """
    gc.set_threshold(COLLECTION_THRESHOLD)


def collect_after_job() -> None:
    """Free the cycles that a job of a long-lived process has left, such as graphs, and the files that they hold open.

    What is alive after the first one, as modules are, is traversed no more.
    """
    gc.collect()
    _freeze_once()


@cache
def _freeze_once() -> None:
    gc.freeze()


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the collector, which would traverse the whole graph repeatedly and free nothing.

    A graph is one large cycle that stays alive; removed ops and values are freed by reference counting.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            has_frozen = _freeze_once.cache_info().currsize or gc.get_freeze_count()  # which counts slowly
            if not has_frozen:  # otherwise the caller has frozen objects of its own
                gc.freeze()  # moves the graph to the oldest generation; the next young collection would traverse it
                gc.unfreeze()
            gc.enable()
