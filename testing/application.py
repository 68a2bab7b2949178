"""Application of a rule to a model, and faults that show without running the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ..core.errors import FailureKind
from ..core.io.convert import from_onnx, to_onnx
from ..core.pass_manager.attempt_check import static_failure as trouble
from ..core.pass_manager.pass_manager import Attempt, PassManager
from ..core.pass_manager.pipeline import RulePass
from ..core.rewriting.rules import Rule
from .case import Case
from .fault import Fault, FaultKind

TIMEOUT = 10.0  # seconds for a rule that neither changes anything nor returns
FAULT_KINDS = {
    FailureKind.RAISED: FaultKind.RAISED,
    FailureKind.ENDLESS: FaultKind.ENDLESS,
    FailureKind.INVALID: FaultKind.INVALID,
    FailureKind.INTERFACE: FaultKind.INTERFACE,
}


@dataclass(frozen=True, slots=True)
class Application:
    """The result of applying a rule to a case: how often it `fired`, the model after, and a fault found so far."""

    fired: int
    after: onnx.ModelProto | None = None
    fault: Fault | None = None


def apply_rule(rule: Rule, case: Case, other_rules: Sequence[Rule] = ()) -> Application:
    """Apply `rule` wherever it fires, alone and together with `other_rules`. Raises ModelError for an invalid case."""
    attempt = _attempt(case.model, rule)
    made = attempt.ledger.change_count
    found = trouble(attempt, try_export=True)
    if found is not None:
        return Application(made, None, Fault(FAULT_KINDS[found.kind], found.message, case))
    if not made:
        return Application(0, None, _silent_change(attempt, case))
    after = to_onnx(attempt.model)
    fault = (
        _unexpected_firing(attempt, case, after)
        or _nondeterminism(rule, case, after)
        or _non_idempotence(rule, case, after)
    )
    return Application(made, after, fault or _endless_with_others(rule, case, other_rules))


def _attempt(model: onnx.ModelProto, *rules: Rule) -> Attempt:
    return PassManager(lambda: from_onnx(model), RulePass(rules[0].name, rules), no_progress_timeout=TIMEOUT).run(
        record=True
    )


def _silent_change(attempt: Attempt, case: Case) -> Fault | None:
    """A fault if the graph differs although no change was recorded; ops of declined matches are removed by then."""
    after = to_onnx(attempt.model)
    if after == case.model:
        return None
    return Fault(
        FaultKind.SILENT_CHANGE, "the rule declined, or returned the matched value, but the graph changed", case, after
    )


def _unexpected_firing(attempt: Attempt, case: Case, after: onnx.ModelProto) -> Fault | None:
    if case.no_fire_reason and any(change.place == case.place for change in attempt.ledger.changes):
        return Fault(
            FaultKind.FIRED_UNEXPECTEDLY, f"{case.place} was rewritten, but {case.no_fire_reason}", case, after
        )
    return None


def _nondeterminism(rule: Rule, case: Case, after: onnx.ModelProto) -> Fault | None:
    """A fault if a second run on the same model has another result, as of a rule that keeps state."""
    again = _attempt(case.model, rule)
    if trouble(again) is None and to_onnx(again.model) == after:
        return None
    return Fault(
        FaultKind.NONDETERMINISTIC,
        "a second run on the same model has another result: the rule keeps state",
        case,
        after,
    )


def _non_idempotence(rule: Rule, case: Case, after: onnx.ModelProto) -> Fault | None:
    """A fault if the rule fires on its own result, written and loaded."""
    again = _attempt(after, rule)
    if trouble(again) is None and not again.ledger.change_count:
        return None
    places = ", ".join(dict.fromkeys(change.place for change in again.ledger.changes))
    message = f"on its own result it fires again, at {places}" if places else "it cannot be run on its own result"
    return Fault(FaultKind.NOT_IDEMPOTENT, message, case, after)


def _endless_with_others(rule: Rule, case: Case, other_rules: Sequence[Rule]) -> Fault | None:
    """A fault if the rule and `other_rules`, each of which may be correct, undo each other's changes without end."""
    rules = tuple(dict.fromkeys((rule, *other_rules)))
    found = trouble(_attempt(case.model, *rules)) if len(rules) > 1 else None
    if found is None or found.kind is not FailureKind.ENDLESS:
        return None
    return Fault(FaultKind.ENDLESS_WITH_OTHERS, found.message, case, other_rules=tuple(r.name for r in rules[1:]))
