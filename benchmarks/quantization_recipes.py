"""Models by other tools: `python benchmarks/quantization_recipes.py RECIPE MODEL.onnx DATA.npz RESULT.onnx`."""

from __future__ import annotations

import passwright  # noqa: F401 - turns off the telemetry of onnxruntime

# isort: split
import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from passwright.app.registry.quantizers import QUANTIZERS
from passwright.app.registry.tool_functions import FILE_OPTIMIZERS

BATCH = 16
RECIPES = tuple(label for label, recipe in QUANTIZERS.items() if recipe.tool == "ort")
OPTIMIZERS = ("onnxsim", "onnxslim")  # in the extra `peers`


def batches(model: Path, data: Path) -> Iterator[dict[str, Any]]:
    """The inputs in an .npz, BATCH rows at a time or as many as the model is fixed to; some inputs have no batch."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with np.load(data) as arrays:
        feeds = {value.name: arrays[value.name] for value in session.get_inputs()}
    rows = max(len(array) for array in feeds.values() if array.ndim)
    fixed = {value.shape[0] for value in session.get_inputs() if value.shape and len(feeds[value.name]) == rows}
    batch = next((size for size in fixed if isinstance(size, int)), BATCH)
    for start in range(0, rows, batch):
        yield {name: a[start : start + batch] if a.ndim and len(a) == rows else a for name, a in feeds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=(*RECIPES, *OPTIMIZERS))
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="inputs to calibrate, as .npz")
    parser.add_argument("result", type=Path)
    options = parser.parse_args()
    model, data, result = options.model.resolve(), options.data.resolve(), options.result.resolve()
    try:
        if options.recipe in OPTIMIZERS:
            onnx.save(FILE_OPTIMIZERS[options.recipe]()(model, result), result)
        else:
            QUANTIZERS[options.recipe].load()(model, batches(model, data), result)
    except Exception as e:  # noqa: BLE001 - any failure of the recipe is a result, in a line
        sys.exit(f"{type(e).__name__}: {' '.join(str(e).split())[:200]}")


if __name__ == "__main__":
    main()
