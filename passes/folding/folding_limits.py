"""Limits of constant folding, and the work of computing an op before it is computed.

All of them are counted, not timed, so that a run can be replayed. The process that computes has limits of time and
memory besides, for ops that do more than their shapes say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from ...core import Graph, Op, Value, require
from ...core.ir.expressions import as_integers
from ...core.ir.tensor import STRING
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.ort.evaluation_worker import EvaluationLimits
from ..support.operand_queries import known_scalar

MAX_TRIP_COUNT = 1000  # of a Loop
MAX_TRANSIENT_BYTES = 64 << 20  # bytes; no op may compute more than this or its own inputs on the way to a small result
MAX_LIVE_BYTES = 512 << 20  # bytes of results that exist at a time, besides as many as the weights of the model have
BASE_MEMORY = 2 << 30  # bytes of the process that computes, besides twice those of such results
BATCH_SECONDS = 20.0  # for up to 2,000 ops in a session, besides those of multiplications:
MULTIPLICATIONS_PER_SECOND = 2 * 10**9  # of a slow kernel, or of a fast one on a busy machine
MAX_BYTES = 16 << 30  # bytes that the ops of a run read and write, besides so many times those of the weights:
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
    return EvaluationLimits(BASE_MEMORY + 2 * (MAX_LIVE_BYTES + weight_bytes), seconds)


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


def _of_pool(op: Op, _: int, made: int) -> int:
    return made * prod(int(n) for n in op.attr("kernel_shape") or (1,))


def _of_resize(op: Op, _: int, made: int) -> int | None:
    return None if op.attr("antialias", 0) else made * MAX_TAPS


def _of_determinant(op: Op, read: int, _: int) -> int:
    return read * max(_shape(op.input(0)), default=1)


def _of_regular_expression(op: Op, read: int, _: int) -> int:
    return read * len(str(op.attr("pattern")))


def _of_ngrams(op: Op, read: int, _: int) -> int:
    return read * (1 + int(op.attr("max_skip_count") or 0)) * int(op.attr("max_gram_length") or 1) ** 2


def _of_einsum(op: Op, _read: int, _made: int) -> int:
    """The product of the extents of all letters, since the order of the products is that of the operands."""
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
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _of_pool),
    **dict.fromkeys(("Resize", "Upsample"), _of_resize),
    "Det": _of_determinant,
    "Einsum": _of_einsum,
    "RegexFullMatch": _of_regular_expression,
    "TfIdfVectorizer": _of_ngrams,
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
