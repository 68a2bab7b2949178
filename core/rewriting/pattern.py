"""Patterns: a lambda over the operators to find, traced once into data, and their matching."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isfinite
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from msgspec import Struct, structs

from ..errors import RuleError
from ..ir import op_schemas
from ..ir.dtypes import FLOATS
from ..ir.op import Op
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.table import ops_with

COMMUTATIVE = ops_with(Trait.COMMUTATIVE)
BROADCASTING = ops_with(Trait.BROADCASTING)
MAX_TRIED_POSITIONS = 64  # of the inputs of one op, at which a pattern after a variadic variable is tried


class Var(Struct, frozen=True):
    """A name for a value or an attribute; `constant` ones match constants only. `*var` takes any number of inputs.

    Examples:
        >>> @rule(lambda g, xs, a: g.Concat(*xs, axis=a))
        ... def concat_one(g: RewriteBuilder, xs: tuple[Value, ...], a: int) -> Value:
        ...     "Concat(x) => x"
        ...     require(len(xs) == 1, "it joins several values")
        ...     return xs[0]
    """

    name: str
    optional: bool = False
    constant: bool = False

    def __iter__(self) -> Iterator[VariadicVar]:
        yield VariadicVar(self.name)


class VariadicVar(Struct, frozen=True):
    """Any number of inputs, bound as a tuple; without a name, `...` in a pattern, not bound."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class OpPattern:
    """An operator of one of `types` with patterns for its inputs and attributes.

    Among the inputs, a number is a constant: see `is_number`.

    Examples:
        >>> def shared_scale(g: PatternBuilder, x: Var, c: Var) -> OpPattern:
        ...     return g.Mul(x, g.const(c))
        >>> @rule(lambda g, x, y, c: g.Add(shared_scale(g, x, c), shared_scale(g, y, c)))
        ... def scale_once(g: RewriteBuilder, x: Value, y: Value, c: Value) -> Value:
        ...     "x * c + y * c => (x + y) * c"
        ...     return g.Mul(g.Add(x, y), c)
        >>> scale_once.patterns[0].operators()
        ('Add', 'Mul')
    """

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
        """`g.Split(x)[1]` is the second output."""
        return replace(self, output=output)

    def walk(self) -> Iterator[OpPattern]:
        """The pattern and the patterns of its inputs, at any depth, the root first."""
        yield self
        for want in self.inputs:
            if isinstance(want, OpPattern):
                yield from want.walk()

    def operators(self) -> tuple[str, ...]:
        """The operators of the pattern, each once, as in `Conv` or `com.microsoft.Gelu`."""
        found = (op_schemas.qualified_op_type(p.domain, t) for p in self.walk() for t in p.types)
        return tuple(dict.fromkeys(found))

    def input_orders(self, op: Op) -> tuple[tuple[Any, ...], ...]:
        """The input patterns in every order to be tried at `op`: in both if it commutes."""
        if len(self.inputs) == 2 and op.type in COMMUTATIVE and not self.domain:
            return (self.inputs, self.inputs[::-1])
        return (self.inputs,)


if TYPE_CHECKING:
    from .operator_methods import OperatorPatterns  # pyright: ignore[reportMissingModuleSource] - for checkers alone
else:
    OperatorPatterns = object

PatternInput = Var | VariadicVar | OpPattern | float | EllipsisType


