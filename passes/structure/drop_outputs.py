"""Removal of unused outputs of ops and of subgraphs."""

from __future__ import annotations

from msgspec import Struct

from ...core import ChangeLog, Graph, Op
from ...core.ir.graph import drop_output
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from .conditionals import branches_of, rebuild_if
from .loops import loop_view

OPTIONAL_OUTPUTS = {
    "Dropout": (1,), "GRU": (0, 1), "LSTM": (0, 1, 2), "LayerNormalization": (1, 2), "RNN": (0, 1),
    "SoftmaxCrossEntropyLoss": (1,), "Unique": (1, 2, 3),
}  # fmt: skip
"""Operators whose other outputs are the same without these.

BatchNormalization is not among them, as its outputs say whether it trains, nor is MaxPool: without indices onnxruntime
computes it in another way, with other zeros and NaNs.
"""
SUBGRAPH_OPS = tuple(sorted(ops_with(Trait.HAS_SUBGRAPHS)))
RECURRENT_OPTIONAL_SINCE = {"GRU": 3, "LSTM": 7, "RNN": 7}


class DropOutputs(Struct, frozen=True):
    """Removes unused outputs: optional outputs, and outputs of If, Loop and Scan with the ops that compute them."""

    name: str = "drop-outputs"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Look at every op that could have any, outermost first. O(such ops, and the ops in bodies)."""
        changes, work = 0, [graph]
        while work:
            g = work.pop()
            for op in g.ops(*OPTIONAL_OUTPUTS):
                changes += self._leave_out(op, change_log)
            for op in g.ops("If", "Loop", "Scan"):
                changes += self._drop_body_outputs(op, change_log)
            work += [sub for op in g.ops(*SUBGRAPH_OPS) for sub in op.subgraphs]
        return changes

    def _leave_out(self, op: Op, change_log: ChangeLog) -> int:
        live = [v for v in op.outputs if not op.graph.is_unused(v)]
        if op.domain or not live or op.version < RECURRENT_OPTIONAL_SINCE.get(op.type, 1):
            return 0
        places = [i for i in OPTIONAL_OUTPUTS[op.type] if i < len(op.outputs) and op.outputs[i].name]
        unread = [i for i in places if op.graph.is_unused(op.outputs[i])]
        if not unread or not change_log.request_change(self.name, live[0].name, (op,)):
            return 0
        for i in reversed(unread):
            drop_output(op, i)
        return 1

    def _drop_body_outputs(self, op: Op, change_log: ChangeLog) -> int:
        live = [i for i, v in enumerate(op.outputs) if not op.graph.is_unused(v)]
        if op.domain or not live:
            return 0
        place = op.outputs[live[0]].name
        if op.type == "If":
            branches = branches_of(op)
            if (
                branches is None
                or len(live) == len(op.outputs)
                or not change_log.request_change(self.name, place, (op,))
            ):
                return 0
            rebuild_if(op, branches, live, self.name)
            return 1
        iteration = loop_view(op)
        if iteration is None:
            return 0
        parts = iteration.live_parts()
        if parts == iteration.all_parts() or not change_log.request_change(self.name, place, (op,)):
            return 0
        iteration.rebuild_with(parts, self.name)
        return 1
