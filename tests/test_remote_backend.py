"""Sessions in a separate process, which may crash, hang or be wrong."""

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from passwright.core.errors import EvaluationError, MemoryExhausted, ModelLoadError
from passwright.core.io.files import split_model
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.remote_backend import RemoteBackend
from passwright.core.ort.sessions import SessionConfig
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from rewriting import cases, load

ALL = SessionConfig("ENABLE_ALL", prepack_weights=True)
SUM = "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Add(x, x) z = Neg(y) }"
PAD = """g (float[N,1,4,4] x) => (float[N,1,5,5] y) <int64[8] p = {0,0,1,1,0,0,1,1}> {
    t = Pad(x, p) y = MaxPool<kernel_shape=[2,2]>(t) }"""
RANDOM = "g (float[N,9] x) => (float[N,9] y) { r = RandomUniformLike(x) y = Add(x, r) }"
DIES = "os.kill(os.getpid(), 9)"
HANGS = "time.sleep(600)"
FULL = "fail('no room')"


def oracle_of(model: onnx.ModelProto) -> Oracle:
    source = model_source(model, inline=False)
    return Oracle(source.loadable(), VerificationSpec.of(source.load()))


def fake(load: str, run: str = "pass") -> tuple[str, ...]:
    """The command of a worker that loads and runs models in these ways."""
    script = f"""
import os, time
from passwright.core.errors import MemoryExhausted
from passwright.core.processes.worker_process import serve
def fail(why): raise MemoryExhausted(why)
class Fake:
    loads = unloads = 0
    def load(self, *_): self.loads += 1; {load}
    def unload(self): self.unloads += 1
    def run(self, *_): {run}
serve(Fake())
"""
    return sys.executable, "-c", script


def test_results_equal_those_of_a_local_session(shared_remote: RemoteBackend) -> None:
    text = """g (float[N] x, string[N] s, bool[N] b) => (seq(float[N]) q, string[N] t, bool[N] c) {
        q = SequenceConstruct(x, x) t = Identity(s) c = Not(b) }"""
    model = load(text, 18).SerializeToString()
    feeds = {"x": np.float32([1, np.nan]), "s": np.array(["a", "ü"], object), "b": np.array([True, False])}
    found = shared_remote(model).run(["q", "t", "c"], feeds)
    for got, want in zip(found, LoadedModel(model).run(["q", "t", "c"], feeds), strict=True):
        np.testing.assert_equal(got, want)


