"""Constant folding within a size budget.

Operators that move elements or compute them exactly are folded by their declarations, without a session, which might
crash or need more memory than expected. The results have the bits that onnxruntime gives: each operator rounds by one
operation of IEEE 754 at most, and results with NaN, whose bits depend on the order of operands, are left to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from operator import itemgetter
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from ...core import ChangeLog, Graph, Op, Tensor, Value, evaluate, is_pure
from ...core.errors import UsageError
from ...core.ir.dtypes import FLOAT16_DTYPES, FLOATS
from ...core.ir.graph import constant_bytes, enclosing_op
from ...core.operators.declaration import ANY_KIND, Operator, OperatorCall, Trait, apply
from ...core.operators.element_types import Array
from ...core.operators.table import OPERATORS
from ...core.ort.evaluation_worker import EvaluationLimits
from ..support.operand_queries import known_scalar
from .folding_limits import (
    MAX_LIVE_BYTES,
    MAX_TRANSIENT_BYTES,
    MAX_TRIP_COUNT,
    ResultSizes,
    Work,
    evaluation_limits,
    spend,
    work_of,
)

FIRST_OPSET = 8  # in which all operators broadcast in both directions
MAX_VIEW_RATIO = 2  # a result that is a view keeps at most so many times its bytes alive


def evaluate_arrays(
    ops: Sequence[Op], wanted: Collection[Value], max_bytes: int
) -> tuple[dict[Value, Tensor], list[Op]]:
    """Compute the exact ops among `ops` (sorted, of one graph, from constants alone).

    Returns the tensors of `wanted`, and those that the other ops read, with these ops. A result has at most
    `max_bytes`, or the bytes of the inputs if they are more.
    """
    found: dict[Value, Array] = {}
    rest: list[Op] = []
    users = Counter(v for op in ops for v in dict.fromkeys((*op.inputs, *op.captures)))
    kept = set(wanted)
    for op in ops:
        read = dict.fromkeys(v for v in op.inputs if v is not None)
        results = None
        if not op.subgraphs and all(v.tensor is not None or v in found for v in read):
            results = _attempt(op, found, max_bytes)
        if results is None:
            rest.append(op)
            kept.update((*read, *op.captures))
            continue
        found.update((v, r) for v, r in zip(op.outputs, results, strict=False) if v.name)
        for v in read:
            users[v] -= 1
            if not users[v] and v not in kept:
                found.pop(v, None)
    return {v: Tensor.from_array(_compact(a)) for v, a in found.items() if v in kept}, rest


def _attempt(op: Op, found: Mapping[Value, Array], max_bytes: int) -> tuple[Array, ...] | None:
    """The results of an op; None if it is not exact for these inputs, or they grow too large."""
    operator = OPERATORS.get(op.type) if not op.domain else None
    if operator is None or not operator.exact or op.version < FIRST_OPSET:
        return None
    inputs = [None if v is None else v.const if v.is_const else found[v] for v in op.inputs]
    call = _operator_call(op)
    try:
        if not _is_exact(operator, call, inputs) or _count(operator, call, inputs) > max_bytes:
            return None
        with np.errstate(all="ignore"):
            made: Any = operator.run(call, *inputs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # the model fails there, as where a required input is left out
    several: tuple[Any, ...] = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)
    results: tuple[Array, ...] = tuple(map(np.asanyarray, several))
    if operator.exact != ANY_KIND and any(a.dtype.kind == "f" and np.isnan(a).any() for a in results):
        return None
    types = map(helper.np_dtype_to_tensor_dtype, (a.dtype for a in results))
    return results if all(v.known_dtype in {0, t} for v, t in zip(op.outputs, types, strict=False)) else None


def _operator_call(op: Op) -> OperatorCall:
    node = onnx.NodeProto(op_type=op.type, output=[v.name for v in op.outputs])
    attributes = {name: value.array if isinstance(value, Tensor) else value for name, value in op.attrs.items()}
    types = [0 if v is None else v.recorded_type[0] for v in op.inputs]
    return OperatorCall(node, op.version, attributes, types, lambda _, inputs: list(inputs), own_types=True)


def _is_exact(operator: Operator, call: OperatorCall, inputs: Sequence[Array | None]) -> bool:
    """Whether the operands are of one type for which results are exact."""
    if operator.exact != ANY_KIND:
        types = {a.dtype for i, a in enumerate(inputs) if a is not None and i not in operator.roles}
        if len(types) > 1 or any(dtype.kind not in operator.exact or dtype == np.float16 for dtype in types):
            return False
    return operator.is_exact is None or apply(operator.is_exact, call, *inputs)


def _count(operator: Operator, call: OperatorCall, given: Sequence[Array | None]) -> int:
    """The bytes of the result of an op that may be larger than its inputs; 0 if it is not."""
    inputs = [a for a in given if a is not None]
    width = max((a.dtype.itemsize for a in inputs), default=8)
    if operator.elements is not None:
        count = apply(operator.elements, call, *given)
    elif operator.traits & (Trait.ELEMENTWISE | Trait.BROADCASTING):
        count = prod(np.broadcast_shapes(*(a.shape for a in inputs)))
        if Trait.ELEMENTWISE in operator.traits and Trait.SAME_DTYPE not in operator.traits:
            width = max(width, 8)  # a Cast
    else:
        return 0  # it makes no element that its inputs do not have
    size = count * width
    return size if size > sum(a.nbytes for a in inputs) else 0


def _compact(array: Array) -> Array:
    """The array, or a copy where it would keep a much larger one alive."""
    base: Any = array.base
    is_small = isinstance(base, np.ndarray) and array.nbytes * MAX_VIEW_RATIO < base.nbytes  # pyright: ignore[reportUnknownMemberType]
    return array.copy() if is_small else array


def select_within_limits(ops: Sequence[Op], sizes: ResultSizes, weight_bytes: int, spent: Work) -> dict[Op, Work]:
    """Those of `ops` (sorted) that can be computed within the limits of a run that has `spent` some work already.

    With the work of each. `weight_bytes` are the bytes of the model's weights. O(ops and their edges).
    """
    chosen: dict[Op, Work] = {}
    live = 0
    uses: dict[Value, int] = {}  # uses not yet computed
    left: set[Value | None] = set()
    for op in ops:
        reads = {v: uses.get(v, len(v.consumers)) - 1 for v in (*op.inputs, *op.captures) if v is not None}
        made = sizes.of_all(op.outputs)
        work = work_of(op, made + sizes.of_all(reads)) if left.isdisjoint(reads) else None
        is_small = live + made <= MAX_LIVE_BYTES + weight_bytes
        if work is None or not is_small or not (spent + work).fits(weight_bytes):
            left.update(op.outputs)
            continue
        spent += work
        live += made - sizes.of_all(v for v, n in reads.items() if n == 0 and v.tensor is None)
        uses.update(reads)
        chosen[op] = work
    return chosen


def select_within_budget(ops: Sequence[Op], sizes: ResultSizes, max_growth: int) -> list[Op]:
    """Those of `ops` (sorted) that can be folded without the constants growing by more than `max_growth` bytes.

    Independent groups are judged apart, those that save most first; of a group that does not fit as a
    whole, as many ops as do, in order. O(ops and their edges).
    """
    chosen: set[Op] = set()
    for growth, group in sorted(
        ((fold_in_order(g, sizes, inf)[1], g) for g in connected_components(ops)), key=itemgetter(0)
    ):
        fitting, added = (group, growth) if growth <= max_growth else fold_in_order(group, sizes, max_growth)
        chosen.update(fitting)
        max_growth -= added
    return [op for op in ops if op in chosen]


def fold_in_order(ops: Iterable[Op], sizes: ResultSizes, max_growth: float) -> tuple[list[Op], int]:
    """The ops that fit, in order, none of which depends on one that does not, and the bytes that folding them adds."""
    fitting: list[Op] = []
    growth = 0
    uses: dict[Value, int] = {}  # uses not yet folded away
    left: set[Value | None] = set()
    for op in ops:
        reads = {v: uses.get(v, len(v.consumers)) - 1 for v in (*op.inputs, *op.captures) if v is not None}
        kept = op.graph.pinned
        freed = [v for v, n in reads.items() if n == 0 and not op.graph.is_output(v) and v not in kept]
        added = [v for v in op.outputs if v.consumers or op.graph.is_output(v)]
        change = sizes.of_all(added) - sizes.of_all(freed)
        if left.isdisjoint(op.inputs) and growth + change <= max_growth:
            growth += change
            fitting.append(op)
            uses.update(reads)
        else:
            left.update(op.outputs)
    return fitting, growth


def connected_components(ops: Sequence[Op]) -> list[list[Op]]:
    """`ops` in groups that share no computed value, each in order."""
    group_of: dict[Op, list[Op]] = {}
    for op in ops:
        feeders = (v.producer for v in (*op.inputs, *op.captures) if v is not None)
        groups = {id(g): g for p in feeders if p is not None and (g := group_of.get(p)) is not None}
        largest: list[Op] = max(groups.values(), key=len) if groups else []
        for other in groups.values():
            if other is not largest:
                largest += other
                group_of.update(dict.fromkeys(other, largest))
        largest.append(op)
        group_of[op] = largest
    place = {op: i for i, op in enumerate(ops)}
    unique = {id(g): g for g in group_of.values()}
    return [sorted(g, key=place.__getitem__) for g in unique.values()]


# Integers behind a DequantizeLinear mark the quantized ops of a model; a folded QuantizeLinear still does.
NEVER_FOLDED = frozenset({"Constant", "DequantizeLinear"})
NOT_FOLDED_FROM = frozenset({"debloat"})  # its ops are computed at run time on purpose
SMALL_GROWTH = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Ops that depend on constants alone become constants.

    `max_growth` bytes, or `max_share` of the model's weights if that is more, is all that the file may
    grow by; ops beyond it are left to run time, and are not computed here. Where the weights are less than
    `max_growth`, they at most double, and grow by SMALL_GROWTH in any case.
    """

    max_growth: int = 1 << 20
    max_share: float = 0.05
    name: str = "fold-constants"

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid budget."""
        if self.max_growth < 0 or not 0 <= self.max_share < inf:
            raise UsageError("max_growth and max_share are 0 or more, and finite")

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Fold until nothing more can be; one session for each graph and round."""
        total = 0
        for g in [g for g in graph.with_subgraphs() if g.can_hold_initializers]:
            fresh = list(constant_inputs(g))
            while fresh:
                fresh = self._fold(g, graph, fresh, change_log)
                total += len(fresh)
        return total

    def _fold(self, g: Graph, root: Graph, known: list[Value], change_log: ChangeLog) -> list[Value]:
        """Fold ops that depend on the `known` constants; returns the new constants."""
        sizes = ResultSizes()
        candidates = foldable_ops(g, known, sizes)
        if not candidates:  # as in most bodies, and the budget needs all constants of the model
            return []
        context = root.context
        loaded, spent = context.weight_bytes, Work(*context.folding_work)
        growth = min(self.max_growth, max(loaded, SMALL_GROWTH))
        room = loaded + max(growth, int(self.max_share * loaded)) - constant_bytes(root)
        works = select_within_limits(candidates, sizes, loaded, spent)
        for op in candidates:
            if op not in works:
                change_log.record_decline(self.name, op.outputs[0].name, "it takes too much time or memory to compute")
        chosen = select_within_budget(list(works), sizes, room)
        inside = set(chosen)
        wanted = [v for op in chosen for v in op.outputs if g.is_output(v) or any(u not in inside for u in v.consumers)]
        if not wanted:
            return []
        work = sum((works[op] for op in chosen), Work())
        spend(root, work)
        fresh: list[Value] = []
        for value, tensor in _computed(chosen, wanted, evaluation_limits(work, loaded), change_log).items():
            if tensor.nbytes > max(room, sizes.of(value) or 0):  # the file declares another shape
                continue
            maker = value.producer
            exact = tensor.dtype not in FLOAT16_DTYPES
            if maker is not None and change_log.request_change(self.name, value.name, (maker,), exact=exact):
                g.make_constant(value, tensor)
                fresh.append(value)
        g.prune(chosen)
        return fresh


