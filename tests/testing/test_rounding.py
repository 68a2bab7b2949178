"""Differences between models that are explained by rounding, and others that are not."""

import numpy as np
import pytest
from rewriting import load

from passwright import verify

X = np.array([[1.1, -0.3, 2.5], [0.7, 3.1, -2.2]], np.float32)
TIES = np.array([[1.5, -0.25, 2.5], [0.75, 3, -2.25]], np.float32)
HUGE = np.array([[4e9, 1.5, -4e9], [0.5, 0.25, 1]], np.float32)
HALVES = np.array([[1.1, -0.3, 2.5]], np.float16)
ROWS = "g (float[2,3] x) => (float[n,m] y)"
ADD_AND_SUBTRACT = "a = Add(x, c) y = Sub(a, c)"
SUM = "y = ReduceSum<keepdims=1>(x, last)"
PARTS = "p = Slice(x, zero, two, last) q = Slice(x, two, three, last) a = ReduceSum<keepdims=1>(p, last) y = Add(a, q)"
ENDS = "<int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3}, int64[1] last = {1}>"
WEIGHTS = (
    "w = Constant<value = float[3,2] {1.1, -0.3, 0.7, 0.9, 0.1, 0.2}>() c = Constant<value = float {0.5}>()"
    " b = Constant<value = float[2] {-0.95, -0.4}>()"
)
IN_A_BODY = (
    "b = Constant<value = bool {1}>() y = If (b) <then_branch = t () => (float[n,m] u) { THEN },"
    " else_branch = e () => (float[n,m] w) { w = Neg(x) }>"
)


@pytest.mark.parametrize(
    ("before", "after", "x", "is_explained"),
    [
        pytest.param(f"{ROWS} <float c = {{10000}}> {{ {ADD_AND_SUBTRACT} }}", f"{ROWS} {{ y = Identity(x) }}", X, True,
                     id="added and subtracted"),
        pytest.param(f"{ROWS} <float c = {{0.001}}> {{ {ADD_AND_SUBTRACT} }}",
                     f"{ROWS} <float d = {{1.001}}> {{ y = Mul(x, d) }}", X, False, id="larger difference"),
        pytest.param(f"{ROWS} <float d = {{1.0000001}}> {{ y = Mul(x, d) }}", f"{ROWS} {{ y = Identity(x) }}", X, True,
                     id="an ulp"),
        pytest.param(f"{ROWS} <float d = {{1.1}}> {{ c = Greater(x, d) y = Where(c, x, d) }}",
                     f"{ROWS} <float d = {{1.1}}> {{ y = Identity(x) }}", X, False, id="other side of a condition"),
        pytest.param(f"{ROWS} <float d = {{1.5}}> {{ c = Greater(x, d) y = Cast<to=1>(c) }}",
                     f"{ROWS} <float d = {{1.5}}> {{ c = Less(x, d) n = Not(c) y = Cast<to=1>(n) }}", TIES, False,
                     id="a jump at a tie"),
        pytest.param(f"{ROWS} {{ y = Sqrt(x) }}", f"{ROWS} {{ a = Abs(x) y = Sqrt(a) }}", X, False,
                     id="number instead of NaN"),
        pytest.param(f"{ROWS} {{ y = Relu(x) }}", f"{ROWS} {{ y = Sqrt(x) }}", X, False,
                     id="NaN instead of number"),
        pytest.param(f"{ROWS} <float c = {{10000}}> {{ {IN_A_BODY.replace('THEN', 'v = Add(x, c) u = Sub(v, c)')} }}",
                     f"{ROWS} <float c = {{10000}}> {{ {IN_A_BODY.replace('THEN', 'u = Identity(x)')} }}", X, True,
                     id="in a body"),
        pytest.param(f"{ROWS} {{ {WEIGHTS} s = Sub(x, c) y = MatMul(s, w) }}",
                     f"{ROWS} {{ {WEIGHTS} y = Gemm(x, w, b) }}",
                     np.full((2, 3), 0.5, np.float32), True, id="a constant that cancels its inputs"),
        pytest.param("g (float16[1,3] x) => (float16[n,m] y) <float16 c = {23728}> { a = Add(x, c) y = Sub(a, c) }",
                     "g (float16[1,3] x) => (float16[n,m] y) { y = Identity(x) }", HALVES, True, id="halves"),
        pytest.param(f"{ROWS} {{ i = Cast<to=6>(x) y = Cast<to=1>(i) }}", f"{ROWS} {{ y = Floor(x) }}", X, False,
                     id="other rounding mode"),
    ],
)  # fmt: skip
def test_differences_explained_by_rounding(before: str, after: str, x: np.ndarray, is_explained: bool) -> None:
    assert verify(load(before), load(after), inputs={"x": x}).agrees is is_explained


def test_sums_in_another_order() -> None:
    wanted, got, wrong = (
        load(f"g (float[2,3] x) => (float[2,1] y) {ENDS} {{ {body} }}")
        for body in (SUM, PARTS, "y = ReduceMax<axes=[1]>(x)")
    )
    assert verify(wanted, got, inputs={"x": HUGE}).agrees
    assert not verify(wanted, wrong, inputs={"x": HUGE}).agrees


def test_sums_of_large_numbers_that_cancel_are_rounded_in_any_order() -> None:
    head = "g (float[1,1,1,6] x) => (float[1,1] y)"
    before = load(f"{head} {{ y = ReduceMean<axes=[2,3], keepdims=0>(x) }}")
    after = load(f"{head} {{ p = GlobalAveragePool(x) y = Flatten(p) }}")
    x = np.array([-0.59326702, -1.1274865, 2.0**32, -0.67550302, 0.72516114, -(2.0**32)], np.float32)
    feeds = {"x": x.reshape(1, 1, 1, 6)}
    assert verify(before, after, inputs=feeds).agrees
