"""Text of models and graphs in the syntax that `onnx.parser` reads.

The syntax has no doc strings and metadata of nodes, values and graphs, no sparse tensors, and no lists of tensors,
graphs and types; operators and attributes must be identifiers. Comments at the top of the text state what it omits and
what `onnx.parser` cannot read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import copysign, isnan, prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from ..ir.graph import Graph
from ..ir.tensor import Chunk, Tensor
from ..support.printable_text import printable
from .exporter import graph_proto, unchanged_names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPE_NAMES = {number: name.lower() for name, number in TensorProto.DataType.items() if number}
WORDS = {*TYPE_NAMES.values(), "seq", "map", "optional", "sparse_tensor", "opaque"}
"""Identifiers that begin a type; as names they must be quoted."""
NUMBER_WORDS = {"inf", "infinity", "nan"}
ATTRIBUTE_TYPES = {number: name.lower() for name, number in AttributeProto.AttributeType.items()}
PACKED_BITS = {
    TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4, TensorProto.INT2: 2, TensorProto.UINT2: 2,
}  # fmt: skip
INDENT = "   "


def model_text(model: onnx.ModelProto, max_elements: int | None = None) -> str:
    """The text of a model; tensors with more than `max_elements` elements become references to external data."""
    return _Writer(max_elements).model(model)


def graph_text(graph: onnx.GraphProto, max_elements: int | None = None) -> str:
    """The text of a graph, as read by `onnx.parser.parse_graph`; see `model_text`."""
    writer = _Writer(max_elements)
    return writer.with_remarks(writer.graph(graph, "", ""))


def text_of(graph: Graph, max_elements: int | None = None) -> str:
    """The text of a graph or body as it would be written; the graph does not change."""
    with unchanged_names(graph):
        return graph_text(graph_proto(graph), max_elements)


def short_chunks(tensor: Tensor, name: str, max_elements: int) -> Iterator[Chunk]:
    """A tensor for an export; one with more elements becomes the reference in its text, so that they are not read."""
    if tensor.size <= max_elements:
        yield from tensor.chunks(name)
        return
    proto = tensor.proto_without_elements(name)
    refer_to_omitted(proto)
    yield proto.SerializeToString(deterministic=True)


def refer_to_omitted(tensor: TensorProto) -> None:
    """Let a tensor without elements refer to external data that do not exist, with the number of elements."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="omitted", value=f"{prod(tensor.dims)} elements")


