"""Generators for elementwise operators with broadcasting."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ...core.rewriting.pattern import Var
from .generator import OpSite
from .model_builder import GenerationError, Shape

CASTS = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL,
    TensorProto.UINT8, TensorProto.INT8,
)  # fmt: skip


def broadcast(site: OpSite) -> None:
    """Operands that broadcast: the first one determines the shape, others seldom extend it."""
    target = site.hint.shape
    for n, i in enumerate(site.operand_order(reverse=site.choices.draw_below(2) == 1)):
        if n == 0:
            target = site.operand(i, target).shape
            continue
        settled = site.existing_operand(i)
        made = site.operand(i, settled.shape if settled else broadcastable_shape(site, target, i))
        target = broadcast_shape(target, made.shape)


def broadcastable_shape(site: OpSite, target: Shape, index: int) -> Shape:
    """A shape that broadcasts with `target`: mostly the same, a scalar, or its last dims."""
    want = site.input_patterns[index]
    if site.generator.distribution.uniform_constants and isinstance(want, Var) and want.constant:
        return ()
    form = 6 if site.generator.distribution.equal_dims and site.choices.draw_below(4) else site.choices.draw_below(8)
    if form < 2:
        return target
    if form < 4:
        return ()
    if form == 4:
        return (1,) * min(1, len(target))
    if form == 5:
        return target[site.choices.draw_below(len(target) + 1) :]
    if form == 6:
        kept = site.choices.draw_below(max(len(target), 1))
        return tuple(d if i == kept else 1 for i, d in enumerate(target))
    return (site.generator.draw_dim() or 1, *target)[-5:]


def broadcast_shape(a: Shape, b: Shape) -> Shape:
    """The shape of broadcasting two shapes."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(a, b))
    except ValueError as e:
        raise GenerationError(str(e)) from e


def bit_shift(site: OpSite) -> None:
    """BitShift."""
    site.attrs["direction"] = site.choices.pick(("LEFT", "RIGHT"))
    broadcast(site)


def mod(site: OpSite) -> None:
    """Mod, which accepts floats with fmod only."""
    site.parameter("fmod", lambda: 1)
    broadcast(site)


def cast(site: OpSite) -> None:
    """Cast and BitCast, to the type of the pattern or the hint."""
    named = "to" in dict(site.pattern.attrs)
    site.bound_types.clear()
    wished = site.hint.dtype

    def target() -> int:
        return wished if site.choices.draw_below(2) == 0 else site.choices.pick(CASTS)

    if named or site.pattern.bound_name:
        site.parameter("to", target, needed=True)
    else:
        site.attrs["to"] = target()
    taken = site.spec.inputs[0].type_str
    site.bound_types[taken] = site.choices.pick(CASTS) if site.choices.draw_below(2) else site.generator.dtype
    site.first_operand()


def clip(site: OpSite) -> None:
    """Clip, with scalar bounds, the lower one first."""
    site.first_operand()
    site.parameter("min", lambda: site.generator.dictionary.draw_number(site.choices))
    site.parameter("max", lambda: site.generator.dictionary.draw_number(site.choices))


def number_attributes(site: OpSite) -> None:
    """HardSigmoid and other operators with numeric attributes."""
    site.first_operand()
    for name in site.spec.attributes:
        site.parameter(name, lambda: site.generator.dictionary.draw_finite_number(site.choices))


def dropout(site: OpSite) -> None:
    """Dropout, sometimes in training form."""
    x = site.first_operand()
    site.parameter("ratio", lambda: site.choices.pick((0.5, 0.25, 0.0)))
    site.parameter("training_mode", lambda: not site.choices.one_in(3))
    site.add_remaining_operands(x.shape)


def prelu(site: OpSite) -> None:
    """PRelu, whose slope broadcasts unidirectionally."""
    x = site.first_operand(1)
    form = site.choices.draw_below(3)
    site.add_remaining_operands(x.shape if form == 0 else () if form == 1 else (1,) * len(x.shape[2:]))


def quantize(site: OpSite) -> None:
    """QuantizeLinear and DequantizeLinear, with one scale or one along an axis."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: site.choices.draw_below(len(x.shape)), 1)
    shape = (x.dim_at(axis),) if site.choices.one_in(3) else ()
    for i in (1, 2):
        if site.wants_input(i):
            site.operand(i, shape, positive=i == 1)
