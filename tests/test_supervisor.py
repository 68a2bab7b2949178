"""Supervisors: the process of a command ends at its limits, whatever it does, and its exit code is kept."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="without forks there is no supervisor")
START = """
import os, signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from passwright.core.processes.supervisor import supervise_command
supervise_command()
from passwright.core.processes import watchdog
watchdog.GRACE = 0.1
from passwright.core.processes.watchdog import lift_time_limit, required_progress, time_limit
from passwright.core.support.scratch_folder import ScratchFolder
from passwright.core.support.supervision import OUTCOME, PHASE, tell
from passwright.app.cli.signals import unwind_on_sigterm
def hold():
    "Native code that never lets another thread or a signal handler of Python run."
    print("held", flush=True)
    sum(range(10**12))
"""
NO_END = (
    "error: the command did not finish: code that it called ended its process with exit code 0; nothing was written\n"
)
LIMIT = "error: m.onnx: rewriting did not finish within 0.1 s; nothing was written\n"


def started(tmp_path: Path, script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START + script], cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param("print('done', file=sys.stderr)", 0, "done\n", id="success"),
        pytest.param("sys.exit(3)", 3, "", id="code"),
        pytest.param("folder = ScratchFolder()\nos._exit(0)", 4, NO_END, id="no end"),
        pytest.param("if os.fork() == 0: sys.exit()\nos.wait()\nos._exit(0)", 4, NO_END, id="no end, but of a fork"),
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "", id="terminated"),
        pytest.param(
            "os.kill(os.getpid(), signal.SIGSEGV)",
            4,
            "error: the command crashed (SIGSEGV); nothing was written\n",
            id="crash",
        ),
        pytest.param(
            "tell(OUTCOME, 'o.onnx was written')\nos.kill(os.getpid(), signal.SIGKILL)",
            4,
            "error: the command crashed (SIGKILL), possibly because memory ran out; o.onnx was written\n",
            id="killed",
        ),
        pytest.param("with time_limit(0.1, lambda: 'm.onnx: rewriting'): hold()", 4, LIMIT, id="time"),
        pytest.param(
            "folder = ScratchFolder()\nif os.fork() == 0: hold()\n"
            "with time_limit(0.1, lambda: 'm.onnx: rewriting'): hold()",
            4,
            LIMIT,
            id="children and folders",
        ),
        pytest.param(
            "with required_progress(lambda: 0, 0.1, lambda: 'it does not return'): hold()",
            1,
            "error: it does not return for 0.1 s; nothing was written\n",
            id="progress",
        ),
        pytest.param(
            "import time\nwith time_limit(0.1, lambda: 'it'):\n    lift_time_limit()\n    time.sleep(0.4)",
            0,
            "",
            id="lifted",
        ),
    ],
)
def test_ends(tmp_path: Path, script: str, code: int, message: str) -> None:
    process = started(tmp_path, script)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, message)
    assert list(tmp_path.iterdir()) == []


def test_end_at_the_start_is_no_interruption(tmp_path: Path) -> None:
    """OpenBLAS sends its process SIGINT where it cannot start threads."""
    process = started(tmp_path, "os.kill(os.getpid(), signal.SIGINT)")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4
    assert errors.splitlines()[-1] == (
        "error: the command ended while starting, possibly because memory or threads ran out: see `ulimit -a`"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux applies these limits")
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_too_little_memory_to_start(name: str) -> None:
    import resource

    def limit(size: int) -> Callable[[], None]:
        kind = getattr(resource, name)
        return lambda: resource.setrlimit(kind, (size, size))

    for size in (40 << 20, 200 << 20):
        command = [sys.executable, "-m", "passwright", "info", "nowhere.onnx"]
        ended = subprocess.run(command, preexec_fn=limit(size), capture_output=True, text=True, check=False, timeout=60)
        assert (ended.returncode, ended.stdout) == (4, "")
        assert ended.stderr == (
            "error: a command needs 256 MB of memory, more than this process may have: see `ulimit -a`\n"
        )


@pytest.mark.parametrize(
    ("number", "before", "message"),
    [
        pytest.param(signal.SIGTERM, "", "interrupted while loading; nothing was written\n", id="SIGTERM"),
        pytest.param(signal.SIGINT, "", "interrupted while loading; nothing was written\n", id="SIGINT"),
        pytest.param(signal.SIGINT, "Terminal().last_line('interrupted')", "interrupted\n", id="which it has said"),
    ],
)
def test_signals_end_native_code(tmp_path: Path, number: signal.Signals, before: str, message: str) -> None:
    script = f"from passwright.app.report.terminal import Terminal\nfolder = ScratchFolder()\n{before}\n"
    process = started(tmp_path, f"{script}tell(PHASE, 'loading')\nwith unwind_on_sigterm(): hold()")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    time.sleep(0.2)  # until it is in native code
    start = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 10
    assert (process.returncode, errors) == (128 + number, message)
    assert list(tmp_path.iterdir()) == []


def test_interruption_counts_once(tmp_path: Path) -> None:
    """A terminal sends it to the command and to its supervisor, which passes it on."""
    script = """
with unwind_on_sigterm():
    try:
        print("held", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGINT)
        print("cleaned", flush=True)
        sys.exit(130)
"""
    process = started(tmp_path, script)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "cleaned\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends a signal at the end of a parent")
def test_command_ends_with_its_supervisor(tmp_path: Path) -> None:
    process = started(tmp_path, "print(os.getpid(), flush=True)\nhold()")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)  # the pipe ends with the child
    assert not Path(f"/proc/{child}/cmdline").is_file() or not Path(f"/proc/{child}/cmdline").read_bytes()
