"""Assumptions of contracts: conditions on numbers, as expressions whose elements must all be true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct
from onnx import TensorProto

from ..errors import MatchFailure, RuleError, UsageError
from ..ir import op_schemas
from ..ir.dtypes import FLOATS
from ..ir.op import Op
from ..ir.values import Value
from ..support.author_errors import describe_in
from .builder import RewriteBuilder
from .pattern import OpPattern, Pattern, Var, trace_pattern

ALLOWED = "an assumption consists of operators, variables of the pattern and numbers: lambda g, x: g.Greater(x, 0)"
INFIX: Mapping[str, tuple[int, str]] = {
    "Or": (1, "or"), "And": (2, "and"), "Equal": (4, "=="), "Greater": (4, ">"), "GreaterOrEqual": (4, ">="),
    "Less": (4, "<"), "LessOrEqual": (4, "<="), "Add": (5, "+"), "Sub": (5, "-"), "Mul": (6, "*"), "Div": (6, "/"),
}  # fmt: skip
"""The precedence of an operator, and its sign."""
NOT = 3


class Assumption(Struct, frozen=True):
    """A condition on the values of a match, which holds if all elements of the expression are true.

    If `each` is the name of its only variable, the condition is on each float of the match: its operands, the values
    between its ops, and its results.
    """

    expression: OpPattern
    each: str = ""

    def __str__(self) -> str:
        text = expression_text(self.expression)
        return f"{text} for each float {self.each}" if self.each else text

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the pattern in the expression."""
        return () if self.each else tuple(dict.fromkeys(variables_in(self.expression)))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The finite numbers in the expression, near which the condition may change."""
        found = (i for part in self.expression.walk() for i in part.inputs if isinstance(i, int | float))
        return tuple(float(i) for i in found if abs(i) < inf)

    def build(self, g: RewriteBuilder, bound: Mapping[str, Any], values: Sequence[Value]) -> list[Value]:
        """Add its ops for a match: `bound` are its variables, `values` all its values.

        A variable bound to an op means the op's first output. Raises MatchFailure and RuleError.
        """
        if not self.each:
            return [self._bools(g, bound)]
        return [self._bools(g, {self.each: v}) for v in dict.fromkeys(values) if v.dtype in FLOATS]

    def _bools(self, g: RewriteBuilder, bound: Mapping[str, Any]) -> Value:
        found = build_expression(g, self.expression, bound)
        if found.dtype != TensorProto.BOOL:
            raise RuleError(f"the result of the assumption {self} is not bool")
        return found


def trace_assumption(expression: Pattern, *, each: bool = False) -> Assumption:
    """Trace the assumption that a lambda describes, like a pattern. Raises RuleError."""
    try:
        spellings, names = trace_pattern(expression)
    except (RuleError, UsageError) as e:
        raise RuleError(f"{ALLOWED}: {describe_in(expression, e)}") from e
    found, why = spellings[0], ""
    for part in found.walk():
        is_plain = len(part.types) == 1 and not part.bound_name and not part.others
        if len(spellings) > 1 or not is_plain or not all(isinstance(i, PARTS) for i in part.inputs):
            why = ALLOWED
        if any(callable(v) or (isinstance(v, Var) and v.accepts is not None) for _, v in part.attrs):
            why = ALLOWED
    if not why and not op_schemas.may_give(found.types[0], found.domain, "tensor(bool)"):
        why = f"the assumption {expression_text(found)} has no bool result"
    if each and len(names) != 1:
        why = "an assumption on each float has one variable, such as lambda g, v: g.Less(g.Abs(v), 1)"
    if why:
        raise RuleError(describe_in(expression, RuleError(why)))
    return Assumption(found, names[0] if each else "")


PARTS = (OpPattern, Var, int, float)


def variables_in(expression: Any) -> Iterator[str]:
    """Yield the names of the variables in an expression, with repetitions."""
    if isinstance(expression, Var):
        yield expression.name
    elif isinstance(expression, OpPattern):
        for part in (*expression.inputs, *(value for _, value in expression.attrs)):
            yield from variables_in(part)


def build_expression(g: RewriteBuilder, expression: OpPattern, bound: Mapping[str, Any]) -> Value:
    """Add the ops of an expression; numbers become constants of the type of the other operand. Raises MatchFailure."""
    values = [_operand(g, part, bound) for part in expression.inputs]
    attrs = {name: _bound(v, bound) if isinstance(v, Var) else v for name, v in expression.attrs}
    add: Any = getattr(g.domain(expression.domain), expression.types[0])
    return add(*values, **attrs, outputs=expression.output + 1)[expression.output]


def _operand(g: RewriteBuilder, part: Any, bound: Mapping[str, Any]) -> Any:
    if isinstance(part, OpPattern):
        return build_expression(g, part, bound)
    return _bound(part, bound) if isinstance(part, Var) else part


def _bound(variable: Var, bound: Mapping[str, Any]) -> Any:
    """The value bound to a variable. Raises MatchFailure if it is unbound or bound to several values."""
    found = bound.get(variable.name)
    if found is None or isinstance(found, tuple):
        raise MatchFailure(f"{variable.name} is not a single value here")
    return found.outputs[0] if isinstance(found, Op) else found


def expression_text(expression: Any, binding: int = 0) -> str:
    """Format an expression in arithmetic notation, with parentheses if its precedence is below `binding`."""
    if not isinstance(expression, OpPattern):
        return expression.name if isinstance(expression, Var) else f"{expression:.16g}"
    (op_type,), parts = expression.types, expression.inputs
    if op_type == "Abs":
        return f"|{expression_text(parts[0])}|"
    if op_type == "Not":
        return _bracketed(f"not {expression_text(parts[0], NOT)}", NOT, binding)
    if op_type in INFIX and len(parts) == 2:
        own, sign = INFIX[op_type]
        sides = expression_text(parts[0], own), expression_text(parts[1], own + 1)
        return _bracketed(f"{sides[0]} {sign} {sides[1]}", own, binding)
    attrs = (f"{k}={expression_text(v) if isinstance(v, PARTS) else v}" for k, v in expression.attrs)
    return f"{op_type}({', '.join((*map(expression_text, parts), *attrs))})"


def _bracketed(text: str, own: int, binding: int) -> str:
    return f"({text})" if own < binding else text
