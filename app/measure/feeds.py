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

from ...core.errors import EvaluationError, ModelError, Unverifiable
from ...core.io.model_source import Source, source_of
from ...core.ort.remote_backend import Remote
from ...core.support.suggestions import meant
from ...core.verify.dim_expressions import Sizes, names
from ...core.verify.given_inputs import checked, ranked_by, read_inputs, sizes_from_shapes
from ...core.verify.input_generation import Draw, candidates
from ...core.verify.input_search import ranked, require_drawable, with_shares
from ...core.verify.input_specs import TENSOR, Input, signature, symbols
from ...core.verify.size_assignments import MOST_ELEMENTS, MOST_TRIED, decided, elements, size_plans, sums

USUAL = (64, 32, 16, 8)  # sizes of what is no batch: the largest with which the model runs
TRIAL = 120.0  # seconds that a run may take to count as one
PATIENCE = 3  # times as long, or so many crashes, after which runs that fail are enough
Arrays = Mapping[str, Any]
Runs = Callable[[Arrays], str]
"""Why a model does not run on arrays, "" if it does."""


@dataclass(frozen=True, slots=True)
class Feeds:
    """Arrays by name, by batch size, the least first, and the sizes of symbolic dims, batch aside.

    `note` says why a batch that was asked for is not there, "" if all are.
    """

    by_batch: dict[int, dict[str, Any]] = field(repr=False)
    sizes: Sizes
    note: str = ""


