"""Target shapes of Reshape, Flatten, Squeeze and Unsqueeze."""

from __future__ import annotations

from ...core import Op, Value, require, same_extent
from ...core.ir.dims import Dim, Shape
from ..support.operand_queries import constant_integers, known_integers, normalized_axes, operand

RESHAPE_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
SQUEEZE_OPS = frozenset({"Squeeze", "Unsqueeze"})
INFERRED = -1  # what is left of the elements, as in the shape of a Reshape


def reshape_target(x: Value, made: Shape, *replaced: Op) -> list[int]:
    """The constant with which one Reshape makes the shape `made` of `x`; declines where it cannot be written."""
    own = x.known_shape or ()
    target = [_target_dim(d, own[i] if i < len(own) else None) for i, d in enumerate(made)]
    require(target.count(INFERRED) <= 1, "more than one extent is unknown")
    refused = {d for op in replaced for d in _copied_beside_inferred(op)}
    copied = [d for d, n in zip(made, target, strict=True) if n == 0]
    # A REST beside an extent of 0 fails in onnxruntime.
    require(INFERRED not in target or refused.issuperset(copied), "an extent next to the unknown one may be 0")
    return target


def _target_dim(wanted: Dim, own: Dim) -> int:
    if isinstance(wanted, int) and wanted > 0:
        return wanted
    return 0 if same_extent(wanted, own) else INFERRED


def _copied_beside_inferred(op: Op) -> list[Dim]:
    """The extents that a Reshape copies while another one is open, so that it fails where they are 0."""
    target = known_integers(op, "shape") if op.type == "Reshape" and not op.attr("allowzero", 0) else None
    if target is None or INFERRED not in target:
        return []
    return [d for d, n in zip(operand(op).known_shape or (), target, strict=False) if n == 0]


def squeezed_axes(op: Op, x: Value) -> list[int]:
    """The axes of `x` that a Squeeze takes away."""
    axes = constant_integers(op)
    if axes:  # onnxruntime takes an empty list as none given
        return normalized_axes(axes, x.rank)
    return [i for i, n in enumerate(x.static_shape) if n == 1]


def map_axes(op: Op, axes: list[int | None]) -> list[int | None]:
    """The axes after a Squeeze or Unsqueeze, in terms of those before; None for a new one."""
    if op.type == "Squeeze":
        gone = squeezed_axes(op, operand(op))
        return [a for i, a in enumerate(axes) if i not in gone]
    added = constant_integers(op)
    require(added is not None, "the axes are empty")
    rank = len(axes) + len(added or ())
    new, old = set(normalized_axes(added or [], rank)), iter(axes)
    return [None if i in new else next(old) for i in range(rank)]
