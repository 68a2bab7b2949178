"""A rule of two functions, as they are written for onnxscript."""

from __future__ import annotations

from typing import Any

from passwright.core import EXACT

from passwright import rule_from_functions


def double_reciprocal(op: Any, x: Any) -> Any:
    """The pattern."""
    return op.Reciprocal(op.Reciprocal(x))


def identity(op: Any, x: Any) -> Any:
    """The replacement."""
    return op.Identity(x)


def is_scalar(_context: Any, x: Any) -> bool:
    """Whether the value has one element."""
    return bool(x.rank == 0)


drop_reciprocals = rule_from_functions(double_reciprocal, identity, is_scalar, name="drop_reciprocals")
keep_signs = rule_from_functions(
    lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="keep_signs", contract=EXACT
)
