"""Evaluation of models in double precision, whatever float types they declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
from msgspec import Struct
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ...errors import EvaluationError
from ...ir import op_schemas
from ...ir.tensor import Tensor, first_line
from ...operators.declaration import OperatorCall, Trait
from ...operators.element_types import NUMPY_DTYPES, Array, widened
from ...operators.table import find_meaning, ops_with
from ...processes.onnx_calls import OnnxError, function_body
from ...serialization.proto_queries import copy_without, needed_nodes, opset_versions, read_names
from ..noise import NOISE_MULTIPLE
from .sequential_sums import SequentialSums

Policy = Callable[[Array, int, bool], Array]
"""Converts the float64 result of an op to the value that others read.

Its arguments are also the element type in the model, and whether the op is exact: it moves or selects elements.
"""

Observer = Callable[[onnx.NodeProto, Sequence[Any], Mapping[str, Any]], None]
"""Called with an op, its inputs, and its attributes with their defaults."""


def narrowed(value: Any, element_type: int) -> Any:
    """Convert float64 numbers in a value, or in the parts of a sequence, to their type in the model."""
    if isinstance(value, list):
        return [narrowed(v, element_type) for v in cast("Sequence[Any]", value)]
    if element_type not in NUMPY_DTYPES or not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    return array.astype(NUMPY_DTYPES[element_type]) if array.dtype == np.float64 else array


def unchanged(array: Array, element_type: int, is_exact: bool) -> Array:
    """Return the result itself."""
    return array


def rounded(array: Array, element_type: int, is_exact: bool) -> Array:
    """Round the result to its type in the model, and to infinity beyond its range, as if computed in that type."""
    dtype = NUMPY_DTYPES.get(element_type, np.dtype(np.float64))
    return array.astype(dtype).astype(np.float64, copy=False)


def of_matrices(policy: Policy) -> Policy:
    """The policy applied only to constants with two or more dims; vectors may be bounds, exponents or sizes."""
    return lambda array, element_type, is_exact: policy(array, element_type, is_exact) if array.ndim > 1 else array


def perturbation(share: float | None, seed: int, *, keep_numbers: bool, times: int = 1) -> Policy:
    """A policy that moves inexact results up or down at random by a fraction of themselves.

    If `share` is None, it is `times` the largest rounding error of their type.

    With `keep_numbers`, numbers that float32 can represent do not move, because whole ones among them may be sizes.
    """
    rng = np.random.default_rng(seed)

    def perturbed(array: Array, element_type: int, is_exact: bool) -> Array:
        if is_exact:
            return array
        dtype = NUMPY_DTYPES.get(element_type, np.dtype(np.float32))
        relative = times * float(ml_dtypes.finfo(dtype).eps) / 2 if share is None else share
        moved = array * (1 + relative * (2 * rng.integers(0, 2, array.shape, np.int8) - 1))
        return np.where(array == array.astype(np.float32), array, moved) if keep_numbers else moved

    return perturbed


Constant = onnx.TensorProto | Tensor
EXACT = (
    ops_with(Trait.MOVES_DATA)
    | ops_with(Trait.SELECTS)
    | ops_with(Trait.HAS_SUBGRAPHS)
    | {"Cast", "CastLike", "Constant", "Concat", "Where", "Max", "Min", "Clip"}
)
"""Operators whose results consist of numbers that they were given."""
ROUNDOFF = 2.0**-52  # of float64
NO_ARRAYS: Mapping[str, Any] = MappingProxyType({})
FunctionTable = Mapping[tuple[str, str, str], onnx.FunctionProto]
DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


class Float64Value(Struct, frozen=True):
    """A value of a model, with floats as float64; `largest` is the largest finite magnitude of intermediate results.

    `out_of_range` says whether, or at which elements, float64 itself over- or underflowed in intermediate results. The
    functions compute the value for a seed: `perturbed` with the result of each op moved up or down at random, by a
    fraction of itself, or if that is None by its rounding error in its type in the model; `of_rounded_ops` also by 8
    times as much in results of ops that float32 cannot represent; `of_ordered_sums` like `evaluate_with_ordered_sums`.
    """

    value: Any
    largest: float
    out_of_range: bool | Array
    perturbed: Callable[[float | None, int], Any]
    of_rounded_ops: Callable[[int], Any]
    of_ordered_sums: Callable[[int], Any]


def evaluate_in_float64(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | Mapping[str, str],
    initializers: Mapping[str, Tensor | Array] = NO_ARRAYS,
) -> Mapping[str, Float64Value]:
    """Evaluate `outputs` of `model` in double precision; its constants and `feeds` are assumed to be exact.

    Results may have other names: `outputs` then maps each of them to its name in the model. `initializers` are tensors
    by name, which replace those in the model or are added to them. A Cast to a float type of any width does not change
    the number. 8-bit floats and integers are evaluated as their codes. Nodes may be in any order. Raises
    EvaluationError that names the operator without float64 kernel, or the node that fails.
    """

    def run(policy: Policy, weight_policy: Policy | None = None) -> _Evaluation:
        return _evaluation(model, feeds, outputs, initializers, policy, weight_policy or of_matrices(policy))

    @cache
    def of_rounded_ops(seed: int) -> Mapping[str, Any]:
        return run(perturbation(None, seed, keep_numbers=True, times=NOISE_MULTIPLE)).results

    @cache
    def perturbed(share: float | None, seed: int) -> Mapping[str, Any]:
        try:
            found = run(perturbation(share, seed, keep_numbers=False)).results
        except EvaluationError:
            found = NO_ARRAYS
        if all(_shape(found.get(name)) == _shape(value) for name, value in done.results.items()):
            return found
        return run(perturbation(share, seed, keep_numbers=True)).results  # a size was computed in floats

    @cache
    def of_ordered_sums(seed: int) -> Mapping[str, Any]:
        return evaluate_with_ordered_sums(model, feeds, outputs, seed, initializers)

    done = run(unchanged)
    return {
        name: Float64Value(
            value,
            done.largest,
            bool(done.flags),
            lambda share, seed, name=name: perturbed(share, seed)[name],
            lambda seed, name=name: of_rounded_ops(seed)[name],
            lambda seed, name=name: of_ordered_sums(seed)[name],
        )
        for name, value in done.results.items()
    }


def evaluate_rounded(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | Mapping[str, str],
    initializers: Mapping[str, Tensor | Array] = NO_ARRAYS,
) -> Mapping[str, Any]:
    """Evaluate `outputs`, rounding the result of each op to its type in the model.

    A device that computes declared 16-bit floats in 16 bits does so; onnxruntime's CPU provider uses 32 bits between
    ops. Raises EvaluationError.
    """
    done = _evaluation(model, feeds, outputs, initializers, rounded, of_matrices(rounded))
    return {name: narrowed(value, done.types[name]) for name, value in done.results.items()}


def evaluate_with_ordered_sums(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | Mapping[str, str],
    seed: int,
    initializers: Mapping[str, Tensor | Array] = NO_ARRAYS,
) -> Mapping[str, Any]:
    """Evaluate `outputs`, adding the terms of each sum one by one in its type, in an order given by the seed.

    This includes the rounding errors of float64: the result of each op is moved by as much. Raises EvaluationError.
    """
    move = perturbation(ROUNDOFF, seed, keep_numbers=True)

    def constant(array: Array, element_type: int, is_exact: bool) -> Array:
        return SequentialSums.of(array, element_type, seed)

    def ordered(array: Array, element_type: int, is_exact: bool) -> Array:
        return constant(
            move(array, element_type, is_exact) if element_type == TensorProto.DOUBLE else array, element_type, is_exact
        )

    given = {
        name: SequentialSums.of(v, _element_type(v), seed) if isinstance(v, np.ndarray) else v
        for name, v in feeds.items()
    }
    found = _evaluation(model, given, outputs, initializers, ordered, constant).results
    return {name: v.view(np.ndarray) if isinstance(v, np.ndarray) else v for name, v in found.items()}


def evaluate_by_policy(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    initializers: Mapping[str, Tensor | Array],
    policy: Policy,
    order: EvaluationOrder | None = None,
    observe: Observer | None = None,
) -> Mapping[str, Any]:
    """Evaluate the outputs of `model` in float64, applying `policy` to each constant and result.

    Subclasses of ndarray in `feeds` and from the policy are kept. `order` is the order of the nodes, for models that
    are evaluated often. `observe` is called with each op before it is computed, also with ops in bodies. Raises
    EvaluationError.
    """
    names = [v.name for v in model.graph.output]
    return _evaluation(model, feeds, names, initializers, policy, policy, order, observe).results


class EvaluationOrder(Struct, frozen=True):
    """The nodes that outputs need, producers first, and by index of a node the names that nothing reads after it."""

    nodes: Sequence[_DecodedNode]
    last_uses: Mapping[int, Sequence[str]]

    @classmethod
    def of(cls, model: onnx.ModelProto, outputs: Sequence[str]) -> EvaluationOrder:
        """The order of the nodes of a model."""
        nodes = needed_nodes(model.graph.node, outputs)
        return cls([_DecodedNode.of(n) for n in nodes], _last_uses(nodes, outputs))


class _DecodedNode(Struct, frozen=True, dict=True):
    """A node, and what evaluations read of its message, decoded once."""

    node: onnx.NodeProto
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, node: onnx.NodeProto) -> _DecodedNode:
        """Decode a node."""
        return cls(node, op_schemas.canonical_domain(node.domain), tuple(node.input), tuple(node.output))

    @cached_property
    def has_references(self) -> bool:
        """Whether an attribute refers to one of the enclosing function."""
        return any(a.ref_attr_name for a in self.node.attribute)

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The values of the attributes that the node sets."""
        return {a.name: _value_of(a) for a in self.node.attribute}


