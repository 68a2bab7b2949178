"""Pauses of Python's cyclic garbage collector: during imports, and while a graph is built or rewritten.

During pauses it does not notice that graphs become garbage, so graphs are counted here.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

MAX_UNCOLLECTED_BYTES = 512 << 20  # of graphs that were created since the last collection of garbage
GRAPH_BYTES = 2 << 20  # added to the weights of each graph: it may hold files open
COLLECTION_THRESHOLD = 200_000  # objects; with Python's 700, imports spend a tenth of their time on useless collections


def collect_seldom() -> None:
    """Let a process run its first collection when it has more objects than all modules of this package create.

    For passwright's own processes, before they import these modules.
    """
    gc.set_threshold(COLLECTION_THRESHOLD)


_uncollected = [0]  # bytes
_has_frozen = [False]  # `gc.get_freeze_count` would count all objects one by one


def freeze_once() -> None:
    """Exclude everything that is alive now, such as modules, from collections. Only the first call has an effect."""
    if not _has_frozen[0]:
        gc.freeze()
        _has_frozen[0] = True


def count_graph(weight_bytes: int) -> None:
    """Count a graph that is about to be created; after many or large ones, collect garbage first."""
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
