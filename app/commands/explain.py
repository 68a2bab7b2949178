"""`passes explain`: the reasons why a rule applies or does not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import UsageError
from ..cli.completion import complete_names
from ..cli.report_output import report_on
from ..explain.explain_options import ExplainOptions
from ..options import PASSES, PIPELINES, RULES

EXIT_CODES = """Exit codes: 0 done; 1 bad model, node or plugin; 2 usage error."""
EXAMPLES = {
    "passes explain fuse-gemm model.onnx": "shows why a pass left nodes unchanged",
    "passes explain basic model.onnx": "explains all rules of the pipeline",
}


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RULE_OR_PASS",
            help="A rule, or a pass or pipeline, for all of its rules.",
            autocompletion=complete_names(RULES, PASSES, PIPELINES),
        ),
    ],
    options: ExplainOptions,
    model: Annotated[Path | None, typer.Argument(metavar="FILE", help="The .onnx file; it is never modified.")] = None,
) -> None:
    """Show where a rule applies in a run, and why not elsewhere; nothing is written or verified."""
    from ..explain.document import describe  # noqa: PLC0415 - imports onnx and numpy
    from ..explain.explain import explain_model  # noqa: PLC0415 - imports onnx and numpy

    if model is None:
        whole = "missing argument 'RULE_OR_PASS': give basic for all rules of the pipeline"
        raise UsageError(whole if name.endswith(".onnx") else "missing argument 'FILE'")
    if name.endswith(".onnx") and model.suffix != ".onnx":  # as for other commands
        name, model = str(model), Path(name)
    report_on(options, lambda o: explain_model(model, name, o), partial(describe, limit=options.limit))
