"""Nodes of a model that its outputs depend on: local functions inlined, bodies included, Constant ops left out."""

from __future__ import annotations

import onnx
from passwright.app.measure.model_stats import live_op_counts


def count_live_nodes(model: onnx.ModelProto) -> int:
    """Count the nodes of a model."""
    return live_op_counts(model).total()
