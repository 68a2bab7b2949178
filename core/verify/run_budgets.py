"""Budgets of time and of work, and the work of running a model.

Work is the time that a run takes on an idle machine, estimated from the graph: elements of values, and products. The
input sets that are tried depend on the work and on no clock, so that a verdict is the same on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from time import monotonic, thread_time

from msgspec import Struct
from msgspec.structs import replace

from ..ir.expressions import Dim
from ..ir.graph import Graph, constant_bytes, total_op_count
from ..ir.op import Op
from ..operators.declaration import Trait
from ..operators.table import ops_with
from .dim_expressions import Sizes, extent
from .input_specs import dim_at

RUN_SECONDS, OP_SECONDS = 70e-6, 2e-6  # of a run with new inputs, and of each op
ELEMENT_SECONDS, DRAWN_SECONDS, PRODUCT_SECONDS = 1.5e-9, 7e-9, 0.1e-9  # of elements of results, and of inputs
LOADING_SECONDS, LOADED_OP_SECONDS, LOADED_BYTE_SECONDS = 2e-3, 40e-6, 0.5e-9
REFERENCE_SLOWDOWN = 10.0  # of `onnx.reference`, for ops on few elements
TRIPS, LEAST_TRIPS_WITHOUT_LIMIT = 8, 1 << 31  # of a body whose trips are unknown
TRIP_OP_SECONDS = 0.4e-6  # of each op of a body in each known trip
SLOW_OPS = {  # factors for the seconds of an op, for each element of its results and each product
    "DFT": 20, "GridSample": 10, "NonMaxSuppression": 1000, "Resize": 5, "STFT": 20, "TopK": 20,
    "GRU": 20, "LSTM": 20, "RNN": 20,
    "TreeEnsemble": 1000, "TreeEnsembleClassifier": 1000, "TreeEnsembleRegressor": 1000,
}  # fmt: skip
MAX_SLOWDOWN, SLACK = 10.0, 1.0  # CPU seconds for each second of a budget of work, plus SLACK
PRODUCT_INPUTS = {"QLinearConv": 3, "QLinearMatMul": 3}  # the second operand, which is input 1 of other operators
CONVOLUTIONS = ops_with(Trait.CONVOLUTION)
RECURRENT_OPS, REPEATING_OPS = frozenset({"GRU", "LSTM", "RNN"}), frozenset({"Loop", "Scan", "SequenceMap"})
PRODUCTS = frozenset({"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})
MULTIPLYING_OPS = CONVOLUTIONS | PRODUCTS | RECURRENT_OPS


@dataclass(slots=True)
class TimeBudget:
    """A number of seconds from now on, by a `clock`."""

    seconds: float
    clock: Callable[[], float] = monotonic
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    def left(self) -> float:
        """The seconds left."""
        return self.seconds - (self.clock() - self.start)


@dataclass(slots=True)
class WorkBudget:
    """Seconds of work that may be spent. It is `overdue`, and ends too, after far more CPU time of this thread."""

    seconds: float
    spent: float = 0.0
    start: float = field(default_factory=thread_time, init=False)

    def left(self) -> float:
        """The seconds of work left."""
        return 0.0 if self.overdue else self.seconds - self.spent

    @property
    def overdue(self) -> bool:
        """Whether the work took far longer than estimated."""
        return thread_time() - self.start > MAX_SLOWDOWN * max(self.seconds, self.spent) + SLACK


class RunCosts(Struct, frozen=True):
    """The work of loading a model and of running it: `fixed` seconds, and seconds for each product of dims.

    An unknown dim is assumed to have the largest size.
    """

    loading: float = LOADING_SECONDS
    fixed: float = RUN_SECONDS
    growing: tuple[tuple[float, tuple[Dim, ...]], ...] = ()

    @classmethod
    def of(cls, graph: Graph) -> RunCosts:
        """The costs of a model. O(V + E)."""
        rates = dict[tuple[Dim, ...], float]()
        drawn = ((DRAWN_SECONDS, v.known_shape or ()) for v in graph.inputs)
        for seconds, shape in (*drawn, *_rates(graph)):
            dims = tuple(sorted((d for d in shape if not isinstance(d, int)), key=str))
            rates[dims] = rates.get(dims, 0.0) + seconds * prod(d for d in shape if isinstance(d, int))
        loading = LOADING_SECONDS + LOADED_OP_SECONDS * total_op_count(graph)
        loading += LOADED_BYTE_SECONDS * constant_bytes(graph)
        fixed = RUN_SECONDS + rates.pop((), 0.0)
        return cls(loading, fixed, tuple((r, dims) for dims, r in rates.items()))

    def in_reference(self) -> RunCosts:
        """The costs in `onnx.reference`, which is slow for few elements."""
        return replace(self, fixed=RUN_SECONDS + REFERENCE_SLOWDOWN * (self.fixed - RUN_SECONDS))

    def seconds(self, sizes: Sizes) -> float:
        """The work of a run with new inputs at sizes of the symbols."""
        largest = max(sizes.values(), default=1)
        return self.fixed + sum(
            rate * prod(largest if d is None else extent(d, sizes) for d in dims) for rate, dims in self.growing
        )


NO_COSTS = RunCosts()


def _rates(
    graph: Graph, times: int = 1, trips: tuple[Dim, ...] = (), op_seconds: float = OP_SECONDS
) -> Iterator[tuple[float, Sequence[Dim]]]:
    """The seconds for each element of what a run computes, with its dims, and for each op.

    The trips of a body count as dims.
    """
    for op in graph.ops():
        yield times * op_seconds, trips
        seconds = times * ELEMENT_SECONDS * SLOW_OPS.get(op.type, 1)
        yield from ((seconds, (*trips, *v.known_shape)) for v in op.outputs if v.known_shape is not None)
        products = times * PRODUCT_SECONDS * SLOW_OPS.get(op.type, 1)
        yield from ((products, (*trips, *dims)) for dims in _multiplied(op))
        known = _trips(op)
        for body in op.subgraphs:
            if op.type not in REPEATING_OPS:
                yield from _rates(body, times, trips, op_seconds)
            elif known is None:
                yield from _rates(body, times * TRIPS, trips, op_seconds)
            else:
                yield from _rates(body, times, (*trips, known), TRIP_OP_SECONDS)


def _trips(op: Op) -> Dim:
    """The trips of a Loop or a Scan; None if they are unknown."""
    if op.type == "Loop":
        elements = None if (count := op.input(0)) is None else count.known_elements
        trips = elements[0] if elements else None
        is_limit = not isinstance(trips, int) or 0 <= trips < LEAST_TRIPS_WITHOUT_LIMIT
        return trips if is_limit else None
    if op.type == "Scan" and len(op.inputs) >= (count := int(op.attr("num_scan_inputs", 0))) > 0:
        scanned, axes = op.inputs[-count], op.attr("scan_input_axes", None) or [0]
        shape = None if scanned is None else scanned.known_shape
        return None if shape is None else dim_at(shape, axes[0])
    return None


def _multiplied(op: Op) -> Iterator[Sequence[Dim]]:
    """Yield dims for the products that each element requires; nothing if shapes are unknown."""
    if op.domain or op.type not in MULTIPLYING_OPS:
        return
    operands = op.input(0), op.input(PRODUCT_INPUTS.get(op.type, 1)), op.outputs[0]
    x, w, y = (None if v is None else v.known_shape for v in operands)
    if not x or not w or y is None:
        return
    if op.type in CONVOLUTIONS:
        yield *(x if op.type == "ConvTranspose" else y), *w[1:]
    elif op.type in PRODUCTS:
        yield *y, x[0 if op.attr("transA", 0) else -1]
    else:
        yield from ((*x[:2], *(v.known_shape or ())) for v in op.inputs[1:3] if v is not None)
