"""`passes tune`: search for the fastest settings that give correct results on this machine."""

from __future__ import annotations

from functools import partial

from ..cli.exit_codes import UNVERIFIED
from ..cli.parameters import Model, path_of
from ..cli.report_output import report_on
from ..options import QuietOptions
from ..tune.tune_options import TuneOptions

EXIT_CODES = """Exit codes: 0 done, with faster settings or the original; 1 bad model, input or data; 2 usage error;
4 the original fails on all inputs, nothing written, or the time was too short, the original kept."""
EXAMPLES = {
    "passes tune model.onnx -o tuned.onnx": "minimizes latency",
    "passes tune model.onnx -o tuned.onnx --goal throughput --dim batch=1,8": "maximizes samples per second",
}


def tune(model: Model, options: TuneOptions, shown: QuietOptions) -> int:
    """Find the fastest settings that still give correct results on this machine.

    Tries pipelines, groups of rules, opsets and onnxruntime settings; never returns a model that is slower or wrong.
    """
    from ..tune.document import describe  # noqa: PLC0415 - imports onnx
    from ..tune.tune import tune_model  # noqa: PLC0415 - imports onnx and numpy

    described = partial(describe, output=path_of(options.output))
    report = report_on(options, lambda o: tune_model(model, o).report, described, quiet=shown.quiet)
    return UNVERIFIED if report.is_undecided else 0
