"""The versions that a report is to be read with."""

from __future__ import annotations

from importlib.metadata import version

import onnx


def versions() -> dict[str, str]:
    """Of this package and of those that decide on results."""
    return {"passwright": version("passwright"), "onnx": onnx.__version__, "onnxruntime": version("onnxruntime")}
