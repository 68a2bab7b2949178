"""Transforms that cut a model at some of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core import Model
from ...core.run.report import Hint, Report
from ...core.transform.extract import cut_inputs, drop_unused_inputs, keep_outputs, unused_inputs


@dataclass(frozen=True, slots=True)
class KeepOutputs:
    """Makes the values `names` the outputs, in that order; ops that they do not need are removed, inputs stay."""

    names: tuple[str, ...] = ()
    name: str = "keep-outputs"
    option: ClassVar[str] = "--outputs {names}"

    def transform(self, model: Model) -> int:
        """Cut the main graph. O(ops + values). Raises ModelError for a name that cannot be an output."""
        return keep_outputs(model, self.names)


@dataclass(frozen=True, slots=True)
class CutInputs:
    """Makes the values `names` the first inputs, in that order, in place of the ops that compute them.

    Inputs that the outputs still need follow; those that only removed ops read are dropped.
    """

    names: tuple[str, ...] = ()
    name: str = "cut-inputs"
    option: ClassVar[str] = "--cut-inputs {names}"

    def transform(self, model: Model) -> int:
        """Cut the main graph. O(ops + values). Raises ModelError for a name that cannot be an input."""
        return cut_inputs(model, self.names)


@dataclass(frozen=True, slots=True)
class DropUnusedInputs:
    """Drops the inputs that nothing reads."""

    name: str = "drop-unused-inputs"
    option: ClassVar[str] = "--drop-unused-inputs"

    def transform(self, model: Model) -> int:
        """Drop unused inputs of the main graph, after the ops that no output needs. O(ops + inputs)."""
        return drop_unused_inputs(model)

    def hint(self, model: Model, report: Report) -> Hint | None:  # noqa: ARG002 - as hints have
        """The hint for a result that does not read some inputs."""
        count = len(unused_inputs(model.graph))
        reads = "input that nothing reads" if count == 1 else "inputs that nothing reads"
        return Hint(f"{count} {reads}") if count else None
