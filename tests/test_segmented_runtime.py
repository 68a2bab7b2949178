"""Runs of models in segments, and verification of models larger than memory."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from passwright.core import EXACT, RewriteBuilder, Value, require, rule
from passwright.core.errors import EvaluationError, ModelLoadError
from passwright.core.io.files import split_model
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify import segmented_runtime
from passwright.core.verify.regions.value_graph import ValueGraph
from passwright.core.verify.segmented_runtime import (
    SegmentedRuntime,
    SegmentLimits,
    load_by_size,
    segment_memory,
    segments,
    takes_quadratic_time,
)
from rewriting import LocalOracle, cases, each, load
from tiers import slow_unless

from passwright import optimize

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from language_model import Sizes, write_decoder

GOLDEN = Path(__file__).parent.parent / "golden_models"
X = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
WEIGHTS = {n: np.random.default_rng(i).standard_normal((32, 32)).astype(np.float32) for i, n in enumerate("uvw")}
HEAVY = SegmentLimits(weight_bytes=1)
ENDS = "g (float[N,32] x) => (float[N,32] y)"


def model(body: str) -> bytes:
    return load(body if body.startswith(("g ", "<")) else f"{ENDS} {{ {body} }}", weights=WEIGHTS).SerializeToString()


@each(
    ("body", "sessions"),
    {
        "equal": ("a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w)", 1),
        "weight read twice": ("a = MatMul(x, u) b = MatMul(a, u) y = MatMul(b, w)", 2),
        "long use": ("a = MatMul(x, u) n = Neg(a) b = MatMul(n, v) c = MatMul(b, w) y = Add(c, a)", 3),
        "unused": ("a = MatMul(x, u) t = Neg(a) z = MatMul(t, v) y = MatMul(a, w)", 1),
        "constant node": (
            "a = MatMul(x, u) k = Constant<value = float {2}>() b = Mul(a, k) c = MatMul(b, v) y = Mul(c, k)",
            1,
        ),
        "subgraph": (
            """a = MatMul(x, u) c = Constant<value = bool {1}>()
            b = If (c) <then_branch = t () => (float[N,32] p) { p = MatMul(a, v) },
                        else_branch = e () => (float[N,32] q) { q = Identity(a) }> y = MatMul(b, w)""",
            2,
        ),
        "sequence": (
            """a = MatMul(x, u) s = SequenceConstruct(a, x) m = MatMul(x, v) t = SequenceInsert(s, m)
            i = Constant<value = int64 {2}>() b = SequenceAt(t, i) y = MatMul(b, w)""",
            3,
        ),
    },
)
def test_outputs_are_those_of_a_whole_session(body: str, sessions: int) -> None:
    whole = LoadedModel(model(body)).run(["y"], {"x": X})[0]
    runtime = SegmentedRuntime(model(body), HEAVY)
    for _ in range(2):
        assert np.array_equal(runtime.run(["y"], {"x": X})[0], whole)
    assert runtime.session_count == sessions


def test_values_on_the_way_and_constants_are_outputs_too() -> None:
    data = model("a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w)")
    a, u, b = SegmentedRuntime(data, HEAVY).run(["a", "u", "b"], {"x": X})
    np.testing.assert_array_equal(u, WEIGHTS["u"])
    np.testing.assert_array_equal(a, LoadedModel(model("y = MatMul(x, u)")).run(["y"], {"x": X})[0])
    assert b.shape == (3, 32)


def test_ranks_may_change_between_runs() -> None:
    runtime = SegmentedRuntime(model("g (float[] x) => (float[] y) { a = MatMul(x, u) y = MatMul(a, v) }"), HEAVY)
    for x in (X, X[None], X[0]):
        assert runtime.run(["y"], {"x": x})[0].shape == x.shape


@pytest.mark.parametrize(("limit", "counts"), [(1, [1, 1, 1]), (8192, [2, 1]), (1 << 20, [3])])
def test_segments_hold_weights_up_to_a_limit(limit: int, counts: list[int]) -> None:
    graph = ValueGraph.of(split_model(model("a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w)")))
    found = list(segments(graph, ["y"], SegmentLimits(limit)))
    assert [len(s.nodes) for s in found] == counts
    assert [s.released for s in found][-1] == (() if len(counts) == 1 else ("b",))


def test_weights_that_a_kernel_requires_as_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    run = LoadedModel.run
    refused: list[int] = []

    def run_without_fed_weights(self: LoadedModel, outputs: Any, feeds: Any, timeout: Any = None) -> list[Any]:
        if any(a.shape == (32, 32) for a in feeds.values()):
            refused.append(1)
            raise EvaluationError("the weight must be constant")
        return run(self, outputs, feeds, timeout)

    data = model("a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w)")
    expected = LoadedModel(data).run(["y"], {"x": X})[0]
    monkeypatch.setattr(LoadedModel, "run", run_without_fed_weights)
    assert np.array_equal(SegmentedRuntime(data, HEAVY).run(["y"], {"x": X})[0], expected)
    assert len(refused) == 1


def test_error_of_a_run_is_that_of_onnxruntime() -> None:
    with pytest.raises(EvaluationError, match="onnxruntime cannot run it"):
        SegmentedRuntime(model("a = MatMul(x, u) y = MatMul(a, v)"), HEAVY).run(["y"], {"x": X[:, :3]})


WIDTH, WHOLE_NODES = 100, 1000


@pytest.fixture
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits for models that are run whole, lower than usual."""
    monkeypatch.setattr(segmented_runtime, "MAX_WIDTH", WIDTH)
    monkeypatch.setattr(segmented_runtime, "MAX_WHOLE_NODES", WHOLE_NODES)


