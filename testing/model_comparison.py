"""Comparison of a rewritten model with the original within the contract of a rule.

All intermediate results are perturbed to measure the effect of other roundings. Where a rule has a condition, inputs
are kept, or made, that fulfil it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..core.errors import EvaluationError, ModelError, ModelLoadError, UnverifiableError
from ..core.io.convert import from_onnx
from ..core.io.model import Model
from ..core.operators.declaration import Trait
from ..core.operators.table import ops_with
from ..core.ort.backends import Arrays, OnnxReference
from ..core.ort.empty_tensors import CONVOLUTIONS, EMPTY_SUM_ERROR, reduced_dims
from ..core.proof.obligation import NotApplicable
from ..core.proof.rule_condition import condition_of
from ..core.rewriting.pattern import match_op
from ..core.rewriting.rules import CONDITIONAL, EXACT, ROUNDING, Contract, Rule
from ..core.serialization.proto_queries import opset_versions, subgraphs
from ..core.verify.comparison_options import ComparisonOptions
from ..core.verify.input_sets import InputSet, ReferenceRun
from ..core.verify.noise import perturb
from ..core.verify.oracle import Oracle
from ..core.verify.output_comparison import distances, has_same_finiteness, min_tolerance, to_64_bit
from ..core.verify.reference.float64_evaluation import evaluate_in_float64
from ..core.verify.reference.judgement import Decision, judge, kernel_error
from ..core.verify.seeded_session import SINGLE_THREADED
from ..core.verify.verdict import Mismatch
from ..core.verify.verification_spec import VerificationSpec
from .case import Case, Fault, FaultKind

Array = np.ndarray[Any, Any]
RUNS_PER_SCALE = 6
SMALL_ULPS, MEDIUM_ULPS, LARGE_ULPS = 1, 8, 64  # ulps that every number moves, up or down
DROPOUT_INPUTS_OPSET = 12  # since this opset its ratio and mode are inputs
DROPOUT_RATIO, DROPOUT_TRAINING = "half of them", "training"
PERTURBED_WEIGHT_OPS = ops_with(Trait.NORMALIZATION) | {
    "Add", "BatchNormalization", "Conv", "ConvTranspose", "Div", "Einsum", "Gemm", "MatMul", "Mul", "Sub", "Sum",
}  # fmt: skip
"""Operators whose weights are added and multiplied, and are not bounds, exponents or extents."""
MIN_GROWTH = 2  # of the distance with more ulps, at least: a jump is as large each time, and explains nothing
FLOAT_DTYPES = {TensorProto.FLOAT16: np.float16, TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
PERTURBED_DTYPES: dict[int, Any] = {int(kind): dtype for kind, dtype in FLOAT_DTYPES.items()}


def is_explained_by_rounding(before: bytes, after: bytes, feeds: Arrays) -> bool:
    """Whether the second model is as close to the first as the perturbed first model is, element by element.

    Terms that cancel are rounded by their own size, not by the size of the result, so noise of the inputs is not
    enough. An element that is NaN or infinite in only one of the models must turn into or from a number under
    perturbation.
    """
    model = onnx.load_from_string(before)
    names = [v.name for v in model.graph.output]
    try:
        want, got = (_run(m, names, feeds) for m in (before, after))
        runs = [
            [
                _run(perturbed_model(model, far, seed), names, perturb(feeds, seed, far))
                for seed in range(RUNS_PER_SCALE)
            ]
            for far in (SMALL_ULPS, MEDIUM_ULPS, LARGE_ULPS)
        ]
    except (ModelLoadError, EvaluationError):
        return False
    return all(_is_within_noise(want[n], got[n], *([r[n] for r in some] for some in runs)) for n in names)


def perturbed_model(model: onnx.ModelProto, ulps: int, seed: int) -> bytes:
    """The model with every element of its weights, and of its intermediate floats, perturbed by about `ulps`."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for kind, dtype in PERTURBED_DTYPES.items():
        numbers = {f"share of {kind}": ulps * float(np.finfo(dtype).eps), f"one of {kind}": 1}
        out.graph.initializer.extend(numpy_helper.from_array(np.array(n, dtype), name) for name, n in numbers.items())
    graphs = from_onnx(model).graph.with_subgraphs()
    types = {v.name: v.known_dtype for g in graphs for op in g.ops() for v in op.outputs}
    switches = {DROPOUT_RATIO: np.float32(0.5), DROPOUT_TRAINING: np.bool_(True)}
    out.graph.initializer.extend(numpy_helper.from_array(np.array(n), name) for name, n in switches.items())
    opset = opset_versions(model)[""]
    _perturb_graph(out.graph, types, opset, ulps, seed)
    return out.SerializeToString()


