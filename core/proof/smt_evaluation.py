"""Evaluation of models on tensors of z3 terms, at concrete shapes.

Operators that move elements run their kernel on numbers of elements, elementwise ones have terms, and any other is an
unknown function of all that it reads, equal in both models if that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..ir import op_schemas
from ..operators.declaration import KernelCall, Trait
from ..operators.elementwise import aligned
from ..operators.table import data_inputs, find_kernel, ops_with
from ..serialization.proto_queries import has_subgraphs, opset_versions
from .obligation import ExactArray, Fragment, NotApplicable
from .smt_functions import Functions
from .smt_kernels import (
    DEFAULT_CODES,
    ELEMENTWISE,
    LAYOUT_INVARIANT,
    ElementCall,
    ElementKernel,
    convert,
    element_kernel,
    opaque_of_element,
)
from .smt_terms import Arithmetic, BoolKind, Element, FloatKind, RealKind, all_of, either, z3

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 4096  # of a tensor of terms
MAX_OPAQUE_ARGUMENTS = 512
MOVES: Mapping[str, Sequence[int] | None] = {
    **dict.fromkeys(ops_with(Trait.MOVES_DATA)),
    "CenterCropPad": (0,), "Concat": None, "ConcatFromSequence": None, "OneHot": (2,), "Optional": None,
    "OptionalGetElement": None, "OptionalHasElement": None, "Pad": (0, 2), "Scatter": (0, 2),
    "ScatterElements": (0, 2), "ScatterND": (0, 2), "SequenceAt": None, "SequenceConstruct": None,
    "SequenceEmpty": (), "SequenceErase": None, "SequenceInsert": None, "SequenceLength": (0,),
    "SplitToSequence": None, "TensorScatter": (0, 1), "Tile": (0,), "Trilu": (0,),
}  # fmt: skip
"""Operators that move elements of the inputs at some indices, by default those that the traits name."""
NEVER_OPAQUE = ops_with(Trait.RANDOM) | ops_with(Trait.HAS_SUBGRAPHS)
SHAPE_READERS = ops_with(Trait.READS_SHAPE) - {"EyeLike"}


QUANTIZERS = frozenset({"DequantizeLinear", "QuantizeLinear"})


class CannotRun(NotApplicable):
    """Raised where the model does not run at these sizes, such as for operands that do not broadcast."""


@dataclass(frozen=True, slots=True)
class TermTensor:
    """A tensor of `Element` objects; `known` are its elements as numbers, if it is constant."""

    dtype: int
    elements: Array
    known: Array | None = None


TensorKernel = Callable[["NodeCall"], Sequence["Value"]]
"""The results of a node."""
Value = TermTensor | list["TermTensor"] | None
"""A tensor, a sequence of tensors, or an absent optional."""


def map_elements(function: Callable[..., Any], *arrays: Array) -> Array:
    """A function of the elements at each place of arrays that broadcast."""
    found = np.empty(np.broadcast_shapes(*(a.shape for a in arrays)), object)
    found[...] = np.frompyfunc(function, len(arrays), 1)(*arrays)
    return found


def fold_elements(function: Callable[[Element, Element], Element], elements: Array, axis: int) -> Array:
    """The elements along an axis combined from the first on; there is at least one."""
    rows = np.moveaxis(elements, axis, 0)
    return reduce(partial(map_elements, function), (rows[i, ...] for i in range(rows.shape[0])))


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
    """Evaluations that share their uninterpreted functions; `kernels` are those of whole tensors, by operator."""

    arithmetic: Arithmetic
    kernels: Mapping[str, TensorKernel]
    functions: Functions = field(default_factory=Functions)

    def run(self, fragment: Fragment, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of a model by name.

        Raises CannotRun if the model does not run at these shapes, and NotApplicable for one that has no terms.
        """
        if fragment.model.functions:
            raise NotApplicable("the model has functions of its own")
        scope = _Scope(opset_versions(fragment.model), fragment.exact, values=dict(feeds))
        self._run_graph(fragment.model.graph, scope)
        return {o.name: scope.read(o.name) for o in fragment.model.graph.output}

    def constant(self, array: Array, exact: ExactArray | None = None) -> TermTensor:
        """A tensor of numbers; `exact` are those of floats as fractions, where they have such a value."""
        dtype = TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
        if array.size > MAX_ELEMENTS:
            raise NotApplicable(f"a constant of {array.size} elements")
        kind = self.arithmetic.kind(dtype)
        chosen = array if exact is None or not isinstance(kind, RealKind) else exact
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
            return call.opaque()
        if node.op_type == "Constant":
            return [self._constant_node(call, scope)]
        if node.op_type == "If":
            return self._if(node, inputs[0], scope)
        return call.run()

    def _constant_node(self, call: NodeCall, scope: _Scope) -> TermTensor:
        array = call.kernel_results(())[0]
        if not isinstance(array, np.ndarray):
            raise NotApplicable("a Constant that is no tensor")
        return self.constant(cast("Array", array), scope.exact.get(call.node.output[0]))

    def _if(self, node: onnx.NodeProto, condition: Value, scope: _Scope) -> Sequence[Value]:
        """The outputs of the branch that is taken, or of both, of which each element is one."""
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
    """`a` where `test` is true, else `b`."""
    if not isinstance(a, TermTensor) or not isinstance(b, TermTensor) or a.elements.shape != b.elements.shape:
        raise NotApplicable("the branches of an If give other shapes")

    def chosen(x: Element, y: Element) -> Element:
        defined = x.defined if x.defined is y.defined else either(test.term, x.defined, y.defined)
        return Element(either(test.term, x.term, y.term), x.kind, all_of(test.defined, defined))

    return TermTensor(a.dtype, map_elements(chosen, a.elements, b.elements))


