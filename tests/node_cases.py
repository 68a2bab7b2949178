"""The node cases of the ONNX backend suite, as they are and with inputs frozen into initializers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import base
from onnx.backend.test.loader import load_model_tests
from onnx.reference.ops import op_pool_common
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import EvaluationError
from passwright.core.operators.effects import uses_16_bit_floats
from passwright.core.verify.output_comparison import compare_outputs
from passwright.core.verify.seeded_session import SINGLE_THREADED
from passwright.passes.pipelines import PIPELINES
from rewriting import apply_passes

FREEZE_MODES = ("as they are", "all but the first frozen", "all frozen")
# Their outputs come from a generator with a new seed in each run.
RANDOM = ("test_bernoulli", "test_training_dropout", "test_multinomial", "test_random")


@dataclass(frozen=True)
class BackendCase:
    """A named model and its feeds."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, Any]


def _zeros_of_pool(
    padded: np.ndarray, x_shape: Sequence[int], kernel: Any, strides: Any, out_shape: Sequence[int], *_: Any, **__: Any
) -> np.ndarray:
    """Zeros of the shape and type of the result of a pool."""
    return np.zeros((*x_shape[:2], *out_shape), padded.dtype)


@cache
def backend_cases() -> dict[str, BackendCase]:
    """All node cases by name.

    onnx computes their outputs and their documentation while it loads them, and no test reads either. Pools, computed
    window by window, took 70 % of the time, and the documentation most of the rest.
    """
    with (
        warnings.catch_warnings(),
        patch.object(op_pool_common, "pool", _zeros_of_pool),
        patch.object(base, "process_snippet", lambda *_: ("", "")),
    ):
        warnings.simplefilter("ignore")
        loaded = load_model_tests(kind="node")
    found: dict[str, BackendCase] = {}
    for c in loaded:
        if c.model is not None and c.data_sets:
            feeds = dict(zip((i.name for i in c.model.graph.input), c.data_sets[0][0], strict=False))
            found[c.name] = BackendCase(c.name, c.model, feeds)
    return found


def freeze_inputs(case: BackendCase, mode: str) -> BackendCase:
    """The case with its dense inputs made constant according to `mode`."""
    names = [i.name for i in case.model.graph.input if isinstance(case.feeds.get(i.name), np.ndarray | np.generic)]
    chosen = {FREEZE_MODES[0]: [], FREEZE_MODES[1]: names[1:], FREEZE_MODES[2]: names}[mode]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = [i for i in model.graph.input if i.name not in chosen]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(case.feeds[n]), n) for n in chosen)
    return BackendCase(case.name, model, {n: v for n, v in case.feeds.items() if n not in chosen})


def model_outputs(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    """The outputs by name, or None where onnxruntime cannot run the model."""
    names = [o.name for o in model.graph.output if o.name]
    try:
        return dict(zip(names, SINGLE_THREADED(model.SerializeToString()).run(names, feeds), strict=True))
    except EvaluationError:
        return None


def optimization_errors(case: BackendCase) -> list[str] | None:
    """The differences after optimization; None where onnxruntime does not run the original."""
    want = model_outputs(case.model, case.feeds)
    if want is None:
        return None
    result, change_log = apply_passes(case.model, PIPELINES["basic"])
    got = model_outputs(to_onnx(result), case.feeds)
    if got is None:
        return ["the optimized model does not run"]
    exact = change_log.is_exact and not uses_16_bit_floats(from_onnx(case.model).graph)
    values = not case.name.startswith(RANDOM)
    found = {name: compare_outputs(want[name], got[name], exact=exact, compare_values=values).reason for name in want}
    return [f"{name}: {reason}" for name, reason in found.items() if reason]


def is_round_trip_equal(model: onnx.ModelProto) -> bool:
    """Whether import and export without a pass reproduce the model."""
    return bool(to_onnx(from_onnx(model)) == model)
