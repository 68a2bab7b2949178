"""Edits: passes that change a model by definition, before verification takes its reference."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..errors import GraphError, PassesError, PluginError, format_error
from .run_opsets import RunOpsets

if TYPE_CHECKING:
    from ..io.model import Model
    from ..ir.graph import Graph
    from ..rewriting.ledger import Ledger
    from .report import SkippedPass


@runtime_checkable
class Edit(Protocol):
    """A named change of the interface, the names or the values of a model, wanted as such.

    Edits run in order when a model is loaded. The edited model is the original of the run: its interface is preserved,
    and results are compared with its outputs. An edit must be deterministic, as a run loads its model several times.
    """

    @property
    def name(self) -> str:
        """The name on the command line: kebab-case."""
        ...

    def edit(self, model: Model) -> int:
        """Change `model` in place; return the number of changes (0: unchanged). Raises ModelError if it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class EditPass:
    """The place of an edit among passes, in registries and pipelines, from which runs take it before they begin."""

    item: Edit

    @property
    def name(self) -> str:
        """The name of the edit."""
        return self.item.name

    def run(self, graph: Graph, ledger: Ledger) -> int:  # noqa: ARG002 - as passes have
        """Change nothing, since the edit was made when the model was loaded."""
        return 0


def definition(p: object) -> Any:
    """The object that an author wrote: that of an edit, or the pass itself."""
    return p.item if isinstance(p, EditPass) else p


@dataclass(slots=True)
class RequestedEdit:
    """An edit of the models of a run, and the number of its changes to the model that was loaded last.

    `opsets`: the first and the last that `source`, its plugin, supports; None for any. For a model of another it is
    left out, and `unfit` says so.
    """

    item: Edit
    source: str = ""
    opsets: tuple[int, int] | None = None
    changes: int = 0
    unfit: SkippedPass | None = field(default=None, init=False)

    def __call__(self, model: Model) -> None:
        """Edit `model`. Raises ModelError, and PluginError if the edit fails or breaks the graph."""
        name, opset = self.item.name, model.graph.opsets.get("")
        self.unfit = RunOpsets.of(opset).misfit(name, self.source, self.opsets)
        if self.unfit is not None:
            return
        try:
            returned: Any = self.item.edit(model)
        except (PassesError, MemoryError, OSError):
            raise
        except Exception as e:
            raise PluginError(f"edit {name} fails: {format_error(e)}") from e
        try:
            self.changes = index(returned)
        except TypeError:
            message = f"edit {name} returned {reprlib.repr(returned)}, not the number of changes"
            raise PluginError(message) from None
        try:
            model.graph.validate()
        except GraphError as e:
            raise PluginError(f"edit {name} breaks the graph: {e}") from e
