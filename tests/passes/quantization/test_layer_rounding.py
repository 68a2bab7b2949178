"""Tests of weights that are rounded for their inputs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker
from passwright.core import ChangeLog, Graph, Pipeline, QuantizationSpec, from_onnx, rule_pass
from passwright.core.calibration.collection import collect_statistics
from passwright.core.calibration.statistics import Rows, ValueStatistics
from passwright.core.rewriting.change_log import Exclusions
from passwright.passes.quantization import weights as stored_weights
from passwright.passes.quantization.half import StoreWeights
from passwright.passes.quantization.layer_rounding import (
    IntegerWeights,
    RoundedLayer,
    RoundLayers,
    layer_pairs,
    layers,
    rounded_layers,
    rows_of,
)
from quantized_accuracy import decibels, quantized_with
from rewriting import apply_passes, each, initializers, load, run, to_onnx

NAME = RoundLayers().name
COARSE: dict[str, Any] = {"weight_limit": 7, "per_channel": False}
Feeds = Mapping[str, Any]


def weights(*dims: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(dims)).normal(0.05, 0.2, dims).astype(np.float32)


def smooth(*dims: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers of which neighbours along the last axes are alike, as in images."""
    found = np.random.default_rng(seed).normal(0.3, 1, dims)
    for axis in range(1, len(dims)):
        found = np.cumsum(found, axis=axis) / np.sqrt(np.arange(1, dims[axis] + 1)).reshape(
            [-1 if i == axis else 1 for i in range(len(dims))]
        )
    return found.astype(np.float32)


def layers_of(
    model: onnx.ModelProto, made: onnx.ModelProto, samples: Sequence[Feeds], wanted: list[Any] | None = None
) -> dict[str, RoundedLayer]:
    """The layers of a quantized model, rounded for samples; `wanted` gets what is asked for."""

    def collect(rows: Mapping[str, Collection[Rows]]) -> Mapping[str, ValueStatistics]:
        if wanted is not None:
            wanted.append(rows)
        return collect_statistics(model, (), samples, grams=rows)

    return rounded_layers(layer_pairs(from_onnx(model).graph, from_onnx(made).graph), collect)


def rounded(
    model: onnx.ModelProto, made: onnx.ModelProto, samples: Sequence[Feeds]
) -> tuple[onnx.ModelProto, ChangeLog]:
    """The quantized model with rounded weights, and the change log."""
    result, change_log = apply_passes(made, RoundLayers(layers_of(model, made, samples)))
    after = to_onnx(result)
    checker.check_model(after, full_check=True)
    return after, change_log


def images(count: int, seed: int) -> dict[str, Any]:
    return {"x": smooth(count, 4, 12, 12, seed=seed)}


def vectors(count: int, seed: int) -> dict[str, Any]:
    return {"x": smooth(count, 24, seed=seed)}


def texts(count: int, seed: int) -> dict[str, Any]:
    return {"x": smooth(count, 6, 24, seed=seed)}


