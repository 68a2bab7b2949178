"""The two tiers of the tests: those that run after each change, and those marked slow."""

from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any
from zlib import crc32

import pytest

needs_openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")
GOLDEN_SAMPLE = {"bert_dynamo", "cnn_qdq", "functions", "keras_cnn", "loop_if", "mixer_external", "sklearn_strings"}
"""Golden models that cover the exporters, subgraphs, functions, external data, strings and quantized types."""


def slow_unless(chosen: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """The values of a parametrized test; those that are not `chosen` are marked slow."""
    return [v if v in chosen else pytest.param(v, marks=pytest.mark.slow) for v in values]


class Slow:
    """A row of a table that is only for the slow tests."""

    def __init__(self, *row: Any) -> None:
        self.row = row


def _row(*row: Any) -> tuple[Any, ...]:
    return row


def in_turn(first: Iterable[Any], second: Iterable[Any]) -> Iterator[tuple[Any, Any, Callable[..., Any]]]:
    """All pairs, each with the function for its row: `Slow` for those in which both values are in other pairs, too."""
    rows, columns = list(first), list(second)
    for i, j in product(range(len(rows)), range(len(columns))):
        yield rows[i], columns[j], _row if (i - j) % min(len(rows), len(columns)) == 0 else Slow


def part_of(name: str, parts: int) -> int:
    """The part of all names that a name belongs to, from 0: each of two tests may have one in the first tier."""
    return crc32(name.encode()) % parts
