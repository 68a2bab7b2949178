"""Counts of operations, for tests of complexity that depend on no clock and no load."""

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object]) -> int:
    """Count the Python functions that `work` calls."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted
