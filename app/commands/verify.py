"""`passes verify`: numerical comparison of two models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...core.processes.watchdog import time_limit as limit_of_time
from ...core.verify.oracle_start import start_oracle_worker
from ..cli import options
from ..cli.completion import EFFORTS, complete_names
from ..cli.exit_codes import WRONG, one_line_errors
from ..cli.outputs import Outputs
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 they agree; 1 bad model or input; 2 usage; 3 they differ; 4 could not be verified."""
EXAMPLES = {
    "passes verify model.onnx small.onnx": "says whether they compute the same",
    "passes verify a.onnx b.onnx --inputs x.npz": "tries your inputs",
    "passes verify a.onnx b.onnx --prove": "proves what it can of the regions that differ",
}


def verify(
    original: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The .onnx file whose outputs are right."),
    ],
    other: Annotated[
        Path,
        typer.Argument(metavar="OTHER", help="The .onnx file to compare with it, from any tool."),
    ],
    inputs: options.Inputs = None,
    shape: options.Shapes = None,
    seed: options.Seed = 0,
    exact: Annotated[bool, options.verification_option("--exact", help="Require bit-identical outputs.")] = False,
    effort: Annotated[
        str,
        options.verification_option(metavar="CHOICE", help=options.EFFORT_HELP, autocompletion=complete_names(EFFORTS)),
    ] = "default",
    prove: Annotated[
        bool, options.verification_option("--prove", help="Prove the regions in which the models differ, too.")
    ] = False,
    memory: options.Memory = None,
    time_limit: options.TimeLimit = None,
    formats: options.Format = None,
    json: options.Json = None,
) -> None:
    """Compare two models on inputs that are generated to find mistakes."""
    with one_line_errors():
        start_oracle_worker()
        from ...core.verify.verification_spec import known_effort  # noqa: PLC0415 - imports onnx when it is called
        from ..verify.document import verification_document  # noqa: PLC0415 - imports rich
        from ..verify.render import show_verification  # noqa: PLC0415 - as above
        from ..verify.verify import verify as compare  # noqa: PLC0415 - imports onnx and numpy

        outputs = Outputs.parse(formats, json)
        outputs.require_distinct((original, other, outputs.json))
        compute = partial(
            compare,
            original,
            other,
            inputs,
            shapes=options.parse_shapes(shape or ()),
            seed=seed,
            exact=exact,
            effort=known_effort(effort, "--effort"),
            memory=options.parse_memory(memory),
            prove=prove,
            report_to=options.report_file(outputs.json),
        )
        failures = outputs.failures_of("passes verify", other)
        with failures, limit_of_time(time_limit, lambda: f"{other}: the comparison"):
            report = show_progress_and_report(
                outputs.json, compute, show_verification, outputs=outputs, describe=verification_document
            )
        if not report.agrees:
            raise typer.Exit(WRONG)
