"""Rewrite of a quotient of Sin and Cos to Tan."""

from __future__ import annotations

from onnx import TensorProto
from passwright.core import ROUNDING, RewriteBuilder, Value, require, rule


@rule(lambda g, x: g.Div(g.Sin(x), g.Cos(x)), contract=ROUNDING)
def quotient_to_tan(g: RewriteBuilder, x: Value) -> Value:
    """Sin(x) / Cos(x) => Tan(x)"""
    require(x.dtype != TensorProto.DOUBLE, "onnxruntime has Sin and Cos of doubles, and no Tan")
    return g.Tan(x)
