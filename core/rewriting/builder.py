"""The builder of replacement ops, in the notation of patterns and for the opset of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NoReturn, cast

import numpy as np
from onnx import TensorProto, defs, helper

from ..errors import MatchFailure, MissingOperator, RuleError, require
from ..ir import op_schemas
from ..ir.cost_model import CostModel
from ..ir.graph import Graph
from ..ir.op import Op, without_trailing_omitted
from ..ir.tensor import Tensor, element_type
from ..ir.values import Value

Array = np.ndarray[Any, Any]
FORMAL_DTYPES = {f"tensor({name})": dtype for name, dtype in [
    ("int64", np.int64), ("int32", np.int32), ("float", np.float32), ("bool", np.bool_), ("double", np.float64),
]}  # fmt: skip


class RewriteBuilder:
    """`g.Gemm(a, b, c, alpha=2.0)` adds a Gemm and gives its output.

    Parameters that are inputs in the newest opset and attributes in the model's, or the other way round
    (axes of Squeeze, min of Clip, pads of Pad), are converted. An operator or attribute that does not exist
    in the model's opset declines. `outputs=n` gives n values; None omits an input. A number is a constant without dims,
    of the element type of the other operands: `g.Mul(x, 2.0)`. One `of_rule` declines ops that the target of the
    pipeline does not take; what passes add without rules is replaced after them.
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
        self.graph, self._of_rule = graph, of_rule
        self.added_ops: list[Op] = [] if base is None else base.added_ops
        self.constants: list[Value] = [] if base is None else base.constants
        self._root, self._domain = root, domain

    @property
    def opset(self) -> int:
        """The version of the standard operators that the model uses."""
        return self.graph.opsets.get(op_schemas.ONNX_DOMAIN, 0)

    @property
    def costs(self) -> CostModel:
        """The time that ops take on the target of the pipeline."""
        return self.graph.context.costs

    @property
    def root(self) -> Op:
        """The op whose outputs are to be replaced."""
        return self._root

    def domain(self, name: str) -> RewriteBuilder:
        """Operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
        return RewriteBuilder(self.graph, self._root, name, self, of_rule=self._of_rule)

    def const(self, data: Any, like: Value | None = None) -> Value:
        """A constant; with `like`, of that value's element type. Raises TypeError for None."""
        if data is None:
            raise TypeError("a constant was to be made of None, as an attribute that the op does not have")
        kind = helper.tensor_dtype_to_np_dtype(like.dtype) if like is not None else None
        array = cast("Array", data) if isinstance(data, np.ndarray) else np.asarray(data, kind)
        array = array if kind is None else array.astype(kind, copy=False)  # of the same subclass
        tensor = Tensor.intern(array, self.graph.context.interned_tensors)
        made = self.graph.add_constant(tensor, self._root.outputs[0].name)
        self.constants.append(made)
        return made

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        def add(*inputs: Value | float | None, outputs: int = 1, **attrs: Any) -> Value | tuple[Value, ...]:
            written = {k: v for k, v in attrs.items() if v is not None}
            spec = op_schemas.schema(op_type, self._domain, self.graph.opsets.get(self._domain, 0))
            values = [
                self._number(spec, i, inputs, v) if isinstance(v, int | float) else v for i, v in enumerate(inputs)
            ]
            if spec is not None:
                self._adapt_to_schema(spec, values, written)
                self._require_types(op_type, values)
            elif op_schemas.latest_opset_version(self._domain):
                self._decline_missing(op_type)
            if self._of_rule:
                self._require_on_target(op_type, values)
            self.graph.opsets.setdefault(self._domain, 1)
            op = Op(op_type, self._domain, "", written, None)
            op.order_key = self._root.order_key
            made = [Value(self.graph.fresh_name(self._root.outputs[0].name)) for _ in range(outputs)]
            self.added_ops.append(self.graph.add_op(op, without_trailing_omitted(values), made))
            if self._of_rule and (obstacle := self.graph.context.obstacle) is not None:
                require(not (why := obstacle(op)), f"the target does not take this {op_type}: {why}")
            return made[0] if outputs == 1 else tuple(made)

        return add

    def _decline_missing(self, op_type: str) -> NoReturn:
        """Decline an operator that does not exist at the opset of the graph. Raises RuleError if no opset has it."""
        version = self.graph.opsets.get(self._domain, 0)
        since = op_schemas.since_versions(self._domain).get(op_type, 0)
        if not since:
            raise RuleError(op_schemas.misuse(op_type, self._domain, (0, 0), frozenset[str]()))
        if since > version:
            raise MissingOperator(op_type, version, since)
        raise MatchFailure(f"{op_type} does not exist at opset {version}")

    def _require_types(self, op_type: str, values: list[Value | None]) -> None:
        """Decline tensors of element types that the operator does not take at the opset of the graph."""
        version = self.graph.opsets.get(self._domain, 0)
        allowed = op_schemas.input_types(op_type, self._domain, version)
        for i, value in enumerate(values if allowed else ()):
            dtype = 0 if value is None or value.type is not None else value.known_dtype
            if dtype and f"tensor({element_type(dtype)})" not in allowed[min(i, len(allowed) - 1)]:
                raise MatchFailure(f"{op_type} takes no {element_type(dtype)} at opset {version}")

    def _require_on_target(self, op_type: str, values: list[Value | None]) -> None:
        """Decline an op that the target of the pipeline, if there is one, does not run."""
        runs = self.graph.context.runs
        if runs is not None:
            dtypes = [0 if v is None else v.known_dtype for v in values]
            require(runs(op_type, self._domain, self.graph.opsets.get(self._domain, 1), dtypes),
                    f"the target runs no {op_type} of these types")  # fmt: skip

    def _adapt_to_schema(self, spec: defs.OpSchema, values: list[Value | None], attrs: dict[str, Any]) -> None:
        """Move between inputs and attributes until the schema in force is satisfied.

        Raises RuleError for inputs or attributes that no opset has.
        """
        names = [i.name for i in spec.inputs]
        declared = op_schemas.attribute_types(spec.name, spec.domain, spec.since_version)
        if not spec.min_input <= len(values) <= spec.max_input or not attrs.keys() <= declared.keys():
            count = len(without_trailing_omitted(values))
            if why := op_schemas.misuse(spec.name, spec.domain, (count, count + len(attrs)), frozenset(attrs)):
                raise RuleError(why)
        if not spec.inputs or spec.inputs[-1].option != defs.OpSchema.FormalParameterOption.Variadic:
            newer = op_schemas.latest_input_names(spec.name, spec.domain)
            for name, value in zip(newer[len(names) :], values[len(names) :], strict=False):
                if value is not None:
                    require(name in declared, f"{spec.name} takes no {name} at opset {self.opset}")
                    attrs[name] = value.const.tolist()
            del values[len(names) :]
        for name in [n for n in attrs if n not in declared]:
            require(name in names, f"{spec.name} takes no {name} at opset {self.opset}")
            index = names.index(name)
            values += [None] * (index + 1 - len(values))
            values[index] = self._formal_constant(spec, index, values, attrs.pop(name))
        given = max((i for i, v in enumerate(values, 1) if v is not None), default=0)
        require(given >= spec.min_input, f"{spec.name} needs {spec.min_input} inputs at opset {self.opset}")

    def _number(
        self, spec: defs.OpSchema | None, index: int, inputs: Sequence[Value | float | None], number: float
    ) -> Value:
        """A constant of the type that the schema wants: of operands of the same formal type, or the first that fits.

        Declines a number that is none of that type.
        """
        operands = [v for v in inputs if isinstance(v, Value)]
        dtypes, formal = [v.dtype for v in operands], None
        if spec is not None and index < len(spec.inputs):
            formal = spec.inputs[index].type_str
            allowed = op_schemas.input_types(spec.name, spec.domain, spec.since_version)[index]
            same = [
                v.dtype for i, v in zip(spec.inputs, inputs, strict=False) if i.type_str == formal and v in operands
            ]
            dtypes = [t for t in (*same, *dtypes, TensorProto.INT64) if f"tensor({element_type(t)})" in allowed]
        kind = np.dtype(FORMAL_DTYPES[formal]) if formal in FORMAL_DTYPES else None
        require(kind is not None or dtypes, f"the type of {number} is open")
        kind = helper.tensor_dtype_to_np_dtype(dtypes[0]) if kind is None else kind
        made = np.asarray(number).astype(kind)
        is_whole = kind.kind not in "biu" or made.item() == number
        is_kept = isfinite(made) == isfinite(number) and bool(made) == bool(number)
        require(is_whole and is_kept, f"{number} is no {kind}")
        return self.const(made)

    def _formal_constant(self, spec: defs.OpSchema, index: int, values: list[Value | None], data: Any) -> Value:
        """A constant of the element type that the schema gives its `index`-th input."""
        formal = spec.inputs[index].type_str
        if formal in FORMAL_DTYPES:
            return self.const(np.asarray(data, FORMAL_DTYPES[formal]))
        for other, value in zip(spec.inputs, values, strict=False):
            if other.type_str == formal and value is not None:
                return self.const(data, like=value)
        allowed = op_schemas.input_types(spec.name, spec.domain, spec.since_version)[index]
        require("tensor(int64)" in allowed, f"the type of {spec.inputs[index].name} of {spec.name} is open")
        return self.const(np.asarray(data, np.int64))
