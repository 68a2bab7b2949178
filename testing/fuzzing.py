"""Fuzzing of a rule with cases generated from its pattern, and minimization of failing cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import onnx
from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import EvaluationError, FailureKind, ModelError, UnverifiableError
from ..core.io.convert import from_onnx, to_onnx
from ..core.rewriting.rules import EXACT, ROUNDING, Rule
from ..core.run.pipeline import Pass, Pipeline, RulePass
from ..core.run.pipeline_run import PipelineRun, RewriteResult
from ..core.verify.input_generation import KINDS
from .case import Case, Fault, FaultKind
from .fault_report import CheckResult, describe_decline
from .guided_search import Quantizer, declines, guided_search, no_quantization
from .model_comparison import (
    ALL_COMBINED,
    NO_COMBINED,
    Comparer,
    Discrepancy,
    RewriteComparison,
    compare_case,
    part_for,
)
from .models.choices import Choices, Key
from .models.dictionary import Dictionary, dictionary_of
from .models.model_builder import GenerationError
from .models.model_generator import generate_case

TIMEOUT = 10.0  # seconds for a rule that neither changes anything nor returns


class Application(Struct, frozen=True):
    """The result of applying a rule to a case: how often it `fired`, the model after, and a fault found so far.

    `is_exact`: all changes were declared to keep results bit for bit.
    """

    fired: int
    after: onnx.ModelProto | None = None
    fault: Fault | None = None
    is_exact: bool = True


class Setting(Struct, frozen=True):
    """A pass that is applied instead of the rule, which has its facts; and the data to quantize with."""

    item: Pass | None = None
    quantize: Quantizer = no_quantization

    def run(self, model: onnx.ModelProto, *rules: Rule, tries_export: bool = False) -> RewriteResult:
        """Apply the rules, or the pass, to a model."""
        item = RulePass(rules[0].name, rules) if self.item is None else self.item
        if (spec := self.quantize(model)) is not None:
            item = Pipeline("quantizing", (item,), quantization=spec)
        run = PipelineRun(lambda: from_onnx(model), item, no_progress_timeout=TIMEOUT)
        return run.replay(tries_export=tries_export)


PLAIN = Setting()


def apply_rule(rule: Rule, case: Case, other_rules: Sequence[Rule] = (), setting: Setting = PLAIN) -> Application:
    """Apply `rule` wherever it fires, alone and together with `other_rules`. Raises ModelError for an invalid case."""
    result = setting.run(case.model, rule, tries_export=True)
    made, found = result.change_log.change_count, result.failure
    if found is not None:
        return Application(made, None, Fault(FaultKind[found.kind.name], found.message, case))
    if not made:
        return Application(0)
    after, is_exact = to_onnx(result.model), result.change_log.is_exact
    return Application(made, after, _fault_of_result(rule, result, case, after, other_rules, setting), is_exact)


def _fault_of_result(
    rule: Rule, result: RewriteResult, case: Case, after: onnx.ModelProto, other_rules: Sequence[Rule], setting: Setting
) -> Fault | None:
    """The fault of a rule that fired at a wrong place, differently in a second run, or again on its own result."""
    if case.no_fire_reason and any(change.place == case.place for change in result.change_log.changes):
        message = f"{case.place} was rewritten, but {case.no_fire_reason}"
        return Fault(FaultKind.FIRED_UNEXPECTEDLY, message, case, after)
    again = setting.run(case.model, rule)
    if again.failure is not None or to_onnx(again.model) != after:
        message = "a second run on the same model has another result: the rule keeps state"
        return Fault(FaultKind.NONDETERMINISTIC, message, case, after)
    if rule.contract.is_lossy:  # its result has different ranges
        return None
    again = setting.run(after, rule)
    if again.failure is not None or again.change_log.change_count:
        places = ", ".join(dict.fromkeys(change.place for change in again.change_log.changes))
        message = f"on its own result it fires again, at {places}" if places else "it cannot be run on its own result"
        return Fault(FaultKind.NOT_IDEMPOTENT, message, case, after)
    return _endless_with_others(rule, case, other_rules, setting)


def _endless_with_others(rule: Rule, case: Case, other_rules: Sequence[Rule], setting: Setting) -> Fault | None:
    """A fault if the rule and `other_rules`, each of which may be correct, undo each other's changes without end."""
    rules = tuple(dict.fromkeys((rule, *other_rules)))
    found = setting.run(case.model, *rules).failure if len(rules) > 1 else None
    if found is None or found.kind is not FailureKind.ENDLESS:
        return None
    return Fault(FaultKind.ENDLESS_WITH_OTHERS, found.message, case, other_rules=rules[1:])


