"""Inference of types, shapes, and the elements of small integer tensors, on demand.

Reading `Value.shape` infers the op that produces the value and the ops before it, once for the same facts. Symbolic
dims are computed if the operator's declaration in `core.operators` has a shape function, or its traits imply one;
otherwise the inference function of its ONNX schema is used, which gets constants up to 1 KB and no weights. The
elements of shapes are tracked through the ops that compute with them, also according to the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import prod
from typing import Any

import onnx
from msgspec import Struct
from onnx import TensorProto, helper

from .errors import MatchFailure
from .ir import expressions as sym
from .ir.expressions import DeclaredSymbol, Dim, Shape, SymInt, possible_dim
from .ir.graph import Graph
from .ir.op import NOT_INFERRED, Op
from .ir.op_schemas import ONNX_DOMAIN, is_foreign, schema
from .ir.tensor import MAX_TRACKED_ELEMENTS, SMALL_TENSOR_BYTES, TRACKED_DTYPES, Tensor, element_type
from .ir.values import Value, declared_shape
from .operators.broadcasting import broadcast
from .operators.declaration import ShapeFunction, Trait
from .operators.operands import INVALID_OPERAND_ERRORS, PartialElements, input_shape
from .operators.table import OPERATORS, inputs_by_axis, ops_with, roles
from .processes.custom_operator_types import output_types
from .processes.custom_operators import custom_operators
from .processes.onnx_calls import OnnxAborted, OnnxError, infer_node_outputs
from .serialization.exporter import node_bytes
from .serialization.importer import declare_computed, declare_input

MULTIDIRECTIONAL_BROADCAST_OPSET = 8  # the variadic operators were the last to get it


def _broadcast(op: Op) -> list[Shape]:
    shape = broadcast([v.recorded_type[1] for v in op.inputs if v is not None])
    if shape is None or op.graph.opsets.get("", 0) < MULTIDIRECTIONAL_BROADCAST_OPSET:
        raise MatchFailure("the broadcast shape is unknown")
    return [shape]


SHAPE_FUNCTIONS: Mapping[str, ShapeFunction] = {
    **dict.fromkeys(ops_with(Trait.BROADCASTING), _broadcast),
    **dict.fromkeys(ops_with(Trait.SAME_SHAPE), lambda op: [input_shape(op)]),
    **{op_type: row.shapes for op_type, row in OPERATORS.items() if row.shapes is not None},
}


ELEMENT_TYPES: Mapping[str, int] = {
    f"tensor({element_type(dtype)})": dtype for dtype in TensorProto.DataType.values() if dtype
}
"""Element types by the strings that schemas use for their tensors."""
INTEGER_LIMITS: dict[int, int] = {
    onnx.TensorProto.INT64: 1 << 63,
    onnx.TensorProto.INT32: 1 << 31,
    onnx.TensorProto.BOOL: 2,
}
"""Elements outside the range of their type are not tracked."""


def infer_from_subgraphs(op: Op) -> None:
    """Infer the output types of If, Loop and Scan from the outputs of their subgraphs."""
    if op.type == "If" and len(op.subgraphs) == 2:
        for out, a, b in zip(op.outputs, *(sub.outputs for sub in op.subgraphs), strict=False):
            (dtype, shape), (other_dtype, other_shape) = a.recorded_type, b.recorded_type
            if dtype == other_dtype:
                is_common = shape is not None and other_shape is not None and len(shape) == len(other_shape)
                pairs = zip(shape or (), other_shape or (), strict=False)
                merged = tuple(x if x == y else None for x, y in pairs) if is_common else None
                out.merge_type(dtype, merged, inferred=True)
    elif op.type in {"Loop", "Scan"}:
        results = op.subgraphs[0].outputs[1 if op.type == "Loop" else 0 :]
        for out, v in zip(op.outputs, results, strict=False):
            out.merge_type(v.recorded_type[0], None, inferred=True)


DATA_DEPENDENT_OPS = ops_with(Trait.DATA_DEPENDENT)  # rewrites do not refine the types of their outputs


def infer(op: Op) -> None:
    """Infer the outputs of `op` and of the ops on which it depends. O(ops not inferred yet)."""
    now = op.graph.context.inference_epoch
    stack = [op]
    while stack:
        here = stack[-1]
        if here.inferred_epoch == now:
            stack.pop()
            continue
        waiting = [p for p in _pending_dependencies(here) if p.inferred_epoch != now]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        here.inferred_epoch = now
        _infer_op(here)


def infer_dtype(value: Value) -> None:
    """Infer only the element type of `value`, through operators that keep the type of an input. O(unknown types).

    Shapes may become known later, when constants are folded.
    """
    passed, source = [value], _source_of_dtype(value)
    while source is not None and source.recorded_type[0] == 0:
        passed.append(source)
        source = _source_of_dtype(source)
    known = passed.pop() if source is None else source
    if (maker := known.refining_producer) is not None and known.recorded_type[0] == 0:
        infer(maker)
    for v in passed:
        v.merge_type(known.recorded_type[0], None)
    if known.recorded_type[0] == 0 and (maker := value.refining_producer) is not None:
        infer(maker)  # of a sequence


def _source_of_dtype(value: Value) -> Value | None:
    """The input from which an op takes the element type of `value`; None if there is none, or its type is unknown."""
    op = value.producer
    if op is None or op.domain or op.schema is None or op.type not in SHAPE_FUNCTIONS or value is not op.outputs[0]:
        return None
    found = _outputs_of(op)
    return _first_input(op, found[0].inputs) if found and not found[0].dtype else None


def _pending_dependencies(op: Op) -> Iterator[Op]:
    """Yield the producers of inputs of `op` that inference may still refine."""
    results = (v for sub in op.subgraphs for v in sub.outputs)
    for v in (*op.inputs, *results):
        if v is not None and (maker := v.refining_producer) is not None:
            yield maker


def _infer_op(op: Op) -> None:
    spec = op.schema
    if spec is None:
        _infer_custom(op)
    elif op.subgraphs:
        infer_from_subgraphs(op)
    elif op.domain or not _infer_built_in(op, spec):
        dtypes = () if spec.has_type_and_shape_inference_function else [o.dtype for o in _outputs_of(op)]
        if not dtypes or 0 in dtypes:
            infer_from_schema(op, spec)
        else:  # onnx knows nothing else
            for v, dtype in zip(op.outputs, dtypes, strict=False):
                v.merge_type(dtype, None, inferred=True)
    if spec is None or op.type in DATA_DEPENDENT_OPS:
        _settle_declared_symbols(op)
    new_unknown = partial(op.graph.context.new_unknown, tentative=op.type not in DATA_DEPENDENT_OPS)
    for v in op.outputs:
        shape = v.recorded_type[1]
        if shape is not None and None in shape:
            v.merge_type(0, tuple(new_unknown() if d is None else d for d in shape), inferred=True)
    if spec is not None and not op.domain:
        _infer_elements(op, partial(new_unknown, lower_bound=None))


def _infer_custom(op: Op) -> None:
    """Infer the outputs of a custom operator, as declared by its kernel or inferred by onnxruntime."""
    added = custom_operators()
    if added is None or op.subgraphs or not is_foreign(op.domain):
        return
    if (place := next((k for k in added.kernels if (k.domain, k.op_type) == (op.domain, op.type)), None)) is not None:
        source = op.input(place.like) if place.like is not None else None
        if source is not None and source.type is None:
            for v in op.outputs:
                v.merge_type(*source.recorded_type, inferred=True)
        return
    names = dict[SymInt, str]()
    model = _model_of(op, names)
    dims: dict[Any, Dim] = {name: dim for dim, name in names.items()}
    for v in (v for i in op.inputs if i is not None for v in i.recorded_type[1] or ()):
        dims.setdefault(v, v)
    for v, (kind, shape) in zip(op.outputs, output_types(added, model) if model else (), strict=False):
        known = tuple(d if isinstance(d, int) else dims.get(d) for d in shape) or None
        v.merge_type(ELEMENT_TYPES.get(kind, 0), known, inferred=True)


def _model_of(op: Op, names: dict[SymInt, str]) -> bytes:
    """A serialized model of a single op; empty if the type of an input is unknown. Adds the `names` of dims."""
    node = onnx.NodeProto(op_type=op.type, domain=op.domain, output=[f"y{i}" for i in range(len(op.outputs))])
    node.attribute.extend(onnx.NodeProto.FromString(node_bytes(op)).attribute)
    graph = onnx.GraphProto(name="op", output=[onnx.ValueInfoProto(name=name) for name in node.output])
    for i, v in enumerate(op.inputs):
        node.input.append("" if v is None else f"x{i}")
        if v is None:
            continue
        dtype, shape = v.recorded_type
        if v.type is None and not dtype:
            return b""
        dims = None if shape is None else [_dim_name(d, names) for d in shape]
        kind = v.type or helper.make_tensor_type_proto(dtype, dims)
        graph.input.append(onnx.ValueInfoProto(name=f"x{i}", type=kind))
    graph.node.append(node)
    imports = [helper.make_opsetid(domain, version) for domain, version in op.graph.opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def _settle_declared_symbols(op: Op) -> None:
    """Keep the declared symbols of outputs, which inference will never replace."""
    for v in op.outputs:
        dtype, shape = v.recorded_type
        if any(isinstance(d, DeclaredSymbol) for d in shape or ()):
            v.clear_shape()
            v.merge_type(dtype, tuple(str(d) if isinstance(d, DeclaredSymbol) else d for d in shape or ()))


def _infer_built_in(op: Op, spec: onnx.defs.OpSchema) -> bool:
    """Infer types and shapes with the built-in functions; return whether all outputs are known."""
    known = [v.recorded_type for v in op.inputs if v is not None]
    if len(known) < spec.min_input or not known or any(v is not None and v.type is not None for v in op.inputs):
        return False
    shape_function = SHAPE_FUNCTIONS.get(op.type)
    if shape_function is None:
        return False
    shapes: Sequence[Shape | None]
    try:
        shapes = shape_function(op)
    except MatchFailure:
        if not _is_unknown_to_schema(op, known):
            return False
        shapes = [_shape_of_known_rank(op)] * len(op.outputs)
    except INVALID_OPERAND_ERRORS:
        return False
    if len(shapes) < len(op.outputs):
        return False
    try:
        dtypes = [_output_dtype(op, i) for i in range(len(op.outputs))]
    except INVALID_OPERAND_ERRORS:
        return False
    for v, dtype, shape in zip(op.outputs, dtypes, shapes, strict=False):
        v.merge_type(dtype, None if shape is None else tuple(map(possible_dim, shape)), inferred=True)
    return True


def _is_unknown_to_schema(op: Op, known: Sequence[tuple[int, Shape | None]]) -> bool:
    """Whether the schema cannot know an extent either, because a rank or numbers that determine it are unknown."""
    deciding = (v for i in roles(op.type) if (v := op.input(i)) is not None)
    is_unknown = any(shape is None for _, shape in known) or any(v.tensor is None for v in deciding)
    return is_unknown and (len(op.outputs) == 1 or op.type == "Split")


def _shape_of_known_rank(op: Op) -> Shape | None:
    """The shape of an output if at least its rank is known; otherwise None."""
    rank: Dim
    try:
        if op.type in {"NonZero", "Range", "Shape"}:
            rank = 2 if op.type == "NonZero" else 1
        elif op.type in {"Pad", "Slice", "Split", "Tile"}:
            rank = len(input_shape(op))
        elif op.type in {"ConstantOfShape", "Expand", "Reshape"}:
            (rank,) = input_shape(op, len(op.inputs) - 1)
        else:
            return None
    except (MatchFailure, *INVALID_OPERAND_ERRORS):
        return None
    shape = (None,) * rank if isinstance(rank, int) and rank <= MAX_ELEMENTS_BY_AXIS else None
    data = op.inputs[0]
    return broadcast([shape, data.recorded_type[1]]) if op.type == "Expand" and data is not None else shape


class _OutputType(Struct, frozen=True):
    """The element type of an output, by its schema: a `dtype`, or the type of the first present one of `inputs`.

    If both are missing, an attribute determines it.
    """

    dtype: int
    inputs: tuple[int, ...]


@cache
def _output_types(op_type: str, domain: str, version: int) -> tuple[_OutputType, ...]:
    """The types of an operator's outputs; the type of a variadic last output is listed once."""
    spec: Any = schema(op_type, domain, version)
    allowed: dict[str, Sequence[str]] = {c.type_param_str: c.allowed_type_strs for c in spec.type_constraints}
    found: list[_OutputType] = []
    for formal in spec.outputs:
        names = allowed.get(formal.type_str, [formal.type_str])
        dtype = ELEMENT_TYPES.get(names[0], 0) if len(names) == 1 else 0
        found.append(_OutputType(dtype, tuple(i for i, x in enumerate(spec.inputs) if x.type_str == formal.type_str)))
    return tuple(found)