class PatternBuilder(OperatorPatterns):
    """Stands in for the builder while a pattern is traced: `g.Conv(x, w)` becomes an OpPattern.

    Examples:
        >>> @rule(
        ...     lambda g, x, w, conv, b=None: g.one_of("Relu", "Abs")(g.Conv(x, g.const(w), b) @ conv),
        ... )
        ... def apply_late(g: RewriteBuilder, x: Value, conv: Op) -> Value:
        ...     "of an activation of a Conv, with or without a bias"
        ...     require(conv.attr("group", 1) == 1, "it has groups")
        ...     return conv.outputs[0]
    """

    def __init__(self, domain: str = op_schemas.ONNX_DOMAIN) -> None:
        self._domain = domain

    def one_of(self, *types: str) -> Callable[..., OpPattern]:
        """Any of several operators with the same inputs: `g.one_of("Add", "Sub")(x, y)`.

        `...` among the inputs takes any number of them: `g.Add(..., g.Conv(...) @ conv, ...) @ add`.
        """

        def describe(*inputs: Any, **attrs: Any) -> OpPattern:
            wanted = tuple(VariadicVar() if i is ... else i for i in inputs)
            given = sum(not isinstance(i, VariadicVar) for i in wanted)
            most = op_schemas.VARIADIC if given < len(wanted) else given + len(attrs)
            least = sum(not (isinstance(i, VariadicVar) or (isinstance(i, Var) and i.optional)) for i in wanted)
            for op_type in types:
                if why := op_schemas.misuse(op_type, self._domain, (least, most), frozenset(attrs)):
                    raise RuleError(f"it never matches, as {why}")
            return OpPattern(types, self._domain, wanted, tuple(attrs.items()))

        return describe

    def const(self, var: Var) -> Var:
        """An input that holds a constant: `g.Mul(x, g.const(c))`."""
        return structs.replace(var, constant=True)

    if not TYPE_CHECKING:

        def domain(self, name: str) -> PatternBuilder:
            """Operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
            return PatternBuilder(name)

        def __getattr__(self, op_type: str) -> Callable[..., OpPattern]:
            return self.one_of(op_type)


Pattern = (
    Callable[[PatternBuilder], OpPattern]
    | Callable[[PatternBuilder, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], OpPattern]
    | Callable[..., OpPattern]
)
"""A function of the builder and of variables, each of any name. A checker takes the types of a lambda from it."""


def trace_pattern(pattern: Pattern) -> tuple[OpPattern, list[str]]:
    """The pattern that a lambda describes, and its variables. A default of None marks an optional input."""
    parameters = list(inspect.signature(pattern).parameters.values())[1:]
    for p in parameters:
        if p.kind in {p.VAR_POSITIONAL, p.VAR_KEYWORD}:
            raise RuleError(f"*{p.name} has no star among the parameters, as in lambda g, x: g.Concat(*x)")
    traced: Any = pattern
    variables = [Var(p.name, optional=p.default is not inspect.Parameter.empty) for p in parameters]
    try:
        root: Any = traced(PatternBuilder(), **{v.name: v for v in variables})
    except (NameError, TypeError) as e:
        raise RuleError(f"{e}; a pattern calls operators of g on parameters of its lambda") from e
    if not isinstance(root, OpPattern):
        raise RuleError("a pattern must be an operator, such as lambda g, x: g.Relu(x)")
    if root.output:
        raise RuleError("a pattern's root replaces all its outputs: return one value for each")
    return root, [v.name for v in variables]


Bindings = dict[str, Any]
ANY_INPUTS = (VariadicVar(),)  # `...` as the last input of a pattern
UNBOUND = "..."  # the key of all inputs that `...` took, which no variable has
Operands = tuple[Value | None, ...]


class Trace(Protocol):
    """An immutable record of the misfits of a partial match, with which matching goes on behind each misfit.

    Every method returns the record with one more misfit, or None to abandon the partial match.
    """

    def wrong_operator(self, p: OpPattern, op: Op) -> Trace | None:
        """`op` has another type or domain than `p`."""

    def wrong_producer(self, p: OpPattern, op: Op, index: int, want: OpPattern, value: Value | None) -> Trace | None:
        """`value`, the input of `op` at `index`, is not the output of an op that `want` describes."""

    def computed_attribute(self, op: Op, name: str) -> Trace | None:
        """An attribute is an input at this opset, and not constant."""

    def wrong_attribute(self, op: Op, name: str, have: Any, want: Any, var: Var | None) -> Trace | None:
        """An attribute is not as in the pattern, or not the value that its variable `var` already has."""

    def unnamed_attribute(self, op: Op, name: str, value: Any, default: Any) -> Trace | None:
        """An attribute that the pattern does not name is not at its default."""

    def wrong_input(self, op: Op, index: int, want: Var, value: Value | None, bound: Bindings) -> Trace | None:
        """The input of `op` at `index` is missing, not constant, or not the value that `want` already has."""

    def wrong_number(self, op: Op, index: int, want: float, value: Value | None) -> Trace | None:
        """The input of `op` at `index` is not a constant that is the number `want`."""

    def wrong_inputs(self, op: Op, want: VariadicVar) -> Trace | None:
        """Inputs of `op` are not those that `want` already has."""

    def further_input(self, op: Op, index: int, value: Value) -> Trace | None:
        """`op` has more inputs than the pattern."""

    def swapped_inputs(self, op: Op) -> Trace | None:
        """The two inputs of `op`, whose order matters, are tried in the other order."""


PartialMatch = tuple[Bindings, tuple[Op, ...], Trace | None]


def match_op(p: OpPattern, op: Op, trace: Trace | None = None) -> Iterator[PartialMatch]:
    """Every way in which `p` matches at `op`: the bindings, and the ops it covers. Cost: the pattern's size.

    With a `trace` also the ways that do not match entirely, each with the record of its misfits.
    """
    return _match_at(p, op, ({}, (), trace))


def _match_at(p: OpPattern, op: Op, found: PartialMatch) -> Iterator[PartialMatch]:
    bound, covered, trace = found
    if op.type not in p.types or op.domain != p.domain:
        if trace is not None and (trace := trace.wrong_operator(p, op)) is not None:
            yield bound, covered, trace
        return
    if not op.domain and op.schema is None:  # its meaning at this opset, and its attributes, are unknown
        return
    if trace is None and not _producers_can_match(p, op):
        return
    matched = _match_attributes(p, op, bound, trace)
    if matched is None:
        return
    here, values, trace = matched
    site, orders, covered = _Site(p, op, values), p.input_orders(op), (*covered, op)
    for order in orders:
        yield from _match_inputs(site, order, 0, (here, covered, trace))
    is_pair = len(orders) == 1 and len(values) == len(p.inputs) == 2
    if trace is not None and is_pair and (trace := trace.swapped_inputs(op)) is not None:
        yield from _match_inputs(_Site(p, op, values[::-1]), p.inputs, 0, (here, covered, trace))


def _producers_can_match(p: OpPattern, op: Op) -> bool:
    """Whether each operator that the pattern wants right above is there at all."""
    for want in p.inputs:
        if isinstance(want, OpPattern):
            for v in op.inputs:
                if (producer := op.graph.producer(v)) is not None and producer.type in want.types:
                    break
            else:
                return False
    return True


def _match_attributes(
    p: OpPattern, op: Op, bound: Bindings, trace: Trace | None
) -> tuple[Bindings, Operands, Trace | None] | None:
    """The bindings with attributes, the inputs that are not attributes, and the trace; None for other attributes."""
    here, values = dict(bound), op.inputs
    if p.bound_name:
        here[p.bound_name] = op
    for name, want in p.attrs:
        is_known, have, values = _attribute_or_input(op, name, values)
        var = want if isinstance(want, Var) else None
        if not is_known:
            trace = trace and trace.computed_attribute(op, name)
        elif var is not None and var.name not in here:
            here[var.name] = have
            continue
        elif bool(have == (wanted := want if var is None else here[var.name])):
            continue
        else:
            trace = trace and trace.wrong_attribute(op, name, have, wanted, var)
        if trace is None:
            return None
    for unnamed in () if p.bound_name else _unnamed_attributes(p, op):
        if trace is None or (trace := trace.unnamed_attribute(op, *unnamed)) is None:
            return None
    while values and values[-1] is None:
        values = values[:-1]
    return here, values, trace


def _attribute_or_input(op: Op, name: str, values: Operands) -> tuple[bool, Any, Operands]:
    """Whether an attribute, or the input that took its place in a later opset, is known; it; and the other inputs."""
    spec = op.schema
    names = op_schemas.input_names(op.type, op.domain, op.version)
    if spec is None or name in spec.attributes or name not in names:
        return True, op.attr(name), values
    index = names.index(name)
    value = op.input(index)
    others = (*values[:index], None, *values[index + 1 :])
    if value is None:
        return True, None, others
    if value.is_const and value.const.size == 1 and op_schemas.replaces_number(op.type, op.domain, name):
        return True, value.const.item(), others  # of any rank
    if not value.is_const or value.const.ndim > 1:
        return False, None, others
    return True, value.const.reshape(-1).tolist(), others  # onnxruntime takes one axis as a scalar too


def _unnamed_attributes(p: OpPattern, op: Op) -> Iterator[tuple[str, Any, Any]]:
    """Attributes that the pattern does not name and that are not at their schema default: name, value, default."""
    named = {name for name, _ in p.attrs}
    for name, value in op.attrs.items():
        if name not in named:
            default = op_schemas.attribute_default(op.type, op.domain, op.version, name)
            if value != default:
                yield name, value, default


class _Site(NamedTuple):
    """A pattern at an op; `values` are the inputs that are not attributes of the pattern."""

    pattern: OpPattern
    op: Op
    values: Operands


def _match_inputs(site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch) -> Iterator[PartialMatch]:
    """Every way in which the patterns `wanted` match the inputs from that at `index` on."""
    bound, covered, trace = found
    while wanted and isinstance(want := wanted[0], Var):
        value = site.values[index] if index < len(site.values) else None
        fits = want.optional if value is None else (value.is_const or not want.constant)
        if (not fits or bound.get(want.name, value) is not value) and (
            trace is None or (trace := trace.wrong_input(site.op, index, want, value, bound)) is None
        ):
            return
        if want.name not in bound and (fits or value is not None):
            bound = {**bound, want.name: value}
        wanted, index = wanted[1:], index + 1
    if wanted == ANY_INPUTS:
        yield {**bound, UNBOUND: (*bound.get(UNBOUND, ()), *site.values[index:])}, covered, trace
        return
    if wanted:
        is_inner, is_several = isinstance(wanted[0], OpPattern), isinstance(wanted[0], VariadicVar)
        step = _match_producer if is_inner else _match_variadic if is_several else _match_number
        for following, inner in step(site, wanted, index, (bound, covered, trace)):
            yield from _match_inputs(site, wanted[1:], following, inner)
        return
    for value in site.values[index:]:
        if value is not None:
            if trace is None or (trace := trace.further_input(site.op, site.values.index(value, index), value)) is None:
                return
            break
    yield bound, covered, trace


def _match_number(
    site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch
) -> Iterator[tuple[int, PartialMatch]]:
    """The match of a number with the input at `index`."""
    bound, covered, trace = found
    value = site.values[index] if index < len(site.values) else None
    if is_number(value, wanted[0], site.op):
        yield index + 1, found
    elif trace is not None and (trace := trace.wrong_number(site.op, index, wanted[0], value)) is not None:
        yield index + 1, (bound, covered, trace)


def is_number(value: Value | None, number: float, op: Op) -> bool:
    """Whether an input of `op` is a constant of one element, which is `number` in its own element type.

    It has no more dims, all 1, than another operand of an operator that broadcasts; else it has none. Zeros
    of different signs are different numbers. A number that becomes 0 or infinite in an element type is none there.
    """
    shape = value.known_shape if value is not None and value.is_const else None
    if value is None or shape is None or any(d != 1 for d in shape):
        return False
    others = [v.known_shape for v in op.inputs if v is not None and v is not value] if op.type in BROADCASTING else []
    if shape and not any(other is not None and len(other) >= len(shape) for other in others):
        return False
    found = value.const.reshape(())
    if found.dtype.kind in "biu":
        return bool(found.item() == number)
    if value.known_dtype not in FLOATS:
        return False
    with np.errstate(all="ignore"):
        wanted = np.asarray(number).astype(found.dtype)
    is_kept = isfinite(wanted) == isfinite(number) and bool(wanted) == bool(number)
    return is_kept and wanted.tobytes() == found.tobytes()


def _match_producer(
    site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch
) -> Iterator[tuple[int, PartialMatch]]:
    """Every way in which the first of the patterns matches the producer of the input at `index`."""
    bound, covered, trace = found
    want = wanted[0]
    value = site.values[index] if index < len(site.values) else None
    op = site.op.graph.producer(value)
    if op is not None and op.type in want.types and want.output < len(op.outputs) and op.outputs[want.output] is value:
        for inner in _match_at(want, op, found):
            yield index + 1, inner
    elif trace is not None and (trace := trace.wrong_producer(site.pattern, site.op, index, want, value)) is not None:
        yield index + 1, (bound, covered, trace)


def _match_variadic(
    site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch
) -> Iterator[tuple[int, PartialMatch]]:
    """Every number of inputs that the first of the patterns, a VariadicVar, may take."""
    bound, covered, trace = found
    want, rest = wanted[0], wanted[1:]
    room = len(site.values[index:]) - sum(not isinstance(p, VariadicVar) for p in rest)
    is_open = any(isinstance(p, VariadicVar) for p in rest)
    sizes: Iterable[int] = range(max(room, 0) + 1) if is_open else range(max(room, 0), room + 1)
    if is_open and isinstance(following := rest[0], OpPattern):
        makers = map(site.op.graph.producer, site.values[index:]) if trace is None else ()
        fitting = (i for i, op in enumerate(makers) if op is not None and op.type in following.types and i <= room)
        sizes = tuple(islice(sizes if trace is not None else fitting, MAX_TRIED_POSITIONS))
    for size in sizes or (() if trace is None else (0,)):
        taken = site.values[index : index + size]
        if not want.name:
            yield index + size, ({**bound, UNBOUND: (*bound.get(UNBOUND, ()), *taken)}, covered, trace)
        elif bound.get(want.name, taken) == taken:
            yield index + size, ({**bound, want.name: taken}, covered, trace)
        elif trace is not None and (other := trace.wrong_inputs(site.op, want)) is not None:
            yield index + size, (bound, covered, other)
