"""Statistics of model files, whatever tool made them."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

import onnx
from msgspec import Struct

from ...core.errors import ModelError
from ...core.io.files import load_without_weights
from ...core.io.function_inlining import with_inlined_functions
from ...core.ir import op_schemas
from ...core.ir.op_schemas import canonical_domain, qualified_op_type
from ...core.ort.backends import backend_message
from ...core.processes.onnx_calls import OnnxError, check_file
from ...core.serialization.proto_queries import (
    all_nodes,
    is_constant_node,
    local_functions,
    subgraphs,
    undefined_operators,
    used_operators,
)

SCALAR_ATTRIBUTES = frozenset({"value_float", "value_int", "value_string"})  # of Constant


class ModelStats(Struct, frozen=True):
    """Statistics of a file.

    Attributes:
        ops: the number of ops by type (domain.type for other domains), as in the report of a run: including bodies and
            inlined functions, without Constant ops.
        parameters: the number of elements of weights.
        bytes: the size on disk, including files of weights.
        nonstandard_operators: operators that ONNX does not define.
        checker_error: the error of onnx.checker in one line, or "".
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
    """Count the ops of a model file, without reading the files of weights. Raises ModelError for an unreadable file."""
    model = load_without_weights(path)
    nodes = [*all_nodes([*model.graph.node, *(n for f in model.functions for n in f.node)])]
    graphs = [model.graph, *(body for n in nodes for body in subgraphs(n))]
    constants = [a for n in nodes if is_constant_node(n) for a in n.attribute]
    tensors = [t for g in graphs for t in (*g.initializer, *(s.values for s in g.sparse_initializer))]
    tensors += [a.t for a in constants if a.HasField("t")]
    tensors += [a.sparse_tensor.values for a in constants if a.HasField("sparse_tensor")]
    external = (t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL)
    files = {path, *(path.parent / e.value for t in external for e in t.external_data if e.key == "location")}
    size = sum(f.stat().st_size for f in files if f.is_file())
    parameters = sum(prod(t.dims) for t in tensors)
    parameters += sum(len(a.floats) + len(a.ints) + len(a.strings) + (a.name in SCALAR_ATTRIBUTES) for a in constants)
    flat = inlined(model)
    counted = (n for n in all_nodes(flat.graph.node) if not is_constant_node(n))
    ops = dict(sorted(Counter(qualified_op_type(canonical_domain(n.domain), n.op_type) for n in counted).items()))
    return ModelStats(ops, parameters, size, _nonstandard_operators(flat), _checker_error(path))


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline local functions as in a run; if that fails, return the model unchanged, so that calls count as ops."""
    try:
        return with_inlined_functions(model) if model.functions else model
    except ModelError:
        return model


def _nonstandard_operators(model: onnx.ModelProto) -> tuple[str, ...]:
    """Operators that ONNX does not define in the opset that the model imports."""
    called = local_functions(model)
    elsewhere = (
        key for key in used_operators(model.graph) if key not in called and not op_schemas.latest_opset_version(key[0])
    )
    return tuple(sorted(qualified_op_type(*key) for key in (*elsewhere, *undefined_operators(model))))


def _checker_error(path: Path) -> str:
    """The error of onnx.checker for a file, or ""."""
    try:
        check_file(path)
    except OnnxError as e:
        return backend_message(e)
    return ""
