"""What two graphs share at their rims: inputs, outputs, and what their bodies read from around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..ir.values import Value

ValuePair = tuple[Value, Value]
Places = dict[Value, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Ends:
    """Pairs of values that correspond from the start: `inputs` with what comes from around, and `outputs`."""

    inputs: list[ValuePair]
    outputs: list[ValuePair]
    numbers: tuple[dict[Value, int], dict[Value, int]] = field(init=False)
    places: tuple[Places, Places] = field(init=False)
    """The numbers of the outputs that each value is, for each graph."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", tuple({p[s]: i for i, p in enumerate(self.inputs)} for s in (0, 1)))
        object.__setattr__(self, "places", tuple(_places(p[s] for p in self.outputs) for s in (0, 1)))

    def swapped(self) -> Ends:
        """The same with the other graph first."""
        return Ends([(b, a) for a, b in self.inputs], [(b, a) for a, b in self.outputs])

    def other(self, side: int, value: Value) -> Value | None:
        """The input of the other graph that corresponds to one of `side`."""
        i = self.numbers[side].get(value)
        return None if i is None else self.inputs[i][1 - side]


def _places(values: Iterable[Value]) -> Places:
    found: Places = {}
    for i, v in enumerate(values):
        found[v] = (*found.get(v, ()), i)
    return found


def paired_by_name(a: Sequence[Value], b: Sequence[Value]) -> list[ValuePair]:
    """Values of one name, then those left over that are of one type, then the others if they are as many; in order."""
    theirs = {v.name: v for v in b}
    pairs = [(v, theirs[v.name]) for v in a if v.name in theirs]
    left, right = _without(a, [p[0] for p in pairs]), _without(b, [p[1] for p in pairs])
    forms: dict[object, deque[Value]] = {}
    for w in right:
        forms.setdefault(_form(w), deque()).append(w)
    pairs += [(v, alike.popleft()) for v in left if (alike := forms.get(_form(v)))]
    left, right = _without(left, [p[0] for p in pairs]), _without(right, [p[1] for p in pairs])
    return [*pairs, *zip(left, right, strict=True)] if len(left) == len(right) else pairs


def _without(values: Sequence[Value], gone: Sequence[Value]) -> list[Value]:
    taken = set(gone)
    return [v for v in values if v not in taken]


def _form(value: Value) -> tuple[int, int | None, bytes]:
    """Element type and rank, as far as they are stated."""
    dtype, shape = value.stated
    return dtype, None if shape is None else len(shape), value.type.SerializeToString() if value.type else b""
