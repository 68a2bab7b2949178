"""Import of a GraphProto and its subgraphs as a Graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from sys import intern
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from ..errors import GraphError, ModelError
from ..ir import op_schemas
from ..ir.expressions import DeclaredSymbol, Dim
from ..ir.graph import Declarations, Graph, GraphContext
from ..ir.op import Op, attribute_value
from ..ir.tensor import KNOWN_DTYPES, SMALL_TENSOR_BYTES, STRING, Tensor
from ..ir.values import Value, declared_shape
from ..operators.declaration import Trait
from ..operators.table import ops_with
from ..processes.watchdog import require_time
from .proto_queries import SUBGRAPH_ATTRIBUTE_TYPES, copy_without

STRIPPED_ATTRIBUTE_TYPES = frozenset({
    *SUBGRAPH_ATTRIBUTE_TYPES, AttributeProto.TENSOR, AttributeProto.TENSORS,
})  # fmt: skip
STRIPPABLE_OPS = ops_with(Trait.HAS_SUBGRAPHS) | {"ConstantOfShape"}  # of subgraphs or tensors

DECLARABLE_DTYPES = KNOWN_DTYPES | {onnx.TensorProto.UNDEFINED}

UNCHECKED_PREFIX = "__"  # of attributes that no operator declares but the ONNX checker accepts (schema.cc)

TensorReader = Callable[[onnx.TensorProto], Tensor]


class Importer:
    """Builds graphs that share one context; `read_tensor` resolves the elements of a TensorProto."""

    def __init__(self, context: GraphContext, read_tensor: TensorReader = Tensor.from_proto) -> None:
        self.context, self.read_tensor = context, read_tensor

    def read_graph(
        self,
        header: onnx.GraphProto,
        nodes: Iterable[onnx.NodeProto],
        initializers: Iterable[Tensor],
        outer: Callable[[str], Value] | None = None,
    ) -> Graph:
        """Build a graph from its parts. Raises ModelError for a name that is not defined once, or for a cycle."""
        graph = Graph(self.context)
        graph.declared = Declarations(header)
        if outer is None:
            self.context.root = graph
        names: dict[str, Value] = {}
        self._read_inputs(graph, names)
        self._read_initializers(graph, names, initializers)
        if outer is not None:  # an inner name hides an outer one wherever it is defined
            nodes = list(nodes)
            names.update((o, Value(o)) for node in nodes for o in node.output if o and o not in names)

        def lookup(name: str) -> Value:
            found = names.get(name)
            if found is None:
                require_utf8(name)
                found = outer(name) if outer is not None else names.setdefault(name, Value(name))
            return found

        sources = set(graph.inputs)
        for position, node in enumerate(nodes):
            self.add_node(graph, node, position, lookup, sources)
        self._read_declarations(graph, names, lookup)
        if outer is None:
            _check_defined(graph, names)
        return graph

    def _read_inputs(self, graph: Graph, names: dict[str, Value]) -> None:
        for info in graph.declared.header.input:
            require_utf8(info.name)
            if info.name in names:
                raise ModelError(f"two inputs are named {info.name}")
            value = names[info.name] = declare_input(Value(info.name), info.type, self.context)
            graph.inputs.append(value)
            graph.declared.inputs.append((value, info.SerializeToString(deterministic=True)))

    def _read_initializers(self, graph: Graph, names: dict[str, Value], tensors: Iterable[Tensor]) -> None:
        inputs = set(graph.inputs)
        for tensor in tensors:
            require_time()
            require_utf8(tensor.name)
            value = names.get(tensor.name)
            if value is None:
                value = names[tensor.name] = Value(tensor.name)
            elif value not in inputs or value in graph.input_defaults or value in graph.initializers:
                raise ModelError(f"two initializers are named {tensor.name}")
            graph.declared.initializers.append(value)
            if value in inputs and not self.context.initializers_are_inputs:
                graph.input_defaults[value] = tensor
                continue
            value.set_constant(tensor)
            graph.initializers[value] = None
        for sparse in graph.declared.header.sparse_initializer:
            require_utf8(sparse.values.name)
            value = names.setdefault(sparse.values.name, Value(sparse.values.name))
            graph.sparse_initializers[value] = sparse
        if self.context.initializers_are_inputs:
            graph.inputs = [v for v in graph.inputs if v.tensor is None]

    def add_node(
        self,
        graph: Graph,
        node: onnx.NodeProto,
        position: int,
        lookup: Callable[[str], Value],
        sources: Collection[Value] = (),
    ) -> Op:
        """Add a node to `graph` as an op; `sources` are values that no op may produce. Raises TimeLimitReached."""
        require_time()
        require_utf8(node.op_type, node.domain, node.name)
        inputs = [lookup(name) if name else None for name in node.input]
        outputs = [lookup(name) if name else Value("") for name in node.output]
        domain = op_schemas.canonical_domain(node.domain)
        _require_schema(node, domain, graph.opsets.get(domain, 0), self.context.function_attributes)
        attrs = subgraphs = None
        constant = self._read_constant(node) if node.op_type == "Constant" and not domain else None
        if constant is not None and (constant.nbytes > SMALL_TENSOR_BYTES or constant.is_external):
            attrs = {"value": constant}
        elif (domain or node.op_type in STRIPPABLE_OPS) and any(map(_is_stored_apart, node.attribute)):
            attrs, subgraphs = self._read_attributes(node, lookup)
        op = Op(intern(node.op_type), domain, None, attrs, None)
        op.subgraphs, op.is_stripped, op.order_key = tuple(subgraphs or ()), attrs is not None, position
        op.proto_bytes = op.loaded_proto_bytes = _edgeless_proto_bytes(node, op.is_stripped)
        for v in outputs:
            if v.tensor is not None or v in sources:
                raise ModelError(f"{v.name} is produced by {op.label} and is an input or initializer too")
        try:
            graph.add_op(op, inputs, outputs)
        except GraphError as e:
            raise ModelError(str(e)) from e
        _require_bodies(op)
        if constant is not None and outputs:
            outputs[0].set_constant(constant)
        return op

    def _read_attributes(
        self, node: onnx.NodeProto, lookup: Callable[[str], Value]
    ) -> tuple[dict[str, Any], list[Graph]]:
        """Attributes of a node that may hold subgraphs, and those subgraphs."""
        subgraphs: list[Graph] = []

        def read_graph(proto: onnx.GraphProto) -> Graph:
            tensors = map(self.read_tensor, proto.initializer)
            subgraphs.append(self.read_graph(copy_without(proto, "node", "initializer"), proto.node, tensors, lookup))
            return subgraphs[-1]

        return {a.name: attribute_value(a, self.read_tensor, read_graph) for a in node.attribute}, subgraphs

    def _read_constant(self, node: onnx.NodeProto) -> Tensor | None:
        """The tensor of a Constant node; None if it is sparse or a reference to a function's attribute."""
        for a in node.attribute:
            if a.name == "value" and a.HasField("t"):
                small = not a.t.external_data and a.t.ByteSize() <= SMALL_TENSOR_BYTES
                return Tensor.from_bytes(a.t.SerializeToString(deterministic=True)) if small else self.read_tensor(a.t)
            if a.name in {"value_string", "value_strings"} and not a.ref_attr_name:
                strings = [a.s] if a.name == "value_string" else list(a.strings)
                dims = [len(strings)] if a.name == "value_strings" else []
                return Tensor.from_proto(onnx.TensorProto(data_type=STRING, dims=dims, string_data=strings))
            dtype = CONSTANT_DTYPES.get(a.name.removesuffix("s"))
            if dtype is not None and not a.ref_attr_name:
                return Tensor.from_array(np.array(helper.get_attribute_value(a), dtype))
        return None

    def _read_declarations(self, graph: Graph, names: dict[str, Value], lookup: Callable[[str], Value]) -> None:
        header = graph.declared.header
        graph.outputs = [lookup(info.name) for info in header.output]
        for info, value in zip(header.output, graph.outputs, strict=True):
            declare_computed(value, info.type, self.context)
            graph.declared.outputs.append(info.SerializeToString(deterministic=True))
        for info in header.value_info:
            require_time()
            value = names.get(info.name)
            if value is not None:
                declare_computed(value, info.type, self.context)
            graph.declared.value_infos.append((value, info.SerializeToString(deterministic=True)))
        for note in header.quantization_annotation:
            noted = [note.tensor_name, *(p.value for p in note.quant_parameter_tensor_names)]
            graph.pinned.update(names[n] for n in noted if n in names)
        for part in ("input", "output", "value_info", "sparse_initializer"):
            header.ClearField(part)