def _evaluation(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | Mapping[str, str],
    initializers: Mapping[str, Tensor | Array],
    policy: Policy,
    weight_policy: Policy,
    order: EvaluationOrder | None = None,
    observe: Observer | None = None,
) -> _Evaluation:
    names = outputs if isinstance(outputs, Mapping) else {name: name for name in outputs}
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    work = _Evaluation(policy, weight_policy, functions, observe)
    with np.errstate(all="ignore", over="call", under="call", call=work.note_flag):
        work.run(model, feeds, names, initializers, order)
    return work


@dataclass(slots=True)
class _Scope:
    """The values and element types of a graph, and the scope of the enclosing graph."""

    opsets: Mapping[str, int]
    policy: Policy
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    parent: _Scope | None = None
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    types: dict[str, int] = field(default_factory=dict[str, int])
    tensors: dict[str, Constant] = field(default_factory=dict[str, Constant])

    def read(self, name: str) -> tuple[Any, int]:
        """A value and its element type. Raises EvaluationError."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name], scope.types.get(name, 0)
            if name in scope.tensors:
                held = scope.tensors.pop(name)
                scope.bind_constant(name, held.array if isinstance(held, Tensor) else numpy_helper.to_array(held))
                continue
            scope = scope.parent
        raise EvaluationError(f"{name} has no value")

    def bind_constant(self, name: str, array: Array) -> None:
        """Bind a name to a constant."""
        self.bind(name, array)
        self.values[name] = self.after_policy(self.values[name], self.types[name])

    def after_policy(self, constant: Any, element_type: int) -> Any:
        """A constant after the policy, which may treat it as rounded, because rewrites fold numbers into constants."""
        if not isinstance(constant, np.ndarray) or cast("Array", constant).dtype != np.float64:
            return constant
        return self.policy(cast("Array", constant), element_type, False)

    def bind(self, name: str, value: Any, element_type: int = 0) -> None:
        """Bind a name to a value as stored in the model."""
        self.types[name] = element_type or _element_type(value)
        self.values[name] = widened(value)


@dataclass(slots=True)
class _Evaluation:
    policy: Policy
    weight_policy: Policy
    functions: FunctionTable
    observe: Observer | None = None
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    types: dict[str, int] = field(default_factory=dict[str, int])
    largest: float = 0.0
    flags: set[str] = field(default_factory=set[str])

    def note_flag(self, kind: str, _: int) -> None:
        """Record a floating-point exception: `overflow` or `underflow`."""
        self.flags.add(kind)

    def run(
        self,
        model: onnx.ModelProto,
        feeds: Mapping[str, Any],
        outputs: Mapping[str, str],
        initializers: Mapping[str, Tensor | Array],
        order: EvaluationOrder | None = None,
    ) -> None:
        """Evaluate a model and add the outputs to `results`."""
        scope = _Scope(opset_versions(model), self.weight_policy, tensors={t.name: t for t in model.graph.initializer})
        for s in model.graph.sparse_initializer:
            scope.bind(s.values.name, _dense(s))
        scope.tensors.update({name: t for name, t in initializers.items() if isinstance(t, Tensor)})
        arrays = {name: t for name, t in initializers.items() if not isinstance(t, Tensor)}
        for name, array in arrays.items():
            scope.bind_constant(name, array)
        for name, value in feeds.items():
            scope.bind(name, value)
        for name in (*arrays, *feeds):
            scope.tensors.pop(name, None)
        order = EvaluationOrder.of(model, [*outputs.values()]) if order is None else order
        for index, node in enumerate(order.nodes):
            self._run_node(node, scope)
            for name in order.last_uses.get(index, ()):
                scope.values.pop(name, None)
        for name, inner in outputs.items():
            self.results[name], self.types[name] = scope.read(inner)

    def _run_graph(self, graph: onnx.GraphProto, inputs: Sequence[Any], scope: _Scope) -> list[Any]:
        """The outputs of the body of an op in `scope`."""
        inner = _Scope(
            scope.opsets, self.weight_policy, scope.attributes, scope, tensors={t.name: t for t in graph.initializer}
        )
        for s in graph.sparse_initializer:
            inner.bind(s.values.name, _dense(s))
        for formal, value in zip(graph.input, inputs, strict=False):
            inner.bind(formal.name, value, formal.type.tensor_type.elem_type)
        for node in graph.node:
            self._run_node(_DecodedNode.of(node), inner)
        found = [inner.read(o.name) for o in graph.output]
        return [value for value, _ in found]

    def _run_node(self, decoded: _DecodedNode, scope: _Scope) -> None:
        node, domain = decoded.node, decoded.domain
        read = [scope.read(name) if name else (None, 0) for name in decoded.inputs]
        inputs, types = [value for value, _ in read], [kind for _, kind in read]
        function = self.functions.get((node.domain, node.op_type, node.overload)) if self.functions else None
        try:
            if function is not None:
                results = self._call(function, node, inputs, types, scope)
            else:
                results = self._compute(decoded, inputs, types, scope)
        except EvaluationError:
            raise
        except Exception as e:
            name = op_schemas.qualified_op_type(domain, node.op_type)
            label = next(filter(None, decoded.outputs), "")
            raise EvaluationError(f"{name} of {label} cannot be evaluated in float64: {first_line(e)}") from e
        is_exact = function is not None or (not domain and node.op_type in EXACT)
        for name, (value, kind) in zip(decoded.outputs, results, strict=False):
            if name:
                held = scope.after_policy(value, kind) if node.op_type == "Constant" else value
                scope.values[name] = self._finished(held, kind, is_exact)
                scope.types[name] = kind

    def _compute(
        self, decoded: _DecodedNode, inputs: list[Any], types: list[int], scope: _Scope
    ) -> list[tuple[Any, int]]:
        """The results of an op, each with its element type."""
        if decoded.has_references:
            decoded = _DecodedNode.of(_resolved_node(decoded.node, scope))
        node, domain = decoded.node, decoded.domain
        version = scope.opsets.get(domain, 1)
        meaning = find_meaning(domain, node.op_type)
        schema = op_schemas.schema(node.op_type, domain, version)
        if meaning is None:
            body = _function_body(schema, node, version, types)
            if body is not None:
                return self._call(body, node, inputs, types, scope)
            raise EvaluationError(f"{op_schemas.qualified_op_type(domain, node.op_type)} has no float64 kernel")
        attributes = {**op_schemas.attribute_defaults(node.op_type, domain, version), **decoded.attributes}
        if self.observe is not None:
            self.observe(node, inputs, attributes)
        call = OperatorCall(node, version, attributes, types, lambda g, args: self._run_graph(g, args, scope))
        made = meaning(call, *inputs)
        results: list[Any] = list(cast("tuple[Any, ...]", made)) if isinstance(made, tuple) else [made]
        stated = next((attributes[name] for name in DTYPE_ATTRIBUTES if attributes.get(name)), 0)
        kinds = _output_types(schema, stated if isinstance(stated, int) else 0, tuple(types), len(results))
        return [(widened(v), _own_type(v) or kind) for v, kind in zip(results, kinds, strict=True)]

    def _call(
        self, function: onnx.FunctionProto, node: onnx.NodeProto, inputs: list[Any], types: list[int], scope: _Scope
    ) -> list[tuple[Any, int]]:
        """The results of a function."""
        given = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        given = {name: _resolved(a, scope) for name, a in given.items()}
        inner = _Scope(opset_versions(function), self.weight_policy, {n: a for n, a in given.items() if a is not None})
        for formal, value, kind in zip(function.input, inputs, types, strict=False):
            inner.bind(formal, value, kind)
        for formal in function.input[len(inputs) :]:
            inner.bind(formal, None)
        for inner_node in function.node:
            self._run_node(_DecodedNode.of(inner_node), inner)
        # Bodies omit optional outputs, depending on the inputs and attributes of the call.
        return [inner.read(name) if name in inner.values else (None, 0) for name in function.output]

    def _finished(self, value: Any, element_type: int, is_exact: bool) -> Any:
        """A result after the policy; its magnitude is recorded."""
        if isinstance(value, list):
            return [self._finished(v, element_type, is_exact) for v in cast("list[Any]", value)]
        if not isinstance(value, np.ndarray):
            return value
        array = cast("Array", value)
        if array.dtype != np.float64:
            return array
        array = self.policy(array, element_type, is_exact)
        if array.size:
            sizes = np.abs(np.asarray(array))
            top = float(sizes.max())
            if not np.isfinite(top):
                top = float(sizes[np.isfinite(sizes)].max(initial=0.0))
            self.largest = max(self.largest, top)
        return array


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """The dense tensor for a sparse one (onnx.proto, SparseTensorProto)."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    out = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out


