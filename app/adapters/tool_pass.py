"""A tool of others as a pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
from google.protobuf.message import DecodeError

from ...core import Graph, Ledger
from ...core.errors import GraphError, InterfaceError, ModelError, PassFailed, Why
from ...core.io.foreign_merge import Arrival, arrival
from ...core.io.interchange import outgoing
from .tool_process import Servant


@dataclass(frozen=True, slots=True)
class Foreign:
    """The model goes to the tool, and what comes back takes its place, as one change, which counts as a rounding."""

    name: str
    _servant: Servant = field(compare=False)
    _part: str = ""  # of what the tool can do
    _domains: tuple[str, ...] = ()  # that it may bring in

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Ask the tool. Raises PassFailed if it fails, or gives back what cannot be taken."""
        if not ledger.allows(self.name, "", exact=False):
            return 0
        answer = self._servant.answer(outgoing(graph), self._part)
        if answer.why is not None:
            raise PassFailed(self.name, answer.why, f"{self.name}: {answer.message}")
        found = arrived(self.name, graph, answer.model, self._domains)
        if found.is_same or not ledger.permits(self.name, "", found.removed, exact=False):
            return 0
        found.take(self.name)
        return 1


def arrived(name: str, graph: Graph, answer: bytes | onnx.ModelProto, domains: tuple[str, ...] | None) -> Arrival:
    """What the answer would change in `graph`. Raises PassFailed if it cannot be taken."""
    try:
        model = onnx.ModelProto.FromString(answer) if isinstance(answer, bytes) else answer
        return arrival(graph, model, domains)
    except InterfaceError as e:
        raise PassFailed(name, Why.INTERFACE, f"{name}: {e}") from e
    except (ModelError, GraphError, DecodeError) as e:
        raise PassFailed(name, Why.RAISED, f"{name}: what it gave back is no model: {e}") from e
