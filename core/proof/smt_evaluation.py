"""Evaluation of models on tensors of z3 terms, at concrete shapes.

The meanings of operators that move elements are run on them, and other meanings if onnxruntime computes exactly
these. Any other operator is an unknown function of everything that it reads, which is equal in both models for equal
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, TypeGuard, cast

import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto, helper, numpy_helper

from ..ir import op_schemas
from ..ir.dtypes import INTEGERS
from ..operators.declaration import OperatorCall, Trait
from ..operators.elementwise import aligned
from ..operators.object_array import NotSupported, ObjectArray, map_cells
from ..operators.table import MOVING, READS_SHAPE, find_meaning, moved_inputs, ops_with
from ..operators.window import Windows, windows_of
from ..processes.onnx_calls import infer_shapes
from ..serialization.proto_queries import copy_without, has_subgraphs, opset_versions
from .obligation import ExactArray, Fragment, NotApplicable
from .smt_functions import Functions
from .smt_overrides import (
    DEFAULT_CODES,
    ELEMENTWISE,
    LAYOUT_INVARIANT,
    OF_REALS,
    ElementCall,
    Override,
    is_encoded,
    opaque_of_element,
    override_of,
)
from .smt_terms import FLOAT_SORTS, REAL, Arithmetic, Element, all_of, z3
from .term_domain import TermDomain, chosen

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 4096  # of a tensor of terms
MAX_OPAQUE_ARGUMENTS = 512
MAX_FORMULA_ELEMENTS = 1024  # of the inputs of an operator that is computed by its formula
MOVES = MOVING - {"Where"} | {"OneHot", "SequenceEmpty"}
"""Operators that move elements to places that must be known, or read none."""
NEVER_OPAQUE = ops_with(Trait.RANDOM) | ops_with(Trait.HAS_SUBGRAPHS)


QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})


class CannotRun(NotApplicable):
    """Raised if the model does not run at these sizes, such as for operands that do not broadcast."""


class TermTensor(Struct, frozen=True):
    """A tensor of `Element` objects; `known` are its elements as numbers if it is constant."""

    dtype: int
    elements: Array
    known: Array | None = None


Value = TermTensor | list["TermTensor"] | None
"""A tensor, a sequence of tensors, or an absent optional."""


@dataclass(slots=True)
class _Scope:
    opsets: Mapping[str, int]
    exact: Mapping[str, ExactArray]
    parent: _Scope | None = None
    values: dict[str, Value] = field(default_factory=dict[str, Value])

    def read(self, name: str) -> Value:
        """The value of a name. Raises NotApplicable."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise NotApplicable(f"{name} has no value")


