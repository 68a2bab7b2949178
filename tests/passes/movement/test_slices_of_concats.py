"""Slices, Gathers and Splits of a Concat."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import concats
from passwright.passes.movement.concats import bypass_gather_of_concat, bypass_slice_of_concat, bypass_split_of_concat
from rewrite_tables import Rewrites
from rewriting import becomes, each, initializers, stays

BYPASS_CONCATS = rule_pass(concats, "bypass-concats")

END = 2**31 - 1
G = "g (float[N,2] a, float[N,3] b, float[N,1] c) => (float[{rank}] y)"
OPEN = "g (float[N,2] a, float[N,M] b, float[N,K] c) => (float[{rank}] y)"


def piece(body: str, rank: str = "p,q", g: str = G, **constants: list[int] | int) -> str:
    lines = ", ".join(
        f"int64[{len(v)}] {n} = {{{','.join(map(str, v))}}}" if isinstance(v, list) else f"int64 {n} = {{{v}}}"
        for n, v in constants.items()
    )
    return f"{g.format(rank=rank)} <{lines}> {{ n = Neg(a) u = Concat<axis=1>(n, b, c) {body} }}"


@each(
    ("g", "start", "end", "axis", "after"),
    [
        (G, 0, 2, 1, "y = Neg(a)"),
        (G, 2, 5, -1, "y = Identity(b)"),
        (G, 2, 4, 1, [0, 2]),
        (G, 3, -1, 1, [1, 3]),
        (G, -1, END, 1, "y = Identity(c)"),
        (OPEN, 0, 1, 1, [0, 1]),
        (OPEN, 0, 2, 1, "y = Neg(a)"),
    ],
)
def test_slice(g: str, start: int, end: int, axis: int, after: str | list[int]) -> None:
    before = piece("y = Slice(u, s, e, x)", g=g, s=[start], e=[end], x=[axis])
    if isinstance(after, str):
        becomes(before, f"{g.format(rank='p,q')} {{ {after} }}", bypass_slice_of_concat)
        return
    source = "n = Neg(a) y = Slice(n, s, e, x)" if start < 2 else "y = Slice(b, s, e, x)"
    constants = "<int64[1] s={0}, int64[1] e={0}, int64[1] x={1}>"
    model = becomes(before, f"{g.format(rank='p,q')} {constants} {{ {source} }}", bypass_slice_of_concat)
    assert sorted(a.item() for a in initializers(model).values()) == sorted([*after, 1])


@each(("start", "end", "axis"), [(1, 3, 1), (0, 5, 1), (0, 2, 0), (5, 9, 0), (3, 3, 1), (2, 5, 0)])
def test_slice_stays(start: int, end: int, axis: int) -> None:
    stays(piece("y = Slice(u, s, e, x)", s=[start], e=[end], x=[axis]), bypass_slice_of_concat)


@each(("start", "end"), [(2, 5), (-1, END), (0, -1), (3, END)])
def test_slice_of_open_pieces_stays(start: int, end: int) -> None:
    stays(piece("y = Slice(u, s, e, x)", g=OPEN, s=[start], e=[end], x=[1]), bypass_slice_of_concat)


slices_of_concats = Rewrites("g (float[N,2] a, float[N,3] b, float[N,1] c) => (float[] y)", bypass_slice_of_concat)

test_becomes = slices_of_concats.all_become("""
    the last piece may be open [graph=g (float[N,2] a, float[N,M] b) => (float[] y)]:
        u = Concat<axis=1>(a, b) y = Slice(u, [2], [9223372036854775807], [1]) => y = Identity(b)
""")


def test_backwards_within_a_piece() -> None:
    g = G.format(rank="p,q")
    before = piece("y = Slice(u, s, e, x, t)", s=[4], e=[1], x=[1], t=[-1])
    constants = "<int64[1] s={2}, int64[1] e={-4}, int64[1] x={1}, int64[1] t={-1}>"
    model = becomes(before, f"{g} {constants} {{ y = Slice(b, s, e, x, t) }}", bypass_slice_of_concat)
    assert sorted(a.item() for a in initializers(model).values()) == [-4, -1, 1, 2]


@each(
    ("indices", "after", "made"),
    [
        ([2, 3, 4], "y = Identity(b)", None),
        ([-1], "y = Identity(c)", None),
        ([3, 2], "y = Gather<axis=1>(b, i)", [1, 0]),
        ([-2], "y = Gather<axis=1>(b, i)", [2]),
    ],
)
def test_gather(indices: list[int], after: str, made: list[int] | None) -> None:
    before = piece("y = Gather<axis=1>(u, i)", i=indices)
    g = G.format(rank="p,q")
    model = becomes(
        before, f"{g} <int64[1] i = {{0}}> {{ {after} }}" if made else f"{g} {{ {after} }}", bypass_gather_of_concat
    )
    if made:
        assert [a.tolist() for a in initializers(model).values()] == [made]


test_becomes_gather_one = slices_of_concats.using(bypass_gather_of_concat).all_become("""
    gather one: n = Neg(a) u = Concat<axis=1>(n, b, c) y = Gather<axis=-1>(u, 5) => y = Squeeze(c, x)
    gather one, 2: n = Neg(a) u = Concat<axis=1>(n, b, c) y = Gather<axis=1>(u, 2) => y = Gather<axis=1>(b, i)
