"""The report of `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from ...core.ort.engines import SINGLE
from ...core.proof.region_proofs import RegionProofs
from ...core.support.printable_text import json_text
from ...core.verify.verdict import Verdict
from ..report.notebook import report_card, report_line
from ..report.number_text import with_version
from ..report.result_row import UNVERIFIABLE, VERIFIED, WRONG, ResultRow, verdict_columns

if TYPE_CHECKING:
    from .accuracy_loss import AccuracyLoss


@dataclass(slots=True)
class VerificationReport:
    """The comparison of a model with the original.

    Attributes:
        interface_differences: differences of the interfaces, in words; `obstacle` says why they prevent a comparison.
        verdict: the comparison of values; None if there was none, and with a budget.
        accuracy: the loss of accuracy, with a budget.
        proofs: proofs of the changed regions, if requested.
        has_narrower_constants: some constants have 16 bits or fewer, with a type that no constant of the original has.
        engine: the engine that ran the other model, "" for the engine of the original; `precision` is the one it used.
        wrong_op: the first op that is wrong in that engine given correct inputs, or ops that are wrong only together.
        seconds: times by phase.

    Examples:
        >>> report = verify("model.onnx", optimize("model.onnx").model)
        >>> report.interface_differences
        []
    """

    original: str
    other: str
    interface_differences: list[str]
    verdict: Verdict | None
    accuracy: AccuracyLoss | None = None
    proofs: RegionProofs | None = None
    obstacle: str = ""
    has_narrower_constants: bool = False
    engine: str = ""
    precision: str = SINGLE
    wrong_op: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def engine_text(self) -> str:
        """The engine that ran the other model, with its version and precision; "" for the engine of the original."""
        name = self.engine.partition(":")[0]
        return f"{with_version(name, self.versions)} ({self.precision})" if self.engine else ""

    @property
    def agrees(self) -> bool:
        """Whether the interfaces and the outputs of the models agree."""
        return not self.interface_differences and self.has_equal_values

    def __bool__(self) -> bool:
        """Whether the models agree."""
        return self.agrees

    @property
    def is_refused(self) -> bool:
        """Whether the engine cannot load the model."""
        failure = self.verdict.failure if self.verdict is not None else None
        return bool(self.engine) and failure is not None and failure.input_set is None

    @property
    def has_equal_values(self) -> bool:
        """Whether the outputs of both models agree or, with a budget, whether the loss is within it."""
        if self.accuracy is not None:
            return self.accuracy.is_within
        return self.verdict is not None and self.verdict.failure is None

    @property
    def columns(self) -> ResultRow:
        """The columns for tables; the error is the difference."""
        failure = self.verdict.failure if self.verdict is not None else None
        reasons = [*self.interface_differences, *([] if failure is None else [failure.describe("it")])]
        columns, outcome = verdict_columns(self.verdict), UNVERIFIABLE if self.is_refused else WRONG
        if self.accuracy is not None:
            columns: ResultRow = {"verdict": self.accuracy.outcome}
            reasons += [] if self.accuracy.is_within else [self.accuracy.figure_text]
        return {"outcome": VERIFIED if self.agrees else outcome, **columns, "error": "; ".join(reasons) or None}

    def to_json(self) -> str:
        """The comparison as JSON text."""
        verdict = None if self.verdict is None else self.verdict.to_data()
        data = to_builtins(replace(self, verdict=None, accuracy=None, proofs=None))
        data |= {"agrees": self.agrees, "verdict": verdict}
        data["accuracy"] = None if self.accuracy is None else self.accuracy.to_data()
        data["proofs"] = None if self.proofs is None else self.proofs.to_data()
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card
