"""Inlining of local functions: each call is replaced by the nodes of its function (ONNX IR, Functions)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain

import onnx
from msgspec import Struct, field

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.tensor import Tensor
from ..processes.watchdog import require_time
from ..serialization.proto_queries import (
    GRAPH,
    SUBGRAPH_ATTRIBUTE_TYPES,
    all_nodes,
    copy_without,
    has_subgraphs,
    opset_versions,
    subgraphs,
)

MAX_INLINED_CALLS = 100_000  # maximum number of replaced calls
MAX_INLINED_NODES = 100_000  # maximum number of nodes made by inlining, including subgraphs
MAX_INLINED_BYTES = 100_000_000  # maximum size of these nodes, without the weights of the model
MAX_INLINING_GROWTH = 100  # the limits are raised to this multiple of the file's own nodes and bytes
MAX_SUBGRAPH_DEPTH = 33  # protobuf reads messages up to depth 100; each subgraph needs three levels

FunctionKey = tuple[str, str, str]
"""Canonical domain, name and overload."""


def inline_functions(
    header: onnx.ModelProto, info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], initializers: Sequence[Tensor]
) -> tuple[onnx.ModelProto, list[onnx.NodeProto]]:
    """The header and the nodes, with each call replaced by the function's body, except for kept functions.

    A function is kept if ONNX defines it as an operator, if an operator in its body has another meaning at the model's
    opset, or if another kept function calls it. Raises ModelError if a function calls itself, or if the result would be
    too large.
    """
    nodes = list(nodes)
    functions, versions = {_key(f): f for f in header.functions}, opset_versions(header)
    kept = _kept_functions(functions, versions)
    flat = copy_without(header, "functions")
    flat.functions.extend(kept.values())
    inlined = {key: f for key, f in functions.items() if key not in kept}
    for f in inlined.values():
        for domain, version in opset_versions(f).items():
            if domain not in versions:
                versions[domain] = version
                flat.opset_import.add(domain=domain, version=version)
    every = (nodes, *(f.node for f in functions.values()))
    inliner = _Inliner(
        inlined,
        {*_names(info, nodes), *(t.name for t in initializers)},
        file_nodes=sum(1 for part in every for _ in all_nodes(part)),
        file_bytes=header.ByteSize() + info.ByteSize() + sum(n.ByteSize() for n in nodes),
    )
    return flat, list(inliner.expand(nodes, is_own=False))


def with_inlined_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model with function calls replaced; see `inline_functions`."""
    info = copy_without(model.graph, "node")
    flat, nodes = inline_functions(copy_without(model, "graph"), info, model.graph.node, ())
    flat.graph.CopyFrom(info)
    flat.graph.node.extend(nodes)
    return flat


def _kept_functions(
    functions: Mapping[FunctionKey, onnx.FunctionProto], versions: Mapping[str, int]
) -> dict[FunctionKey, onnx.FunctionProto]:
    """The functions of a model with opsets `versions` that are not inlined."""
    kept = {key: f for key, f in functions.items() if not _is_inlinable(f, versions, functions)}
    queue = list(kept.values())
    for f in queue:
        called = {k: functions[k] for k in map(_called, all_nodes(f.node)) if k in functions and k not in kept}
        kept |= called
        queue += called.values()
    return kept


def _is_inlinable(function: onnx.FunctionProto, versions: Mapping[str, int], functions: Container[FunctionKey]) -> bool:
    """Whether a function is not an ONNX operator, and its operators have the same meaning at opsets `versions`.

    If ONNX defines an operator, onnxruntime runs its own kernel instead of the function.
    """
    domain, name, _ = _key(function)
    if op_schemas.schema(name, domain, versions.get(domain, 0)) is not None:
        return False
    others = {d: v for d, v in opset_versions(function).items() if versions.get(d, v) != v}
    used = (_called(node) for node in all_nodes(function.node) if others)
    return all(
        key in functions or op_schemas.is_same_operator(key[1], key[0], others[key[0]], versions[key[0]])
        for key in used
        if key[0] in others
    )


def _key(function: onnx.FunctionProto) -> FunctionKey:
    return op_schemas.canonical_domain(function.domain), function.name, function.overload


def _called(node: onnx.NodeProto) -> FunctionKey:
    return op_schemas.canonical_domain(node.domain), node.op_type, node.overload