""")


@each("indices", [[1, 2], [0, -1], [0, 1, 2, 3, 4, 5]])
def test_gather_stays(indices: list[int]) -> None:
    stays(piece("y = Gather<axis=1>(u, i)", i=indices), bypass_gather_of_concat)
    stays(piece("y = Gather<axis=0>(u, i)", i=indices), bypass_gather_of_concat, runs=False)


def test_one_of_many_pieces_stays() -> None:
    g = "g (float[N,1] a) => (float[p] y) <int64 i = {7}>"
    body = f"u = Concat<axis=1>({', '.join('a' * 300)}) y = Gather<axis=1>(u, i)"
    stays(f"{g} {{ {body} }}", bypass_gather_of_concat)


def test_gather_from_an_open_end_stays() -> None:
    stays(piece("y = Gather<axis=1>(u, i)", g=OPEN, i=[-1]), bypass_gather_of_concat, runs=False)


@each(
    ("x", "sizes", "kept"),
    [
        ("float[N,2] a, float[N,3] b", [2, 3], False),
        ("float[N,M] a, float[N,M] b", None, False),
        ("float[N,2] a, float[N,2] b", None, False),
        ("float[N,2] a, float[N,3] b", [3, 2], True),
        ("float[N,M] a, float[N,K] b", None, True),
        ("float[N,1] a, float[N,3] b", None, True),
        ("float[N,M] a, float[N,3] b", [2, 3], True),
    ],
)
def test_split(x: str, sizes: list[int] | None, *, kept: bool) -> None:
    g = f"g ({x}) => (float[p,q] y, float[r,s] z)" + (f" <int64[2] n = {{{sizes[0]},{sizes[1]}}}>" if sizes else "")
    split = f"s, t = Split<axis=-1>(u{', n' if sizes else ''}) y = Relu(s) z = Relu(t)"
    before = f"{g} {{ u = Concat<axis=1>(a, b) {split} }}"
    if kept:
        stays(before, bypass_split_of_concat, runs=False)
    else:
        becomes(before, f"{g} {{ y = Relu(a) z = Relu(b) }}", bypass_split_of_concat)


@each(
    "body",
    [
        "u = Concat<axis=1>(a, b) y, z = Split<axis=1>(u)",
        "u = Concat<axis=1>(a, b) s, t = Split<axis=0>(u) y = Relu(s) z = Relu(t)",
        "u = Concat<axis=1>(a, b, a, b) s, t = Split<axis=1>(u) y = Relu(s) z = Relu(t)",
        "u = Concat<axis=1>(a, b) v = Neg(u) s, t = Split<axis=1>(v) y = Relu(s) z = Relu(t)",
    ],
)
def test_split_stays(body: str) -> None:
    stays(f"g (float[2,4] a, float[2,4] b) => (float[p,q] y, float[r,s] z) {{ {body} }}", bypass_split_of_concat)


def test_the_pass_has_all_rules() -> None:
    assert BYPASS_CONCATS.rules == (bypass_split_of_concat, bypass_slice_of_concat, bypass_gather_of_concat)


@given(start=st.integers(-7, 7), end=st.integers(-7, 7), step=st.sampled_from([1, 2, -1, -3]))
def test_any_slice(start: int, end: int, step: int) -> None:
    from rewriting import apply_passes, load, run, to_onnx

    text = piece("y = Slice(u, s, e, x, t)", s=[start], e=[end], x=[1], t=[step])
    feeds = {n: np.arange(2 * k, dtype=np.float32).reshape(2, k) + k for n, k in (("a", 2), ("b", 3), ("c", 1))}
    out = to_onnx(apply_passes(load(text), bypass_slice_of_concat)[0])
    np.testing.assert_array_equal(run(out, feeds)[0], run(load(text), feeds)[0])
