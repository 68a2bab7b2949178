"""An engine with precisions that are less exact: bf16 by a little, f8 by much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from passwright.core import Engine, EngineSession, EngineSettings, find_engine

ERRORS = {"f32": 0.0, "bf16": 1e-3, "f8": 0.3}


class InexactSession(EngineSession):
    def __init__(self, session: EngineSession, precision: str) -> None:
        self.session, self.precision = session, precision
        self.inputs, self.outputs = session.inputs, session.outputs

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        return [value * (1 + ERRORS[self.precision]) for value in self.session.run(outputs, feeds)]


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    return InexactSession(find_engine("onnxruntime").load(model, settings), settings.precision)


ENGINE = Engine("inexact", load, precisions=tuple(ERRORS))
