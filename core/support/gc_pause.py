"""Pauses of Python's cyclic garbage collector: while modules are imported, and while a graph is built or rewritten.

Pauses keep it from noticing how much garbage graphs are, so that graphs are counted here.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

MAX_UNCOLLECTED_BYTES = 512 << 20  # of graphs that were made since garbage was collected last
GRAPH_BYTES = 2 << 20  # a graph counts as so much more than its weights: it may hold files open
COLLECTION_THRESHOLD = 200_000  # objects: with Python's 700, imports are a tenth of collecting no garbage


def collect_seldom() -> None:
    """Let a process collect first when it has more objects than all modules of this package make.

    For processes of our own, before they import them.
    """
    gc.set_threshold(COLLECTION_THRESHOLD)


_uncollected = [0]  # bytes
_has_frozen = [False]  # as `gc.get_freeze_count` counts all objects one by one


def freeze_once() -> None:
    """Let the collector traverse what is alive now, as modules are, no more. The first call counts."""
    if not _has_frozen[0]:
        gc.freeze()
        _has_frozen[0] = True


def count_graph(weight_bytes: int) -> None:
    """Count a graph that is about to be made; if there were many or large ones, free first those that are garbage."""
    if _uncollected[0] >= MAX_UNCOLLECTED_BYTES:
        _uncollected[0] = 0
        gc.collect()
    _uncollected[0] += weight_bytes + GRAPH_BYTES


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
            if not _has_frozen[0]:
                gc.freeze()  # moves the graph to the oldest generation; the next young collection would traverse it
                gc.unfreeze()
            gc.enable()
