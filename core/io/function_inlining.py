"""Inlining of local functions on import, by `onnx.inliner`, on a model without weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx
from onnx import inliner

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.tensor import Tensor, first_line
from ..serialization.proto_queries import all_nodes, opset_versions


def inline_functions(
    header: onnx.ModelProto, info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], initializers: Sequence[Tensor]
) -> tuple[onnx.ModelProto, Iterator[onnx.NodeProto]]:
    """The header and the nodes with each call replaced by its body, except calls that cannot be inlined."""
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(header)
    skeleton.graph.CopyFrom(info)
    skeleton.graph.node.extend(nodes)
    skeleton.graph.initializer.extend(t.proto_without_elements(t.name) for t in initializers)
    _write_default_attributes(skeleton)
    try:
        kept_apart = [(f.domain, f.name) for f in skeleton.functions if _is_operator(f, skeleton)]
        flat = inliner.inline_selected_functions(skeleton, kept_apart, exclude=True)
    except Exception as e:
        raise ModelError(f"its local functions cannot be inlined: {first_line(e)}") from e
    kept = onnx.ModelProto()
    kept.CopyFrom(header)
    del kept.functions[:], kept.opset_import[:]
    kept.functions.extend(flat.functions)
    kept.opset_import.extend(flat.opset_import)
    return kept, iter(flat.graph.node)


def _is_operator(function: onnx.FunctionProto, model: onnx.ModelProto) -> bool:
    """Whether ONNX defines an operator of that name, for which onnxruntime runs its own kernel, not the function."""
    domain = op_schemas.canonical_domain(function.domain)
    return op_schemas.schema(function.name, domain, opset_versions(model).get(domain, 0)) is not None


def _write_default_attributes(model: onnx.ModelProto) -> None:
    """Write the default attributes of each call, which the inliner would lose."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions if f.attribute_proto}
    if not functions:
        return
    for node in all_nodes((*model.graph.node, *(node for f in model.functions for node in f.node))):
        given = {a.name for a in node.attribute}
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            node.attribute.extend(a for a in called.attribute_proto if a.name not in given)
