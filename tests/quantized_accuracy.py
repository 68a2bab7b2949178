"""Values of models and their distances, for tests of accuracy after quantization."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace
from quantized_models import UNSIGNED, quantized
from rewriting import run

Array = np.ndarray[Any, Any]


def values_of(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Array]:
    """All values of the main graph that are computed or fed, by name."""
    told = onnx.ModelProto()
    told.CopyFrom(model)
    names = [o for n in model.graph.node for o in n.output if o]
    del told.graph.output[:]
    told.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return {**feeds, **dict(zip(names, run(told, feeds, names), strict=True))}


def quantized_with(model: onnx.ModelProto, feeds: Mapping[str, Any], **changes: Any) -> onnx.ModelProto:
    """The model in integers, with ranges calibrated on `feeds` and `changes` to the spec."""
    return quantized(model, feeds, replace(UNSIGNED, **{"weight_limit": 127, **changes}))


def decibels(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """The signal to noise ratio of outputs."""
    a, b = (np.concatenate([np.ravel(x).astype(np.float64) for x in given]) for given in (wanted, found))
    return float(10 * np.log10((a**2).sum() / max(((a - b) ** 2).sum(), 1e-300)))