def _outputs_of(op: Op) -> tuple[_OutputType, ...]:
    return _output_types(op.type, op.domain or ONNX_DOMAIN, op.version)


def _first_input(op: Op, indices: Sequence[int]) -> Value | None:
    return next((v for i in indices if (v := op.input(i)) is not None), None)


def _output_dtype(op: Op, index: int) -> int:
    """The element type of an output; 0 if unknown. Raises one of INVALID_OPERAND_ERRORS."""
    declared = _outputs_of(op)
    output = declared[min(index, len(declared) - 1)]
    if output.dtype:
        return output.dtype
    if (source := _first_input(op, output.inputs)) is not None:
        return source.recorded_type[0]
    given: list[Tensor | str | int] = [a for name in DTYPE_ATTRIBUTES if (a := op.attr(name))]
    stated = given[0] if given else 0
    if isinstance(stated, Tensor):
        return stated.dtype
    name = stated if isinstance(stated, str) else TensorProto.DataType.Name(stated)
    return TensorProto.DataType.Value(name) or _unstated_dtype(op)


DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type", "value")


def _unstated_dtype(op: Op) -> int:
    """The element type of an output if the attribute that determines it is absent."""
    if op.type in {"ConstantOfShape", "LayerNormalization"}:
        return TensorProto.FLOAT
    if op.type == "QuantizeLinear":
        return TensorProto.UINT8
    source = op.input(1 if op.type == "DequantizeLinear" else 0)
    return 0 if source is None else source.recorded_type[0]


