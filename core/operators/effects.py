"""Effects of ops other than computing outputs from inputs: randomness, in-place updates, opaque operators."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..ir.dtypes import FLOAT16_DTYPES
from ..ir.graph import Graph
from ..ir.op import Op, is_known
from ..ir.op_schemas import ONNX_DOMAIN, schema
from .declaration import Trait
from .table import OPERATORS


@cache
def is_nondeterministic(op_type: str, domain: str, version: int) -> bool:
    """Whether the same inputs may result in different outputs, ignoring subgraphs and training forms.

    An operator that ONNX defines only at other opsets also counts, because onnx.reference still runs it.
    """
    if domain == ONNX_DOMAIN and (known := OPERATORS.get(op_type)) is not None:
        return Trait.RANDOM in known.traits
    stated: Any = getattr(schema(op_type, domain, version), "node_determinism", None)  # as of onnx 1.20
    return getattr(stated, "name", "") == "NonDeterministic"


def is_pure(op: Op) -> bool:
    """Whether the same inputs always result in the same outputs, without side effects.

    Examples:
        >>> all(map(is_pure, graph.ops()))
        True
    """
    if not is_known(op) or _is_random_op(op) or writes_inputs(op):
        return False
    return all(is_pure(inner) for sub in op.subgraphs for inner in sub.ops())


def is_random(op: Op) -> bool:
    """Whether two runs with the same inputs may differ. Opaque ops count as deterministic."""
    return _is_random_op(op) or any(is_random(inner) for sub in op.subgraphs for inner in sub.ops())


def _is_random_op(op: Op) -> bool:
    """Whether the op itself, excluding its subgraphs, generates random numbers."""
    return is_nondeterministic(op.type, op.domain, op.version) or is_training_dropout(op)


def writes_inputs(op: Op) -> bool:
    """Whether an op may update its inputs in place.

    BatchNormalization in training form does so by definition before opset 14, and still does so in onnxruntime.
    """
    return op.type == "BatchNormalization" and not op.domain and any(v.name for v in op.outputs[1:])


def is_stateful(graph: Graph) -> bool:
    """Whether a run may change the state of the next run, because an op in the graph updates its inputs in place."""
    return any(writes_inputs(op) for g in graph.with_subgraphs() for op in g.ops("BatchNormalization"))


def uses_16_bit_floats(graph: Graph) -> bool:
    """Whether anything is computed in 16-bit floats.

    onnxruntime's CPU provider computes many of these ops in 32 bits and omits some intermediate roundings, depending on
    the neighbouring ops: such results are not reproducible to the last bit.
    """
    graphs = list(graph.with_subgraphs())
    dtypes = (v.recorded_type[0] for g in graphs for v in (*g.inputs, *g.initializers))
    casts = (op.attr("to") for g in graphs for op in g.ops("Cast"))
    return any(dtype in FLOAT16_DTYPES for dtype in (*dtypes, *casts))


def is_training_dropout(op: Op) -> bool:
    """Whether a Dropout may be in training form (operator Dropout, versions 1, 6 and 12)."""
    if op.type != "Dropout" or op.domain != ONNX_DOMAIN:
        return False
    if op.version < 7:
        return op.attr("is_test", 0) == 0
    mode = op.input(2)
    return mode is not None and not (mode.tensor is not None and not mode.const.any())
