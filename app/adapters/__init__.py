"""Optimizers of others as passes: they run verified, and what they break is left out.

`adapter("onnxoptimizer:fuse_bn_into_conv")` is a pass. Nothing of another tool is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .functions import rule_from_functions
    from .naming import adapter, available

WHERE = {"adapter": "naming", "available": "naming", "rule_from_functions": "functions"}
__all__ = ["adapter", "available", "rule_from_functions"]


def __getattr__(name: str) -> Any:
    # Late, as in the package above: the worker needs neither.
    if name in WHERE:
        return getattr(import_module(f".{WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
