"""Interfaces of models, recorded on load and checked before export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from weakref import WeakKeyDictionary

import onnx
from msgspec import Struct

from ..errors import InterfaceError
from ..io.graph_interface import (
    Default,
    default_values,
    info_names,
    input_infos,
    output_infos,
    require_same_defaults,
    require_same_names,
    type_text,
)
from ..io.model import Model
from ..ir.graph import Graph, defined_values
from ..ir.op import Op
from ..ir.tensor import MAX_INTERNED_BYTES, Tensor, tensors_equal
from ..serialization.proto_queries import copy_without, opset_versions
from ..serialization.provenance import other_metadata, with_provenance

Messages = onnx.ModelProto | onnx.GraphProto | onnx.ValueInfoProto


class DefaultValue(Struct, frozen=True):
    """The default of an overridable input; a digest detects changes to a small one."""

    tensor: Default
    digest: bytes

    @classmethod
    def of(cls, tensor: Default) -> DefaultValue:
        """Record a default; for a tensor that is on disk or large, only the object."""
        is_large = isinstance(tensor, Tensor) and (tensor.mapped is not None or tensor.nbytes > MAX_INTERNED_BYTES)
        return cls(tensor, b"" if is_large else _digest(tensor))

    def is_equal(self, tensor: Default) -> bool:
        """Whether `tensor` is equal, ignoring its name."""
        if tensor is self.tensor or not isinstance(tensor, Tensor) or not isinstance(self.tensor, Tensor):
            return not self.digest or _digest(tensor) == self.digest
        same_header = tensor.proto_without_elements("") == self.tensor.proto_without_elements("")
        return same_header and tensors_equal(tensor, self.tensor)


def _digest(tensor: Default) -> bytes:
    """A digest of the message that would be written; a decoded array may be an outdated copy."""
    message = tensor.to_proto("") if isinstance(tensor, Tensor) else tensor
    return blake2b(message.SerializeToString(deterministic=True)).digest()


class RecordedGraph(Struct, frozen=True):
    """The interface of one graph: inputs, outputs and value infos as written, defaults and header.

    `pinned` are values named by annotations or training information. The inputs and outputs of a subgraph are compared
    by position instead of by name.
    """

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    value_infos: tuple[bytes, ...]
    defaults: Mapping[str, DefaultValue]
    header: bytes
    pinned: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph) -> RecordedGraph:
        """Record the interface of `graph`, which has just been loaded."""
        return cls(
            input_infos(graph),
            output_infos(graph),
            tuple(info for _, info in graph.declared.value_infos),
            {name: DefaultValue.of(tensor) for name, tensor in default_values(graph).items()},
            graph.declared.header.SerializeToString(deterministic=True),
            tuple(sorted(v.name for v in graph.pinned)),
        )

    def require(self, graph: Graph) -> None:
        """Raise InterfaceError unless `graph` still has this interface."""
        where = "" if graph.owner is None else f" of a subgraph of {graph.owner}"
        inputs = input_infos(graph)
        _require_same_infos("input", self.inputs, inputs, where)
        require_same_names("input", info_names(inputs), [v.name for v in graph.inputs], where)
        _require_same_infos("output", self.outputs, output_infos(graph), where)
        declarations = {info for _, info in graph.declared.value_infos}
        for info in (info for info in self.value_infos if info not in declarations):
            name = onnx.ValueInfoProto.FromString(info).name
            raise InterfaceError(f"the declaration of {name}{where} was changed or removed")
        require_same_defaults(self.defaults, default_values(graph), DefaultValue.is_equal, where)
        header = graph.declared.header
        if header.SerializeToString(deterministic=True) != self.header:
            require_same_fields(onnx.GraphProto.FromString(self.header), header, f"the graph{where}")
        present = {v.name for v in defined_values(graph)} if self.pinned else set[str]()
        for name in self.pinned:
            if name not in present:
                raise InterfaceError(f"{name}{where}, which an annotation or training information names, was removed")


def _require_same_infos(what: str, before: Sequence[bytes], after: Sequence[bytes], where: str) -> None:
    if before == after:
        return
    if not where:
        require_same_names(what, info_names(before), info_names(after), where)
    elif len(before) != len(after):
        raise InterfaceError(f"the {what}s{where} were {len(before)} and are {len(after)}")
    for old, new in zip(before, after, strict=True):
        a, b = onnx.ValueInfoProto.FromString(old), onnx.ValueInfoProto.FromString(new)
        b.name = a.name
        if a.type != b.type:
            raise InterfaceError(f"{what} {a.name}{where} was {type_text(a.type)} and is {type_text(b.type)}")
        require_same_fields(a, b, f"{what} {a.name}{where}")


def require_same_fields(before: Messages, after: Messages, whose: str) -> None:
    """Raise InterfaceError for the first field that differs."""
    old, new = ({field.name: content for field, content in m.ListFields()} for m in (before, after))
    for name in (*old, *new):
        if old.get(name) == new.get(name):
            continue
        if name == "quantization_annotation":
            kept = {a.tensor_name for a in new.get(name, ())}
            for a in (a for a in old.get(name, ()) if a not in new.get(name, ())):
                change = "was changed" if a.tensor_name in kept else "was removed"
                raise InterfaceError(f"the quantization annotation of {a.tensor_name} {change}")
            raise InterfaceError(f"the quantization annotations of {whose} were changed")
        words = {"doc_string": "doc string", "metadata_props": "metadata"}.get(name, name.replace("_", " "))
        raise InterfaceError(f"the {words} of {whose} changed")


def require_same_annotations(op: Op) -> None:
    """Raise InterfaceError unless an op of the file keeps its name, doc string and metadata, except our provenance."""
    if op.loaded_proto_bytes is None or op.proto_bytes == op.loaded_proto_bytes:
        return
    before = onnx.NodeProto.FromString(op.loaded_proto_bytes)
    rest = op.proto_bytes if op.proto_bytes is not None else onnx.NodeProto(name=op.name).SerializeToString()
    after = onnx.NodeProto.FromString(with_provenance(op, rest))
    called = f"node {before.name or op.label}"
    for name in (op.name, after.name):
        if name != before.name:
            raise InterfaceError(f"{called} was renamed {name}" if name else f"{called} lost its name")
    if after.doc_string != before.doc_string:
        raise InterfaceError(f"the doc string of {called} was changed")
    if other_metadata(after) != other_metadata(before):
        raise InterfaceError(f"the metadata of {called} was changed")


def _all_converted(graph: Graph, domain: str) -> bool:
    """Whether the versions of all ops in a domain equal the version of the opset that the graph imports."""
    version = graph.opsets.get(domain)
    ops = (op for g in graph.with_subgraphs() for op in g.ops() if op.domain == domain)
    return version is not None and all(op.version == version for op in ops)


class ModelInterface(Struct, frozen=True):
    """Inputs, outputs, defaults, doc strings, metadata and annotations of a model as loaded.

    Ops are not included, because each stores the bytes from which it was loaded. Ops of the file are checked, but not
    ops made by rewrites. Subgraphs are checked as long as they exist; names inside them may change.
    """

    header: bytes  # without the opset imports, which may grow
    opset_imports: Mapping[str, int]
    graphs: WeakKeyDictionary[Graph, RecordedGraph]

    @classmethod
    def of(cls, model: Model) -> ModelInterface:
        """Record the interface of `model`, which has just been loaded. O(graphs, inputs, outputs and value infos)."""
        header = copy_without(model.header, "opset_import").SerializeToString(deterministic=True)
        graphs = WeakKeyDictionary((g, RecordedGraph.of(g)) for g in model.graph.with_subgraphs())
        return cls(header, opset_versions(model.header), graphs)

    def require(self, model: Model) -> None:
        """Raise InterfaceError, naming the first change, unless `model` still has this interface. O(ops).

        `model` must be the object whose interface was recorded, not another load of the same file.
        """
        self._require_opsets(model)
        before, after = onnx.ModelProto.FromString(self.header), copy_without(model.header, "opset_import")
        require_same_fields(before, after, "the model")
        if model.graph not in self.graphs:
            raise InterfaceError("the graph of the model was replaced")
        for g in model.graph.with_subgraphs():
            if g in self.graphs:
                self.graphs[g].require(g)
            for op in g.ops():
                if op.loaded_proto_bytes is not None:
                    require_same_annotations(op)

    def _require_opsets(self, model: Model) -> None:
        """Raise InterfaceError unless each opset is unchanged, or all ops of its domain were converted to another."""
        for now in (opset_versions(model.header), model.graph.opsets):
            for domain, version in self.opset_imports.items():
                if now.get(domain) == version or (now is model.graph.opsets and _all_converted(model.graph, domain)):
                    continue
                found = f"opset {now[domain]}" if domain in now else "none"
                name = domain or "ai.onnx"
                raise InterfaceError(f"the model imported opset {version} of {name}, but now {found}")
