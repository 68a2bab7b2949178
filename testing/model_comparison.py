"""Comparison of a rewritten model with the original under the contract of a rule, here or in a worker process.

If a rule has a condition, only inputs that satisfy it are used; some are modified to satisfy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any, Self, cast
from zlib import crc32

import numpy as np
import onnx
from msgspec import Struct, structs

from ..core.errors import EvaluationError, ModelError, ModelLoadError, UnverifiableError
from ..core.io.convert import from_onnx
from ..core.io.model import Model
from ..core.ir.quantization_spec import Range
from ..core.ort.backends import Arrays, OnnxReference
from ..core.ort.empty_tensors import CONVOLUTIONS, EMPTY_SUM_ERROR, reduced_dims
from ..core.processes.custom_operators import runtime_name
from ..core.processes.onnx_calls import call_directly
from ..core.processes.worker_process import WorkerExit, WorkerProcess, module_command, serve
from ..core.proof.obligation import NotApplicable
from ..core.proof.rule_condition import condition_of
from ..core.rewriting.pattern import match_op
from ..core.rewriting.rules import CONDITIONAL, EXACT, LOSSY, ROUNDING, Contract, Rule
from ..core.verify.comparison_options import ComparisonOptions
from ..core.verify.input_sets import InputSet, ReferenceRun
from ..core.verify.oracle import Oracle
from ..core.verify.seeded_session import SINGLE_THREADED
from ..core.verify.verdict import Mismatch
from ..core.verify.verification_spec import VerificationSpec
from .case import Case, Fault, FaultKind

Array = np.ndarray[Any, Any]
ORDINARY_KINDS = frozenset({"normal", "negative"})
"""Kinds of input sets on which a condition that is only prose is assumed to hold."""
ALL_COMBINED, NO_COMBINED = (0, 1), (0, 0)
COMBINED_ONE_IN = 6  # of the combined input sets, each generated model gets one in this many; other models get others
NEARLY_OVERFLOWING_FACTOR = 64  # between the largest numbers of a type and of a model that may overflow
INVALID_MODEL_ERRORS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
MIN_GROWTH = 2  # of a change under more ulps, at least; a jump stays as large, and explains nothing
MAX_MENDED = 48  # input sets that are modified to satisfy a condition
TIMEOUT = 60.0  # seconds for a comparison in a worker process


class RewriteComparison(Struct, frozen=True):
    """Two models and the contract between them; can be pickled for another process.

    They run in onnxruntime or, with `by_reference`, in ONNX's reference evaluator, on a `combined_part` of the combined
    input sets (`VerificationSpec`). A `condition` is a model with the same inputs, whose outputs are all true where the
    contract applies; empty if the contract has no expression, None if that cannot be evaluated on this model. A lossy
    contract has a `max_error`. `compare_regions`: changed regions are compared, too, as in runs.
    """

    before: bytes
    after: bytes
    critical_values: tuple[float, ...]
    contract: str
    combined_part: tuple[int, int] = ALL_COMBINED
    condition: bytes | None = b""
    by_reference: bool = False
    max_error: float = 0.0
    compare_regions: bool = False


class Discrepancy(Struct, frozen=True):
    """The second model does not compute the results of the first; `exact` if they were compared bit for bit."""

    kind: FaultKind
    message: str
    mismatch: Mismatch | None = None
    exact: bool = False


Comparer = Callable[[RewriteComparison], Discrepancy | None]
"""Compares two models. Raises UnverifiableError if the first one does not run."""


def compare_case(
    rule: Rule, case: Case, after: onnx.ModelProto, compare: Comparer, combined_part: tuple[int, int] = ALL_COMBINED
) -> Fault | None:
    """The discrepancy of `after` from the case's model, if any. Raises UnverifiableError if the case does not run."""
    before, made = case.model.SerializeToString(), after.SerializeToString()
    stated = contract_in(rule, case.model)
    contract = stated.kind
    condition = _condition(rule, case.model) if contract == CONDITIONAL else b""
    critical_values = (*rule.critical_values, *(n for a in rule.contract.assumptions for n in a.numbers))
    found = compare(
        RewriteComparison(
            before,
            made,
            critical_values,
            contract,
            combined_part,
            condition,
            max_error=stated.max_error,
            compare_regions=contract == ROUNDING.kind and bool(rule.patterns),  # a pass may give names other meanings
        )
    )
    if found is None:
        return None
    return Fault(found.kind, found.message, case, after, found.mismatch, found.exact)


def _condition(rule: Rule, model: onnx.ModelProto) -> bytes | None:
    """The condition of a rule on a model; empty if it has no expression, None if that does not apply to this model."""
    try:
        found = condition_of(rule, model)
    except NotApplicable:
        return None
    return found.SerializeToString() if found is not None else b""


