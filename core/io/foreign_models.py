"""Exchange of models with other tools: placeholders for unchanged large weights, and merging of a returned model.

When merging, unchanged ops of the graph are kept, and new ops are added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from ..errors import FailureKind, GraphError, InterfaceError, ModelError, PassFailed
from ..inference import forget_inferred_types
from ..ir.expressions import contradict
from ..ir.graph import Graph, force_remove
from ..ir.op import Op, inherit_name, set_origin
from ..ir.op_schemas import since_versions
from ..ir.tensor import SMALL_TENSOR_BYTES, Tensor, digest, tensors_equal
from ..ir.values import Value, declared_shape
from ..serialization.exporter import node_bytes
from ..serialization.importer import Importer
from ..serialization.node_attributes import NodeKey, node_key
from ..serialization.proto_queries import opset_versions, undefined_operators, used_domains
from ..support.suggestions import did_you_mean
from .convert import from_onnx
from .graph_interface import (
    Default,
    default_values,
    info_names,
    input_infos,
    output_infos,
    require_same_defaults,
    require_same_names,
    type_text,
)
from .model import Model, split

UNCHANGED_LOCATION = "passwright:as-sent"  # the location of the external data of a placeholder


def main_graph_model(graph: Graph) -> Model:
    """The main graph, and the local functions that it calls, as a model."""
    shared = graph.context
    imports = [helper.make_opsetid(domain, version) for domain, version in shared.opsets.items()]
    return Model(onnx.ModelProto(ir_version=shared.ir_version, opset_import=imports, functions=shared.functions), graph)


def proto_without_weights(graph: Graph) -> onnx.ModelProto:
    """The main graph as a message, with placeholders for large weights and without local functions.

    Raises GraphError if the graph cannot be written.
    """
    whole = split(main_graph_model(graph))
    whole.message.ClearField("functions")
    for tensor in whole.message.graph.initializer:
        if tensor.name in whole.tensors:
            tensor.CopyFrom(make_placeholder(tensor))
    return whole.message


def make_placeholder(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """A placeholder for an initializer with that name, type and shape, whose elements did not change."""
    proto = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    proto.data_location = onnx.TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=UNCHANGED_LOCATION)
    return proto


def is_placeholder(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor is a placeholder for unchanged elements."""
    return any(e.key == "location" and e.value == UNCHANGED_LOCATION for e in tensor.external_data)


def replace_unchanged_weights(model: onnx.ModelProto, sent: Mapping[str, bytes]) -> onnx.ModelProto:
    """`model` with placeholders for the large initializers whose digests were `sent`."""
    found = large_tensor_digests(model)
    for tensor in model.graph.initializer:
        if tensor.name in found and found[tensor.name] == sent.get(tensor.name):
            tensor.CopyFrom(make_placeholder(tensor))
    return model


def large_tensor_digests(model: onnx.ModelProto) -> dict[str, bytes]:
    """Digests of type, shape and elements of the large initializers, by name."""
    tensors = map(Tensor.from_proto, model.graph.initializer)
    return {t.name: digest(t) for t in tensors if t.nbytes > SMALL_TENSOR_BYTES and not t.is_external}


