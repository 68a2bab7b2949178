"""The opset of the model."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Graph, Ledger
from ...core.ir.op_schemas import ONNX_DOMAIN, latest_opset_version
from ...core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from ...core.pass_manager.pass_selection import UsageError
from ...core.transform.opset_conversion import OpsetConversion, plan_highest_conversion


@dataclass(frozen=True, slots=True)
class RaiseOpset:
    """The model is converted to a higher opset: `to`, or the highest below it that each operator can be converted to.

    0: the highest at which the installed onnxruntime runs each op of the model, on the CPU and as fast as before.
    """

    to: int = 0
    name: str = "raise-opset"

    def __post_init__(self) -> None:
        """Raise UsageError for an opset that the installed onnx does not know."""
        newest = latest_opset_version(ONNX_DOMAIN)
        if not 0 <= self.to <= newest:
            raise UsageError(f"to={self.to} is not an opset: the installed onnx knows 1 to {newest}")

    @property
    def highest(self) -> int:
        """The highest opset to which it may convert a model."""
        return self.to or highest_opset_of_onnxruntime()

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """Convert the whole model in one change. O(ops)."""
        plan = self._plan(graph, exact=ledger.exact_only)
        if plan.version == graph.opsets.get(ONNX_DOMAIN, plan.version):
            return 0
        if not ledger.request_change(self.name, "", tuple(plan.replacements), exact=plan.is_exact):
            return 0
        plan.apply(graph, self.name)
        return 1

    def remarks(self, graph: Graph, *, exact_only: bool) -> list[str]:
        """The reason why the opset of a graph is not higher, for `passes explain`."""
        obstacle = self._plan(graph, exact=exact_only).obstacle
        return [obstacle] if obstacle else []

    def _plan(self, graph: Graph, *, exact: bool) -> OpsetConversion:
        runs = graph.context.runs or (None if self.to else runs_on_cpu)
        return plan_highest_conversion(graph, self.highest, runs, same_kernels=exact or not self.to)
