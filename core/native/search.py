"""Which of many things something is due to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..bisect import first_bad


def needed(items: Sequence[str], happens: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """Items with which it happens, none of which can be left out; log2(len(items)) probes each, and one more.

    It must be known to happen with all of `items`. The first one found is the first, going through `items`,
    at which it starts to happen.
    """
    found: tuple[str, ...] = ()
    rest = tuple(items)
    while not happens(found):
        last = _first(found, rest, happens)
        found = (*found, rest[last - 1])
        rest = rest[: last - 1]
    for item in found:  # a later one may have made an earlier one superfluous
        fewer = tuple(i for i in found if i != item)
        if len(found) > 1 and happens(fewer):
            found = fewer
    return found


def _first(found: tuple[str, ...], rest: tuple[str, ...], happens: Callable[[tuple[str, ...]], bool]) -> int:
    """How many of `rest` it takes, with `found`, for it to happen."""
    return first_bad(0, len(rest), lambda n: happens((*found, *rest[:n])))
