"""Control flow, sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto

from .declaration import ALL_INPUTS, LOOP_CONDITION, BodyRunner, Family, T
from .element_types import Array, dtype_of

CONTROL = Family()


@CONTROL.operator("If", T.SELECTS | T.HAS_SUBGRAPHS | T.CAPTURES | T.EMPTY_SAFE, roles={0: "truth"})
def _if(condition: Array, *, then_branch: GraphProto, else_branch: GraphProto, run_body: BodyRunner) -> tuple[Any, ...]:
    return tuple(run_body(then_branch if bool(condition.reshape(-1)[0]) else else_branch, ()))


@CONTROL.operator(
    "Loop", T.SELECTS | T.HAS_SUBGRAPHS | T.CAPTURES | T.EMPTY_SAFE | T.STEPWISE,
    roles={0: "trips", 1: "truth", LOOP_CONDITION: "truth"},
)  # fmt: skip
def _loop(
    trips: Array | None = None, condition: Array | None = None, *states: Any, body: GraphProto, run_body: BodyRunner
) -> tuple[Any, ...]:
    limit = None if trips is None else int(trips.reshape(-1)[0])
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    carried, scanned = list(states), [list[Array]() for _ in body.output[1 + len(states) :]]
    trip = 0
    while goes_on and (limit is None or trip < limit):
        results = run_body(body, (np.array(trip, np.int64), np.array(goes_on), *carried))
        goes_on = bool(results[0].reshape(-1)[0])
        carried = results[1 : 1 + len(states)]
        for found, value in zip(scanned, results[1 + len(states) :], strict=True):
            found.append(value)
        trip += 1
    stacked = [np.stack(s) if s else _nothing(o) for s, o in zip(scanned, body.output[1 + len(states) :], strict=True)]
    return (*carried, *stacked)


def _nothing(output: Any) -> Array:
    """The result of a scan without trips: 0 followed by the shape that the body declares."""
    tensor = output.type.tensor_type
    shape = [d.dim_value for d in tensor.shape.dim]
    return np.zeros((0, *shape), dtype_of(tensor.elem_type))


SCAN = T.SELECTS | T.HAS_SUBGRAPHS | T.CAPTURES | T.STEPWISE


@CONTROL.operator("Scan", SCAN, since=9)
def _scan(*inputs: Any, num_scan_inputs: int, run_body: BodyRunner, **settings: Any) -> tuple[Any, ...]:
    split = len(inputs) - num_scan_inputs
    return tuple(_scanned(list(inputs[:split]), list(inputs[split:]), run_body=run_body, **settings))


def _scanned(
    states: list[Any], sources: list[Array], *, body: GraphProto, run_body: BodyRunner,
    scan_input_axes: Sequence[int] = (), scan_input_directions: Sequence[int] = (), directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (), scan_output_directions: Sequence[int] = (),
) -> list[Any]:  # fmt: skip
    """The final states and the stacked outputs of a Scan."""
    count, declared = len(sources), body.output[len(states) :]
    axes, backwards = scan_input_axes or [0] * count, scan_input_directions or directions or [0] * count
    slices = [np.moveaxis(s, a, 0)[:: -1 if b else 1] for s, a, b in zip(sources, axes, backwards, strict=True)]
    scanned = [list[Array]() for _ in declared]
    for at in range(slices[0].shape[0]):
        results = run_body(body, (*states, *(s[at] for s in slices)))
        states = results[: len(states)]
        for found, value in zip(scanned, results[len(states) :], strict=True):
            found.append(value)
    into, reverse = (given or [0] * len(declared) for given in (scan_output_axes, scan_output_directions))
    made: list[Any] = []
    for found, output, axis, back in zip(scanned, declared, into, reverse, strict=True):
        stacked = np.stack(found[::-1] if back else found) if found else _nothing(output)
        made.append(np.moveaxis(stacked, 0, axis))
    return [*states, *made]


@CONTROL.older("Scan", since=8)
def _scan_of_batches(
    lengths: Array | None, *inputs: Array, num_scan_inputs: int, body: GraphProto, run_body: BodyRunner,
    directions: Sequence[int] = (),
) -> tuple[Array, ...]:  # fmt: skip
    """Scan over each sequence of a batch by itself, up to its length."""
    split = len(inputs) - num_scan_inputs
    rows: list[list[Array]] = []
    for row in range(inputs[-1].shape[0]):
        end = inputs[-1].shape[1] if lengths is None else int(lengths[row])
        states, sources = [s[row] for s in inputs[:split]], [s[row][:end] for s in inputs[split:]]
        results = _scanned(states, sources, body=body, run_body=run_body, directions=directions)
        for i in range(split, len(results)):  # shorter sequences are padded with zeros
            widths = [(0, inputs[-1].shape[1] - end), *[(0, 0)] * (results[i].ndim - 1)]
            results[i] = np.pad(results[i], widths)
        rows.append(results)
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


@CONTROL.operator("SequenceMap", T.HAS_SUBGRAPHS)
def _sequence_map(*inputs: Any, body: GraphProto, run_body: BodyRunner) -> tuple[Any, ...]:
    count = len(inputs[0])
    rows = [run_body(body, [v[i] if isinstance(v, list) else v for v in inputs]) for i in range(count)]
    return tuple([row[i] for row in rows] for i in range(len(body.output)))


def _position(index: Array | None, default: int) -> int:
    return default if index is None else int(index.reshape(-1)[0])


@CONTROL.operator("SequenceInsert", T.PLACES | T.LINEAR_TIME, data=(0, 1), roles={2: "position"})
def _sequence_insert(sequence: list[Any], value: Any, position: Array | None = None) -> list[Any]:
    found, at = list(sequence), _position(position, len(sequence))
    found.insert(at if at >= 0 else at + len(found), value)
    return found


@CONTROL.operator("SequenceErase", T.PLACES | T.LINEAR_TIME, data=(0,), roles={1: "position"})
def _sequence_erase(sequence: list[Any], position: Array | None = None) -> list[Any]:
    found = list(sequence)
    del found[_position(position, -1)]
    return found


@CONTROL.operator("ConcatFromSequence", T.PLACES | T.LINEAR_TIME, data=(0,))
def _concat_from_sequence(sequence: list[Array], *, axis: int, new_axis: int = 0) -> Array:
    join = np.stack if new_axis else np.concatenate
    return join(sequence, axis=axis)


@CONTROL.operator("SplitToSequence", T.HAS_AXIS | T.PLACES | T.LINEAR_TIME, data=(0,), roles={1: "parts"})
def _split_to_sequence(x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1) -> list[Array]:
    extent = x.shape[axis]
    if split is not None and split.ndim:
        return np.split(x, np.cumsum(split)[:-1].astype(np.int64), axis)
    size = 1 if split is None else int(split)
    parts = np.split(x, range(size, extent, size), axis)
    if split is None and not keepdims:
        return [np.squeeze(p, axis) for p in parts]
    return parts


@CONTROL.operator("OptionalGetElement", T.PLACES, data=(0,))
def _optional_get(value: Any) -> Any:
    if value is None:
        raise ValueError("the optional is empty")
    return value


@CONTROL.operator("Optional", T.PLACES, data=(0,))
def _optional(value: Any = None) -> Any:
    return value


@CONTROL.operator("OptionalHasElement", T.QUERIES | T.READS_SHAPE | T.JUMPS)
def _optional_has(value: Any = None) -> Array:
    return np.array(value is not None)


@CONTROL.operator("SequenceAt", T.PLACES | T.LINEAR_TIME, data=(0,), roles={1: "position"})
def _sequence_at(sequence: list[Any], position: Array) -> Any:
    return sequence[_position(position, 0)]


@CONTROL.operator("SequenceConstruct", T.PLACES | T.LINEAR_TIME, data=ALL_INPUTS)
def _sequence_construct(*values: Any) -> list[Any]:
    return list(values)


@CONTROL.operator("SequenceEmpty", T.LINEAR_TIME)
def _sequence_empty() -> list[Any]:
    return []


@CONTROL.operator("SequenceLength", T.QUERIES | T.READS_SHAPE | T.JUMPS)
def _sequence_length(sequence: list[Any]) -> Array:
    return np.array(len(sequence), np.int64)
