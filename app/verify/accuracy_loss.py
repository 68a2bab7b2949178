"""Accuracy losses of models that intentionally differ from the original, compared with a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...core.errors import EvaluationError, ModelError, format_error
from ...core.io.model_source import ModelSource
from ...core.operators.effects import uses_16_bit_floats
from ...core.ort.engines import SINGLE
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import AS_USERS_RUN, UNOPTIMIZED, SessionConfig
from ...core.processes.watchdog import wanted_end
from ...core.run.phase_timer import COMPARING, PhaseTimer
from ...core.verify.input_specs import input_specs
from ...core.verify.oracle import COMPARISON_SECONDS
from ...core.verify.run_budgets import TimeBudget
from ...core.verify.verdict import UNSEEN_OVERFLOW
from ...core.verify.verification_spec import VerificationSpec
from ..measure.accuracy import LabelledSet
from ..measure.agreement import (
    AGREEMENT,
    INTERVAL,
    Agreement,
    OutputFigures,
    OutputUses,
    Score,
    decibels,
    has_scores,
    score_text,
)
from ..measure.criterion import LEAST_SNR, Budget, Feeds, LabelledPart, allows_agreement
from ..measure.feeds import drawn_feeds
from ..report.number_text import plural
from .verify_options import VerifyOptions

DRAWN_SAMPLES = MappingProxyType({"quick": 32, "default": 128, "thorough": 512})
"""The number of samples to draw, by effort; with 128, a budget of 1 % allows one sample to change its class."""
TIME_SHARE = 0.8  # of the command's remaining time
Result = TypeVar("Result")


class AccuracyLoss(Struct, frozen=True):
    """The accuracy loss of a model relative to the original, and whether it `is_within` the `budget`.

    `figure` is the name of the score, `reference` the value of the original. `outputs` has the figures of each output
    on the `samples`, which is a description.
    """

    budget: str
    figure: str
    reference: float
    score: Score
    is_within: bool
    samples: str
    outputs: dict[str, OutputFigures]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the loss is within the budget."""
        return self.is_within

    @property
    def outcome(self) -> str:
        """Whether the loss is within the budget, in words."""
        return f"{'within' if self.is_within else 'over'} the budget of {self.budget}"

    @property
    def figure_text(self) -> str:
        """The figure of the model with its loss, or why the model does not run."""
        score, unit = self.score, " dB" * self.figure.endswith(" (dB)")
        if score.failure:
            return f"the model does not run: {score.failure}"
        text = f"{self.figure.removesuffix(' (dB)')} {score_text(self.figure, score)}{unit}"
        if not isfinite(score.figure):
            text = "no difference" if score.figure > 0 else "unbounded noise"
        if isfinite(self.reference) and self.reference != 1:
            text += f" instead of {self.reference:.4g}"
        if share := score.loss_text(self.budget, INTERVAL):
            is_noise = bool(unit) and decibels(score.loss) == score.figure
            text += f", noise {share} of the signal" if is_noise else f", a loss of {share}"
        if self.figure == AGREEMENT and score.snr is not None and score.snr < LEAST_SNR:
            text += f", and SNR {score.snr:.1f} dB ({LEAST_SNR:g} is the least)"
        return text

    def to_data(self) -> dict[str, Any]:
        """The loss as data for JSON."""
        outputs = {name: figures.to_data() for name, figures in self.outputs.items()}
        return to_builtins(replace(self, outputs={})) | {"outputs": outputs}


