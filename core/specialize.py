"""Fixing the sizes of a model's inputs: symbols and shapes become numbers wherever they are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from .errors import ModelError
from .io.importer import shape_of
from .io.model import Model
from .ir.graph import Graph
from .ir.values import Value
from .verify.given import bind, require_known, require_size


def specialize(model: Model, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> None:
    """Give inputs the `shapes` (by name), and symbols the sizes `dims`; what else has those symbols follows.

    Raises ModelError for a name that the model does not have, or for sizes that contradict it or each other.
    """
    graph = model.graph
    sizes = dict(dims)
    known = {v.name: v for v in graph.inputs}
    for name, shape in shapes.items():
        require_known(name, known)
        declared = known[name].stated[1]
        if declared is not None:
            bind(name, declared, shape, sizes)
        for size in shape:
            require_size(f"--shape {name}", size)
    symbols = set(_symbols(graph))
    for symbol, size in dims.items():
        if symbol not in symbols:
            has = f"it has {', '.join(sorted(symbols))}" if symbols else "it has none"
            raise ModelError(f"--dim {symbol}: the model has no such symbol ({has})")
        require_size(f"--dim {symbol}", size)
    _declare(graph, shapes, sizes)
    for sub in graph.with_subgraphs():
        if sub is not graph:
            _declare(sub, {}, sizes)
    graph.shared.facts += 1
    graph.changed()


def _symbols(graph: Graph) -> list[str]:
    """The symbols in the shapes of the inputs."""
    return [d for v in graph.inputs for d in v.stated[1] or () if isinstance(d, str)]


def _declare(graph: Graph, shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int]) -> None:
    """Write the numbers into what the file says of inputs, outputs and values in between."""
    declared = graph.declared
    declared.inputs[:] = [(v, _fixed(v, info, shapes.get(v.name), sizes)) for v, info in declared.inputs]
    outputs = zip(graph.outputs, declared.outputs, strict=True)
    declared.outputs[:] = [_fixed(v, info, None, sizes) for v, info in outputs]
    declared.values[:] = [(v, _fixed(v, info, None, sizes)) for v, info in declared.values]


def _fixed(value: Value | None, info: bytes, shape: Sequence[int] | None, sizes: Mapping[str, int]) -> bytes:
    proto = onnx.ValueInfoProto.FromString(info)
    if not proto.type.HasField("tensor_type"):
        return info
    tensor = proto.type.tensor_type
    if shape is not None:
        del tensor.shape.dim[:]
        tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=n) for n in shape)
    for d in tensor.shape.dim:
        if d.dim_param in sizes:
            d.dim_value = sizes[d.dim_param]
    if value is not None:
        value.learn(tensor.elem_type, shape_of(tensor))
    return proto.SerializeToString(deterministic=True)
