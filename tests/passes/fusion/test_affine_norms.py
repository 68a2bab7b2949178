"""Fusion of LayerNormalization spelled as an affine function of each row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import norms
from rewriting import apply_passes, becomes, cases, load, op_types, require_equivalent, stays

FUSE_KERAS_LAYER_NORM = rule_pass(norms, "fuse-keras-layer-norm")

G = "g (float[n,2,3] x) => (float[a,b,c] y)"
C = (
    "<int64[1] last = {-1}, float e = {0.00001}, float one = {1}, float two = {2}, float[3] w = {1, -2, 0.5},"
    " float[1,1,3] z = {0.5, 1, -1}, float[2,1] col = {1, 2}, float nothing = {0}>"
)
MOMENTS = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) f = Add(v, e)"
SLOPE = f"{MOMENTS} s = Sqrt(f) r = Reciprocal(s) k = Mul(r, w) a = Mul(x, k) b = Mul(m, k)"
OFFSET = "o = Sub(z, b) y = Add(a, o)"
NEGATED = "g = Neg(m) h = Mul(g, k) o = Add(h, z) y = Add(a, o)"
LN = f"{G} {C} {{ y = LayerNormalization<axis=-1, epsilon=0.00001>(x, w, z) }}"


@cases(
    "body",
    {
        "offset": (f"{SLOPE} {OFFSET}"),
        "offset first": (f"{SLOPE} {OFFSET.replace('Add(a, o)', 'Add(o, a)')}"),
        "negated mean": (f"{SLOPE.replace(' b = Mul(m, k)', '')} {NEGATED}"),
        "inverse": (f"{SLOPE.replace('Reciprocal(s)', 'Div(one, s)')} {OFFSET}"),
        "square by Pow": (f"{SLOPE.replace('Mul(d, d)', 'Pow(d, two)')} {OFFSET}"),
        "other orders": (f"{SLOPE.replace('Mul(r, w)', 'Mul(w, r)').replace('Add(v, e)', 'Add(e, v)')} {OFFSET}"),
    },
)
def test_becomes(body: str) -> None:
    becomes(f"{G} {C} {{ {body} }}", LN, FUSE_KERAS_LAYER_NORM)


def test_becomes_with_axes_as_input() -> None:
    body = f"{SLOPE} {OFFSET}".replace("ReduceMean<axes=[-1]>(x)", "ReduceMean(x, last)")
    body = body.replace("ReduceMean<axes=[-1]>(q)", "ReduceMean(q, last)")
    becomes(f"{G} {C} {{ {body} }}", LN, FUSE_KERAS_LAYER_NORM, opset=18)


def test_inside_an_if_body() -> None:
    text = (
        "g (bool c, float[n,2,3] x) => (float[p,q,r] t) {} {{ t = If (c) <then_branch = i () => (float[p,q,r] y) {}"
        " {{ {} }}, else_branch = l () => (float[p,q,r] u) {{ u = Neg(x) }}> }}"
    )
    after = "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, i, j)"
    own = "<float[3] i = {1, 2, 3}, float[3] j = {1, 2, 3}>"
    becomes(text.format(C, "", f"{SLOPE} {OFFSET}"), text.format("", own, after), FUSE_KERAS_LAYER_NORM)


@cases(
    ("body", "opset"),
    {
        "older opset": (f"{SLOPE} {OFFSET}", 16),
        "offset the other way round": (f"{SLOPE} o = Sub(b, z) y = Add(a, o)", 17),
        "offset taken off": (f"{SLOPE} o = Sub(z, b) y = Sub(a, o)", 17),
        "weights at run time": (f"{SLOPE.replace('Mul(r, w)', 'Mul(r, x)')} {OFFSET}", 17),
        "weights along another axis": (f"{SLOPE.replace('Mul(r, w)', 'Mul(r, col)')} {OFFSET}", 17),
        "two over it": (f"{SLOPE.replace('Reciprocal(s)', 'Div(two, s)')} {OFFSET}", 17),
        "no square": (f"{SLOPE.replace('Mul(d, d)', 'Mul(d, x)')} {OFFSET}", 17),
        "mean minus x": (f"{SLOPE.replace('Sub(x, m)', 'Sub(m, x)')} {OFFSET}", 17),
        "of another value": (f"{SLOPE.replace('Mul(x, k)', 'Mul(d, k)')} {OFFSET}", 17),
        "variance along another axis": (f"{SLOPE.replace('[-1]>(q)', '[1]>(q)')} {OFFSET}", 17),
        "an axis inside": (f"{SLOPE.replace('[-1]', '[1]')} {OFFSET}", 17),
        "an epsilon of 0": (f"{SLOPE.replace('Add(v, e)', 'Add(v, nothing)')} {OFFSET}", 17),
        "shared product": (f"{SLOPE} o = Sub(z, b) p = Add(a, o) y = Mul(p, a)", 17),
    },
)
def test_stays(body: str, opset: int) -> None:
    stays(f"{G} {C} {{ {body} }}", FUSE_KERAS_LAYER_NORM, opset=opset)


@cases(
    "g",
    {
        "doubles": ("g (double[n,2,3] x) => (double[a,b,c] y)"),
        "unknown extent": ("g (float[n,2,m] x) => (float[a,b,c] y)"),
        "weights add dims": ("g (float[3] x) => (float[a,b,c] y)"),
    },
)
def test_stays_elsewhere(g: str) -> None:
    constants = C.replace("float", "double") if "double" in g else C
    stays(f"{g} {constants} {{ {SLOPE} {OFFSET} }}", FUSE_KERAS_LAYER_NORM, runs="m] x" not in g)


@given(epsilon=st.sampled_from([1e-6, 1e-5, 1e-3]), rank=st.integers(1, 3))
def test_any_epsilon(epsilon: float, rank: int) -> None:
    dims = ",".join(["2", "4", "3"][-rank:])
    body = f"{SLOPE} {OFFSET}"
    weights = {"e": epsilon, "w": np.array([1, -2, 0.5]), "z": np.array([0.5, 1, -1])}
    single = {name: np.asarray(w, np.float32) for name, w in weights.items()}
    model = load(f"g (float[{dims}] x) => (float[{dims}] y) {{ {body} }}", weights=single)
    after = to_onnx(apply_passes(model, FUSE_KERAS_LAYER_NORM)[0])
    assert op_types(after) == ["LayerNormalization"]
    require_equivalent(model, after)
