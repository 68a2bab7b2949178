"""A tool of others as a pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
from google.protobuf.message import DecodeError

from ...core import Graph, Ledger
from ...core.errors import FailureKind, GraphError, InterfaceError, ModelError, PassFailed
from ...core.io.foreign_merge import ForeignMerge, plan_foreign_merge
from ...core.io.interchange import serialize_main_graph
from .tool_process import ToolProcess


@dataclass(frozen=True, slots=True)
class ToolPass:
    """The model goes to the tool, and what comes back takes its place, as one change, which counts as a rounding."""

    name: str
    _process: ToolProcess = field(compare=False)
    _option: str = ""  # of what the tool can do
    _allowed_domains: tuple[str, ...] = ()  # that it may bring in

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Ask the tool. Raises PassFailed if it fails, or gives back what cannot be taken."""
        if not ledger.may_change(self.name, "", exact=False):
            return 0
        answer = self._process.run(serialize_main_graph(graph), self._option)
        if answer.why is not None:
            raise PassFailed(self.name, answer.why, f"{self.name}: {answer.message}")
        found = plan_merge(self.name, graph, answer.model, self._allowed_domains)
        if found.is_no_op or not ledger.request_change(self.name, "", found.removed_ops, exact=False):
            return 0
        found.apply(self.name)
        return 1


def plan_merge(
    name: str, graph: Graph, returned: bytes | onnx.ModelProto, domains: tuple[str, ...] | None
) -> ForeignMerge:
    """The changes of the answer to `graph`. Raises PassFailed if it cannot be taken."""
    try:
        model = onnx.ModelProto.FromString(returned) if isinstance(returned, bytes) else returned
        return plan_foreign_merge(graph, model, domains)
    except InterfaceError as e:
        raise PassFailed(name, FailureKind.INTERFACE, f"{name}: {e}") from e
    except (ModelError, GraphError, DecodeError) as e:
        raise PassFailed(name, FailureKind.RAISED, f"{name}: what it gave back is no model: {e}") from e
