"""The passes that come with passwright, the pipelines made of them, and `optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Result, optimize

__all__ = ["Result", "optimize"]


def __getattr__(name: str) -> Any:
    # Late, so that `passes --help` need not import onnx and numpy.
    if name in __all__:
        from . import api  # noqa: PLC0415 - see above

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
