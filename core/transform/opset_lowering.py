"""Nodes that replace ops at a lower opset.

An op is lowered one version of its operator at a time. It does not change if the older version accepts it and
raising gives it back; the result of onnx's converter is used only if raising it gives the op back. So a step down is
correct if the step up is, which is tested on all operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import defs, helper, numpy_helper

from ..errors import MatchFailure, require
from ..ir.op import Op, without_trailing_omitted
from ..ir.op_schemas import ONNX_DOMAIN, encoded_defaults, schema
from ..ir.tensor import element_type, first_line
from ..processes.onnx_calls import OnnxError, function_body, infer_shapes
from .node_conversion import (
    Converted,
    Nodes,
    SingleNodeModel,
    Unconvertible,
    bare_copy,
    constant_of,
    convert_nodes,
    correct_after,
    correct_before,
    type_of,
    version_of,
)

LOWEST = 11
"""Before this opset, many operators accepted no negative axes and indices, which their schemas do not state."""
LOWEST_OF_RESIZING = 7
"""Before this opset, Upsample had one scale for the height and one for the width."""
RESIZING = frozenset({"Resize", "Upsample"})
LATER_VALUES = {
    ("Pad", "mode"): {b"wrap": 19},
    ("Resize", "coordinate_transformation_mode"): {b"half_pixel_symmetric": 19},
    ("ScatterElements", "reduction"): {b"max": 18, b"min": 18},
    ("ScatterND", "reduction"): {b"max": 18, b"min": 18},
}
"""Values of attributes, and the opset that introduced each, if it is later than the opset of the attribute."""
RENAMED_VALUES = {("GridSample", 20): ("mode", {b"linear": b"bilinear", b"cubic": b"bicubic"})}
"""By operator and opset, an attribute some of whose values had different names before."""
RANKS = {("GridSample", 20): 4}
"""By operator and opset, the only rank of the first input that was accepted before."""
REQUIRED = defs.OpSchema.FormalParameterOption.Single
SOFTMAX_LIKE = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
FIRST_WITH_SOFTMAX_OF_ONE_AXIS = 13
FIRST_WITH_GROUP_NORM_OF_CHANNELS = 21  # the version before is deprecated


def lower(ops: Sequence[Op], current: int, version: int) -> dict[Op, Nodes]:
    """The nodes that replace ops at a lower opset, by op, without unchanged ops.

    Declines with an op that cannot be lowered.
    """
    if version < LOWEST and any(op.type not in RESIZING for op in ops):
        raise MatchFailure(f"the lowest is {LOWEST}, as operators took no negative axes and indices before")
    if ops and version < LOWEST_OF_RESIZING:
        raise Unconvertible(ops[0], f"Upsample scales only height and width before opset {LOWEST_OF_RESIZING}")
    alike: dict[object, _Whole] = {}
    whole_of: dict[Op, _Whole] = {}
    for op in ops:
        node, hidden = bare_copy(op)
        known = tuple((type_of(v), constant_of(v)) for v in (*op.inputs, *op.outputs))
        key = node.SerializeToString(deterministic=True), known
        whole_of[op] = alike.setdefault(key, _Whole(op, [node], hidden))
    for step in range(current, version, -1):
        _step_down(list(alike.values()), step)
    changed = {whole for whole in alike.values() if whole.has_changed}
    return {op: whole.nodes for op, whole in whole_of.items() if whole in changed}


@dataclass(slots=True, eq=False)
class _Whole:
    """The nodes that have replaced ops like `op` so far; types and constants of its inputs and outputs by name."""

    op: Op
    nodes: list[onnx.NodeProto]
    hidden: bool
    types: dict[str, bytes] = field(init=False)
    constants: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Look up what is known of inputs and outputs."""
        values = {f"i{i}": v for i, v in enumerate(self.op.inputs)} | {
            f"o{i}": v for i, v in enumerate(self.op.outputs)
        }
        self.types = {name: typed for name, v in values.items() if (typed := type_of(v))}
        self.constants = {name: content for name, v in values.items() if (content := constant_of(v))}

    @property
    def has_changed(self) -> bool:
        """Whether the nodes differ from the op itself. Raises Unconvertible if an attribute is lost."""
        if self.nodes == [bare_copy(self.op)[0]]:
            return False
        if self.hidden:
            raise Unconvertible(self.op, "it holds a tensor or a subgraph")
        return True


