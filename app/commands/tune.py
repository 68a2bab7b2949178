"""`passes tune`: search for the fastest right way to run a model on this machine."""

from __future__ import annotations

from functools import partial

from ..cli.arguments import Model, path_of
from ..cli.report_output import show_progress_and_report
from ..tune.tune_options import TuneOptions

EXIT_CODES = """Exit codes: 0 done, with a better way or the original; 1 bad model, input or data; 2 usage;
4 the original runs on no inputs, nothing written."""
EXAMPLES = {
    "passes tune model.onnx -o tuned.onnx": "for latency, in ten minutes",
    "passes tune model.onnx -o tuned.onnx --for throughput --dim batch=1,8": "for samples a second",
}


def tune(model: Model, options: TuneOptions) -> None:
    """Find the fastest settings that still give correct results on this machine.

    Tries pipelines, groups of rules, opsets and settings of onnxruntime, and never returns anything slower or wrong.
    """
    from ..tune.render import show_tuning  # noqa: PLC0415 - imports rich
    from ..tune.tune import tune_model  # noqa: PLC0415 - imports onnx and numpy

    show = partial(show_tuning, output=path_of(options.output))
    show_progress_and_report(options, lambda o: tune_model(model, o).report, show)
