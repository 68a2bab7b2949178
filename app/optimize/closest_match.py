"""The closest match of a pattern at an op, with its mismatches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from math import inf
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.op_schemas import input_kind, input_names
from ...core.ir.values import Value
from ...core.operators.operands import attribute_or_input
from ...core.rewriting.pattern import Bindings, OpPattern, Var, VariadicVar, match_op
from ..report.descriptions import condition_text, describe_origin, describe_producer, format_attribute_value, ordinal


class MismatchKind(StrEnum):
    """The part of a rule that an op does not match.

    ORDER: two inputs are swapped. SHARED: an inner value of the match is read elsewhere. DECLINED: the rule declines
    the match. RAISED: the rule raises an exception. FORBIDDEN: the rule may not run here. DEAD: nothing reads the op's
    results.
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


class PatternMismatch(Struct, frozen=True):
    """One reason, as a sentence, and the op that it is about. `bindings` describe the variables of the pattern."""

    kind: MismatchKind
    op_label: str
    reason: str
    bindings: dict[str, str] | None = None


SWAPPED_INPUTS_COST = 0.5  # less than any other mismatch, because it explains all that differ in the given order
STRUCTURAL_KINDS = frozenset({MismatchKind.OPERATOR, MismatchKind.DOMAIN})


@dataclass(slots=True)
class _Best:
    """The lowest cost so far."""

    cost: float = inf


