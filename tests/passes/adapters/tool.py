"""A tool for tests: its option selects a right or wrong change of the model."""

import os
import sys
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

RECEIVED_OPTIONS: list[str] = []


def run(model: onnx.ModelProto, option: str) -> onnx.ModelProto | None:
    sys.stdout.write("said to nobody\n")
    sys.stderr.write("nor this\n")
    RECEIVED_OPTIONS.append(option)
    globals()[option](model)
    return None if option == "give_nothing" else model


def nothing(model: onnx.ModelProto) -> None:
    """An equal model: attributes spelled out and reordered, docs, metadata and value_info dropped."""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
        attributes = list(node.attribute)[::-1]
        if node.op_type == "Elu" and not attributes:
            attributes = [helper.make_attribute("alpha", 1.0)]
        del node.attribute[:]
        node.attribute.extend(attributes)
    for t in model.graph.initializer:
        t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t), t.name))
    del model.graph.value_info[:], model.metadata_props[:]
    model.producer_name = "tool"


def rename_inner(model: onnx.ModelProto) -> None:
    """Rename all inner values."""
    ends = {v.name for v in (*model.graph.input, *model.graph.output)}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [n if not n or n in ends else f"tool_{n}" for n in names]
    for t in model.graph.initializer:
        if t.name not in ends:
            t.name = f"tool_{t.name}"


def allocate(model: onnx.ModelProto) -> None:
    """Reserve more memory than a process that runs a small model may."""
    np.empty(3 << 29, np.uint8)


def drop_identity(model: onnx.ModelProto) -> None:
    """Right: consumers of an Identity read its input."""
    same = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Identity"}
    kept = [n for n in model.graph.node if n.op_type != "Identity"]
    for node in kept:
        node.input[:] = [same.get(i, i) for i in node.input]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def double_weight(model: onnx.ModelProto) -> None:
    """Wrong: the first initializer is doubled."""
    (t, *_) = model.graph.initializer
    t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t) * 2, t.name))


def relu_for_elu(model: onnx.ModelProto) -> None:
    """Wrong."""
    for node in model.graph.node:
        if node.op_type == "Elu":
            node.op_type = "Relu"


def rename_output(model: onnx.ModelProto) -> None:
    old = model.graph.output[0].name
    model.graph.output[0].name = "other"
    for node in model.graph.node:
        node.output[:] = ["other" if o == old else o for o in node.output]
        node.input[:] = ["other" if i == old else i for i in node.input]


def drop_output(model: onnx.ModelProto) -> None:
    del model.graph.output[-1]


def rename_input(model: onnx.ModelProto) -> None:
    old = model.graph.input[0].name
    model.graph.input[0].name = "other"
    for node in model.graph.node:
        node.input[:] = ["other" if i == old else i for i in node.input]


def retype_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def fix_dim(model: onnx.ModelProto) -> None:
    """A declared symbolic dim becomes a number, and nothing else changes."""
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def resize_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[-1].dim_value += 1


def drop_default(model: onnx.ModelProto) -> None:
    held = {t.name for t in model.graph.initializer}
    kept = [i for i in model.graph.input if i.name not in held]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def change_default(model: onnx.ModelProto) -> None:
    double_weight(model)


def raise_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version += 1


def other_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for node in model.graph.node:
        if node.op_type == "Elu":
            node.op_type, node.domain = "Gelu", "com.microsoft"


def make_cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = model.graph.node[-1].output[0]


def leave_file(model: onnx.ModelProto) -> None:
    (t, *_) = model.graph.initializer
    t.ClearField("raw_data")
    t.ClearField("float_data")
    t.data_location = onnx.TensorProto.EXTERNAL
    t.external_data.add(key="location", value="weights.bin")


def crash_if_served(model: onnx.ModelProto) -> None:
    """A failure that depends on earlier requests to the process."""
    if len(RECEIVED_OPTIONS) > 1:
        os.abort()


def crash(model: onnx.ModelProto) -> None:
    os.abort()


def leave(model: onnx.ModelProto) -> None:
    os._exit(7)


def hang(model: onnx.ModelProto) -> None:
    time.sleep(60)


def assert_in_c(model: onnx.ModelProto) -> None:
    raise RuntimeError("/project/third_party/common/ir.h:1351: erase: Assertion `unused` failed." + " again" * 100)


def own_operator(model: onnx.ModelProto) -> None:
    """A private operator in the standard domain, as onnxruntime writes some."""
    for node in model.graph.node:
        if node.op_type == "Elu":
            node.op_type = "QuickElu"


def copy_node(model: onnx.ModelProto) -> None:
    """Right: the consumer of Elu gets a copy of it, of the same name, in front of the first."""
    (at,) = (i for i, n in enumerate(model.graph.node) if n.op_type == "Elu")
    copy = onnx.NodeProto()
    copy.CopyFrom(model.graph.node[at])
    copy.output[0] = "copied"
    model.graph.node.insert(at, copy)
    for node in model.graph.node:
        if node.op_type == "Neg":
            node.input[0] = "copied"


def nameless(model: onnx.ModelProto) -> None:
    """Right: two new nodes without names replace one."""
    (neg,) = (n for n in model.graph.node if n.op_type == "Neg")
    model.graph.node.remove(neg)
    model.graph.node.append(helper.make_node("Constant", [], ["nil"], value_float=0.0))
    model.graph.node.append(helper.make_node("Sub", ["nil", neg.input[0]], [neg.output[0]]))


def stumble(model: onnx.ModelProto) -> None:
    raise RuntimeError("the tool says no\nand more")


def give_nothing(model: onnx.ModelProto) -> None:
    """Return no model."""


def fold_sum(model: onnx.ModelProto) -> None:
    """Right: a sum of constants becomes an initializer of the same name."""
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in list(model.graph.node):
        if node.op_type == "Add" and set(node.input) <= held.keys():
            total = held[node.input[0]] + held[node.input[1]]
            model.graph.initializer.append(numpy_helper.from_array(total, node.output[0]))
            model.graph.node.remove(node)


def return_exit(model: onnx.ModelProto) -> None:
    sys.exit("enough")
