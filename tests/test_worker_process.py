"""Worker processes: crashes, deadlines, forks, and ends of the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import pytest
from passwright.core.ort.call_monitor import CallFile
from passwright.core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess
from test_signals import is_gone, wait_until

SCRIPT = """
import os, sys, time
from passwright.core.ort.worker_process import serve
def handler(request):
    yield {"echo": request["do"], "pid": os.getpid()}
    if request["do"] == "hang":
        yield {"next_within": 0.2}
        time.sleep(1000)
    if request["do"] == "take back":
        yield {"next_within": 0.2}
        yield {"next_within": None}
        time.sleep(0.5)
    if request["do"] == "crash":
        os.abort()
    if request["do"] == "fail":
        raise ValueError("no such thing")
serve(handler, idle_limit=lambda: float(sys.argv[1]) if sys.argv[1:] else None, clean_up=lambda: None)
"""


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    with WorkerProcess((sys.executable, "-c", SCRIPT), 30.0) as process:
        yield process


def test_replies_and_failures(worker: WorkerProcess) -> None:
    assert worker.request({"do": "x"})["echo"] == "x"
    with pytest.raises(RequestFailed, match="no such thing") as error:
        worker.request({"do": "fail"})
    assert error.value.parts["echo"] == "fail"
    assert worker.request({"do": "y"})["echo"] == "y"


def test_reply_to_an_earlier_request_is_discarded(worker: WorkerProcess) -> None:
    worker.begin({"do": "x"})
    worker.begin({"do": "fail"})
    worker.begin({"do": "y"})
    assert worker.reply()["echo"] == "y"


def test_crashed_worker_is_replaced(worker: WorkerProcess) -> None:
    first = worker.request({"do": "x"})["pid"]
    with pytest.raises(WorkerExit) as error:
        worker.request({"do": "crash"})
    assert (str(error.value), error.value.parts["echo"]) == ("it crashed (SIGABRT)", "crash")
    assert worker.request({"do": "x"})["pid"] != first


def test_worker_that_misses_its_deadline_is_killed(worker: WorkerProcess) -> None:
    with pytest.raises(WorkerExit) as error:
        worker.request({"do": "hang"})
    assert (str(error.value), error.value.code) == ("it did not end within 0.2 s", None)


def test_deadline_can_be_taken_back(worker: WorkerProcess) -> None:
    assert worker.request({"do": "take back"})["echo"] == "take back"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_has_a_worker_of_its_own(worker: WorkerProcess) -> None:
    first = worker.request({"do": "x"})["pid"]
    child = os.fork()
    if child == 0:
        own = worker.request({"do": "y"})
        sys.stdout.flush()
        worker.terminate()
        os._exit(0 if own["echo"] == "y" and own["pid"] != first else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.request({"do": "z"})["pid"] == first


def test_idle_worker_ends() -> None:
    with WorkerProcess((sys.executable, "-c", SCRIPT, "0.2"), 30.0) as worker:
        first = worker.request({"do": "x"})["pid"]
        wait_until(lambda: is_gone(first))
        worker.begin({"do": "y"})
        assert worker.reply()["pid"] != first


@pytest.mark.skipif(sys.platform == "win32", reason="no signals here")
def test_request_to_a_worker_that_is_ending_because_it_was_idle(tmp_path: Path) -> None:
    """It takes no request any more, but its process is still there."""
    ending, text = tmp_path / "ending", f"{SCRIPT}open(sys.argv[2], 'w').close()\ntime.sleep(1)"
    with WorkerProcess((sys.executable, "-c", text, "0.2", str(ending)), 30.0) as worker:
        worker.start()
        wait_until(ending.exists)
        assert worker.is_alive
        assert worker.request({"do": "x"})["echo"] == "x"


def test_request_to_a_worker_that_was_asked_to_end_is_not_sent_again(tmp_path: Path) -> None:
    text = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "input()\nopen(sys.argv[1], 'a').write('x')\ntime.sleep(1000)"
    )
    with WorkerProcess((sys.executable, "-c", text, str(tmp_path / "taken")), 30.0) as worker:
        worker.begin({"do": "x"})
        wait_until((tmp_path / "taken").exists)
        worker.ask_to_end()
        with pytest.raises(WorkerExit):
            worker.reply()
    assert (tmp_path / "taken").stat().st_size <= 1


def test_worker_that_ends_with_each_request_is_reported() -> None:
    with WorkerProcess((sys.executable, "-c", "input()"), 30.0) as worker:
        with pytest.raises(WorkerExit) as error:
            worker.request({"do": "x"})
        assert error.value.code == 0


def test_crash_between_requests_is_reported() -> None:
    with WorkerProcess((sys.executable, "-c", SCRIPT), 30.0) as worker:
        first = worker.request({"do": "x"})["pid"]
        os.kill(first, SIGKILL)
        wait_until(lambda: not worker.is_alive)
        with pytest.raises(WorkerExit, match=r"it crashed \(SIGKILL\)"):
            worker.request({"do": "y"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_worker_ends_with_its_parent(end: str) -> None:
    """Also if a fork of the parent lives on."""
    text = f"""
import os, sys, time
from passwright.core.ort.worker_process import WorkerProcess
worker = WorkerProcess((sys.executable, "-c", {SCRIPT!r}), 30.0)
worker.start()
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(1000)
print(child, worker.request({{"do": "x"}})["pid"], flush=True)
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
