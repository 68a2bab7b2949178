"""Rules of ours out of two plain functions in the way of onnxscript's rewriter."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...core import ROUNDING, Build, Contract, Declined, Graph, Op, Rule, Value, require
from ...core.errors import RuleError
from ...core.ir import op_schemas
from .function_patterns import Number, constant_array, trace_pattern


@dataclass(frozen=True, slots=True)
class MatchContext:
    """Where a pattern was found, for conditions that look further."""

    graph: Graph
    root: Op

    @property
    def output_values(self) -> tuple[Value, ...]:
        """The values to be replaced."""
        return self.root.outputs


class ReplacementBuilder:
    """`op` of a replacement: `op.Add(x, 1.0)` adds an operator; numbers become constants of the fitting type."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        return lambda *inputs, **options: self.op(op_type, inputs, **options)

    def op(
        self,
        op_type: str,
        inputs: Sequence[Any],
        *,
        _domain: str | None = None,
        _outputs: int | Sequence[str | None] = 1,
        _version: int | None = None,
        **attrs: Any,
    ) -> Any:
        """An operator by its name; as many values as it is to have outputs."""
        domain = _domain or op_schemas.ONNX_DOMAIN
        if op_type == "Constant" and not inputs and len(attrs) == 1 and not domain:
            return self.initializer(constant_array(*attrs.popitem()))
        there = self._build.graph.opsets.get(domain)
        require(_version is None or there in {None, _version}, f"the model has version {there} of {op_type}'s opset")
        values = self._values(op_type, domain, inputs, attrs)
        outputs = _outputs if isinstance(_outputs, int) else len(_outputs)
        listed = {name: list(cast("Any", v)) if isinstance(v, tuple) else v for name, v in attrs.items()}
        return getattr(self._build.domain(domain), op_type)(*values, outputs=outputs, **listed)

    def initializer(self, tensor: Any, name: str | None = None) -> Value:  # noqa: ARG002 - names are made here
        """A constant: an array, or anything with a `numpy()`."""
        return self._build.const(tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor))

    def _values(self, op_type: str, domain: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Value | None]:
        """The inputs; a number goes by the input's name, so that the builder gives it the type of the schema."""
        names = op_schemas.latest_input_names(op_type, domain)
        like = next((v for v in inputs if isinstance(v, Value)), None)
        values: list[Value | None] = []
        for i, given in enumerate(inputs):
            if given is None or isinstance(given, Value):
                values.append(given)
            elif isinstance(given, Number | list | tuple) and i < len(names) > 1:
                attrs[names[i]] = given
                values.append(None)
            else:
                values.append(self._build.const(given, None if isinstance(given, np.ndarray) else like))
        return values


def rule_from_functions(
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    condition: Callable[..., Any] | None = None,
    *,
    name: str = "",
    contract: Contract = ROUNDING,
    shared: bool = False,
) -> Rule:
    """A rule out of `pattern(op, x, ...)` and `replacement(op, x, ...)`, as onnxscript's RewriteRule takes them.

    `condition` is given the variables, behind a context if its first parameter is none of them; it returns a bool, or
    something true or false with a `reason`. Variables stand for values and attributes of ours (`x.shape`, `x.const`).
    Other than there, commutative operators match in either order, and attributes that the pattern does not name must
    be at their defaults unless `_allow_other_attributes=True` or an output is named by `_outputs`.
    Raises RuleError for what has no counterpart here: several roots, `_check`, OR patterns ...
    """
    named = name or pattern.__name__
    if not named.isidentifier():
        raise RuleError(f"{named} cannot be the name of a rule; give it one: name=...")
    found = trace_pattern(pattern)
    _require_bound(named, replacement, found.variables, leading=1)
    takes_context = condition is not None and _takes_context(condition, found.variables)
    if condition is not None:
        _require_bound(named, condition, found.variables, leading=int(takes_context))

    def build(g: Build, **bound: Any) -> Value | tuple[Value | None, ...]:
        found.tracer.require(bound)
        given = dict.fromkeys(found.variables) | bound | dict(found.tracer.named_outputs(bound))
        variables = {v: given[v] for v in found.variables}
        if condition is not None:
            leading = (MatchContext(g.graph, g.root),) if takes_context else ()
            _require_true(_call_with(condition, *leading, **variables), "the condition does not hold")
        made = _call_with(replacement, ReplacementBuilder(g), **variables)
        if not isinstance(made, Value | tuple | list):
            _require_true(made, "the replacement gives nothing")
        return _by_output_index(named, made, found.indices)

    build.__module__ = replacement.__module__  # it is that module's rule
    text = inspect.getdoc(replacement) or inspect.getdoc(pattern) or ""
    return Rule(named, text.partition("\n")[0], found.root, build, shared, contract)


def _by_output_index(name: str, made: Any, indices: Sequence[int]) -> Value | tuple[Value | None, ...]:
    """What was made, each value in the place of the output that it stands for."""
    given = tuple(cast("Sequence[Any]", made)) if isinstance(made, tuple | list) else (made,)
    if len(given) != len(indices):
        raise RuleError(f"{name}: the pattern gives {len(indices)} values, the replacement {len(given)}")
    at: dict[int, Any] = dict(zip(indices, given, strict=True))
    return tuple(at.get(i) for i in range(max(at) + 1))


def _takes_context(condition: Callable[..., Any], variables: Collection[str]) -> bool:
    first = next(iter(inspect.signature(condition).parameters.values()), None)
    if first is None or first.kind in {first.KEYWORD_ONLY, first.VAR_KEYWORD}:
        return False
    return first.name not in variables


def _require_bound(rule: str, function: Callable[..., Any], variables: Collection[str], leading: int) -> None:
    """Raise RuleError for a parameter without default that is no variable of the pattern."""
    for p in list(inspect.signature(function).parameters.values())[leading:]:
        if p.kind in {p.VAR_KEYWORD, p.VAR_POSITIONAL} or p.name in variables or p.default is not p.empty:
            continue
        raise RuleError(f"{rule}: {function.__name__} takes {p.name}, which the pattern does not bind")


def _call_with(function: Callable[..., Any], *leading: Any, **variables: Any) -> Any:
    """Call it with those of the variables that it takes."""
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    taken = {p.name for p in parameters}
    with _failures_as_declined():
        return function(*leading, **{n: v for n, v in variables.items() if takes_all or n in taken})


def _require_true(answer: Any, otherwise: str) -> None:
    require(bool(answer), str(getattr(answer, "reason", "") or otherwise))


@contextmanager
def _failures_as_declined() -> Generator[None]:
    """What onnxscript's functions raise to say no declines here; there is none where onnxscript was not imported."""
    refusal: type[BaseException] = getattr(
        sys.modules.get("onnxscript.rewriter._basics"), "MatchFailureError", Declined
    )
    try:
        yield
    except refusal as e:
        raise Declined(str(getattr(e, "reason", e))) from e
