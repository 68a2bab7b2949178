"""Search for the best configuration: successive halving for each decision, then the best choices together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import PassesError, TimeLimitError, format_error
from ...core.ort.engines import SINGLE
from ...core.support.confidence_intervals import RatioInterval
from ..measure.tuned_settings import Configuration
from ..quantize.search import Limits
from .decisions import Choice, configured, with_engine_pipeline
from .objective import Objective, inverse
from .racing import ALONE, LAST, LIMITED, RUNGS, SHORTEST, RaceEntry, RaceResult, Racing, Rung

MAX_TOGETHER = 8  # choices of different decisions that are raced together
EQUAL = 1.01  # ratio of figures up to which the first choice, or fewer decisions, are preferred, for reproducibility
PROMISING = 0.95  # of the current figure; below it, a choice with a wide interval is raced for longer
FAR = 1.1  # times another figure; beyond it, a configuration is not raced again
FINALISTS = 3  # in the last race, for which time is reserved
MARGIN = 1.25  # of the expected time of a race that cannot be shortened
MAKING = 20  # minimum time of the search for a quantized model, in process times
MOST_LEFT = 0.3  # of the time of a search, for a last race with more than the fewest sets, and for verification
MOST_FOR_FEWEST = 0.5  # of the time of a search, for a last race with the fewest sets
CHECKING_SHARE = 0.1  # of the time of a search, at least, for the verification of its result
CHECKING_TIMES = 2  # times the time in which a model is optimized, for the same
LEAST_KEPT = 3  # choices for the next round
MAX_SELECTED = 3  # decisions of which all subsets are raced
TAKEN, EARLIER, WORSE, SLOWER = "taken", "as another", "not better", "slower"
AGAIN = "far behind in an earlier race"
INCONCLUSIVE = "inconclusive: the machine is busy"
Choices = Mapping[str, Choice]
"""Choices by decision."""


@dataclass(slots=True)
class RaceTrial:
    """A choice in a race with the current configuration: its last figures, and the outcome.

    `to_original` is its time divided by that of the original, if it is known from a chain of races.
    """

    stage: str
    choice: str
    outcome: str = ""
    raced: RaceEntry | None = None
    to_original: float | None = None


class DecisionResult(Struct, frozen=True):
    """A decision in a result: the figure with it divided by the figure without it.

    `is_kept`: without it, the result would be worse beyond the interval.
    """

    decision: str
    label: str
    brought: RatioInterval | None
    is_kept: bool


@dataclass
class TuningSearch:
    """A search from `start`; deterministic except for times. `chosen` are the current choices.

    It ends early enough for the last race, within the seconds of its limits since it `began`. `history` has the choices
    of each step that improved on the previous one, starting with no choices.
    """

    race: Racing
    objective: Objective
    limits: Limits
    start: Configuration = field(default_factory=Configuration)
    progress: Callable[[str], None] = lambda _: None
    began: float = field(default_factory=monotonic)
    chosen: dict[str, Choice] = field(default_factory=dict[str, Choice], init=False)
    history: list[dict[str, Choice]] = field(default_factory=list[dict[str, Choice]], init=False)
    trials: list[RaceTrial] = field(default_factory=list[RaceTrial], init=False)
    ratio: float = field(default=1.0, init=False)
    time: float = field(default=1.0, init=False)
    _raced: int = field(default=0, init=False)
    _known: dict[str, RatioInterval] = field(default_factory=dict[str, RatioInterval], init=False)
    _compared: dict[tuple[str, str], RatioInterval | None] = field(
        default_factory=dict[tuple[str, str], RatioInterval | None], init=False
    )
    _gain: RatioInterval | None = field(default=None, init=False)

    @property
    def is_exhausted(self) -> bool:
        """Whether a limit was reached."""
        return self._raced >= self.limits.trials or not self._has_time(0.0)

    @property
    def end(self) -> float:
        """The `monotonic` time at which the last race is to end, so that its result is verified in time."""
        seconds = abs(self.limits.seconds)
        checking = min(CHECKING_TIMES * self.race.models.seconds, MOST_LEFT * seconds)
        return self.began + self.limits.seconds - max(CHECKING_SHARE * seconds, checking)

    @property
    def _end_of_search(self) -> float:
        """The `monotonic` time at which races before the last one are to end."""
        shortest, longest = self.race.expected_seconds(2, SHORTEST), self.race.expected_seconds(FINALISTS, LAST)
        seconds = abs(self.limits.seconds)
        return self.end - max(min(MARGIN * shortest, MOST_FOR_FEWEST * seconds), min(longest, MOST_LEFT * seconds))

    def _has_time(self, seconds: float) -> bool:
        """Whether this many seconds remain besides those for the last race."""
        return monotonic() + seconds <= self._end_of_search

    def may_race(self, count: int, rung: Rung) -> bool:
        """Whether a race of `count` configurations fits into the time, even if processes take longer."""
        return self._has_time(MARGIN * self.race.expected_seconds(count, rung))

    def run_race(self, configurations: Sequence[Configuration], rung: Rung) -> RaceResult:
        """Race configurations; one that takes longer than expected ends with fewer process sets."""
        return self.race(configurations, rung, self._end_of_search)

    def identity(self, configuration: Configuration) -> str:
        """A digest of a configuration, whose model is made if there is time.

        Raises PassesError if there is no such model, and TimeLimitError if there is no time.
        """
        return self.race.identity(configuration, self._end_of_search)

    def may_end(self, count: int, rung: Rung, then: int = 0) -> bool:
        """Whether a race of `count` configurations, followed by a last race of `then`, ends in time."""
        seconds = self.race.expected_seconds(count, rung) + self.race.expected_seconds(then, SHORTEST) * (then > 0)
        return monotonic() + seconds <= self.end

    @property
    def incumbent(self) -> Configuration:
        """The configuration of the current choices."""
        return self.configuration(self.chosen)

    @property
    def learnt(self) -> str:
        """Describe the current best configuration."""
        if not self.chosen:
            return "nothing is better than the original so far"
        choices = "; ".join(map(str, self.chosen.values()))
        return f"{self.ratio:.2f} of the original's {self.objective.figure} by {choices}"

    def configuration(self, choices: Choices) -> Configuration:
        """The configuration of choices."""
        return configured(choices.values(), self.start)

    def decide(self, stage: str, alternatives: Iterable[Choice], late: Sequence[Choice] = ()) -> None:
        """Take the alternatives that are significantly better than the current choices, alone and in combination.

        The models of `late` ones take long to make; if time permits, they join the remaining ones after the first
        round.
        """
        alternatives = [*alternatives]
        if not self.race.results and not self.is_exhausted:
            self.run_race([self.start], ALONE)
        entries = self._distinct(stage, alternatives)
        order = [str(choice) for choice in (*alternatives, *late)]
        by_decision: dict[str, list[tuple[Choice, RaceTrial]]] = {}
        for entry in self._halved(stage, entries, late):
            by_decision.setdefault(entry[0].decision, []).append(entry)
        best: list[tuple[Choice, RaceTrial]] = []
        for found in by_decision.values():
            equal = [entry for entry in found if _figure(entry) <= EQUAL * _figure(found[0])]
            best.append(min(equal, key=lambda entry: order.index(str(entry[0]))))
            for _, trial in (entry for entry in found if entry is not best[-1]):
                trial.outcome = f"{best[-1][0].label} is better or equal"
        if best:
            self._take_together(stage, best[:MAX_TOGETHER])

    def _distinct(self, stage: str, alternatives: Iterable[Choice]) -> list[tuple[Choice, RaceTrial]]:
        """The alternatives that run differently from each other and from the incumbent, each with a trial."""
        found: list[tuple[Choice, RaceTrial]] = []
        now = self.race.identity(self.incumbent)
        seen = {now}
        for choice in alternatives:
            trial = RaceTrial(stage, str(choice))
            self.trials.append(trial)
            if self.is_exhausted:
                trial.outcome = LIMITED
                continue
            self.progress(f"tuning {stage}: making {choice}; {self.learnt}")
            try:
                identity = self.identity(self._with(choice))
            except TimeLimitError:
                trial.outcome = LIMITED
                continue
            except PassesError as e:
                trial.outcome = f"invalid: {format_error(e)}"
                continue
            if identity in seen:
                trial.outcome = EARLIER
                continue
            if self._is_known_as_worse(now, identity):
                trial.outcome = AGAIN
                continue
            seen.add(identity)
            found.append((choice, trial))
            self._raced += 1
        return found

    def _is_known_as_worse(self, now: str, identity: str) -> bool:
        """Whether a configuration was raced with this incumbent and was not better, or is known to be far behind."""
        if (now, identity) in self._compared:
            return True
        best, own = self._known.get(now), self._known.get(identity)
        return best is not None and own is not None and own.low > FAR * best.high

    def without_far_ones(self, field: Sequence[Choices]) -> list[Choices]:
        """The finalists, including the first one, without those known to be far behind another."""
        known = [self._known.get(self.race.identity(self.configuration(c))) for c in field]
        least = min((k.high for k in known if k is not None), default=inf)
        return [c for n, (c, k) in enumerate(zip(field, known, strict=True)) if not n or not k or k.low <= FAR * least]

    def best_known(self, field: Sequence[Choices], count: int) -> list[Choices]:
        """The first finalist and, in order, the others that were ahead in earlier races; `count` in total."""
        known = [self._known.get(self.race.identity(self.configuration(c))) for c in field]
        ahead = sorted(range(1, len(field)), key=lambda n: inf if (k := known[n]) is None else k.ratio)
        return [field[n] for n in sorted([0, *ahead[: count - 1]])]

    def _with(self, *choices: Choice) -> Configuration:
        return self.configuration({**self.chosen, **{c.decision: c for c in choices}})

    def _halved(
        self, stage: str, entries: list[tuple[Choice, RaceTrial]], late: Sequence[Choice] = ()
    ) -> list[tuple[Choice, RaceTrial]]:
        """The alternatives that are significantly better after all rungs, best first.

        At a limit, those that currently seem best; a further race decides about them.
        """
        for number, rung in enumerate(RUNGS):
            if not number and not entries:
                continue
            if number == 1:
                entries = _without_dominated(sorted([*entries, *self._joining(stage, late)], key=_figure))
            if not entries or (number and self._is_decided(entries)):
                break
            if not number:
                entries = self._fitting(entries, rung)
            if not entries or (number and self.is_exhausted) or not self.may_race(1 + len(entries), rung):
                return self._seeming_best(entries)
            self.progress(f"tuning {stage}: round {number + 1}, racing {len(entries)}; {self.learnt}")
            if self._race(entries, rung).is_late:
                return self._seeming_best(entries)
            kept = max(-(-len(entries) // 2), LEAST_KEPT) if number + 1 < len(RUNGS) else len(entries)
            entries = _without_dominated(sorted(filter(self._may_win, entries), key=_figure))
            for _, trial in entries[kept:]:
                trial.outcome = f"behind others in round {number + 1}"
            entries = entries[:kept]
        promising = [entry for entry in entries if _is_promising(entry)]
        if promising and not self.is_exhausted and self.may_race(1 + len(promising), LAST):
            self.progress(f"tuning {stage}: racing {len(promising)} for longer; {self.learnt}")
            self._race(promising, LAST)
        return sorted((entry for entry in entries if self._is_better(entry)), key=_figure)

    def _fitting(self, entries: list[tuple[Choice, RaceTrial]], rung: Rung) -> list[tuple[Choice, RaceTrial]]:
        """As many alternatives as there is time to race: other precisions, which gain most, and the first ones."""
        count = next((n for n in range(len(entries), 0, -1) if self.may_race(1 + n, rung)), 0)
        ordered = sorted(entries, key=lambda entry: entry[0].session.get("precision", SINGLE) == SINGLE)
        for _, trial in ordered[count:]:
            trial.outcome = LIMITED
        return [entry for entry in entries if not entry[1].outcome]

    def _joining(self, stage: str, late: Sequence[Choice]) -> list[tuple[Choice, RaceTrial]]:
        """The late alternatives that may win after a first round of their own."""
        has_time = self._has_time(self.race.process_seconds * MAKING)
        found = self._distinct(stage, late if has_time else ())
        self.trials += [] if has_time else [RaceTrial(stage, str(choice), LIMITED) for choice in late]
        if found:
            self._race(found, RUNGS[0])
        return [entry for entry in found if self._may_win(entry)]

    def _is_decided(self, entries: Sequence[tuple[Choice, RaceTrial]]) -> bool:
        """Whether the last race was long enough and decided: each is better, by far if there are others."""
        result = self.race.results[-1]
        if result.control is None or len({choice.decision for choice, _ in entries}) < len(entries):
            return False
        return all(_figure(entry) < PROMISING and self._is_better(entry) for entry in entries)

    def _race(self, entries: Sequence[tuple[Choice, RaceTrial]], rung: Rung) -> RaceResult:
        """Race alternatives with the incumbent, and store the figures in their trials."""
        result = self.run_race([self.incumbent, *(self._with(choice) for choice, _ in entries)], rung)
        for (choice, trial), raced in zip(entries, result.raced[1:], strict=True):
            if raced.failure == LIMITED:
                trial.outcome = LIMITED
                continue
            trial.raced = raced
            trial.outcome = f"invalid: {raced.failure}" if raced.failure else ""
            trial.to_original = None if raced.time is None else raced.time.ratio * self.time
            self._learn(self._with(choice), raced)
        return result

    def _seeming_best(self, entries: list[tuple[Choice, RaceTrial]]) -> list[tuple[Choice, RaceTrial]]:
        """The first alternatives that were better in their last race."""
        for _, trial in entries:
            trial.outcome = trial.outcome or LIMITED
        return [entry for entry in entries if _figure(entry) < 1][:LEAST_KEPT]

    def _may_win(self, entry: tuple[Choice, RaceTrial]) -> bool:
        """Whether a choice runs and is not worse, equal or, if that counts, slower; otherwise its trial says why."""
        _, trial = entry
        ratio = trial.raced.ratio if trial.raced is not None else None
        time = trial.raced.time if trial.raced is not None else None
        if ratio is None or time is None:
            return False
        is_slow = not self.objective.is_time and time.low > 1
        is_equal = self.race.results[-1].control is not None and ratio.low * EQUAL >= 1
        trial.outcome = "worse" if ratio.low >= 1 else SLOWER if is_slow else WORSE if is_equal else ""
        return not trial.outcome

    def _is_better(self, entry: tuple[Choice, RaceTrial]) -> bool:
        """Whether a choice is significantly better and, if that counts, not slower; otherwise its trial says why."""
        _, trial = entry
        if trial.raced is None or trial.raced.ratio is None:
            return False
        is_better, is_allowed = trial.raced.ratio.high < 1, self.is_allowed(trial.raced)
        unsure = INCONCLUSIVE if trial.raced.ratio.inconclusive else WORSE
        trial.outcome = trial.outcome or ("" if is_better and is_allowed else SLOWER if is_better else unsure)
        return is_better and is_allowed

    def _learn(self, configuration: Configuration, raced: RaceEntry) -> None:
        """Record the figure relative to the incumbent, and therefore to the original."""
        identity, now = self.race.identity(configuration), self.race.identity(self.incumbent)
        self._compared[now, identity] = raced.ratio
        if (r := raced.ratio) is not None:
            self._known[identity] = replace(
                r, ratio=r.ratio * self.ratio, low=r.low * self.ratio, high=r.high * self.ratio
            )

    def _take_together(self, stage: str, best: Sequence[tuple[Choice, RaceTrial]]) -> None:
        """Take the best choice, and combine it with the next ones as long as a race shows a gain."""
        together = [[choice for choice, _ in best[: n + 1]] for n in range(len(best))]
        rung = next((r for r in reversed(RUNGS[1:]) if self.may_race(1 + len(together), r)), None)
        result = None
        if rung is not None and not (len(best) == 1 and self._is_decided(best)):
            self.progress(f"tuning {stage}: racing the best together; {self.learnt}")
            result = self.run_race([self.incumbent, *(self._with(*choices) for choices in together)], rung)
        if result is None or result.is_late:  # the last race follows anyway
            ((choice, trial), *others) = best
            assert trial.raced is not None
            self._take([choice], trial.raced)
            trial.outcome = TAKEN
            for _, other in others:
                other.outcome = LIMITED
            return
        for choices, raced in zip(together, result.raced[1:], strict=True):
            if raced.ratio is not None:
                self._learn(self._with(*choices), raced)
        taken, least = 0, inf
        for n, raced in enumerate(result.raced[1:], 1):
            ratio = raced.ratio
            if ratio is not None and ratio.high < 1 and EQUAL * ratio.ratio < least and self.is_allowed(raced):
                taken, least = n, ratio.ratio
        for n, (_, trial) in enumerate(best):
            trial.outcome = TAKEN if n < taken else "no gain with the others" if taken else "no gain in a second race"
        if taken:
            self._take(together[taken - 1], result.raced[taken])

    def _take(self, choices: Sequence[Choice], raced: RaceEntry) -> None:
        """Take choices whose race with the incumbent is known."""
        self.history.append(dict(self.chosen))
        self.chosen = with_engine_pipeline(self.chosen | {choice.decision: choice for choice in choices})
        self._gain = raced.ratio if len(self.chosen) == 1 else None
        self._advance(raced)

    def is_allowed(self, raced: RaceEntry) -> bool:
        """Whether a configuration is not slower than the first one of its race, unless the objective is a time."""
        return self.objective.is_time or (raced.time is not None and not raced.time.is_slower)

    def _advance(self, raced: RaceEntry) -> None:
        assert raced.ratio is not None
        assert raced.time is not None
        self.ratio *= raced.ratio.ratio
        self.time *= raced.time.ratio

    def ablate(self) -> list[DecisionResult]:
        """Measure the gain of each decision of the result, and revert those without a significant gain."""
        if not self.chosen:
            return []
        if self._gain is not None:  # of a single decision, from the race that decided about it
            return [DecisionResult(c.decision, c.label, self._gain, is_kept=True) for c in self.chosen.values()]
        if not self.may_race(1 + len(self.chosen), RUNGS[-1]):
            return [DecisionResult(c.decision, c.label, None, is_kept=True) for c in self.chosen.values()]
        self.progress(f"tuning: racing the result without each of its decisions; {self.learnt}")
        without = [{d: c for d, c in self.chosen.items() if d != left} for left in self.chosen]
        result = self.run_race([self.incumbent, *map(self.configuration, without)], RUNGS[-1])
        found: list[DecisionResult] = []
        for choice, raced in zip(self.chosen.values(), result.raced[1:], strict=True):
            brought = None if raced.ratio is None else inverse(raced.ratio)
            found.append(DecisionResult(choice.decision, choice.label, brought, brought is None or brought.high < 1))
        return self._simplified(found)

    def _simplified(self, found: list[DecisionResult]) -> list[DecisionResult]:
        """The smallest set of decisions that is as good; decisions without gain are kept only if they gain together."""
        sure = {d.decision for d in found if d.is_kept}
        if len(sure) == len(found):
            return found
        names = [sure | others for others in _fewer([d for d in found if not d.is_kept])]
        fewer = [{d: c for d, c in self.chosen.items() if d in kept} for kept in names]
        if not self.may_race(1 + len(fewer), RUNGS[-1]):
            return [replace(d, is_kept=True) for d in found]
        raced = self.run_race([self.incumbent, *map(self.configuration, fewer)], RUNGS[-1]).raced[1:]
        ratios = ((n, r.ratio) for n, r in enumerate(raced) if r.ratio is not None and not r.ratio.inconclusive)
        if (least := next((n for n, ratio in ratios if ratio.low <= 1 and ratio.ratio < EQUAL), None)) is None:
            return [replace(d, is_kept=True) for d in found]
        self.history.append(dict(self.chosen))
        self.chosen = fewer[least]
        self._advance(raced[least])
        return [replace(d, is_kept=d.decision in names[least]) for d in found]


def _fewer(decisions: Sequence[DecisionResult]) -> list[set[str]]:
    """Smaller sets of these decisions, smallest first: all subsets of few, otherwise those that gain most."""
    if len(decisions) <= MAX_SELECTED:
        selections = (combinations(decisions, count) for count in range(len(decisions)))
        return [{d.decision for d in selection} for of_size in selections for selection in of_size]
    gains = sorted(decisions, key=lambda d: d.brought.ratio if d.brought is not None else 0.0)
    return [{d.decision for d in gains[:count]} for count in range(len(gains))]


def _without_dominated(entries: Sequence[tuple[Choice, RaceTrial]]) -> list[tuple[Choice, RaceTrial]]:
    """The alternatives, best first, without those that are significantly worse than another of the same decision."""
    found: list[tuple[Choice, RaceTrial]] = []
    for choice, trial in entries:
        ratio = trial.raced.ratio if trial.raced is not None else None
        others = ((c, t.raced.ratio) for c, t in found if c.decision == choice.decision and t.raced is not None)
        better = next((c for c, r in others if r is not None and ratio is not None and ratio.low > r.high), None)
        if better is None:
            found.append((choice, trial))
        else:
            trial.outcome = f"{better.label} is better or equal"
    return found


def _is_promising(entry: tuple[Choice, RaceTrial]) -> bool:
    """Whether it seems much better, but its interval is too wide to be certain."""
    _, trial = entry
    ratio = trial.raced.ratio if trial.raced is not None else None
    return ratio is not None and ratio.high >= 1 and ratio.ratio < PROMISING


def _figure(entry: tuple[Choice, RaceTrial]) -> float:
    _, trial = entry
    return trial.raced.ratio.ratio if trial.raced is not None and trial.raced.ratio is not None else inf