def _perturb_graph(graph: onnx.GraphProto, types: Mapping[str, int], opset: int, ulps: int, seed: int) -> None:
    nodes = list(graph.node)
    weights = {name for node in nodes if node.op_type in PERTURBED_WEIGHT_OPS for name in node.input}
    for t in graph.initializer:
        if t.name in weights and t.data_type in PERTURBED_DTYPES:
            t.CopyFrom(numpy_helper.from_array(perturb({t.name: numpy_helper.to_array(t)}, seed, ulps)[t.name], t.name))
    del graph.node[:]
    for node in nodes:
        for body in subgraphs(node):
            _perturb_graph(body, types, opset, ulps, seed)
        outputs = [
            name for name in node.output if types.get(name, 0) in PERTURBED_DTYPES and node.op_type != "Constant"
        ]
        node.output[:] = [f"{name} unperturbed" if name in outputs else name for name in node.output]
        graph.node.append(node)
        for name in outputs:
            seed += 1
            graph.node.extend(_perturbing_nodes(name, types[name], opset, seed))


def _perturbing_nodes(name: str, kind: int, opset: int, seed: int) -> Iterator[onnx.NodeProto]:
    """Nodes that compute `name` = v * (1 + share * r), with r -1 or 1 for each element."""
    v, sides, r, part, factor = (f"{name} {suffix}" for suffix in ("unperturbed", "sides", "r", "part", "factor"))
    yield from _random_signs(v, sides, opset, seed)
    yield helper.make_node("Cast", [sides], [r], to=kind)
    yield helper.make_node("Mul", [r, f"share of {kind}"], [part])
    yield helper.make_node("Add", [part, f"one of {kind}"], [factor])
    yield helper.make_node("Mul", [v, factor], [name])


def _random_signs(value: str, signs: str, opset: int, seed: int) -> Iterator[onnx.NodeProto]:
    """-1 or 1 for each element; as of opset 22, Dropout has onnxruntime's only random kernel."""
    extents, ones, kept, drawn = (f"{signs} {suffix}" for suffix in ("extents", "ones", "kept", "drawn"))
    if opset < DROPOUT_INPUTS_OPSET:
        attributes: dict[str, Any] = {"dtype": TensorProto.FLOAT, "low": -1.0, "high": 1.0, "seed": float(seed)}
        yield helper.make_node("RandomUniformLike", [value], [drawn], **attributes)
        yield helper.make_node("Abs", [drawn], [kept])
        yield helper.make_node("Div", [drawn, kept], [signs])  # Sign came with opset 9
        return
    one = numpy_helper.from_array(np.ones(1, np.float32))
    yield helper.make_node("Shape", [value], [extents])
    yield helper.make_node("ConstantOfShape", [extents], [ones], value=one)
    yield helper.make_node("Dropout", [ones, DROPOUT_RATIO, DROPOUT_TRAINING], [kept], seed=seed)
    yield helper.make_node("Sub", [kept, f"one of {int(TensorProto.FLOAT)}"], [signs])


def _run(model: bytes, names: Sequence[str], feeds: Arrays) -> dict[str, Any]:
    return dict(zip(names, SINGLE_THREADED(model).run(names, feeds), strict=True))


def _is_within_noise(want: Any, got: Any, small_runs: list[Any], medium_runs: list[Any], large_runs: list[Any]) -> bool:
    if not isinstance(want, np.ndarray):
        return False
    array = cast("Array", want)
    if array.dtype not in PERTURBED_DTYPES.values() or array.size == 0:
        return np.array_equal(array, got)
    x, y = to_64_bit(array), to_64_bit(got)
    if x.shape != y.shape:
        return False
    numbers = np.isfinite(x) & np.isfinite(y)
    turned = [has_same_finiteness(to_64_bit(r), y) for r in medium_runs if np.shape(r) == x.shape]
    if not np.logical_or.reduce([numbers, has_same_finiteness(x, y), *turned]).all():
        return False
    least, some, most = (_max_distances(x, runs) for runs in (small_runs, medium_runs, large_runs))
    explained = np.where((some >= MIN_GROWTH * least) | (most >= MIN_GROWTH * some), some, 0.0)
    scale = float(np.abs(x[numbers]).max(initial=0.0))
    allowed = np.maximum(explained, min_tolerance(array.dtype) * scale)
    return bool((distances(x, y) <= allowed)[numbers].all())


