"""An ONNX optimizer that verifies its result: the commands of `passes`, as functions."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.bench.bench import bench
    from .app.bench.bench_report import Benched
    from .app.bisect.ort_bisect import Suspicion, suspect
    from .app.compare.compare import compare
    from .app.compare.comparison_report import Compared, Conditions, Effort
    from .app.diff.model_diff import Difference, diff
    from .app.explain.explain import Explanation, explain
    from .app.profile.profile import profile
    from .app.profile.profile_report import Profiled
    from .app.run.optimize import Result, optimize
    from .app.verify.verify import Comparison, verify

    __version__: str

_MODULES = {
    "Benched": "bench.bench_report",
    "Compared": "compare.comparison_report",
    "Comparison": "verify.verify",
    "Conditions": "compare.comparison_report",
    "Difference": "diff.model_diff",
    "Effort": "compare.comparison_report",
    "Explanation": "explain.explain",
    "Profiled": "profile.profile_report",
    "Result": "run.optimize",
    "Suspicion": "bisect.ort_bisect",
    "bench": "bench.bench",
    "compare": "compare.compare",
    "diff": "diff.model_diff",
    "explain": "explain.explain",
    "optimize": "run.optimize",
    "profile": "profile.profile",
    "suspect": "bisect.ort_bisect",
    "verify": "verify.verify",
}
__all__ = [
    "Benched",
    "Compared",
    "Comparison",
    "Conditions",
    "Difference",
    "Effort",
    "Explanation",
    "Profiled",
    "Result",
    "Suspicion",
    "__version__",
    "bench",
    "compare",
    "diff",
    "explain",
    "optimize",
    "profile",
    "suspect",
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
    return sorted({*globals(), *__all__})
