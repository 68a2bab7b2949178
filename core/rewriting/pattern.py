"""Patterns: a lambda over the operators to find, traced once into data, and their matching."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import RuleError
from ..ir import op_schemas
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.traits import Trait, ops_with
from ..ir.values import Value

COMMUTATIVE = ops_with(Trait.COMMUTATIVE)


@dataclass(frozen=True, slots=True)
class Var:
    """A name for a value or an attribute; `constant` ones match constants only. `*var` takes any number of inputs."""

    name: str
    optional: bool = False
    constant: bool = False

    def __iter__(self) -> Iterator[VariadicVar]:
        yield VariadicVar(self.name)


@dataclass(frozen=True, slots=True)
class VariadicVar:
    """Any number of inputs, bound as a tuple; without a name, `...` in a pattern, not bound."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class OpPattern:
    """An operator of one of `types` with patterns for its inputs and attributes."""

    types: tuple[str, ...]
    domain: str
    inputs: tuple[Any, ...]
    attrs: tuple[tuple[str, Any], ...] = field(hash=False)  # lists among them have no hash
    bound_name: str = ""
    output: int = 0

    def __matmul__(self, var: Var) -> OpPattern:
        """`g.Conv(x, w) @ conv` binds the matched op itself; its attributes may then be anything."""
        return replace(self, bound_name=var.name)

    def __getitem__(self, output: int) -> OpPattern:
        """`g.Split(x)[1]` stands for the second output."""
        return replace(self, output=output)

    def walk(self) -> Iterator[OpPattern]:
        """The pattern and those of its inputs, at any depth, the root first."""
        yield self
        for want in self.inputs:
            if isinstance(want, OpPattern):
                yield from want.walk()

    def operators(self) -> tuple[str, ...]:
        """The operators of the pattern, each once, as in `Conv` or `com.microsoft:Gelu`."""
        found = (f"{p.domain}:{t}" if p.domain else t for p in self.walk() for t in p.types)
        return tuple(dict.fromkeys(found))

    def input_orders(self, op: Op) -> tuple[tuple[Any, ...], ...]:
        """The input patterns in every order to be tried at `op`: in both if it commutes."""
        if len(self.inputs) == 2 and op.type in COMMUTATIVE and not self.domain:
            return (self.inputs, self.inputs[::-1])
        return (self.inputs,)


class PatternBuilder:
    """Stands in for the builder while a pattern is traced: `g.Conv(x, w)` becomes an OpPattern."""

    def __init__(self, domain: str = op_schemas.ONNX_DOMAIN) -> None:
        self._domain = domain

    def domain(self, name: str) -> PatternBuilder:
        """Operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
        return PatternBuilder(name)

    def one_of(self, *types: str) -> Callable[..., OpPattern]:
        """Any of several operators with the same inputs: `g.one_of("Add", "Sub")(x, y)`.

        `...` among the inputs takes any number of them: `g.Add(..., g.Conv(...) @ conv, ...) @ add`.
        """
        return lambda *inputs, **attrs: OpPattern(
            types, self._domain, tuple(VariadicVar() if i is ... else i for i in inputs), tuple(attrs.items())
        )

    def const(self, var: Var) -> Var:
        """An input that holds a constant: `g.Mul(x, g.const(c))`."""
        return replace(var, constant=True)

    def __getattr__(self, op_type: str) -> Callable[..., OpPattern]:
        return self.one_of(op_type)


def trace_pattern(pattern: Callable[..., OpPattern]) -> tuple[OpPattern, list[str]]:
    """The pattern that a lambda describes, and its variables. A default of None marks an optional input."""
    parameters = list(inspect.signature(pattern).parameters.values())[1:]
    variables = [Var(p.name, optional=p.default is not inspect.Parameter.empty) for p in parameters]
    root: Any = pattern(PatternBuilder(), **{v.name: v for v in variables})
    if not isinstance(root, OpPattern):
        raise RuleError("a pattern must be an operator, such as lambda g, x: g.Relu(x)")
    if root.output:
        raise RuleError("a pattern's root stands for all its outputs: return one value for each")
    return root, [v.name for v in variables]


Bindings = dict[str, Any]
UNBOUND = "..."  # the key of all inputs that `...` took, which no variable has
PartialMatch = tuple[Bindings, tuple[Op, ...]]


def match_op(p: OpPattern, op: Op, graph: Graph, bound: Bindings, covered: tuple[Op, ...]) -> Iterator[PartialMatch]:
    """Every way in which `p` matches at `op`: the bindings, and the ops covered so far. Cost: the pattern's size."""
    if op.type not in p.types or op.domain != p.domain or not _producers_can_match(p, op, graph):
        return
    here, values = dict(bound), op.inputs
    if p.bound_name:
        here[p.bound_name] = op
    for name, want in p.attrs:
        known, have, values = attribute_or_input(op, name, values)
        if not known or not _bind_attribute(here, want, have):
            return
    if not p.bound_name and any(non_default_attributes(p, op)):
        return
    while values and values[-1] is None:
        values = values[:-1]
    for order in p.input_orders(op):
        yield from _match_inputs(order, values, graph, here, (*covered, op))


