"""Limits of constant folding, and the work of computing an op before it is computed.

All of them are counted, not timed, so that a run can be replayed. The process that computes has limits of time and
memory besides, for ops that do more than their shapes say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...core import Graph, Op, Value, require
from ...core.ir.dims import as_integers
from ...core.ir.tensor import STRING
from ...core.ir.traits import Trait, ops_with
from ..support.operand_queries import known_scalar

MAX_TRIP_COUNT = 1000  # of a Loop
MAX_TRANSIENT_BYTES = 64 << 20  # bytes; no op may compute more than this or its own inputs on the way to a small result
MAX_LIVE_BYTES = 512 << 20  # bytes of results that exist at a time, besides as many as the weights of the model have
BASE_MEMORY = 2 << 30  # bytes of the process that computes, besides twice those of such results
BATCH_SECONDS = 20.0  # for up to 2,000 ops in a session
MAX_BYTES = 16 << 30  # bytes that the ops of a run read and write, besides so many times those of the weights:
BYTES_PER_WEIGHT_BYTE = 32
MAX_MULTIPLICATIONS = 10**11  # of a run, besides so many for each byte of the weights:
MULTIPLICATIONS_PER_WEIGHT_BYTE = 25  # so an update of rank 64, as wide as each matrix, is folded
OP_BYTES = 4096  # the time of an op on few numbers, in bytes that an op reads and writes in that time
MAX_REGEX_BYTES = 1000  # of the pattern of a RegexFullMatch
LINEAR = (
    ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | ops_with(Trait.MOVES_DATA) | ops_with(Trait.REDUCTION)
    | ops_with(Trait.NORMALIZATION) | ops_with(Trait.READS_SHAPE) | ops_with(Trait.QUERIES)
    | {
        "BatchNormalization", "BlackmanWindow", "Clip", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape",
        "CumProd", "CumSum", "DequantizeLinear", "Dropout", "DynamicQuantizeLinear", "HammingWindow", "HannWindow",
        "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "NonZero", "OneHot", "PRelu", "Pad", "Pow",
        "QuantizeLinear", "Range", "ReverseSequence", "RotaryEmbedding", "Scatter", "ScatterElements", "ScatterND",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "Softmax", "SplitToSequence", "StringConcat", "StringNormalizer", "SwiGLU", "TensorScatter", "TopK", "Trilu",
        "Unique", "Where",
    }
)  # fmt: skip
"""Operators that do a few operations, or log(n), for each of n elements that they read or write."""
PRODUCTS = frozenset({"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})
CONVOLUTIONS = ops_with(Trait.CONVOLUTION)
POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
RESIZES = frozenset({"Resize", "Upsample"})
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
    """Count work of a run. Raises Declined where the run has done too much already."""
    context = graph.context
    spent = Work(*context.folding_work) + work
    require(spent.fits(context.weight_bytes), "it takes too long to compute")
    context.folding_work = spent.bytes, spent.multiplications


def work_of(op: Op, moved: int) -> Work | None:
    """The most work that an op does that reads and writes `moved` bytes; None if it is unknown."""
    found = Work(moved + OP_BYTES, _multiplications(op))
    for count, ops in _inner_ops(op):
        if count is None:
            return None
        for inner in ops:
            sizes = [_elements(v) for v in (*inner.inputs, *inner.outputs) if v is not None]
            part = work_of(inner, 8 * sum(n or 0 for n in sizes))
            if part is None or (None in sizes and inner.type not in LINEAR and not inner.subgraphs):
                return None
            found += part.times(count)
    return found


def _inner_ops(op: Op) -> list[tuple[int | None, list[Op]]]:
    """The ops of each body, and how often they run at most; None if that is unknown."""
    count = {"If": lambda: 1, "Loop": lambda: known_scalar(op.input(0)), "Scan": lambda: _scan_length(op)}.get(op.type)
    number = None if count is None else count()
    times = None if number is None else max(int(number), 0)
    return [(times, list(sub.ops())) for sub in op.subgraphs]


def _scan_length(op: Op) -> int | None:
    """A bound on the steps of a Scan."""
    shapes = [v.known_shape for v in op.inputs if v is not None]
    extents = [d for shape in shapes if shape is not None for d in shape if isinstance(d, int)]
    return max(extents, default=None)


def _multiplications(op: Op) -> int:
    """The multiplications of an op at most, without those of its bodies, by the shapes of its operands."""
    if op.subgraphs or (not op.domain and op.type in LINEAR):
        return 0
    reads = [n for v in op.inputs if v is not None and (n := _elements(v)) is not None]
    made = sum(_elements(v) or 0 for v in op.outputs)
    if not op.domain:
        weight = _shape(op.input(3 if op.type.startswith("QLinear") else 1))
        x = _shape(op.input(0))
        if op.type in PRODUCTS and x:
            return made * (max(x) if op.type == "Gemm" else x[-1])
        if op.type in CONVOLUTIONS and weight:
            return (reads[0] if op.type == "ConvTranspose" else made) * prod(weight[1:])
        if op.type in POOLS:
            return made * prod(int(n) for n in op.attr("kernel_shape") or (1,))
        if op.type in RESIZES and not op.attr("antialias", 0):
            return made * MAX_TAPS
        if op.type == "RegexFullMatch":
            return made * MAX_REGEX_BYTES**2
    return sum(reads) * max(made, 1)  # each element of the result may depend on all elements


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