def _element_type(value: Any) -> int:
    """The element type of an array, or of the first array in a sequence; 0 where unknown."""
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return _element_type(parts[0]) if parts else 0
    if not isinstance(value, np.ndarray | np.generic):
        return 0
    dtype = cast("np.dtype[Any]", value.dtype)
    return TensorProto.STRING if dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(dtype)


def _shape(value: Any) -> object:
    """The shape of an array, or the shapes in a sequence."""
    if isinstance(value, list):
        return [_shape(v) for v in cast("list[Any]", value)]
    return cast("Array", value).shape if isinstance(value, np.ndarray) else None


def _own_type(value: Any) -> int:
    """The element type of a result if it keeps the type of the model; 0 for floats, which are evaluated as float64."""
    kind = _element_type(value)
    return 0 if kind == TensorProto.DOUBLE else kind


def _last_uses(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> dict[int, list[str]]:
    """The names that nothing reads after a node, by the index of the node."""
    last: dict[str, int] = {}
    for index, node in enumerate(nodes):
        last.update(dict.fromkeys((*node.output, *read_names(node)), index))
    found: dict[int, list[str]] = {}
    for name in last.keys() - set(outputs):
        found.setdefault(last[name], []).append(name)
    return found


def _resolved_node(node: onnx.NodeProto, scope: _Scope) -> onnx.NodeProto:
    """The node with references to attributes replaced by the attributes of the call of its function."""
    found = copy_without(node, "attribute")
    for a in node.attribute:
        if (given := _resolved(a, scope)) is not None:
            found.attribute.add().CopyFrom(given)
            found.attribute[-1].name = a.name
    return found


def _resolved(a: AttributeProto, scope: _Scope) -> AttributeProto | None:
    if not a.ref_attr_name:
        return a
    return scope.attributes.get(a.ref_attr_name)


def _value_of(a: AttributeProto) -> Any:
    if a.type == AttributeProto.TENSOR:
        return numpy_helper.to_array(a.t)
    if a.type == AttributeProto.SPARSE_TENSOR:
        return _dense(a.sparse_tensor)
    return op_schemas.decode_strings(helper.get_attribute_value(a))


def _function_body(schema: Any, node: onnx.NodeProto, version: int, types: Sequence[int]) -> onnx.FunctionProto | None:
    """The function that defines an operator at an opset, or None if there is none."""
    if schema is None:
        return None
    plain: list[int] = [v for v in schema.function_opset_versions if v <= version]
    if plain:
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(plain)))
    typed: list[int] = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not typed:
        return None
    given = [helper.make_tensor_type_proto(t or TensorProto.FLOAT, None).SerializeToString() for t in types]
    try:
        found = function_body(schema, max(typed), node, given)
    except OnnxError as e:
        raise EvaluationError(f"the function of {node.op_type} is not known: {first_line(e)}") from e
    return onnx.FunctionProto.FromString(found) if found else None


@cache
def _output_types(schema: Any, stated: int, types: tuple[int, ...], count: int) -> Sequence[int]:
    """The element types of float outputs, by type variables or an attribute; float by default."""
    first = next((t for t in types if t in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)), 0)
    if schema is None:
        return [first or TensorProto.FLOAT] * count
    formals: list[str] = [f.type_str for f in schema.inputs]
    bound = {formals[min(i, len(formals) - 1)]: t for i, t in reversed(list(enumerate(types))) if t and formals}
    found: list[int] = []
    for i in range(count):
        variable: str = schema.outputs[min(i, len(schema.outputs) - 1)].type_str
        found.append(bound.get(variable) or stated or TensorProto.FLOAT)
    return found