def _computed(
    ops: Sequence[Op], wanted: Sequence[Value], limits: EvaluationLimits, change_log: ChangeLog
) -> dict[Value, Tensor]:
    """The tensors of `wanted`, and the tensors read by ops that could not be computed, for which a note says why."""
    found, rest = evaluate_arrays(ops, wanted, MAX_TRANSIENT_BYTES)
    if rest:
        found |= evaluate(
            rest,
            wanted,
            found,
            limits=limits,
            on_failure=lambda op, why: change_log.note(f"{op.label} is not folded: {why}"),
        )
    return found


def constant_inputs(g: Graph) -> Iterator[Value]:
    """The constants that the ops of `g` read: its own constants, and for a subgraph also those around it."""
    if g.owner is None:
        yield from g.initializers
    else:
        yield from dict.fromkeys(v for op in g.ops() for v in op.inputs if v is not None and v.is_const)


def foldable_ops(g: Graph, known: list[Value], sizes: ResultSizes) -> list[Op]:
    """Ops that the `known` constants, with others, make computable and whose results have a known size, in order.

    Their results are added to `sizes`. O(uses of known values and of the results computed from them).
    """
    missing: dict[Op, int] = {}  # inputs and captures that are not constant yet
    found = [op for op in g.ops("SequenceEmpty") if _is_candidate(op, sizes)]
    queue = [*known, *(v for op in found for v in op.outputs)]
    for v in queue:
        for op in dict.fromkeys(op for user in v.consumers if (op := enclosing_op(g, user)) is not None):
            if op not in missing:
                missing[op] = sum(not u.is_const for u in {*op.inputs, *op.captures} if u is not None)
            missing[op] -= not v.is_const
            if missing[op] == 0 and _is_candidate(op, sizes):
                missing[op] = -1  # taken
                found.append(op)
                queue += op.outputs
    return found


def _is_candidate(op: Op, sizes: ResultSizes) -> bool:
    if (
        op.type in NEVER_FOLDED
        or op.by in NOT_FOLDED_FROM
        or not is_pure(op)
        or not any(v.consumers or op.graph.is_output(v) for v in op.outputs)
    ):
        return False
    size, read = sizes.add(op), sizes.of_all(op.inputs)
    return size is not None and size <= max(MAX_TRANSIENT_BYTES, read) and _is_safe(op)


def _is_safe(op: Op) -> bool:
    """Whether computing the op, which its model may never do, ends and leaves the process alive."""
    if op.type == "Loop":
        trips = known_scalar(op.input(0))
        if trips is None or trips > MAX_TRIP_COUNT:
            return False
    divisor = op.input(1) if op.type in {"Div", "Mod"} else None
    # An integer division by 0, or by -1 at the end of the range, may end the process.
    is_integer = divisor is not None and divisor.known_dtype not in FLOATS
    if divisor is not None and is_integer and (not divisor.is_const or np.isin(divisor.const, (0, -1)).any()):
        return False
    return all(_is_safe(inner) for sub in op.subgraphs for inner in sub.ops())