def _attributes(node: onnx.NodeProto, domain: str, version: int) -> dict[str, Any]:
    """The attributes of a node, with the defaults of its schema."""
    schema = op_schemas.schema(node.op_type, domain, version)
    names = list(schema.attributes) if schema else []
    defaults = {name: op_schemas.attribute_default(node.op_type, domain, version, name) for name in names}
    found = {name: value for name, value in defaults.items() if value is not None}
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
        if op in SHAPE_READERS or self._is_discrete_constant():
            return [self._constant(v) for v in self.kernel_results(self._arrays())]
        if op in MOVES:
            return self._move()
        if op == "Dropout" and len(self.node.output) == 1 and not self._trains():
            return [self.inputs[0]]
        if op in {"Cast", "CastLike"}:
            return [self._cast()]
        if (kernel := self.evaluation.kernels.get(op)) is not None:
            return kernel(self)
        return [self._elementwise()] if op in ELEMENTWISE else self.opaque()

    def tensor(self, index: int) -> TermTensor:
        """An input that is a tensor. Raises NotApplicable for others."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, TermTensor):
            raise NotApplicable(f"input {index} of {self.node.op_type} is no tensor")
        return value

    def element_call(self, place: str = "") -> ElementCall:
        """The call for one element."""
        return ElementCall(
            self.node, self.version, self.attributes, self.evaluation.arithmetic, self.evaluation.functions, place
        )

    def _constant(self, value: Any) -> Value:
        if isinstance(value, list):
            raise NotApplicable("a sequence of constants")
        return self.evaluation.constant(np.asarray(value))

    def _trains(self) -> bool:
        given = self.inputs[2] if len(self.inputs) > 2 else None
        known = given.known if isinstance(given, TermTensor) else None
        return (given is not None and (known is None or bool(known))) or not self.attributes.get("is_test", 1)

    def _is_discrete_constant(self) -> bool:
        """Whether all inputs are constants that are no floats, from which shapes and indices are computed."""
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
        """The inputs for a kernel that computes with numbers, or reads shapes alone."""
        return [
            None if v is None else v if isinstance(v, list) else v.elements if v.known is None else v.known
            for v in self.inputs
        ]

    def kernel_results(self, arrays: Sequence[Any]) -> list[Any]:
        """The results of the kernel for numbers. Raises NotApplicable if it fails."""
        kernel = find_kernel(self.domain, self.node.op_type)
        if kernel is None:
            raise NotApplicable(f"{self.node.op_type} is not encoded")
        types = [v.dtype if isinstance(v, TermTensor) else 0 for v in self.inputs]
        call = KernelCall(self.node, self.version, self.attributes, types, lambda _, __: [])
        try:
            with np.errstate(all="ignore"):
                found: Any = kernel(call, *arrays)
        except Exception as e:  # such as an index out of range
            raise CannotRun(f"{self.node.op_type} does not run: {e}") from e
        return list(cast("tuple[Any, ...]", found)) if isinstance(found, tuple) else [found]

    def _move(self) -> Sequence[Value]:
        """Run the kernel on the numbers of elements; 0 is that of a zero, for padding."""
        if self.attributes.get("reduction", "none") != "none":
            return self.opaque()
        chosen = MOVES[self.node.op_type]
        moved = [
            i for i in range(len(self.inputs)) if i in (data_inputs(self.node.op_type) if chosen is None else chosen)
        ]
        pool = _Pool(self.evaluation.arithmetic)
        arrays = [pool.numbers(v) if i in moved else _known_of(v) for i, v in enumerate(self.inputs)]
        dtype = next((_dtype_of(self.inputs[i]) for i in moved if _dtype_of(self.inputs[i])), 0)
        results = self.kernel_results(arrays)
        if self.node.op_type in {"SequenceLength", "OptionalHasElement"}:
            return [self._constant(r) for r in results]
        known = self._known_results(moved)
        return [pool.value(r, dtype, known[i] if known else None) for i, r in enumerate(results)]

    def _known_results(self, moved: Sequence[int]) -> list[Any] | None:
        """The results as numbers, if all inputs are constant tensors."""
        tensors = [v for v in self.inputs if v is not None]
        if not moved or not all(isinstance(v, TermTensor) and v.known is not None for v in tensors):
            return None
        found = self.kernel_results(self._arrays())
        return found if all(isinstance(r, np.ndarray) for r in found) else None

    def _cast_dtype(self) -> int:
        return self.tensor(1).dtype if self.node.op_type == "CastLike" else int(self.attributes["to"])

    def _cast(self) -> TermTensor:
        x, dtype, call = self.tensor(0), self._cast_dtype(), self.element_call()
        is_kept = {x.dtype, dtype} <= REAL_DTYPES and self.evaluation.arithmetic.over_reals
        if not is_kept and {x.dtype, dtype} & HALF_DTYPES and x.dtype != dtype:
            raise NotApplicable("onnxruntime leaves out casts to 16-bit floats between ops")
        return TermTensor(dtype, map_elements(partial(convert, call, dtype=dtype), x.elements))

    def _elementwise(self) -> TermTensor:
        """The results of a function of the elements at each place."""
        given = [v.elements if isinstance(v, TermTensor) else None for v in self.inputs]
        self._align(given)
        kinds = [v.kind for a in given if a is not None for v in a.reshape(-1)[:1]]
        floats = [k for k in kinds if isinstance(k, RealKind | FloatKind)]
        if not kinds:
            return self._empty(given)
        lead = floats[0] if floats else kinds[0]
        kernel = element_kernel(self.node.op_type, self.evaluation.arithmetic, lead)
        return self._mapped(kernel or self._opaque_kernel(), given)

    def _align(self, given: list[Array | None]) -> None:
        """Reshape scales, slopes and operands of old opsets so that all broadcast."""
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
            if op == "PRelu" and given[1].ndim == 1 and given[1].size > 1:
                given[1] = given[1].reshape(-1, *(1,) * (first.ndim - 2))
            given[1] = aligned(first, given[1], self.attributes.get("broadcast", 0), self.attributes.get("axis"))

    def _mapped(self, kernel: ElementKernel, given: Sequence[Array | None]) -> TermTensor:
        present = [a for a in given if a is not None]
        shape = np.broadcast_shapes(*(a.shape for a in present))
        spread = [None if a is None else np.broadcast_to(a, shape) for a in given]
        found = np.empty(shape, object)
        shapes = " ".join(map(str, (a.shape for a in present)))
        for number, at in enumerate(np.ndindex(*shape)):
            call = self.element_call(f"{number} of {shapes}")
            found[at] = kernel(call, *(None if a is None else a[at] for a in spread))
        dtype = self._result_dtype(found)
        return TermTensor(dtype, found)

    def _result_dtype(self, found: Array) -> int:
        if found.size and isinstance(found.reshape(-1)[0].kind, BoolKind):
            return TensorProto.BOOL
        if self.node.op_type == "QuantizeLinear":
            has_zero = len(self.inputs) > 2 and self.inputs[2] is not None
            return self.tensor(2).dtype if has_zero else self.attributes.get("output_dtype") or DEFAULT_CODES
        return self.tensor(1 if self.node.op_type == "DequantizeLinear" else 0).dtype

    def _empty(self, given: Sequence[Array | None]) -> TermTensor:
        shape = np.broadcast_shapes(*(a.shape for a in given if a is not None))
        dtype = TensorProto.BOOL if self.node.op_type in ops_with(Trait.COMPARISON) else self._result_dtype(np.empty(0))
        return TermTensor(dtype, np.empty(shape, object))

    def _opaque_kernel(self) -> ElementKernel:
        dtype = self._output_types()[0][0]
        kind = self.evaluation.arithmetic.kind(dtype)
        anywhere = self.evaluation.arithmetic.over_reals or self.node.op_type in LAYOUT_INVARIANT

        def kernel(call: ElementCall, *elements: Element | None) -> Element:
            return opaque_of_element(call, *elements, kind=kind, anywhere=anywhere)

        return kernel

    def opaque(self) -> Sequence[Value]:
        """Unknown functions of all elements that are read, of the attributes and of the shapes."""
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
        """The elements that are read, and all else on which the result depends."""
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
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
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
        inferred = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets), data_prop=True)
        return [_static_type(v, self.node.op_type) for v in inferred.graph.output]


DISCRETE = frozenset({TensorProto.BOOL, *(
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
)})  # fmt: skip
HALF_DTYPES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
REAL_DTYPES = HALF_DTYPES | {TensorProto.FLOAT, TensorProto.DOUBLE}


def _static_type(v: onnx.ValueInfoProto, op_type: str) -> tuple[int, tuple[int, ...]]:
    tensor = v.type.tensor_type
    if (
        not tensor.elem_type
        or not tensor.HasField("shape")
        or any(not d.HasField("dim_value") for d in tensor.shape.dim)
    ):
        raise NotApplicable(f"the shape of {op_type} is not known")
    return tensor.elem_type, tuple(d.dim_value for d in tensor.shape.dim)


def _known_of(value: Value) -> Array | None:
    """A constant. Raises NotApplicable for what is none."""
    if value is None:
        return None
    if isinstance(value, list) or value.known is None:
        raise NotApplicable("a place depends on data")
    return value.known


def _dtype_of(value: Value) -> int:
    if isinstance(value, list):
        return value[0].dtype if value else 0
    return value.dtype if value is not None else 0


@dataclass(slots=True)
class _Pool:
    """Elements by number, from 1 on; 0 is a zero."""

    arithmetic: Arithmetic
    elements: list[Element] = field(default_factory=list[Element])

    def numbers(self, value: Value) -> Any:
        """The numbers of the elements of a value, in its shape."""
        if isinstance(value, list):
            return [self.numbers(v) for v in value]
        if value is None:
            return None
        first = len(self.elements) + 1
        self.elements += value.elements.reshape(-1).tolist()
        found: Array = np.arange(first, len(self.elements) + 1, dtype=np.int64)
        return found.reshape(value.elements.shape)

    def value(self, numbers: Any, dtype: int, known: Array | None) -> Value:
        """The value with the elements of those numbers."""
        if numbers is None:
            return None
        if isinstance(numbers, list):
            return [cast("TermTensor", self.value(n, dtype, None)) for n in cast("list[Any]", numbers)]
        found = np.empty(numbers.shape, object)
        zero: Element | None = None
        for at in np.ndindex(numbers.shape):
            number = int(numbers[at])
            if number == 0 and zero is None:
                kind = self.arithmetic.kind(dtype)
                zero = Element(kind.constant(0), kind)
            found[at] = self.elements[number - 1] if number else zero
        return TermTensor(dtype, found, known)