def part_for(model: onnx.ModelProto) -> tuple[int, int]:
    """The part of the combined input sets that a generated model gets, which depends on the model."""
    return crc32(model.SerializeToString(deterministic=True)) % COMBINED_ONE_IN, COMBINED_ONE_IN


def contract_in(rule: Rule, model: onnx.ModelProto) -> Contract:
    """The contract of `rule` in a model: the weakest at an op where its pattern matches."""
    if rule.contract.for_dtypes is None:
        return rule.contract
    graphs = from_onnx(model).graph.with_subgraphs()
    candidates = (op for g in graphs for op in g.ops(*rule.root_types))
    roots = [op for op in candidates if any(any(match_op(p, op)) for p in rule.patterns)]
    weakness = {EXACT.kind: 0, ROUNDING.kind: 1}
    contracts = (rule.contract_at(op) for op in roots)
    return max(contracts, key=lambda c: weakness.get(c.kind, 2), default=rule.contract.at(0))


def compare_models(request: RewriteComparison) -> Discrepancy | None:
    """The discrepancy of the second model from the first, on inputs of all kinds, also near boundaries."""
    oracle, half = _require_oracle(request)
    try:
        _require_valid(request.after)
    except INVALID_MODEL_ERRORS as e:
        return Discrepancy(FaultKind.INVALID, _one_line(e))
    _require_no_empty_sums(from_onnx(onnx.load_from_string(request.after)))
    exact = request.contract == EXACT.kind and not half  # kernels for 16-bit floats round as their neighbours do
    oracle.add_runs_near(request.after)
    promised, is_known = _promised_inputs(oracle, request)
    if request.contract == LOSSY.kind:
        return _lossy_discrepancy(request, [r for r in oracle.runs if r.input_set in promised])
    options = ComparisonOptions(
        exact=exact,
        may_round=request.contract != EXACT.kind,
        input_sets=promised,
        compare_regions=request.compare_regions,
    )
    mismatch = oracle.compare(request.after, options).failure if promised else None
    if not is_known and (mismatch is None or mismatch.input_set is not None):
        raise UnverifiableError("the condition of the rule cannot be evaluated on this model")
    if mismatch is None:
        return _gain(oracle, request) if request.contract == ROUNDING.kind else None
    typical = (r for r in oracle.runs if r.input_set.kind == "normal")
    if request.contract != EXACT.kind and any(map(_nearly_overflows, typical)):
        raise UnverifiableError("the generated model overflows on ordinary numbers, or nearly")
    kind = FaultKind.REFUSED if mismatch.input_set is None else FaultKind.WRONG
    return Discrepancy(kind, str(mismatch), mismatch, exact)


def _gain(oracle: Oracle, request: RewriteComparison) -> Discrepancy | None:
    """A difference only on NaN and infinite inputs, in results that become finite; runs skip such a rewrite.

    The contract allows it, because real numbers have neither.
    """
    others = [r.input_set for r in oracle.runs if not r.input_set.is_finite]
    found = oracle.compare(request.after, ComparisonOptions(input_sets=others)).failure if others else None
    return Discrepancy(FaultKind.GAINED, str(found), found) if found is not None and found.is_gain else None


def _lossy_discrepancy(request: RewriteComparison, runs: Sequence[ReferenceRun]) -> Discrepancy | None:
    """The first output that is off by more than a lossy contract allows, on ordinary inputs."""
    if not runs:
        raise UnverifiableError("its results are not finite on ordinary inputs")
    largest: dict[str, float] = {}
    for name, want in ((name, np.asarray(v)) for run in runs for name, v in run.outputs.items()):
        if want.dtype.kind == "f":
            largest[name] = max(largest.get(name, 0.0), float(np.abs(want).max(initial=0)))
    try:
        backend = SINGLE_THREADED(request.after)
        for run in runs:
            made = backend.run(list(run.outputs), run.input_set.feeds)
            for (name, want), got in zip(run.outputs.items(), made, strict=True):
                if why := _excess(np.asarray(want), np.asarray(got), request.max_error, largest.get(name, 0.0)):
                    mismatch = Mismatch(name, why, run.input_set, None)
                    return Discrepancy(FaultKind.WRONG, f"{name}: {why}, on {run.input_set}", mismatch)
    except (ModelLoadError, EvaluationError) as e:
        return Discrepancy(FaultKind.REFUSED, _one_line(e))
    return None


