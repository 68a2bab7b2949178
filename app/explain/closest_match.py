"""The closest match of a pattern at an op, with what does not fit: the explaining counterpart of `pattern.match_op`.

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
from ...core.rewriting.pattern import (
    COMMUTATIVE,
    OpPattern,
    Var,
    VariadicVar,
    attribute_or_input,
    non_default_attributes,
    variadic_counts,
)
from ...core.support.suggestions import did_you_mean
from ..descriptions import describe_origin, describe_producer, format_attribute_value, join_alternatives, ordinal


class MatchFailureKind(StrEnum):
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
class MatchFailure:
    """One reason: the op it shows at, and why, as a sentence. `bindings`: what the pattern's variables stand for."""

    kind: MatchFailureKind
    op_label: str
    reason: str
    bindings: dict[str, str] | None = None


Operands = tuple[Value | None, ...]
SWAPPED_INPUTS_COST = (
    0.5  # the cost of inputs the other way round: less than that of anything else, as it explains all of it
)
STRUCTURAL_KINDS = frozenset({MatchFailureKind.OPERATOR, MatchFailureKind.DOMAIN})


@dataclass(frozen=True, slots=True)
class NearMatch:
    """A way to lay a pattern over ops: what its variables stand for, which ops fit, and what does not."""

    bindings: dict[str, Any] = field(default_factory=dict[str, Any])
    matched_ops: tuple[Op, ...] = ()
    failures: tuple[MatchFailure, ...] = ()
    cost: float = 0

    def with_failure(self, kind: MatchFailureKind, at: Op, why: str, cost: float = 1) -> NearMatch:
        """The way with one more misfit."""
        return replace(self, failures=(*self.failures, MatchFailure(kind, at.label, why)), cost=self.cost + cost)


def closest_match(pattern: OpPattern, op: Op) -> NearMatch:
    """The way that costs least; one without misses is a match. Of several, the first.

    Of its misses those come first without which the others would be others: an operator that is not there.
    """
    search = _ClosestMatchSearch(op.graph)
    found = NearMatch()
    for way in search.match_at(pattern, op, NearMatch()):
        if way.cost < search.cost_limit:
            found, search.cost_limit = way, way.cost
        if not way.cost:
            break
    return replace(found, failures=tuple(sorted(found.failures, key=lambda m: m.kind not in STRUCTURAL_KINDS)))


def pattern_size(pattern: OpPattern) -> int:
    """How many operators a pattern has."""
    return 1 + sum(pattern_size(p) for p in pattern.inputs if isinstance(p, OpPattern))


