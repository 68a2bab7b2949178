"""What a network answers in onnxruntime, with the rows of all outputs first."""

from pathlib import Path

import numpy as np
import onnxruntime

from .labelled_model import Arrays

BATCH = 32


def outputs(model: Path | bytes, arrays: Arrays, rows: int) -> dict[str, np.ndarray]:
    """The outputs that have rows, for all rows, in batches, as `passes bench --labelled` computes them.

    Inputs with another length than `rows` are the same in each run. A network with a fixed batch gets as many.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    sizes = {v.shape[0] for v in session.get_inputs() if v.shape and len(arrays[v.name]) == rows}
    batch = next((size for size in sizes if isinstance(size, int)), BATCH)
    parts: dict[str, list[np.ndarray]] = {value.name: [] for value in session.get_outputs()}
    for start in range(0, rows, batch):
        indices = np.minimum(np.arange(start, start + batch), rows - 1)
        feeds = {v.name: arrays[v.name] for v in session.get_inputs()}
        feeds = {name: v[indices] if v.ndim and len(v) == rows else v for name, v in feeds.items()}
        for name, value in zip(parts, session.run(None, feeds), strict=True):
            axis = next((i for i, n in enumerate(value.shape[:2]) if n == batch), None)  # 1 of scores of CTC
            if axis is not None:
                parts[name].append(np.moveaxis(value, axis, 0)[: rows - start])
    return {name: np.concatenate(part) for name, part in parts.items() if part}


def first_output(model: Path | bytes, arrays: Arrays) -> np.ndarray:
    """The first output for all rows of the first input."""
    return next(iter(outputs(model, arrays, len(next(iter(arrays.values())))).values()))
