"""Limits of time, as a supervisor learns them, and actions at deadlines."""

import _thread
import time
from itertools import count
from time import monotonic
from typing import Any

import pytest
from passwright.core.errors import TimeLimitError
from passwright.core.processes import watchdog
from passwright.core.processes.watchdog import (
    call_after,
    ended_by,
    lift_time_limit,
    require_time,
    required_progress,
    tell_time_limit,
    time_limit,
    time_limit_end,
)
from passwright.core.support import supervision
from passwright.core.support.supervision import PROGRESS, TIME


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The facts that the supervisor of this process would know."""
    told = list[tuple[str, Any]]()
    monkeypatch.setattr(supervision, "_supervisors", lambda _: [lambda *fact: told.append(fact)])
    return told


def test_progress_defers_the_end(told: list[tuple[str, Any]]) -> None:
    steps, start = count(), monotonic()
    with required_progress(lambda: min(2, next(steps)), 0.5, lambda: "it does not return"):
        while next(steps) < 3:
            time.sleep(0.01)
        time.sleep(0.1)
    *limits, (fact, last) = told
    assert (fact, last) == (PROGRESS, None)
    assert 2 <= len(limits) <= 3
    for _, (at, code, text) in limits:
        assert start + 0.5 <= at <= monotonic() + 0.5
        assert (code, text) == (1, "it does not return for 0.5 s; nothing was written")


def test_time_limit_is_told_until_it_is_lifted(told: list[tuple[str, Any]]) -> None:
    phases = iter(["loading", "rewriting"])
    with time_limit(60.0, lambda: f"m.onnx: {next(phases)}"):
        tell_time_limit()
        lift_time_limit()
        tell_time_limit()
    assert [fact for fact, _ in told] == [TIME] * 4
    assert [value and value[1:] for _, value in told] == [
        (4, "m.onnx: loading did not finish within 60 s; nothing was written"),
        (4, "m.onnx: rewriting did not finish within 60 s; nothing was written"),
        None,
        None,
    ]


def test_limit_of_a_part_is_not_told_and_not_lifted(told: list[tuple[str, Any]]) -> None:
    with ended_by(monotonic() + 60):
        tell_time_limit()
        lift_time_limit()
        assert time_limit_end() <= monotonic() + 60
    assert not told
    with pytest.raises(TimeLimitError), ended_by(monotonic()):
        require_time()
    with time_limit(60.0, lambda: "it"), ended_by(monotonic() + 600):
        assert time_limit_end() <= monotonic() + 60


def test_without_a_supervisor_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "call_every", None)
    with required_progress(lambda: 0, 0.1, lambda: "it"):
        pass


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
