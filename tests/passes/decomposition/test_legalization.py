"""Ops that a target lacks as ops that it takes: by rules, and by the functions of the specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec import structs
from onnx import defs
from passwright.core import NEVER, Rule, Support, Target, from_onnx, require, rule
from passwright.core.errors import PassFailed, TargetError, UsageError
from passwright.core.ir.op_schemas import qualified_op_type
from passwright.core.rewriting.rules import CONDITIONAL
from passwright.passes.decompositions import DECOMPOSITIONS
from passwright.passes.legalization import Legalize, function_rules
from passwright.passes.pipelines import legalization_for, pipeline_for
from passwright.testing.rewriting import apply_passes
from rewriting import each, load, op_types, require_equivalent, to_onnx

from passwright import explain, optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")


def without(*operators: str, **more: Any) -> Target:
    """A target that takes all standard operators but these."""
    return Target("small", operators=dict.fromkeys(operators, NEVER), others="standard", **more)


def legalized(model: onnx.ModelProto, target: Target) -> onnx.ModelProto:
    """The model on the target, which computes the same."""
    result, change_log = apply_passes(model, *legalization_for(target))
    out = to_onnx(result)
    assert str(Legalize(target).fit(from_onnx(out).graph)) == f"supported by target {target.name}"
    conditional = {r.name for r in DECOMPOSITIONS if r.contract.kind == CONDITIONAL}
    finite_only = any(c.by in conditional for c in change_log.changes)
    require_equivalent(model, out, exact=change_log.is_exact, finite_only=finite_only)
    return out


ROWS = {
    "BatchNormalization": ("x[2,3,4] s[3] b[3] m[3] v[3]", "BatchNormalization(x, s, b, m, v)", 15, "FD"),
    "InstanceNormalization": ("x[2,3,4,2] s[3] b[3]", "InstanceNormalization(x, s, b)", 18, "FD"),
    "GroupNormalization": ("x[2,4,3] s[4] b[4]", "GroupNormalization<num_groups=2>(x, s, b)", 21, "F"),
    "LayerNormalization": ("x[2,3,8] s[8] b[8]", "LayerNormalization(x, s, b)", 17, "FH"),
    "RMSNormalization": ("x[2,3,8] s[8]", "RMSNormalization(x, s)", 23, "FH"),
    "MeanVarianceNormalization": ("x[2,3,4,2]", "MeanVarianceNormalization(x)", 13, "F"),
    "GlobalAveragePool": ("x[2,3,4,2]", "GlobalAveragePool(x)", 13, "FHD"),
    "GlobalMaxPool": ("x[2,3,4,2]", "GlobalMaxPool(x)", 13, "FHD"),
    "Gelu": ("x[2,8]", "Gelu(x)", 20, "FHD"),
    "Gelu by Tanh": ("x[2,8]", 'Gelu<approximate="tanh">(x)', 20, "FHD"),
    "HardSwish": ("x[2,8]", "HardSwish(x)", 14, "FHD"),
    "HardSigmoid": ("x[2,8]", "HardSigmoid<alpha=0.3>(x)", 13, "FHD"),
    "Swish": ("x[2,8]", "Swish<alpha=1.5>(x)", 24, "FHD"),
    "Mish": ("x[2,8]", "Mish(x)", 18, "FHD"),
    "Softplus": ("x[2,8]", "Softplus(x)", 13, "F"),
    "Softsign": ("x[2,8]", "Softsign(x)", 13, "F"),
    "Elu": ("x[2,8]", "Elu<alpha=0.7>(x)", 13, "F"),
    "Celu": ("x[2,8]", "Celu<alpha=1.5>(x)", 13, "F"),
    "Selu": ("x[2,8]", "Selu(x)", 13, "F"),
    "ThresholdedRelu": ("x[2,8]", "ThresholdedRelu<alpha=0.5>(x)", 13, "F"),
    "LeakyRelu": ("x[2,8]", "LeakyRelu(x)", 16, "FH"),
    "PRelu": ("x[2,8] s[8]", "PRelu(x, s)", 16, "F"),
    "Relu": ("x[2,8]", "Relu(x)", 14, "FD"),
    "Shrink": ("x[2,8]", "Shrink<lambd=0.4, bias=0.1>(x)", 13, "F"),
    "Clip": ("x[2,8]", "Clip(x, low)", 13, "F"),
    "Softmax": ("x[2,8]", "Softmax(x)", 13, "FD"),
    "LogSoftmax": ("x[2,8]", "LogSoftmax<axis=0>(x)", 13, "F"),
    "Reciprocal": ("x[2,8]", "Reciprocal(x)", 13, "FD"),
    "Neg": ("x[2,8]", "Neg(x)", 13, "FHDI"),
    "ReduceL1": ("x[2,3,8]", "ReduceL1(x, last)", 18, "FD"),
    "ReduceL1 with an attribute": ("x[2,3,8]", "ReduceL1<axes=[-1], keepdims=0>(x)", 13, "F"),
    "ReduceL2": ("x[2,3,8]", "ReduceL2(x, last)", 18, "FD"),
    "ReduceSumSquare": ("x[2,3,8]", "ReduceSumSquare(x, last)", 18, "FD"),
    "ReduceLogSum": ("x[2,3,8]", "ReduceLogSum(x, last)", 18, "F"),
    "ReduceLogSumExp": ("x[2,3,8]", "ReduceLogSumExp<keepdims=0>(x, last)", 18, "F"),
    "Attention": ("q[2,3,4,8] k[2,3,5,8] v[2,3,5,8]", "Attention(q, k, v)", 23, "F"),
    "Attention, causal with a mask": (
        "q[2,4,16] k[2,4,16] v[2,4,16] m[4,4]",
        "Attention<is_causal=1, q_num_heads=2, kv_num_heads=2>(q, k, v, m)", 23, "F",
    ),
    "RotaryEmbedding": ("x[2,3,4,8] c[2,4,4] s[2,4,4]", "RotaryEmbedding(x, c, s)", 23, "F"),
    "Gemm": ("a[2,3] b[4,3] c[4]", "Gemm<transB=1>(a, b, c)", 13, "FD"),
    "Einsum, grouped": ("a[2,3,4,5] b[5,4,6]", 'Einsum<equation="abcd,dce->eab">(a, b)', 13, "FD"),
    "Einsum, with sums of one factor": ("a[2,3,4] b[4,5]", 'Einsum<equation="abc,cd->ad">(a, b)', 13, "F"),
    "Einsum, an outer product": ("a[2,3] b[4]", 'Einsum<equation="ab,c->cab">(a, b)', 13, "F"),
    "Sum": ("a[2,3] b[3] c[2,1]", "Sum(a, b, c)", 13, "FD"),
    "Max": ("a[2,3] b[3]", "Max(a, b)", 13, "FDI"),
    "Min of three": ("a[2,3] b[3] c[2,1]", "Min(a, b, c)", 13, "F"),
    "Sign": ("x[2,3]", "Sign(x)", 13, "FDI"),
    "Mean": ("a[2,3] b[3]", "Mean(a, b)", 13, "F"),
    "DepthToSpace": ("x[N,8,2,3]", "DepthToSpace<blocksize=2>(x)", 13, "FD"),
    "DepthToSpace, columns first": ("x[2,8,2,3]", 'DepthToSpace<blocksize=2, mode="CRD">(x)', 13, "F"),
    "SpaceToDepth": ("x[2,2,4,6]", "SpaceToDepth<blocksize=2>(x)", 13, "FD"),
    "Trilu": ("x[2,4,5]", "Trilu<upper=0>(x, one)", 14, "FI"),
    "CumSum": ("x[2,3,5]", "CumSum<reverse=1, exclusive=1>(x, one)", 14, "FD"),
    "GatherElements": ("x[3,4]", "GatherElements<axis=1>(x, at)", 13, "FDI"),
    "Mod": ("a[2,8]", "Mod(a, a)", 13, "I"),
    "Tile": ("x[2,N,3]", "Tile(x, times)", 14, "FI"),
    "Flatten": ("x[N,3,4]", "Flatten(x)", 13, "FI"),
    "Squeeze": ("x[1,3,1]", "Squeeze(x)", 13, "FI"),
    "Unsqueeze": ("x[N,3]", "Unsqueeze(x, last)", 13, "FI"),
    "Split": ("x[2,8]", "Split<axis=1>(x, parts)", 13, "FI"),
    "Xor": ("x[2,3]", "Xor(x, x)", 13, "B"),
    "IsNaN": ("x[2,3]", "IsNaN(x)", 13, "FD"),
    "Resize, linear": ("x[1,2,4,4]", 'Resize<mode="linear">(x, , scales)', 13, "FD"),
    "Resize, cubic and not centred": (
        "x[1,2,4,4]", 'Resize<mode="cubic", coordinate_transformation_mode="align_corners">(x, , scales)', 13, "F",
    ),
    "Resize, nearest by sizes": ("x[1,2,4,4]", "Resize(x, , , sizes)", 13, "F"),
    "Resize, smoothed": ("x[1,2,4,4]", 'Resize<mode="linear", antialias=1>(x, , shrink)', 18, "F"),
}  # fmt: skip
DTYPES = {"F": "float", "H": "float16", "D": "double", "I": "int32", "B": "bool"}
CONSTANTS = (
    "int64[1] last = {-1}, int64 one = {1}, int64[2] parts = {3, 5}, float[4] scales = {1, 1, 2, 1.5}, "
    "int64[4] sizes = {1, 2, 6, 8}, float[4] shrink = {1, 1, 0.5, 0.5}, int64[2,2] at = {-1, 0, 3, 2}, "
    "int64[3] times = {2, 1, 3}"
)


def model_of(inputs: str, expression: str, opset: int, dtype: str) -> onnx.ModelProto:
    """A model of one op, whose output is typed as inference has it."""
    given = ", ".join(f"{dtype}[{part.partition('[')[2]} {part.partition('[')[0]}" for part in inputs.split())
    outputs = "y, z" if expression.startswith("Split") else "y"
    kind = "bool" if expression.startswith(("Xor", "IsNaN")) else dtype
    low = ", float low = {-0.25}" if dtype == "float" else ""
    text = f"g ({given}) => ({kind} y) <{CONSTANTS}{low}> {{ {outputs} = {expression} }}"
    model = load(text, opset)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    used = {name for node in model.graph.node for name in node.input}
    for t in [t for t in model.graph.initializer if t.name not in used]:
        model.graph.initializer.remove(t)
    return model


@each(("inputs", "expression", "opset", "dtypes"), ROWS)
def test_means_the_same(inputs: str, expression: str, opset: int, dtypes: str) -> None:
    operator = expression.partition("(")[0].partition("<")[0]
    for dtype in dtypes:
        out = legalized(model_of(inputs, expression, opset, DTYPES[dtype]), without(operator))
        assert operator not in op_types(out)


def test_ops_without_effect() -> None:
    text = "g (float[2,8] x) => (float[2,8] y) { a = Neg(x) b = Identity(a) c = Dropout(b) y = Neg(c) }"
    assert op_types(legalized(load(text, 17), without("Identity", "Dropout"))) == ["Neg", "Neg"]


CONTRIB = {
    "FusedMatMul": ("a[2,3,4] b[2,5,4]", "FusedMatMul<transB=1, alpha=0.5>(a, b)"),
    "FusedGemm": ("a[2,3] b[3,4] c[4]", 'FusedGemm<activation="LeakyRelu", activation_alpha=0.2>(a, b, c)'),
    "FusedConv": ("x[1,2,5,5] w[3,2,3,3] b[3]", 'FusedConv<activation="Relu", pads=[1,1,1,1]>(x, w, b)'),
    "Gelu": ("x[2,8]", "Gelu(x)"),
    "BiasGelu": ("x[2,8] b[8]", "BiasGelu(x, b)"),
    "FastGelu": ("x[2,8] b[8]", "FastGelu(x, b)"),
    "QuickGelu": ("x[2,8]", "QuickGelu<alpha=1.5>(x)"),
    "SkipLayerNormalization": ("x[2,3,8] s[2,3,8] w[8] b[8]", "SkipLayerNormalization(x, s, w, b)"),
    "SkipSimplifiedLayerNormalization": ("x[2,3,8] s[2,3,8] w[8]", "SkipSimplifiedLayerNormalization(x, s, w)"),
}


@each(("inputs", "expression"), CONTRIB)
def test_operators_of_onnxruntime(inputs: str, expression: str) -> None:
    for opset in (13, 21):
        model = model_of(inputs, f"com.microsoft.{expression}", opset, "float")
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        out = legalized(model, Target("standard", operators={"Loop": Support()}, others="standard"))
        assert not any(node.domain for node in out.graph.node)


def test_every_function_of_the_specification_is_a_decomposition() -> None:
    has_function = {
        s.name
        for s in defs.get_all_schemas_with_history()
        if not s.domain and (s.function_opset_versions or s.context_dependent_function_opset_versions)
    }
    assert {r.name.removeprefix("expand_") for r in function_rules()} == has_function


def test_names_of_decompositions_differ() -> None:
    names = [r.name for r in DECOMPOSITIONS]
    assert len(set(names)) == len(names)
    assert all(len(list(p.walk())) == 1 for r in DECOMPOSITIONS for p in r.patterns)


@each(
    ("inputs", "expression"),
    {
        "Reshape": ("x[2,4]", "Reshape(x, last)"),
        "Concat": ("x[2,4] z[2,4]", "Concat<axis=1>(x, z)"),
        "Split": ("x[2,8]", "Split<axis=1>(x, parts)"),
    },
)
def test_booleans_are_moved_as_integers(inputs: str, expression: str) -> None:
    moved = {"Reshape Concat Split": Support(dtypes=("float", "int32"))}
    legalized(model_of(inputs, expression, 17, "bool"), Target("t", operators=moved, others="standard"))


def test_indices_stay_as_small_as_they_are() -> None:
    text = "g (float[5] x, int32[3] i) => (float[3] y) { c = Cast<to=7>(i) y = Gather(x, c) }"
    assert op_types(legalized(load(text, 17), without("Cast"))) == ["Gather"]


def test_what_a_decomposition_needs_is_decomposed_in_turn() -> None:
    model = model_of("x[2,8]", "Mish(x)", 18, "float")
    out = legalized(model, without("Mish", "Softplus", "Relu", "Neg"))
    assert {"Mish", "Softplus", "Relu", "Neg"}.isdisjoint(op_types(out))


def test_the_cheapest_chain_is_taken() -> None:
    model = model_of("x[2,8]", "HardSwish(x)", 18, "float")
    assert sorted(op_types(legalized(model, without("HardSwish")))) == ["HardSigmoid", "Mul"]
    assert "Clip" not in op_types(legalized(model, without("HardSwish", "HardSigmoid")))


MIXED = """g (float[2,8] x, float[1,4,4] boxes, float[1,1,4] scores) => (float[2,8] y, int64[N,3] kept, float[2,8] z) {
    y = Softplus(x) kept = NonMaxSuppression(boxes, scores) z = Sin(x) }"""


def test_what_is_left_is_listed_with_the_reasons() -> None:
    target = without("Softplus", "NonMaxSuppression", "Log")
    result, _ = apply_passes(load(MIXED, 17), *legalization_for(target))
    fit = Legalize(target).fit(result.graph)
    assert [(m.op, m.place, m.reason) for m in fit.misfits] == [
        ("Softplus", "y", "opset 17, it takes none"),
        ("NonMaxSuppression", "kept", "opset 17, it takes none"),
    ]
    assert fit.misfits[0].tried == (
        "split_softplus would need Log (opset 17, it takes none)",
        "expand_Softplus would need Log (opset 17, it takes none)",
    )
    assert fit.misfits[1].tried == ("no decomposition of it is known",)
    assert str(fit).startswith("2 ops left that small does not support: NonMaxSuppression at 'kept'")


def test_a_decomposition_of_several_ops_is_refused() -> None:
    split = rule(lambda g, x: g.Neg(g.any_of(x, g.Softplus(x))))(lambda g, x: g.Sub(0.0, g.Softplus(x)))
    with pytest.raises(UsageError, match=r"target small: the decomposition .* has 2 ops in its pattern, Neg and"):
        without("Softplus", decompositions=(split,))


def test_decompositions_that_need_each_other_end() -> None:
    target = Target("tiny", operators={"Add": Support()})
    result, _ = apply_passes(model_of("x[2,8]", "Mish(x)", 18, "float"), *legalization_for(target))
    assert [m.op for m in Legalize(target).fit(result.graph).misfits] == ["Mish"]


def test_a_later_opset_is_lowered_after_what_it_does_not_have() -> None:
    for inputs, expression, opset, _ in (ROWS[name] for name in ("RMSNormalization", "Attention", "Gelu", "Swish")):
        out = legalized(model_of(inputs, expression, opset, "float"), without("Loop", opset=17))
        assert out.opset_import[0].version == 17


def test_an_opset_that_is_not_possible_is_listed() -> None:
    model = load("g (float[2] x) => (string[2] y) { y = Cast<to=8>(x) s = StringConcat(y, y) }", 20)
    target = without("Loop", opset=17)
    model.graph.output[0].name = "s"
    result, _ = apply_passes(model, *legalization_for(target))
    fit = Legalize(target).fit(result.graph)
    assert fit.misfits[0].reason == "opset 20 is above 17"
    assert fit.misfits[0].tried[0].startswith("to lower it is not possible: StringConcat")


def test_fusions_do_not_bring_back_what_the_target_lacks() -> None:
    text = """g (float[N,8] x) => (float[N,8] y) <float half = {0.5}, float one = {1}, float root = {1.41421354}> {
        a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }"""
    assert op_types(optimize(load(text, 20), pipeline=pipeline_for(without("Loop"))).model) == ["Gelu"]
    kept = optimize(load(text, 20), pipeline=pipeline_for(without("Gelu")))
    assert "Gelu" not in op_types(kept.model)
    assert kept.report.rejected == []


def test_rules_are_judged_by_all_conditions() -> None:
    text = "g (float[N,8] x) => (float[N,8] y) { a = Transpose<perm=[1,0]>(x) y = Transpose<perm=[1,0]>(a) }"
    assert op_types(optimize(load(text, 20), pipeline=pipeline_for(without("Loop"))).model) == ["Identity"]
    product = "g (float[3,4] a, float[3,5] b) => (float[4,5] y) { t = Transpose<perm=[1,0]>(a) y = MatMul(t, b) }"
    for allowed, want in (((0, 1), ["Gemm"]), ((0,), ["Transpose", "MatMul"])):
        target = Target("t", operators={"Gemm": Support(attributes={"transA": allowed})}, others="standard")
        assert op_types(optimize(load(product, 20), pipeline=pipeline_for(target)).model) == want


def test_a_decomposition_of_the_target_comes_first() -> None:
    from passwright.core import RewriteBuilder, Value, rule

    @rule(lambda g, x: g.Gelu(x))
    def gelu_of_engine(g: RewriteBuilder, x: Value) -> Value:
        """Gelu(x) => x * Sigmoid(1.702 * x)"""
        return g.Mul(x, g.Sigmoid(g.Mul(x, 1.702)))

    target = structs.replace(without("Gelu"), decompositions=(gelu_of_engine,))
    result, _ = apply_passes(model_of("x[2,8]", "Gelu(x)", 20, "float"), *legalization_for(target))
    assert sorted(op.type for op in result.graph.ops()) == ["Mul", "Mul", "Sigmoid"]


CONDITIONS: Mapping[str, tuple[Support, str]] = {
    "a type": (Support(dtypes=("float16",)), "type float of X"),
    "a rank": (Support(ranks=(3, 5)), "rank 4 of X"),
    "a rank by name": (Support(ranks={"W": (3,)}), "rank 4 of W"),
    "an attribute": (Support(attributes={"group": (2,)}), "group 1"),
    "the name of a type": (Support(attributes={"group": ("float",)}), "group 1"),
    "a list": (Support(attributes={"pads": ((0, 0, 0, 0),)}), "pads [1, 1, 1, 1]"),
    "a constant": (Support(constant=("W", "B")), "W is not constant"),
    "an input": (Support(omitted=("B",)), "B is present"),
    "an opset": (Support(first=18), "opset 17, it takes 18 and later"),
    "opsets": (Support(first=11, last=16), "opset 17, it takes 11 to 16"),
    "a condition": (Support(condition=lambda op: require(op.attr("group") > 1, "one group")), "one group"),
    "two": (Support(ranks=(3,), attributes={"group": (2,)}), "rank 4 of X, group 1"),
    "none": (Support(dtypes={"X": ("float",), "W": ("float",)}, ranks=(4,), outputs=1, attributes={"group": (1,)}), ""),
}


@each(("support", "reason"), CONDITIONS)
def test_conditions(support: Support, reason: str) -> None:
    text = """g (float[1,2,5,5] x, float[3,2,3,3] w) => (float[1,3,5,5] y) <float[3] b = {1,2,3}> {
        y = Conv<pads=[1,1,1,1]>(x, w, b) }"""
    graph = from_onnx(load(text, 17)).graph
    (op,) = graph.ops()
    assert Target("t", operators={"Conv": support}).obstacle(op) == reason
    either = Target("t", operators={"ConvTranspose Conv": [Support(ranks=(1,)), support]})
    is_of_opset = support.has_opset(op.version)
    reasons = dict.fromkeys(("rank 4 of X", *([reason] if is_of_opset else [])))
    assert either.obstacle(op) == (" or ".join(reasons) if reason else "")


def test_unknown_types_and_ranks_are_no_proof() -> None:
    graph = from_onnx(load("g (float x) => (float y) { y = Relu(x) }", 17)).graph
    (op,) = graph.ops()
    op.inputs[0].clear_shape()
    assert Target("t", operators={"Relu": Support(ranks=(4,))}).obstacle(op) == "rank unknown of X"


def test_decompositions_that_are_left_out_are_named() -> None:
    target, model = without("Celu", "Elu"), model_of("x[2,8]", "Celu(x)", 17, "float")
    for options in ({"exact": True}, {"skip": ["expand_Celu"]}):
        with pytest.raises(TargetError, match="1 op left that small does not support: Celu"):
            optimize(model, target=target, **options)


@pytest.mark.parametrize("as_is", [False, True])
def test_reasons_of_decompositions_are_explained(as_is: bool) -> None:
    from passwright.core import RewriteBuilder, Value, rule

    @rule(lambda g, x: g.Mish(x))
    def mish_of_engine(g: RewriteBuilder, x: Value) -> Value:
        """Mish(x) => x * Tanh(Softplus(x))"""
        require(x.rank == 3, "it is no picture")
        return g.Mul(x, g.Tanh(g.Softplus(x)))

    def declines(name: str, model: onnx.ModelProto, target: Target) -> dict[str, str]:
        return explain(model, name, target=target, as_is=as_is).passes[0].declines

    lacking, mixed = without("Softplus", "NonMaxSuppression", "Log", opset=17), load(MIXED, 17)
    needed = "split_softplus would need Log (opset 17, it takes none)"
    assert declines("split_softplus", mixed, lacking) == {"y": needed}
    assert declines("legalize", mixed, lacking)["kept"] == "no decomposition of it is known"
    own = structs.replace(without("Mish", "Softplus"), decompositions=(mish_of_engine,))
    flat, picture = (model_of(x, "Mish(x)", 18, "float") for x in ("x[2,8]", "x[2,8,8]"))
    assert declines("mish_of_engine", flat, own) == {"y": "mish_of_engine: it is no picture"}
    assert declines("mish_of_engine", picture, own) == {}
    assert declines("expand_Mish", picture, own) == {
        "y": "expand_Mish: mish_of_engine was taken, as it is of the target"
    }
    (found,) = explain(picture, "mish_of_engine", target=own, as_is=as_is).passes
    assert [c.place for c in found.changes] == ["y"]
    (note,) = explain(picture, "mish_of_engine", plugin=[own], as_is=as_is).notes
    assert note == "mish_of_engine is not in the pipeline basic; `passes run` runs it with `--target small`"


def test_decompositions_of_a_target_come_first_whatever_their_size() -> None:
    """A package's own HardSwish of four ops lost to the built-in one of two."""
    from passwright.core import RewriteBuilder, Value, rule

    @rule(lambda g, x: g.HardSwish(x))
    def hard_swish_of_dsp(g: RewriteBuilder, x: Value) -> Value:
        """HardSwish(x) => x * Clip(x / 6 + 0.5, 0, 1)"""
        return g.Mul(x, g.Clip(x * (1 / 6) + 0.5, 0.0, 1.0))

    @rule(lambda g, x: g.HardSwish(x))
    def short_hard_swish_of_dsp(g: RewriteBuilder, x: Value) -> Value:
        """HardSwish(x) => HardSigmoid(x) * x"""
        return g.Mul(g.HardSigmoid(x, alpha=1 / 6, beta=0.5), x)

    model = model_of("x[2,8]", "HardSwish(x)", 17, "float")

    def others(*own: Rule) -> dict[str, str]:
        """The notes on the decompositions that were not taken."""
        target = structs.replace(without("HardSwish"), decompositions=own)
        names = ["split_hard_swish", "expand_HardSwish", *(r.name for r in own)]
        found = [explain(model, name, target=target).passes[0] for name in names]
        return {name: reason for p in found for reason in p.declines.values() for name in [reason.partition(":")[0]]}

    reason = "split_hard_swish was taken, as functions may overflow or round more"
    assert others() == {"expand_HardSwish": f"expand_HardSwish: {reason}"}
    built_in, longer, shorter = ("split_hard_swish", "expand_HardSwish"), hard_swish_of_dsp, short_hard_swish_of_dsp
    reason = "hard_swish_of_dsp was taken, as it is of the target"
    assert others(longer) == {name: f"{name}: {reason}" for name in built_in}
    reason = "short_hard_swish_of_dsp was taken, as it is of the target"
    found = {name: f"{name}: {reason}" for name in built_in}
    reason = "hard_swish_of_dsp: short_hard_swish_of_dsp was taken, with 2 ops in place of 4"
    assert others(longer, shorter) == {**found, "hard_swish_of_dsp": reason}
    target = structs.replace(without("HardSwish"), decompositions=(longer,))
    (found,) = explain(model, longer.name, target=target).passes
    assert [c.place for c in found.changes] == ["y"]


