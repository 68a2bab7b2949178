"""Constants of a serialized model near which it may behave differently: numbers, extents and strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ..io.files import split_model
from ..io.split_models import Loadable
from ..ir.op_schemas import canonical_domain
from ..ir.tensor import SMALL_TENSOR_BYTES
from ..operators.declaration import Trait
from ..operators.table import data_inputs, ops_with, roles
from ..serialization.proto_queries import all_nodes, is_constant_node
from .decision_boundaries import VOCABULARY_DOMAINS, VOCABULARY_PREFIXES, evenly_spread
from .word_generation import case_variants, words_of_operator

MAX_TENSOR_ELEMENTS = 64  # of a constant that is used; larger ones are weights
MIN_SIZE, MAX_SIZE = 3, 8192  # of extents to which inputs are grown
MAX_SQUARE = 2048  # extents of squares whose number of elements is used
MAX_NUMBERS, MAX_SIZES, MAX_WORDS = 48, 6, 64
# Inputs that give shapes, axes and weights: their numbers do not bound elements or extents.
STRUCTURAL_ROLES = frozenset({"axes", "unit axes", "new axes", "factors", "parts", "stretch", "scales", "pads"})
WEIGHTED_OPS = ops_with(Trait.CONVOLUTION) | ops_with(Trait.NORMALIZATION) | {
    "BatchNormalization", "Gemm", "InstanceNormalization", "MatMul", "PRelu", "GRU", "LSTM", "RNN",
}  # fmt: skip
DECIDING_OPS = ops_with(Trait.COMPARISON) | {
    "Clip", "Max", "Min", "Mod", "Range", "Slice", "TopK", "Trilu", "Where", "ConstantOfShape", "Div",
}  # fmt: skip
CARRYING_OPS = frozenset({"Cast", "Concat", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
COUNTING_OPS = frozenset({"ReduceProd", "Size"})
MAX_CARRIED = 8  # constants upstream of one value
NUMBERS = frozenset({AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.FLOATS, AttributeProto.INTS})
DECIDING_ATTRIBUTES = frozenset({"alpha", "ends", "k", "lambd", "max", "min", "starts", "threshold"})
WORD_ATTRIBUTES = frozenset({"delimiter", "pattern", "stopwords"})
# Numbers at which a narrow type overflows or loses the last bit of a whole number.
TYPE_LIMITS: Mapping[int, tuple[float, ...]] = {
    TensorProto.FLOAT16: (2048.0, 65504.0), TensorProto.BFLOAT16: (256.0,),
    TensorProto.INT8: (127.0, -128.0), TensorProto.UINT8: (255.0,), TensorProto.INT16: (32767.0, -32768.0),
    TensorProto.UINT16: (65535.0,),
}  # fmt: skip


class ModelConstants(NamedTuple):
    """Numbers that elements may equal, extents that dims may have, and the strings of a model, each in order.

    `places` are the indices of rows and channels that differ between two models.
    """

    numbers: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

    def without(self, other: ModelConstants) -> ModelConstants:
        """The constants that `other` does not have."""
        groups = ((own, set(known)) for own, known in zip(self, other, strict=True))
        return ModelConstants._make(tuple(x for x in own if x not in known) for own, known in groups)

    def with_others(self, other: ModelConstants) -> ModelConstants:
        """The constants of both."""
        return ModelConstants._make((*a, *b) for a, b in zip(self, other, strict=True))


NO_CONSTANTS = ModelConstants()


@dataclass(slots=True)
class _Collected:
    """The constants that were found; constants of `deciding` operators have priority."""

    numbers: dict[bool, dict[float, None]] = field(default_factory=lambda: {True: {}, False: {}})
    sizes: dict[bool, dict[int, None]] = field(default_factory=lambda: {True: {}, False: {}})
    words: dict[str, None] = field(default_factory=dict[str, None])
    counts_elements: bool = False

    def add(self, values: Iterable[Any], *, decides: bool, may_be_sizes: bool = True) -> None:
        """Add numbers or strings."""
        for value in values:
            if isinstance(value, str | bytes):
                self.words[value.decode("utf-8", "replace") if isinstance(value, bytes) else value] = None
            elif np.isfinite(value):
                self.numbers[decides][float(value)] = None
                if may_be_sizes and (decides or value == int(value)) and MIN_SIZE <= abs(value) <= MAX_SIZE:
                    self.sizes[decides][abs(int(value))] = None

    def constants(self) -> ModelConstants:
        """As many constants as inputs can use; a number of elements also gives the extents of a square with as many."""
        if self.counts_elements:
            whole = (int(n) for n in self.numbers[True] if n == int(n) and MIN_SIZE**2 <= n <= MAX_SQUARE**2)
            self.sizes[True].update(dict.fromkeys(map(isqrt, whole)))
        numbers = _with_priority(self.numbers[True], self.numbers[False], MAX_NUMBERS)
        sizes = _with_priority(self.sizes[True], self.sizes[False], MAX_SIZES)
        words = case_variants(evenly_spread(list(self.words), MAX_WORDS))[:MAX_WORDS]
        return ModelConstants(tuple(numbers), tuple(sizes), tuple(words))


def constants_of(model: Loadable) -> ModelConstants:
    """The constants in the nodes, subgraphs and functions of a model, except weights and shapes. O(V + E)."""
    proto = split_model(model).message
    nodes = (*proto.graph.node, *(n for f in proto.functions for n in f.node))
    return constants_of_nodes(nodes, proto.graph.initializer)


def constants_of_nodes(outer: Iterable[onnx.NodeProto], initializers: Iterable[TensorProto]) -> ModelConstants:
    """The constants of some nodes and their subgraphs, which read the initializers. O(V + E)."""
    found, nodes = _Collected(), list(all_nodes(outer))
    carried = {name: [elements] for name, elements in _small_constants(initializers, nodes) if elements}
    for node in nodes:
        domain = canonical_domain(node.domain)
        for a in node.attribute:
            if not a.ref_attr_name:
                _add_attribute(node, domain, a, found)
        if node.op_type == "Split" and not domain:
            found.add((len(node.output),), decides=False)
        for index, name in enumerate(node.input):
            if name not in carried or domain:
                continue
            if node.op_type in CARRYING_OPS and index in data_inputs(node.op_type):
                known = carried.setdefault(node.output[0], [])
                known += carried[name][: MAX_CARRIED - len(known)]
            elif not _is_structural(node, index):
                for elements in carried[name]:
                    found.add(elements, decides=node.op_type in DECIDING_OPS)
    found.counts_elements = any(node.op_type in COUNTING_OPS for node in nodes)
    return found.constants()


def _small_constants(
    initializers: Iterable[TensorProto], nodes: Iterable[onnx.NodeProto]
) -> Iterator[tuple[str, list[Any]]]:
    """The elements of tensors and numbers that are constant, of few elements each, by name."""
    graphs = (a.g for node in nodes for a in node.attribute if a.type == AttributeProto.GRAPH)
    for tensor in chain(initializers, *(g.initializer for g in graphs)):
        yield tensor.name, _elements(tensor, MAX_TENSOR_ELEMENTS)
    for node in filter(is_constant_node, nodes):
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                yield node.output[0], _elements(a.t, MAX_TENSOR_ELEMENTS)
            elif a.type in NUMBERS and not a.ref_attr_name:
                elements = attribute_elements(a)
                yield node.output[0], elements if len(elements) <= MAX_TENSOR_ELEMENTS else []


def _elements(tensor: TensorProto, most: int) -> list[Any]:
    """The numbers or strings of a tensor of at most so many, all in the message in a form that onnx reads."""
    count = int(np.prod(tensor.dims, dtype=np.int64))
    if count > most or tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("segment"):
        return []
    array = numpy_helper.to_array(tensor).reshape(-1)
    if array.dtype == np.object_:
        return list(array)
    return [] if array.dtype.kind in "bc" else array.astype(np.float64).tolist()


def _is_structural(node: onnx.NodeProto, index: int) -> bool:
    """Whether an input gives a shape, axes, weights or elements of a result."""
    if roles(node.op_type).get(index) in STRUCTURAL_ROLES:
        return True
    is_moved = index in data_inputs(node.op_type) and node.op_type not in DECIDING_OPS
    return is_moved or (node.op_type in WEIGHTED_OPS and index > 0)


def _add_attribute(node: onnx.NodeProto, domain: str, a: AttributeProto, found: _Collected) -> None:
    if domain in VOCABULARY_DOMAINS and a.name.startswith(VOCABULARY_PREFIXES):
        found.add(attribute_elements(a), decides=True, may_be_sizes=False)
    elif a.name in WORD_ATTRIBUTES and not domain:
        texts = [x.decode("utf-8", "replace") for x in attribute_elements(a)]
        named = texts if a.type == AttributeProto.STRINGS else texts[0]
        found.add(words_of_operator(node.op_type, {a.name: named}), decides=True)
    elif node.op_type == "Cast" and a.name == "to":
        found.add(TYPE_LIMITS.get(a.i, ()), decides=True)
    elif a.name in DECIDING_ATTRIBUTES and not domain:
        found.add(attribute_elements(a), decides=True)


def attribute_elements(a: AttributeProto) -> list[Any]:
    """The numbers or strings of an attribute."""
    if a.type == AttributeProto.TENSOR:
        return _elements(a.t, SMALL_TENSOR_BYTES) if a.t.ByteSize() <= SMALL_TENSOR_BYTES else []
    value = helper.get_attribute_value(a)
    return list(value) if a.type in {AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS} else [value]


def _with_priority(first: Iterable[Any], others: Iterable[Any], count: int) -> list[Any]:
    """At most `count` of both, in order; evenly spread ones if there are too many in `first`."""
    chosen = evenly_spread(sorted(set(first)), count)
    rest = sorted(set(others) - set(chosen))
    return sorted([*chosen, *evenly_spread(rest, count - len(chosen))])
