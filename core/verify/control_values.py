"""Values that control the time or memory of a run, and operands of integer divisions."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.dtypes import INTEGER_DTYPES
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.traits import Trait, ops_with, ops_with_role, roles
from ..ir.values import Value

SIZE_ROLES = frozenset({"extent", "pads", "scales", "stretch", "trips"})
# Besides inputs with one of these roles: a condition, the ends of a range, a region, and frequencies.
OTHER_CONTROL_INPUTS = {"Loop": (1,), "Range": (0, 1, 2), "Resize": (1,), "MelWeightMatrix": (2, 3, 4)}
SAME_DTYPE_OPS = ops_with(Trait.SAME_DTYPE)
DIVISIONS = ops_with_role("divisor")
MAX_LOOKBACK = 100  # ops
SHAPE_ONLY_OPS = ops_with(Trait.READS_SHAPE)


def control_values(graph: Graph) -> frozenset[Value]:
    """All such values and the values from which they are computed. O(V + E).

    Extreme numbers are harmful there: a Loop does not end, a tensor fills the memory, or the least integer is divided
    by -1, which crashes the process.
    """
    queue = [v for g in graph.with_subgraphs() for op in g.ops() for v in _control_inputs(op)]
    found = dict.fromkeys(queue)
    read = set[Op]()
    while queue:
        for v in _upstream_values(queue.pop(), read):
            if v not in found:
                found[v] = None
                queue.append(v)
    return frozenset(found)


def _control_inputs(op: Op) -> Iterator[Value]:
    if op.domain:
        return
    indices = [i for i, role in roles(op.type).items() if role in SIZE_ROLES]
    chosen = [op.input(i) for i in (*indices, *OTHER_CONTROL_INPUTS.get(op.type, ()))]
    if op.type in DIVISIONS and _operand_dtype(op) in INTEGER_DTYPES:
        chosen += op.inputs
    if op.type == "Loop":
        chosen += [body.outputs[0] for body in op.subgraphs if body.outputs]
    yield from (v for v in chosen if v is not None)


def _operand_dtype(op: Op) -> int:
    """The type of the operands, from recorded types upstream if possible, otherwise inferred."""
    value = op.input(0)
    for _ in range(MAX_LOOKBACK):
        maker = value.producer if value is not None and not value.recorded_type[0] else None
        if maker is None or maker.domain or maker.type not in SAME_DTYPE_OPS:
            break
        value = maker.input(0)
    return value.known_dtype if value is not None else 0


def _upstream_values(value: Value, visited: set[Op]) -> Iterator[Value]:
    """The values from which `value` is computed, without inputs of ops in `visited`.

    Inside a subgraph these include all inputs of its owner. Each op is added to `visited` and examined once, since the
    captures of an owner take a walk over its subgraphs.
    """
    op = value.producer
    while op is not None and op not in visited and op.type not in SHAPE_ONLY_OPS:
        visited.add(op)
        yield from (v for v in op.inputs if v is not None)
        yield from op.captures
        yield from (v for sub in op.subgraphs for v in sub.outputs)
        op = op.graph.owner
