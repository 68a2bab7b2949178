"""Other optimizers with their default options, as functions of a file.

Each function imports all that its tool needs, also what the tool itself would import late, and gives back the tool,
so that the two can be timed apart. Nothing more of this package is imported, which would count as the tool's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

OptimizeFile = Callable[[Path, Path], onnx.ModelProto | None]
"""What becomes of the model in the first file; None where the tool itself has written that to the second."""

LARGE_FILE_BYTES = 1 << 30  # bytes; a saved model may be larger than its source, and a message holds less than 2 GB
COMPARED_LEVELS = ("basic", "extended", "all")  # of onnxruntime; models optimized for a layout are for one machine


def onnxsim() -> OptimizeFile:
    """With its own check of the result off, as it is by default."""
    import_module("onnxruntime")  # for constant folding
    tool: Any = import_module("onnxsim")
    return lambda path, _: tool.simplify(str(path))[0]


def onnxslim() -> OptimizeFile:
    """Its function `slim`."""
    import_module("onnxruntime")  # for constant folding
    import_module("sympy")  # for symbolic shapes
    tool: Any = import_module("onnxslim")
    return lambda path, _: tool.slim(str(path))


def onnxscript() -> OptimizeFile:
    """Its optimizer, with folding, inlining and its default rewrites."""
    tool: Any = import_module("onnxscript.optimizer")
    return lambda path, _: tool.optimize(onnx.load(str(path)))


def onnxoptimizer() -> OptimizeFile:
    """Its default passes, once."""
    tool: Any = import_module("onnxoptimizer")
    return lambda path, _: tool.optimize(onnx.load(str(path)))


def ort(level: str) -> OptimizeFile:
    """The optimizers of onnxruntime itself at a level, as it saves their result."""
    import_module("onnxruntime")
    from ...core.ort.sessions import LEVELS, SessionConfig, create_session  # noqa: PLC0415 - not for the other tools

    def optimize(path: Path, destination: Path) -> None:
        saved = SessionConfig(
            LEVELS[level],
            prepack_weights=True,
            optimized_model_path=str(destination),
            save_external_data=needs_external_data(path),
        )
        create_session(path, saved)

    return optimize


LOADERS: dict[str, Callable[[], OptimizeFile]] = {
    **{f"ort-{level}": partial(ort, level) for level in COMPARED_LEVELS},
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "onnxscript": onnxscript,
}


def needs_external_data(path: Path) -> bool:
    """Whether a model keeps weights in other files, or would have to if it were much larger.

    What onnxruntime saves of one refers to weights by names that mean nothing elsewhere, unless told to write them too.
    """
    library: Any = onnx  # what it takes has no types
    model: onnx.ModelProto = library.load(path, load_external_data=False)
    return path.stat().st_size > LARGE_FILE_BYTES or any(t.external_data for t in model.graph.initializer)
