"""Inputs for timing models: one set for each batch size, accepted by the first model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ...core.errors import MORE_MEMORY, EvaluationError, ModelError, UnverifiableError
from ...core.io.model_source import ModelSource, model_source
from ...core.ir.tensor import STRING, element_bits
from ...core.ort.backends import session_memory
from ...core.ort.remote_backend import RemoteBackend
from ...core.support.suggestions import did_you_mean
from ...core.verify.dim_expressions import Sizes
from ...core.verify.given_inputs import (
    GivenSamples,
    Inputs,
    fitting_inputs,
    kind_of_sample,
    sizes_from_shapes,
    with_given_shapes,
)
from ...core.verify.input_generation import generate_input_sets
from ...core.verify.input_search import require_generatable, with_tried_ranks, with_unit_interval_floats
from ...core.verify.input_sets import InputSet
from ...core.verify.input_specs import TENSOR, InputSpec, free_symbols, input_specs
from ...core.verify.sample_rows import batch_symbol, fixed_batch
from ...core.verify.size_assignments import (
    MAX_ELEMENTS,
    MAX_VARIATIONS,
    element_count,
    required_sizes,
    size_assignments,
    sum_relations,
)
from ..registry.python_data import read_given

PREFERRED_SIZES = (64, 32, 16, 8)  # of symbolic dims except the batch; the first with which the model runs is used
RUN_TIMEOUT = 120.0  # seconds of a run
INPUTS_SHARE = 4  # generated inputs may take 1/n of the memory for a model; generating them takes three times as much
SAMPLES_SHARE = 16  # 1/n of that memory, which each of several samples may take
STRING_BYTES = 64  # approximate memory of a string
MAX_FAILURES = 3  # crashes, or runs that together exceed RUN_TIMEOUT, after which to give up
Arrays = Mapping[str, Any]
RunCheck = Callable[[Arrays], str]
"""Returns why a model does not run on arrays, or "" if it runs."""


@dataclass(frozen=True, slots=True)
class Feeds:
    """Arrays by name for each batch size, ascending, and the sizes of symbolic dims except the batch.

    `note` says why a requested batch size is missing.
    """

    by_batch: dict[int, dict[str, Any]] = field(repr=False)
    sizes: Sizes
    note: str = ""


def make_feeds(
    model: ModelSource | str | Path,
    given_inputs: Inputs | GivenSamples | None = None,
    batches: Sequence[int] = (1,),
    dims: Sizes | None = None,
    seed: int = 0,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Feeds:
    """Choose inputs to time a model: the first given sample, repeated or cut for other batch sizes, or generated ones.

    `shapes` of inputs and `dims` fix symbolic sizes; a fixed batch size is the only one. Raises ModelError for inputs,
    shapes and dims that do not fit the model, and UnverifiableError if no inputs can be generated or the model does not
    run.
    """
    source = model if isinstance(model, ModelSource) else model_source(model, inline=False)
    loaded = source.load()
    inputs = with_given_shapes(shapes or {}, input_specs(loaded))
    known = free_symbols(inputs)
    for symbol in dims or {}:
        if symbol not in known:
            hint = did_you_mean(symbol, known) or f" (it has {', '.join(known) or 'none'})"
            raise ModelError(f"--dim {symbol}: the inputs of the model have no such symbol{hint}")
    fixed = sizes_from_shapes(shapes or {}, inputs) | (dims or {})
    given = read_given(given_inputs, loaded)
    if given is None:
        require_generatable(inputs)
    with isolated_run_check(source, [v.name for v in loaded.graph.outputs]) as run_failure:
        if given is not None:
            first, *others = given.samples
            input_set = fitting_inputs(InputSet(kind_of_sample(first.label), {}, first.load()), inputs)
            found = _feeds_from_given(input_set, inputs, batches, run_failure)
            which = f"measured on the first of {len(given.samples)} samples, {first.label}" if others else ""
            return replace(found, note="; ".join(filter(None, (which, found.note))))
        return _generated_feeds(inputs, batches, fixed, seed, _Check.of(source, INPUTS_SHARE, run_failure))


def drawn_feeds(
    source: ModelSource, count: int, seed: int = 0, shapes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[dict[str, Any]]:
    """Generate inputs for one sample, in `count` draws, on which the model runs.

    `shapes` of inputs fix symbolic sizes. Raises UnverifiableError if no inputs can be generated or the model does not
    run.
    """
    loaded = source.load()
    inputs = with_given_shapes(shapes or {}, input_specs(loaded))
    require_generatable(inputs)
    symbol, fixed = batch_symbol(inputs), sizes_from_shapes(shapes or {}, inputs)
    single = fixed if symbol is None else {symbol: 1} | fixed
    with isolated_run_check(source, [v.name for v in loaded.graph.outputs]) as run_failure:
        check = _Check.of(source, SAMPLES_SHARE, run_failure)
        ranked, first = _first_accepted(inputs, single, fixed, seed, check)
        yield dict(first.feeds)
        others = (_accepted_at(ranked, first.sizes, seed, check, draw)[0] for draw in range(1, count))
        yield from (dict(i.feeds) for i in others if i is not None)


@dataclass(frozen=True, slots=True)
class _Check:
    """A check that generated inputs take at most `memory` bytes, and that the model runs on them."""

    memory: int
    run_failure: RunCheck

    @classmethod
    def of(cls, source: ModelSource, share: int, run_failure: RunCheck) -> _Check:
        return cls(session_memory(source.loadable()) // share, run_failure)

    def size_failure(self, inputs: Sequence[InputSpec], sizes: Sizes) -> str:
        """Why inputs of these sizes are not generated, or ""."""
        size = 0
        for i in inputs:
            bits = 8 * STRING_BYTES if i.dtype == STRING else element_bits(i.dtype) if i.dtype else 8
            size += element_count([i], sizes) * bits // 8
        allowed = f"more than the {self.memory / 1e6:.3g} MB allowed for them"
        return f"its inputs would take {size / 1e6:.3g} MB, {allowed}; {MORE_MEMORY}" if size > self.memory else ""


@contextmanager
def isolated_run_check(source: ModelSource, outputs: Sequence[str]) -> Generator[RunCheck]:
    """Run a model without optimizations in a worker process, so that a crash is only a failure.

    Raises UnverifiableError if onnxruntime does not load it, or after too many failures.
    """
    with RemoteBackend() as remote:
        try:
            model = remote(source.loadable())
        except EvaluationError as e:
            raise UnverifiableError(f"{source.label}: {e}") from e
        lost = 0.0

        def run_failure(feeds: Arrays) -> str:
            nonlocal lost
            start = perf_counter()
            try:
                model.try_run(outputs, feeds, RUN_TIMEOUT)
            except EvaluationError as e:
                lost += perf_counter() - start
                if max(lost / RUN_TIMEOUT, remote.crashes) >= MAX_FAILURES:
                    raise UnverifiableError(f"{source.label}: no inputs were found on which it runs: {e}") from e
                return str(e)
            return ""

        yield run_failure


def _feeds_from_given(
    input_set: InputSet, inputs: list[InputSpec], batches: Sequence[int], run_failure: RunCheck
) -> Feeds:
    if failure := run_failure(input_set.feeds):
        raise ModelError(f"the model does not run on the {input_set}: {failure}")
    sizes: Sizes = {}
    for i in inputs:
        value = input_set.feeds.get(i.name)
        if i.type_kind == TENSOR and value is not None:
            sizes |= {d: n for d, n in zip(i.shape, np.shape(value), strict=False) if isinstance(d, str)}
    symbol = batch_symbol(inputs)
    own = sizes.pop(symbol, 0) if symbol is not None else 0
    if symbol is None or not own:
        return _single_batch_feeds(fixed_batch(inputs), input_set.feeds, sizes, batches, inputs)
    found = {own: dict(input_set.feeds)}
    found |= {b: _with_batch_size(input_set.feeds, inputs, symbol, b) for b in sorted(set(batches)) if b != own}
    refused = {b: failure for b, feeds in found.items() if b != own and (failure := run_failure(feeds))}
    wanted = {b: feeds for b, feeds in sorted(found.items()) if b in batches and b not in refused}
    return Feeds(wanted or {own: found[own]}, sizes, _format_refusals(refused))


def _with_batch_size(feeds: Arrays, inputs: list[InputSpec], symbol: str, batch: int) -> dict[str, Any]:
    """The arrays with `batch` rows, repeated from the start if there are too few; arrays without rows are kept."""
    found = dict(feeds)
    for i in (i for i in inputs if i.type_kind == TENSOR and feeds.get(i.name) is not None):
        for axis in (axis for axis, d in enumerate(i.shape) if d == symbol):
            if extent := found[i.name].shape[axis]:
                rows = np.arange(batch) % extent
                found[i.name] = np.ascontiguousarray(np.take(found[i.name], rows, axis))
    return found


def _generated_feeds(inputs: list[InputSpec], batches: Sequence[int], fixed: Sizes, seed: int, check: _Check) -> Feeds:
    symbol = batch_symbol(inputs)
    requested = sorted(set(batches))
    with_batch = fixed | ({symbol: requested[0]} if symbol is not None and symbol not in fixed else {})
    ranked, first = _first_accepted(inputs, with_batch, fixed, seed, check)
    sizes = dict(first.sizes)
    own = sizes.pop(symbol, 1) if symbol is not None else fixed_batch(inputs)
    if symbol is None or symbol in fixed:
        return _single_batch_feeds(own, first.feeds, sizes, batches, inputs)
    found, refused = {own: dict(first.feeds)}, {b: "" for b in requested[:1] if b != own}
    for batch in requested[1:]:
        accepted, failure = _accepted_at(ranked, first.sizes | {symbol: batch}, seed, check)
        if accepted is not None:
            found[batch] = dict(accepted.feeds)
        else:
            refused[batch] = failure
    return Feeds(dict(sorted(found.items())), sizes, _format_refusals(refused))


def _single_batch_feeds(
    batch: int, feeds: Arrays, sizes: Sizes, batches: Sequence[int], inputs: list[InputSpec]
) -> Feeds:
    """Feeds for a batch size that cannot be chosen."""
    has_batch = any(i.type_kind == TENSOR and i.default is None and i.shape for i in inputs)
    note = f"the batch is fixed at {batch}" if has_batch else "no input has a batch"
    return Feeds({batch: dict(feeds)}, sizes, "" if set(batches) == {batch} else note)


def _format_refusals(refused: Mapping[int, str]) -> str:
    return "; ".join(f"it does not run with a batch of {b}{f': {why}' if why else ''}" for b, why in refused.items())


def _first_accepted(
    inputs: list[InputSpec], with_batch: Sizes, fixed: Sizes, seed: int, check: _Check
) -> tuple[list[InputSpec], InputSet]:
    """The first input set on which the model runs, and the inputs with ranks. Raises UnverifiableError."""
    first_failure, unit_interval = "", with_unit_interval_floats(inputs)
    for ranked in (*with_tried_ranks(inputs), *(with_tried_ranks(unit_interval) if unit_interval else ())):
        for sizes in _size_assignments(ranked, with_batch, fixed):
            accepted, failure = _accepted_at(ranked, sizes, seed, check)
            if accepted is not None:
                return ranked, accepted
            first_failure = first_failure or failure
    raise UnverifiableError(f"no inputs were found on which it runs: {first_failure or 'all would be too large'}")


def _size_assignments(inputs: list[InputSpec], with_batch: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """Yield PREFERRED_SIZES, then all sizes that verification tries, finally those with other batch sizes."""
    known = with_batch | required_sizes(inputs, with_batch)
    free = [s for s in free_symbols(inputs) if s not in known]
    for size in PREFERRED_SIZES:
        equal = known | dict.fromkeys(free, size)
        sums = (equal | {total: 2 * size} for total, _, _ in islice(sum_relations(free), MAX_VARIATIONS))
        yield from (sizes for sizes in (equal, *sums) if element_count(inputs, sizes) <= MAX_ELEMENTS)
    yield from size_assignments(inputs, with_batch)
    yield from size_assignments(inputs, fixed)


def _accepted_at(
    inputs: list[InputSpec], sizes: Sizes, seed: int, check: _Check, draw: int = 0
) -> tuple[InputSet | None, str]:
    """The first input set with these sizes on which the model runs, or the first failure."""
    if first_failure := check.size_failure(inputs, sizes):
        return None, first_failure
    for input_set in generate_input_sets(inputs, "normal", sizes, (seed, draw)):
        failure = check.run_failure(input_set.feeds)
        if not failure:
            return input_set, ""
        first_failure = first_failure or failure
    return None, first_failure
