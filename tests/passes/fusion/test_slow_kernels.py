"""Fusions whose kernels take longer than their parts on many elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from passwright.core import RulePass, rule_pass
from passwright.core.ir.cost_model import CPU
from passwright.core.run.pipeline import Pipeline
from passwright.passes.fusion import activations, norms, reductions
from passwright.passes.pipelines import BUILT_IN
from rewriting import becomes, cases, stays

FUSE_ACTIVATIONS = rule_pass(activations, "fuse-activations")
FUSE_RECTIFIERS = rule_pass(activations, "fuse-rectifiers")
FUSE_LP_NORM = rule_pass(norms, "fuse-lp-norm")
FUSE_REDUCTIONS = rule_pass(reductions, "fuse-reductions")

NUMBERS = "<float one = {1}, float zero = {0}, float[4] slopes = {0.1,0.2,0.3,0.4}>"
FUSIONS = [
    pytest.param("e = Exp(x) a = Add(e, one) y = Log(a)", "y = Softplus(x)", FUSE_ACTIVATIONS, id="Softplus"),
    pytest.param(
        "n = Neg(x) r = Relu(n) m = Mul(r, slopes) p = Relu(x) y = Sub(p, m)",
        "y = PRelu(x, slopes)",
        FUSE_RECTIFIERS,
        id="PRelu",
    ),
    pytest.param(
        "e = Exp(x) a = Sub(e, one) c = Less(x, zero) y = Where(c, a, x)",
        "y = Elu<alpha=1.0>(x)",
        FUSE_RECTIFIERS,
        id="E",
    ),
    pytest.param("m = Mul(x, x) y = ReduceSum(m, last)", "y = ReduceSumSquare<axes=[1]>(x)", FUSE_REDUCTIONS, id="L2"),
    pytest.param("m = Abs(x) y = ReduceSum(m, last)", "y = ReduceL1<axes=[1]>(x)", FUSE_REDUCTIONS, id="L1"),
    pytest.param(
        "m = Exp(x) s = ReduceSum(m, last) y = Log(s)",
        "y = ReduceLogSumExp<axes=[1]>(x)",
        FUSE_REDUCTIONS,
        id="LogSumExp",
    ),
    pytest.param("s = ReduceSum(x, last) y = Log(s)", "y = ReduceLogSum<axes=[1]>(x)", FUSE_REDUCTIONS, id="LogSum"),
    pytest.param(
        "n = ReduceL2<axes=[0]>(x) y = Div(x, n)",
        "y = LpNormalization<axis=0,p=2>(x)",
        FUSE_LP_NORM,
        id="LpNormalization",
    ),
]


@pytest.mark.parametrize(("before", "after", "fusion"), FUSIONS)
def test_few_elements_are_fused(before: str, after: str, fusion: RulePass) -> None:
    head = f"g (float[3,4] z) => (float[a,b] y) {NUMBERS} {{ t = Tanh(z) x = Sigmoid(t)"  # moderate, and not 0
    weights = {"last": np.array([1])} if "last" in before else None
    becomes(f"{head} {before} }}", f"{head} {after} }}", fusion, weights=weights)


@pytest.mark.parametrize(("before", "after", "fusion"), FUSIONS)
@pytest.mark.parametrize("rows", ["1000", "N,M,K"])
def test_many_elements_are_not(before: str, after: str, fusion: RulePass, rows: str) -> None:
    last = rows.count(",") + 1
    weights = {"last": np.array([last])} if "last" in before else None
    result = ",".join("abcd"[: last + 1])
    stays(f"g (float[{rows},4] x) => (float[{result}] y) {NUMBERS} {{ {before} }}", fusion, weights=weights)


@pytest.mark.parametrize(("before", "after", "fusion"), FUSIONS)
def test_many_elements_are_fused_for_a_target_with_fast_kernels(before: str, after: str, fusion: RulePass) -> None:
    head = f"g (float[1000,4] z) => (float[a,b] y) {NUMBERS} {{ t = Tanh(z) x = Sigmoid(t)"
    weights = {"last": np.array([1])} if "last" in before else None
    pipeline = Pipeline("fast", (fusion,), costs=replace(CPU, slow_kernels={}))
    becomes(f"{head} {before} }}", f"{head} {after} }}", pipeline, weights=weights)


@cases(
    ("before", "after"),
    {
        "not the last axis": ("m = Abs(x) y = ReduceSum(m, first)", "y = ReduceL1<axes=[0]>(x)"),
        "all axes": ("m = Abs(x) y = ReduceSum(m)", "y = ReduceL1(x)"),
    },
)
def test_other_axes_are_fused_at_any_size(before: str, after: str) -> None:
    head = "g (float[1000,4] x) => (float[a,b] y)"
    weights = {"first": np.array([0])} if "first" in before else None
    becomes(f"{head} {{ {before} }}", f"{head} {{ {after} }}", FUSE_REDUCTIONS, weights=weights)


def test_swish_is_not_in_basic() -> None:
    stays("g (float[2,3] x) => (float[n,m] y) { a = Sigmoid(x) y = Mul(x, a) }", *BUILT_IN, opset=24)