def _max_distances(x: Array, runs: list[Any]) -> Array:
    """The largest distance of each element over the runs, 0 where it is not finite."""
    ways = [distances(x, to_64_bit(r)) for r in runs if np.shape(r) == x.shape]
    return np.max(ways, axis=0, initial=0.0) if ways else np.zeros(x.shape)


MAX_MENDED = 48


@dataclass(frozen=True, slots=True)
class AssumedInputs:
    """The input sets that fulfil a condition, and new ones that do, made of others."""

    held: list[InputSet]
    mended: list[InputSet]


def assumed_inputs(condition: bytes, input_sets: Sequence[InputSet]) -> AssumedInputs:
    """The input sets on which all outputs of a model are true. Raises ModelLoadError and EvaluationError."""
    backend = SINGLE_THREADED(condition)
    names = [o.name for o in onnx.load_from_string(condition).graph.output]

    def truth(feeds: Arrays) -> list[Array]:
        return [np.asarray(v) for v in backend.run(names, feeds)]

    held: list[InputSet] = []
    mended: list[InputSet] = []
    for given in input_sets:
        found = truth(given.feeds)
        if all(v.all() for v in found):
            held.append(given)
        elif len(mended) < MAX_MENDED:
            candidates = (replace(given, feeds=feeds) for feeds in variants(given.feeds, found))
            mended += [c for c in candidates if all(v.all() for v in truth(c.feeds))][:1]
    return AssumedInputs(held, mended)


def variants(feeds: Arrays, found: Sequence[Array]) -> Iterator[dict[str, Any]]:
    """Inputs with the elements at places where a condition is false from a place where it is true; or of one sign."""
    tensors: dict[str, Array] = {n: x for n, x in feeds.items() if isinstance(x, np.ndarray)}
    rest = {n: x for n, x in feeds.items() if n not in tensors}
    for shape in dict.fromkeys(v.shape for v in found if v.size):
        true: Array = np.logical_and.reduce([v for v in found if v.shape == shape])
        if true.any() and not true.all():
            places: Array = np.where(true.reshape(-1), cast("Array", np.arange(true.size)), int(np.argmax(true)))
            yield {
                n: x.reshape(-1)[places].reshape(shape) if x.shape == shape else x for n, x in tensors.items()
            } | rest
    positive: dict[str, Array] = {n: np.abs(x) if x.dtype.kind == "f" else x for n, x in tensors.items()}
    yield positive | rest
    yield {n: -x if x.dtype.kind == "f" else x for n, x in positive.items()} | rest


ORDINARY_KINDS = frozenset({"normal", "negative"})
"""Kinds of input sets on which a condition in words alone is assumed to hold."""
ALL_COMBINED, NO_COMBINED = (0, 1), (0, 0)
COMBINED_ONE_IN = 6  # of the combined input sets, each generated model gets one; other models get others
NEARLY_OVERFLOWING_FACTOR = 64  # between the largest number of a type and those of a model that is bound to overflow
INVALID_MODEL_ERRORS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Two models and the contract between them, picklable for another process.

    They run in onnxruntime or, with `by_reference`, in ONNX's reference evaluator, on a `combined_part` of the combined
    input sets (`VerificationSpec`). A `condition` is a model of the same inputs, whose outputs are all true where the
    contract applies; empty if the contract says none in an expression, None if that cannot be evaluated on this model.
    """

    before: bytes
    after: bytes
    critical_values: tuple[float, ...]
    contract: str
    by_reference: bool = False
    combined_part: tuple[int, int] = ALL_COMBINED
    condition: bytes | None = b""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """The failure of the second model to compute the results of the first; `exact` if compared bit for bit."""

    kind: FaultKind
    message: str
    mismatch: Mismatch | None = None
    exact: bool = False


Comparer = Callable[[ComparisonRequest], Discrepancy | None]
"""Compares two models. Raises UnverifiableError if the first one does not run."""


def compare_case(
    rule: Rule,
    case: Case,
    after: onnx.ModelProto,
    compare: Comparer,
    *,
    by_reference: bool = False,
    combined_part: tuple[int, int] = ALL_COMBINED,
) -> Fault | None:
    """The discrepancy of `after` from the case's model, if any. Raises UnverifiableError if the case does not run."""
    before, made = case.model.SerializeToString(), after.SerializeToString()
    contract = contract_in(rule, case.model).kind
    said = _condition(rule, case.model) if contract == CONDITIONAL else b""
    critical_values = (*rule.critical_values, *(n for a in rule.contract.assumptions for n in a.numbers))
    found = compare(ComparisonRequest(before, made, critical_values, contract, by_reference, combined_part, said))
    if found is None:
        return None
    return Fault(found.kind, found.message, case, after, found.mismatch, found.exact)


