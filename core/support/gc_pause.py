"""Pauses of Python's cyclic garbage collector: while modules are imported, and while a graph is built or rewritten.

Pauses keep it from noticing how much garbage graphs are, so that is counted here.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

MAX_GRAPHS, MAX_GRAPH_BYTES, MAX_FILES = 1000, 512 << 20, 100  # since garbage was collected last
COLLECTION_THRESHOLD = 200_000  # objects: with Python's 700, imports are a tenth of collecting no garbage


def collect_seldom() -> None:
    """Let a process collect first when it has more objects than all modules of this package make.

    For processes of our own, before they import them.
    """
    gc.set_threshold(COLLECTION_THRESHOLD)


_made = {"graphs": 0, "bytes": 0, "files": 0}


def count_graph(weight_bytes: int) -> None:
    """Count a graph that is about to be made; if there were many or large ones, free first those that are garbage."""
    if _made["graphs"] >= MAX_GRAPHS or _made["bytes"] >= MAX_GRAPH_BYTES:
        _collect()
    _made["graphs"] += 1
    _made["bytes"] += weight_bytes


def count_file() -> None:
    """Count a file that is about to be opened for weights; if there were many, close first those that are garbage."""
    if _made["files"] >= MAX_FILES:
        _collect()
    _made["files"] += 1


def _collect() -> None:
    _made.update(graphs=0, bytes=0, files=0)
    gc.collect()


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
