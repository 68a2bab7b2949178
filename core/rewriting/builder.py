"""The builder of replacement ops, in the notation of patterns, for the model's opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from onnx import AttributeProto, TensorProto, defs, helper

from ..errors import MatchFailure, MissingOperator, RuleError, require
from ..ir import op_schemas
from ..ir.cost_model import CostModel
from ..ir.dtypes import DataType
from ..ir.graph import Graph
from ..ir.op import Op, without_trailing_omitted
from ..ir.tensor import Tensor, element_type
from ..ir.values import Value
from ..support.author_errors import is_each, require_argument, require_type

if TYPE_CHECKING:
    from .operator_methods import Operators  # pyright: ignore[reportMissingModuleSource] - for checkers alone
else:
    Operators = object

Array = np.ndarray[Any, Any]
Operand = Value | float | np.number[Any] | np.bool_ | Sequence[float] | Array
"""An input of a new op: a value, or the elements of a constant with the element type of the other operands."""
FORMAL_DTYPES = {f"tensor({name})": dtype for name, dtype in [
    ("int64", np.int64), ("int32", np.int32), ("float", np.float32), ("bool", np.bool_), ("double", np.float64),
]}  # fmt: skip


NUMERIC = (AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.FLOATS, AttributeProto.INTS)
ARRAYS = (int, float, np.generic, np.ndarray)


def _require_elements(op_type: str, given: object) -> None:
    """Raise UsageError for an operand that is neither a value nor elements of a constant."""
    shown = given
    is_list = is_each(given, (int, float, np.generic, str, bytes, list, tuple))
    hint = " (use one of the op's outputs, such as op.outputs[0])" if isinstance(given, Op) else ""
    hint = " (use a star for several, such as g.Concat(*xs))" if is_each(given, Value) else hint
    is_right = is_list or isinstance(given, ARRAYS)
    require_argument(is_right, op_type, f"values, numbers and arrays{hint}", shown)


class RewriteBuilder(Operators):
    """The builder passed to a rule as `g`: each operator is a method that adds an op and returns its outputs.

    `g.Gemm(a, b, c, alpha=2.0)` takes the inputs and attributes of ONNX's newest opset. If one of them is an attribute
    instead of an input at the model's opset, or vice versa (axes of Squeeze, min of Clip, pads of Pad), it is
    converted. The result is a value if the operator has one required output, otherwise a tuple, as in `values, indices
    = g.TopK(x, k)`; `outputs=n` returns a tuple of n values, for example of a Split. None omits an input. Numbers,
    lists and arrays become constants with the element type of the other operands: `g.Mul(x, 2.0)`, `g.Reshape(x, [0,
    -1])`. An operator or attribute that does not exist at the model's opset, or does not accept these types, declines
    (MatchFailure); one that exists at no opset, or a wrong number of inputs or outputs, raises RuleError.

    `graph` is the graph of the match, and `added_ops` are the ops added so far, for passes. A builder `of_rule`
    declines ops that the pipeline's target does not support; those that passes add without rules are replaced
    afterwards.

    Examples:
        >>> build = RewriteBuilder(graph, next(graph.ops("Add")))
        >>> x = graph.inputs[0]
        >>> scaled = build.Mul(build.Reshape(x, [-1, 2, 2]), 2.0)
        >>> scaled.dtype, scaled.rank
        (float32, 3)
        >>> values, indices = build.TopK(x, [3], largest=0)
        >>> first, second = build.Split(x, [1, 3], axis=1, outputs=2)
        >>> build.domain("com.microsoft").Gelu(first).name.startswith("y")
        True
    """

    def __init__(
        self,
        graph: Graph,
        root: Op,
        domain: str = op_schemas.ONNX_DOMAIN,
        base: RewriteBuilder | None = None,
        *,
        of_rule: bool = False,
    ) -> None:
        require_type(graph, Graph, "RewriteBuilder", "a graph first")
        require_type(root, Op, "RewriteBuilder", "an op of the graph as root")
        self.graph, self._of_rule = graph, of_rule
        self.added_ops: list[Op] = [] if base is None else base.added_ops
        self.constants: list[Value] = [] if base is None else base.constants
        self._root, self._domain = root, domain

    @property
    def opset(self) -> int:
        """The version of the standard operators in the model."""
        return self.graph.opsets.get(op_schemas.ONNX_DOMAIN, 0)

    @property
    def costs(self) -> CostModel:
        """The costs of ops on the pipeline's target."""
        return self.graph.context.costs

    @property
    def root(self) -> Op:
        """The op whose outputs will be replaced."""
        return self._root

    def const(self, data: Any, like: Value | None = None) -> Value:
        """A constant; with `like`, of that value's element type. Raises TypeError for None, UsageError for a value."""
        if data is None:
            raise TypeError("None cannot become a constant; was it read from an attribute that the op lacks?")
        is_array = not isinstance(data, Value | Op)
        require_argument(is_array, "const", "an array or numbers (x.const is the array of x)", data)
        require_type(like, (Value, NoneType), "const", "a value as like")
        kind = helper.tensor_dtype_to_np_dtype(like.dtype) if like is not None else None
        array = cast("Array", data) if isinstance(data, np.ndarray) else np.asarray(data, kind)
        array = array if kind is None else array.astype(kind, copy=False)  # of the same subclass
        tensor = Tensor.intern(array, self.graph.context.interned_tensors)
        made = self.graph.add_constant(tensor, self._root.outputs[0].name)
        self.constants.append(made)
        return made

    if not TYPE_CHECKING:

        def domain(self, name: str) -> RewriteBuilder:
            """Build operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
            return RewriteBuilder(self.graph, self._root, name, self, of_rule=self._of_rule)

        def __getattr__(self, op_type: str) -> Callable[..., Value | tuple[Value, ...]]:
            return partial(self._add, op_type)

    def _add(
        self, op_type: str, *inputs: Operand | None, outputs: int | None = None, **attrs: Any
    ) -> Value | tuple[Value, ...]:
        """Add an op; return its output, or a tuple of outputs if `outputs` or the schema specifies several."""
        written = {k: v for k, v in attrs.items() if v is not None}
        spec = op_schemas.schema(op_type, self._domain, self.graph.opsets.get(self._domain, 0))
        values = [
            v if v is None or isinstance(v, Value) else self._constant(spec, i, inputs, v) for i, v in enumerate(inputs)
        ]
        if spec is not None:
            if (parts := written.get("num_outputs")) is not None and parts != outputs:
                raise RuleError(f"{op_type} with num_outputs={parts} has {parts} outputs: give outputs={parts} alone")
            if outputs and "num_outputs" in spec.attributes and not (values[1:] or "split" in written):
                written["num_outputs"] = outputs  # of an equal Split, since opset 18
            self._adapt_to_schema(spec, values, written)
            self._require_types(op_type, values)
            if outputs is not None and not spec.min_output <= outputs <= spec.max_output:
                counts = dict.fromkeys(map(str, (spec.min_output, spec.max_output)))
                raise RuleError(
                    f"{op_type} has {' to '.join(counts)} output{'s' * (spec.max_output > 1)}, not {outputs}"
                )
        elif op_schemas.latest_opset_version(self._domain):
            self._decline_missing(op_type)
        if self._of_rule:
            self._require_on_target(op_type, values)
        self.graph.opsets.setdefault(self._domain, 1)
        op = Op(op_type, self._domain, "", written, None)
        op.order_key = self._root.order_key
        count = outputs or max(1, spec.min_output if spec is not None else 1)
        made = [Value(self.graph.fresh_name(self._root.outputs[0].name)) for _ in range(count)]
        self.added_ops.append(self.graph.add_op(op, without_trailing_omitted(values), made))
        if not self._of_rule:
            self.graph.take_bodies(op)
        elif (obstacle := self.graph.context.obstacle) is not None:
            require(not (why := obstacle(op)), f"the target does not support this {op_type}: {why}")
        return made[0] if outputs is None and len(made) == 1 else tuple(made)

    def _decline_missing(self, op_type: str) -> NoReturn:
        """Decline an operator that does not exist at the graph's opset. Raises RuleError if it exists at no opset."""
        version = self.graph.opsets.get(self._domain, 0)
        since = op_schemas.since_versions(self._domain).get(op_type, 0)
        if not since:
            raise RuleError(op_schemas.misuse(op_type, self._domain, (0, 0), frozenset[str]()))
        if since > version:
            raise MissingOperator(op_type, version, since)
        raise MatchFailure(f"{op_type} does not exist at opset {version}")

    def _require_types(self, op_type: str, values: list[Value | None]) -> None:
        """Decline element types that the operator does not accept at the graph's opset."""
        version = self.graph.opsets.get(self._domain, 0)
        allowed = op_schemas.input_types(op_type, self._domain, version)
        for i, value in enumerate(values if allowed else ()):
            dtype = 0 if value is None or value.type is not None else value.known_dtype
            if dtype and f"tensor({element_type(dtype)})" not in allowed[min(i, len(allowed) - 1)]:
                raise MatchFailure(f"{op_type} takes no {element_type(dtype)} at opset {version}")

    def _require_on_target(self, op_type: str, values: list[Value | None]) -> None:
        """Decline an op that the pipeline's target, if there is one, does not support."""
        runs = self.graph.context.runs
        if runs is not None:
            dtypes = [0 if v is None else v.known_dtype for v in values]
            require(runs(op_type, self._domain, self.graph.opsets.get(self._domain, 1), dtypes),
                    f"the target runs no {op_type} of these types")  # fmt: skip

    def _adapt_to_schema(self, spec: defs.OpSchema, values: list[Value | None], attrs: dict[str, Any]) -> None:
        """Convert inputs to attributes and vice versa until they match the schema in force.

        Raises RuleError for inputs or attributes that exist at no opset.
        """
        names, newer = [i.name for i in spec.inputs], op_schemas.latest_input_names(spec.name, spec.domain)
        declared = op_schemas.attribute_types(spec.name, spec.domain, spec.since_version)
        if not spec.min_input <= len(values) <= spec.max_input or not attrs.keys() <= declared.keys():
            count = len(without_trailing_omitted(values))
            if why := op_schemas.misuse(spec.name, spec.domain, (count, count + len(attrs)), frozenset(attrs)):
                raise RuleError(why)
        if not spec.inputs or spec.inputs[-1].option != defs.OpSchema.FormalParameterOption.Variadic:
            for name, value in zip(newer[len(names) :], values[len(names) :], strict=False):
                if value is not None:
                    require(name in declared, f"{spec.name} has no {name} at opset {self.opset}")
                    attrs[name] = value.const.tolist()
            del values[len(names) :]
        for name, value in list(attrs.items()):
            if name in declared:
                is_text = isinstance(value, str) and declared[name] in NUMERIC
                require_argument(not is_text, f"{name} of {spec.name}", "numbers", value)
                attrs[name] = value.const.tolist() if isinstance(value, Value) else value
                continue
            index = next((n.index(name) for n in (names, newer) if name in n), len(names))
            require(index < len(names), f"{spec.name} takes no {name} at opset {self.opset}")
            values += [None] * (index + 1 - len(values))
            values[index] = value if isinstance(value, Value) else self._constant(spec, index, values, value)
            del attrs[name]
        given = max((i for i, v in enumerate(values, 1) if v is not None), default=0)
        require(given >= spec.min_input, f"{spec.name} needs {spec.min_input} inputs at opset {self.opset}")

    def _constant(self, spec: defs.OpSchema | None, index: int, inputs: Sequence[Operand | None], data: Any) -> Value:
        """Make a constant of the required type: the type of operands of the same formal type, or the first possible.

        An array keeps its own type if no operand has a suitable one. Declines numbers that the type cannot represent.
        """
        kind_of_input = "" if spec is None else op_schemas.kind_at(spec.name, spec.domain, index)
        if not (kind_of_input == "number" and isinstance(data, str)):  # Pad also accepts strings
            _require_elements(spec.name if spec is not None else "an operator", data)
        formal, what = "", str(data)
        if spec is not None and index >= len(spec.inputs):  # an attribute at this opset, an input at a later one
            spec = op_schemas.schema(spec.name, spec.domain, op_schemas.latest_opset_version(spec.domain))
        if spec is not None and index < len(spec.inputs):
            formal, what = spec.inputs[index].type_str, f"{spec.inputs[index].name} of {spec.name}"
        kind = np.dtype(FORMAL_DTYPES[formal]) if formal in FORMAL_DTYPES else None
        if kind is None:
            dtypes: list[int] = [v.dtype for v in inputs if isinstance(v, Value)]
            if spec is not None and formal:
                allowed = op_schemas.input_types(spec.name, spec.domain, spec.since_version)[index]
                pairs = zip(spec.inputs, inputs, strict=False)
                same = [v.dtype for i, v in pairs if i.type_str == formal and isinstance(v, Value)]
                own = [int(DataType(t))] if (t := getattr(data, "dtype", None)) is not None and t.kind != "O" else []
                found = (*same, *dtypes, *own, TensorProto.INT64)
                dtypes = [t for t in found if f"tensor({element_type(t)})" in allowed]
            require(dtypes, f"the type of {what} is undetermined")
            kind = helper.tensor_dtype_to_np_dtype(dtypes[0])
        given = np.atleast_1d(data) if kind_of_input == "list" else np.asarray(data)
        given = given.reshape(()) if kind_of_input == "number" and given.size == 1 else given
        with np.errstate(over="ignore"):  # checked below
            made = given.astype(kind, copy=False)
        if kind.kind in "biu":
            require(bool((made == given).all()), f"{data} is no {kind}")
        elif given.dtype.kind in "biuf":
            is_kept = (np.isfinite(made) == np.isfinite(given)) & (made.astype(np.bool_) == given.astype(np.bool_))
            require(bool(is_kept.all()), f"{data} is no {kind}")
        return self.const(made)
