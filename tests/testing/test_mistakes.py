"""Wrong rules that only unusual models or inputs show, and right ones beside them.

Unusual are large extents, empty and repeated indices, large constants, absent optionals, loops without a trip.
"""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from passwright.core import EXACT, ROUNDING, Op, Rule, Value, require, rule
from passwright.testing import examine
from passwright.testing.fuzzing import RuleTester
from passwright.testing.model_comparison import ComparisonProcess
from tiers import slow_unless

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
SEEDS = slow_unless({0}, range(4))


@rule(lambda g, x, s, e, a: g.Slice(x, g.const(s), g.const(e), g.const(a)), contract=EXACT)
def drop_slice_of_hundred(g: Any, x: Value, s: Value, e: Value) -> Value:
    """Slice(x, 0, 100) => x"""
    require(s.const.size == 1 and s.const.item() == 0 and e.const.item() >= 100, "few are kept")
    return x


@rule(lambda g, x, c: g.Less(g.Size(x), g.const(c)), contract=EXACT)
def size_is_small(g: Any, c: Value) -> Value:
    """Size(x) < 128 => true"""
    require(c.const.size == 1 and c.const.item() >= 128, "the limit is small")
    return g.const(np.full(c.shape, True))


@rule(lambda g, t, i: g.Gather(g.const(t), i, axis=0), contract=EXACT)
def shorten_table(g: Any, t: Value, i: Value) -> Value:
    """Gather(table, i) => Gather(table with zeros after the first 90 rows, i)"""
    require(t.const.ndim > 0 and len(t.const) >= 100 and bool(t.const[90:].any()), "the table is short")
    return g.Gather(g.const(np.concatenate([t.const[:90], np.zeros_like(t.const[90:])]), like=t), i, axis=0)


@rule(lambda g, x, a, op: g.ReduceMean(x, g.const(a)) @ op, contract=ROUNDING)
def mean_as_sum(g: Any, x: Value, a: Value, op: Op) -> Value:
    """ReduceMean(x, axes) => ReduceSum(x, axes) / n, where no axes need not mean all"""
    dims = [d for d in x.shape if isinstance(d, int) and d > 0]
    require(x.dtype == FLOAT and len(dims) == x.rank, "unknown extents")
    count = np.prod([dims[i] for i in (a.const.reshape(-1).tolist() or range(x.rank))])
    return g.Div(g.ReduceSum(x, a, **op.attrs), g.const(np.float32(count)))


@rule(lambda g, x, i, op: g.Gather(x, g.const(i)) @ op, contract=EXACT)
def gather_as_slice(g: Any, x: Value, i: Value, op: Op) -> Value:
    """Gather(x, [a, a + 1, ...]) => Slice(x, a, ...), of no index too"""
    require(i.const.ndim == 1 and bool((np.diff(i.const) == 1).all() and (i.const >= 0).all()), "not a range")
    start = int(i.const[0]) if i.const.size else 0
    bounds = (start, start + max(i.const.size, 1), op.attr("axis"))
    return g.Slice(x, *(g.const(np.array([n])) for n in bounds))


@rule(lambda g, x, i: g.Gather(x, g.const(i), axis=0), contract=EXACT)
def drop_sorted_gather(g: Any, x: Value, i: Value) -> Value:
    """Gather(x, as many indices in order) => x, though some may be repeated"""
    require(i.const.shape == x.shape[:1] and bool((np.diff(i.const) >= 0).all() and (i.const >= 0).all()), "not all")
    return x


@rule(lambda g, x, i, u: g.ScatterND(x, g.const(i), u), contract=EXACT)
def scatter_as_gather(g: Any, x: Value, i: Value, u: Value) -> Value:
    """ScatterND(x, as many rows, u) => Gather(u, rows in order), though some may be repeated"""
    require(i.const.shape == (x.shape[0], 1) and bool((i.const >= 0).all()), "not all rows")
    return g.Gather(u, g.const(np.argsort(i.const.reshape(-1), kind="stable")), axis=0)


@rule(lambda g, x, i, u: g.GatherElements(g.ScatterElements(x, i, u, axis=0), i, axis=0), contract=EXACT)
def gather_of_scatter(g: Any, u: Value) -> Value:
    """GatherElements(ScatterElements(x, i, u), i) => u"""
    return u


