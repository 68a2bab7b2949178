"""Code that hangs is ended, other code is let be."""

from __future__ import annotations

import time
from itertools import count

import pytest
from passwright.core.watchdog import Stuck, watched


def spin(seconds: float) -> int:
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n += 1
    return n


def test_what_gets_nowhere_is_ended() -> None:
    start = time.monotonic()
    with pytest.raises(Stuck), watched(lambda: 0, 0.1):
        spin(30)
    assert time.monotonic() - start < 10


def test_catching_exceptions_is_no_way_out() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(30)
            except Exception:  # noqa: BLE001 - what a careless pass might do
                continue

    with pytest.raises(Stuck), watched(lambda: 0, 0.1):
        stubborn()


def test_what_gets_on_may_take_its_time() -> None:
    steps = count()
    with watched(lambda: next(steps), 0.1):
        assert spin(0.5)


def test_nothing_comes_afterwards() -> None:
    for _ in range(50):
        with watched(lambda: 0, 1e-9):
            pass
    assert spin(0.3)
