"""`passes compare`: comparison of the results of several optimizers."""

from __future__ import annotations

from ..cli.exit_codes import UNVERIFIED
from ..cli.parameters import Model
from ..cli.report_output import report_on
from ..compare.compare_options import CompareCommandOptions

EXIT_CODES = """Exit codes: 0 done, even if other tools are wrong; 1 bad model, input or plugin; 2 usage error; 4
done, but nothing could be verified."""
EXAMPLES = {"passes compare model.onnx": "compares all optimizers that are installed"}


def compare(model: Model, options: CompareCommandOptions) -> int:
    """Compare the outputs of passwright, onnxruntime and other optimizers for a model.

    Each is verified and measured: correctness, size, latency, memory.
    """
    if options.quantized:
        from ..compare.quantized import compare_quantized  # noqa: PLC0415 - imports onnx and numpy
        from ..compare.quantized_document import describe as describe_quantized  # noqa: PLC0415 - as above

        report_on(options, lambda o: compare_quantized(model, o.quantization, o.tools), describe_quantized)
        return 0
    from ..compare.compare import compare_model  # noqa: PLC0415 - imports onnx and numpy
    from ..compare.document import describe  # noqa: PLC0415 - as above

    report = report_on(options, lambda o: compare_model(model, o), describe)
    return 0 if report.is_verified else UNVERIFIED
