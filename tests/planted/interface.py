"""Mistakes in the interface of the model: inputs, outputs, names and opset."""

import numpy as np
import onnx
from passwright.core import ChangeLog, Graph

from planted.mistake import mistake


@mistake("g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Identity(x) y = Exp(a) z = Abs(a) }", wrong="y")
def crosses_outputs(graph: Graph, change_log: ChangeLog) -> int:
    """Two outputs keep their names and exchange their values."""
    first, second = (graph.producer(v) for v in graph.outputs)
    if first is None or second is None or first.type <= second.type:
        return 0
    if not change_log.request_change("crosses-outputs", graph.outputs[0].name, (first, second)):
        return 0
    values = graph.outputs
    values[0].name, values[1].name = values[1].name, values[0].name
    graph.outputs = values[::-1]
    graph.mark_changed()
    return 1


@mistake(
    "g (float[N,3] x, float[3] w) => (float[N,3] y, float[N,3] z) { y = Mul(x, w) a = Identity(x) z = Abs(a) }",
    wrong={"w": "interface"},
    weights={"w": np.array([1, 2, 3], np.float32)},
)
def drops_a_default(graph: Graph, change_log: ChangeLog) -> int:
    """An initializer that a caller may override is made a constant, and is an input no more.

    Known from onnxsim, OnnxSlim and graphsurgeon.
    """
    changes = 0
    for value in tuple(graph.input_defaults):
        if change_log.request_change("drops-a-default", value.name, (value,)):
            graph.inputs.remove(value)
            graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v is not value]
            value.set_constant(graph.input_defaults.pop(value))
            graph.initializers[value] = None
            graph.mark_changed()
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x, float[N,3] unused) => (float[N,3] y) { a = Identity(x) y = Abs(a) }",
    wrong={"unused": "interface"},
)
def drops_an_input(graph: Graph, change_log: ChangeLog) -> int:
    """A graph input that nothing reads is removed, and with it a part of the interface.

    Known from OnnxSlim.
    """
    changes = 0
    for value in [v for v in graph.inputs if not v.consumers]:
        if change_log.request_change("drops-an-input", value.name, (value,)):
            graph.inputs.remove(value)
            graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v is not value]
            graph.mark_changed()
            changes += 1
    return changes


@mistake("g (float[N,3] x) => (float[N,3] y) { a = Identity(x) y = Abs(a) }", wrong={"x": "interface"})
def fixes_the_batch(graph: Graph, change_log: ChangeLog) -> int:
    """The open batch of an input is declared to be 1, and larger ones are refused."""
    changes = 0
    for i, (value, info) in enumerate(graph.declared.inputs):
        proto = onnx.ValueInfoProto.FromString(info)
        dims = [d for d in proto.type.tensor_type.shape.dim if d.dim_param]
        if dims and change_log.request_change("fixes-the-batch", value.name, (value,)):
            for dim in dims:
                dim.dim_value = 1
            graph.declared.inputs[i] = value, proto.SerializeToString()
            graph.mark_changed()
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,1] y, float[N,3] z) { y = ReduceMean<axes=[1]>(x) b = Identity(x) z = Exp(b) }",
    wrong={"": "interface"},
)
def raises_the_opset(graph: Graph, change_log: ChangeLog) -> int:
    """The opset is raised, and no op is rewritten for it. Opset 18 takes the axes of ReduceMean as an input."""
    if graph.opsets[""] == 18:
        return 0
    graph.opsets[""] = 18
    graph.mark_changed()
    return 1


@mistake("g (float[N,3] x) => (float[N,3] y) { a = Identity(x) y = Abs(a) }", wrong={"": "interface"})
def renames_an_output(graph: Graph, change_log: ChangeLog) -> int:
    """An output gets a new name. Known from onnx-passes."""
    changes = 0
    for i, value in enumerate(graph.outputs):
        if value.name != f"global_out_{i}":
            value.name = f"global_out_{i}"
            info = onnx.ValueInfoProto.FromString(graph.declared.outputs[i])
            info.name = value.name
            graph.declared.outputs[i] = info.SerializeToString()
            graph.mark_changed()
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,3] y, float[N,3] z) { [first] y = Abs(x) b = Identity(x) [second] z = Exp(b) }",
    wrong={"": "interface"},
)
def renames_nodes(graph: Graph, change_log: ChangeLog) -> int:
    """Nodes that a pass did not touch get its own names for them. Known from OnnxSlim and onnxscript."""
    changes = 0
    for op in graph.ops():
        if op.name != f"node_{op.outputs[0].name}":
            op.name = f"node_{op.outputs[0].name}"
            op.proto_bytes = None
            graph.mark_changed()
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x) => (double[N,3] y, float[N,3] z) { a = Abs(x) y = Cast<to=11>(a) b = Identity(x) z = Exp(b) }",
    wrong={"y": "refused"},
)
def retypes_an_output(graph: Graph, change_log: ChangeLog) -> int:
    """A Cast at an output goes, and with it the output's type."""
    changes = 0
    for op in graph.ops("Cast"):
        source = op.inputs[0]
        if source is not None and change_log.request_change("retypes-an-output", op.outputs[0].name, (op,)):
            graph.replace_value(op.outputs[0], source)
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,3] x) => (float[N,3] z, float[N,3] y) { a = Identity(x) y = Abs(a) z = Neg(a) }",
    wrong={"z": "interface"},
)
def swaps_outputs(graph: Graph, change_log: ChangeLog) -> int:
    """Outputs are sorted by name. Callers who count them get another one."""
    ordered = sorted(graph.outputs, key=lambda v: v.name)
    if ordered == list(graph.outputs) or not change_log.request_change("swaps-outputs", graph.outputs[0].name):
        return 0
    graph.outputs = ordered
    graph.declared.outputs.sort(key=lambda info: onnx.ValueInfoProto.FromString(info).name)
    graph.mark_changed()
    return 1
