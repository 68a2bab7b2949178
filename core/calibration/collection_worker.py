"""Worker process that runs a model and keeps the statistics of its outputs, so that no value leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..ort import value_files
from ..ort.sessions import UNOPTIMIZED, SessionConfig
from ..processes.worker_process import serve
from .observed_graphs import Observation, ObservedGraph
from .statistics import Array, StatisticsCollector, ValueStatistics

FLOAT_KINDS = frozenset({"float16", "bfloat16", "float32", "float64"})  # names of dtypes


@dataclass(slots=True)
class CollectionWorker:
    """The file of a model, the collectors of values, and the graph that is run for them."""

    path: Path = Path()
    config: SessionConfig = UNOPTIMIZED
    collectors: dict[str, StatisticsCollector] = field(default_factory=dict[str, StatisticsCollector])
    observed: ObservedGraph | None = None

    def load(self, path: Path, config: SessionConfig) -> None:
        """Take the model of a file, with external weights beside it."""
        self.path, self.config = path, config

    def sizes(self, names: Iterable[str], feeds: Path) -> dict[str, int]:
        """The greatest number of elements that each value that can be observed has on a sample."""
        observed = self._observe(names, shapes=True)
        found = dict.fromkeys(observed.names, 0)

        def measure(name: str, shape: Array) -> None:
            found[name] = max(found[name], prod(shape.tolist()))

        observed.run(value_files.read_value(feeds), measure)
        return found

    def collect(self, collectors: Sequence[StatisticsCollector]) -> None:
        """Begin to collect the statistics of some values."""
        self.collectors = {c.name: c for c in collectors}
        self.observed = self._observe(self.collectors)

    def add(self, sample: int, feeds: Path) -> None:
        """Add the values of a sample to the statistics. Raises ModelError for NaN, EvaluationError."""
        assert self.observed is not None

        def collect(name: str, value: Any) -> None:
            if not hasattr(value, "dtype") or value.dtype.name not in FLOAT_KINDS:  # or a sequence, a map, an optional
                self.collectors.pop(name, None)
            elif value.size and name in self.collectors:
                self.collectors[name].add(np.asarray(value), sample)

        self.observed.run(value_files.read_value(feeds), collect)

    def statistics(self) -> list[ValueStatistics]:
        """The statistics of the values that are floats."""
        return [c.statistics() for c in self.collectors.values()]

    def _observe(self, names: Iterable[str], *, shapes: bool = False) -> ObservedGraph:
        """The model that gives some values, or their shapes."""
        self.observed = None  # its memory first
        observation = Observation(frozenset(names), self.config, self.path.parent, shapes)
        return ObservedGraph.of_model(onnx.ModelProto.FromString(self.path.read_bytes()), observation)


def main() -> None:
    """Serve the parent until it ends."""
    serve(CollectionWorker())
