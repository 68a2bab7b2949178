"""Corrections of `onnx.version_converter` for operators that it converts to something else (seen with onnx 1.23).

Hardmax and Resize keep attributes whose meaning changed, GroupNormalization inputs of which it did, Clip and Pad get
bounds of type float for inputs of any type, the batch axis of Scan is dropped, and so is the training form of
BatchNormalization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import MatchFailure, require
from ..ir.op import Op
from .node_conversion import SingleNodeModel


def correct_before(op: Op, node: onnx.NodeProto, current: int, version: int) -> None:
    """Write `node`, made from `op`, in a form that is rightly converted to a higher `version`. Declines if none is."""
    for step, correct in BEFORE.get(op.type, ()):
        if current < step <= version:
            correct(op, node)


def correct_after(single: SingleNodeModel, nodes: list[onnx.NodeProto], current: int, version: int) -> None:
    """Correct the `nodes` to which `single` was converted, from opset `current` to `version`."""
    for step, correct in AFTER.get(single.op_type, ()):
        if current < step <= version:
            correct(single, nodes, version)


def _write_as_softmax(op: Op, node: onnx.NodeProto) -> None:
    """Hardmax changed as Softmax did, whose conversion is right: its elements are not looked at."""
    node.op_type = "Softmax"


def _write_default_sampling(op: Op, node: onnx.NodeProto) -> None:
    """The coordinates that Resize had before opset 11, and the rounding of onnxruntime's kernel for it."""
    if op.attr("mode") == "nearest":
        scales = op.inputs[1].tensor if len(op.inputs) > 1 and op.inputs[1] is not None else None
        require(scales is not None, "it rounds by its scales, which are not constant")
        factors = scales.array if scales is not None else np.ones(0)
        require((factors >= 1).all() or (factors <= 1).all(), "it rounds up along one axis and down along another")
        _set_sampling(node, "floor" if (factors >= 1).all() else "ceil")
    else:
        _set_sampling(node)


def _set_sampling(node: onnx.NodeProto, rounding: str = "") -> None:
    node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if rounding:
        node.attribute.append(helper.make_attribute("nearest_mode", rounding))


def _require_inference(op: Op, node: onnx.NodeProto) -> None:
    """Several outputs meant training before opset 14, and their number changed then."""
    require(not any(v.name for v in op.outputs[1:]), "it is in training form")


def _require_no_mask(op: Op, node: onnx.NodeProto) -> None:
    """The mask became boolean with opset 10, and true where nothing is dropped with opset 12: it must be unused."""
    require(all(map(op.graph.is_unused, op.outputs[1:])), "its mask is another one since opset 12")
    del node.output[1:]


def _require_shapes(op: Op, node: onnx.NodeProto) -> None:
    """Before opset 7, the second operand was placed at an axis of the first; the converter looks at both shapes."""
    known = all(v is not None and v.known_shape is not None for v in op.inputs)
    require(known or "axis" not in op.attrs, "it broadcasts along an axis of unknown shapes")


def _require_one_slope(op: Op, node: onnx.NodeProto) -> None:
    """Before opset 7, PRelu had a slope for each channel, and since then slopes that broadcast to the last dims."""
    slope = op.inputs[1].tensor if len(op.inputs) > 1 and op.inputs[1] is not None else None
    require(slope is not None and slope.size == 1, "its slopes do not broadcast as those of opset 7")


def _decline_batches(op: Op, node: onnx.NodeProto) -> None:
    raise MatchFailure("it scans batches, which Scan does not have since opset 9")


def _keep_zero_dims(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Input and output have the same shape, zeros included; before opset 14 they mean a dim of the operand."""
    for node in nodes:
        if node.op_type == "Softmax":
            node.op_type = single.op_type
        if node.op_type == "Reshape" and version >= FIRST_WITH_ALLOWZERO:
            node.attribute.append(helper.make_attribute("allowzero", 1))


def _cast_bounds(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """The bounds of Clip and the value of Pad have the type of the input."""
    if single.dtype == TensorProto.DOUBLE and single.op_type == "Clip":
        require(len(list(_float_constants(nodes))) == len(("min", "max")), "its defaults are not those of opset 11")
    for tensor in _float_constants(nodes):
        with np.errstate(over="ignore"):
            bound = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(single.dtype))
        tensor.CopyFrom(numpy_helper.from_array(bound, tensor.name))


def _float_constants(nodes: list[onnx.NodeProto]) -> Iterator[TensorProto]:
    constants = (node.attribute[0].t for node in nodes if node.op_type == "Constant")
    return (t for t in constants if t.data_type == TensorProto.FLOAT)


def _sample_as_before(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Upsample, whose scales are 1 or more, becomes a Resize."""
    for node in nodes:
        if node.op_type == "Resize":
            is_nearest = all(a.s == b"nearest" for a in node.attribute if a.name == "mode")
            _set_sampling(node, "floor" if is_nearest else "")


def _repeat_for_channels(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Scale and bias of GroupNormalization have an element for each channel since opset 21, before for each group."""
    norm = nodes.pop()
    groups = next(a.i for a in norm.attribute if a.name == "num_groups")
    for name, numbers in (("groups", [groups]), ("one", [1]), ("column", [-1, 1]), ("flat", [-1])):
        tensor = numpy_helper.from_array(np.array(numbers, np.int64))
        nodes.append(helper.make_node("Constant", [], [name], value=tensor))
    nodes.append(helper.make_node("Shape", ["i0"], ["channels"], start=1, end=2))
    nodes.append(helper.make_node("Div", ["channels", "groups"], ["repeats"]))
    nodes.append(helper.make_node("Concat", ["one", "repeats"], ["row"], axis=0))
    for name in ("i1", "i2"):
        nodes.append(helper.make_node("Reshape", [name, "column"], [f"{name}_column"]))
        nodes.append(helper.make_node("Expand", [f"{name}_column", "row"], [f"{name}_repeated"]))
        nodes.append(helper.make_node("Reshape", [f"{name}_repeated", "flat"], [f"{name}_flat"]))
    norm.input[1:] = ["i1_flat", "i2_flat"]
    if single.dtype != TensorProto.FLOAT:  # before, it was computed in its own type
        norm.attribute.append(helper.make_attribute("stash_type", single.dtype))
    nodes.append(norm)


FIRST_WITH_ALLOWZERO = 14
Before = Callable[[Op, onnx.NodeProto], None]
After = Callable[[SingleNodeModel, list[onnx.NodeProto], int], None]
BEFORE: Mapping[str, Sequence[tuple[int, Before]]] = {
    "BatchNormalization": [(14, _require_inference)],
    "Dropout": [(10, _require_no_mask), (12, _require_no_mask)],
    "Hardmax": [(13, _write_as_softmax)],
    "PRelu": [(7, _require_one_slope)],
    "Resize": [(11, _write_default_sampling)],
    "Scan": [(9, _decline_batches)],
    **{kind: [(7, _require_shapes)] for kind in ("Add", "Div", "Mul", "Pow", "Sub")},
}
"""By operator, the opset that changed it, and the correction of a node that is converted across it."""
AFTER: Mapping[str, Sequence[tuple[int, After]]] = {
    "Clip": [(11, _cast_bounds)],
    "GroupNormalization": [(21, _repeat_for_channels)],
    "Hardmax": [(13, _keep_zero_dims)],
    "LogSoftmax": [(13, _keep_zero_dims)],
    "Pad": [(11, _cast_bounds)],
    "Softmax": [(13, _keep_zero_dims)],
    "Upsample": [(11, _sample_as_before)],
}
"""The same for the result."""
