"""Worker processes: crashes, deadlines, forks, and ends of the parent."""

import gc
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any, Protocol

import numpy as np
import pytest
from passwright.core.errors import OUT_OF_MEMORY, MemoryExhausted, ModelError
from passwright.core.ort.call_monitor import CallFile
from passwright.core.processes.process_limits import MODEL_MEMORY, stack_bytes, usable_cores
from passwright.core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess
from rewriting import cases
from test_signals import is_gone, wait_until

pytestmark = pytest.mark.usefixtures("_worker_processes_are_new")
SCRIPT = """
import os, sys, time
from passwright.core.errors import ModelError
from passwright.core.processes.worker_process import Parent, RequestFailed
class Local(ModelError):
    pass
class Worker:
    def echo(self, value, pause=0):
        time.sleep(pause)
        return value
    def pid(self):
        return os.getpid()
    def hang(self):
        parent.report("begun")
        parent.expect_within(0.2)
        time.sleep(1000)
    def take_back(self):
        parent.expect_within(1)
        parent.expect_within(None)
        time.sleep(1.3)
        return "done"
    def crash(self):
        parent.report("begun")
        os.abort()
    def end(self, code):
        os._exit(code)
    def fail(self):
        raise ValueError("no such thing")
    def refuse(self):
        raise ModelError("no model")
    def refuse_locally(self):
        raise Local("of a class that nobody else knows")
    def lock(self):
        import threading
        return threading.Lock()
    def take(self, size):
        return len(bytearray(size))
    def print(self):
        print("text")
        os.system("echo text")
        return "printed"
parent = Parent()
parent.serve(Worker(), lambda: float(sys.argv[1]) if sys.argv[1:] else None)
"""


class Worker(Protocol):
    """The methods of the worker."""

    def echo(self, value: Any, pause: float = 0) -> Any: ...
    def pid(self) -> int: ...
    def hang(self) -> None: ...
    def take_back(self) -> str: ...
    def crash(self) -> None: ...
    def end(self, code: int) -> None: ...
    def fail(self) -> None: ...
    def refuse(self) -> None: ...
    def refuse_locally(self) -> None: ...
    def lock(self) -> None: ...
    def take(self, size: int) -> int: ...
    def print(self) -> str: ...


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess[Worker]]:
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0) as process:
        yield process


def test_results_and_failures(worker: WorkerProcess[Worker]) -> None:
    assert worker.call().echo("x") == "x"
    with pytest.raises(RequestFailed, match="no such thing") as error:
        worker.call().fail()
    assert "in fail" in error.value.traceback
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.traceback) == (str(error.value), error.value.traceback)
    with pytest.raises(ModelError, match="no model"):
        worker.call().refuse()
    assert worker.call().print() == "printed"
    assert worker.call().echo(value="y") == "y"


def test_an_exception_is_freed_with_the_arguments(worker: WorkerProcess[Worker]) -> None:
    """Without the cyclic collector, which ends Python 3.11 where it finds a memoryview whose buffer is in use."""
    gc.disable()
    try:
        try:
            worker.call().refuse()
        except ModelError as e:
            error = weakref.ref(e)
        assert error() is None
    finally:
        gc.enable()


def test_what_cannot_be_pickled_is_a_failure(worker: WorkerProcess[Worker]) -> None:
    for refused in (worker.call().refuse_locally, worker.call().lock):
        with pytest.raises(RequestFailed):
            refused()
    assert worker.call().echo("x") == "x"


def test_arrays_of_any_size_pass(worker: WorkerProcess[Worker]) -> None:
    """More than a pipe takes at a time, too, before the process reads."""
    for size in (0, 1, 1 << 14, 1 << 22):
        value = {"x": np.arange(size, dtype=np.float32), "words": np.array(["a"] * 3, object), "text": "t" * size}
        worker.begin(worker.call().echo, value)
        found = worker.reply()
        np.testing.assert_array_equal(found["x"], value["x"])
        assert found["words"].tolist() == ["a"] * 3
        assert found["text"] == value["text"]


def test_large_request_to_a_process_that_does_not_read_ends_in_time() -> None:
    deaf = (sys.executable, "-c", "import time; time.sleep(1000)")
    with WorkerProcess[Worker](deaf, 0.3) as worker, pytest.raises(WorkerExit, match=r"it did not end within 0\.3 s"):
        worker.call().echo(bytes(1 << 22))


