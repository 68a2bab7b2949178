"""The command where standard streams are closed, full or in ASCII, and where its folder is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import onnx
import pytest
from rewriting import load

if TYPE_CHECKING:
    from pathlib import Path

RUN = f"{sys.executable} -m passwright run m.onnx --no-verify"
INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(0, signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
{before}
sys.argv = ["passes", "run", "m.onnx", "--no-verify"]
from passwright.__main__ import main
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    (tmp_path / "gone").mkdir()
    return tmp_path


def test_standard_streams(folder: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "0"}
    commands = {
        "closed": f"{RUN} -o closed.onnx <&- >&- 2>&-",
        "full": f"{RUN} -o full.onnx >/dev/full",
        "full of JSON": f"{RUN} --json - >/dev/full",
        "no folder": f"cd gone && rmdir ../gone && {RUN}",
        "not ASCII": f"{RUN} -o \N{LATIN SMALL LETTER E WITH ACUTE}.onnx",
    }
    processes = {
        name: subprocess.Popen(
            command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for name, command in commands.items()
    }
    found = {name: (*map(bytes.decode, p.communicate()), p.returncode) for name, p in processes.items()}
    assert found["closed"] == ("", "", 0)
    written = {
        (folder / f"{name}.onnx").read_bytes() for name in ("closed", "full", "\N{LATIN SMALL LETTER E WITH ACUTE}")
    }
    assert len(written) == 1
    for name in ("full", "full of JSON"):
        message = "error: cannot write to standard output: No space left on device; the output files are written\n"
        assert found[name] == ("", message, 1)
    assert found["no folder"] == ("", "error: the current folder cannot be used: No such file or directory\n", 1)
    assert r"written to \xe9.onnx" in found["not ASCII"][0]


@pytest.mark.parametrize(
    ("module", "before", "code"),
    [
        pytest.param("passwright.app.cli.entry", "", -2, id="imports"),
        pytest.param(
            "",
            "import passwright.app.cli.entry as e\ne.limit_memory = lambda _: os.kill(0, signal.SIGINT)",
            -2,
            id="before its handlers",
        ),
        pytest.param("passwright.app.models.single_run", "", 130, id="command"),
    ],
)
def test_interrupts_have_no_traceback(folder: Path, module: str, before: str, code: int) -> None:
    command = [sys.executable, "-c", INTERRUPT.format(module=module, before=before)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, check=False, timeout=300, start_new_session=True
    )  # as to all processes that a terminal started
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_tracebacks_are_printable(folder: Path) -> None:
    code = (
        "import sys; from passwright.app.cli import entry; sys.argv = ['passes', 'info', 'm.onnx']\n"
        "def fail(*_): raise RuntimeError('a\\n::error::\\x1b[31m') from ValueError('b\\r\\n::error::c')\n"
        "entry.load_command = fail; entry.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    lines = done.stderr.decode().split("\n")
    assert "Traceback (most recent call last):" in lines
    assert all(line.isprintable() and not line.startswith("::") for line in lines)
