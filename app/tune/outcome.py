"""Outcome of a search: the best finalist that is correct and, in another race, significantly better than the original.

Finalists are the results of the search, and each pipeline in the usual session, with one thread, and in the best
session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import PassesError, TimeLimitError, UnverifiableError, VerificationError
from ...core.io.model_source import ModelSource
from ...core.ort.backends import session_memory
from ...core.ort.engines import SINGLE, EngineChoice
from ...core.ort.sessions import SessionConfig
from ...core.processes.watchdog import ended_by, wanted_by
from ...core.run.phase_timer import COMPARING, MEASURING, PhaseTimer
from ...core.run.report import Report
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.engine_verdict import compare_in_engine
from ...core.verify.given_inputs import GivenSamples
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..bisect.probe_process import probe, probe_process, write_case
from ..measure.tuned_settings import ORIGINAL, Configuration, Recipe, settings_words
from ..quantize.search import SMALLER
from .decisions import ENGINE, ONE_THREAD, engine_choices, pipeline_choices, with_engine_pipeline
from .loss_limit import LossLimit, has_loss, has_own_loss
from .racing import LAST, LIMITED, RUNGS, SHORTEST, RaceEntry, Rung
from .search import Choices, DecisionResult, TuningSearch
from .tune_options import TuneOptions
from .tuned_models import TunedModels

TIED = 1.005  # ratio of figures up to which the earlier finalist is preferred; the last race has no finer resolution
CLOSE = 1.02  # ratio to the best up to which a finalist is also in the last race
MOST_STEPS, MOST_CLOSE = 3, 3  # earlier results of the search, and finalists besides the original in the last race
MOST_LATE = 1.05  # of the time, after which the verification of the result ends
AS_IN_RUNS = ComparisonOptions(avoids_empty=True)


def finalists(search: TuningSearch, pipelines: Iterable[str], schemes: Sequence[str] = ()) -> list[Choices]:
    """The finalists in order of preference, starting with the original, without duplicates.

    A pipeline may gain more in the session that was chosen for another one, and the choice of the session may depend on
    chance; each is therefore raced with each, including quantized models. One thread, the most important choice, may be
    better only with a pipeline chosen later; an engine in float32 is needed if its other precision finally loses too
    much.
    """
    session = without_denormals({d: c for d, c in search.chosen.items() if not c.is_of_model})
    sessions: list[Choices] = [{}, session]
    if search.objective.goal != "size":
        sessions.insert(1, {ONE_THREAD.decision: ONE_THREAD})
    found_session = search.configuration(session).session
    if found_session.is_lossy:
        single = EngineChoice(found_session.engine, SINGLE, found_session.provider_options)
        sessions += [{**session, ENGINE: choice} for choice in engine_choices([single], found_session)]
    tried = {t.choice for t in search.trials if t.outcome != LIMITED or t.raced is not None}
    quantized = [c for c in pipeline_choices([], schemes) if str(c) in tried]  # others take long to make
    made = [{c.decision: c} for c in (*pipeline_choices([p for p in pipelines if p != ORIGINAL], []), *quantized)]
    late = [*search.history[-MOST_STEPS:], search.chosen]
    wanted: list[Choices] = [{**choice, **session} for session in sessions for choice in ({}, *made)]
    wanted += [choices for step in late for choices in (without_denormals(step), step)]
    found: dict[str, Choices] = {}
    for choices in map(with_engine_pipeline, wanted):
        try:
            identity = search.identity(search.configuration(choices))
        except PassesError:  # the trial of this pipeline has the reason, or there is no time
            continue
        found.setdefault(identity, choices)
    return list(found.values())


def without_denormals(choices: Choices) -> Choices:
    """The choices without flushing denormals to zero, which changes values."""
    return {decision: c for decision, c in choices.items() if "denormals_as_zero" not in c.session}


class LastRace(Struct, frozen=True):
    """The finalists of the last race, starting with the original, with their figures, and the index of the `best`.

    If it `is_late`, as the time limit ended it, there is no verdict.
    """

    field: Sequence[Choices]
    raced: Sequence[RaceEntry]
    best: int
    is_late: bool = False


def race_finalists(search: TuningSearch, field: Sequence[Choices]) -> LastRace:
    """Race the finalists, then those close to the best again, in fresh processes.

    Finalists that were far behind in earlier races are raced only if no other one is better. Races use the available
    time.
    """
    near = search.without_far_ones(field)
    last = _race_finalists(search, near)
    others = [c for n, c in enumerate(field) if not n or c not in near]
    if last.best or len(others) == 1 or not search.may_end(2, SHORTEST):
        return last
    again = _race_finalists(search, others)
    return LastRace([*again.field, *last.field[1:]], [*again.raced, *last.raced[1:]], again.best, again.is_late)


def _race_finalists(search: TuningSearch, field: Sequence[Choices]) -> LastRace:
    """Race all these finalists, then the closest again; if time is short, only the most promising."""
    count = 1 + MOST_CLOSE
    if len(field) > count and search.may_end(len(field), RUNGS[0], count):
        first = _first_race(search, field, RUNGS[0])
        field = [c for n, (c, r) in enumerate(zip(field, first, strict=True)) if not n or not _is_behind(r, first)]
    longest_first = [*reversed(RUNGS[1:])] if len(field) > count else []
    if rung := next((r for r in longest_first if search.may_end(len(field), r, count)), None):
        field = [field[n] for n in _closest(_first_race(search, field, rung))]
    count = next((n for n in range(count, 2, -1) if search.may_end(n, SHORTEST)), 2)
    field = search.best_known(field, count)
    rung = LAST if len(field) > 1 else RUNGS[-1]
    result = search.race([search.configuration(c) for c in field], rung, search.end)
    return _decided_race(search, field, result.raced, is_late=result.is_late)


def _first_race(search: TuningSearch, field: Sequence[Choices], rung: Rung) -> Sequence[RaceEntry]:
    """Race finalists before the last race, for which time remains."""
    until = search.end - search.race.expected_seconds(2, SHORTEST)
    return search.race([search.configuration(c) for c in field], rung, until).raced


def _decided_race(
    search: TuningSearch, field: Sequence[Choices], raced: Sequence[RaceEntry], *, is_late: bool
) -> LastRace:
    """The race with its best finalist, which is significantly better than the original.

    Among those that cannot be distinguished from it, a much smaller one or else the first is chosen.
    """
    better = [n for n, r in enumerate(raced) if n and r.ratio is not None and r.ratio.high < 1 and search.is_allowed(r)]
    better = [] if is_late else better
    least = min(better, key=lambda n: _figure(raced[n]), default=0)
    best = next((n for n in better if _figure(raced[n]) <= TIED * _figure(raced[least])), 0)
    ties = [n for n in better if not _is_surely_worse(raced[n], raced[least])]
    smaller = [n for n in ties if raced[n].bytes <= SMALLER * raced[best].bytes]
    return LastRace(field, raced, min(smaller, key=lambda n: raced[n].bytes, default=best), is_late)


def _is_surely_worse(a: RaceEntry, b: RaceEntry) -> bool:
    """Whether `a` is worse than `b`, and their intervals do not overlap."""
    return a.ratio is None or b.ratio is None or a.ratio.low > b.ratio.high


def _is_behind(raced: RaceEntry, first: Sequence[RaceEntry]) -> bool:
    """Whether a finalist does not run, or is significantly worse than another one."""
    least = min((r.ratio.high for r in first if r.ratio is not None), default=inf)
    return raced.failure != LIMITED and (raced.ratio is None or raced.ratio.low > least)


def _closest(raced: Sequence[RaceEntry]) -> list[int]:
    """The first finalist, and the best others with those close to them, in order; of equal ones the first."""
    least = min(map(_figure, raced[1:]))
    near = [n for n in range(1, len(raced)) if _figure(raced[n]) <= CLOSE * least]
    order = sorted(near, key=lambda n: max(_figure(raced[n]), TIED * least))
    return [0, *sorted(order[:MOST_CLOSE])]


def _figure(raced: RaceEntry) -> float:
    return raced.ratio.ratio if raced.ratio is not None else inf


@dataclass
class Checks:
    """Verification of results: like the results of `optimize`, and again in the session of the result."""

    source: ModelSource
    spec: VerificationSpec
    given: GivenSamples | None
    options: TuneOptions
    timer: PhaseTimer
    limit: LossLimit
    notes: list[str] = field(default_factory=list[str])
    _verified: dict[Recipe, Report] = field(default_factory=dict[Recipe, Report], init=False)

    def verdict(self, models: TunedModels, configuration: Configuration, start: SessionConfig) -> Verdict | None:
        """Verify a model in its session; None for a quantized model or another precision, whose loss is measured.

        If onnxruntime with its defaults also computes the original incorrectly, this is the verdict on the unoptimized
        model. Raises VerificationError and UnverifiableError.
        """
        recipe, session = configuration.recipe, configuration.session
        if not (recipe.is_original or recipe.scheme or recipe in self._verified):
            with self.timer.phase("verifying the model"):
                self._verified[recipe] = models.verify(recipe, self.given, self.options.verify)
        path = models.get(recipe).path
        if has_loss(configuration):
            made = models.get(recipe)
            loss = made.loss
            if has_own_loss(configuration):
                with self.timer.phase(COMPARING):
                    loss = self.limit.unseen_loss(path, session)
            how = session.engine_name if session.is_lossy else f"quantized in {session.engine_name}"
            how = "quantized" if session.is_onnxruntime else how
            scheme = f"{made.scheme}, " if made.scheme else ""
            self.notes.append(f"{how} within {self.options.budget}; measured instead of verified: {scheme}{loss}")
            return None
        with (
            self.timer.phase(COMPARING),
            OracleProcess(
                self.source.loadable(), self.spec, self.options.seed, label=self.source.label, report=self.timer.report
            ) as oracle,
        ):
            compare = oracle.wait().compare if session.is_onnxruntime else partial(compare_in_engine, oracle.wait())
            found = compare(path, AS_IN_RUNS, config=session)
            _require_no_denormals(oracle, path, session)
            if found.failure is None:
                return found
            if not session.is_onnxruntime:
                raise VerificationError(f"in {session.engine_name} {found.failure.describe('the model')}")
            usual = oracle.compare(self.source.loadable(), config=start)
        if usual.failure is None:
            raise VerificationError(f"in its session {found.failure.describe('the model')}")
        self.notes.append(
            "onnxruntime with its defaults computes the original incorrectly, so the result was verified without "
            "optimizations: see `passes bisect --ort all`"
        )
        return self._verified[recipe].verification if recipe in self._verified else None


def _require_no_denormals(oracle: OracleProcess, path: Path, session: SessionConfig) -> None:
    """Raise VerificationError if flushing denormals to zero makes a difference beyond rounding.

    The first session of a process decides about this for its main thread, so a separate process is needed.
    """
    if not session.denormals_as_zero:
        return
    with ScratchFolder() as folder:
        write_case(oracle, path, folder)
        with probe_process(folder, memory=session_memory(path, session)) as process:
            failure = probe(process, session)
    if failure is not None:
        raise VerificationError(f"in its session, with denormals as zero, {failure}")


class Outcome(Struct, frozen=True):
    """A configuration that was verified and raced against the original.

    `unfinished` says for what the time was too short; then the configuration is the original's.
    """

    configuration: Configuration
    original: RaceEntry
    result: RaceEntry
    decisions: list[DecisionResult]
    verdict: Verdict | None = None
    unfinished: str = ""


def first_right(search: TuningSearch, checks: Checks, decisions: list[DecisionResult]) -> Outcome:
    """The best finalist that is correct and significantly better than the original, or else the original.

    A race of all finalists selects those close to the best; another race in fresh processes decides between these. If
    its winner is wrong, the next best one is verified; without one, the others are raced if there is time.
    """
    contenders = finalists(search, checks.options.pipeline, checks.options.schemes)
    began, seconds = search.began, search.limits.seconds
    last = _raced(search, contenders, checks.timer)
    while last.best:
        configuration = search.configuration(last.field[last.best])
        try:
            with ended_by(began + MOST_LATE * seconds), wanted_by(began + seconds):
                verdict = checks.verdict(search.race.models, configuration, search.start.session)
        except TimeLimitError:
            return _original(search, last, decisions, "the time was too short to verify the best choice")
        except (VerificationError, UnverifiableError) as e:
            checks.notes.append(f"skipped: {_words(configuration, search.start)}: {e}")
            contenders, known = (
                [c for c in field if not _is_computed_alike(search.configuration(c), configuration)]
                for field in (contenders, last.field)
            )
            raced = [r for c, r in zip(last.field, last.raced, strict=True) if c in known]
            last = _decided_race(search, known, raced, is_late=last.is_late)
            if not last.best and search.may_end(2, SHORTEST):
                last = _raced(search, contenders, checks.timer)
            continue
        if reason := _reason_against_chosen(search, last):
            checks.notes.append(f"skipped: {_words(search.incumbent, search.start)}: {reason}")
        original, result = last.raced[0], last.raced[last.best]
        return Outcome(configuration, original, result, _decided(decisions, last.field[last.best]), verdict)
    if last.is_late:
        return _original(search, last, decisions, "the time was too short for the final race")
    if reason := _reason_against_chosen(search, last):
        checks.notes.append(f"skipped: {_words(search.incumbent, search.start)}: {reason}")
    return _original(search, last, decisions)


def _raced(search: TuningSearch, contenders: Sequence[Choices], timer: PhaseTimer) -> LastRace:
    """The last race of contenders. Raises UnverifiableError if the original does not run."""
    with timer.phase(MEASURING):
        last = race_finalists(search, contenders)
    if last.raced[0].failure not in {"", LIMITED}:
        raise UnverifiableError(f"the original does not run in onnxruntime: {last.raced[0].failure}")
    return last


def _original(
    search: TuningSearch, last: LastRace, decisions: Sequence[DecisionResult], unfinished: str = ""
) -> Outcome:
    return Outcome(search.start, last.raced[0], last.raced[0], _decided(decisions, {}), unfinished=unfinished)


def _is_computed_alike(a: Configuration, b: Configuration) -> bool:
    """Whether two configurations are equal, or run one model in one engine other than onnxruntime."""
    alike = [(c.recipe, c.session.engine, c.session.precision, c.session.provider_options) for c in (a, b)]
    return a == b or (alike[0] == alike[1] and not a.session.is_onnxruntime)


def _reason_against_chosen(search: TuningSearch, last: LastRace) -> str:
    """Why the last race decided against the result of the search; "" if it did not."""
    chosen = next((n for n, choices in enumerate(last.field) if choices == search.chosen), last.best)
    if chosen in (0, last.best):
        return ""
    raced = last.raced[chosen]
    if raced.ratio is None or raced.ratio.high >= 1:
        return raced.failure or "it was not significantly better than the original in the final race"
    return f"{_words(search.configuration(last.field[last.best]), search.start)} was at least as good in the final race"


def _decided(decisions: Sequence[DecisionResult], choices: Choices) -> list[DecisionResult]:
    """The decisions of the search, with those not in the outcome reverted, and further ones of the outcome."""
    known = {(d.decision, d.label) for d in decisions}
    kept = {(c.decision, c.label) for c in choices.values()}
    further = [DecisionResult(d, label, None, is_kept=True) for d, label in sorted(kept - known)]
    return [*(replace(d, is_kept=(d.decision, d.label) in kept) for d in decisions), *further]


def _words(configuration: Configuration, start: Configuration) -> str:
    """Describe a configuration."""
    return ", ".join(_difference(configuration, start)) or "the original"


def _difference(configuration: Configuration, start: Configuration) -> list[str]:
    recipe = configuration.recipe
    made = [] if recipe == start.recipe else [recipe.scheme or recipe.pipeline]
    return [*made, *settings_words(configuration.session, start.session)]
