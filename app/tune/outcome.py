"""Outcome of a search: the first configuration that is right and, raced once more, surely better."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ...core.errors import UnverifiableError, VerificationError
from ...core.io.model_source import ModelSource
from ...core.ort.sessions import SessionConfig
from ...core.pass_manager.phase_timer import COMPARING, MEASURING, PhaseTimer
from ...core.pass_manager.report import Report
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.given_samples import GivenSamples
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..bisect.probe_process import probe, probe_process, write_case
from ..measure.session_settings import settings_words
from .configuration import Configuration, Recipe
from .racing import LAST, RUNGS, Raced
from .search import Choices, Decided
from .stages import Stages
from .tune_options import TuneOptions
from .tuned_models import TunedModels


@dataclass
class Checks:
    """Checks of results: verified as those of `optimize`, and once more in the session of the result."""

    source: ModelSource
    spec: VerificationSpec
    given: GivenSamples | None
    options: TuneOptions
    timer: PhaseTimer
    notes: list[str] = field(default_factory=list[str])
    _verified: dict[Recipe, Report] = field(default_factory=dict[Recipe, Report], init=False)

    def verdict(self, models: TunedModels, configuration: Configuration, start: SessionConfig) -> Verdict | None:
        """The verdict about a model in its session; None for a quantized one, which was measured instead.

        Where onnxruntime is wrong about the original with its defaults as well, it is that of the model without
        optimizations. Raises VerificationError and UnverifiableError.
        """
        if configuration.recipe.scheme:
            return None
        recipe = configuration.recipe
        if not recipe.is_original and recipe not in self._verified:
            with self.timer.phase("verifying the model"):
                self._verified[recipe] = models.verify(recipe, self.given, self.options.effort)
        path = models.get(recipe).path
        with (
            self.timer.phase(COMPARING),
            OracleProcess(
                self.source.loadable(), self.spec, self.options.seed, label=self.source.label, report=self.timer.report
            ) as oracle,
        ):
            found = oracle.wait().compare(path, AS_IN_RUNS, config=configuration.session)
            _require_no_denormals(oracle, path, configuration.session)
            if found.failure is None:
                return found
            usual = oracle.compare(self.source.loadable(), config=start)
        if usual.failure is None:
            raise VerificationError(f"in its session {found.failure.describe('the model')}")
        self.notes.append(
            "onnxruntime with its defaults is wrong about the original, so the result was verified without "
            "optimizations: see `passes bisect --ort all`"
        )
        return self._verified[recipe].verification if recipe in self._verified else None


AS_IN_RUNS = ComparisonOptions(avoids_empty=True)


def _require_no_denormals(oracle: OracleProcess, path: Path, session: SessionConfig) -> None:
    """Raise VerificationError if denormals as zero, where they are, make a difference beyond rounding.

    The first session of a process decides about them for its main thread, so that a process of its own has to run it.
    """
    if not session.denormals_as_zero:
        return
    with ScratchFolder() as folder:
        write_case(oracle, path, folder)
        with probe_process(folder) as process:
            failure = probe(process, session)
    if failure is not None:
        raise VerificationError(f"in its session, with denormals as zero, {failure}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A configuration that was verified and raced, with the original beside it."""

    configuration: Configuration
    original: Raced
    result: Raced
    decisions: list[Decided]
    verdict: Verdict | None = None


def first_right(stages: Stages, checks: Checks, decisions: list[Decided]) -> Outcome:
    """The result of the search, or else an earlier one, that is right and surely better than the original."""
    search = stages.search
    tried: set[str] = set()
    steps = [search.chosen, *reversed(search.history)]
    for choices in (c for step in steps for c in (step, _without_denormals(step))):
        configuration = search.configuration(choices)
        if not choices or configuration.key in tried:
            continue
        tried.add(configuration.key)
        found = _checked(stages, checks, configuration)
        if found is not None:
            return replace(found, decisions=[replace(d, is_kept=d.decision in choices) for d in decisions])
    with checks.timer.phase(MEASURING):
        (raced,) = stages.racing([search.start], RUNGS[-1]).raced
    if raced.failure:
        raise UnverifiableError(f"the original does not run in onnxruntime: {raced.failure}")
    return Outcome(search.start, raced, raced, [replace(d, is_kept=False) for d in decisions])


def _without_denormals(choices: Choices) -> Choices:
    """The choices without those that take denormals for zero, which changes values."""
    return {decision: c for decision, c in choices.items() if "denormals_as_zero" not in c.session}


def _checked(stages: Stages, checks: Checks, configuration: Configuration) -> Outcome | None:
    """The outcome of a configuration; None, with a note, if it is wrong or not surely better than the original."""
    search = stages.search
    named = ", ".join(_difference(configuration, search.start)) or "the result"
    try:
        verdict = checks.verdict(stages.models, configuration, search.start.session)
    except (VerificationError, UnverifiableError) as e:
        checks.notes.append(f"left out: {named}: {e}")
        return None
    with checks.timer.phase(MEASURING):
        raced = stages.racing([search.start, configuration], LAST)
    original, result = raced.raced
    is_better = result.ratio is not None and result.ratio.high < 1
    if not is_better or not search.is_allowed(result):
        why = result.failure or "it is not surely better than the original in the last race"
        checks.notes.append(f"left out: {named}: {why}")
        return None
    if configuration.recipe.scheme:
        loss = stages.models.get(configuration.recipe).loss
        checks.notes.append(f"quantized within {checks.options.budget}, and not verified as others are: {loss}")
    return Outcome(configuration, original, result, [], verdict)


def _difference(configuration: Configuration, start: Configuration) -> list[str]:
    recipe = configuration.recipe
    made = [] if recipe == start.recipe else [recipe.scheme or recipe.pipeline]
    return [*made, *settings_words(configuration.session, start.session)]
