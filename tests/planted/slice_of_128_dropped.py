"""A Slice that takes the first 128 steps is dropped, as if no sequence were longer."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, rule

MODEL = """g (float[N,T] x) => (float[N,S] y)
  <int64[1] start = {0}, int64[1] end = {128}, int64[1] axis = {1}> {
    a = Slice(x, start, end, axis)
    y = Neg(a)
}"""
WRONG = (("drop_slice", "a"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Slice": 1}


@rule(lambda g, x: g.Slice(x, ...), contract=EXACT)
def drop_slice(g: RewriteBuilder, x: Value) -> Value:
    """Slice(x, 0, 128) => x"""
    return x
