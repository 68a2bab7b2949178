"""Worker that asks z3 questions.

Two models are evaluated on the same variables. z3 then searches for numbers for which an element of the second is
undefined although the same element of the first is defined, or differs from it. Queries that differ only in the names
of variables, as for elementwise operators, are asked once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from ..ir.tensor import first_line
from ..processes.onnx_calls import call_directly
from ..processes.process_limits import limit_memory, prepare_to_crash
from ..processes.worker_process import serve
from .obligation import Fragment, InputType, NotApplicable, Obligation
from .smt_answer import Answer, AnswerKind, Question
from .smt_evaluation import CannotRun, TermEvaluation, TermTensor, Value, variable_name
from .smt_functions import Functions, has_unknown_functions
from .smt_terms import TRUE, Arithmetic, Element, Term, all_of, z3

MAX_REASON = 160
VARIABLE = re.compile(r"\|[^|]*#\d+\|")


def answer(question: Question) -> Answer:
    """The answer to a question, for all sizes at which the first model runs."""
    done: list[Mapping[str, int]] = []
    reasons: list[str] = []
    for sizes in question.sizes:
        comparison = TermComparison(question, sizes)
        try:
            found = comparison.answer()
        except CannotRun as e:  # at these sizes
            reasons.append(str(e))
            continue
        except (NotApplicable, z3.Z3Exception) as e:
            return Answer(AnswerKind.UNKNOWN, first_line(e)[:MAX_REASON])
        if found.outcome is not AnswerKind.PROVED:
            return found
        done.append(sizes)
    return (
        Answer(AnswerKind.PROVED, sizes=tuple(done))
        if done
        else Answer(AnswerKind.UNKNOWN, reasons[0] if reasons else "")
    )


@dataclass(slots=True)
class TermComparison:
    """Two models at one size for each symbol."""

    question: Question
    sizes: Mapping[str, int]
    seen: set[str] = field(default_factory=set[str])
    functions: Functions = field(default_factory=Functions)
    assumed: Sequence[Term] = ()

    def answer(self) -> Answer:
        """Evaluate and compare. Raises CannotRun if the first model does not run at these sizes."""
        obligation = self.question.obligation
        evaluation = TermEvaluation(Arithmetic(self.question.over_reals), by_formula=self.question.by_formula)
        feeds: dict[str, Value] = {
            i.name: evaluation.variable(i.name, i.dtype, shape) for i, shape in obligation.concrete_inputs(self.sizes)
        }
        before = evaluation.run(obligation.before, feeds)
        try:
            after = evaluation.run(obligation.after, feeds)
        except CannotRun as e:
            return Answer(AnswerKind.DIFFERS, f"the rewritten model cannot run: {e}", (self.sizes,), self._inputs(None))
        if self.question.by_formula and not evaluation.formulas:
            return Answer(AnswerKind.UNKNOWN, "no operator has a formula")
        self.functions = evaluation.functions
        self.assumed = self._assumptions(evaluation, obligation, feeds)
        for name, value in before.items():
            found = self._compare(value, after[name])
            if found is not None:
                return found
        return Answer(AnswerKind.PROVED, sizes=(self.sizes,))

    def _assumptions(
        self, evaluation: TermEvaluation, obligation: Obligation, feeds: Mapping[str, Value]
    ) -> Sequence[Term]:
        """The condition of the obligation."""
        if obligation.condition is None:
            return []
        found = evaluation.run(Fragment(obligation.condition), feeds).values()
        return [all_of(e.defined, e.term) for v in found for e in elements_of(v)]

    def _compare(self, a: Value, b: Value) -> Answer | None:
        """The answer on one output, or None if it is equal."""
        if isinstance(a, list) or isinstance(b, list):
            return self._compare_sequences(a, b)
        if a is None or b is None:
            return None if a is b else self._differs("an optional is empty in one model")
        if (a.dtype, a.elements.shape) != (b.dtype, b.elements.shape):
            shapes = (list(t.elements.shape) for t in (a, b))
            return self._differs("{} became {}".format(*shapes))
        for x, y in zip(a.elements.reshape(-1), b.elements.reshape(-1), strict=True):
            found = self._compare_elements(x, y)
            if found is not None:
                return found
        return None

    def _compare_sequences(self, a: Value, b: Value) -> Answer | None:
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            return self._differs("sequences of other lengths")
        found = (self._compare(x, y) for x, y in zip(a, b, strict=True))
        return next((f for f in found if f is not None), None)

    def _differs(self, reason: str) -> Answer:
        return Answer(AnswerKind.DIFFERS, reason, (self.sizes,), self._inputs(None))

    def _compare_elements(self, x: Element, y: Element) -> Answer | None:
        if x is y or (x.term.eq(y.term) and (y.defined is TRUE or y.defined.eq(x.defined))):
            return None
        shrinks = z3.And(x.defined, z3.Not(y.defined))
        differs = z3.And(x.defined, y.defined, x.term != y.term)
        for claim, outcome in ((shrinks, AnswerKind.FEWER_INPUTS), (differs, AnswerKind.DIFFERS)):
            simple = z3.simplify(claim)
            if z3.is_false(simple) or not self._is_new(simple):
                continue
            found = self._refute(claim, outcome)
            if found is not None:
                return found
        return None

    def _is_new(self, claim: Term) -> bool:
        """Whether no claim was asked that differs only in the names of variables."""
        names: dict[str, str] = {}
        text = VARIABLE.sub(lambda m: names.setdefault(m.group(), f"v{len(names)}"), claim.sexpr())
        if text in self.seen:
            return False
        self.seen.add(text)
        return True

    def _refute(self, claim: Term, outcome: AnswerKind) -> Answer | None:
        """The answer if numbers exist for which `claim` is true, or if that is unknown."""
        solver = z3.Solver()
        solver.set("timeout", int(self.question.seconds * 1000))
        whole = z3.And(claim, *self.assumed)
        solver.add(whole, *self.functions.statements(whole))
        status = solver.check()
        if status == z3.unsat:
            return None
        if status == z3.sat:
            is_certain = outcome is AnswerKind.DIFFERS or not has_unknown_functions(claim)
            reason = "elements differ" if outcome is AnswerKind.DIFFERS else "an element may not be defined any more"
            return Answer(
                outcome if is_certain else AnswerKind.UNKNOWN, reason, (self.sizes,), self._inputs(solver.model())
            )
        return Answer(AnswerKind.UNKNOWN, f"z3: {solver.reason_unknown()}", (self.sizes,))

    def _inputs(self, model: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the variables in a model of z3; zeros without a model."""
        arithmetic = Arithmetic(self.question.over_reals)
        return {
            i.name: _values(arithmetic, i, shape, model)
            for i, shape in self.question.obligation.concrete_inputs(self.sizes)
        }


