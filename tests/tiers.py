"""The two tiers of the tests: those that run after each change, and those marked slow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

GOLDEN_SAMPLE = {"bert_dynamo", "cnn_qdq", "functions", "keras_cnn", "loop_if", "mixer_external", "sklearn_strings"}
"""Golden models that have an exporter, subgraphs, functions, external data, strings or quantized types each."""


def slow_unless(chosen: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Values for a parametrized test, of which all that are not `chosen` are slow."""
    return [v if v in chosen else pytest.param(v, marks=pytest.mark.slow) for v in values]
