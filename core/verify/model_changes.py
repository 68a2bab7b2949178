"""The changed parts of two models, and what they suggest for inputs: constants that differ, extents, comparisons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import AttributeProto

from ..ir.op_schemas import canonical_domain
from ..ir.tensor import Tensor
from ..operators.declaration import Trait
from ..operators.table import OPERATORS, READS_SHAPE, ops_with
from ..serialization.proto_queries import all_nodes
from .decision_boundaries import VOCABULARY_PREFIXES
from .model_constants import MAX_SIZE, NO_CONSTANTS, ModelConstants, attribute_elements, constants_of_nodes
from .regions.shared_values import SharedValues
from .regions.value_graph import ValueGraph

MAX_PLACES = 8  # of elements or rows that differ in two constants; of more rows, only the first and the last are used
MAX_COMPARED_BYTES = 64 << 20  # of a constant
SAMPLED_ELEMENTS, MOST = 1024, 0.9  # of two constants, and the share above which most elements differ
MAX_GUARDS = 8  # conditions
CONDITIONAL_OPS = frozenset({"If", "Where"})
LISTS = frozenset({AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS, AttributeProto.TENSOR})
SIZE_BLIND_TRAITS = (
    Trait.ELEMENTWISE | Trait.BROADCASTING | Trait.REDUCTION | Trait.NORMALIZATION | Trait.PERMUTES | Trait.COMPARISON
)
SIZE_BLIND_OPS = frozenset(
    {"BatchNormalization", "Cast", "Constant", "Gather", "Gemm", "MatMul", "Softmax", "LogSoftmax", "Reshape", "Conv"}
)
COMPARISONS = ops_with(Trait.COMPARISON)
AUTOMATIC_PADS = frozenset({b"SAME_UPPER", b"SAME_LOWER"})


class InputHints(Struct, frozen=True):
    """What inputs that may show a change depend on: `constants` that differ, and `tables` by their numbers of rows.

    `extents`: the change may depend on extents. `vocabularies`: an op that compares with a list of numbers differs.
    `comparisons` are serialized nodes.
    """

    constants: ModelConstants = NO_CONSTANTS
    tables: frozenset[int] = frozenset()
    extents: bool = False
    vocabularies: bool = False
    comparisons: frozenset[bytes] = frozenset()

    def without(self, other: InputHints) -> InputHints:
        """The hints that `other` does not have."""
        return InputHints(
            self.constants.without(other.constants),
            self.tables - other.tables,
            self.extents and not other.extents,
            self.vocabularies and not other.vocabularies,
            self.comparisons - other.comparisons,
        )

    def with_others(self, other: InputHints) -> InputHints:
        """The hints of both."""
        return InputHints(
            self.constants.with_others(other.constants),
            self.tables | other.tables,
            self.extents or other.extents,
            self.vocabularies or other.vocabularies,
            self.comparisons | other.comparisons,
        )


NO_HINTS = InputHints()


class ChangedPart(Struct, frozen=True):
    """The nodes of one model that compute a value differently from the other model, and the constants they read.

    `guards` are the conditions that decide whether such a value matters.
    """

    graph: ValueGraph
    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Tensor]
    guards: Sequence[str] = ()

    @classmethod
    def of(cls, graph: ValueGraph, cut_points: Sequence[str], is_given: Callable[[str], bool]) -> ChangedPart:
        """The part between given values and the cut points. O(V + E)."""
        kept, outside = graph.ancestors(cut_points, is_given)
        names = dict.fromkeys((*cut_points, *outside, *(o for n in kept for o in graph.nodes[n].output)))
        tensors = ((n, graph.constants[n]) for n in names if n in graph.constants)
        constants = {n: t for n, t in tensors if isinstance(t, Tensor)}
        return cls(graph, [graph.nodes[n] for n in kept], constants, _guards(graph, kept))

    @property
    def depends_on_extents(self) -> bool:
        """Whether an op may behave differently at other extents, or reads numbers computed from extents."""
        if any(map(_depends_on_extents, all_nodes(self.nodes))):
            return True
        from_extents = _values_from_extents(self.graph)
        return any(name in from_extents for node in self.nodes for name in node.input)

    def comparisons(self) -> list[onnx.NodeProto]:
        """The comparisons of numbers that depend on elements of inputs; those that guard the part come last."""
        before, _ = self.graph.ancestors(self.guards, lambda _: False)
        reached = {n.output[0]: n for n in (*self.nodes, *(self.graph.nodes[i] for i in before))}
        nodes = [n for n in reached.values() if n.op_type in COMPARISONS and not canonical_domain(n.domain)]
        fixed = _values_from_extents(self.graph) | self.graph.constants.keys() if nodes else set[str]()
        return [n for n in nodes if not fixed.issuperset(n.input)]

    def lists(self) -> dict[str, list[float]]:
        """The numbers with which ops of the part compare elements of computed values, by value."""
        found = dict[str, list[float]]()
        for node in self.nodes:
            named = (a for a in node.attribute if a.name.startswith(VOCABULARY_PREFIXES))
            numbers = [x for a in named for x in attribute_elements(a) if not isinstance(x, str | bytes)]
            if numbers and node.input[0] not in self.graph.inputs:
                found.setdefault(node.input[0], []).extend(numbers)
        return found

    def listing_ops(self) -> frozenset[frozenset[bytes]]:
        """The attributes of each op of the part that compares elements with lists."""
        attributes = (
            n.attribute for n in self.nodes if any(a.name.startswith(VOCABULARY_PREFIXES) for a in n.attribute)
        )
        return frozenset(frozenset(a.SerializeToString() for a in found) for found in attributes)

    def sizes(self) -> tuple[int, ...]:
        """The extents that constants of the part suggest."""
        known = (self.graph.initializers.get(name) for name in self.constants)
        return constants_of_nodes(self.nodes, (t for t in known if isinstance(t, onnx.TensorProto))).sizes


class ModelChanges(Struct, frozen=True):
    """The changed parts of two models.

    If names have different meanings in the models, the parts are larger than what has changed.
    """

    before: ChangedPart
    after: ChangedPart

    @classmethod
    def of(cls, original: ValueGraph, rewritten: ValueGraph, shared: SharedValues) -> ModelChanges:
        """The parts that compute the cut points of the models. O(V + E)."""
        sides = (ChangedPart.of(g, shared.cut_points, shared.names.__contains__) for g in (original, rewritten))
        return cls(*sides)

    def hints(self) -> InputHints:
        """The hints for inputs that may show the change."""
        sides = self.before, self.after
        tensors = (t for pair in self._unequal_tensors() for t in pair)
        return InputHints(
            self._differing_constants(),
            frozenset(extent for t in tensors for extent in t.dims),
            any(part.depends_on_extents for part in sides),
            self.before.listing_ops() != self.after.listing_ops(),
            frozenset(n.SerializeToString() for part in sides for n in part.comparisons()),
        )

    def _differing_constants(self) -> ModelConstants:
        """The numbers, strings and places at which constants of the parts differ, and numbers between them.

        A place may be an index, a position or a channel, so it is used both as a number and as an extent, like the
        other constants of the parts. An axis along which everything differs has no places.
        """
        places, elements = dict[int, None](), dict[float | str, None]()
        for before, after in self._pairs_of_tensors():
            step = max(1, before.size // SAMPLED_ELEMENTS)
            sample = before.reshape(-1)[::step] != after.reshape(-1)[::step]
            # If most elements differ, such as if a scale is folded into them, other inputs show it.
            if before.ndim and sample.size and np.mean(sample) > MOST:
                continue
            differs = np.asarray(before != after)
            for axis in range(differs.ndim):
                in_row = differs.any(axis=tuple(a for a in range(differs.ndim) if a != axis))
                rows = np.flatnonzero(in_row).tolist() if not in_row.all() else []
                places.update(dict.fromkeys(rows if len(rows) <= MAX_PLACES else (rows[0], rows[-1])))
            elements.update(dict.fromkeys(_elements_at(differs, before, after)))
        for before, after, vocabularies in self._pairs_of_attributes():
            elements.update(dict.fromkeys(_elements_at(np.asarray(before != after), *vocabularies)))
        numbers = (x for x in elements if not isinstance(x, str))
        words = (x for x in elements if isinstance(x, str))
        sizes = (n for part in (self.before, self.after) for n in part.sizes())
        extents = dict.fromkeys((*(p for p in places if p <= MAX_SIZE), *sizes))
        return ModelConstants((*map(float, places), *numbers), tuple(extents), tuple(words), tuple(places))

    def _unequal_tensors(self) -> tuple[list[Tensor], list[Tensor]]:
        """The constants of each part that the other part does not have under the same name."""
        a, b = self.before.constants, self.after.constants
        same = {
            n for n in a.keys() & b.keys() if a[n] is b[n] or (a[n].mapped is not None and a[n].mapped == b[n].mapped)
        }
        before, after = ([t for n, t in x.items() if n not in same and t.is_readable] for x in (a, b))
        return before, after

    def _pairs_of_tensors(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of constants of equal shape and type, matched by name, then by order."""
        a, b = self.before.constants, self.after.constants
        kinds = defaultdict[Any, list[Tensor]](list)
        for name, t in b.items():
            if name not in a and t.is_readable and t.nbytes <= MAX_COMPARED_BYTES:
                kinds[t.dtype, t.dims].append(t)
        for name, t in a.items():
            if not t.is_readable or t.nbytes > MAX_COMPARED_BYTES:
                continue
            same_kind = kinds.get((t.dtype, t.dims), [])
            twin = b.get(name) or (same_kind.pop(0) if same_kind else None)
            if twin is not None and twin is not t and (twin.dtype, twin.dims) == (t.dtype, t.dims):
                yield t.array, twin.array

    def _pairs_of_attributes(self) -> Iterator[tuple[Any, Any, Sequence[Any]]]:
        """Pairs of lists of equal length in attributes of nodes of one type, with the vocabularies of that length."""
        nodes = defaultdict[str, list[onnx.NodeProto]](list)
        for node in self.after.nodes:
            nodes[node.op_type].append(node)
        for node in self.before.nodes:
            if nodes[node.op_type]:
                old, new = _lists(node), _lists(nodes[node.op_type].pop(0))
                for name in old.keys() & new.keys():
                    if len(old[name]) == len(new[name]):
                        both = ((k, x) for lists in (old, new) for k, x in lists.items() if len(x) == len(old[name]))
                        yield old[name], new[name], [x for k, x in both if k.startswith(VOCABULARY_PREFIXES)]


