"""Lossless conversion between ModelProto and Model.

Without a pass in between, `to_onnx(from_onnx(m)) == m`, with node order, doc strings, metadata and the
order of every list. Unused initializers and dead nodes are kept; passes remove them.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from ..errors import ModelError
from ..inference.driver import infer
from ..ir import op_schemas
from ..ir.context import GraphContext
from ..ir.graph import Graph
from ..ir.subgraphs import constant_bytes
from ..ir.tensor import Tensor
from ..serialization.importer import Importer, TensorReader, graph_header
from .function_inlining import inline_functions
from .model import Model
from .serialized_model import serialize


def from_onnx(model: onnx.ModelProto, read_tensor: TensorReader = Tensor.from_proto, *, inline: bool = False) -> Model:
    """Build the graph of `model`; tensors are shared with it, not copied. `inline` its local functions.

    Raises ModelError for cycles, names that are undefined or defined twice, and unknown versions.
    """
    header, info = copy_header(model), graph_header(model.graph)
    opsets_of(header)  # refuses unknown versions before anything is read
    nodes: Iterable[onnx.NodeProto] = model.graph.node
    initializers = [read_tensor(t) for t in model.graph.initializer]
    if inline and header.functions:
        header, nodes = inline_functions(header, info, nodes, initializers)
    return make_model(header, import_graph(make_importer(header, read_tensor), info, nodes, initializers))


def import_graph(
    importer: Importer, info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], initializers: Iterable[Tensor]
) -> Graph:
    """`Importer.read_graph`; Python's errors for too deep nesting and invalid text are raised as ModelError."""
    try:
        return importer.read_graph(info, nodes, initializers)
    except RecursionError as e:
        raise ModelError("its subgraphs are nested too deeply") from e
    except (UnicodeDecodeError, TypeError) as e:
        raise ModelError(f"it is damaged: {e}") from e


def to_onnx(model: Model) -> onnx.ModelProto:
    """The model as one message with all its weights."""
    return serialize(model).to_proto()


def copy_header(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the message without the graph."""
    header = onnx.ModelProto()
    for descriptor, value in model.ListFields():
        if descriptor.name == "graph":
            continue
        if descriptor.name in REPEATED_FIELDS:
            getattr(header, descriptor.name).extend(value)
        else:
            setattr(header, descriptor.name, value)
    return header


REPEATED_FIELDS = frozenset({"opset_import", "metadata_props", "training_info", "functions", "configuration"})


def opsets_of(header: onnx.ModelProto) -> dict[str, int]:
    """The opset version of each domain. Raises ModelError for versions the installed onnx lacks."""
    if not header.ir_version:
        raise ModelError("not an ONNX model: it has no IR version")
    if header.ir_version > onnx.IR_VERSION:
        raise ModelError(f"IR version {header.ir_version} is newer than the installed onnx knows ({onnx.IR_VERSION})")
    opsets: dict[str, int] = {}
    for entry in header.opset_import:
        domain = op_schemas.canonical_domain(entry.domain)
        newest = op_schemas.latest_opset_version(domain)
        if newest and not 1 <= entry.version <= newest:
            raise ModelError(f"opset {entry.version} of domain '{domain or 'ai.onnx'}' is unknown (newest: {newest})")
        opsets[domain] = entry.version
    if not opsets:
        raise ModelError("the model imports no opset")
    return opsets


def make_importer(header: onnx.ModelProto, read_tensor: TensorReader) -> Importer:
    """An importer for a model with that header. Raises ModelError for versions the installed onnx lacks."""
    return Importer(GraphContext(opsets_of(header), header.ir_version, infer, functions=header.functions), read_tensor)


def make_model(header: onnx.ModelProto, graph: Graph) -> Model:
    """The model of `graph`, with the values pinned to which training information refers by name."""
    if bound := training_info_names(header):
        graph.pinned.update(v for v in graph.initializers if v.name in bound)
    graph.context.weight_bytes = constant_bytes(graph)
    return Model(header, graph)


def training_info_names(header: onnx.ModelProto) -> set[str]:
    """The names to which the training information refers."""
    names = {e.key for t in header.training_info for e in (*t.initialization_binding, *t.update_binding)}
    for t in header.training_info:
        names.update(name for node in (*t.initialization.node, *t.algorithm.node) for name in node.input)
    return names