def _condition(rule: Rule, model: onnx.ModelProto) -> bytes | None:
    """The condition of a rule on a model; empty if it says none, None if its expression is none on this model."""
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


def compare_models(request: ComparisonRequest) -> Discrepancy | None:
    """The discrepancy of the second model from the first, on inputs of all kinds, those around boundaries too."""
    oracle, half = _require_oracle(request)
    try:
        _require_valid(request.after)
    except INVALID_MODEL_ERRORS as e:
        return Discrepancy(FaultKind.INVALID, _one_line(e))
    _require_no_empty_sums(from_onnx(onnx.load_from_string(request.after)))
    exact = request.contract == EXACT.kind and not half  # kernels for 16-bit floats round as their neighbours do
    oracle.add_runs_near(request.after)
    promised, is_known = _promised_inputs(oracle, request)
    mismatch = _first_mismatch(oracle, request, promised, exact=exact)
    if not is_known and (mismatch is None or mismatch.input_set is not None):
        raise UnverifiableError("the condition of the rule cannot be evaluated on this model")
    if mismatch is None:
        return None
    if (
        request.contract != EXACT.kind
        and any(a.input_set.kind == "normal" and _nearly_overflows(a) for a in oracle.runs)
        and has_overflowing_constants(request.before, request.after)
    ):
        raise UnverifiableError(
            "constants of the generated model are so large that it overflows, as their product does"
        )
    kind = FaultKind.REFUSED if mismatch.input_set is None else FaultKind.WRONG
    return Discrepancy(kind, str(mismatch), mismatch, exact)


def _first_mismatch(
    oracle: Oracle, request: ComparisonRequest, input_sets: list[InputSet], *, exact: bool
) -> Mismatch | None:
    """The first mismatch that violates the contract; for a rounding rule, one that rounding does not explain."""
    while input_sets:
        found = oracle.compare(request.after, ComparisonOptions(exact=exact, input_sets=input_sets)).failure
        if found is None or not found.output or found.input_set is None or request.contract == EXACT.kind:
            return found
        models, feeds = (request.before, request.after), found.input_set.feeds
        if not (is_right_in_float64(*models, feeds) or is_explained_by_rounding(*models, feeds)):
            return found
        input_sets = [s for s in input_sets if s is not found.input_set]
    return None


def is_right_in_float64(before: bytes, after: bytes, feeds: Arrays) -> bool:
    """Whether the second model is right by the values of both in float64, as where it overflows less than the first.

    False where float64 decides nothing.
    """
    models = [onnx.load_from_string(m) for m in (before, after)]
    names = [v.name for v in models[0].graph.output]
    try:
        wanted, given = (SINGLE_THREADED(m).run(names, feeds) for m in (before, after))
        truth, other_truth = (evaluate_in_float64(m, feeds, names) for m in models)
    except (ModelLoadError, EvaluationError):
        return False
    judged = (
        judge(n, a, b, truth, other_truth, kernel_error(models[1], np.asarray(a).dtype))
        for n, a, b in zip(names, wanted, given, strict=True)
    )
    return all(j.decision is Decision.RIGHT and not j.redefined for j in judged)


def has_overflowing_constants(before: bytes, after: bytes) -> bool:
    """Whether a constant of the second model is infinite, and constants of the first are large.

    Constants are initializers and what is computed from them alone; one is large if its square is infinite.
    """
    first, second = (onnx.load_from_string(m) for m in (before, after))
    given = [numpy_helper.to_array(t) for t in first.graph.initializer]
    floats = [a for a in given if a.dtype.kind == "f" and a.size]
    if not floats or any(not np.isfinite(a).all() for a in floats):
        return False
    largest = [float(np.abs(a).max()) / float(np.finfo(a.dtype).max) ** 0.5 for a in floats]
    if max(largest) < 1:
        return False
    try:
        made = computed_constants(second)
    except (ModelLoadError, EvaluationError):
        return False
    return any(a.dtype.kind == "f" and bool(np.isinf(a).any()) for a in made)