@dataclass(slots=True)
class TermEvaluation:
    """Evaluations that share their uninterpreted functions.

    `by_formula`: operators on real numbers that are otherwise unknown functions, such as normalizations, are computed
    by their meanings, which is slower; `formulas` are the operators for which this was done.
    """

    arithmetic: Arithmetic
    functions: Functions = field(default_factory=Functions)
    by_formula: bool = False
    formulas: set[str] = field(default_factory=set[str])

    def run(self, fragment: Fragment, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of a model by name.

        Raises CannotRun if the model does not run at these shapes, and NotApplicable if it has no terms.
        """
        if fragment.model.functions:
            raise NotApplicable("the model has functions of its own")
        scope = _Scope(opset_versions(fragment.model), fragment.exact, values=dict(feeds))
        self._run_graph(fragment.model.graph, scope)
        return {o.name: scope.read(o.name) for o in fragment.model.graph.output}

    def constant(self, array: Array, exact: ExactArray | None = None) -> TermTensor:
        """A tensor of numbers; `exact` are floats as fractions, if they have such values."""
        dtype = TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
        if array.size > MAX_ELEMENTS:
            raise NotApplicable(f"a constant of {array.size} elements")
        kind = self.arithmetic.kind(dtype)
        chosen = array if exact is None or kind is not REAL else exact
        elements = np.empty(array.shape, object)
        for at in np.ndindex(array.shape):
            elements[at] = Element(kind.constant(chosen[at]), kind)
        return TermTensor(dtype, elements, array)

    def variable(self, name: str, dtype: int, shape: Sequence[int]) -> TermTensor:
        """A tensor of variables."""
        kind = self.arithmetic.kind(dtype)
        if np.prod(shape, dtype=np.int64) > MAX_ELEMENTS:
            raise NotApplicable(f"an input of shape {list(shape)}")
        elements = np.empty(tuple(shape), object)
        for number, at in enumerate(np.ndindex(*shape)):
            elements[at] = Element(z3.Const(variable_name(name, number), kind.sort), kind)
        return TermTensor(dtype, elements)

    def _run_graph(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        if graph.sparse_initializer:
            raise NotApplicable("sparse initializers")
        for t in graph.initializer:
            if t.name not in scope.values:
                scope.values[t.name] = self.constant(numpy_helper.to_array(t), scope.exact.get(t.name))
        for node in graph.node:
            try:
                results = self._run_node(node, scope)
            except (ValueError, IndexError, ZeroDivisionError) as e:
                raise CannotRun(f"{node.op_type} does not run: {e}") from e
            scope.values.update({n: v for n, v in zip(node.output, results, strict=False) if n})

    def _run_node(self, node: onnx.NodeProto, scope: _Scope) -> Sequence[Value]:
        inputs = [scope.read(name) if name else None for name in node.input]
        domain = op_schemas.canonical_domain(node.domain)
        version = scope.opsets.get(domain, 1)
        call = NodeCall(node, domain, version, _attributes(node, domain, version), inputs, self)
        if domain:
            return call.by_formula() or call.opaque()
        if node.op_type == "Constant":
            return [self._constant_node(call, scope)]
        if node.op_type == "If":
            return self._if(node, inputs[0], scope)
        return call.run()

    def _constant_node(self, call: NodeCall, scope: _Scope) -> TermTensor:
        array = call.results(())[0]
        if not isinstance(array, np.ndarray):
            raise NotApplicable("a Constant that is no tensor")
        return self.constant(cast("Array", array), scope.exact.get(call.node.output[0]))

    def _if(self, node: onnx.NodeProto, condition: Value, scope: _Scope) -> Sequence[Value]:
        """The outputs of the branch that is taken, or of both, with each element chosen from one of them."""
        bodies = {a.name: a.g for a in node.attribute}
        if not isinstance(condition, TermTensor):
            raise NotApplicable("an If without condition")
        if condition.known is not None:
            return self._branch(bodies["then_branch" if condition.known.reshape(-1)[0] else "else_branch"], scope)
        taken, other = (self._branch(bodies[name], scope) for name in ("then_branch", "else_branch"))
        test = condition.elements.reshape(-1)[0]
        return [_merged(test, a, b) for a, b in zip(taken, other, strict=True)]

    def _branch(self, graph: onnx.GraphProto, scope: _Scope) -> list[Value]:
        inner = _Scope(scope.opsets, scope.exact, scope)
        self._run_graph(graph, inner)
        return [inner.read(o.name) for o in graph.output]


def variable_name(name: str, number: int) -> str:
    """The name of the variable for one element of an input."""
    return f"{name}#{number}"


def _merged(test: Element, a: Value, b: Value) -> Value:
    """`a` where `test` is true, otherwise `b`."""
    if not isinstance(a, TermTensor) or not isinstance(b, TermTensor) or a.elements.shape != b.elements.shape:
        raise NotApplicable("the branches of an If give other shapes")

    return TermTensor(a.dtype, map_cells(partial(chosen, test), a.elements, b.elements))


def _attributes(node: onnx.NodeProto, domain: str, version: int) -> dict[str, Any]:
    """The attributes of a node, with the defaults of its schema."""
    found = dict(op_schemas.attribute_defaults(node.op_type, domain, version))
    for a in node.attribute:
        value = numpy_helper.to_array(a.t) if a.type == onnx.AttributeProto.TENSOR else helper.get_attribute_value(a)
        found[a.name] = op_schemas.decode_strings(value)
    return found


@dataclass(slots=True)
class NodeCall:
    """A node with its inputs."""

    node: onnx.NodeProto
    domain: str
    version: int
    attributes: Mapping[str, Any]
    inputs: list[Value]
    evaluation: TermEvaluation

    def run(self) -> Sequence[Value]:
        """The outputs of an operator of the standard domain."""
        op = self.node.op_type
        if op in READS_SHAPE - {"EyeLike"} or self._is_discrete_constant():
            return [self._computed_value(v, 0) for v in self.results(self._arrays())]
        if op == "Dropout" and len(self.node.output) == 1 and not self._trains():
            return [self.inputs[0]]
        if op in {"Cast", "CastLike"}:
            return [self._cast()]
        try:
            return self._move() if op in MOVES else self._compute()
        except NotSupported:
            return self._unknown()

    def _compute(self) -> Sequence[Value]:
        """The results of terms, of a formula, or of unknown functions. Raises NotSupported."""
        op = self.node.op_type
        dtypes = [v.dtype for v in self.inputs if isinstance(v, TermTensor)] or [TensorProto.DOUBLE]
        kind = self.evaluation.arithmetic.kind((op not in OF_REALS and self._float_dtype()) or dtypes[0])
        if kind.dtype in HALF_DTYPES and op in ELEMENTWISE - {"Identity", "Where"}:
            raise NotApplicable("onnxruntime computes 16-bit floats in 32 bits between ops")
        if op in TENSOR_FUNCTIONS:
            return TENSOR_FUNCTIONS[op](self)
        if not is_encoded(op, kind):
            return self.by_formula() or self._unknown()
        override = override_of(op, kind)
        return self.computed() if override is None else [self._elementwise(override, self._override_dtype())]

    def by_formula(self) -> Sequence[Value] | None:
        """The results of the meaning on real numbers; None if it must not be run, or uses unsupported operations."""
        evaluation, op = self.evaluation, self.node.op_type
        dtypes = [v.dtype for v in self.inputs if isinstance(v, TermTensor) and v.known is None]
        if not evaluation.by_formula or op in NEVER_OPAQUE or not dtypes or not FLOAT_SORTS.keys() >= set(dtypes):
            return None
        if sum(v.elements.size for v in self.inputs if isinstance(v, TermTensor)) > MAX_FORMULA_ELEMENTS:
            return None
        try:
            found = self.computed()
        except (NotApplicable, NotSupported):  # also CannotRun: the model runs, as it did without formulas
            return None
        evaluation.formulas.add(op)
        return found

    def computed(self) -> Sequence[Value]:
        """The results of the meaning on terms. Raises NotSupported for operations that terms lack."""
        # Constants that are not floats are numbers, as axes and shapes must be.
        arrays = [v.known if _is_discrete(v) else self._cells(v) for v in self.inputs]
        if self.node.op_type not in ELEMENTWISE and any(isinstance(a, ObjectArray) and not a.size for a in arrays):
            raise NotSupported("the result of no elements")
        return [self._computed_value(r, self._float_dtype()) for r in self.results(arrays)]

    def _computed_value(self, result: Any, float_dtype: int) -> Value:
        """A result of a meaning, whose floats have a type. Raises NotSupported if the type is unknown."""
        if result is None:
            return None
        if isinstance(result, list):
            parts = [self._computed_value(r, float_dtype) for r in cast("list[Any]", result)]
            return [p for p in parts if isinstance(p, TermTensor)]
        if not isinstance(result, ObjectArray):
            return self.evaluation.constant(np.asarray(result))
        dtype = float_dtype if result.dtype.kind == "f" else helper.np_dtype_to_tensor_dtype(result.dtype)
        if not dtype:
            raise NotSupported("floats of unknown type")
        element = partial(self._terms().element, kind=self.evaluation.arithmetic.kind(dtype))
        return TermTensor(dtype, map_cells(element, result.cells))

    def _unknown(self) -> Sequence[Value]:
        """Unknown functions: of the elements at each place for elementwise operators, otherwise of all elements."""
        if self.node.op_type not in ELEMENTWISE:
            return self.opaque()
        dtype = self._output_types()[0][0]
        kind = self.evaluation.arithmetic.kind(dtype)
        anywhere = self.evaluation.arithmetic.over_reals or self.node.op_type in LAYOUT_INVARIANT
        return [self._elementwise(partial(opaque_of_element, kind=kind, anywhere=anywhere), dtype)]

    def tensor(self, index: int) -> TermTensor:
        """An input that is a tensor. Raises NotApplicable for others."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, TermTensor):
            raise NotApplicable(f"input {index} of {self.node.op_type} is no tensor")
        return value

    def _float_dtype(self) -> int:
        return _float_dtype(self.inputs)

    def _terms(self) -> TermDomain:
        arithmetic = self.evaluation.arithmetic
        return TermDomain(
            arithmetic, self.evaluation.functions, arithmetic.kind(self._float_dtype() or TensorProto.DOUBLE)
        )

    def _trains(self) -> bool:
        given = self.inputs[2] if len(self.inputs) > 2 else None
        known = given.known if isinstance(given, TermTensor) else None
        return (given is not None and (known is None or bool(known))) or not self.attributes.get("is_test", 1)

    def _is_discrete_constant(self) -> bool:
        """Whether all inputs are constants other than floats, from which shapes and indices are computed."""
        tensors = [v for v in self.inputs if v is not None]
        known = [v.known for v in tensors if isinstance(v, TermTensor) and v.known is not None]
        return (
            len(known) == len(tensors)
            and bool(tensors)
            and all(k.dtype.kind in "biuO" for k in known)
            and self.node.op_type not in NEVER_OPAQUE
            and not (self.node.op_type in {"Cast", "CastLike"} and self._cast_dtype() not in DISCRETE)
        )

    def _arrays(self) -> list[Any]:
        """The inputs for a meaning that computes with numbers, or reads only shapes."""
        return [
            None if v is None else v if isinstance(v, list) else v.elements if v.known is None else v.known
            for v in self.inputs
        ]

    def _cells(self, value: Value) -> Any:
        """The elements of an input of a meaning."""
        if not isinstance(value, TermTensor):
            return None if value is None else [self._cells(v) for v in value]
        dtype = np.dtype(np.float64) if value.dtype in FLOAT_SORTS else helper.tensor_dtype_to_np_dtype(value.dtype)
        return ObjectArray(value.elements, dtype, self._terms())

    def results(self, arrays: Sequence[Any]) -> list[Any]:
        """The results of the meaning for numbers. Raises NotApplicable if it fails."""
        meaning = find_meaning(self.domain, self.node.op_type)
        if meaning is None:
            raise NotApplicable(f"{self.node.op_type} is not encoded")
        types = [v.dtype if isinstance(v, TermTensor) else 0 for v in self.inputs]
        call = OperatorCall(self.node, self.version, self.attributes, types, lambda _, __: [])
        try:
            with np.errstate(all="ignore"):
                found: Any = meaning(call, *arrays)
        except (NotApplicable, NotSupported, MemoryError, z3.Z3Exception):
            raise
        except Exception as e:  # such as an index out of range
            raise CannotRun(f"{self.node.op_type} does not run: {e}") from e
        return list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]

    def _move(self) -> Sequence[Value]:
        """The results of an operator that moves elements to known places."""
        if self.attributes.get("reduction", "none") != "none":
            return self.opaque()
        moved = (2,) if self.node.op_type == "OneHot" else moved_inputs(self.node)
        float_dtype = _float_dtype(v for i, v in enumerate(self.inputs) if i in moved)
        arrays = [self._cells(v) if i in moved or isinstance(v, list) else _known_of(v)
                  for i, v in enumerate(self.inputs)]  # fmt: skip
        found = [self._computed_value(r, float_dtype) for r in self.results(arrays)]
        if not all(v is None or (isinstance(v, TermTensor) and v.known is not None) for v in self.inputs):
            return found
        known = zip(found, self.results(self._arrays()), strict=True)
        return [TermTensor(v.dtype, v.elements, n) if isinstance(v, TermTensor) else v for v, n in known]

    def _cast_dtype(self) -> int:
        return self.tensor(1).dtype if self.node.op_type == "CastLike" else int(self.attributes["to"])

    def _cast(self) -> TermTensor:
        x, dtype, terms = self.tensor(0), self._cast_dtype(), self._terms()
        is_kept = {x.dtype, dtype} <= FLOAT_SORTS.keys() and self.evaluation.arithmetic.over_reals
        if not is_kept and {x.dtype, dtype} & HALF_DTYPES and x.dtype != dtype:
            raise NotApplicable("onnxruntime leaves out casts to 16-bit floats between ops")
        kind = self.evaluation.arithmetic.kind(dtype)
        return TermTensor(dtype, map_cells(partial(terms.converted, kind=kind), x.elements))

    def _elementwise(self, override: Override, dtype: int) -> TermTensor:
        """The results of a function of the elements at each place."""
        given = [v.elements if isinstance(v, TermTensor) else None for v in self.inputs]
        self._align(given)
        present = [a for a in given if a is not None]
        shape = np.broadcast_shapes(*(a.shape for a in present))
        spread = [None if a is None else np.broadcast_to(a, shape) for a in given]
        found, terms = np.empty(shape, object), self._terms()
        shapes = " ".join(map(str, (a.shape for a in present)))
        for number, at in enumerate(np.ndindex(*shape)):
            call = ElementCall(self.node, self.version, self.attributes, terms, f"{number} of {shapes}")
            found[at] = override(call, *(None if a is None else a[at] for a in spread))
        return TermTensor(dtype, found)

    def _override_dtype(self) -> int:
        """The element type of the results of an operator with an override."""
        if self.node.op_type == "QuantizeLinear":
            has_zero = len(self.inputs) > 2 and self.inputs[2] is not None
            return self.tensor(2).dtype if has_zero else self.attributes.get("output_dtype") or DEFAULT_CODES
        return self.tensor(1 if self.node.op_type in {"DequantizeLinear", "Where"} else 0).dtype

    def _align(self, given: list[Array | None]) -> None:
        """Reshape scales and operands of old opsets so that all operands broadcast."""
        op, first = self.node.op_type, given[0]
        assert first is not None
        if op in QUANTIZERS:
            axis = self.attributes.get("axis", 1) % max(first.ndim, 1)
            if self.attributes.get("block_size"):
                raise NotApplicable(f"{op} of blocks")
            for i, a in enumerate(given[1:], 1):
                if a is not None and a.size > 1:
                    given[i] = a.reshape(-1, *(1,) * (first.ndim - axis - 1))
        elif self.version < 7 and len(given) == 2 and given[1] is not None:
            given[1] = aligned(first, given[1], self.attributes.get("broadcast", 0), self.attributes.get("axis"))

    def opaque(self) -> Sequence[Value]:
        """Unknown functions of all elements that are read, the attributes and the shapes."""
        op = self.node.op_type
        if (not self.domain and op in NEVER_OPAQUE) or has_subgraphs(self.node):
            raise NotApplicable(f"{op} is not encoded")
        if op_schemas.schema(op, self.domain, self.version) is None and self.domain != "com.microsoft":
            raise NotApplicable(f"{op} may not be a function of its inputs")
        arguments, description = self._opaque_arguments()
        types = self._output_types()
        functions = self.evaluation.functions
        made: list[Value] = []
        for index, (dtype, shape) in enumerate(types):
            kind = self.evaluation.arithmetic.kind(dtype)
            found = np.empty(shape, object)
            defined = all_of(*(e.defined for e in arguments))
            for number, at in enumerate(np.ndindex(*shape)):
                name = f"{description} {index} {number}"
                found[at] = Element(functions.apply(name, [e.term for e in arguments], kind.sort), kind, defined)
            made.append(TermTensor(dtype, found))
        return made

    def _opaque_arguments(self) -> tuple[list[Element], str]:
        """The elements that are read, and everything else on which the result depends."""
        arguments: list[Element] = []
        parts = [self.domain, self.node.op_type, str(self.version), repr(sorted(self.attributes.items(), key=str))]
        for v in self.inputs:
            if isinstance(v, list):
                raise NotApplicable(f"{self.node.op_type} of a sequence is not encoded")
            parts.append("-" if v is None else f"{v.dtype}{v.elements.shape}")
            if v is not None:
                arguments += v.elements.reshape(-1).tolist()
        if len(arguments) > MAX_OPAQUE_ARGUMENTS:
            raise NotApplicable(f"{self.node.op_type} of {len(arguments)} elements")
        return arguments, " ".join(parts)

    def _output_types(self) -> list[tuple[int, tuple[int, ...]]]:
        """The element type and shape of each output, by ONNX's inference for these shapes and constants."""
        names = [f"i{i}" for i in range(len(self.inputs))]
        node = copy_without(self.node)
        node.input[:] = ["" if v is None else n for n, v in zip(names, self.inputs, strict=True)]
        node.output[:] = [f"o{i}" if o else "" for i, o in enumerate(self.node.output)]
        given = {n: v for n, v in zip(names, self.inputs, strict=True) if isinstance(v, TermTensor)}
        types = [helper.make_tensor_value_info(n, v.dtype, v.elements.shape) for n, v in given.items()]
        known = [numpy_helper.from_array(v.known, n) for n, v in given.items() if v.known is not None]
        outputs = [onnx.ValueInfoProto(name=o) for o in node.output if o]
        graph = helper.make_graph([node], "node", types, outputs, known)
        opsets = [helper.make_opsetid(self.domain, self.version)]
        if self.domain:
            opsets.append(helper.make_opsetid("", 17))
        inferred = infer_shapes(helper.make_model(graph, opset_imports=opsets), data_prop=True)
        return [_static_type(v, self.node.op_type) for v in inferred.graph.output]


