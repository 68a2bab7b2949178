"""Oracles in a worker process: crashes, hangs and lack of memory, of the original and of rewritten models."""

import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import psutil
import pytest
from commands import invoke
from msgspec.structs import replace
from passwright.core import from_onnx
from passwright.core.errors import ModelError, ModelLoadError, UnverifiableError
from passwright.core.ort.backends import LoadedModel, is_lack_of_memory
from passwright.core.processes.worker_process import worker_pool
from passwright.core.verify import oracle_process
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.oracle_process import OracleProcess
from passwright.core.verify.oracle_start import ORACLE_WORKER
from passwright.core.verify.verification_spec import VerificationSpec
from rewriting import cases, load
from test_cli import UNVERIFIED
from test_signals import PATIENCE, RUN, is_gone, wait_until
from tiers import slow_unless

from passwright import optimize, verify

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
RELU = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"
SHORT_RELU = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
ABS = "g (float[N,4] x) => (float[N,4] y) { y = Abs(x) }"
# onnxruntime believes the declared shape of `a`, and ends the process when Concat copies more than it has room for.
ABORTS = "g (float[3,2] x) => (float[2] y) <float[0] e = {}, float[2] a> { a = Neg(x) y = Concat<axis=0>(e, a) }"
ABORTING_RELU = """g (float[N,4] x) => (float[N,4] y) <float[0] e = {}, float[2] a> {
    a = Neg(x) c = Concat<axis=0>(e, a) y = Relu(x) }"""
# The smallest integer divided by -1 is none (SIGFPE), which extreme inputs show.
DIVIDES = "g (int32[N] x, int32[N] d) => (int32[N] y) { a = Identity(x) y = Div(a, d) }"
MINIMUM = np.iinfo(np.int32).min
CROWDED = """g (float[64] x) => (float[64] y) {
    s = Shape(x) f = Mul(s, k) z = ConstantOfShape(f) t = ReduceSum(z) y = Add(x, t) }"""
HASTY = """
import passwright.core.ort.backends as backends, passwright.core.verify.oracle as oracle
import passwright.core.verify.seeded_session as seeded_session
backends.TERMINATION_GRACE = seeded_session.MIN_RUN_TIMEOUT = 0.5
seeded_session.TIMEOUT_FACTOR = 0.0
from passwright.core.verify.oracle_worker import main
main()
"""
WITH_REGIONS = ComparisonOptions(compare_regions=True)


def process_of(text: str, given: dict[str, Any] | None = None, memory: int | None = None) -> OracleProcess:
    model = load(text)
    spec = VerificationSpec.of(from_onnx(model), given, memory=memory)
    return OracleProcess(model.SerializeToString(), spec, label="m.onnx")


def message_of(text: str) -> bytes:
    return load(text).SerializeToString()