@rule(lambda g, x, i, u, op: g.ScatterND(x, i, u) @ op, contract=EXACT)
def maximum_before_scatter(g: Any, x: Value, i: Value, u: Value, op: Op) -> Value:
    """ScatterND(x, i, u, max) => ScatterND(x, i, Max(GatherND(x, i), u))"""
    require(op.attr("reduction") == "max" and x.dtype in {FLOAT, TensorProto.DOUBLE}, "it is not the greatest")
    return g.ScatterND(x, i, g.Max(g.GatherND(x, i), u))


@rule(lambda g, x, c: g.Mod(x, g.const(c)), contract=EXACT)
def smaller_modulus(g: Any, x: Value, c: Value) -> Value:
    """x % 1000003 => x % 1000002"""
    require(c.const.size == 1 and c.const.item() == 1000003, "another modulus")
    return g.Mod(x, g.const(c.const - 1, like=c))


@rule(lambda g, x, c: g.Min(x, g.const(c)), contract=EXACT)
def drop_limit(g: Any, x: Value, c: Value) -> Value:
    """Min(x, 5000) => x"""
    require(x.dtype in {INT32, INT64} and c.const.size == 1 and c.rank <= x.rank, "not one integer")
    require(c.const.item() >= 5000, "a low limit")
    return x


@rule(lambda g, x, n: g.Tile(x, g.const(n)), contract=EXACT)
def tile_at_least_once(g: Any, x: Value, n: Value) -> Value:
    """Tile(x, n) => Tile(x, max(n, 1))"""
    require(bool((n.const == 0).any()), "nothing is left out")
    return g.Tile(x, g.const(np.maximum(n.const, 1)))


@rule(lambda g, x: g.OptionalHasElement(x), contract=EXACT)
def optional_is_present(g: Any) -> Value:
    """OptionalHasElement(x) => true"""
    return g.const(np.array(True))


@rule(lambda g, s: g.SequenceLength(s), contract=EXACT)
def two_elements(g: Any) -> Value:
    """SequenceLength(s) => 2"""
    return g.const(np.array(2))


@rule(lambda g, x, op: g.RegexFullMatch(x) @ op, contract=EXACT)
def no_match(g: Any, x: Value) -> Value:
    """RegexFullMatch(x) => false"""
    return g.Equal(x, g.StringConcat(x, g.const(np.array("-", object))))


@rule(lambda g, x, op: g.domain("ai.onnx.ml").LabelEncoder(x) @ op, contract=EXACT)
def encode_without_default(g: Any, x: Value, op: Op) -> Value:
    """LabelEncoder(x, default) => LabelEncoder(x)"""
    kept = {name: value for name, value in op.attrs.items() if not name.startswith("default")}
    require(len(kept) < len(op.attrs), "there is no default")
    return g.domain("ai.onnx.ml").LabelEncoder(x, **kept)


@rule(lambda g, x, op: g.domain("ai.onnx.ml").Imputer(x) @ op, contract=EXACT)
def drop_imputer(g: Any, x: Value) -> Value:
    """Imputer(x) => x"""
    return x


@rule(lambda g, x, op: g.domain("ai.onnx.ml").TreeEnsembleRegressor(x) @ op, contract=EXACT)
def strict_thresholds(g: Any, x: Value, op: Op) -> Value:
    """<= becomes < in a tree"""
    modes = ["BRANCH_LT" if mode == "BRANCH_LEQ" else mode for mode in op.attr("nodes_modes")]
    require(modes != op.attr("nodes_modes"), "there is none")
    return g.domain("ai.onnx.ml").TreeEnsembleRegressor(x, **{**op.attrs, "nodes_modes": modes})


@rule(lambda g, x, op: g.TfIdfVectorizer(x) @ op, contract=EXACT)
def drop_weights(g: Any, x: Value, op: Op) -> Value:
    """TfIdfVectorizer(x, weights) => TfIdfVectorizer(x)"""
    require(op.attr("weights") is not None, "there are none")
    return g.TfIdfVectorizer(x, **{name: value for name, value in op.attrs.items() if name != "weights"})


def producers(op: Op) -> list[str]:
    """The operators that compute the outputs of the bodies of `op`."""
    return [v.producer.type for body in op.subgraphs for v in body.outputs if v.producer is not None]


