"""Transitive uses of a value through data movement and through the subgraphs of If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from ..operators.declaration import LOOP_CONDITION, Trait
from ..operators.table import data_inputs, ops_with

MAX_FOLLOWED_VALUES = 400  # values followed from one before giving up
MAX_USES_PER_VALUE = 8  # uses of the followed values, on average

S = TypeVar("S")


class Use(Struct, frozen=True):
    """The use of `value` by `op` as its input `index`, or as a loop condition if that is `LOOP_CONDITION`."""

    op: Op
    index: int
    value: Value


def transitive_uses(
    value: Value, start: S, propagate: Callable[[Op, int, S], S | None], most: int = MAX_FOLLOWED_VALUES
) -> Iterator[tuple[Use, S]]:
    """Yield the uses of `value` and of up to `most` values derived from it, each with the propagated state.

    `propagate` returns the state after an op, or None if its outputs are not derived. Subgraphs pass values on
    unchanged.
    """
    return islice(_all_uses(value, start, propagate, most), MAX_USES_PER_VALUE * most)


def _all_uses(
    value: Value, start: S, propagate: Callable[[Op, int, S], S | None], most: int
) -> Iterator[tuple[Use, S]]:
    queue: list[tuple[Value, Graph | None, S]] = [(value, None, start)]
    seen = {value}
    for v, graph, state in queue:
        found: list[tuple[Value, Graph, S]] = []
        for op in v.consumers:
            for index in op.positions_of(v):
                yield Use(op, index, v), state
                after = propagate(op, index, state)
                found += [(o, op.graph, after) for o in op.outputs[:most]] if after is not None else []
                found += [(inner, g, state) for inner, g in _body_inputs(op, index)]
            for sub in op.subgraphs:
                if _is_loop_condition(op, sub, v):
                    yield Use(op, LOOP_CONDITION, v), state
                found += [(outer, g, state) for outer, g in _body_results(op, sub, v)]
        if graph is not None and graph.owner is not None:
            if _is_loop_condition(graph.owner, graph, v):
                yield Use(graph.owner, LOOP_CONDITION, v), state
            found += [(outer, g, state) for outer, g in _body_results(graph.owner, graph, v)]
        for entry in found:
            if entry[0] not in seen and len(seen) < most:
                seen.add(entry[0])
                queue.append(entry)


def _body_inputs(op: Op, index: int) -> Iterator[tuple[Value, Graph]]:
    """Yield the value of an input of `op` inside its body, and the output that it initializes as loop state."""
    if op.type not in {"Loop", "Scan", "SequenceMap"} or op.domain or (op.type == "Loop" and index < 2):
        return
    for body in op.subgraphs:
        if index < len(body.inputs):
            yield body.inputs[index], body
    first = 2 if op.type == "Loop" else 0
    if op.type != "SequenceMap" and 0 <= index - first < _loop_state_count(op) and index - first < len(op.outputs):
        yield op.outputs[index - first], op.graph


def _body_results(owner: Op, body: Graph, value: Value) -> Iterator[tuple[Value, Graph]]:
    """Yield the value of a body's result outside, and in the next iteration."""
    if owner.domain or not body.is_output(value):
        return
    for i in (i for i, o in enumerate(body.outputs) if o is value):
        at = i - 1 if owner.type == "Loop" else i
        if 0 <= at < len(owner.outputs):
            yield owner.outputs[at], owner.graph
        again = at + 2 if owner.type == "Loop" else at
        if owner.type in {"Loop", "Scan"} and 0 <= at < _loop_state_count(owner) and again < len(body.inputs):
            yield body.inputs[again], body


def _is_loop_condition(owner: Op, body: Graph, value: Value) -> bool:
    return owner.type == "Loop" and body.is_output(value) and body.outputs[0] is value


def _loop_state_count(op: Op) -> int:
    """The number of loop-carried values of a Loop or Scan."""
    return len(op.inputs) - (2 if op.type == "Loop" else int(op.attr("num_scan_inputs", 0)))


QUERIES = ops_with(Trait.QUERIES)
SELECTION_OPS = QUERIES | ops_with(Trait.SELECTS)


def is_selection_only(value: Value, most: int = MAX_FOLLOWED_VALUES) -> bool:
    """Whether no arithmetic that might overflow or round uses the elements of `value`."""
    for count, (reading, _) in enumerate(transitive_uses(value, True, _propagate, most)):
        op = reading.op
        if op.domain or count >= most or not (op.type in SELECTION_OPS or data_inputs(op.type)):
            return False
    return True


def _propagate(op: Op, index: int, state: bool) -> bool | None:
    """Whether an op keeps the state; queries return no elements of their input. `transitive_uses` enters subgraphs."""
    return None if op.type in QUERIES or op.subgraphs else state
