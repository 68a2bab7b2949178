"""Minimum cuts, and axes merged by a Reshape."""

from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import MatchFailure
from passwright.passes.movement.layout_propagation.layout_rules import (
    compose,
    group_axes,
    grouped_layouts,
    inverse,
    is_identity,
    without_axes,
)
from passwright.passes.movement.layout_propagation.move_transposes import INFINITE, FlowNetwork
from rewriting import each

INNER = 5
Joint = tuple[int, int, int, int]
joints = st.tuples(
    st.integers(0, INNER + 1),
    st.integers(0, INNER + 1),
    st.sampled_from([0, 1, 2, 5, INFINITE]),
    st.sampled_from([0, 0, 1, 3]),
).filter(lambda j: j[0] != j[1] and not (j[2] == INFINITE and (j[0] == 0 or j[1] == 1)))


def price(side: tuple[bool, ...], edges: list[Joint]) -> int:
    return sum(cost * (side[a] and not side[b]) + back * (side[b] and not side[a]) for a, b, cost, back in edges)


@given(edges=st.lists(joints, max_size=14))
def test_cut_is_minimal(edges: list[Joint]) -> None:
    net = FlowNetwork()
    for _ in range(INNER):
        net.add_node()
    for edge in edges:
        net.add_edge(*edge)
    found = net.min_cut()
    assert found is not None
    sides = [(True, False, *rest) for rest in product([False, True], repeat=INNER)]
    least = min(price(side, edges) for side in sides)
    assert price(tuple(found), edges) == least
    assert sum(found) == min(sum(side) for side in sides if price(side, edges) == least)


def test_long_path() -> None:
    net = FlowNetwork()
    nodes = [net.add_node() for _ in range(5000)]
    net.add_edge(0, nodes[0], 2)
    for a, b in pairwise(nodes):
        net.add_edge(a, b, 1, 1)
    net.add_edge(nodes[-1], 1, 3)
    side = net.min_cut()
    assert side is not None
    assert [i for i, kept in enumerate(side) if kept] == [0, nodes[0]]


@each(
    ("before", "now", "groups"),
    [
        ((2, 3, 4), (2, 3, 4), [([0], [0]), ([1], [1]), ([2], [2])]),
        ((2, 3, 4), (6, 4), [([0, 1], [0]), ([2], [1])]),
        ((6, 4), (2, 3, 4), [([0], [0, 1]), ([1], [2])]),
        ((4, 6), (3, 8), [([0, 1], [0, 1])]),
        (("n", 6), ("n", 2, 3), [([0], [0]), ([1], [1, 2])]),
        ((2, 1, 3), (2, 3), [([0], [0]), ([1, 2], [1])]),
        ((2, 3), (2, 1, 3), [([0], [0]), ([1], [1, 2])]),
        ((2, 1), (2,), [([0], [0]), ([1], [])]),
        ((), (1, 1), [([], [0, 1])]),
        ((0, 3), (0, 3), [([0], [0]), ([1], [1])]),
    ],
)
def test_groups(before: tuple[int, ...], now: tuple[int, ...], groups: object) -> None:
    assert group_axes(before, now) == groups


@each(
    ("before", "now"),
    [((2, 3), (2, 4)), (("n", 2), ("m", 2, 1, 1, 3)), ((0, 4), (4, 0)), (("n", "m"), (None, None)), ((None,), (None,))],
)
def test_no_groups(before: tuple[int, ...], now: tuple[int, ...]) -> None:
    with pytest.raises(MatchFailure):
        group_axes(before, now)


@given(data=st.data())
def test_layouts_commute_with_reshape(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=5))
    before = tuple(merged(parts, data))
    now = tuple(merged(parts, data))
    forward = data.draw(st.booleans())
    layout = tuple(data.draw(st.permutations(range(len(before if forward else now)))))
    try:
        shape = before if forward else now
        inner, outer = grouped_layouts(group_axes(before, now), layout, shape, forward=forward)
    except MatchFailure:
        return
    assert layout == (inner if forward else outer)
    x = np.arange(prod(before)).reshape(before)
    wanted = x.reshape(now).transpose(outer)
    assert np.array_equal(x.transpose(inner).reshape(wanted.shape), wanted)


def merged(parts: list[int], data: st.DataObject) -> list[int]:
    """`parts`, some neighbours multiplied."""
    out = [parts[0]]
    for d in parts[1:]:
        if data.draw(st.booleans()):
            out[-1] *= d
        else:
            out.append(d)
    return out


@given(first=st.permutations(range(5)), second=st.permutations(range(5)))
def test_layouts(first: list[int], second: list[int]) -> None:
    x = np.zeros((2, 3, 4, 5, 6))
    assert x.transpose(first).transpose(second).shape == x.transpose(compose(first, second)).shape
    assert is_identity(compose(tuple(first), inverse(tuple(first))))
    _, reduced = grouped_layouts(without_axes(5, [2]), tuple(first), x.shape, forward=True)
    assert x.max(axis=2).transpose(reduced).shape == tuple(d for d in x.transpose(first).shape if d != 4)
