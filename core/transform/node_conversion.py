"""Conversion of single nodes to another opset by `onnx.version_converter`.

Its setup takes longer than converting hundreds of nodes, so all nodes are converted in one call. Wrong results (seen
with onnx 1.23) are corrected: Hardmax and Resize keep attributes whose meaning changed, GroupNormalization keeps inputs
whose meaning changed, Clip and Pad get bounds of type float for inputs of any type, Scan loses its batch axis, and
BatchNormalization its training form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter

import numpy as np
import onnx
from msgspec import Struct
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

from ..errors import MatchFailure, require
from ..ir.op import Op, without_trailing_omitted
from ..ir.op_schemas import ONNX_DOMAIN
from ..ir.tensor import SMALL_TENSOR_BYTES, first_line
from ..ir.values import Value
from ..ort.backends import strip_source_locations
from ..processes.onnx_calls import OnnxAborted, OnnxError, convert_version
from ..serialization.node_attributes import bare_node

MAX_ABORTED_CALLS = 16  # calls of the converter that fail; halving finds one bad node among 50,000 in as many calls
SINGLE_NODE_IR_VERSION = 8  # any version in which an initializer need not be an input
ASSERTION = re.compile(r"\S+: Assertion `.*?` failed: (?=.)")  # in the converter's source
NUMBERED = re.compile(r"\d+_[io]\d+")  # an input or output of one of the nodes that are converted together
PLAIN_ATTRIBUTES = frozenset({
    AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING,
    AttributeProto.STRINGS,
})  # fmt: skip
"""The types of attributes that the converter sees; others are replaced by a number."""
Converted = list[onnx.NodeProto] | str
"""The nodes that replace a node, which read i0, i1, ... and write o0, o1, ...; or the reason why none can."""


Nodes = Sequence[onnx.NodeProto]
"""The nodes that replace an op: they read i0, i1, ... and write o0, o1, ..., its inputs and outputs."""


class Unconvertible(MatchFailure):
    """An op that cannot be converted to an opset."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(f"{op.label}: {reason}")
        self.op = op


class SingleNodeModel(Struct, frozen=True):
    """A serialized node that reads i0, i1, ... and writes o0, o1, ..., and what is known about its inputs.

    `op_type` is the operator of the op, `types` are serialized TypeProtos, `constants` TensorProtos; b"" if unknown.
    `has_hidden_attributes`: attributes that contain tensors or graphs are replaced by numbers. `original` is the node
    before it was corrected.
    """

    op_type: str
    node: bytes
    types: tuple[bytes, ...]
    constants: tuple[bytes, ...]
    has_hidden_attributes: bool = False
    original: bytes = b""

    @property
    def dtype(self) -> int:
        """The element type of the first input. Declines if it is unknown."""
        found = onnx.TypeProto.FromString(self.types[0]).tensor_type.elem_type
        require(found, "the type of its input is unknown")
        return found


def convert_nodes(single: Sequence[SingleNodeModel], current: int, version: int) -> list[Converted]:
    """The results for different nodes, in one call of the converter; if it fails, for each half separately."""
    return _converted(single, current, version, [])


def _converted(
    single: Sequence[SingleNodeModel], current: int, version: int, aborted: list[OnnxAborted]
) -> list[Converted]:
    """The results of `convert_nodes`; after too many `aborted` calls, the remaining nodes are not tried."""
    if not single:
        return []
    if len(aborted) >= MAX_ABORTED_CALLS:
        return [f"onnx.version_converter: {aborted[-1]}"] * len(single)
    try:
        model = _model_of(single, current)
        return list(_by_node(convert_version(model, version).graph, len(single)))
    except OnnxError as e:
        if isinstance(e, OnnxAborted):
            aborted.append(e)
        if len(single) == 1:
            reason = ASSERTION.sub("", strip_source_locations(first_line(e)).strip())
            return [f"onnx.version_converter: {reason}"]
        half = len(single) // 2
        halves = single[:half], single[half:]
        return [made for nodes in halves for made in _converted(nodes, current, version, aborted)]