@pytest.fixture
def hasty_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with half a second for each run."""
    monkeypatch.setattr(oracle_process, "ORACLE_WORKER", (sys.executable, "-c", HASTY))


def private_folders(pid: int) -> list[Path]:
    """The folders of the oracles of a process."""
    return list(Path(tempfile.gettempdir()).glob(f"passwright-{pid}-*"))


def test_verdicts_are_those_of_an_oracle() -> None:
    model = load(RELU)
    oracle = Oracle(model.SerializeToString(), VerificationSpec.of(from_onnx(model)))
    known = private_folders(os.getpid())  # of idle workers
    with process_of(RELU) as process:
        assert len(private_folders(os.getpid())) > len(known)
        for other in (SHORT_RELU, ABS):
            expected, found = oracle.compare(message_of(other)), process.compare(message_of(other))
            assert found.to_data() == expected.to_data()
        assert [str(a.input_set) for a in process.runs] == [str(a.input_set) for a in oracle.runs]
        for a, b in zip(process.runs, oracle.runs, strict=True):
            np.testing.assert_array_equal(a.outputs["y"], b.outputs["y"])
            np.testing.assert_array_equal(a.input_set.feeds["x"], b.input_set.feeds["x"])
        one = next(a.input_set for a in process.runs if a.input_set.kind == "negative")
        assert process.compare(message_of(ABS), ComparisonOptions(input_sets=[one])).failure is not None
        assert process.compare(message_of(SHORT_RELU), ComparisonOptions(input_sets=[one])).input_sets == (str(one),)
    assert private_folders(os.getpid()) == known


def test_inputs_of_a_failure_outlive_the_process() -> None:
    with process_of(RELU) as process:
        failure = process.compare(message_of(ABS)).failure
    assert failure is not None
    assert failure.input_set is not None
    assert failure.input_set.feeds["x"].dtype == np.float32


def test_crash_of_a_rewritten_model_is_a_mismatch() -> None:
    with process_of(RELU) as process:
        good = process.compare(message_of(SHORT_RELU)).to_data()
        failure = process.compare(message_of(ABORTING_RELU)).failure
        assert str(failure) == "the rewritten model fails on normal inputs with N=2: onnxruntime crashed (SIGABRT)"
        assert process.compare(message_of(SHORT_RELU)).to_data() == good
        wrong = process.compare(message_of(ABS)).failure
        assert wrong is not None
        first = ComparisonOptions(input_sets=[process.runs[0].input_set])
        assert process.compare(message_of(ABS), first).failure is not None


def test_regions_have_the_same_verdict() -> None:
    oracle = Oracle(message_of(RELU), VerificationSpec.of(from_onnx(load(RELU))))
    wrong_inside = "g (float[N,4] x) => (float[N,4] y) { b = Neg(x) a = Abs(b) y = Relu(a) }"
    with process_of(RELU) as process:
        for other in (SHORT_RELU, ABS, wrong_inside, RELU):
            expected, found = (o.compare(message_of(other), WITH_REGIONS) for o in (oracle, process))
            assert found.to_data() == expected.to_data()
            assert found.changed_regions == expected.changed_regions
    assert found.failure is None


def test_crash_is_a_mismatch_where_regions_are_compared() -> None:
    with process_of(RELU) as process:
        failure = process.compare(message_of(ABORTING_RELU), WITH_REGIONS).failure
        assert str(failure) == "the rewritten model fails on normal inputs with N=2: onnxruntime crashed (SIGABRT)"
        assert process.compare(message_of(SHORT_RELU), WITH_REGIONS).failure is None


def test_original_that_crashes_on_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_process, "MAX_FIRST_CRASHES", 2)
    with pytest.raises(UnverifiableError) as error:
        process_of(ABORTS).wait()
    tried = "all inputs that were tried, normal inputs first"
    assert str(error.value) == f"m.onnx: onnxruntime crashed (SIGABRT) on {tried}"


def test_original_that_crashes_on_some_inputs() -> None:
    extremes = {"x": np.array([MINIMUM, 7], np.int32), "d": np.array([-1, 2], np.int32)}
    with pytest.raises(UnverifiableError, match=r"m.onnx: .* on the given inputs: onnxruntime crashed \(SIGFPE\)"):
        process_of(DIVIDES, extremes).wait()


@cases("crash", {"at once": "os.abort()", "between calls": "self.abort = True"})
def test_inputs_on_which_the_original_crashes_are_left_out(crash: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import os, passwright.core.ort.backends as b; run = b.LoadedModel.run\n"
        "from passwright.core.verify.oracle import Oracle\n"
        "def crash_on_zeros(self, outputs, feeds, timeout=None):\n"
        "    with b.backend_call(9):\n"
        f"        if not feeds['x'].any():\n            {crash}\n"
        "    return run(self, outputs, feeds, timeout)\n"
        "b.LoadedModel.run = crash_on_zeros\n"
        "outputs_on = Oracle._outputs_on\n"
        "def crash_after_zeros(self, *arguments):\n"
        "    outputs = outputs_on(self, *arguments)\n"
        "    if getattr(self._original.session, 'abort', False): os.abort()\n"
        "    return outputs\n"
        "Oracle._outputs_on = crash_after_zeros\n"
        "from passwright.core.verify.oracle_worker import main; main()"
    )
    monkeypatch.setattr(oracle_process, "ORACLE_WORKER", (sys.executable, "-c", text))
    with process_of(RELU) as process:
        left_out = [n for n in process.notes if n.startswith("onnxruntime crashed (SIGABRT) on ")]
        assert left_out
        assert all(n.endswith(", which were skipped") for n in left_out)
        verdict = process.compare(message_of(SHORT_RELU))
        assert verdict.failure is None
        assert set(left_out) <= set(verdict.notes)
        assert all(a.input_set.feeds["x"].any() for a in process.runs)


@cases(
    ("fault", "message"),
    {
        "crash": ("os.kill(os.getpid(), 11)", r"onnxruntime crashed \(SIGSEGV\)"),
        "hang": ("time.sleep(600)", "onnxruntime did not end within 0.3 s"),
    },
)
def test_original_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, message: str) -> None:
    text = (
        "import os, time, passwright.core.ort.backends as b; b.LOAD_TIMEOUT = 0.3; "
        f"b.create_session = lambda *_: {fault}; from passwright.core.verify.oracle_worker import main; main()"
    )
    monkeypatch.setattr(oracle_process, "ORACLE_WORKER", (sys.executable, "-c", text))
    path = tmp_path / "m.onnx"
    path.write_bytes(message_of(RELU))
    with pytest.raises(UnverifiableError, match=f"^m.onnx: {message} as it loads the original$"):
        OracleProcess(path, VerificationSpec.of(from_onnx(load(RELU))), label="m.onnx").wait()


@cases(
    ("fault", "error", "message"),
    {
        "file": ("open('/none/w.bin')", ModelError, "cannot use /none/w.bin: No such file or directory"),
        "memory": ("exec('raise OSError(12, 12)')", UnverifiableError, "ran out of memory"),
    },
)
def test_failure_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, fault: str, error: type[Exception], message: str
) -> None:
    """As of a file of weights that is removed while they are read."""
    text = (
        "from passwright.core.verify.oracle import Oracle; from passwright.core.verify.oracle_worker import main; "
        f"Oracle.compare = lambda *_, **__: {fault}; main()"
    )
    monkeypatch.setattr(oracle_process, "ORACLE_WORKER", (sys.executable, "-c", text))
    with process_of(RELU) as process, pytest.raises(error, match=message):
        process.compare(message_of(RELU))


@pytest.mark.usefixtures("hasty_worker")
def test_hang_that_onnxruntime_cannot_end_is_a_mismatch() -> None:
    original = "g (float[1,1,N] x, float[1,1,K] w) => (float[1,1,N] y) { y = Relu(x) }"
    feeds = {"x": np.ones((1, 1, 4), np.float32), "w": np.ones((1, 1, 0), np.float32)}
    hanging = "g (float[1,1,N] x, float[1,1,K] w) => (float[1,1,N] y) { z = Conv(x, w) y = Relu(x) }"
    with process_of(original, feeds) as process:
        failure = process.compare(message_of(hanging)).failure
        assert str(failure) == "the rewritten model fails on given inputs: onnxruntime did not end within 1 s"
        assert process.compare(message_of(original)).failure is None


@pytest.mark.parametrize("message", ["std::bad_alloc", "pthread_create failed, error code: 12"])
def test_lack_of_memory_for_a_session_is_said(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    monkeypatch.setattr("passwright.core.ort.backends.create_session", Mock(side_effect=RuntimeError(message)))
    with pytest.raises(ModelLoadError, match="onnxruntime ran out of memory") as error:
        LoadedModel(b"")
    assert is_lack_of_memory(error.value)


@pytest.mark.skipif(sys.platform != "linux", reason="no limits of memory")
def test_memory_limit() -> None:
    model = load(CROWDED, weights={"k": np.array([1 << 21], np.int64)})  # half a GB
    spec = replace(VerificationSpec.of(from_onnx(model)), memory=400 << 20)  # else refused by its size
    with pytest.raises(UnverifiableError, match="onnxruntime ran out of memory"):
        OracleProcess(model.SerializeToString(), spec).wait()
    with process_of(SHORT_RELU.replace("N,4", "64"), memory=400 << 20) as process:
        failure = process.compare(model.SerializeToString()).failure
    assert failure is not None
    assert failure.reason == "onnxruntime ran out of memory"


def test_outputs_beyond_the_budget_are_computed_again() -> None:
    with process_of(RELU, memory=400 << 20) as process:
        kept = process.compare(message_of(ABS)).to_data()
    model = load(RELU)
    spec = VerificationSpec.of(from_onnx(model), memory=1)
    assert spec.value_budget == 0
    assert Oracle(model.SerializeToString(), spec).compare(message_of(ABS)).to_data() == kept


def test_commands_end_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_process, "MAX_FIRST_CRASHES", 1)
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(load(ABORTS), path)
    for arguments in (("run", path, "-o", out), ("verify", path, path)):
        result = invoke(*arguments, code=UNVERIFIED)
        assert result.stderr.startswith(f"error: {path}: onnxruntime crashed (SIGABRT) on all inputs")
        assert result.stderr.count("\n") == 1
    assert not out.exists()


CRASHING_RULE = f"""
import numpy as np
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Softsign(x), contract=EXACT)
def crash(g, x):
    \"\"\"Softsign(x) => the smallest integer / -1\"\"\"
    whole = g.Cast(x, to=6)
    zero = g.Sub(whole, whole)
    one = g.const(np.array(1, np.int32))
    return g.Cast(g.Div(g.Add(zero, g.const(np.array({MINIMUM}, np.int32))), g.Sub(zero, one)), to=1)
