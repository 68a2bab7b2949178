"""Layout of whole graphs: boxes and lines that do not overlap, in linear time."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passwright.app.report.graph_layout import (
    MAX_INNER_ROWS,
    GraphLayout,
    Link,
    RowOccupancy,
    assign_rows,
    graph_layout,
)

Point = tuple[float, float]
NEAR = 0.2  # coordinates of paths are rounded


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Point], list[Link]]:
    """Boxes of any size, each linked from some of the boxes before it."""
    count = draw(st.integers(1, 40))
    sizes = draw(st.lists(st.tuples(st.floats(10, 300), st.floats(10, 100)), min_size=count, max_size=count))
    links = [
        Link(source, target, draw(st.sampled_from("ab")), draw(st.booleans()))
        for target in range(1, count)
        for source in draw(st.lists(st.integers(0, target - 1), max_size=4, unique=True))
    ]
    return sizes, links


def chain(count: int, *more: tuple[int, int]) -> tuple[list[Point], list[Link]]:
    """A chain of boxes, and links that skip some of them."""
    links = [Link(i, i + 1, "v") for i in range(count - 1)]
    return [(60.0, 24.0)] * count, links + [Link(a, b, "v") for a, b in more]


def require_sound(sizes: list[Point], links: list[Link], layout: GraphLayout) -> None:
    rows: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
    extents: dict[float, list[float]] = {}
    for (x, y), (w, h) in zip(layout.centres, sizes, strict=True):
        assert 0 <= x - w / 2 <= x + w / 2 <= layout.width
        assert 0 <= y - h / 2 <= y + h / 2 <= layout.height
        rows[y].append((x - w / 2, x + w / 2))
        low, high = extents.get(y, [y, y])
        extents[y] = [min(low, y - h / 2), max(high, y + h / 2)]
    for boxes in rows.values():
        assert all(a[1] < b[0] for a, b in pairwise(sorted(boxes)))
    ends = [extents[y] for y in sorted(extents)]
    assert all(upper[1] < lower[0] for upper, lower in pairwise(ends))
    for link, path in zip(links, layout.paths, strict=True):
        require_clear(link, path, sizes, layout)


def require_clear(link: Link, path: tuple[Point, ...], sizes: list[Point], layout: GraphLayout) -> None:
    """The path runs down from the bottom of one box to the top of the other, vertically beside boxes."""
    for (x, y), place, side in ((path[0], link.source, 1), (path[-1], link.target, -1)):
        (cx, cy), (w, h) = layout.centres[place], sizes[place]
        assert abs(x - cx) <= w / 2
        assert abs(y - (cy + side * h / 2)) < NEAR
    for (x0, y0), (x1, y1) in pairwise(path):
        assert y0 < y1
        for (cx, cy), (w, h) in zip(layout.centres, sizes, strict=True):
            if y0 + NEAR < cy + h / 2 and cy - h / 2 < y1 - NEAR:  # the line passes the box
                assert x0 == x1
                assert abs(x0 - cx) > w / 2


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_boxes_and_lines_do_not_overlap(graph: tuple[list[Point], list[Link]]) -> None:
    require_sound(*graph, graph_layout(*graph))


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(chain(1), id="one box"),
        pytest.param(chain(200, *((0, i) for i in range(2, 200))), id="a value with many consumers"),
        pytest.param(chain(200, *((i, 199 - i) for i in range(90))), id="nested long links"),
        pytest.param(([(60.0, 24.0)] * 50, []), id="no lines"),
        pytest.param(([(60.0, 24.0)] * 50, [Link(i, 49, "v") for i in range(49)]), id="one consumer of all"),
    ],
)
def test_special_graphs(graph: tuple[list[Point], list[Link]]) -> None:
    require_sound(*graph, graph_layout(*graph))


def test_empty_graph() -> None:
    assert graph_layout([], []).centres == []


def test_longest_path_is_straight() -> None:
    sizes, links = chain(30, (3, 9), (9, 15), (0, 29))
    layout = graph_layout(sizes, links)
    assert len({x for x, _ in layout.centres}) == 1
    assert layout.width < 250
    straight = [path for link, path in zip(links, layout.paths, strict=True) if link.target == link.source + 1]
    assert all(path[0][0] == path[-1][0] == layout.centres[0][0] for path in straight)


def test_light_links_do_not_bend_longest_path() -> None:
    """A chain of shape operators that is longer than the path beside it."""
    links = [Link(0, 1, "x"), Link(1, 5, "y"), Link(1, 2, "y"), Link(2, 3, "s", True), Link(3, 4, "t", True)]
    links += [Link(4, 5, "u", True), Link(5, 6, "z")]
    xs = [x for x, _ in graph_layout([(60.0, 24.0)] * 7, links).centres]
    assert xs[0] == xs[1] == xs[5] == xs[6]
    assert xs[4] != xs[5]


def test_dead_end_is_placed_below_its_source() -> None:
    rows = assign_rows(12, [*chain(11)[1], Link(2, 11, "v")]).rows
    assert rows == [*range(11), 3]


def test_links_of_one_value_share_a_line() -> None:
    sizes, links = chain(30, *((0, i) for i in range(5, 30)))
    paths = zip(links, graph_layout(sizes, links).paths, strict=True)
    far = [list(pairwise(path)) for link, path in paths if link.target > link.source + 1]
    columns = {max(steps, key=lambda step: step[1][1] - step[0][1])[0][0] for steps in far}
    assert (len(far), len(columns)) == (25, 2)  # one line to near consumers, one to all others


def test_width_is_independent_of_depth() -> None:
    """Residual blocks that also read the input."""

    def width(blocks: int) -> float:
        more = [pair for b in range(1, blocks) for pair in ((6 * b, 6 * b + 5), (0, 6 * b + 3))]
        return graph_layout(*chain(6 * blocks, *more)).width

    assert width(200) < 1.1 * width(20)


@pytest.mark.parametrize("reach", [10, 2 * MAX_INNER_ROWS, 10**6])
def test_work_is_linear(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: rows that are examined and occupied."""
    examined = 0
    end, add = RowOccupancy._obstacle_end, RowOccupancy._add

    def count_end(rows: RowOccupancy, row: int, left: float, right: float, side: int) -> float | None:
        nonlocal examined
        examined += 1
        return end(rows, row, left, right, side)

    def count_add(rows: RowOccupancy, row: int, left: float, right: float) -> None:
        nonlocal examined
        examined += 1
        add(rows, row, left, right)

    def work(count: int) -> int:
        nonlocal examined
        examined = 0
        graph_layout(*chain(count, *((max(0, i - reach), i) for i in range(2, count, 5))))
        return examined

    monkeypatch.setattr(RowOccupancy, "_obstacle_end", count_end)
    monkeypatch.setattr(RowOccupancy, "_add", count_add)
    few = work(500)
    assert 0 < work(2000) < 6 * few