def _infer_elements(op: Op, new_unknown: Callable[[], SymInt]) -> None:
    """Infer the elements of the outputs; each unknown element becomes a new unknown integer."""
    followed = [v for v in op.outputs if v.tensor is None and _is_tracked(v)]
    if not followed:
        return
    found = dict(zip(op.outputs, _inferred_elements(op), strict=False))
    for v in followed:
        shape = v.recorded_type[1]
        size = int(str(shape[0])) if shape else 1
        known = found.get(v, ())
        if len(known) != size:
            known = v.elements if v.elements is not None else [None] * size
        v.elements = tuple(new_unknown() if x is None else x for x in known)


def forget_inferred_types(graph: Graph) -> None:
    """Reset computed values and inputs of bodies to their declared types, so that inference is repeated. O(values)."""
    for g in graph.with_subgraphs():
        for op in g.ops():
            op.inferred_epoch = NOT_INFERRED
            for v in op.outputs:
                if v.tensor is None:
                    v.reset()
        for v, info in g.declared.inputs if g is not graph else ():
            if v.tensor is None:
                v.reset()
                declare_input(v, onnx.ValueInfoProto.FromString(info).type, g.context)
        outputs = zip(g.outputs, g.declared.outputs, strict=True)
        for v, info in (*outputs, *g.declared.value_infos):
            if v is not None and v.producer is not None and v.tensor is None:
                declare_computed(v, onnx.ValueInfoProto.FromString(info).type, g.context)
    graph.context.inference_epoch += 1
    graph.mark_changed()