def _names(info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Yield the names of the values in a graph and its subgraphs, possibly several times."""
    yield from (i.name for i in chain(info.input, info.initializer, info.output))
    yield from (t.values.name for t in info.sparse_initializer)
    for node in nodes:
        yield from node.input
        yield from node.output
        if has_subgraphs(node):
            for graph in subgraphs(node):
                yield from _names(graph, graph.node)


class _Call(Struct):
    """A call being replaced: the new names of the body's values, its attributes, and its number."""

    names: dict[str, str]
    attributes: Mapping[str, onnx.AttributeProto]
    number: int


class _Inliner(Struct):
    """Replaces calls of functions; new names are not in `names`."""

    functions: Mapping[FunctionKey, onnx.FunctionProto]
    names: set[str]
    file_nodes: int
    file_bytes: int
    made_nodes: int = 0
    made_bytes: int = 0
    calls: int = 0
    active: dict[FunctionKey, None] = field(default_factory=dict)
    depth: int = 0

    def expand(self, nodes: Iterable[onnx.NodeProto], *, is_own: bool) -> Iterator[onnx.NodeProto]:
        """Yield the nodes with each call replaced, including in subgraphs. Only nodes with `is_own` may be modified."""
        stack = [iter(nodes)]
        outer = len(self.active)
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                if len(self.active) > outer:
                    self.active.popitem()
                continue
            key = _called(node)
            if key in self.functions:
                if key in self.active:
                    raise ModelError(f"its local function {node.op_type} calls itself")
                stack.append(self._body(self.functions[key], node))
                self.active[key] = None
                continue
            self.made_nodes += 1
            self._require_moderate_growth()
            if has_subgraphs(node):
                own = node if is_own or len(stack) > 1 else deepcopy(node)
                self.depth += 1
                if self.depth > MAX_SUBGRAPH_DEPTH:
                    raise ModelError("its subgraphs are nested too deeply")
                for graph in subgraphs(own):
                    _replace_nodes(graph, list(self.expand(graph.node, is_own=True)))
                self.depth -= 1
                yield own
            else:
                yield node

    def _body(self, function: onnx.FunctionProto, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that compute the outputs of a call. Raises ModelError for too many inputs or outputs."""
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(f"a call of its local function {node.op_type} has too many inputs or outputs")
        self.calls += 1
        self._require_moderate_growth()
        attributes = {a.name: a for a in chain(function.attribute_proto, node.attribute)}
        call = _Call(dict.fromkeys(function.input, ""), attributes, self.calls)
        call.names.update(zip(function.input, node.input, strict=False))
        copies: list[tuple[str, str]] = []
        for formal, name in zip(function.output, node.output, strict=False):
            if formal in call.names:  # an input that is also an output, or a repeated output
                copies.append((call.names[formal], name))
            elif name:
                call.names[formal] = name
        own = (name for inner in function.node for name in inner.output if name not in call.names)
        self._define(filter(None, own), call)
        for inner in function.node:
            yield self._instance(inner, call)
        for source, name in copies:
            yield onnx.NodeProto(op_type="Identity", input=[source], output=[name])

    def _instance(self, node: onnx.NodeProto, call: _Call) -> onnx.NodeProto:
        """Copy a node of a body for a call."""
        made, names = deepcopy(node), call.names
        if node.name:
            made.name = f"{node.name}__{call.number}"
        made.input[:] = [name and (names[name] if name in names else _undefined(name)) for name in node.input]
        made.output[:] = [name and names[name] for name in node.output]
        for i, a in reversed([*enumerate(made.attribute)]):
            if a.ref_attr_name in call.attributes:
                name = a.name
                a.CopyFrom(call.attributes[a.ref_attr_name])
                a.name = name
            elif a.ref_attr_name:
                del made.attribute[i]
            elif a.type in SUBGRAPH_ATTRIBUTE_TYPES:
                for graph in (a.g,) if a.type == GRAPH else a.graphs:
                    self._rename(graph, call)
        self.made_bytes += made.ByteSize()
        self._require_moderate_growth()
        return made

    def _rename(self, graph: onnx.GraphProto, call: _Call) -> None:
        """Rename the values of a subgraph for a call."""
        weights = (*graph.initializer, *(t.values for t in graph.sparse_initializer))
        own = dict.fromkeys(i.name for i in (*graph.input, *weights))
        own |= dict.fromkeys(name for node in graph.node for name in node.output if name)
        outer = {name: call.names[name] for name in own if name in call.names}
        self._define(own, call)
        nodes = [self._instance(node, call) for node in graph.node]
        self.made_bytes -= sum(n.ByteSize() for n in nodes)  # counted again with the node of the subgraph
        _replace_nodes(graph, nodes)
        for value in (*graph.input, *weights, *graph.output, *graph.value_info):
            value.name = call.names.get(value.name) or _undefined(value.name)
        for name in own:
            del call.names[name]
        call.names |= outer

    def _define(self, names: Iterable[str], call: _Call) -> None:
        """Give new names to values that a body or a subgraph defines."""
        for name in names:
            fresh = f"{name}__{call.number}"
            while fresh in self.names:
                fresh += "_"
            self.names.add(fresh)
            call.names[name] = fresh

    def _require_moderate_growth(self) -> None:
        """Raise ModelError if the replaced calls, or the nodes made, are too many or too large."""
        require_time()
        for unit, made, before, least in (
            ("calls", self.calls, self.file_nodes, MAX_INLINED_CALLS),
            ("nodes", self.made_nodes, self.file_nodes, MAX_INLINED_NODES),
            ("bytes", self.made_bytes, self.file_bytes, MAX_INLINED_BYTES),
        ):
            if made > least and made > before * MAX_INLINING_GROWTH:
                raise ModelError(
                    f"its local functions would make more than {max(least, before * MAX_INLINING_GROWTH):,} {unit} "
                    f"of {before:,}: use --keep-functions to keep them"
                )


def _undefined(name: str) -> str:
    """The name of a value that a body reads but that is undefined; it must not equal a name outside."""
    return f"{name} of a function"


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
