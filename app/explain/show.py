"""Models and regions of them, in the syntax that onnx.parser reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import onnx

from ...core.errors import ModelError, format_error
from ...core.io.model import Model, serialize
from ...core.io.model_source import ModelLike, model_source
from ...core.io.split_models import refer_to_file
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.tensor import Chunk, MappedFile, Tensor
from ...core.serialization.onnx_text import model_text, short_chunks
from ...core.support.gc_pause import gc_paused
from ...core.support.suggestions import did_you_mean
from ..optimize.repro import declared_type, external_inputs, external_outputs, extract_model, neighbourhood
from .show_options import DEFAULT_RADIUS


def show(
    model: ModelLike,
    *,
    region: str = "",
    radius: int = DEFAULT_RADIUS,
    types: bool = False,
    max_elements: int | None = None,
) -> str:
    """Format a model as text that `onnx.parser.parse_model` reads.

    `region` limits the text to the ops around a value or node, at most `radius` ops away in either direction. `types`
    adds all known types of values. Tensors of more than `max_elements` elements become references to external data,
    marked as such; external data of the model become references to its files. Raises ModelError for an unusable model
    or an unknown region.

    Examples:
        >>> print(show("model.onnx", region="r", radius=0, types=True))
        <
           ir_version: 10,
           opset_import: ["" : 17]
        >
        g (float[N,4] a) => (float[N,4] r) {
           r = Relu (a)
        }
    """
    with gc_paused():
        origin = model_source(model, inline=False)
        whole, source = origin.load(), next(iter(origin.files), None)
        if types:
            whole.graph.context.value_info = "write"
        proto = (
            _region(whole, region, radius)
            if region
            else serialize(whole, partial(_tensor_chunks, source=source, max_elements=max_elements)).to_proto()
        )
        try:
            return model_text(proto, max_elements)
        except (ValueError, TypeError) as e:
            raise ModelError(f"{source or 'the model'} has a damaged tensor: {format_error(e)}") from e


def _tensor_chunks(tensor: Tensor, name: str, source: Path | None, max_elements: int | None) -> Iterator[Chunk]:
    """Yield a tensor, without elements that are in another file than `source` or number more than `max_elements`."""
    size = tensor.size if max_elements is None else max_elements
    mapped = tensor.mapped
    if tensor.size > size or mapped is None or not isinstance(mapped.file, MappedFile) or mapped.file.path == source:
        yield from short_chunks(tensor, name, size)
        return
    proto = tensor.proto_without_elements(name)
    refer_to_file(proto, mapped.file.path.name, mapped.begin, mapped.end - mapped.begin)
    yield proto.SerializeToString(deterministic=True)


def _region(model: Model, name: str, radius: int) -> onnx.ModelProto:
    """The ops around a value or node with that name, as a model."""
    start = _ops_at(model.graph, name)
    if not start:
        known = [n for g in model.graph.with_subgraphs() for n in (*_value_names(g), *(op.name for op in g.ops()))]
        raise ModelError(f"no value and no node is named {name}{did_you_mean(name, known)}")
    ops = list(dict.fromkeys(op for root in start for op in neighbourhood(root, radius)))
    inputs = {v.name: declared_type(v) for v in external_inputs(ops) if not v.is_const}
    outputs = [v.name for v in external_outputs(start[0].graph, ops)]
    types = {v.name: declared_type(v) for op in ops for v in op.outputs}
    proto = extract_model(model, ops, inputs, outputs)
    for info in proto.graph.output:
        info.type.CopyFrom(types[info.name])
    if model.graph.context.value_info == "write":
        inner = (n for n in types if n and n not in outputs)
        proto.graph.value_info.extend(onnx.ValueInfoProto(name=n, type=types[n]) for n in inner)
    return proto


def _ops_at(graph: Graph, name: str) -> list[Op]:
    """The ops of one graph that have a name or produce the value with that name, or else those that read it."""
    for g in graph.with_subgraphs():
        if made := [op for op in g.ops() if name in (op.name, *(v.name for v in op.outputs))]:
            return made
    for g in graph.with_subgraphs():
        if used := [op for op in g.ops() if any(v is not None and v.name == name for v in op.inputs)]:
            return used
    return []


def _value_names(graph: Graph) -> Iterator[str]:
    yield from (v.name for v in (*graph.inputs, *graph.initializers))
    yield from (v.name for op in graph.ops() for v in op.outputs)