def wide(ends: str, body: str) -> onnx.ModelProto:
    """A model with `{}` in its text for each number up to WIDTH, where it stands between bars."""
    parts = f"g ({ends} {{ {body} }}".split("|")
    return load("".join(p if i % 2 == 0 else _each(p) for i, p in enumerate(parts)))


def _each(text: str) -> str:
    return (", " if "=" not in text else " ").join(text.replace("#", str(i)) for i in range(WIDTH + 1))


FEW = "float[N] x) => (float[M] y)"


@pytest.mark.usefixtures("_low_limits")
@cases(
    ("graph", "expected"),
    {
        "outputs": (wide("float[N] x) => (|v#|)", "|v# = Sin(x)|"), True),
        "inputs": (wide("|float[2] x#|) => (float[2] y)", "y = Sum(|x#|)"), True),
        "independent ops": (wide(FEW, "|v# = Sin(x)| y = Sum(|v#|)"), True),
        "later ops": (wide(FEW, "v0 = Neg(x) t = Sin(v0) |w# = Exp(t)| y = Sum(|w#|)"), True),
        "ops of several levels": (wide(FEW, "|s# = Sin(x)| c = Cos(s0) y = Sum(|s#|, c)"), True),
        "small": (load("g (float[N] x) => (float[N] y) { y = Neg(x) }"), False),
    },
)
def test_wide_models(graph: onnx.ModelProto, expected: bool) -> None:
    assert takes_quadratic_time(graph) == expected


@pytest.mark.usefixtures("_low_limits")
@pytest.mark.parametrize("nodes", [WIDTH + 1, WHOLE_NODES, WHOLE_NODES + 1])
def test_long_models(nodes: int) -> None:
    chain = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(nodes)]
    ends = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", f"v{nodes}"))
    graph = helper.make_graph(chain, "g", *([end] for end in ends))
    assert takes_quadratic_time(helper.make_model(graph)) == (nodes > WHOLE_NODES)


def test_segments_have_few_nodes() -> None:
    graph = ValueGraph.of(split_model(model("a = MatMul(x, u) b = MatMul(a, v) y = MatMul(b, w)")))
    assert [len(s.nodes) for s in segments(graph, ["y"], SegmentLimits(nodes=2))] == [2, 1]


@pytest.mark.usefixtures("_low_limits")
def test_wide_models_compute_the_same_in_segments() -> None:
    n = WIDTH + 1
    data = wide("|float[2] x#|) => (|v#|, float[2] s)", "|v# = Sin(x#)| s = Max(|v#|)").SerializeToString()
    feeds = {f"x{i}": np.float32([i, -i]) for i in range(n)}
    names = [*(f"v{i}" for i in range(0, n, 7)), "s"]
    runtime = load_by_size(data)
    assert isinstance(runtime, SegmentedRuntime)
    *found, largest = runtime.run(names, feeds)
    sine = LoadedModel(model("g (float[2] x) => (float[2] y) { y = Sin(x) }"))
    sines = np.stack([sine.run(["y"], {"x": x})[0] for x in feeds.values()])
    assert np.array_equal(np.stack(found), sines[::7])
    assert np.array_equal(largest, sines.max(0))


@pytest.mark.usefixtures("_low_limits")
def test_wide_model_without_a_kernel_is_refused() -> None:
    decoder = wide("uint8[N] x) => (uint8[H,W,C] y, |v#|)", "y = ImageDecoder(x) |v# = Identity(x)|")
    with pytest.raises(ModelLoadError, match="no kernel for ImageDecoder"):
        load_by_size(decoder.SerializeToString())


