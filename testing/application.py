"""Application of a rule to a model, and faults that show without running the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ..core.errors import FailureKind
from ..core.io.convert import from_onnx, to_onnx
from ..core.rewriting.rules import Rule
from ..core.run.pipeline import RulePass
from ..core.run.pipeline_run import PipelineRun, RewriteResult
from .case import Case, Fault, FaultKind

TIMEOUT = 10.0  # seconds for a rule that neither changes anything nor returns


@dataclass(frozen=True, slots=True)
class Application:
    """The result of applying a rule to a case: how often it `fired`, the model after, and a fault found so far."""

    fired: int
    after: onnx.ModelProto | None = None
    fault: Fault | None = None


def apply_rule(rule: Rule, case: Case, other_rules: Sequence[Rule] = ()) -> Application:
    """Apply `rule` wherever it fires, alone and together with `other_rules`. Raises ModelError for an invalid case."""
    result = _run(case.model, rule, tries_export=True)
    made, found = result.ledger.change_count, result.failure
    if found is not None:
        return Application(made, None, Fault(FaultKind[found.kind.name], found.message, case))
    after = to_onnx(result.model)
    if not made and after != case.model:  # ops of declined matches are removed by now
        message = "the rule declined, or returned the matched value, but the graph changed"
        return Application(0, None, Fault(FaultKind.SILENT_CHANGE, message, case, after))
    if not made:
        return Application(0)
    return Application(made, after, _fault_of_result(rule, result, case, after, other_rules))


def _run(model: onnx.ModelProto, *rules: Rule, tries_export: bool = False) -> RewriteResult:
    passes = RulePass(rules[0].name, rules)
    run = PipelineRun(lambda: from_onnx(model), passes, no_progress_timeout=TIMEOUT)
    return run.replay(tries_export=tries_export)


def _fault_of_result(
    rule: Rule, result: RewriteResult, case: Case, after: onnx.ModelProto, other_rules: Sequence[Rule]
) -> Fault | None:
    """The fault of a rule that fired: at a wrong place, differently in a second run, again on its own result."""
    if case.no_fire_reason and any(change.place == case.place for change in result.ledger.changes):
        message = f"{case.place} was rewritten, but {case.no_fire_reason}"
        return Fault(FaultKind.FIRED_UNEXPECTEDLY, message, case, after)
    again = _run(case.model, rule)
    if again.failure is not None or to_onnx(again.model) != after:
        message = "a second run on the same model has another result: the rule keeps state"
        return Fault(FaultKind.NONDETERMINISTIC, message, case, after)
    again = _run(after, rule)
    if again.failure is not None or again.ledger.change_count:
        places = ", ".join(dict.fromkeys(change.place for change in again.ledger.changes))
        message = f"on its own result it fires again, at {places}" if places else "it cannot be run on its own result"
        return Fault(FaultKind.NOT_IDEMPOTENT, message, case, after)
    return _endless_with_others(rule, case, other_rules)


def _endless_with_others(rule: Rule, case: Case, other_rules: Sequence[Rule]) -> Fault | None:
    """A fault if the rule and `other_rules`, each of which may be correct, undo each other's changes without end."""
    rules = tuple(dict.fromkeys((rule, *other_rules)))
    found = _run(case.model, *rules).failure if len(rules) > 1 else None
    if found is None or found.kind is not FailureKind.ENDLESS:
        return None
    return Fault(FaultKind.ENDLESS_WITH_OTHERS, found.message, case, other_rules=rules[1:])
