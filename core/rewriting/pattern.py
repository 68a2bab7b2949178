"""Patterns: a lambda over the operators to match, traced once into data, and matching."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import isfinite, prod
from types import EllipsisType, FunctionType, MethodType, NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar, cast

import numpy as np
from msgspec import Struct, structs

from ..errors import RuleError
from ..ir import op_schemas
from ..ir.dtypes import FLOATS
from ..ir.op import Op
from ..ir.python_operators import PythonOperators
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.table import ops_with
from ..support.author_errors import describe_exception, is_each, require_argument, require_type

COMMUTATIVE = ops_with(Trait.COMMUTATIVE)
BROADCASTING = ops_with(Trait.BROADCASTING)
MAX_TRIED_POSITIONS = 64  # inputs of one op, or consumers of a value, at which a pattern is tried
MAX_SPELLINGS = 64  # variants of one pattern, by its alternatives
Predicate = Callable[[Any], object]
"""A condition on the value of an attribute."""


class Expression(PythonOperators["OpPattern"]):
    """A part of a pattern, in which `x * 2` is `g.Mul(x, 2)`."""

    __slots__ = ()

    def _operator(self, op_type: str, *operands: Any) -> OpPattern:
        return PatternBuilder().one_of(op_type)(*operands)

    def __bool__(self) -> bool:
        raise RuleError("a part of a pattern has no truth value: instead of 0 < x < 1, write g.And(0 < x, x < 1)")


class Var(Expression, Struct, frozen=True):
    """A name for a value or attribute; `constant` ones match only constants. `*var` matches any number of inputs.

    If there is a predicate `accepts`, an attribute must satisfy it.

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
    accepts: Predicate | None = None

    def __matmul__(self, var: object) -> NoReturn:
        """Raise RuleError, because `@` only binds ops."""
        raise RuleError(f"@ binds an op, such as g.Relu(x) @ relu, but {self.name} is only a variable")

    def __iter__(self) -> Iterator[VariadicVar]:
        yield VariadicVar(self.name)


class VariadicVar(Struct, frozen=True):
    """Any number of inputs, bound as a tuple; `...` in a pattern has no name, and is not bound."""

    name: str = ""


class EachInput(Struct, frozen=True):
    """One or more inputs, each of which comes from an op that matches `pattern`.

    Its variables for inputs and ops, `names`, are bound to tuples with an element for each input; an attribute has one
    value for all.
    """

    pattern: OpPattern
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpPattern(Expression):
    """An operator of one of `types`, with patterns for its inputs and attributes.

    A number among the inputs is a constant; see `is_number`. A function among the attributes is a predicate. With
    `may_be_outside`, the op may be in an enclosing graph. `others` are further roots.

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
    attrs: tuple[tuple[str, Any], ...] = field(hash=False)  # contains lists, which have no hash
    bound_name: str = ""
    output: int = 0
    may_be_outside: bool = False
    others: tuple[OpPattern, ...] = ()
    parts: tuple[OpPattern, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Collect the patterns of the inputs' producers, as `parts`."""
        made = [i if isinstance(i, OpPattern) else i.pattern for i in self.inputs if isinstance(i, MADE_BY_OPS)]
        object.__setattr__(self, "parts", tuple(made))

    def __matmul__(self, var: Var) -> OpPattern:
        """`g.Conv(x, w) @ conv` binds the matched op; its attributes are then not compared."""
        require_type(var, Var, "@", "a parameter of the lambda that binds the op, such as g.Relu(x) @ relu")
        own = self.output, self.may_be_outside, self.others  # `replace` takes five times as long, at each start
        return OpPattern(self.types, self.domain, self.inputs, self.attrs, var.name, *own)

    def __getitem__(self, output: int) -> OpPattern:
        """`g.Split(x)[1]` is the second output."""
        return replace(self, output=output)

    def walk(self) -> Iterator[OpPattern]:
        """Yield the pattern and its inputs' patterns, recursively, starting at the root; then other roots."""
        ahead: list[OpPattern] = [self]
        while ahead:
            part = ahead.pop()
            yield part
            ahead += (*part.parts, *part.others)[::-1]

    def variables(self) -> Iterator[str]:
        """Yield the names that a match binds, with repetitions."""
        for part in self.walk():
            if part.bound_name:
                yield part.bound_name
            for want in (*part.inputs, *dict(part.attrs).values()):
                if isinstance(want, NAMED) and want.name:
                    yield want.name

    def operators(self) -> tuple[str, ...]:
        """The distinct operators in the pattern, such as `Conv` or `com.microsoft.Gelu`."""
        found = (op_schemas.qualified_op_type(p.domain, t) for p in self.walk() for t in p.types)
        return tuple(dict.fromkeys(found))

    def input_orders(self, op: Op) -> tuple[tuple[Any, ...], ...]:
        """The input patterns in each order to try at `op`: both if it is commutative."""
        if len(self.inputs) == 2 and op.type in COMMUTATIVE and not self.domain:
            return (self.inputs, self.inputs[::-1])
        return (self.inputs,)


