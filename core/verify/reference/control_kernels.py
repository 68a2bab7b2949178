"""Kernels of control flow, sequences and optionals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernel_call import Array, Kernel, KernelCall
from .reference_kernels import dtype_of


def _if(call: KernelCall, condition: Array) -> tuple[Any, ...]:
    branch = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    return tuple(call.run_body(call.get(branch), ()))


def _loop(
    call: KernelCall, trips: Array | None = None, condition: Array | None = None, *states: Any
) -> tuple[Any, ...]:
    body = call.get("body")
    limit = None if trips is None else int(trips.reshape(-1)[0])
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    carried, scanned = list(states), [list[Array]() for _ in body.output[1 + len(states) :]]
    trip = 0
    while goes_on and (limit is None or trip < limit):
        results = call.run_body(body, (np.array(trip, np.int64), np.array(goes_on), *carried))
        goes_on = bool(results[0].reshape(-1)[0])
        carried = results[1 : 1 + len(states)]
        for found, value in zip(scanned, results[1 + len(states) :], strict=True):
            found.append(value)
        trip += 1
    stacked = [np.stack(s) if s else _nothing(o) for s, o in zip(scanned, body.output[1 + len(states) :], strict=True)]
    return (*carried, *stacked)


def _nothing(output: Any) -> Array:
    """The result of a scan over no trips: its shape is the one that the body declares, behind a 0."""
    tensor = output.type.tensor_type
    shape = [d.dim_value for d in tensor.shape.dim]
    return np.zeros((0, *shape), dtype_of(tensor.elem_type))


def _scan(call: KernelCall, *inputs: Any) -> tuple[Any, ...]:
    body, count = call.get("body"), call.get("num_scan_inputs")
    if call.version < 9:
        return _scan_8(call, *inputs)
    states, sources = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(body.output) - len(states)
    return tuple(_scanned(call, states, list(sources), outputs))


def _scanned(call: KernelCall, states: list[Any], sources: list[Array], outputs: int) -> list[Any]:
    """The final states and the stacked outputs of a Scan."""
    body, count = call.get("body"), len(sources)
    axes = call.get("scan_input_axes") or [0] * count
    backwards = call.get("scan_input_directions") or call.get("directions") or [0] * count
    slices = [np.moveaxis(s, a, 0)[:: -1 if b else 1] for s, a, b in zip(sources, axes, backwards, strict=True)]
    scanned = [list[Array]() for _ in range(outputs)]
    for at in range(slices[0].shape[0]):
        results = call.run_body(body, (*states, *(s[at] for s in slices)))
        states = results[: len(states)]
        for found, value in zip(scanned, results[len(states) :], strict=True):
            found.append(value)
    into, reverse = (call.get(f"scan_output_{name}") or [0] * outputs for name in ("axes", "directions"))
    made: list[Any] = []
    for found, output, axis, back in zip(scanned, body.output[len(states) :], into, reverse, strict=True):
        stacked = np.stack(found[::-1] if back else found) if found else _nothing(output)
        made.append(np.moveaxis(stacked, 0, axis))
    return [*states, *made]


def _scan_8(call: KernelCall, lengths: Array | None, *inputs: Array) -> tuple[Array, ...]:
    """Scan of opset 8, over each sequence of a batch by itself, up to its length."""
    body, count = call.get("body"), call.get("num_scan_inputs")
    split = len(inputs) - count
    batch = inputs[-1].shape[0]
    rows: list[list[Array]] = []
    for row in range(batch):
        end = inputs[-1].shape[1] if lengths is None else int(lengths[row])
        states, sources = [s[row] for s in inputs[:split]], [s[row][:end] for s in inputs[split:]]
        results = _scanned(call, states, sources, len(body.output) - split)
        for i in range(split, len(results)):  # shorter sequences end in zeros
            widths = [(0, inputs[-1].shape[1] - end), *[(0, 0)] * (results[i].ndim - 1)]
            results[i] = np.pad(results[i], widths)
        rows.append(results)
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _sequence_map(call: KernelCall, *inputs: Any) -> tuple[Any, ...]:
    body, count = call.get("body"), len(inputs[0])
    rows = [call.run_body(body, [v[i] if isinstance(v, list) else v for v in inputs]) for i in range(count)]
    return tuple([row[i] for row in rows] for i in range(len(body.output)))


def _position(index: Array | None, default: int) -> int:
    return default if index is None else int(index.reshape(-1)[0])


def _sequence_insert(_: KernelCall, sequence: list[Any], value: Any, position: Array | None = None) -> list[Any]:
    found, at = list(sequence), _position(position, len(sequence))
    found.insert(at if at >= 0 else at + len(found), value)
    return found


def _sequence_erase(_: KernelCall, sequence: list[Any], position: Array | None = None) -> list[Any]:
    found = list(sequence)
    del found[_position(position, -1)]
    return found


def _concat_from_sequence(call: KernelCall, sequence: list[Array]) -> Array:
    join = np.stack if call.get("new_axis") else np.concatenate
    return join(sequence, axis=call.get("axis"))


def _split_to_sequence(call: KernelCall, x: Array, split: Array | None = None) -> list[Array]:
    axis = call.get("axis", 0)
    extent = x.shape[axis]
    if split is not None and split.ndim:
        return np.split(x, np.cumsum(split)[:-1].astype(np.int64), axis)
    size = 1 if split is None else int(split)
    parts = np.split(x, range(size, extent, size), axis)
    if split is None and not call.get("keepdims", 1):
        return [np.squeeze(p, axis) for p in parts]
    return parts


def _optional_get(_: KernelCall, value: Any) -> Any:
    if value is None:
        raise ValueError("the optional is empty")
    return value


def _optional(_: KernelCall, value: Any = None) -> Any:
    return value


KERNELS: Mapping[str, Kernel] = {
    "ConcatFromSequence": _concat_from_sequence,
    "If": _if,
    "Loop": _loop,
    "Optional": _optional,
    "OptionalGetElement": _optional_get,
    "OptionalHasElement": lambda _, value=None: np.array(value is not None),
    "Scan": _scan,
    "SequenceAt": lambda _, sequence, position: sequence[_position(position, 0)],
    "SequenceConstruct": lambda _, *values: list(values),
    "SequenceEmpty": lambda _: [],
    "SequenceErase": _sequence_erase,
    "SequenceInsert": _sequence_insert,
    "SequenceLength": lambda _, sequence: np.array(len(sequence), np.int64),
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_to_sequence,
}
