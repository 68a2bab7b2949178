"""Fusion of LpNormalization."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.fusion import norms
from rewrite_tables import Rewrites

FUSE_LP_NORM = rule_pass(norms, "fuse-lp-norm")

lengths = Rewrites(
    "g (float[{x}] x) => (float[] y)",
    FUSE_LP_NORM,
    weights={"none": np.zeros(0, np.int64), "both": [0, 1], "e": 1e-12},
    opset=13,
    x="n,3",
)
T = "s = Sigmoid(x) t = Add(s, 1.0)"  # no length is 0

test_becomes = lengths.all_become(f"""
    plain: {T} l = ReduceL2<axes=[-1]>(t) y = Div(t, l) => {T} y = LpNormalization<axis=1, p=2>(t)
    at 7 [opset=7]: {T} l = ReduceL2<axes=[0]>(t) y = Div(t, l) => {T} y = LpNormalization<axis=0, p=2>(t)
    nothing reduced if there were no axes [opset=18]: {T} l = ReduceL2<noop_with_empty_axes=1>(t, [-1]) y = Div(t, l)
        => {T} y = LpNormalization<axis=1, p=2>(t)
    magnitudes [opset=18]: {T} l = ReduceL1(t, [-1]) y = Div(t, l) => {T} y = LpNormalization<axis=1, p=1>(t)
    bounded [opset=22]: {T} l = ReduceL2(t, [-1]) m = Max(l, e) y = Div(t, m) => {T} y = LpNormalization<axis=1, p=2>(t)
    clipped [opset=18]: {T} l = ReduceL2(t, [-1]) m = Clip(l, e) y = Div(t, m)
        => {T} y = LpNormalization<axis=1, p=2>(t)
    rooted [opset=18]: {T} l = ReduceSumSquare(t, [-1]) m = Max(l, e) r = Sqrt(m) y = Div(t, r)
        => {T} y = LpNormalization<axis=1, p=2>(t)
    inverted [opset=11]: {T} l = ReduceSumSquare<axes=[1]>(t) m = Max(e, l) r = Sqrt(m) i = Reciprocal(r) y = Mul(i, t)
        => {T} y = LpNormalization<axis=1, p=2>(t)
    inside an If body [in_if]: s = Exp(x) t = Sigmoid(s) l = ReduceL1<axes=[1]>(t) y = Div(t, l)
        => s = Exp(x) t = Sigmoid(s) y = LpNormalization<axis=1, p=1>(t)
""")

test_stays = lengths.all_stay(f"""
    upside down: {T} l = ReduceL2<axes=[1]>(t) y = Div(l, t)
    the length of another value: {T} l = ReduceL2<axes=[1]>(t) y = Div(s, l)
    of all: {T} l = ReduceL2<axes=[0,1]>(t) y = Div(t, l)
    no axes: {T} l = ReduceL2(t) y = Div(t, l)
    an empty list of axes [opset=18]: {T} l = ReduceL2(t, none) y = Div(t, l)
    nothing reduced [opset=18]: {T} l = ReduceL2<noop_with_empty_axes=1>(t, none) y = Div(t, l)
    no length: {T} l = ReduceLogSum<axes=[1]>(t) y = Div(t, l)
    a bound that matters: {T} l = ReduceL2<axes=[1]>(t) m = Max(l, 0.5) y = Div(t, m)
    a bound above: {T} l = ReduceL2<axes=[1]>(t) m = Min(l, e) y = Div(t, m)
    two bounds: {T} l = ReduceL2<axes=[1]>(t) m = Clip(l, e, 1.0) y = Div(t, m)
    rooted higher: {T} l = ReduceSumSquare<axes=[1]>(t) m = Max(l, 0.5) r = Sqrt(m) y = Div(t, r)
    no root: {T} l = ReduceSumSquare<axes=[1]>(t) m = Max(l, e) y = Div(t, m)
    a clip that matters: {T} l = ReduceL2<axes=[1]>(t) m = Clip(l, 0.5) y = Div(t, m)
    shared length: {T} l = ReduceL2<axes=[1]>(t) d = Div(t, l) y = Add(d, l)
    reduces nothing [opset=18]: {T} l = ReduceL2<noop_with_empty_axes=1>(t) y = Div(t, l)
    the dim is not kept [x=3,3]: {T} l = ReduceL2<axes=[1], keepdims=0>(t) y = Div(t, l)
    doubles [dtype=double]: {T} l = ReduceL2<axes=[1]>(t) y = Div(t, l)
    a quotient of ints [dtype=int32; runs=False]: l = ReduceL1<axes=[1]>(x) y = Div(x, l)
    the length is a graph output [graph=g (float[n,3] x) => (float[n,3] y, float[n,1] l)]: {T}
        l = ReduceL2<axes=[1]>(t) y = Div(t, l)
    overridable initializer [graph=g (float[n,3] x, float e = {{1e-12}}) => (float[] y)]: {T} l = ReduceL2<axes=[1]>(t)
        m = Max(l, e) y = Div(t, m)
""")


@given(axis=st.integers(-3, 2), p=st.integers(1, 2))
def test_any_axis(axis: int, p: int) -> None:
    positive = "s = Tanh(x) t = Exp(s)"
    after = f"{positive} y = LpNormalization<axis={axis % 3}, p={p}>(t)"
    lengths.becomes(f"{positive} l = ReduceL{p}<axes=[{axis}]>(t) y = Div(t, l)", after, x="2,3,4")
