"""Worker process that runs a model up to one layer after the other, whose constants may change before it runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.external_data_helper import load_external_data_for_model

from ..ir.op_schemas import canonical_domain
from ..ort import value_files
from ..ort.backends import LoadedModel
from ..ort.parted_session import DividedModel, Part, type_of
from ..ort.sessions import UNOPTIMIZED, SessionConfig
from ..processes.worker_process import module_command, serve
from .statistics import Array, Rows

WORKER = module_command(__name__)


@dataclass(slots=True)
class LayerRun:
    """A run of a model on all samples at once; layers are named after their results.

    `values` are those that the parts yet to run read, of each sample, and of `held` layers.
    """

    config: SessionConfig = UNOPTIMIZED
    model: DividedModel | None = None
    parts: list[Part] = field(default_factory=list[Part])
    values: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    held: set[str] = field(default_factory=set[str])

    def load(
        self, path: Path, layers: Collection[str], samples: Sequence[Path], config: SessionConfig, *, holds: bool
    ) -> None:
        """Begin to run a model; with `holds`, the results of layers are kept until `rows` has returned them."""
        self.config, self.held = config, {*layers} if holds else set()
        message = onnx.ModelProto.FromString(path.read_bytes())
        load_external_data_for_model(message, str(path.parent))
        self.model = DividedModel(message, lambda n: n.op_type == "Constant" and not canonical_domain(n.domain))
        self.parts = self.model.parts(lambda n: not {*n.output}.isdisjoint(layers), alone=True)
        self.values = [value_files.read_value(sample) for sample in samples]

    def next_layer(self) -> str | None:
        """Run up to the next layer, and return its name; None if there is none. Raises EvaluationError."""
        while self.parts and not self.parts[0].is_other:
            self._run(self.parts.pop(0))
        return self.parts[0].nodes[0].output[0] if self.parts else None

    def run_layer(self) -> None:
        """Run the next layer. Raises EvaluationError."""
        self._run(self.parts.pop(0))

    def run_until(self, name: str) -> None:
        """Run until a layer has its result. Raises EvaluationError."""
        while name not in self.values[0]:
            self._run(self.parts.pop(0))

    def _run(self, part: Part) -> None:
        assert self.model is not None
        types = {n: type_of(n, self.values[0][n], None) for n in part.reads if n in self.values[0]}
        session = LoadedModel(self.model.part_model(part, types).SerializeToString(), self.config)
        later = self.held.union(*(p.reads for p in self.parts))
        for number, values in enumerate(self.values):
            made = zip(part.makes, session.run(part.makes, {n: values[n] for n in types}), strict=True)
            self.values[number] = {name: v for name, v in (*values.items(), *made) if name in later}

    def rows(self, name: str, rows: Rows, most: int) -> Array:
        """The rows of a value of all samples, of windows at most so many of each."""
        found = [np.concatenate([*rows.of(np.asarray(values[name]), most)]) for values in self.values]
        self.held.discard(name)
        return np.concatenate(found)

    def replace(self, name: str, index: int, constant: Array) -> None:
        """Replace an input of the node that makes a value, or append it."""
        assert self.model is not None
        node = next(node for node in self.model.nodes if name in node.output)
        new = f"{name} {index}"
        self.model.initializers[new] = numpy_helper.from_array(constant, new)
        node.input[index:] = [new, *node.input[index + 1 :]]


def main() -> None:
    """Serve the parent until it ends."""
    serve(LayerRun())