@dataclass(slots=True)
class ForeignMerge:
    """The changes that turn a graph into a returned model.

    `matched_ops`: the kept ops, by node index in the model. `matched_names`: the names in the graph of existing values,
    by name in the model; `matched_constants`: those that have equal contents. `removed_ops`: ops without a node in the
    model.
    """

    graph: Graph
    model: onnx.ModelProto
    values_by_name: dict[str, Value]
    matched_names: dict[str, str] = field(default_factory=dict[str, str])
    matched_constants: set[str] = field(default_factory=set[str])
    matched_ops: dict[int, Op] = field(default_factory=dict[int, Op])
    removed_ops: list[Op] = field(default_factory=list[Op])

    @property
    def is_no_op(self) -> bool:
        """Whether the graph would not change."""
        proto = self.model.graph
        if self.removed_ops or len(self.matched_ops) < len(proto.node):
            return False
        if not self.matched_constants.issuperset(t.name for t in proto.initializer):
            return False
        return self.matched_constants == {
            v.name for v in (*self.graph.initializers, *self.graph.input_defaults, *self.graph.sparse_initializers)
        }

    def apply(self, by: str) -> None:
        """Apply the changes; `by` is recorded as the author of new ops."""
        graph, shared = self.graph, self.graph.context
        read = dict.fromkeys(v for op in self.removed_ops for v in (*op.inputs, *op.captures) if v is not None)
        for op in self.removed_ops:
            force_remove(op)
        for constants in (graph.initializers, graph.sparse_initializers):
            for v in [v for v in constants if v.name not in self.matched_constants]:
                del constants[v]
        here = self._resolve_values()
        for t in self.model.graph.initializer:
            if t.name not in self.matched_constants:
                value = here[t.name]
                value.reset()
                value.set_constant(Tensor.from_proto(t))
                graph.initializers[value] = None
        imports = opset_versions(self.model)
        for domain in used_domains(self.model.graph):
            shared.opsets.setdefault(domain, imports.get(domain, 1))
        makers = {v.name: op for op in self.removed_ops for v in op.outputs if v.name}
        self._name_nodes(makers)
        made = self._add_new_ops(Importer(shared), here)
        shared.reserved_names = None  # collected again for the next fresh name
        self._record_origins(made, makers, by)
        declared = self._values_still_declared(made)
        values = graph.declared.value_infos  # declared values keep their types in the file
        values[:] = [(v if v is None or v in declared else Value(v.name), info) for v, info in values]
        forget_inferred_types(graph)
        for v in read:
            if v.producer is not None:
                graph.prune((v.producer,))
            elif not v.consumers:
                graph.drop_initializer(v)

    def _resolve_values(self) -> dict[str, Value]:
        """The value for each name in the model: an existing one, or a new one with an unused name."""
        proto = self.model.graph
        found = {new: self.values_by_name[old] for new, old in self.matched_names.items()}
        kept = (v for op in self.matched_ops.values() for v in op.outputs)
        taken = {v.name for v in (*found.values(), *kept) if v.name}
        for name in (*(t.name for t in proto.initializer), *(o for node in proto.node for o in node.output)):
            if name and name not in found:
                found[name] = Value(name if name not in taken else self.graph.fresh_name(name))
                taken.add(found[name].name)
        return found

    def _add_new_ops(self, importer: Importer, here: dict[str, Value]) -> dict[Op, onnx.NodeProto]:
        """Add the new ops, and order all ops as in the model."""
        made: dict[Op, onnx.NodeProto] = {}
        for position, node in enumerate(self.model.graph.node):
            op = self.matched_ops.get(position)
            if op is None:
                for o in filter(None, node.output):
                    here[o].reset()
                op = importer.add_node(self.graph, node, position, here.__getitem__)
                op.loaded_proto_bytes = None
                made[op] = node
            op.order_key = position
        return made

    def _name_nodes(self, makers: Mapping[str, Op]) -> None:
        """Name new ops after the ops that they replace; node names are unique, as onnxruntime requires.

        A tool may have copied a node that is kept.
        """
        taken = {op.name for op in self.matched_ops.values()}
        for node in (node for i, node in enumerate(self.model.graph.node) if i not in self.matched_ops):
            maker = next((makers[o] for o in node.output if o in makers), None)
            if not node.name and maker is not None and maker.name not in taken:
                node.name = maker.name
            stem = node.name
            while node.name and node.name in taken:
                node.name = self.graph.fresh_name(stem)
            taken.add(node.name)

    def _record_origins(self, made: dict[Op, onnx.NodeProto], makers: Mapping[str, Op], by: str) -> None:
        """Record the removed ops that had the name of a new op, or produced one of its values, as its sources."""
        named = {op.name: op for op in self.removed_ops if op.name}
        for op, node in made.items():
            found = (named.get(node.name), *(makers.get(o) for o in node.output))
            sources = tuple(dict.fromkeys(o for o in found if o is not None))
            set_origin((op,), by, sources)
            if sources and not node.doc_string and not node.metadata_props and node.name == sources[0].name:
                inherit_name(op, sources[0])

    def _values_still_declared(self, made: dict[Op, onnx.NodeProto]) -> set[Value]:
        """The outputs of new ops that the model and the file declare equally."""
        stated = {info.name: info.type for info in self.model.graph.value_info}
        fresh = {v for op in made for v in op.outputs}
        return {
            v
            for v, info in self.graph.declared.value_infos
            if v is not None and (v not in fresh or stated.get(v.name) == onnx.ValueInfoProto.FromString(info).type)
        }


