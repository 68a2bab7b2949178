"""Generators for operators that move, index, split and join data, for sequences, and for sources of values."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ...core.operators.operands import INT32_MAX
from ...core.rewriting.pattern import Var
from .dictionary import MIN_LARGE_EXTENT
from .generator import OpGenerator, OpSite
from .model_builder import Array, GenerationError, Shape

MAX_REDUCTION_OPSET = 18  # of ScatterElements and ScatterND with the reductions max and min


def _transpose(site: OpSite) -> None:
    """Transpose, with an input that gives the hinted output shape if possible."""
    named: Any = dict(site.pattern.attrs).get("perm")
    rank = None if named is None or isinstance(named, Var) or callable(named) else len(named)
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
        made = site.operand(0, tuple(source))
        if len(made.shape) != len(order):
            raise GenerationError("the permutation is of another rank")


def _reshape(site: OpSite) -> None:
    """Reshape to a different grouping of the elements."""
    wished = site.hint.shape
    x = site.operand(0, regrouped_shape(site, wished)).shape
    fits = prod(wished) == prod(x) and site.choices.draw_below(3)
    target = wished if fits else regrouped_shape(site, x)
    site.parameter("shape", lambda: _target_with_wildcards(site, x, target), needed=True)
    site.parameter("allowzero", lambda: int(site.choices.one_in(3)))


def _target_with_wildcards(site: OpSite, x: Shape, target: Shape) -> list[int]:
    """The target with -1 for one dim, or 0 for dims copied from the input."""
    dims = list(target)
    form = site.choices.draw_below(4)
    if form == 1 and dims and prod(target):
        dims[site.choices.draw_below(len(dims))] = -1
    elif form > 1:
        same = [i for i, (a, b) in enumerate(zip(dims, x, strict=False)) if a == b]
        if same:
            dims[site.choices.pick(same)] = 0
        if form > 2 and dims and prod(target) and dims[-1] > 0:
            dims[-1] = -1
    return dims


def regrouped_shape(site: OpSite, shape: Shape) -> Shape:
    """Another shape with as many elements: two dims merged, one dim split, or a 1 inserted or removed."""
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
            dims = [prod(dims)] if site.choices.draw_below(2) else dims
    return tuple(dims)


def _flatten(site: OpSite) -> None:
    x = site.operand(0, regrouped_shape(site, site.hint.shape)).shape
    site.parameter("axis", lambda: site.signed_axes([site.choices.draw_below(len(x) + 1)], len(x), one_in=4)[0])


def _squeeze(site: OpSite) -> None:
    """Squeeze of the hinted shape with inserted 1s."""
    dims = list(site.hint.shape)
    for _ in range(1 + site.choices.draw_below(2)):
        dims.insert(site.choices.draw_below(len(dims) + 1), 1)
    x = site.operand(0, tuple(dims[:5])).shape
    ones = [i for i, d in enumerate(x) if d == 1]
    if not ones and "axes" not in dict(site.pattern.attrs) and site.input_pattern(1) is not None:
        raise GenerationError("there is nothing to squeeze")
    site.parameter("axes", lambda: site.signed_axes(site.choices.subset(ones) if ones else [], len(x), one_in=3))


def _unsqueeze(site: OpSite) -> None:
    """Unsqueeze: a dim of the hinted shape is removed, preferably a 1."""
    dims = list(site.hint.shape)
    ones = [i for i, d in enumerate(dims) if d == 1]
    if dims:
        del dims[site.choices.pick(ones) if ones else site.choices.draw_below(len(dims))]
    rank = len(site.operand(0, tuple(dims)).shape)
    count = 1 + site.choices.draw_below(2)

    def axes() -> list[int]:
        chosen = site.choices.subset(range(rank + count))[:count]
        total = rank + len(chosen)
        return site.signed_axes([a for a in chosen if a < total], total, one_in=3)

    site.parameter("axes", axes)
    if site.spec.since_version < 13 and "axes" not in site.attrs:
        site.attrs["axes"] = [0]


def _expand(site: OpSite) -> None:
    """Expand of dims of 1, or of a scalar."""
    wished = site.hint.shape
    kept = wished[site.choices.draw_below(len(wished) + 1) if site.choices.draw_below(2) else 0 :]
    x = site.operand(0, tuple(1 if site.choices.one_in(3) else d for d in kept)).shape
    ones = [d if d != 1 or site.choices.draw_below(2) else site.generator.draw_dim() for d in x]
    more = [site.generator.draw_dim() or 1] if site.choices.one_in(3) and len(x) < 5 else []
    fits = len(wished) >= len(x) and all(a in {1, b} for a, b in zip(x[::-1], wished[::-1], strict=False))
    form = site.choices.draw_below(4)
    target = [*wished] if fits and form < 2 else [*more, *ones] if form < 3 else [1] * len(x)
    site.parameter("shape", lambda: target, needed=True)


def _pad(site: OpSite) -> None:
    """Pad at some ends of some dims."""
    x = site.first_operand(1).shape
    mode = site.pick("mode", "constant", "edge", "reflect", "wrap", default="constant")
    axes = site.draw_axes(len(x)) if site.input_pattern(3) is not None else None
    form = site.choices.draw_below(5)
    some = site.choices.draw_below(2) + 1

    def pads() -> list[int]:
        count = len(x) if axes is None else len(axes)
        free = [0 if form == 0 or (form < 4 and i < 2 and axes is None) else some for i in range(count)]
        ends = [p if site.choices.draw_below(3) else 0 for p in (*free, *free)]
        return [-p for p in ends] if form == 3 and site.choices.one_in(4) else ends

    site.parameter("pads", pads, needed=True)
    if site.input_pattern(3) is not None:
        site.parameter("axes", lambda: axes)

    def number() -> float:
        is_zero = site.choices.draw_below(3) or mode != "constant"
        return 0.0 if is_zero else site.generator.dictionary.draw_number(site.choices)

    if site.input_pattern(2) is not None:
        site.operand(2, (), array=site.input_array(2, number()))
    elif "constant_value" in dict(site.pattern.attrs):
        site.parameter("constant_value", lambda: None if site.choices.one_in(4) else number())
    elif mode == "constant":
        site.pick("value", 0.0)


def _depth_and_space(site: OpSite) -> None:
    size = site.required_parameter("blocksize", lambda: 1 + site.choices.draw_below(2))
    batch, channels, *dims = site.hinted_shape(4, 4)
    deep = site.op_type == "DepthToSpace"
    shape = (batch, channels * size**2, *dims) if deep else (batch, channels, *(d * size for d in dims))
    site.operand(0, shape)
    site.pick("mode", "DCR", "CRD")


def _resize(site: OpSite) -> None:
    """Resize and Upsample, by a factor or to a size."""
    x = site.first_operand(3, 4).shape
    factors = [1.0] * 2 + [site.choices.pick((2.0, 1.0)) for _ in x[2:]]
    site.pick("mode", "nearest", "linear")
    site.pick("coordinate_transformation_mode", "half_pixel", "asymmetric", "align_corners")
    site.pick("nearest_mode", "round_prefer_floor", "floor", "ceil")
    if site.input_pattern(3) is not None and site.spec.since_version > 10:
        site.input_patterns[2] = None
        site.parameter("sizes", lambda: [int(d * f) for d, f in zip(x, factors, strict=True)])
    else:
        site.parameter("scales", lambda: factors, needed=True)
    if site.input_pattern(1) is not None and site.spec.since_version > 10:
        site.operand(1, (0,), array=np.zeros(0, np.float32))


def _concat(site: OpSite) -> None:
    """Concat of operands that differ in at most one dim."""
    first = site.operand_order()[0]
    wished = site.hinted_shape(1, 4)
    x = site.operand(first, wished)
    axis = site.required_parameter("axis", lambda: site.draw_axis(x))
    for i in site.operand_order():
        settled = site.existing_operand(i)
        dims = list(x.shape)
        if -len(dims) <= axis < len(dims) and site.choices.draw_below(2):
            dims[axis] = site.generator.draw_dim()
        site.operand(i, settled.shape if settled else tuple(dims))


def _split(site: OpSite) -> None:
    """Split into equal parts, or into parts of given sizes."""
    x = site.first_operand(1)
    dim = x.dim_at(site.axis(x, 0))
    count = site.choices.pick([n for n in (2, 1, 3) if n > site.pattern.output])
    even = [dim // count] * (count - 1) + [dim - dim // count * (count - 1)]
    cuts = sorted(site.choices.draw_below(dim + 1) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, dim]).tolist() if site.choices.draw_below(2) else even
    given = site.parameter("split", lambda: sizes)
    site.output_count = count if given is None else len(given)
    if given is None and "num_outputs" in site.spec.attributes:
        site.attrs["num_outputs"] = count


def _slice_tensor(site: OpSite) -> None:
    """Slice: forwards, backwards, with steps, beyond the ends."""
    wished = list(site.hinted_shape(1, 4))
    grown = site.choices.draw_below(len(wished))
    wished[grown] += site.choices.draw_below(3)
    x = site.first_operand(1) if site.existing_operand(0) else site.operand(0, tuple(wished))
    rank = len(x.shape)
    has_axes = site.input_pattern(3) is not None or (
        "axes" in site.spec.attributes and bool(site.choices.draw_below(2))
    )
    axes = site.choices.subset(range(rank)) if has_axes else [*range(1 + site.choices.draw_below(rank))]
    if has_axes:
        signed = site.signed_axes(axes, rank, one_in=3)
        axes = site.parameter("axes", lambda: signed, signed)
    steps = site.parameter("steps", lambda: [site.choices.pick((1, 2, -1, -2)) for _ in axes], [1] * len(axes))
    if not len(axes) == len(steps) or any(not -rank <= a < rank for a in axes):
        raise GenerationError("axes and steps do not fit")
    bounds = [_bounds(site, x.shape[a], s) for a, s in zip(axes, steps, strict=True)]
    site.parameter("starts", lambda: [b[0] for b in bounds], needed=True)
    site.parameter("ends", lambda: [b[1] for b in bounds], needed=True)


def _bounds(site: OpSite, dim: int, step: int) -> tuple[int, int]:
    own = [n for n in site.generator.dictionary.own_integers if 0 < n < dim]
    form = site.choices.draw_below(5)
    if form == 4 or (max(own, default=0) >= MIN_LARGE_EXTENT and site.choices.one_in(2)):
        end = max(own, default=site.generator.dictionary.draw_integer(site.choices))
        return (0, end) if step > 0 else (end, -dim - 1)
    if form == 0:
        return (0, dim) if step > 0 else (dim - 1, -dim - 1)
    if form == 1:
        return (0, INT32_MAX) if step > 0 else (-1, -INT32_MAX)
    start = site.choices.draw_below(dim + 1)
    end = start + site.choices.draw_below(dim - start + 1)
    if step < 0:
        start, end = end - 1, start - 1 if start else -dim - 1
    if form == 3 and dim:
        start = start - dim if 0 <= start < dim else start
    return start, end


def _gather(site: OpSite) -> None:
    """Gather, sometimes with negative indices."""
    x = site.first_operand(1)
    dim = x.dim_at(site.axis(x, 0))
    form = site.choices.draw_below(5)
    shape: Shape = (0,) if site.is_empty_list() else [(), (1,), (2,), (dim,), (2, 1)][form]
    if dim == 0 and 0 not in shape:
        raise GenerationError("there is nothing to gather")
    site.parameter("indices", lambda: _indices(site, dim, shape))


def _indices(site: OpSite, dim: int, shape: Shape) -> object:
    """Indices in order, random, repeated, or counted from the end."""
    count = prod(shape)
    if site.choices.one_in(site.generator.distribution.repeated_indices):
        return repeated_indices(site, dim, count).reshape(shape).tolist()
    if count == dim and (form := site.choices.draw_below(4)):
        order = site.choices.shuffled(range(dim)) if form == 1 and dim <= MAX_DRAWN_INDICES else np.arange(dim)
        return np.reshape(order, shape).tolist()
    start, step = site.choices.draw_below(max(dim, 1)), site.choices.pick((1, 0, 2))
    found = (start + step * np.arange(count)) % max(dim, 1)
    return (found - dim if site.choices.one_in(3) else found).reshape(shape).tolist()


MAX_DRAWN_INDICES = 6


def repeated_indices(site: OpSite, dim: int, count: int) -> Array:
    """Indices that are drawn independently, so that some may be equal."""
    drawn = [site.choices.draw_below(max(dim, 1)) for _ in range(min(count, MAX_DRAWN_INDICES))]
    found = np.resize(drawn, count) if drawn else np.zeros(count, np.int64)
    return found - dim if site.choices.one_in(4) else found


def _reduction(site: OpSite) -> None:
    """The reduction of a ScatterElements or ScatterND; max and min were added in opset 18."""
    late = ("max", "min") if site.spec.since_version >= MAX_REDUCTION_OPSET else ()
    site.pick("reduction", "none", "add", "mul", *late)


def _gather_elements(site: OpSite) -> None:
    """GatherElements and ScatterElements: an index for each element."""
    x = site.first_operand(1)
    axis = site.axis(x, 0)
    dim = x.dim_at(axis)
    order = np.arange(dim)
    if site.choices.one_in(3):
        order = order[::-1]
    elif site.choices.one_in(4):
        order = order - dim
    if site.choices.one_in(site.generator.distribution.repeated_indices):
        order = repeated_indices(site, dim, dim)
    by_axis = [-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))]
    table = np.broadcast_to(order.reshape(by_axis), x.shape)
    site.parameter("indices", table.tolist)
    site.add_operands((2,), x.shape)
    _reduction(site)


def _gather_nd(site: OpSite) -> None:
    """GatherND and ScatterND: rows in order, or single rows."""
    x = site.first_operand(1)
    depth = 1 + site.choices.draw_below(len(x.shape))
    batch = site.pick("batch_dims", default=0)
    grid = np.stack(np.meshgrid(*map(np.arange, x.shape[:depth]), indexing="ij"), -1)
    form = site.choices.draw_below(4)
    if form == 1:
        grid = grid[..., ::-1, :]
    elif form == 2:
        grid = grid[:1]
    elif form == 3:
        grid = grid.reshape(-1, depth)
    if batch and depth < 2:
        raise GenerationError("no dims are left beside the batch")
    if site.choices.one_in(site.generator.distribution.repeated_indices):
        rows = grid.reshape(-1, depth)
        grid = rows[repeated_indices(site, len(rows), len(rows))].reshape(grid.shape)
    if site.is_empty_list():
        grid = grid.reshape(-1, depth)[:0]
    site.parameter("indices", grid[..., batch:].tolist)
    site.add_operands((2,), (*grid.shape[:-1], *x.shape[depth:]))
    _reduction(site)


def _compress(site: OpSite) -> None:
    x = site.first_operand(1)
    axis = site.axis(x)
    count = prod(x.shape) if axis is None else x.dim_at(axis)
    site.parameter("condition", lambda: [not site.choices.one_in(4) for _ in range(count)])


def _shape_of(site: OpSite) -> None:
    """Shape, of all dims or of some."""
    x = site.operand(0, site.generator.draw_shape(1 + site.choices.draw_below(4)))
    site.parameter("start", lambda: site.choices.draw_below(len(x.shape) + 1))
    site.parameter("end", lambda: site.choices.draw_below(len(x.shape) + 1))


def _make_range(site: OpSite) -> None:
    """Range from 0 to some dim, in steps of 1."""
    wished = site.hint.shape[0] if site.hint.shape else 2
    site.parameter("start", lambda: int(site.choices.one_in(4)))
    site.pick("limit", wished)
    site.pick("delta", 1)


def _random_tensor(site: OpSite) -> None:
    site.attrs["shape"] = list(site.hint.shape)
    site.parameter("seed", lambda: float(site.choices.draw_below(3)))


def _sequence_access(site: OpSite) -> None:
    """SequenceAt and other operators with a sequence and a position."""
    site.operand(0, site.hint.shape)
    last = len(site.input_patterns) - 1
    inserts = site.op_type == "SequenceInsert"
    site.add_operands((1,) if inserts else (), site.hint.shape)
    if last > int(inserts) and not site.existing_operand(last):
        site.operand(last, (), array=np.asarray(site.choices.pick((0, -1, 1)), np.int64))


def _concat_from_sequence(site: OpSite) -> None:
    site.operand(0, site.hinted_shape(1, 3))
    site.attrs["axis"] = 0 if site.pattern.bound_name == "" or site.choices.draw_below(2) else -1
    site.pick("new_axis")


def _split_to_sequence(site: OpSite) -> None:
    x = site.first_operand(1)
    dim = x.dim_at(site.axis(x, 0))
    if site.input_pattern(1) is not None:
        site.parameter("split", lambda: [dim - 1, 1] if site.choices.draw_below(2) and dim else max(1, dim // 2))
    site.pick("keepdims")


def _center_crop_pad(site: OpSite) -> None:
    x = site.first_operand(1).shape
    axes = site.parameter("axes", lambda: site.draw_axes(len(x)), [*range(len(x))])
    site.parameter("shape", lambda: [x[a] if site.choices.draw_below(2) else site.generator.draw_dim() for a in axes])


OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType(
    {
        "Transpose": _transpose,
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
        "Expand": _expand,
        "Pad": _pad,
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _depth_and_space),
        **dict.fromkeys(("Resize", "Upsample"), _resize),
        "CenterCropPad": _center_crop_pad,
        "Concat": _concat,
        "Split": _split,
        "Slice": _slice_tensor,
        "Gather": _gather,
        **dict.fromkeys(("GatherElements", "ScatterElements", "Scatter"), _gather_elements),
        **dict.fromkeys(("GatherND", "ScatterND"), _gather_nd),
        "Compress": _compress,
        "Shape": _shape_of,
        "Range": _make_range,
        "ConstantOfShape": lambda site: site.pick("input", list(site.hint.shape)),
        **dict.fromkeys(("RandomNormal", "RandomUniform"), _random_tensor),
        **dict.fromkeys(("SequenceAt", "SequenceErase", "SequenceInsert"), _sequence_access),
        "SequenceConstruct": lambda site: site.add_operands(site.operand_order(), site.hint.shape),
        "ConcatFromSequence": _concat_from_sequence,
        "SplitToSequence": _split_to_sequence,
        "SequenceEmpty": lambda site: site.attrs.update(dtype=site.generator.dtype),
    }
)
