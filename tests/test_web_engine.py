"""onnxruntime-web in a real browser as an engine: values, verdicts, crashes, and no process that stays behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from commands import invoke
from passwright.core import EngineSettings, find_engine
from passwright.core.errors import EvaluationError, UsageError
from passwright.core.ort import web_engine
from passwright.core.ort.engines import parse_engine
from passwright.core.ort.web_engine import PAGES, WebSession
from rewriting import load
from test_cli import USAGE
from tiers import slow_unless

import passwright

GOLDEN = Path(__file__).parent.parent / "golden_models"
SINGLE_THREAD = EngineSettings(threads=1)
try:
    lack = "" if web_engine.version() else "no version"
except ImportError as e:
    lack = f"{e} is missing"
needs_web = pytest.mark.skipif(bool(lack), reason=lack)
needs_adapter = pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is asked for as on Linux")
TYPED = """
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[N,3] a, int64[N] b, bool[N] c, float16[2] d, double e, int8[2] f, uint8[2] g, int32[0,2] h) =>
      (float[N,3] u, int64[N] v, bool[N] w, float16[2] x, double y, int8[2] z, uint8[2] s, int32[0,2] t) {
        u = Relu (a) v = Add (b, b) w = Not (c) x = Neg (d) y = Mul (e, e) z = Neg (f) s = Identity (g) t = Add (h, h) }
"""
LONG = """
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[512,512] x, int64 n) => (float[512,512] y) {
        yes = Constant <value: tensor = bool {1}> ()
        y = Loop (n, yes, x) <body: graph = body (int64 i, bool k, float[512,512] a)
            => (bool more, float[512,512] b) { more = Identity (k) m = MatMul (a, a) b = Softmax (m) }>
    }
"""


def loaded(model: onnx.ModelProto, name: str = "web") -> WebSession:
    session = find_engine(name).load(model.SerializeToString(), SINGLE_THREAD)
    assert isinstance(session, WebSession)
    return session


def browser_of(session: WebSession) -> psutil.Process:
    return psutil.Process(session._page._process.pid)


def wait_for_end(processes: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that are left after a while."""
    return psutil.wait_procs(processes, 20)[1]


def test_what_is_missing_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE_PATH", str(tmp_path))
    for name in ("web", "webgpu"):
        with pytest.raises(UsageError, match=f"engine {name} is not installed here: npm install onnxruntime-web, and "):
            parse_engine(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROME_PATH", raising=False)
    output = invoke("verify", GOLDEN / "mlp_dropout.onnx", "--engine", "web", code=USAGE).output
    assert output.count("\n") == 1
    assert "NODE_PATH and CHROME_PATH say where they are" in output


def test_the_package_is_found_as_node_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "node_modules" / "onnxruntime-web"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"version": "1.2.3"}')
    (program := tmp_path / "chrome").write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (inner := tmp_path / "site").mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.setenv("CHROME_PATH", str(program))
    assert web_engine.version() == "1.2.3"


