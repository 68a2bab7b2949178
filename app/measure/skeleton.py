"""A model's nodes without its weights, as messages: read from a file, and written back under names that are unique."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ...core.errors import ModelError
from ...core.ir import wire_format
from ...core.ir.tensor import MappedFile
from ...core.serialization.exporter import INITIALIZER, MODEL_GRAPH, NODE
from ...core.serialization.proto_queries import all_nodes

TENSOR_NAME_FIELD = 8  # of a TensorProto, in onnx.proto


def read_skeleton(path: Path) -> onnx.ModelProto:
    """The model in a file; of the weights of its main graph only the names. Raises ModelError if it is none."""
    try:
        source = MappedFile(path)
        data = source.view()
        model = onnx.ModelProto()
        for f in wire_format.parse_fields(data, 0, len(data)):
            if f.number == MODEL_GRAPH and f.wire_type == wire_format.LEN:
                for part in wire_format.parse_fields(data, f.begin, f.end):
                    _merge_graph_field(model.graph, data, part)
            else:
                model.MergeFromString(bytes(data[f.tag_start : f.end]))
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    except (DecodeError, ModelError) as e:
        raise ModelError(f"{path}: not an ONNX model") from e
    source.release_pages()
    return model


def _merge_graph_field(graph: onnx.GraphProto, data: memoryview, part: wire_format.Field) -> None:
    if part.number == INITIALIZER:
        names = [f for f in wire_format.parse_fields(data, part.begin, part.end) if f.number == TENSOR_NAME_FIELD]
        graph.initializer.add(name="".join(bytes(data[f.begin : f.end]).decode() for f in names[-1:]))
    else:
        graph.MergeFromString(bytes(data[part.tag_start : part.end]))


def make_node_names_unique(graph: onnx.GraphProto) -> None:
    """Give each node a name of its own: a nameless one that of its first output, a namesake a number."""
    taken = {node.name for node in all_nodes(graph.node)}
    seen: set[str] = set()
    for node in all_nodes(graph.node):
        wanted = node.name or next(filter(None, node.output), node.op_type)
        if not node.name or node.name in seen:
            node.name = _unused_name(wanted, taken)
        taken.add(node.name)
        seen.add(node.name)


def _unused_name(wanted: str, taken: set[str]) -> str:
    name, n = wanted, 1
    while name in taken:
        n += 1
        name = f"{wanted} #{n}"
    return name


def write_with_nodes(graph: onnx.GraphProto, path: Path, copy: Path) -> None:
    """Copy the model in `path` with the nodes of `graph` in place of its own, weights as the bytes that they are."""
    source = MappedFile(path)
    data = source.view()
    nodes = b"".join(wire_format.encode_field(NODE, node.SerializeToString()) for node in graph.node)
    with copy.open("wb") as file:
        for f in wire_format.parse_fields(data, 0, len(data)):
            if f.number != MODEL_GRAPH or f.wire_type != wire_format.LEN:
                file.write(data[f.tag_start : f.end])
                continue
            others = [p for p in wire_format.parse_fields(data, f.begin, f.end) if p.number != NODE]
            length = len(nodes) + sum(p.end - p.tag_start for p in others)
            file.write(wire_format.encode_prefix(MODEL_GRAPH, length) + nodes)
            for p in others:
                file.write(data[p.tag_start : p.end])
    source.release_pages()
