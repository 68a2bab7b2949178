"""Slices that become one Split."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.passes.movement.slices import SlicesToSplit
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, run, stays, to_onnx

PASS = SlicesToSplit()
END = 2**31 - 1


def slices(x: str, *cuts: tuple[int, ...], of: str = "x") -> str:
    """Slices of (start, end, axis, step), each read by an op of its own."""
    constants, ops = [], []
    for i, c in enumerate(cuts):
        constants += [f"int64[1] {n}{i} = {{{v}}}" for n, v in zip("seat", c, strict=False)]
        ops.append(f"v{i} = Slice({of}, s{i}, e{i}, a{i}{f', t{i}' if len(c) == 4 else ''}) y{i} = Neg(v{i})")
    outputs = ", ".join(f"float[p{i},q{i}] y{i}" for i in range(len(cuts)))
    return f"g (float[{x}] x) => ({outputs}) <{', '.join(constants)}> {{ {' '.join(ops)} }}"


@each(
    ("x", "cuts", "sizes"),
    [
        ("N,6", [(0, 2, 1), (2, 6, 1)], [2, 4]),
        ("N,6", [(4, 6, 1), (0, 4, 1)], [4, 2]),
        ("N,6", [(0, 2, -1), (2, 4, 1), (-2, END, 1)], [2, 2, 2]),
        ("6,N", [(0, 5, 0, 1), (5, 9, -2, 1)], [5, 1]),
    ],
)
def test_becomes(x: str, cuts: list[tuple[int, ...]], sizes: list[int]) -> None:
    before = load(slices(x, *cuts))
    after = to_onnx(apply_passes(before, PASS)[0])
    assert sorted(n.op_type for n in after.graph.node) == ["Neg"] * len(cuts) + ["Split"]
    assert [a.tolist() for a in initializers(after).values()] == [sizes]
    from rewriting import require_equivalent

    require_equivalent(before, after, exact=True)


@each(
    ("x", "cuts"),
    [
        ("N,6", [(0, 6, 1)]),
        ("N,6", [(0, 2, 1), (3, 6, 1)]),
        ("N,6", [(0, 3, 1), (2, 6, 1)]),
        ("N,6", [(0, 2, 1), (2, 5, 1)]),
        ("N,6", [(0, 2, 1), (2, 4, 1), (2, 6, 1)]),
        ("N,6", [(0, 6, 1), (6, 9, 1)]),
        ("N,6", [(0, 6, 1, 2), (1, 6, 1, 2)]),
        ("N,6", [(0, 2, 1), (2, 6, 0)]),
        ("N,M", [(0, 2, 1), (2, END, 1)]),
        ("6,N", [(0, 2, 1), (2, 6, 1)]),
    ],
)
def test_stays(x: str, cuts: list[tuple[int, ...]]) -> None:
    stays(slices(x, *cuts), PASS)


splits = Rewrites("g (float[N,6] x, int64[1] k, int64[1] d = {6}) => (float[p,q] y, float[r,s] z)", PASS)

test_stays_computed_or_overridable_bounds_stay = splits.all_stay("""
    computed or overridable bounds stay [runs=False]: y = Slice(x, [0], [2], [1]) z = Slice(x, [2], k, [1])
    computed or overridable bounds stay, 2 [runs=False]: y = Slice(x, [0], [2], [1]) z = Slice(x, [2], d, [1])
    two axes stay [graph=g (float[6,4] x) => (float[p,q] y, float[r,s] z)]:
        y = Slice(x, [0,0], [2,0]) z = Slice(x, [2,0], [6,4])
    inside an if body only [graph=g (bool c, float[2,6] x) => (float[n,m] y, float[p,q] z)]: z = Slice(x, [0], [2], [1])
        y = If(c) <then_branch = p () => (float[n,m] r) { w = Slice(x, [2], [6], [1]) v = Relu(w)
        r = Concat<axis=1>(w, v) }, else_branch = q () => (float[n,m] t) { t = Relu(x) }>
""")


@each("opset", [7, 9])
def test_attributes(opset: int) -> None:
    g = "g (float[N,6] x) => (float[p,q] y, float[r,s] z)"
    before = "y = Slice<axes=[1], starts=[0], ends=[2]>(x) z = Slice<axes=[1], starts=[2], ends=[6]>(x)"
    becomes(f"{g} {{ {before} }}", f"{g} {{ y, z = Split<axis=1, split=[2,4]>(x) }}", PASS, opset=opset)


@each("opset", [10, 13, 18, 25])
def test_later_opsets(opset: int) -> None:
    model = load(slices("N,6", (0, 2, 1), (2, 6, 1)), opset)
    after = to_onnx(apply_passes(model, PASS)[0])
    assert [n.op_type for n in after.graph.node] == ["Split", "Neg", "Neg"]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for a, b in zip(run(after, {"x": x}), run(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(a, b)


test_becomes_inside_an_if_body_only = splits.all_become("""
    inside an if body only [graph=g (bool c, float[2,6] x) => (float[n,m] y, float[p,q] z)]: z = Slice(x, [0], [2], [1])
        y = If(c) <then_branch = p () => (float[n,m] r) { v = Slice(x, [0], [2], [1]) w = Slice(x, [2], [6], [1])
        r = Concat<axis=1>(w, v) }, else_branch = q () => (float[n,m] t) { t = Relu(x) }> => z = Slice(x, s, e, a)
        y = If(c) <then_branch = p () => (float[n,m] r) <int64[2] k = {2,4}> { v, w = Split<axis=1>(x, k)
        r = Concat<axis=1>(w, v) }, else_branch = q () => (float[n,m] t) { t = Relu(x) }>
""")


@given(inner=st.sets(st.integers(1, 6), min_size=1, max_size=4), order=st.permutations(range(5)))
def test_any_tiling(inner: set[int], order: list[int]) -> None:
    cuts = [(a, b, 1) for a, b in pairwise([0, *sorted(inner), 7])]
    model = load(slices("2,7", *(cuts[i] for i in order if i < len(cuts))))
    after = to_onnx(apply_passes(model, PASS)[0])
    assert len(after.graph.node) == len(cuts) + 1
    x = np.arange(14, dtype=np.float32).reshape(2, 7)
    for a, b in zip(run(after, {"x": x}), run(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(a, b)
