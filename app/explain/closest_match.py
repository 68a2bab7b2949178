"""What keeps a rule from firing at an op.

The way in which a pattern fits best at an op, with what does not fit: the explaining twin of `pattern.match_op`.

It walks the same patterns over the same inputs in the same orders, but goes on behind what does not fit. Each
misfit has its cost, that of an operator being as much of the pattern as hangs on it, and ways that cost more than
the best so far are left, so that it takes little longer than matching.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Any

from ...core.ir import op_schemas
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.rewriting.pattern import COMMUTATIVE, OpPattern, Rest, Var, attribute_of, off_default, sizes
from ...core.support.suggestions import meant
from ..descriptions import any_of, maker_of, ordinal, shown, whence


class Kind(StrEnum):
    """In what way: no root, an operator, domain, attribute, input, constant or variable of the pattern.

    ORDER: two inputs are the other way round. SHARED: what is inside the match is seen from outside.
    DECLINED: the rule looked at the match and said no. RAISED: it failed. FORBIDDEN: it may not run here.
    DEAD: nothing reads what the op makes.
    """

    OPERATOR = "operator"
    DOMAIN = "domain"
    ATTRIBUTE = "attribute"
    INPUTS = "inputs"
    ORDER = "order"
    CONSTANT = "constant"
    VARIABLE = "variable"
    SHARED = "shared"
    DECLINED = "declined"
    RAISED = "raised"
    FORBIDDEN = "forbidden"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Miss:
    """One reason: the op it shows at, and why, as a sentence. `values`: what the pattern's variables stand for."""

    kind: Kind
    at: str
    why: str
    values: dict[str, str] | None = None


Values = tuple[Value | None, ...]
TURNED = 0.5  # the cost of inputs the other way round: less than that of anything else, as it explains all of it
STRUCTURE = frozenset({Kind.OPERATOR, Kind.DOMAIN})


@dataclass(frozen=True, slots=True)
class Way:
    """A way to lay a pattern over ops: what its variables stand for, which ops fit, and what does not."""

    bound: dict[str, Any] = field(default_factory=dict[str, Any])
    fitting: tuple[Op, ...] = ()
    misses: tuple[Miss, ...] = ()
    cost: float = 0

    def missing(self, kind: Kind, at: Op, why: str, cost: float = 1) -> Way:
        """The way with one more misfit."""
        return replace(self, misses=(*self.misses, Miss(kind, at.label, why)), cost=self.cost + cost)


def closest(pattern: OpPattern, op: Op) -> Way:
    """The way that costs least; one without misses is a match. Of several, the first.

    Of its misses those come first without which the others would be others: an operator that is not there.
    """
    search = _Search(op.graph)
    found = Way()
    for way in search.at_op(pattern, op, Way()):
        if way.cost < search.bound:
            found, search.bound = way, way.cost
        if not way.cost:
            break
    return replace(found, misses=tuple(sorted(found.misses, key=lambda m: m.kind not in STRUCTURE)))


def size_of(pattern: OpPattern) -> int:
    """How many operators a pattern has."""
    return 1 + sum(size_of(p) for p in pattern.inputs if isinstance(p, OpPattern))


