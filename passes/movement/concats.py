"""Merging of Concats, and cancellation of Concats with Splits and Slices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...core import EXACT, Build, Declined, Graph, Ledger, Op, RulePass, Value, made_from, require, rule
from ...core.ir.origin import inherit_name
from ..support.operand_queries import Inputs, has_n_consumers
from .slice_ranges import INT32_MAX, SliceRange, required_slice_ranges


@dataclass(frozen=True, slots=True)
class MergeConcats:
    """Concat(Concat(a, b), c) => Concat(a, b, c), along the same axis, where only that reads the inner one."""

    name: str = "merge-concats"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """One sweep, outer ones first. O(ops and their inputs)."""
        return sum(self._merge(g, ledger) for g in tuple(graph.with_subgraphs()) if any(g.ops("Concat")))

    def _merge(self, g: Graph, ledger: Ledger) -> int:
        changes = 0
        for op in reversed(g.sorted_ops()):
            if op.type != "Concat" or op.domain or op not in g:
                continue
            inputs, inner = flattened_inputs(g, op)
            if inner and ledger.request_change(self.name, op.outputs[0].name, (op, *inner)):
                self._replace(g, op, inputs, inner)
                changes += 1
        return changes

    def _replace(self, g: Graph, op: Op, inputs: list[Value | None], inner: list[Op]) -> None:
        new = Op("Concat", "", "", dict(op.attrs), None)
        new.order_key = op.order_key
        made_from(g.add_op(new, inputs, [Value(g.fresh_name(op.outputs[0].name))]), self.name, (op, *inner))
        inherit_name(new, op)
        g.take_over(new.outputs[0], op.outputs[0])
        g.prune([op])


def flattened_inputs(g: Graph, op: Op) -> tuple[list[Value | None], list[Op]]:
    """The inputs of a Concat with inner Concats expanded, and those inner Concats."""
    inputs: list[Value | None] = []
    inner: list[Op] = []
    found, stack = mergeable_inputs(g, op), list(reversed(op.inputs))
    while stack:
        v = stack.pop()
        if v is None or v not in found:
            inputs.append(v)
            continue
        inner.append(found[v])
        found.update(mergeable_inputs(g, found[v]))
        stack += reversed(inner[-1].inputs)
    return inputs, inner


def mergeable_inputs(g: Graph, op: Op) -> dict[Value, Op]:
    """The inputs of a Concat that are Concats along its axis and read by nothing else, nor twice."""
    found: dict[Value, Op] = {}
    for v, times in Counter(op.inputs).items():
        maker = g.producer(v)
        if v is None or maker is None or maker.type != "Concat" or maker.domain:
            continue
        if times == 1 and has_n_consumers(v) and same_axis(maker, op):
            found[v] = maker
    return found


def same_axis(a: Op, b: Op) -> bool:
    """Whether two ops on values of one rank work along the same axis; False where that is unknown."""
    first, second = written_axis(a), written_axis(b)
    if first == second or (first < 0) == (second < 0):
        return first == second
    shape = a.outputs[0].known_shape
    return shape is not None and first % len(shape) == second % len(shape)


def written_axis(op: Op) -> int:
    """The axis of a Concat, Split or Gather as it is written."""
    return int(op.attr("axis", 1 if op.type == "Concat" else 0))


@rule(lambda g, xs, concat: g.Concat(*xs) @ concat, shared=True, contract=EXACT)
def cancel_split_concat(g: Build, xs: Inputs, concat: Op) -> Value:
    """Concat(Split(x)) => x, of all its outputs in order, also among others"""
    at, split = find_split(xs, concat)
    x = split.inputs[0]
    assert x is not None
    inputs = (*xs[:at], x, *xs[at + len(split.outputs) :])
    return x if len(inputs) == 1 else g.Concat(*inputs, axis=written_axis(concat))


def find_split(xs: Inputs, concat: Op) -> tuple[int, Op]:
    """The first position of all outputs of a Split, in order, among the inputs of a Concat, and the Split."""
    for at, v in enumerate(xs):
        maker = concat.graph.producer(v)
        if maker is None or maker.type != "Split" or maker.domain or maker.outputs[0] is not v:
            continue
        if xs[at : at + len(maker.outputs)] == maker.outputs and same_axis(maker, concat):
            return at, maker
    raise Declined("no Split has all its outputs among the inputs, in order")


@rule(lambda g, x, rest, first, concat: g.Concat(g.Slice(x, ...) @ first, *rest) @ concat, shared=True, contract=EXACT)
def cancel_slices_concat(g: Build, x: Value, rest: Inputs, first: Op, concat: Op) -> Value:
    """Concat(x[:i], x[i:j], x[j:]) => x"""
    makers = [first, *(maker for v in rest if (maker := concat.graph.producer(v)) is not None)]
    require(len(makers) == len(concat.inputs), "an input is not computed in this graph")
    require(all(m.type == "Slice" and not m.domain and m.inputs[0] is x for m in makers), "not all are slices of x")
    axis = written_axis(concat) % x.rank
    cuts: list[SliceRange] = []
    for m in makers:
        found = required_slice_ranges(m, x)
        require(list(found) == [axis] and found[axis].step == 1, "a slice is along another axis or has a step")
        cuts.append(found[axis])
    extent = x.shape[axis]
    if isinstance(extent, int):
        cuts = [SliceRange(r.start, r.stop) for r in (c.indices(extent) for c in cuts)]
    require(
        cuts[0].start == 0 and cuts[-1].end >= (extent if isinstance(extent, int) else INT32_MAX),
        "the slices do not cover the axis",
    )
    inner = [c.start for c in cuts[1:]]
    require(inner == [c.end for c in cuts[:-1]] and inner == sorted(inner), "the slices are not adjacent")
    require(not inner or (inner[0] >= 0) == (inner[-1] >= 0), "the slices may overlap")
    return x


CANCEL_CONCATS = RulePass("cancel-concats", (cancel_split_concat, cancel_slices_concat))
