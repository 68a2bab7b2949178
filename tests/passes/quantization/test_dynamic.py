"""Tests of integer arithmetic with ranges of activations computed in each run."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaded_by_ort import decibels, loaded
from msgspec.structs import replace
from onnx import TensorProto
from passwright.app.optimize.match_report import diagnose_match
from passwright.core import (
    LOSSY,
    Pipeline,
    QuantizationSpec,
    RewriteBuilder,
    RulePass,
    Value,
    from_onnx,
    rule,
    rule_pass,
)
from passwright.passes.cleanup.constants import MergeConstants
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.pipelines import BASIC
from passwright.passes.quantization import dynamic as dynamic_rules
from rewriting import apply_passes, each, initializers, load, op_types, run, stays, to_onnx
from weights import read_by

QUANTIZE_DYNAMIC = rule_pass(dynamic_rules, "quantize-dynamic")

SPEC = QuantizationSpec(operators=frozenset({"MatMul", "Gemm", "LSTM"}), weight_limit=63, min_weights=0)
FULL = replace(SPEC, weights=TensorProto.UINT8, weight_limit=127)
ROWS, COLUMNS = 48, 40
MATMUL = "g (float[M,48] x) => (float[M,40] y) { y = MatMul(x, w) }"


def normal(*dims: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng((seed, *dims)).normal(0, scale, dims).astype(np.float32)


def quantized(model: onnx.ModelProto, spec: QuantizationSpec | None = SPEC, *before: Any) -> onnx.ModelProto:
    passes = (*before, QUANTIZE_DYNAMIC, MergeDuplicates())
    made = to_onnx(apply_passes(model, Pipeline("dynamic", passes, quantization=spec))[0])
    onnx.checker.check_model(made)
    return made


def dynamic(text: str, weights: Mapping[str, Any], opset: int = 17, spec: QuantizationSpec = SPEC) -> onnx.ModelProto:
    return quantized(load(text, opset, read_by(text, weights)), spec)


def dynamically_quantized(x: np.ndarray) -> np.ndarray:
    """DequantizeLinear(DynamicQuantizeLinear(x)), as the ONNX specification has it."""
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * np.float64(scale)


def rounded_columns(w: np.ndarray, limit: int, axis: Any = -2) -> np.ndarray:
    """Weights as integers up to a limit, times the scale of each column, or of all of them."""
    scale = (np.abs(w).max(axis=axis, keepdims=True) / limit).astype(np.float32).astype(np.float64)
    return np.rint(w / scale) * scale


W, B, X = normal(ROWS, COLUMNS), normal(COLUMNS), normal(5, ROWS)


@each(
    ("text", "weights", "wanted"),
    {
        "matmul": ("y = MatMul(x, w)", W, lambda q, w: q @ w),
        "bias": ("m = MatMul(x, w) y = Add(m, b)", W, lambda q, w: q @ w + B),
        "bias first": ("m = MatMul(x, w) y = Add(b, m)", W, lambda q, w: q @ w + B),
        "gemm": ("y = Gemm(x, w)", W, lambda q, w: q @ w),
        "transB": ("y = Gemm<transB=1>(x, w, b)", W.T.copy(), lambda q, w: q @ w + B),
        "alpha, beta": ("y = Gemm<alpha=0.5, beta=3.0>(x, w, b)", W, lambda q, w: q @ w / 2 + 3 * B),
        "nothing": ("y = Gemm<alpha=0.0, beta=0.0>(x, w, b)", W, lambda q, w: 0 * q @ w),
        "one number": ("y = Gemm<beta=2.0>(x, w, one)", W, lambda q, w: q @ w + 2),
        "bias of rows": ("y = Gemm<beta=2.0>(x, w, rows)", W, lambda q, w: q @ w + 2 * ROW_BIAS),
        "computed": ("c = Neg(rows) y = Gemm<beta=2.0>(x, w, c)", W, lambda q, w: q @ w - 2 * ROW_BIAS),
        "transA": ("t = Transpose(x) y = Gemm<transA=1>(t, w, b)", W, lambda q, w: q @ w + B),
    },
)
@each(("opset", "spec"), [(11, SPEC), (21, FULL), (17, replace(SPEC, per_channel=False))])
def test_products_of_integers(text: str, weights: np.ndarray, wanted: Any, opset: int, spec: QuantizationSpec) -> None:
    named = {"w": weights, "b": B, "one": np.float32([1]), "rows": ROW_BIAS}
    made = dynamic(f"g (float[M,48] x) => (float[M,40] y) {{ {text} }}", named, opset, spec)
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= set(op_types(made))
    w = rounded_columns(W, spec.weight_limit, -2 if spec.per_channel else None)
    expected = wanted(dynamically_quantized(X), w)
    operators, (got,) = loaded(made, {"x": X})
    fused = {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
    assert not fused.isdisjoint(operators), operators
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(run(made, {"x": X})[0], expected, rtol=0, atol=1e-4)


ROW_BIAS = normal(5, 1)


@each("dims", [(2, 5, ROWS), (ROWS,), (0, ROWS), (0, 3, ROWS), (2, 3, 4, ROWS)])
def test_operands_of_any_rank_and_extent(dims: tuple[int, ...]) -> None:
    names = ",".join("ABCD"[: len(dims) - 1])
    inner = f"{names},48" if names else "48"
    made = dynamic(f"g (float[{inner}] x) => (float[{names or 'N'}{',N' if names else ''}] y) {{ y = MatMul(x, w) }}",
                   {"w": W})  # fmt: skip
    x = normal(*dims)
    operators, (got,) = loaded(made, {"x": x})
    assert operators == ["DynamicQuantizeMatMul"]
    assert got.shape == (*dims[:-1], COLUMNS)
    if x.size:
        np.testing.assert_allclose(got, dynamically_quantized(x) @ rounded_columns(W, 63), rtol=0, atol=1e-4)


@each("dims", [(3, ROWS, COLUMNS), (2, 1, ROWS, COLUMNS)])
def test_matrices_in_a_batch_have_one_scale(dims: tuple[int, ...]) -> None:
    w, x = normal(*dims), normal(3, 5, ROWS)
    made = dynamic("g (float[3,M,48] x) => (y) { y = MatMul(x, w) }".replace("(y)", "(float[A,B,C] y)" if len(dims) == 3
                   else "(float[A,B,C,D] y)"), {"w": w})  # fmt: skip
    operators, (got,) = loaded(made, {"x": x})
    assert operators == ["DynamicQuantizeMatMul"]
    np.testing.assert_allclose(got, dynamically_quantized(x) @ rounded_columns(w, 63, None), rtol=0, atol=1e-4)


def test_readers_of_one_value_share_its_integers() -> None:
    text = "g (float[M,48] x) => (float[M,40] y) { a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b) }"
    made = dynamic(text, {"w": W, "v": normal(ROWS, COLUMNS, seed=1)})
    assert op_types(made).count("DynamicQuantizeLinear") == 1
    assert Counter(loaded(made, {"x": X})[0]) == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 2, "Add": 1}


def test_products_share_the_integers_of_one_weight() -> None:
    text = "g (float[M,48] x) => (float[M,40] y) { n = Neg(x) a = MatMul(x, w) b = MatMul(n, w) y = Sub(a, b) }"
    passes = QUANTIZE_DYNAMIC, MergeDuplicates(), MergeConstants()
    result, _ = apply_passes(load(text, weights={"w": W}), Pipeline("dynamic", passes, quantization=SPEC))
    made = to_onnx(result)
    assert sorted(a.nbytes for a in initializers(made).values()) == [4 * COLUMNS, W.size]
    operators, (got,) = loaded(made, {"x": X})
    assert operators.count("DynamicQuantizeMatMul") == 2
    assert decibels(2 * X @ W, got) > 30


@each(
    ("body", "names"),
    [
        (f"c = Constant<value = float[32,32] {{{','.join(['0.5'] * 1024)}}}>() y = MatMul(x, c)", ()),
        ("t = Transpose<perm=[1,0]>(w) y = MatMul(x, t)", "w"),
        ("t = Identity(w) y = MatMul(x, t)", "w"),
        ("t = Identity(w) u = Transpose(t) y = Gemm<alpha=0.5>(x, u)", "w"),
    ],
)
def test_weights_behind_other_ops_are_normalized_first(body: str, names: str) -> None:
    """onnxruntime.quantization leaves those in float."""
    model = load(f"g (float[M,32] x) => (float[M,32] y) {{ {body} }}", weights={n: normal(32, 32) for n in names})
    made = quantized(model, SPEC, BASIC)
    assert "MatMulInteger" in op_types(made)
    x = normal(4, 32)
    assert decibels(run(model, {"x": x})[0], loaded(made, {"x": x})[1][0]) > 30


def test_bodies_are_quantized() -> None:
    """onnxruntime.quantization skips the branches of an If."""
    model = load(
        """g (float[M,48] x, bool c) => (float[M,40] y) {
            y = If (c) <then_branch = t () => (float[M,40] p) { p = MatMul(x, w) },
                        else_branch = e () => (float[M,40] q) { q = Gemm<beta=2.0>(x, w, b) }> }""",
        weights={"w": W, "b": B},
    )
    made = quantized(model)
    for branch in (True, False):
        feeds = {"x": X, "c": np.array(branch)}
        operators, (got,) = loaded(made, feeds)
        assert operators.count("DynamicQuantizeMatMul") + operators.count("MatMulIntegerToFloat") == 2
        assert decibels(run(model, feeds)[0], got) > 30


def test_a_loop_is_quantized() -> None:
    model = load(
        """g (float[M,48] x, int64 n, bool c) => (float[M,48] y) {
            y = Loop (n, c, x) <body = b (int64 i, bool ci, float[M,48] a) => (bool co, float[M,48] r) {
                co = Identity(ci) m = MatMul(a, w) r = Tanh(m) }> }""",
        weights={"w": normal(ROWS, ROWS, scale=0.1)},
    )
    feeds = {"x": X, "n": np.array(3), "c": np.array(True)}
    operators, (got,) = loaded(quantized(model), feeds)
    assert "DynamicQuantizeMatMul" in operators
    assert decibels(run(model, feeds)[0], got) > 25


def test_halves_are_cast_to_single_precision() -> None:
    """onnxruntime.quantization makes an invalid model of this."""
    text = "g (float16[M,48] x) => (float16[M,40] y) { y = Gemm<alpha=0.5, beta=2.0>(x, w, b) }"
    model = load(text, weights={"w": W.astype(np.float16), "b": B.astype(np.float16)})
    made = quantized(model)
    operators, (got,) = loaded(made, {"x": X.astype(np.float16)})
    assert "DynamicQuantizeMatMul" in operators
    assert got.dtype == np.float16
    assert decibels((X @ W / 2 + 2 * B).astype(np.float16), got) > 30


STAYS = {
    "opset": (MATMUL, {"w": W}, 10),
    "weights first": ("g (float[48,M] x) => (float[40,M] y) { y = MatMul(w, x) }", {"w": W.T.copy()}, 17),
    "both computed": ("g (float[M,48] x, float[48,N] w) => (float[M,N] y) { y = MatMul(x, w) }", {}, 17),
    "vector": ("g (float[M,48] x) => (float[M] y) { y = MatMul(x, w) }", {"w": normal(48)}, 17),
    "double": ("g (double[M,48] x) => (double[M,40] y) { y = MatMul(x, w) }", {"w": W.astype(np.float64)}, 17),
    "few columns": ("g (float[M,48] x) => (float[M,8] y) { y = MatMul(x, w) }", {"w": normal(48, 8)}, 17),
    "few rows": ("g (float[M,8] x) => (float[M,48] y) { y = MatMul(x, w) }", {"w": normal(8, 48)}, 17),
    "no rows": ("g (float[M,0] x) => (float[M,48] y) { y = MatMul(x, w) }", {"w": normal(0, 48)}, 17),
    "infinite": (MATMUL, {"w": np.where(W > 2, np.float32(np.inf), W)}, 17),
    "overridable": ("g (float[M,48] x, float[48,40] w) => (float[M,40] y) { y = MatMul(x, w) }", {"w": W}, 17),
    "added dims": ("g (float[M,48] x) => (float[1,M,40] y) { m = MatMul(x, w) y = Add(m, b) }",
                   {"w": W, "b": normal(1, 1, 40)}, 17),
    "convolution": ("g (float[1,40,9,9] x) => (float[1,48,9,9] y) { y = Conv(x, w) }", {"w": normal(48, 40, 1, 1)}, 17),
}  # fmt: skip


@each("name", list(STAYS))
def test_stays(name: str) -> None:
    text, weights, opset = STAYS[name]
    model = load(text, opset, weights)
    assert quantized(model) == model


@each("spec", [None, replace(SPEC, operators=frozenset({"Conv"})), QuantizationSpec()])
def test_stays_without_a_spec_for_it(spec: QuantizationSpec | None) -> None:
    model = load(MATMUL, weights={"w": W})
    assert quantized(model, spec) == model


def test_few_weights_stay_in_float() -> None:
    model = load(MATMUL, weights={"w": W})
    assert quantized(model, replace(SPEC, min_weights=W.size + 1)) == model
    assert quantized(model, replace(SPEC, min_weights=W.size)) != model


@given(st.integers(1, 9), st.integers(32, 70), st.integers(32, 70), st.integers(0, 9), st.floats(1e-3, 1e3))
def test_the_error_is_within_half_a_step_of_each_factor(m: int, k: int, n: int, seed: int, scale: float) -> None:
    x, w = normal(m, k, seed=seed, scale=scale), normal(k, n, seed=seed + 10)
    made = dynamic("g (float[M,K] x) => (float[M,N] y) { y = MatMul(x, w) }", {"w": w})
    (got,) = loaded(made, {"x": x})[1]
    x_step = (max(x.max(), 0) - min(x.min(), 0)) / 255
    w_step = np.abs(w).max(axis=0) / 63
    # A zero point is rounded too, so that an end of the range may be cut by half a step.
    bound = x_step * np.abs(w).sum(axis=0) + w_step / 2 * (np.abs(x).sum(axis=1, keepdims=True) + k * x_step)
    assert (np.abs(got - x.astype(np.float64) @ w) <= bound + 1e-5 * scale).all()


def test_integers_do_not_saturate_with_seven_bits() -> None:
    """Without VNNI, 255 * 127 + 255 * 127 does not fit into the 16 bits of onnxruntime's sums of two."""
    w = np.full((64, 64), 0.5, np.float32)
    x = np.ones((3, 64), np.float32)
    (got,) = loaded(dynamic("g (float[M,64] x) => (float[M,64] y) { y = MatMul(x, w) }", {"w": w}), {"x": x})[1]
    np.testing.assert_allclose(got, x @ w, rtol=1e-3)


