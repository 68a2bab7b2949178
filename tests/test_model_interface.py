"""Interfaces of models: forbidden changes are found and named, others are allowed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from passwright.core import Model, Op, PassesError, Tensor, Value, from_onnx, to_onnx
from passwright.core.errors import InterfaceError
from passwright.core.run.model_interface import ModelInterface
from passwright.core.transform.opset_conversion import plan_conversion
from passwright.passes.pipelines import PIPELINES
from rewriting import apply_passes, each, load, run

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
EVERYTHING = (
    "g (float[N,4] x, bool k, float[4] d, float[4] e) => (float[N,4] y, float[N,4] z) <float[4] d = {1,2,3,4},"
    "float[4] w = {1,1,1,1}, float s = {0.5}> {"
    "i = Identity(x) h = Transpose(i) j = Transpose(h) n = Neg(j) a = Add(n, d) b = Mul(a, w)"
    "q = Mul(b, s) c = Mul(q, e)"
    "y = If (k) <then_branch = p () => (float[N,4] r) { t = Abs(c) r = Neg(t) },"
    "else_branch = o () => (float[N,4] u) { u = Identity(c) }>"
    "z = Relu(c) }"
)


def full_model() -> onnx.ModelProto:
    """A model with every part that passes have to keep."""
    model = load(EVERYTHING)
    model.doc_string, model.producer_name = "what it is for", "someone"
    model.metadata_props.add(key="license", value="free")
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    g = model.graph
    g.doc_string = "of the graph"
    g.metadata_props.add(key="k", value="v")
    g.input[0].doc_string = "an image"
    g.output[0].metadata_props.add(key="unit", value="m")
    info = helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["N", 4], doc_string="a sum")
    g.value_info.append(info)
    note = g.quantization_annotation.add(tensor_name="q")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    for node in g.node:
        node.name, node.doc_string = f"the_{node.op_type}_{node.output[0]}", "a step"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['layer']")
    g.node[-2].attribute[0].g.doc_string = "a branch"
    g.node[-2].attribute[0].g.node[0].name = "inside"
    return model


def op(m: Model, op_type: str) -> Op:
    return next(iter(o for g in m.graph.with_subgraphs() for o in g.ops(op_type)))


def value(m: Model, name: str) -> Value:
    values = [*m.graph.inputs, *m.graph.initializers, *(v for o in m.graph.ops() for v in o.outputs)]
    return next(v for v in values if v.name == name)


def default(*elements: float) -> Tensor:
    return Tensor.from_array(np.array(elements, np.float32))


def rename(old: str, new: str) -> Callable[[Model], object]:
    return lambda m: setattr(value(m, old), "name", new)


def make_constant(name: str, *, listed: bool = False) -> Callable[[Model], None]:
    """Make an input a constant."""

    def change(m: Model) -> None:
        v = value(m, name)
        v.set_constant(default(1, 2, 3, 4))
        if listed:
            m.graph.initializers[v] = None

    return change


def redeclare(part: str, at: int, info: onnx.ValueInfoProto) -> Callable[[Model], None]:
    def change(m: Model) -> None:
        entries, text = getattr(m.graph.declared, part), info.SerializeToString()
        entries[at] = text if part == "outputs" else (entries[at][0], text)

    return change


def edit_rest(op_type: str, edit: Callable[[onnx.NodeProto], object]) -> Callable[[Model], None]:
    def change(m: Model) -> None:
        o = op(m, op_type)
        node = onnx.NodeProto.FromString(o.proto_bytes or b"")
        edit(node)
        o.proto_bytes = node.SerializeToString()

    return change


edit_relu = partial(edit_rest, "Relu")


def redefault(*elements: float) -> Callable[[Model], None]:
    return lambda m: m.graph.input_defaults.update({value(m, "d"): default(*elements)})


def clear_header(field: str) -> Callable[[Model], None]:
    return lambda m: m.graph.declared.header.ClearField(field)


def in_branch(edit: Callable[[onnx.GraphProto], object]) -> Callable[[Model], object]:
    return lambda m: edit(op(m, "If").subgraphs[0].declared.header)


def reverse_outputs(m: Model) -> None:
    m.graph.outputs = m.graph.outputs[::-1]


def reverse_outputs_and_declarations(m: Model) -> None:
    reverse_outputs(m)
    m.graph.declared.outputs.reverse()


def drop_output(m: Model) -> None:
    m.graph.outputs = m.graph.outputs[:1]
    del m.graph.declared.outputs[1]


def drop_input(m: Model) -> None:
    del m.graph.declared.inputs[1], m.graph.inputs[1]


def add_input(m: Model) -> None:
    new = Value("new")
    info = helper.make_tensor_value_info("new", onnx.TensorProto.FLOAT, [1])
    m.graph.inputs.append(new)
    m.graph.declared.inputs.append((new, info.SerializeToString()))


def drop_default_from_file(m: Model) -> None:
    m.graph.declared.initializers.remove(value(m, "d"))


def write_into_default(m: Model) -> None:
    array = m.graph.input_defaults[value(m, "d")]._header
    assert isinstance(array, onnx.TensorProto)
    array.float_data[0] = 7


def unpin_and_remove(m: Model) -> None:
    m.graph.pinned.clear()
    c, b = op(m, "If").captures[0].producer, value(m, "b")
    assert c is not None
    m.graph.set_inputs(c, [b, c.inputs[1]])
    assert m.graph.prune([value(m, "q").producer or c])


def edit_annotation(m: Model) -> None:
    m.graph.declared.header.quantization_annotation[0].quant_parameter_tensor_names[0].value = "w"


def recreate_op(m: Model) -> None:
    o = op(m, "Relu")
    assert (o.attrs, o.name) == ({}, "the_Relu_z")
    o.proto_bytes = None


def change_import(m: Model) -> None:
    m.header.opset_import[0].version = 18


def drop_import(m: Model) -> None:
    del m.header.opset_import[1]


def drop_branch_output(m: Model) -> None:
    sub = op(m, "If").subgraphs[0]
    sub.outputs = ()
    sub.declared.outputs.clear()


FLOAT = onnx.TensorProto.FLOAT
FLAT = helper.make_tensor_value_info("y", FLOAT, [4])
OTHER_SYMBOL = helper.make_tensor_value_info("x", FLOAT, ["M", 4], doc_string="an image")
NO_DOC = helper.make_tensor_value_info("x", FLOAT, ["N", 4])
WIDER = helper.make_tensor_value_info("e", onnx.TensorProto.DOUBLE, [4])
NO_METADATA = helper.make_tensor_value_info("y", FLOAT, ["N", 4])


@each(
    ("change", "line"),
    {
        "input renamed": (rename("x", "z1"), "input x is now called z1"),
        "output renamed": (rename("y", "z1"), "output y is now called z1"),
        "outputs in another order": (reverse_outputs, "the outputs were y, z and are z, y"),
        "outputs and declarations reversed": (reverse_outputs_and_declarations, "the outputs were y, z and are z, y"),
        "output dropped": (drop_output, "output z was removed"),
        "output not declared": (lambda m: m.graph.declared.outputs.pop(), "2 outputs and declares 1"),
        "input dropped": (drop_input, "input k was removed"),
        "input added": (add_input, "input new was added"),
        "declared inputs reversed": (lambda m: m.graph.declared.inputs.reverse(), "the inputs were x, k, d, e and are"),
        "inputs in another order": (lambda m: m.graph.inputs.reverse(), "the inputs were x, k, d, e and are"),
        "input made constant": (make_constant("x"), "input x was removed"),
        "input given a default": (make_constant("e", listed=True), "input e became an overridable initializer"),
        "output type": (redeclare("outputs", 0, FLAT), r"output y was float\[N,4\] and is float\[4\]"),
        "symbolic dim": (redeclare("inputs", 0, OTHER_SYMBOL), r"input x was float\[N,4\] and is float\[M,4\]"),
        "element type": (redeclare("inputs", 3, WIDER), r"input e was float\[4\] and is double\[4\]"),
        "doc string of an input": (redeclare("inputs", 0, NO_DOC), "the doc string of input x changed"),
        "metadata of output": (redeclare("outputs", 0, NO_METADATA), "the metadata of output y changed"),
        "value info": (redeclare("value_infos", 0, FLAT), "the declaration of a was changed or removed"),
        "value info dropped": (lambda m: m.graph.declared.value_infos.clear(), "the declaration of a was changed"),
        "default popped": (lambda m: m.graph.input_defaults.clear(), "overridable initializer d is gone"),
        "other default": (redefault(1, 2, 3, 5), "overridable initializer d changed"),
        "default of another shape": (redefault(1, 2), "overridable initializer d changed"),
        "default written to in place": (write_into_default, "overridable initializer d changed"),
        "default not written": (drop_default_from_file, "overridable initializer d is gone"),
        "model doc": (lambda m: setattr(m.header, "doc_string", ""), "the doc string of the model changed"),
        "model metadata": (lambda m: m.header.ClearField("metadata_props"), "the metadata of the model"),
        "IR version": (lambda m: setattr(m.header, "ir_version", 9), "the ir version of the model changed"),
        "producer": (lambda m: setattr(m.header, "producer_name", "x"), "the producer name of the model"),
        "opset changed": (change_import, "imported opset 17 of ai.onnx, but now opset 18"),
        "opset dropped": (drop_import, "imported opset 3 of com.example, but now none"),
        "opset of the graph": (lambda m: m.graph.opsets.update({"": 18}), "opset 17 of ai.onnx, but now opset 18"),
        "graph doc": (clear_header("doc_string"), "the doc string of the graph"),
        "graph metadata": (clear_header("metadata_props"), "metadata of the graph"),
        "graph name": (lambda m: setattr(m.graph.declared.header, "name", "h"), "the name of the graph"),
        "annotation dropped": (clear_header("quantization_annotation"), "the quantization annotation of q was removed"),
        "annotation edited": (edit_annotation, "the quantization annotation of q was changed"),
        "annotated tensor removed": (unpin_and_remove, "q, which an annotation .* was removed"),
        "tensor of an annotation renamed": (rename("s", "s2"), "s, which an annotation .* was removed"),
        "node renamed": (lambda m: setattr(op(m, "Relu"), "name", "r2"), "node the_Relu_z was renamed r2"),
        "node renamed in its bytes": (edit_relu(lambda n: setattr(n, "name", "r2")), "node the_Relu_z was renamed r2"),
        "node without its name": (edit_relu(lambda n: n.ClearField("name")), "node the_Relu_z lost its name"),
        "node doc": (edit_relu(lambda n: n.ClearField("doc_string")), "the doc string of node the_Relu_z"),
        "node metadata": (edit_relu(lambda n: n.ClearField("metadata_props")), "the metadata of node the_Relu_z"),
        "node recreated": (recreate_op, "the doc string of node the_Relu_z was changed"),
        "node in a subgraph": (lambda m: setattr(op(m, "Abs"), "name", "b"), "node inside was renamed b"),
        "subgraph doc": (
            in_branch(lambda h: h.ClearField("doc_string")),
            "the doc string of the graph of a subgraph of If the_If_y changed",
        ),
        "output of a branch dropped": (drop_branch_output, "the outputs of a subgraph of If the_If_y were 1 and are 0"),
    },
)
def test_forbidden_changes_are_found(change: Callable[[Model], object], line: str) -> None:
    model = from_onnx(full_model())
    interface = ModelInterface.of(model)
    interface.require(model)
    change(model)
    with pytest.raises(InterfaceError, match=line) as found:
        interface.require(model)
    assert "\n" not in str(found.value)
    assert isinstance(found.value, PassesError)


def rebuild(m: Model) -> None:
    """Change a kept op as a pass may: other attributes, our own metadata."""
    edit_rest("Identity", lambda n: n.metadata_props.add(key="passwright.rule", value="mine"))(m)
    edit_rest("Neg", lambda n: n.attribute.append(helper.make_attribute("a", 1)))(m)


def replace_relu(m: Model) -> None:
    g, old = m.graph, op(m, "Relu")
    new = g.add_op(Op("Abs", "", "other", {}, None), old.inputs, [Value(g.fresh_name("z"))])
    g.take_over(new.outputs[0], value(m, "z"))
    g.prune([old])


@each(
    "change",
    {
        "no change": id,
        "additional import": lambda m: m.graph.opsets.update({"com.new": 1}),
        "an inner name": rename("b", "b2"),
        "other inputs": lambda m: m.graph.set_inputs(op(m, "Relu"), [value(m, "b")]),
        "other attributes": rebuild,
        "another op": replace_relu,
        "equal default": redefault(1, 2, 3, 4),
        "inferred type of an input": lambda m: m.graph.inputs[0].merge_type(0, (2, 4)),
        "export": to_onnx,
        "conversion to another opset": lambda m: plan_conversion(m.graph, 21).apply(m.graph, "test"),
    },
)
def test_other_changes_are_allowed(change: Callable[[Model], object]) -> None:
    model = from_onnx(full_model())
    interface = ModelInterface.of(model)
    change(model)
    interface.require(model)


def test_model_of_another_load_is_refused() -> None:
    with pytest.raises(InterfaceError, match="the graph of the model was replaced"):
        ModelInterface.of(from_onnx(full_model())).require(from_onnx(full_model()))


@each("ir_version", [3, 4, 10])
def test_basic_keeps_full_interface(ir_version: int) -> None:
    model = full_model()
    model.ir_version = ir_version
    result, change_log = apply_passes(model, PIPELINES["basic"])
    assert len(change_log.changes) >= 2
    out = to_onnx(result)
    assert list(out.graph.input)[:4] == list(model.graph.input)
    assert (out.graph.output, out.metadata_props, out.doc_string) == (
        model.graph.output, model.metadata_props, model.doc_string,
    )  # fmt: skip
    assert out.graph.quantization_annotation == model.graph.quantization_annotation


def test_initializers_of_old_models_may_be_removed() -> None:
    """Before IR version 4 every initializer is also an input, and may be removed."""
    model = load("g (float[2] x, float[2] w, float[2] v) => (float[2] y) <float[2] w = {1,2}, float[2] v = {0,0}> "
                 "{ y = Add(x, w) }")  # fmt: skip
    model.ir_version = 3
    result, _ = apply_passes(model, PIPELINES["basic"])
    assert [i.name for i in to_onnx(result).graph.input] == ["x", "w"]


def with_sparse_default() -> onnx.ModelProto:
    """A model with an unread input that has a sparse default."""
    model = load("g (float[3] x, float[3] d) => (float[3] y) { y = Neg(x) }")
    elements = helper.make_tensor("d", FLOAT, [1], [5.0])
    places = helper.make_tensor("places", onnx.TensorProto.INT64, [1], [1])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(elements, places, [3]))
    return model


def test_unread_sparse_default_is_kept() -> None:
    """Without its default, the input would be required."""
    model = with_sparse_default()
    result, _ = apply_passes(model, PIPELINES["basic"])
    assert to_onnx(result) == model
    (y,) = run(to_onnx(result), {"x": np.ones(3, np.float32)})
    assert y.tolist() == [-1, -1, -1]


@each(
    ("change", "line"),
    {
        "removed": (lambda m: m.graph.sparse_initializers.clear(), "overridable initializer d is gone"),
        "other elements": (
            lambda m: setattr(m.graph.sparse_initializers[value(m, "d")].values, "raw_data", b"1234"),
            "d changed",
        ),
    },
)
def test_changes_of_sparse_default_are_found(change: Callable[[Model], object], line: str) -> None:
    model = from_onnx(with_sparse_default())
    interface = ModelInterface.of(model)
    change(model)
    with pytest.raises(InterfaceError, match=line):
        interface.require(model)
