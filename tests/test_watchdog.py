"""Watchdogs: code without progress is interrupted, other code is not."""

from __future__ import annotations

import _thread
import cProfile
import time
from itertools import count

import pytest
from passwright.core.processes import watchdog
from passwright.core.processes.watchdog import NoProgress, call_after, progress_watchdog


def spin(seconds: float) -> int:
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        n += 1
    return n


def test_watchdog_ends_code_without_progress() -> None:
    with pytest.raises(NoProgress), progress_watchdog(lambda: 0, 0.1):
        spin(60)


def test_watchdog_ends_code_that_catches_exceptions() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(30)
            except Exception:  # noqa: BLE001 - what a careless pass might do
                continue

    with pytest.raises(NoProgress), progress_watchdog(lambda: 0, 0.1):
        stubborn()


def test_watchdog_allows_slow_progress() -> None:
    steps = count()
    with progress_watchdog(lambda: next(steps), 0.1):
        assert spin(0.5)


def test_no_interrupt_after_the_block() -> None:
    for pause in range(20):
        try:
            with progress_watchdog(lambda: 0, 1e-9):
                spin(0.045 + pause / 2000)  # around the time of the interrupt
        except NoProgress:
            continue
    assert spin(0.3)


def test_watchdog_allows_a_profiler() -> None:
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


def test_late_actions_run_in_deadline_order() -> None:
    called: list[str] = []
    with call_after(60, lambda: called.append("in a minute")) as much_later:
        second = call_after(1, lambda: called.append("second"))
        first = call_after(0.01, lambda: called.append("first"))
        with second as is_second, first as is_first:
            assert is_first.wait(60)
            assert is_second.wait(60)
        with call_after(30, lambda: called.append("in half a minute")):
            pass
    assert called == ["first", "second"]
    assert not much_later.is_set()


def test_no_action_is_called_after_its_block() -> None:
    ended, late = list[int](), list[int]()
    for i in range(20):
        with call_after(0.01, lambda i=i: late.append(i) if i in ended else None):
            pass
        ended.append(i)
    time.sleep(0.1)
    assert not late


def test_one_thread_waits_for_all_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(watchdog, "start_new_thread", lambda f, a: started.append(_thread.start_new_thread(f, a)))
    for seconds in (60, 1, 30) * 100:
        with call_after(seconds, lambda: None) as late:
            assert not late.is_set()
    assert len(started) <= 1
