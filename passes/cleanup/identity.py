"""Removal of Identity, and of Dropout outside training."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ...core import EXACT, Build, Op, RulePass, Tensor, Value, require, rule


@rule(lambda g, x: g.Identity(x), contract=EXACT)
def drop_identity(g: Build, x: Value) -> Value:
    """Identity(x) => x"""
    return x


@rule(lambda g, x, dropout: g.Dropout(x, ...) @ dropout, contract=EXACT)
def drop_dropout(g: Build, x: Value, dropout: Op) -> tuple[Value, Value | None]:
    """Dropout(x) => x, and a mask of one value, where nothing is dropped"""
    require(is_inactive_dropout(dropout), "it may drop elements")
    mask = dropout.outputs[1] if len(dropout.outputs) > 1 else None
    if mask is None or not (mask.consumers or dropout.graph.is_output(mask)):
        return x, None
    require(g.opset >= 9, "before opset 9, there is no ConstantOfShape for the mask")
    # onnxruntime fills the mask with zeros up to version 11; since then the operator asks for ones.
    # Before version 10 the mask has the type of the data.
    kind = np.bool_ if g.opset >= 10 else helper.tensor_dtype_to_np_dtype(x.dtype)
    fill = Tensor.from_array(np.array([g.opset >= 12], kind))
    return x, g.ConstantOfShape(g.const(np.array(x.static_shape, np.int64)), value=fill)  # a Shape would be one op more


def is_inactive_dropout(dropout: Op) -> bool:
    """Whether a Dropout is in inference form or has ratio 0 (operator Dropout, versions 1 to 22)."""
    if dropout.version < 7:
        return bool(dropout.attr("is_test", 0)) or dropout.attr("ratio", 0.5) == 0
    if dropout.version < 12:
        return True  # versions 7 and 10 are for inference only
    ratio, mode = dropout.input(1), dropout.input(2)
    if mode is None or (mode.is_const and not mode.const.any()):
        return True
    return ratio is not None and ratio.is_const and not ratio.const.any()


DROP_IDENTITY = RulePass("drop-identity", (drop_identity,))
DROP_DROPOUT = RulePass("drop-dropout", (drop_dropout,))
