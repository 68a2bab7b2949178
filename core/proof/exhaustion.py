"""Proof of exactness by exhaustion: both models run in onnxruntime on every number of an 8-, 16- or 32-bit type.

A rule that promises equal bits is tested on every integer of up to 16 bits, or every float16, for which its replacement
is made, if each output element depends on one element of a single input. NaN equals NaN. Additional inputs of one bool,
such as conditions of an If, take all combinations of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import EvaluationError, ModelError
from ..processes.custom_operators import runtime_name
from ..processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from ..serialization.proto_queries import copy_without, named_subgraphs
from ..verify.proof_guarantees import Guarantee
from .element_dependence import require_single_dependence
from .exhaustion_worker import ExhaustionWorker, NumbersDifference, NumbersRequest
from .obligation import (
    LARGE_SIZE,
    NO_FACTORS,
    Fragment,
    InputType,
    NotApplicable,
    Obligation,
    beside_limits,
    promises_bits,
    size_sets,
)
from .verdict import ProofVerdict, Technique, unknown

FLOAT16_ELEMENTS, FLOAT32_ELEMENTS = 1 << 12, 1 << 22
"""Elements of an input with free dims."""
CASTS = frozenset({"Cast", "CastLike"})
SMALL_INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16})
MIN_FLOAT32_ELEMENTS = 1 << 12
SECONDS = 120.0
FLOAT32_SECONDS = 3600.0
MAX_BOOLS = 4  # inputs of one bool; all their combinations are tested
Bools = Mapping[str, np.ndarray]


@dataclass(slots=True)
class Exhaustion:
    """Runs models on every float16, and with `float32` on every float32, which takes minutes; in a worker process."""

    float32: bool = False
    _process: WorkerProcess[ExhaustionWorker] = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(f"{__name__}_worker"), SECONDS)

    def prove(self, obligation: Obligation) -> list[ProofVerdict]:
        """Prove an obligation. Raises NotApplicable."""
        if not promises_bits(obligation.contract):
            raise NotApplicable("its contract does not promise equal bits")
        bools = [i for i in obligation.inputs if i.dtype == TensorProto.BOOL and all(d == 1 for d in i.dims)]
        if len(bools) > MAX_BOOLS:
            raise NotApplicable(f"more than {MAX_BOOLS} of its inputs are bools")
        found: list[ProofVerdict] = []
        for values in product((False, True), repeat=len(bools)):
            given = {i.name: np.full(i.shape({}), v) for i, v in zip(bools, values, strict=True)}
            verdicts = self._prove_numbers(_with_bools(obligation, given))
            if any(v.guarantee is not Guarantee.EXACT for v in verdicts):
                return [
                    replace(v, counterexample={**v.counterexample, **given}) if v.counterexample else v
                    for v in verdicts
                ]
            found += verdicts
        words = [*(c for v in found for c in v.coverage), *("every bool" for _ in bools)]
        return [ProofVerdict(Guarantee.EXACT, Technique.EXHAUSTION, tuple(dict.fromkeys(words)))]

    def _prove_numbers(self, obligation: Obligation) -> list[ProofVerdict]:
        """Prove an obligation with one input."""
        dtype = _input_of(obligation).dtype
        if dtype in SMALL_INTEGERS:
            return [self._judge(obligation, dtype)]
        wanted = [TensorProto.FLOAT16, *([TensorProto.FLOAT] if self.float32 and dtype == TensorProto.FLOAT else [])]
        found = [self._judge(_retyped(obligation, w), w) for w in wanted]
        return [v for v in found if v.guarantee is not Guarantee.EXACT] or found

    def _judge(self, obligation: Obligation, dtype: int) -> ProofVerdict:
        given = _input_of(obligation)
        models = obligation.models
        before, after = (require_single_dependence(m, given.name) for m in models)
        is_uniform = before and after
        if dtype == TensorProto.FLOAT and not is_uniform:
            raise NotApplicable("every float32 at every position takes too many runs")
        reason = "the first model runs at no sizes that were tried"
        beside = [given.shape(sizes) for sizes in beside_limits(obligation)]
        for shape in (*beside, *_shapes(obligation, given, dtype, is_uniform=is_uniform)):
            request = NumbersRequest(
                (models[0].SerializeToString(), models[1].SerializeToString()),
                given.name,
                tuple(o.name for o in models[0].graph.output),
                shape,
                helper.tensor_dtype_to_np_dtype(dtype).name,
                every_place=not is_uniform and shape not in beside,
            )
            remote = self._process.call(FLOAT32_SECONDS if dtype == TensorProto.FLOAT else SECONDS)
            try:
                verdict = _verdict(given, remote.compare(request), dtype)
                if verdict.guarantee is not Guarantee.EXACT or shape not in beside:
                    return verdict
            except WorkerExit as e:
                reason = e.describe(runtime_name())
            except (EvaluationError, ModelError, RequestFailed) as e:
                reason = str(e)
        return unknown(reason, Technique.EXHAUSTION)


def _with_bools(obligation: Obligation, bools: Bools) -> Obligation:
    """The obligation with values for these inputs, also if it is retyped."""
    if not bools:
        return obligation

    def retyped(dtype: int, factors: Mapping[str, float]) -> Obligation | None:
        found = obligation.retyped(dtype, factors) if obligation.retyped is not None else None
        return None if found is None else _with_bools(found, bools)

    before, after = (_with_chosen_branches(f, bools) for f in obligation.fragments)
    inputs = tuple(i for i in obligation.inputs if i.name not in bools)
    return replace(obligation, before=before, after=after, inputs=inputs, retyped=retyped)


def _with_chosen_branches(fragment: Fragment, bools: Bools) -> Fragment:
    """Replace these inputs by constants, and each If on one of them by the chosen branch."""
    model = copy_without(fragment.model)
    graph = model.graph
    inputs = [i for i in graph.input if i.name not in bools]
    weights = [t for t in graph.initializer if t.name not in bools]
    weights += [numpy_helper.from_array(value, name) for name, value in bools.items()]
    nodes, left = list[onnx.NodeProto](), list(graph.node)[::-1]
    while left:
        node = left.pop()
        if node.op_type != "If" or node.domain or node.input[0] not in bools:
            nodes.append(node)
            continue
        branch = dict(named_subgraphs(node))["then_branch" if bools[node.input[0]].all() else "else_branch"]
        weights += branch.initializer
        results = zip(branch.output, node.output, strict=True)
        left += [helper.make_node("Identity", [made.name], [name]) for made, name in results if name]
        left += reversed(branch.node)
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    graph.input.extend(inputs)
    return replace(fragment, model=model)


def _input_of(obligation: Obligation) -> InputType:
    """The only input. Raises NotApplicable if there are several, or if its type is not supported."""
    if len(obligation.inputs) != 1:
        raise NotApplicable("it has several inputs" if obligation.inputs else "it has no input")
    if obligation.inputs[0].dtype not in {TensorProto.FLOAT, TensorProto.FLOAT16, *SMALL_INTEGERS}:
        raise NotApplicable("its input is neither float32 nor float16 nor an integer of up to 16 bits")
    return obligation.inputs[0]


def _retyped(obligation: Obligation, dtype: int) -> Obligation:
    """The obligation of the same rule on floats of another type. Raises NotApplicable."""
    if _input_of(obligation).dtype == dtype:
        return obligation
    if any(n.op_type in CASTS for n in obligation.nodes):
        raise NotApplicable("a Cast rounds float32 differently from float16")
    found = obligation.retyped(dtype, NO_FACTORS) if obligation.retyped is not None else None
    if found is None:
        raise NotApplicable("the rule does not fire for float16")
    _input_of(found)
    return replace(found, visits=obligation.visits)


def _shapes(obligation: Obligation, given: InputType, dtype: int, *, is_uniform: bool) -> Iterator[tuple[int, ...]]:
    """Shapes to try: large ones first if all positions are equivalent, because few runs then contain all numbers."""
    if is_uniform and obligation.symbols:
        elements = FLOAT32_ELEMENTS if dtype == TensorProto.FLOAT else FLOAT16_ELEMENTS
        for name in obligation.symbols:  # enlarge one symbol after another
            sizes = dict.fromkeys(obligation.symbols, 2) | {name: 1}
            yield given.shape(sizes | {name: max(1, elements // max(1, prod(given.shape(sizes))))})
    if dtype != TensorProto.FLOAT:
        yield from (given.shape(s) for s in size_sets(obligation) if LARGE_SIZE not in s.values())
    elif (count := prod(given.shape(dict.fromkeys(obligation.symbols, 1)))) >= MIN_FLOAT32_ELEMENTS:
        yield given.shape(dict.fromkeys(obligation.symbols, 1))
    elif not obligation.symbols:
        raise NotApplicable(f"an input of {count} elements takes too many runs for every float32")


def _verdict(given: InputType, difference: NumbersDifference | None, dtype: int) -> ProofVerdict:
    name = helper.tensor_dtype_to_np_dtype(dtype).name
    if difference is None:
        return ProofVerdict(Guarantee.EXACT, Technique.EXHAUSTION, (f"every {name}",))
    if name == "float16":  # onnxruntime keeps 32 bits between float16 ops, so no contract promises equal bits
        return unknown(f"on float16, {difference.reason}", Technique.EXHAUSTION)
    shown = {given.name: difference.counterexample}
    return ProofVerdict(Guarantee.REFUTED, Technique.EXHAUSTION, reason=difference.reason, counterexample=shown)
