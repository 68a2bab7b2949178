"""A trained network with data to calibrate and to judge it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class LabelledModel:
    """The inputs have a row for each sample, but those without a batch; `labelled` holds `labels` too.

    No sample is in both sets, and the even rows of the labelled set are a set of their own. `source`: the package with
    its version, or how the network was trained.
    """

    model: ModelProto | Path
    calibration: Arrays
    labelled: Arrays
    source: str


@dataclass(frozen=True)
class TrainedModel:
    """`metric` is a function of metrics.py; without one it is top-1. `lowest`: what the float model must reach."""

    name: str
    description: str
    make: Callable[[], LabelledModel]
    metric: str
    lowest: float
