"""Decision boundaries of a model, and inputs on both sides of them."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, external_data_helper, helper
from passwright.core import from_onnx
from passwright.core.errors import VerificationError
from passwright.core.verify.decision_boundaries import MAX_BOUNDARIES, decision_boundaries
from passwright.core.verify.input_generation import distinct_kinds, generate_input_sets, variant_count
from passwright.core.verify.input_specs import input_specs
from passwright.core.verify.oracle import Oracle
from rewriting import cases, each, load, oracle_of

WEIGHTS = {
    "two": np.float32(2),
    "six": np.float32(6),
    "n": np.array([[0], [1]]),
    "many": np.linspace(0, 1, 50, dtype=np.float32),
}


def points_of(body: str, head: str = "g (float[N,4] x) => (y)", opset: int = 17) -> tuple[float, ...]:
    model = from_onnx(load(f"{head} {{ {body} }}", opset, WEIGHTS))
    return decision_boundaries(model.graph.inputs[0]).points


@each(
    ("body", "want"),
    {
        "none": ("y = Relu(x)", ()),
        "compared": ("y = Greater(x, two)", (2,)),
        "operands swapped": ("y = LessOrEqual(two, x)", (2,)),
        "no constant": ("y = Equal(x, x)", ()),
        "clipped": ("y = Clip(x, two, six)", (2, 6)),
        "clipped above": ("y = Clip(x, , six)", (6,)),
        "two bounds": ("a = Max(x, two) y = Min(a, six)", (2, 6)),
        "negated": ("a = Neg(x) y = Less(a, two)", (-2,)),
        "shifted": ("a = Add(x, two) y = Less(a, six)", (4,)),
        "subtracted from a constant": ("a = Sub(two, x) y = Less(a, six)", (-4,)),
        "scaled and shifted": ("a = Mul(x, two) b = Sub(a, two) y = Less(b, six)", (4,)),
        "divided": ("a = Div(x, two) y = Less(a, six)", (12,)),
        "divisor": ("a = Div(two, x) y = Less(a, six)", ()),
        "transposed": ("a = Transpose(x) y = Less(a, six)", (6,)),
        "Trilu": ("a = Trilu(x) y = Less(a, six)", (6,)),
        "scattered": ("a = ScatterND(x, n, x) y = Less(a, six)", (6,)),
        "computed": ("a = Exp(x) y = Less(a, six)", ()),
        "ThresholdedRelu": ("y = ThresholdedRelu<alpha=1.5>(x)", (1.5,)),
        "Shrink": ("y = Shrink<lambd=1.5>(x)", (-1.5, 1.5)),
        "HardSigmoid": ("y = HardSigmoid<alpha=0.5, beta=0.5>(x)", (-1, 1)),
        "HardSwish": ("y = HardSwish(x)", (-3, 3)),
        "Where": ("c = Equal(x, two) y = Where(c, x, six)", (2,)),
    },
)
def test_boundaries_are_found(body: str, want: tuple[float, ...]) -> None:
    assert points_of(body) == pytest.approx(want)


@each(
    ("attributes", "want"),
    {
        "corners": ("mode='nearest', align_corners=1", (-0.75, -0.25, 0.25, 0.75)),
        "centers": ("mode='nearest'", (-0.6, -0.2, 0.2, 0.6)),
        "all places": ("mode='bilinear'", ()),
    },
)
def test_places_as_near_to_one_element_as_to_the_next(attributes: str, want: tuple[float, ...]) -> None:
    body = f"y = GridSample<{attributes}>(i, x)".replace("'", '"')
    found = points_of(body, "g (float[1,2,2,2] x, float[1,1,5,5] i) => (y)", 16)
    assert found == pytest.approx(want)


def test_clip_attributes_are_boundaries() -> None:
    assert points_of("y = Clip<max=6.0, min=-0.5>(x)", opset=6) == (-0.5, 6)


def test_weights_in_files_that_are_not_there_are_no_boundaries() -> None:
    model = load("g (float[N,4] x) => (y) { y = Less(x, far) }", weights={"far": np.zeros(4, np.float32)})
    external_data_helper.set_external_data(model.graph.initializer[0], "weights.bin")
    model.graph.initializer[0].ClearField("raw_data")
    assert decision_boundaries(from_onnx(model).graph.inputs[0]).points == ()


def test_boundary_count_is_limited() -> None:
    found = points_of("a = Unsqueeze(x, k) y = Less(a, many)", "g (float[N,4] x) => (y) <int64[1] k = {2}>")
    assert len(found) == MAX_BOUNDARIES
    assert (found[0], found[-1]) == (0, 1)


def test_tree_thresholds_are_boundaries() -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_values=[0.25, 0.0, 0.0],
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0],
    )  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 1]) for n in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=10)
    assert 0.25 in decision_boundaries(from_onnx(model).graph.inputs[0]).points


@each("dtype", ["float", "double", "float16", "bfloat16", "int32", "int64", "uint8"])
def test_inputs_contain_boundary_and_neighbours(dtype: str) -> None:
    code = TensorProto.DataType.Value(dtype.upper())
    text = f"g ({dtype}[40] x, {dtype} six) => (bool[40] y) {{ y = Less(x, six) }}"
    kind = helper.tensor_dtype_to_np_dtype(code)
    model = load(text.replace(f", {dtype} six", ""), weights={"six": np.array(6).astype(kind)})
    x = next(generate_input_sets(input_specs(from_onnx(model)), "boundaries", {}, (0,))).feeds["x"]
    assert x.dtype == kind
    below, above = (6 - 1, 6 + 1) if dtype.startswith(("int", "uint")) else _neighbours(kind)
    assert {below, 6, above} <= set(x.astype(np.float64).tolist())


def _neighbours(kind: Any) -> tuple[float, float]:
    six = kind.type(6)
    return tuple(float(np.nextafter(six, kind.type(far))) for far in (0, 9))


def test_no_boundary_inputs_without_boundaries() -> None:
    inputs = input_specs(from_onnx(load("g (float[4] x) => (y) { y = Relu(x) }")))
    assert "boundaries" not in distinct_kinds(inputs, are_large=False)


def outputs_of(text: str) -> tuple[Oracle, list[Any]]:
    model = load(text, weights={k: v for k, v in WEIGHTS.items() if f" {k})" in text})
    oracle = oracle_of(model)
    return oracle, [a.outputs["y"] for a in oracle.runs]


@cases(
    "condition",
    {
        "a scalar": "c = Greater(x, six)",
        "negated": "n = Neg(x) c = Less(n, six)",
        "equal": "c = Equal(x, six)",
        "between two": "d = Less(x, six) e = Greater(x, two) c = And(d, e)",
    },
)
def test_scalars_take_both_branches(condition: str) -> None:
    branches = "<then_branch = t () => (float a) { a = Exp(two) }, else_branch = e () => (float b) { b = Neg(two) }>"
    text = f"g (float x) => (float y) {{ {condition} y = If(c) {branches} }}"
    model = load(text, weights={"two": WEIGHTS["two"], "six": WEIGHTS["six"]})
    oracle = oracle_of(model)
    assert {bool(a.outputs["y"] > 0) for a in oracle.runs if a.input_set.kind == "boundaries"} == {True, False}
    assert oracle.notes == []


@pytest.mark.parametrize("reduce", ["ReduceMax", "ReduceMean", "ReduceMin"])
def test_reduced_conditions_take_both_values(reduce: str) -> None:
    oracle, found = outputs_of(f"g (float[2,5] x) => (y) {{ m = {reduce}<keepdims=0>(x) y = Greater(m, six) }}")
    assert {bool(y) for y in found} == {True, False}
    assert variant_count(input_specs(from_onnx(load("g (float[2] x) => (y) { y = Neg(x) }"))), "boundaries", {}) == 1
    assert len({a.input_set.kind for a in oracle.runs}) > 5


@pytest.mark.parametrize(("points", "kind"), [((11.0,), "boundaries"), ((), "constants")])
def test_boundaries_of_rules_and_of_results_are_used(points: tuple[float, ...], kind: str) -> None:
    # The models differ only at 11, which is not a constant of the original.
    before, after = (
        load(f"g (float[N,4] x) => (y) {{ {body} }}", weights={"k": np.float32(11)})
        for body in ("y = Identity(x)", "c = Equal(x, k) n = Neg(x) y = Where(c, n, x)")
    )
    oracle = oracle_of(before, boundaries=points)
    assert any(a.input_set.kind == "boundaries" for a in oracle.runs) == bool(points)
    with pytest.raises(VerificationError, match=f"on {kind} inputs"):
        oracle.check(after.SerializeToString())


def test_index_boundaries_stay_within_table() -> None:
    text = (
        "g (int64[N,8] i) => (y) <float[600] w, int64 pad = {500}, int64 far = {700}>"
        " { p = Equal(i, pad) q = Equal(i, far) c = Or(p, q) g = Gather(w, i) n = Neg(g) y = Where(c, n, g) }"
    )
    inputs = input_specs(from_onnx(load(text, weights={"w": np.zeros(600, np.float32)})))
    assert "boundaries" in distinct_kinds(inputs, are_large=False)
    i, tame, *_ = (d.feeds["i"] for d in generate_input_sets(inputs, "boundaries", {"N": 4}, (0,)))
    assert {499, 500, 501, 599} <= set(i.flat)
    assert i.max() < 600
    assert set(tame.flat) <= {0, 1}


def test_mixed_inputs_contain_boundaries() -> None:
    text = "g (float[1,3,200,200] x) => (y) { y = GreaterOrEqual(x, six) }"
    model, other = (load(t, weights={"six": WEIGHTS["six"]}) for t in (text, text.replace("OrEqual", "")))
    oracle = oracle_of(model)
    assert [a.input_set.kind for a in oracle.runs][:4] == ["normal", "mixed", "nan", "zeros"]
    with pytest.raises(VerificationError, match="on mixed inputs"):
        oracle.check(other.SerializeToString())
