"""Replays: a candidate for a counterexample counts only if onnxruntime computes a different result for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ..errors import EvaluationError
from ..ir.tensor import Tensor
from ..ort.evaluation import EvaluationAborted, EvaluationLimits, EvaluationProcess
from ..rewriting.rules import CONDITIONAL, EXACT, LOSSY
from ..verify.output_comparison import compare_outputs
from ..verify.reference.float64_evaluation import evaluate_in_float64
from ..verify.reference.judgement import Decision, judge, kernel_error
from .obligation import Obligation

Arrays = Mapping[str, np.ndarray[Any, Any]]
LIMITS = EvaluationLimits(memory=1 << 30, seconds=10.0)
SHOWN_ELEMENTS = 6


def as_input(array: Any, dtype: int) -> np.ndarray[Any, Any]:
    """An input of a draw as onnxruntime accepts it."""
    return np.asarray(array).astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


def replay(obligation: Obligation, inputs: Arrays) -> str:
    """The difference that running both models on `inputs` shows, as text; "" if there is none.

    There is none if the second model satisfies the contract, or the first one does not run.

    An exact contract requires equal bits, others the numbers of float64 on finite inputs. A contract whose condition is
    only prose is never violated, nor is a lossy one.
    """
    kind = obligation.contract.kind
    if kind == LOSSY.kind or (kind == CONDITIONAL and obligation.condition is None):
        return ""
    feeds = {i.name: inputs[i.name] for i in obligation.inputs}
    if any(a.dtype.hasobject for a in feeds.values()):  # texts, for which a proof knows no numbers
        return ""
    names = [o.name for o in obligation.before.model.graph.output]
    with EvaluationProcess(LIMITS) as process:
        try:
            if not _holds(process, obligation.condition, feeds):
                return ""
        except EvaluationError:  # such as a comparison of a type without a kernel: nobody knows whether it holds
            return ""
        try:
            wanted = _run(process, obligation.before.model, names, feeds)
        except EvaluationError:
            return ""
        try:
            given = _run(process, obligation.after.model, names, feeds)
        except EvaluationAborted:
            return f"the rewritten model crashes onnxruntime at {format_inputs(feeds)}"
        except EvaluationError as e:
            return f"the rewritten model does not run: {e}"
    if any(a is None or b is None for a, b in zip(wanted, given, strict=True)):
        return ""
    found = _bits(names, wanted, given) if kind == EXACT.kind else _numbers(obligation, names, wanted, given, feeds)
    return f"{found} at {format_inputs(feeds)}" if found else ""


def run_original(obligation: Obligation, feeds: Arrays) -> Mapping[str, Any]:
    """The outputs of the original in onnxruntime; empty if it does not run."""
    names = [o.name for o in obligation.before.model.graph.output]
    with EvaluationProcess(LIMITS) as process:
        try:
            found = _run(process, obligation.before.model, names, feeds)
        except EvaluationError:
            return {}
    return {name: a for name, a in zip(names, found, strict=True) if a is not None}


def _holds(process: EvaluationProcess, condition: onnx.ModelProto | None, feeds: Arrays) -> bool:
    """Whether inputs satisfy a condition."""
    if condition is None:
        return True
    found = _run(process, condition, [o.name for o in condition.graph.output], feeds)
    return all(v is not None and bool(v.all()) for v in found)


def _run(process: EvaluationProcess, model: onnx.ModelProto, names: Sequence[str], feeds: Arrays) -> list[Any]:
    used = {i.name for i in model.graph.input}
    given = {name: Tensor.from_array(a) for name, a in feeds.items() if name in used}
    return list(process.run(model.SerializeToString(), names, given, by_reference=False))


def _bits(names: Sequence[str], wanted: Sequence[Any], given: Sequence[Any]) -> str:
    for name, a, b in zip(names, wanted, given, strict=True):
        if compare_outputs(a, b, exact=True).reason:
            return _difference(name, a, b)
    return ""


def _numbers(
    obligation: Obligation, names: Sequence[str], wanted: Sequence[Any], given: Sequence[Any], feeds: Arrays
) -> str:
    """The first output with another number in float64, if any."""
    if any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in feeds.values()):
        return ""
    try:
        truth, other = (evaluate_in_float64(m, feeds, names) for m in obligation.models)
    except EvaluationError:
        return ""
    for name, a, b in zip(names, wanted, given, strict=True):
        judged = judge(a, b, truth[name], other[name], kernel_error(obligation.after.model, a.dtype))
        if judged.decision is Decision.WRONG:
            return _difference(name, a, b)
    return ""


def _difference(name: str, a: Any, b: Any) -> str:
    """The first elements that differ."""
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{name} is {x.dtype}{list(x.shape)}, then {y.dtype}{list(y.shape)},"
    at = tuple(int(i) for i in np.argwhere(_differing(x, y))[0])
    return f"{name}{list(at)} is {x[at]}, then {y[at]},"


def _differing(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The elements that are different numbers; if all numbers are equal, zeros of different sign."""
    off = np.asarray(a != b)
    if a.dtype.kind != "f":
        return off
    off &= ~(np.isnan(a) & np.isnan(b))
    return off if off.any() else np.asarray(np.signbit(a) != np.signbit(b))


def format_inputs(inputs: Arrays) -> str:
    """Inputs on one line; long ones are truncated."""
    return ", ".join(f"{name} = {_format_array(a)}" for name, a in inputs.items())


def _format_array(array: np.ndarray[Any, Any]) -> str:
    shown = ", ".join(str(v) for v in array.reshape(-1)[:SHOWN_ELEMENTS])
    return f"{array.dtype}{list(array.shape)} [{shown}{', ...' if array.size > SHOWN_ELEMENTS else ''}]"
