"""What reshaping ops make of the extents of a value: each stays, is a number, or is open."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...core import Op, Value, require, same_extent
from ..operands import axes_of, normalized


@dataclass(frozen=True, slots=True)
class Kept:
    """The extent that the value reshaped has along `axis`."""

    axis: int


RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
REST = -1  # what is left of the elements, as in the shape of a Reshape
Extent = int | Kept | None  # a number above zero, REST, a dim that stays, or nothing known
Extents = list[Extent]


def kept(x: Value) -> Extents | None:
    """The extents of `x` before anything happens to them; None where the rank is unknown."""
    shape = x.known_shape
    return None if shape is None else [Kept(i) for i in range(len(shape))]


def reshaped(op: Op, extents: Extents | None, x: Value) -> Extents | None:
    """The extents that Reshape, Flatten, Squeeze or Unsqueeze makes of `extents`, told by those of `x`."""
    if op.type == "Reshape":
        shape = target(op)
        if shape is None or (0 in shape and op.attr("allowzero", 0)):
            return described(op.outputs[0], x)
        return [_copied(extents, i) if n == 0 else n for i, n in enumerate(shape)]
    if extents is None:
        return None
    if op.type == "Squeeze":
        gone = squeezed(op, extents, x)
        return [e for i, e in enumerate(extents) if i not in gone]
    if op.type == "Unsqueeze":
        return unsqueezed(op, extents)
    axis = int(op.attr("axis", 1))
    axis += len(extents) if axis < 0 else 0
    return _flattened(extents[:axis], extents[axis:], x)


def target(op: Op) -> list[int] | None:
    """The shape that a Reshape is given; None where it is computed."""
    if op.version >= 5 and (len(op.inputs) < 2 or op.inputs[1] is None or not op.inputs[1].is_const):
        return None
    return axes_of(op, "shape")


def described(out: Value, x: Value) -> Extents | None:
    """What is known of the shape of `out`, as extents of `x` and numbers."""
    shape = out.known_shape
    return None if shape is None else sharpened([None] * len(shape), out, x)


def sharpened(extents: Extents, out: Value, x: Value) -> Extents:
    """`extents` with numbers, and extents of `x` in their own places, wherever the shape of `out` tells them."""
    shape, given = out.known_shape, x.known_shape or ()
    if shape is None or len(shape) != len(extents):
        return extents
    found = list(extents)
    for i, d in enumerate(shape):
        if isinstance(d, int) and d > 0:
            found[i] = d
        elif i < len(given) and same_extent(d, given[i]):
            found[i] = Kept(i)
    return found


def squeezed(op: Op, extents: Extents, x: Value) -> list[int]:
    """The axes that a Squeeze takes away."""
    axes = axes_of(op)
    if axes:  # onnxruntime takes an empty list as none given
        return normalized(axes, len(extents))
    numbers = [number(e, x) for e in extents]
    require(None not in numbers, "a Squeeze without axes takes away what turns out to be 1")
    return [i for i, n in enumerate(numbers) if n == 1]


def unsqueezed(op: Op, extents: Extents) -> Extents:
    """`extents` with a 1 wherever an Unsqueeze puts one."""
    axes = axes_of(op)
    require(axes is not None, "it names no axes")
    rank = len(extents) + len(axes or ())
    new = set(normalized(axes or [], rank))
    old = iter(extents)
    return [1 if i in new else next(old) for i in range(rank)]


def number(e: Extent, x: Value) -> int | None:
    """An extent as a number above zero; None where it is open, or none at all."""
    if isinstance(e, Kept):
        shape = x.known_shape
        d = shape[e.axis] if shape is not None and e.axis < len(shape) else None
        return d if isinstance(d, int) and d > 0 else None
    return e if e != REST else None


def settled(extents: Extents | None, x: Value) -> Extents | None:
    """`extents` of all elements of `x` with a number for REST, if all else is known."""
    shape = x.known_shape
    if extents is None or shape is None or extents.count(REST) != 1:
        return extents
    known = [n for e in extents if (n := number(e, x)) is not None]
    given = [d for d in shape if isinstance(d, int) and d > 0]
    if len(known) != len(extents) - 1 or len(given) != len(shape):
        return extents
    return [prod(given) // prod(known) if e == REST else e for e in extents]


def restores(extents: Extents, x: Value) -> bool:
    """Whether `extents` are those of `x`."""
    given = kept(x)
    return given is not None and agree(extents, given, x)


def agree(extents: Extents, wanted: Extents, x: Value) -> bool:
    """Whether `extents` are `wanted`. One that is open must be right if all others are."""
    if len(extents) != len(wanted):
        return False
    wrong = [i for i, (e, w) in enumerate(zip(extents, wanted, strict=True)) if not equal(e, w, x)]
    if len(wrong) != 1:
        return not wrong
    # With no elements there is no telling; a Reshape to REST and a 0 fails there, and need not be kept.
    others = [e for i, e in enumerate(extents) if i != wrong[0]]
    return extents[wrong[0]] == REST or (extents[wrong[0]] is None and all(number(e, x) for e in others))


def entries(extents: Extents, x: Value) -> list[int]:
    """The shape with which one Reshape makes `extents` of `x`; declines where it cannot be written."""
    shape: list[int | None] = []
    for i, e in enumerate(extents):
        n = REST if e == REST else number(e, x)
        shape.append(0 if n is None and e == Kept(i) else n)
    unknown = shape.count(None)
    # A REST beside a dim of 0 fails in onnxruntime: it may be added to numbers only.
    fits = unknown == 0 or (unknown == 1 and REST not in shape and 0 not in shape)
    require(fits and shape.count(REST) <= 1, f"one Reshape cannot say {extents}")
    return [REST if n is None else n for n in shape]


def equal(a: Extent, b: Extent, x: Value) -> bool:
    """Whether two extents are known to be the same."""
    n = number(a, x)
    return n == number(b, x) if n is not None else isinstance(a, Kept) and a == b


def _copied(extents: Extents | None, i: int) -> Extent:
    require(extents is not None and i < len(extents), "it copies an extent that nobody knows")
    assert extents is not None
    return extents[i]


def _flattened(before: Extents, after: Extents, x: Value) -> Extents:
    """The two extents of a Flatten."""
    first, second = _product(before, x), _product(after, x)
    if REST in before or REST in after:  # a dim of 0 beside it has failed before
        return [REST if first is None else first, REST if second is None else second]
    return [first, second]


def _product(extents: Extents, x: Value) -> Extent:
    left = [e for e in extents if e != 1]
    if len(left) == 1:
        return left[0]
    numbers = [n for e in left if (n := number(e, x)) is not None]
    return prod(numbers) if len(numbers) == len(left) else None
