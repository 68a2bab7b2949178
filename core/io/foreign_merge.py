"""Merging of a model that another tool returned into the graph: unchanged ops stay, new ops are added."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from ..errors import ModelError
from ..inference.type_inference import forget_inferred_types
from ..ir.graph import Graph, force_remove
from ..ir.op import Op, inherit_name, set_origin
from ..ir.tensor import Tensor, tensors_equal
from ..ir.values import Value
from ..serialization.exporter import node_bytes
from ..serialization.importer import Importer
from ..serialization.node_attributes import NodeKey, node_key
from ..serialization.proto_queries import opset_versions, used_domains
from .convert import from_onnx
from .graph_interface import require_same_interface
from .interchange import is_placeholder


def reset_inference(graph: Graph, declared: Collection[Value]) -> None:
    """Remove inferred types in `graph` and the graphs inside it; those that the file declares for `declared` stay."""
    values = graph.declared.value_infos
    values[:] = [(v if v is None or v in declared else Value(v.name), info) for v, info in values]
    forget_inferred_types(graph)


@dataclass(slots=True)
class ForeignMerge:
    """The changes to a graph that a returned model makes.

    `matched_ops`: the ops that stay, by node index in the model. `matched_names`: the names in the graph of values
    that exist already, by name in the model; `matched_constants`: those with equal content too. `removed_ops`: ops
    without a node in the model.
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
        """Change the graph into the model; `by` is recorded as the author of new ops."""
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
        shared.reserved_names = None  # to be collected again for the next fresh name
        self._record_origins(made, makers, by)
        reset_inference(graph, self._values_still_declared(made))
        for v in read:
            if v.producer is not None:
                graph.prune((v.producer,))
            elif not v.consumers:
                graph.drop_initializer(v)

    def _resolve_values(self) -> dict[str, Value]:
        """The value for each name of the model: one of the graph, or a new one under an unused name."""
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
        """Name new ops after the ops that they replace, with unique node names, as onnxruntime requires.

        A tool may have copied a node that stays.
        """
        taken = {op.name for op in self.matched_ops.values()}
        for node in self._new_nodes():
            maker = next((makers[o] for o in node.output if o in makers), None)
            if not node.name and maker is not None and maker.name not in taken:
                node.name = maker.name
            stem = node.name
            while node.name and node.name in taken:
                node.name = self.graph.fresh_name(stem)
            taken.add(node.name)

    def _new_nodes(self) -> list[onnx.NodeProto]:
        """The nodes without a matched op in the graph."""
        return [node for i, node in enumerate(self.model.graph.node) if i not in self.matched_ops]

    def _record_origins(self, made: dict[Op, onnx.NodeProto], makers: Mapping[str, Op], by: str) -> None:
        """Record as sources of each new op the removed ops that had its name or produced one of its values."""
        named = {op.name: op for op in self.removed_ops if op.name}
        for op, node in made.items():
            found = (named.get(node.name), *(makers.get(o) for o in node.output))
            sources = tuple(dict.fromkeys(o for o in found if o is not None))
            set_origin((op,), by, sources)
            if sources and not node.doc_string and not node.metadata_props and node.name == sources[0].name:
                inherit_name(op, sources[0])

    def _values_still_declared(self, made: dict[Op, onnx.NodeProto]) -> set[Value]:
        """The outputs of new ops whose declaration in the model is that of the file."""
        stated = {info.name: info.type for info in self.model.graph.value_info}
        fresh = {v for op in made for v in op.outputs}
        return {
            v
            for v, info in self.graph.declared.value_infos
            if v is not None and (v not in fresh or stated.get(v.name) == onnx.ValueInfoProto.FromString(info).type)
        }


def plan_foreign_merge(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None = ()) -> ForeignMerge:
    """Compute the changes that `model` makes to `graph`, without applying them; it may add `domains` (None: any).

    Raises InterfaceError for a model with other inputs, outputs, defaults or opsets, and ModelError for an invalid
    graph or weights in other files. O(V + E).
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
    from_onnx(model)  # refuses cycles, and names that are missing or defined twice
    known = {v.name: v.tensor or graph.input_defaults.get(v) for v in (*graph.initializers, *graph.input_defaults)}
    for t in model.graph.initializer:
        if is_placeholder(t) and known.get(t.name) is None:
            raise ModelError(f"{t.name} has no elements")
        if t.data_location == onnx.TensorProto.EXTERNAL and not is_placeholder(t):
            raise ModelError(f"{t.name} has its elements in another file")
    known_sparse = {v.name for v in graph.sparse_initializers}
    for name in _sparse_names(model.graph):
        if name not in known_sparse:
            raise ModelError(f"{name} is sparse, and was not there")


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
    """Match ops and nodes, in order. A new node takes over the values of the same names from their op."""
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
    """Match `names` to the values of an op with the same names, unless they are matched already."""
    makers = {
        n: merge.values_by_name[n].producer for n in names if n in merge.values_by_name and n not in merge.matched_names
    }
    taken = {n: maker for n, maker in makers.items() if maker is not None and maker not in settled}
    merge.matched_names.update((n, n) for n in taken)
    settled.update(taken.values())


def _sparse_names(proto: onnx.GraphProto) -> Iterator[str]:
    return (t.values.name for t in proto.sparse_initializer)