NAMED = (Var, VariadicVar)
MADE_BY_OPS = (OpPattern, EachInput)


if TYPE_CHECKING:
    from .operator_methods import OperatorPatterns  # pyright: ignore[reportMissingModuleSource] - for checkers alone
else:
    OperatorPatterns = object

Alternative = TypeVar("Alternative")
PatternInput = Var | VariadicVar | EachInput | OpPattern | float | EllipsisType | None
NamedInput = PatternInput | Sequence[Any] | Predicate
"""An input by name, or an attribute whose type is unknown."""


class PatternBuilder(OperatorPatterns):
    """Replaces the builder while a pattern is traced: `g.Conv(x, w)` becomes an OpPattern.

    `chosen` are the indices of the alternatives to use; `choices` are the numbers of available alternatives.

    Examples:
        >>> @rule(
        ...     lambda g, x, w, conv, b=None: g.one_of("Relu", "Abs")(g.Conv(x, g.const(w), b) @ conv),
        ... )
        ... def apply_late(g: RewriteBuilder, x: Value, conv: Op) -> Value:
        ...     "of an activation of a Conv, with or without a bias"
        ...     require(conv.attr("group", 1) == 1, "it has groups")
        ...     return conv.outputs[0]
    """

    def __init__(
        self, domain: str = op_schemas.ONNX_DOMAIN, chosen: Sequence[int] = (), choices: list[int] | None = None
    ) -> None:
        self._domain, self._chosen = domain, chosen
        self._choices: list[int] = [] if choices is None else choices

    def any_of(self, *alternatives: Alternative) -> Alternative:
        """One of several patterns or variables, tried in order: `g.any_of(g.Sigmoid(x), g.HardSigmoid(x))`."""
        if not alternatives:
            raise RuleError("g.any_of has no alternative")
        given: Any = alternatives
        is_right = len(given) > 1 or not isinstance(given[0], list | tuple)
        require_argument(is_right, "g.any_of", "several patterns, such as g.any_of(g.Relu(x), g.Abs(x))", given)
        self._choices.append(len(alternatives))
        at = len(self._choices) - 1
        return alternatives[self._chosen[at] if at < len(self._chosen) else 0]

    def each(self, pattern: OpPattern | Callable[..., OpPattern]) -> tuple[EachInput]:
        """One or more inputs with the same pattern: `g.Concat(*g.each(g.Relu(x)), axis=a)`, or `g.Relu` alone.

        `x` is a tuple of the inputs of all Relus; a bound op becomes a tuple of ops.
        """
        given: Any = pattern
        is_right = isinstance(given, OpPattern | MethodType | FunctionType)
        require_argument(is_right, "g.each", "an operator, as in *g.each(g.Relu(x))", given)
        alike = pattern if isinstance(pattern, OpPattern) else pattern(...)
        names = [p.bound_name for p in alike.walk() if p.bound_name]
        names += [i.name for p in alike.walk() for i in p.inputs if isinstance(i, Var)]
        inputs = [i for p in alike.walk() for i in p.inputs]
        if any(isinstance(i, EachInput) or (isinstance(i, VariadicVar) and i.name) for i in inputs):
            raise RuleError("g.each takes a pattern without g.each and without stars")
        return (EachInput(alike, tuple(dict.fromkeys(names))),)

    def outer(self, pattern: OpPattern) -> OpPattern:
        """An op that may be in an enclosing graph: in a body, `g.Mul(g.outer(g.Exp(x)), y)` matches an outer Exp."""
        require_type(pattern, OpPattern, "g.outer", "an operator, such as g.outer(g.Exp(x))")
        return replace(pattern, may_be_outside=True)

    def attr(self, var: Var, accepts: Predicate) -> Var:
        """An attribute that satisfies a condition: `g.Transpose(x, perm=g.attr(p, lambda p: p[:1] == [0]))`."""
        require_type(var, Var, "g.attr", "a parameter of the lambda, such as perm=g.attr(p, lambda p: p[0] == 0)")
        require_argument(callable(accepts), "g.attr", "a function of the attribute", accepts)
        return structs.replace(var, accepts=accepts)

    def one_of(self, *types: str) -> Callable[..., OpPattern]:
        """Any of several operators with the same inputs: `g.one_of("Add", "Sub")(x, y)`.

        `...` among the inputs matches any number of them: `g.Add(..., g.Conv(...) @ conv, ...) @ add`.
        """
        require_argument(types and is_each(types, str), "g.one_of", 'names, such as g.one_of("Relu", "Abs")(x)', types)

        def describe(*inputs: Any, **attrs: Any) -> OpPattern:
            wanted = tuple([VariadicVar() if i is ... else i for i in inputs])
            for index, want in enumerate(() if self._domain else wanted):
                _require_no_vector(types, index, want)
            if any(_may_stand_for_value(want) for want in attrs.values()):
                wanted, attrs = _with_named_values(types, self._domain, wanted, attrs)
            _require_kinds(types, self._domain, attrs)
            least, most = 0, len(wanted) + len(attrs)
            for want in wanted:
                if isinstance(want, Var):
                    least += not want.optional
                elif isinstance(want, SINGLE_INPUTS):
                    least += 1
                elif isinstance(want, SEVERAL_INPUTS):
                    least, most = least + isinstance(want, EachInput), op_schemas.VARIADIC
                else:
                    hint = ", with a star, such as *g.each(...)" if is_each(want, EachInput) else ""
                    require_argument(is_right=False, call=f"g.{types[0]}", wanted=INPUTS_IN_WORDS + hint, given=want)
            for op_type in types:
                if why := op_schemas.misuse(op_type, self._domain, (least, most), frozenset(attrs)):
                    raise RuleError(f"it never matches, because {why}")
            return OpPattern(types, self._domain, wanted, tuple(attrs.items()))

        return describe

    def const(self, var: Var) -> Var:
        """A constant input: `g.Mul(x, g.const(c))`."""
        require_type(var, Var, "g.const", "a parameter of the lambda, such as g.Mul(x, g.const(c))")
        return structs.replace(var, constant=True)

    if not TYPE_CHECKING:

        def domain(self, name: str) -> PatternBuilder:
            """Operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
            return PatternBuilder(name, self._chosen, self._choices)

        def __getattr__(self, op_type: str) -> Callable[..., OpPattern]:
            return self.one_of(op_type)


def _require_no_vector(types: Sequence[str], index: int, want: object) -> None:
    """Raise RuleError for a number or list given by position for an input with one dim, which never matches."""
    shown = str(want)
    for op_type in types if isinstance(want, NUMBERS_AND_LISTS) else ():
        if op_schemas.kind_at(op_type, "", index) == "list":
            name = op_schemas.latest_input_names(op_type, "")[index]
            elements = f"[{shown.strip('[]')}]"
            raise RuleError(f"{name} of {op_type} has one dim, so {shown} never matches; {name}={elements} does")


def _require_kinds(types: Sequence[str], domain: str, attrs: Mapping[str, Any]) -> None:
    """Raise RuleError for a number given by name for an input that is a list, or a list for one that is a number."""
    for name, want in attrs.items():
        shown = str(want)
        for op_type in types if isinstance(want, NUMBERS_AND_LISTS) else ():
            kind, is_list = op_schemas.input_kind(op_type, domain, name), isinstance(want, list)
            if kind == ("number" if is_list else "list"):
                right = shown.strip("[]") if is_list else f"[{shown}]"
                raise RuleError(f"{name} of {op_type} is a {kind}, so {shown} never matches; {name}={right} does")


def _may_stand_for_value(want: object) -> bool:
    """Whether a pattern given by name may be the name of a value rather than of its elements."""
    return isinstance(want, OpPattern | int | float) or (isinstance(want, Var) and want.accepts is None)


def _with_named_values(
    types: Sequence[str], domain: str, inputs: tuple[Any, ...], attrs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move patterns that `attrs` give by the names of value inputs to their positions; return both kinds.

    Ops and constants, as in `g.Clip(x, min=g.const(lo))`, are values for any input. Raises RuleError for an input that
    is given twice or has no unique position.
    """
    placed, others = list(inputs), dict(attrs)
    for name, want in attrs.items():
        kinds = {op_schemas.input_kind(t, domain, name) for t in types}
        is_value = isinstance(want, OpPattern) or (isinstance(want, Var) and want.constant)
        if "" in kinds or not _may_stand_for_value(want) or not (is_value or kinds == {"value"}):
            continue
        del others[name]
        label, indices = f"{name} of {types[0]}", {op_schemas.input_index(t, domain, name) for t in types}
        if len(indices) > 1 or any(isinstance(i, SEVERAL_INPUTS) for i in inputs):
            raise RuleError(f"{label} has no unique position among the inputs of its operators: give it by position")
        index = indices.pop()
        if index < len(inputs):
            raise RuleError(f"{label} is given twice, by position and by name")
        placed += [None] * (index + 1 - len(placed))
        placed[index] = want
    for t in types if len(others) < len(attrs) else ():
        (least, _), _ = op_schemas.operand_counts(t, domain, op_schemas.latest_opset_version(domain))
        for i, name in enumerate(op_schemas.latest_input_names(t, domain)[len(inputs) : len(placed)], len(inputs)):
            if placed[i] is None and i < least and name not in others:
                raise RuleError(f"it never matches, because {t} has an input {name} before the named ones")
    return tuple(placed), others


