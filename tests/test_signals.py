"""Signals to commands: no process is left behind, and no folder unless killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from process_faults import PATIENCE, wait_until
from rewriting import load
from tiers import slow_unless

# An onnxsim that never ends, and writes its process id.
STUCK = """
import os, pathlib, time
pathlib.Path(os.environ["TOLD"]).write_text(str(os.getpid()))
def simplify(model):
    pathlib.Path(os.environ["TOLD"] + ".busy").touch()
    while True:
        time.sleep(0.1)
"""
# Processes that a background job starts inherit that SIGINT is ignored.
RUN = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from passwright.__main__ import main
sys.argv[0] = "passes"
main()"""
# A signal that arrives while an object is finalized, from which Python lets no exception through.
FINALIZED = """
import os, signal, sys, time
from passwright.app.cli.signals import unwind_on_sigterm
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        for _ in range(9):
            time.sleep(0.01)
with unwind_on_sigterm():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Finalized()
    try:
        time.sleep(600)
    finally:
        print("unwound")
"""
# A signal that arrives while a folder is removed.
REMOVED = """
import os, signal
from passwright.app.cli.signals import unwind_on_sigterm
from passwright.core.support import scratch_folder
remove, sent = scratch_folder._remove, []
def interrupted(path):
    if path.name == "a" and not sent:
        sent.append(path)
        os.kill(os.getpid(), signal.SIGTERM)
    remove(path)
with unwind_on_sigterm():
    folder = scratch_folder.ScratchFolder()
    for name in "abc":
        (folder.path / name).touch()
    scratch_folder._remove = interrupted
    del folder
"""
ORT_SESSION_FILE = ".ses"  # which an import of onnxruntime leaves in the temporary folder


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`passes run` while a tool process runs; its temporary files go to `temp`."""
    tool, temp, told = tmp_path / "tool", tmp_path / "temp", tmp_path / "told"
    tool.mkdir()
    temp.mkdir()
    (tool / "onnxsim.py").write_text(STUCK)
    (tool / "onnxsim-0.dist-info").mkdir()
    (tool / "onnxsim-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxsim\nVersion: 0\n")
    onnx.save(load("g (float[2] x) => (float[2] y) { y = Abs(x) }"), tmp_path / "m.onnx")
    environment = os.environ | {"PYTHONPATH": str(tool), "TOLD": str(told), "TMPDIR": str(temp)}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "run", "m.onnx", "--pipeline", "onnxsim", "-o", "o.onnx"],
        cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(told.with_suffix(".busy").exists)
        yield process
    finally:
        process.kill()
        process.wait()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.is_file() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    "how", slow_unless({signal.SIGINT, signal.SIGKILL}, [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
)
def test_no_tool_is_left_behind(running: subprocess.Popen[bytes], tmp_path: Path, how: signal.Signals) -> None:
    running.send_signal(how)
    assert running.wait(PATIENCE) in {128 + how, -how}
    tool = int((tmp_path / "told").read_text())
    wait_until(lambda: is_gone(tool))
    assert how == signal.SIGKILL or not [p for p in (tmp_path / "temp").iterdir() if p.name != ORT_SESSION_FILE]
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_while_an_object_is_finalized(name: str) -> None:
    command = [sys.executable, "-c", FINALIZED.format(name=name)]
    done = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True, check=False)
    assert done.returncode == (128 + signal.SIGTERM if name == "SIGTERM" else -signal.SIGINT)
    assert "ignored" not in done.stderr
    assert done.stdout == "unwound\n"


def test_signal_while_a_folder_is_removed(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", REMOVED], timeout=PATIENCE, env=environment, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())