def content(node: onnx.NodeProto) -> tuple[object, ...]:
    """A node for comparisons that ignore the order of its attributes."""
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
    return node.op_type, without_trailing_omitted(node.input), list(node.output), attributes


def _model_of(single: Sequence[SingleNodeModel], opset: int) -> onnx.ModelProto:
    """Nodes as one model, in which the names of each node have a number as their prefix."""
    graph = onnx.GraphProto(name="nodes")
    for k, each in enumerate(single):
        node = graph.node.add()
        node.MergeFromString(each.node)
        node.input[:] = [f"{k}_{name}" if name else "" for name in node.input]
        node.output[:] = [f"{k}_{name}" for name in node.output]
        for name, typed, constant in zip(node.input, each.types, each.constants, strict=True):
            if constant:
                tensor = graph.initializer.add()
                tensor.MergeFromString(constant)
                tensor.name = name
            elif name:
                graph.input.add(name=name).type.MergeFromString(typed)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    imports = [helper.make_opsetid(ONNX_DOMAIN, opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=SINGLE_NODE_IR_VERSION)


def _by_node(graph: onnx.GraphProto, count: int) -> list[list[onnx.NodeProto]]:
    """The nodes that replace each of `count` nodes, in order, with constants as nodes and without the prefixes."""
    inputs = {i.name for i in graph.input}
    nodes = [
        helper.make_node("Constant", [], [t.name], value=t)
        for t in graph.initializer
        if t.name not in inputs and not NUMBERED.fullmatch(t.name)
    ]
    nodes += graph.node
    owner = {o.name: int(o.name.partition("_")[0]) for o in graph.output}
    found: list[list[onnx.NodeProto]] = [[] for _ in range(count)]
    for node in reversed(nodes):
        k = next((owner[name] for name in node.output if name in owner), None)
        if k is not None:
            owner.update((name, k) for name in node.input)
            node.input[:] = without_trailing_omitted(_unnumbered(name) for name in node.input)
            node.output[:] = map(_unnumbered, node.output)
            found[k].append(node)
    return [part[::-1] for part in found]


def _unnumbered(name: str) -> str:
    return name.partition("_")[2] if NUMBERED.fullmatch(name) else name


@cache
def version_of(op_type: str, version: int) -> int:
    """The opset that introduced the operator in force at `version`, deprecated or not; 0 if there is none."""
    try:
        return defs.get_schema(op_type, version, ONNX_DOMAIN).since_version
    except defs.SchemaError:
        return 0


def bare_copy(op: Op) -> tuple[onnx.NodeProto, bool]:
    """A copy of the node of an op, and whether numbers replace some of its attributes."""
    node = onnx.NodeProto(op_type=op.type)
    node.input.extend(f"i{i}" if v is not None else "" for i, v in enumerate(op.inputs))
    node.output.extend(f"o{i}" for i in range(len(op.outputs)))
    hidden = False
    for a in sorted(bare_node(op).attribute, key=attrgetter("name")):
        if a.type in PLAIN_ATTRIBUTES and not a.ref_attr_name:
            node.attribute.add().CopyFrom(a)
            node.attribute[-1].ClearField("doc_string")
        else:
            node.attribute.add(name=a.name, type=AttributeProto.INT, i=0)
            hidden = True
    return node, hidden


def type_of(value: Value | None) -> bytes:
    """The type of a value; its shape has only numbers. b"" if it is unknown."""
    if value is None or value.type is not None or not value.known_dtype:
        return b""
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims).SerializeToString(deterministic=True)


def constant_of(value: Value | None) -> bytes:
    """The message of a small constant; b"" for other values."""
    tensor = value.tensor if value is not None else None
    if tensor is None or tensor.nbytes > SMALL_TENSOR_BYTES or tensor.is_external:
        return b""
    return tensor.to_proto("").SerializeToString(deterministic=True)


