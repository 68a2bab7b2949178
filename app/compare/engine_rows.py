"""Rows of a comparison for other engines than onnxruntime: is each model right there, and how long does it take?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import PassesError, format_error
from ...core.io.model_source import ModelSource, model_source
from ...core.ort.sessions import SessionConfig
from ...core.run.phase_timer import PhaseTimer
from ...core.verify.verification_spec import VerificationSpec
from ..measure.metrics import ModelMetrics, latency_ratios
from ..verify.accuracy_loss import measure_loss
from ..verify.verify_options import DEFAULT_BUDGET, VerifyOptions
from .comparison_report import ComparisonVerdict, EngineRow
from .rows import RowVerifier
from .tool_runs import OptimizerOutput


class EngineRuns(Struct, frozen=True):
    """The verification of models in other engines, under their `configs`, beside the `original`."""

    configs: Sequence[SessionConfig]
    original: ModelSource
    verifier: RowVerifier
    spec: VerificationSpec | None
    timer: PhaseTimer
    seed: int

    def rows(self, outputs: Sequence[OptimizerOutput]) -> Iterator[tuple[EngineRow, SessionConfig]]:
        """A row for each model that was made, and each engine and precision."""
        for output in outputs:
            for config in self.configs if not output.row.failure else ():
                self.timer.progress(f"verifying {output.row.made_by} in {config.engine_name}")
                row = EngineRow(output.row.made_by, config.engine_name, config.precision)
                try:
                    yield self._verified(row, output, config), config
                except PassesError as e:
                    yield replace(row, failure=format_error(e)), config

    def _verified(self, row: EngineRow, output: OptimizerOutput, config: SessionConfig) -> EngineRow:
        if config.is_lossy and self.spec is not None:
            options = VerifyOptions(budget=DEFAULT_BUDGET, seed=self.seed, effort="quick")
            model = model_source(output.file, inline=False)
            loss, precision = measure_loss(self.original, model, self.spec, options, self.timer, config)
            text = f"{loss.outcome}: {loss.figure_text}"
            return replace(row, precision=precision, verdict=text, is_wrong=not loss.is_within)
        failure, verdict = self.verifier.verify_file(output.file, config)
        wrong = verdict.wrong if verdict is not None else ""
        return replace(row, failure=failure, verdict=_words(verdict), is_wrong=bool(wrong))


def _words(verdict: ComparisonVerdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.wrong:
        return f"wrong: {verdict.wrong}"
    text = "no difference seen" if verdict.is_exact else f"within tolerance ({verdict.share or 0:.0%} of it)"
    return f"{text} where {' and '.join(verdict.limits)}" if verdict.limits else text


def with_measurements(
    rows: Sequence[EngineRow], measured: Sequence[ModelMetrics], baseline: ModelMetrics | None
) -> list[EngineRow]:
    """The rows with what was measured of each that has no failure, if anything was; ratios are to the `baseline`."""
    left = iter(measured)
    return [row if row.failure else _with_metrics(row, next(left, None), baseline) for row in rows]


def _with_metrics(row: EngineRow, found: ModelMetrics | None, baseline: ModelMetrics | None) -> EngineRow:
    if found is None or found.failure:
        return row if found is None else replace(row, failure=found.failure)
    return replace(row, measured=found, precision=found.precision, ratios=latency_ratios(found, baseline))