def _guards(graph: ValueGraph, kept: Sequence[int]) -> list[str]:
    """The conditions of branches and selections among nodes and downstream of them. O(V + E)."""
    behind, found = set[str](), list[str]()
    inside = set(kept)
    for n, (node, reads) in enumerate(zip(graph.nodes, graph.reads, strict=True)):
        if n in inside or not behind.isdisjoint(reads):
            behind.update(node.output)
            if node.op_type in CONDITIONAL_OPS and node.input[0] not in behind:
                found.append(node.input[0])
    return found[:MAX_GUARDS]


def _values_from_extents(graph: ValueGraph) -> set[str]:
    """The values that are computed only from extents and constants. O(V + E)."""
    found, known = set[str](), set(graph.constants)
    for node, reads in zip(graph.nodes, graph.reads, strict=True):
        if node.op_type in READS_SHAPE or (reads and known.issuperset(reads)):
            known.update(node.output)
            found.update(node.output if not reads or not graph.constants.keys() >= set(reads) else ())
        elif node.op_type == "Constant":
            known.update(node.output)
    return found


def _depends_on_extents(node: onnx.NodeProto) -> bool:
    operator = OPERATORS.get(node.op_type)
    if operator is None or canonical_domain(node.domain):
        return canonical_domain(node.domain) != "ai.onnx.ml"
    if any(a.name == "auto_pad" and a.s in AUTOMATIC_PADS for a in node.attribute):
        return True
    return not (operator.traits & SIZE_BLIND_TRAITS or node.op_type in SIZE_BLIND_OPS)


def _lists(node: onnx.NodeProto) -> dict[str, Any]:
    """The lists in the attributes of a node as arrays."""
    found = ((a.name, attribute_elements(a)) for a in node.attribute if a.type in LISTS)
    return {name: _as_array(elements) for name, elements in found}


def _as_array(elements: Sequence[Any]) -> Any:
    if any(isinstance(x, str | bytes) for x in elements):
        return np.array([x.decode("utf-8", "replace") if isinstance(x, bytes) else x for x in elements], object)
    return np.array(elements)


def _elements_at(differs: Any, *arrays: Any) -> Iterator[float | str]:
    """Yield the strings and finite numbers of arrays at a few places that differ, and midpoints of the numbers."""
    for place in map(tuple, np.argwhere(differs)) if np.count_nonzero(differs) <= MAX_PLACES else ():
        found = [array[place] for array in arrays]
        yield from (x for x in found if isinstance(x, str))
        numbers = [float(x) for x in found if not isinstance(x, str | bool | np.bool_) and np.isfinite(x)]
        yield from (*numbers, *((x + y) / 2 for x, y in pairwise(numbers)))
