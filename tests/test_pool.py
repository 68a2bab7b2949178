"""Pools of workers: order, crashes, repetition, and the end of all processes."""

import gc
import os
import signal
import sys
import time
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from passwright.app.commands.actions import ACTIONS
from passwright.app.models import worker
from passwright.app.models.exchange import JobReply, job_request
from passwright.app.models.model_files import ModelJob
from passwright.app.models.pool import (
    BASE_BYTES,
    BYTES_PER_BYTE,
    MEMORY,
    REPEATED,
    SECONDS,
    ProcessPool,
    default_processes,
    model_memory,
)  # fmt: skip
from passwright.app.models.worker import JobWorker
from passwright.core.processes.worker_process import WorkerExit
from process_faults import are_gone

# A worker that sleeps, waits for a file or until others are busy, crashes, crashes only after other requests, or cleans
# up within a second of SIGTERM.
WORKER = """
import os, pathlib, signal, time
from passwright.core.processes.worker_process import serve
def clean_up(*_):
    pathlib.Path(f"{os.getpid()}.cleaned").touch()
    time.sleep(0.1)
    os._exit(0)
class Worker:
    served = 0
    def reply_to(self, request):
        if request["do"] == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path(f"{os.getpid()}.busy").touch()
        time.sleep(request.get("for", 0))
        while len([*pathlib.Path().glob("*.busy")]) < request.get("busy", 0):
            time.sleep(0.01)
        while request["do"] == "wait" and not os.path.exists("go"):
            time.sleep(0.01)
        if request["do"] == "crash" or (request["do"] == "crash if used" and self.served):
            os.abort()
        self.served += 1
        return {"pid": os.getpid()}
signal.signal(signal.SIGTERM, clean_up)
serve(Worker())
"""
COMMAND = (sys.executable, "-c", WORKER)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replies(processes: int, *jobs: dict[str, Any]) -> dict[int, Any]:
    return dict(ProcessPool(COMMAND, processes).replies(jobs))


def pids(folder: Path, kind: str) -> set[int]:
    return {int(p.stem) for p in folder.glob(f"*.{kind}")}


def test_jobs_are_shared(folder: Path) -> None:
    found = replies(2, *[{"do": "meet", "busy": 2}] * 4)
    assert sorted(found) == [0, 1, 2, 3]
    assert {reply["pid"] for reply in found.values()} == pids(folder, "busy")
    assert len(pids(folder, "busy")) == 2
    assert are_gone(pids(folder, "busy"))


def test_replies_come_in_the_order_of_their_ends(folder: Path) -> None:
    pool = ProcessPool(COMMAND, 2)
    started = list[set[int]]()
    pool.on_start = lambda: started.append(set(pool.running))
    numbers = list[int]()
    for number, _ in pool.replies([{"do": "wait"}, {"do": "sleep"}, {"do": "sleep"}]):
        numbers.append(number)
        if len(numbers) == 2:
            (folder / "go").touch()
    assert numbers == [1, 2, 0]
    assert {0, 1} in started
    assert pool.running == set()


def test_a_crash_costs_one_job(folder: Path) -> None:
    found = replies(1, {"do": "sleep"}, {"do": "crash"}, {"do": "sleep"}, {"do": "crash if used"})
    assert isinstance(found[1], WorkerExit)
    assert found[1].code == -signal.SIGABRT
    pid = {n: found[n]["pid"] for n in (0, 2, 3)}
    assert len({*pid.values()}) == 3  # a new worker after the crash, and for the request that is repeated
    assert len(pids(folder, "busy")) == 4
    assert [n for n in pid if REPEATED in found[n]] == [3]
    assert found[3][REPEATED] == "the process crashed (SIGABRT)"


@pytest.mark.parametrize("kind", ["sleep", "stubborn"])
def test_a_hang_ends_at_the_time_limit(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("passwright.app.models.pool.END_WAIT", 30.0 if kind == "sleep" else 0.3)
    found = replies(1, {"do": kind, "for": 600, SECONDS: 0.4}, {"do": "sleep"})
    assert isinstance(found[0], WorkerExit)
    assert found[0].describe("it") == "it did not end within 0.4 s"
    assert found[1]["pid"] in pids(folder, "busy")
    assert are_gone(pids(folder, "busy"))


def test_requests_start_as_they_fit_into_memory() -> None:
    pool = ProcessPool(COMMAND, 3, memory=10)
    together = list[set[int]]()
    pool.on_start = lambda: together.append(set(pool.running))
    needs = [6, 6, 4, 20, 1]
    requests = [{"do": "sleep", "for": 0.3, MEMORY: need} for need in needs]
    assert {number for number, _ in pool.replies(requests)} == {0, 1, 2, 3, 4}
    assert {0, 2} in together
    assert all(sum(needs[n] for n in numbers) <= 10 or numbers == {3} for numbers in together)


@pytest.mark.parametrize("kind", ["sleep", "stubborn"])
def test_workers_end_with_the_consumer(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("passwright.app.models.pool.END_WAIT", 5.0 if kind == "sleep" else 0.3)
    start = time.monotonic()
    with closing(ProcessPool(COMMAND, 2).replies([{"do": "sleep"}, *[{"do": kind, "for": 60}] * 3])) as found:
        assert next(found)[0] == 0
        while len(pids(folder, "busy")) < 2:
            time.sleep(0.01)
        time.sleep(0.1)
    assert time.monotonic() - start < 30
    assert are_gone(pids(folder, "busy"))
    assert (pids(folder, "cleaned") == pids(folder, "busy")) == (kind == "sleep")


def test_a_worker_that_cannot_start_ends_the_pool() -> None:
    with pytest.raises(FileNotFoundError):
        dict(ProcessPool(("/no/such/program",), 2).replies([{}]))


def test_processes_and_models_fit_into_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    for memory, processes in ((16 << 30, 8), (1 << 30, 1), (1 << 20, 1)):
        monkeypatch.setattr("passwright.app.models.pool.default_memory", lambda n=memory: n)
        assert default_processes() == processes
    model = folder / "m.onnx"
    assert model_memory(model) == BASE_BYTES
    model.write_bytes(b"model")
    assert model_memory(model) == BASE_BYTES + 5 * BYTES_PER_BYTE
    with (folder / "m.onnx.data").open("wb") as data:
        data.truncate(1 << 30)  # a hole
    assert model_memory(model) == BASE_BYTES + ((1 << 30) + 5) * BYTES_PER_BYTE


def test_cycles_of_a_job_are_freed_after_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is a cycle, which holds the files of its weights open; a process that does many jobs collects seldom."""

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    cycles = list[weakref.ref[Cycle]]()

    def perform(*_: object) -> JobReply:
        cycles.append(weakref.ref(Cycle()))
        return JobReply({})

    monkeypatch.setattr(worker, "perform", perform)
    (folder / "m.onnx").touch()
    gc.disable()
    try:
        JobWorker(ACTIONS).reply_to(job_request(ModelJob(folder / "m.onnx"), "run", {}).message())
    finally:
        gc.enable()
    assert [cycle() for cycle in cycles] == [None]
