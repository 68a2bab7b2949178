"""What the box of an op in a whole graph says, and what is told of it where somebody looks closer."""

from __future__ import annotations

from collections.abc import Iterator

from ....core import Op, Tensor, Value
from ..drawing.wording import attributes, beginning, contents, ending, few, op_title, plain, type_of

MOST_TOLD, LONGEST = 40, 200
"""Lines, and letters of each."""


def title_of(op: Op) -> tuple[str, ...]:
    """The type, the weights inside, and the attributes; of a Constant what it holds."""
    if op.type == "Constant" and op.outputs and op.outputs[0].tensor is not None:
        return (beginning(contents(op.outputs[0].tensor)),)
    weights = few([beginning(f"{name} {size_of(v.tensor)}") for name, v in weights_of(op) if v.tensor is not None])
    return (ending(op_title(op.domain, op.type)), *weights, *map(beginning, attributes(op)))


def weights_of(op: Op) -> Iterator[tuple[str, Value]]:
    """The constants that an op reads and no op beside it makes, each with what the operator calls that input."""
    for i, v in enumerate(op.inputs):
        if v is not None and v.tensor is not None and (v.producer is None or v.producer.graph is not op.graph):
            yield _input_name(op, i) or ending(v.name), v


def _input_name(op: Op, index: int) -> str:
    formal = op.schema.inputs if op.schema is not None else ()
    is_variadic = len(op.inputs) > len(formal)
    return formal[index].name if index < len(formal) - is_variadic else ""


def size_of(tensor: Tensor) -> str:
    """`64x3x7x7`; of a very small tensor the elements."""
    told = contents(tensor)
    return "x".join(map(str, tensor.dims)) if told.endswith("]") and not told.startswith("[") else told


def told_of(op: Op) -> tuple[str, ...]:
    """Name, attributes, what it reads and makes, a line each."""
    lines = [op.label, *(f"{name}: {plain(value)}" for name, value in op.attrs.items())]
    lines += [f"reads {_typed(v)}" for v in op.inputs if v is not None]
    lines += [f"reads {_typed(v)}, inside" for v in op.captures]
    lines += [f"makes {_typed(v)}" for v in op.outputs if v.name]
    more = [f"and {len(lines) - MOST_TOLD + 1} more"] if len(lines) > MOST_TOLD else []
    return tuple(_short(line) for line in (*lines[: MOST_TOLD - len(more)], *more))


def _typed(v: Value) -> str:
    return f"{v.name} {type_of(v)}".strip()


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
