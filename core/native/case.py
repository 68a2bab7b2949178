"""What a process of its own is to hold onnxruntime to: a model, inputs and the original's answers, in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..sessions import Loadable
from ..verify.oracle import Oracle
from . import transport

INDEX = "case.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A model, the names of its outputs, those that are `random`, and the draws by the words for them."""

    folder: Path
    model: Loadable
    names: list[str]
    random: list[str]
    draws: list[str]

    def answers(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Each draw: the words for it, what is fed, what the original gives."""
        for i, label in enumerate(self.draws):
            yield label, transport.read(self.folder / f"feeds-{i}"), transport.read(self.folder / f"outputs-{i}")


def write_case(oracle: Oracle, model: Loadable, folder: Path) -> None:
    """Put all of it into an empty `folder`, but not a model that has a file. Raises Unverifiable for odd values."""
    path = folder / "model.onnx"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        path = model.absolute()
    for i, answer in enumerate(oracle.answers):
        transport.write(answer.draw.feeds, folder / f"feeds-{i}")
        transport.write(answer.outputs, folder / f"outputs-{i}")
    draws = [str(answer.draw) for answer in oracle.answers]
    index = {"model": str(path), "names": oracle.names, "random": sorted(oracle.random), "draws": draws}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def read_case(folder: Path) -> Case:
    """What `write_case` put there."""
    index: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    path = Path(index["model"])
    model = path.read_bytes() if path.parent == folder else path  # as it came: errors name the file
    return Case(folder, model, index["names"], index["random"], index["draws"])