# The attributes of operator Constant since version 12 for one number (or, with an s, several), by its documentation.
CONSTANT_DTYPES: dict[str, Any] = {"value_int": np.int64, "value_float": np.float32}


def require_utf8(*strings: object) -> None:
    """Raise ModelError for names that are not UTF-8, which protobuf returns as bytes."""
    if not all(isinstance(s, str) for s in strings):
        raise ModelError("it is damaged: a name is not UTF-8 text")


def _require_schema(node: onnx.NodeProto, domain: str, version: int, references: Collection[str]) -> None:
    """Raise ModelError if a node lacks a required operand or attribute, or has one that its operator lacks.

    `references`: the attributes of a function to which it may refer.
    """
    key = node.op_type, domain, version
    operands = zip(("input", "output"), (node.input, node.output), op_schemas.operand_counts(*key), strict=True)
    for kind, names, (least, most) in operands:
        if not least <= len(names) <= most:
            allowed = f"at least {least}" if len(names) < least else f"at most {most}"
            raise ModelError(f"{_label(node)}: number of {kind}s {len(names)}; the operator has {allowed}")
    required = op_schemas.required_attributes(*key)
    if required and (missing := required.difference(a.name for a in node.attribute)):
        raise ModelError(f"{_label(node)}: its attribute {min(missing)} is missing")
    declared, is_known = op_schemas.attribute_types(*key), op_schemas.schema(*key) is not None
    for a in node.attribute:
        if a.ref_attr_name and a.ref_attr_name not in references:
            found = f"refers to {a.ref_attr_name}, which is an attribute of no function around it"
            raise ModelError(f"{_label(node)}: its attribute {a.name} {found}")
        if is_known and a.name not in declared and not a.name.startswith(UNCHECKED_PREFIX):
            raise ModelError(f"{_label(node)}: its attribute {a.name} is none of the operator at opset {version}")
        wanted = declared.get(a.name, a.type)
        if a.type != wanted:
            found, named = map(AttributeProto.AttributeType.Name, (a.type, wanted))
            raise ModelError(
                f"{_label(node)}: its attribute {a.name} has the type {found}; the operator declares {named}"
            )


