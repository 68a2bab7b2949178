"""Search for the best candidate within the budget over schemes, their variants, and ops to keep in float."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf, log
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import PassesError, format_error
from ...core.ort.sessions import AS_USERS_RUN, SessionConfig
from ...core.rewriting.change_log import ChangeKey
from ...core.run.pipeline import Pass
from ...core.support.confidence_intervals import AS_FAST, RatioInterval
from ..measure.agreement import Score
from ..measure.criterion import Criterion
from .candidates import Candidate, CandidateBuilder, by_operator, changed_weights, replaced_names, replaced_operators
from .journal import Journal

MAX_REBUILDS = 4  # to leave out groups that onnxruntime does not fuse
LESS = 0.97  # of the bytes of a candidate: its weights are stored with fewer bits if that makes it this small
SMALLER = 0.9  # of the original's bytes: a candidate that is as fast has to be at most as large
LINEAR = frozenset({"Conv", "Gemm", "MatMul"})  # without which nothing else is quantized
FASTER_WITHOUT = 0.97  # of the time with an operator quantized, below which it stays in float
FAST = 0.5  # of the original's time; if a candidate takes less, none of its integer operators is slow
WIDE = 8  # bits of weights whose rounding to 4 does most harm
FEW, PARTS = 8, 6  # the eighth of the ops that is tried first, and the parts of the model after that
CHOOSING = 0.5  # of the time that is left: after it no further scheme is built before the others are scored
OPERATORS = 0.25  # of the time that is left, for races of candidates with an operator in float
BASE_GAIN = 0.5  # of the gain of the smallest reduced model: those within the budget are larger
SIZE_GAIN = 0.5  # of a logarithm of sizes, which counts as much as one of times
REDUCING = 8  # times the seconds of a score: finding a reduced model and compressing it take at least as long
RESERVE = 1.25  # times the seconds of a search, up to which candidates are scored if none is within the budget
REPLACING = 1.1  # times these seconds, up to which more accurate candidates are tried if another one was never scored
CLOSER = 1.0  # dB of signal to noise, by which a candidate is more accurate than one with as much loss
UNDECIDED = 1.25  # times the least figure, up to which candidates whose intervals overlap are equal
Goal = Literal["latency", "size", "memory"]
"""The figures that a search can minimize. Unless it is the latency, any time is accepted."""
GOALS: tuple[Goal, ...] = get_args(Goal)
LIMITS = {"time": "ran out of time", "trials": "reached its number of trials"}
"""The limits of a search, and what a search did that reached them."""


class RaceRatios(Struct, frozen=True):
    """The time and peak memory of a model in a race, divided by the original's; None if not measured."""

    time: RatioInterval
    memory: RatioInterval | None = None


Race = Callable[[Sequence[Path], Sequence[str]], list[RaceRatios | str]]
"""The ratios of models, in precisions, to the original, or the reason why one was not measured."""
UnfusedGroups = Callable[[Path, Collection[ChangeKey]], Mapping[ChangeKey, str]]
"""The changes whose groups onnxruntime does not compute with integers, with the reason."""
Rankings = Callable[["BuiltCandidate"], Iterable[Sequence[ChangeKey]]]
"""Orders in which to revert a candidate's changes until the budget is met; the last one is the reversed model order."""


class Limits(Struct, frozen=True):
    """Limits of a search: the number of scored candidates, and the seconds after which no other is started."""

    trials: int
    seconds: float


@dataclass
class Deadline:
    """The time of `monotonic` at which work ends with what it has; a search moves it."""

    at: float = inf

    @property
    def midway(self) -> float:
        """The time in the middle between now and then."""
        return (monotonic() + self.at) / 2


@dataclass(slots=True)
class Trial:
    """A candidate: its scheme and variant, the changes that it makes and those that it reverts, and the outcome.

    `score`, and the `ratio` and `memory` relative to the original, are None if not measured; `bytes` is its size on
    disk.
    """

    scheme: str
    variant: str
    changed: int
    left: int
    bytes: int
    score: Score | None = None
    ratio: RatioInterval | None = None
    outcome: str = ""
    memory: RatioInterval | None = None

    @property
    def inaccuracy(self) -> tuple[float, float]:
        """The loss, and the noise in dB of the signal; infinite if not measured."""
        score = self.score
        return (inf, inf) if score is None else (score.loss, inf if score.snr is None else -score.snr)

    def is_more_accurate(self, other: Trial) -> bool:
        """Whether it has less loss than another trial, or noise that is CLOSER to none."""
        (loss, noise), (more, louder) = self.inaccuracy, other.inaccuracy
        return loss < more or noise < louder - CLOSER