"""


def test_crashing_change_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(CRASHING_RULE)
    model = load("g (float[2] x) => (float[2] y) { a = Softsign(x) b = Identity(a) y = Relu(b) }")
    result = optimize(model, plugin=[tmp_path / "rules.py"], only=["crash", "drop-identity"])
    (rejected,) = result.report.rejected
    assert (rejected.by, rejected.place) == ("crash", "a")
    assert "onnxruntime crashed (SIGFPE)" in rejected.message
    assert [n.op_type for n in result.model.graph.node] == ["Softsign", "Relu"]


def test_worker_is_kept_and_unverified_runs_start_none() -> None:
    model = load(RELU)
    worker_pool().take(ORACLE_WORKER).terminate()
    optimize(model, verify=False)
    assert not worker_pool().take(ORACLE_WORKER).is_alive
    optimize(model)
    worker = worker_pool().take(ORACLE_WORKER)
    first = worker.pid
    worker_pool().give_back(worker)
    assert first is not None
    verify(model, model)
    worker = worker_pool().take(ORACLE_WORKER)
    assert worker.pid == first
    worker_pool().give_back(worker)


def test_threads_have_workers_of_their_own() -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: optimize(load(RELU)).report.verification, range(4)))
    assert all(v is not None and v.failure is None for v in results)


SCRIPT = f"""
import os, sys, onnx
from passwright import optimize
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 17]> {RELU}')
def ops():
    return [n.op_type for n in optimize(model).model.graph.node]
