"""A Transpose of the last dims needs no batch dims merged into one first, and split again.

Reshapes there and back around ops that do not look at the shape.
"""

from __future__ import annotations

from math import prod

from ...core import EXACT, Build, Declined, Op, RulePass, Value, require, rule
from ...core.ir.traits import Trait, ops_with
from ..support.operand_queries import (
    BROADCASTING_OPSET,
    VARIADIC_BROADCASTING_OPSET,
    has_n_consumers,
    inferred_shape,
    require_numpy_broadcasting,
    same_shape,
)
from .reshape_targets import RESHAPE_OPS, SQUEEZE_OPS, reshape_target
from .reshapes import build_squeeze_or_unsqueeze


@rule(
    lambda g, x, inner, transpose, outer: (
        g.Reshape(g.Transpose(g.Reshape(x, ...) @ inner) @ transpose, ...) @ outer
    ),
    shared=True,
    contract=EXACT,
)  # fmt: skip
def transpose_without_reshapes(g: Build, x: Value, inner: Op, transpose: Op, outer: Op) -> Value:
    """Reshape(Transpose(Reshape(x, (-1, ...)))) => Transpose(x), where it merges leading dims, and splits them again"""
    merged, result = inner.outputs[0].shape, outer.outputs[0].shape
    lead = x.rank - len(merged) + 1
    perm = [int(i) for i in transpose.attr("perm") or range(len(merged))[::-1]]
    require(lead > 1 and perm[:1] == [0] and len(result) == x.rank, "no leading dims are merged")
    require(same_shape(merged[1:], x.shape[lead:]), "dims other than the leading ones are merged")
    moved = [lead - 1 + i for i in perm[1:]]
    full = [*range(lead), *moved]
    require(same_shape(result, tuple(x.shape[i] for i in full)), "the dims are not split back")
    return g.Transpose(x, perm=full)


TRANSPOSE_WITHOUT_RESHAPES = RulePass("transpose-without-reshapes", (transpose_without_reshapes,))


SINKABLE_UNARY = tuple(sorted(ops_with(Trait.ELEMENTWISE)))
SINKABLE_BINARY = tuple(sorted(ops_with(Trait.BROADCASTING) - {"Where"}))
VARIADIC = frozenset({"Max", "Mean", "Min", "Sum"})  # broadcast by rule since opset 8
MAX_CHAIN = 16  # ops between two reshapes


@rule(
    lambda g, last, outer: g.one_of(*RESHAPE_OPS)(g.one_of(*SINKABLE_UNARY, *SINKABLE_BINARY)(...) @ last, ...) @ outer,
    contract=EXACT,
)
def sink_reshape(g: Build, last: Op, outer: Op) -> Value:
    """Reshape(Relu(Reshape(x, s)), t) => Relu(x), or Reshape(Relu(x), t), for any elementwise ops between"""
    between, inner = elementwise_chain(last)
    x = inner.inputs[0]
    assert x is not None
    shape = inferred_shape(outer)
    cancels = same_shape(shape, x.shape)
    require(cancels or has_n_consumers(inner.outputs[0]), "the number of Reshapes would not decrease")
    made = x
    for op in between[::-1]:
        at = shaped_operand(op)
        require(all(c is None or i == at or c.rank <= x.rank for i, c in enumerate(op.inputs)), "a constant adds dims")
        made = getattr(g, op.type)(*op.inputs[:at], made, *op.inputs[at + 1 :], **op.attrs)
    if cancels:
        return made
    if {inner.type, outer.type} <= SQUEEZE_OPS and (
        done := build_squeeze_or_unsqueeze(g, made, inner, outer)
    ) is not None:
        return done
    return g.Reshape(made, shape=reshape_target(x, shape, inner, outer))


def elementwise_chain(last: Op) -> tuple[list[Op], Op]:
    """The elementwise ops from `last` up to a reshape, and that; declines where there is none near."""
    between = [last]
    while len(between) <= MAX_CHAIN:
        op = between[-1]
        value = op.inputs[shaped_operand(op)]
        maker = op.graph.producer(value)
        require(value is not None and maker is not None, "no Reshape precedes it")
        assert maker is not None
        assert value is not None
        if maker.type in RESHAPE_OPS and not maker.domain:
            return between, maker
        require(not maker.domain and has_n_consumers(value), "an intermediate value has other consumers")
        between.append(maker)
    raise Declined("no Reshape is in reach")


def shaped_operand(op: Op) -> int:
    """The input of an elementwise op that has its shape; declines if there are two, or for another op."""
    if op.type in SINKABLE_UNARY:
        return 0
    require_numpy_broadcasting(op.version, VARIADIC_BROADCASTING_OPSET if op.type in VARIADIC else BROADCASTING_OPSET)
    single = [v is not None and v.tensor is not None and prod(v.tensor.dims) == 1 for v in op.inputs]
    require(len(single) == 2 and any(single) and op.type in SINKABLE_BINARY, "the op is not elementwise in one operand")
    return 0 if single[1] else 1


SINK_RESHAPES = RulePass("sink-reshapes", (sink_reshape,))
