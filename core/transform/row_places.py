"""The position of the batch in tensors that hold one result for each row, and moves between positions.

A row is what a model computes for a batch of one. A tensor for n rows has the rows' extents, and its batch is either an
axis of its own or merged into one: an extent of 12 becomes 12 * n, with the batch outside the 12, inside, or between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.expressions import SymInt, multiply, prod
from ..ir.graph import Graph
from ..ir.values import Value
from ..rewriting.builder import RewriteBuilder

Extents = tuple[SymInt, ...]
NO_DIMS: Mapping[SymInt, tuple[Value, int]] = MappingProxyType({})


class Place(Struct, frozen=True):
    """The place of the batch: an axis of its `own` before an `axis` of a row, or inside that after `outer` indices."""

    axis: int
    outer: SymInt = 1
    own: bool = False

    def before(self, row: Extents) -> SymInt:
        """The number of elements of a row, in memory order, that precede the batch."""
        return multiply(prod(row[: self.axis]), self.outer)

    def extents(self, row: Extents, batch: SymInt) -> Extents:
        """The dims of a tensor for `batch` rows."""
        a = self.axis
        if self.own:
            return (*row[:a], batch, *row[a:])
        return (*row[:a], multiply(row[a], batch), *row[a + 1 :])

    def physical(self, axis: int) -> int:
        """The axis of the tensor that corresponds to an axis of a row."""
        return axis + (self.own and axis >= self.axis)

    def moved(self, by: int) -> Place:
        """The same place after adding (or, if negative, removing) axes before it."""
        return Place(self.axis + by, self.outer, self.own)


def merged_place(row: Extents, before: SymInt, preferred: int = 0) -> Place:
    """The place in an axis of a row that has `before` elements before the batch.

    An axis of extent 1 is preferred, among those the `preferred` one; then a place before an axis. Declines if there is
    none, such as for a scalar.
    """
    found = list[tuple[tuple[bool, bool, bool], Place]]()
    for axis, extent in enumerate(row):
        outer = sym.divide(before, prod(row[:axis]))
        if outer is None or (outer != 1 and sym.divide(extent, outer) is None):
            continue
        found.append(((extent != 1, outer != 1, axis != preferred), Place(axis, outer)))
    require(found, "no axis takes the batch")
    return min(found, key=lambda f: f[0])[1]


class RowLayout:
    """The values of a graph that differ between rows: the place of the batch in each, and the shape of a row.

    `batch` is the number of rows, or its symbol; `source` is an input with the batch, and the axis of the batch.
    """

    def __init__(self, graph: Graph, batch: SymInt, source: tuple[Value, int]) -> None:
        self.graph, self.batch = graph, batch
        self.places: dict[Value, tuple[Place, Extents]] = {}
        self._source = source
        self._made: dict[object, Value] = {}
        self._inputs = {
            d: (v, axis) for v in graph.inputs for axis, d in enumerate(v.recorded_type[1] or ()) if isinstance(d, str)
        }

    def put(self, value: Value, place: Place, row: Extents) -> Value:
        """Record that `value` has a result for each row."""
        self.places[value] = place, row
        return value

    def dims(self, value: Value) -> Extents:
        """The extents of a value with rows."""
        place, row = self.places[value]
        return place.extents(row, self.batch)

    def extent(self, g: RewriteBuilder, dim: SymInt) -> Value:
        """A tensor of one integer for an extent made of numbers, the batch and symbols of inputs. Declines others."""
        total: Value | None = None
        for atoms, factor in sym.terms_of(dim).items():
            term: Value | None = None
            for atom in atoms:
                found = self._atom(g, atom)
                term = found if term is None else g.Mul(term, found)
            number = g.const(_int64([factor]))
            term = number if term is None else term if factor == 1 else g.Mul(term, number)
            total = term if total is None else g.Add(total, term)
        return g.const(_int64([0])) if total is None else total

    def _atom(self, g: RewriteBuilder, atom: sym.Atom) -> Value:
        if isinstance(atom, sym.FunctionTerm):
            first, *others = (self.extent(g, x) for x in atom.args)
            for other in others:
                first = getattr(g, {"//": "Div", "min": "Min", "max": "Max"}[atom.function])(first, other)
            return first
        found = self._source if atom == self.batch else self._inputs.get(str(atom))
        if found is None:
            raise MatchFailure(f"the extent {atom} is not known when the model runs")
        value, axis = found
        return self.dim_of(g, value, axis)

    def dim_of(self, g: RewriteBuilder, value: Value, axis: int) -> Value:
        """A tensor of one integer: the extent of an axis of a tensor."""
        known = self._made.get((value, axis))
        if known is None or known.producer is None:
            known = self._made[value, axis] = g.Gather(g.Shape(value), [axis])
        return known

    def vector(
        self, g: RewriteBuilder, dims: Sequence[SymInt], known: Mapping[SymInt, tuple[Value, int]] = NO_DIMS
    ) -> Value:
        """A tensor of extents, some of which belong to axes that are `known`."""
        numbers = sym.as_integers(dims)
        if numbers is not None:
            return g.const(_int64(numbers))
        parts = list[Value]()
        fixed = list[int]()
        for d in dims:
            if isinstance(d, int):
                fixed.append(d)
                continue
            parts += [g.const(_int64(fixed))] * bool(fixed)
            fixed = []
            parts.append(self.dim_of(g, *known[d]) if d in known else self.extent(g, d))
        parts += [g.const(_int64(fixed))] * bool(fixed)
        return parts[0] if len(parts) == 1 else g.Concat(*parts, axis=0)

    def reshape(self, g: RewriteBuilder, value: Value, have: Extents, want: Extents) -> Value:
        """Reshape a value. One extent that is no number may be left open (-1); others are copied where they stay."""
        if have == want:
            return value
        require(0 not in want, "an extent is 0")
        target, unknown = list(want), [i for i, d in enumerate(want) if not isinstance(d, int)]
        for i in list(unknown):
            if len(unknown) > 1 and i < len(have) and have[i] == want[i]:
                target[i] = 0
                unknown.remove(i)
        if len(unknown) == 1:
            target[unknown[0]] = -1
            return g.Reshape(value, _int64(target))
        known: dict[SymInt, tuple[Value, int]] = {d: (value, i) for i, d in enumerate(have) if not isinstance(d, int)}
        return g.Reshape(value, g.const(_int64(target)) if not unknown else self.vector(g, want, known))

    def at(self, g: RewriteBuilder, value: Value, place: Place, row: Extents | None = None) -> Value:
        """The value with the batch at a place, its rows reshaped to `row`. One without rows is copied for each."""
        if value not in self.places:
            return self._copies(g, value, place, _extents(value) if row is None else row)
        now, shape = self.places[value]
        row = shape if row is None else row
        key = value, place, row
        if key not in self._made or self._made[key].producer is None:
            made = self._made[key] = self._moved(g, value, (now, shape), place, row)
            if made is not value:
                self.put(made, place, row)
        return self._made[key]

    def _moved(self, g: RewriteBuilder, value: Value, now: tuple[Place, Extents], place: Place, row: Extents) -> Value:
        have, want = now[0].extents(now[1], self.batch), place.extents(row, self.batch)
        p, q, size = now[0].before(now[1]), place.before(row), prod(row)
        if p != q:
            forth, back = sym.divide(q, p), sym.divide(p, q)
            require(forth is not None or back is not None, "its batch is inside another axis")
            rest = sym.divide(size, q if forth is not None else p)
            require(rest is not None, "its batch is inside another axis")
            parts = (p, self.batch, forth, rest) if forth is not None else (q, back, self.batch, rest)
            parts = tuple(d for d in parts if d is not None)
            value = g.Transpose(self.reshape(g, value, have, parts), perm=[0, 2, 1, 3])
            have = (parts[0], parts[2], parts[1], parts[3])
        return self.reshape(g, value, have, want)

    def _copies(self, g: RewriteBuilder, value: Value, place: Place, row: Extents) -> Value:
        a, ones = place.axis, [1] * len(row)
        value = self.reshape(g, value, _extents(value), row)
        if not place.own and (row[a] == 1 or place.outer == 1):
            repeats = self.vector(g, [*ones[:a], self.batch, *ones[a + 1 :]])
            return self.put(g.Expand(value, repeats) if row[a] == 1 else g.Tile(value, repeats), place, row)
        axis = a if place.own else 0
        many = g.Expand(g.Unsqueeze(value, [axis]), self.vector(g, [*ones[:axis], self.batch, *ones[axis:]]))
        return self.at(g, self.put(many, Place(axis, own=True), row), place)


def _extents(value: Value) -> Extents:
    """The shape of a value. Declines if a dim is unknown."""
    dims = tuple(d for d in value.shape if d is not None)
    if len(dims) != value.rank:
        raise MatchFailure(f"the shape of {value.name} is unknown")
    return dims


def _int64(numbers: Sequence[SymInt]) -> Any:
    return np.array(numbers, np.int64)