NUMBERS_AND_LISTS = (int, float, list)
SINGLE_INPUTS = (OpPattern, int, float, NoneType)
SEVERAL_INPUTS = (VariadicVar, EachInput)
INPUTS_IN_WORDS = "variables of the lambda, operators of g and numbers"


Patterns = OpPattern | tuple[OpPattern, ...]
Pattern = (
    Callable[[PatternBuilder], Patterns]
    | Callable[[PatternBuilder, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[[PatternBuilder, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var, Var], Patterns]
    | Callable[..., Patterns]
)
"""A function of the builder and of variables with any names. Type checkers infer the types of a lambda from it."""


def parameters_of(function: Callable[..., Any]) -> dict[str, bool]:
    """The parameters after the first, with whether each has a default; `*x` means any number."""
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        code = function.__code__  # a signature takes ten times as long, for 500 functions at each start
        if not code.co_kwonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            required = code.co_argcount - len(function.__defaults__ or ())
            return {name: i >= required for i, name in enumerate(code.co_varnames[: code.co_argcount]) if i}
    found = list(inspect.signature(function).parameters.values())[1:]
    stars = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return {"*" * (p.kind in stars) + p.name: p.default is not p.empty for p in found}


def trace_pattern(pattern: Pattern) -> tuple[list[OpPattern], list[str]]:
    """The variants of the pattern that a lambda describes, one per combination of alternatives, and its variables.

    A default of None marks an optional input. Several patterns in a tuple are roots that share variables.
    """
    parameters = parameters_of(pattern)
    for name in parameters:
        if name.startswith("*"):
            raise RuleError(f"the star belongs to the inputs, not to the parameter {name}: lambda g, x: g.Concat(*x)")
    variables = {name: Var(name, optional=has_default) for name, has_default in parameters.items()}
    first, choices = _trace_once(pattern, variables, ())
    if prod(choices) > MAX_SPELLINGS:
        raise RuleError(f"its alternatives have {prod(choices)} combinations; at most {MAX_SPELLINGS} are allowed")
    chosen = islice(product(*map(range, choices)), 1, None)
    return [first, *(_trace_once(pattern, variables, c)[0] for c in chosen)], list(variables)


def _trace_once(pattern: Pattern, variables: Mapping[str, Var], chosen: Sequence[int]) -> tuple[OpPattern, list[int]]:
    """The pattern with the chosen alternatives, and the numbers of available alternatives."""
    choices: list[int] = []
    traced: Any = pattern
    try:
        result: Any = traced(PatternBuilder(chosen=chosen, choices=choices), **variables)
    except AttributeError as e:
        why = f"{e}; a pattern cannot test its variables: the function can, for example by require(x.rank == 2, ...)"
        raise RuleError(why) from e
    except (NameError, TypeError) as e:
        raise RuleError(f"{e}; a pattern must call operators of g on parameters of its lambda") from e
    roots = cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,))
    if not roots or not all(isinstance(r, OpPattern) for r in roots):
        raise RuleError("a pattern must be an operator, such as lambda g, x: g.Relu(x)")
    if any(r.output for r in roots):
        raise RuleError("a pattern's root replaces all its outputs: return one value for each")
    for alike in [i for r in roots for p in r.walk() for i in p.inputs if isinstance(i, EachInput)]:
        taken, own = Counter(name for r in roots for name in r.variables()), Counter(alike.pattern.variables())
        for name in alike.names:
            if taken[name] != own[name]:
                raise RuleError(f"{name} is one value for each input in g.each, and cannot be elsewhere in the pattern")
    _require_one_kind(roots)
    first, *others = roots
    bound = set(first.variables() if others else ())
    for other in others:
        if not any(_paths_to(other, bound)):
            raise RuleError("each root after the first must share an input variable with an earlier one")
        bound.update(other.variables())
    return replace(first, others=tuple(others)) if others else first, choices


