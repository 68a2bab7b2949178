"""Quantization by other tools: `python benchmarks/quantization_recipes.py RECIPE MODEL.onnx DATA.npz RESULT.onnx`."""

from __future__ import annotations

import passwright  # noqa: F401 - turns off the telemetry of onnxruntime

# isort: split
import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from passwright.app.registry.quantizers import QUANTIZERS

BATCH = 16
RECIPES = tuple(label for label, recipe in QUANTIZERS.items() if recipe.tool == "ort")


def batches(model: Path, data: Path) -> Iterator[dict[str, Any]]:
    """The inputs in an .npz, BATCH rows at a time; those with fewer rows than the others have no batch."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with np.load(data) as arrays:
        feeds = {value.name: arrays[value.name] for value in session.get_inputs()}
    rows = max(len(array) for array in feeds.values() if array.ndim)
    for start in range(0, rows, BATCH):
        yield {name: a[start : start + BATCH] if a.ndim and len(a) == rows else a for name, a in feeds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="inputs to calibrate, as .npz")
    parser.add_argument("result", type=Path)
    options = parser.parse_args()
    model, data, result = options.model.resolve(), options.data.resolve(), options.result.resolve()
    try:
        QUANTIZERS[options.recipe].load()(model, batches(model, data), result)
    except Exception as e:  # noqa: BLE001 - any failure of the recipe is a result, in a line
        sys.exit(f"{type(e).__name__}: {' '.join(str(e).split())[:200]}")


if __name__ == "__main__":
    main()
