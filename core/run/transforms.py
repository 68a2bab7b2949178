"""Transforms: passes that intentionally change a model before verification records its reference; supported opsets."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from ..errors import GraphError, PassesError, PluginError, plugin_failures

if TYPE_CHECKING:
    from ..io.model import Model
    from ..ir.graph import Graph
    from ..rewriting.change_log import ChangeLog


@runtime_checkable
class ModelTransform(Protocol):
    """A named, requested change of a model's interface, names or values.

    Transforms run in order when a model is loaded. The transformed model is the original of the run: its interface is
    preserved, and results are compared with its outputs. A transform must be deterministic, because a run loads its
    model several times.

    Examples:
        >>> class ScaleInput:
        ...     "The input x is divided by 255."
        ...     name = "scale-input"
        ...     def transform(self, model: Model) -> int:
        ...         (x,) = model.graph.inputs
        ...         readers = list(x.consumers)
        ...         scaled = RewriteBuilder(model.graph, readers[0]).Div(x, 255.0)
        ...         for op in readers:
        ...             model.graph.set_inputs(op, [scaled if v is x else v for v in op.inputs])
        ...         return 1
        >>> transform: ModelTransform = ScaleInput()
        >>> found = optimize(model, plugin=[transform], enable=["scale-input"], verify=False)
        >>> [node.op_type for node in found.model.graph.node][0]
        'Div'
    """

    @property
    def name(self) -> str:
        """The name on the command line: kebab-case."""
        ...

    def transform(self, model: Model) -> int:
        """Change `model` in place; return the number of changes (0: unchanged). Raises ModelError if it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class TransformPass:
    """Represents a transform among passes, in registries and pipelines; runs apply it before they begin."""

    item: ModelTransform

    @property
    def name(self) -> str:
        """The name of the transform."""
        return self.item.name

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - as passes have
        """Change nothing, because the transform was applied when the model was loaded."""
        return 0


def definition(p: object) -> Any:
    """The object that an author wrote: the transform, or the pass itself."""
    return p.item if isinstance(p, TransformPass) else p


class SkippedPass(Struct, frozen=True):
    """A pass that did not run because it does not fit the model, and the reason."""

    pass_name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pass_name} skipped: {self.reason}"


class RunOpsets(Struct, frozen=True):
    """The standard opsets that a model has successively, empty if it imports none, and a description."""

    opsets: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, opset: int | None) -> Self:
        """The opset of a model that is not converted."""
        return cls((), "imports no standard one") if opset is None else cls((opset,), f"has {opset}")

    def then(self, opset: int, words: str, *, is_first: bool = False) -> Self:
        """Add a conversion to another opset; `is_first`: before anything else."""
        return replace(self, opsets=(opset,) if is_first else (*self.opsets, opset), text=f"{self.text} and is {words}")

    def misfit(self, name: str, source: str, supported: tuple[int, int] | None) -> SkippedPass | None:
        """The pass `name` of the plugin `source` as left out, unless it supports all of them.

        `supported`: the first and the last opset, None for any.
        """
        if supported is None or (self.opsets and all(supported[0] <= o <= supported[1] for o in self.opsets)):
            return None
        first, last = supported
        return SkippedPass(name, f"{source} supports opsets {first} to {last}, the model {self.text}")


@dataclass(slots=True)
class RequestedTransform:
    """A transform of the models of a run, and the number of its changes to the model that was loaded last.

    `opsets`: the first and the last that `source`, its plugin, supports; None for any. For a model of another it is
    left out, and `unfit` says so.
    """

    item: ModelTransform
    source: str = ""
    opsets: tuple[int, int] | None = None
    changes: int = 0
    unfit: SkippedPass | None = field(default=None, init=False)

    def __call__(self, model: Model) -> None:
        """Transform `model`. Raises ModelError, and PluginError if the transform fails or breaks the graph."""
        name, opset = self.item.name, model.graph.opsets.get("")
        self.unfit = RunOpsets.of(opset).misfit(name, self.source, self.opsets)
        if self.unfit is not None:
            return
        with plugin_failures(f"transform {name} fails", PassesError, MemoryError):
            returned: Any = self.item.transform(model)
            try:
                self.changes = index(returned)
            except TypeError:
                message = f"transform {name} returned {reprlib.repr(returned)}, not the number of changes"
                raise PluginError(message) from None
        try:
            model.graph.validate()
        except GraphError as e:
            raise PluginError(f"transform {name} breaks the graph: {e}") from e