def test_result_of_an_earlier_request_is_discarded(worker: WorkerProcess[Worker]) -> None:
    remote = worker.call()
    worker.begin(remote.echo, "x")
    worker.begin(remote.fail)
    worker.begin(remote.refuse)
    worker.begin(remote.echo, "y")
    assert worker.reply() == "y"


def test_crashed_worker_is_replaced(worker: WorkerProcess[Worker]) -> None:
    first = worker.call().pid()
    with pytest.raises(WorkerExit) as error:
        worker.call().crash()
    assert (str(error.value), error.value.progress) == ("it crashed (SIGABRT)", "begun")
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.progress) == (str(error.value), "begun")
    assert worker.call().pid() != first


def test_worker_that_misses_its_deadline_is_killed(worker: WorkerProcess[Worker]) -> None:
    with pytest.raises(WorkerExit) as error:
        worker.call().hang()
    assert (str(error.value), error.value.code) == ("it did not end within 0.2 s", None)
    assert error.value.progress == "begun"


def test_deadline_can_be_taken_back(worker: WorkerProcess[Worker]) -> None:
    assert worker.call().take_back() == "done"


def test_limit_of_a_call(worker: WorkerProcess[Worker]) -> None:
    assert worker.call(30.0).echo("x") == "x"
    with pytest.raises(WorkerExit, match=r"it did not end within 0\.1 s"):
        worker.call(0.1).echo("x", pause=100)


def test_crash_of_a_used_process_is_retried(worker: WorkerProcess[Worker], tmp_path: Path) -> None:
    first = worker.call().pid()
    with pytest.raises(WorkerExit):
        worker.call(retry=True).crash()
    assert worker.call(retry=True).pid() != first


@pytest.mark.parametrize("garbage", [b"\1\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0wrong", b"\377" * 64])
def test_reply_that_is_garbled_is_a_failure(garbage: bytes) -> None:
    text = f"import os, time; os.read(0, 1); os.write(1, {garbage!r}); time.sleep(1000)"
    with WorkerProcess[Worker]((sys.executable, "-c", text), 30.0) as worker:
        with pytest.raises(RequestFailed, match="its reply cannot be read"):
            worker.call().echo("x")
        assert not worker.is_alive


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_memory_is_limited_from_the_start() -> None:
    """Without a limit for a model, a process has the memory for a small one; a limit is for later processes, too."""
    stacks = stack_bytes(2 * usable_cores())
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0) as worker:
        worker.start()
        assert limit_of(worker.pid) == MODEL_MEMORY + stacks
        worker.limit_memory(2 * MODEL_MEMORY)
        assert limit_of(worker.pid) == 2 * MODEL_MEMORY + stacks
        worker.terminate()
        worker.start()
        assert limit_of(worker.pid) == 2 * MODEL_MEMORY + stacks
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0, memory=None) as worker:
        worker.start()
        assert limit_of(worker.pid) == limit_of(0)


def limit_of(pid: int | None) -> int:
    """The bytes that a process may allocate; 0 for this one."""
    import resource

    assert pid is not None
    return resource.prlimit(pid, resource.RLIMIT_DATA)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_a_lack_of_memory_is_said(worker: WorkerProcess[Worker]) -> None:
    with pytest.raises(MemoryExhausted, match=f"its process {OUT_OF_MEMORY}"):
        worker.call().take(2 * MODEL_MEMORY)
    assert worker.call().echo("x") == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
def test_a_request_beyond_the_memory_is_refused() -> None:
    """The thread that reads requests has no place for it, nor for the next arrays."""
    large = np.zeros(16 << 20)
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0) as worker:
        first = worker.call().pid()
        worker.limit_memory(100 << 20)
        with pytest.raises(MemoryExhausted, match=f"its process {OUT_OF_MEMORY}"):
            worker.call().echo([large, large[:9]])
        assert worker.call().echo("x") == "x"
        assert worker.call().pid() == first


def test_fork_has_a_worker_of_its_own(worker: WorkerProcess[Worker]) -> None:
    first = worker.call().pid()
    child = os.fork()
    if child == 0:
        own = worker.call().pid()
        sys.stdout.flush()
        worker.terminate()
        os._exit(0 if own != first else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.call().pid() == first


def test_idle_worker_ends() -> None:
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT, "0.2"), 30.0) as worker:
        first = worker.call().pid()
        wait_until(lambda: is_gone(first))
        worker.begin(worker.call().pid)
        assert worker.reply() != first


