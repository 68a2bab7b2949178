"""Other optimizers as functions of a model and an option; they run in a process of their own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from ...core.serialization.proto_queries import undefined_operators

NONSTANDARD_FUSIONS = ("LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion")


def onnxoptimizer(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """One of its passes, once."""
    tool: Any = import_module("onnxoptimizer")
    return tool.optimize(model, [name])


def onnxsim(model: onnx.ModelProto, _: str) -> onnx.ModelProto:
    """As it is by default, without its own check."""
    tool: Any = import_module("onnxsim")
    return tool.simplify(model)[0]


def onnxslim(model: onnx.ModelProto, _: str) -> onnx.ModelProto:
    """As it is by default."""
    tool: Any = import_module("onnxslim")
    return tool.slim(model)


def ort(model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    """The optimizers of onnxruntime itself at a level, as it saves their result.

    Some write operators of its own into the standard domain: where they do, it is asked again without those.
    """
    serialized = model.SerializeToString()
    made = _optimized_by_ort(serialized, level, ())
    is_standard = undefined_operators(made).keys() <= undefined_operators(model).keys()
    return made if is_standard else _optimized_by_ort(serialized, level, NONSTANDARD_FUSIONS)


def _optimized_by_ort(model: bytes, level: str, disabled: tuple[str, ...]) -> onnx.ModelProto:
    tool: Any = import_module("onnxruntime")
    options = tool.SessionOptions()
    options.graph_optimization_level = getattr(tool.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.log_severity_level = 4
    with TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        tool.InferenceSession(
            model, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled) or None
        )
        return onnx.ModelProto.FromString(path.read_bytes())