def _require_one_kind(roots: Iterable[OpPattern]) -> None:
    """Raise RuleError for a variable that is used, for example, both as an input and as an attribute."""
    kinds = dict[str, str]()
    for part in (p for root in roots for p in root.walk()):
        found = [(v.name, "an attribute") for _, v in part.attrs if isinstance(v, Var)]
        found += [(v.name, "an input") for v in part.inputs if isinstance(v, Var)]
        found += [(v.name, "several inputs") for v in part.inputs if isinstance(v, VariadicVar) and v.name]
        found += [(part.bound_name, "an op")] if part.bound_name else []
        for name, kind in found:
            if (other := kinds.setdefault(name, kind)) != kind:
                raise RuleError(f"{name} is {other} in one place and {kind} in another: use two parameters")


def _paths_to(p: OpPattern, bound: Collection[str]) -> Iterator[tuple[str, tuple[OpPattern, ...]]]:
    """Yield the input variables in `p` that are in `bound`, each with the patterns from its consumer to the root."""
    for want in p.inputs:
        if isinstance(want, Var) and want.name in bound:
            yield want.name, (p,)
        elif isinstance(want, OpPattern):
            yield from ((name, (*path, p)) for name, path in _paths_to(want, bound))


Bindings = dict[str, Any]
ANY_INPUTS = (VariadicVar(),)  # `...` as the last input of a pattern
UNBOUND = "..."  # the key of all inputs that `...` matched; no variable has this name
ROOTS = "(roots)"  # the key of the roots if there are several
Operands = tuple[Value | None, ...]


