"""`passes explain`: why a rule fires, or does not."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import options
from ..exit_codes import echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 done; 1 bad model, place or plugin; 2 usage."""


def explain(
    name: Annotated[str, typer.Argument(metavar="RULE_OR_PASS", help="A rule; a pass or a pipeline: all its rules.")],
    model: options.Model,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Hold it to the file as it is, not to what the pipeline leaves of it.")
    ] = False,
    at: Annotated[str, typer.Option(help="Only at this node, or at what makes this value.")] = "",
    limit: options.Limit = 10,
    pipeline: options.Pipeline = "basic",
    plugin: options.Plugins = None,
    enable: options.Enable = None,
    shape: options.FixedShapes = None,
    dim: options.Dims = None,
    exact: options.Exact = False,
    keep_functions: options.KeepFunctions = False,
    json: options.Json = None,
) -> None:
    """Say where a rule fires in a run, and why not elsewhere; no model is written, and nothing verified."""
    with one_line_errors():
        from ..terminal import Terminal  # noqa: PLC0415 - imports rich
        from .explain import explain as explained  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_explanation  # noqa: PLC0415 - imports rich

        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            explanation = explained(
                model,
                name,
                pipeline,
                plugin or (),
                as_is=as_is,
                at=at,
                limit=limit,
                shapes=options.parse_shapes(shape or ()),
                dims=options.parse_dims(dim or ()),
                enable=enable or (),
                exact=exact,
                keep_functions=keep_functions,
                report_to=options.report_file(json),
                progress=progress,
            )
        show_explanation(screen, explanation, limit)
        echo_json(json, explanation)