def test_bodies_are_judged_and_changed() -> None:
    text = """g (bool c, float[2,8] x) => (float[2,8] y) {
        y = If(c) <then_branch = t () => (float[2,8] o) { o = Softplus(x) },
                   else_branch = e () => (float[2,8] p) { p = Neg(x) }> }"""
    out = legalized(load(text, 17), without("Softplus"))
    assert "Softplus" not in str(out)


def test_constants_that_decompositions_need_are_folded() -> None:
    weights = {name: np.arange(1, 5, dtype=np.float32) for name in "sbmv"}
    model = load("g (float[2,4,3] x) => (float[2,4,3] y) { y = BatchNormalization(x, s, b, m, v) }", 17, weights)
    assert op_types(legalized(model, without("BatchNormalization", "Sqrt", "Div", "Unsqueeze"))) == ["Mul", "Add"]


def test_shapes_that_are_fixed_need_no_operators() -> None:
    inputs, expression, opset, _ = ROWS["Attention"]
    target = without("Attention", "Shape", "ConstantOfShape", "Cast", "CastLike", "Sqrt", "Gather", "Div")
    out = legalized(model_of(inputs, expression, opset, "float"), target)
    assert {"Shape", "Sqrt", "Div"}.isdisjoint(op_types(out))


def test_a_name_behind_its_domain() -> None:
    assert qualified_op_type("com.microsoft", "Gelu") in Target("t", operators={"com.microsoft.Gelu": Support()}).forms


def test_wrong_decompositions_are_left_out_and_the_op_is_listed() -> None:
    from passwright.core import RewriteBuilder, Value, rule

    @rule(lambda g, x: g.NonZero(x))
    def wrong(g: RewriteBuilder, x: Value) -> Value:
        """NonZero(x) => something else"""
        return g.Cast(g.Floor(x), to=7)

    model = load("g (float[2,3] x) => (int64[2,N] y) { y = NonZero(x) }", 17)
    target = structs.replace(without("NonZero"), decompositions=(wrong,))
    with pytest.raises(TargetError, match="1 op left that small does not support: NonZero at 'y'"):
        optimize(model, target=target)
    assert not issubclass(TargetError, PassFailed)