def lstm(directions: int = 1, hidden: int = 40, inputs: int = ROWS, **others: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "w": normal(directions, 4 * hidden, inputs, scale=0.2),
        "r": normal(directions, 4 * hidden, hidden, scale=0.2),
        "b": normal(directions, 8 * hidden, scale=0.2),
        **others,
    }


LSTMS = {
    "forward": ("y = LSTM<hidden_size=40>(x, w, r, b)", lstm()),
    "no bias": ("y = LSTM<hidden_size=40>(x, w, r)", lstm()),
    "reverse": ('y = LSTM<hidden_size=40, direction="reverse">(x, w, r, b)', lstm()),
    "both ways": ('y = LSTM<hidden_size=40, direction="bidirectional">(x, w, r, b)', lstm(2)),
    "peepholes": ("y = LSTM<hidden_size=40>(x, w, r, b, , , , p)", lstm(p=normal(1, 120))),
    "states": ("y = LSTM<hidden_size=40>(x, w, r, b, , h, c)", lstm(h=normal(1, 2, 40), c=normal(1, 2, 40))),
    "lengths": ("y = LSTM<hidden_size=40>(x, w, r, b, l)", lstm(l=np.array([5, 3], np.int32))),
    "last state": ("u, v, y = LSTM<hidden_size=40>(x, w, r, b)", lstm()),
    "clip": ("y = LSTM<hidden_size=40, clip=0.5, input_forget=1>(x, w, r, b)", lstm()),
    "activations": ('y = LSTM<hidden_size=40, activations=["Sigmoid","Relu","Tanh"]>(x, w, r, b)', lstm()),
}