def plan_merge(
    name: str, graph: Graph, returned: bytes | onnx.ModelProto, domains: tuple[str, ...] | None
) -> ForeignMerge:
    """Like `plan_foreign_merge`, for the result of pass `name`. Raises PassFailed if it cannot be merged."""
    try:
        model = onnx.ModelProto.FromString(returned) if isinstance(returned, bytes) else returned
        return plan_foreign_merge(graph, model, domains)
    except InterfaceError as e:
        raise PassFailed(name, FailureKind.INTERFACE, f"{name}: {e}") from e
    except (ModelError, GraphError, DecodeError) as e:
        raise PassFailed(name, FailureKind.RAISED, f"{name}: its result is not a model: {e}") from e


def plan_foreign_merge(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None = ()) -> ForeignMerge:
    """Compute the changes from `graph` to `model` without applying them; `domains` may be added (None: any).

    Raises InterfaceError for a model with other inputs, outputs, defaults or opsets, and ModelError for an invalid
    graph or external weights. O(V + E).
    """
    require_same_interface(graph, model, domains)
    _require_valid(graph, model)
    outputs = {v.name: v for op in graph.ops() for v in op.outputs if v.name}
    constants = {v.name: v for v in (*graph.inputs, *graph.initializers, *graph.sparse_initializers)}
    found = ForeignMerge(graph, model, outputs | constants)
    _match_constants(found)
    _match_ops(found)
    return found


def _require_valid(graph: Graph, model: onnx.ModelProto) -> None:
    from_onnx(model)  # rejects cycles, and undefined or duplicate names
    known = {v.name: v.tensor or graph.input_defaults.get(v) for v in (*graph.initializers, *graph.input_defaults)}
    for t in model.graph.initializer:
        if is_placeholder(t) and known.get(t.name) is None:
            raise ModelError(f"{t.name} has no elements")
        if t.data_location == onnx.TensorProto.EXTERNAL and not is_placeholder(t):
            raise ModelError(f"{t.name} has its elements in another file")
    known_sparse = {v.name for v in graph.sparse_initializers}
    for name in _sparse_names(model.graph):
        if name not in known_sparse:
            raise ModelError(f"{name} is a new sparse initializer")


def _match_constants(merge: ForeignMerge) -> None:
    """Match inputs and outputs by name, and constants by content."""
    graph = merge.graph
    merge.matched_names.update((v.name, v.name) for v in (*graph.inputs, *graph.sparse_initializers, *graph.outputs))
    merge.matched_constants.update((v.name for v in graph.input_defaults), _sparse_names(merge.model.graph))
    for t in merge.model.graph.initializer:
        value = merge.values_by_name.get(t.name)
        if value is None or value not in graph.initializers or value.tensor is None:
            continue
        if is_placeholder(t) or tensors_equal(value.tensor, Tensor.from_proto(t)):
            merge.matched_names[t.name] = t.name
            merge.matched_constants.add(t.name)


def _match_ops(merge: ForeignMerge) -> None:
    """Match ops with nodes, in order. A new node takes over an op's values that have the same names."""
    graph, names = merge.graph, merge.matched_names
    kept_names = frozenset(v.name for v in (*graph.outputs, *graph.pinned))
    waiting: dict[NodeKey, deque[Op]] = {}
    for op in graph.sorted_ops():
        node = onnx.NodeProto.FromString(node_bytes(op))
        waiting.setdefault(node_key(node, str, graph.opsets, kept_names), deque()).append(op)
    settled: set[Op] = set()
    _claim_names(merge, settled, [t.name for t in merge.model.graph.initializer])
    for i, node in enumerate(merge.model.graph.node):
        key = node_key(node, lambda name: names.get(name, f"\0{name}"), graph.opsets, kept_names)
        same = waiting.get(key, deque[Op]())
        while same and same[0] in settled:
            same.popleft()
        if same:
            merge.matched_ops[i] = op = same.popleft()
            settled.add(op)
            names.update((o, v.name) for o, v in zip(node.output, op.outputs, strict=False) if o)
        else:
            _claim_names(merge, settled, node.output)
    kept = set(merge.matched_ops.values())
    merge.removed_ops = [op for op in graph.ops() if op not in kept]