class NearMatch(Struct, frozen=True):
    """The mismatches of a partial match and their cost, which is lower than the best cost so far.

    A missing operator costs as much as the part of the pattern above it; all attributes of one op cost as much as one.
    `unfit` are the ops whose attributes do not match; `matched` is the number of the other ops.
    """

    graph: Graph
    best: _Best = field(default_factory=_Best)
    failures: tuple[PatternMismatch, ...] = ()
    cost: float = 0
    unfit: tuple[Op, ...] = ()
    matched: int = 0

    def with_failure(self, kind: MismatchKind, op: Op, why: str, cost: float = 1) -> NearMatch | None:
        """Return the record with one more failure; None if its cost is no longer lower than the best."""
        if self.cost + cost >= self.best.cost:
            return None
        return replace(self, failures=(*self.failures, PatternMismatch(kind, op.label, why)), cost=self.cost + cost)

    def _add_attribute(self, kind: MismatchKind, op: Op, why: str) -> NearMatch | None:
        if self.unfit[-1:] == (op,):
            return self.with_failure(kind, op, why, 0)
        return replace(self, unfit=(*self.unfit, op)).with_failure(kind, op, why)

    def wrong_operator(self, p: OpPattern, op: Op) -> NearMatch | None:
        """Add that the op has another type or domain than the pattern."""
        if op.type not in p.types:
            why = f"{op.label} is not {' or '.join(p.types)}"
            return self.with_failure(MismatchKind.OPERATOR, op, why, pattern_size(p))
        wanted = f'g.domain("{op.domain}").{op.type}' if op.domain else f"g.{op.type}"
        domains = f"of domain {op.domain or 'ai.onnx'}; the pattern requires {p.domain or 'ai.onnx'}"
        return self.with_failure(
            MismatchKind.DOMAIN, op, f"{op.label} is {domains} ({wanted} matches)", pattern_size(p)
        )

    def wrong_producer(
        self, p: OpPattern, op: Op, index: int, want: OpPattern, value: Value | None
    ) -> NearMatch | None:
        """Add that an input comes from another op or output, or that no input comes from a matching one."""
        wanted, producer = " or ".join(want.types), self.graph.producer(value)
        before = takewhile(lambda i: i is not want, p.inputs)
        is_after_others = any(isinstance(i, VariadicVar) for i in before) and want in p.inputs
        is_anywhere = len(op.inputs) > 1 and (is_after_others or len(p.input_orders(op)) > 1)
        if producer is not None and value is not None and producer.type in want.types:
            output = f"{ordinal(producer.outputs.index(value))} output of {producer.label}"
            why = f"the {ordinal(index)} input of {op.label} is the {output}, not its {ordinal(want.output)}"
        elif is_anywhere and not any(
            m.type in want.types for m in map(self.graph.producer, op.inputs) if m is not None
        ):
            found = " and ".join(describe_producer(v, self.graph) for v in op.inputs)
            why = f"no input of {op.label} comes from {wanted}: they come from {found}"
        else:
            why = f"the {ordinal(index)} input of {op.label} {describe_origin(value, self.graph)}, not from {wanted}"
        return self.with_failure(MismatchKind.OPERATOR, op, why, pattern_size(want))

    def computed_attribute(self, op: Op, name: str) -> NearMatch | None:
        """Add that an attribute, which is an input at this opset, is not constant."""
        value = attribute_or_input(op, name)
        why = f"{name} of {op.label} is not constant: it {describe_origin(value, self.graph)}"
        if isinstance(value, Value) and value.is_const:
            wanted = "number" if input_kind(op.type, op.domain, name) == "number" else "list"
            why = f"{name} of {op.label} is a constant of shape {list(value.const.shape)}, not a {wanted}"
        return self._add_attribute(MismatchKind.CONSTANT, op, why)

    def wrong_attribute(self, op: Op, name: str, have: Any, want: Any, var: Var | None) -> NearMatch | None:
        """Add that an attribute differs from the pattern, or from the value that its variable is bound to."""
        said = f"{op.label} has {f'no {name}' if have is None else f'{name}={format_attribute_value(have)}'}"
        if var is not None:
            why = f"{said}, but {var.name} is {format_attribute_value(want)} already"
            return self._add_attribute(MismatchKind.VARIABLE, op, why)
        if isinstance(want, Var) or callable(want):
            why = f"{said}, which does not satisfy {condition_text(want)}"
            return self._add_attribute(MismatchKind.ATTRIBUTE, op, why)
        known = () if op.schema is None else (*op.schema.attributes, *(i.name for i in op.schema.inputs))
        why = f"{said}; the pattern requires {format_attribute_value(want)}"
        if have is None and known and name not in known:
            why = f"{op.type} has no attribute {name} at opset {op.version}"
        return self._add_attribute(MismatchKind.ATTRIBUTE, op, why)

    def unnamed_attribute(self, op: Op, name: str, value: Any, default: Any) -> NearMatch | None:
        """Add that an attribute that the pattern does not name differs from its default."""
        usual = "none" if default is None else f"the default {format_attribute_value(default)}"
        found = f"{op.label} has {name}={format_attribute_value(value)}"
        why = f"{found}; the pattern does not name it, so it must be {usual}"
        return self._add_attribute(MismatchKind.ATTRIBUTE, op, why)

    def wrong_input(self, op: Op, index: int, want: Var, value: Value | None, bound: Bindings) -> NearMatch | None:
        """Add that an input is missing, not constant, or not the value that its variable is bound to."""
        if value is None and not want.optional:
            why = f"{op.label} has no {ordinal(index)} input, {want.name} in the pattern"
            return self.with_failure(MismatchKind.INPUTS, op, why)
        found: NearMatch | None = self
        if value is not None and want.constant and not value.is_const:
            label = want.name if want.name == value.name else f"{want.name} ({value.name})"
            why = f"{label} is not constant: it {describe_origin(value, self.graph)}"
            found = self.with_failure(MismatchKind.CONSTANT, op, why)
        known = bound.get(want.name, value)
        if known is value or found is None:
            return found
        here = f"the {ordinal(index)} input of {op.label}"
        why = f"{want.name} would be bound to two values: {_value_label(known)} and, as {here}, {_value_label(value)}"
        return found.with_failure(MismatchKind.VARIABLE, op, why)

    def wrong_number(self, op: Op, index: int, want: float | None, value: Value | None) -> NearMatch | None:
        """Add that an input is not the pattern's number, would add dims, or is present where None is required."""
        if want is None and value is not None:
            why = f"{op.label} has a {ordinal(index)} input, {value.name}, which the pattern does not have"
            return self.with_failure(MismatchKind.INPUTS, op, why)
        origin = f"is {value.name}" if value is not None and value.is_const else describe_origin(value, self.graph)
        why = f"the {ordinal(index)} input of {op.label} is not the number {want}, which adds no dims: it {origin}"
        return self.with_failure(MismatchKind.CONSTANT, op, why)

    def wrong_inputs(self, op: Op, want: VariadicVar) -> NearMatch | None:
        """Add that inputs are not those that their variable is bound to."""
        why = f"{want.name} is bound to other inputs than {op.label} has"
        return self.with_failure(MismatchKind.VARIABLE, op, why)

    def further_input(self, p: OpPattern, op: Op, index: int, value: Value) -> NearMatch | None:
        """Add that the op has more inputs than the pattern, for example one that is an attribute at another opset."""
        why = f"{op.label} has a {ordinal(index)} input, {value.name}; the pattern has {index or 'none'}"
        formal = input_names(op.type, op.domain, op.version)[index : index + 1]
        if former := [name for name, _ in p.attrs if name.casefold() in map(str.casefold, formal)]:
            why += f", where {former[0]} is an attribute; at opset {op.version} it is the input {formal[0]}"
        return self.with_failure(MismatchKind.INPUTS, op, why)

    def missing_root(self, op: Op, want: OpPattern) -> NearMatch | None:
        """Add that no op matches a further root of the pattern."""
        why = f"no other op that reads a value of the match is {' or '.join(want.types)} as in the pattern"
        return self.with_failure(MismatchKind.OPERATOR, op, why, pattern_size(want))

    def swapped_inputs(self, op: Op) -> NearMatch | None:
        """Add that the two inputs are swapped, if they have one type and are easily confused."""
        formal = op.schema.inputs if op.schema is not None else ()
        if len(formal) != 2 or formal[0].type_str != formal[1].type_str:
            return None
        why = f"{op.label} has its two inputs swapped"
        return self.with_failure(MismatchKind.ORDER, op, why, SWAPPED_INPUTS_COST)


def closest_match(pattern: OpPattern, op: Op) -> NearMatch:
    """The partial match with the lowest cost, the first of several; without failures, it is a match.

    A missing operator comes first among its failures, because others may follow from it.
    """
    found = start = NearMatch(op.graph)
    for _, covered, way in match_op(pattern, op, start):
        assert isinstance(way, NearMatch)
        if way.cost < start.best.cost:
            found, start.best.cost = replace(way, matched=len(covered) - len(way.unfit)), way.cost
        if not way.cost:
            break
    return replace(found, failures=tuple(sorted(found.failures, key=lambda m: m.kind not in STRUCTURAL_KINDS)))


def pattern_size(pattern: OpPattern) -> int:
    """The number of operators of a pattern."""
    return sum(1 for _ in pattern.walk())


def _value_label(value: Any) -> str:
    return value.name if isinstance(value, Value) else "nothing" if value is None else format_attribute_value(value)
