"""Build the trained models with the packages of the running python: make.py runs this module in its venv."""

import argparse
import json
import logging
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import onnx

from . import metrics
from .answers import outputs
from .catalogue import MODELS
from .labelled_model import TrainedModel

HERE = Path(__file__).resolve().parent


def top_1(found: dict[str, np.ndarray], labels: np.ndarray) -> float:
    return float(np.mean(np.argmax(next(iter(found.values())), -1) == labels))


def build(trained: TrainedModel, folder: Path) -> str:
    """Write the model, its two sets and its facts; return one line about it. Raises ValueError if it predicts badly."""
    made = trained.make()
    path = folder / f"{trained.name}.onnx"
    if isinstance(made.model, Path):
        path.write_bytes(made.model.read_bytes())
    else:
        path.write_bytes(made.model.SerializeToString(deterministic=True))
    onnx.checker.check_model(path)
    np.savez_compressed(folder / f"{trained.name}_calibration.npz", **made.calibration)
    np.savez_compressed(folder / f"{trained.name}_labelled.npz", **made.labelled)
    metric = getattr(metrics, trained.metric) if trained.metric else top_1
    labels = made.labelled["labels"]
    value = float(metric(outputs(path, made.labelled, len(labels)), labels))
    if value < trained.lowest:
        raise ValueError(f"{metric.__name__} is {value:.4f}, less than {trained.lowest}")
    facts = {
        "description": trained.description, "source": made.source, "metric": trained.metric, "float32": round(value, 6),
    }  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    size = path.stat().st_size
    return f"{size:>9} bytes  {metric.__name__} {value:.4f} of {len(labels)}  {made.source}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = {model.name: model for model in MODELS}
    if asked.list:
        print("\n".join(f"{name:<22}{model.description}" for name, model in found.items()))
        return 0
    if unknown := [name for name in asked.names if name not in found]:
        print(f"{', '.join(unknown)}: no such model, see --list", file=sys.stderr)
        return 2
    logging.disable(logging.WARNING)  # torch tells of every optional package it does not find.
    warnings.simplefilter("ignore")
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "metrics.py").write_bytes((HERE / "metrics.py").read_bytes())
    failed = 0
    for name in asked.names or found:
        try:
            print(f"{name:<22}{build(found[name], asked.out)}", flush=True)
        except Exception:  # A package or an exporter can fail in every way; the other models can still be made.
            failed += 1
            print(f"{name}: {traceback.format_exc()}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