class Trace(Protocol):
    """An immutable record of the mismatches in a partial match, with which matching continues after a mismatch.

    Every method returns the record with one more mismatch, or None to abandon the partial match.
    """

    def wrong_operator(self, p: OpPattern, op: Op) -> Trace | None:
        """The type or domain of `op` differs from `p`'s."""

    def wrong_producer(self, p: OpPattern, op: Op, index: int, want: OpPattern, value: Value | None) -> Trace | None:
        """`value`, the input of `op` at `index`, is not the output of an op that matches `want`."""

    def computed_attribute(self, op: Op, name: str) -> Trace | None:
        """An attribute is an input at this opset, and is not constant."""

    def wrong_attribute(self, op: Op, name: str, have: Any, want: Any, var: Var | None) -> Trace | None:
        """An attribute differs from the pattern, or from the value bound to its variable `var`."""

    def unnamed_attribute(self, op: Op, name: str, value: Any, default: Any) -> Trace | None:
        """An attribute that the pattern does not name differs from its default."""

    def wrong_input(self, op: Op, index: int, want: Var, value: Value | None, bound: Bindings) -> Trace | None:
        """The input of `op` at `index` is missing, not constant, or not the value bound to `want`."""

    def wrong_number(self, op: Op, index: int, want: float | None, value: Value | None) -> Trace | None:
        """The input of `op` at `index` is not a constant equal to `want`, or is present although `want` is None."""

    def wrong_inputs(self, op: Op, want: VariadicVar) -> Trace | None:
        """Inputs of `op` differ from those bound to `want`."""

    def further_input(self, p: OpPattern, op: Op, index: int, value: Value) -> Trace | None:
        """`op` has more inputs than the pattern."""

    def missing_root(self, op: Op, want: OpPattern) -> Trace | None:
        """No other op has the inputs of `want`, a further root."""

    def swapped_inputs(self, op: Op) -> Trace | None:
        """The two inputs of `op`, whose order matters, are tried in the other order."""


