"""An ONNX optimizer that verifies its result: the commands of `passes`, as functions."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.bench.bench import BenchReport, bench
    from .app.bisect.ort_bisect import OrtBisectReport, bisect_ort
    from .app.compare.compare import compare
    from .app.compare.comparison_report import BenchmarkConfig, ComparisonReport, Conditions
    from .app.diff.model_diff import DiffReport, diff
    from .app.explain.explain import Explanation, explain
    from .app.profile.profile import profile
    from .app.profile.profile_report import ProfileReport
    from .app.run.optimize import Result, optimize
    from .app.verify.verify import VerificationReport, verify

    __version__: str

_MODULES = {
    "BenchReport": "bench.bench",
    "BenchmarkConfig": "measure.benchmark",
    "ComparisonReport": "compare.comparison_report",
    "Conditions": "compare.comparison_report",
    "DiffReport": "diff.model_diff",
    "Explanation": "explain.explain",
    "OrtBisectReport": "bisect.ort_bisect",
    "ProfileReport": "profile.profile_report",
    "Result": "run.optimize",
    "VerificationReport": "verify.verify",
    "bench": "bench.bench",
    "bisect_ort": "bisect.ort_bisect",
    "compare": "compare.compare",
    "diff": "diff.model_diff",
    "explain": "explain.explain",
    "optimize": "run.optimize",
    "profile": "profile.profile",
    "verify": "verify.verify",
}
__all__ = [
    "BenchReport",
    "BenchmarkConfig",
    "ComparisonReport",
    "Conditions",
    "DiffReport",
    "Explanation",
    "OrtBisectReport",
    "ProfileReport",
    "Result",
    "VerificationReport",
    "__version__",
    "bench",
    "bisect_ort",
    "compare",
    "diff",
    "explain",
    "optimize",
    "profile",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Late, so that `passes --help` need not import onnx and numpy.
    if name == "__version__":
        return version("passwright")
    if name in _MODULES:
        return getattr(import_module(f".app.{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