@dataclass(frozen=True)
class BuiltCandidate:
    """A candidate in a file, with the reasons for the changes that it reverts."""

    builder: CandidateBuilder
    candidate: Candidate = field(repr=False)
    path: Path
    left: Mapping[ChangeKey, str]
    trial: Trial

    @property
    def precision(self) -> str:
        """The precision of the engine; "" for the precision of its session."""
        return self.builder.scheme.precision

    @property
    def key(self) -> str:
        """A text that identifies the candidate."""
        return f"{self.candidate.digest} {self.precision}".strip()

    def session(self, usual: SessionConfig) -> SessionConfig:
        """The session for the candidate."""
        return replace(usual, precision=self.precision or usual.precision)

    @property
    def is_within(self) -> bool:
        """Whether the candidate is known to be within the budget."""
        return self.trial.outcome == WITHIN


class _WithOpsLeft(NamedTuple):
    """A candidate with ops in float that was within the budget, without its model."""

    trial: Trial
    builder: CandidateBuilder
    left: Mapping[ChangeKey, str]


Leaving = Callable[[BuiltCandidate, Collection[ChangeKey]], BuiltCandidate | None]
"""Makes a candidate without some changes; None if it is over the budget."""
ANOTHER = "than another"
WITHIN, TAKEN, LIMITED = "within the budget", "taken", "not tried: the search had ended"
Variant = Callable[[Any], CandidateBuilder | None]
"""Makes a builder from the scheme's best candidate so far, unused for the first variant; None if nothing changes."""
Variants = Sequence[tuple[str, Variant]]
"""Variants of one scheme by name; later ones are tried if earlier ones miss the budget."""
Combined = Callable[[Sequence[BuiltCandidate]], Mapping[str, Variants]]
"""Makes further schemes from the candidates within the budget, best first."""


