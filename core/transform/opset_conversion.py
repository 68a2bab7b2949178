"""Conversion of a graph to another opset of the standard operators.

Only ops whose operator has a different schema at that opset are converted, each as a separate node, so that nothing
else in the graph is lost or renamed. Equal ops are converted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import defs, helper

from ..errors import MatchFailure, ModelError
from ..io.convert import from_function, to_function
from ..ir.graph import Graph, Runs
from ..ir.op import Op, attribute_value, inherit_name, set_origin
from ..ir.op_schemas import ONNX_DOMAIN
from ..ir.tensor import KNOWN_DTYPES, Tensor, element_type
from ..ir.values import Value
from ..serialization.proto_queries import opset_versions
from .node_conversion import (
    FIRST_WITH_MULTIDIRECTIONAL_BROADCAST,
    OLDER_NAMES,
    WRITTEN_AS_SINCE_7,
    Converted,
    Nodes,
    SingleNodeModel,
    Unconvertible,
    bare_copy,
    constant_of,
    content,
    convert_nodes,
    correct_after,
    correct_before,
    type_of,
    version_of,
)
from .opset_lowering import lower

OTHER_KERNEL_SINCE = {"AveragePool": 19}
"""Operators that onnxruntime computes with a different kernel since an opset, more slowly and with different rounding.

With onnxruntime 1.31.1 and one thread, AveragePool takes 3 to 9 times as long, unless it has a multiple of 16 channels.
"""


class OpsetConversion(Struct, frozen=True):
    """The conversion of a graph to opset `version`, and the nodes that replace ops; other ops do not change.

    `functions`: the local functions after the conversion. `is_exact`: results are bit-identical. `obstacle`: the reason
    why the next higher opset is not possible, if a higher one was requested.
    """

    version: int
    replacements: Mapping[Op, Nodes]
    is_exact: bool = True
    obstacle: str = ""
    functions: Sequence[onnx.FunctionProto] = ()

    def apply(self, graph: Graph, by: str) -> None:
        """Convert `graph`, for which this was planned; new ops are recorded as created by `by`. O(ops)."""
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


class MissingKernel(MatchFailure):
    """An operator that the conversion would need does not run at that opset."""


class Unrunnable(Unconvertible, MissingKernel):
    """An op can be converted to an opset, but does not run there."""


def plan_conversion(
    graph: Graph, version: int, runs: Runs | None = None, *, same_kernels: bool = False
) -> OpsetConversion:
    """The conversion to opset `version`. O(ops).

    Declines with the op that cannot be converted; with `runs`, also with an op that runs now and would no longer run;
    with `same_kernels`, also with an op that onnxruntime would compute differently.
    """
    current = graph.opsets.get(ONNX_DOMAIN)
    if current is None:
        raise MatchFailure("the model imports no standard opset")
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
    """The conversion to the highest opset that is possible, from the opset of the graph up to `version`."""
    obstacle, suspects = "", dict[Op, None]()
    current = graph.opsets.get(ONNX_DOMAIN, version)
    for candidate in range(version, current, -1):
        try:
            _convert(
                list(suspects), current, candidate, runs, same_kernels=same_kernels
            )  # few ops, which are likely to fail again
            return replace(plan_conversion(graph, candidate, runs, same_kernels=same_kernels), obstacle=obstacle)
        except MatchFailure as e:
            obstacle = f"opset {candidate} is not possible: {e}"
            suspects.update({e.op: None} if isinstance(e, Unconvertible) else {})
    return OpsetConversion(current, {}, obstacle=obstacle, functions=graph.context.functions)


@cache
def keeps_types(op_type: str, before: int, after: int) -> bool:
    """Whether every type that an operator accepts at opset `before` is accepted at `after`."""
    old, new = (defs.get_schema(op_type, version, ONNX_DOMAIN) for version in (before, after))
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    return all(set(c.allowed_type_strs) <= allowed.get(c.type_param_str, set()) for c in old.type_constraints)


class Raising(Struct, frozen=True):
    """Converts ops from an opset to a higher one."""

    current: int
    version: int

    def convert(self, ops: Sequence[Op]) -> dict[Op, Nodes]:
        """The nodes that replace ops, by op, without unchanged ops. Declines with the first that cannot be converted.

        An op is first converted without types, which requires no inference. If it does not change, this is final unless
        its operator accepts fewer types at the new opset.
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
        is_old = self.current < FIRST_WITH_MULTIDIRECTIONAL_BROADCAST  # then the converter reads shapes
        return not is_old and keeps_types(op.type, op.version, self.version)

    def _convert_alike(self, ops: Sequence[Op], *, typed: bool) -> dict[Op, Converted]:
        """The nodes that replace each op, none if it does not change, or the reason why it cannot be converted."""
        single = {op: self._single_node(op, typed=typed) for op in ops}
        different = list(dict.fromkeys(single.values()))
        found: dict[SingleNodeModel, Converted] = {}
        for start, nodes in self._by_opset(different):
            converted = convert_nodes(nodes, start, self.version)
            found |= {node: self._corrected(node, made) for node, made in zip(nodes, converted, strict=True)}
        return {op: found[node] for op, node in single.items()}

    def _by_opset(self, nodes: Sequence[SingleNodeModel]) -> Iterator[tuple[int, list[SingleNodeModel]]]:
        """Yield the nodes by the opset from which the converter converts them, which is higher for corrected nodes."""
        is_crossed = self.current < FIRST_WITH_MULTIDIRECTIONAL_BROADCAST <= self.version
        corrected = [n for n in nodes if is_crossed and n.op_type in WRITTEN_AS_SINCE_7]
        yield FIRST_WITH_MULTIDIRECTIONAL_BROADCAST, corrected
        yield self.current, [n for n in nodes if n not in corrected] if corrected else list(nodes)

    def _single_node(self, op: Op, *, typed: bool) -> SingleNodeModel:
        """An op as a separate node; with `typed`, it has the types of its inputs."""
        node, hidden = bare_copy(op)
        original = node.SerializeToString(deterministic=True)
        try:
            correct_before(op, node, op.version, self.version)
        except MatchFailure as e:
            raise Unconvertible(op, str(e)) from e
        known = op.inputs if typed else (None,) * len(op.inputs)
        serialized = node.SerializeToString(deterministic=True)
        types, constants = tuple(map(type_of, known)), tuple(map(constant_of, known))
        return SingleNodeModel(op.type, serialized, types, constants, hidden, original)

    def _corrected(self, single: SingleNodeModel, nodes: Converted) -> Converted:
        """The corrected result of the converter; empty if it is the node itself, as it was before it was corrected."""
        if isinstance(nodes, str):
            return nodes
        original = onnx.NodeProto.FromString(single.original)
        try:
            correct_after(single, nodes, self.current, self.version)
        except MatchFailure as e:
            return str(e)
        if [content(n) for n in nodes] == [content(original)]:
            return []
        return "it holds a tensor or a subgraph" if single.has_hidden_attributes else nodes


