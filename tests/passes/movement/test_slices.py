"""Merging of Slices, and of DepthToSpace with SpaceToDepth."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import slices
from passwright.passes.movement.slices import SliceRange, cancel_depth_and_space, compose_ranges, merge_slices
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, stays, to_onnx

CANCEL_DEPTH_AND_SPACE = rule_pass(slices, "cancel-depth-and-space")
MERGE_SLICES = rule_pass(slices, "merge-slices")

END = 2**31 - 1
LEAST = -(2**63)


def two(x: str, *cuts: tuple[int, ...]) -> str:
    """A chain of Slices, each of (start, end, axis, step)."""
    constants, ops = [], []
    for i, c in enumerate(cuts):
        constants += [f"int64[1] {n}{i} = {{{v}}}" for n, v in zip("seat", c, strict=True)]
        ops.append(f"v{i + 1} = Slice(v{i}, s{i}, e{i}, a{i}, t{i})")
    rank = x.count(",") + 1
    g = f"g (float[{x}] x) => (float[{','.join('pqrs'[:rank])}] y) <{', '.join(constants)}>"
    return f"{g} {{ v0 = Neg(x) {' '.join(ops)} y = Neg(v{len(cuts)}) }}"


@each(
    ("x", "first", "second", "after"),
    [
        ("N,M", (1, 3, 0, 1), (0, 2, 1, 1), ([1, 0], [3, 2], [0, 1], None)),
        ("N,M", (1, 3, 0, 1), (-2, END, -1, 2), ([1, -2], [3, END], [0, 1], [1, 2])),
        ("8,M", (1, 7, 0, 1), (1, 3, 0, 1), ([2], [4], [0], None)),
        ("8,M", (1, 7, 0, 2), (1, 3, 0, 1), ([3], [6], [0], [2])),
        ("8", (1, 7, 0, 1), (-3, -1, 0, 1), ([4], [6], [0], None)),
        ("8", (7, LEAST, 0, -1), (1, 3, 0, 1), ([6], [4], [0], [-1])),
        ("8", (0, 3, 0, 1), (2, LEAST, 0, -1), ([2], [-9], [0], [-1])),
        ("8", (0, 3, 0, 1), (3, 5, 0, 1), ([0], [0], [0], None)),
        ("8", (1, 7, 0, 1), (2, 3, 0, 5), ([3], [4], [0], None)),
        ("N", (1, 7, 0, 1), (2, 9, 0, 1), ([3], [7], [0], None)),
        ("N", (1, 7, 0, 2), (2, 3, 0, 2), ([5], [7], [0], [4])),
        ("N", (1, 7, 0, 1), (2, 3, 0, 1), ([3], [4], [0], None)),
        ("N", (1, END, 0, 1), (2, END, 0, 1), ([3], [END], [0], None)),
        ("N", (1, -1, 0, 1), (1, END, 0, 1), ([2], [-1], [0], None)),
        ("N", (1, END, 0, 1), (0, -1, 0, 1), ([1], [-1], [0], None)),
        ("N", (1, -2, 0, 1), (0, -1, 0, 1), ([1], [-3], [0], None)),
        ("N", (-3, END, 0, 1), (0, 2, 0, 1), None),
        ("N", (0, 4, 0, 1), (-2, END, 0, 1), None),
        ("N", (0, -1, 0, 1), (0, 3, 0, 1), None),
        ("N", (0, END, 0, -1), (0, 3, 0, 1), None),
        ("N", (0, 4, 0, 1), (0, -1, 0, 1), None),
        ("N", (0, END, 0, 2), (0, -1, 0, 1), None),
        ("N", (0, 3, 0, 1), (3, LEAST, 0, -1), None),
    ],
)
def test_slice_of_slice(
    x: str, first: tuple[int, ...], second: tuple[int, ...], after: tuple[object, ...] | None
) -> None:
    text = two(x, first, second)
    if after is None:
        stays(text, merge_slices)
        return
    names = [n for n, data in zip("seat", after, strict=True) if data is not None]
    model = becomes(text, two(x, first).replace(", a0, t0)", ", a0, t0)" if "t" in names else ", a0)"), merge_slices)
    made = [list(a) for a in initializers(model).values()]
    assert sorted(made) == sorted([data for data in after if data is not None]), made


def test_two_reversals_cancel() -> None:
    text = two("8", (7, LEAST, 0, -1), (-1, LEAST, 0, -1))
    becomes(text, "g (float[8] x) => (float[p] y) { v = Neg(x) y = Neg(v) }", merge_slices)


rewrites = Rewrites(
    "g (float[N,M] x, int64[1] k, int64[1] d = {0}) => (float[] y)", merge_slices, weights={"s": [1], "a": [1]}
)

test_becomes = rewrites.all_become("""
    attributes before opset 10 [opset=9; graph=g (float[N,M] x) => (float[p,q] y)]:
        u = Slice<starts=[1], ends=[9]>(x) y = Slice<axes=[1,0], starts=[0,1], ends=[2,3]>(u)
        => y = Slice<starts=[2,0], ends=[4,2], axes=[0,1]>(x)
    omitted axes and shared inner value [graph=g (float[N,M] x) => (float[p,q] y, float[p,q] z)]:
        y = Slice(x, s, [3]) z = Slice(y, s, [3], a) => y = Slice(x, s, e) z = Slice(x, s, e, a)
