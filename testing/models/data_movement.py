"""Generators for data-movement operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.rewriting.pattern import Var
from .generator import OpSite
from .matrix_products import element_count
from .model_builder import GenerationError, Shape
from .reductions import draw_axes


def transpose(site: OpSite) -> None:
    """Transpose, with an input that gives the hinted output shape if possible."""
    named: Any = dict(site.pattern.attrs).get("perm")
    rank = None if named is None or isinstance(named, Var) else len(named)
    shape = site.hint.shape if rank is None else site.hinted_shape(rank, rank)
    settled = site.existing_operand(0)
    if settled is not None:
        shape = site.operand(0, settled.shape).shape
    order = site.parameter("perm", lambda: site.choices.shuffled(range(len(shape))), [*range(len(shape))][::-1])
    if len(order) != len(shape):
        raise GenerationError("the permutation is of another rank")
    if settled is None:
        source = [0] * len(order)
        for to, at in enumerate(order):
            source[at] = shape[to]
        site.operand(0, tuple(source))


def reshape(site: OpSite) -> None:
    """Reshape to another grouping of the elements."""
    wished = site.hint.shape
    x = site.operand(0, regrouped_shape(site, wished)).shape
    target = (
        wished if element_count(wished) == element_count(x) and site.choices.draw_below(3) else regrouped_shape(site, x)
    )
    site.parameter("shape", lambda: _target_with_wildcards(site, x, target), needed=True)
    site.parameter("allowzero", lambda: int(site.choices.one_in(3)))


def _target_with_wildcards(site: OpSite, x: Shape, target: Shape) -> list[int]:
    """The target with -1 for one dim, or 0 for dims copied from the input."""
    dims = list(target)
    form = site.choices.draw_below(4)
    if form == 1 and dims and element_count(target):
        dims[site.choices.draw_below(len(dims))] = -1
    elif form > 1:
        same = [i for i, (a, b) in enumerate(zip(dims, x, strict=False)) if a == b]
        if same:
            dims[site.choices.pick(same)] = 0
        if form > 2 and dims and element_count(target) and dims[-1] > 0:
            dims[-1] = -1
    return dims


def regrouped_shape(site: OpSite, shape: Shape) -> Shape:
    """Another shape with as many elements: two dims merged, one split, a 1 inserted or removed."""
    dims = list(shape)
    for _ in range(1 + site.choices.draw_below(2)):
        form = site.choices.draw_below(5)
        at = site.choices.draw_below(len(dims)) if dims else 0
        if form == 0 and at + 1 < len(dims):
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif form == 1 and len(dims) < 5:
            dims.insert(at, 1)
        elif form == 2 and 1 in dims:
            dims.remove(1)
        elif form == 3 and dims:
            first = site.choices.pick([f for f in (2, 3, 1) if dims[at] % f == 0])
            dims[at : at + 1] = [first, dims[at] // first]
        elif form == 4:
            dims = [int(np.prod(dims))] if site.choices.draw_below(2) else dims
    return tuple(dims)


def flatten(site: OpSite) -> None:
    """Flatten."""
    x = site.operand(0, regrouped_shape(site, site.hint.shape)).shape
    site.parameter("axis", lambda: site.choices.draw_below(len(x) + 1) - (len(x) if site.choices.one_in(4) else 0))


def squeeze(site: OpSite) -> None:
    """Squeeze of the hinted shape with 1s inserted."""
    dims = list(site.hint.shape)
    for _ in range(1 + site.choices.draw_below(2)):
        dims.insert(site.choices.draw_below(len(dims) + 1), 1)
    x = site.operand(0, tuple(dims[:5])).shape
    ones = [i for i, d in enumerate(x) if d == 1]
    if not ones and "axes" not in dict(site.pattern.attrs) and site.wants_input(1):
        raise GenerationError("there is nothing to squeeze")
    site.parameter("axes", lambda: _maybe_negative_axes(site, site.choices.subset(ones) if ones else [], len(x)))


def unsqueeze(site: OpSite) -> None:
    """Unsqueeze: a dim of the hinted shape is removed, a 1 if there is one."""
    dims = list(site.hint.shape)
    ones = [i for i, d in enumerate(dims) if d == 1]
    if dims:
        del dims[site.choices.pick(ones) if ones else site.choices.draw_below(len(dims))]
    rank = len(site.operand(0, tuple(dims)).shape)
    count = 1 + site.choices.draw_below(2)
    site.parameter(
        "axes", lambda: _maybe_negative_axes(site, site.choices.subset(range(rank + count))[:count], rank, count)
    )
    if site.spec.since_version < 13 and "axes" not in site.attrs:
        site.attrs["axes"] = [0]


def _maybe_negative_axes(site: OpSite, axes: list[int], rank: int, more: int | None = None) -> list[int]:
    """The axes, sometimes counted from the end, of `more` dims in the output if those are inserted."""
    total = rank if more is None else rank + len(axes)
    axes = [a for a in axes if a < total]
    return [a - total for a in axes] if site.choices.one_in(3) else axes


def expand(site: OpSite) -> None:
    """Expand of dims of 1, or of no dims."""
    wished = site.hint.shape
    kept = wished[site.choices.draw_below(len(wished) + 1) if site.choices.draw_below(2) else 0 :]
    x = site.operand(0, tuple(1 if site.choices.one_in(3) else d for d in kept)).shape
    ones = [d if d != 1 or site.choices.draw_below(2) else site.generator.draw_dim() for d in x]
    more = [site.generator.draw_dim() or 1] if site.choices.one_in(3) and len(x) < 5 else []
    fits = len(wished) >= len(x) and all(a in {1, b} for a, b in zip(x[::-1], wished[::-1], strict=False))
    form = site.choices.draw_below(4)
    target = [*wished] if fits and form < 2 else [*more, *ones] if form < 3 else [1] * len(x)
    site.parameter("shape", lambda: target, needed=True)


def tile(site: OpSite) -> None:
    """Tile."""
    x = site.first_operand(1).shape
    site.parameter("repeats", lambda: [1 + site.choices.draw_below(3) for _ in x])


def pad(site: OpSite) -> None:
    """Pad at some ends of some dims."""
    x = site.first_operand(1).shape
    mode = site.parameter("mode", lambda: site.choices.pick(("constant", "edge", "reflect", "wrap")), "constant")
    axes = draw_axes(site, len(x)) if site.wants_input(3) else None
    form = site.choices.draw_below(5)
    some = site.choices.draw_below(2) + 1

    def pads() -> list[int]:
        count = len(x) if axes is None else len(axes)
        free = [0 if form == 0 or (form < 4 and i < 2 and axes is None) else some for i in range(count)]
        ends = [p if site.choices.draw_below(3) else 0 for p in (*free, *free)]
        return [-p for p in ends] if form == 3 and site.choices.one_in(4) else ends

    site.parameter("pads", pads, needed=True)
    if site.wants_input(3):
        site.parameter("axes", lambda: axes)
    if site.wants_input(2):
        value = (
            0.0
            if site.choices.draw_below(3) or mode != "constant"
            else site.generator.dictionary.draw_number(site.choices)
        )
        site.operand(2, (), array=site.input_array(2, value))
    elif mode == "constant":
        site.parameter("value", lambda: 0.0)


def depth_and_space(site: OpSite) -> None:
    """DepthToSpace and SpaceToDepth."""
    size = site.parameter("blocksize", lambda: 1 + site.choices.draw_below(2), needed=True)
    if size is None:
        size = site.attrs["blocksize"] = 1 + site.choices.draw_below(2)
    batch, channels, *dims = site.hinted_shape(4, 4)
    deep = site.op_type == "DepthToSpace"
    shape = (batch, channels * size**2, *dims) if deep else (batch, channels, *(d * size for d in dims))
    site.operand(0, shape)
    site.parameter("mode", lambda: site.choices.pick(("DCR", "CRD")))


def trilu(site: OpSite) -> None:
    """Trilu."""
    site.first_operand(2)
    site.parameter("k", lambda: site.choices.pick((0, 1, -1, 5, -5)))
    site.parameter("upper", lambda: site.choices.draw_below(2))


def resize(site: OpSite) -> None:
    """Resize and Upsample, by a factor or to a size."""
    x = site.first_operand(3, 4).shape
    factors = [1.0] * 2 + [site.choices.pick((2.0, 1.0)) for _ in x[2:]]
    site.parameter("mode", lambda: site.choices.pick(("nearest", "linear")))
    site.parameter(
        "coordinate_transformation_mode", lambda: site.choices.pick(("half_pixel", "asymmetric", "align_corners"))
    )
    site.parameter("nearest_mode", lambda: site.choices.pick(("round_prefer_floor", "floor", "ceil")))
    if site.wants_input(3) and site.spec.since_version > 10:
        site.input_patterns[2] = None
        site.parameter("sizes", lambda: [int(d * f) for d, f in zip(x, factors, strict=True)])
    else:
        site.parameter("scales", lambda: factors, needed=True)
    if site.wants_input(1) and site.spec.since_version > 10:
        site.operand(1, (0,), array=np.zeros(0, np.float32))


def center_crop_pad(site: OpSite) -> None:
    """CenterCropPad."""
    x = site.first_operand(1).shape
    axes = site.parameter("axes", lambda: draw_axes(site, len(x)), [*range(len(x))])
    site.parameter("shape", lambda: [x[a] if site.choices.draw_below(2) else site.generator.draw_dim() for a in axes])
