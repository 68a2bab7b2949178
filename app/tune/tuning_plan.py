"""Stages of a search: models, then sessions, each with the choices of those before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ...core.ort.kernels import highest_opset_of_onnxruntime
from ...core.ort.value_files import write_value
from ..bisect.ort_optimizers import modifying_optimizers
from ..measure import benchmark
from ..measure.execution_provider import parse_provider
from ..measure.tuned_settings import ORIGINAL, Configuration
from .decisions import (
    installed_providers,
    opset_choices,
    optimizer_choices,
    pipeline_choices,
    rule_choices,
    session_choices,
)
from .racing import Racing
from .search import TuningSearch
from .tune_options import TuneOptions
from .tuned_models import TunedModels

ROUNDS = 2  # of models and sessions: another model may be better in the session that was found


@dataclass
class TuningPlan:
    """The stages of a search: models, then sessions, each with the choices of those before, in rounds."""

    options: TuneOptions
    models: TunedModels
    racing: Racing
    search: TuningSearch
    folder: Path
    opset: int

    def run(self) -> None:
        """Search until a limit is reached, or a round finds nothing new; stages that usually gain most come first."""
        search = self.search
        for _ in range(ROUNDS):
            before = dict(search.chosen)
            self._decide_pipelines()
            if self.search.objective.goal != "size":
                self._decide_sessions()
            if not search.incumbent.recipe.scheme:
                self._decide_rules()
            self.models.keep({search.incumbent.recipe, *(search.configuration(c).recipe for c in search.history)})
            if self.search.objective.goal != "size":
                search.decide("optimizers", optimizer_choices(self._modifying_optimizers(search.incumbent)))
            if search.chosen == before or search.is_exhausted:
                return

    def _decide_pipelines(self) -> None:
        """Pipelines, and schemes of quantization."""
        search = self.search
        search.decide(
            "pipelines", pipeline_choices([p for p in self.options.pipelines if p != ORIGINAL], self.options.schemes)
        )

    def _decide_rules(self) -> None:
        """Opsets and rules of the best pipeline."""
        search = self.search
        report = self.models.get(search.incumbent.recipe).report
        made = report.after.opset if report is not None else self.opset
        search.decide("opsets", opset_choices(self.opset, made, highest_opset_of_onnxruntime()))
        report = self.models.get(search.incumbent.recipe).report
        if report is not None and search.incumbent.recipe.pipeline != ORIGINAL:
            search.decide("rules", rule_choices(report))

    def _decide_sessions(self) -> None:
        """Settings of onnxruntime."""
        options, search = self.options, self.search
        providers = installed_providers()
        if options.providers is not None:
            providers = [parse_provider(text) for text in options.providers]
        is_concurrent = search.objective.goal == "throughput"
        search.decide("sessions", session_choices(options.cores, providers, is_concurrent=is_concurrent))

    def _modifying_optimizers(self, configuration: Configuration) -> list[str]:
        """The optimizers of onnxruntime that change the model as it is loaded; none if it does not load."""
        folder = self.folder / "optimizers"
        feeds = self.folder / "optimizers-feeds"
        if not feeds.exists():
            write_value(dict(self.racing.workloads[0].feeds), feeds)
        worker = benchmark.WorkerProxy(folder)
        try:
            worker.load(
                self.models.get(configuration.recipe).path, replace(configuration.session, verbose=True), {0: feeds}
            )
        except benchmark.MeasurementFailed:
            return []
        finally:
            worker.terminate()
        with (folder / "log").open(encoding="utf-8", errors="replace") as lines:
            return modifying_optimizers(lines)
