"""`passes bench`: latency, memory and size of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..cli.exit_codes import BAD_INPUT
from ..cli.report_output import report_on
from ..measure.bench_options import BenchOptions

EXIT_CODES = """Exit codes: 0 all were measured; 1 bad model or input, or one that could not be measured; 2 usage
error; 4 no inputs could be generated."""
EXAMPLES = {"passes bench model.onnx small.onnx": "compares the second with the first"}


def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The .onnx or .ort files; the first is the baseline.")
    ],
    options: BenchOptions,
) -> int:
    """Measure latency, throughput, load time, size and memory of models in onnxruntime, in interleaved runs."""
    from ..measure.bench import bench_models  # noqa: PLC0415 - imports onnx and numpy
    from ..measure.document import describe  # noqa: PLC0415 - as above

    report = report_on(options, lambda o: bench_models(models, o), describe)
    return BAD_INPUT if report.failed else 0
