"""A ReduceSum of no axes, which gives its input, becomes one of all axes."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,M] x, int64[A] axes) => (float[P,Q] y) {
    y = ReduceSum <noop_with_empty_axes = 1> (x, axes)
}"""
WRONG = (("without_attribute", "y"),)
WHY = "wrong"
AFTER = {"ReduceSum": 1}


@rule(lambda g, x, axes: g.ReduceSum(x, axes, noop_with_empty_axes=1), contract=EXACT)
def without_attribute(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """ReduceSum(x, axes, noop_with_empty_axes=1) => ReduceSum(x, axes)"""
    return g.ReduceSum(x, axes)
