"""Functions for rule and pass tests in ONNX text, from `passwright.testing`."""

from __future__ import annotations

from passwright.core import to_onnx
from passwright.testing.rewriting import (
    OPSET,
    apply_passes,
    becomes,
    canonical_nodes,
    initializers,
    load,
    op_types,
    require_equivalent,
    run,
    stays,
)

__all__ = [
    "OPSET",
    "apply_passes",
    "becomes",
    "canonical_nodes",
    "initializers",
    "load",
    "op_types",
    "require_equivalent",
    "run",
    "stays",
    "to_onnx",
]