@pytest.mark.parametrize("name", LSTMS)
@pytest.mark.parametrize("spec", [SPEC, FULL, replace(SPEC, per_channel=False)], ids=["7 bits", "unsigned", "tensor"])
def test_lstm_of_integers(name: str, spec: QuantizationSpec) -> None:
    call, weights = LSTMS[name]
    dims = "1,2,40" if "v, y" in call else "5,1,2,40" if weights["w"].shape[0] == 1 else "5,2,2,40"
    text = f"g (float[5,2,48] x) => (float[{dims}] y) {{ {call} }}"
    model = load(text, weights=read_by(text, weights))
    made = quantized(model, spec)
    x = normal(5, 2, ROWS)
    operators, (got,) = loaded(made, {"x": x})
    assert operators == ["DynamicQuantizeLSTM"]
    assert decibels(run(model, {"x": x})[0], got) > (30 if spec.per_channel else 25)


def lstm_by_equations(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The hidden states of an LSTM, gates in the order i, o, f, c, its operands quantized for each product."""
    size = r.shape[-1]
    gates = dynamically_quantized(x).reshape(-1, x.shape[-1]) @ w.T
    gates = gates.reshape(*x.shape[:2], -1) + b[: 4 * size] + b[4 * size :]
    h = c = np.zeros((x.shape[1], size))
    states: list[np.ndarray] = []
    for t in range(len(x)):
        i, o, f, n = np.split(gates[t] + dynamically_quantized(h.astype(np.float32)) @ r.T, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        states.append(h)
    return np.stack(states)


def test_lstm_against_its_equations() -> None:
    weights = lstm()
    made = dynamic(f"g (float[5,2,48] x) => (float[5,1,2,40] y) {{ {LSTMS['forward'][0]} }}", weights)
    x = normal(5, 2, ROWS)
    w, r = (rounded_columns(weights[n][0].T, 63).T for n in "wr")
    wanted = lstm_by_equations(x, w, r, weights["b"][0])
    (got,) = loaded(made, {"x": x})[1]
    assert decibels(wanted, got[:, 0]) > 55  # an integer of h may differ by one where its quotient is a half


@each(
    ("text", "opset"),
    [
        ("g (float[2,5,48] x) => (float[2,5,1,40] y) { y = LSTM<hidden_size=40, layout=1>(x, w, r, b) }", 17),
        ("g (float[5,2,48] x, float[1,160,40] r) => (float[5,1,2,40] y) { y = LSTM<hidden_size=40>(x, w, r, b) }", 17),
    ],
)
def test_lstm_stays(text: str, opset: int) -> None:
    model = load(text, opset, read_by(text, lstm()))
    assert quantized(model) == model


@each("outputs", [["", "y", "z"], ["", "", "z"], ["z", "", "y"]])
def test_lstm_without_some_outputs(outputs: list[str]) -> None:
    """As in silero-vad; the shape of its input is not known."""
    model = load("g (float[5,2,48] x, int64[3] s) => (float[A,B,C] y) { v = Reshape(x, s) y = Neg(v) }", weights=lstm())
    made = onnx.helper.make_node("LSTM", ["v", "w", "r", "b"], outputs, hidden_size=40)
    del model.graph.node[1:], model.graph.output[:]
    model.graph.node.append(made)
    types = [(o, list("ABC" if i else "ABCD")) for i, o in enumerate(outputs) if o]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in types)
    feeds = {"x": normal(5, 2, ROWS), "s": np.array([5, 2, 48])}
    operators, got = loaded(quantized(model), feeds)
    assert "DynamicQuantizeLSTM" in operators
    assert all(decibels(a, b) > 30 for a, b in zip(run(model, feeds), got, strict=True))


def test_types_are_known_behind_an_operator_that_is_not_standard() -> None:
    text = f"g (float[5,2,48] x) => (float[5,2,40] z) {{ {LSTMS['forward'][0]} z = Squeeze(y, i) }}"
    model = load(text, weights=lstm(i=np.array([1])))
    result, _ = apply_passes(model, Pipeline("d", (QUANTIZE_DYNAMIC,), quantization=SPEC))
    (squeeze,) = (op for op in result.graph.sorted_ops() if op.type == "Squeeze")
    assert squeeze.inputs[0] is not None
    assert squeeze.inputs[0].dtype == TensorProto.FLOAT
    assert squeeze.inputs[0].static_shape == (5, 1, 2, 40)


@rule(lambda g, x, w: g.MatMul(x, g.const(w)), contract=LOSSY)
def halve_weights(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """MatMul(x, w) => MatMul(x, w as float16)"""
    return g.MatMul(x, g.Cast(g.const(w.const.astype(np.float16)), to=TensorProto.FLOAT))


def test_a_plugin_adds_a_rule_in_four_lines_that_runs_only_where_the_pipeline_quantizes() -> None:
    model, halve = load(MATMUL, weights={"w": W}), RulePass("halve", (halve_weights,))
    made = to_onnx(apply_passes(model, Pipeline("h", (halve,), quantization=QuantizationSpec()))[0])
    assert op_types(made) == ["Cast", "MatMul"]
    assert decibels(X @ W, run(made, {"x": X})[0]) > 60
    stays(MATMUL, halve, weights={"w": W})
    (op,) = from_onnx(model).graph.ops()
    (failure,) = diagnose_match(halve_weights, op).failures
    assert failure.reason == "its contract is lossy, and the pipeline does not quantize"


def test_sums_beyond_32_bits_stay_in_float() -> None:
    """255 * 127 * 70,000 is more than an int32 holds; with weights of both signs the sums are half of that."""
    for weights, kind in ((np.ones((70_000, 32)), "MatMul"), (normal(70_000, 32), "DynamicQuantizeMatMul")):
        w = weights.astype(np.float32)
        model = load("g (float[M,70000] x) => (float[M,32] y) { y = MatMul(x, w) }", 17, {"w": w})
        x = np.ones((2, 70_000), np.float32)
        operators, (got,) = loaded(quantized(model, replace(SPEC, weight_limit=127)), {"x": x})
        assert operators == [kind]
        assert decibels(run(model, {"x": x})[0], got) > 25
    reason = "sums of 70000 products of integers with the weights may exceed 32 bits"
    graph = from_onnx(load("g (float[M,70000] x) => (float[M,32] y) { y = MatMul(x, w) }", 17,
                           {"w": np.ones((70_000, 32), np.float32)})).graph  # fmt: skip
    graph.context.quantization = replace(SPEC, weight_limit=127)
    (op,) = graph.ops()
    found = diagnose_match(dynamic_rules.quantize_product_dynamically, op)
    assert [f.reason for f in found.failures][-1:] == [reason]