def correct_before(op: Op, node: onnx.NodeProto, current: int, version: int) -> None:
    """Rewrite `node`, made from `op`, for a correct conversion to a higher `version`. Declines if it cannot."""
    for step, correct in BEFORE.get(op.type, ()):
        if current < step <= version:
            correct(op, node)


def correct_after(single: SingleNodeModel, nodes: list[onnx.NodeProto], current: int, version: int) -> None:
    """Correct the `nodes` to which `single` was converted, from opset `current` to `version`."""
    for step, correct in AFTER.get(single.op_type, ()):
        if current < step <= version:
            correct(single, nodes, version)


def _write_as_softmax(op: Op, node: onnx.NodeProto) -> None:
    """Convert Hardmax as Softmax, which changed likewise and is converted correctly; its elements are not read."""
    node.op_type = "Softmax"


def _write_default_sampling(op: Op, node: onnx.NodeProto) -> None:
    """Write the coordinates that Resize used before opset 11, and the rounding of onnxruntime's kernel for it."""
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
    """Decline several outputs, which meant training before opset 14, when their number changed."""
    require(not any(v.name for v in op.outputs[1:]), "it is in training form")


def _require_no_mask(op: Op, node: onnx.NodeProto) -> None:
    """Decline a used mask: it became boolean with opset 10, and true where nothing is dropped with opset 12."""
    require(all(map(op.graph.is_unused, op.outputs[1:])), "its mask is another one since opset 12")
    del node.output[1:]


def _write_without_broadcast(op: Op, node: onnx.NodeProto) -> None:
    """Broadcast explicitly: before opset 7, the second operand was aligned to an axis or the end of the first."""
    kept = [a for a in node.attribute if a.name not in BROADCAST_ATTRIBUTES]
    del node.attribute[:]
    node.attribute.extend(kept)
    if "axis" in op.attrs and op.attr("broadcast", 0):
        known = all(v is not None and v.known_shape is not None for v in op.inputs)
        require(known, "it broadcasts along an axis of unknown shapes")
        a, b = (len(v.shape) for v in op.inputs if v is not None)
        require(0 <= op.attr("axis") <= a - b, "its axis is none of the first operand")


def _write_scales(op: Op, node: onnx.NodeProto) -> None:
    """Write the scales as a list: before opset 7, Upsample had one scale for the height and one for the width."""
    scales = [1.0, 1.0, op.attr("height_scale"), op.attr("width_scale")]
    mode = op.attr("mode", "nearest")
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("scales", scales))
    node.attribute.append(helper.make_attribute("mode", "linear" if mode == "bilinear" else mode))


def _require_one_slope(op: Op, node: onnx.NodeProto) -> None:
    """Decline several slopes: before opset 7, each belonged to a channel; now they broadcast to the last dims."""
    slope = op.inputs[1].tensor if len(op.inputs) > 1 and op.inputs[1] is not None else None
    require(slope is not None and slope.size == 1, "its slopes do not broadcast as in opset 7")


def _decline_batches(op: Op, node: onnx.NodeProto) -> None:
    raise MatchFailure("it scans batches, which Scan does not have since opset 9")