def _inferred_elements(op: Op) -> list[PartialElements]:
    """The elements of each output of `op`, whose shapes are already known; [] if nothing is known."""
    declared = OPERATORS.get(op.type) if not op.domain else None
    if declared is None or declared.symbols is None:
        return []
    try:
        found = declared.symbols(op)
    except (MatchFailure, *INVALID_OPERAND_ERRORS):
        return []
    return [[_within_limits(x, v) for x in f] for f, v in zip(found, op.outputs, strict=False)]


def _is_tracked(value: Value) -> bool:
    """Whether the elements of a value are tracked, that is, it has few integers or booleans and rank 0 or 1."""
    dtype, shape = value.recorded_type
    if dtype not in TRACKED_DTYPES or shape is None or len(shape) > 1:
        return False
    return not shape or (isinstance(shape[0], int) and shape[0] <= MAX_TRACKED_ELEMENTS)


def _within_limits(x: SymInt | None, of: Value) -> SymInt | None:
    if isinstance(x, int):
        limit = INTEGER_LIMITS.get(of.recorded_type[0], 0)  # no element fits into a type that is not tracked
        return x if -limit <= x < limit else None
    return x if x is None or sym.is_simple(x) else None


MAX_PLAIN_NUMBER = (1 << 40) - 1  # in attributes and elements; with larger ones, extents are left to onnxruntime
MAX_ABORTED_CALLS = 4  # per model; afterwards, onnx is not called again
MAX_ELEMENTS_BY_AXIS = 2000  # pads have two per axis; onnx and onnxruntime make a dim of each, and NumPy allows 64
TERM = rb"[A-Za-z ]*(\.\.\.[A-Za-z ]*)?"
EQUATION = re.compile(rb"%b(,%b)*(->%b)?" % (TERM, TERM, TERM))  # of Einsum
ANONYMOUS_DIM_PREFIX = "\N{SECTION SIGN}"  # prefix of the number of a dim without a name


