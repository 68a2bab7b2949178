"""Other optimizers as functions of a model, and of a file.

A loader in FILE_OPTIMIZERS imports all modules of its tool and returns the tool, so that imports and runs can be timed
separately. Little of this package is imported, because that would count as memory of the tool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from ...core.support.scratch_folder import ScratchFolder

Optimize = Callable[[onnx.ModelProto | str, str], onnx.ModelProto]
"""Optimizes a model, or the model in a file, with an option."""
OptimizeFile = Callable[[Path, Path], onnx.ModelProto | None]
"""Optimizes the model in the first file; returns None if the tool itself wrote the result to the second."""

LARGE_FILE_BYTES = 1 << 30  # a saved model may be larger than its source, and a message must be under 2 GB
COMPARED_LEVELS = ("basic", "extended", "all")  # of onnxruntime; models optimized for a layout are machine-specific
NONSTANDARD_FUSIONS = ("LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion")


TOOLS: dict[str, tuple[str, Callable[[Any, onnx.ModelProto | str, str], onnx.ModelProto]]] = {
    "onnxsim": ("onnxsim", lambda tool, source, _: tool.simplify(source)[0]),
    "onnxslim": ("onnxslim", lambda tool, source, _: tool.slim(source)),
    "onnxoptimizer": (
        "onnxoptimizer",
        lambda tool, source, name: tool.optimize(_as_model(source), [name] if name else None),
    ),
    "onnxscript": ("onnxscript.optimizer", lambda tool, source, _: tool.optimize(_as_model(source))),
}
"""The module of each tool, and a call with default options: its optimizer, or the pass that the option names."""


def load_tool(name: str) -> Optimize:
    """Import a tool, and return its optimizer."""
    module, optimize = TOOLS[name]
    return partial(optimize, import_module(module))


def _as_model(source: onnx.ModelProto | str) -> onnx.ModelProto:
    return onnx.load(source) if isinstance(source, str) else source


LATE_IMPORTS = {"onnxsim": ("onnxruntime",), "onnxslim": ("onnxruntime", "sympy")}
"""Modules that a tool imports while running, for constant folding and symbolic shapes."""


def optimize_model(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Optimize a model with a tool, given by its name, a colon and the option."""
    tool, _, option = name.partition(":")
    return _optimize_with_ort(model, option) if tool == "ort" else load_tool(tool)(model, option)


def _optimize_with_ort(model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    """The result of onnxruntime's own optimizers at a level, as saved by onnxruntime.

    If optimizers write onnxruntime's operators into the standard domain, they are disabled in a second run.
    """
    from ...core.serialization.proto_queries import undefined_operators  # noqa: PLC0415 - not for the other tools

    serialized = model.SerializeToString()
    with ScratchFolder() as folder:
        path = folder / "optimized.onnx"
        _save_with_ort(serialized, path, level)
        result = onnx.ModelProto.FromString(path.read_bytes())
        if undefined_operators(result).keys() <= undefined_operators(model).keys():
            return result
        _save_with_ort(serialized, path, level, disabled_optimizers=NONSTANDARD_FUSIONS)
        return onnx.ModelProto.FromString(path.read_bytes())


def _save_with_ort(model: bytes | Path, destination: Path, level: str, **config: Any) -> None:
    from ...core.ort.sessions import LEVELS, SessionConfig, create_session  # noqa: PLC0415 - as above

    create_session(
        model, SessionConfig(LEVELS[level], prepack_weights=True, optimized_model_path=str(destination), **config)
    )


def _ort_file_optimizer(level: str) -> OptimizeFile:
    import_module("onnxruntime")
    return lambda path, destination: _save_with_ort(
        path, destination, level, save_external_data=needs_external_data(path)
    )


def _file_optimizer(tool: str) -> OptimizeFile:
    for module in LATE_IMPORTS.get(tool, ()):
        import_module(module)
    optimize = load_tool(tool)
    return lambda path, _: optimize(str(path), "")


FILE_OPTIMIZERS: dict[str, Callable[[], OptimizeFile]] = {
    **{f"ort-{level}": partial(_ort_file_optimizer, level) for level in COMPARED_LEVELS},
    **{tool: partial(_file_optimizer, tool) for tool in TOOLS},
}
"""Loaders of the compared tools, with default options."""


def needs_external_data(path: Path) -> bool:
    """Whether a model has weights in other files, or would if it were much larger.

    If onnxruntime saves a model without its weights, it refers to them by names that have no meaning elsewhere.
    """
    library: Any = onnx  # its argument has no types
    model: onnx.ModelProto = library.load(path, load_external_data=False)
    return path.stat().st_size > LARGE_FILE_BYTES or any(t.external_data for t in model.graph.initializer)
