"""Conversion of a graph to another opset of the standard operators.

Only ops whose operator has another schema at that opset are converted, by `onnx.version_converter` and each as a model
of its own, so that nothing else in the graph is lost or renamed. Ops that are alike are converted once, and all of them
in one call: a converter takes longer to set up than to convert hundreds of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter

import onnx
from onnx import AttributeProto, defs, helper, version_converter

from ..errors import Declined, ModelError
from ..io.convert import from_function, to_function
from ..ir.context import Runs
from ..ir.graph import Graph
from ..ir.op import Op, attribute_value, without_trailing_omitted
from ..ir.op_schemas import ONNX_DOMAIN
from ..ir.origin import inherit_name, set_origin
from ..ir.tensor import KNOWN_DTYPES, SMALL_TENSOR_BYTES, Tensor, element_type, first_line
from ..ir.values import Value
from ..ort.backends import strip_source_locations
from ..serialization.node_attributes import bare_node
from ..serialization.proto_queries import opset_versions
from .conversion_corrections import LoneNode, correct_after, correct_before

PLAIN_ATTRIBUTES = frozenset({
    AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING,
    AttributeProto.STRINGS,
})  # fmt: skip
"""The types of attributes that the converter sees; a number stands for each other one."""
FIRST_WITH_MULTIDIRECTIONAL_BROADCAST = 7
OTHER_KERNEL_SINCE = {"AveragePool": 19}
"""Operators that onnxruntime computes with another kernel since an opset, slower and with other rounding.

With onnxruntime 1.31.1 and one thread, AveragePool takes 3 to 9 times as long, unless it has a multiple of 16 channels.
"""
LONE_NODE_IR_VERSION = 8  # any in which an initializer is not an input
NUMBERED = re.compile(r"\d+_[io]\d+")  # an input or output of one of the nodes that are converted together
Nodes = Sequence[onnx.NodeProto]
"""The nodes that replace an op: they read i0, i1, ... and write o0, o1, ..., its inputs and outputs."""


@dataclass(frozen=True, slots=True)
class OpsetConversion:
    """The conversion of a graph to opset `version`, and the nodes that replace ops; other ops stay as they are.

    `functions`: the local functions after it. `is_exact`: results are the same bit for bit. `obstacle`: the reason why
    the next higher opset is not possible, if a higher one was requested.
    """

    version: int
    replacements: Mapping[Op, Nodes]
    is_exact: bool = True
    obstacle: str = ""
    functions: Sequence[onnx.FunctionProto] = ()

    def apply(self, graph: Graph, by: str) -> None:
        """Convert `graph`, for which this was planned; new ops are recorded as made by `by`. O(ops)."""
        graph.opsets[ONNX_DOMAIN] = self.version
        graph.context.functions = self.functions
        imported = helper.make_opsetid(ONNX_DOMAIN, self.version)
        _raise_ir_version(graph, helper.find_min_ir_version_for([imported], ignore_unknown=True))
        constants: dict[tuple[Graph, bytes], Value] = {}
        for op, nodes in self.replacements.items():
            _replace(op, nodes, by, constants)
        for op in _standard_ops(graph):
            op.version = self.version
        graph.mark_changed()


class Unconvertible(Declined):
    """An op that cannot be converted to an opset."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(f"{op.label}: {reason}")
        self.op = op


def plan_conversion(
    graph: Graph, version: int, runs: Runs | None = None, *, same_kernels: bool = False
) -> OpsetConversion:
    """The conversion to opset `version`. O(ops).

    Declines with the op that cannot be converted, with `runs` one that runs now and would not run any more, or with
    `same_kernels` one that onnxruntime computes otherwise then.
    """
    current = graph.opsets.get(ONNX_DOMAIN)
    if current is None:
        raise Declined("the model imports no standard opset")
    bodies = [
        _convert_function(f, graph.context.ir_version, version, runs, same_kernels=same_kernels)
        for f in graph.context.functions
    ]
    ops = _standard_ops(graph)
    replacements = _convert(ops, current, version, runs, same_kernels=same_kernels)
    is_exact = all(exact for _, exact in bodies) and not any(_gets_other_kernel(op, version) for op in ops)
    return OpsetConversion(version, replacements, is_exact, functions=[f for f, _ in bodies])


