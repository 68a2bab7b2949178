"""Computing chosen ops in another layout, with Transposes where their values meet all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core import Build, Graph, Op, Tensor, Value, made_from
from ....core.ir.origin import inherit
from .extent_layout_rules import picks
from .layout import Layout, after, inverse
from .layout_region import Region
from .layout_rewrite import Move

Held = dict[Value, tuple[Value, Layout]]


def flip(region: Region, ops: Sequence[Op], by: str) -> list[Op]:
    """Compute `ops` of a region in its layout; returns the Transposes put in. O(ops and their edges)."""
    turn = _Turn(region, ops, by)
    for op in ops:
        turn.announce(op)
    for op in turn.untransposed():
        turn.alias(op)
    for op in ops:
        if op.type != "Transpose":
            turn.place(op)
    turn.settle()
    return turn.transposes


@dataclass(slots=True)
class _Turn:
    """The work on one region. `held` says as what each value made by the ops comes to be, and in which layout."""

    region: Region
    ops: Sequence[Op]
    by: str
    held: Held = field(default_factory=dict)
    made: dict[tuple[Value, Layout, tuple[int, ...]], Value] = field(default_factory=dict)
    transposes: list[Op] = field(default_factory=list[Op])
    taken: dict[Value, Value] = field(default_factory=dict[Value, Value])  # what became of values that are no more

    @property
    def graph(self) -> Graph:
        return self.region.graph

    def announce(self, op: Op) -> None:
        """Make the values that a moved op will give."""
        if op.type == "Transpose":
            return
        for v, own in zip(op.outputs, self.region.moves[op].outputs, strict=True):
            shape, layout = v.stated[1], own or ()
            if own is not None and shape is not None and len(shape) == len(own):
                shape = tuple(shape[axis] for axis in own)
            name = self.graph.fresh_name(v.name) if v.name else ""
            self.held[v] = Value(name, v.stated[0], shape), layout

    def untransposed(self) -> Iterable[Op]:
        """The Transposes that go, each after those that feed it."""
        going = {op for op in self.ops if op.type == "Transpose"}
        done: dict[Op, None] = {}
        for op in self.ops:
            chain: list[Op] = []
            at: Op | None = op
            while at is not None and at in going and at not in done:
                chain.append(at)
                source = at.inputs[0]
                at = source.producer if source is not None else None
            done.update(dict.fromkeys(reversed(chain)))
        return done

    def alias(self, op: Op) -> None:
        """The result of a Transpose that goes is held as its input is."""
        found = self.region.moves[op]
        x = op.inputs[0]
        assert x is not None
        self.held[op.outputs[0]] = self.fetch(x, found.inputs[0], op), found.outputs[0] or ()

    def fetch(self, v: Value, layout: Layout | None, reader: Op, spread: tuple[int, ...] = ()) -> Value:
        """A value as it is to be held, transposed from what there is if need be."""
        wanted = layout or ()
        source, own = self.held.get(v, (v, ()))
        if own == wanted and not spread:
            return source
        key = (v, wanted, spread)
        if key not in self.made:
            self.made[key] = self._made(v, wanted, reader, spread)
        return self.made[key]

    def _made(self, v: Value, wanted: Layout, reader: Op, spread: tuple[int, ...]) -> Value:
        g = Build(self.graph, reader)
        if v.tensor is not None:
            data = v.const.transpose(wanted) if wanted else v.const
            for axis in spread:
                data = np.expand_dims(data, axis)
            return self.graph.constant(Tensor.from_array(np.ascontiguousarray(data)), v.name)
        if spread:
            out = g.Unsqueeze(self.fetch(v, wanted, reader), axes=list(spread))
        else:
            source, own = self.held.get(v, (v, ()))
            rank = len(wanted or own)
            perm = after(inverse(own or tuple(range(rank))), wanted or tuple(range(rank)))
            out = g.Transpose(source, perm=list(perm))
            self.transposes += g.added
        self._note(g.added, reader)
        return out

    def _note(self, added: Iterable[Op], source: Op) -> None:
        for new in added:
            made_from(new, self.by, (source,))

    def place(self, op: Op) -> None:
        """Put the moved op beside the one that it replaces."""
        found = self.region.moves[op]
        inputs = [self._operand(op, i, v, found) for i, v in enumerate(op.inputs)]
        for i, data in sorted(found.constants.items()):
            inputs += [None] * (i + 1 - len(inputs))
            inputs[i] = Build(self.graph, op).const(data)
        if found.swaps:
            inputs[:2] = inputs[1::-1]
        attrs: dict[str, Any] = {k: v for k, v in {**op.attrs, **found.attrs}.items() if v is not None}
        new = Op(op.type, op.domain, "", attrs, None)
        new.key = op.key
        results = [self.held[v][0] for v in op.outputs]
        if found.gathers is not None:
            results = [self._numbers(op, found.gathers)]
        self.graph.add_op(new, inputs, results)
        self._note([new], op)
        inherit(new, op)

    def _numbers(self, shape: Op, order: Layout) -> Value:
        """The extents of what is held, which the readers of a Shape pick by other numbers or in order."""
        old, count = shape.outputs[0], len(order)
        numbers = Value(self.graph.fresh_name(old.name))
        g = Build(self.graph, shape)
        for reader in [user for user in old.uses if picks(user, old, count)]:
            index = reader.inputs[1]
            assert index is not None
            places = np.asarray(order, index.const.dtype)[index.const]
            self.graph.set_inputs(reader, [numbers, g.const(places)])
        if old.uses or self.graph.is_output(old) or old in self.graph.pinned:
            self.graph.take_over(g.Gather(numbers, g.const(np.asarray(order, np.int64)), axis=0), self.held[old][0])
            self._note(g.added, shape)
        return numbers

    def _operand(self, op: Op, index: int, v: Value | None, found: Move) -> Value | None:
        if v is None or index in found.constants:
            return None
        return self.fetch(v, found.inputs[index], op, found.spread.get(index, ()))

    def settle(self) -> None:
        """Give what is still read as it was, and take out what was replaced."""
        gone, g = set(self.ops), self.graph
        replaced = [(op, v) for op in self.ops for v in op.outputs if v in self.held]
        # What is another value under a second name comes last: by then that other value is what it will be.
        for op, v in sorted(replaced, key=lambda r: self._is_second_name(*r)):
            if g.is_output(v) or v in g.pinned or any(user not in gone for user in v.uses):
                self._restore(op, v)
        self.graph.discard(reversed(self.ops))

    def _is_second_name(self, op: Op, v: Value) -> bool:
        return op.type == "Transpose" and self.held[v][1] == ()

    def _restore(self, op: Op, v: Value) -> None:
        """Let `v` be made from what is held in its place."""
        source, own = self.held[v]
        source = self.taken.get(source, source)
        if self._is_second_name(op, v):
            identity = self.graph.substitute(v, source)
            self._note([identity] if identity is not None else [], op)
            return
        back = source if own == () else self.fetch(v, None, op)
        self.graph.take_over(back, v)
        self.taken[back] = v
        self.held[v] = v, ()
