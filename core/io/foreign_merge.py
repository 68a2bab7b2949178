"""Beginning anew with what is known of values, where inference may have learned it of others.

Taking in what another tool made of a graph: what it left alone stays, op by op, and what it made is put in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from ..errors import ModelError
from ..ir.graph import Graph, withdraw
from ..ir.op import Op
from ..ir.origin import inherit, mark
from ..ir.tensor import Tensor
from ..ir.values import Value
from ..serialization.exporter import node_bytes
from ..serialization.importer import Importer, declare_input, typed
from .convert import from_onnx
from .interchange import is_placeholder
from .interface_check import require_same_ends, used_domains
from .node_equivalence import Key, node_key, same_elements


def infer_anew(graph: Graph, declared: Collection[Value]) -> None:
    """Forget what was inferred in `graph` and the graphs inside it; what the file says of `declared` values stays."""
    values = graph.declared.values
    values[:] = [(v if v is None or v in declared else Value(v.name), info) for v, info in values]
    for g in graph.with_subgraphs():
        for op in g.ops():
            op.inferred_at = -1
            for v in op.outputs:
                if v.tensor is None:
                    v.forget()
        if g is not graph:
            _declare_inputs(g)
        infos = [*zip(g.outputs, g.declared.outputs, strict=True), *g.declared.values]
        for v, info in infos:
            if v is not None and v.tensor is None:
                typed(v, onnx.ValueInfoProto.FromString(info).type)
    graph.shared.facts += 1
    graph.changed()


def _declare_inputs(graph: Graph) -> None:
    for v, info in graph.declared.inputs:
        if v.tensor is None:
            v.forget()
            declare_input(v, onnx.ValueInfoProto.FromString(info).type, graph.shared)


@dataclass(slots=True)
class Arrival:
    """What a model that came back would change in the graph that went out.

    `kept`: the ops that stand, by their place in the model. `names`: what its names are called in the graph, for values
    that are there already; `constants`: those whose content is there, too. `removed`: ops that nothing in the model
    stands for.
    """

    graph: Graph
    model: onnx.ModelProto
    values: dict[str, Value]
    names: dict[str, str] = field(default_factory=dict[str, str])
    constants: set[str] = field(default_factory=set[str])
    kept: dict[int, Op] = field(default_factory=dict[int, Op])
    removed: list[Op] = field(default_factory=list[Op])

    @property
    def is_same(self) -> bool:
        """Whether nothing would change."""
        proto = self.model.graph
        if self.removed or len(self.kept) < len(proto.node):
            return False
        if not self.constants.issuperset(t.name for t in proto.initializer):
            return False
        return self.constants == {v.name for v in (*self.graph.initializers, *self.graph.defaults, *self.graph.sparse)}

    def take(self, by: str) -> None:
        """Let it become the content of the graph; what is new is marked as made by the pass `by`."""
        graph, shared = self.graph, self.graph.shared
        read = dict.fromkeys(v for op in self.removed for v in (*op.inputs, *op.captures) if v is not None)
        for op in self.removed:
            withdraw(op)
        self._drop_constants()
        here = self._places()
        self._hold_constants(here)
        for domain in used_domains(self.model.graph):
            shared.opsets.setdefault(domain, {e.domain: e.version for e in self.model.opset_import}.get(domain, 1))
        self._name_nodes()
        made = self._put_in(Importer(shared), here)
        shared.names = None  # those of the model are to be known when the next one is made up
        self._mark(made, by)
        infer_anew(graph, self._still_declared(made))
        self._prune(read)

    def _prune(self, read: Iterable[Value]) -> None:
        """Remove what only the ops read that went."""
        for v in read:
            if v.producer is not None:
                self.graph.prune((v.producer,))
            elif not v.uses:
                self.graph.drop_initializer(v)

    def _drop_constants(self) -> None:
        graph = self.graph
        for v in [v for v in graph.initializers if v.name not in self.constants]:
            del graph.initializers[v]
        for v in [v for v in graph.sparse if v.name not in self.constants]:
            del graph.sparse[v]

    def _places(self) -> dict[str, Value]:
        """The value for each name of the model: one of the graph, or a new one under a name that is free there."""
        proto = self.model.graph
        found = {new: self.values[old] for new, old in self.names.items()}
        taken = {v.name for v in found.values()} | {o for op in self.kept.values() for o in _names(op)}
        for name in (*(t.name for t in proto.initializer), *(o for node in proto.node for o in node.output)):
            if name and name not in found:
                found[name] = Value(name if name not in taken else self.graph.fresh_name(name))
                taken.add(found[name].name)
        return found

    def _hold_constants(self, here: dict[str, Value]) -> None:
        for t in self.model.graph.initializer:
            if t.name not in self.constants:
                value = here[t.name]
                value.forget()
                value.hold(Tensor.from_proto(t))
                self.graph.initializers[value] = None

    def _put_in(self, importer: Importer, here: dict[str, Value]) -> dict[Op, onnx.NodeProto]:
        """Add the ops that are new, and give all of them the order of the model."""
        for value in (here[o] for node in self._fresh() for o in node.output if o):
            value.forget()
        made: dict[Op, onnx.NodeProto] = {}
        for position, node in enumerate(self.model.graph.node):
            op = self.kept.get(position)
            if op is None:
                op = importer.add_node(self.graph, node, position, here.__getitem__)
                op.loaded = None
                made[op] = node
            op.key = position
        return made

    def _name_nodes(self) -> None:
        """Let what is new be called as what it stands for, and no two nodes the same: onnxruntime takes no such model.

        A tool may have copied a node that stands.
        """
        makers = {name: op for op in self.removed for name in _names(op)}
        taken = {op.name for op in self.kept.values()}
        for node in self._fresh():
            maker = next((makers[o] for o in node.output if o in makers), None)
            if not node.name and maker is not None and maker.name not in taken:
                node.name = maker.name
            stem = node.name
            while node.name and node.name in taken:
                node.name = self.graph.fresh_name(stem)
            taken.add(node.name)

    def _fresh(self) -> list[onnx.NodeProto]:
        """The nodes that no op of the graph stands for."""
        return [node for i, node in enumerate(self.model.graph.node) if i not in self.kept]

    def _mark(self, made: dict[Op, onnx.NodeProto], by: str) -> None:
        """Note for each new op which of those that went had its name or made one of its values."""
        named = {op.name: op for op in self.removed if op.name}
        makers = {name: op for op in self.removed for name in _names(op)}
        for op, node in made.items():
            found = (named.get(node.name), *(makers.get(o) for o in node.output))
            sources = tuple(dict.fromkeys(o for o in found if o is not None))
            mark((op,), by, sources)
            if sources and not node.doc_string and not node.metadata_props and node.name == sources[0].name:
                inherit(op, sources[0])

    def _still_declared(self, made: dict[Op, onnx.NodeProto]) -> set[Value]:
        """The values of new ops that the model declares as the file does."""
        stated = {info.name: info.type for info in self.model.graph.value_info}
        fresh = {v for op in made for v in op.outputs}
        return {
            v
            for v, info in self.graph.declared.values
            if v is not None and (v not in fresh or stated.get(v.name) == onnx.ValueInfoProto.FromString(info).type)
        }


def arrival(graph: Graph, model: onnx.ModelProto, domains: Sequence[str] | None = ()) -> Arrival:
    """What `model` would change in `graph`, which is not touched. `domains` are those it may bring in; None: any.

    Raises InterfaceError for a model with other inputs, outputs, defaults or opsets, and ModelError for one that is no
    graph or has weights in other files. O(V + E).
    """
    require_same_ends(graph, model, domains)
    _require_sound(graph, model)
    outputs = {v.name: v for op in graph.ops() for v in op.outputs if v.name}
    constants = {v.name: v for v in (*graph.inputs, *graph.initializers, *graph.sparse)}
    found = Arrival(graph, model, outputs | constants)
    _match_constants(found)
    _match_ops(found)
    return found


def _require_sound(graph: Graph, model: onnx.ModelProto) -> None:
    from_onnx(model)  # refuses cycles, and names that are missing or defined twice
    known = {v.name: v.tensor or graph.defaults.get(v) for v in (*graph.initializers, *graph.defaults)}
    for t in model.graph.initializer:
        if is_placeholder(t) and known.get(t.name) is None:
            raise ModelError(f"{t.name} has no elements")
        if t.data_location == onnx.TensorProto.EXTERNAL and not is_placeholder(t):
            raise ModelError(f"{t.name} has its elements in another file")
    known_sparse = {v.name for v in graph.sparse}
    for name in _sparse(model.graph):
        if name not in known_sparse:
            raise ModelError(f"{name} is sparse, and was not there")


def _match_constants(found: Arrival) -> None:
    """Inputs and outputs, which keep their values whatever makes them, and what has the content that it had."""
    graph = found.graph
    found.names.update((v.name, v.name) for v in (*graph.inputs, *graph.sparse, *graph.outputs))
    found.constants.update((v.name for v in graph.defaults), _sparse(found.model.graph))
    for t in found.model.graph.initializer:
        value = found.values.get(t.name)
        if value is None or value not in graph.initializers or value.tensor is None:
            continue
        if is_placeholder(t) or same_elements(value.tensor, Tensor.from_proto(t)):
            found.names[t.name] = t.name
            found.constants.add(t.name)


def _match_ops(found: Arrival) -> None:
    """Find the op for each node, in order. What is new takes over the values whose names it bears from their op."""
    graph, names = found.graph, found.names
    kept_names = frozenset(v.name for v in (*graph.outputs, *graph.pinned))
    waiting: dict[Key, deque[Op]] = {}
    for op in graph.sorted_ops():
        node = onnx.NodeProto.FromString(node_bytes(op))
        waiting.setdefault(node_key(node, str, graph.opsets, kept_names), deque()).append(op)
    settled: set[Op] = set()
    _claim(found, settled, [t.name for t in found.model.graph.initializer])
    for i, node in enumerate(found.model.graph.node):
        key = node_key(node, lambda name: names.get(name, f"\0{name}"), graph.opsets, kept_names)
        same = waiting.get(key, deque[Op]())
        while same and same[0] in settled:
            same.popleft()
        if same:
            found.kept[i] = op = same.popleft()
            settled.add(op)
            names.update((o, v.name) for o, v in zip(node.output, op.outputs, strict=False) if o)
        else:
            _claim(found, settled, node.output)
    standing = set(found.kept.values())
    found.removed = [op for op in graph.ops() if op not in standing]


def _claim(found: Arrival, settled: set[Op], names: Iterable[str]) -> None:
    """Let what bears these names take over the values that an op has under them, if that is not settled already."""
    makers = {n: found.values[n].producer for n in names if n in found.values and n not in found.names}
    taken = {n: maker for n, maker in makers.items() if maker is not None and maker not in settled}
    found.names.update((n, n) for n in taken)
    settled.update(taken.values())


def _names(op: Op) -> Iterator[str]:
    return (v.name for v in op.outputs if v.name)


def _sparse(proto: onnx.GraphProto) -> Iterator[str]:
    return (t.values.name for t in proto.sparse_initializer)