def _excess(want: Array, got: Array, part: float, largest: float) -> str:
    """How far an output is off, if that is more than `part` of its largest number on ordinary inputs."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        return "" if np.array_equal(want, got) else "elements differ"
    error = float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0))
    if error <= part * largest:  # false for NaN
        return ""
    allowed = f"{part * largest:.3g}, {part:g} of {largest:.3g}, its largest number on ordinary inputs"
    return f"off by up to {error:.3g} (allowed {allowed})"


def measure_ranges(model: bytes) -> dict[str, Range]:
    """The ranges of the values of a model on ordinary inputs; empty for a model that does not run."""
    found: dict[str, Range] = {}
    extended = onnx.load_from_string(model)
    given = {o.name for o in extended.graph.output}
    extended.graph.output.extend(
        onnx.ValueInfoProto(name=name)
        for name in dict.fromkeys(name for node in extended.graph.node for name in node.output)
        if name and name not in given
    )
    try:
        oracle, _ = _require_oracle(RewriteComparison(model, model, (), LOSSY.kind))
        backend, names = SINGLE_THREADED(extended.SerializeToString()), [o.name for o in extended.graph.output]
        for run in (r for r in oracle.runs if _is_covered_by_contract(r, LOSSY.kind)):
            values = {**run.input_set.feeds, **dict(zip(names, backend.run(names, run.input_set.feeds), strict=True))}
            for name, value in values.items():
                array: Array = np.asarray(value)
                if array.dtype.kind == "f" and array.size:
                    known = found.get(name, Range(inf, -inf))
                    found[name] = Range(min(known.low, float(array.min())), max(known.high, float(array.max())))
    except (UnverifiableError, ModelLoadError, EvaluationError):
        return {}
    return found


def _promised_inputs(oracle: Oracle, request: RewriteComparison) -> tuple[list[InputSet], bool]:
    """The input sets on which the contract promises the results, and whether that is known.

    The runs on input sets that are modified to satisfy a condition are added to the oracle. Raises UnverifiableError if
    no input set satisfies it.
    """
    is_known = request.condition is not None
    if request.condition:
        try:
            return _assumed(oracle, request.before, request.condition), True
        except (ModelLoadError, EvaluationError):  # such as a comparison of a type without a kernel
            is_known = False
    return [r.input_set for r in oracle.runs if _is_covered_by_contract(r, request.contract)], is_known


def _assumed(oracle: Oracle, before: bytes, condition: bytes) -> list[InputSet]:
    """The input sets on which all outputs of a model are true; some are modified for this.

    Raises ModelLoadError and EvaluationError.
    """
    backend, original = SINGLE_THREADED(condition), SINGLE_THREADED(before)
    names = [o.name for o in onnx.load_from_string(condition).graph.output]

    def truths(feeds: Arrays) -> list[Array]:
        return [np.asarray(v) for v in backend.run(names, feeds)]

    held, mended = list[InputSet](), list[InputSet]()
    for given in [r.input_set for r in oracle.runs if r.input_set.is_finite]:
        found = truths(given.feeds)
        if all(v.all() for v in found):
            held.append(given)
        elif len(mended) < MAX_MENDED:
            fulfilling = (feeds for feeds in _mended(given.feeds, found) if all(v.all() for v in truths(feeds)))
            mended += (replace(given, feeds=feeds) for feeds in islice(fulfilling, 1))
    if not held and not mended:
        raise UnverifiableError("no inputs fulfil the condition of the rule")
    for given in mended:
        outputs = zip(oracle.output_names, original.run(oracle.output_names, given.feeds), strict=True)
        oracle.runs.append(ReferenceRun(given, dict(outputs)))
    return [*held, *mended]


def _mended(feeds: Arrays, truths: Sequence[Array]) -> Iterator[dict[str, Any]]:
    """Yield inputs whose elements where a condition is false are replaced by one where it is true; or have one sign."""
    tensors: dict[str, Array] = {n: x for n, x in feeds.items() if isinstance(x, np.ndarray)}
    for shape in dict.fromkeys(v.shape for v in truths if v.size):
        true: Array = np.logical_and.reduce([v for v in truths if v.shape == shape])
        if true.any() and not true.all():
            places: Array = np.where(true.reshape(-1), cast("Array", np.arange(true.size)), int(np.argmax(true)))
            moved = {n: x.reshape(-1)[places].reshape(shape) for n, x in tensors.items() if x.shape == shape}
            yield {**feeds, **moved}
    for sign in (1, -1):
        yield {**feeds, **{n: sign * np.abs(x) for n, x in tensors.items() if x.dtype.kind == "f"}}


def _is_covered_by_contract(run: ReferenceRun, contract: str) -> bool:
    """Whether a contract covers the numbers of a run.

    A rounding rule is correct in real arithmetic, without NaN and infinity. A condition that is only prose is assumed
    to hold on ordinary numbers, without empty tensors, if the results are finite.
    """
    input_set = run.input_set
    if contract == EXACT.kind:
        return True
    if contract == ROUNDING.kind:
        return input_set.is_finite
    is_tame = input_set.all_kinds <= ORDINARY_KINDS and 0 not in input_set.sizes.values()
    return is_tame and all(bool(np.isfinite(x).all()) for x in _float_outputs(run))


def _nearly_overflows(run: ReferenceRun) -> bool:
    """Whether a number of the outputs is infinite, or within a factor of the largest number of the type."""
    return any(bool((np.abs(x) > np.finfo(x.dtype).max / NEARLY_OVERFLOWING_FACTOR).any()) for x in _float_outputs(run))


def _float_outputs(run: ReferenceRun) -> Iterator[Array]:
    return (x for x in run.outputs.values() if getattr(getattr(x, "dtype", None), "kind", "") in {"f", "c"})


def _require_oracle(request: RewriteComparison) -> tuple[Oracle, bool]:
    """The oracle for the first model, if it is valid and loads; and whether the model computes in 16-bit floats."""
    try:
        _require_valid(request.before)
        model = from_onnx(onnx.load_from_string(request.before))
        _require_no_empty_sums(model)
        spec = structs.replace(VerificationSpec.of(model), combined_part=request.combined_part)
        backend = OnnxReference if request.by_reference else SINGLE_THREADED
        oracle = Oracle(request.before, spec, boundaries=request.critical_values, backends=(backend,))
    except (*INVALID_MODEL_ERRORS, ModelError) as e:
        raise UnverifiableError(_one_line(e)) from e
    _require_declared_shapes(oracle, model)
    return oracle, spec.uses_half


def _require_declared_shapes(oracle: Oracle, model: Model) -> None:
    """Raise UnverifiableError if onnxruntime computes an output with another shape than declared."""
    for v in model.graph.outputs:
        declared = v.recorded_type[1]
        for run in oracle.runs:
            shape = getattr(run.outputs[v.name], "shape", None)
            if shape is None or declared is None:
                continue
            pairs = zip(declared, shape, strict=False)
            if len(shape) != len(declared) or any(isinstance(d, int) and d != n for d, n in pairs):
                raise UnverifiableError(f"{v.name} has shape {list(shape)}, not its declared shape")


def _require_no_empty_sums(model: Model) -> None:
    """Raise UnverifiableError for empty sums: onnxruntime hangs on such Convs, and ignores the beta of such Gemms."""
    for graph in model.graph.with_subgraphs():
        for op in graph.ops(*CONVOLUTIONS, "Gemm"):
            if any(0 in reduced_dims(v) for v in op.inputs):
                raise UnverifiableError(f"{op.label} {EMPTY_SUM_ERROR}")
        for op in graph.ops(*CONVOLUTIONS):
            if not all(isinstance(d, int) for v in op.inputs[1:] for d in reduced_dims(v)):
                raise UnverifiableError(f"{op.label} may have an empty window, on which onnxruntime hangs")


def _require_valid(model: bytes) -> None:
    checker: Any = onnx.checker
    checker.check_model(model, full_check=True)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class ComparisonWorker:
    """Comparisons in this process."""

    def compare(self, request: RewriteComparison) -> Discrepancy | None:
        """Compare two models."""
        return compare_models(request)

    def measure(self, model: bytes) -> dict[str, Range]:
        """Measure the ranges of the values of a model."""
        return measure_ranges(model)


@dataclass(slots=True)
class ComparisonProcess:
    """Compares models in a worker process; a process that crashes, or takes longer than `timeout`, is replaced."""

    timeout: float = TIMEOUT
    _process: WorkerProcess[ComparisonWorker] = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(__name__), self.timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()

    def measure(self, model: bytes) -> Mapping[str, Range]:
        """The ranges of the values of a model, see `measure_ranges`; empty if it crashes."""
        try:
            return self._process.call().measure(model)
        except WorkerExit:
            return {}

    def __call__(self, request: RewriteComparison) -> Discrepancy | None:
        """Compare two models. A crash only on the rewritten model is a discrepancy, and so are two timeouts.

        Raises UnverifiableError if the original also crashes, and RequestFailed with the traceback of any other error.
        """
        try:
            return self._process.call().compare(request)
        except WorkerExit as e:
            ended = e
        try:
            self._process.call().compare(structs.replace(request, after=request.before))
        except WorkerExit as e:
            raise UnverifiableError(f"on the generated model, {e.describe(runtime_name())}") from e
        with suppress(WorkerExit):
            if ended.code is None:  # other work on the machine may have taken the time
                return self._process.call().compare(request)
        return Discrepancy(FaultKind.REFUSED, f"on the rewritten model, {ended.describe(runtime_name())}")


def main() -> None:
    """Serve the parent until it ends."""
    call_directly()
    serve(ComparisonWorker())
