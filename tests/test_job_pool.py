"""Pools of workers: order, crashes, repetition, and the end of all processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from passwright.app.jobs import job_pool
from passwright.app.jobs.job_pool import JobPool, default_processes
from passwright.core.ort.worker_process import WorkerExit

# A worker that sleeps, crashes, crashes only after other requests, or cleans up within a second of SIGTERM.
WORKER = """
import json, os, pathlib, signal, sys, time
served = 0
def clean_up(*_):
    pathlib.Path(f"{os.getpid()}.cleaned").touch()
    time.sleep(0.1)
    os._exit(0)
signal.signal(signal.SIGTERM, clean_up)
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path(f"{os.getpid()}.busy").touch()
    time.sleep(request.get("seconds", 0))
    if request["do"] == "crash" or (request["do"] == "crash if used" and served):
        os.abort()
    served += 1
    print(json.dumps({"pid": os.getpid(), "failure": None}), flush=True)
"""
COMMAND = (sys.executable, "-c", WORKER)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replies(processes: int, *jobs: dict[str, Any]) -> dict[int, Any]:
    return dict(JobPool(COMMAND, processes).replies(jobs))


def pids(folder: Path, kind: str) -> set[int]:
    return {int(p.stem) for p in folder.glob(f"*.{kind}")}


def are_gone(numbers: set[int]) -> bool:
    return not any(Path("/proc", str(n)).exists() for n in numbers)


def test_jobs_are_shared(folder: Path) -> None:
    found = replies(2, *[{"do": "sleep", "seconds": 0.2}] * 4)
    assert sorted(found) == [0, 1, 2, 3]
    assert {reply["pid"] for reply in found.values()} == pids(folder, "busy")
    assert len(pids(folder, "busy")) == 2
    assert are_gone(pids(folder, "busy"))


def test_replies_come_in_the_order_of_their_ends() -> None:
    pool = JobPool(COMMAND, 2)
    started = list[set[int]]()
    pool.on_start = lambda: started.append(set(pool.running))
    numbers = [number for number, _ in pool.replies([{"do": "sleep", "seconds": 1}, {"do": "sleep"}, {"do": "sleep"}])]
    assert numbers == [1, 2, 0]
    assert {0, 1} in started
    assert pool.running == set()


def test_a_crash_costs_one_job() -> None:
    found = replies(1, {"do": "sleep"}, {"do": "crash"}, {"do": "sleep"}, {"do": "crash if used"})
    assert isinstance(found[1], WorkerExit)
    assert found[1].code == -signal.SIGABRT
    pid = {n: found[n]["pid"] for n in (0, 2, 3)}
    assert len({*pid.values()}) == 3  # a new worker after the crash, and for the request that is repeated


@pytest.mark.parametrize("kind", ["sleep", "stubborn"])
def test_workers_end_with_the_consumer(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(job_pool, "END_WAIT", 5.0 if kind == "sleep" else 0.3)
    start = time.monotonic()
    with closing(JobPool(COMMAND, 2).replies([{"do": "sleep"}, *[{"do": kind, "seconds": 60}] * 3])) as found:
        assert next(found)[0] == 0
        while len(pids(folder, "busy")) < 2:
            time.sleep(0.01)
        time.sleep(0.1)
    assert time.monotonic() - start < 30
    assert are_gone(pids(folder, "busy"))
    assert (pids(folder, "cleaned") == pids(folder, "busy")) == (kind == "sleep")


def test_a_worker_that_cannot_start_ends_the_pool() -> None:
    with pytest.raises(FileNotFoundError):
        dict(JobPool(("/no/such/program",), 2).replies([{}]))


def test_processes_fit_into_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_pool, "machine_memory", lambda: 16 << 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    models = [folder / f"{n}.onnx" for n in range(20)]
    for model in models:
        model.write_bytes(b"model")
    assert default_processes(models) == 8
    assert default_processes(models[:3]) == 3
    for model in models[:4]:
        with model.with_name(f"{model.name}.data").open("wb") as data:
            data.truncate(1 << 30)  # a hole
    assert default_processes(models) == 3
    assert default_processes([folder / "missing.onnx"]) == 1
    monkeypatch.setattr(job_pool, "machine_memory", lambda: 1 << 30)
    assert default_processes(models) == 1