DISCRETE = INTEGERS | {TensorProto.BOOL}
HALF_DTYPES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def _static_type(v: onnx.ValueInfoProto, op_type: str) -> tuple[int, tuple[int, ...]]:
    tensor = v.type.tensor_type
    if (
        not tensor.elem_type
        or not tensor.HasField("shape")
        or any(not d.HasField("dim_value") for d in tensor.shape.dim)
    ):
        raise NotApplicable(f"the shape of {op_type} is not known")
    return tensor.elem_type, tuple(d.dim_value for d in tensor.shape.dim)


def _float_dtype(values: Iterable[Value]) -> int:
    """The type of the first tensor of floats; 0 if there is none."""
    tensors = (t for v in values for t in (v if isinstance(v, list) else [v]) if t is not None)
    return next((t.dtype for t in tensors if t.dtype in FLOAT_SORTS), 0)


def _is_discrete(value: Value) -> TypeGuard[TermTensor]:
    """Whether a value is a constant other than floats."""
    return isinstance(value, TermTensor) and value.known is not None and value.known.dtype.kind in "biu"


def _known_of(value: Value) -> Array | None:
    """The array of a constant. Raises NotApplicable for other values."""
    if value is None:
        return None
    if isinstance(value, list) or value.known is None:
        raise NotApplicable("a place depends on data")
    return value.known


