"""Fusion of LayerNormalization spelled as an affine function of each row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import norms
from rewrite_tables import Rewrites

FUSE_KERAS_LAYER_NORM = rule_pass(norms, "fuse-keras-layer-norm")

WEIGHTS = {"last": [-1], "e": 1e-05, "w": [1.0, -2.0, 0.5], "z": [[[0.5, 1.0, -1.0]]]}
rows = Rewrites("g (float[{x}] x) => (float[] y)", FUSE_KERAS_LAYER_NORM, weights=WEIGHTS, x="n,2,3")
MOMENTS = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) f = Add(v, e)"
SLOPE = f"{MOMENTS} s = Sqrt(f) r = Reciprocal(s) k = Mul(r, w) a = Mul(x, k) b = Mul(m, k)"
OFFSET = "o = Sub(z, b) y = Add(a, o)"
NEGATED = "g = Neg(m) h = Mul(g, k) o = Add(h, z) y = Add(a, o)"
LN = "y = LayerNormalization<axis=-1, epsilon=0.00001>(x, i, j)"

test_becomes = rows.all_become(f"""
    offset: {SLOPE} {OFFSET} => {LN}
    offset first: {SLOPE} {OFFSET.replace("Add(a, o)", "Add(o, a)")} => {LN}
    negated mean: {SLOPE.replace(" b = Mul(m, k)", "")} {NEGATED} => {LN}
    inverse: {SLOPE.replace("Reciprocal(s)", "Div(1.0, s)")} {OFFSET} => {LN}
    square by Pow: {SLOPE.replace("Mul(d, d)", "Pow(d, 2.0)")} {OFFSET} => {LN}
    other orders: {SLOPE.replace("Mul(r, w)", "Mul(w, r)").replace("Add(v, e)", "Add(e, v)")} {OFFSET} => {LN}
    axes as input [opset=18]:
        {SLOPE.replace("<axes=[-1]>(x)", "(x, last)").replace("<axes=[-1]>(q)", "(q, last)")} {OFFSET} => {LN}
    inside an If body [in_if]: {SLOPE} {OFFSET} => {LN}
""")

test_stays = rows.all_stay(f"""
    older opset [opset=16]: {SLOPE} {OFFSET}
    offset the other way round: {SLOPE} o = Sub(b, z) y = Add(a, o)
    offset taken off: {SLOPE} o = Sub(z, b) y = Sub(a, o)
    weights at run time: {SLOPE.replace("Mul(r, w)", "Mul(r, x)")} {OFFSET}
    weights along another axis: {SLOPE.replace("Mul(r, w)", "Mul(r, [[1.0],[2.0]])")} {OFFSET}
    two over it: {SLOPE.replace("Reciprocal(s)", "Div(2.0, s)")} {OFFSET}
    no square: {SLOPE.replace("Mul(d, d)", "Mul(d, x)")} {OFFSET}
    mean minus x: {SLOPE.replace("Sub(x, m)", "Sub(m, x)")} {OFFSET}
    of another value: {SLOPE.replace("Mul(x, k)", "Mul(d, k)")} {OFFSET}
    variance along another axis: {SLOPE.replace("[-1]>(q)", "[1]>(q)")} {OFFSET}
    an axis inside: {SLOPE.replace("[-1]", "[1]")} {OFFSET}
    an epsilon of 0: {SLOPE.replace("Add(v, e)", "Add(v, 0.0)")} {OFFSET}
    shared product: {SLOPE} o = Sub(z, b) p = Add(a, o) y = Mul(p, a)
    doubles [dtype=double]: {SLOPE} {OFFSET}
    unknown extent [x=n,2,m; runs=False]: {SLOPE} {OFFSET}
    weights add dims [x=3]: {SLOPE} {OFFSET}
""")


@given(epsilon=st.sampled_from([1e-6, 1e-5, 1e-3]), rank=st.integers(1, 3))
def test_any_epsilon(epsilon: float, rank: int) -> None:
    weights = {"e": epsilon, "z": [0.5, 1.0, -1.0]}
    after = f"y = LayerNormalization<axis=-1, epsilon={np.float32(epsilon)}>(x, i, j)"
    rows.becomes(f"{SLOPE} {OFFSET}", after, x=",".join(["2", "4", "3"][-rank:]), weights=weights)
