"""Removal of idempotent ops: rounding of integers, repeated Abs and Sign."""

from __future__ import annotations

from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, require, rule
from ...core.ir.dtypes import FLOATS
from ..support.contracts import NO_NEGATIVE_ZERO
from ..support.operand_queries import is_integer_dtype
from .value_ranges import DATA_MOVEMENT_OPS, range_of

INTEGER_VALUED_OPS = frozenset({"Ceil", "Floor", "Round", "Sign"})
MAX_DEPTH = 6  # ops looked at on the way up


@rule(lambda g, x: g.one_of("Ceil", "Floor", "Round")(x), contract=EXACT)
def drop_rounding_of_integers(g: Build, x: Value) -> Value:
    """Ceil(x), Floor(x), Round(x) => x, where x is known to be whole"""
    require(is_integer_valued(x), f"{x.name} may have a fraction")
    return x


@rule(
    lambda g, inner, outer: g.one_of("Abs", "Sign")(g.one_of("Abs", "Sign")(...) @ inner) @ outer,
    shared=True,
    contract=EXACT,
)
def drop_repeated_op(g: Build, inner: Op, outer: Op) -> Value:
    """Abs(Abs(x)) => Abs(x), Sign(Sign(x)) => Sign(x)"""
    require(inner.type == outer.type, "the operators differ")
    return inner.outputs[0]


@rule(lambda g, x: g.Abs(g.Neg(x)), contract=EXACT)
def drop_neg_before_abs(g: Build, x: Value) -> Value:
    """Abs(Neg(x)) => Abs(x)"""
    return g.Abs(x)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs_of_positive(g: Build, x: Value) -> Value:
    """Abs(x) => x, where x is known to be above 0, or an integer that is not negative"""
    low = range_of(x).low
    require(low > 0 or (low == 0 and x.dtype not in FLOATS), "it may be negative, or a zero that is")
    return x


@rule(lambda g, x: g.Abs(x), contract=NO_NEGATIVE_ZERO, fragile=(0.0,))
def drop_abs_of_non_negative(g: Build, x: Value) -> Value:
    """Abs(x) => x, where x is known to be 0 or above"""
    require(range_of(x).low >= 0, "it may be negative")
    return x


def is_integer_valued(value: Value, depth: int = MAX_DEPTH) -> bool:
    """Whether all elements are known to be integers, infinite or NaN. O(1)."""
    op = value.producer
    if op is None or op.domain or not depth:
        return False
    if op.type in INTEGER_VALUED_OPS:
        return True
    first = op.input(0)
    if first is None:
        return False
    if op.type == "Cast":
        return is_integer_dtype(first.known_dtype) or first.known_dtype == TensorProto.BOOL
    return (op.type in DATA_MOVEMENT_OPS or op.type in {"Abs", "Neg", "Relu"}) and is_integer_valued(first, depth - 1)


DROP_IDEMPOTENT = RulePass(
    "drop-idempotent",
    (drop_rounding_of_integers, drop_repeated_op, drop_neg_before_abs, drop_abs_of_positive, drop_abs_of_non_negative),
)
