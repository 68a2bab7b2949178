"""Fusion of LayerNormalization and RMSNormalization."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import norms, reductions
from rewriting import apply_passes, becomes, cases, initializers, load, op_types, require_equivalent, stays

FUSE_NORM = rule_pass(norms, "fuse-norm")
FUSE_NORM_WEIGHTS = rule_pass(norms, "fuse-norm-weights")
FUSE_REDUCE_MEAN = rule_pass(reductions, "fuse-reduce-mean")

WHAT = (FUSE_NORM, FUSE_NORM_WEIGHTS)
G = "g (float[n,2,3] x) => (float[a,b,c] y)"
C = (
    "<int64[1] last = {-1}, int64[2] both = {1, 2}, float e = {0.00001}, float two = {2}, float one = {1},"
    " float half = {-0.5}, float[3] ones = {1, 1, 1}, float[3] w = {1, -2, 0.5}, float[3] z = {0.5, 1, -1},"
    " float nothing = {0}, float[1,1,3] wide = {1, 2, 3}, float[2,3] many = {1, 2, 3, 4, 5, 6},"
    " float[2,1] col = {1, 2}>"
)
MEAN = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m)"
VARIANCE = "q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) f = Add(v, e)"
LN = "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, ones)"


@cases(
    ("before", "after", "opset"),
    {
        "quotient": (f"{MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s)", LN, 17),
        "reciprocal": (f"{MEAN} {VARIANCE} s = Sqrt(f) r = Reciprocal(s) y = Mul(r, d)", LN, 17),
        "inverse": (f"{MEAN} {VARIANCE} s = Sqrt(f) r = Div(one, s) y = Mul(d, r)", LN, 17),
        "power": (f"{MEAN} {VARIANCE} r = Pow(f, half) y = Mul(d, r)", LN, 17),
        "square by Pow": (
            (
                "m = ReduceMean<axes=[2]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes=[-1]>(q) f = Add(e, v)"
                " s = Sqrt(f) y = Div(d, s)"
            ),
            LN,
            17,
        ),
        "two axes": (
            (
                "m = ReduceMean(x, both) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, both) f = Add(v, e)"
                " s = Sqrt(f) y = Div(d, s)"
            ),
            "y = LayerNormalization<axis=-2, epsilon=0.00001>(x, many)",
            18,
        ),
        "weights and bias": (
            f"{MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul(n, w) y = Add(t, z)",
            "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z)",
            17,
        ),
        "weights of more dims": (
            f"{MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul(wide, n) u = Add(z, t) y = Relu(u)",
            "t = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z) y = Relu(t)",
            17,
        ),
        "one weight for all": (f"{MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) y = Mul(n, two)", LN, 17),
        "twice": (
            "n = LayerNormalization(x, w, z) t = Mul(n, two) y = Add(t, w)",
            "y = LayerNormalization(x, w, z)",
            17,
        ),
    },
)
def test_layer_norm_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", *WHAT, opset=opset)


RMS = "y = RMSNormalization<axis=-1, epsilon=0.00001>(x, w)"
SQUARES = "q = Pow(x, two) v = ReduceMean(q, last) f = Add(v, e)"


@cases(
    ("before", "after", "opset"),
    {
        "quotient": (f"{SQUARES} s = Sqrt(f) n = Div(x, s) y = Mul(w, n)", RMS, 23),
        "reciprocal": (f"{SQUARES} s = Sqrt(f) r = Reciprocal(s) n = Mul(x, r) y = Mul(w, n)", RMS, 23),
        "inverse": (f"{SQUARES} s = Sqrt(f) r = Div(one, s) n = Mul(x, r) y = Mul(n, w)", RMS, 24),
        "power": (f"{SQUARES} r = Pow(f, half) n = Mul(x, r) y = Mul(w, n)", RMS, 26),
        "two axes, no weights": (
            "q = Mul(x, x) v = ReduceMean(q, both) f = Add(v, e) s = Sqrt(f) y = Div(x, s)",
            "y = RMSNormalization<axis=-2, epsilon=0.00001>(x, many)",
            23,
        ),
        "the centred value has a name": (
            (
                "m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) f = Add(v, e) s = Sqrt(f)"
                " n = Div(d, s) y = Mul(n, w)"
            ),
            "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w)",
            23,
        ),
        "the centred value is shared": (
            (
                "m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) f = Add(v, e) s = Sqrt(f)"
                " n = Div(d, s) y = Add(n, d)"
            ),
            (
                "m = ReduceMean(x, last) d = Sub(x, m) n = RMSNormalization<axis=-1, epsilon=0.00001>(d, ones)"
                " y = Add(n, d)"
            ),
            23,
        ),
    },
)
def test_rms_norm_becomes(before: str, after: str, opset: int) -> None:
    becomes(f"{G} {C} {{ {before} }}", f"{G} {C} {{ {after} }}", *WHAT, opset=opset)


HALVES = {"e": np.float16(1e-5), "w": np.array([1, -2, 0.5], np.float16), "z": np.array([0.5, 1, -1], np.float16)}


@cases(
    ("before", "after", "opset"),
    {
        "in half precision": (
            f"{MEAN} {VARIANCE} s = Sqrt(f) n = Div(d, s) t = Mul(n, w) y = Add(t, z)",
            "y = LayerNormalization<axis=-1, epsilon=0.000010013580322265625>(x, w, z)",
            17,
        ),
        "in single precision": (
            (
                "h = Cast<to=1>(x) m = ReduceMean<axes=[-1]>(h) d = Sub(h, m) q = Mul(d, d) v ="
                " ReduceMean<axes=[-1]>(q)"
                " f = Add(v, eps) s = Sqrt(f) n = Div(d, s) u = Cast<to=10>(n) t = Mul(u, w) y = Add(t, z)"
            ),
            "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z)",
            17,
        ),
        "rms in single precision": (
            (
                "h = Cast<to=1>(x) q = Mul(h, h) v = ReduceMean(q, last) f = Add(v, eps) s = Sqrt(f) r = Reciprocal(s)"
                " n = Mul(h, r) u = Cast<to=10>(n) y = Mul(w, u)"
            ),
            "y = RMSNormalization<axis=-1, epsilon=0.00001>(x, w)",
            23,
        ),
        "weights in single precision stay": (
            "h = Cast<to=1>(x) n = LayerNormalization(h, k) y = Cast<to=10>(n)",
            "h = Cast<to=1>(x) n = LayerNormalization(h, k) y = Cast<to=10>(n)",
            17,
        ),
    },
)
def test_half_precision_becomes(before: str, after: str, opset: int) -> None:
    g = "g (float16[n,2,3] x) => (float16[a,b,c] y)"
    c = "<float eps = {0.00001}, int64[1] last = {-1}, float[3] k = {1, 2, 3}>"
    stated = "<float16 e = {1}, float16[3] w = {1, 2, 3}, float16[3] z = {1, 2, 3}, float[3] k = {1, 2, 3}>"
    becomes(f"{g} {c} {{ {before} }}", f"{g} {stated} {{ {after} }}", *WHAT, opset=opset, weights=HALVES)


@cases(
    ("before", "after"),
    {
        "weights and bias at run time": (
            (
                "g (float[n,3] x, float[3] w, float[3] z) => (float[n,3] y) <float[3] ones = {1, 1, 1}>"
                " { n = LayerNormalization(x, ones) t = Mul(n, w) y = Add(t, z) }"
            ),
            "g (float[n,3] x, float[3] w, float[3] z) => (float[n,3] y) { y = LayerNormalization(x, w, z) }",
        ),
        "over one number": (
            "g (float[n,1] x) => (float[n,1] y) <float[1] w = {2}> { n = LayerNormalization(x, w) y = Mul(n, w) }",
            "g (float[n,1] x) => (float[n,1] y) <float[1] w = {2}> { y = LayerNormalization(x, w) }",
        ),
        "the mean is an output as well": (
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,1] m) <float e = {0.00001}>"
                " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
                " s = Sqrt(f) y = Div(d, s) }"
            ),
            (
                "g (float[n,3] x) => (float[n,3] y, float[n,1] m) <float[3] ones = {1, 1, 1}>"
                " { m = ReduceMean<axes=[1]>(x) y = LayerNormalization<axis=-1, epsilon=0.00001>(x, ones) }"
            ),
        ),
        "inside an If body": (
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) <float[3] w = {1, 2, 3}> { y = If (b) <then_branch = t"
                " () =>"
                " (float[n,3] u) { r = LayerNormalization(x, w) u = Mul(r, w) }, else_branch = f () => (float[n,3] v)"
                " { v = Relu(x) }> }"
            ),
            (
                "g (bool b, float[n,3] x) => (float[n,3] y) <float[3] w = {1, 2, 3}> { y = If (b) <then_branch = t"
                " () =>"
                " (float[n,3] u) <float[3] k = {1, 4, 9}> { u = LayerNormalization(x, k) },"
                " else_branch = f () => (float[n,3] v) { v = Relu(x) }> }"
            ),
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str) -> None:
    becomes(before, after, *WHAT)


@cases(
    ("body", "opset"),
    {
        "older opset": (f"{MEAN} {VARIANCE} s = Sqrt(f) y = Div(d, s)", 16),
        "rms at 22": ("q = Mul(x, x) v = ReduceMean(q, last) f = Add(v, e) s = Sqrt(f) y = Div(x, s)", 22),
        "shared difference": (f"{MEAN} {VARIANCE} s = Sqrt(f) t = Div(d, s) y = Add(t, d)", 17),
        "shared deviation": (f"{MEAN} {VARIANCE} s = Sqrt(f) t = Div(d, s) y = Add(t, s)", 17),
        "upside down": (f"{MEAN} {VARIANCE} s = Sqrt(f) y = Div(s, d)", 17),
        "two over it": (f"{MEAN} {VARIANCE} s = Sqrt(f) r = Div(two, s) y = Mul(d, r)", 17),
        "divided by the power": (f"{MEAN} {VARIANCE} r = Pow(f, half) y = Div(d, r)", 17),
        "an axis inside": (
            (
                "m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
                " s = Sqrt(f) y = Div(d, s)"
            ),
            17,
        ),
        "two means": (f"m = ReduceMean<axes=[1]>(x) d = Sub(x, m) {VARIANCE} s = Sqrt(f) y = Div(d, s)", 17),
        "mean minus x": (f"m = ReduceMean<axes=[-1]>(x) d = Sub(m, x) {VARIANCE} s = Sqrt(f) y = Div(d, s)", 17),
        "no square": (f"{MEAN} q = Mul(d, x) v = ReduceMean<axes=[-1]>(q) f = Add(v, e) s = Sqrt(f) y = Div(d, s)", 17),
        "no root": (f"{MEAN} {VARIANCE} y = Div(d, f)", 17),
        "an epsilon of 0": (f"{MEAN} {VARIANCE.replace('Add(v, e)', 'Add(v, nothing)')} s = Sqrt(f) y = Div(d, s)", 17),
        "times a value": ("n = LayerNormalization(x, w) y = Mul(n, x)", 17),
        "plus a value": ("n = LayerNormalization(x, w) y = Add(n, x)", 17),
        "weights along another axis": ("n = LayerNormalization(x, w) y = Mul(n, col)", 17),
        "shared normalization": ("n = LayerNormalization(x, w) t = Mul(n, w) y = Add(t, n)", 17),
        "rms has no bias": ("n = RMSNormalization(x, w) y = Add(n, w)", 23),
        "Sub": ("n = LayerNormalization(x, w) y = Sub(n, w)", 17),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", *WHAT, opset=opset)


@cases(
    "text",
    {
        "unknown extent": (
            "g (float[n,m] x) => (float[n,m] y) <float e = {0.00001}>"
            " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
            " s = Sqrt(f) y = Div(d, s) }"
        ),
        "doubles": (
            "g (double[n,3] x) => (double[n,3] y) <double e = {0.00001}>"
            " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
            " s = Sqrt(f) y = Div(d, s) }"
        ),
        "overridable initializer": (
            "g (float[n,3] x, float e = {0.00001}) => (float[n,3] y)"
            " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
            " s = Sqrt(f) y = Div(d, s) }"
        ),
        "inner value is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,1] s) <float e = {0.00001}>"
            " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) f = Add(v, e)"
            " s = Sqrt(f) y = Div(d, s) }"
        ),
        "the mean of a normalization is a graph output": (
            "g (float[n,3] x) => (float[n,3] y, float[n,1] m) <float[3] w = {1, 2, 3}>"
            " { r, m = LayerNormalization(x, w) y = Mul(r, w) }"
        ),
        "weights add a dim": (
            "g (float[3] x) => (float[1,3] y) <float[3] w = {1, 2, 3}, float[1,3] c = {1, 2, 3}>"
            " { r = LayerNormalization(x, w) y = Mul(r, c) }"
        ),
        "a second weight at run time": (
            "g (float[n,3] x, float[3] c) => (float[n,3] y) <float[3] w = {1, 2, 3}>"
            " { r = LayerNormalization(x, w) y = Mul(r, c) }"
        ),
    },
)
def test_stays_elsewhere(text: str) -> None:
    stays(text, *WHAT)


def test_mean_by_sum_and_div_becomes() -> None:
    body = (
        "m = ReduceSum(x, a) n = Div(m, c) d = Sub(x, n) q = Mul(d, d) v = ReduceSum(q, a) w = Div(v, c)"
        " f = Add(w, e) s = Sqrt(f) y = Div(d, s)"
    )
    g = "g (float[n,4] x) => (float[n,4] y)"
    constants = "<float c = {4}, float e = {0.00001}, int64[1] a = {1}, float[4] ones = {1, 1, 1, 1}>"
    after = f"{g} {constants} {{ y = LayerNormalization<axis=-1, epsilon=0.00001>(x, ones) }}"
    becomes(f"{g} {constants} {{ {body} }}", after, FUSE_REDUCE_MEAN, *WHAT)


def test_too_many_weights_stay() -> None:
    text = "g (float[1,300,300] x) => (float[1,300,300] y) <float e = {0.00001}> { m = ReduceMean<axes=[1,2]>(x)"
    text = (
        f"{text} d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1,2]>(q) f = Add(v, e) s = Sqrt(f) y = Div(d, s) }}"
    )
    stays(text, *WHAT, runs=False)


def test_an_overflow_stays() -> None:
    weights = {"w": np.full(3, 3e38, np.float32), "c": np.full(3, 10, np.float32)}
    text = "g (float[n,3] x) => (float[n,3] y) { t = LayerNormalization(x, w) y = Mul(t, c) }"
    stays(text, *WHAT, weights=weights)


@given(
    rank=st.integers(1, 4),
    count=st.integers(1, 4),
    epsilon=st.sampled_from([1e-12, 1e-6, 1e-5, 1e-3]),
)
def test_any_suffix(rank: int, count: int, epsilon: float) -> None:
    axes = list(range(max(rank - count, 0), rank))
    dims = ",".join(["2", "3", "4", "5"][:rank])
    model = load(
        f"g (float[{dims}] x) => (float[{dims}] y) {{ m = ReduceMean<axes={axes}>(x) d = Sub(x, m) q = Mul(d, d)"
        f" v = ReduceMean<axes={axes}>(q) f = Add(v, e) s = Sqrt(f) y = Div(d, s) }}",
        weights={"e": np.float32(epsilon)},
    )
    after = to_onnx(apply_passes(model, *WHAT)[0])
    assert op_types(after) == ["LayerNormalization"]
    assert [w.shape for w in initializers(after).values()] == [(2, 3, 4, 5)[axes[0] : rank]]
    require_equivalent(model, after)
