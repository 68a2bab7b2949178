"""A rule with any number of inputs, and an attribute that is bound."""

from __future__ import annotations

from passwright.core import EXACT, RewriteBuilder, Value, require, rule


@rule(lambda g, xs, ys, a: g.Concat(*xs, g.Concat(*ys, axis=a), axis=a), contract=EXACT)
def flatten_concat(g: RewriteBuilder, xs: tuple[Value, ...], ys: tuple[Value, ...], a: int) -> Value:
    """Concat(xs, Concat(ys)) => Concat(xs, ys)"""
    require(len(xs) + len(ys) <= 64, "onnxruntime joins few values faster")
    return g.Concat(*xs, *ys, axis=a)
