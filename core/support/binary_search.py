"""Searching by halves."""

from __future__ import annotations

from collections.abc import Callable


def first_bad(good: int, bad: int, is_bad: Callable[[int], bool]) -> int:
    """The first bad number after `good`, which is known to be good, up to `bad`, which is known to be bad.

    ceil(log2(bad - good)) probes. If bad and good ones alternate: a bad one whose predecessor is good.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle):
            bad = middle
        else:
            good = middle
    return bad
