"""Merging of Gathers, with each other and with reshapes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup.no_ops import drop_no_op_gather
from passwright.passes.movement import gathers
from passwright.passes.movement.concats import bypass_gather_of_concat
from passwright.passes.movement.gathers import (
    gather_from_slice,
    merge_gathers,
    reshape_indices,
    slice_indices,
    squeeze_of_slice_to_gather,
)
from passwright.passes.structure.sequences import sequence_at_of_split
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, run, stays, to_onnx

from passwright import optimize

MERGE_GATHERS = rule_pass(gathers, "merge-gathers")
RESHAPE_INDICES = rule_pass(gathers, "reshape-indices")

END = 2**31 - 1


@each(
    ("x", "i", "j", "axes", "after"),
    [
        ("5,N", [4, 2, 0], [-1, 0], (0, 0), ([0, 4], 0)),
        ("N,5", [4, 2, -1], 1, (-1, 1), (2, 1)),
        ("N,5,M", [[0, 1], [2, 3]], [1], (1, 1), ([[2, 3]], 1)),
        ("N,5,M", [[0, 1], [2, 3]], [1, 1, 0], (1, 2), ([[1, 1, 0], [3, 3, 2]], 1)),
        ("N,5,M", [[0, 1], [2, 3]], 1, (1, -2), ([1, 3], 1)),
        ("N,5", [4, 2], [0], (1, 0), None),
        ("N,5", 4, [0], (1, 0), None),
        ("N,5,M", [0, 1], [0], (1, 2), None),
    ],
)
def test_gather_of_gather(
    x: str, i: object, j: object, axes: tuple[int, int], after: tuple[object, int] | None
) -> None:
    rank = x.count(",") + np.ndim(i) - 1 + np.ndim(j)
    g = f"g (float[{x}] x) => (float[{','.join('pqrstu'[:rank])}] y)"
    before = f"{g} {{ u = Gather<axis={axes[0]}>(x, i) y = Gather<axis={axes[1]}>(u, j) }}"
    weights = {"i": np.array(i, np.int64), "j": np.array(j, np.int64)}
    if after is None:
        stays(before, merge_gathers, weights=weights, runs=False)
        return
    new = f"{g} <int64 i = {{0}}> {{ y = Gather<axis={after[1]}>(x, i) }}"
    model = becomes(before, new, merge_gathers, weights=weights)
    assert [a.tolist() for a in initializers(model).values()] == [after[0]]


@each(
    "body",
    [
        "y = Gather(x, i)",
        "u = Gather(x, k) y = Gather(u, i)",
        "u = Gather(x, i) y = Gather(u, k)",
        "u = Gather(x, i) v = Neg(u) y = Gather(v, i)",
    ],
)
def test_gather_of_gather_stays(body: str) -> None:
    stays(f"g (float[5] x, int64[2] k) => (float[p] y) <int64[2] i = {{0,1}}> {{ {body} }}", merge_gathers, runs=False)


@each(
    ("x", "i", "axis", "outer", "data", "after"),
    {
        "a single index": ("N,5", 3, 1, "Unsqueeze", [1], [3]),
        "counted from the end": ("N,5", -1, -1, "Unsqueeze", [-1], [-1]),
        "of a vector": ("5", 3, 0, "Unsqueeze", [0], [3]),
        "two axes": ("N,5,M", 3, 1, "Unsqueeze", [1, 2], [[3]]),
        "the other way": ("N,5,M", [3], 1, "Squeeze", [1], 3),
        "before the indices": ("N,6,M", [3, 1], 1, "Unsqueeze", [1], [[3, 1]]),
        "behind the indices": ("N,6,M", [3, 1], 1, "Unsqueeze", [2], [[3], [1]]),
        "cut by a Reshape": ("N,6,2", [3, 1, 0, 2], 1, "Reshape", [0, 2, 2, 2], [[3, 1], [0, 2]]),
        "laid out by a Reshape": ("6,2", [[3, 1], [0, 2]], 0, "Reshape", [-1, 2], [3, 1, 0, 2]),
        "another axis before": ("N,5,M", 3, 1, "Unsqueeze", [0], None),
        "another axis behind": ("N,5,M", 3, 1, "Unsqueeze", [2], None),
        "an axis of the data": ("N,5,1", [3, 1], 1, "Squeeze", [2], None),
        "cut across": ("N,6,2", [3, 1, 0, 2], 1, "Reshape", [0, 2, 4], None),
        "cut across, all of it": ("6,2", [3, 1, 0], 0, "Reshape", [2, 3], None),
    },
)
def test_reshape_indices(x: str, i: object, axis: int, outer: str, data: list[int], after: object) -> None:
    weights = {"i": np.array(i, np.int64), "s": np.array(data, np.int64)}
    rank = x.count(",") + np.ndim(i) + {"Unsqueeze": len(data), "Squeeze": -len(data)}.get(outer, 0)
    rank = len(data) if outer == "Reshape" else rank
    g = f"g (float[{x}] x) => (float[{','.join('pqrst'[:rank])}] y)"
    before = f"{g} {{ u = Gather<axis={axis}>(x, i) y = {outer}(u, s) }}"
    if after is None:
        stays(before, reshape_indices, weights=weights)
        return
    new = f"{g} <int64 i = {{0}}> {{ y = Gather<axis={axis % (x.count(',') + 1)}>(x, i) }}"
    model = becomes(before, new, reshape_indices, weights=weights)
    assert [a.tolist() for a in initializers(model).values()] == [after]


rewrites = Rewrites("g (float[N,5] x, int64 k) => (float[p,q] y, float[r] z)", reshape_indices)

test_stays = rewrites.all_stay("""
    computed or shared indices [runs=False]: u = Gather(x, k) y = Unsqueeze(u, [0]) z = Neg(u)
    computed or shared indices, 2: u = Gather<axis=1>(x, 1) y = Unsqueeze(u, [0]) z = Neg(u)
