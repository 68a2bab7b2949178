"""Races of the results of a run against its original, in onnxruntime under ORT ALL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...core.errors import UnverifiableError
from ...core.io.model_source import ModelSource
from ...core.run.phase_timer import CHOOSING_INPUTS, MEASURING, PhaseTimer
from ...core.run.report import PipelineRace, SpeedCheck
from ...core.support.scratch_folder import ScratchFolder
from ..measure import benchmark
from ..measure.feeds import Feeds, make_feeds
from ..measure.metrics import latency_ratios
from .run_options import RunOptions


@dataclass(slots=True)
class SpeedRaces:
    """The races of the results of one run, all with the inputs of the first and the same number of threads."""

    source: ModelSource
    options: RunOptions
    timer: PhaseTimer
    races: list[PipelineRace] = field(default_factory=list[PipelineRace], init=False)
    threads: int = field(default=0, init=False)
    _feeds: Feeds | None = field(default=None, init=False)

    @property
    def has_lost(self) -> bool:
        """Whether the last result was slower than the original."""
        return bool(self.races) and self.races[-1].is_lost

    def is_accepted(self, pipeline: str, result: Path) -> bool:
        """Race the result of a pipeline; return whether it is not slower than the original, within the interval.

        If no inputs can be found on which the original runs, there is no race, and the result is accepted.
        """
        race = self._race(pipeline, result)
        self.races.append(race)
        return not race.is_lost

    def speed_check(self) -> SpeedCheck:
        """The races so far, for the report."""
        sizes = self._feeds.sizes if self._feeds is not None else {}
        return SpeedCheck(self.races, self.threads, sizes)

    def _race(self, pipeline: str, result: Path) -> PipelineRace:
        inputs, seed = self.options.inputs, self.options.seed  # a single sample, unless inputs are given
        try:
            with self.timer.phase(CHOOSING_INPUTS):
                batches = () if inputs is not None else (1,)
                self._feeds = self._feeds or make_feeds(self.source, inputs, batches, seed=seed)
        except UnverifiableError as e:
            return PipelineRace(pipeline, failure=f"no inputs to measure with: {e}")
        effort = benchmark.BenchmarkConfig(self.options.min_time, seed=seed)
        with self.timer.phase(MEASURING), ScratchFolder() as folder:
            models, progress = (self.source.loadable_file(folder), result), self.timer.progress
            original, ours = benchmark.race(models, self._feeds.by_batch, self.options.threads, effort, progress)
        if original.failure:
            return PipelineRace(pipeline, failure=f"the original does not run under ORT ALL: {original.failure}")
        if ours.failure:
            return PipelineRace(pipeline, failure=f"it does not run under ORT ALL: {ours.failure}", is_lost=True)
        self.threads = ours.threads
        (ratio,) = latency_ratios(ours, original).values()
        return PipelineRace(pipeline, ratio, is_lost=ratio.low > 1)
