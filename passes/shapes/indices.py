"""Indices that are counted out of ranges, as exporters write masks: what they take is what stands there."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule, same_extent
from ...core.ir.dims import Dim

Args = tuple[Value | None, ...]


@rule(
    lambda g, x, rest, columns, rows, place, n, flat, gather: (
        g.Gather(
            g.one_of("Flatten", "Reshape")(x, *rest) @ flat,
            g.Add(g.Range(*columns), g.Mul(g.Unsqueeze(g.Range(*rows), axes=place), n)),
        ) @ gather
    ),
    shared=True,
    contract=EXACT,
)  # fmt: skip
def read_rows_in_order(
    g: Build, x: Value, rest: Args, columns: Args, rows: Args, place: list[int], n: Value, flat: Op, gather: Op
) -> Value:
    """Gather(Flatten(x), range(n) + range(m)[:, None] * n) => Unsqueeze(x), of x with m rows of n columns"""
    require(x.rank == 2 and gather.attr("axis", 0) == 0, "it is no matrix whose elements are taken one by one")
    column = flat.outputs[0].shape
    require(len(column) == 1 or (len(column) == 2 and column[1] == 1), "it is not laid out as one column")
    m, width = x.shape
    require(same_extent(_count(columns), width) and same_extent(_count(rows), m), "it does not count them all")
    require(same_extent(_number(n), width), "rows are counted in other steps")
    rank = 1 + len(place)
    ones = sorted(a % rank for a in place)
    require(len(set(ones)) == len(ones) and rank - 1 in ones, "the rows are not counted across the columns")
    free = [a for a in ones if a != rank - 1]
    return g.Unsqueeze(x, axes=free + ([rank] if len(column) == 2 else []))


def _count(ends: Args) -> Dim:
    """How far a Range counts from 0 in steps of 1."""
    first, last, step = (_number(v) for v in ends)
    require((first, step) == (0, 1), "it does not count from 0 by 1")
    return last


def _number(v: Value | None) -> Dim:
    """The one element of a value; None where it is not followed."""
    found = v.known_elements if v is not None else None
    return found[0] if found is not None and len(found) == 1 else None


READ_IN_ORDER = RulePass("read-in-order", (read_rows_in_order,))