def quoted(text: str) -> str:
    """A quoted text; only quotes and backslashes are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _number(value: float, *, is_single: bool = True) -> str:
    """The shortest text of a float that has the same value, with a decimal point or exponent.

    The text of NaN has only its sign.
    """
    if isnan(value):
        return "-nan" if copysign(1, value) < 0 else "nan"
    text = str(np.float32(value)) if is_single else repr(float(value))
    return text if set(text) & set(".en") else f"{text}.0"


@dataclass(slots=True)
class _Writer:
    """Writes text, and records what the syntax lacks in `omitted` and what the parser cannot read in `unreadable`."""

    max_elements: int | None
    omitted: Counter[str] = field(default_factory=Counter[str])
    unreadable: dict[str, None] = field(default_factory=dict[str, None])

    def with_remarks(self, text: str) -> str:
        """The text after comments on what is omitted or unreadable."""
        lines = [f"# not in this syntax, and left out: {what} ({n})" for what, n in self.omitted.items()]
        lines += [f"# onnx.parser does not read this: {what}" for what in self.unreadable]
        return "\n".join([*map(printable, lines), text])

    def model(self, model: onnx.ModelProto) -> str:
        """The header, the graph and the functions of a model as text."""
        facts = [f"ir_version: {model.ir_version}", f"opset_import: {self._opsets(model.opset_import)}"]
        texts = ("producer_name", "producer_version", "domain", "doc_string")
        facts += [f"{name}: {self._string(getattr(model, name))}" for name in texts if model.HasField(name)]
        if model.HasField("model_version"):
            facts.append(f"model_version: {model.model_version}")
        if model.metadata_props:
            pairs = (f"{self._string(p.key)}: {self._string(p.value)}" for p in model.metadata_props)
            facts.append(f"metadata_props: [{', '.join(pairs)}]")
        self.omitted.update({"training information": len(model.training_info)} if model.training_info else {})
        parts = [f"<\n{INDENT}{f',{chr(10)}{INDENT}'.join(facts)}\n>", self.graph(model.graph, "", "")]
        return self.with_remarks("\n".join((*parts, *map(self._function, model.functions))))

    def _opsets(self, opsets: Iterable[onnx.OperatorSetIdProto]) -> str:
        return f"[{', '.join(f'{self._string(o.domain)} : {o.version}' for o in opsets)}]"

    def graph(self, graph: onnx.GraphProto, indent: str, owner: str) -> str:
        """A graph as text; in an attribute of the node `owner`, its name must be an identifier."""
        name = self._name(graph.name)
        if owner and (name.startswith('"') or graph.name.lower() in NUMBER_WORDS):
            name = "body"
            self.omitted[f"the name of a body, {graph.name}" if graph.name else "the empty name of a body"] += 1
        self._omit(graph, "graphs")
        self._count("sparse initializers", len(graph.sparse_initializer))
        self._count("quantization annotations", len(graph.quantization_annotation))
        inputs, outputs = (", ".join(map(self._value_info, vs)) for vs in (graph.input, graph.output))
        inner = indent + INDENT
        declared = [*map(self._value_info, graph.value_info)]
        declared += [self._tensor(t, f" {self._name(t.name)} =") for t in graph.initializer]
        known = f"\n{inner}<{f',{chr(10)}{inner} '.join(declared)}>\n{indent}" if declared else ""
        nodes = "".join(f"{inner}{self._node(n, inner)}\n" for n in graph.node)
        return f"{name} ({inputs}) => ({outputs}) {known}{{\n{nodes}{indent}}}"

    def _function(self, function: onnx.FunctionProto) -> str:
        facts = [f"domain: {self._string(function.domain)}"]
        if function.overload:
            facts.append(f"overload: {self._string(function.overload)}")
        facts.append(f"opset_import: {self._opsets(function.opset_import)}")
        if function.doc_string:
            facts.append(f"doc_string: {self._string(function.doc_string)}")
        self._count("metadata of functions", len(function.metadata_props))
        given = [*map(self._name, function.attribute), *self._attributes(function.attribute_proto, "")]
        attributes = f" <{', '.join(given)}>" if given else ""
        inputs, outputs = (", ".join(map(self._name, names)) for names in (function.input, function.output))
        known = f" <{', '.join(map(self._value_info, function.value_info))}>" if function.value_info else ""
        nodes = "".join(f"{INDENT}{self._node(n, INDENT)}\n" for n in function.node)
        head = f"<{', '.join(facts)}>\n{self._name(function.name)}{attributes}"
        return f"{head} ({inputs}) => ({outputs}){known}\n{{\n{nodes}}}"

    def _node(self, node: onnx.NodeProto, indent: str) -> str:
        self._omit(node, "nodes")
        name = f"[{self._name(node.name)}] " if node.name else ""
        operator = ".".join(filter(None, (node.domain, node.op_type)))
        if not all(map(IDENTIFIER.fullmatch, operator.split("."))):
            self.unreadable[f"the operator {operator}"] = None
        operator += f":{node.overload}" if node.overload else ""
        has_body = any(a.HasField("g") for a in node.attribute)
        given = list(self._attributes(node.attribute, indent))
        attributes = f" <{', '.join(given)}>" if given else ""
        outputs, inputs = (", ".join(map(self._name, names)) for names in (node.output, node.input))
        before, after = ("", attributes) if has_body else (attributes, "")
        return f"{name}{outputs} = {operator}{before} ({inputs}){after}"

    def _attributes(self, attributes: Iterable[AttributeProto], indent: str) -> Iterator[str]:
        """Yield the attributes, except those that the syntax lacks."""
        for a in attributes:
            kind = ATTRIBUTE_TYPES[a.type]
            self._count("doc strings of attributes", bool(a.doc_string))
            if not IDENTIFIER.fullmatch(a.name):
                self.unreadable[f"the attribute {a.name}"] = None
            value = f"@{self._name(a.ref_attr_name)}" if a.ref_attr_name else self._content(a, indent)
            if value is None:
                self._count(f"attributes with {kind.replace('_', ' ')}", 1)
            else:
                yield f"{a.name}: {kind} = {value}"

    def _content(self, a: AttributeProto, indent: str) -> str | None:
        match a.type:
            case AttributeProto.INT:
                return str(a.i)
            case AttributeProto.INTS:
                return f"[{', '.join(map(str, a.ints))}]"
            case AttributeProto.FLOAT:
                return _number(a.f)
            case AttributeProto.FLOATS:
                return f"[{', '.join(map(_number, a.floats))}]"
            case AttributeProto.STRING:
                return self._string(a.s)
            case AttributeProto.STRINGS:
                return f"[{', '.join(map(self._string, a.strings))}]"
            case AttributeProto.TENSOR:
                return self._tensor(a.t)
            case AttributeProto.GRAPH:
                return self.graph(a.g, indent + INDENT, a.name)
            case AttributeProto.TYPE_PROTO:
                return self._type(a.tp)
            case _:
                return None

    def _value_info(self, info: onnx.ValueInfoProto) -> str:
        self._omit(info, "values")
        return f"{self._type(info.type)} {self._name(info.name)}".strip()

    def _type(self, kind: onnx.TypeProto) -> str:
        """A type as text; empty if it is unknown."""
        self._count("denotations of types", bool(kind.denotation))
        match kind.WhichOneof("value"):
            case "tensor_type":
                return self._tensor_type(kind.tensor_type)
            case "sparse_tensor_type":
                return f"sparse_tensor({self._tensor_type(kind.sparse_tensor_type)})"
            case "sequence_type":
                return f"seq({self._type(kind.sequence_type.elem_type)})"
            case "optional_type":
                return f"optional({self._type(kind.optional_type.elem_type)})"
            case "map_type":
                key = TYPE_NAMES.get(kind.map_type.key_type, "undefined")
                return f"map({key}, {self._type(kind.map_type.value_type)})"
            case "opaque_type":
                return f"opaque({','.join(filter(None, (kind.opaque_type.domain, kind.opaque_type.name)))})"
            case _:
                return ""

    def _tensor_type(self, kind: Any) -> str:
        if kind.elem_type not in TYPE_NAMES:
            if kind.elem_type or kind.HasField("shape"):
                self._count("types without a type of elements", 1)
            return ""
        shape = "[]"
        if kind.HasField("shape"):
            shape = f"[{','.join(map(self._dim, kind.shape.dim))}]" if kind.shape.dim else ""
        return TYPE_NAMES[kind.elem_type] + shape

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> str:
        self._count("denotations of dims", bool(dim.denotation))
        if dim.HasField("dim_value"):
            return str(dim.dim_value)
        return self._name(dim.dim_param) if dim.dim_param else "?"

    def _tensor(self, tensor: TensorProto, name: str | None = None) -> str:
        """A tensor as text; by default one in an attribute, where its name must be an identifier."""
        self._omit(tensor, "tensors")
        if name is None:
            is_plain = IDENTIFIER.fullmatch(tensor.name) and tensor.name not in WORDS
            self._count("names of tensors in attributes", bool(tensor.name) and not is_plain)
            name = f" {tensor.name}" if is_plain else ""
        if tensor.data_type not in TYPE_NAMES:
            self.unreadable[f"type {tensor.data_type} of the tensor {tensor.name}"] = None
        shape = f"[{','.join(map(str, tensor.dims))}]" if tensor.dims else ""
        kind = TYPE_NAMES.get(tensor.data_type, "undefined") + shape
        if self.max_elements is not None and prod(tensor.dims) > self.max_elements:
            tensor = TensorProto(dims=tensor.dims)
            refer_to_omitted(tensor)
        if tensor.data_location != TensorProto.EXTERNAL:
            return f"{kind}{name} {{{', '.join(self._elements(tensor))}}}"
        given = ", ".join(f"{self._string(e.key)}: {self._string(e.value)}" for e in tensor.external_data)
        return f"{kind}{name if name.endswith('=') else f'{name} ='} [{given}]"

    def _elements(self, tensor: TensorProto) -> Iterator[str]:
        """Yield the elements as the parser stores them; of types without their own field, the bits as integers."""
        kind = tensor.data_type
        if kind == TensorProto.STRING:
            return map(self._string, tensor.string_data)
        if kind in PACKED_BITS:
            data = tensor.raw_data or bytes(n & 0xFF for n in tensor.int32_data)
            return map(str, data)
        array = numpy_helper.to_array(tensor).ravel()
        if kind in {TensorProto.FLOAT, TensorProto.COMPLEX64}:
            return map(_number, array.view(np.float32).tolist())
        if kind in {TensorProto.DOUBLE, TensorProto.COMPLEX128}:
            return (_number(x, is_single=False) for x in array.view(np.float64).tolist())
        if array.dtype.kind in "iu":
            return map(str, array.tolist())
        return map(str, array.view(f"u{array.itemsize}").tolist())

    def _name(self, name: str) -> str:
        return name if IDENTIFIER.fullmatch(name) and name not in WORDS else self._string(name)

    def _string(self, text: str | bytes) -> str:
        found = text.decode(errors="replace") if isinstance(text, bytes) else text
        if "\0" in found or (isinstance(text, bytes) and found.encode() != text):
            self.unreadable[f"bytes that are no text, in {found}"] = None
        return quoted(found)

    def _omit(self, proto: Any, what: str) -> None:
        self._count(f"doc strings of {what}", bool(proto.doc_string))
        self._count(f"metadata of {what}", len(proto.metadata_props))

    def _count(self, what: str, number: int) -> None:
        if number:
            self.omitted[what] += number
