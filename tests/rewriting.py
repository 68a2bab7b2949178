"""Rule and pass tests in ONNX's own text form, as authors of plugins write them."""

from __future__ import annotations

from passwright.core import to_onnx
from passwright.testing.rewriting import (
    OPSET,
    becomes,
    body,
    initializers,
    load,
    means_the_same,
    op_types,
    rewritten,
    run,
    stays,
)

__all__ = [
    "OPSET",
    "becomes",
    "body",
    "initializers",
    "load",
    "means_the_same",
    "op_types",
    "rewritten",
    "run",
    "stays",
    "to_onnx",
]
