"""Build the golden models with the packages of the running python: make.py runs this module in its venv."""

import argparse
import json
import logging
import shutil
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import torch
from google.protobuf.message import Message
from onnx import AttributeProto, ModelProto, NodeProto, StringStringEntryProto

from . import (
    cnn,
    control,
    decoders,
    encoders,
    handwritten,
    keras_,
    quantized,
    recommenders,
    signals,
    sklearn_,
    storage,
    training,
    vision,
)
from .check import BadModelError, check
from .recipe import Recipe

HERE = Path(__file__).resolve().parent
FAMILIES = (
    cnn, vision, signals, encoders, decoders, recommenders, control, training, storage, quantized, keras_, sklearn_,
    handwritten,
)  # fmt: skip
MAX_BYTES, MAX_TOTAL = 1_000_000, 12_000_000


def histogram(model: ModelProto) -> dict[str, int]:
    """Count the ops of all nodes, those of subgraphs and local functions too."""
    counts: Counter[str] = Counter()

    def count(nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            counts[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                for graph in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                    count(graph.node)

    count(model.graph.node)
    for function in model.functions:
        count(function.node)
    return dict(sorted(counts.items()))


def shorten_paths(message: Message) -> None:
    """Cut the folders of this machine off the file names in the stack traces that torch leaves in metadata."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for item in value if descriptor.is_repeated else [value]:
            if not isinstance(item, StringStringEntryProto):
                shorten_paths(item)
                continue
            for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), str(HERE.parent)):
                item.value = item.value.replace(folder + "/", "")


def write_metadata(recipe: Recipe, exporter: str, model: ModelProto) -> None:
    """Write the JSON beside the model, keeping what later steps put under `after` and `best_peer`."""
    path = HERE / f"{recipe.name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    facts = {"source": recipe.description, "exporter": exporter, "opset": opset, "before": histogram(model)}
    facts |= {key: kept[key] for key in kept if key in {"after", "best_peer"}}
    path.write_text(json.dumps(facts, indent=1) + "\n")


def build(recipe: Recipe) -> str:
    """Export in a temporary folder, check there, move here; return one line about it."""
    torch.manual_seed(0)
    np.random.seed(0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{recipe.name}.onnx"
        exporter = recipe.build(path)
        model = onnx.load(path, load_external_data=False)
        shorten_paths(model)
        path.write_bytes(model.SerializeToString(deterministic=True))
        check(path, recipe)
        files = sorted(Path(folder).iterdir())
        size = sum(file.stat().st_size for file in files)
        if size > MAX_BYTES:
            raise BadModelError(f"{size} bytes, more than {MAX_BYTES}")
        for file in files:
            shutil.move(file, HERE / file.name)
    write_metadata(recipe, exporter, model)
    return f"{size:>7} bytes {sum(histogram(model).values()):>5} nodes  {exporter}"


def build_all(recipes: Iterable[Recipe]) -> int:
    """Build each; return how many failed."""
    failed = 0
    for recipe in recipes:
        try:
            print(f"{recipe.name:<24}{build(recipe)}", flush=True)
        except Exception as error:  # Exporters fail in every way there is; the other models can still be made.
            failed += 1
            text = " ".join(str(error).split())[:300]
            print(f"{recipe.name}: {type(error).__name__}: {text}", file=sys.stderr, flush=True)
    total = sum(path.stat().st_size for path in HERE.glob("*.onnx*"))
    if total > MAX_TOTAL:
        print(f"all together: {total} bytes, more than {MAX_TOTAL}", file=sys.stderr)
        failed += 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    recipes = {recipe.name: recipe for family in FAMILIES for recipe in family.RECIPES}
    unknown = [name for name in asked.names if name not in recipes]
    if unknown:
        print(f"{', '.join(unknown)}: no such model, see --list", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(f"{name:<24}{recipe.source}" for name, recipe in recipes.items()))
        return 0
    logging.disable(logging.WARNING)  # torch tells of every optional package it does not find.
    warnings.simplefilter("ignore")
    return 1 if build_all([recipes[name] for name in asked.names or recipes]) else 0


if __name__ == "__main__":
    sys.exit(main())
