"""The models of the long tests as files for `passes batch`: node cases of the backend suite, and planted mistakes.

    cd tests; python corpora.py DIR
    passes batch DIR/backend --output-dir out --verify thorough --resume
    passes batch DIR/planted.csv --trust-settings --output-dir wrong --resume

All of the first are verified or refused in one line. The column `rejected` of the second names each mistake.
"""

import argparse
import csv
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from node_cases import FREEZE_MODES, backend_cases, freeze_inputs
from planted import MISTAKES
from small_pipeline import PASS_NAMES

PLUGIN = """import sys

sys.path.append({tests!r})
from planted import MISTAKES

PLUGIN = MISTAKES[{name!r}].plugin
"""


def write_backend(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write node cases, in each form of constant inputs, to a new folder."""
    folder.mkdir(parents=True)
    for name in backend_cases() if names is None else names:
        for number, mode in enumerate(FREEZE_MODES):
            onnx.save(freeze_inputs(backend_cases()[name], mode).model, folder / f"{name}.{number}.onnx")


def write_planted(folder: Path, names: Iterable[str] = tuple(MISTAKES)) -> Path:
    """Write planted mistakes to a new folder: model, plugin, and inputs if it needs some; the table beside it."""
    folder.mkdir(parents=True)
    table = folder.with_suffix(".csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("model", "plugin", "only", "inputs"))
        for name in names:
            mistake, plugin, inputs = MISTAKES[name], folder / f"{name}.py", folder / f"{name}.npz"
            plugin.write_text(PLUGIN.format(tests=str(Path(__file__).parent), name=name), encoding="utf-8")
            onnx.save(mistake.model, folder / f"{name}.onnx")
            if mistake.inputs is not None:
                np.savez(inputs, **mistake.inputs)
            given = "" if mistake.inputs is None else json.dumps([str(inputs.absolute())])
            only = (*PASS_NAMES, *dict.fromkeys(by for by, _ in mistake.wrong))
            rows.writerow((f"{folder.name}/{name}.onnx", json.dumps([str(plugin.absolute())]), json.dumps(only), given))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder")
    folder = parser.parse_args().folder
    write_backend(folder / "backend")
    write_planted(folder / "planted")


if __name__ == "__main__":
    main()
