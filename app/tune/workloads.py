"""Workloads of a search: inputs of several sizes, on which all configurations are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from typing import Any, cast

import numpy as np

from ...core.errors import UsageError
from ...core.io.model_source import ModelSource
from ...core.verify.given_inputs import GivenSamples, with_given_shapes
from ...core.verify.input_specs import input_specs
from ..measure.feeds import batch_symbol, make_feeds
from ..optimize.content_digests import content_digest

MAX_WORKLOADS = 16  # combinations of sizes


@dataclass(frozen=True, slots=True)
class Workload:
    """Inputs of one size: `name`, as in `batch=8,seq=64`, and the number of samples in them."""

    name: str
    samples: int
    feeds: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """A digest of the inputs."""
        return content_digest([(name, _content(value)) for name, value in sorted(self.feeds.items())])


def _content(value: Any) -> Any:
    """The elements of an input as data with a text."""
    if isinstance(value, list):
        return [_content(part) for part in cast("list[Any]", value)]
    array = np.asarray(value)
    elements = array.tolist() if array.dtype == np.object_ else sha256(array.tobytes()).hexdigest()
    return [str(array.dtype), list(array.shape), elements]


def make_workloads(
    source: ModelSource,
    given: GivenSamples | None,
    dims: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[int]],
    seed: int,
) -> tuple[list[Workload], list[str]]:
    """The inputs at all combinations of `dims`, sizes by symbol, and notes about those that are missing.

    Given inputs are tiled or cut for other batches; other sizes are theirs. Raises ModelError, UnverifiableError as
    `make_feeds` does, UsageError for too many combinations and for other sizes of given inputs.
    """
    symbol = batch_symbol(with_given_shapes(shapes, input_specs(source.load())))
    batches = dims.get(symbol, ()) if symbol is not None else ()
    others = {name: sizes for name, sizes in dims.items() if name != symbol}
    if given is not None and others:
        raise UsageError(f"--dim {next(iter(others))}: the sizes of given inputs are theirs; leave out --inputs or it")
    combinations = [dict(zip(others, sizes, strict=True)) for sizes in product(*others.values())]
    if len(combinations) * max(len(batches), 1) > MAX_WORKLOADS:
        raise UsageError(f"--dim: more than {MAX_WORKLOADS} combinations of sizes")
    found: list[Workload] = []
    notes: dict[str, None] = {}
    for sizes in combinations:
        wanted = batches or (() if given is not None else (1,))
        made = make_feeds(source, given, wanted, sizes, seed, shapes=shapes or None)
        notes |= dict.fromkeys([made.note] if made.note else [])
        for batch, feeds in made.by_batch.items():
            named = ({symbol: batch} if symbol is not None else {}) | made.sizes
            found.append(Workload(",".join(f"{n}={size}" for n, size in named.items()) or "fixed", batch, feeds))
    return found, list(notes)
