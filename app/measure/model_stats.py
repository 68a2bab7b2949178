"""Statistics of model files from any source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner

from ...core.errors import ModelError
from ...core.ir import op_schemas
from ...core.ir.op_schemas import canonical_domain
from ...core.ort.backends import backend_message
from ...core.serialization.proto_queries import (
    all_nodes,
    local_functions,
    subgraphs,
    undefined_operators,
    used_operators,
)


@dataclass(frozen=True, slots=True)
class ModelStats:
    """Statistics of a file.

    `ops` by type (domain::type outside the standard one): those on which outputs depend, bodies and inlined functions
    included, Constant ops not. `parameters`: elements of weights. `bytes` on disk, files of weights included.
    `nonstandard_operators`: operators that ONNX does not define. `checker_error`: the objection of onnx.checker, in a
    line, "" if there is none.
    """

    ops: dict[str, int]
    parameters: int
    bytes: int
    nonstandard_operators: tuple[str, ...] = ()
    checker_error: str = ""

    @property
    def nodes(self) -> int:
        """The number of ops."""
        return sum(self.ops.values())

    @property
    def is_portable(self) -> bool:
        """Whether all operators are standard, so that any runtime can run them."""
        return not self.nonstandard_operators


def compute_model_stats(path: Path) -> ModelStats:
    """Count the model in a file, without reading the files of weights. Raises ModelError for one that is unreadable."""
    library: Any = onnx  # its argument has no types
    try:
        model: onnx.ModelProto = library.load(path, load_external_data=False)
    except (DecodeError, OSError) as e:
        raise ModelError(f"{path} is not an ONNX model that can be read") from e
    if not model.HasField("graph"):
        raise ModelError(f"{path}: it has no graph")
    tensors = list(_weight_tensors((model.graph, *model.functions)))
    files = {path, *(path.parent / f for t in tensors if (f := _external_file(t)))}
    size = sum(f.stat().st_size for f in files if f.is_file())
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    parameters = sum(prod(t.dims) for t in tensors) + sum(
        _attribute_element_count(n) for n in all_nodes(nodes) if _is_constant(n)
    )
    for tensor in tensors:
        tensor.ClearField("raw_data")
    flat = _inlined(model)
    ops = dict(sorted(live_op_counts(flat).items()))
    return ModelStats(ops, parameters, size, _nonstandard_operators(flat), _checker_error(path))


def live_op_counts(model: onnx.ModelProto) -> Counter[str]:
    """Ops by type on which the outputs depend: local functions inlined, bodies included, Constant ops left out."""
    if model.functions:
        bare = onnx.ModelProto()
        bare.CopyFrom(model)
        model = _inlined(bare)
    return _count_live(model.graph)


def _count_live(graph: onnx.GraphProto) -> Counter[str]:
    makers = {name: node for node in graph.node for name in node.output if name}
    wanted, seen, ops = [o.name for o in graph.output], set[int](), Counter[str]()
    while wanted:
        node = makers.get(wanted.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if not _is_constant(node):
            ops[_qualified_type(canonical_domain(node.domain), node.op_type)] += 1
        wanted += _names_read(node)
        for body in subgraphs(node):
            ops += _count_live(body)
    return ops


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """All names that a node and its bodies read."""
    yield from node.input
    for body in subgraphs(node):
        yield from (o.name for o in body.output)
        yield from (name for inner in body.node for name in _names_read(inner))


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with local functions inlined; unchanged if that fails, as for functions that call themselves."""
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(model)
    except Exception:  # noqa: BLE001 - errors of onnx from C++ have no common type; calls then count as ops
        return model


def _weight_tensors(holders: Iterable[onnx.GraphProto | onnx.FunctionProto]) -> Iterator[onnx.TensorProto]:
    """Initializers and the tensors of Constant ops, in bodies too; of sparse ones the stored elements."""
    for holder in holders:
        if isinstance(holder, onnx.GraphProto):
            yield from holder.initializer
            yield from (t.values for t in holder.sparse_initializer)
        for node in holder.node:
            if _is_constant(node):
                yield from (a.t for a in node.attribute if a.HasField("t"))
                yield from (a.sparse_tensor.values for a in node.attribute if a.HasField("sparse_tensor"))
            yield from _weight_tensors(subgraphs(node))


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and not canonical_domain(node.domain)


def _attribute_element_count(constant: onnx.NodeProto) -> int:
    """The number of elements of a Constant op that are in no tensor."""
    numbers: Any = (
        len(a.floats) + len(a.ints) + len(a.strings) + (a.name in {"value_float", "value_int", "value_string"})
        for a in constant.attribute
    )
    return sum(numbers)


def _external_file(tensor: onnx.TensorProto) -> str:
    """The file of a tensor's elements, "" if they are in the model."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return ""
    return next((e.value for e in tensor.external_data if e.key == "location"), "")


def _nonstandard_operators(model: onnx.ModelProto) -> tuple[str, ...]:
    """Operators that ONNX does not define, or not in the opset that the model imports."""
    called = local_functions(model)
    elsewhere = (
        key for key in used_operators(model.graph) if key not in called and not op_schemas.latest_opset_version(key[0])
    )
    return tuple(sorted(_qualified_type(*key) for key in (*elsewhere, *undefined_operators(model))))


def _qualified_type(domain: str, kind: str) -> str:
    return f"{domain}::{kind}" if domain else kind


def _checker_error(path: Path) -> str:
    """The objection of onnx.checker to a file, "" if there is none."""
    checker: Any = onnx.checker  # its argument has no types
    try:
        checker.check_model(str(path))
    except Exception as e:  # noqa: BLE001 - errors of onnx from C++ have no common type
        return backend_message(e)
    return ""
