"""A different or symbolic batch for a model that was exported for a fixed one.

Each row of the result is what the model computes for that row alone. `batch_rules` converts the ops in order, with
the batch of each operand where `row_places` has it; a model in which an op mixes rows is rejected with the name of the
op.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from msgspec import Struct

from ..errors import MatchFailure, ModelError
from ..inference import forget_inferred_types
from ..io.model import Model
from ..ir.expressions import SymInt, divide
from ..ir.graph import Graph, revise_declarations
from ..ir.values import Value
from ..rewriting.builder import RewriteBuilder
from .batch_rules import BatchRules
from .row_places import Place, RowLayout, merged_place


class ResultRows(Struct, frozen=True):
    """The place of the rows in an output: an `axis`, after `outer` of its indices; None for one number per row."""

    rank: int
    axis: int | None
    outer: SymInt = 1


class BatchPlan(Struct, frozen=True):
    """The changes of a conversion: the `size` of the batch before, inputs with rows, and rows of outputs by name.

    Outputs that are the same for all rows are not included.
    """

    size: int
    inputs: tuple[str, ...]
    outputs: Mapping[str, ResultRows]


def change_batch(model: Model, batch: int | str) -> BatchPlan:
    """Convert a model to another batch, a number or a new symbol. O(ops).

    The batch is the first axis of all inputs that are as long there as the first one with a fixed number. Raises
    ModelError if there is none, if the model already has the symbol, or if an op is unknown or mixes rows.
    """
    graph = model.graph
    size, inputs = _batched_inputs(graph)
    ends = (*graph.inputs, *graph.outputs)
    if isinstance(batch, str) and any(batch in (v.recorded_type[1] or ()) for v in ends):
        raise ModelError(f"--batch {batch}: {batch} is another dim; choose a name that the model does not have")
    layout = RowLayout(graph, batch, (inputs[0], 0))
    rules = BatchRules(layout, size)
    order = graph.sorted_ops()
    for v in inputs:
        row = tuple(d for d in v.recorded_type[1] or () if d is not None)
        if len(row) != len(v.recorded_type[1] or ()):
            raise ModelError(f"--batch {batch}: input {v.name} has a dim without a size or name")
        layout.put(v, Place(0), (1, *row[1:]))
    for op in order:
        try:
            rules.apply(op)
        except MatchFailure as e:
            raise ModelError(f"--batch {batch}: {op.label}: {e}") from e
    outputs = dict[str, ResultRows]()
    for v in dict.fromkeys(graph.outputs):
        if v in layout.places:
            try:
                outputs[v.name] = _finish_output(graph, layout, v)
            except MatchFailure as e:
                raise ModelError(f"--batch {batch}: output {v.name}: {e}") from e
    _declare(graph, layout, batch)
    return BatchPlan(size, tuple(v.name for v in inputs), outputs)


def _batched_inputs(graph: Graph) -> tuple[int, list[Value]]:
    """The batch of the model, and the inputs that have it."""
    shapes = {v: v.recorded_type[1] for v in graph.inputs if v.type is None and v not in graph.input_defaults}
    first = {v: shape[0] for v, shape in shapes.items() if shape}
    sizes = [d for d in first.values() if isinstance(d, int) and d > 0]
    if not sizes:
        names = sorted({d for d in first.values() if isinstance(d, str)})
        hint = f": it is {names[0]}, and --dim {names[0]}=N makes it a number" if names else ""
        raise ModelError(f"--batch: no input has a first axis of a fixed size{hint}")
    return sizes[0], [v for v, d in first.items() if d == sizes[0]]


def _finish_output(graph: Graph, layout: RowLayout, value: Value) -> ResultRows:
    """Move the batch of an output, whose rank does not change, to one of its axes."""
    place, row = layout.places[value]
    if not row:
        return ResultRows(0, None)
    if not place.own and (row[place.axis] == 1 or 1 not in row):
        return ResultRows(len(row), place.axis, place.outer)
    there = Place(row.index(1)) if 1 in row else merged_place(row, place.before(row))
    producer = value.producer
    assert producer is not None
    g = RewriteBuilder(graph, producer)
    readers = list(value.consumers)
    made = layout.at(g, value, there)
    graph.insert_behind(value, made, [*g.added_ops, *readers])
    layout.put(value, there, row)
    return ResultRows(len(row), there.axis, there.outer)


def _declare(graph: Graph, layout: RowLayout, batch: int | str) -> None:
    """Declare the new shapes of inputs and outputs; inference determines the shapes between them."""
    declared = graph.declared
    declared.value_infos[:] = [(v, info) for v, info in declared.value_infos if v not in layout.places]
    revise_declarations(graph, lambda v, info: _with_dims(layout, v, info))
    for v in graph.inputs:
        if v in layout.places:
            dtype = v.recorded_type[0]
            v.reset()
            v.merge_type(dtype, layout.dims(v))
    if isinstance(batch, str):
        graph.context.input_symbols.add(batch)
    forget_inferred_types(graph)


def _with_dims(layout: RowLayout, value: Value | None, info: bytes) -> bytes:
    if value is None or value not in layout.places:
        return info
    proto = onnx.ValueInfoProto.FromString(info)
    shape = proto.type.tensor_type.shape
    kept = [d.dim_param for d in shape.dim]
    del shape.dim[:]
    for i, d in enumerate(layout.dims(value)):
        factor = divide(d, layout.batch)
        if isinstance(d, int):
            shape.dim.add(dim_value=d)
        elif isinstance(factor, int):
            shape.dim.add(dim_param=str(layout.batch) if factor == 1 else f"{factor}*{layout.batch}")
        else:
            shape.dim.add(dim_param=d if isinstance(d, str) else kept[i] if i < len(kept) else "")
    return proto.SerializeToString(deterministic=True)
