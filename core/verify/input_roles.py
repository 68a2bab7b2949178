"""Roles of inputs by their uses: free numbers, indices, extents, truth values, masks, divisors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx

from ..ir.dims import Dim
from ..ir.dtypes import INTEGER_DTYPES
from ..ir.expressions import is_symbolic_only
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.table import data_inputs, ops_with, ops_with_role, roles
from .decision_boundaries import evenly_spread, vocabulary
from .transitive_uses import MAX_FOLLOWED_VALUES, Use, transitive_uses
from .word_generation import words_of_operator

# Sums and differences of indices, extents and axes count as indices, extents and axes.
OFFSET_INPUTS: dict[str, tuple[int, ...]] = {"Add": (0, 1), "Sub": (0,)}
# Where one input serves several purposes, the first of these wins.
ROLE_PRIORITY = (
    "factors", "parts", "unit axes", "new axes", "axes", "index", "count", "stretch", "scales", "share", "divisor",
    "step", "trips", "extent", "pads", "position", "limit", "start", "end", "shift", "mask", "truth", "free",
)  # fmt: skip
MAX_WORDS = 8  # of a constant that strings are compared with
NUMERIC_WORDS = ["0", "1", "-2", "7", "12", "100"]  # of strings that become numbers, whole or not
MAX_VOCABULARY_WORDS = 256  # of one operator
MASKING_NUMBER = -1e3  # at least as low are the numbers that mask scores
NEGATIVE_INDEX_OPSET = 11  # the opset in which indices from the end became part of the specification
NONNEGATIVE_INDEX_OPS = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "RotaryEmbedding"})


@dataclass(frozen=True, slots=True)
class InputRole:
    """The role of an input.

    `bound` limits an index, a count or axes; `dims` is the shape to which factors, split sizes and target shapes refer;
    `signed` numbers may count from the end; `words` are the strings with which it is compared.
    """

    kind: str = "free"
    bound: Dim = None
    dims: tuple[Dim, ...] | None = None
    signed: bool = False
    words: tuple[str, ...] = ()


def input_role(value: Value, most: int = MAX_FOLLOWED_VALUES) -> InputRole:
    """The narrowest role among all transitive uses of `value`."""
    words: list[str] = []
    found = InputRole()
    for reading, _ in transitive_uses(value, True, _propagate, most):
        words += _compared_words(reading.op)
        if not reading.op.domain and (seen := _operand_role(reading)) is not None:
            found = _narrower(found, seen)
    return replace(found, words=tuple(dict.fromkeys(words)))


def _propagate(op: Op, index: int, state: bool) -> bool | None:
    carries = index in data_inputs(op.type) or index in OFFSET_INPUTS.get(op.type, ())
    return state if carries and not op.domain else None


def _operand_role(use: Use) -> InputRole | None:
    """The role of `use`; None if any number is valid."""
    op, index = use.op, use.index
    if op.type == "Cast" and op.attr("to") == onnx.TensorProto.BOOL:
        return InputRole("truth")
    if index == 1 and _masks_by_complement(op):
        return InputRole("mask")
    kind = roles(op.type).get(index)
    if op.type == "Resize" and op.version < 11:
        kind = "scales" if index == 1 else None
    if kind is None or (kind == "divisor" and use.value.known_dtype not in INTEGER_DTYPES):
        return None
    shape, allows_negative = stable_input_shape(op, 0), op.version >= NEGATIVE_INDEX_OPSET
    if kind == "index":
        return InputRole(kind, _index_bound(op, shape), signed=allows_negative and op.type not in NONNEGATIVE_INDEX_OPS)
    if kind == "count":
        return InputRole(kind, _count_bound(op, shape))
    if kind in {"axes", "unit axes", "new axes"}:
        return InputRole(kind, len(shape) if shape is not None else None, shape, signed=allows_negative)
    if kind == "parts":
        dim = dim_at(shape, int(op.attr("axis", 0)))
        return InputRole(kind, dim, None if dim is None else (dim,))
    if kind in {"start", "limit", "end", "step"}:
        return _role_in_range(op, kind)
    return InputRole(kind, dims=shape if kind in {"factors", "stretch"} else None)


def _role_in_range(op: Op, kind: str) -> InputRole:
    """The role of an input of a Slice or Range: a Slice may always count from the end, a Range if its step is unknown.

    A Range with a negative step starts at its upper end.
    """
    step = op.input(2)
    if op.type == "Range" and (_constant_number(step) or 0) < 0:
        kind = {"start": "limit", "limit": "start"}[kind]
    return InputRole(kind, signed=op.type == "Slice" or (step is not None and not step.is_const))


def _masks_by_complement(op: Op) -> bool:
    """Whether `op` is the 1 - x of a mask (1 - x) * c, where c is so low that a Softmax ignores it."""
    if op.type != "Sub" or _constant_number(op.input(0)) != 1:
        return False
    factors = (v for reader in op.outputs[0].consumers if reader.type == "Mul" for v in reader.inputs)
    return any((number := _constant_number(v)) is not None and number <= MASKING_NUMBER for v in factors)


def _constant_number(value: Value | None) -> float | None:
    """The number that a constant of one element holds."""
    tensor = value.tensor if value is not None else None
    return float(tensor.array.item()) if tensor is not None and tensor.size == 1 else None


def stable_input_shape(op: Op, index: int) -> tuple[Dim, ...] | None:
    """The shape of an input with its numbers and symbols; other dims are None."""
    value = op.input(index)
    shape = value.known_shape if value is not None else None
    return None if shape is None else tuple(d if d is not None and is_symbolic_only(d) else None for d in shape)


def dim_at(shape: tuple[Dim, ...] | None, axis: int) -> Dim:
    """The dim at an axis; None if it is unknown, or the shape has no such axis."""
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def _index_bound(op: Op, shape: tuple[Dim, ...] | None) -> Dim:
    """The extent to which an index input of `op` refers."""
    if op.type == "OneHot":
        depth = op.input(1)
        is_known = depth is not None and depth.is_const and depth.const.size == 1 and np.isfinite(depth.const).all()
        return int(depth.const.item()) if depth is not None and is_known else None
    if op.type == "RotaryEmbedding":
        return dim_at(stable_input_shape(op, 1), 0)
    if op.type.endswith("Loss"):
        return dim_at(shape, 1)
    if op.type in {"GatherND", "ScatterND"}:
        known = [d for d in shape or () if isinstance(d, int)]
        return min(known) if shape and len(known) == len(shape) else None
    return dim_at(shape, int(op.attr("axis", 0)))


def _count_bound(op: Op, shape: tuple[Dim, ...] | None) -> Dim:
    """The extent that limits a k or a sequence length."""
    if op.type == "TopK":
        return dim_at(shape, int(op.attr("axis", -1)))
    if op.type == "ReverseSequence":
        return dim_at(shape, int(op.attr("time_axis", 0)))
    return dim_at(shape, 1 if op.attr("layout", 0) else 0)


def _narrower(a: InputRole, b: InputRole) -> InputRole:
    if a.kind == b.kind and a.kind in {"index", "count", "axes"}:
        bounds = [x for x in (a.bound, b.bound) if isinstance(x, int)]
        least = min(bounds) if len(bounds) == 2 else a.bound if isinstance(b.bound, int) else b.bound
        return InputRole(a.kind, least, a.dims, a.signed and b.signed and a.bound == b.bound)
    return b if ROLE_PRIORITY.index(b.kind) < ROLE_PRIORITY.index(a.kind) else a


def _compared_words(op: Op) -> list[str]:
    """Strings that an op tells apart: those of its vocabulary, of an Equal, or others that its attributes describe."""
    constants = [v.tensor for v in op.inputs if v is not None and v.tensor is not None] if op.type == "Equal" else []
    strings = [t.array.reshape(-1)[:MAX_WORDS] for t in constants if t.dtype == onnx.TensorProto.STRING]
    compared = [str(s) for array in strings for s in array]
    known = [x for x in vocabulary(op) if isinstance(x, str)]
    if op.type == "Cast" and op.attr("to") != onnx.TensorProto.STRING and _is_of_strings(op):
        return NUMERIC_WORDS
    return [*compared, *evenly_spread(known, MAX_VOCABULARY_WORDS), *words_of_operator(op.type, op.attrs)]


def _is_of_strings(op: Op) -> bool:
    value = op.input(0)
    return value is not None and value.known_dtype == onnx.TensorProto.STRING


SIZE_ROLES = frozenset({"extent", "pads", "scales", "stretch", "trips"})
# Besides inputs with one of these roles: a condition, the ends of a range, a region, and frequencies.
OTHER_CONTROL_INPUTS = {"Loop": (1,), "Range": (0, 1, 2), "Resize": (1,), "MelWeightMatrix": (2, 3, 4)}
SAME_DTYPE_OPS = ops_with(Trait.SAME_DTYPE)
DIVISIONS = ops_with_role("divisor")
MAX_LOOKBACK = 100  # ops
SHAPE_ONLY_OPS = ops_with(Trait.READS_SHAPE)


def control_values(graph: Graph, *, divisions: bool = True) -> frozenset[Value]:
    """The values that control a run, and those from which they are computed. O(V + E).

    Extreme numbers are harmful there: a Loop does not end, a tensor fills the memory, or the least integer is divided
    by -1, which crashes the process; without `divisions`, the operands of these are left out.
    """
    queue = [v for g in graph.with_subgraphs() for op in g.ops() for v in _control_inputs(op, divisions=divisions)]
    found = dict.fromkeys(queue)
    read = set[Op]()
    while queue:
        for v in _upstream_values(queue.pop(), read):
            if v not in found:
                found[v] = None
                queue.append(v)
    return frozenset(found)


def _control_inputs(op: Op, *, divisions: bool) -> Iterator[Value]:
    if op.domain:
        return
    indices = [i for i, role in roles(op.type).items() if role in SIZE_ROLES]
    chosen = [op.input(i) for i in (*indices, *OTHER_CONTROL_INPUTS.get(op.type, ()))]
    if divisions and op.type in DIVISIONS and _operand_dtype(op) in INTEGER_DTYPES:
        chosen += op.inputs
    if op.type == "Loop":
        chosen += [body.outputs[0] for body in op.subgraphs if body.outputs]
    yield from (v for v in chosen if v is not None)


def _operand_dtype(op: Op) -> int:
    """The type of the operands, from recorded types upstream if possible, otherwise inferred."""
    value = op.input(0)
    for _ in range(MAX_LOOKBACK):
        producer = value.producer if value is not None and not value.recorded_type[0] else None
        if producer is None or producer.domain or producer.type not in SAME_DTYPE_OPS:
            break
        value = producer.input(0)
    return value.known_dtype if value is not None else 0


def _upstream_values(value: Value, visited: set[Op]) -> Iterator[Value]:
    """The values from which `value` is computed, without inputs of ops in `visited`.

    Inside a subgraph these include all inputs of its owner. Each op is added to `visited` and examined once, since the
    captures of an owner take a walk over its subgraphs.
    """
    op = value.producer
    while op is not None and op not in visited and op.type not in SHAPE_ONLY_OPS:
        visited.add(op)
        yield from (v for v in op.inputs if v is not None)
        yield from op.captures
        yield from (v for sub in op.subgraphs for v in sub.outputs)
        op = op.graph.owner
