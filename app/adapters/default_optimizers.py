"""Other optimizers as they are by default, from a model's file to the model that they make of it.

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

Optimize = Callable[[Path, Path], onnx.ModelProto | None]
"""What becomes of the model in the first file; None where the tool itself has written that to the second."""

LARGE = 1 << 30  # bytes; what is saved may be larger than what was loaded, but one message holds less than 2 GB
LEVELS = ("basic", "extended", "all")


def onnxsim() -> Optimize:
    """With its own check of the result off, as it is by default."""
    import_module("onnxruntime")  # for constant folding
    tool: Any = import_module("onnxsim")
    return lambda path, _: tool.simplify(str(path))[0]


def onnxslim() -> Optimize:
    """Its function `slim`."""
    import_module("onnxruntime")  # for constant folding
    import_module("sympy")  # for symbolic shapes
    tool: Any = import_module("onnxslim")
    return lambda path, _: tool.slim(str(path))


def onnxscript() -> Optimize:
    """Its optimizer, with folding, inlining and its default rewrites."""
    tool: Any = import_module("onnxscript.optimizer")
    return lambda path, _: tool.optimize(onnx.load(str(path)))


def onnxoptimizer() -> Optimize:
    """Its default passes, once."""
    tool: Any = import_module("onnxoptimizer")
    return lambda path, _: tool.optimize(onnx.load(str(path)))


def ort(level: str) -> Optimize:
    """The optimizers of onnxruntime itself at a level, as it saves their result."""
    import_module("onnxruntime")
    from ...core.ort.sessions import Setting, session  # noqa: PLC0415 - not for the other tools

    def optimize(path: Path, destination: Path) -> None:
        saved = Setting(f"ENABLE_{level.upper()}", repacks=True, saves=str(destination), saves_apart=is_apart(path))
        session(path, saved)

    return optimize


PREPARED: dict[str, Callable[[], Optimize]] = {
    **{f"ort-{level}": partial(ort, level) for level in LEVELS},
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "onnxscript": onnxscript,
}


def is_apart(path: Path) -> bool:
    """Whether a model keeps weights in other files, or would have to if it were much larger.

    What onnxruntime saves of one refers to weights by names that mean nothing elsewhere, unless told to write them too.
    """
    library: Any = onnx  # what it takes has no types
    model: onnx.ModelProto = library.load(path, load_external_data=False)
    return path.stat().st_size > LARGE or any(t.external_data for t in model.graph.initializer)
