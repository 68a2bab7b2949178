"""Build the golden models with the packages of the running python: make.py runs this module in its venv."""

import argparse
import json
import logging
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from .families import LARGE_MODELS, TINY_MODELS, FamilyModel
from .recipe import Recipe

HERE = Path(__file__).resolve().parent
MODULES = (
    cnn, vision, signals, encoders, decoders, recommenders, control, training, storage, quantized, keras_, sklearn_,
    handwritten,
)  # fmt: skip


def histogram(model: ModelProto) -> dict[str, int]:
    """Count the ops of all nodes, those of subgraphs and local functions too."""
    counts: Counter[str] = Counter()

    def count(nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            counts[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
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


def drop_metadata(model: ModelProto) -> None:
    """Drop what torch notes of its own at each node, two thirds of a tiny model."""
    for node in model.graph.node:
        del node.metadata_props[:]


def write_metadata(recipe: Recipe, exporter: str, model: ModelProto, folder: Path) -> None:
    """Write the JSON beside the model, keeping what later steps put under `after` and `best_peer`."""
    path = folder / f"{recipe.name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    facts = {"source": recipe.description, "exporter": exporter, "opset": opset, "before": histogram(model)}
    if recipe.family:
        below = {name: max(values) + 1 for name, values in recipe.values.items()}
        facts |= {"family": recipe.family, "below": below, "workloads": recipe.workloads}
    facts |= {key: kept[key] for key in kept if key in {"after", "best_peer"}}
    path.write_text(json.dumps(facts, indent=1) + "\n")


@dataclass(frozen=True)
class Collection:
    """Models, the folder they are kept in, and the most bytes of one and of all."""

    models: Mapping[str, Recipe | FamilyModel]
    folder: Path
    max_bytes: int
    max_total: int

    def build(self, name: str) -> str:
        """Export in a temporary folder, check there, move; return one line about it."""
        torch.manual_seed(0)
        np.random.seed(0)
        chosen = self.models[name]
        recipe = chosen.recipe() if isinstance(chosen, FamilyModel) else chosen
        with TemporaryDirectory(dir=self.folder) as temporary:
            path = Path(temporary) / f"{name}.onnx"
            exporter = recipe.build(path)
            model = onnx.load(path, load_external_data=False)
            shorten_paths(model)
            if recipe.family:
                drop_metadata(model)
            path.write_bytes(model.SerializeToString(deterministic=True))
            check(path, recipe)
            files = sorted(Path(temporary).iterdir())
            size = sum(file.stat().st_size for file in files)
            if size > self.max_bytes:
                raise BadModelError(f"{size} bytes, more than {self.max_bytes}")
            for file in files:
                file.replace(self.folder / file.name)
        write_metadata(recipe, exporter, model, self.folder)
        return f"{size:>9} bytes {sum(histogram(model).values()):>5} nodes  {exporter}"

    def build_all(self, names: Iterable[str]) -> int:
        """Build each; return how many failed."""
        failed = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                print(f"{name:<32}{self.build(name)}", flush=True)
            except Exception as error:  # Exporters fail in every way there is; the other models can still be made.
                failed += 1
                text = " ".join(str(error).split())[:300]
                print(f"{name}: {type(error).__name__}: {text}", file=sys.stderr, flush=True)
        total = sum(path.stat().st_size for path in self.folder.glob("*.onnx*"))
        if total > self.max_total:
            print(f"all together: {total} bytes, more than {self.max_total}", file=sys.stderr)
            failed += 1
        return failed


def collection(families: str | None, out: Path | None) -> Collection:
    """The golden models, or the `tiny` or `large` ones of families, in `out` or in their place."""
    if families == "large":
        return Collection({m.name: m for m in LARGE_MODELS}, out or HERE / "large", 2_000_000_000, 8_000_000_000)
    if families == "tiny":
        return Collection({m.name: m for m in TINY_MODELS}, out or HERE / "families", 300_000, 9_000_000)
    recipes = {recipe.name: recipe for module in MODULES for recipe in module.RECIPES}
    return Collection(recipes, out or HERE, 1_000_000, 12_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--families", choices=("tiny", "large"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = collection(asked.families, asked.out)
    unknown = [name for name in asked.names if name not in found.models]
    if unknown:
        print(f"{', '.join(unknown)}: no such model, see --list", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(f"{name:<32}{model.description}" for name, model in found.models.items()))
        return 0
    logging.disable(logging.WARNING)  # torch tells of every optional package it does not find.
    warnings.simplefilter("ignore")
    return 1 if found.build_all(asked.names or found.models) else 0


if __name__ == "__main__":
    sys.exit(main())
