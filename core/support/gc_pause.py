"""Python's cyclic garbage collector, out of the way while a graph is built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the collector: it would walk the whole graph again and again, and find nothing.

    A graph is one large cycle that stays alive; what a rewrite removes is freed by reference counts.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # else they are the caller's
                gc.freeze()  # all that is young would be walked at once, and that is the graph: it counts as old now
                gc.unfreeze()
            gc.enable()
