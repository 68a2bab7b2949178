"""Rules from plain functions, like the rules of onnxscript's rewriter."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import onnx
from msgspec import Struct
from onnx import numpy_helper

from ...core import ROUNDING, Contract, Graph, MatchFailure, Op, RewriteBuilder, Rule, Value, require
from ...core.errors import RuleError, format_error
from ...core.ir import op_schemas
from ...core.rewriting.pattern import OpPattern, Var, VariadicVar

OnnxscriptFunction = (
    Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[..., Any]
)
"""A function of `op` and of variables with any names. Type checkers infer the types of a lambda from it."""

Number = bool | int | float
CONSTANT_DTYPES = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}


def _operators(op_type: str) -> tuple[Callable[[PatternValue, Any], Any], Callable[[PatternValue, Any], Any]]:
    """Make a binary operator of PatternValue for an ONNX operator, and its reflected form."""
    return (
        lambda value, other: value.tracer.add(op_type, (value, other)),
        lambda value, other: value.tracer.add(op_type, (other, value)),
    )


@dataclass(frozen=True, slots=True)
class PatternValue:
    """A value in a pattern: `x + 1` is `op.Add(x, 1)`."""

    pattern: Var | OpPattern
    tracer: Tracer = field(compare=False, repr=False)

    __add__, __radd__ = _operators("Add")
    __sub__, __rsub__ = _operators("Sub")
    __mul__, __rmul__ = _operators("Mul")
    __truediv__, __rtruediv__ = _operators("Div")
    __pow__, __rpow__ = _operators("Pow")


@dataclass(slots=True)
class Tracer:
    """The object `op` while a pattern is traced.

    Constants and absent inputs get names: `constants` must have the given content, `absent` inputs must be omitted.
    `outputs` maps the names in `_outputs` to the name of their op and the output index.
    """

    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    absent: list[str] = field(default_factory=list[str])
    outputs: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    _name_count: int = 0

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        return lambda *inputs, **options: self.add(op_type, inputs, **options)

    def add(
        self,
        op_type: str,
        inputs: Sequence[Any],
        *,
        _domain: str | None = None,
        _outputs: int | Sequence[str | None] = 1,
        _allow_other_attributes: bool | None = None,
        _allow_other_inputs: bool = False,
        **attrs: Any,
    ) -> Any:
        """Add an operator; return the value of its output, or a tuple for several outputs."""
        unknown = [name for name in attrs if name.startswith("_")]
        if unknown:
            raise RuleError(f"{op_type}: {unknown[0]} is not supported here")
        if op_type == "Constant" and not inputs and not _domain:
            if len(attrs) != 1:
                raise RuleError("op.Constant takes one attribute: value, value_float, value_int ...")
            return self._constant(constant_array(*attrs.popitem()))
        names = [None] * _outputs if isinstance(_outputs, int) else list(_outputs)
        bind = self._fresh_name("op") if _allow_other_attributes or any(names) else ""
        self.outputs.update((name, (bind, i)) for i, name in enumerate(names) if name)
        written = tuple((name, _attribute_pattern(op_type, name, value)) for name, value in attrs.items())
        others = (VariadicVar(),) if _allow_other_inputs else ()
        made = OpPattern((op_type,), _domain or "", (*map(self._input, inputs), *others), written, bind)
        values = tuple(PatternValue(made[i], self) for i in range(len(names)))
        return values[0] if len(values) == 1 else values

    def _input(self, given: Any) -> Var | VariadicVar | OpPattern:
        if isinstance(given, PatternValue):
            return given.pattern
        if given is ...:
            return VariadicVar()
        if given is None:
            self.absent.append(self._fresh_name("none"))
            return Var(self.absent[-1], optional=True)
        if isinstance(given, Number | np.ndarray | list | tuple):
            return cast("Var", self._constant(np.asarray(given)).pattern)
        raise RuleError(f"an input of a pattern cannot be a {type(given).__name__}")

    def _constant(self, content: Any) -> PatternValue:
        name = self._fresh_name("const")
        self.constants[name] = content
        return PatternValue(Var(name, constant=True), self)

    def _fresh_name(self, stem: str) -> str:
        self._name_count += 1
        return f"_{stem}{self._name_count}"

    def require(self, bound: dict[str, Any]) -> None:
        """Decline a match with other constants, or with an input that must be absent."""
        for name, content in self.constants.items():
            require(_equals_constant(bound[name], content), f"{bound[name].name} is not {content.tolist()}")
        for name in self.absent:
            require(bound.get(name) is None, "an input must be omitted")

    def named_outputs(self, bound: dict[str, Any]) -> Iterator[tuple[str, Value | None]]:
        """Yield the values that `_outputs` names; None for an output that the op lacks."""
        for name, (bind, index) in self.outputs.items():
            op: Op = bound[bind]
            yield name, op.outputs[index] if index < len(op.outputs) and op.outputs[index].name else None


class TracedPattern(Struct, frozen=True):
    """A pattern: its root, the indices of the root outputs that it returns, and its variables."""

    root: OpPattern
    indices: tuple[int, ...]
    variables: tuple[str, ...]
    tracer: Tracer


def trace_pattern(pattern: Callable[..., Any]) -> TracedPattern:
    """Trace `pattern(op, x, y, ...)`. Raises RuleError for unsupported constructs."""
    tracer, variables = Tracer(), dict[str, PatternValue]()
    for p in list(inspect.signature(pattern).parameters.values())[1:]:
        if p.kind in {p.VAR_POSITIONAL, p.VAR_KEYWORD}:
            raise RuleError(f"a pattern names its variables: *{p.name} is not supported here")
        variables[p.name] = PatternValue(Var(p.name, optional=p.default is not p.empty), tracer)
    try:
        result = pattern(tracer, **variables)
    except RuleError:
        raise
    except Exception as e:
        raise RuleError(f"the pattern cannot be traced: {format_error(e)}") from e
    given = _as_tuple(result)
    roots = [v.pattern for v in given if isinstance(v, PatternValue) and isinstance(v.pattern, OpPattern)]
    if not roots or len(roots) < len(given):
        raise RuleError("a pattern must return the output of an operator, such as op.Relu(x)")
    indices, root = tuple(r.output for r in roots), replace(roots[0], output=0)
    if len({*indices}) < len(roots) or any(replace(r, output=0) != root for r in roots):
        raise RuleError("a pattern must end in one operator; several roots are not supported")
    return TracedPattern(root, indices, (*variables, *tracer.outputs), tracer)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    """The values that a function returns, as a tuple."""
    return tuple(cast("Sequence[Any]", result)) if isinstance(result, tuple | list) else (result,)


def _attribute_pattern(op_type: str, name: str, value: Any) -> Any:
    """The pattern of an attribute, with numbers as ONNX stores them."""
    if isinstance(value, PatternValue) and isinstance(value.pattern, Var):
        return value.pattern
    if isinstance(value, list | tuple):
        return [_attribute_pattern(op_type, name, v) for v in _as_tuple(value)]
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(np.float32(value))
    raise RuleError(f"{op_type}: {name} cannot be compared with a {type(value).__name__}")


def constant_array(attribute: str, value: Any) -> Any:
    """The elements of an attribute of Constant."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute not in {"value", *CONSTANT_DTYPES} or isinstance(value, PatternValue):
        raise RuleError(f"op.Constant: {attribute}={value!r} is not supported here")
    return np.asarray(value, CONSTANT_DTYPES.get(attribute))


