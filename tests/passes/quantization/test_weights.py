"""Tests of weights of 4 or 8 bits."""

import math
from collections.abc import Mapping
from itertools import product as product_of
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaded_by_ort import decibels, loaded
from msgspec.structs import replace
from passwright.app.quantize.candidates import MERGE_EQUAL
from passwright.core import Pipeline, QuantizationSpec, RulePass, from_onnx, rule_pass
from passwright.core.calibration.collection import collect_statistics
from passwright.core.calibration.statistics import Rows
from passwright.passes.quantization import dynamic
from passwright.passes.quantization import weights as weights_rules
from passwright.passes.quantization.weight_rounding import Grid, gram_inputs, joint_grams, rounded_weights
from passwright.passes.quantization.weights import QUANTIZE_TABLES
from rewriting import apply_passes, each, initializers, load, op_types, run, to_onnx
from weights import read_by

QUANTIZE_DYNAMIC = rule_pass(dynamic, "quantize-dynamic")
QUANTIZE_WEIGHTS = rule_pass(weights_rules, "quantize-weights")
STORE_INT8_WEIGHTS = rule_pass(weights_rules, "store-int8-weights")

OPERATORS = frozenset({"MatMul", "Gemm", "Gather", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"})
EIGHT = QuantizationSpec(operators=OPERATORS, min_weights=0)
FOUR = replace(EIGHT, weight_bits=4, block=32)
ROWS, COLUMNS = 80, 24  # the last block of 32 rows is not full
MATMUL = "g (float[M,80] x) => (float[M,24] y) { y = MatMul(x, w) }"


def normal(*dims: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng((seed, *dims)).normal(0.1, 1, dims)).astype(np.float32)


W, B, X = normal(ROWS, COLUMNS), normal(COLUMNS), normal(5, ROWS)


def quantized(model: onnx.ModelProto, spec: QuantizationSpec | None, p: RulePass = QUANTIZE_WEIGHTS) -> onnx.ModelProto:
    made = to_onnx(apply_passes(model, Pipeline("weights", (p, *MERGE_EQUAL), quantization=spec))[0])
    onnx.checker.check_model(made)
    return made


def quantized_text(
    text: str, weights: Mapping[str, Any], spec: QuantizationSpec, opset: int = 21, p: RulePass = QUANTIZE_WEIGHTS
) -> onnx.ModelProto:
    return quantized(load(text, opset, read_by(text, weights)), spec, p)


def rounded(w: np.ndarray, bits: int, block: int, *, symmetric: bool) -> np.ndarray:
    """Weights after rounding, block by block and column by column."""
    made = np.empty(w.shape)
    block = block or len(w)
    for i in range(0, len(w), block):
        for c in range(w.shape[1]):
            part = w[i : i + block, c].astype(np.float64)
            low, high = min(part.min(), 0), max(part.max(), 0)
            if symmetric:
                scale, zero, limits = (
                    max(-low, high) / (2 ** (bits - 1) - 1),
                    0,
                    (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
                )
            else:
                scale, zero, limits = (high - low) / (2**bits - 1), 0, (0, 2**bits - 1)
            scale = float(np.float32(scale)) or 1.0
            if not symmetric:
                zero = round(-low / scale)
            made[i : i + block, c] = (np.clip(np.rint(part / scale) + zero, *limits) - zero) * scale
    return made


FORMS = {
    "8 bits": EIGHT,
    "8 bits with zero points": replace(EIGHT, symmetric=False),
    "8 bits in blocks": replace(EIGHT, block=32),
    "8 bits in blocks with zero points": replace(EIGHT, block=16, symmetric=False),
    "4 bits": FOUR,
    "4 bits and one scale": replace(FOUR, block=0),
    "4 bits with zero points": replace(FOUR, symmetric=False),
    "4 bits, one zero point": replace(FOUR, block=0, symmetric=False),
    "4 bits in a block larger than the rows": replace(FOUR, block=128),
    "4 bits, zero points, large block": replace(FOUR, block=256, symmetric=False),
}


@each("spec", FORMS)
def test_weights_of_a_product(spec: QuantizationSpec) -> None:
    made = quantized_text(MATMUL, {"w": W}, spec, 17)
    wanted = X @ rounded(W, spec.weight_bits, spec.block, symmetric=spec.symmetric)
    operators, (got,) = loaded(made, {"x": X})
    assert operators == ["MatMulNBits"]
    assert decibels(wanted, got) > 35  # its kernel makes int8 of the activations
    np.testing.assert_allclose(run(with_float_activations(made), {"x": X})[0], wanted, rtol=0, atol=1e-4)
    sizes = sum(a.nbytes for a in initializers(made).values() if a.dtype.itemsize > 1)
    assert sizes <= 4 * COLUMNS * -(-ROWS // (spec.block or 128))  # of floats, only the scales


def with_float_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with products that make no int8 of their activations."""
    exact = onnx.ModelProto.FromString(model.SerializeToString())
    for node in exact.graph.node:
        levels = [a for a in node.attribute if a.name == "accuracy_level"]
        for a in levels:
            a.i = 0
    return exact


def test_a_channel_is_hardly_padded() -> None:
    for rows in (512, 192, 64):
        text = f"g (float[M,{rows}] x) => (float[M,24] y) {{ y = MatMul(x, w) }}"
        made = quantized_text(text, {"w": normal(rows, COLUMNS)}, EIGHT, 17)
        assert sum(a.nbytes for a in initializers(made).values()) <= 1.07 * rows * COLUMNS


BEHIND = {
    "nothing": "y = Identity(a)",
    "Relu": "y = Relu(a)",
    "Tanh": "y = Tanh(a)",
    "Sigmoid": "y = Sigmoid(a)",
    "Gelu": "d = Div(a, root) e = Erf(d) f = Add(e, one) h = Mul(a, f) y = Mul(h, half)",
    "Softmax": "y = Softmax<axis=-1>(a)",
    "a residual": "y = Add(a, r)",
    "LayerNormalization": "s = Add(a, r) y = LayerNormalization<axis=-1>(s, b, b)",
    "Clip": "y = Clip(a, half, one)",
}
PRODUCTS_BEFORE = {
    "MatMul": "a = MatMul(x, w)",
    "MatMul with a bias": "m = MatMul(x, w) a = Add(m, b)",
    "Gemm": "a = Gemm(x, w, b)",
    "Gemm of transposed weights": "a = Gemm<transB=1, alpha=0.5, beta=2.0>(x, t, b)",
}


@pytest.mark.parametrize("batch", ["2,", ""])
@pytest.mark.parametrize("opset", [13, 21, 26])
def test_products_stay_fused_whatever_follows(batch: str, opset: int) -> None:
    """In the graph that onnxruntime optimized; it made a Gemm of floats of a DequantizeLinear before a residual."""
    numbers = {"root": np.sqrt(np.float32(2)), "one": np.float32(1), "half": np.float32(0.5), "b": B}
    x, r = normal(*([2] if batch else []), 5, ROWS), normal(*([2] if batch else []), 5, COLUMNS)
    unfused: list[str] = []
    for (before, product), (after, rest), spec in product_of(PRODUCTS_BEFORE.items(), BEHIND.items(), (EIGHT, FOUR)):
        if (batch and "Gemm" in before) or (opset < 17 and after == "LayerNormalization"):
            continue
        text = f"g (float[{batch}M,80] x, float[{batch}M,24] r) => (float[{batch}M,24] y) {{ {product} {rest} }}"
        model = load(text, opset, read_by(text, {"w": W, "t": W.T.copy(), **numbers}))
        made = quantized(model, spec)
        feeds = {"x": x, "r": r}
        operators, (got,) = loaded(made, feeds)
        wanted = run(with_float_activations(made), feeds)[0]
        if "MatMulNBits" not in operators or {"Gemm", "MatMul"} & set(operators) or decibels(wanted, got) < 30:
            unfused.append(f"{before}, {after}, {spec.weight_bits} bits: {operators}")
    assert unfused == []


@each("spec", [EIGHT, FOUR])
def test_columns_of_zeros_bring_no_noise(spec: QuantizationSpec) -> None:
    """The kernel rounds sums of integers and takes away their middle, which is 0 only with a small scale."""
    w = W.copy()
    w[:, 3] = 0
    _, (got,) = loaded(quantized_text(MATMUL, {"w": w}, spec), {"x": 100 * X})
    assert np.abs(got[..., 3]).max() < 1e-30


@each(
    ("call", "w", "wanted"),
    [
        ("m = MatMul(x, w) y = Add(m, b)", W, lambda w: X @ w + B),
        ("y = Gemm(x, w)", W, lambda w: X @ w),
        ("y = Gemm<transB=1>(x, w, b)", W.T.copy(), lambda w: X @ w + B),
        ("y = Gemm<alpha=0.5, beta=3.0>(x, w, b)", W, lambda w: X @ w / 2 + 3 * B),
        ("t = Transpose(x) y = Gemm<transA=1>(t, w, b)", W, lambda w: X @ w + B),
        ("c = Neg(b) y = Gemm<beta=2.0>(x, w, c)", W, lambda w: X @ w - 2 * B),
    ],
)
@each(("spec", "opset"), [(EIGHT, 13), (FOUR, 21), (FOUR, 17)])
def test_gemm(call: str, w: np.ndarray, wanted: Any, spec: QuantizationSpec, opset: int) -> None:
    made = quantized_text(f"g (float[M,80] x) => (float[M,24] y) {{ {call} }}", {"w": w, "b": B}, spec, opset)
    operators, (got,) = loaded(made, {"x": X})
    assert "MatMulNBits" in operators
    assert decibels(wanted(rounded(W, spec.weight_bits, spec.block, symmetric=True)), got) > 35


@each("dims", [(2, 5, ROWS), (0, ROWS), (2, 0, ROWS)])
@each(("spec", "opset"), [(EIGHT, 13), (FOUR, 21), (FOUR, 17)])
def test_inputs_of_any_rank_and_extent(dims: tuple[int, ...], spec: QuantizationSpec, opset: int) -> None:
    names = ",".join("AB"[: len(dims) - 1])
    text = f"g (float[{names},80] x) => (float[{names},24] y) {{ m = MatMul(x, w) y = Add(m, b) }}"
    x = normal(*dims)
    operators, (got,) = loaded(quantized_text(text, {"w": W, "b": B}, spec, opset), {"x": x})
    assert operators == ["MatMulNBits"]
    assert got.shape == (*dims[:-1], COLUMNS)
    if x.size:
        assert decibels(x @ rounded(W, spec.weight_bits, spec.block, symmetric=True) + B, got) > 35


@each(("spec", "opset"), [(EIGHT, 13), (FOUR, 21), (EIGHT, 21)])
def test_weights_of_two_products_and_of_bodies(spec: QuantizationSpec, opset: int) -> None:
    """Each product has a kernel of its own, in bodies too."""
    twice = "g (float[M,80] x) => (float[M,24] y) { n = Neg(x) a = MatMul(x, w) b = MatMul(n, w) y = Sub(a, b) }"
    made = quantized_text(twice, {"w": W}, spec, opset)
    operators, (got,) = loaded(made, {"x": X})
    assert operators.count("MatMulNBits") == 2
    assert decibels(2 * X @ rounded(W, spec.weight_bits, spec.block, symmetric=True), got) > 35
    model = load(
        """g (float[M,80] x, bool c) => (float[M,24] y) {
            y = If (c) <then_branch = t () => (float[M,24] p) { p = MatMul(x, w) },
                        else_branch = e () => (float[M,24] q) { q = Gemm<beta=2.0>(x, v, b) }> }""",
        opset,
        {"w": W, "b": B, "v": normal(ROWS, COLUMNS, seed=1)},
    )
    made = quantized(model, spec)
    for branch in (True, False):
        feeds = {"x": X, "c": np.array(branch)}
        operators, (got,) = loaded(made, feeds)
        assert operators.count("MatMulNBits") == 2
        assert decibels(run(model, feeds)[0], got) > (30 if spec is EIGHT else 15)


@each(("spec", "opset"), [(EIGHT, 13), (EIGHT, 19), (FOUR, 21), (FOUR, 17)])
def test_halves(spec: QuantizationSpec, opset: int) -> None:
    text = "g (float16[M,80] x) => (float16[M,24] y) { y = Gemm<alpha=0.5, beta=2.0>(x, w, b) }"
    made = quantized_text(text, {"w": W.astype(np.float16), "b": B.astype(np.float16)}, spec, opset)
    operators, (got,) = loaded(made, {"x": X.astype(np.float16)})
    assert "MatMulNBits" in operators
    assert got.dtype == np.float16
    assert (
        decibels(X @ rounded(W / 2, spec.weight_bits, spec.block, symmetric=True) + 2 * B, got) > 30
    )  # the scales are halves, too


def test_methods_of_rounding() -> None:
    """Clipping and GPTQ give the integers of `rounded_weights`, with the Gram matrix of the input."""
    x = normal(300, ROWS, seed=3) @ normal(ROWS, ROWS, seed=4)
    gram = (x.T @ x).astype(np.float64)
    errors = {}
    for method in ("nearest", "mse", "hqq", "gptq"):
        made = quantized_text(MATMUL, {"w": W}, replace(FOUR, rounding=method, grams={"x": gram}))
        wanted = rounded_weights(W, Grid(-8, 7, 0, 32), method, gram)
        errors[method] = float(np.square(run(made, {"x": x})[0] - x @ W).sum())
        np.testing.assert_allclose(run(made, {"x": X})[0], X @ wanted.weights(32), rtol=0, atol=1e-4)
    assert errors["gptq"] < 0.7 * errors["mse"] < 0.7 * errors["nearest"]


def test_slow_rounding_is_remembered_for_the_same_weights_and_inputs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded: list[str] = []

    def counted(weights: np.ndarray, *arguments: Any) -> Any:
        rounded.append("")
        return rounded_weights(weights, *arguments)

    monkeypatch.setattr(weights_rules, "rounded_weights", counted)
    grams = {"x": np.eye(ROWS) + 0.5, "a": np.eye(ROWS)}
    spec = replace(FOUR, rounding="gptq", grams=grams, remembered={})
    first = quantized_text(MATMUL, {"w": W}, spec)
    assert quantized_text(MATMUL, {"w": W}, spec) == first
    assert len(rounded) == 1
    others = [
        (MATMUL, W[::-1].copy(), spec),
        (MATMUL, W, replace(spec, wide=frozenset({"w"}))),
        (MATMUL.replace("x", "a"), W, spec),
    ]
    for i, (text, w, other) in enumerate(others):
        assert quantized_text(text, {"w": w}, other) != first
        assert len(rounded) == 2 + i


def test_gptq_with_collected_inputs() -> None:
    model = load(
        """g (float[M,80] x, bool c) => (float[M,24] y, float[M,24] z) {
            a = Tanh(x) b = MatMul(a, w) s = Transpose(x) z = Gemm<transA=1>(s, w)
            y = If (c) <then_branch = t () => (float[M,24] p) { d = Neg(b) p = MatMul(d, u) },
                        else_branch = e () => (float[M,24] q) { q = Identity(b) }> }""",
        21,
        {"w": W, "u": normal(24, 24)},
    )
    graph = from_onnx(model).graph
    assert gram_inputs(graph) == {"a": 80, "d": 24}
    assert gram_inputs(graph, 600) == {"a": 80}
    mixing = normal(ROWS, ROWS, seed=5)
    feeds = [{"x": normal(n, ROWS, seed=n) @ mixing / 9, "c": np.array(True)} for n in (50, 150, 0, 100)]
    found = collect_statistics(model, (), feeds, grams={name: [Rows(n)] for name, n in gram_inputs(graph).items()})
    grams = {name: gram.sums[0] for name, s in found.items() for gram in s.grams.values()}
    rows = np.tanh(np.concatenate([f["x"] for f in feeds]).astype(np.float64))
    np.testing.assert_allclose(grams["a"], rows.T @ rows, rtol=1e-5, atol=1e-3)
    errors = [
        np.square(run(model, feeds[1])[0] - run(quantized(model, spec), feeds[1])[0]).sum()
        for spec in (FOUR, replace(FOUR, rounding="gptq", grams=grams))
    ]
    assert errors[1] < 0.7 * errors[0]


def test_products_behind_products_whose_types_are_unknown() -> None:
    weights = {"w": W, "u": normal(24, 24), "b": normal(24)}
    text = "a = MatMul(x, w) s = Mul(a, a) c = MatMul(s, u) r = Relu(c) y = Gemm(r, u, b)"
    made = quantized_text(f"g (float[M,80] x) => (float[M,24] y) {{ {text} }}", weights, EIGHT)
    assert op_types(made).count("MatMulNBits") == 3


def test_gram_matrix_of_another_value_is_declined() -> None:
    model = load(MATMUL, 21, {"w": W})
    assert quantized(model, replace(FOUR, rounding="gptq", grams={"x": np.eye(COLUMNS)})) == model


PRODUCT_STAYS = {
    "weights first": ("g (float[24,M] x) => (float[80,M] y) { y = MatMul(w, x) }", {"w": W}),
    "both computed": ("g (float[M,80] x, float[80,N] w) => (float[M,N] y) { y = MatMul(x, w) }", {}),
    "batch of weights for one factor": (
        "g (float[M,80] x) => (float[2,M,24] y) { y = MatMul(x, w) }",
        {"w": normal(2, 80, 24)},
    ),
    "batch of weights, each for one more factor": (
        "g (float[1,M,80] x) => (float[2,M,24] y) { y = MatMul(x, w) }",
        {"w": normal(2, 80, 24)},
    ),
    "batch of weights, perhaps for one factor": (
        "g (float[B,M,80] x) => (float[B,M,24] y) { y = MatMul(x, w) }",
        {"w": normal(2, 80, 24)},
    ),
    "axes that the factor lacks": (
        "g (float[M,80] x) => (float[1,M,24] y) { y = MatMul(x, w) }",
        {"w": normal(1, 80, 24)},
    ),
    "double": ("g (double[M,80] x) => (double[M,24] y) { y = MatMul(x, w) }", {"w": W.astype(np.float64)}),
    "infinite": (MATMUL, {"w": np.where(W > 2, np.float32(np.inf), W)}),
    "sums of integers overflow": (MATMUL, {"w": np.where(W > 2, np.float32(3e38), W)}),
    "overridable": ("g (float[M,80] x, float[80,24] w) => (float[M,24] y) { y = MatMul(x, w) }", {"w": W}),
    "no rows": ("g (float[M,0] x) => (float[M,24] y) { y = MatMul(x, w) }", {"w": normal(0, 24)}),
    "other axis": ("g (int64[N] i) => (float[80,N] y) { y = Gather<axis=1>(w, i) }", {"w": W}),
    "table of integers": ("g (int64[N] i) => (int64[N,24] y) { y = Gather(w, i) }", {"w": np.ones((80, 24), np.int64)}),
    "vector": ("g (int64[N] i) => (float[N] y) { y = Gather(w, i) }", {"w": normal(80)}),
    "computed table": ("g (float[M,80] x, int64[N] i) => (float[N,80] y) { y = Gather(x, i) }", {}),
}


@each("name", list(PRODUCT_STAYS))
def test_stays(name: str) -> None:
    text, weights = PRODUCT_STAYS[name]
    model = load(text, 21, weights)
    for spec in (EIGHT, FOUR):
        assert quantized(model, spec) == model


@each(
    "spec",
    [None, QuantizationSpec(), replace(EIGHT, min_weights=W.size + 1), replace(FOUR, block=24), replace(FOUR, block=8)],
)
def test_stays_without_a_spec_for_it(spec: QuantizationSpec | None) -> None:
    model = load(MATMUL, 21, {"w": W})
    assert quantized(model, spec) == model


@each("dims", ["1,M", "B,M", "2,M", "3,2,M", "B,2,M"])
@each("opset", [13, 17, 21])
def test_each_matrix_of_a_batch(dims: str, opset: int) -> None:
    """A single one is the matrix of all; others are for the parts of the factor."""
    count = 2 if "2" in dims else 1
    w = normal(count, ROWS, COLUMNS)
    text = f"g (float[{dims},80] x) => (float[{dims},24] y) {{ y = MatMul(x, w) }}"
    model = load(text, opset, {"w": w})
    x = normal(*(int(d) if d.isdigit() else 3 for d in dims.split(",")), ROWS)
    for spec, least in ((EIGHT, 35), (FOUR, 17)):
        made = quantized(model, spec)
        assert op_types(made).count("MatMulNBits") == count
        assert "MatMul" not in op_types(made)
        assert decibels(x @ w, run(made, {"x": x})[0]) > least
    assert quantized(model, replace(FOUR, min_weights=ROWS * COLUMNS + 1)) == model


@given(
    st.integers(1, 70), st.integers(1, 40), st.sampled_from([0, 16, 32, 64]), st.booleans(), st.sampled_from([17, 21]),
    st.integers(0, 9),
)  # fmt: skip
def test_any_extents_of_4_bits(k: int, n: int, block: int, symmetric: bool, opset: int, seed: int) -> None:
    w, x = normal(k, n, seed=seed), normal(3, k, seed=seed)
    spec = replace(FOUR, block=block, symmetric=symmetric)
    made = quantized_text("g (float[M,K] x) => (float[M,N] y) { y = MatMul(x, w) }", {"w": w}, spec, opset)
    operators, (got,) = loaded(made, {"x": x})
    assert operators == ["MatMulNBits"]
    wanted = rounded(w, 4, block, symmetric=symmetric)
    # int8 of activations have steps of a 127th of the largest in a block
    bound = np.abs(x).max() / 127 / 2 * np.abs(wanted).sum(axis=0) * 1.01 + 1e-4
    assert (np.abs(got - x @ wanted) <= bound).all()


@each("index_dims", [(1,), (2, 3), (0,)])
@each("tail", [(24,), (4, 6)])
@each("per_channel", [True, False])
@each("dtype", [np.float32, np.float16])
def test_tables(index_dims: tuple[int, ...], tail: tuple[int, ...], per_channel: bool, dtype: Any) -> None:
    table = (normal(50, *tail) * np.geomspace(0.01, 10, 50).reshape(-1, *[1] * len(tail))).astype(dtype)
    kind = "float" if dtype is np.float32 else "float16"
    dims = ",".join([*"AB"[: len(index_dims)], *map(str, tail)])
    text = f"g (int64[{','.join('AB'[: len(index_dims)])}] i) => ({kind}[{dims}] y) {{ y = Gather(w, i) }}"
    model = load(text, 13, {"w": table})
    made = quantized(model, replace(EIGHT, per_channel=per_channel))
    i = np.random.default_rng(0).integers(-50, 50, index_dims)
    flat = np.abs(table.astype(np.float64)).reshape(50, -1)
    scale = flat.max(axis=1) if per_channel else np.full(50, flat.max())
    (got,) = loaded(made, {"i": i})[1]
    assert got.dtype == dtype
    step = scale[i].reshape(*index_dims, *[1] * len(tail)) / 127
    slack = 0.51 if dtype is np.float32 else 0.6
    assert (np.abs(got.astype(np.float64) - table[i]) <= slack * step).all()
    assert not any(a.size >= table.size and a.itemsize > 1 for a in initializers(made).values())


PACKED = {
    "4 bits": FOUR,
    "4 bits with zero points": replace(FOUR, symmetric=False),
    "4 bits and one scale": replace(FOUR, block=0),
    "8 bits": EIGHT,
    "8 bits in blocks with zero points": replace(EIGHT, block=16, symmetric=False),
}


@each("spec", PACKED)
@each("tail", [(64,), (4, 32), (80,), (33,)])
@each("index_dims", [(), (7,), (2, 3), (0,)])
@each("dtype", [np.float32, np.float16])
def test_packed_tables(spec: QuantizationSpec, tail: tuple[int, ...], index_dims: tuple[int, ...], dtype: Any) -> None:
    """Each row has the numbers of the rounded weights; the last block may not be full, as that of zero points."""
    table = normal(50, *tail).astype(dtype)
    kind = "float" if dtype is np.float32 else "float16"
    names = [*"AB"[: len(index_dims)]]
    index, row = f"int64[{','.join(names)}]" if names else "int64", ",".join([*names, *map(str, tail)])
    model = load(f"g ({index} i) => ({kind}[{row}] y) {{ y = Gather(w, i) }}", 13, {"w": table})
    made = quantized(model, spec)
    width = math.prod(tail)
    if spec.weight_bits == 8 and width % (spec.block or 64):  # whose blocks would be padded
        assert sorted(op_types(made)) == ["Cast", "Gather", "Gather", "Mul"]
        return
    block = spec.block or width
    wanted = rounded(table.reshape(50, width).T, spec.weight_bits, block, symmetric=spec.symmetric).T.reshape(50, *tail)
    i = np.random.default_rng(0).integers(-50, 50, index_dims)
    (got,) = loaded(made, {"i": i})[1]
    assert got.dtype == dtype
    assert got.shape == (*index_dims, *tail)
    if dtype is np.float32:
        np.testing.assert_allclose(got, wanted[i], rtol=0, atol=1e-6)
    elif got.size:
        assert decibels(table[i], got) > decibels(table[i], wanted[i]) - 0.3  # scales are halves
    assert max(a.size for a in initializers(made).values() if a.itemsize > 1) <= 50 * max(-(-width // block), 2)


TIED = {
    "Transpose": "t = Transpose<perm=[1, 0]>(w) y = MatMul(h, t)",
    "Transpose by default": "t = Transpose(w) y = MatMul(h, t)",
    "Gemm": "y = Gemm<transB=1>(h, w)",
    "copy": "y = MatMul(h, c)",
}


@each("calls", TIED)
@each("spec", {"4 bits": FOUR, "8 bits": EIGHT, "4 bits with zero points": replace(FOUR, symmetric=False)})
def test_tied_tables_are_stored_once(calls: str, spec: QuantizationSpec) -> None:
    """A table that is the matrix of a product as well, even if the exporter wrote a transposed copy."""
    text = f"g (int64[N] i) => (float[N,128] x, float[N,500] y) {{ x = Gather(w, i) h = Tanh(x) {calls} }}"
    table = normal(500, 128)
    model = load(text, 17, read_by(text, {"w": table, "c": table.T.copy()}))
    made = quantized(model, spec)
    assert "MatMulNBits" in op_types(made)
    assert "Transpose" not in op_types(made)
    assert sum(a.nbytes for a in initializers(made).values()) <= 1.3 * table.size * spec.weight_bits / 8
    i = np.arange(0, 500, 3)
    x, y = loaded(made, {"i": i})[1]
    wanted = rounded(table.T, spec.weight_bits, spec.block, symmetric=spec.symmetric)
    np.testing.assert_allclose(x, wanted.T[i], rtol=0, atol=1e-6)
    assert decibels(np.tanh(x) @ wanted, y) > 35


def test_gptq_rounds_tied_tables_once() -> None:
    """By the inputs of the product, for the Gather too."""
    text = "g (int64[N] i) => (float[N,500] y) { x = Gather(w, i) h = Tanh(x) t = Transpose(w) y = MatMul(h, t) }"
    model = load(text, 17, {"w": normal(500, 128)})
    graph = from_onnx(model).graph
    assert gram_inputs(graph) == {"h": 128}
    gram = np.cov(normal(300, 128).T @ normal(300, 128)) + np.eye(128)
    grams = joint_grams(graph, {"h": gram}, {"h": 300})
    assert grams.keys() == {"h", "w"}
    made = quantized(model, replace(FOUR, rounding="gptq", grams=grams))
    assert sum(a.nbytes for a in initializers(made).values()) <= 1.3 * 500 * 128 / 2


def test_a_table_in_half_of_a_byte_needs_shifts() -> None:
    """Which opset 10 lacks, so that its rows are int8 there."""
    made = quantized(load("g (int64[N] i) => (float[N,64] y) { y = Gather(w, i) }", 10, {"w": normal(50, 64)}), FOUR)
    assert op_types(made) == ["Gather", "Gather", "Cast", "Mul"]
    assert initializers(made)[made.graph.node[0].input[0]].dtype == np.int8


def test_tables_alone_beside_products_of_integers() -> None:
    text = "g (int64[N] i) => (float[N,40] y) { x = Gather(t, i) y = MatMul(x, w) }"
    model = load(text, 17, {"t": normal(50, ROWS), "w": normal(ROWS, 40)})
    passes = (QUANTIZE_DYNAMIC, QUANTIZE_TABLES)
    spec = replace(EIGHT, weight_limit=63, operators=frozenset({"Gather", "MatMul"}))
    made = quantized(model, spec, QUANTIZE_TABLES)
    assert sorted(op_types(made)) == ["Cast", "Gather", "Gather", "MatMul", "Mul"]
    both = to_onnx(apply_passes(model, Pipeline("both", passes, quantization=replace(spec, min_weights=1000)))[0])
    assert max(a.itemsize for a in initializers(both).values() if a.size >= 1000) == 1
    i = np.arange(-50, 50)
    operators, (got,) = loaded(both, {"i": i})
    assert "DynamicQuantizeMatMul" in operators
    assert decibels(run(model, {"i": i})[0], got) > 30


STORED = {
    "Conv": ("g (float[1,6,9,9] x) => (float[1,32,7,7] y) { y = Conv(x, w, b) }", {"w": normal(32, 6, 3, 3)}, 0),
    "group": ("g (float[1,6,9,9] x) => (float[1,32,7,7] y) { y = Conv<group=2>(x, w) }", {"w": normal(32, 3, 3, 3)}, 0),
    "ConvTranspose": ("g (float[1,6,9,9] x) => (float[1,32,11,11] y) { y = ConvTranspose<group=2>(x, w) }",
                      {"w": normal(6, 16, 3, 3)}, 1),
    "GRU": ('g (float[5,2,6] x) => (float[5,2,2,32] y) { y = GRU<hidden_size=32, direction="bidirectional">(x, w, r) }',
            {"w": normal(2, 96, 6), "r": normal(2, 96, 32)}, 1),
    "LSTM": ("g (float[5,2,6] x) => (float[1,2,32] y) { u, v, y = LSTM<hidden_size=32>(x, w, r) }",
             {"w": normal(1, 128, 6), "r": normal(1, 128, 32)}, 1),
    "MatMul": ("g (float[M,6] x) => (float[M,48] y) { y = MatMul(x, w) }", {"w": normal(6, 48)}, 1),
    "matrices": ("g (float[5,6] x) => (float[3,5,32] y) { y = MatMul(x, w) }", {"w": normal(3, 6, 32)}, 2),
    "Gemm": ("g (float[5,6] x) => (float[5,48] y) { y = Gemm<alpha=0.5, beta=2.0>(x, w, b) }", {"w": normal(6, 48)}, 1),
    "transB": ("g (float[5,6] x) => (float[5,48] y) { y = Gemm<transB=1>(x, w, b) }", {"w": normal(48, 6)}, 0),
    "RNN": ("g (float[5,2,6] x) => (float[5,1,2,32] y) { y = RNN<hidden_size=32>(x, w, r) }",
            {"w": normal(1, 32, 6), "r": normal(1, 32, 32)}, 1),
    "table": ("g (float[5,6] x) => (float[5,40] y) { i = ArgMax<axis=1,keepdims=0>(x) y = Gather(w, i) }",
              {"w": normal(32, 40)}, 0),
    "positions": ("""g (float[N,6] x) => (float[1,N,6] y) { k = Constant<value = int64[3] {1, -1, 6}>()
                  u = Reshape(x, k) z = Constant<value = int64[3] {0, 0, 0}>() s = Shape(u) y = Slice(w, z, s) }""",
                  {"w": normal(1, 32, 40)}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("opset", [11, 13, 21])
def test_stored_weights(name: str, opset: int) -> None:
    """The result is that of the model with the rounded weights."""
    text, weights, axis = STORED[name]
    others = {"b": normal(len(weights["w"]) if axis == 0 else 48)} if ", b)" in text else {}
    made = quantized(load(text, opset, {**weights, **others}), EIGHT, STORE_INT8_WEIGHTS)
    assert op_types(made).count("Cast") == len(weights)

    def stored(w: np.ndarray) -> np.ndarray:
        along = tuple(i for i in range(w.ndim) if i != axis)
        scale = (np.abs(w).max(axis=along, keepdims=True) / 127).astype(np.float32)
        return (np.rint(w / scale.astype(np.float64)) * scale).astype(np.float32)

    x = normal(*(1, 6, 9, 9) if "Conv" in text else (5, 2, 6) if "5,2,6" in text else (5, 6))
    (wanted,) = run(load(text, opset, {**{n: stored(w) for n, w in weights.items()}, **others}), {"x": x})
    operators, (got,) = loaded(made, {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)
    assert operators == loaded(load(text, opset, {**weights, **others}), {"x": x})[0]  # no trace of the integers
    assert not any(a.size in {w.size for w in weights.values()} and a.itemsize > 1 for a in initializers(made).values())
    assert len(made.SerializeToString()) < len(load(text, opset, {**weights, **others}).SerializeToString())


BLOCKS = {
    "Conv": ("g (float[1,32,5,5] x) => (float[1,40,3,3] y) { y = Conv(x, w) }", normal(40, 32, 3, 3), (0, 1, 2, 3), 48),
    "depthwise": ("g (float[1,40,20,20] x) => (float[1,40,5,5] y) { y = Conv<group=40>(x, w) }",
                  normal(40, 1, 16, 16), (0, 1, 2, 3), 64),
    "MatMul": ("g (float[5,192] x) => (float[5,40] y) { y = MatMul(x, w) }", normal(192, 40), (1, 0), 64),
    "transB": ("g (float[5,192] x) => (float[5,40] y) { y = Gemm<transB=1>(x, w) }", normal(40, 192), (0, 1), 64),
    "matrices": ("g (float[3,5,192] x) => (float[3,5,40] y) { y = MatMul(x, w) }", normal(3, 192, 40), (2, 0, 1), 64),
    "ConvTranspose": ("g (float[1,128,4,4] x) => (float[1,40,6,6] y) { y = ConvTranspose(x, w) }",
                      normal(128, 40, 3, 3), (1, 0, 2, 3), 36),
    "GRU": ("g (float[5,2,192] x) => (float[5,1,2,32] y) { y = GRU<hidden_size=32>(x, w, r) }",
            normal(1, 96, 192), (1, 0, 2), 64),
    "table": ("g (float[5,6] x) => (float[5,192] y) { i = ArgMax<axis=1,keepdims=0>(x) y = Gather(w, i) }",
              normal(32, 192), (0, 1), 64),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_long_channels_are_stored_in_blocks(name: str) -> None:
    """Each block of at most 64 weights of a channel has a scale of its own."""
    text, w, order, block = BLOCKS[name]
    w = w * np.random.default_rng(1).uniform(0.05, 1, (1, *w.shape[1:])).astype(np.float32)  # of unlike inputs
    others = {"r": np.zeros((1, 96, 32), np.float32)} if name == "GRU" else {}
    model = load(text, 17, {"w": w, **others})
    made = quantized(model, EIGHT, STORE_INT8_WEIGHTS)
    channels = w.transpose(order).reshape(w.shape[order[0]], -1, block).astype(np.float64)
    scales = (np.abs(channels).max(axis=2, keepdims=True) / 127).astype(np.float32)
    turned = (np.rint(channels / scales) * scales).reshape([w.shape[i] for i in order])
    wanted = turned.transpose(np.argsort(order)).astype(np.float32)
    dims = next(v.type.tensor_type.shape.dim for v in model.graph.input)
    x = normal(*(d.dim_value for d in dims), seed=2)
    expected = run(load(text, 17, {"w": wanted, **others}), {"x": x})[0]
    operators, (got,) = loaded(made, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-3)
    assert operators == loaded(model, {"x": x})[0]  # no trace of the integers
    assert {a.dtype for a in initializers(made).values() if a.size == w.size} == {np.dtype(np.int8)}
    assert len(made.SerializeToString()) < 0.29 * len(model.SerializeToString()) + 800


@pytest.mark.parametrize("extents", [(131, 40), (128, 40)])
def test_channels_without_blocks_have_one_scale(extents: tuple[int, int]) -> None:
    """Where they are short, or no number of blocks divides them."""
    model = load(f"g (float[5,{extents[0]}] x) => (float[5,40] y) {{ y = MatMul(x, w) }}", 17, {"w": normal(*extents)})
    made = quantized(model, EIGHT, STORE_INT8_WEIGHTS)
    assert op_types(made) == ["Cast", "Mul", "MatMul"]


def test_weights_of_few_inputs_of_a_recurrent_op_are_not_stored_in_int8() -> None:
    """They are of unlike sizes, and their errors last."""
    text = "g (float[5,2,6] x) => (float[5,1,2,48] y) { y = GRU<hidden_size=48>(x, w, r) }"
    model = load(text, 17, {"w": normal(1, 144, 6), "r": normal(1, 144, 48)})
    made = quantized(model, EIGHT, STORE_INT8_WEIGHTS)
    kinds = {a.size: a.dtype for a in initializers(made).values()}
    assert (kinds[144 * 6], kinds[144 * 48]) == (np.float32, np.int8)


def test_stored_halves() -> None:
    text = "g (float16[1,6,9,9] x) => (float16[1,32,7,7] y) { y = Conv(x, w) }"
    w, x = normal(32, 6, 3, 3).astype(np.float16), normal(1, 6, 9, 9).astype(np.float16)
    for opset in (13, 21):
        model = load(text, opset, {"w": w})
        made = quantized(model, EIGHT, STORE_INT8_WEIGHTS)
        assert op_types(made) == ["Cast", "Mul", "Cast", "Conv"]
        assert decibels(run(model, {"x": x})[0], loaded(made, {"x": x})[1][0]) > 35


def test_weights_are_not_stored() -> None:
    text, weights, _ = STORED["Conv"]
    model = load(text, 17, {**weights, "b": normal(32)})
    assert quantized(model, None, STORE_INT8_WEIGHTS) == model
    few = load(text.replace("32", "2"), 17, {"w": normal(2, 6, 3, 3), "b": normal(2)})
    assert quantized(few, EIGHT, STORE_INT8_WEIGHTS) == few
    small = load("g (int64[N] i) => (float[N,4] y) { y = Gather(w, i) }", 17, {"w": normal(8, 4)})
    assert quantized(small, EIGHT, STORE_INT8_WEIGHTS) == small
    empty = load("g (float[5,200] x) => (float[5,0] y) { y = MatMul(x, w) }", 17, {"w": normal(200, 0)})
    assert quantized(empty, EIGHT, STORE_INT8_WEIGHTS) == empty
    nothing = load("g (float[5,0] x) => (float[5,200] y) { y = Gemm<transB=1>(x, w) }", 17, {"w": normal(200, 0)})
    assert quantized(nothing, EIGHT, STORE_INT8_WEIGHTS) == nothing
    table = load("g (int64[N] i) => (float[N,200,0] y) { y = Gather(w, i) }", 17, {"w": normal(300, 200, 0)})
    assert quantized(table, EIGHT, STORE_INT8_WEIGHTS) == table
    computed = load("g (float[1,6,9,9] x, float[8,6,3,3] w) => (float[1,8,7,7] y) { y = Conv(x, w) }", 17)
    assert quantized(computed, EIGHT, STORE_INT8_WEIGHTS) == computed


def test_weights_are_stored_once() -> None:
    text, weights, _ = STORED["Conv"]
    made = quantized_text(text, {**weights, "b": normal(32)}, EIGHT, 17, STORE_INT8_WEIGHTS)
    assert quantized(made, EIGHT, STORE_INT8_WEIGHTS) == made


def test_weights_that_are_wide_have_8_bits() -> None:
    """So has a table that is the matrix of a product, in both."""
    text = """g (int64[M] i, float[M,80] x, float[M,64] v) => (float[M,24] y, float[M,96] z, float[M,64] e) {
        y = MatMul(x, w) t = Transpose<perm=[1, 0]>(u) z = MatMul(v, t) e = Gather(u, i) }"""
    constants = {"w": W, "u": normal(96, 64)}
    feeds = {"i": np.array([3, 95, 0, 7, 7]), "x": X, "v": normal(5, 64, seed=1)}
    wanted = run(load(text, 21, constants), feeds)
    for wide in ("w", "u"):
        made = quantized_text(text, constants, replace(FOUR, wide=frozenset({wide})))
        products = [n for n in made.graph.node if n.op_type == "MatMulNBits"]
        bits = [next(a.i for a in n.attribute if a.name == "bits") for n in products]
        assert bits == ([8, 4] if wide == "w" else [4, 8])
        y, z, e = (decibels(a, b) for a, b in zip(wanted, run(made, feeds), strict=True))
        assert (y > 35, z > 35, e > 35) == (wide == "w", wide == "u", wide == "u")
        integers = [a for a in initializers(made).values() if a.dtype == np.uint8 and a.ndim]
        assert len(integers) == 2
