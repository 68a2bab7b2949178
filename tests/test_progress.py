"""Progress of commands, and their end by Ctrl-C."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.app.cli.entry import app
from passwright.app.optimize.optimize import optimize
from passwright.app.report import terminal as terminal_module
from passwright.app.report.terminal import CurrentPhase, Terminal
from passwright.core import from_onnx
from passwright.core.io.writer import write_model
from passwright.core.run import phase_timer
from passwright.core.run.phase_timer import DETAIL_SECONDS, PhaseTimer
from passwright.core.verify import oracle_process
from rewriting import load
from typer.testing import CliRunner

TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Transpose(a) c = Transpose(b) y = Relu(c) }"
INTERRUPTED = '''
class Interrupted:
    """A pass at which the user presses Ctrl-C."""
    name = "interrupted"
    def run(self, graph, change_log):
        raise KeyboardInterrupt
PASS = Interrupted()
'''
# A worker whose runs of the result wait until this process has seen one of them.
WAITING_WORKER = """
import os, time, passwright.core.ort.backends as b
run = b.LoadedModel.run
def wait_and_run(self, outputs, feeds, timeout=None):
    with b.backend_call(None):
        while os.path.exists({verifying!r}) and not os.path.exists({seen!r}):
            time.sleep(0.001)
    return run(self, outputs, feeds, timeout)
b.LoadedModel.run = wait_and_run
from passwright.core.verify.oracle_worker import main
main()
"""
RUN_OF_RESULT = re.compile(r"verifying: input set \d+ of 200")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(load(TEXT), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_progress_says_what_is_done(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_timer, "DETAIL_SECONDS", 0)
    monkeypatch.setattr(oracle_process, "CALL_TICK", 0.001)
    said, inputs = list[str](), [{"x": np.ones((n, 4), np.float32)} for n in range(200)]
    verifying, seen = model.with_name("verifying"), model.with_name("seen")
    text = WAITING_WORKER.format(verifying=str(verifying), seen=str(seen))
    monkeypatch.setattr(oracle_process, "ORACLE_WORKER", (sys.executable, "-c", text))

    def note(text: str) -> None:
        said.append(text)
        if text.startswith("verifying"):
            (seen if RUN_OF_RESULT.fullmatch(text) else verifying).touch()

    optimize(model, inputs=inputs, progress=note)
    phases = list(dict.fromkeys(text.partition(": ")[0] for text in said))
    assert phases == ["loading", "rewriting", "exporting", "running the original", "verifying"]
    assert any(re.fullmatch(r"rewriting: pass [a-z0-9-]+, \d changes?", text) for text in said)
    assert seen.exists()


def test_details_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    said, now = list[str](), [1.0]
    monkeypatch.setattr(phase_timer, "perf_counter", lambda: now[0])
    timer = PhaseTimer(said.append)
    with timer.phase("rewriting"):
        for n in range(10_000):
            now[0] += 2 * DETAIL_SECONDS * (n in {3000, 6000})
            timer.report(lambda n=n: f"{n} changes")
    assert said == ["rewriting", *(f"rewriting: {n} changes" for n in (0, 3000, 6000))]


def test_written_bytes_are_reported(tmp_path: Path) -> None:
    weights = {f"w{n}": np.ones((64, 64), np.float32) for n in range(4)}
    body = " ".join(f"x{n + 1} = MatMul(x{n}, w{n})" for n in range(4))
    model = from_onnx(load(f"g (float[1,64] x0) => (float[1,64] x4) {{ {body} }}", weights=weights))
    for external in (False, True):
        said: list[tuple[int, int]] = []
        write_model(model, tmp_path / "o.onnx", external=external, report=lambda *pair, said=said: said.append(pair))
        written, totals = zip(*said, strict=True)
        assert list(written) == sorted(written)
        assert len(set(written)) >= 4
        assert 0.9 < written[-1] / totals[-1] < 1.1


@pytest.mark.parametrize("width", [40, 80])
def test_the_line_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal_module, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    monkeypatch.setattr(stream, "isatty", lambda: True)
    terminal = Terminal()
    terminal.phase = CurrentPhase()
    line = terminal._live_line()
    monkeypatch.setattr(terminal, "_live_line", lambda: line)
    with terminal.progress() as progress:
        assert terminal.err.is_terminal
        progress("verifying: input set 3 of 7")
        now[0] = 8.4
        progress("verifying: input set 4 of 7")
        line.refresh()
        progress("rewriting: pass drop-expand-before-broadcast, 1,567,000 changes \x1b[2J")
        now[0] = 1000.0
        line.refresh()
    lines = [re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", stream.getvalue())]
    assert any(line.endswith("verifying: input set 4 of 7, 8 s") for line in lines)
    assert any(line.endswith(", 991 s") and "rewriting: pass drop-expand" in line for line in lines)
    assert max(map(len, lines)) <= width
    assert "\x1b[2J" not in stream.getvalue()


def test_nothing_is_shown_without_a_terminal(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = CliRunner().invoke(app, ["run", str(model)])
        assert (result.exit_code, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout


def test_ctrl_c_says_what_was_kept(model: Path, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(INTERRUPTED)
    command = ["run", str(model), "--plugin", str(tmp_path / "rule.py")]
    out = tmp_path / "out.onnx"
    for arguments, outcome in (
        ([], "nothing was written"),
        (["-o", str(out)], "nothing was written"),
        (["-o", str(model.with_name("old.onnx"))], f"nothing was written, {model.with_name('old.onnx')} is unchanged"),
    ):
        model.with_name("old.onnx").write_text("old")
        result = CliRunner().invoke(app, [*command, *arguments])
        assert (result.exit_code, result.stderr) == (130, f"interrupted while rewriting; {outcome}\n")
    assert not out.exists()
    assert model.with_name("old.onnx").read_text() == "old"


def test_ctrl_c_while_files_are_moved(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.onnx"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("passwright.core.io.publishing._adopt_permissions", interrupt)
    result = invoke("run", model, "-o", out, code=130)
    assert re.fullmatch(
        rf"interrupted while (verifying|writing); {re.escape(str(out))} may be written\n", result.stderr
    )
