"""An ONNX optimizer that verifies its result: the commands of `passes`, as functions."""

import os
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # onnxruntime reads it when it is first imported, here or in a worker
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith(__name__) and not sys.flags.safe_path:
    del sys.path[0]  # `python -m passwright` puts the current folder first, which may have a `typing` or `numpy`

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.bisect.engine_bisect import EngineBisectReport, bisect_engine
    from .app.bisect.ort_bisect import OrtBisectReport, bisect_ort
    from .app.compare.compare import compare
    from .app.compare.comparison_report import ComparisonReport
    from .app.diff.model_diff import DiffReport, diff
    from .app.explain.explain import Explanation, explain
    from .app.explain.show import show
    from .app.info.info import InfoReport, ModelInfo, info
    from .app.measure.bench import BenchReport, bench
    from .app.models.replay import ReplayReport, replay
    from .app.optimize.optimize import Result, convert_opset, optimize
    from .app.profile.profile import profile
    from .app.profile.profile_report import ProfileReport
    from .app.quantize.quantize import QuantizationReport, QuantizationResult, quantize
    from .app.registry.function_rules import rule_from_functions
    from .app.tune.advice import AdviceReport, advise
    from .app.tune.tune import TuneReport, TuneResult, tune
    from .app.verify.verify import VerificationReport, verify
    from .core.errors import (
        EvaluationError,
        ModelError,
        PassesError,
        PluginError,
        TargetError,
        TimeLimitError,
        UnknownNameError,
        UnverifiableError,
        UsageError,
        VerificationError,
    )

    __version__: str
    """The version of the installed package.

    Examples:
        >>> __version__.count(".")
        2
    """

if not Path(__path__[0], "core").is_dir():  # a checkout: core, passes, testing and app are beside this folder
    __path__.append(str(Path(__path__[0]).parent))

_MODULES = {
    "app.measure.bench": ("BenchReport", "bench"),
    "app.bisect.engine_bisect": ("EngineBisectReport", "bisect_engine"),
    "app.bisect.ort_bisect": ("OrtBisectReport", "bisect_ort"),
    "app.compare.compare": ("compare",),
    "app.compare.comparison_report": ("ComparisonReport",),
    "app.diff.model_diff": ("DiffReport", "diff"),
    "app.explain.explain": ("Explanation", "explain"),
    "app.explain.show": ("show",),
    "app.info.info": ("InfoReport", "ModelInfo", "info"),
    "app.profile.profile": ("profile",),
    "app.profile.profile_report": ("ProfileReport",),
    "app.quantize.quantize": ("QuantizationReport", "QuantizationResult", "quantize"),
    "app.models.replay": ("ReplayReport", "replay"),
    "app.optimize.optimize": ("Result", "convert_opset", "optimize"),
    "app.registry.function_rules": ("rule_from_functions",),
    "app.tune.advice": ("AdviceReport", "advise"),
    "app.tune.tune": ("TuneReport", "TuneResult", "tune"),
    "app.verify.verify": ("VerificationReport", "verify"),
    "core.errors": (
        "EvaluationError",
        "ModelError",
        "PassesError",
        "PluginError",
        "TargetError",
        "TimeLimitError",
        "UnknownNameError",
        "UnverifiableError",
        "UsageError",
        "VerificationError",
    ),
}
__all__ = [
    "AdviceReport",
    "BenchReport",
    "ComparisonReport",
    "DiffReport",
    "EngineBisectReport",
    "EvaluationError",
    "Explanation",
    "InfoReport",
    "ModelError",
    "ModelInfo",
    "OrtBisectReport",
    "PassesError",
    "PluginError",
    "ProfileReport",
    "QuantizationReport",
    "QuantizationResult",
    "ReplayReport",
    "Result",
    "TargetError",
    "TimeLimitError",
    "TuneReport",
    "TuneResult",
    "UnknownNameError",
    "UnverifiableError",
    "UsageError",
    "VerificationError",
    "VerificationReport",
    "__version__",
    "advise",
    "bench",
    "bisect_engine",
    "bisect_ort",
    "compare",
    "convert_opset",
    "diff",
    "explain",
    "info",
    "optimize",
    "profile",
    "quantize",
    "replay",
    "rule_from_functions",
    "show",
    "tune",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Late, so that `passes --help` need not import onnx and numpy.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - imports email and zipfile

        return version("passwright")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
