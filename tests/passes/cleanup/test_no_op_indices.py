"""Gather, Scatter and Compress ops whose constant indices select all elements in order."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from rewriting import becomes, each, stays

DROP_NO_OP_INDEXING = rule_pass(no_ops, "drop-no-op-indexing")

RULES = DROP_NO_OP_INDEXING.rules
HEAD = "g (float[2,3] x, float[2,3] v) => (float[p,q] y)"
ROWS, COLUMNS = np.array([[0, 0, 0], [1, 1, 1]]), np.array([[0, 1, 2], [0, 1, 2]])
PLACES = np.stack(np.indices((2, 3)), -1)


@each(
    ("node", "indices", "left"),
    {
        "Gather rows": ("Gather(x, i)", [0, 1], "x"),
        "Gather columns": ("Gather<axis=1>(x, i)", [0, 1, 2], "x"),
        "Gather, counted from the end": ("Gather<axis=-1>(x, i)", [0, -2, 2], "x"),
        "GatherElements of rows": ("GatherElements(x, i)", ROWS, "x"),
        "GatherElements of columns": ("GatherElements<axis=-1>(x, i)", COLUMNS - 3, "x"),
        "GatherND of rows": ("GatherND(x, i)", [[0], [1]], "x"),
        "GatherND of elements": ("GatherND(x, i)", PLACES, "x"),
        "ScatterND to rows": ("ScatterND(x, i, v)", [[0], [-1]], "v"),
        "ScatterND to elements": ("ScatterND(x, i, v)", PLACES, "v"),
        "ScatterElements to rows": ("ScatterElements(x, i, v)", ROWS, "v"),
        "ScatterElements to columns": ("ScatterElements<axis=1>(x, i, v)", COLUMNS, "v"),
        "Compress, rows": ("Compress<axis=0>(x, i)", [True, True], "x"),
        "Compress, columns": ("Compress<axis=-1>(x, i)", [True, True, True], "x"),
    },
)
def test_becomes(node: str, indices: Any, left: str) -> None:
    weights = {"i": np.array(indices)}
    becomes(f"{HEAD} {{ t = {node} y = Relu(t) }}", f"{HEAD} {{ y = Relu({left}) }}", *RULES, weights=weights)
    becomes(f"{HEAD} {{ y = {node} }}", f"{HEAD} {{ y = Identity({left}) }}", *RULES, weights=weights)


@each(
    ("before", "after", "indices"),
    {
        "the other extent is open": (
            "g (float[n,1] x) => (float[p,q] y) { t = Gather<axis=1>(x, i) y = Neg(t) }",
            "g (float[n,1] x) => (float[p,q] y) { y = Neg(x) }",
            [0],
        ),
        "ScatterND, the other extent is open": (
            "g (float[2,n] x, float[2,n] v) => (float[p,q] y) { t = ScatterND(x, i, v) y = Neg(t) }",
            "g (float[2,n] x, float[2,n] v) => (float[p,q] y) { y = Neg(v) }",
            [[0], [1]],
        ),
        "nothing of nothing": (
            "g (float[0] x) => (float[p] y) { t = Gather(x, i) y = Neg(t) }",
            "g (float[0] x) => (float[p] y) { y = Neg(x) }",
            np.zeros(0, np.int64),
        ),
        "Compress of a list": (
            "g (float[3] x) => (float[p] y) { t = Compress(x, i) y = Neg(t) }",
            "g (float[3] x) => (float[p] y) { y = Neg(x) }",
            [True] * 3,
        ),
        "32-bit indices, overridable initializer": (
            "g (float[2] x = {1,2}) => (float[p] y) { t = Gather(x, i) y = Neg(t) }",
            "g (float[2] x = {1,2}) => (float[p] y) { y = Neg(x) }",
            np.array([0, 1], np.int32),
        ),
        "inside an If body, captured": (
            (
                "g (bool c, float[2] x) => (float[p] y) { y = If (c) <then_branch = a () => (float[p] r)"
                " { t = Gather(x, i) r = Neg(t) }, else_branch = b () => (float[p] s) { s = Relu(x) }> }"
            ),
            (
                "g (bool c, float[2] x) => (float[p] y) { y = If (c) <then_branch = a () => (float[p] r)"
                " { r = Neg(x) }, else_branch = b () => (float[p] s) { s = Relu(x) }> }"
            ),
            [0, 1],
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str, indices: Any) -> None:
    becomes(before, after, *RULES, weights={"i": np.asarray(indices)})


@each(
    ("opset", "node", "indices", "left"),
    [
        (7, "Gather(x, i)", [0, 1], "x"),
        (9, "Scatter<axis=1>(x, i, v)", COLUMNS, "v"),
        (9, "Compress<axis=0>(x, i)", [True, True], "x"),
        (11, "ScatterElements(x, i, v)", ROWS, "v"),
        (11, "GatherND(x, i)", PLACES, "x"),
        (18, 'ScatterND<reduction="none">(x, i, v)', PLACES, "v"),
        (26, "Gather(x, i)", [0, -1], "x"),
    ],
)
def test_every_opset(opset: int, node: str, indices: Any, left: str) -> None:
    before, after = f"{HEAD} {{ t = {node} y = Neg(t) }}", f"{HEAD} {{ y = Neg({left}) }}"
    becomes(before, after, *RULES, opset=opset, weights={"i": np.array(indices)})


@each(
    ("node", "indices"),
    {
        "Gather, reversed": ("Gather(x, i)", [1, 0]),
        "Gather, fewer": ("Gather(x, i)", [0]),
        "Gather, more": ("Gather(x, i)", [0, 1, 1]),
        "Gather, along the other axis": ("Gather<axis=1>(x, i)", [0, 1]),
        "GatherElements, elsewhere": ("GatherElements(x, i)", COLUMNS % 2),
        "GatherElements, one row": ("GatherElements<axis=1>(x, i)", [[0, 1, 2]]),
        "GatherND, reversed": ("GatherND(x, i)", [[1], [0]]),
        "GatherND, batches": ("GatherND<batch_dims=1>(x, i)", [[[0], [1], [2]]] * 2),
        "ScatterND, reversed": ("ScatterND(x, i, v)", [[1], [0]]),
        "ScatterND, elements reversed": ("ScatterND(x, i, v)", PLACES[:, ::-1]),
        "ScatterND, added": ('ScatterND<reduction="add">(x, i, v)', PLACES),
        "ScatterElements, reversed": ("ScatterElements(x, i, v)", ROWS[::-1]),
        "ScatterElements, multiplied": ('ScatterElements<reduction="mul">(x, i, v)', ROWS),
        "ScatterElements, one row": ("ScatterElements<axis=1>(x, i, w)", [[0, 1, 2]]),
        "Compress, one left out": ("Compress<axis=0>(x, i)", [True, False]),
        "Compress, the rest is left out": ("Compress<axis=0>(x, i)", [True]),
    },
)
def test_stays(node: str, indices: Any) -> None:
    head = HEAD.replace("float[2,3] v", "float[2,3] v, float[1,3] w")
    stays(f"{head} {{ y = {node} }}", *RULES, weights={"i": np.array(indices)}, runs="add" not in node)


@each(
    ("text", "indices"),
    {
        "unknown extent": ("g (float[n] x) => (float[p] y) { y = Gather(x, i) }", [0, 1]),
        "a single index takes the axis away": ("g (float[1] x) => (float y) { y = Gather(x, i) }", 0),
        "a matrix of indices": ("g (float[2] x) => (float[p,q] y) { y = Gather(x, i) }", [[0, 1]]),
        "Compress flattens": ("g (float[2,2] x) => (float[p] y) { y = Compress(x, i) }", [True] * 4),
        "one element": ("g (float[2,2] x) => (float[p] y) { y = GatherND(x, i) }", [0, 1]),
        "GatherND, open": ("g (float[n,2] x) => (float[p,q] y) { y = GatherND(x, i) }", [[0], [1]]),
        "overridable indices": ("g (float[2] x, int64[2] j = {0,1}) => (float[p] y) { y = Gather(x, j) }", [0]),
        "given indices": ("g (float[2] x, int64[2] j) => (float[p] y) { y = Gather(x, j) }", [0]),
    },
)
def test_stays_elsewhere(text: str, indices: Any) -> None:
    stays(text, *RULES, weights={"i": np.array(indices)}, runs=False)


@given(indices=st.lists(st.integers(-3, 2), min_size=1, max_size=4), axis=st.integers(-2, 1))
def test_gather_is_dropped_only_if_it_selects_all_in_order(indices: list[int], axis: int) -> None:
    head = "g (float[3,3] x) => (float[p,q] y)"
    text, weights = f"{head} {{ t = Gather<axis={axis}>(x, i) y = Neg(t) }}", {"i": np.array(indices)}
    if [i % 3 for i in indices] == [0, 1, 2]:
        becomes(text, f"{head} {{ y = Neg(x) }}", *RULES, weights=weights)
    else:
        stays(text, *RULES, weights=weights)


@given(order=st.permutations(range(3)), signs=st.lists(st.booleans(), min_size=3, max_size=3))
def test_scatter_is_dropped_only_if_it_keeps_the_order(order: list[int], signs: list[bool]) -> None:
    head = "g (float[3] x, float[3] v) => (float[p] y)"
    places = [[i - 3 * s] for i, s in zip(order, signs, strict=True)]
    text, weights = f"{head} {{ t = ScatterND(x, i, v) y = Neg(t) }}", {"i": np.array(places)}
    if order == [0, 1, 2]:
        becomes(text, f"{head} {{ y = Neg(v) }}", *RULES, weights=weights)
    else:
        stays(text, *RULES, weights=weights)
