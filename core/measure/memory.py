"""How many models may be in memory at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psutil

SHARE = 0.5  # of the memory that is available: what larger batches take is not known before they run


def groups(needs: Sequence[int], room: int, baseline: int) -> Iterator[list[int]]:
    """Places of models in groups whose needs have room together, each with that of the `baseline`."""
    group, taken = [baseline], needs[baseline]
    for place, need in enumerate(needs):
        if place == baseline:
            continue
        if len(group) > 1 and taken + need > room:
            yield sorted(group)
            group, taken = [baseline], needs[baseline]
        group.append(place)
        taken += need
    yield sorted(group)


def room() -> int:
    """Bytes that models may take together."""
    return int(psutil.virtual_memory().available * SHARE)