@dataclass
class Search:
    """A search over schemes; deterministic except for times. `trials` are all candidates, in order.

    `size` is the size of the original in bytes; `leave` names values and operators that stay in float. `stores` are
    ways of storing weights with fewer bits, by name, with which each candidate within the budget is combined.
    Candidates are scored in a `session`. `ended_by`: the limit that kept it from trying more, "" if it is complete.
    With `is_raced_after`, the caller races the candidates again, and their bytes do not count. What makes candidates
    works until the `deadline`. No trial is begun without time for the `seconds` of the last one.
    """

    criterion: Criterion
    race: Race
    rankings: Rankings
    folder: Path
    size: int
    limits: Limits
    leave: frozenset[str] = frozenset()
    unfused_groups: UnfusedGroups = lambda _, __: {}
    stores: Mapping[str, Sequence[Pass]] = field(default_factory=dict[str, Sequence[Pass]])
    journal: Journal = field(default_factory=Journal)
    session: SessionConfig = AS_USERS_RUN
    goal: Goal = "latency"
    progress: Callable[[str], None] = lambda _: None
    is_raced_after: bool = False
    deadline: Deadline = field(default_factory=Deadline)
    trials: list[Trial] = field(default_factory=list[Trial], init=False)
    scored: int = field(default=0, init=False)
    ended_by: str = field(default="", init=False)
    seconds: float = 0.0
    _schemes: Mapping[str, Variants] = field(default_factory=dict[str, Variants], init=False)
    _start: float = field(default_factory=monotonic, init=False)
    _files: int = field(default=0, init=False)
    _end: float = field(default=inf, init=False)
    _outrun: list[BuiltCandidate] = field(default_factory=list[BuiltCandidate], init=False)
    _sufficient: list[_WithOpsLeft] = field(default_factory=list[_WithOpsLeft], init=False)

    @property
    def _elapsed(self) -> float:
        return monotonic() - self._start

    def _is_exhausted(self, reserve: float = 1.0) -> bool:
        """Whether the number of trials or `reserve` times the time is used up, which then ended the search."""
        is_late = self._elapsed + self.seconds > min(reserve * self.limits.seconds, self._end)
        reached = "trials" if self.scored >= self.limits.trials else "time" if is_late else ""
        self.ended_by = self.ended_by or reached
        return bool(reached)

    @property
    def _replacing(self) -> float:
        """Times the seconds of the search, up to which more accurate candidates are tried after it."""
        return REPLACING if self._outrun else RESERVE

    def run(self, schemes: Mapping[str, Variants], combined: Combined = lambda _: {}) -> list[BuiltCandidate]:
        """Find the candidates within the budget that are better than the original, best first.

        `combined` makes further schemes from those found.
        """
        finalists: list[BuiltCandidate] = []
        self._try(schemes, finalists)
        self._try(combined(self.ordered(finalists)), finalists)
        self.progress("racing the candidates within the budget")
        self._race([] if self.is_raced_after else self._undecided(finalists))
        return self.ordered(list(filter(self._is_gain, finalists)))

    def _try(self, schemes: Mapping[str, Variants], finalists: list[BuiltCandidate]) -> None:
        """Add the candidates within the budget to the finalists.

        Schemes are tried in rounds, as many in each as can be built in half of the time that is left. Of the first one
        at least a candidate is scored, that which is best for the goal; if there is no time for a second one, that
        which only stores weights with fewer bits, as most of these are within the budget. Base schemes are the last, as
        few are at first. Once one is within the budget, better ones that are not are repaired before others are scored.
        """
        over: list[BuiltCandidate] = []
        self._schemes = {**self._schemes, **schemes}
        pending = dict(schemes)
        while pending and not ((finalists or len(pending) < len(schemes)) and self._is_exhausted()):
            starts = self._starts(pending)
            is_only = not finalists and self._elapsed + 2 * self.seconds > RESERVE * self.limits.seconds
            first = self.stores if is_only else {b.trial.scheme for b in starts if not b.builder.scheme.is_base}
            waiting = sorted(self.ordered(starts), key=lambda b: b.trial.scheme not in first)
            while waiting:
                start = waiting.pop(0)
                start.trial.outcome = start.trial.outcome or self._rejection(start, finalists)
                if start.trial.outcome:
                    self._outrun += [start] if start.trial.outcome.endswith(ANOTHER) else []
                    continue
                self.progress(f"quantizing: {start.trial.scheme}")
                if self._scored(start).is_within:
                    finalists += self._with_stored_weights(start)
                    finalists += self._repaired(over, finalists, waiting, has_more=bool(pending))
                    over = []
                else:
                    over.append(start)
        self.trials += [Trial(name, of[0][0], 0, 0, 0, outcome=LIMITED) for name, of in pending.items()]
        finalists += self._repaired(over, finalists)

    def _repaired(
        self,
        over: Sequence[BuiltCandidate],
        finalists: Sequence[BuiltCandidate],
        waiting: Sequence[BuiltCandidate] = (),
        *,
        has_more: bool = False,
    ) -> list[BuiltCandidate]:
        """Repair candidates that are over the budget and may be better than the finalists.

        Other variants come first, then ops in float, then bases. The remaining time is shared between each and the best
        of those behind it, the last of which are `waiting`, in proportion to what they may gain. With `has_more`,
        schemes that are not built yet get as much as the candidate, and so do those made from a base and finalists. If
        there is no time for these, the base is left out.
        """
        narrow = [b for b in over if not b.builder.scheme.is_base]
        steps = [*((b, self._with_other_variant) for b in narrow), *((b, self._with_ops_left) for b in narrow)]
        steps += [(b, self._least_within_budget) for b in over if b.builder.scheme.is_base]
        gains = {b.path: self._gain(b, finalists) for b in [*over, *waiting]}
        best, found = {b.path: b for b in over}, list[BuiltCandidate]()
        for i, (start, repair) in enumerate(steps):
            is_base, gain = start.builder.scheme.is_base, gains[start.path]
            behind = [gains[b.path] for b in [*(b for b, _ in steps[i + 1 :]), *waiting] if b is not start]
            further = max([*behind, gain if has_more or (finalists and is_base) else 0.0])
            share = gain / (gain + further) if further else 1.0
            if is_base and finalists and self._elapsed + REDUCING * self.seconds > self.limits.seconds:
                self.ended_by, share = self.ended_by or "time", 0.0
            if not share or best[start.path].is_within:
                continue
            self._work_until(self._elapsed + share * (self.limits.seconds - self._elapsed) if further else inf)
            is_tried = not self._rejection(start, [*finalists, *found])
            repaired = repair(best[start.path]) if is_tried else None
            self._work_until(inf)
            best[start.path] = repaired or best[start.path]
            if repaired is not None and repaired.is_within:
                has_longer = self.goal != "size" and len(repaired.left) > len(start.left)
                self._race([repaired] if has_longer and waiting else [])  # so that it may outrun those
                reserve = 1.0 if self._is_outrun(repaired, [*finalists, *found]) else RESERVE
                ratio = repaired.trial.ratio  # with stored weights, it would be as slow
                is_slower = self.goal == "latency" and ratio is not None and ratio.low > 1
                found += [repaired] if is_slower else self._with_stored_weights(repaired, reserve)
        return found

    def _gain(self, built: BuiltCandidate, finalists: Sequence[BuiltCandidate]) -> float:
        """How much better and smaller than the finalists a candidate is, as a logarithm; 0 if it is not as good."""
        best, figure = min(map(self._figure, finalists), default=1.0), self._figure(built)
        if not 0 < figure < AS_FAST * best:
            return 0.0
        least = min((f.trial.bytes for f in finalists), default=self.size)
        smaller = log(least / built.trial.bytes) if 0 < built.trial.bytes < least else 0.0
        share = BASE_GAIN if built.builder.scheme.is_base else 1.0
        return share * (max(log(best / figure), 0.0) + SIZE_GAIN * smaller)

    def _work_until(self, end: float) -> None:
        """Let work end at a time of the search, or at the end of it."""
        self._end = end
        self.deadline.at = self._start + min(end, self.limits.seconds)

    def _interval(self, built: BuiltCandidate) -> RatioInterval | None:
        """The figure to minimize, divided by the original's; None if not measured."""
        if self.goal == "size":
            share = built.trial.bytes / max(self.size, 1)
            return RatioInterval(share, share, share)
        return built.trial.memory if self.goal == "memory" else built.trial.ratio

    def _figure(self, built: BuiltCandidate) -> float:
        """The middle of that interval; infinite if there is none."""
        found = self._interval(built)
        return inf if found is None else found.ratio

    def _starts(self, pending: dict[str, Variants]) -> list[BuiltCandidate]:
        """The first variants of the schemes of a round, removed from `pending`, after a race."""
        end = self._elapsed + CHOOSING * max(0.0, self.limits.seconds - self._elapsed)
        wholes: list[BuiltCandidate] = []
        self.deadline.at = self._start + end
        while pending and not (wholes and self._elapsed > end):
            name = next(iter(pending))
            built = self._first(name, pending.pop(name))
            wholes += [] if built is None else [built]
        self._work_until(inf)
        if self.goal == "latency":
            self.progress("racing the schemes")
            return self._without_slow_operators(wholes, end)
        if self.goal == "memory":
            self._race(wholes)
        return wholes

    def _first(self, scheme: str, variants: Variants) -> BuiltCandidate | None:
        """The first variant of a scheme that changes anything, without groups that onnxruntime does not fuse."""
        name, variant = variants[0]
        self.progress(f"quantizing: building {scheme}")
        builder = variant(None)
        built = None if builder is None else self._build(scheme, name, builder, {})
        for _ in range(MAX_REBUILDS):
            unwanted = {} if built is None else self._unwanted(built)
            if built is None or not unwanted:
                return built
            self.trials.remove(built.trial)
            built = self._build(scheme, name, built.builder, {**built.left, **unwanted})
        return built

    def _unwanted(self, built: BuiltCandidate) -> dict[ChangeKey, str]:
        """The changes that the caller excludes, and those whose group onnxruntime does not compute with integers."""
        builder, candidate = built.builder, built.candidate
        found: dict[ChangeKey, str] = {}
        if self.leave:
            names = replaced_names(builder.source.load(), candidate.changes)
            found = {key: "--leave names it" for key in candidate.keys if self.leave & names[key]}
        return {**found, **self.unfused_groups(built.path, candidate.keys)} if builder.scheme.needs_ranges else found

    def _build(
        self, scheme: str, variant: str, builder: CandidateBuilder, left: Mapping[ChangeKey, str]
    ) -> BuiltCandidate | None:
        """Build a candidate in a file, with a trial; None if there is nothing to change, which the trial says."""
        trial = Trial(scheme, variant, 0, len(left), 0)
        self.trials.append(trial)
        try:
            candidate = builder.build(left)
        except PassesError as e:
            trial.outcome = f"invalid: {format_error(e)}"
            return None
        trial.changed = len(candidate.changes) + builder.reduction.count
        if not trial.changed and (builder.scheme.lossy or not builder.scheme.precision):
            trial.outcome = "it changes no op"
            return None
        self._files += 1
        path = self.folder / f"{self._files}.onnx"
        trial.bytes = candidate.write(path)
        return BuiltCandidate(builder, candidate, path, left, trial)

    def _without_slow_operators(self, wholes: Sequence[BuiltCandidate], end: float) -> list[BuiltCandidate]:
        """Race candidates, and revert operators that are faster in float; stop building at `end`.

        As many are built as can be raced in OPERATORS of the remaining time, none for a candidate that is FAST.
        """
        start = self._elapsed
        self._race(wholes)
        duration = (self._elapsed - start) / (1 + len(wholes))
        room = OPERATORS * (self.limits.seconds - self._elapsed) - duration
        entries: list[list[BuiltCandidate]] = []
        for whole in wholes:
            entries.append([])
            operators = replaced_operators(whole.builder.source.load(), whole.candidate.changes)
            kinds = {kind: keys for kind, keys in by_operator(operators) if kind not in LINEAR}
            may_gain = whole.builder.scheme.needs_ranges and candidate_time(whole) > FAST
            for kind, keys in kinds.items() if may_gain else ():
                room -= duration
                if self._elapsed > end or room < 0:
                    self.ended_by = self.ended_by or "time"
                    break
                slow = dict.fromkeys(keys, f"{kind} is faster in float here")
                built = self._build(whole.trial.scheme, f"{kind} in float", whole.builder, {**whole.left, **slow})
                if built is not None:
                    entries[-1].append(built)
        self._race([b for found in entries for b in found])
        return [self._fastest(whole, others) for whole, others in zip(wholes, entries, strict=True)]

    def _fastest(self, whole: BuiltCandidate, others: Sequence[BuiltCandidate]) -> BuiltCandidate:
        """The candidate without all operators that are faster in float, if that is faster."""
        least = FASTER_WITHOUT * candidate_time(whole)
        slow = [b for b in others if b.trial.ratio is not None and b.trial.ratio.high < least]
        best, tried = min([whole, *slow], key=candidate_time), [whole, *others]
        if len(slow) > 1:
            left = {key: reason for b in slow for key, reason in b.left.items()}
            both = self._build(whole.trial.scheme, "slow operators in float", whole.builder, left)
            if both is not None:
                self._race([both, best])
                best = min([both, best], key=candidate_time)
                tried.append(both)
        for b in tried:
            if b is not best:
                b.trial.outcome = b.trial.outcome or "another choice of ops is faster"
        return best

    def _race(self, entries: Sequence[BuiltCandidate]) -> None:
        """Measure candidates in one race, replacing earlier results.

        Of those that only store weights with fewer bits, the first one that runs stands for all: onnxruntime makes the
        same floats of them. But they may take different memory.
        """
        is_same = self.session.is_onnxruntime and self.goal != "memory"
        storing = [b for b in entries if is_same and b.trial.scheme in self.stores]
        alike = {b.path for b in storing[1:]}
        raced = [b for b in entries if b.path not in alike]
        if not raced:
            return
        key = f"race {' '.join(b.key for b in raced)}"
        found = self.journal.result(
            key,
            list[RaceRatios | str],
            lambda: self.race([b.path for b in raced], [b.precision for b in raced]),
            lambda r: len(r) == len(raced),
        )
        for b, measured in zip(raced, found, strict=True):
            if isinstance(measured, str):
                b.trial.ratio, b.trial.memory, b.trial.outcome = None, None, f"invalid: {measured}"
            else:
                b.trial.ratio, b.trial.memory = measured.time, measured.memory
        if storing and storing[0].trial.ratio is None:
            self._race(storing[1:])
            return
        for b in storing[1:]:
            b.trial.ratio, b.trial.memory = storing[0].trial.ratio, storing[0].trial.memory

    def _rejection(self, built: BuiltCandidate, finalists: Sequence[BuiltCandidate]) -> str:
        """Why a candidate can no longer win; "" if it can."""
        ratio = self._interval(built)
        if ratio is None:
            return "not measured"
        if self.goal != "size":  # other ways to store its weights may make any candidate smaller
            word = "slower" if self.goal == "latency" else "larger in memory"
            if ratio.low > 1:
                return word
            if not built.builder.scheme.is_base and self._is_outrun(built, finalists):
                return f"{word} {ANOTHER}"
        return LIMITED if self.scored and self._is_exhausted(1.0 if finalists else RESERVE) else ""

    def _is_outrun(self, built: BuiltCandidate, finalists: Sequence[BuiltCandidate]) -> bool:
        """Whether a finalist is surely better, by more than the difference up to which the smaller one is preferred."""
        ratio, others = self._interval(built), [f for b in finalists if (f := self._interval(b)) is not None]
        return ratio is not None and any(ratio.low > f.high and ratio.ratio > AS_FAST * f.ratio for f in others)

    def _undecided(self, finalists: Sequence[BuiltCandidate]) -> list[BuiltCandidate]:
        """The finalists to race: those not measured, and those that may be the best, unless that is clear.

        It is clear if their figures are the same, and if each is better than the original.
        """
        unmeasured = [b for b in finalists if b.trial.ratio is None]
        measured = [(b, found) for b in finalists if b.trial.ratio and (found := self._interval(b)) is not None]
        most = AS_FAST * min((found.high for _, found in measured), default=0.0)
        close = [(b, found) for b, found in measured if found.low <= most]
        is_decided = self.goal == "size" or len({found for _, found in close}) < 2
        is_decided &= all(found.high < 1 or (self.goal == "latency" and self._is_small(b)) for b, found in close)
        is_late = self._elapsed > self.limits.seconds
        return unmeasured if is_decided or is_late else [*unmeasured, *(b for b, _ in close)]

    def _is_small(self, built: BuiltCandidate) -> bool:
        """Whether it is a gain if it is only as fast as the original."""
        return built.trial.bytes <= SMALLER * self.size

    def _is_gain(self, built: BuiltCandidate) -> bool:
        """Whether it is better than the original: faster, or as fast and smaller; or smaller, if that is the goal."""
        if self.goal != "latency":
            if built.trial.ratio is None:
                return False  # it does not run
            interval = self._interval(built)
            if interval is not None and interval.high <= (LESS if self.goal == "size" else 1):
                return True
            built.trial.outcome = "not smaller" if self.goal == "size" else "not smaller in memory"
            return False
        ratio = built.trial.ratio
        is_as_fast = ratio is not None and not ratio.is_slower
        is_faster = ratio is not None and ratio.high <= 1 and not ratio.inconclusive
        if is_faster or (is_as_fast and self._is_small(built)):
            return True
        if ratio is not None:
            built.trial.outcome = "neither faster nor smaller" if is_as_fast else "slower"
        if ratio is not None and ratio.inconclusive:
            built.trial.outcome = "inconclusive: the machine is busy"
        return False

    def ordered(self, candidates: Sequence[BuiltCandidate]) -> list[BuiltCandidate]:
        """Order candidates, best first; each is the best of the remaining ones."""
        waiting, found = [*candidates], list[BuiltCandidate]()
        while waiting:
            key = self._preference(waiting)
            found.append(waiting.pop(min(range(len(waiting)), key=lambda i: key(waiting[i]))))
        return found

    def _preference(self, finalists: Sequence[BuiltCandidate]) -> Callable[[BuiltCandidate], tuple[float, ...]]:
        """The order of finalists: those as good as the best first, smallest first, then by the figure.

        As good are those within AS_FAST of the best, as the same model loaded twice differs by some percent, and those
        whose intervals overlap, up to UNDECIDED times it: of wide intervals the middles say more. But if one is surely
        better than the original, those that may be worse than the original are not as good. Sizes are exact, so the
        smallest is the best; time decides between equal ones.
        """
        measured = [found for b in finalists if (found := self._interval(b)) is not None]
        least, nearest = min((r.high for r in measured), default=0.0), min((r.ratio for r in measured), default=0.0)

        def key(built: BuiltCandidate) -> tuple[float, ...]:
            found = self._interval(built)
            if self.goal == "size":
                return built.trial.bytes, candidate_time(built)
            factor = inf if found is None else found.ratio / nearest if nearest else 1.0
            is_behind = found is None or factor > (UNDECIDED if found.low <= least else AS_FAST)
            is_behind |= found is not None and least < 1 < found.high
            return is_behind, 0.0 if is_behind else built.trial.bytes, self._figure(built)

        return key

    def _with_other_variant(self, start: BuiltCandidate) -> BuiltCandidate:
        """The first variant within the budget, which `start` is not, or the most accurate one."""
        best = start
        for variant in self._schemes[start.trial.scheme][1:]:
            if best.is_within or self._is_exhausted():
                break
            built = self._varied(start, variant, best)
            best = best if built is None else min((best, built), key=lambda b: b.trial.inaccuracy)
        return best

    def _varied(
        self, start: BuiltCandidate, variant: tuple[str, Variant], best: BuiltCandidate
    ) -> BuiltCandidate | None:
        """A variant that takes as long as the first one, with its score; None if it adds nothing."""
        name, make = variant
        self.progress(f"quantizing: {start.trial.scheme}, {name}")
        builder = make(best)
        built = None if builder is None else self._build(start.trial.scheme, name, builder, start.left)
        if built is None:
            return None
        built.trial.ratio, built.trial.memory = start.trial.ratio, start.trial.memory
        return self._scored(built)

    def _least_within_budget(self, start: BuiltCandidate) -> BuiltCandidate | None:
        """The first of ever larger variants that is within the budget, found by bisection, and raced."""
        found, variants = None, self._schemes[start.trial.scheme][1:]
        low, high = -1, len(variants)
        while high - low > 1 and not self._is_exhausted():
            middle = (low + high) // 2
            built = self._varied(start, variants[middle], start)
            is_within = built is not None and built.is_within
            found, low, high = (built, low, middle) if is_within else (found, middle, high)
        self._race([found] if found is not None and self.goal != "size" else [])
        return found

    def more_accurate(self, failed: BuiltCandidate) -> list[BuiltCandidate]:
        """Candidates with less loss or noise on the search samples than one that is over the budget on others.

        They are one with more ops in float that was within the budget as well, an untried variant of the scheme, or one
        with up to half of its ops in float, and the same with stored weights. With few samples, the loss depends on
        single ones, and the noise says more about others. Time is left to score a candidate that was outrun.
        """
        self.deadline.at = self._start + self._replacing * self.limits.seconds
        for built in chain(self._more_sufficient(failed), self._next_candidates(failed)):
            found = self._scored_like(failed, built)
            if found is not None and found.trial.is_more_accurate(failed.trial):
                return self._with_stored_weights(found)
        return []

    def outrun(self) -> list[BuiltCandidate]:
        """The best unscored candidate that is within the budget and an improvement, and the same with stored weights.

        It was not scored because another was better. Used if all others are over the budget on other samples.
        """
        while self._outrun and not self._is_exhausted(RESERVE):
            start, *self._outrun = self.ordered(self._outrun)
            if self._scored(start).is_within and (found := [*filter(self._is_gain, self._with_stored_weights(start))]):
                return found
        return []

    def _more_sufficient(self, failed: BuiltCandidate) -> Iterator[BuiltCandidate | None]:
        """Build the candidates with more ops in float that were within the budget as well, the fewest first."""
        for found in sorted(self._sufficient, key=lambda found: len(found.left)):
            is_alike = found.trial.scheme == failed.trial.scheme and len(found.left) > len(failed.left)
            if is_alike and found.trial.is_more_accurate(failed.trial) and not self._is_exhausted(self._replacing):
                self._sufficient = [other for other in self._sufficient if other is not found]
                self.trials.remove(found.trial)
                yield self._build(found.trial.scheme, found.trial.variant, found.builder, found.left)

    def _next_candidates(self, failed: BuiltCandidate) -> Iterator[BuiltCandidate | None]:
        trial = failed.trial
        tried = {t.variant for t in self.trials if t.scheme == trial.scheme and t.outcome != WITHIN}
        names = [name for name, _ in self._schemes[trial.scheme]]
        own = [name for name in names if f"{trial.variant}, ".startswith(f"{name}, ")]  # a way to store may follow
        first = names.index(max(own, key=len)) + 1 if own else 0  # those before are worse, or were tried
        # Other ranges may have more loss or less, GPTQ nearly always has a little less.
        for name, variant in sorted(self._schemes[trial.scheme][first:], key=lambda v: not v[0].endswith("GPTQ")):
            if name not in tried and not self._is_exhausted(self._replacing):
                self.progress(f"quantizing: {trial.scheme}, {name}")
                builder = variant(failed)
                yield None if builder is None else self._build(trial.scheme, name, builder, failed.left)
        is_done = not failed.candidate.changes or self._is_exhausted(self._replacing)
        order = [] if is_done else list(next(iter(self.rankings(failed))))
        count = 1
        while order and count <= max(len(order) // 2, 1) and not self._is_exhausted(self._replacing):
            reasons = dict.fromkeys(order[:count], "the loss is over the budget if it is quantized")
            yield self._build(trial.scheme, trial.variant, failed.builder, {**failed.left, **reasons})
            count *= 2

    def _with_stored_weights(self, found: BuiltCandidate, reserve: float = RESERVE) -> list[BuiltCandidate]:
        """The candidate, and the same with float weights stored in the first way that is within the budget.

        Only the candidate if no way makes it smaller, or after `reserve` times the time of the search. onnxruntime
        converts stored weights to floats when it loads the model.
        """
        trial, builder = found.trial, found.builder
        has_stores = trial.scheme in self.stores or builder.scheme.stores
        for name, passes in () if has_stores else self.stores.items():
            if self._is_exhausted(reserve):
                break
            self.progress(f"quantizing: {trial.scheme}, storing {name}")
            variant = f"{trial.variant}, {name}" if trial.variant else name
            combined = replace(builder, scheme=replace(builder.scheme, stores=passes))
            built = self._build(trial.scheme, variant, combined, found.left)
            if built is None:
                continue
            built.trial.changed, built.trial.ratio, built.trial.memory = trial.changed, trial.ratio, trial.memory
            if built.trial.bytes > LESS * trial.bytes:
                built.trial.outcome = "not much smaller"
            elif self._scored(built).is_within:
                return [found, built]
        return [found]

    def _scored(self, built: BuiltCandidate) -> BuiltCandidate:
        """The candidate with its score and whether it is within the budget."""
        self.scored += 1
        session, began = built.session(self.session), monotonic()
        score = self.journal.result(f"score {built.key}", Score, lambda: self.criterion.score(built.path, session))
        self.seconds = monotonic() - began
        built.trial.score = score
        within = not score.failure and self.criterion.allows(score)
        built.trial.outcome = f"invalid: {score.failure}" if score.failure else WITHIN if within else "over the budget"
        return built

    def _with_ops_left(self, over: BuiltCandidate) -> BuiltCandidate | None:
        """Find a candidate within the budget with some 4-bit weights in 8 bits, or with ops in float.

        Tries few ops of the first order, then parts of the model, then the shortest sufficient prefix of an order.
        """
        score = over.trial.score
        if score is None or score.failure or not over.candidate.changes or self._is_exhausted():
            return None  # computing an order takes as long as several scores
        self.progress(f"quantizing: {over.trial.scheme}, measuring the losses of single ops")
        orders = [list(order) for order in self.rankings(over)]
        first = orders[:1] if over.builder.spec.weight_bits < WIDE else []
        wide = (self._with_first_left(over, order, len(order), self._widening) for order in first)
        few = (self._with_first_left(over, order, len(order) // FEW) for order in orders[:1])
        parts = (self._with_parts_left(over, order) for order in orders[-1:])
        many = (self._with_first_left(over, order, max(3 * len(order) // 4, 1)) for order in orders)
        return next((built for built in chain(wide, few, parts, many) if built is not None), None)

    def _with_parts_left(self, over: BuiltCandidate, order: Sequence[ChangeKey]) -> BuiltCandidate | None:
        """The candidate without the changes in the parts of the model that cause the largest loss.

        Each part is first reverted alone; at most half of them are reverted together.
        """
        tried: list[tuple[float, list[ChangeKey]]] = []
        for keys in _parts(order, -(-len(order) // PARTS)):
            if self._is_exhausted():
                return None
            part = [key for key in order if key in keys]
            built = self._leaving(over, part)
            if built is not None:
                return self._with_ops_put_back(over, part, built)
            score = self.trials[-1].score
            tried.append((inf if score is None else score.loss, part))
        tried.sort(key=lambda pair: pair[0])
        for count in range(2, PARTS // 2 + 1):
            together = [key for _, part in tried[:count] for key in part]
            built = None if self._is_exhausted() else self._leaving(over, together)
            if built is not None:
                return self._with_ops_put_back(over, together, built)
        return None

    def _with_first_left(
        self, over: BuiltCandidate, order: Sequence[ChangeKey], most: int, leaving: Leaving | None = None
    ) -> BuiltCandidate | None:
        """The candidate without the shortest sufficient prefix of an order's changes, of limited length.

        The length is doubled until the budget is met, then bisected; then changes are restored in parts. `leaving`
        makes the candidate without some changes, if it is within the budget.
        """
        leave = leaving or self._leaving
        best: BuiltCandidate | None = None
        low, count = 0, 1
        while best is None and low < most and not self._is_exhausted():
            best = leave(over, order[:count])
            low, count = (low, count) if best is not None else (count, min(2 * count, most))
        while best is not None and count - low > 1 and not self._is_exhausted():
            middle = (low + count) // 2
            found = leave(over, order[:middle])
            best, low, count = (best, middle, count) if found is None else (found, low, middle)
        return self._with_ops_put_back(over, order[:count], best, leave) if best is not None else None

    def _with_ops_put_back(
        self, over: BuiltCandidate, left: Sequence[ChangeKey], best: BuiltCandidate, leaving: Leaving | None = None
    ) -> BuiltCandidate:
        """The candidate with increasingly small parts of the `left` ops quantized again, while within the budget.

        Parts are at least an eighth of them.
        """
        leave = leaving or self._leaving
        remaining, size = list(left), len(left) // 2
        while size >= len(left) / FEW and not self._is_exhausted():
            for part in list(_parts(remaining[:-1], size)):  # without the last one it was over the budget
                kept = [key for key in remaining if key not in part]
                found = leave(over, kept) if not self._is_exhausted() else None
                best, remaining = (best, remaining) if found is None else (found, kept)
            size //= 2
        return best

    def _widening(self, over: BuiltCandidate, keys: Collection[ChangeKey]) -> BuiltCandidate | None:
        """The candidate with the weights of some ops in 8 bits, if it is within the budget."""
        self.progress(f"quantizing: {over.trial.scheme}, {len(keys)} ops in {WIDE} bits")
        weights = changed_weights(over.builder.source.load(), over.candidate.changes)
        names = frozenset(v.name for key in keys for v in weights.get(key, ()))
        builder = replace(over.builder, spec=replace(over.builder.spec, wide=names))
        variant = f"{over.trial.variant}, {len(keys)} in {WIDE} bits"
        return self._scored_like(over, self._build(over.trial.scheme, variant, builder, over.left))

    def _leaving(self, over: BuiltCandidate, keys: Collection[ChangeKey]) -> BuiltCandidate | None:
        """The candidate with further ops in float, if it is within the budget."""
        self.progress(f"quantizing: {over.trial.scheme}, {len(keys)} ops in float")
        reasons = dict.fromkeys(keys, "the loss is over the budget if it is quantized")
        built = self._build(over.trial.scheme, over.trial.variant, over.builder, {**over.left, **reasons})
        found = self._scored_like(over, built)
        self._sufficient += [] if found is None else [_WithOpsLeft(found.trial, found.builder, found.left)]
        return found

    def _scored_like(self, over: BuiltCandidate, built: BuiltCandidate | None) -> BuiltCandidate | None:
        """Score a candidate that takes as much time and memory as another, or up to the original's with more in float.

        Returns it if it is within the budget.
        """
        if built is None:
            return None
        figures = [over.trial.ratio, over.trial.memory]
        if len(built.left) > len(over.left):
            figures = [r and replace(r, high=max(r.high, 1.0)) for r in figures]
        built.trial.ratio, built.trial.memory = figures
        return built if self._scored(built).is_within else None


def _parts(keys: Sequence[ChangeKey], size: int) -> Iterator[frozenset[ChangeKey]]:
    for start in range(0, len(keys), size):
        yield frozenset(keys[start : start + size])


def candidate_time(built: BuiltCandidate) -> float:
    """The time relative to the original; infinite if it was not measured."""
    return built.trial.ratio.ratio if built.trial.ratio is not None else inf