def _axes(call: NodeCall, rank: int) -> tuple[int, ...]:
    """The axes of a reduction, from its input or attribute."""
    given: Any = call.attributes.get("axes")
    if len(call.inputs) > 1 and call.inputs[1] is not None:
        known = call.tensor(1).known
        if known is None:
            raise NotApplicable("the axes depend on data")
        given = known.reshape(-1).tolist()
    if not given:
        return () if call.attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return tuple(int(a) % rank for a in given)


EXTREMES = frozenset({"ReduceMax", "ReduceMin"})
SUMS = frozenset({"ReduceMean", "ReduceSum"})
SELF_OF_NONE = EXTREMES | SUMS | {"ReduceProd"}
"""The reductions that return their input if there are no axes."""
WIDE_INTEGERS = frozenset({TensorProto.INT64, TensorProto.UINT64})
"""The integers that float64, which onnxruntime uses to add and multiply integers, cannot represent."""
WINDOW_ATTRIBUTES = frozenset({"auto_pad", "pads", "strides", "dilations", "kernel_shape"})
"""The attributes that determine which elements are in a window, and nothing else."""


def _reduce(call: NodeCall) -> Sequence[Value]:
    """A reduction that does not depend on the order, and neither rounds nor saturates; others are unknown functions."""
    x, op = call.tensor(0), call.node.op_type
    axes = _axes(call, x.elements.ndim)
    if not axes and op in SELF_OF_NONE:
        return [x]
    if prod(x.elements.shape[a] for a in axes) == 1 and _keeps_one(call, x.dtype):
        return [x if call.attributes.get("keepdims", 1) else TermTensor(x.dtype, np.squeeze(x.elements, tuple(axes)))]
    kind = call.evaluation.arithmetic.kind(x.dtype)
    is_ordered = kind is not REAL and (op not in EXTREMES or bool(kind.dtype))
    return call.opaque() if not axes or is_ordered else call.computed()


