"""Operators that compute element by element, with broadcasting."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ...core.rewriting.pattern import Var
from .generator import Site
from .model_builder import Shape, Unmade

CASTS = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL,
    TensorProto.UINT8, TensorProto.INT8,
)  # fmt: skip


def broadcast(site: Site) -> None:
    """The first operand that is made decides the shape; the others fit it, and seldom stretch it."""
    target = site.hint.shape
    for n, i in enumerate(site.order(turned=site.choices.below(2) == 1)):
        if n == 0:
            target = site.operand(i, target).shape
            continue
        settled = site.settled(i)
        made = site.operand(i, settled.shape if settled else fitting(site, target, i))
        target = joined(target, made.shape)


def fitting(site: Site, target: Shape, index: int) -> Shape:
    """A shape that broadcasts with `target`: mostly the same, one number for all, or its last dims."""
    want = site.slots[index]
    if site.grower.mood.plain and isinstance(want, Var) and want.constant:
        return ()
    form = 6 if site.grower.mood.square and site.choices.below(4) else site.choices.below(8)
    if form < 2:
        return target
    if form < 4:
        return ()
    if form == 4:
        return (1,) * min(1, len(target))
    if form == 5:
        return target[site.choices.below(len(target) + 1) :]
    if form == 6:
        kept = site.choices.below(max(len(target), 1))
        return tuple(d if i == kept else 1 for i, d in enumerate(target))
    return (site.grower.dim() or 1, *target)[-5:]


def joined(a: Shape, b: Shape) -> Shape:
    """What two shapes broadcast to."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(a, b))
    except ValueError as e:
        raise Unmade(str(e)) from e


def shift(site: Site) -> None:
    """BitShift."""
    site.attrs["direction"] = site.choices.pick(("LEFT", "RIGHT"))
    broadcast(site)


def remainder(site: Site) -> None:
    """Mod, which takes floats with fmod only."""
    site.parameter("fmod", lambda: 1)
    broadcast(site)


def cast(site: Site) -> None:
    """Cast and BitCast: what the pattern wants, or to the type that is wished for."""
    named = "to" in dict(site.pattern.attrs)
    site.types.clear()
    wished = site.hint.dtype

    def target() -> int:
        return wished if site.choices.below(2) == 0 else site.choices.pick(CASTS)

    if named or site.pattern.bind:
        site.parameter("to", target, needed=True)
    else:
        site.attrs["to"] = target()
    taken = site.spec.inputs[0].type_str
    site.types[taken] = site.choices.pick(CASTS) if site.choices.below(2) else site.grower.dtype
    site.main()


def clip(site: Site) -> None:
    """Clip: the bounds are scalars, the lower one first."""
    site.main()
    site.parameter("min", lambda: site.grower.words.number(site.choices))
    site.parameter("max", lambda: site.grower.words.number(site.choices))


def numbered(site: Site) -> None:
    """HardSigmoid and what else has attributes that are numbers."""
    site.main()
    for name in site.spec.attributes:
        site.parameter(name, lambda: site.grower.words.slope(site.choices))


def dropout(site: Site) -> None:
    """Dropout: at times in training form."""
    x = site.main()
    site.parameter("ratio", lambda: site.choices.pick((0.5, 0.25, 0.0)))
    site.parameter("training_mode", lambda: not site.choices.one_in(3))
    site.fill(x.shape)


def prelu(site: Site) -> None:
    """PRelu, whose slope broadcasts one way only."""
    x = site.main(1)
    form = site.choices.below(3)
    site.fill(x.shape if form == 0 else () if form == 1 else (1,) * len(x.shape[2:]))


def quantize(site: Site) -> None:
    """QuantizeLinear and DequantizeLinear: one scale for all, or one for each slice along an axis."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: site.choices.below(len(x.shape)), 1)
    shape = (x.along(axis),) if site.choices.one_in(3) else ()
    for i in (1, 2):
        if site.takes(i):
            site.operand(i, shape, positive=i == 1)
