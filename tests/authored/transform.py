"""A transform: a change of the interface that is wanted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from passwright.core import Model, ModelError, RewriteBuilder


@dataclass(frozen=True, slots=True)
class ScaleInput:
    """Divides an input by a number, for callers that have bytes as floats."""

    value: str = "pixels"
    by: float = 255.0
    name: str = "scale-input"

    def transform(self, model: Model) -> int:
        """Divide it before everything that reads it."""
        found = next((v for v in model.graph.inputs if v.name == self.value), None)
        if found is None:
            return 0
        if found.known_dtype != np.float32:
            raise ModelError(f"{self.value} is of {found.known_dtype}, and not of float32")
        readers = list(found.consumers)
        if not readers:
            return 0
        scaled = RewriteBuilder(model.graph, readers[0]).Div(found, self.by)
        for op in readers:
            model.graph.set_inputs(op, [scaled if v is found else v for v in op.inputs])
        return 1


SCALE_INPUT = ScaleInput()
