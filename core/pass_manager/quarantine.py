"""Finding the changes that break a model, one after the other, and leaving them out.

Passes are deterministic, so the first wrong change is found by replaying with a limit and halving it; it is
banned, and the run goes on without it. The good path costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import NoFixpoint, PassFailed, RuleError, VerificationError, Why
from ..rewriting.changes import Change, Key
from ..rewriting.ledger import TO_THE_END, Ledger, Stop
from ..support.binary_search import first_bad
from ..support.watchdog import Stuck
from ..verify.input_generation import Draw
from .attempt_check import Failure, Look, Trial
from .pass_manager import Manager
from .pipeline import RulePass, leaves, named, rule_names

CAP = 20  # wrong changes of one rule, or of a pass without rules, after which it is left out as a whole


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A change that was left out: who made it and where, what it did wrong, and the inputs that showed it.

    `place` is a value's name, or "" where a pass (or rule) is left out as a whole. `error` and `allowed` are
    absolute; `kind` is that of the inputs, `draw` the inputs in words.
    """

    pass_name: str
    by: str
    place: str
    why: Why
    message: str
    ordinal: int | None = None
    replaced: tuple[str, ...] = ()
    output: str = ""
    error: float | None = None
    allowed: float | None = None
    kind: str = ""
    draw: str = ""
    repro: str = ""

    @property
    def label(self) -> str:
        """Who, and where."""
        who = self.by if self.by == self.pass_name else f"{self.pass_name}/{self.by}"
        number = f" #{self.ordinal}" if self.ordinal is not None else ""
        return f"{who}{number} at {self.place}" if self.place else f"{who}{number}, as a whole"


Keep = Callable[[Quarantined, Trial, Trial | None], Quarantined]
"""Told of what is left out with the trials just before and, of a change, just after it; gives it back, annotated."""
Culprit = tuple[Quarantined, Stop, Trial | None]
"""What is to be left out, where a replay stops just before it, and the trial just after it, if it is a change."""