def infer_from_schema(op: Op, spec: onnx.defs.OpSchema) -> None:
    """Infer the output types with the inference function of the schema."""
    names: dict[SymInt, str] = {}  # of dims that are expressions or may be replaced
    try:
        found = _inferred_types(op, spec, names)
    except (OnnxError, ValueError):  # ValueError: extents that a message cannot hold
        return  # the op is invalid, or the schema infers nothing; onnxruntime decides
    named: dict[Dim, Dim] = {name: dim for dim, name in names.items()}
    for v in op.outputs:
        proto = found.get(v.name) if v.name else None
        if proto is not None and proto.HasField("tensor_type"):
            shape = declared_shape(proto.tensor_type)
            inferred = None if shape is None else tuple(possible_dim(named.get(d, d)) for d in shape)
            v.merge_type(proto.tensor_type.elem_type, inferred, inferred=True)
        elif proto is not None and proto.WhichOneof("value"):
            v.type = proto


def schema_violation(op: Op) -> str:
    """Why the schema of `op` rejects its attributes, input types or constant inputs, or ""."""
    spec = op.schema
    if spec is None:
        return ""
    for v in op.inputs:
        if v is not None:
            _ = v.known_shape  # infers what is not known yet
    try:
        _inferred_types(op, spec, {})
    except OnnxAborted:
        return ""
    except (OnnxError, ValueError) as e:
        return " ".join(str(e).split())
    return ""


