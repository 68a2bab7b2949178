"""A pass that changes the bodies of If, Loop and Scan, and leaves the main graph."""

from __future__ import annotations

from dataclasses import dataclass

from passwright.core import ChangeLog, Graph, Op


@dataclass(frozen=True, slots=True)
class DropDropout:
    """Dropout(x) => x in bodies, where it is not in training."""

    name: str = "drop-dropout-in-bodies"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """One look at each Dropout of a body."""
        return sum(
            self._drop(body, op, change_log)
            for body in graph.with_subgraphs()
            if body.owner is not None
            for op in list(body.ops("Dropout"))
        )

    def _drop(self, body: Graph, op: Op, change_log: ChangeLog) -> bool:
        x, y = op.input(0), op.outputs[0]
        if x is None or len(op.outputs) > 1 or op.input(2) is not None:
            return False
        if not change_log.request_change(self.name, y.name, [op]):
            return False
        body.replace_value(y, x)
        body.discard([op])
        return True


DROP_DROPOUT = DropDropout()