def elements_of(value: Value) -> list[Element]:
    """The elements of a tensor, or of all tensors of a sequence."""
    if isinstance(value, list):
        return [e for v in value for e in elements_of(v)]
    return value.elements.reshape(-1).tolist() if isinstance(value, TermTensor) else []


def _values(arithmetic: Arithmetic, given: InputType, shape: tuple[int, ...], model: Any) -> np.ndarray[Any, Any]:
    dtype = helper.tensor_dtype_to_np_dtype(given.dtype)
    found = np.zeros(shape, dtype)
    if model is None or dtype.kind == "O":
        return found
    sort = arithmetic.kind(given.dtype).sort
    for number, at in enumerate(np.ndindex(*shape)):
        value = model.eval(z3.Const(variable_name(given.name, number), sort), model_completion=True)
        found[at] = number_of(value, dtype)
    return found


def number_of(value: Term, dtype: np.dtype[Any]) -> Any:
    """The number of a constant term."""
    if z3.is_bool(value):
        return z3.is_true(value)
    if z3.is_bv(value):
        return np.array(value.as_long(), np.uint64).astype(dtype)
    if z3.is_fp(value):
        if z3.is_true(z3.simplify(z3.fpIsNaN(value))):
            return np.nan
        bits = z3.simplify(z3.fpToIEEEBV(value)).as_long()
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    if z3.is_algebraic_value(value):
        value = value.approx(30)
    with np.errstate(over="ignore"):
        return dtype.type(float(value.as_fraction()))


class SmtWorker:
    """The z3 of this process."""

    def answer(self, question: Question) -> Answer:
        """The answer to a question, within its limit of memory."""
        z3.simplify(TRUE)  # create z3's data for this thread; without it, z3 ends the process if memory is lacking
        limit_memory(question.memory)
        try:
            return answer(question)
        finally:
            limit_memory(None)  # also to report a lack of memory


def main() -> None:
    """Serve the parent until it ends."""
    prepare_to_crash()
    call_directly()
    serve(SmtWorker())