def _inferred_types(op: Op, spec: onnx.defs.OpSchema, names: dict[SymInt, str]) -> dict[str, onnx.TypeProto]:
    """The output types by name; empty if the type of an input is unknown. Adds the `names` of dims that get one.

    Raises OnnxError.
    """
    context = op.graph.context
    if context.aborted_calls >= MAX_ABORTED_CALLS:
        return {}
    types: dict[str, bytes] = {}
    data: dict[str, bytes] = {}
    for v in op.inputs:
        if v is None:
            continue
        dtype, shape = v.recorded_type
        if v.type is None and not dtype:
            return {}
        dims = None if shape is None else [_dim_name(d, names) for d in shape]
        types[v.name] = (v.type or helper.make_tensor_type_proto(dtype, dims)).SerializeToString()
        if v.tensor is not None and v.tensor.nbytes <= SMALL_TENSOR_BYTES and not v.tensor.is_external:
            data[v.name] = v.tensor.to_proto(v.name).SerializeToString()
    node = onnx.NodeProto.FromString(node_bytes(op))
    _require_safe(op, node)
    try:
        found = infer_node_outputs(spec, node, types, data, op.graph.opsets)
    except OnnxAborted:
        context.aborted_calls += 1
        raise
    if _may_overflow(op, node):
        for proto in found.values():
            for dim in proto.tensor_type.shape.dim if proto.HasField("tensor_type") else ():
                dim.Clear()
    return found


def _require_safe(op: Op, node: onnx.NodeProto) -> None:
    """Raise OnnxError for numbers that make functions of schemas access invalid memory, or exhaust memory.

    LayerNormalization and GatherND do not check their axes, Einsum does not terminate for malformed equations, and the
    elements of a shape determine the number of dims.
    """
    shapes = [None if v is None else v.recorded_type[1] for v in op.inputs]
    rank = len(shapes[0]) if shapes and shapes[0] is not None else None
    for a in node.attribute:
        if a.name in {"axis", "batch_dims"} and rank is not None and not -rank <= a.i <= rank:
            raise OnnxError(f"{a.name} {a.i} does not fit rank {rank}")
        if a.name == "batch_dims" and not all(s is None or 0 <= a.i < len(s) for s in shapes):
            raise OnnxError(f"batch_dims {a.i} does not fit the ranks of the inputs")
        if op.type == "Einsum" and a.name == "equation" and not EQUATION.fullmatch(a.s):
            raise OnnxError("its equation is invalid")
    if beyond_ranks(op) is not None:
        raise OnnxError("a shape has too many dims")


def beyond_ranks(op: Op) -> Value | None:
    """An input with per-axis elements that has more elements than any tensor can have axes; None if there is none."""
    for i in inputs_by_axis(op.type) if not op.domain else ():
        v = op.input(i)
        extents = v.known_shape if v is not None else None
        if extents and any(isinstance(d, int) and d > MAX_ELEMENTS_BY_AXIS for d in extents):
            return v
    return None


def _may_overflow(op: Op, node: onnx.NodeProto) -> bool:
    """Whether numbers of an op are so large that their sums and products may overflow int64."""
    for v in (v for v in op.inputs if v is not None):
        sizes = [d for d in v.recorded_type[1] or () if isinstance(d, int)]
        elements = (v.tensor.elements or ()) if v.tensor is not None else ()
        if prod(sizes) > MAX_PLAIN_NUMBER or any(abs(e) > MAX_PLAIN_NUMBER for e in elements):
            return True
    return any(abs(n) > MAX_PLAIN_NUMBER for a in node.attribute for n in (a.i, *a.ints))


def _dim_name(dim: Dim, names: dict[SymInt, str]) -> int | str | None:
    """A number or a name for a dim."""
    if dim is None or isinstance(dim, int) or (isinstance(dim, str) and not isinstance(dim, DeclaredSymbol)):
        return dim
    return names.setdefault(dim, f"{ANONYMOUS_DIM_PREFIX}{len(names)}")
