"""`passes bisect`: search for wrong changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.processes.watchdog import time_limit
from ...core.verify.oracle_start import start_oracle_worker
from ..cli import options
from ..cli.command_class import Command
from ..cli.exit_codes import WRONG, one_line_errors
from ..cli.report_output import show_progress_and_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.run.report import Report

EXIT_CODES = """Exit codes: 0 nothing is wrong; 1 bad model, input or plugin; 2 usage;
3 something is wrong, and was named; 4 could not be verified."""

EXAMPLES = {
    "passes bisect model.onnx": "finds changes that are wrong",
    "passes bisect model.onnx --ort": "finds optimizers of onnxruntime that are",
}


class OptionalLevelCommand(Command):
    """A command whose option --ort may have no value, which typer does not support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments with the default level inserted."""
        return super().parse_args(ctx, with_default_level(args))


COMMAND_CLASS = OptionalLevelCommand


def with_default_level(args: list[str]) -> list[str]:
    """The arguments with `all` for a missing level."""
    if "--ort" not in args:
        return args
    from ...core.ort.sessions import LEVELS  # noqa: PLC0415 - imports onnx

    own = args[: args.index("--")] if "--" in args else args
    incomplete = {i for i, a in enumerate(own) if a == "--ort" and (own[i + 1 : i + 2] or [""])[0] not in LEVELS}
    return ["--ort=all" if i in incomplete else a for i, a in enumerate(args)]


def bisect(
    model: options.Model,
    ort: Annotated[
        str | None,
        typer.Option(metavar="[LEVEL]", help="Bisect onnxruntime's own optimizers at basic, extended, layout or all."),
    ] = None,
    *,
    pipeline: options.PipelineOptions,
    verification: options.VerificationOptions,
    json: options.Json = None,
) -> None:
    """Find the changes of a pipeline that break a model, or onnxruntime's own; nothing but --repro is written."""
    with one_line_errors():
        start_oracle_worker()
        from ...core.verify.verification_spec import known_effort  # noqa: PLC0415 - imports onnx when it is called
        from ..bisect.ort_bisect import bisect_ort  # noqa: PLC0415 - imports onnx and numpy
        from ..bisect.render import show_bisection, show_ort_bisect  # noqa: PLC0415 - imports rich
        from ..optimize.optimize import optimize_model  # noqa: PLC0415 - imports onnx and numpy

        if ort is None:
            run_options = options.run_options(pipeline, verification, json)

            def compute(progress: Callable[[str], None]) -> Report:
                return optimize_model(model, replace(run_options, progress=progress)).report

            is_wrong = bool(show_progress_and_report(json, compute, show_bisection).rejected)
        else:
            is_cut = any(
                (
                    verification.outputs,
                    verification.cut_inputs,
                    verification.drop_unused_inputs,
                    verification.freeze_initializers,
                )
            )
            options.require(not is_cut, "--ort takes the model as it is: cut it with `passes run`")
            used_pipeline = options.PipelineOptions(shape=pipeline.shape, dim=pipeline.dim)
            used_verification = options.VerificationOptions(
                inputs=verification.inputs,
                seed=verification.seed,
                verify=verification.verify,
                memory=verification.memory,
                time_limit=verification.time_limit,
            )
            are_used = (pipeline, verification) == (used_pipeline, used_verification)
            options.require(are_used, "--ort bisects onnxruntime's optimizers: leave out options of passes")
            bisection = partial(
                bisect_ort,
                model,
                ort,
                verification.inputs,
                shapes=options.parse_shapes(pipeline.shape or ()),
                dims=options.parse_dims(pipeline.dim or ()),
                seed=verification.seed,
                effort=known_effort(verification.verify or "default", "--verify"),
                memory=options.parse_memory(verification.memory),
                report_to=options.report_file(json),
            )
            with time_limit(verification.time_limit, lambda: f"{model}: the bisection"):
                is_wrong = show_progress_and_report(json, bisection, show_ort_bisect).blame is not None
        if is_wrong:
            raise typer.Exit(WRONG)
