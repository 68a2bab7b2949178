"""Checks of a rule against its contract, on models generated from its own pattern.

An exact rule keeps every bit on all inputs, NaN and infinite ones too. A rounding rule is correct in real arithmetic:
it is checked on finite inputs, by the judgement of verification. A conditional rule is checked where its condition is
assumed to hold: on ordinary numbers with finite results. Special values are left to the verification of each model.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, cast

import numpy as np
import onnx
from onnx import parser

from ..core.errors import UsageError
from ..core.proof.exhaustion import Exhaustion
from ..core.proof.prover import ProofMethod, Prover, prove_rule
from ..core.proof.replay import replay
from ..core.proof.smt import SmtProver, is_available
from ..core.proof.verdict import Technique
from ..core.rewriting.rules import Rule
from .case import Case, Fault, FaultKind
from .fault_report import CheckResult
from .model_comparison import Comparer, compare_models

DEFAULT_BUDGET = 600
MAX_RUNS = 60  # models on which it fired and that ran
MODEL_HEADER = '<ir_version: 10, opset_import: ["" : 17]>'
Example = str | onnx.ModelProto
"""A model on which a rule fires, as a message or as ONNX text; text without a header is of opset 17."""


class _CheckFailed(AssertionError):
    """A check without success; the message is the report of the result."""

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
) -> CheckResult:
    """Check `rule` on up to `budget` models generated from its pattern, and from `examples` in which it fires.

    Together with `other_rules`, it must also terminate. With `prove`, the models on which it fires are also compared
    exactly, and the result has a `proof`; without one, no rule is refused. Raises RuleIsWrong with the smallest model
    found that shows a fault, and CheckInconclusive if it fired on no model that runs.

    Examples:
        >>> check_rule(drop_relu, budget=20).is_sound
        True
    """
    prover = default_prover() if prove else None
    result = examine(rule, budget=budget, seed=seed, examples=examples, other_rules=other_rules, prover=prover)
    if not result.is_sound:
        raise RuleIsWrong(result) if result.fault is not None else CheckInconclusive(result)
    return result


def examine(
    rule: Rule,
    *,
    budget: int = DEFAULT_BUDGET,
    seed: int = 0,
    examples: Sequence[Example] = (),
    other_rules: Sequence[Rule] = (),
    compare: Comparer = compare_models,
    prover: Prover | None = None,
) -> CheckResult:
    """As `check_rule`, but a fault is returned in the result; `compare` runs the models, a `prover` proves the rule.

    Raises UsageError for invalid arguments.

    Examples:
        >>> result = examine(drop_any_relu, budget=20)
        >>> result.is_sound, result.fault is None
        (False, False)
    """
    if budget < 1:
        raise UsageError(f"a budget of {budget} models: at least one is needed")
    try:
        from .fuzzing import RuleTester, fuzz_rule  # noqa: PLC0415 - hypothesis comes with an extra
    except ModuleNotFoundError as e:
        raise UsageError(f"checking rules needs {e.name}: pip install 'passwright[testing]'") from e
    start = perf_counter()
    given = tuple(map(parse_example, (*declared_examples(rule), *examples)))
    with np.errstate(all="ignore"):  # without warnings from a rule's own arithmetic on constants
        result = fuzz_rule(RuleTester(rule, compare, given, other_rules), budget, MAX_RUNS, seed)
        if prover is not None:
            add_proof(result, prover)
    result.seconds = perf_counter() - start
    return result


def default_prover(*, float32: bool = False) -> Prover:
    """The techniques that are installed, on every `float32` if asked for; their worker processes end with it."""
    smt: dict[Technique, ProofMethod] = {Technique.SMT: SmtProver().prove} if is_available() else {}
    return Prover({**smt, Technique.EXHAUSTION: Exhaustion(float32).prove}, replay)


def add_proof(result: CheckResult, prover: Prover) -> None:
    """Prove a rule on the models on which it fired. An input that refutes it is a fault, if there is none yet."""
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


def declared_examples(rule: Rule) -> Sequence[Example]:
    """The examples in the rule's module: EXAMPLES = {"name_of_rule": [model, ...]}. Raises UsageError."""
    listed: Any = getattr(rule.build, "__globals__", {}).get("EXAMPLES", {})
    found: Any = cast("dict[Any, Any]", listed).get(rule.name, ()) if isinstance(listed, dict) else None
    models = cast("Sequence[Any]", found if isinstance(found, list | tuple) else (None,))
    if not all(isinstance(e, str | onnx.ModelProto) for e in models):
        raise UsageError(f"{rule.build.__module__}.EXAMPLES: a dict of lists of ONNX texts or models, by name of rule")
    return models
