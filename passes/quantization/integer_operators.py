"""Operators of integers in place of groups of QuantizeLinear, DequantizeLinear and an operator: the format QOperator.

Other runtimes than onnxruntime know QLinearConv and QLinearMatMul of the standard domain only; without the others, of
com.microsoft, the remaining groups stay as they are.

`integer-operators`: Operators of integers of the standard and of onnxruntime: the format QOperator.
"""

from __future__ import annotations

import numpy as np

from ...core import Op, RewriteBuilder, Value, require, rule
from ...core.operators.operands import normalized_axis
from ...core.operators.quantization import dequantize
from ..linear.products import Product
from ..support.operand_queries import known, operand, required_producer
from .static_groups import UNARY_OPS

MICROSOFT = "com.microsoft"
BINARY_OPS = ("Add", "Mul")
SOFTMAX_OPSET = 13  # since which Softmax normalizes one axis, the last by default


def dequantized(v: Value) -> list[Value]:
    """The integers, the scale and the zero point of a dequantized value; declines others, and blocks."""
    maker = required_producer(v, "DequantizeLinear")
    require(not maker.attr("block_size", 0), "there is a scale for each block")
    return [known(maker.input(i), f"{maker.label} has no zero point") for i in range(3)]


def quantization_of(outer: Op) -> list[Value]:
    """The scale and the zero point of a QuantizeLinear."""
    return [known(outer.input(i), f"{outer.label} has no zero point") for i in (1, 2)]


def integer_bias(v: Value | None, x: list[Value], w: list[Value]) -> list[Value]:
    """The integers of a bias, if there is one; declines another scale than the products have."""
    if v is None:
        return []
    bias, scale, zero = dequantized(v)
    products = x[1].const * w[1].const
    is_sum = np.array_equal(np.broadcast_to(products.reshape(-1), scale.const.size), scale.const.reshape(-1))
    require(is_sum and not zero.const.any(), f"{v.name} has not the scale of the products")
    return [bias]


def require_channel_axis(v: Value, axis: int) -> None:
    """Decline weights whose scales vary along another axis than `axis`."""
    maker = required_producer(v, "DequantizeLinear")
    if operand(maker, 1).const.size > 1:
        given = normalized_axis(maker, v.rank, 1)
        require(given == axis % v.rank, f"the scales of {v.name} vary along axis {given}")


@rule(lambda g, conv, outer: g.QuantizeLinear(g.Conv(...) @ conv, ...) @ outer, group="integer-operators")
def conv_of_integers(g: RewriteBuilder, conv: Op, outer: Op) -> Value:
    """QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b))) => QLinearConv(x, w, b)"""
    x, w = dequantized(operand(conv)), dequantized(operand(conv, 1))
    require_channel_axis(operand(conv, 1), 0)
    bias = integer_bias(conv.input(2), x, w)
    return g.QLinearConv(*x, *w, *quantization_of(outer), *bias, **conv.attrs)


@rule(lambda g, product, outer: g.QuantizeLinear(g.MatMul(...) @ product, ...) @ outer, group="integer-operators")
def matmul_of_integers(g: RewriteBuilder, product: Op, outer: Op) -> Value:
    """QuantizeLinear(MatMul(DequantizeLinear(x), DequantizeLinear(y))) => QLinearMatMul(x, y)"""
    x, y = operand(product), operand(product, 1)
    require_channel_axis(y, -1)
    return g.QLinearMatMul(*dequantized(x), *dequantized(y), *quantization_of(outer))


@rule(
    lambda g, product, b: g.Add(g.MatMul(...) @ product, b),
    lambda g, product: g.MatMul(...) @ product,
    group="integer-operators",
)
def matmul_to_floats(g: RewriteBuilder, product: Op, b: Value | None = None) -> Value:
    """Add(MatMul(DequantizeLinear(x), DequantizeLinear(y)), DequantizeLinear(b)) => MatMulIntegerToFloat(x, y, b)"""
    (x, x_scale, x_zero), (y, y_scale, y_zero) = (dequantized(operand(product, i)) for i in range(2))
    require_channel_axis(operand(product, 1), -1)
    readers = {r.type for r in product.outputs[0].consumers}
    require(b is not None or "QuantizeLinear" not in readers, "its result is quantized")
    bias = []
    if b is not None:
        integers, scale, zero = dequantized(b)
        require(integers.is_const and integers.rank == 1, f"{b.name} is not a constant row")
        row = dequantize(integers.const, scale.const.astype(np.float64), zero.const, axis=0)
        bias = [g.const(row.astype(np.float32))]
    return g.domain(MICROSOFT).MatMulIntegerToFloat(x, y, x_scale, y_scale, x_zero, y_zero, *bias)


@rule(
    lambda g, gemm, outer: g.QuantizeLinear(g.Gemm(...) @ gemm, ...) @ outer,
    lambda g, gemm: g.Gemm(...) @ gemm,
    group="integer-operators",
)
def gemm_of_integers(g: RewriteBuilder, gemm: Op, outer: Op | None = None) -> Value:
    """QuantizeLinear(Gemm(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b))) => QGemm(x, w, b)

    So without QuantizeLinear, with floats as result.
    """
    x, w = dequantized(operand(gemm)), dequantized(operand(gemm, 1))
    p = Product.of(gemm)
    require(p.alpha == p.beta == 1, "it has factors")
    require_channel_axis(p.b, 0 if p.trans_b else 1)
    readers = {r.type for r in gemm.outputs[0].consumers}
    require(outer is not None or "QuantizeLinear" not in readers, "its result is quantized")
    bias = integer_bias(gemm.input(2), x, w)
    result = [] if outer is None else quantization_of(outer)
    attrs = {name: gemm.attr(name, 0) for name in ("transA", "transB")}
    return g.domain(MICROSOFT).QGemm(*x, *w, *(bias or [None]), *result, alpha=1.0, **attrs)


@rule(
    lambda g, op, outer: g.QuantizeLinear(g.one_of(*BINARY_OPS, *UNARY_OPS)(...) @ op, ...) @ outer,
    group="integer-operators",
)
def elementwise_of_integers(g: RewriteBuilder, op: Op, outer: Op) -> Value:
    """QuantizeLinear(Add(DequantizeLinear(x), DequantizeLinear(y))) => QLinearAdd(x, y); so Mul, Sigmoid, pools"""
    operands = [part for i in range(len(op.inputs)) for part in one_scale(operand(op, i))]
    attrs = dict(op.attrs)
    if op.type == "Softmax":
        attrs |= {"axis": op.attr("axis", -1 if op.version >= SOFTMAX_OPSET else 1), "opset": op.version}
    return getattr(g.domain(MICROSOFT), f"QLinear{op.type}")(*operands, *quantization_of(outer), **attrs)


@rule(lambda g, concat, outer: g.QuantizeLinear(g.Concat(...) @ concat, ...) @ outer, group="integer-operators")
def concat_of_integers(g: RewriteBuilder, concat: Op, outer: Op) -> Value:
    """QuantizeLinear(Concat(DequantizeLinear(x), DequantizeLinear(y))) => QLinearConcat(x, y)"""
    parts = [part for i in range(len(concat.inputs)) for part in one_scale(operand(concat, i))]
    return g.domain(MICROSOFT).QLinearConcat(*quantization_of(outer), *parts, axis=concat.attr("axis"))


def one_scale(v: Value) -> list[Value]:
    """As `dequantized`; declines more than one scale."""
    found = dequantized(v)
    require(found[1].const.size == 1, f"{v.name} has more than one scale")
    return found