def plan_highest_conversion(
    graph: Graph, version: int, runs: Runs | None = None, *, same_kernels: bool = False
) -> OpsetConversion:
    """The conversion to the highest opset that is possible, from that of the graph up to `version`."""
    obstacle, suspects = "", dict[Op, None]()
    current = graph.opsets.get(ONNX_DOMAIN, version)
    for candidate in range(version, current, -1):
        try:
            _convert(
                list(suspects), current, candidate, runs, same_kernels=same_kernels
            )  # few ops, which are likely to fail again
            return replace(plan_conversion(graph, candidate, runs, same_kernels=same_kernels), obstacle=obstacle)
        except Declined as e:
            obstacle = f"opset {candidate} is not possible: {e}"
            suspects.update({e.op: None} if isinstance(e, Unconvertible) else {})
    return OpsetConversion(current, {}, obstacle=obstacle, functions=graph.context.functions)


def _convert(
    ops: Sequence[Op], current: int, version: int, runs: Runs | None, *, same_kernels: bool
) -> dict[Op, Nodes]:
    """The nodes that replace ops between two opsets, without those that stay as they are. Raises Unconvertible."""
    changed = [op for op in ops if _schema_changes(op, version)]
    for op in changed if same_kernels else ():
        if _gets_other_kernel(op, version):
            raise Unconvertible(op, f"onnxruntime runs it slower since opset {OTHER_KERNEL_SINCE[op.type]}")
    replacements = _Converter(current, version).convert(changed)
    if runs is not None:
        for op in ops:  # the others too, since a function may be expanded at some opsets only
            _require_runnable(op, replacements.get(op), version, runs)
    return replacements


def _convert_function(
    function: onnx.FunctionProto, ir_version: int, version: int, runs: Runs | None, *, same_kernels: bool
) -> tuple[onnx.FunctionProto, bool]:
    """A local function at opset `version`, and whether it computes the same bit for bit.

    onnxruntime runs its body at the opset of the model, whichever it imports.
    """
    if ONNX_DOMAIN not in opset_versions(function):
        return function, True
    try:
        body = from_function(function, ir_version)
        plan = plan_conversion(body.graph, version, runs, same_kernels=same_kernels)
    except (Declined, ModelError) as e:
        raise Declined(f"local function {function.name}, which is not inlined: {e}") from e
    plan.apply(body.graph, "")
    return to_function(body, function), plan.is_exact


def _gets_other_kernel(op: Op, version: int) -> bool:
    return op.version < OTHER_KERNEL_SINCE.get(op.type, 0) <= version


def _standard_ops(graph: Graph) -> list[Op]:
    return [op for g in graph.with_subgraphs() for op in g.ops() if op.domain == ONNX_DOMAIN]


@cache
def _version_of(op_type: str, version: int) -> int:
    """The opset with which the operator in force at `version` came, deprecated or not; 0 if there is none."""
    try:
        return defs.get_schema(op_type, version, ONNX_DOMAIN).since_version
    except defs.SchemaError:
        return 0


def _schema_changes(op: Op, version: int) -> bool:
    """Whether the operator of `op` has another schema at `version`. Raises Unconvertible if only one of them exists."""
    before, after = _version_of(op.type, op.version), _version_of(op.type, version)
    if (before == 0) != (after == 0):
        raise Unconvertible(op, f"opset {version if before else op.version} has no such operator")
    return before != after


