"""Other optimizers as passes, verified like ours: `adapter("onnxoptimizer:fuse_bn_into_conv")` is one.

A tool is imported when its adapter is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapter_names import adapter, available
    from .function_rules import rule_from_functions

MODULES = {"adapter": "adapter_names", "available": "adapter_names", "rule_from_functions": "function_rules"}
__all__ = ["adapter", "available", "rule_from_functions"]


def __getattr__(name: str) -> Any:
    # Late: the worker needs neither.
    if name in MODULES:
        return getattr(import_module(f".{MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