@needs_web
def test_values_of_each_type_are_exchanged() -> None:
    model = load(TYPED)
    feeds = {
        "a": np.float32([[1, -2, 3], [4, 5, -6]]), "b": np.int64([2**40, -1]), "c": np.array([True, False]),
        "d": np.float16([1.5, -2]), "e": np.array(1e-300), "f": np.int8([-3, 4]), "g": np.uint8([200, 1]),
        "h": np.zeros((0, 2), np.int32),
    }  # fmt: skip
    session, native = loaded(model), onnxruntime.InferenceSession(model.SerializeToString())
    names = [o.name for o in model.graph.output]
    for name, a, b in zip(names, session.run(None, feeds), native.run(None, feeds), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert [v.type for v in session.inputs][:5] == [
        "tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(float16)", "tensor(double)",
    ]  # fmt: skip
    assert [v.shape for v in session.inputs][:2] == [("N", 3), ("N",)]
    assert np.array_equal(session.run(["w"], feeds)[0], [False, True])
    seconds = session.bind(feeds)()
    assert isinstance(seconds, float)
    assert 0 < session.load_seconds < 60


@needs_web
def test_errors_are_those_of_onnxruntime() -> None:
    with pytest.raises(EvaluationError, match="it cannot exchange a string, such as x"):
        loaded(load("g (string[2] x) => (string[2] y) { y = Identity(x) }"))
    with pytest.raises(EvaluationError, match="Ghost"):
        loaded(
            load('<ir_version: 10, opset_import: ["" : 21, "a" : 1]> g (float[2] x) => (float[2] y) { y = a.Ghost(x) }')
        )
    session = loaded(load("g (float[2] x, int64[1] n) => (float[M] y) { y = Expand(x, n) }"))
    with pytest.raises(EvaluationError, match=r"invalid expand shape|could not be broadcast|ERROR"):
        session.run(None, {"x": np.float32([1, 2]), "n": np.int64([3])})
    assert np.array_equal(session.run(None, {"x": np.float32([1, 2]), "n": np.int64([2])})[0], [1, 2])


@needs_web
def test_more_memory_than_there_is_is_an_error_of_the_run() -> None:
    session = loaded(load("g (int64[1] n) => (float[N] y) { y = ConstantOfShape(n) }"))
    with pytest.raises(EvaluationError) as refused:
        session.run(None, {"n": np.int64([1 << 31])})
    assert "\n" not in str(refused.value)
    assert session.run(None, {"n": np.int64([2])})[0].shape == (2,)


@needs_web
def test_a_page_that_crashes_is_opened_again() -> None:
    session = loaded(load("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    feeds, browser = {"x": np.float32([-1, 2])}, browser_of(session)
    renderers = [p for p in browser.children(recursive=True) if "--type=renderer" in p.cmdline()]
    assert renderers
    for process in renderers:
        process.kill()
    with pytest.raises(EvaluationError, match="its page crashed, or the browser ended"):
        session.run(None, feeds)
    assert not wait_for_end([browser])
    assert np.array_equal(session.run(None, feeds)[0], [0, 2])


@needs_web
def test_a_run_that_does_not_end_is_cancelled() -> None:
    session = loaded(load(LONG))
    browser = browser_of(session)
    started = [browser, *browser.children(recursive=True)]
    timer = Timer(1.0, session.cancel)
    timer.start()
    with pytest.raises(EvaluationError, match="the browser ended"):
        session.run(None, {"x": np.zeros((512, 512), np.float32), "n": np.int64(1 << 40)})
    timer.join()
    assert not wait_for_end(started)


@needs_web
def test_no_browser_outlives_its_process(tmp_path: Path) -> None:
    onnx.save(load("g (float[2] x) => (float[2] y) { y = Relu(x) }"), model := tmp_path / "m.onnx")
    code = (
        "import sys, time; from pathlib import Path; from passwright.core import EngineSettings, find_engine\n"
        "session = find_engine('web').load(Path(sys.argv[1]), EngineSettings(threads=1))\n"
        "print(session._page._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, model], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        browser = psutil.Process(int(process.stdout.readline()))
        started = [browser, *browser.children(recursive=True)]
        os.kill(process.pid, signal.SIGKILL)
        assert not wait_for_end(started)


@needs_web
def test_addresses_of_the_page_are_secret() -> None:
    session = loaded(load("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    browser = browser_of(session)
    assert not any(session._page.root.strip("/") in argument for argument in browser.cmdline())
    port = session._page._server.server_port
    code = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/model')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "HTTP Error 404" in found.stderr


@needs_web
@pytest.mark.usefixtures("_commands_measure_briefly", "_few_combined_inputs")
def test_models_and_files_of_onnxruntime_are_verified_and_timed(tmp_path: Path) -> None:
    model, file = GOLDEN / "mlp_dropout.onnx", tmp_path / "m.ort"
    passwright.optimize(model, output=file, verify=False)
    compared = passwright.verify(model, file, engine="web", effort="quick")
    assert compared.agrees, compared.verdict
    assert compared.engine_text.startswith("web 1.")
    report = passwright.bench([model, file], engine=["web"], batch=(1,), min_time=0.01, threads=1)
    assert [m.measured.failure for m in report.models] == ["", ""]
    assert all(m.measured.creation_seconds > 0 for m in report.models)
    beside = passwright.compare(model, engine=["web"], tools=(), batch=(1,), min_time=0.01, threads=1)
    rows = {row.made_by: row for row in beside.engines}
    assert [(row.failure, row.is_wrong, row.measured is not None) for row in rows.values()] == [("", False, True)] * 2
    for m in report.models:  # of the browser
        assert 50e6 < m.measured.baseline_bytes < m.measured.resident_bytes <= m.measured.peak_bytes
        assert m.measured.virtual_bytes == 0


@needs_web
@needs_adapter
def test_placement_on_webgpu_is_said() -> None:
    text = "g (float[4] x, int64[4] n) => (float[4] y, int64[4] m) { y = Relu(x) m = Mul(n, n) }"
    session = loaded(load(text), "webgpu")
    assert session.precision.startswith("f32: 1 ops on "), session.precision
    assert ", 1 on the CPU, 0 copies" in session.precision
    feeds = {"x": np.float32([-1, 2, 0, 3]), "n": np.int64([1, 2, 3, 4])}
    assert np.array_equal(session.run(None, feeds)[0], [0, 2, 0, 3])


@needs_web
@needs_adapter
@pytest.mark.parametrize("name", ["keras_cnn", *slow_unless((), ["audio", "bert", "crnn", "densenet", "functions"])])
def test_models_on_the_target_stay_on_the_device(name: str) -> None:
    file = GOLDEN / f"{name}.onnx"
    (model,) = passwright.info(file).models
    dims = dict.fromkeys(re.findall(r"[a-zA-Z_]\w*", " ".join(t.partition("[")[2] for t in model.inputs.values())), 4)
    result = passwright.optimize(file, target="webgpu", dim=dims, enable=["int32-inputs"], verify=False)
    assert re.fullmatch(r"f32: \d+ ops on .+, 0 on the CPU, 0 copies", loaded(result.model, "webgpu").precision)


def teardown_module() -> None:
    for page in PAGES.values():
        page.close()
    PAGES.clear()
