"""Lossless conversion between ModelProto and Model.

Without a pass in between, `to_onnx(from_onnx(m)) == m`, including node order, doc strings, metadata and the order of
every list. Unused initializers and dead nodes are kept; passes remove them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import onnx
from onnx import helper

from ..errors import ModelError
from ..inference import infer, infer_dtype
from ..ir import op_schemas
from ..ir.graph import Graph, GraphContext, constant_bytes
from ..ir.op import Op
from ..ir.tensor import Tensor
from ..ir.values import Value
from ..serialization.importer import Importer, TensorReader, require_utf8
from ..serialization.proto_queries import copy_without
from ..support.author_errors import require_type
from ..support.gc_pause import count_graph
from .function_inlining import inline_functions
from .model import Model, serialize

if TYPE_CHECKING:
    import networkx as nx


def from_onnx(model: onnx.ModelProto, *, inline: bool = False) -> Model:
    """Build the graph of `model`; tensors are shared, not copied. `inline` replaces calls of local functions.

    Raises ModelError for cycles, undefined or duplicate names, and unknown versions.

    Examples:
        >>> from_onnx(model).graph.opsets
        {'': 17}
    """
    require_type(model, onnx.ModelProto, "from_onnx", 'a ModelProto, as of onnx.load("model.onnx")')
    header, info = copy_without(model, "graph"), copy_without(model.graph, "node", "initializer")
    opsets_of(header)  # rejects unknown versions before anything is read
    tensors = list(map(Tensor.from_proto, model.graph.initializer))
    return import_model(header, info, model.graph.node, tensors, Tensor.from_proto, inline=inline)


def from_function(function: onnx.FunctionProto, ir_version: int) -> Model:
    """The body of a local function as a separate model, without known types. Raises ModelError."""
    model = onnx.ModelProto(ir_version=ir_version, opset_import=function.opset_import)
    model.graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    attributes = frozenset((*function.attribute, *(a.name for a in function.attribute_proto)))
    header, info = copy_without(model, "graph"), copy_without(model.graph, "node", "initializer")
    try:
        return import_model(
            header, info, function.node, (), Tensor.from_proto, inline=False, function_attributes=attributes
        )
    except ModelError as e:
        raise ModelError(f"function {op_schemas.qualified_op_type(function.domain, function.name)}: {e}") from e


def to_function(body: Model, function: onnx.FunctionProto) -> onnx.FunctionProto:
    """`function` with another body; constants become nodes, because a function has no initializers."""
    model = to_onnx(body)
    found = copy_without(function, "node", "opset_import")
    constants = (helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer)
    found.node.extend((*constants, *model.graph.node))
    found.opset_import.extend(model.opset_import)
    return found


def import_model(
    header: onnx.ModelProto,
    info: onnx.GraphProto,
    nodes: Iterable[onnx.NodeProto],
    initializers: Sequence[Tensor],
    read_tensor: TensorReader,
    *,
    inline: bool,
    function_attributes: frozenset[str] = frozenset(),
) -> Model:
    """Build the model of a header and the parts of a graph; values that training information names are pinned.

    `function_attributes` are those that nodes may refer to, if it is the body of a local function.
    """
    require_utf8(header.producer_name, header.producer_version, header.domain, header.doc_string)
    for function in header.functions:
        require_utf8(function.domain, function.name)
    if inline and header.functions:
        header, nodes = inline_functions(header, info, nodes, initializers)
    count_graph(sum(t.nbytes for t in initializers))
    context = GraphContext(
        opsets_of(header), header.ir_version, infer, infer_dtype, networkx_view, _text_of, functions=header.functions
    )
    context.function_attributes = function_attributes
    try:
        graph = Importer(context, read_tensor).read_graph(info, nodes, initializers)
    except RecursionError as e:
        raise ModelError("its subgraphs are nested too deeply") from e
    except (UnicodeDecodeError, TypeError) as e:
        raise ModelError(f"it is damaged: {e}") from e
    if bound := training_info_names(header):
        graph.pinned.update(v for v in graph.initializers if v.name in bound)
    context.weight_bytes = constant_bytes(graph)
    return Model(header, graph)


def networkx_view(graph: Graph) -> nx.MultiDiGraph[Op | Value]:
    """The implementation of `graph.nx`."""
    from ..analyses.networkx_view import NetworkxView  # noqa: PLC0415 - networkx takes longer to import than a small model to optimize

    return NetworkxView(graph)


def _text_of(graph: Graph) -> str:
    from ..serialization.onnx_text import text_of  # noqa: PLC0415 - used seldom

    return text_of(graph)


def to_onnx(model: Model) -> onnx.ModelProto:
    """Convert a model to one message with all its weights.

    Examples:
        >>> to_onnx(from_onnx(model)) == model
        True
    """
    require_type(model, Model, "to_onnx", "a Model, as of from_onnx")
    return serialize(model).to_proto()


def opsets_of(header: onnx.ModelProto) -> dict[str, int]:
    """The opset version of each domain. Raises ModelError for versions that the installed onnx lacks."""
    if not header.ir_version:
        raise ModelError("not an ONNX model: it has no IR version")
    if header.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"IR version {header.ir_version} is newer than the installed onnx supports ({onnx.IR_VERSION})"
        )
    opsets: dict[str, int] = {}
    for entry in header.opset_import:
        require_utf8(entry.domain)
        domain = op_schemas.canonical_domain(entry.domain)
        newest = op_schemas.latest_opset_version(domain)
        if newest and not 1 <= entry.version <= newest:
            raise ModelError(f"opset {entry.version} of domain '{domain or 'ai.onnx'}' is unknown (newest: {newest})")
        opsets[domain] = entry.version
    if not opsets:
        raise ModelError("the model imports no opset")
    return opsets


def training_info_names(header: onnx.ModelProto) -> set[str]:
    """The names that the training information refers to."""
    names = {e.key for t in header.training_info for e in (*t.initialization_binding, *t.update_binding)}
    for t in header.training_info:
        names.update(name for node in (*t.initialization.node, *t.algorithm.node) for name in node.input)
    return names
