"""`passes verify`: numerical comparison of two models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...core.support.watchdog import time_limit as limit_of_time
from ...core.verify.oracle_start import start_oracle_worker
from .. import options
from ..exit_codes import WRONG, one_line_errors, show_progress_and_report

EXIT_CODES = """Exit codes: 0 they agree; 1 bad model or input; 2 usage; 3 they differ; 4 could not be verified."""


def verify(
    original: Annotated[Path, typer.Argument(metavar="FILE", help="The .onnx file whose outputs are right.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The .onnx file to compare with it, from any tool.")],
    inputs: options.Inputs = None,
    shape: options.Shapes = None,
    seed: options.Seed = 0,
    exact: Annotated[bool, options.verification_option("--exact", help="Require bit-identical outputs.")] = False,
    effort: Annotated[str, options.verification_option(metavar="CHOICE", help=options.EFFORT_HELP)] = "default",
    memory: options.Memory = None,
    time_limit: options.TimeLimit = None,
    json: options.Json = None,
) -> None:
    """Compare two models on inputs that are generated to find mistakes."""
    with one_line_errors():
        start_oracle_worker()
        from ..run.run_options import known_effort  # noqa: PLC0415 - imports onnx when it is called
        from .render import show_verification  # noqa: PLC0415 - imports rich
        from .verify import verify as compare  # noqa: PLC0415 - imports onnx and numpy

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
            report_to=options.report_file(json),
        )
        with limit_of_time(time_limit, lambda: f"{other}: the comparison"):
            report = show_progress_and_report(json, compute, show_verification)
        if not report.agrees:
            raise typer.Exit(WRONG)