@dataclass(slots=True)
class Quarantine:
    """Replays a run until it is right. `found` is what was left out, `replays` counts the runs this took."""

    manager: Manager
    look: Look
    keep: Keep | None = None
    cap: int = CAP
    found: list[Quarantined] = field(default_factory=list[Quarantined])
    replays: int = 0
    _offences: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _sound: tuple[Draw | None, int] = (None, -1)  # the last one found, up to which this draw is known to go well

    def leave_out_next(self, failed: Trial) -> Quarantined:
        """Find out what first broke a full run, and ban it. Raises VerificationError if it was no pass."""
        found, stop, after = self._culprit(failed)
        if self.keep is not None:
            found = self.keep(found, self._replay(replace(self.look, judge=None), stop), after)
        if found.why != Why.RAISED:
            self._lift()
        self._ban(found)
        who = found.pass_name, found.by
        self._offences[who] += 1
        if self._offences[who] == self.cap:
            much = f"{self.cap} of its changes were wrong"
            self._ban(Quarantined(*who, "", found.why, much))
        return found

    def _ban(self, found: Quarantined) -> None:
        self.found.append(found)
        bans = self.manager.bans
        if found.ordinal is not None:
            # Where an exception was, there is nothing to be had at any time.
            self._ban_change((found.by, found.place), 0 if found.why == Why.RAISED else found.ordinal)
            return
        names = bans.rules if self._is_rule(found.pass_name, found.by) else bans.passes
        if found.by in names:
            raise VerificationError(f"{found.message}; it is so although {found.by} is left out")
        names.add(found.by)
        self._sound = (None, -1)  # what comes before has other numbers now

    def _ban_change(self, key: Key, ordinal: int) -> None:
        """From `ordinal` on. Later changes get lower numbers by it, so bans on them reach down to it."""
        changes = self.manager.bans.changes
        changes.update({k: ordinal for k, other in changes.items() if other > ordinal})
        changes[key] = ordinal
        if ordinal < self._sound[1]:
            self._sound = (None, -1)

    def _lift(self) -> None:
        """Give those who raised another chance: it may have been for what another had left there."""
        bans = self.manager.bans
        for q in (q for q in self.found if q.why == Why.RAISED):
            bans.passes.discard(q.by)
            bans.rules.discard(q.by)
            bans.changes.pop((q.by, q.place), None)
        self.found = [q for q in self.found if q.why != Why.RAISED]

    def _replay(self, look: Look, stop: Stop = TO_THE_END) -> Trial:
        self.replays += 1
        return look.at(self.manager.run(stop=stop, record=True, careful=look.careful))

    def _culprit(self, failed: Trial) -> Culprit:
        error, failure = failed.attempt.failed, failed.failure
        assert failure is not None
        if error is None:
            look = self.look.like(failed)
            again = self._replay(look)
            return self._searched(again, look) if again.failure is not None else self._fickle(failed, again)
        careful = replace(self.look, judge=None, careful=True)
        if isinstance(error.__cause__, Stuck):  # it would take as long again
            return self._named(error, failure, failed.attempt.ledger)
        checked = self._replay(careful)
        if checked.failure is not None and checked.failure.why == Why.INVALID:
            return self._searched(checked, careful)
        return self._named(error, failure, failed.attempt.ledger)

    def _fickle(self, failed: Trial, again: Trial) -> Culprit:
        """The first pass that did something else when all was run again. Raises VerificationError if none shows."""
        assert failed.failure is not None
        counts = [t.attempt.ledger.counts for t in (failed, again)]
        for name in dict.fromkeys(failed.attempt.ledger.ran):
            if counts[0].get(name) != counts[1].get(name):
                said = f"{failed.failure.message}; it does not do the same twice"
                return shown_by(whole(name, failed.failure, said), failed.failure), Stop(runs=0), None
        raise VerificationError(f"{failed.failure.message}; but not when all was run again: a pass keeps state")

    def _named(self, error: PassFailed, failure: Failure, ledger: Ledger) -> Culprit:
        """The culprit that an exception names: a rule at a place, what never ends, or the pass."""
        cause = error.__cause__
        if isinstance(cause, RuleError) and cause.place and self._is_rule(error.pass_name, cause.rule):
            here = Quarantined(error.pass_name, cause.rule, cause.place, failure.why, failure.message, ledger.made)
            return here, Stop(before=ledger.made), None
        by = self._endless(error, cause.suspects) if isinstance(cause, NoFixpoint) else error.pass_name
        holder = error.pass_name if self._is_rule(error.pass_name, by) else by
        found = Quarantined(holder, by, "", failure.why, failure.message)
        return found, Stop(runs=len(ledger.ran)), None

    def _is_rule(self, pass_name: str, name: str) -> bool:
        """Whether `name` is that of a rule of the pass."""
        item = named(self.manager.pipeline, pass_name)
        return item is not None and name in rule_names(item)

    def _endless(self, error: PassFailed, suspects: Sequence[str]) -> str:
        """The first suspect without which it ends: a rule of the pass, or a pass of the group."""
        item = named(self.manager.pipeline, error.pass_name)
        bans = self.manager.bans
        if isinstance(item, RulePass):
            names, rules = bans.rules, {r.name for r in item.rules}
            chosen = [s for s in suspects if s in rules]
        else:
            names = bans.passes
            inner = [named(item, s) for s in suspects] if item is not None else []
            chosen = [leaf.name for q in inner if q is not None and q is not item for leaf in leaves(q)[::-1]]
        return next(
            (s for s in chosen if self._ends_without(s, names, error)), chosen[0] if chosen else error.pass_name
        )

    def _ends_without(self, suspect: str, names: set[str], error: PassFailed) -> bool:
        names.add(suspect)
        again = self._replay(replace(self.look, judge=None)).attempt.failed
        names.discard(suspect)
        return again is None or again.pass_name != error.pass_name

    def _searched(self, failed: Trial, look: Look) -> Culprit:
        """The first change after which `look` finds something wrong."""
        assert failed.failure is not None
        mismatch, ledger = failed.failure.mismatch, failed.attempt.ledger
        draw = mismatch.draw if mismatch is not None else None
        start = self._sound[1] if draw is not None and draw is self._sound[0] else -1
        number = first_bad(start, ledger.made, lambda n: self._replay(look, Stop(before=n)).failure is not None)
        after = self._replay(look, Stop(after=number)) if number > 0 else failed
        if number > 0 and after.failure is not None:
            self._sound = draw, number - 1
            return of_change(after.attempt.ledger.changes[-1], after.failure), Stop(before=number - 1), after
        return self._unasked(failed, look)

    def _unasked(self, failed: Trial, look: Look) -> Culprit:
        """The first run of a pass after which something is wrong that it never asked the ledger for."""
        assert failed.failure is not None
        if (untouched := self._replay(look, Stop(runs=0)).failure) is not None:
            raise VerificationError(f"even with no pass run: {untouched.message}")
        ran = failed.attempt.ledger.ran
        run = first_bad(0, len(ran), lambda n: self._replay(look, Stop(runs=n)).failure is not None)
        name = ran[run - 1]
        return shown_by(whole(name, failed.failure), failed.failure), Stop(runs=run - 1), None


def whole(name: str, failure: Failure, message: str = "") -> Quarantined:
    """A pass, left out altogether."""
    return Quarantined(name, name, "", failure.why, message or failure.message)


def of_change(change: Change, failure: Failure) -> Quarantined:
    """A change, and what is wrong after it."""
    found = Quarantined(
        change.pass_name, change.by, change.place, failure.why, failure.message, change.ordinal, change.replaced
    )
    return shown_by(found, failure)


def shown_by(found: Quarantined, failure: Failure) -> Quarantined:
    """With the output, the numbers and the inputs that showed it."""
    mismatch = failure.mismatch
    if mismatch is None or mismatch.draw is None:
        return found
    error = mismatch.difference if mismatch.difference is not None and mismatch.difference.error else None
    return replace(
        found,
        output=mismatch.output,
        error=error.error if error is not None else None,
        allowed=error.allowed if error is not None else None,
        kind=mismatch.draw.kind,
        draw=str(mismatch.draw),
    )
