"""What a rule left, held to the answers of the model that it was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ..core.errors import ModelError, Unverifiable
from ..core.io.convert import from_onnx
from ..core.io.model import Model
from ..core.ir.dims import Shape
from ..core.ir.effects import leaves_traces, uses_half
from ..core.ort.backends import Reference
from ..core.rewriting.rules import EXACT, ROUNDING, Rule
from ..core.verify.empty_tensor_support import NOT_RIGHT, WINDOWS, summed
from ..core.verify.input_generation import Draw
from ..core.verify.input_search import Answer
from ..core.verify.input_specs import signature
from ..core.verify.oracle import Oracle
from ..core.verify.seeded_session import ONE_THREAD, random_outputs
from ..core.verify.verdict import Mismatch
from .case import Case
from .fault import Fault, Kind
from .perturbation import is_rounding

TAME = frozenset({"normal", "negative"})
"""Kinds of draw on which a condition on the numbers is taken to hold."""
INVALID = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)


@dataclass(frozen=True, slots=True)
class Question:
    """Two models, and the kind of contract between them. All of it can be sent to another process.

    They run in onnxruntime, or, `by_reference`, in the reference evaluator of ONNX.
    """

    before: bytes
    after: bytes
    fragile: tuple[float, ...]
    contract: str
    by_reference: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """How the second model fails to do what the first does; `exact` if they were compared to the last bit."""

    kind: Kind
    message: str
    mismatch: Mismatch | None = None
    exact: bool = False


Judge = Callable[[Question], Finding | None]
"""Answers a question. Raises Unverifiable where the first model does not run."""


def judged(rule: Rule, case: Case, after: onnx.ModelProto, judge: Judge, *, by_reference: bool = False) -> Fault | None:
    """How `after` differs from the case's model, if it does. Raises Unverifiable for a case that does not run."""
    before, made = case.model.SerializeToString(), after.SerializeToString()
    found = judge(Question(before, made, rule.fragile, rule.contract.kind, by_reference))
    if found is None:
        return None
    return Fault(found.kind, found.message, case, after, found.mismatch, found.exact)


def answered(question: Question) -> Finding | None:
    """How the second model differs from the first, on inputs of all kinds, those around fragile numbers too."""
    oracle, half = _oracle(question)
    try:
        _require_valid(question.after)
    except INVALID as e:
        return Finding(Kind.INVALID, _line(e))
    _require_harmless(from_onnx(onnx.load_from_string(question.after)))
    exact = question.contract == EXACT.kind and not half  # kernels for 16-bit floats round as their neighbours do
    promised = [a.draw for a in oracle.answers if _is_promised(a, question.contract)]
    mismatch = _mismatch(oracle, question, promised, exact=exact)
    if mismatch is None:
        return None
    kind = Kind.REFUSED if mismatch.draw is None else Kind.WRONG
    return Finding(kind, str(mismatch), mismatch, exact)


def _mismatch(oracle: Oracle, question: Question, promised: list[Draw], *, exact: bool) -> Mismatch | None:
    """The first difference that counts: where a contract allows for rounding, one that rounding does not explain."""
    while promised:
        found = oracle.judge(question.after, exact=exact, on=promised).failure
        if found is None or not found.output or found.draw is None or question.contract == EXACT.kind:
            return found
        if not is_rounding(question.before, question.after, found.draw.feeds):
            return found
        promised = [d for d in promised if d is not found.draw]
    return None


def _is_promised(answer: Answer, contract: str) -> bool:
    """Whether a contract is about numbers such as those of an answer.

    What rounds is right in real arithmetic, which has no NaN and no infinity. A condition on the numbers is taken to
    hold where they are no special ones, not missing, and what comes of them is finite.
    """
    draw = answer.draw
    if contract == EXACT.kind:
        return True
    if contract == ROUNDING.kind:
        return draw.is_finite
    is_tame = draw.kind in TAME and 0 not in draw.sizes.values()
    return is_tame and all(map(_is_finite, answer.outputs.values()))


def _is_finite(result: Any) -> bool:
    kind = getattr(getattr(result, "dtype", None), "kind", "")
    return kind not in {"f", "c"} or bool(np.isfinite(result).all())


def _oracle(question: Question) -> tuple[Oracle, bool]:
    """The answers of the first model, if it is valid and onnxruntime loads it; and whether it has 16-bit floats."""
    try:
        _require_valid(question.before)
        model = from_onnx(onnx.load_from_string(question.before))
        _require_harmless(model)
        oracle = _asked(question, model)
    except (*INVALID, ModelError) as e:
        raise Unverifiable(_line(e)) from e
    _require_as_declared(oracle, model)
    return oracle, uses_half(model.graph)


def _asked(question: Question, model: Model) -> Oracle:
    return Oracle(
        question.before,
        signature(model),
        [v.name for v in model.graph.outputs],
        random=random_outputs(model.graph),
        boundaries=question.fragile,
        fresh=leaves_traces(model.graph),
        backends=(Reference,) if question.by_reference else ONE_THREAD,
    )


def _require_as_declared(oracle: Oracle, model: Model) -> None:
    """Raise Unverifiable where onnxruntime gives an output another shape than it is declared to have."""
    for v in model.graph.outputs:
        declared = v.stated[1]
        for answer in oracle.answers if declared is not None else ():
            shape = getattr(answer.outputs[v.name], "shape", None)
            if shape is not None and not _fits(shape, declared or ()):
                raise Unverifiable(f"{v.name} comes out of shape {list(shape)}, which is not as declared")


def _fits(shape: tuple[int, ...], declared: Shape) -> bool:
    known = [(d, n) for d, n in zip(declared, shape, strict=False) if isinstance(d, int)]
    return len(shape) == len(declared) and all(d == n for d, n in known)


def _require_harmless(model: Model) -> None:
    """Raise Unverifiable for sums over nothing: onnxruntime hangs on such Convs, and forgets the beta of such Gemms."""
    for graph in model.graph.with_subgraphs():
        for op in graph.ops(*WINDOWS, "Gemm"):
            if any(0 in summed(v) for v in op.inputs):
                raise Unverifiable(f"{op.label} {NOT_RIGHT}")
        for op in graph.ops(*WINDOWS):
            if not all(isinstance(d, int) for v in op.inputs[1:] for d in summed(v)):
                raise Unverifiable(f"{op.label} may have a window of nothing, on which onnxruntime hangs")


def _require_valid(model: bytes) -> None:
    checker: Any = onnx.checker
    checker.check_model(model, full_check=True)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
