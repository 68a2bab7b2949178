"""Counts of tries, matches, changes and declines of the rules in a run, with their times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from ...core.io.model import Model
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.rewriting.change_log import ChangeLog
from ...core.rewriting.rules import Rule
from ...core.run.instrumentation import Instrumentation
from ...core.run.pipeline import Fixpoint, Pass, Pipeline
from ...core.run.report import DeclineReason, PassStatistics, RuleStatistics
from ..report.number_text import plural

MAX_SHOWN = 20  # reasons
NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class _RuleCounts:
    """The counts of a rule so far; `declines` maps kinds of reasons to ops with their reasons."""

    tries: int = 0
    changes: int = 0
    declined: int = 0
    seconds: float = 0.0
    declines: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def record(self, name: str) -> RuleStatistics:
        """The counts for a report."""
        matches, seconds = self.changes + self.declined, round(self.seconds, 6)
        return RuleStatistics(name, self.tries, matches, self.changes, seconds, _reasons(self.declines))


class RunStatistics(Instrumentation):
    """The counts of each rule in the last repetition of a run, by pass, including passes that other passes run.

    Reasons why a rule declined have one kind if they differ only in numbers and names of operands.
    """

    def __init__(self) -> None:
        self.runs = Counter[str]()
        self.counts: dict[str, dict[str, _RuleCounts]] = {}
        self._running: list[str] = []
        self._begin = 0.0

    def start(self, model: Model) -> None:  # noqa: ARG002 - of the base class
        """Reset the counts of an earlier repetition."""
        self.runs.clear()
        self.counts.clear()
        self._running.clear()

    def before(self, p: Pass, graph: Graph) -> None:  # noqa: ARG002 - of the base class
        """Count the run of a pass."""
        self.runs[p.name] += not isinstance(p, Pipeline | Fixpoint)
        self._running.append(p.name)

    def after(self, p: Pass, graph: Graph, changes: int) -> None:  # noqa: ARG002 - of the base class
        """Return to the enclosing pass."""
        self._running.pop()

    def before_rule(self, r: Rule, op: Op) -> None:  # noqa: ARG002 - of the base class
        """Start timing a try."""
        self._begin = perf_counter()

    def after_rule(self, r: Rule, op: Op, *, is_changed: bool) -> None:  # noqa: ARG002 - of the base class
        """Count a try."""
        counts = self._counts(r)
        counts.tries += 1
        counts.changes += is_changed
        counts.seconds += perf_counter() - self._begin

    def declined(self, r: Rule, op: Op, reason: str) -> None:
        """Count a decline; the time for this is not part of the try."""
        start, counts = perf_counter(), self._counts(r)
        counts.declined += 1
        counts.declines.setdefault(NUMBER.sub("#", _without_names(reason, op)), {}).setdefault(op.label, reason)
        self._begin += perf_counter() - start

    def _counts(self, r: Rule) -> _RuleCounts:
        return self.counts.setdefault(self._running[-1], {}).setdefault(r.name, _RuleCounts())

    def records(self, change_log: ChangeLog) -> list[PassStatistics]:
        """The counts of each pass that ran, in order; rules that were not tried have none."""
        found = list[PassStatistics]()
        for name, runs in (+self.runs).items():
            rules = [counts.record(rule) for rule, counts in self.counts.get(name, {}).items()]
            kinds: dict[str, dict[str, str]] = {}
            for place, reason in change_log.declines.get(name, {}).items():
                kinds.setdefault(NUMBER.sub("#", reason), {})[place] = reason
            changes = sum(change_log.counts.get(name, Counter[str]()).values())
            seconds = round(change_log.seconds.get(name, 0.0), 6)
            found.append(PassStatistics(name, runs, changes, seconds, rules, _reasons(kinds)))
        return found

    def decline_lines(self) -> Iterator[str]:
        """Yield the reasons why rules declined, one per line, most frequent first."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        for rules in self.counts.values():
            for rule, counts in rules.items():
                for kind, ops in counts.declines.items():
                    found.setdefault((rule, kind), {}).update(ops)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        for (rule, _), ops in ordered[:MAX_SHOWN]:
            op, why = next(iter(ops.items()))
            place = f"at {op}" if len(ops) == 1 else f"at {plural(len(ops), 'op')}, such as {op}"
            yield f"{rule} declined {place}: {why}"
        if (more := len(ordered) - MAX_SHOWN) > 0:
            yield f"... and {plural(more, 'other reason')}; `passes explain RULE MODEL` lists them"


def _reasons(kinds: Mapping[str, Mapping[str, str]]) -> list[DeclineReason]:
    """The reasons of each kind, with the first place as example, most frequent first."""
    found = [DeclineReason(reason, len(ops), op) for ops in kinds.values() for op, reason in [next(iter(ops.items()))]]
    return sorted(found, key=lambda d: (-d.places, d.reason))


def _without_names(reason: str, op: Op) -> str:
    """A reason with # instead of the names of operands and outputs."""
    names = sorted({re.escape(v.name) for v in (*op.inputs, *op.outputs) if v is not None and v.name}, key=len)
    return re.sub(rf"(?<!\w)(?:{'|'.join(names[::-1])})(?!\w)", "#", reason) if names else reason
