"""Options of `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...core.ort.engines import parse_engine
from ...core.verify.effort import Effort
from ..options import (
    ENGINES,
    BudgetOptions,
    InputOptions,
    KernelPluginOptions,
    LimitOptions,
    PageOptions,
    ReportOptions,
    SeedOptions,
    ShapeOptions,
    TunedSessionOptions,
    criterion_option,
    effort_option,
    parse_effort,
    require,
    verification_option,
)

DEFAULT_BUDGET = "1%"
"""The loss allowed to an engine in another precision than the model's."""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(
    PageOptions,
    LimitOptions,
    KernelPluginOptions,
    SeedOptions,
    ShapeOptions,
    TunedSessionOptions,
    BudgetOptions,
    InputOptions,
    ReportOptions,
):
    """The parameters of `verify` except the models, as documented there."""

    engine: str | None = verification_option(
        None,
        "Engine whose outputs are compared: openvino, openvino:bf16, onnxruntime (with its optimizations), or an "
        "engine of a plugin.",
        "NAME",
        completes=(ENGINES,),
    )
    exact: bool = verification_option(False, "Require bit-identical outputs.", is_own=True)
    effort: Effort = effort_option("default", parse=parse_effort)
    budget: str | None = criterion_option(
        None,
        "Accept a model that differs on purpose, such as a quantized one, with at most this accuracy loss: 1% or "
        "0.5pt.",
        "LOSS",
    )
    prove: bool = verification_option(False, "Also prove the regions in which the models differ.", is_own=True)

    def __post_init__(self) -> None:
        """Raise UsageError for a malformed budget, and for options that contradict each other."""
        super().__post_init__()
        self.require_no_session(engine=self.engine)
        named = "--engine" if self.engine is not None else "--settings" if self.settings is not None else ""
        require(not (self.prove and named), f"give only one of --prove and {named}")
        is_lossy = self.engine is not None and parse_engine(self.engine).is_lossy
        if self.settings is not None:
            from ..measure.tuned_settings import read_tuned_settings  # noqa: PLC0415 - imports onnx

            tuned = read_tuned_settings(Path(self.settings))
            is_lossy = bool(tuned.run.scheme) or tuned.session.config().is_lossy
        if self.budget is None and is_lossy:
            object.__setattr__(self, "budget", DEFAULT_BUDGET)
        self.require_budget_for()
        if self.budget is not None:
            from ..measure.criterion import Budget  # noqa: PLC0415 - imports onnx
            from ..measure.ready_metrics import require_labels_for  # noqa: PLC0415 - imports numpy

            Budget.parse(self.budget)
            if self.labelled is None:
                require_labels_for(self.metric)
            has_one = self.labelled is None or self.inputs is None
            require(has_one, "give only one of --inputs and --labelled")
            for name in ("exact", "prove", "memory"):
                require(not getattr(self, name), f"give only one of --{name} and --budget")
