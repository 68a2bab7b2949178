"""Checks of a rule against its contract, on models generated from its own pattern.

An exact rule keeps every bit on all inputs, including NaN and infinities. A rounding rule is correct in real
arithmetic: it is checked on finite inputs, like a run verifies it. A conditional rule is checked where its condition is
assumed to hold: on ordinary numbers with finite results. Special values are left to the verification of each model.
"""

from __future__ import annotations

import inspect
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from types import NoneType
from typing import Any, cast

import numpy as np
import onnx
from msgspec import structs
from onnx import parser

from ..core.errors import UsageError
from ..core.ir.quantization_spec import QuantizationSpec, Range
from ..core.plugins.networkx_pass import NetworkxPass
from ..core.proof.exhaustion import Exhaustion
from ..core.proof.prover import ProofMethod, Prover, prove_rule
from ..core.proof.replay import replay
from ..core.proof.smt import SmtProver, is_available
from ..core.proof.verdict import Technique
from ..core.rewriting.rules import Contract, Rule
from ..core.run.pipeline import Pass, function_of
from ..core.run.transforms import definition
from ..core.support.author_errors import is_each, require_argument, require_type
from ..core.verify.kept_values import LazyValues
from .case import Case, Fault, FaultKind
from .fault_report import CheckResult
from .fuzzing import RuleTester, Setting, fuzz_rule
from .guided_search import Quantizer, no_quantization
from .model_comparison import Comparer, compare_models, measure_ranges
from .rewriting import operators_of

DEFAULT_BUDGET = 600
MAX_RUNS = 60  # models on which it fired and that ran
MODEL_HEADER = '<ir_version: 10, opset_import: ["" : 17]>'
MAX_MEASURED = 8  # models whose ranges are kept
CONTRACT_OF_PASSES = Contract("of each change")
Measure = Callable[[bytes], Mapping[str, Range]]
"""Returns the ranges of the values of a model."""
Example = str | onnx.ModelProto
"""A model on which a rule fires, as a message or as ONNX text; a text without a header has opset 17."""