def feeds_for(
    model: Source | str | Path,
    given: Arrays | str | Path | None = None,
    batches: Sequence[int] = (1,),
    dims: Sizes | None = None,
    seed: int = 0,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Feeds:
    """What to time a model with: the inputs given, tiled or cut for other batches, or the normal ones of verification.

    `shapes` of inputs and `dims` fix symbolic sizes; a fixed batch is the only one. Raises ModelError for inputs,
    shapes and dims that are not the model's, Unverifiable if no inputs can be made up or the model does not run.
    """
    source = model if isinstance(model, Source) else source_of(model, inline=False)
    loaded = source.load()
    inputs = ranked_by(shapes or {}, signature(loaded))
    fixed = sizes_from_shapes(shapes or {}, inputs) | _known(dims or {}, inputs)
    draw = _given(given, inputs)
    if draw is None:
        require_drawable(inputs)
    with trial(source, [v.name for v in loaded.graph.outputs]) as runs:
        if draw is not None:
            return _from_given(draw, inputs, batches, runs)
        return _made_up(inputs, batches, fixed, seed, runs)


def batch_symbol(inputs: Sequence[Input]) -> str | None:
    """The symbol of the batch: one called so, or that with which most inputs begin."""
    required = [i for i in inputs if i.default is None and i.form == TENSOR]
    everywhere = [d for i in required for d in i.shape if isinstance(d, str) and names(d) == [d]]
    named = next((d for d in everywhere if "batch" in d.casefold()), None)
    first = Counter(i.shape[0] for i in required if i.shape)
    leading = first.most_common(1)[0][0] if first else None
    return named or (leading if isinstance(leading, str) and leading in everywhere else None)


def fixed_batch(inputs: Sequence[Input]) -> int:
    """The number that all inputs begin with; 1 if there is none."""
    leading = {i.shape[0] for i in inputs if i.default is None and i.shape}
    found = next(iter(leading)) if len(leading) == 1 else 1
    return found if isinstance(found, int) and found > 0 else 1


@contextmanager
def trial(source: Source, outputs: Sequence[str]) -> Generator[Runs]:
    """What runs a model without optimizations, in a process of its own: what crashes there does not run.

    Raises Unverifiable if onnxruntime does not load it, and when it has failed for so long that no end is in sight.
    """
    with Remote() as remote:
        try:
            model = remote(source.loadable())
        except EvaluationError as e:
            raise Unverifiable(f"{source.label}: {e}") from e
        lost = 0.0

        def runs(feeds: Arrays) -> str:
            nonlocal lost
            start = perf_counter()
            try:
                model.run(outputs, feeds, TRIAL)
            except EvaluationError as e:
                lost += perf_counter() - start
                if max(lost / TRIAL, remote.deaths) >= PATIENCE:
                    raise Unverifiable(f"{source.label}: no inputs were found on which it runs: {e}") from e
                return str(e)
            return ""

        yield runs


def _known(dims: Sizes, inputs: list[Input]) -> Sizes:
    known = symbols(inputs)
    for symbol in dims:
        if symbol not in known:
            hint = meant(symbol, known) or f" (it has {', '.join(known) or 'none'})"
            raise ModelError(f"--dim {symbol}: the inputs of the model have no such symbol{hint}")
    return dims


def _given(given: Arrays | str | Path | None, inputs: list[Input]) -> Draw | None:
    """The inputs given, the first set if there are several."""
    if isinstance(given, Mapping):
        return checked(Draw("given", {}, dict(given)), inputs)
    return read_inputs(Path(given), inputs)[0] if given is not None else None


def _from_given(draw: Draw, inputs: list[Input], batches: Sequence[int], runs: Runs) -> Feeds:
    if why := runs(draw.feeds):
        raise ModelError(f"the model does not run on the {draw}: {why}")
    sizes: Sizes = {}
    for i in inputs:
        value = draw.feeds.get(i.name)
        if i.form == TENSOR and value is not None:
            sizes |= {d: n for d, n in zip(i.shape, np.shape(value), strict=False) if isinstance(d, str)}
    symbol = batch_symbol(inputs)
    own = sizes.pop(symbol, 0) if symbol is not None else 0
    if symbol is None or not own:
        return _only(fixed_batch(inputs), draw.feeds, sizes, batches, inputs)
    found: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    for batch in sorted(set(batches)):
        feeds = draw.feeds if batch == own else _resized(draw.feeds, inputs, symbol, batch)
        why = runs(feeds)
        if why:
            refused[batch] = why
        else:
            found[batch] = dict(feeds)
    return Feeds(found or {own: dict(draw.feeds)}, sizes, _refusals(refused))


def _resized(feeds: Arrays, inputs: list[Input], symbol: str, batch: int) -> dict[str, Any]:
    """The arrays with as many rows as wanted, from the first on again where there are too few."""
    found = dict(feeds)
    for i in (i for i in inputs if i.form == TENSOR and feeds.get(i.name) is not None):
        for axis in (axis for axis, d in enumerate(i.shape) if d == symbol):
            rows = np.arange(batch) % found[i.name].shape[axis]
            found[i.name] = np.ascontiguousarray(np.take(found[i.name], rows, axis))
    return found


def _made_up(inputs: list[Input], batches: Sequence[int], fixed: Sizes, seed: int, runs: Runs) -> Feeds:
    symbol = batch_symbol(inputs)
    free = symbol is not None and symbol not in fixed
    wanted = sorted(set(batches)) if free else [1]
    settled, first = _first(inputs, fixed | ({symbol: wanted[0]} if free and symbol else {}), fixed, seed, runs)
    sizes = dict(first.sizes)
    own = sizes.pop(symbol, 1) if symbol is not None else fixed_batch(inputs)
    if not free or symbol is None:
        return _only(own, first.feeds, sizes, batches, inputs)
    found, refused = {own: first.feeds}, {b: "" for b in wanted[:1] if b != own}
    for batch in wanted[1:]:
        draw, why = _accepted(settled, first.sizes | {symbol: batch}, seed, runs)
        if draw is not None:
            found[batch] = draw.feeds
        else:
            refused[batch] = why
    return Feeds(dict(sorted(found.items())), sizes, _refusals(refused))


def _only(own: int, feeds: Arrays, sizes: Sizes, batches: Sequence[int], inputs: list[Input]) -> Feeds:
    """Feeds of one batch, which is not to be chosen."""
    note = f"the batch is fixed at {own}" if any(_leads(i) for i in inputs) else "no input has a batch"
    return Feeds({own: dict(feeds)}, sizes, "" if set(batches) == {own} else note)


def _leads(i: Input) -> bool:
    return i.form == TENSOR and i.default is None and bool(i.shape)


def _refusals(refused: Mapping[int, str]) -> str:
    told = (f"it does not run with a batch of {batch}{f': {why}' if why else ''}" for batch, why in refused.items())
    return "; ".join(told)


def _first(inputs: list[Input], with_batch: Sizes, fixed: Sizes, seed: int, runs: Runs) -> tuple[list[Input], Draw]:
    """The first draw on which the model runs, and the inputs with their ranks settled. Raises Unverifiable."""
    why, shares = "", with_shares(inputs)
    for settled in (*ranked(inputs), *(ranked(shares) if shares else ())):
        for plan in _plans(settled, with_batch, fixed):
            draw, said = _accepted(settled, plan, seed, runs)
            if draw is not None:
                return settled, draw
            why = why or said
    raise Unverifiable(f"no inputs were found on which it runs: {why or 'all would be too large'}")


def _plans(inputs: list[Input], with_batch: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """The usual sizes, the largest first, then all that verification tries, at last with another batch."""
    known = with_batch | decided(inputs, with_batch)
    free = [s for s in symbols(inputs) if s not in known]
    for size in USUAL:
        plan = known | dict.fromkeys(free, size)
        plans = (plan, *(plan | {total: 2 * size} for total, _, _ in islice(sums(free), MOST_TRIED)))
        yield from (p for p in plans if elements(inputs, p) <= MOST_ELEMENTS)
    yield from size_plans(inputs, with_batch)
    yield from size_plans(inputs, fixed)


def _accepted(inputs: list[Input], plan: Sizes, seed: int, runs: Runs) -> tuple[Draw | None, str]:
    why = ""
    for draw in candidates(inputs, "normal", plan, (seed, 0)):
        said = runs(draw.feeds)
        if not said:
            return draw, ""
        why = why or said
    return None, why
