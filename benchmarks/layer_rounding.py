"""Noise of static quantization with weights rounded to the nearest, and for their inputs by GPTQ.

`python benchmarks/layer_rounding.py DIR NAME...` takes networks of `golden_models/trained/make.py --out DIR`. Prints
the signal to noise of the worst output, in dB, on labelled inputs, which calibrate nothing, with weights of 8 and of 7
bits.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
from passwright.app.measure.agreement import OutputFigures
from passwright.app.quantize.samples import read_calibration_data
from passwright.app.quantize.schemes import Calibration, chosen_schemes
from passwright.app.quantize.search import BuiltCandidate, Trial
from passwright.core.io.model_source import model_source
from passwright.core.verify.input_specs import input_specs
from passwright.passes.targets import QUANTIZATION_TARGETS

from passwright import optimize

CALIBRATING, COMPARED = 64, 64
TARGETS = {8: "x86-vnni", 7: "x86"}
Feeds = Mapping[str, Any]


def decibels(original: Path, made: Path, samples: Sequence[Feeds]) -> float:
    """The signal to noise of the worst output."""
    runs = [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in (original, made)]
    names = [v.name for v in runs[0].get_outputs() if "float" in v.type]
    noises = [OutputFigures() for _ in names]
    for feeds in samples:
        wanted, found = (run.run(names, dict(feeds)) for run in runs)
        for noise, a, b in zip(noises, wanted, found, strict=True):
            noise.add(a, b)
    return float(-10 * np.log10(max(noise.relative_noise for noise in noises)))


def measure(path: Path, folder: Path) -> list[float]:
    """The figures of each number of bits, to the nearest and by GPTQ."""
    inputs = input_specs(model_source(path, inline=True).load())
    data, unseen = (
        read_calibration_data([str(path.with_name(f"{path.stem}_{kind}.npz"))], inputs, limit=limit)
        for kind, limit in (("calibration", CALIBRATING), ("labelled", COMPARED))
    )
    file = folder / "float.onnx"
    optimize(path, "ort", inputs=data[0], verify=False).save(file)
    source = model_source(file, inline=True)
    calibration, figures = Calibration(source, data), []
    for target in TARGETS.values():
        spec = QUANTIZATION_TARGETS[target].spec({})
        variants = dict(chosen_schemes("static", source, calibration, spec, calibrate="minmax")["static"])
        best: BuiltCandidate | None = None
        for name in ("minmax", "GPTQ"):
            builder = variants[name](best)
            assert builder is not None
            candidate = builder.build()
            best = BuiltCandidate(builder, candidate, folder / f"{name}.onnx", {}, Trial("static", name, 0, 0, 0))
            candidate.save(best.path)
            figures.append(decibels(file, best.path, list(islice(unseen, COMPARED))))
    return figures


def main() -> None:
    for name in sys.argv[2:]:
        with TemporaryDirectory() as folder:
            figures = measure(Path(sys.argv[1]) / f"{name}.onnx", Path(folder))
        pairs = zip(TARGETS, figures[::2], figures[1::2], strict=True)
        text = "; ".join(f"{bits} bits {nearest:.1f}, by GPTQ {rounded:.1f} dB" for bits, nearest, rounded in pairs)
        print(f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