PartialMatch = tuple[Bindings, tuple[Op, ...], Trace | None]


def match_op(p: OpPattern, op: Op, trace: Trace | None = None) -> Iterator[PartialMatch]:
    """Yield every way in which `p` matches at `op`: the bindings and the covered ops. Cost: the pattern's size.

    With a `trace`, incomplete matches are also yielded, each with the record of its mismatches.
    """
    found = _match_at(p, op, ({}, (), trace))
    return _match_others(p, op, found) if p.others else found


def _match_others(p: OpPattern, root: Op, found: Iterator[PartialMatch]) -> Iterator[PartialMatch]:
    """Yield the matches, extended by each way in which other ops match the further roots."""
    for bound, covered, trace in found:
        ways: list[PartialMatch] = [({**bound, ROOTS: (root,)}, covered, trace)]
        for want in p.others:
            ways = [way for known in ways for way in _match_other(want, root, known)]
        yield from ways


def _match_other(want: OpPattern, root: Op, found: PartialMatch) -> Iterator[PartialMatch]:
    """Yield every way in which `want` matches an op that reads a value of the match so far."""
    bound, covered, trace = found
    ops: list[Op] = []
    for name, path in _paths_to(want, bound):
        values = [bound[name]] if isinstance(bound[name], Value) else []
        for part in path:
            users = dict.fromkeys(op for v in values for op in islice(v.consumers, MAX_TRIED_POSITIONS))
            ops = [op for op in users if op.type in part.types and op.graph is root.graph]
            values = [v for op in ops for v in op.outputs]
        break
    is_found = False
    for op in ops:
        if op not in covered:
            for here, more, _ in _match_at(want, op, (bound, covered, None)):
                is_found = True
                yield {**here, ROOTS: (*here[ROOTS], op)}, more, trace
    if is_found or trace is None:
        return
    nearly = False
    for op in ops:
        for here, more, misfits in _match_at(want, op, (bound, covered, trace)) if op not in covered else ():
            nearly = True
            yield {**here, ROOTS: (*here[ROOTS], op)}, more, misfits
    if not nearly and (trace := trace.missing_root(root, want)) is not None:
        yield bound, covered, trace


