"""Merging of reductions, with each other and with reshapes."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import reduced_axes
from passwright.passes.movement.reduced_axes import keep_or_drop_reduced_axes, merge_extrema, merge_reductions
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load

MERGE_REDUCTIONS = rule_pass(reduced_axes, "merge-reductions")

RULES = (merge_reductions, merge_extrema, keep_or_drop_reduced_axes)
C = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[2] both = {0,1}, int64[3] flat = {0,1,4}>"


def text(body: str, rank: int, x: str = "float[N,3,4] x", out: str = "float", constants: str = C) -> str:
    return f"g ({x}) => ({out}[{','.join('abcd'[:rank])}] y) {constants} {{ {body} }}"


reductions = Rewrites("g (float[{x}] x) => (float[] y)", *RULES, x="N,3,4")

test_becomes = reductions.all_become("""
    both kept: u = ReduceSum(x, [0]) y = ReduceSum(u, [1]) => y = ReduceSum<keepdims=1>(x, both)
    none kept: u = ReduceSum<keepdims=0>(x, [1]) y = ReduceSum<keepdims=0>(u, [1]) => y = ReduceSum<keepdims=0>(x, both)
    means: s = Sigmoid(x) u = ReduceMean<axes=[0]>(s) y = ReduceMean<axes=[2]>(u)
        => s = Sigmoid(x) y = ReduceMean<axes=[0,2], keepdims=1>(s)
    products: u = ReduceProd<axes=[0], keepdims=0>(x) y = ReduceProd<axes=[0], keepdims=0>(u)
        => y = ReduceProd<axes=[0,1], keepdims=0>(x)
    all: u = ReduceSum(x) y = ReduceSum(u) => y = ReduceSum<keepdims=1>(x, both)
    the second takes away what the first kept: u = ReduceSum(x, [0]) y = ReduceSum<keepdims=0>(u, [0,1])
        => y = ReduceSum<keepdims=0>(x, both)
    greatest: u = ReduceMax<axes=[0]>(x) y = ReduceMax<axes=[1]>(u) => y = ReduceMax<axes=[0,1], keepdims=1>(x)
    least: u = ReduceMin<axes=[2]>(x) y = ReduceMin<axes=[1]>(u) => y = ReduceMin<axes=[1,2], keepdims=1>(x)
    keeps what is put back: u = ReduceSum<keepdims=0>(x, [1]) y = Unsqueeze(u, [1]) => y = ReduceSum<keepdims=1>(x, one)
    drops what is taken away: u = ReduceMean<axes=[0,1]>(x) y = Squeeze(u, [0,1])
        => y = ReduceMean<axes=[0,1], keepdims=0>(x)
    by a Flatten: u = ReduceL2<axes=[2]>(x) y = Flatten(u) => y = ReduceL2<axes=[2], keepdims=0>(x)
    negative axes [x=2,3,4]: u = ReduceMean<axes=[-2], keepdims=0>(x) y = Unsqueeze(u, [1])
        => y = ReduceMean<axes=[1], keepdims=1>(x)
    reshape that restores reduced axes [x=N,4,4,3]: u = ReduceMean<axes=[1,2], keepdims=0>(x) y = Reshape(u, [-1,1,1,3])
        => y = ReduceMean<axes=[1,2], keepdims=1>(x)
""")
test_becomes_stays = reductions.using(runs=False).all_stay("""
    a wrong Reshape stays wrong: u = ReduceSum<keepdims=0>(x, [0,1]) y = Reshape(u, [0,1,4])
    other axes stay: u = ReduceLogSumExp<axes=[1,2], keepdims=0>(x) y = Unsqueeze(u, [0,1])
    reshape that restores reduced axes [x=N,4,4,M]: u = ReduceMean<axes=[1,2], keepdims=0>(x) y = Reshape(u, [0,1,1,3])
    means of integers stay [dtype=int32; runs]: u = ReduceMean<axes=[0]>(x) y = ReduceMean<axes=[1]>(u)
""")


@each(
    ("before", "after", "rank"),
    [
        ("u = ArgMax<axis=1, keepdims=0>(x) y = Unsqueeze(u, one)", "y = ArgMax<axis=1, keepdims=1>(x)", 3),
        ("u = ArgMin<axis=-1>(x) y = Squeeze(u, last)", "y = ArgMin<axis=-1, keepdims=0>(x)", 2),
        (
            "u = ArgMax<axis=0, keepdims=0, select_last_index=1>(x) y = Unsqueeze(u, zero)",
            "y = ArgMax<axis=0, keepdims=1, select_last_index=1>(x)",
            3,
        ),
    ],
)
def test_indices(before: str, after: str, rank: int) -> None:
    becomes(text(before, rank, out="int64"), text(after, rank, out="int64"), *RULES)


test_becomes_extrema_of_integers_are_exact = reductions.using(merge_extrema).all_become("""
    extrema of integers are exact [dtype=int64]: u = ReduceMax<axes=[0]>(x) y = ReduceMax<axes=[1]>(u)
        => y = ReduceMax<axes=[0,1], keepdims=1>(x)