def _claim_names(merge: ForeignMerge, settled: set[Op], names: Iterable[str]) -> None:
    """Match `names` with the values of an op that have these names, unless they are already matched."""
    makers = {
        n: merge.values_by_name[n].producer for n in names if n in merge.values_by_name and n not in merge.matched_names
    }
    taken = {n: maker for n, maker in makers.items() if maker is not None and maker not in settled}
    merge.matched_names.update((n, n) for n in taken)
    settled.update(taken.values())


def _sparse_names(proto: onnx.GraphProto) -> Iterator[str]:
    return (t.values.name for t in proto.sparse_initializer)


def require_same_interface(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None) -> None:
    """Raise InterfaceError unless `model` has the inputs, outputs, defaults and opsets of `graph`.

    It may use further `domains` (None: any). Symbols of dims may differ, because the declarations of `graph` are
    written.
    """
    held = {t.name: t for t in model.graph.initializer}
    inputs = input_infos(graph)
    listed = set(info_names(inputs))
    old_style = graph.context.initializers_are_inputs
    given = [i for i in model.graph.input if not (old_style and i.name in held and i.name not in listed)]
    _require_same_values("input", inputs, given)
    _require_same_values("output", output_infos(graph), model.graph.output)
    sparse = {t.values.name: t for t in model.graph.sparse_initializer}
    names = {v.name for v in graph.inputs if not (old_style and v in graph.sparse_initializers)}
    defaults = {name: t for name, t in {**held, **sparse}.items() if name in names}

    def is_same(before: Default, after: onnx.TensorProto | onnx.SparseTensorProto) -> bool:  # sparse ones never change
        if not isinstance(before, Tensor) or not isinstance(after, onnx.TensorProto):
            return True
        return is_placeholder(after) or tensors_equal(before, Tensor.from_proto(after))

    require_same_defaults(default_values(graph), defaults, is_same)
    _require_opsets(graph, model, domains)


def _require_same_values(what: str, before: Sequence[bytes], after: Sequence[onnx.ValueInfoProto]) -> None:
    require_same_names(what, info_names(before), [info.name for info in after])
    for info, new in zip(before, after, strict=True):
        old = onnx.ValueInfoProto.FromString(info)
        if not _types_compatible(old.type, new.type):
            raise InterfaceError(f"{what} {old.name} was {type_text(old.type)} and is {type_text(new.type)}")


def _types_compatible(a: onnx.TypeProto, b: onnx.TypeProto) -> bool:
    """Whether one value can have both types."""
    if not a.WhichOneof("value") or not b.WhichOneof("value"):
        return True
    if not (a.HasField("tensor_type") and b.HasField("tensor_type")):
        return a.WhichOneof("value") == b.WhichOneof("value")
    if a.tensor_type.elem_type != b.tensor_type.elem_type:
        return False
    mine, theirs = declared_shape(a.tensor_type), declared_shape(b.tensor_type)
    return mine is None or theirs is None or (len(mine) == len(theirs) and not contradict(mine, theirs))


def _require_opsets(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None) -> None:
    imports = opset_versions(model)
    for domain, version in graph.opsets.items():
        if imports.get(domain, version) != version:
            raise InterfaceError(f"opset {version} of {domain or 'ai.onnx'} became {imports[domain]}")
    for domain in used_domains(model.graph):
        if domain not in graph.opsets and domains is not None and domain not in domains:
            raise InterfaceError(f"it added operators of {domain}, which the model does not use")
    for domain, kind in undefined_operators(model):
        if not any(op.domain == domain for g in graph.with_subgraphs() for op in g.ops(kind)):
            version = imports.get(domain, graph.opsets.get(domain))
            where, hint = f"opset {version} of {domain or 'ai.onnx'}", did_you_mean(kind, since_versions(domain))
            raise InterfaceError(f"it added {kind}, which {where} does not have{hint}")
