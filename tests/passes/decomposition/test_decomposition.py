"""Gemm, activations and normalizations as the ops that they stand for."""

import json
from collections import Counter

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Pass, rule_pass
from passwright.core.ort.kernels import runs_on_cpu
from passwright.passes import decomposition
from passwright.testing.rewriting import apply_passes
from rewrite_tables import Rewrites
from rewriting import each, load, op_types, require_equivalent, to_onnx

from passwright import optimize

SPLIT_ACTIVATIONS = rule_pass(decomposition, "split-activations")
SPLIT_NORMS = rule_pass(decomposition, "split-norms")
SPLIT_GEMM = rule_pass(decomposition, "split-gemm")

GEMM = "g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)"
BODY = "y = If (k) <then_branch = t () => (o) {{ o = {} }}, else_branch = e () => (p) {{ p = MatMul(a, b) }}>"
gemms = Rewrites(GEMM, SPLIT_GEMM)
test_gemm = gemms.all_become(f"""
    with a bias: y = Gemm(a, b, c) => m = MatMul(a, b) y = Add(m, c)
    without: y = Gemm(a, b) => y = MatMul(a, b)
    a bias times zero: y = Gemm<beta=0.0>(a, b, c) => y = MatMul(a, b)
    factors: y = Gemm<alpha=0.5, beta=2.0>(a, b, c)
        => m = MatMul(a, b) n = Mul(m, half) d = Mul(c, two) y = Add(n, d)
    transposed operands, and a column [graph=g (float[3,2] a, float[4,3] b, float[2,1] c) => (float[2,4] y)]:
        y = Gemm<transA=1, transB=1>(a, b, c)
        => s = Transpose<perm=[1,0]>(a) t = Transpose<perm=[1,0]>(b) m = MatMul(s, t) y = Add(m, c)
    symbolic halves [graph=g (float16[N,K] a, float16[K,M] b, float16 c) => (float16[N,M] y)]: y = Gemm(a, b, c)
        => m = MatMul(a, b) y = Add(m, c)
    an empty sum of doubles [graph=g (double[2,0] a, double[0,4] b, double[2,4] c) => (double[2,4] y)]:
        y = Gemm(a, b, c) => m = MatMul(a, b) y = Add(m, c)
    one value [graph=g (float[2,2] a) => (float[2,2] y)]: y = Gemm(a, a, a) => m = MatMul(a, a) y = Add(m, a)
    an inner value: z = Gemm(a, b, c) y = Neg(z) => m = MatMul(a, b) z = Add(m, c) y = Neg(z)
    an output that is read [graph={GEMM[:-1]}, float[2,4] z)]: z = Gemm(a, b, c) y = Neg(z)
        => m = MatMul(a, b) z = Add(m, c) y = Neg(z)
    in a body [graph=g (bool k, float[2,3] a, float[3,4] b) => (float[2,4] y)]: {BODY.format("Gemm(a, b)")}
        => {BODY.format("MatMul(a, b)")}
""")


@given(
    numbers=st.tuples(st.sampled_from([1.0, -0.25, 3.0]), st.sampled_from([0.0, 1.0, -2.0])),
    turned=st.tuples(st.booleans(), st.booleans()),
    bias=st.sampled_from(["", "[4]", "[1,4]", "[2,1]", "[2,4]"]),
    constant=st.booleans(),
)
def test_any_gemm(numbers: tuple[float, float], turned: tuple[bool, bool], bias: str, constant: bool) -> None:
    """Factors and transposes of constants are computed, so that no op is left for them."""
    a, b = ("[3,2]" if turned[0] else "[2,3]"), ("[4,3]" if turned[1] else "[3,4]")
    shapes = {"b": b, **({"c": bias} if bias else {})}
    given_inputs = "" if constant else "".join(f", float{shape} {name}" for name, shape in shapes.items())
    weights = {name: np.full(json.loads(shape), 1.5, np.float32) for name, shape in shapes.items()} if constant else {}
    attributes = f"alpha={numbers[0]}, beta={numbers[1]}, transA={int(turned[0])}, transB={int(turned[1])}"
    text = f"g (float{a} a{given_inputs}) => (float[2,4] y) {{ y = Gemm<{attributes}>(a, b{', c' if bias else ''}) }}"
    ops = Counter(op_types(rewritten(load(text, weights=weights), SPLIT_GEMM)))
    assert ops["Gemm"] == 0
    assert ops["Transpose"] == turned[0] + (turned[1] and not constant)
    has_bias = bool(bias) and numbers[1] != 0
    assert ops["Mul"] == (numbers[0] != 1) + (has_bias and numbers[1] != 1 and not constant)
    assert ops["Add"] == has_bias


def rewritten(model: onnx.ModelProto, *passes: Pass) -> onnx.ModelProto:
    """The model after passes, which computes the same."""
    result, change_log = apply_passes(model, *passes)
    out = to_onnx(result)
    require_equivalent(model, out, exact=change_log.is_exact)
    return out