def measure_loss(
    original: ModelSource,
    other: ModelSource,
    spec: VerificationSpec,
    options: VerifyOptions,
    timer: PhaseTimer,
    config: SessionConfig | None = None,
) -> tuple[AccuracyLoss, str]:
    """Measure the loss of a model with the original's inputs, on the outputs of `spec`; also return its precision.

    Both models run in onnxruntime with all its optimizations. With a `config`, that session runs the other model, and
    onnxruntime without optimizations runs the original. Raises ModelError if the original does not run on given inputs
    or labelled rows, and UnverifiableError if no inputs can be generated.
    """
    model, budget, outputs = original.load(), Budget.parse(options.budget or ""), list(dict.fromkeys(spec.outputs))
    scores = [v.name for v in model.graph.outputs if has_scores(v)]
    is_compared = options.labelled is None
    uses = OutputUses.of(model.graph, options.metric if is_compared else "")
    agreement = Agreement.of(outputs, uses, scores=scores)
    labelled = None
    if options.labelled is not None:
        labelled = LabelledPart(LabelledSet.read(Path(options.labelled)), input_specs(model), options.metric)
    with timer.phase(COMPARING):
        left = TIME_SHARE * max(0.0, wanted_end() - monotonic())
        budget_of_time = TimeBudget(min(COMPARISON_SECONDS[options.effort], left))
        configs = (AS_USERS_RUN, AS_USERS_RUN) if config is None else (UNOPTIMIZED, config)
        runs = _PairedRuns(original, other, agreement, budget_of_time, timer, configs)
        if labelled is not None:
            runs.add(labelled.feeds())
            samples = f"{len(labelled)} labelled rows of {labelled.examples.name}"
        elif spec.given_inputs:
            runs.add(s.feeds for s in spec.given_inputs)
            rows = next(iter(agreement.outputs.values())).rows if agreement.is_classifier else runs.count
            samples = plural(runs.count, "given sample") + f" of {rows} rows" * (rows != runs.count)
        else:
            runs.add(drawn_feeds(original, DRAWN_SAMPLES[options.effort], options.seed, options.shape))
            samples = f"{plural(runs.count, 'sample')} drawn at random"
        name, reference = agreement.name, 1.0 if agreement.is_classifier else inf
        score = Score(-inf, inf, failure=runs.failure) if runs.failure else agreement.score()
        is_within = not runs.failure and allows_agreement(budget, score, is_classifier=agreement.is_classifier)
        if labelled is not None and not runs.failure:
            metric = labelled.criterion(outputs, budget, original.loadable())
            name, reference, score = metric.name, metric.reference, metric.score(other.loadable(), configs[1])
            is_within = metric.allows(score)
            runs.notes += metric.notes
    changes = [f"{output}: {figures.change}" for output, figures in agreement.outputs.items() if figures.change]
    constant = [
        f"{name}: the original returns {'class ' * o.has_scores}{o.first} in all rows, so agreement means little"
        for name, o in agreement.outputs.items()
        if o.rows > 1 and o.first is not None and not o.is_varied
    ]
    constant += agreement.notes if is_compared else []
    has_half = spec.uses_half or uses_16_bit_floats(other.load().graph)
    notes = (*spec.notes, *runs.notes, *changes, *constant, *[UNSEEN_OVERFLOW] * has_half)
    loss = AccuracyLoss(str(budget), name, reference, score, is_within, samples, agreement.outputs, notes)
    return loss, runs.precision


@dataclass(slots=True)
class _PairedRuns:
    """Runs of two models on the same inputs, until the `budget` is used up.

    `configs` are their sessions. `count` is the number of inputs; `failure` says why the other model does not run, and
    `precision` is the one in which it computes.
    """

    original: ModelSource
    other: ModelSource
    agreement: Agreement
    budget: TimeBudget
    timer: PhaseTimer
    configs: tuple[SessionConfig, SessionConfig]
    count: int = 0
    precision: str = SINGLE
    failure: str = ""
    notes: list[str] = field(default_factory=list[str])

    def add(self, inputs: Iterable[Feeds]) -> None:
        """Add the outputs on some inputs to the agreement, until a failure."""
        names = list(self.agreement.outputs)
        with RemoteBackend(self.configs[0]) as first_backend, RemoteBackend(self.configs[1]) as second_backend:
            first = _run_original(self.original, partial(first_backend, self.original.loadable()))
            try:
                second = second_backend(self.other.loadable())
                self.precision = second.precision
                for feeds in inputs:
                    if self.count and self.budget.left() <= 0:
                        self.notes.append(f"further samples were skipped after {round(self.budget.seconds, 1):g} s")
                        return
                    self.timer.report(lambda: f"sample {self.count + 1}")
                    wanted = _run_original(self.original, partial(first.run, names, feeds))
                    self.agreement.add(wanted, second.run(names, feeds))
                    self.count += 1
            except EvaluationError as e:
                self.failure = format_error(e)


def _run_original(original: ModelSource, call: Callable[[], Result]) -> Result:
    try:
        return call()
    except EvaluationError as e:
        raise ModelError(f"{original.label}: the original does not run on the inputs: {format_error(e)}") from e
