"""Merging of reductions, with each other and with reshapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import reduced_axes
from passwright.passes.movement.reduced_axes import keep_or_drop_reduced_axes, merge_extrema, merge_reductions
from rewriting import apply_passes, becomes, cases, load, stays

MERGE_REDUCTIONS = rule_pass(reduced_axes, "merge-reductions")

RULES = (merge_reductions, merge_extrema, keep_or_drop_reduced_axes)
C = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[2] both = {0,1}, int64[3] flat = {0,1,4}>"


def text(body: str, rank: int, x: str = "float[N,3,4] x", out: str = "float", constants: str = C) -> str:
    return f"g ({x}) => ({out}[{','.join('abcd'[:rank])}] y) {constants} {{ {body} }}"


@cases(
    ("before", "after", "rank"),
    {
        "both kept": ("u = ReduceSum(x, zero) y = ReduceSum(u, one)", "y = ReduceSum<keepdims=1>(x, both)", 3),
        "none kept": (
            "u = ReduceSum<keepdims=0>(x, one) y = ReduceSum<keepdims=0>(u, one)",
            "y = ReduceSum<keepdims=0>(x, both)",
            1,
        ),
        "means": (
            "s = Sigmoid(x) u = ReduceMean<axes=[0]>(s) y = ReduceMean<axes=[2]>(u)",
            "s = Sigmoid(x) y = ReduceMean<axes=[0,2], keepdims=1>(s)",
            3,
        ),
        "products": (
            "u = ReduceProd<axes=[0], keepdims=0>(x) y = ReduceProd<axes=[0], keepdims=0>(u)",
            "y = ReduceProd<axes=[0,1], keepdims=0>(x)",
            1,
        ),
        "all": ("u = ReduceSum(x) y = ReduceSum(u)", "y = ReduceSum<keepdims=1>(x, both)", 3),
        "the second takes away what the first kept": (
            "u = ReduceSum(x, zero) y = ReduceSum<keepdims=0>(u, both)",
            "y = ReduceSum<keepdims=0>(x, both)",
            1,
        ),
        "greatest": (
            "u = ReduceMax<axes=[0]>(x) y = ReduceMax<axes=[1]>(u)",
            "y = ReduceMax<axes=[0,1], keepdims=1>(x)",
            3,
        ),
        "least": (
            "u = ReduceMin<axes=[2]>(x) y = ReduceMin<axes=[1]>(u)",
            "y = ReduceMin<axes=[1,2], keepdims=1>(x)",
            3,
        ),
        "keeps what is put back": (
            "u = ReduceSum<keepdims=0>(x, one) y = Unsqueeze(u, one)",
            "y = ReduceSum<keepdims=1>(x, one)",
            3,
        ),
        "drops what is taken away": (
            "u = ReduceMean<axes=[0,1]>(x) y = Squeeze(u, both)",
            "y = ReduceMean<axes=[0,1], keepdims=0>(x)",
            1,
        ),
        "by a Flatten": ("u = ReduceL2<axes=[2]>(x) y = Flatten(u)", "y = ReduceL2<axes=[2], keepdims=0>(x)", 2),
        "a wrong Reshape stays wrong": (
            "u = ReduceSum<keepdims=0>(x, both) y = Reshape(u, flat)",
            "u = ReduceSum<keepdims=0>(x, both) y = Reshape(u, flat)",
            3,
        ),
        "other axes stay": (
            "u = ReduceLogSumExp<axes=[1,2], keepdims=0>(x) y = Unsqueeze(u, both)",
            "u = ReduceLogSumExp<axes=[1,2], keepdims=0>(x) y = Unsqueeze(u, both)",
            3,
        ),
    },
)
def test_becomes(before: str, after: str, rank: int) -> None:
    if before == after:
        stays(text(before, rank), *RULES, runs=False)
    else:
        becomes(text(before, rank), text(after, rank), *RULES)


@pytest.mark.parametrize(
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


def test_negative_axes() -> None:
    before = "u = ReduceMean<axes=[-2], keepdims=0>(x) y = Unsqueeze(u, one)"
    x = "float[2,3,4] x"
    becomes(text(before, 3, x), text("y = ReduceMean<axes=[1], keepdims=1>(x)", 3, x), *RULES)


def test_reshape_that_restores_reduced_axes() -> None:
    c = "<int64[1] one = {1}, int64[4] back = {0,1,1,3}>"
    before = "u = ReduceMean<axes=[1,2], keepdims=0>(x) y = Reshape(u, back)"
    x = "float[N,4,4,3] x"
    after = "y = ReduceMean<axes=[1,2], keepdims=1>(x)"
    becomes(text(before.replace("back", "back"), 4, x, constants=c.replace("0,1", "-1,1")), text(after, 4, x), *RULES)
    stays(text(before, 4, "float[N,4,4,M] x", constants=c), *RULES, runs=False)


def test_extrema_of_integers_are_exact() -> None:
    x = "int64[N,3,4] x"
    before = "u = ReduceMax<axes=[0]>(x) y = ReduceMax<axes=[1]>(u)"
    after = text("y = ReduceMax<axes=[0,1], keepdims=1>(x)", 3, x, "int64")
    becomes(text(before, 3, x, "int64"), after, merge_extrema)


def test_sums_of_integers_may_overflow() -> None:
    x = "int64[N,3,4] x"
    before = text("i = Cast<to=6>(x) s = Cast<to=7>(i) u = ReduceSum(s, zero) y = ReduceSum(u, one)", 3, x, "int64")
    after = text("i = Cast<to=6>(x) s = Cast<to=7>(i) y = ReduceSum<keepdims=1>(s, both)", 3, x, "int64")
    becomes(before, after, *RULES)
    assert not apply_passes(load(before), MERGE_REDUCTIONS, exact_only=True)[1].changes


@cases(
    ("body", "rank", "x"),
    {
        "alone": ("y = ReduceSum(x, one)", 3, "float[N,3,4] x"),
        "a negative axis of a possibly empty value": (
            "u = ReduceMean<axes=[-2], keepdims=0>(x) y = Unsqueeze(u, one)",
            3,
            "float[N,3,4] x",
        ),
        "different kinds": ("u = ReduceSum(x, one) y = ReduceMean<axes=[0]>(u)", 3, "float[N,3,4] x"),
        "norms": ("u = ReduceL1<axes=[0]>(x) y = ReduceL1<axes=[1]>(u)", 3, "float[N,3,4] x"),
        "only the first kept": ("u = ReduceSum(x, one) y = ReduceSum<keepdims=0>(u, zero)", 2, "float[N,3,4] x"),
        "only the second kept": ("u = ReduceSum<keepdims=0>(x, one) y = ReduceSum(u, zero)", 2, "float[N,3,4] x"),
        "read elsewhere": ("u = ReduceSum(x, one) v = ReduceSum(u, zero) y = Add(u, v)", 3, "float[N,3,4] x"),
        "the axes are computed": ("u = ReduceSum(x, one) y = ReduceSum(u, a)", 3, "float[N,3,4] x, int64[1] a"),
        "reduces nothing": ("u = ReduceSum<noop_with_empty_axes=1>(x) y = ReduceSum(u, zero)", 3, "float[N,3,4] x"),
        "put elsewhere": ("u = ReduceSum<keepdims=0>(x, one) y = Unsqueeze(u, zero)", 3, "float[N,3,4] x"),
        "more taken away": ("u = ReduceSum(x, one) y = Squeeze(u, both)", 1, "float[1,3,4] x"),
        "axes turn out": ("u = ReduceSum(x, one) y = Squeeze(u)", 2, "float[N,3,4] x"),
        "flattens more": ("u = ReduceSum(x, last) y = Flatten<axis=1>(u)", 2, "float[N,M,3,4] x"),
        "kept and read elsewhere": (
            (
                "u = ReduceSum(x, one) v = Squeeze(u, one) w = Unsqueeze(v, last) r = Transpose<perm=[0,2,1]>(w)"
                " y = Add(u, r)"
            ),
            3,
            "float[N,3,4] x",
        ),
    },
)
def test_stays(body: str, rank: int, x: str) -> None:
    stays(text(body, rank, x), *RULES, runs="computed" not in body)


def test_means_of_integers_stay() -> None:
    body = "u = ReduceMean<axes=[0]>(x) y = ReduceMean<axes=[1]>(u)"
    stays(text(body, 3, "int32[N,3,4] x", "int32"), *RULES)


@pytest.mark.parametrize(("opset", "axes"), [(11, "axes=[0],"), (13, ""), (18, ""), (20, "")])
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