@dataclass(slots=True)
class _ClosestMatchSearch:
    """A walk over all ways; those that cost `bound` or more are not followed."""

    graph: Graph
    cost_limit: float = inf

    def match_at(self, p: OpPattern, op: Op, way: NearMatch) -> Iterator[NearMatch]:
        """Lay `p` over `op`."""
        if op.type not in p.types or op.domain != p.domain:
            yield from self._within_limit(_wrong_operator(p, op, way))
            return
        here, values = self._match_attributes(p, op, way)
        if here.cost == way.cost:
            here = replace(here, matched_ops=(*here.matched_ops, op))
        while values and values[-1] is None:
            values = values[:-1]
        for order in p.input_orders(op):
            yield from self._match_inputs(order, values, op, here, 0)
        if len(values) == len(p.inputs) == 2 and len(p.input_orders(op)) == 1 and _has_interchangeable_inputs(op):
            why = f"{op.label} has its two inputs the other way round"
            yield from self._match_inputs(
                p.inputs, values[::-1], op, here.with_failure(MatchFailureKind.ORDER, op, why, SWAPPED_INPUTS_COST), 0
            )

    def _within_limit(self, way: NearMatch) -> Iterator[NearMatch]:
        if way.cost < self.cost_limit:
            yield way

    def _match_attributes(self, p: OpPattern, op: Op, way: NearMatch) -> tuple[NearMatch, Operands]:
        """The way with what the attributes say, and the inputs that remain. Misfits of one op cost as much as one."""
        cost = way.cost
        here, values = (
            replace(way, bindings={**way.bindings, p.bound_name: op} if p.bound_name else way.bindings),
            op.inputs,
        )
        for name, want in p.attrs:
            known, have, values = attribute_or_input(op, name, values)
            if not known:
                taken = op_schemas.input_names(op.type, op.domain, op.version).index(name)
                why = f"{name} of {op.label} is not constant: it {describe_origin(values[taken], self.graph)}"
                here = here.with_failure(MatchFailureKind.CONSTANT, op, why)
                values = (*values[:taken], None, *values[taken + 1 :])
            else:
                here = _match_attribute(here, op, name, want, have)
        for name, value, default in () if p.bound_name else non_default_attributes(p, op):
            usual = "none" if default is None else f"the default {format_attribute_value(default)}"
            found = f"{op.label} has {name}={format_attribute_value(value)}"
            why = f"{found}; the pattern does not name it, so it wants {usual}"
            here = here.with_failure(MatchFailureKind.ATTRIBUTE, op, why)
        return replace(here, cost=min(here.cost, cost + 1)), values

    def _match_inputs(
        self, patterns: tuple[Any, ...], values: Operands, op: Op, way: NearMatch, index: int
    ) -> Iterator[NearMatch]:
        """Lay the patterns that are left over the inputs that are left, from that at `index` on."""
        if way.cost >= self.cost_limit:
            return
        if not patterns:
            for more, value in enumerate(values, index):
                if value is not None:
                    why = f"{op.label} has a {ordinal(more)} input, {value.name}; the pattern has {index or 'none'}"
                    way = way.with_failure(MatchFailureKind.INPUTS, op, why)
                    break
            yield from self._within_limit(way)
            return
        want, rest = patterns[0], patterns[1:]
        if isinstance(want, VariadicVar):
            for size in [*variadic_counts(rest, len(values))] or [0]:
                bound = _bind_rest(way, op, want, values[:size])
                yield from self._match_inputs(rest, values[size:], op, bound, index + size)
            return
        value = values[0] if values else None
        if isinstance(want, Var):
            bound = self._bind_variable(way, op, want, value, index)
            yield from self._match_inputs(rest, values[1:], op, bound, index + 1)
            return
        for inner in self._match_producer(want, value, op, way, index):
            yield from self._match_inputs(rest, values[1:], op, inner, index + 1)

    def _bind_variable(self, way: NearMatch, op: Op, want: Var, value: Value | None, index: int) -> NearMatch:
        """Let a variable stand for a value."""
        if value is None and not want.optional:
            return way.with_failure(
                MatchFailureKind.INPUTS, op, f"{op.label} has no {ordinal(index)} input, {want.name} in the pattern"
            )
        if value is not None and want.constant and not value.is_const:
            why = f"{_variable_label(want, value)} is not constant: it {describe_origin(value, self.graph)}"
            way = way.with_failure(MatchFailureKind.CONSTANT, op, why)
        known = way.bindings.get(want.name, value)
        if known is not value:
            here = f"the {ordinal(index)} input of {op.label}"
            why = f"{want.name} stands for two values: {_value_label(known)} and, as {here}, {_value_label(value)}"
            return way.with_failure(MatchFailureKind.VARIABLE, op, why)
        return replace(way, bindings={**way.bindings, want.name: value})

    def _match_producer(
        self, want: OpPattern, value: Value | None, op: Op, way: NearMatch, index: int
    ) -> Iterator[NearMatch]:
        """Lay the pattern of an input over what makes it."""
        maker = self.graph.producer(value)
        if maker is None or maker.type not in want.types:
            yield from self._within_limit(
                way.with_failure(
                    MatchFailureKind.OPERATOR,
                    op,
                    self._wrong_producer_reason(want, op, index, value),
                    pattern_size(want),
                )
            )
        elif want.output >= len(maker.outputs) or maker.outputs[want.output] is not value:
            where = f"{ordinal(maker.outputs.index(value))} output of {maker.label}" if value is not None else ""
            why = f"the {ordinal(index)} input of {op.label} is the {where}, not its {ordinal(want.output)}"
            yield from self._within_limit(way.with_failure(MatchFailureKind.OPERATOR, op, why, pattern_size(want)))
        else:
            yield from self.match_at(want, maker, way)

    def _wrong_producer_reason(self, want: OpPattern, op: Op, index: int, value: Value | None) -> str:
        """That another op makes an input, or that none of two that commute is made by a right one."""
        wanted = join_alternatives(want.types)
        makers = [self.graph.producer(v) for v in op.inputs] if len(op.inputs) == 2 else []
        if op.type not in COMMUTATIVE or not makers or any(m.type in want.types for m in makers if m is not None):
            return f"the {ordinal(index)} input of {op.label} {describe_origin(value, self.graph)}, not from {wanted}"
        both = " and ".join(describe_producer(v, self.graph) for v in op.inputs)
        return f"no input of {op.label} comes from {wanted}: they are {both}"


