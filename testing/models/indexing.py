"""Operators that cut tensors up, pick from them, and put them together."""

from __future__ import annotations

import numpy as np

from .generator import Site
from .model_builder import Shape, Unmade
from .reductions import axis_of

FAR = 2**31 - 1


def concat(site: Site) -> None:
    """Concat: pieces that differ along one axis at most."""
    first = site.order()[0]
    wished = site.ranked(1, 4)
    x = site.operand(first, wished)
    axis = site.parameter("axis", lambda: axis_of(site, x), needed=True)
    if axis is None:
        axis = site.attrs["axis"] = axis_of(site, x)
    for i in site.order():
        settled = site.settled(i)
        dims = list(x.shape)
        if -len(dims) <= axis < len(dims) and site.choices.below(2):
            dims[axis] = site.grower.dim()
        site.operand(i, settled.shape if settled else tuple(dims))


def split(site: Site) -> None:
    """Split into equal parts, or into given ones."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: axis_of(site, x), 0)
    dim = x.along(axis)
    count = site.choices.pick([n for n in (2, 1, 3) if n > site.pattern.output])
    even = [dim // count] * (count - 1) + [dim - dim // count * (count - 1)]
    cuts = sorted(site.choices.below(dim + 1) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, dim]).tolist() if site.choices.below(2) else even
    given = site.parameter("split", lambda: sizes)
    site.outputs = count if given is None else len(given)
    if given is None and "num_outputs" in site.spec.attributes:
        site.attrs["num_outputs"] = count


def slices(site: Site) -> None:
    """Slice: forwards, backwards, in steps, beyond the ends."""
    wished = list(site.ranked(1, 4))
    grown = site.choices.below(len(wished))
    wished[grown] += site.choices.below(3)
    x = site.main(1) if site.settled(0) else site.operand(0, tuple(wished))
    rank = len(x.shape)
    has_axes = site.takes(3) or ("axes" in site.spec.attributes and bool(site.choices.below(2)))
    axes = site.choices.some(range(rank)) if has_axes else [*range(1 + site.choices.below(rank))]
    if has_axes:
        signed = [a - rank for a in axes] if site.choices.one_in(3) else axes
        axes = site.parameter("axes", lambda: signed, signed)
    steps = site.parameter("steps", lambda: [site.choices.pick((1, 2, -1, -2)) for _ in axes], [1] * len(axes))
    if not len(axes) == len(steps) or any(not -rank <= a < rank for a in axes):
        raise Unmade("axes and steps do not fit")
    bounds = [_bounds(site, x.shape[a], s) for a, s in zip(axes, steps, strict=True)]
    site.parameter("starts", lambda: [b[0] for b in bounds], needed=True)
    site.parameter("ends", lambda: [b[1] for b in bounds], needed=True)


def _bounds(site: Site, dim: int, step: int) -> tuple[int, int]:
    form = site.choices.below(4)
    if form == 0:
        return (0, dim) if step > 0 else (dim - 1, -dim - 1)
    if form == 1:
        return (0, FAR) if step > 0 else (-1, -FAR)
    start = site.choices.below(dim + 1)
    end = start + site.choices.below(dim - start + 1)
    if step < 0:
        start, end = end - 1, start - 1 if start else -dim - 1
    if form == 3 and dim:
        start = start - dim if 0 <= start < dim else start
    return start, end


def gather(site: Site) -> None:
    """Gather, from the end at times."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: axis_of(site, x), 0)
    dim = x.along(axis)
    form = site.choices.below(5)
    shape: Shape = [(), (1,), (2,), (dim,), (2, 1)][form]
    if dim == 0 and 0 not in shape:
        raise Unmade("there is nothing to gather")
    site.parameter("indices", lambda: _indices(site, dim, shape))


def _indices(site: Site, dim: int, shape: Shape) -> object:
    """Indices in order, or any, or counted from the end."""
    count = int(np.prod(shape, dtype=np.int64))
    if count == dim and site.choices.below(3):
        return np.arange(dim).reshape(shape).tolist()
    start, step = site.choices.below(max(dim, 1)), site.choices.pick((1, 0, 2))
    found = (start + step * np.arange(count)) % max(dim, 1)
    return (found - dim if site.choices.one_in(3) else found).reshape(shape).tolist()