def test_equal_segments_of_two_models_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, make = list[int](), LoadedModel.__init__

    def counted(self: LoadedModel, *args: Any, **options: Any) -> None:
        loaded.append(1)
        make(self, *args, **options)

    monkeypatch.setattr(LoadedModel, "__init__", counted)
    bodies = ["a = Sin(x) y = Cos(a)", "a = Sin(x) y = Tan(a)"]
    runtimes = [SegmentedRuntime(model(b), SegmentLimits(nodes=1)) for b in bodies]
    for runtime, function in zip(runtimes, (np.cos, np.tan), strict=True):
        np.testing.assert_allclose(runtime.run(["y"], {"x": X})[0], function(np.sin(X)), rtol=1e-5)
    assert len(loaded) == 3


@each(("memory", "limit"), [(None, None), (30_000, None), (20_000, 10_000), (1, 0)])
def test_memory_decides_about_segments(memory: int | None, limit: int | None) -> None:
    assert segment_memory(split_model(model("y = MatMul(x, u)")), memory) == limit


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify in this process, so that a small limit of memory is for the weights alone."""
    monkeypatch.setattr("passwright.app.optimize.run_setup.OracleProcess", LocalOracle)
    monkeypatch.setattr("passwright.core.verify.verification_spec._require_memory", lambda *_: None)


CHOSEN = ["functions", "mixer_external"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", slow_unless(CHOSEN, [*CHOSEN, "llama", "loop_if", "crnn", "cnn_qdq"]))
def test_golden_models_in_segments(name: str) -> None:
    verdict = optimize(GOLDEN / f"{name}.onnx", memory=1).report.verification
    assert verdict is not None
    assert verdict.failure is None
    assert verdict.input_sets


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of two layers with 15 MB of weights, most of them holes of a sparse file."""
    path = tmp_path_factory.mktemp("decoder") / "m.onnx"
    write_decoder(path, Sizes(2, width=384, heads=4, hidden=1024, vocabulary=500, filled=0.2))
    return path


@rule(lambda g, x: g.Sigmoid(x), contract=EXACT)
def harden_sigmoid(g: RewriteBuilder, x: Value) -> Value:
    """Sigmoid(x) => HardSigmoid(x), in layer 1 alone"""
    assert x.producer is not None
    weight = x.producer.inputs[1]
    require(weight is not None and weight.name == "layer1.mlp.gate", "another layer")
    return g.HardSigmoid(x)


@pytest.mark.usefixtures("in_this_process")
def test_wrong_change_in_one_layer_is_found_by_regions(decoder: Path, tmp_path: Path) -> None:
    few = ["harden-sigmoid", "merge-powers", "slices-to-split"]
    report = optimize(decoder, plugin=[harden_sigmoid], only=few, memory=4 << 20, output=tmp_path / "out.onnx").report
    (found,) = report.rejected
    proto = onnx.load(decoder, load_external_data=False)
    (place,) = (
        n.output[0] for n in proto.graph.node if n.op_type == "Sigmoid" and _gate(proto, n) == "layer1.mlp.gate"
    )
    assert (found.by, found.place, found.output) == ("harden_sigmoid", place, place)
    assert "from the original's values before it" in found.message
    verdict = report.verification
    assert verdict is not None
    assert verdict.changed_regions > 0
    assert any("models were run in segments" in note for note in verdict.notes)
    ids = {"ids": np.arange(6).reshape(2, 3)}
    before, after = (LoadedModel(p).run(["logits"], ids)[0] for p in (decoder, tmp_path / "out.onnx"))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4)


def _gate(proto: onnx.ModelProto, sigmoid: onnx.NodeProto) -> str:
    """The name of the weight of the product that a Sigmoid reads."""
    return next(n.input[1] for n in proto.graph.node if sigmoid.input[0] in n.output)


@pytest.mark.slow  # as above, with the memory of a process
def test_model_larger_than_the_memory_of_the_process(tmp_path: Path) -> None:
    write_decoder(tmp_path / "m.onnx", Sizes(16, width=1024, heads=8, hidden=2816, vocabulary=1000, filled=0.02))
    assert (tmp_path / "m.onnx.data").stat().st_size > 700 << 20
    report = optimize(tmp_path / "m.onnx", plugin=[harden_sigmoid], memory=400 << 20).report
    assert [q.by for q in report.rejected] == ["harden_sigmoid"]
