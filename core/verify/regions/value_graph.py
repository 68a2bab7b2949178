"""The values of a model's main graph: producers, constants, and the names that each node reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import onnx
from msgspec import Struct

from ...io.split_models import SplitModel
from ...ir.op_schemas import canonical_domain
from ...ir.tensor import Tensor
from ...processes.onnx_calls import infer_shapes
from ...serialization.proto_queries import all_nodes, read_names

Constant = Tensor | onnx.SparseTensorProto
_FunctionKey = tuple[str, str, str]
"""Domain, name and overload of a local function."""


class ValueGraph(Struct, frozen=True, dict=True):
    """An index of the main graph of `model`: `nodes` in topological order, and by value its producer and position.

    `constants` has the initializers and the outputs of Constant nodes with a tensor. `inputs` are those that a caller
    must give. No method raises KeyError: a name without definition is treated as one that is only read.
    """

    model: SplitModel
    nodes: tuple[onnx.NodeProto, ...]
    reads: tuple[tuple[str, ...], ...]
    producers: Mapping[str, tuple[int, int]]
    constants: Mapping[str, Constant]
    inputs: Mapping[str, onnx.ValueInfoProto]

    @classmethod
    def of(cls, model: SplitModel) -> ValueGraph:
        """Index `model`. O(V + E), subgraphs included."""
        graph = model.message.graph
        constants: dict[str, Constant] = {
            t.name: model.tensors.get(t.name) or Tensor.from_proto(t) for t in graph.initializer
        }
        constants.update((s.values.name, s) for s in graph.sparse_initializer)
        pairs = sorted_nodes(graph.node)
        nodes = tuple(node for node, _ in pairs)
        producers = {o: (n, i) for n, node in enumerate(nodes) for i, o in enumerate(node.output) if o}
        constants.update((node.output[0], t) for node in nodes if (t := constant_tensor(node)) is not None)
        inputs = {i.name: i for i in graph.input if i.name not in constants}
        return cls(model, nodes, tuple(reads for _, reads in pairs), producers, constants, inputs)

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The names of the graph's outputs."""
        return frozenset(o.name for o in self.model.message.graph.output)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto | onnx.SparseTensorProto]:
        """The messages of the initializers, by name."""
        graph = self.model.message.graph
        sparse = ((s.values.name, s) for s in graph.sparse_initializer)
        return {**{t.name: t for t in graph.initializer}, **dict(sparse)}

    @cached_property
    def _functions(self) -> Mapping[_FunctionKey, tuple[int, onnx.FunctionProto]]:
        functions = self.model.message.functions
        return {(canonical_domain(f.domain), f.name, f.overload): (i, f) for i, f in enumerate(functions)}

    @cached_property
    def types(self) -> Mapping[str, onnx.TypeProto]:
        """The types of values in the main graph as far as onnx infers them."""
        inferred = infer_shapes(self.model.message).graph
        return {v.name: v.type for v in (*inferred.value_info, *inferred.output)}

    def part(self, nodes: Iterable[int], constants: Sequence[str]) -> SplitModel:
        """A model with the initializers and functions that some nodes use, for a graph of these nodes."""
        whole, tensors = self.model.message, self.model.tensors
        message = onnx.ModelProto(ir_version=whole.ir_version)
        message.opset_import.extend(whole.opset_import)
        message.functions.extend(self.called_functions(nodes))
        for proto in (self.initializers[name] for name in constants):
            if isinstance(proto, onnx.SparseTensorProto):
                message.graph.sparse_initializer.append(proto)
            else:
                message.graph.initializer.append(proto)
        return SplitModel(message, {name: tensors[name] for name in constants if name in tensors})

    def called_functions(self, nodes: Iterable[int]) -> list[onnx.FunctionProto]:
        """The local functions that some of the nodes call, directly or not, in their order. O(size of the result)."""
        if not self._functions:
            return []
        found = dict[_FunctionKey, int]()
        work = [key for n in nodes for key in self._calls((self.nodes[n],))]
        while work:
            if (key := work.pop()) not in found:
                at, function = self._functions[key]
                found[key] = at
                work += self._calls(function.node)
        return [self.model.message.functions[at] for at in sorted(found.values())]

    def _calls(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[_FunctionKey]:
        keys = ((canonical_domain(node.domain), node.op_type, node.overload) for node in all_nodes(nodes))
        return (key for key in keys if key in self._functions)

    def ancestors(self, names: Iterable[str], is_boundary: Callable[[str], bool]) -> tuple[list[int], list[str]]:
        """The nodes that compute `names` from boundary values, in order, and everything that they read from outside.

        A boundary value among `names` is computed nevertheless. O(size of the result).
        """
        work = [name for name in dict.fromkeys(names) if name in self.producers]
        found = dict.fromkeys(self.producers[name][0] for name in work)
        outside: dict[str, None] = {}
        queue = deque(found)
        while queue:
            for name in self.reads[queue.popleft()]:
                made = self.producers.get(name)
                if made is None or is_boundary(name):
                    outside[name] = None
                elif made[0] not in found:
                    found[made[0]] = None
                    queue.append(made[0])
        return sorted(found), list(outside)


def constant_tensor(node: onnx.NodeProto) -> Constant | None:
    """The tensor of a Constant node; None for another node or attribute."""
    if node.op_type != "Constant" or canonical_domain(node.domain):
        return None
    for a in node.attribute:
        if a.name == "value":
            return Tensor.from_proto(a.t)
        if a.name == "sparse_value":
            return a.sparse_tensor
    return None


def sorted_nodes(nodes: Sequence[onnx.NodeProto]) -> list[tuple[onnx.NodeProto, tuple[str, ...]]]:
    """The nodes in topological order, because exporters do not always sort them, with the names that they read.

    Nodes in a cycle, which no loadable model has, are omitted. O(V + E).
    """
    reads = [tuple(dict.fromkeys(read_names(node))) for node in nodes]
    producer = {o: n for n, node in enumerate(nodes) for o in node.output if o}
    if all(producer.get(name, -1) < n for n, names in enumerate(reads) for name in names):
        return list(zip(nodes, reads, strict=True))
    sorter = TopologicalSorter[int](dict.fromkeys(range(len(nodes)), ()))
    for n, names in enumerate(reads):
        sorter.add(n, *(producer[name] for name in names if name in producer))
    with suppress(CycleError):
        sorter.prepare()
    order: list[int] = []
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    return [(nodes[n], reads[n]) for n in order]
