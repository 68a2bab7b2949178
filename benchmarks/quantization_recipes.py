"""Quantization by onnxruntime: `python benchmarks/quantization_recipes.py RECIPE MODEL.onnx DATA.npz RESULT.onnx`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

BATCH = 16


class Batches(CalibrationDataReader):
    """The inputs in an .npz, BATCH rows at a time; those with fewer rows than the others have no batch."""

    def __init__(self, model: Path, data: Path) -> None:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        with np.load(data) as arrays:
            feeds = {value.name: arrays[value.name] for value in session.get_inputs()}
        rows = max(len(array) for array in feeds.values() if array.ndim)
        self.feeds = (
            {name: a[start : start + BATCH] if a.ndim and len(a) == rows else a for name, a in feeds.items()}
            for start in range(0, rows, BATCH)
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self.feeds, None)


def dynamic(model: Path, data: Path, result: Path) -> None:
    quantize_dynamic(model, result)


def static(model: Path, data: Path, result: Path) -> None:
    quantize_static(model, result, Batches(model, data))


def static_per_channel(model: Path, data: Path, result: Path) -> None:
    """Unsigned activations, signed weights with a scale for each channel, after onnxruntime's preparation of the model.

    If it cannot prepare the model, it is tried without symbolic shapes, and the model is then quantized as it is.
    """
    with TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        for options in ({}, {"skip_symbolic_shape": True}):
            try:
                quant_pre_process(model, prepared, **options)
            except Exception as e:  # noqa: BLE001 - it raises whatever its shape inference and the session raise
                print(f"quant_pre_process: {e}")
            else:
                break
        source = prepared if prepared.exists() else model
        quantize_static(
            source, result, Batches(source, data), QuantFormat.QDQ,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
        )  # fmt: skip


RECIPES: dict[str, Callable[[Path, Path, Path], None]] = {
    "ORT dynamic": dynamic,
    "ORT static": static,
    "ORT U8S8": static_per_channel,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="inputs to calibrate, as .npz")
    parser.add_argument("result", type=Path)
    options = parser.parse_args()
    files = (options.model.resolve(), options.data.resolve(), options.result.resolve())
    try:
        with TemporaryDirectory() as folder, chdir(folder):  # symbolic shape inference leaves files where it runs
            RECIPES[options.recipe](*files)
    except Exception as e:  # noqa: BLE001 - any failure of the recipe is a result, in a line
        sys.exit(f"{type(e).__name__}: {' '.join(str(e).split())[:200]}")


if __name__ == "__main__":
    main()
