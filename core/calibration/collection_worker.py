"""Worker process that runs a model and keeps the statistics of its outputs, so that no value leaves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..errors import EvaluationError, ModelError, UnverifiableError
from ..ort import value_files
from ..ort.sessions import UNOPTIMIZED, SessionConfig
from ..ort.worker_process import Message, serve
from .observed_graphs import Observation, ObservedGraph
from .statistics import Array, StatisticsCollector

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
class _State:
    """The file of a model, the values to collect, and the graph that is run for them."""

    path: Path = Path()
    folder: Path | None = None
    config: SessionConfig = UNOPTIMIZED
    collected: dict[str, _Collected] = field(default_factory=dict[str, _Collected])
    observed: ObservedGraph | None = None

    def observe(self, names: Iterable[str], *, shapes: bool = False) -> ObservedGraph:
        """The model that gives some values, or their shapes."""
        self.observed = None  # its memory first
        observation = Observation(frozenset(names), self.config, self.folder, shapes)
        return ObservedGraph.of_model(onnx.ModelProto.FromString(self.path.read_bytes()), observation)

    def sizes(self, names: Iterable[str], feeds: Path) -> dict[str, int]:
        """The greatest number of elements that each value that can be observed has on a sample."""
        observed = self.observe(names, shapes=True)
        found = dict.fromkeys(observed.names, 0)

        def measure(name: str, shape: Array) -> None:
            found[name] = max(found[name], prod(shape.tolist()))

        observed.run(value_files.read_value(feeds), measure)
        return found

    def add(self, sample: int, feeds: Path) -> None:
        """Add the values of a sample to the statistics."""
        assert self.observed is not None
        self.observed.run(value_files.read_value(feeds), lambda name, value: self.collected[name].add(value, sample))


def serve_collections() -> None:
    """Reply to requests, until the input ends: to load a model, to count elements, and to collect statistics."""
    state = _State()

    def reply(request: Message) -> Iterable[Message]:
        if "model" in request:
            state.path = Path(request["model"])
            state.folder = None if request["folder"] is None else Path(request["folder"])
            state.config = SessionConfig(**request["config"])
        elif "measure" in request:
            yield {"sizes": state.sizes(request["measure"], Path(request["feeds"]))}
        elif "collect" in request:
            state.collected = {
                c["name"]: _Collected(
                    StatisticsCollector(c["name"], request["histograms"], c["axis"], c["allows_nan"], c["gram"])
                )
                for c in request["collect"]
            }
            state.observed = state.observe(state.collected)
        elif "feeds" in request:
            try:
                state.add(request["sample"], Path(request["feeds"]))
            except ModelError as e:
                yield {"refusal": str(e)}
        else:
            found = [asdict(c.collector.statistics()) for c in state.collected.values() if c.is_float]
            value_files.write_value(found, Path(request["write"]))

    serve(reply, (EvaluationError, UnverifiableError))


if __name__ == "__main__":
    serve_collections()