""")


@each(
    ("start", "end", "axis", "index"),
    [(2, 3, 1, 2), (0, 1, -1, 0), (-1, END, 1, -1), (-1, 2**63 - 1, 1, -1), (-2, -1, 1, -2)],
)
def test_gather_one(start: int, end: int, axis: int, index: int) -> None:
    weights = {n: np.array([v], np.int64) for n, v in zip("sea", (start, end, axis), strict=True)}
    g = "g (float[N,5] x) => (float[p] y)"
    before = f"{g} {{ u = Slice(x, s, e, a) y = Squeeze(u, a) }}"
    model = becomes(
        before, f"{g} <int64 i = {{0}}> {{ y = Gather<axis=1>(x, i) }}", squeeze_of_slice_to_gather, weights=weights
    )
    assert [a.tolist() for a in initializers(model).values()] == [index]


@each(
    ("start", "end", "axis", "step", "squeezed"),
    [(2, 4, 1, 1, 1), (0, 1, 1, 1, 0), (-1, 0, 1, 1, 1), (2, 1, 1, -1, 1), (4, END, 1, 1, 1), (4, 9, 1, 1, 1)],
)
def test_gather_one_stays(start: int, end: int, axis: int, step: int, squeezed: int) -> None:
    names = dict(zip("seatq", (start, end, axis, step, squeezed), strict=True))
    weights = {n: np.array([v], np.int64) for n, v in names.items()}
    g = "g (float[1,5] x) => (float[p] y)"
    stays(
        f"{g} {{ u = Slice(x, s, e, a, t) y = Squeeze(u, q) }}", squeeze_of_slice_to_gather, weights=weights, runs=False
    )


@each(
    ("x", "cut", "i", "after"),
    [
        ("N,6", (2, END, 1, 1), [0, -1], [2, 5]),
        ("N,6", (5, -9, 1, -2), [0, 2], [5, 1]),
        ("N,6", (-4, -1, -1, 1), 1, 3),
        ("6,N", (2, END, 1, 1), [0, -1], [2, -1]),
        ("6,N", (1, 9, 1, 2), 1, 3),
        ("6,N", (1, -1, 1, 1), [0], [1]),
        ("6,N", (-3, END, 1, 1), [0], None),
        ("6,N", (1, -1, 1, 1), [-1], None),
        ("6,N", (0, END, 1, 2), [-1], None),
        ("6,N", (2, 4, 0, 1), [0], None),
        ("N,6", (2, 4, 1, 1), [2], None),
        ("6,N", (3, -9, 1, -1), [0], None),
    ],
)
def test_gather_from_slice(x: str, cut: tuple[int, ...], i: object, after: object) -> None:
    weights = {n: np.array([v], np.int64) for n, v in zip("seat", cut, strict=True)}
    weights["i"] = np.array(i, np.int64)
    g = f"g (float[{x}] x) => (float[{'p,q' if np.ndim(i) else 'p'}] y)"
    before = f"{g} {{ u = Slice(x, s, e, a, t) y = Gather<axis=-1>(u, i) }}"
    if after is None:
        stays(before, gather_from_slice, weights=weights, runs=False)
        return
    new = f"{g} <int64 i = {{0}}> {{ y = Gather<axis=1>(x, i) }}"
    model = becomes(before, new, gather_from_slice, weights=weights, runs="N,6" in x)
    assert [a.tolist() for a in initializers(model).values()] == [after]
    feeds = {"x": np.arange(36, dtype=np.float32).reshape(6, 6)}
    np.testing.assert_array_equal(run(model, feeds)[0], run(load(before, weights=weights), feeds)[0])


@each(
    ("x", "i", "axis", "cut", "after"),
    {
        "a run": ("9,N", [4, 2, -1, 0], 0, (1, 3, 0, 1), [2, -1]),
        "backwards": ("9,N", [4, 2, -1, 0], -2, (-1, -9, -2, -1), [0, -1, 2, 4]),
        "every second": ("9,N", [4, 2, -1, 0], 0, (0, END, 0, 2), [4, -1]),
        "nothing": ("9,N", [4, 2], 0, (5, 9, 0, 1), []),
        "the last axis of the indices": ("N,9", [[4, 2], [1, 0]], 1, (1, 2, 2, 1), [[2], [0]]),
        "the first axis of the indices": ("N,9", [[4, 2], [1, 0]], 1, (0, 1, -2, 1), [[4, 2]]),
        "an axis before": ("N,9,M", [4, 2], 1, (0, 1, 0, 1), None),
        "an axis behind": ("N,9,M", [4, 2], 1, (0, 1, 2, 1), None),
        "a single index": ("N,9,M", 4, 1, (0, 1, 1, 1), None),
    },
)
def test_slice_indices(x: str, i: object, axis: int, cut: tuple[int, ...], after: object) -> None:
    weights = {n: np.array([v], np.int64) for n, v in zip("seat", cut, strict=True)}
    weights["i"] = np.array(i, np.int64)
    g = f"g (float[{x}] x) => (float[{','.join('pqrs'[: x.count(',') + np.ndim(i)])}] y)"
    before = f"{g} {{ u = Gather<axis={axis}>(x, i) y = Slice(u, s, e, a, t) }}"
    if after is None:
        stays(before, slice_indices, weights=weights)
        return
    new = f"{g} <int64 i = {{0}}> {{ y = Gather<axis={axis % (x.count(',') + 1)}>(x, i) }}"
    model = becomes(before, new, slice_indices, weights=weights)
    assert [a.tolist() for a in initializers(model).values()] == [after]


@each(
    ("opset", "cut"), [(1, "Slice<starts=[1], ends=[2], axes=[0]>(u)"), (10, "Slice(u, s, e)"), (13, "Slice(u, s, e)")]
)
def test_slice_indices_at_every_opset(opset: int, cut: str) -> None:
    bounds = "" if opset < 10 else ", int64[1] s = {1}, int64[1] e = {2}"
    g = "g (float16[5,N] x) => (float16[p,q] y, float16[r,s] z)"
    head = f"{g} <int32[3] i = {{4, 1, 2}}, int32[1] j = {{1}}{bounds}>"
    before = f"{head} {{ u = Gather(x, i) y = {cut} z = Transpose(u) }}"
    after = f"{head} {{ u = Gather(x, i) y = Gather<axis=0>(x, j) z = Transpose(u) }}"
    becomes(before, after, slice_indices, opset=opset)


def test_slice_of_computed_indices_stays() -> None:
    cut = "<int64[1] s = {1}, int64[1] e = {2}> { u = Gather(x, i) y = Slice(u, s, e) }"
    stays(f"g (float[5,N] x, int64[3] i) => (float[p,q] y) {cut}", slice_indices)
    stays(f"g (float[5,N] x, int64[3] i = {{0,1,2}}) => (float[p,q] y) {cut}", slice_indices)
    shared = "u = Gather(x, i) y = Slice(u, s, e) z = Neg(i)"
    weights = {"i": np.zeros(2000, np.int64), "s": np.array([1]), "e": np.array([1999])}
    stays(f"g (float[5,N] x) => (float[p,q] y, int64[r] z) {{ {shared} }}", slice_indices, weights=weights)


def test_passes() -> None:
    assert MERGE_GATHERS.rules == (merge_gathers, squeeze_of_slice_to_gather, gather_from_slice, slice_indices)
    assert RESHAPE_INDICES.rules == (reshape_indices,)


INDICES = st.lists(st.integers(-4, 3), min_size=1, max_size=3)


@given(first=INDICES, second=st.lists(st.integers(-1, 0), min_size=1, max_size=3), axis=st.integers(0, 1))
def test_any_two_gathers(first: list[int], second: list[int], axis: int) -> None:
    weights = {"i": np.array(first, np.int64), "j": np.array(second, np.int64), "a": np.array([axis], np.int64)}
    g = "g (float[4,4] x) => (float[p,q,r] y)"
    text = f"{g} {{ u = Gather<axis={axis}>(x, i) v = Gather<axis={axis}>(u, j) y = Unsqueeze(v, a) }}"
    out = to_onnx(apply_passes(load(text, weights=weights), MERGE_GATHERS, RESHAPE_INDICES)[0])
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(run(out, {"x": x})[0], run(load(text, weights=weights), {"x": x})[0])
    assert len(out.graph.node) == 1


@each(
    "nodes",
    [
        "a = Gather(x, i) y = Gather(a, i)",
        "a = Slice(x, s, e) y = Gather(a, i)",
        "a = Gather(x, i) y = Slice(a, s, e)",
        "a = Slice(x, s, e) y = Squeeze(a, s)",
        "a = Concat<axis=0>(x, z) y = Gather(a, i)",
        "y = Gather(x, k)",
        "a = SplitToSequence<keepdims=0>(x) y = SequenceAt(a, s)",
    ],
)
def test_strings_stay(nodes: str) -> None:
    g = "g (string[2,3] x, string[2,3] z) => (string[p,q] y)"
    c = "<int64[2] i = {1, 0}, int64[2] k = {0, 1}, int64[1] s = {0}, int64[1] e = {1}>"
    rules = (*MERGE_GATHERS.rules, *RESHAPE_INDICES.rules, bypass_gather_of_concat, drop_no_op_gather)
    stays(f"{g} {c} {{ {nodes} }}", *rules, sequence_at_of_split, runs=False)


def test_indices_are_reshaped_before_transposes_pass_them() -> None:
    """Behind a Transpose that passed first, the Unsqueeze would add an axis elsewhere than the Gather drops one."""
    text = (
        "g (float[N,6,8,4] x) => (float[A,B,C,D] y) <int64 i = {2}, int64[1] one = {1}> {"
        " t = Transpose<perm=[0,2,1,3]>(x) row = Gather<axis=1>(t, i) u = Unsqueeze(row, one)"
        " y = Transpose<perm=[0,3,2,1]>(u) }"
    )
    model = load(text)
    found = optimize(model, verify=False).model
    assert sorted(op_types(found)) == ["Gather", "Transpose"]
    require_equivalent(model, found)