def elements(site: Site) -> None:
    """GatherElements and ScatterElements: an index for each element."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: axis_of(site, x), 0)
    dim = x.along(axis)
    order = np.arange(dim)
    if site.choices.one_in(3):
        order = order[::-1]
    elif site.choices.one_in(4):
        order = order - dim
    by_axis = [-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))]
    table = np.broadcast_to(order.reshape(by_axis), x.shape)
    site.parameter("indices", table.tolist)
    if site.takes(2):
        site.operand(2, x.shape)


def gather_nd(site: Site) -> None:
    """GatherND and ScatterND: rows in order, or single ones."""
    x = site.main(1)
    depth = 1 + site.choices.below(len(x.shape))
    batch = site.parameter("batch_dims", lambda: site.choices.below(2), 0)
    grid = np.stack(np.meshgrid(*map(np.arange, x.shape[:depth]), indexing="ij"), -1)
    form = site.choices.below(4)
    if form == 1:
        grid = grid[..., ::-1, :]
    elif form == 2:
        grid = grid[:1]
    elif form == 3:
        grid = grid.reshape(-1, depth)
    if batch and depth < 2:
        raise Unmade("no dims are left beside the batch")
    site.parameter("indices", grid[..., batch:].tolist)
    if site.takes(2):
        site.operand(2, (*grid.shape[:-1], *x.shape[depth:]))
    site.parameter("reduction", lambda: site.choices.pick(("none", "add")))


def compress(site: Site) -> None:
    """Compress."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: axis_of(site, x))
    count = int(np.prod(x.shape)) if axis is None else x.along(axis)
    site.parameter("condition", lambda: [not site.choices.one_in(4) for _ in range(count)])


def one_hot(site: Site) -> None:
    """OneHot."""
    site.main(0, 3)
    site.parameter("depth", lambda: 3)
    site.parameter("values", lambda: [0, 1])
    site.parameter("axis", lambda: -1)


def shape_of(site: Site) -> None:
    """Shape, of all dims or of some."""
    x = site.operand(0, site.grower.shape_of_rank(1 + site.choices.below(4)))
    site.parameter("start", lambda: site.choices.below(len(x.shape) + 1))
    site.parameter("end", lambda: site.choices.below(len(x.shape) + 1))


def extent(site: Site) -> None:
    """Range from 0 to some dim, in steps of 1."""
    wished = site.hint.shape[0] if site.hint.shape else 2
    site.parameter("start", lambda: int(site.choices.one_in(4)))
    site.parameter("limit", lambda: wished)
    site.parameter("delta", lambda: 1)


def constant_of_shape(site: Site) -> None:
    """ConstantOfShape."""
    site.parameter("input", lambda: list(site.hint.shape))


def drawn(site: Site) -> None:
    """RandomNormal and RandomUniform."""
    site.attrs["shape"] = list(site.hint.shape)
    site.parameter("seed", lambda: float(site.choices.below(3)))


def sequence_at(site: Site) -> None:
    """SequenceAt, and what else takes a sequence and a place in it."""
    site.operand(0, site.hint.shape)
    last = site.count - 1
    if site.type == "SequenceInsert" and site.takes(1):
        site.operand(1, site.hint.shape)
    if last and not (site.type == "SequenceInsert" and last == 1) and not site.settled(last):
        site.operand(last, (), array=np.asarray(site.choices.pick((0, -1, 1)), np.int64))


def sequence_of(site: Site) -> None:
    """SequenceConstruct of tensors of one type; their shapes may differ."""
    for i in site.order():
        site.operand(i, site.hint.shape)


def concat_from_sequence(site: Site) -> None:
    """ConcatFromSequence."""
    site.operand(0, site.ranked(1, 3))
    site.attrs["axis"] = 0 if site.pattern.bind == "" or site.choices.below(2) else -1
    site.parameter("new_axis", lambda: site.choices.below(2))


def split_to_sequence(site: Site) -> None:
    """SplitToSequence."""
    x = site.main(1)
    axis = site.parameter("axis", lambda: axis_of(site, x), 0)
    dim = x.along(axis)
    if site.takes(1):
        site.parameter("split", lambda: [dim - 1, 1] if site.choices.below(2) and dim else max(1, dim // 2))
    site.parameter("keepdims", lambda: site.choices.below(2))


def empty_sequence(site: Site) -> None:
    """SequenceEmpty of the type at hand."""
    site.attrs["dtype"] = site.grower.dtype


def optional(site: Site) -> None:
    """Optional: of a value, or of a type alone."""
    if site.takes(0):
        site.operand(0, site.hint.shape)
