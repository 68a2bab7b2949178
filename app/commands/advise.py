"""`passes advise`: the techniques that pay off for a model on this machine, and the commands for them."""

from __future__ import annotations

from ..cli.parameters import Model
from ..cli.report_output import report_on
from ..tune.tune_options import AdviseOptions

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or data; 2 usage error; 4 the original fails on all inputs."""
EXAMPLES = {
    "passes advise model.onnx": "takes a minute",
    "passes advise model.onnx --data inputs.npz --labelled labelled.npz": "also measures their accuracy",
}


def advise(model: Model, options: AdviseOptions) -> None:
    """Measure how much the usual techniques speed up a model on this machine, and suggest commands.

    Times graph optimization, engines, precisions, quantization and session settings; writes no model.
    """
    from ..tune.advice import advise_on, describe  # noqa: PLC0415 - imports onnx and numpy

    report_on(options, lambda o: advise_on(model, o), describe)