def _place_second_operand(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Add dims at the end of the second operand if it was aligned to an axis before the last dims of the first one."""
    attributes = {a.name: a.i for a in onnx.NodeProto.FromString(single.original).attribute}
    if not attributes.get("broadcast") or "axis" not in attributes:
        return
    require(all(single.types), "the shapes of its operands are unknown")
    a, b = (len(onnx.TypeProto.FromString(t).tensor_type.shape.dim) for t in single.types)
    axes = list(range(b, a - attributes["axis"]))
    if axes:
        unsqueeze = helper.make_node("Unsqueeze", ["i1"], ["placed"])
        nodes[-1].input[1] = "placed"
        nodes.insert(0, unsqueeze)
        if version < FIRST_WITH_AXES_AS_INPUT:
            unsqueeze.attribute.append(helper.make_attribute("axes", axes))
        else:
            unsqueeze.input.append("axes")
            value = numpy_helper.from_array(np.array(axes, np.int64))
            nodes.insert(0, helper.make_node("Constant", [], ["axes"], value=value))


def _keep_zero_dims(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Keep the operator, and zeros in the shape of a Reshape; before opset 14 they can only mean a copied dim."""
    for node in nodes:
        if node.op_type == "Softmax":
            node.op_type = single.op_type
        if node.op_type == "Reshape" and version >= FIRST_WITH_ALLOWZERO:
            node.attribute.append(helper.make_attribute("allowzero", 1))


def _cast_bounds(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Cast the bounds of Clip and the value of Pad to the type of the input."""
    if single.dtype == TensorProto.DOUBLE and single.op_type == "Clip":
        require(len(list(_float_constants(nodes))) == len(("min", "max")), "opset 11 has other defaults")
    for tensor in _float_constants(nodes):
        with np.errstate(over="ignore"):
            bound = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(single.dtype))
        tensor.CopyFrom(numpy_helper.from_array(bound, tensor.name))


def _float_constants(nodes: list[onnx.NodeProto]) -> Iterator[TensorProto]:
    constants = (node.attribute[0].t for node in nodes if node.op_type == "Constant")
    return (t for t in constants if t.data_type == TensorProto.FLOAT)


def _sample_as_before(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Convert Upsample, whose scales are at least 1, to Resize."""
    for node in nodes:
        if node.op_type == "Resize":
            is_nearest = all(a.s == b"nearest" for a in node.attribute if a.name == "mode")
            _set_sampling(node, "floor" if is_nearest else "")


def _repeat_for_channels(single: SingleNodeModel, nodes: list[onnx.NodeProto], version: int) -> None:
    """Repeat scale and bias of GroupNormalization: they are for each channel since opset 21, before for each group."""
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


FIRST_WITH_MULTIDIRECTIONAL_BROADCAST = 7
FIRST_WITH_AXES_AS_INPUT = 13  # of Unsqueeze
FIRST_WITH_ALLOWZERO = 14
BROADCAST_ATTRIBUTES = frozenset({"axis", "broadcast", "consumed_inputs"})  # of the operators that align
PLACING = frozenset({"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"})
"""The operators that aligned the second operand to an axis of the first; the converter handles them wrongly."""
WRITTEN_AS_SINCE_7 = PLACING | {"Upsample"}
"""The operators that are corrected for the converter from opset 7 on."""
OLDER_NAMES = {"Resize": "Upsample"}
"""Operators that had another name before the opset that introduced them."""
Before = Callable[[Op, onnx.NodeProto], None]
After = Callable[[SingleNodeModel, list[onnx.NodeProto], int], None]
BEFORE: Mapping[str, Sequence[tuple[int, Before]]] = {
    "BatchNormalization": [(14, _require_inference)],
    "Dropout": [(10, _require_no_mask), (12, _require_no_mask)],
    "Hardmax": [(13, _write_as_softmax)],
    "PRelu": [(7, _require_one_slope)],
    "Resize": [(11, _write_default_sampling)],
    "Scan": [(9, _decline_batches)],
    "Upsample": [(FIRST_WITH_MULTIDIRECTIONAL_BROADCAST, _write_scales)],
    **{kind: [(FIRST_WITH_MULTIDIRECTIONAL_BROADCAST, _write_without_broadcast)] for kind in PLACING},
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
    **{kind: [(FIRST_WITH_MULTIDIRECTIONAL_BROADCAST, _place_second_operand)] for kind in PLACING},
}
"""Like the mapping above, for corrections of the result."""
