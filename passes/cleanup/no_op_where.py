"""Where that always selects the same."""

from __future__ import annotations

from ...core import EXACT, Build, RulePass, Value, conditional, require, rule
from ..support.operand_queries import is_float, require_same_shape, uniform

# Where the condition holds, onnxruntime makes 0 of -0.
UNSIGNED_ZEROS = conditional("no zero is negative")


@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=EXACT)
def take_only_branch(g: Build, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x, Where(false, x, y) => y"""
    require(not uniform(c) or not is_float(x), "a zero may lose its sign")
    return only_branch(c, x, y)


@rule(lambda g, c, x, y: g.Where(g.const(c), x, y), contract=UNSIGNED_ZEROS)
def take_only_branch_of_floats(g: Build, c: Value, x: Value, y: Value) -> Value:
    """Where(true, x, y) => x"""
    return only_branch(c, x, y)


@rule(lambda g, c, x: g.Where(c, x, x), contract=EXACT)
def drop_choice_of_equals(g: Build, c: Value, x: Value) -> Value:
    """Where(c, x, x) => x"""
    require(not is_float(x), "a zero may lose its sign")
    require_same_shape(c, x)
    return x


@rule(lambda g, c, x: g.Where(c, x, x), contract=UNSIGNED_ZEROS)
def drop_choice_of_equal_floats(g: Build, c: Value, x: Value) -> Value:
    """Where(c, x, x) => x"""
    require_same_shape(c, x)
    return x


def only_branch(c: Value, x: Value, y: Value) -> Value:
    """What a constant condition always selects; declines where the rest stretches it."""
    taken, other = (x, y) if uniform(c) else (y, x)
    require_same_shape(c, taken)
    require_same_shape(other, taken)
    return taken


DROP_IDLE_SELECTIONS = RulePass(
    "drop-idle-selections",
    (take_only_branch, drop_choice_of_equals, take_only_branch_of_floats, drop_choice_of_equal_floats),
)