class _CheckFailed(AssertionError):
    """A check did not succeed; the message is the report of the result."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.report)
        self.result = result


class RuleIsWrong(_CheckFailed):
    """A rule violates its contract; the message is a full report.

    Examples:
        >>> try:
        ...     check_rule(drop_any_relu, budget=20)
        ... except RuleIsWrong as error:
        ...     print(str(error).splitlines()[0])
        drop_any_relu changes the results of the model: ...
    """


class CheckInconclusive(_CheckFailed):
    """A rule fired on none of the generated models that run, so it was not checked.

    Examples:
        >>> @rule(lambda g, x: g.Relu(x), contract=EXACT)
        ... def never(g: RewriteBuilder, x: Value) -> Value:
        ...     "Relu(x) => x, never"
        ...     require(x.rank == 99, "it has not 99 dims")
        ...     return x
        >>> try:
        ...     check_rule(never, budget=5)
        ... except CheckInconclusive as error:
        ...     print("it has not 99 dims" in str(error))
        True
    """


def check_rule(
    rule: Rule,
    *,
    budget: int = DEFAULT_BUDGET,
    seed: int = 0,
    examples: Sequence[Example] = (),
    other_rules: Sequence[Rule] = (),
    prove: bool = False,
    quantization: QuantizationSpec | None = None,
    custom_ops: Sequence[str | Path] = (),
    kernels: Sequence[Any] = (),
) -> CheckResult:
    """Check `rule` on up to `budget` models generated from its pattern, and from `examples` in which it fires.

    Together with `other_rules`, it must also terminate. With `prove`, the models on which it fires are also compared
    exactly, and the result has a `proof`; a rule without a proof is not rejected. A rule that quantizes gets
    `quantization`, with the ranges of values that are measured on each model. Custom operators have `kernels`, or
    libraries for onnxruntime, as for `optimize`, and the kernels of the rule's module. Raises RuleIsWrong with the
    smallest model found that shows a fault, and CheckInconclusive if it fired on no model that runs.

    Examples:
        >>> check_rule(drop_relu, budget=20).is_sound
        True
    """
    prover = default_prover() if prove else None
    require_type(rule, Rule, "check_rule", "a rule, as @rule makes it")
    with operators_of([rule], custom_ops, kernels):
        result = examine(
            rule,
            budget=budget,
            seed=seed,
            examples=examples,
            other_rules=other_rules,
            prover=prover,
            quantization=quantization,
        )
        return _require_sound(result)


def check_pass(
    item: Pass,
    *,
    budget: int = DEFAULT_BUDGET,
    seed: int = 0,
    examples: Sequence[Example] = (),
    quantization: QuantizationSpec | None = None,
    custom_ops: Sequence[str | Path] = (),
    kernels: Sequence[Any] = (),
) -> CheckResult:
    """Check a pass like `check_rule` does a rule, on trees of operators, mostly of those that its code names.

    Changes that it requests as exact must keep every bit, others may round. Raises RuleIsWrong and CheckInconclusive.

    Examples:
        >>> check_pass(RulePass("drop-relu", (drop_relu,)), budget=20).is_sound
        True
    """
    require_type(item, Pass, "check_pass", "a pass, as RulePass(...) or an object with a name and run(graph, log)")
    with operators_of([rule_of_pass(item)], custom_ops, kernels):
        return _require_sound(examine(item, budget=budget, seed=seed, examples=examples, quantization=quantization))


def _require_sound(result: CheckResult) -> CheckResult:
    if not result.is_sound:
        raise RuleIsWrong(result) if result.fault is not None else CheckInconclusive(result)
    return result


def rule_of_pass(item: Pass) -> Rule:
    """A rule without patterns that has the facts about a pass, for reports."""
    run = function_of(item)
    written = run if isinstance(item, NetworkxPass) else definition(item)
    equation = (inspect.getdoc(written) or "").partition("\n")[0]
    return Rule(item.name, equation, (), run, allow_other_uses=True, contract=CONTRACT_OF_PASSES)


def examine(
    subject: Rule | Pass,
    *,
    budget: int = DEFAULT_BUDGET,
    seed: int = 0,
    examples: Sequence[Example] = (),
    other_rules: Sequence[Rule] = (),
    compare: Comparer = compare_models,
    prover: Prover | None = None,
    quantization: QuantizationSpec | None = None,
    measure: Measure = measure_ranges,
) -> CheckResult:
    """Like `check_rule` or `check_pass`, but return a fault in the result; `compare` runs the models.

    A `prover` proves the rule, and `measure` returns the ranges of the values of a model, for rules that quantize.

    Raises UsageError for invalid arguments.

    Examples:
        >>> result = examine(drop_any_relu, budget=20)
        >>> result.is_sound, result.fault is None
        (False, False)
    """
    rule = subject if isinstance(subject, Rule) else rule_of_pass(subject)
    require_type(quantization, (QuantizationSpec, NoneType), "check_rule", "a QuantizationSpec as quantization")
    require_type(budget, int, "check_rule", "a number as budget")
    require_argument(is_each(examples, (str, onnx.ModelProto)), "check_rule", "a list of models as examples", examples)
    require_argument(is_each(other_rules, Rule), "check_rule", "a list of rules as other_rules", other_rules)
    if budget < 1:
        raise UsageError(f"a budget of {budget} models: at least one is needed")
    start = perf_counter()
    given = tuple(map(parse_example, (*declared_examples(rule), *examples)))
    with np.errstate(all="ignore"):  # without warnings about a rule's own arithmetic on constants
        setting = Setting(None if isinstance(subject, Rule) else subject, quantizer_for(rule, quantization, measure))
        result = fuzz_rule(RuleTester(rule, compare, given, other_rules, setting), budget, MAX_RUNS, seed)
        if prover is not None and rule.patterns:
            add_proof(result, prover)
    result.seconds = perf_counter() - start
    return result


def quantizer_for(rule: Rule, given: QuantizationSpec | None, measure: Measure) -> Quantizer:
    """The data with which a rule quantizes a model: `given`, or those that its module declares, and measured ranges."""
    declared = _module(rule).get("QUANTIZATION")
    spec = given or (declared if isinstance(declared, QuantizationSpec) else None)
    if spec is None and not rule.contract.is_lossy:
        return no_quantization
    base, measured = spec or QuantizationSpec(), lru_cache(MAX_MEASURED)(measure)

    def quantize(model: onnx.ModelProto) -> QuantizationSpec:
        rest = LazyValues(lambda: measured(model.SerializeToString()))  # measured when the first of them is read
        return structs.replace(base, ranges=ChainMap(cast("dict[str, Range]", base.ranges), cast("Any", rest)))

    return quantize


def default_prover(*, float32: bool = False) -> Prover:
    """The installed techniques, with `float32` also on every number of it; their processes end with the context."""
    smt: dict[Technique, ProofMethod] = {Technique.SMT: SmtProver().prove} if is_available() else {}
    return Prover({**smt, Technique.EXHAUSTION: Exhaustion(float32).prove}, replay)


def add_proof(result: CheckResult, prover: Prover) -> None:
    """Prove a rule on the models on which it fired. An input that refutes it is a fault unless there is one."""
    shown = [result.fault.case.model] if result.fault is not None and result.fault.after is not None else []
    result.proof = prove_rule(result.rule, [*shown, *result.fired_models], prover)
    refuted = result.proof.refuted_model
    if refuted is not None and result.fault is None:
        message = f"{refuted.best.reason} ({refuted.best.technique})"
        result.fault = Fault(FaultKind.WRONG, message, Case(refuted.before, "", ("found by a proof",)), refuted.after)


def parse_example(example: Example) -> onnx.ModelProto:
    """The model of an example. Raises UsageError for invalid text."""
    if isinstance(example, onnx.ModelProto):
        return example
    source = example if example.lstrip().startswith("<") else f"{MODEL_HEADER} {example}"
    try:
        return parser.parse_model(source)
    except parser.ParseError as e:
        raise UsageError(f"an example is not ONNX text: {' '.join(str(e).split())}") from e


def _module(rule: Rule) -> Mapping[str, Any]:
    """The names in the rule's module."""
    return getattr(rule.build, "__globals__", {})


def declared_examples(rule: Rule) -> Sequence[Example]:
    """The examples in the rule's module and the packages around it: EXAMPLES = {"name_of_rule": [model, ...]}.

    Raises UsageError.
    """
    module = _module(rule)
    name, models = str(module.get("__name__", "")), list[Example]()
    while name:
        listed: Any = module.get("EXAMPLES", {})
        found: Any = cast("dict[Any, Any]", listed).get(rule.name, ()) if isinstance(listed, dict) else None
        given = cast("Sequence[Any]", found if isinstance(found, list | tuple) else (None,))
        if not all(isinstance(e, str | onnx.ModelProto) for e in given):
            raise UsageError(f"{name}.EXAMPLES: a dict of lists of ONNX texts or models, by name of rule")
        models += given
        name = name.rpartition(".")[0]
        module = vars(sys.modules[name]) if name in sys.modules else {}
    return models
