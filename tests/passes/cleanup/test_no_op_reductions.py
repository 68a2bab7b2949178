"""Reductions of one element each, or of none."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.no_ops import (
    drop_no_op_reduction,
    drop_reduction_of_unit_axes,
    drop_scan_of_unit_axis,
    drop_sum_of_unit_axes,
)
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, stays
from tiers import in_turn

DROP_NO_OP_REDUCTIONS = rule_pass(no_ops, "drop-no-op-reductions")

RULES = DROP_NO_OP_REDUCTIONS.rules
HEAD = "g (float[2,1,3] x) => (float[p,q,r] y)"
FLAT = "g (float[2,1,3] x) => (float[p,q] y)"
AXES: dict[str, Any] = {"a": np.array([1]), "b": np.array([-1]), "none": np.zeros(0, np.int64), "i": np.array(1)}
KINDS = ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]


OPSETS = in_turn(KINDS, [7, 11, 13, 17, 18, 20, 26])


@each(("op", "opset"), {f"{op}, {opset}": tier(op, opset) for op, opset, tier in OPSETS})
def test_every_opset(op: str, opset: int) -> None:
    as_input = opset >= (13 if op == "ReduceSum" else 18)
    kept = f"{op}(x, a)" if as_input else f"{op}<axes=[1]>(x)"
    gone = f"{op}<keepdims=0>(x, a)" if as_input else f"{op}<axes=[1],keepdims=0>(x)"
    squeezed = "Squeeze(x, a)" if opset >= 13 else "Squeeze<axes=[1]>(x)"
    after = f"{FLAT} <int64[1] a = {{1}}> {{ t = {squeezed} y = Neg(t) }}"
    becomes(f"{HEAD} {{ t = {kept} y = Neg(t) }}", f"{HEAD} {{ y = Neg(x) }}", *RULES, opset=opset, weights=AXES)
    becomes(f"{FLAT} {{ t = {gone} y = Neg(t) }}", after, *RULES, opset=opset, weights=AXES)


@each("op", ["ReduceMax", "ReduceMin", "ReduceProd"])
@each("kind", ["float", "double", "int32"])
def test_reductions_without_sums_are_exact(op: str, kind: str) -> None:
    text = f"g ({kind}[n,1] x) => ({kind}[p,q] y) {{{{ y = {{}} }}}}"
    becomes(text.format(f"{op}(x, a)"), text.format("Identity(x)"), drop_reduction_of_unit_axes, opset=18, weights=AXES)


no_op_reductions = Rewrites(
    "g ({x}) => (float[] y)",
    *RULES,
    weights={"b": [1], "c": [-1], "none": np.array([], np.int64)},
    x="float[2,1,3] x",
    opset=18,
)

test_exact_sums_of_whole_numbers = no_op_reductions.using(
    drop_reduction_of_unit_axes, x="float[n,1] x", dtype="int32"
).all_become("""
    ReduceMean: y = ReduceMean(x, [1]) => y = Identity(x)
    ReduceSum: y = ReduceSum(x, [1]) => y = Identity(x)
""")


@each("op", ["ReduceMean", "ReduceProd", "ReduceSum"])
def test_sums_of_wide_integers_stay(op: str) -> None:
    text = f"g (int64[n,1] x) => (int64[p,q] y) {{ y = {op}(x, a) }}"
    stays(text, drop_reduction_of_unit_axes, opset=18, weights=AXES)
    after = "g (int32[n,1] x) => (int64[p,q] y) { y = Cast<to=7>(x) }"
    becomes(
        f"g (int32[n,1] x) => (int64[p,q] y) {{ c = Cast<to=7>(x) y = {op}(c, a) }}",
        after,
        drop_sum_of_unit_axes,
        opset=18,
        weights=AXES,
    )


@each("op", KINDS)
@each("inputs", ["x", "x, none"])
def test_empty_axes_with_noop_flag(op: str, inputs: str) -> None:
    text = "g (float[n,m] x) => (float[p,q] y) {{ y = {} }}"
    before = text.format(f"{op}<noop_with_empty_axes=1>({inputs})")
    becomes(before, text.format("Identity(x)"), drop_no_op_reduction, opset=18, weights=AXES)


test_becomes = no_op_reductions.all_become("""
    the other extents are open [x=float[n,m,1] x]: t = Abs(x) u = ReduceSum(x, [-1]) y = Add(t, u)
        => t = Abs(x) y = Add(t, x)
    all axes [x=float[1,1] x]: t = ReduceMean(x) y = Neg(t) => y = Neg(x)
    all axes, to a scalar [x=float[1,1] x]: t = ReduceMean<keepdims=0>(x) y = Neg(t) => t = Squeeze(x, c) y = Neg(t)
    a scalar [x=float x]: t = ReduceSum<keepdims=0>(x) y = Neg(t) => y = Neg(x)
    negative axes [x=float[1,3] x]: t = ReduceSum<keepdims=0>(x, [-2]) y = Neg(t) => t = Squeeze(x, d) y = Neg(t)
    there may be no elements [x=float[1,n] x]: t = ReduceSum<keepdims=0>(x, [0]) y = Neg(t)
        => t = Squeeze(x, z) y = Neg(t)
    nothing [x=float[0,1] x]: t = ReduceMax(x, [-1]) y = Neg(t) => y = Neg(x)
    CumSum [x=float[n,1] x]: t = CumSum(x, 1) y = Neg(t) => y = Neg(x)
    CumSum from behind, of integers [x=float[n,1] x; dtype=int64]: t = CumSum<reverse=1>(x, -1) y = Neg(t) => y = Neg(x)
    ReverseSequence [x=float[1,2,m] x]: t = ReverseSequence(x, [1,1]) y = Neg(t) => y = Neg(x)
    ReverseSequence, batches first [x=float[2,1] x]: t = ReverseSequence<batch_axis=0,time_axis=1>(x, [1,1]) y = Neg(t)
        => y = Neg(x)
    inside an If body, captured [graph=g (bool c, float[2,1] x) => (float[p,q] y)]:
        y = If(c) <then_branch = a () => (float[p,q] r) { t = ReduceMax(x, b) r = Neg(t) },
        else_branch = b () => (float[p,q] s) { s = Relu(x) }> => y = If(c) <then_branch = a () => (float[p,q] r) {
        r = Neg(x) }, else_branch = b () => (float[p,q] s) { s = Relu(x) }>
    overridable initializer [x=float[1] x = {1}]: t = ReduceMax(x) y = Neg(t) => y = Neg(x)