MAX_FIRED_MODELS = 200  # that are kept for a proof
MAX_SHRINK_STEPS = 400  # cases tried to find a smaller one that shows a fault


class RuleTester(Struct, frozen=True):
    """Applies a rule to cases, also with `other_rules`, and compares the models on which it fires by `compare`."""

    rule: Rule
    compare: Comparer
    examples: Sequence[onnx.ModelProto]
    other_rules: Sequence[Rule] = ()
    setting: Setting = PLAIN

    def find_fault(
        self, case: Case, counts: CheckResult, combined_part: tuple[int, int] = ALL_COMBINED
    ) -> Fault | None:
        """Return the fault on a case, if any; a case on which the rule fires, or declines, is added to `counts`.

        The models are compared on a part of the combined input sets (`RewriteComparison`).
        """
        rule = self.rule
        try:
            applied = apply_rule(rule, case, self.other_rules, self.setting)
        except ModelError:  # the case is invalid
            return None
        if applied.after is None or applied.fault is not None:
            if applied.fault is None and not counts.fired:
                counts.decline_counts.update(self.reasons(case))
            return applied.fault
        counts.fired += 1
        counts.decline_counts.clear()
        if self.setting.item is not None:
            rule = replace(rule, contract=EXACT if applied.is_exact else ROUNDING)
        try:
            fault = compare_case(rule, case, applied.after, self.compare, combined_part)
        except (UnverifiableError, EvaluationError) as e:  # one of the models does not run
            counts.run_errors[" ".join(str(e).split())] += 1
            return None
        counts.ran += 1
        if len(counts.fired_models) < MAX_FIRED_MODELS:
            counts.fired_models.append(case.model)
        if fault is not None and fault.kind is FaultKind.GAINED:
            counts.left_out = counts.left_out or fault.message
            return None
        return fault

    def reasons(self, case: Case) -> set[str]:
        """The reasons why the rule declines matches in a case, each with its line; or those that a pass records."""
        if self.setting.item is not None:
            log = self.setting.run(case.model, self.rule).change_log
            return {*log.notes, *(why for declined in log.declines.values() for why in declined.values())}
        found = (why for why in declines(self.rule, case, self.setting.quantize) if why is not None)
        return {describe_decline(why, self.rule) for why in found}

    def minimize(self, fault: Fault, choice_sequence: Sequence[int]) -> Fault:
        """A fault of the same kind on a case with simpler choices than `choice_sequence`, or `fault` itself."""
        numbers = iter(choice_sequence)
        choices = Choices(lambda count: next(numbers) % count)
        shown_by = fault.mismatch.input_set if fault.mismatch is not None else None
        part = ALL_COMBINED if shown_by is not None and shown_by.kind not in KINDS else NO_COMBINED
        dictionary = dictionary_of(self.rule)
        generate_case(self.rule, choices, dictionary, self.examples)
        return _Minimization(self, dictionary, part, choices.recorded, fault).run()


