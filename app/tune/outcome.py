"""Outcome of a search: the first configuration that is right and, raced once more, surely better."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...core.errors import UnverifiableError, VerificationError
from ...core.io.model_source import ModelSource
from ...core.ort.sessions import SessionConfig
from ...core.pass_manager.phase_timer import COMPARING, MEASURING, PhaseTimer
from ...core.verify.given_samples import GivenSamples
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..measure.session_settings import settings_words
from .configuration import Configuration
from .racing import RUNGS, Raced
from .search import Decided
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

    def verdict(self, models: TunedModels, configuration: Configuration, start: SessionConfig) -> Verdict | None:
        """The verdict about a model in its session; None for a quantized one, which was measured instead.

        Where onnxruntime is wrong about the original with its defaults as well, it is that of the model without
        optimizations. Raises VerificationError and UnverifiableError.
        """
        if configuration.recipe.scheme:
            self.notes.append(f"quantized within {self.options.budget} of accuracy, and not verified as others are")
            return None
        report = None
        if not configuration.recipe.is_original:
            with self.timer.phase("verifying the model"):
                report = models.verify(configuration.recipe, self.given, self.options.effort)
        path = models.get(configuration.recipe).path
        with (
            self.timer.phase(COMPARING),
            OracleProcess(
                self.source.loadable(), self.spec, self.options.seed, label=self.source.label, report=self.timer.report
            ) as oracle,
        ):
            found = oracle.wait().compare(path, config=configuration.session)
            if found.failure is None:
                return found
            usual = oracle.compare(self.source.loadable(), config=start)
        if usual.failure is None:
            raise VerificationError(f"in its session {found.failure.describe('the model')}")
        self.notes.append(
            "onnxruntime with its defaults is wrong about the original, so the result was verified without "
            "optimizations: see `passes bisect --ort all`"
        )
        return report.verification if report is not None else None


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
    for choices in (search.chosen, *reversed(search.history)):
        configuration = search.configuration(choices)
        if not choices or configuration.key in tried:
            continue
        tried.add(configuration.key)
        found = _checked(stages, checks, configuration)
        if found is not None:
            names = set(choices)
            is_last = choices is search.chosen
            shown = decisions if is_last else [replace(d, is_kept=d.decision in names) for d in decisions]
            return replace(found, decisions=shown)
    with checks.timer.phase(MEASURING):
        (raced,) = stages.racing([search.start], RUNGS[-1]).raced
    if raced.failure:
        raise UnverifiableError(f"the original does not run in onnxruntime: {raced.failure}")
    return Outcome(search.start, raced, raced, [replace(d, is_kept=False) for d in decisions])


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
        raced = stages.racing([search.start, configuration], RUNGS[-1])
    original, result = raced.raced
    is_better = result.ratio is not None and result.ratio.high < 1
    if not is_better or not search.is_allowed(result):
        why = result.failure or "it is not surely better than the original in the last race"
        checks.notes.append(f"left out: {named}: {why}")
        return None
    return Outcome(configuration, original, result, [], verdict)


def _difference(configuration: Configuration, start: Configuration) -> list[str]:
    recipe = configuration.recipe
    made = [] if recipe == start.recipe else [recipe.scheme or recipe.pipeline]
    return [*made, *settings_words(configuration.session, start.session)]
