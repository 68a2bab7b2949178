"""Tests of integer arithmetic with calibrated ranges."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from passwright.core import (
    LOSSY,
    Op,
    Pipeline,
    QuantizationSpec,
    Range,
    RewriteBuilder,
    RulePass,
    Value,
    require,
    rule,
    rule_pass,
)
from passwright.passes.cleanup import quantization
from passwright.passes.cleanup.constants import MergeConstants
from passwright.passes.quantization import static_groups
from passwright.passes.quantization.static_groups import has_integers, is_quantized
from passwright.passes.quantization.static_groups import quantized as quantized_value
from passwright.passes.support.operand_queries import operand
from passwright.passes.targets import QUANTIZATION_TARGETS
from quantized_models import (
    GROUPS,
    MATRIX,
    ROWS,
    SIGNED,
    UNSIGNED,
    WEIGHTS,
    C,
    D,
    X,
    as_model,
    calibrated,
    distance,
    fused_ops,
    optimized_run,
    quantized,
    scales,
)
from random_models import models
from rewriting import apply_passes, cases, each, initializers, load, op_types, run, to_onnx
from tiers import Slow, in_turn
from weights import read_by

from passwright import optimize

SIMPLIFY_QUANTIZATION = rule_pass(quantization, "simplify-quantization")
KEEP_IN_FLOAT = rule_pass(static_groups, "keep-in-float")
QUANTIZE_STATIC = rule_pass(static_groups, "quantize-static")


class QuantizeLinear(OpRun):
    """The formula of the specification in float64: saturate(round half to even(x / scale) + zero)."""

    op_domain = ""

    def _run(self, x: Any, scale: Any, zero: Any, axis: int | None = None, **_: Any) -> tuple[Any]:
        del axis  # activations have one scale
        limits = np.iinfo(zero.dtype)
        return (np.clip(np.rint(x.astype(np.float64) / scale) + zero, limits.min, limits.max).astype(zero.dtype),)


class DequantizeLinear(OpRun):
    """The formula of the specification in float64: (x - zero) * scale."""

    op_domain = ""

    def _run(self, x: Any, scale: Any, zero: Any, axis: int | None = None, **_: Any) -> tuple[Any]:
        dims = [-1 if i == axis else 1 for i in range(x.ndim)] if scale.ndim else []
        wide = (x.astype(np.float64) - zero.reshape(dims)) * scale.astype(np.float64).reshape(dims)
        return (wide.astype(np.float32),)


class MaxPool(OpRun):
    """The maximum of windows with stride 1, for bytes, too, of which that of onnx makes NaN."""

    op_domain = ""

    def _run(self, x: Any, kernel_shape: Any = None, **_: Any) -> tuple[Any]:
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, axis=(2, 3))
        return (windows.max(axis=(4, 5)),)


def emulated(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    return ReferenceEvaluator(model, new_ops=[QuantizeLinear, DequantizeLinear, MaxPool]).run(None, dict(feeds))


@pytest.mark.parametrize(
    ("body", "x", "ops", "opset"),
    [
        pytest.param(*group, opset, id=f"{group[0]}-{opset}", marks=[pytest.mark.slow] if tier is Slow else [])
        for group, opset, tier in in_turn(GROUPS, (10, 21, 13, 19))
    ],
)
def test_group(body: str, x: np.ndarray[Any, Any], ops: str, opset: int, tmp_path: Path) -> None:
    model = as_model(body, x, opset)
    (exact,) = run(model, {"x": x})
    for spec in (UNSIGNED, SIGNED):
        made = quantized(model, {"x": x}, spec)
        onnx.checker.check_model(made, full_check=True)
        (wanted,), (plain,), step = emulated(made, {"x": x}), run(made, {"x": x}), max(scales(made))
        assert distance(plain, wanted) < 0.01 * step
        assert distance(exact, wanted) < 3 * step
        if spec is UNSIGNED:  # signed activations are fused on ARM
            assert distance(optimized_run(made, {"x": x})[0], wanted) < 1.01 * step
            assert sorted(fused_ops(made, tmp_path)) == sorted(ops.split())


STAYS = [
    ("y = Neg(x)", X, "an op that nothing computes on integers"),
    ("y = Sigmoid(x)", X, "no integers are there"),
    ("y = Add(x, x)", X, "no integers are there"),
    ("y = ConvTranspose(x, w1)", X, "an op that nothing computes on integers"),
    ("y = HardSwish(x)", X, "no integers are there"),
    ("t = Transpose<perm = [0, 1, 3, 2]>(x) y = MaxPool<kernel_shape = [2, 2]>(t)", X, "movements of floats"),
    ("n = Neg(w1) y = Conv(x, n)", X, "computed weights"),
    ("n = Neg(c1) y = Gemm(x, m1, n)", MATRIX, "a computed bias"),
    ("y = Gemm(x, m1, per_row)", MATRIX, "a bias for each row"),
    ("y = Conv(x, nothing)", X, "weights without elements"),
    ("y = Conv(x, infinite)", X, "weights that are not finite"),
    ("y = Conv(x, w1, not_a_number)", X, "a bias that is not finite"),
    (f"{C} p = Mul(c, c) y = Log(p)", X, "the logarithm of a power"),
    (f"{C} {D} p = Mul(c, c) q = Mul(d, d) s = Add(p, q) r = Sqrt(s) m = Max(r, tiny) y = Log(m)", X, "of a magnitude"),
    ("m = MatMul(x, m1) t = Transpose<perm = [0, 2, 1]>(m) k = MatMul(t, m5) y = Log(k)", ROWS, "of a linear map"),
    (f"{C} p = Mul(c, c) y = ReduceLogSum<axes = [1]>(p)", X, "of a sum"),
    (f"{C} a, b = Split<axis = 2>(c, halves) p = Mul(a, b) y = Log(p)", X, "of parts"),
    (f"{C} p = Pad(c, pads) q = Mul(p, p) y = Log(q)", X, "of what is padded"),
    (f"{C} n = Neg(c) p = Mul(n, n) q = AveragePool<kernel_shape = [2, 2]>(p) y = Log(q)", X, "of an average"),
    (f"{C} p = Mul(c, c) n = Min(p, high) m = Max(n, tiny) y = Log(m)", X, "below an upper bound"),
    (f"{C} p = Mul(c, c) q = ReduceMax(p) f = Mul(q, tiny) m = Max(p, f) y = Log(m)", X, "above a computed bound"),
    (f"{C} n = Clip(c, low, high) p = Mul(n, n) y = Log(p)", X, "between bounds around 0"),
]


@pytest.mark.parametrize(("body", "x"), [row[:2] for row in STAYS], ids=[row[2] + ": " + row[0] for row in STAYS])
def test_stays(body: str, x: np.ndarray[Any, Any]) -> None:
    assert "QuantizeLinear" not in op_types(quantized(as_model(body, x, 13), {"x": x}))


SPECTROGRAM = "p = Mul(c, c) m = Clip(p, tiny) l = Log(m)"


def test_layers_behind_a_logarithm_are_quantized_and_the_spectrogram_is_not() -> None:
    """The small channels of a spectrogram of 60 dB are as accurate as the large ones."""
    model = as_model(f"{C} {SPECTROGRAM} d = Conv(l, w2) r = Relu(d) y = Neg(r)", X, 17)
    for w in model.graph.initializer:  # the first channel is a thousandth of the others
        if w.name in {"w1", "b1"}:
            weights = numpy_helper.to_array(w).copy()
            weights[0] *= 1e-3
            w.CopyFrom(numpy_helper.from_array(weights, w.name))
    made = quantized(model, {"x": X})
    assert next(node.input[0] for node in made.graph.node if node.op_type == "QuantizeLinear") == "l"
    assert op_types(made).count("QuantizeLinear") == 2
    assert distance(run(made, {"x": X})[0], run(model, {"x": X})[0]) < 3 * max(scales(made))


def test_a_clamp_at_0_ends_the_way_to_a_logarithm() -> None:
    """Behind a Relu, numbers are those of a layer, of which 0 is one."""
    model = as_model(f"{C} r = Relu(c) d = Conv(r, w2) e = Relu(d) s = Add(e, s1) y = Log(s)", X, 17)
    assert op_types(quantized(model, {"x": X})).count("QuantizeLinear") == 2


BRANCHES = [
    (f"{C} y = If(b) <then_branch = t () => (float[1,3,8,8] u) {{ p = Mul(c, c) u = Log(p) }}, "
     "else_branch = e () => (float[1,3,8,8] v) { v = Abs(c) }>"),
    (f"f = If(b) <then_branch = t () => (float[1,3,8,8] c) {{ {C} }}, "
     f"else_branch = e () => (float[1,3,8,8] d) {{ {D} }}> p = Mul(f, f) y = Log(p)"),
]  # fmt: skip


@each("body", BRANCHES)
def test_values_whose_logarithm_is_taken_in_another_graph_stay(body: str) -> None:
    text = f"g (float[1,3,8,8] x, bool b) => (float[1,3,8,8] y) {{ {body} }}"
    model = load(text, 17, read_by(text, WEIGHTS))
    ranges = dict.fromkeys(["x", "c", "d", "f", "p"], Range(-3, 3))
    made = apply_passes(model, Pipeline("static", (QUANTIZE_STATIC,), quantization=replace(UNSIGNED, ranges=ranges)))[0]
    assert not [op for g in made.graph.with_subgraphs() for op in g.ops("QuantizeLinear")]


def test_values_whose_logarithm_is_taken_are_searched_once_if_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    search = static_groups.values_in_logarithms
    monkeypatch.setattr(static_groups, "values_in_logarithms", lambda g: searches.append(0) or search(g))
    layers = [f"c{i} = Conv<pads=[1,1,1,1]>(l{i}, w1) r{i} = Relu(c{i}) l{i + 1} = Log(r{i})" for i in range(20)]
    ranges = {f"{kind}{i}": Range(-3, 3) for kind in "lcr" for i in range(21)}  # the logarithms are not finite
    made = quantized(as_model(f"l0 = Abs(x) {' '.join(layers)} y = Neg(l20)", X, 17), {"x": X}, **ranges)
    assert ("QuantizeLinear" in op_types(made), len(searches)) == (False, 1)


@each("activation", ["Sigmoid(c)", "Softmax<axis = 1>(c)", "HardSigmoid(c)"])
def test_probabilities_whose_logarithm_is_taken_are_no_integers(activation: str) -> None:
    """Integers have 256 of them from 0 to 1."""
    made = quantized(as_model(f"{C} r = {activation} s = Add(r, tiny) y = Log(s)", X, 17), {"x": X})
    (add,) = (node for node in made.graph.node if node.op_type == "Add")
    before = next(node.op_type for node in made.graph.node if add.input[0] in node.output)
    assert activation.startswith(before)
    assert op_types(made).count("QuantizeLinear") == 2


def residual_block() -> onnx.ModelProto:
    return as_model(f"{C} a = Relu(c) d = Conv<pads = [1, 1, 1, 1]>(a, w2) y = Add(a, d)", X, 17)


@each(
    ("spec", "ranges"),
    {
        "no spec": (None, {}),
        "operators that the target does not compute": (replace(UNSIGNED, operators=frozenset()), {}),
        "an infinite range": (UNSIGNED, {"x": Range(-1, np.inf)}),
        "a range that is no number": (UNSIGNED, {"x": Range(np.nan, 1)}),
    },
)
def test_nothing_is_quantized_without(spec: QuantizationSpec | None, ranges: dict[str, Range]) -> None:
    model = as_model("c = Conv(x, w1) y = Neg(c)", X, 17)
    assert "QuantizeLinear" not in op_types(quantized(model, {"x": X}, spec, **ranges))


def test_a_range_that_was_not_calibrated_leaves_an_op_in_float() -> None:
    spec = replace(UNSIGNED, ranges={"x": Range(-1, 1)})
    made, _ = apply_passes(residual_block(), Pipeline("static", (QUANTIZE_STATIC,), quantization=spec))
    assert "QuantizeLinear" not in op_types(to_onnx(made))


class Layer(NamedTuple):
    """A product with `outputs` columns, a bias and a Relu or without; its weights are about 10**`magnitude`."""

    outputs: int
    magnitude: float
    is_gemm: bool
    biased: bool
    clamped: bool


LAYERS = st.builds(Layer, st.integers(1, 9), st.floats(-3, 3), st.booleans(), st.booleans(), st.booleans())
Floats = np.ndarray[Any, np.dtype[np.float64]]


def product_of(x: Floats, w: Floats) -> Floats:
    """A product of matrices, or a convolution padded by 1."""
    if w.ndim == 2:
        return x @ w
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def rounded(exact: Floats, error: Floats) -> Floats:
    """The bound of the error after 8 bits for the range of exact numbers; of zeros alone the scale is 1."""
    step = float(np.ptp(np.append(exact, 0))) / 255
    return error + step / 2 if step else 2 * error


@given(st.booleans(), st.lists(LAYERS, min_size=1, max_size=3), st.floats(-3, 3), st.integers(0, 99))
def test_the_error_of_a_net_is_within_the_bound_of_its_scales(
    convolves: bool, layers: list[Layer], magnitude: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = (random.normal(size=(1, 4, 6, 6) if convolves else (5, 4)) * 10**magnitude).astype(np.float32)
    lines, weights, value, exact = list[str](), dict[str, Any](), "x", x.astype(np.float64)
    error = rounded(exact, np.zeros(x.shape))
    for i, layer in enumerate(layers):
        channels, kernel = exact.shape[1], (3, 3) if convolves else ()
        dims = (layer.outputs, channels, 3, 3) if convolves else (channels, layer.outputs)
        w = weights[f"w{i}"] = (random.normal(size=dims) * 10**layer.magnitude).astype(np.float32)
        b = (random.normal(size=layer.outputs) * 10**layer.magnitude * layer.biased).astype(np.float32)
        operands = f"{value}, w{i}"
        if layer.biased:
            weights[f"b{i}"] = b
        with_bias = f"{operands}, b{i}" if layer.biased else operands
        if convolves:
            lines.append(f"p{i} = Conv<pads = [1, 1, 1, 1]>({with_bias})")
        elif layer.is_gemm or not layer.biased:
            lines.append(f"p{i} = Gemm({with_bias})" if layer.is_gemm else f"p{i} = MatMul({operands})")
        else:
            lines.append(f"m{i} = MatMul({operands}) p{i} = Add(m{i}, b{i})")
        value = f"y{i}" if layer.clamped else f"p{i}"
        lines += [f"y{i} = Relu(p{i})"] * layer.clamped
        others = tuple(range(1, 4)) if convolves else (0,)
        per_channel = np.abs(w.astype(np.float64)).max(axis=others, keepdims=True) / UNSIGNED.weight_limit / 2
        of_weights, shaped = np.broadcast_to(per_channel, w.shape), b.reshape(-1, *(1 for _ in kernel))
        bias_step = np.ptp(np.append(exact, 0)) / 255 * per_channel.reshape(shaped.shape)
        sums = product_of(np.abs(exact), np.abs(w)) + np.abs(shaped)
        error = product_of(np.abs(exact), of_weights) + product_of(error, np.abs(w) + of_weights) + bias_step
        exact = product_of(exact, w.astype(np.float64)) + shaped
        exact = np.maximum(exact, 0) if layer.clamped else exact
        error = rounded(exact, error + 1e-5 * sums)
    sizes = "a,b,c,d" if convolves else "a,b"
    text = f"g (float[{','.join(map(str, x.shape))}] x) => (float[{sizes}] y) {{ {' '.join(lines)} y = Neg({value}) }}"
    made = quantized(load(text, 17, weights), {"x": x})
    assert op_types(made).count("QuantizeLinear") >= len(layers)
    (found,) = run(made, {"x": x})
    assert (np.abs(found + exact) <= 1.01 * error).all()


PAIR = "q = QuantizeLinear(x, s, z) e = DequantizeLinear(q, s, z)"
BACK = "r = QuantizeLinear(c, s, z) y = DequantizeLinear(r, s, z)"


@cases(
    ("body", "x", "kept"),
    {
        "conv": (f"{PAIR} c = Conv(e, w1, b1) {BACK}", X, "Conv Max"),
        "relu": (f"{PAIR} d = Conv(e, w1, b1) c = Relu(d) {BACK}", X, "FusedConv Max"),
        "transposed": (f"{PAIR} c = ConvTranspose(e, w1) {BACK}", X, "ConvTranspose Max"),
        "gemm": (f"{PAIR} c = Gemm(e, m1, c1) {BACK}", MATRIX, "Gemm Max"),
        "an operator left out": (f"{PAIR} c = Softmax<axis = 1>(e) {BACK}", MATRIX, "Softmax Max"),
        "where": (f"{PAIR} t = Less(e, s) c = Where(t, e, e) {BACK}", MATRIX, "Less Where Max"),
    },
)
def test_onnxruntime_quantizes_no_op_that_stays_in_float(body: str, x: Any, kept: str, tmp_path: Path) -> None:
    constants = {"s": np.float32(0.05), "z": np.uint8(128)}
    text = f"g (float[{','.join(map(str, x.shape))}] x) => (float[{','.join('abcd'[: x.ndim])}] y) {{ {body} }}"
    model = load(text, 17, read_by(text, WEIGHTS | constants))
    spec = replace(UNSIGNED, operators=frozenset({"Conv"}))
    keep = Pipeline("keep", (KEEP_IN_FLOAT,), quantization=spec)
    made = to_onnx(apply_passes(model, keep)[0])
    assert np.array_equal(run(model, {"x": x})[0], run(made, {"x": x})[0])
    assert sorted(fused_ops(made, tmp_path)) == sorted(kept.split())
    assert op_types(to_onnx(apply_passes(made, keep)[0])) == op_types(made)
    if x is MATRIX and "Gemm" not in kept:
        return
    (before,), (after,), (wanted,) = optimized_run(model, {"x": x}), optimized_run(made, {"x": x}), run(model, {"x": x})
    assert np.abs(after - wanted).mean() < np.abs(before - wanted).mean()


@cases(
    ("body", "kept"),
    {
        "floats": ("c = Relu(x) y = MaxPool<kernel_shape = [2, 2]>(c)", "Relu MaxPool Max"),
        "integers": (
            "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = MaxPool<kernel_shape = [2, 2]>(d)",
            "MaxPool",
        ),
    },
)
def test_onnxruntime_quantizes_behind_a_pool_of_floats(body: str, kept: str, tmp_path: Path) -> None:
    text = f"g (float[1,3,8,8] x) => (uint8[a,b,c,d] r) {{ {body} r = QuantizeLinear(y, s, z) }}"
    model = load(text, 17, {"s": np.float32(0.05), "z": np.uint8(128)})
    keep = Pipeline("keep", (KEEP_IN_FLOAT,), quantization=UNSIGNED)
    made = to_onnx(apply_passes(model, keep)[0])
    assert np.array_equal(run(model, {"x": X})[0], run(made, {"x": X})[0])
    assert fused_ops(made, tmp_path) == kept.split()
    assert op_types(to_onnx(apply_passes(made, keep)[0])) == op_types(made)


@pytest.mark.parametrize(
    ("body", "is_quantized"),
    [
        ("y = Conv(x, w1)", False),
        ("y = Conv<group = 3>(x, w_each)", True),
        ("s = Squeeze(x, zero) y = Conv(s, w_row)", True),
    ],
)
def test_convolutions_of_images_of_few_channels_stay_in_float(body: str, *, is_quantized: bool) -> None:
    more = {"w_each": WEIGHTS["w1"][:3, :1], "w_row": WEIGHTS["w1"][..., 0], "zero": np.array([0])}
    text = f"g (float[1,3,8,8] x) => (float[] y) {{ {body} }}" if "Squeeze" not in body else (
        f"g (float[1,1,3,8] x) => (float[] y) {{ {body} }}"
    )  # fmt: skip
    x = X if "Squeeze" not in body else X[:, :1, :3]
    model = load(text, 17, read_by(text, WEIGHTS | more))
    for channels, wanted in ((3, True), (4, is_quantized)):
        made = quantized(model, {"x": x}, replace(UNSIGNED, min_channels=channels))
        assert ("QuantizeLinear" in op_types(made)) == wanted


# Failures of other tools, with what becomes of the same model here.


def test_weights_behind_other_ops_are_quantized_after_basic() -> None:
    text = """g (float[1,3,8,8] x) => (float[1,3,8,8] y) {
        i = Identity(w1) c = Conv<pads = [1, 1, 1, 1]>(x, i) t = Transpose<perm = [1, 0, 2, 3]>(w2) k = Identity(t)
        y = Conv<pads = [1, 1, 1, 1]>(c, k) }"""
    model = load(text, 17, read_by(text, WEIGHTS))
    made = quantized(optimize(model, verify=False).model, {"x": X})
    assert Counter(op_types(made)) == {"Conv": 2, "QuantizeLinear": 3, "DequantizeLinear": 5}


def test_a_mask_of_large_numbers_is_not_added_to_integers() -> None:
    text = """g (float[2,5,16] x) => (float[2,5,12] y)
        <float least = {-3.4e38}, float[5,1] mask = {0, -3.4e38, 0, 0, 0}> {
        m = MatMul(x, m1) r = Relu(m) a = Add(r, mask) b = Max(a, least) y = Neg(b) }"""
    made = quantized(load(text, 17, {"m1": WEIGHTS["m1"]}), {"x": ROWS})
    assert op_types(made).count("QuantizeLinear") == 2
    (exact,), (found,) = run(load(text, 17, {"m1": WEIGHTS["m1"]}), {"x": ROWS}), run(made, {"x": ROWS})
    assert distance(exact, found) < 0.05


def test_halves_stay_as_they_are() -> None:
    text = "g (float16[1,3,8,8] x) => (float16[1,3,8,8] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w) }"
    model = load(text, 19, {"w": WEIGHTS["w1"].astype(np.float16)})
    spec = replace(UNSIGNED, ranges={"x": Range(-1, 1), "y": Range(-1, 1)})
    made, change_log = apply_passes(model, Pipeline("static", (QUANTIZE_STATIC,), quantization=spec))
    assert not change_log.changes
    assert op_types(to_onnx(made)) == ["Conv"]


def test_bodies_are_quantized() -> None:
    text = """g (bool b, float[1,3,8,8] x) => (float[1,3,8,8] y, float[1,3,8,8] z) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w1)
        y = If (b) <then_branch = t () => (float[1,3,8,8] o) { d = Conv<pads = [1, 1, 1, 1]>(c, w2) o = Relu(d) },
            else_branch = f () => (float[1,3,8,8] p) { p = Neg(c) }> z = Neg(x) }"""
    model = load(text, 17, read_by(text, WEIGHTS))
    spec = replace(UNSIGNED, ranges={"x": Range(-1, 1), "c": Range(-3, 3), "o": Range(0, 5)})
    passes = Pipeline("static", (QUANTIZE_STATIC, SIMPLIFY_QUANTIZATION), quantization=spec)
    made = to_onnx(apply_passes(model, passes)[0])
    (branch,) = (n for n in made.graph.node if n.op_type == "If")
    ops = [node.op_type for node in branch.attribute[0].g.node]
    assert Counter(ops) == {"DequantizeLinear": 3, "Conv": 1, "QuantizeLinear": 1}
    for b in (True, False):
        feeds = {"b": np.array(b), "x": X}
        for exact, found in zip(run(model, feeds), optimized_run(made, feeds), strict=True):
            assert distance(exact, found) < 0.1


def test_overridable_weights_stay_in_float() -> None:
    text = "g (float[1,3,8,8] x, float[3,3,3,3] w) => (float[1,3,6,6] y) { y = Conv(x, w) }"
    model = load(text, 17, {"w": WEIGHTS["w1"]})
    spec = replace(UNSIGNED, ranges={"x": Range(-1, 1), "y": Range(-3, 3)})
    made, change_log = apply_passes(model, Pipeline("static", (QUANTIZE_STATIC,), quantization=spec))
    assert not change_log.changes
    assert [v.name for v in to_onnx(made).graph.input] == ["x", "w"]


def test_sums_beyond_32_bits_stay_in_float() -> None:
    """Of weights, of convolutions too, and of two computed factors."""
    ones = np.ones((70_000, 32), np.float32)
    product = "g (float[1,70000] x) => (float[1,32] y) { y = MatMul(x, w) }"
    conv = "g (float[1,70000,1,1] x) => (float[1,32,1,1] y) { y = Conv(x, w) }"
    two = "g (float[1,1,40000] x, float[1,40000,1] v) => (float[1,1,1] y) { y = MatMul(x, v) }"
    spec = replace(UNSIGNED, ranges={"x": Range(0, 1), "v": Range(0, 1), "y": Range(0, 70_000)}, weight_limit=127)
    for text, w in ((product, ones), (conv, ones.T[:, :, None, None].copy()), (two, None)):
        weights = {} if w is None else {"w": w}
        pipeline = Pipeline("static", (QUANTIZE_STATIC,), quantization=spec)
        assert not apply_passes(load(text, 17, weights), pipeline)[1].changes, text
        signs = np.random.default_rng(0).choice(np.float32([-1, 1]), () if w is None else w.shape)
        few = {} if w is None else {"w": w * signs}
        assert apply_passes(load(text.replace("40000", "400"), 17, few), pipeline)[1].changes, text


def test_shared_weights_are_written_once() -> None:
    made = quantized(as_model(f"{C} d = Conv<pads = [1, 1, 1, 1]>(c, w1, b1) y = Neg(d)", X, 17), {"x": X})
    made = to_onnx(apply_passes(made, MergeConstants())[0])
    assert sum(a.shape == (3, 3, 3, 3) for a in initializers(made).values()) == 1


def test_empty_batches_run() -> None:
    text = f"g (float[N,3,8,8] x) => (float[N,3,8,8] y) {{ {C} r = Relu(c) g = GlobalAveragePool(r) y = Add(g, r) }}"
    model = load(text, 17, read_by(text, WEIGHTS))
    made = quantized(model, {"x": X})
    assert optimized_run(made, {"x": X[:0]})[0].shape == (0, 3, 8, 8)


CHANNELS = np.array([1, 0, 1e-43, 1e-20, 1e9], np.float32)  # the sizes of the weights of five channels


@each(
    ("weights", "bias", "given"),
    {
        "zeros and tiny weights with a bias": (CHANNELS, np.full(5, 0.5), 1),
        "no bias": (CHANNELS[:4], None, 1),
        "a bias that exceeds int32": (np.full(5, 1e-3), np.array([1e6, 1e9, -1e12, 0, 1]), 1),
        "tiny activations": (np.ones(5), np.ones(5), 1e-30),
        "products that are denormal": (np.full(5, 1e-30), np.zeros(5), 1e-20),
        "huge activations": (np.full(5, 1e10), np.full(5, 1e20), 1e20),
    },
)
@each("opset", [12, 13])
def test_weights_and_biases_of_all_sizes(weights: Any, bias: Any, given: float, opset: int) -> None:
    matrix = (np.random.default_rng(0).uniform(-1, 1, (16, len(weights))) * weights).astype(np.float32)
    used = {"w": matrix} | ({} if bias is None else {"b": bias.astype(np.float32)})
    operands = "x, w" if bias is None else "x, w, b"
    model = load(f"g (float[5,16] x) => (float[a,b] y) {{ p = Gemm({operands}) y = Relu(p) }}", opset, used)
    feeds = {"x": MATRIX * np.float32(given)}
    made = quantized(model, feeds)
    (exact,), (found,), (fused,) = run(model, feeds), run(made, feeds), optimized_run(made, feeds)
    assert op_types(made).count("QuantizeLinear") == 2
    step = np.ptp(np.append(exact, 0)) / 255 + given * float(np.abs(matrix).max()) / (1 if opset < 13 else 8)
    assert distance(exact, found) <= step + 1e-30
    assert distance(found, fused) <= step / 100 + 1e-30 if given < 1 else True


def test_weights_that_no_scale_represents_stay_in_float() -> None:
    used = {"w": np.full((16, 5), 1e38, np.float32)}
    model = load("g (float[5,16] x) => (float[a,b] y) { y = Gemm(x, w) }", 13, used)
    spec = replace(UNSIGNED, ranges={"x": Range(-1e30, 1e30), "y": Range(-1, 1)})
    assert not apply_passes(model, Pipeline("static", (QUANTIZE_STATIC,), quantization=spec))[1].changes


@rule(lambda g, op: g.Round(...) @ op, contract=LOSSY)
def quantize_round(g: RewriteBuilder, op: Op) -> Value:
    """Round(x) => Quantized(Round(x)), where x is dequantized"""
    x, rounded = operand(op), op.outputs[0]
    require(has_integers(g, x) and not is_quantized(g, op), f"{x.name} is not quantized for another op, or it is")
    return quantized_value(g, g.Round(quantized_value(g, x)), of=rounded)


def test_a_plugin_adds_a_group() -> None:
    model = as_model(f"{C} r = Round(c) d = Conv(r, w2) y = Round(x)", X, 17)
    model.graph.output.append(onnx.ValueInfoProto(name="d"))
    spec = replace(UNSIGNED, ranges=calibrated(model, {"x": X}))
    rules = RulePass("all", (*QUANTIZE_STATIC.rules, quantize_round))
    made, change_log = apply_passes(model, Pipeline("static", (rules,), quantization=spec))
    (round_of_c, round_of_x) = (c.place for c in change_log.changes if c.by == "quantize_round")
    assert {round_of_c, round_of_x} == {"r", "y"}
    counts = Counter(op_types(to_onnx(made)))
    assert (counts["Round"], counts["QuantizeLinear"]) == (2, 6)  # x for each of its readers


@given(models())
def test_random_models_stay_valid(model: onnx.ModelProto) -> None:
    model, spec = optimize(model, verify=False).model, QUANTIZATION_TARGETS["portable"].spec({})
    assume("Dropout" not in op_types(model))  # those that are left are in training form, and draw numbers
    feeds: dict[str, Any] = {}
    for v in model.graph.input:
        dims = [d.dim_value or 2 for d in v.type.tensor_type.shape.dim]
        drawn = np.random.default_rng(len(feeds)).normal(size=dims)
        feeds[v.name] = drawn.astype(onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type))
    made = quantized(model, feeds, spec)
    made = to_onnx(apply_passes(made, Pipeline("keep", (KEEP_IN_FLOAT,), quantization=spec))[0])
    onnx.checker.check_model(made, full_check=True)
    for before, plain, fused in zip(run(model, feeds), run(made, feeds), optimized_run(made, feeds), strict=True):
        assert (before.shape, before.dtype) == (fused.shape, fused.dtype)
        if before.dtype == np.float32 and np.isfinite(before).all():
            assert distance(plain, fused) <= 0.5 * float(np.abs(plain).max(initial=0)) + 1e-6


def test_probabilities_of_one_class_stay_1() -> None:
    model = as_model("c = Conv(x, w_one) p = Softmax<axis = 1>(c) y = Conv(p, w_back)", X, 13)
    made = quantized(model, {"x": X}, spec := QUANTIZATION_TARGETS["portable"].spec({}))
    kept = to_onnx(apply_passes(made, Pipeline("keep", (KEEP_IN_FLOAT,), quantization=spec))[0])
    (exact,), (fused,), (found,) = run(model, {"x": X}), optimized_run(made, {"x": X}), optimized_run(kept, {"x": X})
    assert distance(exact, found) < 0.02
    assert distance(exact, fused) > 0.1  # onnxruntime's QLinearSoftmax of one element is 0


UNSIGNED_WEIGHTS = replace(UNSIGNED, weights=TensorProto.UINT8, weight_limit=127)


@pytest.mark.parametrize(("body", "x", "ops"), GROUPS[::5], ids=[row[0] for row in GROUPS[::5]])
def test_unsigned_weights_of_eight_bits(body: str, x: np.ndarray[Any, Any], ops: str, tmp_path: Path) -> None:
    model = as_model(body, x, 13)
    made = quantized(model, {"x": x}, UNSIGNED_WEIGHTS)
    (wanted,), (found,), (exact,) = emulated(made, {"x": x}), optimized_run(made, {"x": x}), run(model, {"x": x})
    assert distance(found, wanted) < 1.01 * max(scales(made))  # without VNNI, too
    assert distance(exact, wanted) < 3 * max(scales(made))
    assert sorted(fused_ops(made, tmp_path)) == sorted(ops.split())


@each("spec", [UNSIGNED, SIGNED])
@each(
    ("gate", "given", "low", "high"),
    [
        ("HardSwish(c)", Range(-9, 5), -3, 5),
        ("HardSwish(c)", Range(2, 2), -3, 2),
        ("HardSigmoid(c)", Range(-9, 9), -2.5, 2.5),
        ("HardSigmoid<alpha = 0.5, beta = 0.25>(c)", Range(-9, 0.5), -0.5, 0.5),
        ("HardSwish(c)", Range(-9, -4), -3, 0),
    ],
)
def test_integers_begin_where_a_gate_does(
    spec: QuantizationSpec, gate: str, given: Range, low: float, high: float
) -> None:
    """Numbers below have the same result; 0 and the start of the gate are integers."""
    made = quantized(as_model(f"{C} y = {gate}", X, 17), {"x": X}, spec, c=given)
    constants = initializers(made)
    scale, zero = next(
        (float(constants[n.input[1]]), int(constants[n.input[2]]))
        for n in made.graph.node if n.op_type == "QuantizeLinear" and n.input[0] != "x"
    )  # fmt: skip
    least = 0 if spec is UNSIGNED else -128
    assert (least - zero) * scale == pytest.approx(low, rel=1e-6)
    assert high - 1e-6 <= (least + 255 - zero) * scale <= high + (high - low) * 3 / 255 + 0.05


@each(
    ("body", "given"),
    [
        (f"{C} y = HardSwish(c)", Range(-9, 1e4)),
        (f"{C} h = HardSigmoid(c) y = Mul(h, c)", Range(-2, 2)),
        (f"{C} y = HardSigmoid<alpha = -0.2>(c)", Range(-2, 2)),
        (f"{C} y = HardSigmoid<beta = 1.5>(c)", Range(-2, 2)),
    ],
)
def test_gates_stay_in_float_with(body: str, given: Range) -> None:
    made = quantized(as_model(body, X, 17), {"x": X}, c=given)
    assert {"HardSwish", "HardSigmoid"} & set(op_types(made))
    wanted, found = (run(m, {"x": X})[0] for m in (as_model(body, X, 17), made))
    assert distance(wanted, found) < 2 * max(scales(made))
