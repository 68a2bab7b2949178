"""Declarations of operators: choice of meanings, arguments by name, and operators that onnxruntime lacks."""

from typing import Any

import numpy as np
import onnx
import pytest
from node_cases import backend_cases
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from passwright.core import from_onnx
from passwright.core.operators.declaration import Family, OperatorCall, Trait
from passwright.core.operators.table import OPERATORS, ops_with
from passwright.core.proof.finite_field_proof import Difference, prove_by_field
from passwright.core.proof.obligation import Fragment, Obligation, input_types
from passwright.core.rewriting.rules import ROUNDING
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64

NEWER = ("CausalConvWithState", "LinearAttention", "SwiGLU")  # than the operators of onnxruntime 1.31
TOLERANCE = {TensorProto.FLOAT: 1e-5, TensorProto.FLOAT16: 4e-3}


def call(version: int = 20, **attributes: Any) -> OperatorCall:
    return OperatorCall(onnx.NodeProto(output=["y"]), version, attributes, (), lambda _, inputs: list(inputs))


def test_a_meaning_is_chosen_by_the_opset() -> None:
    family = Family()
    family.declare("Twice", meaning=lambda x: x + x, since=7)
    family.older("Twice", since=3)(lambda x: x * 2.5)
    twice = family.operators["Twice"]
    assert [twice.run(call(version), 2) for version in (9, 7, 6, 3)] == [4, 4, 5.0, 5.0]
    with pytest.raises(NotImplementedError, match="opset 2"):
        twice.run(call(2), 2)


def test_attributes_and_facts_are_passed_by_name() -> None:
    family = Family()

    @family.operator("Seen")
    def _(x: int, axes: Any = None, *, scale: int = 1, output_count: int) -> tuple[Any, ...]:
        return x, axes, scale, output_count

    seen = family.operators["Seen"]
    assert seen.run(call(other=3), 1) == (1, None, 1, 1)
    assert seen.run(call(axes=[2], scale=5), 1) == (1, [2], 5, 1)
    assert seen.run(call(axes=[2]), 1, [0]) == (1, [0], 1, 1)


def test_every_operator_of_onnx_that_draws_no_numbers_has_a_meaning() -> None:
    without = {name for name, operator in OPERATORS.items() if not operator.meanings}
    losses = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}  # which onnx defines by functions
    assert without == ops_with(Trait.RANDOM) | losses | {"ImageDecoder"}


def test_newer_operators_agree_with_the_reference_of_onnx() -> None:
    seen: set[str] = set()
    for name, case in backend_cases().items():
        if not name.startswith(("test_causal_conv", "test_linear_attention", "test_swiglu")):
            continue
        seen |= {n.op_type for n in case.model.graph.node}
        expected = ReferenceEvaluator(case.model).run(None, case.feeds)
        found = evaluate_in_float64(case.model, case.feeds, [o.name for o in case.model.graph.output])
        for o, want in zip(case.model.graph.output, expected, strict=True):
            limit = TOLERANCE.get(helper.np_dtype_to_tensor_dtype(want.dtype), 0.05)
            np.testing.assert_allclose(found[o.name].value, want, rtol=limit, atol=limit, err_msg=name)
    assert seen >= set(NEWER)


IDENTITIES: dict[str, tuple[str, str, str, str]] = {
    "SwiGLU": (
        "(float[2,3] a, float[2,3] b) => (float[p,q] y)",
        "y = SwiGLU<alpha = 0.5>(a, b)",
        "s = Swish<alpha = 0.5>(a) y = Mul(s, b)",
        "s = Swish<alpha = 0.5>(b) y = Mul(s, a)",
    ),
    "CausalConvWithState": (
        "(float[2,3,5] x, float[3,1,3] w, float[3] b, float[2,3,2] p) => (float[i,j,k] y, float[l,m,n] s)",
        "y, s = CausalConvWithState(x, w, b, p)",
        "c = Concat<axis = 2>(p, x) y = Conv<group = 3>(c, w, b) j, s = Split<axis = 2>(c, parts)",
        "c = Concat<axis = 2>(p, x) y = Conv<group = 3>(c, w, b) s, j = Split<axis = 2>(c, parts)",
    ),
    "LinearAttention": (
        "(float[1,1,2] q, float[1,1,2] k, float[1,1,3] v, float[1,1,2,3] p) => (float[i,j,k] y, float[l,m,n,o] s)",
        'y, s = LinearAttention<update_rule = "linear", q_num_heads = 1, kv_num_heads = 1, scale = 1.0>(q, k, v, p)',
        "t = Transpose<perm = [0, 2, 1]>(k) u = MatMul(t, v) s = Add(p, u) r = Squeeze(s, one) y = MatMul(q, r)",
        "t = Transpose<perm = [0, 2, 1]>(k) u = MatMul(t, v) s = Add(p, u) r = Squeeze(p, one) y = MatMul(q, r)",
    ),
}
"""A signature, a node of each operator, its parts, and other parts."""
CONSTANTS = "one = Constant<value_ints = [1]>() parts = Constant<value_ints = [5, 2]>() "


def model(signature: str, nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 13, opset_import: ["": 28]> g {signature} {{ {CONSTANTS} {nodes} }}')


@pytest.mark.parametrize("op_type", NEWER)
def test_newer_operators_are_proved_equal_to_their_parts(op_type: str) -> None:
    signature, before, *others = IDENTITIES[op_type]
    first = model(signature, before)
    right, wrong = (
        Obligation(Fragment(first), Fragment(model(signature, after)), input_types(first), ROUNDING) for after in others
    )
    prove_by_field(right)
    with pytest.raises(Difference):
        prove_by_field(wrong)


@pytest.mark.parametrize("op_type", NEWER)
def test_newer_operators_have_shapes(op_type: str) -> None:
    signature, node = IDENTITIES[op_type][:2]
    (op,) = from_onnx(model(signature.replace("[2,3,", "[N,3,"), node)).graph.ops(op_type)
    shapes = [v.known_shape for v in op.outputs]
    assert all(s is not None and None not in s for s in shapes)
