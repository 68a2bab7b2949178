"""Views of Loop and Scan that relate inputs, body inputs, body outputs and outputs.

Operator Loop: inputs M, cond and the carried values; body inputs iteration, condition and the carried values; body
outputs condition, carried values, scan outputs; outputs carried values, scan outputs.
Operator Scan, since version 9: inputs carried values and scan inputs, the same of the body; body outputs and outputs
carried values and scan outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Op, Value, may_drop
from .body_rewriting import prune_body, rebuild_op

UNBATCHED_SCAN_VERSION = 9  # version 8 has a batch axis, and an input for its lengths
PER_SCAN_INPUT = ("scan_input_axes", "scan_input_directions")
PER_SCAN_OUTPUT = ("scan_output_axes", "scan_output_directions")


@dataclass(frozen=True, slots=True)
class LoopView:
    """A Loop or Scan taken apart; carried values, scan inputs and scan outputs are counted from 0.

    `leading_inputs`: the number of inputs before the carried values, of the op and of its body; `leading_outputs`: how
    many body outputs do.
    """

    op: Op
    body: Graph
    leading_inputs: int
    leading_outputs: int
    carried: int
    scan_inputs: int
    scan_outputs: int

    @property
    def live_outputs(self) -> list[int]:
        """The positions of used outputs."""
        return [i for i, v in enumerate(self.op.outputs) if not self.op.graph.is_unused(v)]

    def live_parts(self) -> LoopParts:
        """The parts on which a used output depends. O(ops of the body)."""
        body, live = self.body, self.live_outputs
        places = {v: i - self.leading_inputs for i, v in enumerate(body.inputs)}
        kept = {i for i in live if i < self.carried}
        stack = [*body.outputs[: self.leading_outputs], *(body.outputs[self.leading_outputs + i] for i in live)]
        for op in body.ops():
            if not may_drop(op):
                stack += [v for v in (*op.inputs, *op.captures) if v is not None]
        seen: set[Value] = set()
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            place = places.get(v, -1)
            if 0 <= place < self.carried:
                kept.add(place)
                stack.append(body.outputs[self.leading_outputs + place])
            maker = body.producer(v)
            if maker is not None:
                stack += [i for i in (*maker.inputs, *maker.captures) if i is not None]
        scanned = [places[v] - self.carried for v in body.inputs if v in seen and places[v] >= self.carried]
        if not scanned:
            scanned = [0][: self.scan_inputs]  # one has to say how long it runs
        return LoopParts(sorted(kept), scanned, [i - self.carried for i in live if i >= self.carried])

    def all_parts(self) -> LoopParts:
        """All parts."""
        return LoopParts([*range(self.carried)], [*range(self.scan_inputs)], [*range(self.scan_outputs)])

    def rebuild_with(self, parts: LoopParts, by: str) -> Op:
        """The op with nothing but these parts."""
        op, n = self.op, self.carried
        given = [
            *range(self.leading_inputs),
            *(self.leading_inputs + i for i in parts.carried),
            *(self.leading_inputs + n + i for i in parts.scan_inputs),
        ]
        results = [*parts.carried, *(n + i for i in parts.scan_outputs)]
        body = prune_body(
            self.body, given, [*range(self.leading_outputs), *(self.leading_outputs + i for i in results)], by
        )
        attrs: dict[str, object] = {"body": body}
        if op.type == "Scan":
            attrs["num_scan_inputs"] = len(parts.scan_inputs)
            for names, chosen in ((PER_SCAN_INPUT, parts.scan_inputs), (PER_SCAN_OUTPUT, parts.scan_outputs)):
                for name in names:
                    if name in op.attrs:
                        attrs[name] = [op.attrs[name][i] for i in chosen]
        return rebuild_op(op, by, [op.input(i) for i in given], results, attrs)


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Some carried values, scan inputs and scan outputs, counted from 0, in order."""

    carried: list[int]
    scan_inputs: list[int]
    scan_outputs: list[int]


def loop_view(op: Op) -> LoopView | None:
    """A Loop or Scan taken apart, if its body may be and the numbers of its parts agree."""
    body = op.attrs.get("body") if op.subgraphs and not op.domain else None
    if not isinstance(body, Graph) or body.pinned or body.input_defaults:
        return None
    if op.type == "Loop":
        carried, scan_inputs, ahead, first = len(body.inputs) - 2, 0, 2, 1
    elif op.type == "Scan" and op.version >= UNBATCHED_SCAN_VERSION:
        scan_inputs, ahead, first = int(op.attr("num_scan_inputs", 0)), 0, 0
        carried = len(body.inputs) - scan_inputs
    else:
        return None
    results = len(body.outputs) - first
    fits = len(op.outputs) == results >= carried >= 0 and max(len(op.inputs), ahead) == len(body.inputs)
    return LoopView(op, body, ahead, first, carried, scan_inputs, results - carried) if fits else None
