"""Accuracy and size of weights in blocks: `python benchmarks/weight_blocks.py MODEL.onnx`.

Rounds the first eight matrices of at most a million weights, with 4 bits clipped and with 8 bits to the nearest, as the
first variants of `weights4` and `weights8` do with `--block-size`.
Prints the signal to noise in dB and the bytes against those of floats.
"""

from __future__ import annotations

import sys
from itertools import islice, product
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from passwright.passes.quantization.weight_rounding import Grid, rounded_weights
from passwright.passes.quantization.weights import BLOCKS

MATRICES, FEWEST, MOST = 8, 128, 1_000_000


def measured(matrices: list[Any], bits: int, block: int, *, symmetric: bool) -> tuple[float, float]:
    """The signal to noise, and the share of the bytes."""
    half = 1 << (bits - 1)
    least = -half if bits < 8 else 1 - half
    grid = Grid(least, half - 1, 0, block) if symmetric else Grid(0, 2 * half - 1, None, block)
    noise = signal = held = 0.0
    for w in matrices:
        made = rounded_weights(w, grid, "mse" if bits == 4 else "nearest").weights(grid.extent(len(w)))
        noise, signal = noise + np.square(made - w).sum(), signal + np.square(w).sum()
        blocks = -(-len(w) // block)
        held += w.shape[1] * blocks * (block * bits + 32 + (0 if symmetric else bits)) / 8
    return float(10 * np.log10(signal / noise)), held / sum(4 * w.size for w in matrices)


def main() -> None:
    weights = (numpy_helper.to_array(t) for t in onnx.load(sys.argv[1]).graph.initializer if t.data_type == 1)
    fitting = (w.astype(np.float64) for w in weights if w.ndim == 2 and min(w.shape) >= FEWEST and w.size <= MOST)
    matrices = list(islice(fitting, MATRICES))
    for bits, symmetric, block in product((4, 8), (True, False), BLOCKS):
        decibels, share = measured(matrices, bits, block, symmetric=symmetric)
        kind = "symmetric" if symmetric else "asymmetric"
        print(f"{bits} bits, {kind:10}, blocks of {block:3}: {decibels:5.1f} dB, {share:.3f} of the bytes", flush=True)


if __name__ == "__main__":
    main()
