"""Inputs on both sides of the limits of comparisons, found along rays."""

from typing import Any

import numpy as np
from passwright.core.verify.comparison_crossings import CROSSINGS
from passwright.core.verify.oracle import Oracle
from rewriting import cases, load, oracle_of

WEIGHTS = {
    "last": np.array([-1]),
    "c": np.float32(100),
    "k": np.int64(3 * 431 + 13),
    "n": np.int64(3),
    "b": np.int64(13),
}


def crossings(before: str, after: str, opset: int = 17) -> tuple[Oracle, list[Any]]:
    oracle = oracle_of(load(before, opset, WEIGHTS))
    oracle.add_runs_near(load(after, opset, WEIGHTS).SerializeToString())
    return oracle, [r for r in oracle.runs if r.input_set.kind == CROSSINGS]


def test_a_sum_of_squares_is_on_both_sides_of_its_limit() -> None:
    head = "g (float[N,4] x) => (y) { q = Mul(x, x) s = ReduceSum(q, last)"
    _, runs = crossings(f"{head} y = Less(s, c) }}", f"{head} y = Not(x) }}")
    sums = np.concatenate([np.square(r.input_set.feeds["x"]).sum(axis=1) for r in runs])
    assert ((sums > 99.9) & (sums < 100)).any()
    assert ((sums > 100) & (sums < 100.1)).any()
    assert not (abs(sums - 100) < 1e-4).any()  # rounding alone changes no result


@cases(
    "head",
    {
        "constant": "g (int64[N] i) => (bool[N] y) { m = Mul(i, n) a = Add(m, b) y = Equal(a, k) }",
        "other input": "g (int64[N] i, int64[N] j) => (bool[N] y) { m = Mul(i, n) a = Add(m, b) y = Equal(a, j) }",
        "elements of one input": "g (int64[1,N] i) => (bool[N,N] y) { t = Transpose(i) y = Equal(t, i) }",
    },
)
def test_integers_become_equal(head: str) -> None:
    _, runs = crossings(head, head.replace("Equal", "Greater"))
    assert any(r.outputs["y"].any() for r in runs)


def test_values_behind_arithmetic_meet_numbers_of_a_list() -> None:
    encoder = "LabelEncoder<keys_int64s = [16, 1306, 3013], values_floats = [1.0, %s, 3.0], default_float = 0.0>"
    text = f"g (int64[N,3] x) => (y) {{ m = Mul(x, n) a = Add(m, b) y = ai.onnx.ml.{encoder}(a) }}"
    models = [load(text % value, 17, WEIGHTS, {"ai.onnx.ml": 2}) for value in ("2.0", "5.0")]
    oracle = oracle_of(models[0])
    oracle.add_runs_near(models[1].SerializeToString())
    found = [np.mean(r.outputs["y"] == 2) for r in oracle.runs if r.input_set.sizes["N"] == 1024]
    assert max(found) > 0.1


def test_comparisons_of_extents_have_no_rays() -> None:
    text = "g (float[N,4] x) => (y) { s = Size(x) y = Less(s, b) }"
    assert not crossings(text, text.replace("Less", "Greater"))[1]


def test_what_did_not_change_has_no_rays() -> None:
    text = "g (float[N,4] x) => (bool[N,4] y, z) { y = Less(x, c) z = Exp(x) }"
    assert not crossings(text, text.replace("Exp", "Abs"))[1]


@cases(
    "end",
    {
        "selection": "e = Exp(x) y = Where(d, e, x)",
        "branch": "y = If(d) <then_branch = t () => (p) { p = Exp(x) }, else_branch = e () => (q) { q = Neg(x) }>",
    },
)
def test_limits_of_conditions_that_guard_a_change(end: str) -> None:
    text = f"g (float[4] x) => (float[4] y) {{ q = Mul(x, x) s = ReduceSum<keepdims=0>(q) d = Less(s, c) {end} }}"
    _, runs = crossings(text, text.replace("Exp", "Abs"))
    sums = np.array([np.square(r.input_set.feeds["x"]).sum() for r in runs])
    assert ((sums > 99) & (sums < 100)).any()
