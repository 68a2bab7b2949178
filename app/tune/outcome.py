"""Outcome of a search: the best finalist that is right and, raced once more, surely better than the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import UnverifiableError, VerificationError
from ...core.io.model_source import ModelSource
from ...core.ort.sessions import SessionConfig
from ...core.run.phase_timer import COMPARING, MEASURING, PhaseTimer
from ...core.run.report import Report
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.given_inputs import GivenSamples
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..bisect.probe_process import probe, probe_process, write_case
from ..measure.tuned_settings import Configuration, Recipe, settings_words
from .finalists import LastRace, finalists, race_finalists
from .racing import RaceEntry
from .search import Choices, DecisionResult, TuningSearch
from .tune_options import TuneOptions
from .tuned_models import TunedModels
from .tuning_plan import TuningPlan


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


class Outcome(Struct, frozen=True):
    """A configuration that was verified and raced, with the original beside it."""

    configuration: Configuration
    original: RaceEntry
    result: RaceEntry
    decisions: list[DecisionResult]
    verdict: Verdict | None = None


def first_right(plan: TuningPlan, checks: Checks, decisions: list[DecisionResult]) -> Outcome:
    """The best finalist that is right and surely better than the original, which is the outcome if there is none.

    A race of all finalists says which come close to the best, and another one, of fresh processes, decides about these.
    """
    search = plan.search
    field = finalists(search, plan.options.pipelines)
    while True:
        with checks.timer.phase(MEASURING):
            last = race_finalists(search, field)
        original, result, choices = last.raced[0], last.raced[last.best], last.field[last.best]
        if original.failure:
            raise UnverifiableError(f"the original does not run in onnxruntime: {original.failure}")
        configuration = search.configuration(choices)
        try:
            verdict = checks.verdict(plan.models, configuration, search.start.session) if last.best else None
        except (VerificationError, UnverifiableError) as e:
            checks.notes.append(f"left out: {_words(configuration, search.start)}: {e}")
            field.remove(choices)
            continue
        if reason := _reason_against_chosen(search, last):
            checks.notes.append(f"left out: {_words(search.incumbent, search.start)}: {reason}")
        if configuration.recipe.scheme:
            loss = plan.models.get(configuration.recipe).loss
            checks.notes.append(f"quantized within {checks.options.budget}, and not verified as others are: {loss}")
        return Outcome(configuration, original, result, _decided(decisions, choices), verdict)


def _reason_against_chosen(search: TuningSearch, last: LastRace) -> str:
    """The reason why the last race decided against the result of the search; "" if it did not."""
    chosen = next((n for n, choices in enumerate(last.field) if choices == search.chosen), last.best)
    if chosen == last.best:
        return ""
    raced = last.raced[chosen]
    if raced.ratio is None or raced.ratio.high >= 1:
        return raced.failure or "it is not surely better than the original in the last race"
    return f"{_words(search.configuration(last.field[last.best]), search.start)} is as good in the last race, or better"


def _decided(decisions: Sequence[DecisionResult], choices: Choices) -> list[DecisionResult]:
    """The decisions of the search, those that are not in the outcome taken back, and further ones of the outcome."""
    known = {(d.decision, d.label) for d in decisions}
    kept = {(c.decision, c.label) for c in choices.values()}
    further = [DecisionResult(d, label, None, is_kept=True) for d, label in sorted(kept - known)]
    return [*(replace(d, is_kept=(d.decision, d.label) in kept) for d in decisions), *further]


def _words(configuration: Configuration, start: Configuration) -> str:
    """A configuration in words."""
    return ", ".join(_difference(configuration, start)) or "the original"


def _difference(configuration: Configuration, start: Configuration) -> list[str]:
    recipe = configuration.recipe
    made = [] if recipe == start.recipe else [recipe.scheme or recipe.pipeline]
    return [*made, *settings_words(configuration.session, start.session)]
