"""Concats of Concats, Splits and Slices."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import concats
from passwright.passes.movement.concats import cancel_slices_concat, cancel_split_concat, merge_concats
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

CANCEL_CONCATS = rule_pass(concats, "cancel-concats")

RULES = (merge_concats, cancel_split_concat, cancel_slices_concat)
END = 2**31 - 1
G = "g (float[N,M] a, float[N,M] b, float[N,M] c) => (float[p,q] y)"

rewrites = Rewrites(
    "g ({x}) => (float[] y)",
    *RULES,
    weights={"e0": [2], "a0": [1], "s1": [2], "a1": [1]},
    x="float[N,M] a, float[N,M] b, float[N,M] c",
)
join_split = rewrites.using(x="float[N,6] x, float[N,2] z")

test_nested = rewrites.all_become("""
    the first input: u = Concat<axis=1>(a, b) y = Concat<axis=1>(u, c) => y = Concat<axis=1>(a, b, c)
    the last input: u = Concat<axis=1>(a, b) y = Concat<axis=1>(c, u) => y = Concat<axis=1>(c, a, b)
    a negative axis, in the middle: u = Concat<axis=-1>(a, b) y = Concat<axis=1>(c, u, c)
        => y = Concat<axis=1>(c, a, b, c)
    a tree: u = Concat<axis=0>(a, b) v = Concat<axis=0>(b, c) w = Concat<axis=0>(u, a, v) y = Concat<axis=0>(w, c)
        => y = Concat<axis=0>(a, b, a, b, c, c)
    one after another: u = Concat<axis=0>(a, b) v = Concat<axis=0>(u, c) r = Relu(v) w = Concat<axis=0>(r, c) y = Neg(w)
        => v = Concat<axis=0>(a, b, c) r = Relu(v) w = Concat<axis=0>(r, c) y = Neg(w)
    the same: u = Concat<axis=0>(a, a) y = Concat<axis=0>(u, a) => y = Concat<axis=0>(a, a, a)
    inside an if body but not across [x=bool k, float[2,3] a]: u = Concat<axis=0>(a, a)
        y = If(k) <then_branch = p () => (float[n,m] r) { v = Concat<axis=0>(u, a) r = Concat<axis=0>(v, a) },
        else_branch = q () => (float[n,m] s) { s = Neg(u) }> => u = Concat<axis=0>(a, a)
        y = If(k) <then_branch = p () => (float[n,m] r) { r = Concat<axis=0>(u, a, a) },
        else_branch = q () => (float[n,m] s) { s = Neg(u) }>
""")

test_nested_stays = rewrites.all_stay("""
    alone: y = Concat<axis=1>(a, b, c)
    another axis: u = Concat<axis=0>(a, b) y = Concat<axis=1>(u, u)
    twice: u = Concat<axis=0>(a, b) y = Concat<axis=0>(u, u)
    read elsewhere: u = Concat<axis=0>(a, b) v = Relu(u) y = Concat<axis=0>(u, v)
    apart: u = Concat<axis=0>(a, b) v = Relu(u) y = Concat<axis=0>(v, c)
    other: u = SequenceConstruct(a, b) v = ConcatFromSequence<axis=0>(u) y = Concat<axis=0>(v, c)
    the inner one is an output [graph=g (float[N,M] a, float[N,M] b) => (float[p,q] u, float[] y)]:
        u = Concat<axis=0>(a, b) y = Concat<axis=0>(u, a)
    slices in another order or of another value [x=float[N,6] x]:
        v0 = Slice(x, [0], e0, a0) v1 = Slice(x, s1, [6], a1) c = Concat<axis=1>(v1, v0) y = Neg(c)
    slices in another order or of another value, 2 [x=float[N,6] x]:
        v0 = Slice(x, [0], e0, a0) v1 = Slice(x, s1, [6], a1) c = Concat<axis=1>(v0, v1, x) y = Neg(c)
""")


def test_deep_chain_merges() -> None:
    lines = ["v0 = Concat<axis=0>(a, b)", *(f"v{i + 1} = Concat<axis=0>(v{i}, c)" for i in range(300)), "y = Neg(v300)"]
    after = f"u = Concat<axis=0>(a, b{', c' * 300}) y = Neg(u)"
    becomes(f"{G} {{ {' '.join(lines)} }}", f"{G} {{ {after} }}", *RULES)


H = "g (float[N,6] x, float[N,2] z) => (float[p,q] y)"

test_join_split = join_split.all_become("""
    halves: s, t = Split<axis=1>(x) y = Concat<axis=1>(s, t) => y = Identity(x)
    a negative axis: s, t = Split<axis=1>(x) y = Concat<axis=-1>(s, t) => y = Identity(x)
    different sizes: s, t, u = Split<axis=1>(x, [1,2,3]) y = Concat<axis=1>(s, t, u) => y = Identity(x)
    among others: s, t = Split<axis=1>(x) y = Concat<axis=1>(z, s, t, z) => y = Concat<axis=1>(z, x, z)
    inside: s, t = Split<axis=1>(x) c = Concat<axis=1>(s, t) y = Add(c, x) => y = Add(x, x)