def _equals_constant(value: Value, content: Any) -> bool:
    """Whether a constant equals `content`; a number matches any shape with one element, an array only its own shape."""
    const: Any = value.const
    if const.size != content.size or const.dtype.hasobject or (content.ndim and const.shape != content.shape):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        cast_to = content.astype(const.dtype)
    if const.dtype.kind in "biu" and cast_to.tolist() != content.tolist():
        return False  # 0.5 is not an integer
    return bool(np.all(const.reshape(content.shape) == cast_to))


class MatchContext(Struct, frozen=True):
    """The graph and root of a match, for conditions."""

    graph: Graph
    root: Op

    @property
    def output_values(self) -> tuple[Value, ...]:
        """The values to be replaced."""
        return self.root.outputs


class ReplacementBuilder:
    """The object `op` of a replacement: `op.Add(x, 1.0)` adds an operator, and converts numbers to constants."""

    def __init__(self, build: RewriteBuilder) -> None:
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
        """Add an operator by name; return the value of its output, or a tuple for several outputs."""
        domain = _domain or op_schemas.ONNX_DOMAIN
        if op_type == "Constant" and not inputs and len(attrs) == 1 and not domain:
            return self.initializer(constant_array(*attrs.popitem()))
        there = self._build.graph.opsets.get(domain)
        require(_version is None or there in {None, _version}, f"the model has version {there} of {op_type}'s opset")
        values = self._values(op_type, domain, inputs, attrs)
        outputs = _outputs if isinstance(_outputs, int) else len(_outputs)
        listed = {name: list(cast("Any", v)) if isinstance(v, tuple) else v for name, v in attrs.items()}
        made = getattr(self._build.domain(domain), op_type)(*values, outputs=outputs, **listed)
        return made[0] if outputs == 1 else made

    def initializer(self, tensor: Any, name: str | None = None) -> Value:  # noqa: ARG002 - names are generated
        """Add a constant from an array, or from an object with a `numpy()` method."""
        return self._build.const(tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor))

    def _values(self, op_type: str, domain: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Value | None]:
        """The inputs; numbers move to `attrs` by input name, so that the builder gives them the schema's type."""
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
    pattern: OnnxscriptFunction,
    replacement: OnnxscriptFunction,
    condition: Callable[..., Any] | None = None,
    *,
    name: str = "",
    contract: Contract = ROUNDING,
    allow_other_uses: bool = False,
) -> Rule:
    """Make a rule from `pattern(op, x, ...)` and `replacement(op, x, ...)`, written as for onnxscript's RewriteRule.

    `condition` is called with the variables, preceded by a context if its first parameter is not a variable. It returns
    a bool, or an object with a truth value and a `reason`. Variables are bound to our values and attributes (`x.shape`,
    `x.const`). Unlike in onnxscript, commutative operators match in either order, and attributes that the pattern does
    not name must have their defaults unless `_allow_other_attributes=True` or `_outputs` names an output. Raises
    RuleError for unsupported constructs, such as several roots, `_check` and OR patterns.

    Examples:
        >>> def pattern(op, x):
        ...     return op.Neg(op.Neg(x))
        >>> def drop_negations(op, x):
        ...     return op.Identity(x)
        >>> rule_from_functions(pattern, drop_negations, name="drop_negations").root_types
        ('Neg',)
    """
    named = name or pattern.__name__
    if not named.isidentifier():
        raise RuleError(f"{named} is not a valid name for a rule; set name=...")
    found = trace_pattern(pattern)
    _require_bound(named, replacement, found.variables, leading=1)
    takes_context = False
    if condition is not None:
        first = next(iter(inspect.signature(condition).parameters.values()), None)
        positional = first is not None and first.kind not in {first.KEYWORD_ONLY, first.VAR_KEYWORD}
        takes_context = first is not None and positional and first.name not in found.variables
        _require_bound(named, condition, found.variables, leading=int(takes_context))

    def build(g: RewriteBuilder, **bound: Any) -> Value | tuple[Value | None, ...]:
        found.tracer.require(bound)
        given = dict.fromkeys(found.variables) | bound | dict(found.tracer.named_outputs(bound))
        variables = {v: given[v] for v in found.variables}
        if condition is not None:
            leading = (MatchContext(g.graph, g.root),) if takes_context else ()
            _require_true(_call_with(condition, *leading, **variables), "the condition does not hold")
        made = _call_with(replacement, ReplacementBuilder(g), **variables)
        if not isinstance(made, Value | tuple | list):
            _require_true(made, "the replacement returns nothing")
        values = _as_tuple(made)
        if len(values) != len(found.indices):
            raise RuleError(f"{named}: the pattern returns {len(found.indices)} values, the replacement {len(values)}")
        by_index: dict[int, Any] = dict(zip(found.indices, values, strict=True))
        return tuple(by_index.get(i) for i in range(max(by_index) + 1))

    build.__module__ = replacement.__module__  # the rule belongs to that module
    text = inspect.getdoc(replacement) or inspect.getdoc(pattern) or ""
    return Rule(named, text.partition("\n")[0], (found.root,), build, allow_other_uses, contract)


def _require_bound(rule: str, function: Callable[..., Any], variables: Collection[str], leading: int) -> None:
    """Raise RuleError for a parameter without default that is not a variable of the pattern."""
    for p in list(inspect.signature(function).parameters.values())[leading:]:
        if p.kind in {p.VAR_KEYWORD, p.VAR_POSITIONAL} or p.name in variables or p.default is not p.empty:
            continue
        raise RuleError(f"{rule}: {function.__name__} takes {p.name}, which the pattern does not bind")


def _call_with(function: Callable[..., Any], *leading: Any, **variables: Any) -> Any:
    """Call a function with the variables that are its parameters; a failure of onnxscript's matcher declines."""
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    taken = {p.name for p in parameters}
    basics = sys.modules.get("onnxscript.rewriter._basics")  # absent if onnxscript was not imported
    failure: type[BaseException] = getattr(basics, "MatchFailureError", MatchFailure)
    try:
        return function(*leading, **{n: v for n, v in variables.items() if takes_all or n in taken})
    except failure as e:
        raise MatchFailure(str(getattr(e, "reason", e))) from e


def _require_true(answer: Any, otherwise: str) -> None:
    require(bool(answer), str(getattr(answer, "reason", "") or otherwise))
