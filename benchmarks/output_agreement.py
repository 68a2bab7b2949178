"""Agreement of the outputs of two models: `python benchmarks/output_agreement.py ORIGINAL.onnx OPTIMIZED.onnx`.

Exit code 1 and one line if they do not. A check of the benchmark, not passwright's own verification.
"""

from __future__ import annotations

import passwright  # noqa: F401 - turns off the telemetry of onnxruntime

# isort: split
import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

DYNAMIC_DIM = 3
TOLERANCE = 1e-4  # of an output's largest element

Arrays = dict[str, NDArray[Any]]


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def random_inputs(model: ort.InferenceSession) -> Arrays:
    """Normal float32 inputs; no model here has others."""
    draw = np.random.default_rng(0)
    shapes = {i.name: [d if isinstance(d, int) else DYNAMIC_DIM for d in i.shape] for i in model.get_inputs()}
    return {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def run_model(model: ort.InferenceSession, inputs: Arrays) -> Arrays:
    names = [o.name for o in model.get_outputs()]
    return dict(zip(names, model.run(names, inputs), strict=True))


def difference(expected: Arrays, actual: Arrays) -> str | None:
    """The first difference of `actual`, in a line; None if there is none."""
    if list(expected) != list(actual):
        return f"outputs {', '.join(actual)} instead of {', '.join(expected)}"
    for name, want in expected.items():
        got = actual[name]
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{name}: {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        error, allowed = np.abs(got - want).max(), TOLERANCE * np.abs(want).max()
        if not error <= allowed:
            return f"{name}: off by {error:.3g} (allowed {allowed:.3g})"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("original", type=Path)
    parser.add_argument("optimized", type=Path)
    options = parser.parse_args()
    original = session(options.original)
    inputs = random_inputs(original)
    expected = run_model(original, inputs)
    del original  # its weights
    sys.exit(difference(expected, run_model(session(options.optimized), inputs)))


if __name__ == "__main__":
    main()
