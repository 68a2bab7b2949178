"""Sums with constants so large that they round to whole numbers, which no merged constant may change."""

import numpy as np
import pytest
from passwright.core.ort.backends import LoadedModel
from rewriting import cases, load
from tiers import slow_unless

from passwright import optimize

M32, M16, M64 = np.float32(1.5 * 2**23), np.float16(1.5 * 2**10), np.float64(1.5 * 2**52)
ROUND = "a = Add(s, M) y = Sub(a, M)"
MATRIX, IMAGE = "float[N,2] x) => (float[N,2] y", "float[1,2,6,6] x) => (float[1,2,n,m] y"
WIDE = "float[N,1000] x) => (float[N,2] y"
RNG = np.random.default_rng(0)
WEIGHTS = {
    "b": np.float32([0.4, 0.45]),
    "c": np.float32([0.3, -0.2]).reshape(2, 1, 1),
    "w": np.float32([[1, 2], [3, 4]]),
    "wide": (RNG.standard_normal((1000, 2)) / 30).astype(np.float32),
    "k": RNG.standard_normal((2, 2, 3, 3)).astype(np.float32),
    "p": np.float32([[[[0.4]], [[0.3]]], [[[0.2]], [[0.9]]]]),
    "half": np.float32(0.5),
    "tenth": np.float32(0.1),
    "third": np.float32(1 / 3),
    "M": M32,
    "M2": M32 / 2,
    "M4": M32 + 4,
    "N": np.float32(-M32),
    "MC": M32.reshape(1, 1, 1),
    "MV": np.full(2, M32, np.float32),
    "T": np.float32(M32 * np.float32(0.1)),
    "least": np.float32(2.0**-149),
    "d1": np.float32(2.0**120),
    "d2": np.float32(2.0**29),
    **{name: np.float32(v) for name, v in (("g", [1.5, 0.7]), ("e", [0.2, 0.3]), ("mu", [0.1, 0.4]), ("v", [1, 2]))},
}


def outputs(model: bytes, x: np.ndarray) -> np.ndarray:
    return LoadedModel(model).run(["y"], {"x": x})[0]


@cases(
    ("ends", "body"),
    {
        "sum": (MATRIX, f"s = Add(x, b) {ROUND}"),
        "difference": (MATRIX, f"s = Sub(x, b) {ROUND}"),
        "difference from a constant": (MATRIX, f"s = Sub(b, x) {ROUND}"),
        "negative constant": (MATRIX, "s = Add(x, b) a = Add(s, M) y = Add(a, N)"),
        "another whole number": (MATRIX, "s = Add(x, b) a = Add(s, M) y = Sub(a, M4)"),
        "from the constant": (MATRIX, "a = Sub(M, x) s = Sub(a, b) y = Sub(M, s)"),
        "added behind": (MATRIX, "a = Add(x, M) s = Add(a, b) y = Sub(s, M)"),
        "one for each column": (MATRIX, "s = Add(x, b) a = Add(s, MV) y = Sub(a, MV)"),
        "product and sum": (MATRIX, f"t = Mul(x, third) s = Add(t, b) {ROUND}"),
        "quotient of a sum": (MATRIX, f"t = Add(x, b) s = Div(t, tenth) {ROUND}"),
        "scaled back": (MATRIX, "a = Add(x, M) s = Mul(a, half) y = Sub(s, M2)"),
        "scaled by a tenth": (MATRIX, "a = Add(x, M) s = Mul(a, tenth) y = Sub(s, T)"),
        "scaled product": (MATRIX, "t = MatMul(x, w) a = Add(t, M) s = Mul(a, tenth) y = Sub(s, T)"),
        "Sum": (MATRIX, "t = Sum(b, MV) a = Sum(x, t) y = Sub(a, MV)"),
        "Sum of a Sum": (MATRIX, "t = Sum(x, b) a = Sum(t, MV) y = Sub(a, MV)"),
        "bias": (MATRIX, f"t = MatMul(x, w) s = Add(t, b) {ROUND}"),
        "Gemm": (MATRIX, f"s = Gemm(x, w, b) {ROUND}"),
        "Gemm with the constant": (MATRIX, "a = Gemm(x, w, MV) s = Add(a, b) y = Sub(s, MV)"),
        "scaled Gemm": (MATRIX, "a = Gemm(x, w, MV) s = Mul(a, half) y = Sub(s, M2)"),
        "shift before a product": (MATRIX, f"t = Add(x, b) s = MatMul(t, w) {ROUND}"),
        "long sums": (WIDE, f"s = MatMul(x, wide) {ROUND}"),
        "behind a Reshape": (MATRIX, f"t = Reshape(x, S) u = Add(t, b) s = Identity(u) {ROUND}"),
        "normalization": (MATRIX, f"t = LayerNormalization(x, g, e) s = Add(t, b) {ROUND}"),
        "BatchNormalization of a Gemm": (
            MATRIX,
            "s = Gemm(x, w, b) t = BatchNormalization(s, g, e, mu, v) a = Add(t, M) y = Sub(a, M)",
        ),
        "Conv": (IMAGE, "s = Conv(x, k, b) a = Add(s, M) y = Sub(a, M)"),
        "sum behind a Conv": (IMAGE, "t = Conv(x, k) s = Add(t, c) a = Add(s, MC) y = Sub(a, MC)"),
        "scaled Conv": (IMAGE, "a = Conv(x, k, MV) s = Mul(a, tenth) y = Sub(s, T)"),
        "sum before a Conv": (IMAGE, "t = Add(x, c) s = Conv(t, k, b) a = Add(s, M) y = Sub(a, M)"),
        "BatchNormalization": (
            IMAGE,
            "t = Conv(x, k, b) s = BatchNormalization(t, g, e, mu, v) a = Add(s, M) y = Sub(a, M)",
        ),
        "two Convs": (IMAGE, "t = Conv(x, k, b) a = Conv(t, p, MV) y = Sub(a, M)"),
        "pool": (IMAGE, "t = Conv(x, k, b) s = AveragePool<kernel_shape=[2,2]>(t) a = Add(s, M) y = Sub(a, M)"),
        "by a subnormal number": (MATRIX, "q = Mul(x, least) r = Mul(q, d1) y = Mul(r, d2)"),
        "half": ("float16[N,2] x) => (float16[N,2] y", "s = Add(x, bh) a = Add(s, Mh) y = Sub(a, Mh)"),
        "double": ("double[N,2] x) => (double[N,2] y", "s = Add(x, bd) a = Add(s, Md) y = Sub(a, Md)"),
    },
)
@pytest.mark.parametrize("pipeline", slow_unless({"basic"}, ["basic", "ort"]))
def test_rounding_stays(ends: str, body: str, pipeline: str) -> None:
    typed = {"bh": np.float16([0.4, 0.45]), "Mh": M16, "bd": np.float64([0.4, 0.45]), "Md": M64, "S": np.array([-1, 2])}
    model = load(f"g ({ends}) {{ {body} }}", weights={**WEIGHTS, **typed})
    dims = [d.dim_value or 200 for d in model.graph.input[0].type.tensor_type.shape.dim]
    dtype = {1: np.float32, 10: np.float16, 11: np.float64}[model.graph.input[0].type.tensor_type.elem_type]
    x = (3 * np.random.default_rng(1).standard_normal(dims)).astype(dtype)
    result = optimize(model, pipeline=pipeline, verify=False).model
    want, got = (outputs(m.SerializeToString(), x) for m in (model, result))
    assert np.mean(want != got) < 0.01  # a sum in another order may round to the other side
