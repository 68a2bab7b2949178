"""Code that hangs is ended, other code is let be."""

from __future__ import annotations

import cProfile
import time
from itertools import count

import pytest
from passwright.core.support.watchdog import NoProgress, progress_watchdog


def spin(seconds: float) -> int:
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n += 1
    return n


def test_what_gets_nowhere_is_ended() -> None:
    with pytest.raises(NoProgress), progress_watchdog(lambda: 0, 0.1):
        spin(60)


def test_catching_exceptions_is_no_way_out() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(30)
            except Exception:  # noqa: BLE001 - what a careless pass might do
                continue

    with pytest.raises(NoProgress), progress_watchdog(lambda: 0, 0.1):
        stubborn()


def test_what_gets_on_may_take_its_time() -> None:
    steps = count()
    with progress_watchdog(lambda: next(steps), 0.1):
        assert spin(0.5)


def test_nothing_comes_afterwards() -> None:
    for pause in range(40):
        try:
            with progress_watchdog(lambda: 0, 1e-9):
                spin(0.045 + pause / 4000)  # around the moment at which it is sent
        except NoProgress:
            continue
    assert spin(0.3)


def test_a_profiler_may_run_beside_it() -> None:
    profile = cProfile.Profile()
    with progress_watchdog(lambda: 0, 60):
        pass
    profile.enable()
    try:
        with progress_watchdog(lambda: 0, 60):
            assert sum(map(len, [[1]] * 1000)) == 1000
        assert spin(0.1)
    finally:
        profile.disable()
