"""Queries on ONNX messages: nodes in subgraphs, names that nodes read, used operators, imported opsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.op_schemas import canonical_domain

M = TypeVar("M", bound=Message)
GRAPH, GRAPHS = AttributeProto.GRAPH, AttributeProto.GRAPHS
SUBGRAPH_ATTRIBUTE_TYPES = frozenset({GRAPH, GRAPHS})


def named_subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the graphs in the attributes of a node, by attribute; graphs in a list are numbered."""
    for a in node.attribute:
        kind = a.type
        if kind == GRAPH:
            yield a.name, a.g
        elif kind == GRAPHS:
            yield from ((f"{a.name}[{i}]", g) for i, g in enumerate(a.graphs))


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of a node."""
    return (graph for _, graph in named_subgraphs(node))


def has_subgraphs(node: onnx.NodeProto) -> bool:
    """Whether a node has graphs in its attributes; this is plain code because it is called for every node."""
    for a in node.attribute:  # noqa: SIM110 - any() takes twice the time
        if a.type in SUBGRAPH_ATTRIBUTE_TYPES:
            return True
    return False


def is_constant_node(node: onnx.NodeProto) -> bool:
    """Whether a node is a Constant op of the standard domain."""
    return node.op_type == "Constant" and not canonical_domain(node.domain)


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads: its inputs, and the outer values of its subgraphs."""
    yield from filter(None, node.input)
    if has_subgraphs(node):
        yield from captured_by(node)


def captured_by(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the outer names that the subgraphs of a node read."""
    for graph in subgraphs(node):
        yield from captured_names(graph)


def captured_names(graph: onnx.GraphProto) -> list[str]:
    """The names that a subgraph reads and does not define. O(its size)."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own.update(s.values.name for s in graph.sparse_initializer)
    own.update(o for node in graph.node for o in node.output)
    read = [name for node in graph.node for name in read_names(node)]
    return list(dict.fromkeys(name for name in (*read, *(o.name for o in graph.output)) if name not in own))


def needed_nodes(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that `outputs` need, producers first. O(nodes + edges)."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    done: set[int] = set()
    order: list[onnx.NodeProto] = []
    stack = [(producers[name], False) for name in reversed(outputs) if name in producers]
    while stack:
        index, is_ready = stack.pop()
        if index in done:
            continue
        if is_ready:
            done.add(index)
            order.append(nodes[index])
            continue
        stack.append((index, True))
        needed = (producers[name] for name in read_names(nodes[index]) if name in producers)
        stack += [(i, False) for i in needed if i not in done and i != index]
    return order


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield `nodes` and the nodes in their subgraphs, each before those inside it."""
    for node in nodes:
        yield node
        if has_subgraphs(node):
            for graph in subgraphs(node):
                yield from all_nodes(graph.node)


def inner_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in attributes of nodes, and in the subgraphs inside them."""
    for node in all_nodes(nodes):
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                yield a.t
        for graph in subgraphs(node):
            yield from graph.initializer


def copy_without(message: M, *fields: str) -> M:
    """A copy of a message without some of its fields, which are never copied.

    Raises ModelError for a text that is not UTF-8.
    """
    out = type(message)()
    for descriptor, value in message.ListFields():
        name = descriptor.name
        if name in fields:
            continue
        if hasattr(value, "extend"):
            getattr(out, name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(out, name).CopyFrom(value)
        else:
            try:
                setattr(out, name, value)
            except UnicodeDecodeError as e:
                raise ModelError(f"it is damaged: a {name} is not UTF-8 text") from e
    return out


def opset_versions(holder: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """The opset version of each imported domain; "" is the standard domain, under whichever name it is imported."""
    return {canonical_domain(e.domain): e.version for e in holder.opset_import}


def used_domains(graph: onnx.GraphProto) -> dict[str, None]:
    """The domains of the nodes of a graph and its subgraphs, without duplicates, in order."""
    return dict.fromkeys(domain for domain, _ in used_operators(graph))


def used_operators(graph: onnx.GraphProto) -> dict[tuple[str, str], None]:
    """The domain and type of the nodes of a graph and its subgraphs, without duplicates, in order."""
    return dict.fromkeys((canonical_domain(node.domain), node.op_type) for node in all_nodes(graph.node))


def undefined_operators(model: onnx.ModelProto) -> dict[tuple[str, str], None]:
    """The domain and type of nodes in ONNX domains that neither ONNX at the model's opset nor the model defines."""
    versions, functions = opset_versions(model), local_functions(model)
    return dict.fromkeys(
        (domain, kind)
        for domain, kind in used_operators(model.graph)
        if (domain, kind) not in functions
        and op_schemas.latest_opset_version(domain)
        and op_schemas.schema(kind, domain, versions.get(domain, 0)) is None
    )


def local_functions(model: onnx.ModelProto) -> set[tuple[str, str]]:
    """Domain and name of the local functions of a model."""
    return {(canonical_domain(f.domain), f.name) for f in model.functions}
