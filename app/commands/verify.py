"""`passes verify`: numerical comparison of two models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.processes.watchdog import time_limit
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import UNVERIFIED, WRONG
from ..cli.outputs import Outputs
from ..cli.parameters import path_of
from ..cli.report_output import report_on
from ..options import FormatOptions
from ..verify.verify_options import VerifyOptions

EXIT_CODES = """Exit codes: 0 they agree (with --budget: the loss is within it; with --engine: on all inputs without
NaN, infinite and empty values); 1 bad model or input; 2 usage error; 3 they differ; 4 could not be verified, or the
engine cannot load the model."""
EXAMPLES = {
    "passes verify model.onnx small.onnx": "compares their outputs",
    "passes verify a.onnx b.onnx --inputs x.npz": "compares them on your inputs",
    "passes verify a.onnx b.onnx --prove": "also proves regions that differ",
    "passes verify a.onnx int8.onnx --budget 1%": "measures the accuracy loss of a quantized model",
    "passes verify model.onnx --engine openvino": "compares an engine with onnxruntime",
}


def verify(
    original: Annotated[
        Path, typer.Argument(metavar="FILE", help="The .onnx file whose outputs are taken as correct.")
    ],
    options: VerifyOptions,
    formats: FormatOptions,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="OTHER", help="The .onnx or .ort file to compare with it, from any tool; omitted with --engine."
        ),
    ] = None,
) -> int:
    """Compare the outputs of two models, or of two engines, on inputs that are generated to expose differences."""
    if options.budget is None:
        start_oracle_worker()
    from ..verify.document import describe  # noqa: PLC0415 - imports onnx
    from ..verify.verify import verify_models  # noqa: PLC0415 - imports onnx and numpy

    outputs = Outputs.parse(formats.format, options.json)
    compared = other or original
    outputs.require_distinct((original, *filter(None, [other]), outputs.json, path_of(options.html)))
    failures = outputs.failures_of("passes verify", compared)
    with failures, time_limit(options.time_limit, lambda: f"{compared}: the comparison"):
        report = report_on(options, lambda o: verify_models(original, other, o), describe, outputs)
    return 0 if report else UNVERIFIED if report.is_refused else WRONG