def _convert(
    ops: Sequence[Op], current: int, version: int, runs: Runs | None, *, same_kernels: bool
) -> dict[Op, Nodes]:
    """The nodes that replace ops between two opsets, without unchanged ops. Raises Unconvertible."""
    changed = [op for op in ops if _schema_changes(op, version)]
    for op in changed if same_kernels else ():
        if _gets_other_kernel(op, version):
            since = OTHER_KERNEL_SINCE[op.type]
            raise Unconvertible(op, f"onnxruntime runs it slower since opset {since}, and rounds otherwise")
    is_higher = version > current
    replacements = Raising(current, version).convert(changed) if is_higher else lower(changed, current, version)
    if runs is not None:
        for op in ops:  # including the others, because a function may be expanded only at some opsets
            _require_runnable(op, replacements.get(op), version, runs)
    return replacements


def _convert_function(
    function: onnx.FunctionProto, ir_version: int, version: int, runs: Runs | None, *, same_kernels: bool
) -> tuple[onnx.FunctionProto, bool]:
    """A local function at opset `version`, and whether its results are bit-identical.

    onnxruntime runs its body at the opset of the model, whichever the function imports.
    """
    if ONNX_DOMAIN not in opset_versions(function):
        return function, True
    try:
        body = from_function(function, ir_version)
        plan = plan_conversion(body.graph, version, runs, same_kernels=same_kernels)
    except (MatchFailure, ModelError) as e:
        kind = MissingKernel if isinstance(e, MissingKernel) else MatchFailure
        raise kind(f"local function {function.name}, which is not inlined: {e}") from e
    plan.apply(body.graph, "")
    return to_function(body, function), plan.is_exact


def _gets_other_kernel(op: Op, version: int) -> bool:
    lower, higher = sorted((op.version, version))
    return lower < OTHER_KERNEL_SINCE.get(op.type, 0) <= higher


def _standard_ops(graph: Graph) -> list[Op]:
    return [op for g in graph.with_subgraphs() for op in g.ops() if op.domain == ONNX_DOMAIN]


def _schema_changes(op: Op, version: int) -> bool:
    """Whether the operator of `op` has another schema at `version`. Raises Unconvertible if only one exists."""
    before, after = version_of(op.type, op.version), version_of(op.type, version)
    after = after or version_of(OLDER_NAMES.get(op.type, op.type), version)
    if (before == 0) != (after == 0):
        raise Unconvertible(op, f"opset {version if before else op.version} has no such operator")
    return before != after


def _require_runnable(op: Op, nodes: Nodes | None, version: int, runs: Runs) -> None:
    """Decline if `op` runs, but the nodes that replace it at `version` do not."""
    kinds = {op.type} if nodes is None else {n.op_type for n in nodes} - {"Constant"}
    count = len(op.inputs) if nodes is None else max((len(n.input) for n in nodes if n.op_type == op.type), default=0)
    for kind in kinds:
        if kind == op.type and _keeps_kernels(op.type, len(op.inputs), op.version, version, runs):
            continue
        dtypes = [v.known_dtype if v is not None else 0 for v in op.inputs[:count]] if kind == op.type else []
        if dtypes and not any(dtypes):
            raise Unrunnable(op, f"{kind} does not run at opset {version} on all types, and its types are unknown")
        if runs(op.type, op.domain, op.version, dtypes) and not runs(kind, op.domain, version, dtypes):
            given = ", ".join(dict.fromkeys(element_type(d) for d in dtypes if d))
            raise Unrunnable(op, f"{kind}{given and f' of {given}'} does not run at opset {version}")


@cache
def _keeps_kernels(op_type: str, inputs: int, before: int, after: int, runs: Runs) -> bool:
    """Whether an operator runs at opset `after` on every type of every input on which it runs at `before`."""
    cases = [[0] * i + [dtype] for i in range(inputs) for dtype in sorted(KNOWN_DTYPES)] or [[]]
    return all(runs(op_type, ONNX_DOMAIN, after, c) or not runs(op_type, ONNX_DOMAIN, before, c) for c in cases)


def _raise_ir_version(graph: Graph, least: int) -> None:
    """Raise the IR version to `least`. From version 4 on, initializers that had to be inputs are removed from these."""
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
        new_value = values.get(f"o{i}")  # an unused output may have been removed
        if old.name and new_value is not None:
            g.take_over(new_value, old)
    set_origin(made, by, (op,))
    inherit_name(next((m for m in made if m.type == op.type), made[-1]), op)
    g.remove_op(op)
