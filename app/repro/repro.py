"""Minimal models that reproduce a failure: the ops around a wrong change, before and after, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...core.errors import FailureKind
from ...core.io.convert import from_onnx
from ...core.io.model import Model
from ...core.ir.effects import is_stateful
from ...core.ir.op import Op
from ...core.ort.backends import OnnxRuntime
from ...core.pass_manager.pass_manager import CheckedAttempt, PassManager, static_failure
from ...core.pass_manager.pipeline import Pass
from ...core.verify.input_generation import InputSet
from ...core.verify.input_specs import input_specs
from ...core.verify.oracle import Oracle
from ...core.verify.seeded_session import random_outputs
from ...core.verify.verdict import Mismatch
from .subgraph_extraction import (
    changed_ops,
    declared_type,
    external_inputs,
    external_outputs,
    extract_model,
    neighbourhood,
    with_extra_outputs,
)

NEIGHBOURHOOD_RADII = (0, 1, 2, 4, 8)  # around the op where a rule raises, tried in turn
NO_PROGRESS_TIMEOUT = 10.0  # seconds without a change, in a further run of one pass
ReproFiles = dict[str, Any]
"""By file name: a Model or ModelProto, or arrays by name."""


def mismatch_files(before: CheckedAttempt, after: CheckedAttempt) -> ReproFiles:
    """Two models and inputs on which they differ: of the changed ops alone if these differ in the same way."""
    first, second = before.attempt.model, after.attempt.model
    mismatch = after.failure.mismatch if after.failure is not None else None
    small = _small_mismatch_files(first, second, mismatch, exact=after.exact) if mismatch is not None else None
    if small is not None:
        return small
    feeds = mismatch.input_set.feeds if mismatch is not None and mismatch.input_set is not None else {}
    arrays = feeds if all(isinstance(a, np.ndarray) for a in feeds.values()) else {}
    return {"before.onnx": first, "after.onnx": second, "inputs.npz": arrays}


def _small_mismatch_files(first: Model, second: Model, mismatch: Mismatch, *, exact: bool) -> ReproFiles | None:
    """The changed ops, if they run by themselves and differ in the same way."""
    try:
        files = _changed_subgraph_files(first, second, mismatch.input_set)
        return files if files is not None and _still_differ(files, mismatch, exact=exact) else None
    except Exception:  # noqa: BLE001 - a pass may leave any graph; one that cannot be cut is shown whole
        return None


def _changed_subgraph_files(first: Model, second: Model, input_set: InputSet | None) -> ReproFiles | None:
    """The ops that differ, with their inputs computed from that input set; without one, with inputs as declared."""
    gone, made = changed_ops(first.graph, second.graph)
    outside = {v.name: v for ops in (gone, made) for v in external_inputs(ops)}
    inner = {v.name for ops in (gone, made) for op in ops for v in op.outputs}
    inputs = [n for n, v in outside.items() if not v.is_const and n not in inner]
    outputs = [v.name for v in external_outputs(first.graph, gone)]
    arrays = _evaluated_values(first, inputs, input_set.feeds) if input_set is not None else {}
    if not outputs or not all(isinstance(a, np.ndarray) for a in arrays.values()):
        return None
    types = {n: declared_type(outside[n]) for n in inputs} | {
        n: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    }
    return {
        "before.onnx": extract_model(first, gone, types, outputs),
        "after.onnx": extract_model(second, made, types, outputs),
        "inputs.npz": arrays,
    }


def _evaluated_values(model: Model, names: list[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The values computed from `feeds`."""
    computed = [n for n in names if n not in feeds]
    found = {n: feeds[n] for n in names if n in feeds}
    with with_extra_outputs(model, computed) as loadable:
        session = OnnxRuntime(loadable)
    found.update(zip(computed, session.run(computed, feeds) if computed else (), strict=True))
    return found


def _still_differ(files: ReproFiles, mismatch: Mismatch, *, exact: bool) -> bool:
    """Whether the two models still differ on the inputs, or the second is still invalid if it was."""
    given = [InputSet("given", {}, files["inputs.npz"])] if files["inputs.npz"] else []
    oracle = _oracle_for(files["before.onnx"], given)
    failure = oracle.compare(files["after.onnx"].SerializeToString(), exact=exact).failure
    return failure is not None and (failure.input_set is None) == (mismatch.input_set is None)


def _oracle_for(proto: onnx.ModelProto, given: Sequence[InputSet] = ()) -> Oracle:
    """The oracle of a small model, as in a run. Raises UnverifiableError, and ModelError if the model does not run."""
    model = from_onnx(proto)
    return Oracle(
        proto.SerializeToString(),
        input_specs(model),
        [o.name for o in proto.graph.output],
        given=given,
        random_outputs=random_outputs(model.graph),
        fresh_sessions=is_stateful(model.graph),
    )


def exception_files(
    model: Model, culprit: Pass | None, place: str, kind: FailureKind, *, exact_only: bool = False
) -> ReproFiles:
    """The smallest model around a value with which the pass fails as well; else the whole."""
    producers = (op for g in model.graph.with_subgraphs() for op in g.ops() if any(v.name == place for v in op.outputs))
    op = next(producers, None)
    while op is not None and op.graph.owner is not None:
        op = op.graph.owner
    if culprit is not None and op is not None:
        for radius in NEIGHBOURHOOD_RADII:
            proto = _failing_subgraph(model, neighbourhood(op, radius), culprit, kind, exact_only=exact_only)
            if proto is not None:
                return {"before.onnx": proto}
    return {"before.onnx": model}


def _failing_subgraph(
    model: Model, ops: Sequence[Op], culprit: Pass, kind: FailureKind, *, exact_only: bool
) -> onnx.ModelProto | None:
    """A model of those ops, if it runs and the pass fails on it in that way."""
    try:
        types = {v.name: declared_type(v) for v in external_inputs(ops) if not v.is_const}
        proto = extract_model(model, ops, types, [v.name for v in external_outputs(model.graph, ops)])
        if failure_alone(lambda: from_onnx(proto), culprit, exact_only=exact_only) != kind:
            return None
        _oracle_for(proto)
    except Exception:  # noqa: BLE001 - a pass may leave any graph; one that cannot be cut is shown whole
        return None
    return proto


def failure_alone(load: Callable[[], Model], culprit: Pass, *, exact_only: bool = False) -> FailureKind | None:
    """The failure of a run of this pass alone, short of verification; None if there is none."""
    failure = static_failure(
        PassManager(load, culprit, exact_only, no_progress_timeout=NO_PROGRESS_TIMEOUT).run(validate_graphs=True),
        try_export=True,
    )
    return failure.kind if failure is not None else None