@dataclass(slots=True)
class _Minimization:
    """The search for the simplest `choices` with a case that shows the kind of `fault`, the last one found."""

    tester: RuleTester
    dictionary: Dictionary
    combined_part: tuple[int, int]
    choices: Mapping[Key, int]
    fault: Fault
    _known: dict[bytes, Fault | None] = field(default_factory=dict[bytes, "Fault | None"])

    def run(self) -> Fault:
        """Try the simplest choices for each part, then simpler ones for each choice, until no attempt succeeds."""
        before = None
        while before != self.choices and len(self._known) < MAX_SHRINK_STEPS:
            before = self.choices
            scopes = (scope.split("/") for scope, _ in self.choices)
            parts = {"/".join(names[:depth]) for names in scopes for depth in range(1, len(names) + 1)}
            for part in sorted(parts, key=lambda p: (p.count("/"), p)):
                self._try({k: 0 if f"{k[0]}/".startswith(f"{part}/") else n for k, n in self.choices.items()})
            for key in list(self.choices):
                number = self.choices.get(key, 0)
                simpler = (n for n in dict.fromkeys((0, number // 2, number - 1)) if 0 <= n < number)
                any(self._try({**self.choices, key: n}) for n in simpler)
        return self.fault

    def _try(self, wanted: Mapping[Key, int]) -> bool:
        """Adopt these choices, with the simplest for all others, if they are simpler and their case shows the fault."""
        if wanted == self.choices:
            return False
        choices = Choices(lambda _: 0, wanted)
        try:
            case = generate_case(self.tester.rule, choices, self.dictionary, self.tester.examples)
        except GenerationError:
            return False
        key = case.model.SerializeToString(deterministic=True) + repr((case.place, case.no_fire_reason)).encode()
        if key not in self._known and len(self._known) < MAX_SHRINK_STEPS:
            counts = CheckResult(self.tester.rule)
            self._known[key] = self.tester.find_fault(case, counts, self.combined_part)
        found = self._known.get(key)
        if found is None or found.kind != self.fault.kind or _size(choices.recorded) >= _size(self.choices):
            return False
        self.choices, self.fault = choices.recorded, found
        return True


def _size(choices: Mapping[Key, int]) -> tuple[int, int, int]:
    """The complexity of a case: the number of choices, how many are not the simplest, and their sum."""
    return len(choices), sum(map(bool, choices.values())), sum(choices.values())


def fuzz_rule(tester: RuleTester, budget: int, max_runs: int, seed: int) -> CheckResult:
    """Fuzz a rule on examples, then on models generated from its pattern and from them; minimize the first fault.

    At most `budget` models are generated, and `max_runs` on which the rule fired are run. If onnxruntime runs none of
    them, ONNX's reference evaluator does. Deterministic for a given `seed`.
    """
    result = _fuzz_once(tester, budget, max_runs, seed)
    if result.fault is not None or result.ran or not result.fired:
        return result

    def compare(request: RewriteComparison) -> Discrepancy | None:
        return tester.compare(replace(request, by_reference=True))

    return _fuzz_once(replace(tester, compare=compare), budget, max_runs, seed)


def _fuzz_pass(tester: RuleTester, result: CheckResult, budget: int, max_runs: int, seed: int) -> CheckResult:
    """Fuzz a pass on trees of operators, mostly of those that its code names, and on variants of examples."""
    rng = Random(f"{tester.rule.name} {seed}")  # noqa: S311 - nothing secret
    dictionary = dictionary_of(tester.rule)
    for _ in range(budget):
        choices = Choices(rng.randrange)
        try:
            case = generate_case(tester.rule, choices, dictionary, tester.examples)
        except GenerationError:
            continue
        result.models += 1
        fault = tester.find_fault(case, result, part_for(case.model))
        if fault is not None:
            result.fault = tester.minimize(fault, choices.sequence)
        if fault is not None or result.ran >= max_runs:
            break
    return result


def _fuzz_once(tester: RuleTester, budget: int, max_runs: int, seed: int) -> CheckResult:
    result = CheckResult(tester.rule)
    for number, model in enumerate(tester.examples, 1):
        result.models += 1
        case, fired = Case(model, "", ("an example",)), result.fired
        result.fault = tester.find_fault(case, result)
        if result.fault is not None:
            return result
        if result.fired == fired:
            why = "; ".join(sorted(tester.reasons(case))) or "nothing in it matches"
            result.example_notes.append(f"example {number} does not fire: {why}")
    setting = tester.setting
    if setting.item is not None:
        return _fuzz_pass(tester, result, budget, max_runs, seed)
    search = guided_search(tester.rule, seed=seed, examples=tester.examples, quantize=setting.quantize)
    for found in search.generate(budget):
        fault = tester.find_fault(found.case, result, part_for(found.case.model))
        if fault is not None:
            result.fault = tester.minimize(fault, found.choice_sequence)
        if fault is not None or result.ran >= max_runs:
            break
    result.models += search.generated
    return result
