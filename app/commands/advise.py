"""`passes advise`: what the techniques of a checklist give for a model on this machine, and what to type."""

from __future__ import annotations

from ..cli.arguments import Model
from ..cli.report_output import report_on
from ..tune.tune_options import AdviseOptions

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or data; 2 usage error; 4 the original fails on all inputs."""
EXAMPLES = {
    "passes advise model.onnx": "in a minute",
    "passes advise model.onnx --data inputs.npz --labelled labelled.npz": "with the accuracy of quantized models",
}


def advise(model: Model, options: AdviseOptions) -> None:
    """Measure how much the usual techniques speed up a model on this machine, and suggest commands.

    Times graph optimization, engines, precisions, quantization and session settings; writes no model.
    """
    from ..tune.advice import advise_on, describe  # noqa: PLC0415 - imports onnx and numpy

    report_on(options, lambda o: advise_on(model, o), describe)
