"""Generators for operators that split, index and join tensors, for sequences, and for sources of values."""

from __future__ import annotations

import numpy as np

from ...core.inference.input_queries import INT32_MAX
from .generator import OpSite
from .model_builder import GenerationError, Shape
from .reductions import draw_axis


def concat(site: OpSite) -> None:
    """Concat of operands that differ in one dim at most."""
    first = site.operand_order()[0]
    wished = site.hinted_shape(1, 4)
    x = site.operand(first, wished)
    axis = site.parameter("axis", lambda: draw_axis(site, x), needed=True)
    if axis is None:
        axis = site.attrs["axis"] = draw_axis(site, x)
    for i in site.operand_order():
        settled = site.existing_operand(i)
        dims = list(x.shape)
        if -len(dims) <= axis < len(dims) and site.choices.draw_below(2):
            dims[axis] = site.generator.draw_dim()
        site.operand(i, settled.shape if settled else tuple(dims))


def split(site: OpSite) -> None:
    """Split into equal parts, or into given ones."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: draw_axis(site, x), 0)
    dim = x.dim_at(axis)
    count = site.choices.pick([n for n in (2, 1, 3) if n > site.pattern.output])
    even = [dim // count] * (count - 1) + [dim - dim // count * (count - 1)]
    cuts = sorted(site.choices.draw_below(dim + 1) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, dim]).tolist() if site.choices.draw_below(2) else even
    given = site.parameter("split", lambda: sizes)
    site.output_count = count if given is None else len(given)
    if given is None and "num_outputs" in site.spec.attributes:
        site.attrs["num_outputs"] = count


def slice_tensor(site: OpSite) -> None:
    """Slice, forwards, backwards, with steps, beyond the ends."""
    wished = list(site.hinted_shape(1, 4))
    grown = site.choices.draw_below(len(wished))
    wished[grown] += site.choices.draw_below(3)
    x = site.first_operand(1) if site.existing_operand(0) else site.operand(0, tuple(wished))
    rank = len(x.shape)
    has_axes = site.wants_input(3) or ("axes" in site.spec.attributes and bool(site.choices.draw_below(2)))
    axes = site.choices.subset(range(rank)) if has_axes else [*range(1 + site.choices.draw_below(rank))]
    if has_axes:
        signed = [a - rank for a in axes] if site.choices.one_in(3) else axes
        axes = site.parameter("axes", lambda: signed, signed)
    steps = site.parameter("steps", lambda: [site.choices.pick((1, 2, -1, -2)) for _ in axes], [1] * len(axes))
    if not len(axes) == len(steps) or any(not -rank <= a < rank for a in axes):
        raise GenerationError("axes and steps do not fit")
    bounds = [_bounds(site, x.shape[a], s) for a, s in zip(axes, steps, strict=True)]
    site.parameter("starts", lambda: [b[0] for b in bounds], needed=True)
    site.parameter("ends", lambda: [b[1] for b in bounds], needed=True)


def _bounds(site: OpSite, dim: int, step: int) -> tuple[int, int]:
    form = site.choices.draw_below(4)
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


def gather(site: OpSite) -> None:
    """Gather, sometimes with negative indices."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: draw_axis(site, x), 0)
    dim = x.dim_at(axis)
    form = site.choices.draw_below(5)
    shape: Shape = [(), (1,), (2,), (dim,), (2, 1)][form]
    if dim == 0 and 0 not in shape:
        raise GenerationError("there is nothing to gather")
    site.parameter("indices", lambda: _indices(site, dim, shape))


def _indices(site: OpSite, dim: int, shape: Shape) -> object:
    """Indices in order, random, or counted from the end."""
    count = int(np.prod(shape, dtype=np.int64))
    if count == dim and site.choices.draw_below(3):
        return np.arange(dim).reshape(shape).tolist()
    start, step = site.choices.draw_below(max(dim, 1)), site.choices.pick((1, 0, 2))
    found = (start + step * np.arange(count)) % max(dim, 1)
    return (found - dim if site.choices.one_in(3) else found).reshape(shape).tolist()