@each(
    ("op", "ops", "opset"),
    {
        "Gelu": ("Gelu(x)", "Div Erf Add Mul Mul", 20),
        "Gelu by Tanh": ('Gelu<approximate="tanh">(x)', "Mul Mul Mul Add Mul Tanh Add Mul Mul", 20),
        "HardSwish": ("HardSwish(x)", "HardSigmoid Mul", 14),
        "Mish": ("Mish(x)", "Softplus Tanh Mul", 18),
        "Swish": ("Swish(x)", "Sigmoid Mul", 24),
        "Swish with a factor": ("Swish<alpha=1.5>(x)", "Mul Sigmoid Mul", 24),
    },
)
@each("dtype", ["float", "float16", "double"])
def test_activations(op: str, ops: str, opset: int, dtype: str) -> None:
    model = load(f"g ({dtype}[N,3] x) => ({dtype}[N,3] y) {{ y = {op} }}", opset)
    if runs(model):
        assert Counter(op_types(rewritten(model, SPLIT_ACTIVATIONS))) == Counter(ops.split())


def runs(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime has a kernel for the only op of a model."""
    node, opset = model.graph.node[0], model.opset_import[0].version
    return runs_on_cpu(node.op_type, "", opset, [model.graph.input[0].type.tensor_type.elem_type])


ROW = "g (float[N,2,3] x, float[3] s, float[3] b) => (float[N,2,3] y)"
LAYER = (
    "m = ReduceMean<axes=[2]>(x) c = Sub(x, m) k = ReduceMean<axes=[2]>(c) d = Sub(c, k) q = Mul(d, d)"
    " v = ReduceMean<axes=[2]>(q) e = Add(v, eps) r = Sqrt(e) n = Div(d, r)"
)
SINGLE = LAYER.replace("(x)", "(w)").replace("(x, m)", "(w, m)")
norms = Rewrites(ROW, SPLIT_NORMS)
test_norms = norms.all_become(f"""
    an offset: y = LayerNormalization(x, s, b) => {LAYER} o = Mul(n, s) y = Add(o, b)
    without: y = LayerNormalization(x, s) => {LAYER} y = Mul(n, s)
    an epsilon: y = LayerNormalization<axis=2, epsilon=0.5>(x, s) => {LAYER} y = Mul(n, s)
    two axes [graph=g (float[N,2,3] x, float[2,3] s) => (float[N,2,3] y)]: y = LayerNormalization<axis=1>(x, s)
        => {LAYER.replace("[2]", "[1,2]")} y = Mul(n, s)
    halves, computed in single precision [graph=g (float16[N,2,3] x, float16[3] s) => (float16[N,2,3] y)]:
        y = LayerNormalization(x, s) => w = Cast<to=1>(x) {SINGLE} h = Cast<to=10>(n) y = Mul(h, s)
    RMSNormalization [opset=23]: y = RMSNormalization(x, s)
        => q = Mul(x, x) v = ReduceMean(q, axes) e = Add(v, eps) r = Sqrt(e) n = Div(x, r) y = Mul(n, s)
""")


@each(
    "text",
    {
        "any": ("g (float[2,4096] x) => (float[2,4096] y) { y = LayerNormalization(x, s) }"),
        "equal": (
            "g (float[2,1] x) => (float[2,4096] y) <int64[2] n = {2, 4096}>"
            " { w = Expand(x, n) y = LayerNormalization(w, s) }"
        ),
    },
)
def test_long_rows_keep_their_results(text: str) -> None:
    result = optimize(load(text, weights={"s": np.ones(4096, np.float32)}), enable=["split-norms"])
    assert "LayerNormalization" not in result.report.after.ops


test_gemm_stays = gemms.all_stay("""
    integers [graph=g (int32[2,3] a, int32[3,4] b) => (int32[2,4] y); runs=False]: y = Gemm(a, b)
    a flag to broadcast [opset=6; runs=False]: y = Gemm<broadcast=1>(a, b, c)
""")
test_norms_stay = norms.all_stay(f"""
    the mean is read [graph={ROW[:-1]}, float[N,2,1] m)]: y, m = LayerNormalization(x, s)
    no axis [graph=g (float x, float[3] s) => (float y); runs=False]: y = LayerNormalization<axis=0>(x, s)
    a bias that need not broadcast [graph=g (float[2,2] x, float[2] s, float[N] b) => (float[2,2] y); runs=False]:
        y = LayerNormalization(x, s, b)
    doubles, of which kernels compute in different types [dtype=double]: y = LayerNormalization(x, s)
""")
test_activations_stay = Rewrites("g (float[2] x) => (float[2] y)", SPLIT_ACTIVATIONS).all_stay("""
    another activation: y = Relu(x)
    another domain [runs=False]: y = d.Gelu(x)
""")


def test_they_run_after_the_fusions_that_would_undo_them() -> None:
    text = (
        "g (float[N,4] x) => (float[N,4] y) { a = MatMul(x, w) b = Add(a, c) d = Gelu(b) y = LayerNormalization(d, s) }"
    )
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 4), "c": (4,), "s": (4,)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = load(text, 20, weights)
    result = optimize(model, enable=["split-gemm", "split-norms,split-activations"])
    assert not {"Gemm", "Gelu", "LayerNormalization"} & set(result.report.after.ops)
    assert {"MatMul", "Erf", "ReduceMean"} <= set(result.report.after.ops)
    assert result.report.rejected == []