CONVS, ROWS, TEXTS = (
    f"g (float[N,{dims}] x) => (float[N,{made}] y) {{"
    for dims, made in (("4,12,12", "c,h,w"), ("24", "c"), ("6,24", "6,c"))
)
U, V, B, C = weights(16, 4, 3, 3), weights(8, 16, 3, 3), weights(16), weights(8)
MODELS = [
    pytest.param(CONVS + "a = Conv(x, u, b) r = Relu(a) y = Conv(r, v, c) }", {"u": U, "b": B, "v": V, "c": C},
                 images, 2, id="Conv and Relu"),
    pytest.param(CONVS + "a = Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2]>(x, u) r = Clip(a, low, high) "
                 'y = Conv<auto_pad="SAME_LOWER", strides=[2,2]>(r, v) }',
                 {"u": U, "v": V, "low": np.float32(0), "high": np.float32(9)}, images, 2, id="windows"),
    pytest.param(CONVS + "a = Conv<group=2, pads=[1,1,1,1]>(x, u, b) y = Conv<group=16>(a, d) }",
                 {"u": weights(16, 2, 3, 3), "b": B, "d": weights(16, 1, 5, 5)}, images, 2, id="groups"),
    pytest.param(ROWS + "a = Gemm<transB=1>(x, u, b) r = Relu(a) y = Gemm(r, v, c) }",
                 {"u": weights(32, 24), "b": weights(32), "v": weights(32, 8), "c": C}, vectors, 2, id="Gemm"),
    pytest.param(ROWS + "a = Gemm<alpha=0.5, beta=2.0>(x, u, b) y = Neg(a) }",
                 {"u": weights(24, 32), "b": weights(32)}, vectors, 1, id="alpha"),
    pytest.param(ROWS + "a = MatMul(x, u) s = Add(a, b) r = Relu(s) y = MatMul(r, v) }",
                 {"u": weights(24, 32), "b": weights(32), "v": weights(32, 8)}, vectors, 2, id="Gemms of MatMul"),
    pytest.param(TEXTS + "a = MatMul(x, u) s = Add(a, b) r = Relu(s) y = MatMul(r, v) }",
                 {"u": weights(24, 32), "b": weights(32), "v": weights(32, 8)}, texts, 2, id="MatMul"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants", "samples", "changes"), MODELS)
def test_less_noise_on_other_inputs(text: str, constants: dict[str, Any], samples: Any, changes: int) -> None:
    """A third less, with the same scales and no larger integers."""
    model = load(text, opset=17, weights=constants)
    feeds = [samples(1, seed) for seed in range(48)]
    together = {"x": np.concatenate([f["x"] for f in feeds])}
    made = quantized_with(model, together, **COARSE)
    after, change_log = rounded(model, made, feeds)
    assert change_log.counts[NAME][NAME] == changes
    unseen = samples(64, 1000)
    assert decibels(run(model, unseen), run(after, unseen)) > decibels(run(model, unseen), run(made, unseen)) + 1.8
    graphs = [from_onnx(m).graph for m in (made, after)]
    for before, now in zip(*(map(IntegerWeights.of, layers(g)) for g in graphs), strict=True):
        assert np.array_equal(before.scales, now.scales)
        assert before.integers.dtype == now.integers.dtype
        assert np.abs(now.integers.astype(int) - now.zero).max() <= 7
        assert not np.array_equal(before.integers, now.integers)


@pytest.mark.parametrize(("text", "constants", "samples", "changes"), MODELS)
def test_gram_matrices_are_of_the_rows_that_weights_are_multiplied_with(
    text: str, constants: dict[str, Any], samples: Any, changes: int
) -> None:
    """The sums of the squares of results follow from them, for any weights."""
    model = load(text, opset=17, weights=constants)
    ops = list(layers(from_onnx(model).graph))
    feeds = samples(3, 5)
    wanted: dict[str, set[Rows]] = {}
    for op in ops:
        assert op.inputs[0] is not None
        wanted.setdefault(op.inputs[0].name, set()).add(rows_of(op))
    found = collect_statistics(model, (), [feeds], grams=wanted)
    assert len(ops) == changes
    for op in ops:
        x, w = (v.name for v in op.inputs[:2] if v is not None)
        gram = found[x].grams[rows_of(op)]
        told = onnx.ModelProto()
        told.CopyFrom(model)
        told.graph.output.append(onnx.ValueInfoProto(name="unbiased"))
        (node,) = (n for n in told.graph.node if n.output[0] == op.outputs[0].name)
        copy = told.graph.node.add()
        copy.CopyFrom(node)
        copy.output[:] = ["unbiased"]
        del copy.input[2:]
        (result,) = run(told, feeds, ["unbiased"])
        axis = 1 if op.type == "Conv" else -1
        squares = np.square(np.moveaxis(result.astype(np.float64), axis, 0).reshape(result.shape[axis], -1))
        if op.type == "Conv":
            matrices = constants[w].reshape(gram.sums.shape[0], -1, gram.sums.shape[1]).astype(np.float64)
        else:
            matrices = (constants[w] if op.attr("transB", 0) else constants[w].T)[None] * op.attr("alpha", 1.0)
        energy = np.einsum("gok,gkl,gol->go", matrices, gram.sums, matrices).reshape(-1)
        np.testing.assert_allclose(energy, squares.sum(axis=1), rtol=1e-4)
        assert gram.rows == squares.shape[1]


def test_windows_of_many_are_spread_over_samples_and_images() -> None:
    rows = Rows(9, kernel=(3, 3))
    x = np.zeros((2, 1, 50, 50), np.float32)
    x[0, 0, :, :] = 1
    chosen = next(rows.of(x, 100))
    assert chosen.shape == (100, 1, 9)
    assert chosen.sum() == 9 * 50  # half of them are of each sample
    assert [part.shape for part in rows.of(x, 10**6)] == [(2 * 48 * 48, 1, 9)]
    assert not list(rows.of(x[0], 100))
    assert not list(rows.of(np.zeros((1, 2, 9, 9)), 100))
    assert not list(Rows(9).of(np.zeros((4, 8)), 100))


def test_weights_that_layers_share_are_rounded_once_for_the_inputs_of_all() -> None:
    text = TEXTS + "a = MatMul(x, u) r = Relu(a) y = MatMul(r, u) }"
    model = load(text, opset=17, weights={"u": weights(24, 24)})
    feeds = [texts(1, seed) for seed in range(24)]
    made = quantized_with(model, {"x": np.concatenate([f["x"] for f in feeds])}, **COARSE)
    wanted: list[Any] = []
    found = layers_of(model, made, feeds, wanted)
    assert [*wanted[0]] == ["x", "r"]
    assert len({found[name].integers.tobytes() for name in ("r", "y")}) == 1
    alone = [layers_of(load(TEXTS + f"y = MatMul(x, u) {end}", opset=17, weights={"u": weights(24, 24)}), made, feeds)
             for end in ("r = Relu(y) }",)]  # fmt: skip
    assert not np.array_equal(alone[0]["y"].integers, found["y"].integers)


def test_large_matrices_are_collected_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text, constants, _, _ = MODELS[0].values
    assert isinstance(text, str)
    model = load(text, opset=17, weights=constants)  # pyright: ignore[reportArgumentType]
    made = quantized_with(model, images(4, 0), **COARSE)
    monkeypatch.setattr("passwright.passes.quantization.layer_rounding.BYTES_AT_ONCE", 8 * 36**2)
    wanted: list[Any] = []
    found = layers_of(model, made, [images(4, 0)], wanted)
    assert [[*rows] for rows in wanted] == [["x"], ["r"]]
    assert {"a", "r", "y"} <= found.keys()
    monkeypatch.setattr("passwright.passes.quantization.layer_rounding.MAX_COLUMNS", 36)
    assert "y" not in layers_of(model, made, [images(4, 0)])


def test_layers_are_rounded_until_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are left keep their weights."""
    text, constants, _, _ = MODELS[0].values
    assert isinstance(text, str)
    model = load(text, opset=17, weights=constants)  # pyright: ignore[reportArgumentType]
    made = quantized_with(model, images(4, 0), **COARSE)
    pairs = layer_pairs(from_onnx(model).graph, from_onnx(made).graph)
    times = iter([1.0, 1.0, 3.0])
    monkeypatch.setattr("passwright.passes.quantization.layer_rounding.monotonic", lambda: next(times))
    found = rounded_layers(pairs, lambda rows: collect_statistics(model, (), [images(4, 0)], grams=rows), until=2.0)
    assert "r" in found
    assert "y" not in found
    monkeypatch.setattr("passwright.passes.quantization.layer_rounding.monotonic", lambda: 3.0)
    assert not rounded_layers(pairs, lambda _: pytest.fail("nothing is to be collected"), until=2.0)


STORED = [
    ("y = Conv(x, u, b)", {"u": weights(64, 4, 3, 3), "b": weights(64)}),
    ("y = ConvTranspose<strides=[2,2]>(x, u, b)", {"u": weights(4, 64, 2, 2), "b": weights(64)}),
    ("y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], group=2>(x, u)", {"u": weights(4, 96, 4, 4)}),
]


@each(("body", "constants"), STORED)
def test_weights_stored_in_int8_are_rounded_too(body: str, constants: dict[str, Any]) -> None:
    model = load(CONVS + body + " }", opset=17, weights=constants)
    stored = rule_pass(stored_weights, "store-int8-weights")
    made = to_onnx(apply_passes(model, Pipeline("stored", (stored,), quantization=QuantizationSpec()))[0])
    feeds = [images(1, seed) for seed in range(48)]
    after, _ = rounded(model, made, feeds)
    unseen = images(32, 1000)
    assert decibels(run(model, unseen), run(after, unseen)) > decibels(run(model, unseen), run(made, unseen)) + 1.8


@pytest.mark.parametrize(
    ("text", "constants", "samples"),
    [
        (CONVS + "y = Conv(x, u) }", weights(32, 4, 9, 9), images),
        (TEXTS.replace("24", "192") + "y = MatMul(x, u) }", weights(192, 32), None),
        (ROWS.replace("24", "192") + "y = Gemm<transB=1>(x, u) }", weights(32, 192), None),
    ],
    ids=["Conv", "MatMul", "transB"],
)
def test_blocks_of_stored_weights_are_rounded_too(text: str, constants: Any, samples: Any) -> None:
    def wide(count: int, seed: int) -> dict[str, Any]:
        return {"x": smooth(count, *([6] if "MatMul" in text else []), 192, seed=seed)}

    samples = samples or wide
    model = load(text, opset=17, weights={"u": constants})
    stored = rule_pass(stored_weights, "store-int8-weights")
    made = to_onnx(apply_passes(model, Pipeline("stored", (stored,), quantization=QuantizationSpec()))[0])
    assert "Reshape" in {n.op_type for n in made.graph.node}
    after, change_log = rounded(model, made, [samples(4, seed) for seed in range(48)])
    assert change_log.counts[NAME][NAME] == 1
    unseen = samples(32, 1000)
    assert decibels(run(model, unseen), run(after, unseen)) > decibels(run(model, unseen), run(made, unseen)) + 1.8


def test_scales_may_be_stored_as_halves_afterwards() -> None:
    """Those of a channel of zeros become 0."""
    u = weights(1024, 4, 3, 3)
    u[3] = 0
    model = load(CONVS + "y = Conv(x, u) }", opset=17, weights={"u": u})
    stored, spec = rule_pass(stored_weights, "store-int8-weights"), QuantizationSpec()
    single, half = (
        to_onnx(apply_passes(model, Pipeline("stored", passes, quantization=spec))[0])
        for passes in ((stored,), (stored, StoreWeights()))
    )
    (scales,) = (IntegerWeights.of(op).scales for op in layers(from_onnx(half).graph))
    assert scales.min() == 0
    with np.errstate(all="raise"):
        found = layers_of(model, half, [images(1, seed) for seed in range(8)])
    assert not found["y"].integers[3].any()
    result, change_log = apply_passes(single, RoundLayers(found))
    assert change_log.counts[NAME][NAME] == 1
    assert decibels(run(model, images(8, 99)), run(to_onnx(result), images(8, 99))) > 40


def test_an_op_that_is_left_out_keeps_its_weights() -> None:
    text, constants, _, _ = MODELS[0].values
    assert isinstance(text, str)
    model = load(text, opset=17, weights=constants)  # pyright: ignore[reportArgumentType]
    made = quantized_with(model, images(4, 0), **COARSE)
    found = layers_of(model, made, [images(4, 0)])
    places = [op.outputs[0].name for op in layers(from_onnx(made).graph)]
    graph = from_onnx(made).graph
    before = [IntegerWeights.of(op).integers for op in layers(graph)]
    RoundLayers(found).run(graph, ChangeLog(exclusions=Exclusions(changes={(NAME, places[0]): 0}, why="left")))
    after = [IntegerWeights.of(op).integers for op in layers(graph)]
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])


def test_a_result_that_only_a_gate_reads_is_known_by_its_stem() -> None:
    """The gate of a HardSwish or HardSigmoid takes the place of the value."""
    text = CONVS + "a = Conv(x, u, b) e = Mul(a, eight) h = HardSigmoid(e) y = Mul(h, h) }"
    model = load(text, opset=17, weights={"u": U, "b": B, "eight": np.float32(8)})
    made = quantized_with(model, images(4, 0), **COARSE)
    _, change_log = rounded(model, made, [images(1, seed) for seed in range(24)])
    assert change_log.counts[NAME][NAME] == 1


@each("change", ["scales", "shape", "no integers"])
def test_layers_of_other_weights_are_declined(change: str) -> None:
    model = load(ROWS + "a = Gemm(x, u, b) y = Neg(a) }", opset=17, weights={"u": weights(24, 32), "b": weights(32)})
    made = quantized_with(model, vectors(8, 0), **COARSE)
    layer = layers_of(model, made, [vectors(8, 0)])["a"]
    given = {
        "scales": layer._replace(scales=layer.scales * 2),
        "shape": layer._replace(integers=layer.integers[1:]),
        "no integers": layer,
    }[change]
    subject = model if change == "no integers" else made
    result, change_log = apply_passes(subject, RoundLayers({"a": given}))
    assert initializers(to_onnx(result)).keys() == initializers(subject).keys()
    assert len(change_log.declines[NAME]) == 1


def test_layers_of_other_names_are_left_out() -> None:
    constants = {"u": weights(24, 8), "b": C}
    model = load(ROWS + "y = Gemm(x, u, b) }", weights=constants)
    other = load(ROWS.replace(" y)", " z)") + "z = Gemm(x, u, b) }", weights=constants)
    assert not layer_pairs(from_onnx(model).graph, from_onnx(other).graph)
    assert len(layer_pairs(from_onnx(model).graph, from_onnx(model).graph)) == 1


def test_layers_of_new_names_are_those_that_the_names_were_made_of() -> None:
    """Rewrites give the result of a layer a new name, made of that which it had."""

    def graph(first: str, second: str) -> Graph:
        body = f"{first} = MatMul(x, u) r = Neg({first}) {second} = MatMul(r, v) y = Neg({second}) }}"
        return from_onnx(load(ROWS + body, weights={"u": weights(24, 8), "v": weights(8, 8)})).graph

    pairs = layer_pairs(graph("m_pw2", "n"), graph("m_pw7", "n_pw8"))
    assert [p.names[-1] for p in pairs] == ["m", "n"]
    assert not layer_pairs(graph("m_pw2", "m_pw5"), graph("m_pw7", "m_pw9"))  # which is which is unknown


@each(
    "text",
    [
        "g (float[24,N] x) => (float[N,8] y) { y = Gemm<transA=1>(x, u) }",
        "g (float[2,N,24] x) => (float[2,N,8] y) { y = MatMul(x, m) }",
    ],
)
def test_ops_without_such_rows(text: str) -> None:
    constants = {"u": weights(24, 8), "m": weights(2, 24, 8)}
    graph = from_onnx(load(text, weights={n: a for n, a in constants.items() if f" {n})" in text})).graph
    assert not rounded_layers(layer_pairs(graph, graph), lambda _: pytest.fail("nothing is to be collected"))