@pytest.mark.skipif(sys.platform == "win32", reason="no signals here")
def test_request_to_a_worker_that_is_ending_because_it_was_idle(tmp_path: Path) -> None:
    """It takes no request any more, but its process is still there."""
    ending, sent = tmp_path / "ending", tmp_path / "sent"
    text = f"""
import atexit, os, sys, time

def wait():
    open(sys.argv[2], "w").close()
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.01)

atexit.register(wait)
{SCRIPT}"""
    with WorkerProcess[Worker]((sys.executable, "-c", text, "0.2", str(ending), str(sent)), 30.0) as worker:
        worker.start()
        wait_until(ending.exists)
        assert worker.is_alive
        worker.begin(worker.call().echo, "x")
        sent.touch()
        assert worker.reply() == "x"


def test_request_that_ends_the_process_is_not_sent_again(tmp_path: Path) -> None:
    """Whatever the exit code: code of a plugin may end the process as if all were well."""
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0) as worker:
        first = worker.call().pid()
        for code in (0, 3):
            worker.begin(worker.call().end, code)
            with pytest.raises(WorkerExit, match=f"exit code {code}"):
                worker.reply()
        assert worker.call().pid() != first


def test_request_to_a_worker_that_was_asked_to_end_is_not_sent_again(tmp_path: Path) -> None:
    text = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "sys.stdin.buffer.read(1)\nopen(sys.argv[1], 'a').write('x')\ntime.sleep(1000)"
    )
    with WorkerProcess[Worker]((sys.executable, "-c", text, str(tmp_path / "taken")), 30.0) as worker:
        worker.begin(worker.call().pid)
        wait_until((tmp_path / "taken").exists)
        worker.ask_to_end()
        with pytest.raises(WorkerExit):
            worker.reply()
    assert (tmp_path / "taken").stat().st_size <= 1


@cases(
    ("code", "message"),
    {
        "with each request": ("import sys; sys.stdin.buffer.read(1)", "it ended with exit code 0"),
        "loader without memory": (
            "import os; os._exit(127)", "it ended with exit code 127, possibly because memory ran out"),
    },
)  # fmt: skip
def test_worker_that_ends_is_reported(code: str, message: str) -> None:
    with WorkerProcess[Worker]((sys.executable, "-c", code), 30.0) as worker, pytest.raises(WorkerExit, match=message):
        worker.call().pid()


def test_crash_between_requests_is_reported() -> None:
    with WorkerProcess[Worker]((sys.executable, "-c", SCRIPT), 30.0) as worker:
        first = worker.call().pid()
        os.kill(first, SIGKILL)
        wait_until(lambda: not worker.is_alive)
        with pytest.raises(WorkerExit, match=r"it crashed \(SIGKILL\)"):
            worker.call().pid()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_worker_ends_with_its_parent(end: str) -> None:
    """Also if a fork of the parent lives on."""
    text = f"""
import os, sys, time
from passwright.core.processes.worker_process import WorkerProcess
worker = WorkerProcess((sys.executable, "-c", {SCRIPT!r}), 30.0)
worker.start()
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(1000)
print(child, worker.call().pid(), flush=True)
{end}
"""
    run = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, check=False)
    child, pid = map(int, run.stdout.split())
    try:
        wait_until(lambda: is_gone(pid))
        assert not is_gone(child)
    finally:
        os.kill(child, 9)


def test_overdue_call_is_seen_by_the_parent(tmp_path: Path) -> None:
    mine, parents = CallFile(tmp_path / "call"), CallFile(tmp_path / "call")
    assert parents.read() == {}
    parents.create()
    mine.attach()
    mine.begin({"model": "a" * 999}, 0.0)
    assert not parents.look()[1]  # it may have been read half written
    assert parents.look() == ({"model": "a" * 999}, True)
    mine.begin({"run": 1}, 60.0)
    assert not parents.look()[1]
    assert (parents.read()["facts"], parents.read()["limit"]) == ({"run": 1}, 60.0)
    mine.begin({}, None)
    assert not parents.look()[1]
    mine.end({"run": 1})
    assert parents.read() == {"after": {"run": 1}}
    mine.begin({}, 0.0)
    parents.create()
    assert parents.read() == {}
