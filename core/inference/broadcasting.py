"""Broadcasting of shapes (Multidirectional Broadcasting in ONNX), and equality of extents."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import Dim, Shape


def same_extent(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be equal. Two unknown ones are not."""
    return a is not None and a == b


def broadcasts_to(small: Shape, big: Shape) -> bool:
    """Whether broadcasting `small` with `big` is known to give `big`."""
    if len(small) > len(big):
        return False
    return all(s == 1 or same_extent(s, b) for s, b in zip(small[::-1], big[::-1], strict=False))


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that ONNX's multidirectional broadcasting gives; None where a rank is unknown."""
    out: list[Dim] = []
    for shape in shapes:
        if shape is None:
            return None
        out = [1] * (len(shape) - len(out)) + out
        for i, d in enumerate(reversed(shape), 1):
            out[-i] = broadcast_dim(out[-i], d)
    return tuple(out)


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The extent of two that are broadcast; None if it depends on which of them is 1."""
    if b in {a, 1}:
        return a
    if a == 1 or (isinstance(b, int) and not isinstance(a, int)):
        return b
    return a if isinstance(a, int) else None


def matmul_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of MatMul(a, b), as numpy.matmul defines it."""
    if a is None or b is None or not a or not b:
        return None
    batch = broadcast([a[:-2], b[:-2]])
    return None if batch is None else (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))
