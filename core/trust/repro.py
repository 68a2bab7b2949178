"""What shows a wrong change at its smallest: the piece of the model around it, before and after, and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..errors import EvaluationError, ModelError, PassFailed, Unverifiable
from ..io.convert import from_onnx
from ..io.model import Model
from ..ledger import Ledger
from ..pipeline import Pass, run_pass
from ..runtime import OnnxRuntime
from ..verify.draws import Draw
from ..verify.oracle import Oracle
from ..verify.signature import signature
from .region import around, differing, extracted, giving_out, read_from_outside, seen_from_outside, type_of
from .trial import Trial

RADII = (0, 1, 2, 4, 8)  # around the op where a rule raises, tried in turn
Files = dict[str, Any]
"""By file name: a Model or ModelProto, or arrays by name."""


def of_difference(before: Trial, after: Trial) -> Files:
    """Two models and inputs on which they differ: of the piece that changed if it shows there, else whole."""
    mismatch = after.failure.mismatch if after.failure is not None else None
    feeds = mismatch.draw.feeds if mismatch is not None and mismatch.draw is not None else {}
    first, second = before.attempt.model, after.attempt.model
    try:
        piece = _piece(first, second, feeds)
        if piece is not None and _differ(piece, bits=after.bits):
            return piece
    except (EvaluationError, ModelError, Unverifiable):
        pass  # the piece does not stand on its own: the whole does
    arrays = feeds if all(isinstance(a, np.ndarray) for a in feeds.values()) else {}
    return {"before.onnx": first, "after.onnx": second, "inputs.npz": arrays}


def _piece(first: Model, second: Model, feeds: Mapping[str, Any]) -> Files | None:
    """The ops that differ, with what they read on `feeds` for inputs."""
    gone, made = differing(first.graph, second.graph)
    outside = {v.name: v for ops in (gone, made) for v in read_from_outside(ops)}
    inner = {v.name for ops in (gone, made) for op in ops for v in op.outputs}
    inputs = [n for n, v in outside.items() if not v.is_const and n not in inner]
    outputs = [v.name for v in seen_from_outside(first.graph, gone)]
    if not outputs:
        return None
    arrays = _observed(first, inputs, feeds)
    if not all(isinstance(a, np.ndarray) for a in arrays.values()):
        return None
    types = {
        n: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    }
    return {
        "before.onnx": extracted(first, gone, types, outputs),
        "after.onnx": extracted(second, made, types, outputs),
        "inputs.npz": arrays,
    }


def _observed(model: Model, names: list[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What values come to on `feeds`."""
    computed = [n for n in names if n not in feeds]
    found = {n: feeds[n] for n in names if n in feeds}
    with giving_out(model, computed) as loadable:
        session = OnnxRuntime(loadable)
    found.update(zip(computed, session.run(computed, feeds) if computed else (), strict=True))
    return found


def _differ(files: Files, *, bits: bool) -> bool:
    """Whether the two models still differ on the inputs."""
    before: onnx.ModelProto = files["before.onnx"]
    oracle = Oracle(
        before.SerializeToString(),
        signature(from_onnx(before)),
        [o.name for o in before.graph.output],
        given=[Draw("given", {}, files["inputs.npz"])],
    )
    return oracle.judge(files["after.onnx"].SerializeToString(), exact=bits).failure is not None


def of_exception(model: Model, culprit: Pass | None, place: str) -> Files:
    """The smallest model around a place on which the pass raises as well; else the whole."""
    op = next((op for op in model.graph.ops() if any(v.name == place for v in op.outputs)), None)
    for radius in RADII if culprit is not None and op is not None else ():
        assert op is not None
        assert culprit is not None
        ops = around(op, radius)
        types = {v.name: type_of(v) for v in read_from_outside(ops) if not v.is_const}
        proto = extracted(model, ops, types, [v.name for v in seen_from_outside(model.graph, ops)])
        try:
            run_pass(culprit, from_onnx(proto).graph, Ledger())
        except PassFailed:
            return {"before.onnx": proto}
        except ModelError:
            continue
    return {"before.onnx": model}
