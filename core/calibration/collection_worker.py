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
class _Collected:
    """The collector of a value, which may turn out not to be of floats."""

    collector: StatisticsCollector
    is_float: bool = True

    def add(self, value: Any, sample: int) -> None:
        """Add what a run made of the value. Raises ModelError for NaN."""
        if isinstance(value, list | dict) or value is None:  # a sequence, a map, an optional
            self.is_float = False
            return
        array: Array = np.asarray(value)
        self.is_float = self.is_float and array.dtype.name in FLOAT_KINDS
        if self.is_float and array.size:
            self.collector.add(array, sample)


@dataclass(slots=True)
class CollectionWorker:
    """The file of a model, the values to collect, and the graph that is run for them."""

    path: Path = Path()
    folder: Path | None = None
    config: SessionConfig = UNOPTIMIZED
    collected: dict[str, _Collected] = field(default_factory=dict[str, _Collected])
    observed: ObservedGraph | None = None

    def load(self, path: Path, folder: Path | None, config: SessionConfig) -> None:
        """Take the model of a file, with external weights in `folder`."""
        self.path, self.folder, self.config = path, folder, config

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
        self.collected = {c.name: _Collected(c) for c in collectors}
        self.observed = self._observe(self.collected)

    def add(self, sample: int, feeds: Path) -> None:
        """Add the values of a sample to the statistics. Raises ModelError for NaN, EvaluationError."""
        assert self.observed is not None
        self.observed.run(value_files.read_value(feeds), lambda name, value: self.collected[name].add(value, sample))

    def statistics(self) -> list[ValueStatistics]:
        """The statistics of the values that are floats."""
        return [c.collector.statistics() for c in self.collected.values() if c.is_float]

    def _observe(self, names: Iterable[str], *, shapes: bool = False) -> ObservedGraph:
        """The model that gives some values, or their shapes."""
        self.observed = None  # its memory first
        observation = Observation(frozenset(names), self.config, self.folder, shapes)
        return ObservedGraph.of_model(onnx.ModelProto.FromString(self.path.read_bytes()), observation)


def main() -> None:
    """Serve the parent until it ends."""
    serve(CollectionWorker())
