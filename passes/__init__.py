"""The passes that come with passwright, the pipelines made of them, and what the command does, as functions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.api import Result, optimize
    from .app.difference import Difference, diff
    from .app.explanation import Explanation, explain
    from .app.suspicion import Suspicion, suspect
    from .app.verification import Comparison, verify

WHERE = {
    "Comparison": "verification",
    "Difference": "difference",
    "Explanation": "explanation",
    "Result": "api",
    "Suspicion": "suspicion",
    "diff": "difference",
    "explain": "explanation",
    "optimize": "api",
    "suspect": "suspicion",
    "verify": "verification",
}
__all__ = [
    "Comparison",
    "Difference",
    "Explanation",
    "Result",
    "Suspicion",
    "diff",
    "explain",
    "optimize",
    "suspect",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Late, so that `passes --help` need not import onnx and numpy.
    if name in WHERE:
        return getattr(import_module(f".app.{WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
