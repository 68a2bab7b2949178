"""`passes info`: operators, sizes and interfaces of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import BAD_INPUT, WRONG
from ..cli.report_output import report_on
from ..options import InfoOptions

EXIT_CODES = """Exit codes: 0 done; 1 a model could not be loaded, the others are shown; 2 usage error; 3 the target
does not support a model."""
EXAMPLES = {
    "passes info model.onnx small.onnx": "shows two models side by side",
    "passes info model.onnx --dim batch=8": "shows the memory that intermediate values take",
    "passes info model.onnx --target webgpu": "lists the ops that the engine does not support",
    "passes info model.onnx --ep cuda": "lists the nodes that an execution provider leaves to the CPU",
    "passes info model.ort --target build.config": "lists the ops that a reduced build of onnxruntime lacks",
}


def info(
    models: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The .onnx or .ort files; a column for each.")
    ],
    options: InfoOptions,
) -> int:
    """Show operators, sizes and interfaces of models, side by side, without reading their weights."""
    from ..info.document import describe  # noqa: PLC0415 - imports onnx and numpy
    from ..info.info import read_models  # noqa: PLC0415 - imports onnx and numpy

    report = report_on(options, lambda o: read_models(models, o), describe)
    is_off = any(m.target is not None and m.target.misfits for m in report.models)
    return BAD_INPUT if report.failures else WRONG if is_off else 0