def _require_bodies(op: Op) -> None:
    """Raise ModelError if a body has a different number of inputs or outputs than its If, Loop or Scan requires."""
    if op.domain or op.type not in {"If", "Loop", "Scan"}:
        return
    # A Loop's body has the condition as an output; the first input of Scan 8 is for the lengths of sequences. The last
    # outputs of an op may be omitted.
    inputs = 0 if op.type == "If" else len(op.inputs) - (op.type == "Scan" and op.version < 9)
    outputs = len(op.outputs) + (op.type == "Loop")
    for body in op.subgraphs:
        if not len(body.inputs) - len(body.input_defaults) <= inputs <= len(body.inputs):
            raise ModelError(f"{op.label}: number of inputs of a body {len(body.inputs)}; it needs {inputs}")
        if len(body.outputs) < outputs:
            raise ModelError(f"{op.label}: number of outputs of a body {len(body.outputs)}; it needs {outputs}")


def _label(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name or next(iter(node.output), '')}".strip()


def declare_input(value: Value, proto: onnx.TypeProto, context: GraphContext) -> Value:
    """Record the declared type of an input; each undeclared dim gets a new unknown extent."""
    _declare(value, proto, lambda d: context.new_unknown() if d is None else d)
    context.input_symbols.update(d for d in value.recorded_type[1] or () if isinstance(d, str))
    return value


def declare_computed(value: Value, proto: onnx.TypeProto, context: GraphContext) -> None:
    """Record the declared type of a computed value; inference may replace symbols that occur in no input."""
    known = context.input_symbols
    _declare(value, proto, lambda d: DeclaredSymbol(d) if isinstance(d, str) and d not in known else d)


def _declare(value: Value, proto: onnx.TypeProto, dim: Callable[[Dim], Dim]) -> None:
    if proto.HasField("tensor_type"):
        if proto.tensor_type.elem_type not in DECLARABLE_DTYPES:
            raise ModelError(f"{value.name} has the unknown element type {proto.tensor_type.elem_type}")
        shape = declared_shape(proto.tensor_type)
        value.merge_type(proto.tensor_type.elem_type, None if shape is None else tuple(map(dim, shape)))
    elif proto.WhichOneof("value"):
        value.type = proto


def _edgeless_proto_bytes(node: onnx.NodeProto, stripped: bool) -> bytes:
    if stripped:
        rest = copy_without(node, "input", "output", "attribute")
        for a in node.attribute:
            is_apart = a.type in STRIPPED_ATTRIBUTE_TYPES and not a.ref_attr_name
            rest.attribute.append(copy_without(a, "g", "graphs", "t", "tensors") if is_apart else a)
    else:
        rest = onnx.NodeProto()
        rest.CopyFrom(node)
        del rest.input[:], rest.output[:]
    return rest.SerializeToString(deterministic=True)


def _is_stored_apart(attribute: onnx.AttributeProto) -> bool:
    """Whether an op stores the attribute separately from the rest of its message: graphs and external tensors."""
    if attribute.type in SUBGRAPH_ATTRIBUTE_TYPES:
        return True
    tensors = [attribute.t] if attribute.type == AttributeProto.TENSOR else attribute.tensors
    return any(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors)


def _check_defined(graph: Graph, names: dict[str, Value]) -> None:
    sources = {*graph.inputs, *graph.initializers, *graph.sparse_initializers}
    for value in names.values():
        if value.producer is None and value not in sources:
            for user in value.consumers:
                raise ModelError(f"{user.label} reads {value.name}, which no node, input or initializer provides")
            if graph.is_output(value):
                raise ModelError(f"output {value.name} is provided by no node, input or initializer")
    try:
        for g in graph.with_subgraphs():
            g.sorted_ops()
    except GraphError as e:
        raise ModelError(str(e)) from e
