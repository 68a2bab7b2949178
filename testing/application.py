"""A rule on a model, and what can be said against it without running the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ..core.errors import Why
from ..core.io.convert import from_onnx, to_onnx
from ..core.pass_manager.attempt_check import fault as trouble
from ..core.pass_manager.pass_manager import Attempt, Manager
from ..core.pass_manager.pipeline import RulePass
from ..core.rewriting.rules import Rule
from .case import Case
from .fault import Fault, Kind

PATIENCE = 10.0  # seconds for a rule that neither changes anything nor returns
KINDS = {
    Why.RAISED: Kind.RAISED,
    Why.ENDLESS: Kind.ENDLESS,
    Why.INVALID: Kind.INVALID,
    Why.INTERFACE: Kind.INTERFACE,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule did to a case: how often it `fired`, what that left, and what is wrong already."""

    fired: int
    after: onnx.ModelProto | None = None
    fault: Fault | None = None


def tried(rule: Rule, case: Case, beside: Sequence[Rule] = ()) -> Trial:
    """Apply `rule` wherever it fires, and with those `beside` it. Raises ModelError for a case that is no model."""
    attempt = _attempt(case.model, rule)
    made = attempt.ledger.made
    found = trouble(attempt, exports=True)
    if found is not None:
        return Trial(made, None, Fault(KINDS[found.why], found.message, case))
    if not made:
        return Trial(0, None, _silent_change(attempt, case))
    after = to_onnx(attempt.model)
    fault = _misplaced(attempt, case, after) or _fickle(rule, case, after) or _restless(rule, case, after)
    return Trial(made, after, fault or _quarrel(rule, case, beside))


def _attempt(model: onnx.ModelProto, *rules: Rule) -> Attempt:
    return Manager(lambda: from_onnx(model), RulePass(rules[0].name, rules), patience=PATIENCE).run(record=True)


def _silent_change(attempt: Attempt, case: Case) -> Fault | None:
    """Whether it touched a graph that it says it left alone. What was built for a match that was declined is gone."""
    after = to_onnx(attempt.model)
    if after == case.model:
        return None
    return Fault(Kind.SILENT, "the rule declined, or gave back what was there, and the graph is another", case, after)


def _misplaced(attempt: Attempt, case: Case, after: onnx.ModelProto) -> Fault | None:
    if case.must_stay and any(change.place == case.place for change in attempt.ledger.changes):
        return Fault(Kind.MISPLACED, f"{case.place} was rewritten, but {case.must_stay}", case, after)
    return None


def _fickle(rule: Rule, case: Case, after: onnx.ModelProto) -> Fault | None:
    """Whether a second run from the same start ends elsewhere: it keeps state."""
    again = _attempt(case.model, rule)
    if trouble(again) is None and to_onnx(again.model) == after:
        return None
    return Fault(Kind.FICKLE, "a second run on the same model did something else: the rule keeps state", case, after)


def _restless(rule: Rule, case: Case, after: onnx.ModelProto) -> Fault | None:
    """Whether it finds more to do in its own result, written and loaded."""
    again = _attempt(after, rule)
    if trouble(again) is None and not again.ledger.made:
        return None
    places = ", ".join(dict.fromkeys(change.place for change in again.ledger.changes))
    told = f"run again on its own result, it fires at {places}" if places else "it cannot be run on its own result"
    return Fault(Kind.RESTLESS, told, case, after)


def _quarrel(rule: Rule, case: Case, beside: Sequence[Rule]) -> Fault | None:
    """Whether it and the rules `beside` it, each of which may be right, undo what the others do without end."""
    rules = tuple(dict.fromkeys((rule, *beside)))
    found = trouble(_attempt(case.model, *rules)) if len(rules) > 1 else None
    if found is None or found.why is not Why.ENDLESS:
        return None
    return Fault(Kind.QUARREL, found.message, case, beside=tuple(r.name for r in rules[1:]))
