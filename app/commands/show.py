"""`passes show`: a model as text."""

from __future__ import annotations

import typer

from ...core.support.printable_text import printable_lines
from ..cli.parameters import Model
from ..cli.report_output import full_disk_behind_standard_output
from ..explain.show_options import ShowOptions
from ..options import require

EXIT_CODES = """Exit codes: 0 done; 1 bad model, or a region that it does not have; 2 usage error."""
EXAMPLES = {
    "passes show model.onnx --max-elements 8": "prints its graph in the syntax that onnx.parser reads",
    "passes show model.onnx --region y": "prints the ops around the value y",
    "passes show model.onnx -o model.onnxtxt": "writes text that onnx.load reads",
}


def show(model: Model, options: ShowOptions) -> None:
    """Print a model in the text syntax of ONNX, which onnx.parser reads back.

    Comments at the top list what that syntax cannot express.
    """
    from ...core.io.output_paths import OutputPaths  # noqa: PLC0415 - imports onnx
    from ...core.io.publishing import publish_text  # noqa: PLC0415 - as above
    from ..explain.show import show as text_of_model  # noqa: PLC0415 - as above

    require(options.region or options.radius == ShowOptions.radius, "--radius needs --region")
    paths = OutputPaths.of(report=options.output)
    paths.require_distinct([model])
    text = text_of_model(
        model, region=options.region, radius=options.radius, types=options.types, max_elements=options.max_elements
    )
    if paths.report is not None:
        publish_text(paths.report, lambda: text)
        return
    with full_disk_behind_standard_output():
        typer.echo(printable_lines(text))
