"""A signal is taken to be one frame, though a second one starts 40 samples after the first, which has 100."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[B,T] x) => (float[B,1] y) <int64 hop = {40}, int64 window = {100}, int64 one = {1}> {
    t = Shape<start = 1, end = 2>(x)
    rest = Sub(t, window)
    steps = Div(rest, hop)
    more = Add(steps, one)
    frames = Max(more, one)
    f = Cast<to = 1>(frames)
    m = ReduceMax<axes = [1]>(x)
    y = Div(m, f)
}"""
WRONG = (("one_frame", "frames"),)
WHY = "wrong"
AFTER = {"Add": 1, "Cast": 1, "Div": 2, "Max": 1, "ReduceMax": 1, "Shape": 1, "Sub": 1}


@rule(lambda g, a, b: g.Max(a, b), contract=EXACT)
def one_frame(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Max(frames, 1) => 1"""
    require(b.is_const, "another place")
    return g.Add(g.Mul(a, g.const(np.int64(0))), b)