def _match_at(p: OpPattern, op: Op, found: PartialMatch) -> Iterator[PartialMatch]:
    bound, covered, trace = found
    if op.type not in p.types or op.domain != p.domain:
        if trace is not None and (trace := trace.wrong_operator(p, op)) is not None:
            yield bound, covered, trace
        return
    if not op.domain and op.schema is None:  # its meaning and attributes at this opset are unknown
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
    """Whether all operators that the pattern requires upstream exist, recursively."""
    producer_here = op.graph.producer
    for want in p.parts:
        for v in op.inputs:
            producer = v.producer if want.may_be_outside and v is not None else producer_here(v)
            if producer is not None and producer.type in want.types and _producers_can_match(want, producer):
                break
        else:
            return False
    return True


def _match_attributes(
    p: OpPattern, op: Op, bound: Bindings, trace: Trace | None
) -> tuple[Bindings, Operands, Trace | None] | None:
    """The bindings with attributes, the inputs that are not attributes, and the trace; None if attributes differ."""
    here, values = dict(bound), op.inputs
    if p.bound_name:
        here[p.bound_name] = op
    for name, want in p.attrs:
        is_known, have, values = _attribute_or_input(op, name, values)
        var = want if isinstance(want, Var) else None
        wanted = want if var is None else here.get(var.name, var)
        if not is_known:
            trace = trace and trace.computed_attribute(op, name)
        elif _attribute_fits(op, name, have, want, wanted):
            if var is not None:
                here[var.name] = have
            continue
        else:
            trace = trace and trace.wrong_attribute(op, name, have, wanted, None if wanted is var else var)
        if trace is None:
            return None
    for unnamed in () if p.bound_name else _unnamed_attributes(p, op):
        if trace is None or (trace := trace.unnamed_attribute(op, *unnamed)) is None:
            return None
    while values and values[-1] is None:
        values = values[:-1]
    return here, values, trace


def _attribute_fits(op: Op, name: str, have: Any, want: Any, wanted: Any) -> bool:
    """Whether an attribute satisfies its condition, and equals the value `wanted`, if these are known.

    Raises RuleError for an exception of the condition.
    """
    accepts = want.accepts if isinstance(want, Var) else want
    if not callable(accepts):
        return isinstance(wanted, Var) or bool(have == wanted)
    try:
        return bool(accepts(have)) and (isinstance(wanted, Var) or wanted is accepts or bool(have == wanted))
    except Exception as e:
        what = describe_exception(e, getattr(accepts, "__code__", None))
        raise RuleError(f"the condition on {name} of {op.label}, which is {have!r}, fails: {what}") from e


def _attribute_or_input(op: Op, name: str, values: Operands) -> tuple[bool, Any, Operands]:
    """Whether an attribute, or the input that replaced it later, is known; its value; and the other inputs."""
    spec = op.schema
    names = op_schemas.input_names(op.type, op.domain, op.version)
    if spec is None or name in spec.attributes or name not in names:
        return True, op.attr(name), values
    index = names.index(name)
    value = op.input(index)
    others = (*values[:index], None, *values[index + 1 :])
    if value is None:
        return True, None, others
    if op_schemas.input_kind(op.type, op.domain, name) == "number":
        is_number = value.is_const and value.const.size == 1
        return is_number, value.const.item() if is_number else None, others  # of any rank
    if not value.is_const or value.const.ndim > 1:
        return False, None, others
    return True, value.const.reshape(-1).tolist(), others  # onnxruntime also accepts a scalar for a single axis


def _unnamed_attributes(p: OpPattern, op: Op) -> Iterator[tuple[str, Any, Any]]:
    """Yield attributes that the pattern does not name and that differ from their default: name, value, default."""
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
    """Yield every way in which the patterns `wanted` match the inputs starting at `index`."""
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
        is_inner, is_several = isinstance(wanted[0], OpPattern), isinstance(wanted[0], VariadicVar | EachInput)
        step = _match_producer if is_inner else _match_variadic if is_several else _match_number
        for following, inner in step(site, wanted, index, (bound, covered, trace)):
            yield from _match_inputs(site, wanted[1:], following, inner)
        return
    for value in site.values[index:]:
        if value is not None:
            at = site.values.index(value, index)
            if trace is None or (trace := trace.further_input(site.pattern, site.op, at, value)) is None:
                return
            break
    yield bound, covered, trace