def test_large_outputs_stay_in_the_process(shared_remote: RemoteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no limit for a model, and would hold as much as the other one."""
    monkeypatch.setattr("passwright.core.ort.remote_backend.OUTPUTS_SHARE", 1 << 20)
    session = shared_remote(load(SUM, 18).SerializeToString())
    assert len(session.run(["y"], {"x": np.zeros((10, 3), np.float32)})) == 1
    large = {"x": np.zeros((1000, 3), np.float32)}
    with pytest.raises(MemoryExhausted, match=r"its outputs take 0\.024 MB, more than the .*; --memory SIZE raises"):
        session.run(["y", "z"], large)
    session.try_run(["y", "z"], large)


def test_two_sessions_alternate_in_one_process(shared_remote: RemoteBackend) -> None:
    one, other = load(SUM, 18).SerializeToString(), load(PAD, 18).SerializeToString()
    x = {"x": np.ones((1, 3), np.float32)}
    first = shared_remote(one)
    assert shared_remote(other).run(["y"], {"x": np.zeros((1, 1, 4, 4), np.float32)})[0].shape == (1, 1, 5, 5)
    np.testing.assert_array_equal(first.run(["z"], x)[0], -2 * x["x"])


def test_weights_beside_a_file_and_beside_bytes_are_found(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    model = load("g (float[N,64] x) => (float[N,4] y) { y = MatMul(x, w) }", 18, weights={"w": np.ones((64, 4), "f4")})
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=1)
    x = {"x": np.ones((2, 64), np.float32)}
    for session in (shared_remote(path), shared_remote(split_model(path))):
        np.testing.assert_array_equal(session.run(["y"], x)[0], np.full((2, 4), 64, np.float32))


def test_errors_equal_those_of_a_local_session(shared_remote: RemoteBackend) -> None:
    with pytest.raises(ModelLoadError, match=r"onnxruntime cannot load it"):
        shared_remote(b"no model")
    session = shared_remote(load(SUM, 18).SerializeToString())
    with pytest.raises(EvaluationError, match=r"onnxruntime cannot run it"):
        session.run(["y"], {"x": np.ones((1, 4), np.float32)})
    assert session.run(["y"], {"x": np.ones((1, 3), np.float32)})[0].tolist() == [[2, 2, 2]]


@cases(
    ("script", "message"),
    {"crash": (DIES, "crashed .*SIGKILL.* as it loads it"), "hang": (HANGS, "did not end within 0.5 s as it loads it")},
)
def test_crash_while_loading(script: str, message: str) -> None:
    limit = 0.5 if script == HANGS else 60.0
    with RemoteBackend(timeout=limit, command=fake(script)) as remote, pytest.raises(ModelLoadError, match=message):
        remote(b"anything")


def test_crash_while_running_is_an_evaluation_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passwright.core.ort.remote_backend.TERMINATION_GRACE", 0.5)
    with (
        RemoteBackend(command=fake("pass", DIES)) as remote,
        pytest.raises(EvaluationError, match=r"crashed .*SIGKILL"),
    ):
        remote(b"anything").run(["y"], {})
    with (
        RemoteBackend(command=fake("pass", HANGS)) as remote,
        pytest.raises(EvaluationError, match=r"did not end within 0\.6 s"),
    ):
        remote(b"anything").run(["y"], {}, 0.1)


def test_oracle_compares_with_another_session_config(shared_remote: RemoteBackend) -> None:
    model = load(PAD, 18)
    oracle, data = oracle_of(model), model.SerializeToString()
    without = SessionConfig("ENABLE_ALL", ("Pad_Fusion",), prepack_weights=True)
    assert oracle.compare(data, backend=shared_remote).failure is None
    assert oracle.compare(data, backend=partial(shared_remote, config=without)).failure is None
    failure = oracle.compare(data, backend=partial(shared_remote, config=ALL)).failure
    assert failure is not None
    assert (failure.output, str(failure.input_set)[:13]) == ("y", "normal inputs")


def test_oracle_reports_a_crash() -> None:
    oracle = oracle_of(load(SUM, 18))
    with RemoteBackend(command=fake("pass", DIES)) as remote:
        failure = oracle.compare(load(SUM, 18).SerializeToString(), backend=remote).failure
    assert failure is not None
    assert failure.reason.startswith("onnxruntime crashed")


def test_random_operators_give_the_same_numbers(shared_remote: RemoteBackend) -> None:
    model = load(RANDOM, 18)
    other = load(RANDOM.replace("Add(x, r)", "Sub(x, r)"), 18)
    oracle, backend = oracle_of(model), partial(shared_remote, config=ALL)
    assert oracle.compare(model.SerializeToString(), backend=backend).failure is None
    assert oracle.compare(other.SerializeToString(), backend=backend).failure is not None


def test_optimized_model_is_saved(shared_remote: RemoteBackend, tmp_path: Path) -> None:
    text = "g (float[N,3] x) => (float[N,3] y) { a = Identity(x) b = Relu(a) y = Identity(b) }"
    saved = tmp_path / "left.onnx"
    config = SessionConfig("ENABLE_ALL", optimized_model_path=str(saved))
    shared_remote(load(text, 18).SerializeToString(), config=config)
    assert [n.op_type for n in onnx.load(saved).graph.node] == ["Relu"]


def test_optimized_model_is_saved_with_external_weights(tmp_path: Path) -> None:
    weights = {"w": np.ones((64, 64), np.float32)}
    model = load("g (float[N,64] x) => (float[N,64] y) { y = MatMul(x, w) }", 18, weights=weights)
    saved = tmp_path / "left.onnx"
    LoadedModel(
        model.SerializeToString(),
        SessionConfig("ENABLE_BASIC", optimized_model_path=str(saved), save_external_data=True),
    )
    assert (tmp_path / "left.onnx.data").stat().st_size >= 64 * 64 * 4
    x = {"x": np.ones((1, 64), np.float32)}
    np.testing.assert_array_equal(LoadedModel(saved).run(["y"], x)[0], np.full((1, 64), 64, np.float32))


def test_next_backend_takes_the_process_without_its_model(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = fake("pass", f"open({str(log)!r}, 'a').write(f'{{os.getpid()}} {{self.loads}} {{self.unloads}}\\n')")
    for _ in range(2):
        with RemoteBackend(command=command) as remote:
            remote(b"anything").run(["y"], {})
    (first, *counts), (second, *later) = (line.split() for line in log.read_text().splitlines())
    assert (second, counts, later) == (first, ["1", "0"], ["2", "1"])


def test_a_process_that_lacked_memory_is_replaced() -> None:
    """onnxruntime keeps what a run allocated, which would be missing in the next one."""
    with RemoteBackend(command=fake("pass", FULL)) as remote:
        session = remote(b"anything")
        before = remote._process.pid
        with pytest.raises(EvaluationError, match="no room"):
            session.run(["y"], {})
        assert remote._process.pid != before


@pytest.mark.parametrize("fails_again", [True, False])
@pytest.mark.parametrize("failure", [DIES, FULL])
def test_failure_counts_only_in_a_process_that_ran_no_other_models(failure: str, *, fails_again: bool) -> None:
    """A model of an earlier backend may have damaged the process, or left less memory."""
    command = fake("pass", failure if fails_again else f"self.loads > 1 and {failure}")
    with RemoteBackend(command=command) as remote:
        remote(b"anything")
    with RemoteBackend(command=command) as remote:
        session = remote(b"anything")
        with pytest.raises(EvaluationError, match=r"crashed|no room") if fails_again else nullcontext():
            session.run(["y"], {})
        assert remote.crashes == (failure == DIES) * (1 + fails_again)