@cache
def _keeps_types(op_type: str, before: int, after: int) -> bool:
    """Whether every type that an operator accepts at opset `before` is accepted at `after`."""
    old, new = (defs.get_schema(op_type, version, ONNX_DOMAIN) for version in (before, after))
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    return all(set(c.allowed_type_strs) <= allowed.get(c.type_param_str, set()) for c in old.type_constraints)


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts nodes between two opsets."""

    current: int
    version: int

    def convert(self, ops: Sequence[Op]) -> dict[Op, Nodes]:
        """The nodes that replace ops; without those that stay as they are. Declines with the first that cannot be.

        An op is converted without types first, which takes no inference. If it stays then, that is final unless its
        operator accepts fewer types at the new opset.
        """
        untyped = self._convert_alike(ops, typed=False)
        unsettled = [op for op in ops if untyped[op] != [] or not self._is_final(op)]
        typed = self._convert_alike(unsettled, typed=True)
        found: dict[Op, Nodes] = {}
        for op, nodes in typed.items():
            if isinstance(nodes, str):
                raise Unconvertible(op, nodes)
            if nodes:
                found[op] = nodes
        return found

    def _is_final(self, op: Op) -> bool:
        is_old = self.current < FIRST_WITH_MULTIDIRECTIONAL_BROADCAST  # then the converter looks at shapes
        return not is_old and _keeps_types(op.type, op.version, self.version)

    def _convert_alike(self, ops: Sequence[Op], *, typed: bool) -> dict[Op, list[onnx.NodeProto] | str]:
        """The nodes that replace each op, none if it stays, or the reason why it cannot be converted."""
        lone = {op: _lone_node(op, self.version, typed=typed) for op in ops}
        different = list(dict.fromkeys(lone.values()))
        found = dict(zip(different, self._convert_together(different), strict=True))
        return {op: found[node] for op, node in lone.items()}

    def _convert_together(self, lone: Sequence[LoneNode]) -> list[list[onnx.NodeProto] | str]:
        """The results for different nodes in one call of the converter; in halves if that fails."""
        if not lone:
            return []
        try:
            converted = _by_node(self._call_converter(lone), len(lone))
        except Exception as e:  # noqa: BLE001 - whatever the converter raises
            if len(lone) == 1:
                return [_reason(e)]
            half = len(lone) // 2
            return [*self._convert_together(lone[:half]), *self._convert_together(lone[half:])]
        return [self._corrected(node, nodes) for node, nodes in zip(lone, converted, strict=True)]

    def _call_converter(self, lone: Sequence[LoneNode]) -> onnx.GraphProto:
        """Convert nodes as one model, in which each has a number as the prefix of all its names."""
        graph = onnx.GraphProto(name="nodes")
        for k, each in enumerate(lone):
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
        imports = [helper.make_opsetid(ONNX_DOMAIN, self.current)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=LONE_NODE_IR_VERSION)
        return version_converter.convert_version(model, self.version).graph

    def _corrected(self, lone: LoneNode, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto] | str:
        """The corrected result of the converter; none if it is the node itself."""
        original = onnx.NodeProto.FromString(lone.node)
        original.op_type = lone.op_type
        try:
            correct_after(lone, nodes, self.current, self.version)
        except Declined as e:
            return str(e)
        if [_content(n) for n in nodes] == [_content(original)]:
            return []
        return "it holds a tensor or a subgraph" if lone.has_hidden_attributes else nodes


def _lone_node(op: Op, version: int, *, typed: bool) -> LoneNode:
    """An op apart from its graph, to be converted to `version`; with `typed`, it has the types of its inputs."""
    node = onnx.NodeProto(op_type=op.type)
    node.input.extend(f"i{i}" if v is not None else "" for i, v in enumerate(op.inputs))
    node.output.extend(f"o{i}" for i in range(len(op.outputs)))
    hidden = False  # whether it has attributes for which a number stands
    for a in sorted(bare_node(op).attribute, key=attrgetter("name")):
        if a.type in PLAIN_ATTRIBUTES and not a.ref_attr_name:
            node.attribute.add().CopyFrom(a)
            node.attribute[-1].ClearField("doc_string")
        else:
            node.attribute.add(name=a.name, type=AttributeProto.INT, i=0)
            hidden = True
    try:
        correct_before(op, node, version)
    except Declined as e:
        raise Unconvertible(op, str(e)) from e
    known = op.inputs if typed else (None,) * len(op.inputs)
    content = node.SerializeToString(deterministic=True)
    return LoneNode(op.type, content, tuple(map(_type_of, known)), tuple(map(_constant_of, known)), hidden)


def _type_of(value: Value | None) -> bytes:
    """The type of a value, with numbers in its shape only; b"" if it is unknown."""
    if value is None or value.type is not None or not value.known_dtype:
        return b""
    shape = value.known_shape
    dims = None if shape is None else [d if isinstance(d, int) else None for d in shape]
    return helper.make_tensor_type_proto(value.known_dtype, dims).SerializeToString(deterministic=True)


def _constant_of(value: Value | None) -> bytes:
    """The message of a small constant; b"" for another value."""
    tensor = value.tensor if value is not None else None
    if tensor is None or tensor.nbytes > SMALL_TENSOR_BYTES or tensor.is_external:
        return b""
    return tensor.to_proto("").SerializeToString(deterministic=True)


def _reason(error: Exception) -> str:
    """The message of the converter on one line, without the location in its source."""
    return strip_source_locations(first_line(error)).strip()


def _by_node(graph: onnx.GraphProto, count: int) -> list[list[onnx.NodeProto]]:
    """The nodes that each of `count` nodes became, in order, with constants as nodes; without their prefixes."""
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


def _content(node: onnx.NodeProto) -> tuple[object, ...]:
    """A node for comparison: the order of its attributes does not count."""
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
    return node.op_type, without_trailing_omitted(node.input), list(node.output), attributes


def _require_runnable(op: Op, nodes: Nodes | None, version: int, runs: Runs) -> None:
    """Decline if `op` runs, and the nodes that it becomes at `version` do not."""
    kinds = {op.type} if nodes is None else {n.op_type for n in nodes} - {"Constant"}
    for kind in kinds:
        if kind == op.type and _keeps_kernels(op.type, len(op.inputs), op.version, version, runs):
            continue
        dtypes = [v.known_dtype if v is not None else 0 for v in op.inputs] if kind == op.type else []
        if dtypes and not any(dtypes):
            raise Unconvertible(op, f"{kind} does not run at opset {version} on all types, and its types are unknown")
        if runs(op.type, op.domain, op.version, dtypes) and not runs(kind, op.domain, version, dtypes):
            given = ", ".join(dict.fromkeys(element_type(d) for d in dtypes if d))
            raise Unconvertible(op, f"{kind}{given and f' of {given}'} does not run at opset {version}")


@cache
def _keeps_kernels(op_type: str, inputs: int, before: int, after: int, runs: Runs) -> bool:
    """Whether an operator runs at opset `after` on every type of every input on which it runs at `before`."""
    cases = [[0] * i + [dtype] for i in range(inputs) for dtype in sorted(KNOWN_DTYPES)] or [[]]
    return all(runs(op_type, ONNX_DOMAIN, after, c) or not runs(op_type, ONNX_DOMAIN, before, c) for c in cases)


def _raise_ir_version(graph: Graph, least: int) -> None:
    """Raise the IR version to `least`. Initializers that had to be inputs before version 4 are none then."""
    context = graph.context
    if context.ir_version >= least:
        return
    for g in graph.with_subgraphs() if context.initializers_are_inputs else ():
        g.declared.inputs[:] = [(v, info) for v, info in g.declared.inputs if v not in g.initializers]
    context.ir_version = least


def _replace(op: Op, nodes: Nodes, by: str, constants: dict[tuple[Graph, bytes], Value]) -> None:
    """Replace `op` by the nodes to which it was converted; equal constants of one graph are shared."""
    g = op.graph
    values: dict[str, Value | None] = {"": None, **{f"i{i}": v for i, v in enumerate(op.inputs)}}
    omitted = {f"o{i}" for i, v in enumerate(op.outputs) if not v.name}
    made: list[Op] = []
    for node in nodes:
        if node.op_type == "Constant":
            tensor = node.attribute[0].t
            tensor.name = ""
            key = (g, tensor.SerializeToString(deterministic=True))
            if key not in constants:
                constants[key] = g.add_constant(Tensor.from_proto(tensor), op.outputs[0].name)
            values[node.output[0]] = constants[key]
            continue
        new = Op(node.op_type, ONNX_DOMAIN, "", {a.name: attribute_value(a) for a in node.attribute}, None)
        new.order_key = op.order_key
        outputs = [Value("" if name in omitted else g.fresh_name(op.outputs[0].name)) for name in node.output]
        made.append(g.add_op(new, [values[name] for name in node.input], outputs))
        values.update(zip(node.output, outputs, strict=True))
    for i, old in enumerate(op.outputs):
        new_value = values[f"o{i}"]
        if old.name and new_value is not None:
            g.take_over(new_value, old)
    set_origin(made, by, (op,))
    inherit_name(next((m for m in made if m.type == op.type), made[-1]), op)
    g.remove_op(op)
