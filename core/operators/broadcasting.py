"""Broadcasting of shapes with symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expressions import Dim, Expr, Shape, is_known_le, least_of


def same_extent(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal. Two unknown ones are not.

    Examples:
        >>> x = graph.inputs[0]
        >>> same_extent(x.shape[0], "N"), same_extent(x.shape[1], 4), same_extent(None, None)
        (True, True, False)
    """
    return a is not None and a == b


def broadcasts_to(small: Shape, big: Shape) -> bool:
    """Whether broadcasting `small` with `big` is known to result in `big`.

    Examples:
        >>> broadcasts_to((4,), ("N", 4)), broadcasts_to(("N", 4), (4,))
        (True, False)
    """
    if len(small) > len(big):
        return False
    return all(s == 1 or same_extent(s, b) for s, b in zip(small[::-1], big[::-1], strict=False))


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """The result of ONNX's multidirectional broadcasting; None if a rank is unknown."""
    out: list[Dim] = []
    for shape in shapes:
        if shape is None:
            return None
        out = [1] * (len(shape) - len(out)) + out
        for i, d in enumerate(reversed(shape), 1):
            out[-i] = broadcast_dim(out[-i], d)
    return tuple(out)


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The extent of two broadcast dims; None if it depends on which of them is 1."""
    if b in {a, 1} or _is_capped(b, a):
        return a
    if _is_capped(a, b):
        return b
    if a == 1 or (isinstance(b, int) and not isinstance(a, int)):
        return b
    return a if isinstance(a, int) else None


def same_extent_if_broadcast(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal whenever they can be broadcast, such as d and min(d, 2).

    Examples:
        >>> same_extent_if_broadcast("N", "N"), same_extent_if_broadcast("N", 4)
        (True, False)
    """
    return same_extent(a, b) or _is_capped(a, b) or _is_capped(b, a)


def _is_capped(cap: Dim, d: Dim) -> bool:
    """Whether `cap` is the minimum of `d` and extents above 1. If one of these is the minimum, `d` is also above 1."""
    if not isinstance(cap, Expr) or d is None:
        return False
    cases = least_of(cap)
    return d in cases and all(case == d or is_known_le(2, case) for case in cases)
