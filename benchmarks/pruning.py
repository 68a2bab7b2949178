"""Accuracy and latency of trained networks by the share of their multiplications that pruning or low rank leaves.

`python benchmarks/pruning.py DIR NAME...` takes networks of `golden_models/trained/make.py --out DIR`. Prints a row of
a table for each share: the figure on all labelled rows, which prune nothing, and the latency on one thread divided by
the latency of the network as `passes run --pipeline ort` writes it, all in one race. With `--low-rank`, the same
networks with weights of low rank are in the race, too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from passwright.app.measure.bench import bench
from passwright.app.quantize.samples import read_calibration_data
from passwright.app.quantize.schemes import LOW_RANK, PRUNED, SHARES, Calibration
from passwright.core.io.model_source import model_source
from passwright.core.io.writer import write_model
from passwright.core.verify.input_specs import input_specs

from passwright import optimize

CALIBRATING = 128  # samples at most, as `passes quantize` takes
MIN_TIME = 0.5


def measure(path: Path, folder: Path, bases: list[str]) -> None:
    """Print the rows of a network."""
    inputs = input_specs(model_source(path, inline=True).load())
    data = read_calibration_data([str(path.with_name(f"{path.stem}_calibration.npz"))], inputs, limit=CALIBRATING)
    files = [folder / "original.onnx"]
    optimize(path, "ort", inputs=data[0], verify=False).save(files[0])
    calibration = Calibration(model_source(files[0], inline=True), data)
    shares = [("", 1.0)]
    for base in bases:
        least = 1.0
        for share in reversed(SHARES):
            reduced, plan = calibration.reduced(base, share)
            if plan.share < least:
                least = plan.share
                shares.append((base, plan.share))
                files.append(folder / f"{base} {share:g}.onnx")
                write_model(reduced.source.load(), files[-1], external=False)
    metric = json.loads(path.with_suffix(".json").read_text())["metric"]
    report = bench(
        files,
        labelled=path.with_name(f"{path.stem}_labelled.npz"),
        metric=f"{path.with_name('metrics.py')}:{metric}" if metric else "",
        threads=1,
        batch=(1,),
        min_time=MIN_TIME,
    )
    for (base, share), found in zip(shares, report.models, strict=True):
        ratio = found.ratios.get(1)
        time = "" if ratio is None else f"{ratio.ratio:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
        size = found.bytes / report.models[0].bytes
        print(f"| {path.stem} | {base} | {share:.2f} | {found.accuracy:.3f} | {time} | {size:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--low-rank", action="store_true")
    given = parser.parse_args()
    bases = [PRUNED.name, *([LOW_RANK.name] if given.low_rank else [])]
    for name in given.names:
        with TemporaryDirectory() as folder:
            measure(given.folder / f"{name}.onnx", Path(folder), bases)


if __name__ == "__main__":
    main()
