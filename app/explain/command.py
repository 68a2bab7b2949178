"""`passes explain`: the reasons for which a rule fires or does not."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import options
from ..exit_codes import echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 done; 1 bad model, place or plugin; 2 usage."""


@options.flatten_options
def explain(
    name: Annotated[str, typer.Argument(metavar="RULE_OR_PASS", help="A rule; a pass or a pipeline: all its rules.")],
    model: options.Model,
    as_is: Annotated[bool, typer.Option("--as-is", help="Match in the file as it is, not after the pipeline.")] = False,
    at: Annotated[str, typer.Option(metavar="NAME", help="Only at this node, or at the producer of this value.")] = "",
    limit: options.Limit = 10,
    *,
    pipeline: options.PipelineOptions,
    json: options.Json = None,
) -> None:
    """Say where a rule fires in a run, and why not elsewhere; no model is written, and nothing verified."""
    with one_line_errors():
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .explain import ExplainOptions, explain_rules  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_explanation  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            chosen = ExplainOptions(
                name,
                pipeline.pipeline,
                pipeline.plugin or (),
                as_is=as_is,
                at=at,
                limit=limit,
                progress=progress,
                **options.shared_options(pipeline, json),
            )
            explanation = explain_rules(model, chosen)
        show_explanation(screen, explanation, limit)
        echo_json(json, explanation)
