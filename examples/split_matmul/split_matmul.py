"""Products too wide for a device, cut into blocks of columns: a pass over the whole graph.

An accelerator with so much memory of its own runs a MatMul only if weights and result fit into it; the head of a
language model, with a column for each word, is the usual one that does not.

    passes run model.onnx -o cut.onnx --plugin split_matmul.py --enable "split-matmul{columns=1024}"
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from passwright.core import (
    ChangeLog,
    Graph,
    MatchFailure,
    Op,
    PassPlacement,
    Plugin,
    RewriteBuilder,
    Value,
    made_from,
    require,
)

ConstantBlocks = dict[tuple[Value, int], list[Value]]
"""Constants that were split already, by constant and axis: constants of several products stay shared."""


@dataclass(frozen=True, slots=True)
class SplitMatMul:
    """x @ w + c => Concat(x @ w1 + c1, x @ w2 + c2, ...), of constant weights with many columns."""

    columns: int = field(default=4096, metadata={"doc": "the most columns that one product may have"})
    name: str = "split-matmul"

    def __post_init__(self) -> None:
        """Refuse a width that nothing fits into."""
        if self.columns < 1:
            raise ValueError("columns is at least 1")

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """One look at each product, in the graph and in those inside it. Reads only the weights that are cut."""
        return sum(self._split_graph(g, change_log) for g in tuple(graph.with_subgraphs()))

    def _split_graph(self, g: Graph, change_log: ChangeLog) -> int:
        changes, blocks = 0, ConstantBlocks()
        for op in sorted(g.ops("MatMul", "Gemm"), key=lambda op: op.order_key):
            with suppress(MatchFailure):
                changes += self._split(g, op, blocks, change_log)
        return changes

    def _split(self, g: Graph, op: Op, blocks: ConstantBlocks, change_log: ChangeLog) -> bool:
        """Split one product. Conditions are tested before the change log, which counts the changes that it permits."""
        width, out = column_count(op), op.outputs[0]
        require(width > self.columns, "it is narrow enough")
        cuts, axis = column_axes(op, width), out.rank - 1
        if not change_log.request_change(self.name, out.name, [op], exact=False):
            return False
        build, count = RewriteBuilder(g, op), -(-width // self.columns)
        operands = [
            [v] * count if v is None or cut is None else self._blocks(build, v, cut, blocks)
            for v, cut in zip(op.inputs, cuts, strict=True)
        ]
        products = [getattr(build, op.type)(*inputs, **op.attrs) for inputs in zip(*operands, strict=True)]
        g.take_over(build.Concat(*products, axis=axis), out)
        for made in build.added_ops:
            made_from(made, self.name, [op])
        g.discard([op])
        return True

    def _blocks(self, build: RewriteBuilder, v: Value, axis: int, blocks: ConstantBlocks) -> list[Value]:
        """A constant in blocks of `columns` along `axis`; the last may be narrower."""
        if (v, axis) not in blocks:
            ends = range(self.columns, v.const.shape[axis], self.columns)
            blocks[v, axis] = [build.const(block) for block in np.split(v.const, ends, axis)]
        return blocks[v, axis]


def columns_axis(op: Op) -> int:
    """The axis of the second factor that has the columns of the product."""
    return 0 if op.attr("transB", 0) else 1


def column_count(op: Op) -> int:
    """How many columns a product has. Declines unless its second factor is one constant matrix."""
    w = op.input(1)
    if op.domain or w is None or not w.is_const or w.rank != 2:
        raise MatchFailure("the second factor is not a constant matrix")
    return w.static_shape[columns_axis(op)]


def column_axes(op: Op, width: int) -> tuple[int | None, ...]:
    """For each operand the axis along which it has a number for each of the `width` columns; None where it has not."""
    bias = op.input(2)
    if bias is None or bias.rank == 0 or bias.shape[-1] == 1:
        return (None, columns_axis(op), None)[: len(op.inputs)]
    require(bias.is_const and bias.shape[-1] == width, "the addend is not constant")
    return None, columns_axis(op), bias.rank - 1


PLUGIN = Plugin(passes=(PassPlacement(SplitMatMul(), stage="final"),))