class _Part(Struct, frozen=True, eq=False):
    """A node of a `_Whole`."""

    node: onnx.NodeProto
    whole: _Whole

    @property
    def rank(self) -> int | None:
        """The rank of the first input, or None if it is unknown."""
        tensor = onnx.TypeProto.FromString(self.whole.types.get(self.node.input[0], b"")).tensor_type
        return len(tensor.shape.dim) if tensor.HasField("shape") else None

    def single(self, node: onnx.NodeProto, constants: Mapping[str, bytes] | None = None) -> SingleNodeModel:
        """A node at the place of this one, separate from the others; `constants` are additional ones."""
        alone = deepcopy(node)
        alone.input[:] = [f"i{i}" if name else "" for i, name in enumerate(node.input)]
        alone.output[:] = [f"o{i}" for i in range(len(node.output))]
        known = {**self.whole.constants, **(constants or {})}
        return SingleNodeModel(
            self.node.op_type,
            alone.SerializeToString(deterministic=True),
            tuple(self.whole.types.get(name, b"") for name in node.input),
            tuple(known.get(name, b"") for name in node.input),
            self.whole.hidden,
        )

    def raisable(self, node: onnx.NodeProto, step: int) -> onnx.NodeProto:
        """A node at the place of this one, in the form that is raised to opset `step`. Declines if there is none."""
        made = deepcopy(node)
        if node.op_type == self.whole.op.type:  # others are constants or parts of its function
            correct_before(self.whole.op, made, step - 1, step)
        return made

    def replace(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Replace this node by others."""
        own = self.whole.nodes
        at = next(i for i, n in enumerate(own) if n is self.node)
        own[at : at + 1] = nodes
        read = {*(f"o{i}" for i in range(len(self.whole.op.outputs))), *(name for n in own for name in n.input)}
        own[:] = [n for n in own if not read.isdisjoint(n.output)]


def _step_down(wholes: Sequence[_Whole], step: int) -> None:
    """Convert the nodes whose operator changed with opset `step` to the opset before it. Raises Unconvertible."""
    parts = [_Part(n, whole) for whole in wholes for n in whole.nodes if version_of(n.op_type, step) == step]
    reasons = [_reason_to_change(part, step) for part in parts]
    fitting = [part for part, reason in zip(parts, reasons, strict=True) if not reason]
    same = dict(zip(fitting, _are_raised_to(fitting, [[part.node] for part in fitting], step), strict=True))
    changing = [(part, reason) for part, reason in zip(parts, reasons, strict=True) if not same.get(part)]
    found = _converted_down([part for part, _ in changing], step)
    are_right = _are_raised_to([part for part, _ in changing], found, step)
    for (part, why), nodes, is_right in zip(changing, found, are_right, strict=True):
        if is_right and not isinstance(nodes, str):
            part.replace(nodes)
        elif part.node.op_type in SOFTMAX_LIKE and step == FIRST_WITH_SOFTMAX_OF_ONE_AXIS:
            part.replace(_softmax_of_last_axis(part))
        elif part.node.op_type == "GroupNormalization" and step == FIRST_WITH_GROUP_NORM_OF_CHANNELS:
            part.replace(_function_body(part, step))
        elif part.node.op_type in RESIZING and step in OLDER_RESIZE:
            try:
                older = OLDER_RESIZE[step](part)
                _require_fit(older[-1], step - 1, part.whole.types)
                part.replace(older)
            except MatchFailure as e:
                raise Unconvertible(part.whole.op, str(e)) from e
        else:
            other = nodes if isinstance(nodes, str) else f"it means something else at opset {step - 1}"
            raise Unconvertible(part.whole.op, "; ".join(dict.fromkeys(filter(None, (why, other)))))


def _reason_to_change(part: _Part, step: int) -> str:
    """Why a node, without attributes at later defaults, is invalid at the opset before `step`; "" if it is valid."""
    node = part.node
    older = (
        defs.get_schema(node.op_type, step - 1, ONNX_DOMAIN).attributes if version_of(node.op_type, step - 1) else {}
    )
    later = [a for a in node.attribute if a.name not in older and _is_default(a, node.op_type, step)]
    for a in later:
        node.attribute.remove(a)
    try:
        rank = RANKS.get((node.op_type, step))
        require(rank is None or part.rank == rank, f"{node.op_type} takes other ranks than {rank} since opset {step}")
        require(not _renamed(node, step), f"values of {node.op_type} had other names before opset {step}")
        _require_fit(node, step - 1, part.whole.types)
        part.raisable(node, step)
    except MatchFailure as e:
        return str(e)
    return ""


def _is_default(a: onnx.AttributeProto, op_type: str, version: int) -> bool:
    return encoded_defaults(op_type, ONNX_DOMAIN, version).get(a.name) == a.SerializeToString(deterministic=True)


def _require_fit(node: onnx.NodeProto, version: int, types: Mapping[str, bytes]) -> None:
    """Decline unless a node is valid at opset `version` as well as the next one, with values of these types by name."""
    kind = node.op_type
    spec = schema(kind, ONNX_DOMAIN, version)
    if spec is None:
        raise MatchFailure(f"opset {version} has no {kind}")
    for a in node.attribute:
        require(a.name in spec.attributes, f"opset {version} has no attribute {a.name} of {kind}")
        since = LATER_VALUES.get((kind, a.name), {}).get(a.s, 0)
        require(since <= version, f"{a.name}={a.s.decode()} came with opset {since}")
    for names, most, what in ((node.input, spec.max_input, "inputs"), (node.output, spec.max_output, "outputs")):
        require(len(names) <= most, f"{kind} has at most {most} {what} at opset {version}")
    for i, formal in enumerate(spec.inputs):
        is_given = i < len(node.input) and node.input[i]
        require(is_given or formal.option != REQUIRED, f"{kind} needs its input {formal.name} at opset {version}")
    _require_types(node, spec, version, types)


def _require_types(node: onnx.NodeProto, spec: defs.OpSchema, version: int, types: Mapping[str, bytes]) -> None:
    """Decline unless an operator accepts these types, which must be known if the next version accepts more."""
    wider = schema(node.op_type, ONNX_DOMAIN, version + 1)
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in wider.type_constraints} if wider is not None else {}
    stated, unknown = dict[str, str](), set[str]()
    for formals, names in ((spec.inputs, node.input), (spec.outputs, node.output)):
        for formal, name in _paired(formals, names):
            dtype = onnx.TypeProto.FromString(types.get(name, b"")).tensor_type.elem_type
            if not dtype:
                unknown |= {formal.type_str} if not allowed.get(formal.type_str, set()) <= set(formal.types) else set()
                continue
            text = f"tensor({element_type(dtype)})"
            require(text in formal.types, f"{node.op_type} takes no {text} at opset {version}")
            before = stated.setdefault(formal.type_str, text) if formal.is_homogeneous else text
            require(before == text, f"{node.op_type} takes no {before} beside {text} at opset {version}")
    require(unknown <= stated.keys(), f"{node.op_type} takes fewer types at opset {version}, and its own are unknown")


def _paired(
    formals: Sequence[defs.OpSchema.FormalParameter], names: Sequence[str]
) -> Iterator[tuple[defs.OpSchema.FormalParameter, str]]:
    """Yield the names of values, except omitted ones, each with its formal parameter."""
    for i, name in enumerate(names):
        if name:
            yield formals[min(i, len(formals) - 1)], name  # the last one may be repeated


def _converted_down(parts: Sequence[_Part], step: int) -> list[Converted]:
    """The nodes to which a converter converts each node at the opset before `step`, or the reason why it cannot."""
    renamed = [_renamed(part.node, step) for part in parts]
    others = [part.single(part.node) for part, nodes in zip(parts, renamed, strict=True) if not nodes]
    converted = iter(convert_nodes(others, step, step - 1))
    return [nodes or _in_place_of(part, next(converted), step) for part, nodes in zip(parts, renamed, strict=True)]


def _renamed(node: onnx.NodeProto, step: int) -> list[onnx.NodeProto]:
    """The node with the old name of an attribute value that was renamed at opset `step`; empty if there is none."""
    name, names = RENAMED_VALUES.get((node.op_type, step), ("", {}))
    found = deepcopy(node)
    for a in (a for a in found.attribute if a.name == name and a.s in names):
        a.s = names[a.s]
        return [found]
    return []


def _in_place_of(part: _Part, nodes: Converted, step: int) -> Converted:
    """Converted nodes with the names of the inputs and outputs of a node, or the reason why they are invalid."""
    if isinstance(nodes, str):
        return nodes
    names = _names(part.node)
    try:
        for node in nodes:
            node.input[:] = [names.get(name, f"{name}_{step}") if name else "" for name in node.input]
            node.output[:] = [names.get(name, f"{name}_{step}") for name in node.output]
            _require_fit(node, step - 1, part.whole.types)
    except MatchFailure as e:
        return str(e)
    return nodes


def _names(node: onnx.NodeProto) -> dict[str, str]:
    """The names of values of a node, by the names in its single-node model."""
    inputs = {f"i{i}": name for i, name in enumerate(node.input)}
    return inputs | {f"o{i}": name for i, name in enumerate(node.output)}


def _are_raised_to(parts: Sequence[_Part], lowered: Sequence[Converted], step: int) -> list[bool]:
    """Whether the nodes that replaced each node at the opset before `step` become that node again when raised."""
    found = [False] * len(parts)
    candidates: list[tuple[int, onnx.NodeProto, Mapping[str, bytes], SingleNodeModel]] = []
    for i, (part, nodes) in enumerate(zip(parts, lowered, strict=True)):
        held = {} if isinstance(nodes, str) or len(nodes) == 1 else _constants(nodes)
        others = [] if isinstance(nodes, str) else [n for n in nodes if n.op_type != "Constant" or len(nodes) == 1]
        with suppress(MatchFailure):
            if len(others) == 1:
                single = part.single(part.raisable(others[0], step), held)
                candidates.append((i, others[0], {**part.whole.constants, **held}, single))
    raised = convert_nodes([single for *_, single in candidates], step - 1, step)
    for (i, node, constants, single), nodes in zip(candidates, raised, strict=True):
        with suppress(MatchFailure):
            require(not isinstance(nodes, str), "")
            assert not isinstance(nodes, str)
            correct_after(single, nodes, step - 1, step)
            names = _names(node)
            for n in nodes:
                n.input[:] = [names.get(name, name) for name in n.input]
                n.output[:] = [names.get(name, name) for name in n.output]
            original = _meaning([parts[i].node], parts[i].whole.constants, step)
            found[i] = _meaning(nodes, constants, step) == original
    return found


def _constants(nodes: Sequence[onnx.NodeProto]) -> dict[str, bytes]:
    """The serialized tensors of Constant nodes by name."""
    return {n.output[0]: n.attribute[0].t.SerializeToString() for n in nodes if n.op_type == "Constant"}


def _meaning(nodes: Sequence[onnx.NodeProto], constants: Mapping[str, bytes], version: int) -> list[object]:
    """Nodes except constants for comparison: without attributes at defaults, with constants instead of their names."""
    single = len(nodes) == 1
    known = {**constants, **({} if single else _constants(nodes))}
    found: list[object] = []
    for node in nodes if single else (n for n in nodes if n.op_type != "Constant"):
        attributes = [a for a in node.attribute if not _is_default(a, node.op_type, version)]
        encoded = sorted(a.SerializeToString(deterministic=True) for a in attributes)
        inputs = without_trailing_omitted(node.input)
        found.append((node.op_type, [_content(known.get(n, n)) for n in inputs], list(node.output), encoded))
    return found


def _content(of: bytes | str) -> object:
    """The content of a serialized tensor; names are returned unchanged."""
    if isinstance(of, str):
        return of
    array = numpy_helper.to_array(onnx.TensorProto.FromString(of))
    return array.dtype.str, array.shape, array.tobytes()


def _softmax_of_last_axis(part: _Part) -> list[onnx.NodeProto]:
    """Move the axis to the end and back, because all axes from one on are flattened before opset 13."""
    node, whole = part.node, part.whole
    (x,), (y,) = node.input, node.output
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1)
    if not part.rank:
        raise Unconvertible(whole.op, "the rank of its input is unknown, and all axes are flattened before opset 13")
    order = list(range(part.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return [
        helper.make_node("Transpose", [x], [f"{y}_last"], perm=order),
        helper.make_node(node.op_type, [f"{y}_last"], [f"{y}_normalized"], axis=len(order) - 1),
        helper.make_node("Transpose", [f"{y}_normalized"], [y], perm=order),
    ]


def _resize_with_roi(part: _Part) -> list[onnx.NodeProto]:
    """Add a region of interest and scales, which Resize has before opset 13; they are empty if they are not used."""
    node, y = part.node, part.node.output[0]
    names = [name or f"{y}_omitted" for name in [*node.input, "", ""][:3]] + [*node.input[3:]]
    omitted = helper.make_node("Constant", [], [f"{y}_omitted"], value=numpy_helper.from_array(np.zeros(0, np.float32)))
    return [omitted, _resized("Resize", part, names, *node.attribute)]


def _resize_by_scales(part: _Part) -> list[onnx.NodeProto]:
    """Write Resize as before opset 11: it samples at scaled positions, and rounds down to enlarge, up to reduce."""
    given = {a.name: helper.get_attribute_value(a) for a in part.node.attribute}
    x, _, scales, sizes = [*part.node.input, "", "", ""][:4]
    require(bool(scales) and not sizes, "it is given sizes, and scales alone are before opset 11")
    sampling = given.get("coordinate_transformation_mode", b"half_pixel").decode()
    require(sampling == "asymmetric", f"it samples as {sampling}, and as asymmetric before opset 11")
    mode = given.get("mode", b"nearest").decode()
    require(mode in ("nearest", "linear"), f"its mode is {mode}, which came with opset 11")
    require(not given.get("exclude_outside", 0), "it excludes what is outside, which came with opset 11")
    if mode == "nearest":
        factors, rounding = _scales_of(part, scales), given.get("nearest_mode", b"round_prefer_floor").decode()
        is_same = {"floor": factors >= 1, "ceil": factors <= 1}.get(rounding, np.zeros(1, np.bool_)).all()
        require(bool(is_same), f"its nearest_mode is {rounding}; before opset 11, it rounds down to enlarge")
    return [_resized("Resize", part, [x, scales])]


def _upsample(part: _Part) -> list[onnx.NodeProto]:
    """Use Upsample, which enlarges images before opset 10."""
    x, scales = part.node.input
    require(bool((_scales_of(part, scales) >= 1).all()), "it reduces, and Upsample before opset 10 enlarges alone")
    return [_resized("Upsample", part, [x, scales])]


def _upsample_by_attribute(part: _Part) -> list[onnx.NodeProto]:
    """Write the scales of Upsample as an attribute, as before opset 9."""
    x, scales = part.node.input
    return [_resized("Upsample", part, [x], helper.make_attribute("scales", _scales_of(part, scales).tolist()))]


def _resized(op_type: str, part: _Part, inputs: Sequence[str], *attributes: onnx.AttributeProto) -> onnx.NodeProto:
    """The node of an operator that replaces a part, with its mode and further attributes."""
    made = helper.make_node(op_type, inputs, [*part.node.output])
    modes = [a for a in part.node.attribute if a.name == "mode"]
    made.attribute.extend({a.name: a for a in (*modes, *attributes)}.values())
    return made


def _scales_of(part: _Part, name: str) -> np.ndarray[Any, Any]:
    """The constant scales of a part. Declines if there are none."""
    content = part.whole.constants.get(name)
    require(content is not None, "its scales are computed, on which its older form depends")
    return numpy_helper.to_array(onnx.TensorProto.FromString(content or b""))


OLDER_RESIZE: Mapping[int, Callable[[_Part], list[onnx.NodeProto]]] = {
    9: _upsample_by_attribute,
    10: _upsample,
    11: _resize_by_scales,
    13: _resize_with_roi,
}
"""By the opset that changed it, the form that a Resize or Upsample had before."""


def _function_body(part: _Part, step: int) -> list[onnx.NodeProto]:
    """The body of the function by which ONNX defines the operator at opset `step`; onnxruntime runs that, too."""
    node, whole = part.node, part.whole
    types = [whole.types.get(name, b"") for name in node.input]
    if not all(types):
        raise Unconvertible(whole.op, "the types of its inputs are unknown, on which its function depends")
    try:
        found = function_body(defs.get_schema(node.op_type, step, ONNX_DOMAIN), step, node, types)
    except OnnxError as e:
        raise Unconvertible(whole.op, f"its function is not known: {first_line(e)}") from e
    body = onnx.FunctionProto.FromString(found)
    names = dict(zip((*body.input, *body.output), (*node.input, *node.output), strict=True))
    graph = onnx.GraphProto(name=node.op_type, node=body.node)
    for n in graph.node:
        n.input[:] = [names.get(name, f"{name}_{step}") for name in n.input]
        n.output[:] = [names.get(name, f"{name}_{step}") for name in n.output]
        for a in (a for a in n.attribute if a.name == "value_ints"):  # of a Constant
            a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(a.ints, np.int64))))
    graph.input.extend(
        onnx.ValueInfoProto(name=name, type=onnx.TypeProto.FromString(t))
        for name, t in zip(node.input, types, strict=True)
    )
    model = helper.make_model(graph, opset_imports=body.opset_import)
    inferred = infer_shapes(model).graph.value_info
    whole.types |= {v.name: v.type.SerializeToString(deterministic=True) for v in inferred}
    whole.constants |= _constants(graph.node)
    return list(graph.node)