def computed_constants(model: onnx.ModelProto) -> list[Any]:
    """The initializers of a model and its bodies, and all tensors that it computes from those alone."""
    graphs, held, nodes = [model.graph], list[onnx.TensorProto](), list[onnx.NodeProto]()
    known: set[str] = set()
    for graph in graphs:  # which grows
        held += graph.initializer
        known |= {t.name for t in graph.initializer} - {i.name for i in graph.input}
        for node in graph.node:
            bodies = list(subgraphs(node))
            graphs += bodies
            if node.input and not bodies and known.issuperset(filter(None, node.input)):
                nodes.append(node)
                known.update(node.output)
    names = [name for node in nodes for name in node.output if name]
    constants = onnx.ModelProto()
    constants.CopyFrom(model)
    outputs = [onnx.ValueInfoProto(name=n) for n in names]
    constants.graph.CopyFrom(helper.make_graph(nodes, "constants", [], outputs, held))
    computed = SINGLE_THREADED(constants.SerializeToString()).run(names, {}) if names else []
    return [*map(numpy_helper.to_array, held), *(a for a in computed if isinstance(a, np.ndarray))]


def _promised_inputs(oracle: Oracle, request: ComparisonRequest) -> tuple[list[InputSet], bool]:
    """The input sets on which the contract promises the results, and whether that is known.

    The oracle gets the runs on those that are made for a condition. Raises UnverifiableError if none fulfils it.
    """
    is_known = request.condition is not None
    if request.condition:
        try:
            return _assumed(oracle, request.before, request.condition), True
        except (ModelLoadError, EvaluationError):  # such as a comparison of a type without a kernel
            is_known = False
    return [a.input_set for a in oracle.runs if _is_covered_by_contract(a, request.contract)], is_known


def _assumed(oracle: Oracle, before: bytes, condition: bytes) -> list[InputSet]:
    """The input sets that fulfil a condition, some made for it. Raises ModelLoadError and EvaluationError."""
    found = assumed_inputs(condition, [a.input_set for a in oracle.runs if a.input_set.is_finite])
    if not found.held and not found.mended:
        raise UnverifiableError("no inputs fulfil the condition of the rule")
    original = SINGLE_THREADED(before)
    for given in found.mended:
        outputs = zip(oracle.output_names, original.run(oracle.output_names, given.feeds), strict=True)
        oracle.runs.append(ReferenceRun(given, dict(outputs)))
    return [*found.held, *found.mended]


def _is_covered_by_contract(run: ReferenceRun, contract: str) -> bool:
    """Whether a contract covers the numbers of a run.

    A rounding rule is correct in real arithmetic, without NaN and infinity. A condition in words alone is assumed to
    hold on ordinary numbers, without empty tensors, if the results are finite.
    """
    input_set = run.input_set
    if contract == EXACT.kind:
        return True
    if contract == ROUNDING.kind:
        return input_set.is_finite
    is_tame = input_set.all_kinds <= ORDINARY_KINDS and 0 not in input_set.sizes.values()
    return is_tame and _is_finite(run)


def _is_finite(run: ReferenceRun) -> bool:
    """Whether all numbers of the outputs are finite."""
    kinds = ((x, getattr(getattr(x, "dtype", None), "kind", "")) for x in run.outputs.values())
    return all(kind not in {"f", "c"} or bool(np.isfinite(x).all()) for x, kind in kinds)


def _nearly_overflows(run: ReferenceRun) -> bool:
    """Whether a number of the outputs is infinite, or as large as the type allows, but for a factor."""
    floats = (x for x in run.outputs.values() if getattr(getattr(x, "dtype", None), "kind", "") == "f")
    return any(bool((np.abs(x) > np.finfo(x.dtype).max / NEARLY_OVERFLOWING_FACTOR).any()) for x in floats)


def _require_oracle(request: ComparisonRequest) -> tuple[Oracle, bool]:
    """The oracle for the first model, if it is valid and loads; and whether it computes in 16-bit floats."""
    try:
        _require_valid(request.before)
        model = from_onnx(onnx.load_from_string(request.before))
        _require_no_empty_sums(model)
        spec = replace(VerificationSpec.of(model), combined_part=request.combined_part)
        backend = OnnxReference if request.by_reference else SINGLE_THREADED
        oracle = Oracle(request.before, spec, boundaries=request.critical_values, backends=(backend,))
    except (*INVALID_MODEL_ERRORS, ModelError) as e:
        raise UnverifiableError(_one_line(e)) from e
    _require_declared_shapes(oracle, model)
    return oracle, spec.uses_half


def _require_declared_shapes(oracle: Oracle, model: Model) -> None:
    """Raise UnverifiableError if onnxruntime gives an output another shape than the declared one."""
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
