"""Worker process that runs a model and keeps the statistics of its outputs, so that no value leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EvaluationError, ModelError, UnverifiableError
from ..ort import value_files
from ..ort.backends import OnnxRuntime
from ..ort.sessions import SessionConfig
from ..ort.worker_process import Message, serve
from .statistics import Array, StatisticsCollector

FLOAT_KINDS = frozenset({"float16", "bfloat16", "float32", "float64"})  # names of dtypes


@dataclass(slots=True)
class _Collected:
    """The collector of a value, and the outputs that hold it or summaries of it (`exposure.SUMMARY`)."""

    collector: StatisticsCollector
    tensors: list[str]
    summaries: list[str]
    is_float: bool = True

    def add(self, results: Mapping[str, Any], sample: int) -> None:
        """Add what a run made of the value. Raises ModelError for NaN."""
        for output in self.tensors:
            if isinstance(results[output], list | dict):  # a sequence or map
                self.is_float = False
                continue
            array: Array = np.asarray(results[output])
            self.is_float = self.is_float and array.dtype.name in FLOAT_KINDS
            if self.is_float and array.size:
                self.collector.add(array, sample)
        for output in self.summaries:
            self.collector.add_summary(results[output], sample)


@dataclass(slots=True)
class _State:
    session: OnnxRuntime | None = None
    collected: list[_Collected] = field(default_factory=list[_Collected])

    def run(self, outputs: Iterable[str], feeds: str) -> dict[str, Any]:
        """The outputs by name."""
        assert self.session is not None
        names = list(dict.fromkeys(outputs))
        return dict(zip(names, self.session.run(names, value_files.read_value(Path(feeds))), strict=True))


def serve_collections() -> None:
    """Reply to requests, until the input ends: to load a model, to count elements, and to collect statistics."""
    state = _State()

    def reply(request: Message) -> Iterable[Message]:
        if "model" in request:
            state.session = None  # its memory first
            folder = None if request["folder"] is None else Path(request["folder"])
            config = SessionConfig(**request["config"])
            state.session = OnnxRuntime(Path(request["model"]).read_bytes(), config, folder=folder)
        elif "measure" in request:
            shapes = state.run(request["outputs"], request["measure"])
            yield {"sizes": {name: prod(shape.tolist()) for name, shape in shapes.items()}}
        elif "collect" in request:
            state.collected = [
                _Collected(
                    StatisticsCollector(
                        c["name"],
                        request["histograms"] and not c["summaries"],
                        c["axis"],
                        c["allows_nan"],
                        c["gram"],
                    ),
                    c["tensors"],
                    c["summaries"],
                )
                for c in request["collect"]
            ]
        elif "feeds" in request:
            results = state.run((o for c in state.collected for o in (*c.tensors, *c.summaries)), request["feeds"])
            try:
                for collected in state.collected:
                    collected.add(results, request["sample"])
            except ModelError as e:
                yield {"refusal": str(e)}
        else:
            found = [asdict(c.collector.statistics()) for c in state.collected if c.is_float]
            value_files.write_value(found, Path(request["write"]))

    serve(reply, (EvaluationError, UnverifiableError))


if __name__ == "__main__":
    serve_collections()