""")

test_stays = no_op_reductions.using(runs=False).all_stay("""
    several elements: y = ReduceMax(x, [0])
    one axis of extent 1, one of more: y = ReduceSum(x, [0,1])
    all axes: y = ReduceSum(x)
    empty axes, which mean all: y = ReduceSum(x, none)
    L1: y = ReduceL1(x, [1])
    L2: y = ReduceL2(x, [1])
    sum of squares: y = ReduceSumSquare(x, [1])
    log of a sum: y = ReduceLogSum(x, [1])
    log of a sum of powers: y = ReduceLogSumExp(x, [1])
    L1 of each: y = ReduceL1<noop_with_empty_axes=1>(x)
    CumSum without the element: y = CumSum<exclusive=1>(x, 1)
    CumSum of several: y = CumSum(x, 0)
    sequences of two: y = ReverseSequence(x, [2])
""")

test_stays_elsewhere = no_op_reductions.using(runs=False).all_stay("""
    unknown extent [x=float[n,m] x]: y = ReduceMax(x, [1])
    nothing, from the end [x=float[n,1] x]: y = ReduceMax<keepdims=0>(x, [-1])
    axes given late [graph=g (float[2,1] x, int64[1] s) => (float[p,q] y)]: y = ReduceMax(x, s)
    overridable axes [x=float[2,1] x, int64[1] s = {1}]: y = ReduceMax(x, s)
    a place is not an element [graph=g (float[2,1] x) => (int64[] y)]: y = ArgMax<axis=1>(x)
    Softmax of one is 1 [x=float[2,1] x]: y = Softmax<axis=1>(x)
    axis given late [x=float[2,1] x, int64 s]: y = CumSum(x, s)
""")


@each("op", ["ReduceMean", "ReduceSum"])
def test_possibly_negative_zeros_stay(op: str) -> None:
    """onnxruntime adds to 0, which turns a -0 into 0."""
    _, change_log = apply_passes(load(f"{HEAD} {{ y = {op}(x, a) }}", 18, AXES), *RULES, exact_only=True)
    assert not change_log.changes


test_becomes_running_products = no_op_reductions.using(drop_scan_of_unit_axis).all_become("""
    running products [opset=26; x=float[n,1] x]: t = CumProd(x, 1) y = Neg(t) => y = Neg(x)
""")


@given(
    dims=st.lists(st.integers(1, 2), min_size=1, max_size=4),
    keep=st.integers(0, 1),
    op=st.sampled_from(KINDS),
    data=st.data(),
)
def test_dropped_only_if_all_extents_are_one(dims: list[int], keep: int, op: str, data: st.DataObject) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, len(dims) - 1), min_size=1)))
    signs = data.draw(st.lists(st.booleans(), min_size=len(axes), max_size=len(axes)))
    rank = len(dims) if keep else len(dims) - len(axes)
    shape = f"[{','.join('pqrs'[:rank])}]" if rank else ""
    head = f"g (float[{','.join(map(str, dims))}] x) => (float{shape} y)"
    weights = {"a": np.array([a - len(dims) * s for a, s in zip(axes, signs, strict=True)])}
    text = f"{head} {{ t = {op}<keepdims={keep}>(x, a) y = Neg(t) }}"
    squeezed = f"{head} <int64[1] a = {{0}}> {{ t = Squeeze(x, a) y = Neg(t) }}"
    if all(dims[a] == 1 for a in axes):
        becomes(text, f"{head} {{ y = Neg(x) }}" if keep else squeezed, *RULES, opset=18, weights=weights)
    else:
        stays(text, *RULES, opset=18, weights=weights, runs=False)