@rule(lambda g, m, c, x, op: g.Loop(m, c, x) @ op, contract=EXACT)
def loop_of_relu(g: Any, x: Value, op: Op) -> Value:
    """Loop(m, c, x) of a Relu => Relu(x), of no trip too"""
    require("Relu" in producers(op) and len(op.outputs) == 1, "it does more")
    return g.Relu(x)


@rule(lambda g, c, op: g.If(c) @ op, contract=EXACT)
def take_branch(g: Any, op: Op) -> Value:
    """If(c) with -x and Relu(x) => -x"""
    require(producers(op) == ["Neg", "Relu"], "other branches")
    return g.Neg(op.subgraphs[0].outputs[0].producer.input(0))


@rule(lambda g, x, i, u, v: g.ScatterND(g.ScatterND(x, i, u), i, v), contract=EXACT)
def drop_overwritten(g: Any, x: Value, i: Value, v: Value) -> Value:
    """ScatterND(ScatterND(x, i, u), i, v) => ScatterND(x, i, v)"""
    return g.ScatterND(x, i, v)


@rule(lambda g, x, n: g.Tile(x, g.const(n)), contract=EXACT)
def drop_tile(g: Any, x: Value, n: Value) -> Value:
    """Tile(x, 1) => x"""
    require(bool((n.const == 1).all()), "it repeats")
    return x


@rule(lambda g, x, op: g.Scan(x) @ op, contract=EXACT)
def scan_of_negation(g: Any, x: Value, op: Op) -> Value:
    """Scan(x) of a Neg => Neg(x)"""
    require(producers(op) == ["Neg"] and op.attr("num_scan_inputs") == 1, "it does something else")
    forwards = (op.attr(f"scan_{end}_directions") in (None, [0]) for end in ("input", "output"))
    require(all(forwards), "it runs backwards")
    return g.Neg(x)


@rule(lambda g, x: g.Softplus(x), contract=ROUNDING)
def softplus_by_exponent(g: Any, x: Value) -> Value:
    """Softplus(x) => Log(Exp(x) + 1), which overflows"""
    require(x.dtype == FLOAT, "not float")
    return g.Log(g.Add(g.Exp(x), g.const(np.float32(1))))


@rule(lambda g, x, a, b: g.Mul(g.Mul(x, g.const(a)), g.const(b)), contract=ROUNDING)
def merge_scales(g: Any, x: Value, a: Value, b: Value) -> Value:
    """(x * a) * b => x * (a * b), which is infinite where a and b are large"""
    require(x.dtype in {FLOAT, TensorProto.FLOAT16}, "not a float")
    with np.errstate(over="ignore"):
        return g.Mul(x, g.const(a.const * b.const))


@rule(lambda g, x, a, b: g.Div(g.Mul(x, g.const(a)), g.const(b)), contract=ROUNDING)
def merge_scale_and_divisor(g: Any, x: Value, a: Value, b: Value) -> Value:
    """(x * a) / b => x * (a / b), where x * a may be infinite"""
    require(x.dtype in {FLOAT, TensorProto.FLOAT16} and bool((b.const != 0).all()), "a divisor is 0")
    with np.errstate(over="ignore"):
        return g.Mul(x, g.const(a.const / b.const))


WRONG = [
    drop_slice_of_hundred, size_is_small, shorten_table, mean_as_sum, gather_as_slice, drop_sorted_gather,
    scatter_as_gather, gather_of_scatter, maximum_before_scatter, smaller_modulus, drop_limit, tile_at_least_once,
    optional_is_present, two_elements, no_match, encode_without_default, drop_imputer, strict_thresholds, drop_weights,
    loop_of_relu, take_branch, softplus_by_exponent,
]  # fmt: skip
RIGHT = [drop_overwritten, drop_tile, scan_of_negation, merge_scales, merge_scale_and_divisor]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda r: r.name)
def test_mistake_is_found(
    wrong: Rule, seed: int, comparison_process: ComparisonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RuleTester, "minimize", lambda _self, fault, *_: fault)
    checked = examine(wrong, seed=seed, compare=comparison_process)
    assert checked.fault is not None, checked.report


@pytest.mark.parametrize("budget", slow_unless({40}, (40, 100)))
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("right", RIGHT, ids=lambda r: r.name)
def test_right_rule_is_sound(right: Rule, seed: int, budget: int, comparison_process: ComparisonProcess) -> None:
    checked = examine(right, seed=seed, budget=budget, compare=comparison_process)
    assert checked.is_sound, checked.report