""")

test_stays = rewrites.using(runs=False).all_stay("""
    alone: y = Slice(x, s, [3], a)
    apart: u = Slice(x, s, [3], a) v = Neg(u) y = Slice(v, s, [3], a)
    a computed start: u = Slice(x, k, [3], a) y = Slice(u, s, [3], [0])
    a computed axis: u = Slice(x, s, [3], a) y = Slice(u, s, [3], k)
    an axis that may be another: u = Slice(x, s, [3], d) y = Slice(u, s, [3], a)
""")


@each(
    ("body", "kept"),
    [
        ("u = DepthToSpace<blocksize=2>(x) y = SpaceToDepth<blocksize=2>(u)", False),
        ('u = DepthToSpace<blocksize=2, mode="DCR">(x) y = SpaceToDepth<blocksize=2>(u)', False),
        ("u = SpaceToDepth<blocksize=2>(x) y = DepthToSpace<blocksize=2>(u)", False),
        ('u = DepthToSpace<blocksize=2, mode="CRD">(x) y = SpaceToDepth<blocksize=2>(u)', True),
        ("u = DepthToSpace<blocksize=2>(x) y = SpaceToDepth<blocksize=4>(u)", True),
        ("u = SpaceToDepth<blocksize=2>(x) y = SpaceToDepth<blocksize=2>(u)", True),
        ("u = DepthToSpace<blocksize=2>(x) v = Relu(u) y = SpaceToDepth<blocksize=2>(v)", True),
    ],
)
def test_depth_and_space(body: str, *, kept: bool) -> None:
    g = "g (float[N,8,4,4] x) => (float[a,b,c,d] y)"
    if kept:
        stays(f"{g} {{ {body} }}", cancel_depth_and_space)
    else:
        becomes(f"{g} {{ {body} }}", f"{g} {{ y = Identity(x) }}", cancel_depth_and_space)


def test_passes() -> None:
    assert MERGE_SLICES.rules == (merge_slices,)
    assert CANCEL_DEPTH_AND_SPACE.rules == (cancel_depth_and_space,)


INDEX = st.one_of(st.integers(-9, 9), st.sampled_from([END, LEAST]))
CUTS = st.builds(SliceRange, INDEX, INDEX, st.sampled_from([1, 2, 3, -1, -2]))


@given(first=CUTS, second=CUTS, extent=st.integers(0, 7), known=st.booleans())
def test_composed_range_selects_the_same(first: SliceRange, second: SliceRange, extent: int, *, known: bool) -> None:
    from passwright.core.errors import MatchFailure

    elements = np.arange(extent)
    want = elements[list(first.indices(extent))]
    want = want[list(second.indices(len(want)))]
    try:
        both = compose_ranges(first, second, extent if known else None)
    except MatchFailure:
        assert not known
        return
    got = elements if both is None else elements[list(both.indices(extent))]
    np.testing.assert_array_equal(got, want)


@given(first=CUTS, second=CUTS)
def test_any_two_slices(first: SliceRange, second: SliceRange) -> None:
    text = two("5,6", (first.start, first.end, 1, first.step), (second.start, second.end, -1, second.step))
    out = to_onnx(apply_passes(load(text), merge_slices)[0])
    from rewriting import run

    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    np.testing.assert_array_equal(run(out, {"x": x})[0], run(load(text), {"x": x})[0])
    if all(c.step > 0 or c.end < END for c in (first, second)):
        assert len(out.graph.node) <= 3
