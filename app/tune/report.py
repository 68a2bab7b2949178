"""Reports of searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Struct, to_builtins

from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ...core.verify.verdict import Verdict
from ..measure.metrics import NOTED_WAITS
from ..measure.tuned_settings import Configuration, SessionSettings, settings_words
from ..report.notebook import report_card, report_line
from ..report.result_row import KEPT, TUNED, ResultRow, latency_columns, verdict_columns
from .objective import Objective
from .racing import LIMITED, RaceEntry
from .search import DecisionResult, RaceTrial


class TimingNoise(Struct, frozen=True):
    """Races of a model against itself: their number, how many found a busy machine, and the greatest factor.

    The intervals of a race are widened by its factor; it is 1 on a quiet machine. `waited` is the largest share of the
    time that processes of a race waited for a core.
    """

    races: int = 0
    busy: int = 0
    factor: float = 1.0
    waited: float = 0.0

    def __str__(self) -> str:
        seen = list[str]()
        if self.busy:
            seen.append(
                f"in {self.busy} of {self.races} races a model differed from itself, by up to a factor of "
                f"{self.factor:.2f}; their intervals are widened by this"
            )
        if self.waited > NOTED_WAITS:
            seen.append(f"in one race the processes waited {self.waited:.0%} of the time for a core")
        return f"the machine is busy: {'; '.join(seen)}; run it again on a quiet machine" if seen else ""


@dataclass(slots=True)
class TuneReport:
    """The outcome: the `configuration` of the result, or of `start` if nothing was significantly better.

    Attributes:
        original, result: figures of the last race, in fresh processes. `result` has the `ratio` of the objective and
            the `time` of a call, relative to the original with the defaults of onnxruntime.
        decisions: the decisions, with the gain of each.
        verdict: the comparison of the result in its session with the unoptimized original; None for the original and
            for a quantized model, whose accuracy is in the `notes`, and whose full scheme is `scheme`.
        sizes: descriptions of the input sizes.
        unfinished: for what the time was too short, so that the original is the result; "" if it was not.

    Examples:
        >>> report = tune("model.onnx", trials=1, min_time=0.01, threads=1, dim={"N": [1]}).report
        >>> report.objective.quantile
        'p50'
    """

    source: str
    objective: Objective
    start: Configuration
    configuration: Configuration
    original: RaceEntry
    result: RaceEntry
    decisions: list[DecisionResult]
    trials: list[RaceTrial]
    sizes: list[str]
    verdict: Verdict | None
    noise: TimingNoise
    notes: list[str]
    machine: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    written_to: list[str] = field(default_factory=list[str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    scheme: str = ""
    unfinished: str = ""

    @property
    def is_original(self) -> bool:
        """Whether nothing was significantly better than the original with the defaults of onnxruntime."""
        return self.configuration == self.start

    @property
    def is_undecided(self) -> bool:
        """Whether the time limit decided that the original is the result."""
        is_cut = any(t.outcome == LIMITED for t in self.trials) and all(t.raced is None for t in self.trials)
        return self.is_original and (is_cut or bool(self.unfinished))

    @property
    def ratio(self) -> RatioInterval | None:
        """The objective of the result divided by the original's."""
        return self.result.ratio if not self.is_original else None

    @property
    def words(self) -> list[str]:
        """The result in words: the model, and its session settings other than the defaults."""
        recipe, callers = self.configuration.recipe, self.configuration.callers
        model = f"quantized, {self.scheme}" if recipe.scheme else f"pipeline {recipe.pipeline}"
        made = ["the original" if recipe.is_original else model]
        made += [f"without {', '.join(recipe.skip)}"] if recipe.skip else []
        made += [f"with {', '.join(recipe.enable)}"] if recipe.enable else []
        made += [f"opset {recipe.opset}"] if recipe.opset is not None else []
        return [*made, *settings_words(self.configuration.session), *([f"{callers} callers"] if callers > 1 else [])]

    @property
    def columns(self) -> ResultRow:
        """The columns for tables."""
        recipe = self.configuration.recipe
        return {
            "outcome": KEPT if self.is_original else TUNED,
            "scheme": None if self.is_original else self.scheme or recipe.pipeline,
            "bytes_before": self.original.bytes,
            "bytes_after": self.result.bytes,
            **verdict_columns(self.verdict),
            **latency_columns([] if self.is_original else [self.result.time, self.result.ratio]),
        }

    def measured(self) -> Mapping[str, Any]:
        """The figures for a settings file."""
        return {
            "for": self.objective.goal,
            "quantile": self.objective.quantile,
            "sizes": self.sizes,
            "ratio": None if self.ratio is None else to_builtins(self.ratio),
            "seconds": self.result.seconds,
            "machine": self.machine,
            "versions": self.versions,
        }

    def to_json(self) -> str:
        """The report as JSON text; times in seconds."""
        data = to_builtins(replace(self, verdict=None))
        data["verdict"] = None if self.verdict is None else self.verdict.to_data()
        for name, configuration in (("start", self.start), ("configuration", self.configuration)):
            data[name]["session"] = to_builtins(SessionSettings.of(configuration.session))
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card
