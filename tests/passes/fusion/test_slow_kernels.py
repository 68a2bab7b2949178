"""Fusions whose kernels take longer than their parts on many elements."""

from dataclasses import replace

from passwright.core import rule_pass
from passwright.core.ir.cost_model import CPU
from passwright.core.run.pipeline import Pipeline
from passwright.passes.fusion import activations, norms, reductions
from passwright.passes.pipelines import BUILT_IN
from rewrite_tables import Rewrites
from rewriting import table

FUSE_ACTIVATIONS = rule_pass(activations, "fuse-activations")
FUSE_RECTIFIERS = rule_pass(activations, "fuse-rectifiers")
FUSE_LP_NORM = rule_pass(norms, "fuse-lp-norm")
FUSE_REDUCTIONS = rule_pass(reductions, "fuse-reductions")

FUSIONS = (FUSE_ACTIVATIONS, FUSE_RECTIFIERS, FUSE_LP_NORM, FUSE_REDUCTIONS)
kernels = Rewrites("g (float[{x}] z) => (float[] y)", *FUSIONS, x="3,4")
BEFORE = table("""
    Softplus: e = Exp(x) a = Add(e, 1.0) y = Log(a) => y = Softplus(x)
    PRelu: n = Neg(x) r = Relu(n) m = Mul(r, [0.1,0.2,0.3,0.4]) p = Relu(x) y = Sub(p, m) =>
        y = PRelu(x, [0.1,0.2,0.3,0.4])
    Elu: e = Exp(x) a = Sub(e, 1.0) c = Less(x, 0.0) y = Where(c, a, x) => y = Elu<alpha=1.0>(x)
    L2: m = Mul(x, x) y = ReduceSum(m, [-1]) => y = ReduceSumSquare<axes=[-1]>(x)
    L1: m = Abs(x) y = ReduceSum(m, [-1]) => y = ReduceL1<axes=[-1]>(x)
    LogSumExp: m = Exp(x) s = ReduceSum(m, [-1]) y = Log(s) => y = ReduceLogSumExp<axes=[-1]>(x)
    LogSum: s = ReduceSum(x, [-1]) y = Log(s) => y = ReduceLogSum<axes=[-1]>(x)
    LpNormalization: n = ReduceL2<axes=[0]>(x) y = Div(x, n) => y = LpNormalization<axis=0,p=2>(x)
""")
MODERATE = "t = Tanh(z) x = Sigmoid(t)"  # and not 0
ROWS = {name: (f"{MODERATE} {before}", f"{MODERATE} {after}") for name, (before, after) in BEFORE.items()}
test_few_elements_are_fused = kernels.all_become(ROWS)
test_many_elements_are_not = kernels.all_stay(
    {f"{name}, {x}": (before, {"x": x}) for name, (before, _) in ROWS.items() for x in ("1000,4", "N,M,K,4")}
)
test_many_elements_are_fused_for_a_target_with_fast_kernels = kernels.using(
    Pipeline("fast", FUSIONS, costs=replace(CPU, slow_kernels={})), x="1000,4"
).all_become(ROWS)
test_other_axes_are_fused_at_any_size = kernels.using(x="1000,4").all_become("""
    not the last axis: m = Abs(z) y = ReduceSum(m, [0]) => y = ReduceL1<axes=[0]>(z)
    all axes: m = Abs(z) y = ReduceSum(m) => y = ReduceL1(z)
""")
test_swish_is_not_in_basic = kernels.using(*BUILT_IN, opset=24).all_stay("""
    Swish: a = Sigmoid(z) y = Mul(z, a)
""")
