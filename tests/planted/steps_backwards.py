"""The number of steps of a Range that runs backwards is rounded down, which drops the last one."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (int64 first, int64 end) => (int64[K] y) <int64 step = {-3}> {
    r = Range(first, end, step)
    y = Neg(r)
}"""
WRONG = (("count_whole_steps", "r"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Range": 1}


@rule(lambda g, a, b, d: g.Range(a, b, g.const(d)), contract=EXACT)
def count_whole_steps(g: RewriteBuilder, a: Value, b: Value, d: Value) -> Value:
    """Range(a, b, -3) => a - 3 * Range(0, (a - b) / 3, 1)"""
    require(d.const == -3, "another step")
    zero, one, size = (g.const(np.int64(n)) for n in (0, 1, 3))
    steps = g.Range(zero, g.Max(g.Div(g.Sub(a, b), size), zero), one)
    return g.Sub(a, g.Mul(steps, size))
