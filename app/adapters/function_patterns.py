"""Patterns written as plain functions in the way of onnxscript's rewriter, traced into patterns of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import onnx
from onnx import numpy_helper

from ...core import Op, Value, require
from ...core.errors import RuleError, format_error
from ...core.rewriting.pattern import OpPattern, Var, VariadicVar

Number = bool | int | float
CONSTANT_DTYPES = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}


@dataclass(frozen=True, slots=True)
class PatternValue:
    """A value in a pattern: `x + 1` is `op.Add(x, 1)`."""

    pattern: Var | OpPattern
    tracer: Tracer = field(compare=False, repr=False)

    def __add__(self, other: Any) -> Any:
        return self.tracer.Add(self, other)

    def __radd__(self, other: Any) -> Any:
        return self.tracer.Add(other, self)

    def __sub__(self, other: Any) -> Any:
        return self.tracer.Sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.tracer.Sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return self.tracer.Mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.tracer.Mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.tracer.Div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.tracer.Div(other, self)

    def __pow__(self, other: Any) -> Any:
        return self.tracer.Pow(self, other)


@dataclass(slots=True)
class Tracer:
    """Stands in for `op` while a pattern is traced.

    What has no name in the pattern gets one: `constants` must have that content, `absent` inputs must be left out.
    `outputs` are the values that `_outputs` names: the op is bound, and which of its outputs it is.
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
        """An operator; as many values as it is to have outputs."""
        unknown = [name for name in attrs if name.startswith("_")]
        if unknown:
            raise RuleError(f"{op_type}: {unknown[0]} has no counterpart here")
        if op_type == "Constant" and not inputs and not _domain:
            return self._constant(_constant_content(attrs))
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
        """Decline a match whose constants are others, or that has an input which is to be left out."""
        for name, content in self.constants.items():
            require(_equals_constant(bound[name], content), f"{bound[name].name} is not {content.tolist()}")
        for name in self.absent:
            require(bound.get(name) is None, "an input is there that is to be left out")

    def named_outputs(self, bound: dict[str, Any]) -> Iterator[tuple[str, Value | None]]:
        """The values that `_outputs` names; None for an output that is left out."""
        for name, (bind, index) in self.outputs.items():
            op: Op = bound[bind]
            yield name, op.outputs[index] if index < len(op.outputs) and op.outputs[index].name else None


@dataclass(frozen=True, slots=True)
class TracedPattern:
    """A pattern: its root, which of the root's outputs it gives, its variables, and what was written without a name."""

    root: OpPattern
    indices: tuple[int, ...]
    variables: tuple[str, ...]
    tracer: Tracer


def trace_pattern(pattern: Callable[..., Any]) -> TracedPattern:
    """What `pattern(op, x, y, ...)` describes. Raises RuleError for what has no meaning here."""
    parameters = list(inspect.signature(pattern).parameters.values())[1:]
    for p in parameters:
        if p.kind in {p.VAR_POSITIONAL, p.VAR_KEYWORD}:
            raise RuleError(f"a pattern names its variables: *{p.name} has no counterpart here")
    tracer = Tracer()
    variables = {
        p.name: PatternValue(Var(p.name, optional=p.default is not inspect.Parameter.empty), tracer) for p in parameters
    }
    result = _call_pattern(pattern, tracer, variables)
    given: tuple[Any, ...] = tuple(cast("Sequence[Any]", result)) if isinstance(result, tuple | list) else (result,)
    roots = [v.pattern for v in given if isinstance(v, PatternValue) and isinstance(v.pattern, OpPattern)]
    if not roots or len(roots) < len(given):
        raise RuleError("a pattern must give what an operator makes, such as op.Relu(x)")
    indices = tuple(r.output for r in roots)
    if len({*indices}) < len(roots) or any(replace(r, output=0) != replace(roots[0], output=0) for r in roots):
        raise RuleError("a pattern must end in one operator: several roots have no counterpart here")
    names = (*variables, *tracer.outputs)
    return TracedPattern(replace(roots[0], output=0), indices, names, tracer)


def _call_pattern(pattern: Callable[..., Any], tracer: Tracer, variables: dict[str, PatternValue]) -> Any:
    """What the pattern gives. Raises RuleError for what it does with its variables that has no meaning here."""
    try:
        return pattern(tracer, **variables)
    except RuleError:
        raise
    except Exception as e:
        raise RuleError(f"the pattern cannot be traced: {format_error(e)}") from e


def _attribute_pattern(op_type: str, name: str, value: Any) -> Any:
    """What an attribute is held to; numbers as ONNX stores them."""
    if isinstance(value, PatternValue) and isinstance(value.pattern, Var):
        return value.pattern
    if isinstance(value, list | tuple):
        entries = cast("Sequence[Any]", value)
        return [_attribute_pattern(op_type, name, v) for v in entries]
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(np.float32(value))
    raise RuleError(f"{op_type}: {name} cannot be held to a {type(value).__name__}")


def _constant_content(attrs: dict[str, Any]) -> Any:
    """The elements of a Constant by whichever attribute gives them."""
    if len(attrs) != 1:
        raise RuleError("op.Constant takes one attribute: value, value_float, value_int ...")
    return constant_array(*attrs.popitem())


def constant_array(attribute: str, value: Any) -> Any:
    """The elements that an attribute of Constant stands for."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute not in {"value", *CONSTANT_DTYPES} or isinstance(value, PatternValue):
        raise RuleError(f"op.Constant: {attribute}={value!r} has no counterpart here")
    return np.asarray(value, CONSTANT_DTYPES.get(attribute))


def _equals_constant(value: Value, content: Any) -> bool:
    """Whether a constant has that content: a number in any shape of one element, other things in their shape."""
    held: Any = value.const
    if held.size != content.size or held.dtype.hasobject or (content.ndim and held.shape != content.shape):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        cast_to = content.astype(held.dtype)
    if held.dtype.kind in "biu" and cast_to.tolist() != content.tolist():
        return False  # 0.5 is no integer
    return bool(np.all(held.reshape(content.shape) == cast_to))