"""


def test_script_without_a_main(tmp_path: Path) -> None:
    """With names of the standard library beside it, and a process that goes on in a copy of itself."""
    end = "optimize(model)\nchild = os.fork()\nprint(ops(), flush=True)\nif child: os.waitpid(child, 0)"
    (tmp_path / "script.py").write_text(f"{SCRIPT}sys.path.insert(0, 'shadows')\n{end}")
    (tmp_path / "shadows").mkdir()
    for name in ("enum", "random"):  # as a script may have beside it, which imported its own enum before
        (tmp_path / "shadows" / f"{name}.py").write_text("raise SystemExit(1)")
    run = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["['Relu']"] * 2
    assert run.stderr == ""


ENDLESS = """g (float[2] x) => (float[2] y) <int64 n = {9223372036854775807}, bool c = {1}> { y = Loop(n, c, x)
    <body = b (int64 i, bool ci, float[2] a) => (bool co, float[2] r) { co = Identity(ci) r = Neg(a) }> }"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize(
    "how", slow_unless({signal.SIGTERM, signal.SIGKILL}, [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
)
def test_nothing_is_left_behind(tmp_path: Path, how: signal.Signals) -> None:
    onnx.save(load(ENDLESS), tmp_path / "m.onnx")
    command = subprocess.Popen([sys.executable, "-c", RUN, "run", "m.onnx"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: bool(psutil.Process(command.pid).children()))
        (supervised,) = psutil.Process(command.pid).children()
        wait_until(lambda: any((p / "call").exists() for p in private_folders(supervised.pid)))
        (worker,) = supervised.children()
        wait_until(lambda: worker.num_threads() > 3)  # with those of a session
    finally:
        command.send_signal(how)
    assert command.wait(PATIENCE) in {128 + how, -how}
    wait_until(lambda: is_gone(worker.pid))
    wait_until(lambda: not private_folders(supervised.pid))
