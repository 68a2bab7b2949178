"""Values that an original and a rewritten model share, and those that they compute in different ways."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Hashable, Iterator, MutableMapping
from dataclasses import dataclass, field

import onnx
from msgspec import Struct
from onnx import AttributeProto, helper

from ...ir.op_schemas import canonical_domain
from ...ir.tensor import Tensor, digest, tensors_equal
from ...serialization.node_attributes import encoded_attribute
from ...serialization.proto_queries import SUBGRAPH_ATTRIBUTE_TYPES
from ..input_sets import InputSet
from ..noise import is_float
from ..verdict import OutputDifference
from .value_graph import ValueGraph, constant_tensor, sorted_nodes

MAX_DIGESTED_BYTES = 64 << 10  # bytes of a constant up to which equal constants with other names are recognized


class RegionDifference(Struct, frozen=True):
    """A cut point at which the rewritten model is wrong, and the names of everything in its region in either model."""

    cut_point: str
    input_set: InputSet
    difference: OutputDifference
    names: frozenset[str]


class SharedValues(Struct, frozen=True):
    """The `names` of the computed values of an original that also exist in the rewritten model.

    `cut_points` are those whose expression, down to the next shared values, differs, in the order of the original: a
    changed region computes each of them. Values that are `excluded` are not shared: they are inside expressions.
    """

    names: frozenset[str]
    cut_points: tuple[str, ...]
    excluded: frozenset[str] = frozenset()

    @classmethod
    def all_of(cls, model: ValueGraph, excluded: Collection[str] = ()) -> SharedValues:
        """All values of a model as cut points, at which two engines are compared op by op."""
        names = tuple(name for name in _computed(model) if name not in excluded)
        return cls(frozenset(names), names, frozenset(excluded))

    @classmethod
    def of(
        cls, original: ValueGraph, rewritten: ValueGraph, excluded: Collection[str] = (), compared: Collection[str] = ()
    ) -> SharedValues:
        """The shared values of two models; excluded ones that are `compared` are also cut points. O(V + E)."""
        computed = _computed(original)
        there = {*rewritten.producers, *rewritten.constants}
        known = [name for name in computed if name in there]
        names = frozenset(name for name in known if name not in excluded)
        keys = _Keys(names, _equal_constants(original, rewritten))
        before, after = (keys.expressions(g) for g in (original, rewritten))
        points = names.union(compared)
        cut_points = tuple(name for name in known if name in points and before[name] != after.get(name))
        return cls(names, cut_points, frozenset(excluded))

    def is_given_to(self, rewritten: ValueGraph, name: str) -> bool:
        """Whether a region reads a value of the original: kernels may require that shapes and the like are constant."""
        constant = rewritten.constants.get(name)
        is_exact = isinstance(constant, Tensor) and not is_float(helper.tensor_dtype_to_np_dtype(constant.dtype))
        return name in self.names and not is_exact


def _computed(model: ValueGraph) -> Iterator[str]:
    return (o for node in model.nodes for o in node.output if o and o not in model.constants)


def _equal_constants(a: ValueGraph, b: ValueGraph) -> frozenset[str]:
    """The names of large constants that are equal in both models."""
    tensors = ((n, x, b.constants.get(n)) for n, x in a.constants.items())
    large = ((n, x, y) for n, x, y in tensors if isinstance(x, Tensor) and x.nbytes > MAX_DIGESTED_BYTES)
    return frozenset(
        n
        for n, x, y in large
        if isinstance(y, Tensor) and ((x.mapped is not None and x.mapped == y.mapped) or tensors_equal(x, y))
    )


@dataclass(slots=True)
class _Keys:
    """Numbers of expressions; equal expressions have the same number in both models.

    `shared` values are leaves. `equal_constants` are the names of large constants that are equal in both models.
    """

    shared: frozenset[str]
    equal_constants: frozenset[str]
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _functions: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _bodies: int = -1  # the number of all local functions of the model, whose calls are equal only if all of them are

    def expressions(self, values: ValueGraph) -> dict[str, int]:
        """The number of the expression of each value in the main graph, down to shared values."""
        functions = values.model.message.functions
        self._functions = {(canonical_domain(f.domain), f.name) for f in functions}
        self._bodies = self._number("functions", *(f.SerializeToString(deterministic=True) for f in functions))
        names = {name: self._number("input", name) for name in values.inputs}
        found = dict(names)
        for name, constant in values.constants.items():
            found[name] = self._constant(name, constant)
            names[name] = self._number("shared", name) if name in self.shared else found[name]
        for node in values.nodes:
            if constant_tensor(node) is not None:
                continue
            key = self._node(node, names, 0)
            for i, output in enumerate(node.output):
                found[output] = self._number("output", key, i)
                names[output] = self._number("shared", output) if output in self.shared else found[output]
        return found

    def _number(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _node(self, node: onnx.NodeProto, names: MutableMapping[str, int], depth: int) -> int:
        inputs = tuple(names.get(i, i) if i else None for i in node.input)
        attributes = sorted((a.name, self._attribute(a, names, depth)) for a in node.attribute)
        domain = canonical_domain(node.domain)
        called = self._bodies if (domain, node.op_type) in self._functions else None
        return self._number(node.op_type, domain, node.overload, inputs, tuple(attributes), len(node.output), called)

    def _attribute(self, a: AttributeProto, names: MutableMapping[str, int], depth: int) -> int:
        if a.type in SUBGRAPH_ATTRIBUTE_TYPES:
            graphs = [a.g] if a.type == AttributeProto.GRAPH else a.graphs
            return self._number("graphs", *(self._graph(g, names, depth + 1) for g in graphs))
        if a.type == AttributeProto.TENSOR:
            return self._constant("", Tensor.from_proto(a.t))
        return self._number("attribute", encoded_attribute(a))

    def _graph(self, graph: onnx.GraphProto, outer: MutableMapping[str, int], depth: int) -> int:
        """The number of a subgraph: its outputs expressed by its inputs and by outer values."""
        names = ChainMap[str, int]({}, outer)  # a copy for each body would take quadratic time
        names.update((v.name, self._number("body input", depth, i)) for i, v in enumerate(graph.input))
        names.update((t.name, self._constant("", Tensor.from_proto(t))) for t in graph.initializer)
        sparse = graph.sparse_initializer
        names.update((s.values.name, self._number("sparse", s.SerializeToString(deterministic=True))) for s in sparse)
        for node, _ in sorted_nodes(graph.node):
            key = self._node(node, names, depth)
            names.update((o, self._number("output", key, i)) for i, o in enumerate(node.output) if o)
        outputs = tuple(names.get(o.name, o.name) for o in graph.output)
        return self._number("graph", len(graph.input), outputs)

    def _constant(self, name: str, constant: Tensor | onnx.SparseTensorProto) -> int:
        if not isinstance(constant, Tensor):
            return self._number("sparse", constant.SerializeToString(deterministic=True))
        if name in self.equal_constants:
            return self._number("constant", name)
        return self._number("constant", digest(constant))
