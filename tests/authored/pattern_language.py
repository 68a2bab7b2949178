"""Patterns with signs, alternatives, inputs alike and conditions on an attribute and on an input by name."""

from __future__ import annotations

import numpy as np
from passwright.core import EXACT, RewriteBuilder, Value, require, rule


@rule(lambda g, x: g.any_of(g.Neg(-x), -x * -1), contract=EXACT)
def drop_two_signs(g: RewriteBuilder, x: Value) -> Value:
    """-(-x) => x"""
    require(x.dtype == np.float32, "it is not in single precision")
    return x


@rule(lambda g, x: g.Softmax(g.Identity(x), axis=lambda axis: axis >= 0), contract=EXACT)
def drop_identity_before_softmax(g: RewriteBuilder, x: Value) -> Value:
    """Softmax(Identity(x)) => Softmax(x), over an axis from the front"""
    return g.Softmax(x, axis=g.root.attr("axis"))


@rule(lambda g, xs, a: g.Concat(*g.each(g.Tanh(xs)), axis=a))
def tanh_of_concat(g: RewriteBuilder, xs: tuple[Value, ...], a: int) -> Value:
    """Concat(Tanh(x), Tanh(y), ...) => Tanh(Concat(x, y, ...))"""
    require(len(xs) > 1, "it joins one value")
    return g.Tanh(g.Concat(*xs, axis=a))


@rule(lambda g, x, p: g.Transpose(x * 2, perm=g.attr(p, lambda perm: perm[:1] == [0])), contract=EXACT)
def double_later(g: RewriteBuilder, x: Value, p: list[int]) -> Value:
    """Transpose(2 x) => 2 Transpose(x), where the first dim keeps its place"""
    require(x.dtype == np.float32, "it is not in single precision")
    return g.Transpose(x, perm=p) * 2


@rule(lambda g, x: g.one_of("Abs", "Sign")(g.Unsqueeze(x, axes=lambda axes: axes == [0])), contract=EXACT)
def expand_later(g: RewriteBuilder, x: Value) -> Value:
    """Abs(Unsqueeze(x)) => Unsqueeze(Abs(x)), and Sign"""
    return g.Unsqueeze(getattr(g, g.root.type)(x), [0])
