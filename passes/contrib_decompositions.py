"""Decompositions of operators that onnxruntime adds in com.microsoft, as standard operators."""

from __future__ import annotations

from typing import Any

from ..core import Op, RewriteBuilder, Value, require, rule
from .decomposition import by_root_mean_square, centred, gelu, scaled
from .support.operand_queries import swap_of_last_two

MICROSOFT = "com.microsoft"
FUSED_ATTRIBUTES = frozenset({"activation", "activation_params", "activation_alpha", "activation_beta"})
PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}
"""The parameters of activations that are fused into other ops, in order."""


@rule(
    lambda g, a, b, op: g.domain(MICROSOFT).FusedMatMul(a, b) @ op,
    lambda g, a, b, op: g.domain(MICROSOFT).TransposeMatMul(a, b) @ op,
)
def split_fused_matmul(g: RewriteBuilder, a: Value, b: Value, op: Op) -> Value:
    """FusedMatMul(a, b, alpha, transA, transB) => alpha * MatMul(a, b), with a Transpose of a or b where it has one"""
    require(not op.attr("transBatchA", 0) and not op.attr("transBatchB", 0), "it turns batches")
    a, b = (_swapped(g, v) if op.attr(name, 0) else v for v, name in ((a, "transA"), (b, "transB")))
    return scaled(g, g.MatMul(a, b), float(op.attr("alpha", 1.0)))


def _swapped(g: RewriteBuilder, v: Value) -> Value:
    require(v.rank > 1, "a vector has no dims to swap")
    return g.Transpose(v, perm=swap_of_last_two(v.rank))


@rule(lambda g, a, b, op, c=None: g.domain(MICROSOFT).FusedGemm(a, b, c) @ op)
def split_fused_gemm(g: RewriteBuilder, a: Value, b: Value, op: Op, c: Value | None = None) -> Value:
    """FusedGemm(a, b, c) => activation of Gemm(a, b, c)"""
    y = g.Gemm(a, b, c, **_own_attributes(op))
    return _activated(g, op, y, [op.attr("activation_alpha"), op.attr("activation_beta")])


@rule(lambda g, x, w, op, b=None, z=None: g.domain(MICROSOFT).FusedConv(x, w, b, z) @ op)
def split_fused_conv(
    g: RewriteBuilder, x: Value, w: Value, op: Op, b: Value | None = None, z: Value | None = None
) -> Value:
    """FusedConv(x, w, b, z) => activation of Conv(x, w, b) + z"""
    y = g.Conv(x, w, b, **_own_attributes(op))
    return _activated(g, op, y if z is None else g.Add(y, z), op.attr("activation_params", []))


def _own_attributes(op: Op) -> dict[str, Any]:
    return {name: value for name, value in op.attrs.items() if name not in FUSED_ATTRIBUTES}


def _activated(g: RewriteBuilder, op: Op, y: Value, numbers: list[float | None]) -> Value:
    kind = str(op.attr("activation", ""))
    if not kind:
        return y
    require(kind in {"Relu", "Sigmoid", "Tanh", *PARAMETERS}, f"its activation is {kind}")
    names = PARAMETERS.get(kind, ())
    given = dict(zip(names, numbers, strict=False))
    require(all(given.get(name) is not None for name in names), f"{kind} lacks a parameter")
    if kind == "Clip":
        return g.Clip(y, *given.values())
    return getattr(g, kind)(y, **given)


@rule(lambda g, x, op: g.domain(MICROSOFT).Gelu(x) @ op)
def split_contrib_gelu(g: RewriteBuilder, x: Value) -> Value:
    """Gelu(x) of com.microsoft => x * 0.5 * (1 + Erf(x / sqrt(2)))"""
    return _gelu(g, x)


@rule(lambda g, x, b: g.domain(MICROSOFT).BiasGelu(x, b))
def split_bias_gelu(g: RewriteBuilder, x: Value, b: Value) -> Value:
    """BiasGelu(x, b) => Gelu(x + b)"""
    return _gelu(g, g.Add(x, b))


def _gelu(g: RewriteBuilder, x: Value) -> Value:
    return g.Gelu(x) if g.opset >= 20 else gelu(g, x, by_tanh=False)


@rule(lambda g, x, b=None: g.domain(MICROSOFT).FastGelu(x, b))
def split_fast_gelu(g: RewriteBuilder, x: Value, b: Value | None = None) -> Value:
    """FastGelu(x, b) => the Gelu of x + b that is approximated by Tanh"""
    return gelu(g, x if b is None else g.Add(x, b), by_tanh=True)


@rule(lambda g, x, op: g.domain(MICROSOFT).QuickGelu(x) @ op)
def split_quick_gelu(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """QuickGelu(x, alpha=k) => x * Sigmoid(k * x)"""
    return g.Mul(x, g.Sigmoid(scaled(g, x, float(op.attr("alpha", 1.702)))))


@rule(lambda g, x, axis: g.domain(MICROSOFT).ExpandDims(x, g.const(axis)))
def split_expand_dims(g: RewriteBuilder, x: Value, axis: Value) -> Value:
    """ExpandDims(x, axis) => Unsqueeze(x, [axis])"""
    return g.Unsqueeze(x, axes=[int(axis.const.reshape(-1)[0])])


@rule(lambda g, x, s, w, op, b=None, c=None: g.domain(MICROSOFT).SkipLayerNormalization(x, s, w, b, c) @ op)
def split_skip_layer_norm(
    g: RewriteBuilder, x: Value, s: Value, w: Value, op: Op, b: Value | None = None, c: Value | None = None
) -> tuple[Value | None, ...]:
    """SkipLayerNormalization(x, s, w, b, c) => the sum x + s + c, and its layer normalization with weights w and b"""
    total = _skipped(g, op, x, s, c)
    epsilon = float(op.attr("epsilon", 1e-12))
    if g.opset >= 17:
        return _outputs(op, g.LayerNormalization(total, w, b, axis=-1, epsilon=epsilon), total)
    y = g.Mul(by_root_mean_square(g, centred(g, total, [-1]), [-1], epsilon), w)
    return _outputs(op, y if b is None else g.Add(y, b), total)


@rule(lambda g, x, s, w, op, c=None: g.domain(MICROSOFT).SkipSimplifiedLayerNormalization(x, s, w, c) @ op)
def split_skip_rms_norm(
    g: RewriteBuilder, x: Value, s: Value, w: Value, op: Op, c: Value | None = None
) -> tuple[Value | None, ...]:
    """SkipSimplifiedLayerNormalization(x, s, w, c) => the sum x + s + c, divided by its root mean square, times w"""
    total = _skipped(g, op, x, s, c)
    normal = by_root_mean_square(g, total, [-1], float(op.attr("epsilon", 1e-12)))
    return _outputs(op, g.Mul(normal, w), total)


def _outputs(op: Op, y: Value, total: Value) -> tuple[Value | None, ...]:
    """The result and the sum as outputs 0 and 3, if the op has them."""
    return (y, None, None, total)[: len(op.outputs)]


def _skipped(g: RewriteBuilder, op: Op, x: Value, s: Value, c: Value | None) -> Value:
    require(all(map(op.graph.is_unused, op.outputs[1:3])), "its mean or deviation is read")
    total = g.Add(x, s)
    return total if c is None else g.Add(total, c)