def _match_number(
    site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch
) -> Iterator[tuple[int, PartialMatch]]:
    """Match a number with the input at `index`, or None with an omitted input."""
    bound, covered, trace = found
    value = site.values[index] if index < len(site.values) else None
    if value is None if wanted[0] is None else is_number(value, wanted[0], site.op):
        yield index + 1, found
    elif trace is not None and (trace := trace.wrong_number(site.op, index, wanted[0], value)) is not None:
        yield index + 1, (bound, covered, trace)


def is_number(value: Value | None, number: float, op: Op) -> bool:
    """Whether an input of `op` is a constant with one element, which equals `number` in its own element type.

    It has no more dims, all of them 1, than another operand of a broadcasting operator; otherwise it has none. Zeros
    of different signs are different numbers. A number that becomes 0 or infinite in an element type does not match.
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
    """Yield every way in which the first of the patterns matches the producer of the input at `index`."""
    bound, covered, trace = found
    want = wanted[0]
    value = site.values[index] if index < len(site.values) else None
    op = value.producer if want.may_be_outside and value is not None else site.op.graph.producer(value)
    if op is not None and op.type in want.types and want.output < len(op.outputs) and op.outputs[want.output] is value:
        for inner in _match_at(want, op, found):
            yield index + 1, inner
    elif trace is not None and (trace := trace.wrong_producer(site.pattern, site.op, index, want, value)) is not None:
        yield index + 1, (bound, covered, trace)


def _match_variadic(
    site: _Site, wanted: tuple[Any, ...], index: int, found: PartialMatch
) -> Iterator[tuple[int, PartialMatch]]:
    """Yield the matches for every number of inputs that the first of the patterns, a VariadicVar, may take."""
    bound, covered, trace = found
    want, rest = wanted[0], wanted[1:]
    room = len(site.values[index:]) - sum(not isinstance(p, VariadicVar | EachInput) for p in rest)
    is_open = any(isinstance(p, VariadicVar | EachInput) for p in rest)
    sizes: Iterable[int] = range(max(room, 0) + 1) if is_open else range(max(room, 0), room + 1)
    if is_open and isinstance(following := rest[0], OpPattern):
        makers = map(site.op.graph.producer, site.values[index:]) if trace is None else ()
        fitting = (i for i, op in enumerate(makers) if op is not None and op.type in following.types and i <= room)
        sizes = tuple(islice(sizes if trace is not None else fitting, MAX_TRIED_POSITIONS))
    for size in sizes or (() if trace is None else (0,)):
        taken = site.values[index : index + size]
        if isinstance(want, EachInput):
            if size:
                yield from ((index + size, way) for way in _match_each(site, want, index, size, found))
        elif not want.name:
            yield index + size, ({**bound, UNBOUND: (*bound.get(UNBOUND, ()), *taken)}, covered, trace)
        elif bound.get(want.name, taken) == taken:
            yield index + size, ({**bound, want.name: taken}, covered, trace)
        elif trace is not None and (other := trace.wrong_inputs(site.op, want)) is not None:
            yield index + size, (bound, covered, other)


def _match_each(site: _Site, want: EachInput, index: int, size: int, found: PartialMatch) -> Iterator[PartialMatch]:
    """Match inputs with the same pattern, starting at `index`, using the first match of each."""
    each: list[Bindings] = []
    for at in range(index, index + size):
        way = next(_match_producer(site, (want.pattern,), at, found), None)
        if way is None:
            return
        here, covered, trace = way[1]
        each.append(here)
        found = {k: v for k, v in here.items() if k not in want.names}, covered, trace
    bound, covered, trace = found
    yield {**bound, **{name: tuple(b.get(name) for b in each) for name in want.names}}, covered, trace
