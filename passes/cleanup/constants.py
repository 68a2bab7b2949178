"""Lifting, merging, moving and compression of constants."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from ...core import ChangeLog, Graph, Op, Tensor, Value, made_from
from ...core.errors import UsageError
from ...core.ir.dtypes import CPU_FLOATS, DISCRETE_TYPES
from ...core.ir.op_schemas import schema
from ...core.ir.tensor import SAMPLE_BYTES, STRING, digest, element_bits, element_type, sample_key
from ...core.operators.declaration import Trait
from ...core.operators.effects import writes_inputs
from ...core.operators.table import ops_with
from ..structure.body_rewriting import NameDisambiguator

MAX_SUNK_BYTES, LEAST_PLANNED_OPS = 1 << 20, 8  # of a weight, and of a body
PACKING_OPS = ops_with(Trait.CONVOLUTION) | {"GRU", "Gemm", "LSTM", "MatMul", "MatMulInteger", "QLinearMatMul"}


class LiftConstants(Struct, frozen=True):
    """Constant ops become initializers of the same name."""

    name: str = "lift-constants"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Lift every dense Constant. O(constants)."""
        changes = 0
        for op in [op for g in graph.with_subgraphs() if g.can_hold_initializers for op in g.ops("Constant")]:
            value = op.outputs[0] if op.outputs and not op.domain else None
            if value is None or value.tensor is None or not change_log.request_change(self.name, value.name, (op,)):
                continue
            op.graph.make_constant(value, value.tensor)
            op.graph.prune([op])
            changes += 1
        return changes


class MergeConstants(Struct, frozen=True):
    """Initializers of the same type, shape and content become one; of different bodies, in the outermost graph."""

    name: str = "merge-constants"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Merge across all graphs. O(constants); only likely twins are read."""
        return self._merge(graph, ConstantTable(), NameDisambiguator(graph), change_log)

    def _merge(self, g: Graph, outer: ConstantTable, namer: NameDisambiguator, change_log: ChangeLog) -> int:
        changes = 0
        known = outer if g.owner is None else ConstantTable(outer.visible.new_child(), outer.hoistable)
        for value in tuple(g.initializers):
            tensor = value.tensor
            if tensor is None or not is_mergeable(g, value):
                continue
            twin = known.find_equal(ConstantSite(value, g), tensor)
            if (
                twin.value is not value
                and value.consumers
                and change_log.request_change(self.name, value.name, (value,))
            ):
                if twin.graph not in g.with_enclosing() and twin.value in twin.graph.initializers:
                    namer.make_unique([twin.value])  # it moves to the outermost graph
                    del twin.graph.initializers[twin.value]
                    namer.root.initializers[twin.value] = None
                    namer.root.mark_changed()
                g.replace_uses(value, twin.value)
                g.drop_initializer(value)
                changes += 1
        return changes + sum(self._merge(sub, known, namer, change_log) for op in g.ops() for sub in op.subgraphs)


class SinkWeights(Struct, frozen=True):
    """Loop(f(w)) => Loop(f(w)) with a weight w of products as a constant of the body, if only this body reads it.

    onnxruntime packs such weights, and removes the originals. It plans no memory for a body that reads one of these
    from outside, and allocates each result of each trip: up to 3 us a trip. Planning takes longer in short bodies;
    products of large weights hide either.
    """

    name: str = "sink-weights"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Move the weights of each body that is long enough. O(values that its products read)."""
        changes = 0
        for body in graph.with_subgraphs():
            owners = (g.owner for g in body.with_enclosing())
            loop = next((op for op in owners if op is not None and op.type in {"Loop", "Scan"}), None)
            if loop is None or len(body) < LEAST_PLANNED_OPS or not body.can_hold_initializers:
                continue
            for value in _weights_read_in(body):
                home = next((g for g in loop.graph.with_enclosing() if value in g.initializers), None)
                if home is None or any(op.graph is not body for op in value.consumers):
                    continue
                if is_mergeable(home, value) and change_log.request_change(self.name, value.name, (value,)):
                    del home.initializers[value]
                    body.initializers[value] = None
                    body.mark_changed()
                    changes += 1
        return changes


def _weights_read_in(body: Graph) -> Iterable[Value]:
    """The constant matrices and filters that ops of a body may pack, without large constants."""
    read = (v for op in body.ops(*PACKING_OPS) if not op.domain for v in op.inputs if v is not None)
    known = ((v, v.tensor) for v in dict.fromkeys(read))
    return [v for v, t in known if t is not None and len(t.dims) > 1 and t.nbytes <= MAX_SUNK_BYTES]


class ConstantSite(Struct, frozen=True):
    """A constant and the graph that held it when it was found."""

    value: Value
    graph: Graph


