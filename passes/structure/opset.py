"""The opset of the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...core import ChangeLog, Graph, Model
from ...core.errors import MatchFailure, ModelError, UnverifiableError, UsageError
from ...core.ir.op_schemas import ONNX_DOMAIN, latest_opset_version
from ...core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from ...core.run.report import Hint, Report

if TYPE_CHECKING:
    from ...core.transform.opset_conversion import OpsetConversion


@dataclass(frozen=True, slots=True)
class RaiseOpset:
    """The model is converted to a higher opset: `to`, or the highest below it that each operator can be converted to.

    0: the highest at which the installed onnxruntime runs each op of the model, on the CPU and as fast as before.
    """

    to: int = 0
    name: str = "raise-opset"

    def __post_init__(self) -> None:
        """Raise UsageError for an opset that the installed onnx does not know."""
        _require_opset(self.to)

    @property
    def highest(self) -> int:
        """The highest opset to which it may convert a model."""
        return self.to or highest_opset_of_onnxruntime()

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Convert the whole model in one change. O(ops)."""
        plan = self._plan(graph, exact=change_log.exact_only)
        is_there = plan.version == graph.opsets.get(ONNX_DOMAIN, plan.version)
        return 0 if is_there else _convert(graph, plan, self.name, change_log)

    def remarks(self, graph: Graph, *, exact_only: bool) -> list[str]:
        """The reason why the opset of a graph is not higher, for `passes explain`."""
        obstacle = self._plan(graph, exact=exact_only).obstacle
        return [obstacle] if obstacle else []

    def _plan(self, graph: Graph, *, exact: bool) -> OpsetConversion:
        from ...core.transform.opset_conversion import plan_highest_conversion  # noqa: PLC0415 - few runs convert

        runs = graph.context.runs or (None if self.to else runs_on_cpu)
        return plan_highest_conversion(graph, self.highest, runs, same_kernels=exact or not self.to)


@dataclass(frozen=True, slots=True)
class ConvertOpset:
    """The model is converted to opset `to`, higher or lower; the run ends with an error where that is not possible.

    0: the highest that the installed onnxruntime runs. `for_onnxruntime`: what ran in it before has to run then, too.
    """

    to: int = 0
    for_onnxruntime: bool = True
    name: str = "convert-opset"
    option: ClassVar[str] = "--opset {to}"

    def __post_init__(self) -> None:
        """Raise UsageError for an opset that the installed onnx does not know."""
        _require_opset(self.to)

    @property
    def opset(self) -> int:
        """The opset to which it converts a model."""
        return self.to or highest_opset_of_onnxruntime()

    def hint(self, model: Model, report: Report) -> Hint | None:  # noqa: ARG002 - as hints have
        """The hint for a result into which a later opset would bring operators."""
        if not report.missing_operators:
            return None
        counts = Counter[str]()
        for m in report.missing_operators:
            counts[m.op_type] += m.places
        since = max(m.since for m in report.missing_operators)
        texts = ", ".join(f"{count} {op_type}" for op_type, count in counts.items())
        return Hint(f"at opset {since}, more ops could be fused ({texts})", {"to": str(since)})

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Convert the whole model in one change. O(ops).

        Raises ModelError for an op that cannot be converted, UnverifiableError for one that would not run.
        """
        if graph.opsets.get(ONNX_DOMAIN) == self.opset:
            return 0
        return _convert(graph, self._plan(graph, exact=change_log.exact_only), self.name, change_log)

    def _plan(self, graph: Graph, *, exact: bool) -> OpsetConversion:
        from ...core.transform.opset_conversion import MissingKernel, plan_conversion, plan_highest_conversion  # noqa: PLC0415 - few runs convert

        version = self.opset
        if self.for_onnxruntime and version > (newest := highest_opset_of_onnxruntime()):
            raise UnverifiableError(
                f"opset {version} is above {newest}, the highest that the installed onnxruntime runs: "
                "nothing could be verified (--no-verify converts without)"
            )
        runs = graph.context.runs or (runs_on_cpu if self.for_onnxruntime else None)
        try:
            return plan_conversion(graph, version, runs, same_kernels=exact)
        except MatchFailure as e:
            reason = f"opset {version} is not possible: {e}"
            reached = plan_highest_conversion(graph, version, runs, same_kernels=exact).version
            if graph.opsets.get(ONNX_DOMAIN, version) < reached:
                reason += f"; {reached} is"
            if isinstance(e, MissingKernel):
                raise UnverifiableError(f"{reason} (--no-verify converts what onnxruntime does not run)") from e
            raise ModelError(reason) from e


def _convert(graph: Graph, plan: OpsetConversion, by: str, change_log: ChangeLog) -> int:
    if not change_log.request_change(by, "", tuple(plan.replacements), exact=plan.is_exact):
        return 0
    plan.apply(graph, by)
    return 1


def _require_opset(version: int) -> None:
    """Raise UsageError for an opset that the installed onnx does not know; 0 is allowed."""
    newest = latest_opset_version(ONNX_DOMAIN)
    if not 0 <= version <= newest:
        raise UsageError(f"{version} is not an opset: the installed onnx knows 1 to {newest}")