""")

test_join_split_stays = join_split.all_stay("""
    in another order: s, t = Split<axis=1>(x) y = Concat<axis=1>(t, s)
    another axis: s, t = Split<axis=1>(x) y = Concat<axis=0>(s, t)
    not all: s, t, u = Split<axis=1>(x) y = Concat<axis=1>(s, t)
    something in between: s, t = Split<axis=1>(x) y = Concat<axis=1>(s, z, t)
    apart: s, t = Split<axis=1>(x) r = Relu(t) y = Concat<axis=1>(s, r)
""")


def slices(x: str, *cuts: tuple[int, ...], order: str = "") -> str:
    constants, ops, names = [], [], []
    for i, c in enumerate(cuts):
        constants += [f"int64[1] {n}{i} = {{{v}}}" for n, v in zip("seat", c, strict=False)]
        steps = f", t{i}" if len(c) == 4 else ""
        ops.append(f"v{i} = Slice(x, s{i}, e{i}, a{i}{steps})")
        names.append(f"v{i}")
    joined = order or ", ".join(names)
    return (
        f"g (float[{x}] x) => (float[p,q] y) <{', '.join(constants)}>"
        f" {{ {' '.join(ops)} c = Concat<axis=1>({joined}) y = Neg(c) }}"
    )


@each(
    ("x", "cuts"),
    [
        ("N,6", [(0, 2, 1), (2, 6, 1)]),
        ("N,6", [(0, 2, 1), (2, 3, 1), (3, END, -1)]),
        ("N,6", [(0, -2, 1), (-2, 9, 1)]),
        ("N,6", [(0, -2, 1), (4, 9, -1, 1)]),
        ("N,M", [(0, 2, 1), (2, END, 1)]),
        ("N,M", [(0, 2, 1), (2, 4, 1), (4, END, 1)]),
        ("N,M", [(0, -2, 1), (-2, END, 1)]),
    ],
)
def test_join_slices(x: str, cuts: list[tuple[int, ...]]) -> None:
    becomes(slices(x, *cuts), f"g (float[{x}] x) => (float[p,q] y) {{ y = Neg(x) }}", *RULES)


@each(
    ("x", "cuts"),
    [
        ("N,6", [(0, 2, 1), (3, 6, 1)]),
        ("N,6", [(0, 2, 1), (2, 5, 1)]),
        ("N,6", [(1, 2, 1), (2, 6, 1)]),
        ("N,6", [(0, 2, 0), (2, 6, 0)]),
        ("N,6", [(0, 4, 1), (4, 2, 1), (2, 6, 1)]),
        ("N,6", [(0, 6, 1, 2), (1, 6, 1, 2)]),
        ("N,M", [(0, 2, 1), (2, 6, 1)]),
        ("N,M", [(0, 2, 1), (2, -2, 1), (-2, END, 1)]),
        ("N,M", [(0, -2, 1), (2, END, 1)]),
    ],
)
def test_join_slices_stays(x: str, cuts: list[tuple[int, ...]]) -> None:
    stays(slices(x, *cuts), *RULES, runs=cuts[0][2] == 1)  # onnxruntime joins mismatched shapes if one is empty


@each("opset", [7, 9, 11, 13, 18, 25])
def test_every_opset(opset: int) -> None:
    count = ", num_outputs=2" if opset >= 18 else ""
    before = (
        f"u = Concat<axis=1>(x, z) s, t = Split<axis=1{count}>(u) v = Concat<axis=1>(s, t) y = Concat<axis=1>(v, z)"
    )
    becomes(f"{H} {{ {before} }}", f"{H} {{ y = Concat<axis=1>(x, z, z) }}", *RULES, merge_concats, opset=opset)


def test_the_pass_has_both_rules() -> None:
    assert CANCEL_CONCATS.rules == (cancel_split_concat, cancel_slices_concat)


@given(inner=st.sets(st.integers(1, 6), min_size=1, max_size=4), negative=st.booleans())
def test_any_tiling_slices(inner: set[int], *, negative: bool) -> None:
    bounds = [0, *sorted(inner), 7]
    cuts = [(a - 7 if negative and a else a, b - 7 if negative and b < 7 else b, 1) for a, b in pairwise(bounds)]
    becomes(slices("N,7", *cuts), "g (float[N,7] x) => (float[p,q] y) { y = Neg(x) }", *RULES)