def _keeps_one(call: NodeCall, dtype: int) -> bool:
    """Whether a reduction returns an element itself if it is alone. Sums turn -0 into 0 in some layouts."""
    op, kind = call.node.op_type, call.evaluation.arithmetic.kind(dtype)
    if op not in SELF_OF_NONE or (op not in EXTREMES and dtype in WIDE_INTEGERS):
        return False
    return not (op in SUMS and kind.dtype)


def _windows(call: NodeCall, x: TermTensor, kernel: Sequence[int]) -> Windows:
    names = (WINDOW_ATTRIBUTES - {"kernel_shape"}) & call.attributes.keys()
    return windows_of(x.elements.shape[2:], kernel, **{name: call.attributes[name] for name in names})


def _places(x: TermTensor, windows: Windows) -> Array:
    """The numbers of the elements in each window, starting with 1; 0 in the padding: (N, C, counts..., elements)."""
    numbers = cast("Array", np.arange(1, x.elements.size + 1)).reshape(x.elements.shape)
    padded = windows.padded(numbers, 0)
    return np.stack([padded[span] for _, span in windows.positions()], axis=-1)


def _conv_of_integers(call: NodeCall) -> Sequence[Value]:
    """Each element as an unknown function of its window, in the order of the kernel; padding is the zero point."""
    quantized = call.node.op_type == "QLinearConv"
    x, w = call.tensor(0), call.tensor(3 if quantized else 1)
    given_beside = (v for i, v in enumerate(call.inputs) if i not in {0, 3 if quantized else 1})
    beside = [v for v in given_beside if isinstance(v, TermTensor)]
    if not x.elements.size or not w.elements.size:
        return call.opaque()
    places = _places(x, _windows(call, x, w.elements.shape[2:]))
    group, rows = call.attributes.get("group", 1), w.elements.shape[0]
    batch, counts = places.shape[0], places.shape[2:-1]
    grouped = places.reshape(batch, group, -1, *places.shape[2:])
    dtype = call.tensor(7).dtype if quantized else TensorProto.INT32
    kind = call.evaluation.arithmetic.kind(dtype)
    pool: list[Element] = [_zero_point(call, x), *_elements(x)]
    others = [e for v in beside for e in _elements(v)]
    kept = {k: v for k, v in call.attributes.items() if k not in WINDOW_ATTRIBUTES}
    name = f"{call.node.op_type} {sorted(kept.items())!r} {[v is not None for v in call.inputs]}"
    found = np.empty((batch, rows, *counts), object)
    weights = [_elements(TermTensor(w.dtype, row)) for row in w.elements]
    for n, m, *at in np.ndindex(*found.shape):
        window = cast("list[int]", grouped[(n, m // (rows // group), slice(None), *at)].reshape(-1).tolist())
        given: list[Element] = [*(pool[i] for i in window), *weights[m], *others]
        if len(given) > MAX_OPAQUE_ARGUMENTS or prod(found.shape) > MAX_OPAQUE_ARGUMENTS:
            raise NotApplicable(f"{call.node.op_type} of windows of {len(given)} elements")
        term = call.evaluation.functions.apply(f"{name} {m}", [e.term for e in given], kind.sort)
        found[(n, m, *at)] = Element(term, kind, all_of(*(e.defined for e in given)))
    return [TermTensor(dtype, found)]


def _elements(tensor: TermTensor) -> list[Element]:
    return tensor.elements.reshape(-1).tolist()


def _zero_point(call: NodeCall, x: TermTensor) -> Element:
    """The element that represents padding: the zero point of the input, or 0."""
    index = 2
    if len(call.inputs) > index and call.inputs[index] is not None:
        given = call.tensor(index).elements.reshape(-1)
        if given.size != 1:
            raise NotApplicable("several zero points of one input")
        return given[0]
    kind = call.evaluation.arithmetic.kind(x.dtype)
    return Element(kind.constant(0), kind)


TENSOR_FUNCTIONS: Mapping[str, Callable[[NodeCall], Sequence[Value]]] = {
    **dict.fromkeys(ops_with(Trait.REDUCTION) - {"ReduceLogSum", "ReduceLogSumExp"}, _reduce),
    "ConvInteger": _conv_of_integers,
    "QLinearConv": _conv_of_integers,
}