@dataclass(slots=True)
class ConstantTable:
    """Constants met so far, by content. A large tensor is read only if its size and a sample occur twice.

    `visible` are constants of one graph and of the graphs around it, `hoistable` constants of all bodies whose
    constants may be moved outside.
    """

    visible: ChainMap[object, ConstantSite] = field(default_factory=ChainMap[object, ConstantSite])
    hoistable: dict[object, ConstantSite] = field(default_factory=dict[object, ConstantSite])

    def find_equal(self, held: ConstantSite, tensor: Tensor) -> ConstantSite:
        """The first constant with the content of this one; itself if there was none."""
        key = sample_key(tensor)
        other = self.lookup_or_add(key, held)
        if other.value is held.value or len(tensor.comparable_bytes()) <= 3 * SAMPLE_BYTES:
            return other
        if (first := other.value.tensor) is not None:
            if tensor.mapped is not None and first.mapped == tensor.mapped:  # the same bytes of a file
                return other
            self.lookup_or_add((key, digest(first)), other)
        return self.lookup_or_add((key, digest(tensor)), held)

    def lookup_or_add(self, key: object, held: ConstantSite) -> ConstantSite:
        """Look `key` up in this graph, those around it and all others; add `held` where it is missing."""
        if key in self.visible:
            return self.visible[key]
        may_leave = may_capture_constants(held.graph)
        other = self.hoistable.get(key) if may_leave else None
        if other is not None and any(other.value in g.initializers for g in other.graph.with_enclosing()):
            return other
        self.visible[key] = held
        if may_leave:
            self.hoistable[key] = held
        return held


def may_capture_constants(g: Graph) -> bool:
    """Whether a graph, and each that it is in, may read any constant from outside."""
    owners = (inner.owner for inner in g.with_enclosing())
    capture = all(op is None or (op.type in ops_with(Trait.CAPTURES) and not op.domain) for op in owners)
    return capture and not g.context.initializers_are_inputs


def is_mergeable(g: Graph, value: Value) -> bool:
    """Whether the name of the value is free to change, and no consumer may write to it."""
    return not g.is_output(value) and value not in g.pinned and not any(map(writes_inputs, value.consumers))


UNSIGNED_OF_WIDTH = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}  # bits; elements are compared as these
REPEATED_TYPES = CPU_FLOATS | DISCRETE_TYPES  # onnxruntime has no Expand and ConstantOfShape of bfloat16


@dataclass(frozen=True, slots=True)
class Debloat:
    """A constant of one repeated number becomes a ConstantOfShape, one of equal slices an Expand of the slice.

    Only where `min_bytes` or more are saved. Its ops must not be folded again: it is for the end of a run.
    """

    min_bytes: int = 1 << 20
    name: str = "debloat"

    def __post_init__(self) -> None:
        """Raise UsageError for a negative size."""
        if self.min_bytes < 0:
            raise UsageError("min_bytes is 0 or more")

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Look at the large constants of the main graph; each is read up to its first difference."""
        changes = 0
        for value in tuple(graph.initializers):
            tensor = value.tensor
            if tensor is None or tensor.nbytes < self.min_bytes or not value.consumers:
                continue
            small = repeated_part(tensor) if is_mergeable(graph, value) else None
            if small is None or tensor.nbytes - small.nbytes < self.min_bytes:
                continue
            made = repeating_op(graph, small)
            if made is not None and change_log.request_change(self.name, value.name, (value,)):
                replace_constant(graph, value, made, small, self.name)
                changes += 1
        return changes


def repeated_part(tensor: Tensor) -> Tensor | None:
    """The smallest part of which a tensor is a repetition along its leading axes, bit for bit; None if it is none."""
    if tensor.dtype == STRING or element_bits(tensor.dtype) not in UNSIGNED_OF_WIDTH or not tensor.size:
        return None
    elements = np.frombuffer(tensor.raw_data(), UNSIGNED_OF_WIDTH[element_bits(tensor.dtype)]).reshape(tensor.dims)
    part = elements
    # Most parts that differ do so early.
    while part.ndim and (len(part) == 1 or ((part[1] == part[0]).all() and (part[1:] == part[:1]).all())):
        part = part[0]
    if part.ndim == len(tensor.dims):
        return None
    return Tensor.from_array(tensor.array[(0,) * (len(tensor.dims) - part.ndim)])


def repeating_op(graph: Graph, small: Tensor) -> Op | None:
    """The op that repeats `small`, if the opset has it for that type."""
    op_type = "Expand" if small.dims else "ConstantOfShape"
    spec = schema(op_type, "", graph.opsets.get("", 0))
    if (
        spec is None
        or small.dtype not in REPEATED_TYPES
        or f"tensor({element_type(small.dtype)})" not in spec.outputs[0].types
    ):
        return None
    return Op(op_type, "", "", {} if small.dims else {"value": Tensor.from_array(small.array.reshape(1))}, None)


def replace_constant(graph: Graph, value: Value, op: Op, small: Tensor, by: str) -> None:
    """Replace a constant by `op`, which repeats `small`."""
    shape = graph.add_constant(Tensor.from_array(np.array(value.shape, np.int64)), f"{value.name}_shape")
    inputs = [graph.add_constant(small, value.name), shape] if small.dims else [shape]
    op.order_key = -1  # before all that was in the file
    graph.add_op(op, inputs, [Value(graph.fresh_name(value.name))])
    made_from(op, by, ())
    graph.replace_uses(value, op.outputs[0])
    graph.drop_initializer(value)
