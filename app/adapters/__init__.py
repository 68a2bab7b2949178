"""Optimizers of others as passes: they run verified, and what they break is left out.

`adapter("onnxoptimizer:fuse_bn_into_conv")` is a pass. Nothing of another tool is imported before it is asked for.
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
    # Late, as in the package above: the worker needs neither.
    if name in MODULES:
        return getattr(import_module(f".{MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