def _wrong_operator(p: OpPattern, op: Op, way: NearMatch) -> NearMatch:
    """That an op is another one than the pattern wants there."""
    if op.type not in p.types:
        return way.with_failure(
            MatchFailureKind.OPERATOR, op, f"{op.label} is not {join_alternatives(p.types)}", pattern_size(p)
        )
    wanted = f'g.domain("{op.domain}").{op.type}' if op.domain else f"g.{op.type}"
    why = f"{op.label} is of domain {op.domain or 'ai.onnx'}, the pattern wants {p.domain or 'ai.onnx'} ({wanted} fits)"
    return way.with_failure(MatchFailureKind.DOMAIN, op, why, pattern_size(p))


def _match_attribute(way: NearMatch, op: Op, name: str, want: Any, have: Any) -> NearMatch:
    """Hold an attribute to what the pattern says, or let a variable stand for it."""
    said = f"{op.label} has {f'no {name}' if have is None else f'{name}={format_attribute_value(have)}'}"
    if not isinstance(want, Var):
        if bool(have == want):
            return way
        why = have is None and _unknown_attribute_reason(op, name)
        return way.with_failure(
            MatchFailureKind.ATTRIBUTE, op, why or f"{said}, the pattern wants {format_attribute_value(want)}"
        )
    if want.name not in way.bindings:
        return replace(way, bindings={**way.bindings, want.name: have})
    known = way.bindings[want.name]
    why = f"{said}, but {want.name} is {format_attribute_value(known)} already"
    return way if bool(known == have) else way.with_failure(MatchFailureKind.VARIABLE, op, why)


def _unknown_attribute_reason(op: Op, name: str) -> str:
    """That an operator has no such attribute, nor an input of that name; nothing if it has, or nobody knows."""
    spec = op.schema
    known = () if spec is None else (*spec.attributes, *(i.name for i in spec.inputs))
    return f"{op.type} has no attribute {name}{did_you_mean(name, known)}" if known and name not in known else ""


def _has_interchangeable_inputs(op: Op) -> bool:
    """Whether an operator takes two inputs of one type, which are easily taken for each other."""
    spec = op.schema
    return spec is not None and len(spec.inputs) == 2 and spec.inputs[0].type_str == spec.inputs[1].type_str


def _bind_rest(way: NearMatch, op: Op, want: VariadicVar, values: Operands) -> NearMatch:
    if not want.name:
        return way
    known = way.bindings.get(want.name, values)
    if known != values:
        return way.with_failure(
            MatchFailureKind.VARIABLE, op, f"{want.name} stands for other inputs of {op.label} than before"
        )
    return replace(way, bindings={**way.bindings, want.name: values})


def _variable_label(want: Var, value: Value) -> str:
    """The name in the pattern, and that in the model."""
    return want.name if want.name == value.name else f"{want.name} ({value.name})"


def _value_label(value: Any) -> str:
    return value.name if isinstance(value, Value) else "nothing" if value is None else format_attribute_value(value)
