"""What shows a wrong change at its smallest: the piece of the model around it, before and after, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...core.errors import Why
from ...core.io.convert import from_onnx
from ...core.io.model import Model
from ...core.ir.effects import leaves_traces
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ort.backends import OnnxRuntime
from ...core.pass_manager.attempt_check import Trial, fault
from ...core.pass_manager.pass_manager import Manager
from ...core.pass_manager.pipeline import Pass
from ...core.verify.input_generation import Draw
from ...core.verify.input_specs import signature
from ...core.verify.oracle import Oracle
from ...core.verify.seeded_session import random_outputs
from ...core.verify.verdict import Mismatch
from .subgraph_extraction import (
    around,
    declared,
    differing,
    extracted,
    giving_out,
    read_from_outside,
    seen_from_outside,
)

RADII = (0, 1, 2, 4, 8)  # around the op where a rule raises, tried in turn
PATIENCE = 10.0  # seconds for a pass that changes nothing, when it is run once more to see what it does
Files = dict[str, Any]
"""By file name: a Model or ModelProto, or arrays by name."""


def of_difference(before: Trial, after: Trial) -> Files:
    """Two models and inputs on which they differ: of the piece that changed if it shows there, else whole."""
    first, second = before.attempt.model, after.attempt.model
    mismatch = after.failure.mismatch if after.failure is not None else None
    if mismatch is not None and (piece := _differing_piece(first, second, mismatch, bits=after.bits)) is not None:
        return piece
    feeds = mismatch.draw.feeds if mismatch is not None and mismatch.draw is not None else {}
    arrays = feeds if all(isinstance(a, np.ndarray) for a in feeds.values()) else {}
    return {"before.onnx": first, "after.onnx": second, "inputs.npz": arrays}


def _differing_piece(first: Model, second: Model, mismatch: Mismatch, *, bits: bool) -> Files | None:
    """The piece that changed, if it stands on its own and goes wrong in the same way."""
    try:
        piece = _piece(first, second, mismatch.draw)
        return piece if piece is not None and _differ(piece, mismatch, bits=bits) else None
    except Exception:  # noqa: BLE001 - a pass may leave anything; what cannot be shown small is shown whole
        return None


def _piece(first: Model, second: Model, draw: Draw | None) -> Files | None:
    """The ops that differ, with what they read on that draw for inputs; without one, inputs as they are declared."""
    gone, made = differing(first.graph, second.graph)
    outside = {v.name: v for ops in (gone, made) for v in read_from_outside(ops)}
    inner = {v.name for ops in (gone, made) for op in ops for v in op.outputs}
    inputs = [n for n, v in outside.items() if not v.is_const and n not in inner]
    outputs = [v.name for v in seen_from_outside(first.graph, gone)]
    arrays = _observed(first, inputs, draw.feeds) if draw is not None else {}
    if not outputs or not all(isinstance(a, np.ndarray) for a in arrays.values()):
        return None
    types = {n: _type_of_array(arrays[n]) if n in arrays else declared(outside[n]) for n in inputs}
    return {
        "before.onnx": extracted(first, gone, types, outputs),
        "after.onnx": extracted(second, made, types, outputs),
        "inputs.npz": arrays,
    }


def _type_of_array(array: np.ndarray[Any, Any]) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _observed(model: Model, names: list[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What values come to on `feeds`."""
    computed = [n for n in names if n not in feeds]
    found = {n: feeds[n] for n in names if n in feeds}
    with giving_out(model, computed) as loadable:
        session = OnnxRuntime(loadable)
    found.update(zip(computed, session.run(computed, feeds) if computed else (), strict=True))
    return found


def _differ(files: Files, mismatch: Mismatch, *, bits: bool) -> bool:
    """Whether the two models still differ on the inputs, or the second is still refused if it was."""
    given = [Draw("given", {}, files["inputs.npz"])] if files["inputs.npz"] else []
    failure = _asked(files["before.onnx"], given).judge(files["after.onnx"].SerializeToString(), exact=bits).failure
    return failure is not None and (failure.draw is None) == (mismatch.draw is None)


def _asked(proto: onnx.ModelProto, given: Sequence[Draw] = ()) -> Oracle:
    """The answers of a piece, as a run would ask for them. Raises Unverifiable, and ModelError if it does not run."""
    model = from_onnx(proto)
    return Oracle(
        proto.SerializeToString(),
        signature(model),
        [o.name for o in proto.graph.output],
        given=given,
        random=random_outputs(model.graph),
        fresh=leaves_traces(model.graph),
    )


def of_exception(model: Model, culprit: Pass | None, place: str, why: Why, *, exact: bool = False) -> Files:
    """The smallest model around a place with which the pass goes wrong as well; else the whole."""
    op = _op_at(model.graph, place)
    for radius in RADII if culprit is not None and op is not None else ():
        assert op is not None
        assert culprit is not None
        proto = _failing_piece(model, around(op, radius), culprit, why, exact=exact)
        if proto is not None:
            return {"before.onnx": proto}
    return {"before.onnx": model}


def _op_at(graph: Graph, place: str) -> Op | None:
    """The op of the outermost graph that makes a value, or holds the graph in which it is made."""
    makers = (op for g in graph.with_subgraphs() for op in g.ops() if any(v.name == place for v in op.outputs))
    op = next(makers, None)
    while op is not None and op.graph.owner is not None:
        op = op.graph.owner
    return op


def _failing_piece(model: Model, ops: Sequence[Op], culprit: Pass, why: Why, *, exact: bool) -> onnx.ModelProto | None:
    """A model of those ops, if the pass goes wrong on it in that way and it runs as it is."""
    try:
        types = {v.name: declared(v) for v in read_from_outside(ops) if not v.is_const}
        proto = extracted(model, ops, types, [v.name for v in seen_from_outside(model.graph, ops)])
        if fails_alone(lambda: from_onnx(proto), culprit, exact=exact) != why:
            return None
        _asked(proto)
    except Exception:  # noqa: BLE001 - a pass may leave anything; what cannot be shown small is shown whole
        return None
    return proto


def fails_alone(load: Callable[[], Model], culprit: Pass, *, exact: bool = False) -> Why | None:
    """What goes wrong with a model that nothing but this pass rewrites, short of running it."""
    failure = fault(Manager(load, culprit, exact, patience=PATIENCE).run(careful=True), exports=True)
    return failure.why if failure is not None else None
