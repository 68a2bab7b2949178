"""Noise of static quantization and of stored weights, rounded to the nearest, and for their inputs by GPTQ.

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
KINDS = {"8 bits": ("static", "x86-vnni"), "7 bits": ("static", "x86"), "int8-weights": ("int8-weights", "x86")}
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
    """The figures of each kind, to the nearest and by GPTQ."""
    inputs = input_specs(model_source(path, inline=True).load())
    data, unseen = (
        read_calibration_data([str(path.with_name(f"{path.stem}_{kind}.npz"))], inputs, limit=limit)
        for kind, limit in (("calibration", CALIBRATING), ("labelled", COMPARED))
    )
    file = folder / "float.onnx"
    optimize(path, "ort", inputs=data[0], verify=False).save(file)
    source = model_source(file, inline=True)
    calibration, figures = Calibration(source, data), []
    for scheme, target in KINDS.values():
        spec, method = QUANTIZATION_TARGETS[target].spec({}), "minmax" if scheme == "static" else ""
        variants = dict(chosen_schemes(scheme, source, calibration, spec, calibrate=method)[scheme])
        best: BuiltCandidate | None = None
        for name in (method, "GPTQ"):
            builder = variants[name](best)
            assert builder is not None
            candidate = builder.build()
            made = folder / f"{scheme}{name}.onnx"
            best = BuiltCandidate(builder, candidate, made, {}, Trial(scheme, name, 0, 0, 0))
            candidate.save(made)
            figures.append(decibels(file, made, list(islice(unseen, COMPARED))))
    return figures


def main() -> None:
    for name in sys.argv[2:]:
        with TemporaryDirectory() as folder:
            figures = measure(Path(sys.argv[1]) / f"{name}.onnx", Path(folder))
        pairs = zip(KINDS, figures[::2], figures[1::2], strict=True)
        text = "; ".join(f"{kind} {nearest:.1f}, by GPTQ {rounded:.1f} dB" for kind, nearest, rounded in pairs)
        print(f"{name}: {text}", flush=True)


if __name__ == "__main__":
    main()
