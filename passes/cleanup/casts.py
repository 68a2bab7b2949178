"""Casts that change no value, and pairs of casts that one does as well."""

from __future__ import annotations

from typing import NamedTuple

from onnx import TensorProto

from ...core import EXACT, Build, Op, RulePass, Value, require, rule


class Kind(NamedTuple):
    """The numbers of an element type: bits of magnitude held exactly, signs, bits of exponent (0: whole numbers)."""

    digits: int
    signed: bool
    exponent: int = 0

    @property
    def bits(self) -> int:
        """The width of a whole number."""
        return self.digits + self.signed


# The types that operator Cast converts by value; float8, four-bit types and strings have rules of their own.
KINDS: dict[int, Kind] = {
    TensorProto.BOOL: Kind(1, signed=False),
    TensorProto.INT8: Kind(7, signed=True),
    TensorProto.INT16: Kind(15, signed=True),
    TensorProto.INT32: Kind(31, signed=True),
    TensorProto.INT64: Kind(63, signed=True),
    TensorProto.UINT8: Kind(8, signed=False),
    TensorProto.UINT16: Kind(16, signed=False),
    TensorProto.UINT32: Kind(32, signed=False),
    TensorProto.UINT64: Kind(64, signed=False),
    TensorProto.FLOAT16: Kind(11, signed=True, exponent=5),
    TensorProto.BFLOAT16: Kind(8, signed=True, exponent=8),
    TensorProto.FLOAT: Kind(24, signed=True, exponent=8),
    TensorProto.DOUBLE: Kind(53, signed=True, exponent=11),
}
# onnxruntime compares these in ArgMax and ArgMin at every opset.
COMPARED = frozenset({TensorProto.FLOAT, TensorProto.INT32})


@rule(lambda g, x, like, cast: g.CastLike(x, like) @ cast, contract=EXACT)
def fix_type_of_cast_like(g: Build, x: Value, like: Value, cast: Op) -> Value:
    """CastLike(x, y) => Cast(x, the type of y), or x where that is its own"""
    return x if x.dtype == like.dtype else g.Cast(x, to=like.dtype, **cast.attrs)


@rule(lambda g, x, cast: g.one_of("BitCast", "Cast")(x) @ cast, contract=EXACT)
def drop_cast_to_same_type(g: Build, x: Value, cast: Op) -> Value:
    """Cast(x, the type of x) => x"""
    require(cast.attr("to") == x.dtype, "it changes the type")
    return x


@rule(lambda g, x, b, c: g.Cast(g.Cast(x, to=b), to=c), shared=True, contract=EXACT)
def merge_casts(g: Build, x: Value, b: int, c: int) -> Value:
    """Cast(Cast(x, b), c) => Cast(x, c), or x, where b lets through all that c keeps"""
    require(agrees_with_one(KINDS.get(x.dtype), KINDS.get(b), KINDS.get(c)), "the type between changes values")
    return x if c == x.dtype else g.Cast(x, to=c)


@rule(
    lambda g, x, b, c, move, rest: g.Cast(
        g.one_of("Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")(g.Cast(x, to=b), *rest)
        @ move,
        to=c,
    ),
    contract=EXACT,
)
def merge_casts_around_movement(g: Build, x: Value, b: int, c: int, move: Op, rest: tuple[Value | None, ...]) -> Value:
    """Cast(Reshape(Cast(x, b)), c) => Cast(Reshape(x), c), or Reshape(x), and so for whatever only moves elements"""
    require(agrees_with_one(KINDS.get(x.dtype), KINDS.get(b), KINDS.get(c)), "the type between changes values")
    moved = getattr(g, move.type)(x, *rest, **move.attrs)
    return moved if c == x.dtype else g.Cast(moved, to=c)


@rule(
    lambda g, x, t, arg: g.one_of("ArgMax", "ArgMin")(g.Cast(x, to=t)) @ arg,
    shared=True,
    contract=EXACT,
)
def compare_before_cast(g: Build, x: Value, t: int, arg: Op) -> Value:
    """ArgMax(Cast(x)) => ArgMax(x), also ArgMin, where the cast keeps every value, and so order and ties"""
    require(x.dtype in COMPARED, "onnxruntime may not compare this type")
    require(holds(KINDS.get(t), KINDS[x.dtype]), "the cast may make values equal")
    return getattr(g, arg.type)(x, **arg.attrs)


def holds(b: Kind | None, a: Kind | None) -> bool:
    """Whether each value of type `a`, infinities and NaN among them, is one of type `b`."""
    if a is None or b is None:
        return False
    return a.digits <= b.digits and a.signed <= b.signed and a.exponent <= b.exponent


def agrees_with_one(a: Kind | None, b: Kind | None, c: Kind | None) -> bool:
    """Whether casting from `a` to `b` and on to `c` always gives what casting from `a` to `c` does.

    Whole numbers lose their upper bits. What a float out of range becomes as a whole number, nothing defines.
    """
    if a is None or b is None or c is None:
        return False
    if c.digits == 1:  # to bool: whether it is zero, which a float and as many bits tell of any whole number
        return holds(b, a) or (not a.exponent and (b.exponent > 0 or b.bits >= a.bits))
    if not (a.exponent or b.exponent or c.exponent):
        return c.bits <= b.bits or holds(b, a)
    if not holds(b, a):
        return False
    return bool(c.exponent) or holds(c, a)


MERGE_CASTS = RulePass(
    "merge-casts",
    (
        fix_type_of_cast_like,
        drop_cast_to_same_type,
        merge_casts,
        merge_casts_around_movement,
        compare_before_cast,
    ),
)
