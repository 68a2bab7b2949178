"""`passes bisect`: the search for wrong changes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...core.processes.watchdog import time_limit
from ...core.verify.oracle_start import start_oracle_worker
from ..bisect.bisect_options import EngineBisectOptions, OrtBisectOptions
from ..cli.command_class import Command
from ..cli.exit_codes import WRONG
from ..cli.parameters import Model
from ..cli.report_output import report_on
from ..optimize.run_options import CutOptions, RewriteOptions, RunOptions
from ..options import (
    ENGINES,
    EffortOptions,
    InputOptions,
    LimitOptions,
    NameOptions,
    SeedOptions,
    option,
    report_option,
    require,
)

EXIT_CODES = """Exit codes: 0 nothing is wrong; 1 bad model, input or plugin; 2 usage error; 3 something is wrong,
and was named; 4 could not be verified."""

EXAMPLES = {
    "passes bisect model.onnx": "finds wrong changes of the pipeline",
    "passes bisect model.onnx --ort": "finds wrong optimizers of onnxruntime",
    "passes bisect model.onnx --engine openvino": "finds ops that an engine computes wrongly",
}


class OptionalLevelCommand(Command):
    """A command whose option --ort may have no value, which typer does not support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after inserting the default level."""
        return super().parse_args(ctx, with_default_level(args))


COMMAND_CLASS = OptionalLevelCommand


def with_default_level(args: list[str]) -> list[str]:
    """Insert `all` for a missing level."""
    if "--ort" not in args:
        return args
    from ...core.ort.sessions import LEVELS  # noqa: PLC0415 - imports onnx

    own = args[: args.index("--")] if "--" in args else args
    incomplete = {i for i, a in enumerate(own) if a == "--ort" and (own[i + 1 : i + 2] or [""])[0] not in LEVELS}
    return ["--ort=all" if i in incomplete else a for i, a in enumerate(args)]


OF_PASSES = (
    "pipeline", "plugin", "enable", "opset", "exact", "keep_functions", "only", "skip", "outputs",
    "cut_inputs", "drop_unused_inputs", "freeze_initializers", "repro",
)  # fmt: skip
"""The options of passes, which apply only to the search for wrong changes."""


@dataclass(frozen=True, kw_only=True)
class BisectOptions(EffortOptions, LimitOptions, SeedOptions, InputOptions, NameOptions, CutOptions, RewriteOptions):
    """The options of `passes bisect`."""

    ort: str | None = option(
        None,
        "Bisect onnxruntime's own optimizers at level basic, extended, layout or all.",
        "[LEVEL]",
        excludes=OF_PASSES,
    )
    engine: str | None = option(
        None,
        "List the ops that this engine computes wrongly: openvino, openvino:bf16, or an engine of a plugin.",
        "NAME",
        completes=(ENGINES,),
        excludes=OF_PASSES,
    )
    repro: str | Path | None = report_option(
        None, "Write a small model and inputs here for each wrong change.", "FOLDER", kind=Path
    )


def bisect(model: Model, options: BisectOptions) -> int:
    """Find the changes of a pipeline, or the optimizers of onnxruntime, that break a model."""
    start_oracle_worker()
    from ..bisect.document import describe  # noqa: PLC0415 - imports onnx and numpy
    from ..bisect.engine_bisect import bisect_engine_model  # noqa: PLC0415 - imports onnx and numpy
    from ..bisect.ort_bisect import bisect_ort_model  # noqa: PLC0415 - imports onnx and numpy
    from ..optimize.optimize import optimize_model  # noqa: PLC0415 - imports onnx and numpy

    require(options.ort is None or options.engine is None, "give only one of --ort and --engine")
    if options.ort is None and options.engine is None:
        report = report_on(options, lambda o: optimize_model(model, o.among(RunOptions)).report, describe)
        return WRONG if report.rejected else 0
    is_cut = options.outputs or options.cut_inputs or options.drop_unused_inputs or options.freeze_initializers
    flag, subject = ("--ort", "onnxruntime's optimizers") if options.engine is None else ("--engine", "an engine")
    require(not is_cut, f"{flag} bisects the model as it is; cut it with `passes run` first")
    used = options.among(OrtBisectOptions if options.engine is None else EngineBisectOptions)
    is_used = options == BisectOptions(**{f.name: getattr(used, f.name) for f in fields(used)})
    require(is_used, f"{flag} bisects {subject}; options of passes do not apply")
    with time_limit(options.time_limit, lambda: f"{model}: the bisection"):
        if options.engine is not None:
            found = report_on(options, lambda o: bisect_engine_model(model, o.among(EngineBisectOptions)), describe)
        else:
            found = report_on(options, lambda o: bisect_ort_model(model, o.among(OrtBisectOptions)), describe)
    return 0 if found else WRONG
