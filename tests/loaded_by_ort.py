"""Models as onnxruntime optimizes and runs them."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from passwright.core.ort.sessions import ENABLE_ALL, SessionConfig, create_session


def loaded(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> tuple[list[str], list[np.ndarray]]:
    """The operators after all optimizations of onnxruntime, those of bodies included, and the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        config = SessionConfig(ENABLE_ALL, prepack_weights=True, intra_op_threads=1, optimized_model_path=str(path))
        session = create_session(model.SerializeToString(), config)
        operators = operators_of(onnx.load(path).graph)
    return operators, session.run(None, dict(feeds))


def operators_of(graph: onnx.GraphProto) -> list[str]:
    """The operators of a graph and the bodies in it."""
    bodies = (op for n in graph.node for a in n.attribute if a.HasField("g") for op in operators_of(a.g))
    return [*(n.op_type for n in graph.node), *bodies]


def decibels(wanted: np.ndarray, got: np.ndarray) -> float:
    """The ratio of signal to error, 10 log10(sum of wanted ** 2 / sum of error ** 2)."""
    signal, error = (np.square(a.astype(np.float64)).sum() for a in (wanted, wanted - got))
    return float(10 * np.log10(signal / error)) if error else np.inf
