"""`passes quantize`: compression of a model within an accuracy budget."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..cli.exit_codes import UNVERIFIED
from ..cli.parameters import Model, path_of
from ..cli.report_output import report_on
from ..options import QuietOptions
from ..quantize.quantize_options import QuantizationOptions

EXIT_CODES = """Exit codes: 0 done, with a quantized model or the original; 1 bad model, data or labels; 2 usage
error; 3 the optimized float model is wrong, nothing written; 4 the original fails on all inputs, nothing written,
or the search ended before a candidate was scored, the original written."""
EXAMPLES = {
    "passes quantize model.onnx -o q.onnx": "measures accuracy on generated inputs",
    "passes quantize model.onnx -o q.onnx --data x.npz --budget 0.5%": "measures accuracy on your inputs",
}


def quantize(model: Model, options: QuantizationOptions, shown: QuietOptions) -> int:
    """Quantize a model for onnxruntime: smaller and never slower, within an accuracy budget."""
    from ..quantize.document import describe  # noqa: PLC0415 - imports numpy
    from ..quantize.quantize import quantize_model  # noqa: PLC0415 - imports onnx and numpy

    options = replace(options, op_errors=options.json is not None)
    described = partial(describe, output=path_of(options.output))
    report = report_on(options, lambda o: quantize_model(model, o).report, described, quiet=shown.quiet)
    return UNVERIFIED if report.is_undecided else 0
