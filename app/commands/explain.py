"""`passes explain`: the reasons for which a rule fires or does not."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..cli import options
from ..cli.completion import PASSES, PIPELINES, RULES, complete_names
from ..cli.exit_codes import one_line_errors
from ..cli.report_output import show_progress_and_report

EXIT_CODES = """Exit codes: 0 done; 1 bad model, place or plugin; 2 usage."""
EXAMPLES = {
    "passes explain fuse-gemm model.onnx": "says why a pass left nodes as they are",
    "passes explain basic model.onnx": "does so for all rules",
}


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RULE_OR_PASS",
            help="A rule; a pass or a pipeline: all its rules.",
            autocompletion=complete_names(RULES, PASSES, PIPELINES),
        ),
    ],
    model: options.Model,
    as_is: Annotated[bool, typer.Option("--as-is", help="Match in the file as it is, not after the pipeline.")] = False,
    at: Annotated[str, typer.Option(metavar="NAME", help="Only at this node, or at the producer of this value.")] = "",
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="List at most so many of each kind.")] = 10,
    *,
    pipeline: options.PipelineOptions,
    json: options.Json = None,
) -> None:
    """Say where a rule fires in a run, and why not elsewhere; no model is written, and nothing verified."""
    with one_line_errors():
        from ..explain.explain import explain as explained  # noqa: PLC0415 - imports onnx and numpy
        from ..explain.render import show_explanation  # noqa: PLC0415 - imports rich

        plugins, shared = pipeline.plugin or (), options.shared_options(pipeline, json)
        compute = partial(explained, model, name, pipeline.pipeline, plugins, as_is=as_is, at=at, limit=limit, **shared)
        show_progress_and_report(json, compute, partial(show_explanation, limit=limit))