""")


def test_sums_of_integers_may_overflow() -> None:
    x = "int64[N,3,4] x"
    before = text("i = Cast<to=6>(x) s = Cast<to=7>(i) u = ReduceSum(s, zero) y = ReduceSum(u, one)", 3, x, "int64")
    after = text("i = Cast<to=6>(x) s = Cast<to=7>(i) y = ReduceSum<keepdims=1>(s, both)", 3, x, "int64")
    becomes(before, after, *RULES)
    assert not apply_passes(load(before), MERGE_REDUCTIONS, exact_only=True)[1].changes


test_stays = reductions.all_stay("""
    alone: y = ReduceSum(x, [1])
    a negative axis of a possibly empty value: u = ReduceMean<axes=[-2], keepdims=0>(x) y = Unsqueeze(u, [1])
    different kinds: u = ReduceSum(x, [1]) y = ReduceMean<axes=[0]>(u)
    norms: u = ReduceL1<axes=[0]>(x) y = ReduceL1<axes=[1]>(u)
    only the first kept: u = ReduceSum(x, [1]) y = ReduceSum<keepdims=0>(u, [0])
    only the second kept: u = ReduceSum<keepdims=0>(x, [1]) y = ReduceSum(u, [0])
    read elsewhere: u = ReduceSum(x, [1]) v = ReduceSum(u, [0]) y = Add(u, v)
    the axes are computed [graph=g (float[N,3,4] x, int64[1] a) => (float[a,b,c] y)]:
        u = ReduceSum(x, [1]) y = ReduceSum(u, a)
    reduces nothing: u = ReduceSum<noop_with_empty_axes=1>(x) y = ReduceSum(u, [0])
    put elsewhere: u = ReduceSum<keepdims=0>(x, [1]) y = Unsqueeze(u, [0])
    more taken away [x=1,3,4]: u = ReduceSum(x, [1]) y = Squeeze(u, [0,1])
    axes turn out [graph=g (float[N,3,4] x) => (float[a,b] y)]: u = ReduceSum(x, [1]) y = Squeeze(u)
    flattens more [x=N,M,3,4]: u = ReduceSum(x, [-1]) y = Flatten<axis=1>(u)
    kept and read elsewhere: u = ReduceSum(x, [1]) v = Squeeze(u, [1]) w = Unsqueeze(v, [-1])
        r = Transpose<perm=[0,2,1]>(w) y = Add(u, r)
""")


@each(("opset", "axes"), [(11, "axes=[0],"), (13, ""), (18, ""), (20, "")])
def test_every_opset(opset: int, axes: str) -> None:
    name = "ReduceSum" if opset < 18 else "ReduceMax"
    given_ = "(x)" if axes else "(x, zero)"
    back = "Unsqueeze<axes=[0]>(u)" if opset < 13 else "Unsqueeze(u, zero)"
    constants = "" if axes else C
    before = f"u = {name}<{axes} keepdims=0>{given_} y = {back}"
    after = f"y = {name}<{axes} keepdims=1>{given_}"
    becomes(text(before, 3, constants=constants), text(after, 3, constants=constants), *RULES, opset=opset)


def test_the_pass_has_all_rules() -> None:
    assert MERGE_REDUCTIONS.rules == RULES


@given(
    first=st.sets(st.integers(0, 3), min_size=1, max_size=2),
    second=st.sets(st.integers(0, 1), min_size=1, max_size=1),
    keeps=st.booleans(),
)
def test_any_axes(first: set[int], second: set[int], *, keeps: bool) -> None:
    left = list(range(4)) if keeps else [i for i in range(4) if i not in first]
    both = sorted({*first, *(left[i] for i in second)})
    k, x = int(keeps), "float[2,N,3,2] x"
    before = (
        f"s = Sigmoid(x) u = ReduceMean<axes={sorted(first)}, keepdims={k}>(s)"
        f" y = ReduceMean<axes={sorted(second)}, keepdims={k}>(u)"
    )
    rank = 4 if keeps else 4 - len(both)
    becomes(
        text(before, rank, x), text(f"s = Sigmoid(x) y = ReduceMean<axes={both}, keepdims={k}>(s)", rank, x), *RULES
    )
