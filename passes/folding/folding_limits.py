"""Limits of constant folding: bounds on the sizes of results and on the work of an op, before it is computed.

All of them are counted, not timed, so that a run can be replayed. The process that computes has limits of time and
memory besides, for ops that do more than their shapes say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, prod

import numpy as np
from onnx import TensorProto

from ...core import Graph, Op, Value, require
from ...core.ir.expressions import as_integers
from ...core.ir.tensor import STRING, element_bits
from ...core.operators.declaration import Trait
from ...core.operators.table import OPERATORS, ops_with
from ...core.ort.evaluation_worker import EvaluationLimits
from ...core.processes.process_limits import MODEL_MEMORY, SMALL_MODEL
from ..support.operand_queries import known_scalar

MAX_TRIP_COUNT = 1000  # of a Loop
MAX_TRANSIENT_BYTES = 64 << 20  # bytes; no op may compute more than this or its own inputs on the way to a small result
MAX_LIVE_BYTES = 512 << 20  # bytes of results that exist at a time, besides as many as the weights of the model have
BASE_MEMORY = 2 << 30  # bytes of the process that computes, besides twice the bytes of such results
BATCH_SECONDS = 20.0  # for up to 2,000 ops in a session, besides the time of multiplications:
MULTIPLICATIONS_PER_SECOND = 2 * 10**9  # of a slow kernel, or of a fast one on a busy machine
MAX_BYTES = 16 << 30  # bytes that the ops of a run read and write, besides so many for each byte of the weights:
BYTES_PER_WEIGHT_BYTE = 32
MAX_MULTIPLICATIONS = 10**11  # of a run, besides so many for each byte of the weights:
MULTIPLICATIONS_PER_WEIGHT_BYTE = 25  # so an update of rank 64, as wide as each matrix, is folded
OP_BYTES = 4096  # the time of an op on few numbers, in bytes that an op reads and writes in that time
LINEAR = frozenset[str]().union(
    *map(
        ops_with,
        (
            Trait.ELEMENTWISE, Trait.BROADCASTING, Trait.MOVES_DATA, Trait.REDUCTION, Trait.NORMALIZATION,
            Trait.READS_SHAPE, Trait.QUERIES, Trait.LINEAR_TIME,
        ),
    )
)  # fmt: skip
"""Operators that do a few operations, or log(n), for each of n elements that they read or write."""
MAX_TAPS = 64  # elements of which an interpolated one is the mean, without those for antialiasing


@dataclass(slots=True)
class Work:
    """The bytes that ops read and write, and the multiplications that they do."""

    bytes: int = 0
    multiplications: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.multiplications + other.multiplications)

    def times(self, count: int) -> Work:
        """The work of doing it so many times."""
        return Work(self.bytes * count, self.multiplications * count)

    def fits(self, weight_bytes: int) -> bool:
        """Whether a run may do it on a model with so many bytes of weights."""
        return (
            self.bytes <= MAX_BYTES + BYTES_PER_WEIGHT_BYTE * weight_bytes
            and self.multiplications <= MAX_MULTIPLICATIONS + MULTIPLICATIONS_PER_WEIGHT_BYTE * weight_bytes
        )


def spend(graph: Graph, work: Work) -> None:
    """Count work of a run. Raises MatchFailure where the run has done too much already."""
    context = graph.context
    spent = Work(*context.folding_work) + work
    require(spent.fits(context.weight_bytes), "it takes too long to compute")
    context.folding_work = spent.bytes, spent.multiplications


def evaluation_limits(work: Work, weight_bytes: int) -> EvaluationLimits:
    """The limits of the process that does some work, of a model with so many bytes of weights."""
    seconds = BATCH_SECONDS + work.multiplications / MULTIPLICATIONS_PER_SECOND
    large = BASE_MEMORY + 2 * (MAX_LIVE_BYTES + weight_bytes)
    return EvaluationLimits(MODEL_MEMORY if weight_bytes <= SMALL_MODEL else large, seconds)


def work_of(op: Op, moved: int) -> Work | None:
    """The most work that an op does that reads and writes `moved` bytes; None if it is unknown."""
    found = Work(moved + OP_BYTES, _multiplications(op))
    trips = _trip_bound(op) if op.subgraphs else 0
    if trips is None:
        return None
    for inner in (inner for sub in op.subgraphs for inner in sub.ops()):
        sizes = [_elements(v) for v in (*inner.inputs, *inner.outputs) if v is not None]
        part = work_of(inner, 8 * sum(n or 0 for n in sizes))
        if part is None or (None in sizes and inner.type not in LINEAR and not inner.subgraphs):
            return None
        found += part.times(trips)
    return found


def _trip_bound(op: Op) -> int | None:
    """How often the bodies of an op run at most; None if that is unknown."""
    if op.type == "Loop":
        trips = known_scalar(op.input(0))
        return None if trips is None else max(int(trips), 0)
    if op.type == "Scan":
        shapes = [v.known_shape for v in op.inputs if v is not None]
        extents = [d for shape in shapes if shape is not None for d in shape if isinstance(d, int)]
        return max(extents, default=None)
    return 1 if op.type == "If" else None


def _multiplications(op: Op) -> int:
    """The largest number of multiplications of an op without its bodies, by the shapes of its operands."""
    if op.subgraphs or (not op.domain and op.type in LINEAR):
        return 0
    read = sum(n for v in op.inputs if v is not None and (n := _elements(v)) is not None)
    made = sum(_elements(v) or 0 for v in op.outputs)
    count = MULTIPLICATIONS.get(op.type) if not op.domain else None
    found = None if count is None else count(op, read, made)
    return read * max(made, 1) if found is None else found  # each element of the result may depend on all elements


def _of_product(op: Op, _: int, made: int) -> int | None:
    x = _shape(op.input(0))
    return made * (max(x) if op.type == "Gemm" else x[-1]) if x else None


def _of_convolution(op: Op, _: int, made: int) -> int | None:
    weight = _shape(op.input(3 if op.type.startswith("QLinear") else 1))
    filtered = prod(_shape(op.input(0))) if op.type == "ConvTranspose" else made
    return filtered * prod(weight[1:]) if weight else None


def _of_einsum(op: Op, _read: int, _made: int) -> int:
    """The product of the extents of all letters, since the operands are multiplied in their order."""
    extents: dict[str, int] = {}
    terms = str(op.attr("equation")).replace(" ", "").partition("->")[0].split(",")
    for v, term in zip(op.inputs, terms, strict=False):
        shape = _shape(v)
        letters, sizes = (term, shape) if len(term) == len(shape) and "." not in term else ([term], (prod(shape),))
        for letter, size in zip(letters, sizes, strict=True):
            extents[letter] = max(extents.get(letter, 1), size)
    return prod(extents.values())


MULTIPLICATIONS: Mapping[str, Callable[[Op, int, int], int | None]] = {
    **dict.fromkeys(("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"), _of_product),
    **dict.fromkeys(ops_with(Trait.CONVOLUTION), _of_convolution),
    **dict.fromkeys(
        ("AveragePool", "LpPool", "MaxPool"),
        lambda op, _, made: made * prod(int(n) for n in op.attr("kernel_shape") or (1,)),
    ),
    **dict.fromkeys(("Resize", "Upsample"), lambda op, _, made: None if op.attr("antialias", 0) else made * MAX_TAPS),
    "Det": lambda op, read, _: read * max(_shape(op.input(0)), default=1),
    "Einsum": _of_einsum,
    "RegexFullMatch": lambda op, read, _: read * len(str(op.attr("pattern"))),
    "TfIdfVectorizer": lambda op, read, _: (
        read * (1 + int(op.attr("max_skip_count") or 0)) * int(op.attr("max_gram_length") or 1) ** 2
    ),
}
"""Bounds on the multiplications of ops by operator, given the elements that they read and make; None if unknown."""


def _shape(value: Value | None) -> tuple[int, ...]:
    shape = None if value is None else value.known_shape
    return as_integers(shape) or () if shape is not None else ()


def _elements(value: Value) -> int | None:
    """The number of elements of a dense tensor, of its text if it holds strings; None if it is unknown."""
    if value.tensor is not None:
        return value.tensor.nbytes if value.tensor.dtype == STRING else value.tensor.size
    shape = value.known_shape if value.type is None else None
    extents = None if shape is None else as_integers(shape)
    return None if extents is None else prod(extents)


SEQUENCE_OPS = ("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence")
OUT_OF_SEQUENCE_OPS = ("ConcatFromSequence", "SequenceAt")
# Operators that give at most one element for each of their input, and so many bits more for each.
ADDED_BITS = {"NonZero": 8 * 8, "Unique": 8, "Compress": 0}  # NonZero has an int64 for each of 8 axes at most
STRING_BYTES = 64  # of a string besides its text
NUMBER_LENGTH = 64  # characters of a number, at most
KEEPING_TEXT = (
    ops_with(Trait.MOVES_DATA)
    | {op_type for op_type, row in OPERATORS.items() if row.data != ()}
    | {"StringSplit", "Unique"}
)
MAX_CASE_GROWTH = 3  # characters for one, in a change of case (Unicode, SpecialCasing)


class ResultSizes:
    """Bounds on the bytes of constants and of results of ops, which are added in order, each once.

    Those of dense tensors are their sizes by inference; of sequences, the sum of all tensors that were inserted, one
    for each time; of strings, the longest text of each. A shape that a file declares and that inference cannot confirm
    is taken to be true, but not for a tensor from a sequence.
    """

    def __init__(self) -> None:
        self._bytes: dict[Value, int | None] = {}
        self._lengths: dict[Value, int | None] = {}  # the longest text of strings, in bytes

    def of(self, value: Value) -> int | None:
        """The bound of a constant, or of a result that was added; None if it is unknown."""
        if value in self._bytes:
            return self._bytes[value]
        return value.tensor.nbytes if value.tensor is not None else _static_bytes(value)

    def of_all(self, values: Iterable[Value | None]) -> int:
        """The sum of the known bounds of values."""
        return sum(self.of(v) or 0 for v in values if v is not None)

    def add(self, op: Op) -> int | None:
        """Add the results of an op, whose inputs are constants or have been added; None if one is unknown."""
        results = [v for v in op.outputs if v.name]
        for v in results:
            self._bytes[v] = self._bound(op, v)
        known = [b for v in results if (b := self._bytes[v]) is not None]
        return sum(known) if len(known) == len(results) else None

    def _bound(self, op: Op, value: Value) -> int | None:
        size = _static_bytes(value)
        if value.type is not None:
            return self._sum(op.inputs) if op.type in SEQUENCE_OPS and not op.domain else None
        if value.recorded_type[0] == STRING:
            length = self._lengths[value] = self._length_of_result(op)
            return None if size is None or length is None else size // 8 * (STRING_BYTES + length)
        if op.domain:
            return size
        if op.type in OUT_OF_SEQUENCE_OPS:
            whole = self._sum(op.inputs)
            return None if size is None or whole is None else max(size, whole)
        return self._data_dependent_bound(op) if size is None else size

    def _sum(self, values: Iterable[Value | None]) -> int | None:
        given = [v for v in values if v is not None]
        sizes = [n for v in given if (n := self.of(v)) is not None]
        return sum(sizes) if len(sizes) == len(given) else None

    def _length(self, value: Value) -> int | None:
        """The bytes of the longest string, also of one inside a sequence of strings; None if it is unknown."""
        if value not in self._lengths and value.tensor is not None:
            is_text = value.tensor.dtype == STRING
            self._lengths[value] = max((len(str(s)) * 4 for s in value.const.flat), default=0) if is_text else 0
        return self._lengths.get(value)

    def _length_of_result(self, op: Op) -> int | None:
        inputs = [v for v in op.inputs if v is not None and (v.recorded_type[0] == STRING or v.type is not None)]
        known = [n for v in inputs if (n := self._length(v)) is not None]
        if len(known) < len(inputs):
            return None
        if op.domain:  # a text of an input, or of an attribute
            return max([len(op.proto_bytes or b""), *known]) if op.proto_bytes else None
        if op.type == "StringConcat":
            return sum(known)
        if op.type == "StringNormalizer":
            return MAX_CASE_GROWTH * max(known, default=0)
        if op.type == "Cast" and not inputs:
            return NUMBER_LENGTH
        return max(known, default=0) if op.type in KEEPING_TEXT else None

    def _data_dependent_bound(self, op: Op) -> int | None:
        """The bound of a result whose size depends on the data; None for most operators."""
        if op.type == "Range":
            ends = [v.const.reshape(-1) if v is not None and v.is_const else np.empty(0) for v in op.inputs]
            if any(e.size != 1 for e in ends) or not ends[2][0]:
                return None
            start, limit, delta = (float(e[0]) for e in ends)
            count = (limit - start) / delta
            return max(ceil(count), 0) * ends[0].dtype.itemsize if np.isfinite(count) else None
        data = op.input(0) if op.type in ADDED_BITS else None
        size = None if data is None else self.of(data)
        if data is None or size is None:
            return None
        return size + ADDED_BITS[op.type] * size * 8 // element_bits(data.known_dtype)


def _static_bytes(value: Value) -> int | None:
    """Bytes of a tensor of known type and extent, 8 for each string; None for others."""
    if value.producer is not None:
        value.producer.graph.context.infer(value.producer)  # a declared symbol may turn out to be a number
    dtype, shape = value.recorded_type
    if value.type is not None or dtype == TensorProto.UNDEFINED or shape is None:
        return None
    extents = as_integers(shape)
    return None if extents is None else prod(extents) * element_bits(dtype) // 8
