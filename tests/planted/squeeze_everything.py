"""The axes of a Squeeze are left out, since no other dim is 1 as far as the graph says.

Wrong only for a batch of 1.
"""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule

MODEL = """g (float[N,3,1] x, float[2,3,1] t) => (float[N,3] y, float[2,3] z) <int64[1] axes = {2}> {
    y = Squeeze(x, axes)
    i = Identity(t)
    z = Squeeze(i, axes)
}"""
WRONG = (("squeeze_without_axes", "y"),)
WHY = "wrong"
AFTER = {"Squeeze": 2}


@rule(lambda g, x, axes: g.Squeeze(x, axes), contract=EXACT)
def squeeze_without_axes(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """Squeeze(x, axes) => Squeeze(x), where only those dims are 1"""
    require([i for i, d in enumerate(x.shape) if d == 1] == sorted(axes.const.tolist()), "other dims are 1 too")
    return g.Squeeze(x)
