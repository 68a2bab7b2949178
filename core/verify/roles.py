"""What the values of an input are for: free numbers, indices, extents, or truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx

from ..ir.values import Dim, Op, Value

# Inputs of operators whose values are handed on as they are, by operator.
HANDS_ON: dict[str, tuple[int, ...] | None] = {
    "Identity": None, "Cast": None, "Unsqueeze": (0,), "Squeeze": (0,), "Reshape": (0,), "Transpose": None,
    "Flatten": None, "Slice": (0,), "Expand": (0,), "Gather": (0,), "Concat": None, "Split": (0,), "Tile": (0,),
    "Where": (1, 2), "Clip": (0,), "Dropout": (0,), "Add": None, "Sub": (0,), "Max": None, "Min": None,
}  # fmt: skip
INDEXES = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "Scatter": 1, "ScatterND": 1}
EXTENTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Tile": (1,), "TopK": (1,),
    "Slice": (1, 2, 3, 4), "Pad": (1,), "Split": (1,), "Loop": (0,), "OneHot": (1,), "Resize": (3,),
}  # fmt: skip
LOOKS_FAR_ENOUGH = 400  # ops followed from an input before giving up


@dataclass(frozen=True, slots=True)
class Role:
    """What an input's values are for: `bound` limits an index, `words` are the strings it is compared with."""

    kind: str = "free"  # free, index, extent or truth
    bound: Dim = None
    words: tuple[str, ...] = ()


def role(value: Value) -> Role:
    """The narrowest role among the consumers of `value` and of what hands it on."""
    words: list[str] = []
    found = Role()
    for op, index in _readers(value):
        if op.domain == "ai.onnx.ml":
            words += _vocabulary(op)
        elif INDEXES.get(op.type) == index:
            found = _narrower(found, Role("index", _bound(op)))
        elif op.type == "OneHot" and index == 0:
            found = _narrower(found, Role("index", _depth(op)))
        elif index in EXTENTS.get(op.type, ()):
            found = _narrower(found, Role("extent"))
        elif op.type == "If" or (op.type == "Cast" and op.attr("to") == onnx.TensorProto.BOOL):
            found = _narrower(found, Role("truth"))
    return Role(found.kind, found.bound, tuple(dict.fromkeys(words)))


def _readers(value: Value) -> Iterator[tuple[Op, int]]:
    """The ops that see the elements of `value`, directly or handed on, with the index of the input."""
    queue, seen = [value], {value}
    for v in queue:
        for op in v.uses:
            for index in (i for i, other in enumerate(op.inputs) if other is v):
                yield op, index
                carries = HANDS_ON.get(op.type, ())
                if op.type in HANDS_ON and (carries is None or index in carries) and len(seen) < LOOKS_FAR_ENOUGH:
                    fresh = [o for o in op.outputs if o not in seen]
                    seen.update(fresh)
                    queue += fresh


def _bound(op: Op) -> Dim:
    """The extent that an index input of `op` runs over."""
    data = op.input(0)
    shape = data.known_shape if data is not None else None
    if not shape:
        return None
    if op.type in {"GatherND", "ScatterND"}:
        known = [d for d in shape if isinstance(d, int)]
        return min(known) if len(known) == len(shape) else None
    axis = int(op.attr("axis", 0))
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _depth(one_hot: Op) -> Dim:
    """The number of classes of a OneHot, where it is constant."""
    depth = one_hot.input(1)
    if depth is None or not depth.is_const or depth.const.size != 1 or not np.isfinite(depth.const).all():
        return None
    return int(depth.const.item())


def _narrower(a: Role, b: Role) -> Role:
    if a.kind == "free" or (b.kind == "index" and a.kind != "index"):
        return b
    if a.kind == b.kind == "index":
        bounds = [x for x in (a.bound, b.bound) if isinstance(x, int)]
        return Role("index", min(bounds) if len(bounds) == 2 else a.bound if isinstance(b.bound, int) else b.bound)
    return a


def _vocabulary(op: Op) -> list[str]:
    """The strings that an ai.onnx.ml op compares its input with."""
    found: list[str] = []
    for name in ("keys_strings", "cats_strings", "classes_strings", "string_vocabulary"):
        found += [str(s) for s in op.attr(name) or ()]
    return found
