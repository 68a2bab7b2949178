"""The passes that come with passwright, the pipelines made of them, and what the command does, as functions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.api import Result, optimize
    from .app.benching.bench import bench
    from .app.benching.benched import Benched
    from .app.comparing.compared import Compared
    from .app.comparing.comparison import compare
    from .app.comparing.conditions import Conditions, Effort
    from .app.difference import Difference, diff
    from .app.explanation import Explanation, explain
    from .app.profiling.profiled import Profiled
    from .app.profiling.profiling import profile
    from .app.suspicion import Suspicion, suspect
    from .app.verification import Comparison, verify

WHERE = {
    "Benched": "benching.benched",
    "Compared": "comparing.compared",
    "Comparison": "verification",
    "Conditions": "comparing.conditions",
    "Difference": "difference",
    "Effort": "comparing.conditions",
    "Explanation": "explanation",
    "Profiled": "profiling.profiled",
    "Result": "api",
    "Suspicion": "suspicion",
    "bench": "benching.bench",
    "compare": "comparing.comparison",
    "diff": "difference",
    "explain": "explanation",
    "optimize": "api",
    "profile": "profiling.profiling",
    "suspect": "suspicion",
    "verify": "verification",
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
    if name in WHERE:
        return getattr(import_module(f".app.{WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
