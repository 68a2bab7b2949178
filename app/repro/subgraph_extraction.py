"""Models of some ops of another model, with their constants, and with inputs for all other values that they read."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import networkx as nx
import onnx
from onnx import helper

from ...core.inference.schema_inference import inferred_type_proto
from ...core.io.files import as_loadable
from ...core.io.model import Model, export_header
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.ort.sessions import Loadable
from ...core.serialization.exporter import node_bytes


def changed_ops(before: Graph, after: Graph) -> tuple[list[Op], list[Op]]:
    """The ops of two graphs that only one has, compared with their edges by name; in order. O(V + E)."""
    mine, others = ({node_bytes(op): op for op in g.sorted_ops()} for g in (before, after))
    return [op for k, op in mine.items() if k not in others], [op for k, op in others.items() if k not in mine]


def external_inputs(ops: Collection[Op]) -> list[Value]:
    """The values that the ops read and do not make, constants included, in order."""
    made = {v for op in ops for v in op.outputs}
    read = dict.fromkeys(v for op in ops for v in (*op.inputs, *op.captures) if v is not None)
    return [v for v in read if v not in made]


def external_outputs(graph: Graph, ops: Collection[Op]) -> list[Value]:
    """The values that the ops make and that other ops read or that are outputs of the graph, in order."""
    made = [v for op in ops for v in op.outputs]
    leaving = {v for v, _ in nx.edge_boundary(graph.nx, {*ops, *made})}
    return [v for v in made if graph.is_output(v) or v in leaving]


def neighbourhood(op: Op, radius: int) -> list[Op]:
    """The ops at most `radius` ops away in either direction, in order. O(V + E)."""
    ops = op.graph.sorted_ops()
    edges = nx.bipartite.projected_graph(op.graph.nx, ops)
    layers = nx.bfs_layers(edges.to_undirected(as_view=True), op)
    near: set[Op] = set(chain.from_iterable(islice(layers, radius + 1)))
    return [o for o in ops if o in near]


def declared_type(value: Value) -> onnx.TypeProto:
    """The type of a value as far as it is known."""
    return inferred_type_proto(value) or onnx.TypeProto()


@contextmanager
def with_extra_outputs(model: Model, names: Iterable[str]) -> Generator[Loadable]:
    """The whole model, with further values among its outputs, for a backend to load."""
    with as_loadable(model) as plain:
        library: Any = onnx
        is_file = isinstance(plain, Path)
        proto: onnx.ModelProto = (
            library.load(plain, load_external_data=False) if is_file else library.load_from_string(plain)
        )
        known = {o.name for o in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names) if n not in known)
        if is_file:
            plain.write_bytes(proto.SerializeToString())
        yield plain if is_file else proto.SerializeToString()


def extract_model(
    model: Model, ops: Collection[Op], inputs: Mapping[str, onnx.TypeProto], outputs: Collection[str]
) -> onnx.ModelProto:
    """A model of those ops, with inputs of the given types.

    An output that none of the ops makes is a constant, which an Identity copies.
    """
    proto = export_header(model)
    del proto.metadata_props[:], proto.training_info[:]
    proto.ir_version = max(proto.ir_version, 4)  # before, each initializer had to be an input too
    graph = proto.graph
    graph.name = model.graph.declared.header.name or "repro"
    graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in inputs.items())
    made = {v.name for op in ops for v in op.outputs}
    handed_on = {name: f"{name}_constant" for name in outputs if name not in made}
    # A Constant or an enclosing graph may hold a constant that is read, so it is found by its value.
    held = [(v.name, v.tensor) for v in external_inputs(ops) if v.name not in inputs]
    held += [(handed_on[v.name], tensor) for v, tensor in model.written_initializers() if v.name in handed_on]
    for name, tensor in held:
        if tensor is not None:
            graph.initializer.append(onnx.TensorProto.FromString(b"".join(tensor.chunks(name))))
    graph.node.extend(onnx.NodeProto.FromString(node_bytes(op)) for op in ops)
    graph.node.extend(helper.make_node("Identity", [constant], [name]) for name, constant in handed_on.items())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return proto
