"""Models of earlier bugs: each stays equivalent, or is rejected in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import ModelError
from passwright.core.ir import wire_format
from rewriting import initializers, load, op_types, run

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")

G = "g (float[2] x) => (float[2] y)"
X = {"x": np.array([1.0, -2.0], np.float32)}


def test_a_cycle_inside_a_branch() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
        then_branch = t () => (float[2] a) { b = Neg(d) d = Neg(b) a = Add(b, x) },
        else_branch = e () => (float[2] f) { f = Abs(x) }> }"""
    with pytest.raises(ModelError, match="cycle"):
        from_onnx(load(text))


def test_constants_in_bodies_at_ir_version_3() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
        then_branch = t () => (float[2] a) { k = Constant<value = float[2] {1, 2}>() a = Add(k, x) },
        else_branch = e () => (float[2] f) { f = Abs(x) }> }"""
    model = parser.parse_model(f'<ir_version: 3, opset_import: ["" : 8]> {text}')
    out = optimize(model).model
    onnx.checker.check_model(out)
    assert [i.name for i in out.graph.input] == ["c", "x"]


@pytest.mark.parametrize("field", ["float_data", "raw_data"])
def test_packed_fields_in_several_pieces(field: str, tmp_path: Path) -> None:
    """Protobuf joins packed fields that come in pieces, and keeps the last of a repeated one."""
    data = np.arange(600, dtype="<f4")
    head = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[600]).SerializeToString()
    pieces = (data[:300], data[300:]) if field == "float_data" else (np.zeros(600, "<f4"), data)
    number = 4 if field == "float_data" else 9
    tensor = head + b"".join(wire_format.encode_field(number, p.tobytes()) for p in pieces)
    model = load("g (float[600] x) => (float[600] y) { i = Identity(x) y = Add(i, w) }", weights={"w": data})
    del model.graph.initializer[:]
    graph = model.graph.SerializeToString() + wire_format.encode_field(5, tensor)
    model.ClearField("graph")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString() + wire_format.encode_field(7, graph))
    out = optimize(path).model
    assert initializers(out)["w"].tolist() == data.tolist()
    assert op_types(out) == ["Add"]


def test_initializers_keep_their_order() -> None:
    text = "g (float[2] x, float[2] d = {1, 2}) => (float[2] y) <float[2] a = {1, 1}, float[2] b = {2, 2}>"
    model = load(f"{text} {{ t = Add(x, d) u = Add(t, a) y = Add(u, b) }}")
    tensors = sorted(model.graph.initializer, key=lambda t: "adb".index(t.name))
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    assert to_onnx(from_onnx(model)) == model


def test_initializers_of_training_info_stay() -> None:
    model = load(f"{G} <float[2] w = {{1, 2}}, float[1] rate = {{0.5}}> {{ y = Add(x, w) }}")
    training = model.training_info.add()
    training.algorithm.CopyFrom(helper.make_graph([helper.make_node("Mul", ["w", "rate"], ["step"])], "a", [], []))
    training.update_binding.add(key="w", value="step")
    assert set(initializers(optimize(model).model)) == {"w", "rate"}


def test_chain_of_dependent_ifs() -> None:
    """More of them than the rounds allowed for a fixpoint."""
    nodes, condition, value = [], "yes", "x"
    for n in range(60):
        outputs = [f"v{n}", f"c{n}"]
        branches = [
            helper.make_graph(
                [helper.make_node(op, [value], [f"{op}{n}"]), helper.make_node("Identity", [flag], [f"{flag}{n}"])],
                op,
                [],
                [helper.make_empty_tensor_value_info(f"{op}{n}"), helper.make_empty_tensor_value_info(f"{flag}{n}")],
            )
            for op, flag in (("Sin", "no"), ("Cos", "yes"))
        ]
        nodes += [
            helper.make_node("If", [condition], outputs, then_branch=branches[0], else_branch=branches[1]),
            helper.make_node("Not", [outputs[1]], [f"n{n}"]),
        ]
        condition, value = f"n{n}", outputs[0]
    flags = {"yes": np.array(True), "no": np.array(False)}
    model = load(f"{G} {{ y = Identity(x) }}", weights=flags)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, helper.make_node("Identity", [value], ["y"])])
    assert set(op_types(optimize(model).model)) == {"Sin"}


def test_a_function_named_like_an_operator() -> None:
    """onnxruntime runs its own Relu regardless of the function; so does the result."""
    model = load(f"{G} {{ i = Identity(x) y = Relu(i) }}")
    body = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function("", "Relu", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    out = optimize(model).model
    assert op_types(out) == ["Relu"]
    assert len(out.functions) == 1


def test_defaults_of_a_functions_attributes() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.f(x) }
        <domain: "own", opset_import: ["" : 18]> f <k: float = 3.0> (a) => (b) {
            c = Constant<value_float: float = @k>() b = Mul(a, c) }"""
    out = optimize(parser.parse_model(text)).model
    assert run(out, X)[0].tolist() == [3.0, -6.0]


def test_equal_statistics_of_a_training_batchnorm_stay_apart() -> None:
    """Before opset 14 it may write to them in place (BatchNormalization-9)."""
    ones: dict[str, Any] = {name: np.ones(3, np.float32) for name in "sbmv"}
    text = "g (float[4,3,2,2] x) => (float[4,3,2,2] y) { y, m1, v1, sm, sv = BatchNormalization(x, s, b, m, v) }"
    out = optimize(load(text, 9, ones)).model
    assert len({*out.graph.node[0].input}) == 5


def test_a_loop_without_end_in_a_branch_not_taken() -> None:
    text = """g (bool c, float[] x) => (float[] y) <int64 m = {1099511627776}, bool t = {1}, float z = {0}> {
        y = If (c) <
        then_branch = p () => (float[] a) { a = Loop (m, t, z) <body = b (int64 i, bool k, float[] s) =>
            (bool k2, float[] s2) { k2 = Identity(k) s2 = Sin(s) }> },
        else_branch = e () => (float[] f) { f = Abs(x) }> }"""
    result = optimize(load(text), verify=False)
    assert result.report.after.ops["Loop"] == 1


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_trapping_division_is_not_folded(op: str) -> None:
    weights = {"a": np.array([-(2**63)], np.int64), "b": np.array([-1], np.int64)}
    text = f"""g (bool c, int64[1] x) => (int64[1] y) {{ y = If (c) <
        then_branch = t () => (int64[1] d) {{ d = {op}(a, b) }},
        else_branch = e () => (int64[1] f) {{ f = Abs(x) }}> }}"""
    result = optimize(load(text, weights=weights), verify=False)
    assert result.report.after.ops[op] == 1


def test_names_hidden_by_an_inner_scope() -> None:
    """Merging w into v moves a name into a body where an input hides it."""
    weights = {"v": np.array([5, 5], np.float32), "n": np.array(2), "t": np.array(True)}
    text = """g (float[2] x) => (float[2] y, float[2] z) { z = Add(x, v) y = Loop (n, t, x) <body =
        b (int64 i, bool k, float[2] v) => (bool k2, float[2] s2) <float[2] w = {5, 5}> {
            k2 = Identity(k) s2 = Add(v, w) }> }"""
    model = load(text, weights=weights)
    assert [a.tolist() for a in run(optimize(model).model, X)] == [a.tolist() for a in run(model, X)]
