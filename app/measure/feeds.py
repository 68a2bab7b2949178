"""The numbers that models are timed with: one set for each batch size, on which the original runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ...core.errors import EvaluationError, ModelError, UnverifiableError
from ...core.io.model_source import ModelSource, model_source
from ...core.ort.remote_backend import RemoteBackend
from ...core.support.suggestions import did_you_mean
from ...core.verify.dim_expressions import Sizes, dim_symbols
from ...core.verify.given_inputs import checked_inputs, read_inputs, sizes_from_shapes, with_given_shapes
from ...core.verify.input_generation import InputSet, generate_input_sets
from ...core.verify.input_search import require_generatable, with_tried_ranks, with_unit_interval_floats
from ...core.verify.input_specs import TENSOR, InputSpec, free_symbols, input_specs
from ...core.verify.size_assignments import (
    MAX_ELEMENTS,
    MAX_VARIATIONS,
    element_count,
    required_sizes,
    size_assignments,
    sum_relations,
)

PREFERRED_SIZES = (64, 32, 16, 8)  # sizes of what is no batch: the largest with which the model runs
RUN_TIMEOUT = 120.0  # seconds that a run may take to count as one
MAX_FAILURES = 3  # times as long, or so many crashes, after which runs that fail are enough
Arrays = Mapping[str, Any]
RunCheck = Callable[[Arrays], str]
"""Why a model does not run on arrays, "" if it does."""


@dataclass(frozen=True, slots=True)
class Feeds:
    """Arrays by name, by batch size, the least first, and the sizes of symbolic dims, batch aside.

    `note` says why a batch that was asked for is not there, "" if all are.
    """

    by_batch: dict[int, dict[str, Any]] = field(repr=False)
    sizes: Sizes
    note: str = ""


def make_feeds(
    model: ModelSource | str | Path,
    given_inputs: Arrays | str | Path | None = None,
    batches: Sequence[int] = (1,),
    dims: Sizes | None = None,
    seed: int = 0,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Feeds:
    """What to time a model with: the inputs given, tiled or cut for other batches, or the normal ones of verification.

    `shapes` of inputs and `dims` fix symbolic sizes; a fixed batch is the only one. Raises ModelError for inputs,
    shapes and dims that are not the model's, UnverifiableError if no inputs can be made up or the model does not run.
    """
    source = model if isinstance(model, ModelSource) else model_source(model, inline=False)
    loaded = source.load()
    inputs = with_given_shapes(shapes or {}, input_specs(loaded))
    fixed = sizes_from_shapes(shapes or {}, inputs) | _require_known_symbols(dims or {}, inputs)
    draw = _read_given(given_inputs, inputs)
    if draw is None:
        require_generatable(inputs)
    with isolated_run_check(source, [v.name for v in loaded.graph.outputs]) as runs:
        if draw is not None:
            return _feeds_from_given(draw, inputs, batches, runs)
        return _generated_feeds(inputs, batches, fixed, seed, runs)


def batch_symbol(inputs: Sequence[InputSpec]) -> str | None:
    """The symbol of the batch: one called so, or that with which most inputs begin."""
    required = [i for i in inputs if i.default is None and i.type_kind == TENSOR]
    everywhere = [d for i in required for d in i.shape if isinstance(d, str) and dim_symbols(d) == [d]]
    named = next((d for d in everywhere if "batch" in d.casefold()), None)
    first = Counter(i.shape[0] for i in required if i.shape)
    leading = first.most_common(1)[0][0] if first else None
    return named or (leading if isinstance(leading, str) and leading in everywhere else None)


def fixed_batch(inputs: Sequence[InputSpec]) -> int:
    """The number that all inputs begin with; 1 if there is none."""
    leading = {i.shape[0] for i in inputs if i.default is None and i.shape}
    found = next(iter(leading)) if len(leading) == 1 else 1
    return found if isinstance(found, int) and found > 0 else 1


@contextmanager
def isolated_run_check(source: ModelSource, outputs: Sequence[str]) -> Generator[RunCheck]:
    """What runs a model without optimizations, in a process of its own: what crashes there does not run.

    Raises UnverifiableError if onnxruntime does not load it, and when it has failed for so long that no end is in
    sight.
    """
    with RemoteBackend() as remote:
        try:
            model = remote(source.loadable())
        except EvaluationError as e:
            raise UnverifiableError(f"{source.label}: {e}") from e
        lost = 0.0

        def runs(feeds: Arrays) -> str:
            nonlocal lost
            start = perf_counter()
            try:
                model.run(outputs, feeds, RUN_TIMEOUT)
            except EvaluationError as e:
                lost += perf_counter() - start
                if max(lost / RUN_TIMEOUT, remote.crashes) >= MAX_FAILURES:
                    raise UnverifiableError(f"{source.label}: no inputs were found on which it runs: {e}") from e
                return str(e)
            return ""

        yield runs


def _require_known_symbols(dims: Sizes, inputs: list[InputSpec]) -> Sizes:
    known = free_symbols(inputs)
    for symbol in dims:
        if symbol not in known:
            hint = did_you_mean(symbol, known) or f" (it has {', '.join(known) or 'none'})"
            raise ModelError(f"--dim {symbol}: the inputs of the model have no such symbol{hint}")
    return dims


def _read_given(given: Arrays | str | Path | None, inputs: list[InputSpec]) -> InputSet | None:
    """The inputs given, the first set if there are several."""
    if isinstance(given, Mapping):
        return checked_inputs(InputSet("given", {}, dict(given)), inputs)
    return read_inputs(Path(given), inputs)[0] if given is not None else None


def _feeds_from_given(
    input_set: InputSet, inputs: list[InputSpec], batches: Sequence[int], run_failure: RunCheck
) -> Feeds:
    if why := run_failure(input_set.feeds):
        raise ModelError(f"the model does not run on the {input_set}: {why}")
    sizes: Sizes = {}
    for i in inputs:
        value = input_set.feeds.get(i.name)
        if i.type_kind == TENSOR and value is not None:
            sizes |= {d: n for d, n in zip(i.shape, np.shape(value), strict=False) if isinstance(d, str)}
    symbol = batch_symbol(inputs)
    own = sizes.pop(symbol, 0) if symbol is not None else 0
    if symbol is None or not own:
        return _single_batch_feeds(fixed_batch(inputs), input_set.feeds, sizes, batches, inputs)
    found: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    for batch in sorted(set(batches)):
        feeds = input_set.feeds if batch == own else _with_batch_size(input_set.feeds, inputs, symbol, batch)
        why = run_failure(feeds)
        if why:
            refused[batch] = why
        else:
            found[batch] = dict(feeds)
    return Feeds(found or {own: dict(input_set.feeds)}, sizes, _format_refusals(refused))


def _with_batch_size(feeds: Arrays, inputs: list[InputSpec], symbol: str, batch: int) -> dict[str, Any]:
    """The arrays with as many rows as wanted, from the first on again where there are too few."""
    found = dict(feeds)
    for i in (i for i in inputs if i.type_kind == TENSOR and feeds.get(i.name) is not None):
        for axis in (axis for axis, d in enumerate(i.shape) if d == symbol):
            rows = np.arange(batch) % found[i.name].shape[axis]
            found[i.name] = np.ascontiguousarray(np.take(found[i.name], rows, axis))
    return found


def _generated_feeds(
    inputs: list[InputSpec], batches: Sequence[int], fixed: Sizes, seed: int, run_failure: RunCheck
) -> Feeds:
    symbol = batch_symbol(inputs)
    free = symbol is not None and symbol not in fixed
    wanted = sorted(set(batches)) if free else [1]
    settled, first = _first_accepted(
        inputs, fixed | ({symbol: wanted[0]} if free and symbol else {}), fixed, seed, run_failure
    )
    sizes = dict(first.sizes)
    own = sizes.pop(symbol, 1) if symbol is not None else fixed_batch(inputs)
    if not free or symbol is None:
        return _single_batch_feeds(own, first.feeds, sizes, batches, inputs)
    found, refused = {own: first.feeds}, {b: "" for b in wanted[:1] if b != own}
    for batch in wanted[1:]:
        draw, why = _accepted_at(settled, first.sizes | {symbol: batch}, seed, run_failure)
        if draw is not None:
            found[batch] = draw.feeds
        else:
            refused[batch] = why
    return Feeds(dict(sorted(found.items())), sizes, _format_refusals(refused))


def _single_batch_feeds(
    batch: int, feeds: Arrays, sizes: Sizes, batches: Sequence[int], inputs: list[InputSpec]
) -> Feeds:
    """Feeds of one batch, which is not to be chosen."""
    note = f"the batch is fixed at {batch}" if any(_has_leading_dim(i) for i in inputs) else "no input has a batch"
    return Feeds({batch: dict(feeds)}, sizes, "" if set(batches) == {batch} else note)


def _has_leading_dim(i: InputSpec) -> bool:
    return i.type_kind == TENSOR and i.default is None and bool(i.shape)


def _format_refusals(refused: Mapping[int, str]) -> str:
    told = (f"it does not run with a batch of {batch}{f': {why}' if why else ''}" for batch, why in refused.items())
    return "; ".join(told)


def _first_accepted(
    inputs: list[InputSpec], with_batch: Sizes, fixed: Sizes, seed: int, run_failure: RunCheck
) -> tuple[list[InputSpec], InputSet]:
    """The first draw on which the model runs, and the inputs with their ranks settled. Raises UnverifiableError."""
    why, shares = "", with_unit_interval_floats(inputs)
    for settled in (*with_tried_ranks(inputs), *(with_tried_ranks(shares) if shares else ())):
        for plan in _size_assignments(settled, with_batch, fixed):
            draw, said = _accepted_at(settled, plan, seed, run_failure)
            if draw is not None:
                return settled, draw
            why = why or said
    raise UnverifiableError(f"no inputs were found on which it runs: {why or 'all would be too large'}")


def _size_assignments(inputs: list[InputSpec], with_batch: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """The usual sizes, the largest first, then all that verification tries, at last with another batch."""
    known = with_batch | required_sizes(inputs, with_batch)
    free = [s for s in free_symbols(inputs) if s not in known]
    for size in PREFERRED_SIZES:
        plan = known | dict.fromkeys(free, size)
        plans = (plan, *(plan | {total: 2 * size} for total, _, _ in islice(sum_relations(free), MAX_VARIATIONS)))
        yield from (p for p in plans if element_count(inputs, p) <= MAX_ELEMENTS)
    yield from size_assignments(inputs, with_batch)
    yield from size_assignments(inputs, fixed)


def _accepted_at(
    inputs: list[InputSpec], sizes: Sizes, seed: int, run_failure: RunCheck
) -> tuple[InputSet | None, str]:
    why = ""
    for draw in generate_input_sets(inputs, "normal", sizes, (seed, 0)):
        said = run_failure(draw.feeds)
        if not said:
            return draw, ""
        why = why or said
    return None, why
