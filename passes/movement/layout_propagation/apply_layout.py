"""Computing chosen ops in another layout, with Transposes where their values meet all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core import Graph, Op, RewriteBuilder, Tensor, Value, made_from
from ....core.ir.op import inherit_name, set_origin
from ...support.operand_queries import operand
from .layout import Layout, compose, inverse
from .layout_region import LayoutRegion
from .layout_rules import is_constant_gather

Replacements = dict[Value, tuple[Value, Layout]]


def apply_layout(region: LayoutRegion, ops: Sequence[Op], by: str) -> list[Op]:
    """Compute `ops` of a region in its layout; returns the added Transposes. O(ops and their edges)."""
    application = _LayoutApplication(region, ops, by)
    rewritten = [op for op in ops if op.type != "Transpose"]
    for op in rewritten:
        application.declare_results(op)
    application.alias_results_of_transposes()
    for op in rewritten:
        application.add_rewritten_op(op)
    application.replace_originals()
    return application.transposes


@dataclass(slots=True)
class _LayoutApplication:
    """The application of a layout to one region.

    `replacements` has the new value of each value made by the ops, and its layout.
    """

    region: LayoutRegion
    ops: Sequence[Op]
    by: str
    replacements: Replacements = field(default_factory=dict)
    converted: dict[tuple[Value, Layout, tuple[int, ...]], Value] = field(default_factory=dict)
    transposes: list[Op] = field(default_factory=list[Op])
    taken_over: dict[Value, Value] = field(default_factory=dict[Value, Value])  # the replacements of removed values

    @property
    def graph(self) -> Graph:
        return self.region.graph

    def declare_results(self, op: Op) -> None:
        """Create the results of a rewritten op."""
        for v, own in zip(op.outputs, self.region.rewrites[op].output_layouts, strict=True):
            shape, layout = v.recorded_type[1], own or ()
            if own is not None and shape is not None and len(shape) == len(own):
                shape = tuple(shape[axis] for axis in own)
            name = self.graph.fresh_name(v.name) if v.name else ""
            self.replacements[v] = Value(name, v.recorded_type[0], shape), layout

    def alias_results_of_transposes(self) -> None:
        """Let the result of each removed Transpose be its input, after those that feed it."""
        going = {op for op in self.ops if op.type == "Transpose"}
        for op in self.ops:
            chain: list[Op] = []
            at: Op | None = op
            while at is not None and at in going and at.outputs[0] not in self.replacements:
                chain.append(at)
                at = operand(at).producer
            for transpose in reversed(chain):
                found = self.region.rewrites[transpose]
                source = self.in_layout(operand(transpose), found.input_layouts[0], transpose)
                self.replacements[transpose.outputs[0]] = source, found.output_layouts[0] or ()

    def in_layout(self, v: Value, layout: Layout | None, reader: Op, unsqueezed: tuple[int, ...] = ()) -> Value:
        """A value in a layout, transposed if needed."""
        wanted = layout or ()
        source, own = self.replacements.get(v, (v, ()))
        if own == wanted and not unsqueezed:
            return source
        key = (v, wanted, unsqueezed)
        if key not in self.converted:
            self.converted[key] = self._convert(v, wanted, reader, unsqueezed)
        return self.converted[key]

    def _convert(self, v: Value, wanted: Layout, reader: Op, unsqueezed: tuple[int, ...]) -> Value:
        g = RewriteBuilder(self.graph, reader)
        if v.tensor is not None:
            data = v.const.transpose(wanted) if wanted else v.const
            for axis in unsqueezed:
                data = np.expand_dims(data, axis)
            return self.graph.add_constant(Tensor.from_array(data), v.name)
        if unsqueezed:
            out = g.Unsqueeze(self.in_layout(v, wanted, reader), axes=list(unsqueezed))
        else:
            source, own = self.replacements.get(v, (v, ()))
            rank = len(wanted or own)
            perm = compose(inverse(own or tuple(range(rank))), wanted or tuple(range(rank)))
            out = g.Transpose(source, perm=list(perm))
            self.transposes += g.added_ops
        set_origin(g.added_ops, self.by, (reader,))
        return out

    def add_rewritten_op(self, op: Op) -> None:
        """Add the rewritten op beside the original."""
        found = self.region.rewrites[op]
        kept = [None if i in found.constants else v for i, v in enumerate(op.inputs)]
        more = [found.unsqueezed_axes.get(i, ()) for i in range(len(kept))]
        wanted = zip(kept, found.input_layouts, more, strict=True)
        inputs = [v if v is None else self.in_layout(v, own, op, axes) for v, own, axes in wanted]
        for i, data in sorted(found.constants.items()):
            inputs += [None] * (i + 1 - len(inputs))
            inputs[i] = RewriteBuilder(self.graph, op).const(data)
        if found.swap_inputs:
            inputs[:2] = inputs[1::-1]
        attrs: dict[str, Any] = {k: v for k, v in {**op.attrs, **found.attrs}.items() if v is not None}
        new = Op(op.type, op.domain, "", attrs, None)
        new.order_key = op.order_key
        results = [self.replacements[v][0] for v in op.outputs]
        if found.gather_order is not None:
            results = [self._rewritten_shape(op, found.gather_order)]
        self.graph.add_op(new, inputs, results)
        made_from(new, self.by, (op,))
        inherit_name(new, op)

    def _rewritten_shape(self, shape: Op, order: Layout) -> Value:
        """The extents in the new layout; the consumers of a Shape get other indices or a Gather."""
        old, count = shape.outputs[0], len(order)
        numbers = Value(self.graph.fresh_name(old.name))
        g = RewriteBuilder(self.graph, shape)
        for reader in [user for user in old.consumers if is_constant_gather(user, old, count)]:
            indices = operand(reader, 1).const
            places = np.asarray(order, indices.dtype)[indices]
            self.graph.set_inputs(reader, [numbers, g.const(places)])
        if old.consumers or self.graph.is_output(old) or old in self.graph.pinned:
            ordered = g.Gather(numbers, g.const(np.asarray(order, np.int64)), axis=0)
            self.graph.take_over(ordered, self.replacements[old][0])
            set_origin(g.added_ops, self.by, (shape,))
        return numbers

    def replace_originals(self) -> None:
        """Restore values that are still used in their own layout, and remove the replaced ops."""
        gone, g = set(self.ops), self.graph
        replaced = [(op, v) for op in self.ops for v in op.outputs if v in self.replacements]
        # Aliases come last: by then the values that they rename are final.
        for op, v in sorted(replaced, key=lambda r: self._is_alias(*r)):
            if g.is_output(v) or v in g.pinned or any(user not in gone for user in v.consumers):
                self._restore(op, v)
        self.graph.discard(reversed(self.ops))

    def _is_alias(self, op: Op, v: Value) -> bool:
        return op.type == "Transpose" and self.replacements[v][1] == ()

    def _restore(self, op: Op, v: Value) -> None:
        """Compute `v` from its replacement."""
        source, own = self.replacements[v]
        source = self.taken_over.get(source, source)
        if self._is_alias(op, v):
            if (identity := self.graph.replace_value(v, source)) is not None:
                made_from(identity, self.by, (op,))
            return
        back = source if own == () else self.in_layout(v, None, op)
        self.graph.take_over(back, v)
        self.taken_over[back] = v
        self.replacements[v] = v, ()
