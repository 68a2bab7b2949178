"""Magika, a classifier of files, on the files of packages with their extensions as labels."""

import json
import sysconfig
from collections import defaultdict
from pathlib import Path

import numpy as np

from .labelled_model import LabelledModel, TrainedModel
from .packages import PYPI, source, unpacked

PER_TYPE = 40  # files of a type at most; a fifth of them for calibration


def features(content: bytes, beginning: int, end: int, block: int, padding: int, **_: object) -> list[int]:
    """The first and last bytes without white space at the ends, as magika's own extraction yields them."""
    first, last = content[:block].lstrip()[:beginning], content[-block:].rstrip()[-end:]
    return [*first, *[padding] * (beginning - len(first)), *[padding] * (end - len(last)), *last]


def labels_by_extension(package: Path, labels: list[str]) -> dict[str, int]:
    """The class of each extension that only one of the model's classes has."""
    known = json.loads((package / "config" / "content_types_kb.min.json").read_text())
    found = defaultdict(list)
    for label in labels:
        for extension in known[label]["extensions"]:
            found[extension].append(labels.index(label))
    return {extension: classes[0] for extension, classes in found.items() if len(classes) == 1}


def files() -> list[Path]:
    """Those of the installed packages, and of the ones fetched by this recipe."""
    folders = [Path(sysconfig.get_path("purelib")), *(unpacked(name) for name in PYPI)]
    return sorted(path for folder in folders for path in folder.rglob("*.*") if path.is_file())


def make() -> LabelledModel:
    package = unpacked("magika") / "magika"
    model = package / "models" / "standard_v3_3"
    config = json.loads((model / "config.min.json").read_text())
    sizes = {"beginning": config["beg_size"], "end": config["end_size"], "block": config["block_size"]}
    classes = labels_by_extension(package, config["target_labels_space"])
    by_class = defaultdict(list)
    for path in files():
        extension = path.suffix[1:].lower()
        if extension in classes and path.stat().st_size >= 64:  # shorter ones have no type
            by_class[classes[extension]].append(path)
    rows, seen, draw = defaultdict(list), set(), np.random.default_rng(0)
    for label, paths in sorted(by_class.items()):
        for n, i in enumerate(draw.permutation(len(paths))[:PER_TYPE]):
            row = tuple(features(paths[i].read_bytes(), **sizes, padding=config["padding_token"]))
            if row not in seen:
                seen.add(row)
                rows["labelled" if n % 5 else "calibration"].append((row, label))
    calibration, labelled = (
        {"bytes": np.array([row for row, _ in rows[part]], np.int32)} for part in ("calibration", "labelled")
    )
    truth = np.array([label for _, label in rows["labelled"]])
    return LabelledModel(model / "model.onnx", calibration, {**labelled, "labels": truth}, source("magika"))


MODELS = (TrainedModel("magika", "classifier of files by 2048 of their bytes", make, "", 0.85),)