def gather_elements(site: OpSite) -> None:
    """GatherElements and ScatterElements: an index for each element."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: draw_axis(site, x), 0)
    dim = x.dim_at(axis)
    order = np.arange(dim)
    if site.choices.one_in(3):
        order = order[::-1]
    elif site.choices.one_in(4):
        order = order - dim
    by_axis = [-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))]
    table = np.broadcast_to(order.reshape(by_axis), x.shape)
    site.parameter("indices", table.tolist)
    if site.wants_input(2):
        site.operand(2, x.shape)


def gather_nd(site: OpSite) -> None:
    """GatherND and ScatterND: rows in order, or single ones."""
    x = site.first_operand(1)
    depth = 1 + site.choices.draw_below(len(x.shape))
    batch = site.parameter("batch_dims", lambda: site.choices.draw_below(2), 0)
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
    site.parameter("indices", grid[..., batch:].tolist)
    if site.wants_input(2):
        site.operand(2, (*grid.shape[:-1], *x.shape[depth:]))
    site.parameter("reduction", lambda: site.choices.pick(("none", "add")))


def compress(site: OpSite) -> None:
    """Compress."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: draw_axis(site, x))
    count = int(np.prod(x.shape)) if axis is None else x.dim_at(axis)
    site.parameter("condition", lambda: [not site.choices.one_in(4) for _ in range(count)])


def one_hot(site: OpSite) -> None:
    """OneHot."""
    site.first_operand(0, 3)
    site.parameter("depth", lambda: 3)
    site.parameter("values", lambda: [0, 1])
    site.parameter("axis", lambda: -1)


def shape_of(site: OpSite) -> None:
    """Shape, of all dims or of some."""
    x = site.operand(0, site.generator.draw_shape(1 + site.choices.draw_below(4)))
    site.parameter("start", lambda: site.choices.draw_below(len(x.shape) + 1))
    site.parameter("end", lambda: site.choices.draw_below(len(x.shape) + 1))


def make_range(site: OpSite) -> None:
    """Range from 0 to some dim, in steps of 1."""
    wished = site.hint.shape[0] if site.hint.shape else 2
    site.parameter("start", lambda: int(site.choices.one_in(4)))
    site.parameter("limit", lambda: wished)
    site.parameter("delta", lambda: 1)


def constant_of_shape(site: OpSite) -> None:
    """ConstantOfShape."""
    site.parameter("input", lambda: list(site.hint.shape))


def random_tensor(site: OpSite) -> None:
    """RandomNormal and RandomUniform."""
    site.attrs["shape"] = list(site.hint.shape)
    site.parameter("seed", lambda: float(site.choices.draw_below(3)))


def sequence_access(site: OpSite) -> None:
    """SequenceAt and other operators with a sequence and a position."""
    site.operand(0, site.hint.shape)
    last = site.input_count - 1
    if site.op_type == "SequenceInsert" and site.wants_input(1):
        site.operand(1, site.hint.shape)
    if last and not (site.op_type == "SequenceInsert" and last == 1) and not site.existing_operand(last):
        site.operand(last, (), array=np.asarray(site.choices.pick((0, -1, 1)), np.int64))


def sequence_construct(site: OpSite) -> None:
    """SequenceConstruct of tensors of one type; their shapes may differ."""
    for i in site.operand_order():
        site.operand(i, site.hint.shape)


def concat_from_sequence(site: OpSite) -> None:
    """ConcatFromSequence."""
    site.operand(0, site.hinted_shape(1, 3))
    site.attrs["axis"] = 0 if site.pattern.bound_name == "" or site.choices.draw_below(2) else -1
    site.parameter("new_axis", lambda: site.choices.draw_below(2))


def split_to_sequence(site: OpSite) -> None:
    """SplitToSequence."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: draw_axis(site, x), 0)
    dim = x.dim_at(axis)
    if site.wants_input(1):
        site.parameter("split", lambda: [dim - 1, 1] if site.choices.draw_below(2) and dim else max(1, dim // 2))
    site.parameter("keepdims", lambda: site.choices.draw_below(2))


def sequence_empty(site: OpSite) -> None:
    """SequenceEmpty of the type at hand."""
    site.attrs["dtype"] = site.generator.dtype


def optional(site: OpSite) -> None:
    """Optional: of a value, or of a type alone."""
    if site.wants_input(0):
        site.operand(0, site.hint.shape)
