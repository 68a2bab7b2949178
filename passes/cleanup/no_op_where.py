"""Removal of Where ops that always select the same operand."""

from __future__ import annotations

from ...core import EXACT, Build, RulePass, Value, by_dtype, require, rule
from ...core.ir.dtypes import DISCRETE_TYPES
from ..support.contracts import NO_NEGATIVE_ZERO
from ..support.operand_queries import is_float_value, require_broadcastable_to, uniform_value

# Where the condition holds, onnxruntime returns 0 for -0.


@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=EXACT)
def fold_constant_where(g: Build, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x, Where(false, x, y) => y"""
    require(not uniform_value(c) or not is_float_value(x), "a negative zero may become positive")
    return selected_operand(c, x, y)


@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=NO_NEGATIVE_ZERO)
def fold_constant_where_of_floats(g: Build, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x"""
    return selected_operand(c, x, y)


@rule(lambda g, c, x: g.Where(c, x, x), contract=by_dtype(DISCRETE_TYPES, EXACT, otherwise=NO_NEGATIVE_ZERO))
def drop_where_of_equals(g: Build, c: Value, x: Value) -> Value:
    """Where(c, x, x) => x"""
    require_broadcastable_to(c, x)
    return x


def selected_operand(c: Value, x: Value, y: Value) -> Value:
    """The operand that a constant condition selects; declines where the others would broadcast it."""
    taken, other = (x, y) if uniform_value(c) else (y, x)
    require_broadcastable_to(c, taken)
    require_broadcastable_to(other, taken)
    return taken


DROP_NO_OP_WHERE = RulePass(
    "drop-no-op-where", (fold_constant_where, drop_where_of_equals, fold_constant_where_of_floats)
)