def _producers_can_match(p: OpPattern, op: Op, graph: Graph) -> bool:
    """Whether each operator that the pattern wants right above is there at all."""
    for want in p.inputs:
        if isinstance(want, OpPattern) and not any(
            (maker := graph.producer(v)) is not None and maker.type in want.types for v in op.inputs
        ):
            return False
    return True


def attribute_or_input(
    op: Op, name: str, values: tuple[Value | None, ...]
) -> tuple[bool, Any, tuple[Value | None, ...]]:
    """An attribute, or the constant input that took its place in a later opset; and the inputs that remain."""
    spec = op.schema
    names = op_schemas.input_names(op.type, op.domain, op.version)
    if spec is None or name in spec.attributes or name not in names:
        return True, op.attr(name), values
    index = names.index(name)
    value = op.input(index)
    if value is not None and not value.is_const:
        return False, None, values
    return True, None if value is None else value.const.tolist(), (*values[:index], None, *values[index + 1 :])


def _bind_attribute(bound: Bindings, want: Any, have: Any) -> bool:
    if not isinstance(want, Var):
        return bool(have == want)
    if want.name in bound:
        return bool(bound[want.name] == have)
    bound[want.name] = have
    return True


def non_default_attributes(p: OpPattern, op: Op) -> Iterator[tuple[str, Any, Any]]:
    """Attributes that the pattern does not name and that are not at their schema default: name, value, default."""
    named = {name for name, _ in p.attrs}
    for name, value in op.attrs.items():
        if name not in named:
            default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
            if value != default:
                yield name, value, default


def _match_inputs(
    patterns: tuple[Any, ...], values: tuple[Value | None, ...], graph: Graph, bound: Bindings, covered: tuple[Op, ...]
) -> Iterator[PartialMatch]:
    if not patterns:
        if not any(values):
            yield bound, covered
        return
    want, rest = patterns[0], patterns[1:]
    if isinstance(want, VariadicVar):
        for size in variadic_counts(rest, len(values)):
            taken = values[:size] if want.name else (*bound.get(UNBOUND, ()), *values[:size])
            if not want.name or bound.get(want.name, taken) == taken:
                here = {**bound, want.name or UNBOUND: taken}
                yield from _match_inputs(rest, values[size:], graph, here, covered)
        return
    value = values[0] if values else None
    if isinstance(want, Var):
        fits = want.optional if value is None else (value.is_const or not want.constant)
        if fits and bound.get(want.name, value) is value:
            yield from _match_inputs(rest, values[1:], graph, {**bound, want.name: value}, covered)
    elif (
        (op := graph.producer(value)) is not None and want.output < len(op.outputs) and op.outputs[want.output] is value
    ):
        for inner, ops in match_op(want, op, graph, bound, covered):
            yield from _match_inputs(rest, values[1:], graph, inner, ops)


def variadic_counts(after: tuple[Any, ...], count: int) -> Iterator[int]:
    """How many inputs a VariadicVar may take, given the patterns after it."""
    room = count - sum(not isinstance(p, VariadicVar) for p in after)
    if any(isinstance(p, VariadicVar) for p in after):
        yield from range(max(room, 0) + 1)
    elif room >= 0:
        yield room