@dataclass(slots=True)
class _Search:
    """A walk over all ways; those that cost `bound` or more are not followed."""

    graph: Graph
    bound: float = inf

    def at_op(self, p: OpPattern, op: Op, way: Way) -> Iterator[Way]:
        """Lay `p` over `op`."""
        if op.type not in p.types or op.domain != p.domain:
            yield from self._passable(_elsewhere(p, op, way))
            return
        here, values = self._attributes(p, op, way)
        if here.cost == way.cost:
            here = replace(here, fitting=(*here.fitting, op))
        while values and values[-1] is None:
            values = values[:-1]
        for order in p.orders():
            yield from self._over_inputs(order, values, op, here, 0)
        if len(values) == len(p.inputs) == 2 and len(p.orders()) == 1 and _are_alike(op):
            why = f"{op.label} has its two inputs the other way round"
            yield from self._over_inputs(p.inputs, values[::-1], op, here.missing(Kind.ORDER, op, why, TURNED), 0)

    def _passable(self, way: Way) -> Iterator[Way]:
        if way.cost < self.bound:
            yield way

    def _attributes(self, p: OpPattern, op: Op, way: Way) -> tuple[Way, Values]:
        """The way with what the attributes say, and the inputs that remain. Misfits of one op cost as much as one."""
        cost = way.cost
        here, values = replace(way, bound={**way.bound, p.bind: op} if p.bind else way.bound), op.inputs
        for name, want in p.attrs:
            known, have, values = attribute_of(op, name, values)
            if not known:
                taken = op_schemas.input_names(op.type, op.domain, op.version).index(name)
                why = f"{name} of {op.label} is not constant: it {whence(values[taken], self.graph)}"
                here = here.missing(Kind.CONSTANT, op, why)
                values = (*values[:taken], None, *values[taken + 1 :])
            else:
                here = _attribute_bound(here, op, name, want, have)
        for name, value, default in () if p.bind else off_default(p, op):
            usual = "none" if default is None else f"the default {shown(default)}"
            why = f"{op.label} has {name}={shown(value)}; the pattern does not name it, so it wants {usual}"
            here = here.missing(Kind.ATTRIBUTE, op, why)
        return replace(here, cost=min(here.cost, cost + 1)), values

    def _over_inputs(self, patterns: tuple[Any, ...], values: Values, op: Op, way: Way, index: int) -> Iterator[Way]:
        """Lay the patterns that are left over the inputs that are left, from that at `index` on."""
        if way.cost >= self.bound:
            return
        if not patterns:
            for more, value in enumerate(values, index):
                if value is not None:
                    why = f"{op.label} has a {ordinal(more)} input, {value.name}; the pattern has {index or 'none'}"
                    way = way.missing(Kind.INPUTS, op, why)
                    break
            yield from self._passable(way)
            return
        want, rest = patterns[0], patterns[1:]
        if isinstance(want, Rest):
            for size in [*sizes(rest, len(values))] or [0]:
                bound = _any_number_bound(way, op, want, values[:size])
                yield from self._over_inputs(rest, values[size:], op, bound, index + size)
            return
        value = values[0] if values else None
        if isinstance(want, Var):
            bound = self._bound(way, op, want, value, index)
            yield from self._over_inputs(rest, values[1:], op, bound, index + 1)
            return
        for inner in self._behind(want, value, op, way, index):
            yield from self._over_inputs(rest, values[1:], op, inner, index + 1)

    def _bound(self, way: Way, op: Op, want: Var, value: Value | None, index: int) -> Way:
        """Let a variable stand for a value."""
        if value is None and not want.optional:
            return way.missing(Kind.INPUTS, op, f"{op.label} has no {ordinal(index)} input, {want.name} in the pattern")
        if value is not None and want.constant and not value.is_const:
            why = f"{_called(want, value)} is not constant: it {whence(value, self.graph)}"
            way = way.missing(Kind.CONSTANT, op, why)
        known = way.bound.get(want.name, value)
        if known is not value:
            here = f"the {ordinal(index)} input of {op.label}"
            why = f"{want.name} stands for two values: {_name(known)} and, as {here}, {_name(value)}"
            return way.missing(Kind.VARIABLE, op, why)
        return replace(way, bound={**way.bound, want.name: value})

    def _behind(self, want: OpPattern, value: Value | None, op: Op, way: Way, index: int) -> Iterator[Way]:
        """Lay the pattern of an input over what makes it."""
        maker = self.graph.producer(value)
        if maker is None or maker.type not in want.types:
            yield from self._passable(
                way.missing(Kind.OPERATOR, op, self._other(want, op, index, value), size_of(want))
            )
        elif want.output >= len(maker.outputs) or maker.outputs[want.output] is not value:
            where = f"{ordinal(maker.outputs.index(value))} output of {maker.label}" if value is not None else ""
            why = f"the {ordinal(index)} input of {op.label} is the {where}, not its {ordinal(want.output)}"
            yield from self._passable(way.missing(Kind.OPERATOR, op, why, size_of(want)))
        else:
            yield from self.at_op(want, maker, way)

    def _other(self, want: OpPattern, op: Op, index: int, value: Value | None) -> str:
        """That another op makes an input, or that none of two that commute is made by a right one."""
        wanted = any_of(want.types)
        makers = [self.graph.producer(v) for v in op.inputs] if len(op.inputs) == 2 else []
        if op.type not in COMMUTATIVE or not makers or any(m.type in want.types for m in makers if m is not None):
            return f"the {ordinal(index)} input of {op.label} {whence(value, self.graph)}, not from {wanted}"
        both = " and ".join(maker_of(v, self.graph) for v in op.inputs)
        return f"no input of {op.label} comes from {wanted}: they are {both}"


def _elsewhere(p: OpPattern, op: Op, way: Way) -> Way:
    """That an op is another one than the pattern wants there."""
    if op.type not in p.types:
        return way.missing(Kind.OPERATOR, op, f"{op.label} is not {any_of(p.types)}", size_of(p))
    wanted = f'g.domain("{op.domain}").{op.type}' if op.domain else f"g.{op.type}"
    why = f"{op.label} is of domain {op.domain or 'ai.onnx'}, the pattern wants {p.domain or 'ai.onnx'} ({wanted} fits)"
    return way.missing(Kind.DOMAIN, op, why, size_of(p))


def _attribute_bound(way: Way, op: Op, name: str, want: Any, have: Any) -> Way:
    """Hold an attribute to what the pattern says, or let a variable stand for it."""
    said = f"{op.label} has {f'no {name}' if have is None else f'{name}={shown(have)}'}"
    if not isinstance(want, Var):
        if bool(have == want):
            return way
        why = have is None and _unknown(op, name)
        return way.missing(Kind.ATTRIBUTE, op, why or f"{said}, the pattern wants {shown(want)}")
    if want.name not in way.bound:
        return replace(way, bound={**way.bound, want.name: have})
    known = way.bound[want.name]
    why = f"{said}, but {want.name} is {shown(known)} already"
    return way if bool(known == have) else way.missing(Kind.VARIABLE, op, why)


def _unknown(op: Op, name: str) -> str:
    """That an operator has no such attribute, nor an input of that name; nothing if it has, or nobody knows."""
    spec = op.schema
    known = () if spec is None else (*spec.attributes, *(i.name for i in spec.inputs))
    return f"{op.type} has no attribute {name}{meant(name, known)}" if known and name not in known else ""


def _are_alike(op: Op) -> bool:
    """Whether an operator takes two inputs of one type, which are easily taken for each other."""
    spec = op.schema
    return spec is not None and len(spec.inputs) == 2 and spec.inputs[0].type_str == spec.inputs[1].type_str


def _any_number_bound(way: Way, op: Op, want: Rest, values: Values) -> Way:
    known = way.bound.get(want.name, values)
    if known != values:
        return way.missing(Kind.VARIABLE, op, f"{want.name} stands for other inputs of {op.label} than before")
    return replace(way, bound={**way.bound, want.name: values})


def _called(want: Var, value: Value) -> str:
    """The name in the pattern, and that in the model."""
    return want.name if want.name == value.name else f"{want.name} ({value.name})"


def _name(value: Any) -> str:
    return value.name if isinstance(value, Value) else "nothing" if value is None else shown(value)
