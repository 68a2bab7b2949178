"""Errors of quantized ops on real activations."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from msgspec import Struct

from ...core.io.model_source import ModelSource, model_source, transformed_source
from ...core.io.split_models import Loadable
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ort.remote_backend import RemoteBackend
from ...core.rewriting.change_log import ChangeKey
from ...core.transform.extract import keep_outputs
from ..measure.agreement import OutputFigures
from .search import BuiltCandidate

VALUES_AT_ONCE = 16  # of which all elements are in memory
MAX_BYTES = 64 << 20  # of the elements of these; after the first sample, no more of them are compared
Feeds = Mapping[str, Any]


class ValueErrors(Struct, frozen=True):
    """The power of the noise of values, relative to their signal: the `whole` of it, and the part of their `own`."""

    whole: Mapping[str, float]
    own: Mapping[str, float]


def output_errors(
    source: ModelSource, quantized: ModelSource, places: Sequence[str], feeds: Sequence[Feeds]
) -> dict[str, float]:
    """The power of the noise, relative to the signal, of each value that both models compute in the main graph.

    Of large values only the first of `feeds` count.
    """
    known = set(main_values(quantized.load().graph)) & set(main_values(source.load().graph))
    names = [name for name in dict.fromkeys(places) if name in known]
    errors: dict[str, float] = {}
    for part in (names[i : i + VALUES_AT_ONCE] for i in range(0, len(names), VALUES_AT_ONCE)):
        noises = [OutputFigures() for _ in part]
        compared = 0
        with ExitStack() as exits:
            runs = [exits.enter_context(closing(_values(model, part, feeds))) for model in (source, quantized)]
            for wanted, found in zip(*runs, strict=True):
                for noise, a, b in zip(noises, wanted, found, strict=True):
                    noise.add(a, b)
                compared += sum(getattr(a, "nbytes", 0) for a in wanted)
                if compared > MAX_BYTES:
                    break
        errors |= {name: noise.relative_noise for name, noise in zip(part, noises, strict=True)}
    return errors


def _values(source: ModelSource, names: Sequence[str], feeds: Sequence[Feeds]) -> Generator[list[Any]]:
    """Some values of a model for each of the feeds."""
    exposed = transformed_source(source, [partial(keep_outputs, names=list(names))])
    inputs = {v.name for v in exposed.load().graph.inputs}
    loadable: Loadable = exposed.loadable()
    with RemoteBackend() as remote:
        session = remote(loadable)
        for given in feeds:
            yield session.run(names, {name: value for name, value in given.items() if name in inputs})


def own_errors(graph: Graph, errors: Mapping[str, float]) -> dict[str, float]:
    """The part of the error of each value that its operands do not bring: the error less the greatest of theirs.

    `graph` is the graph of the float model. O(V + E).
    """
    carried: dict[str, float] = {}  # by value: the error of the nearest measured values before it
    own: dict[str, float] = {}
    for op in graph.sorted_ops():
        before = max((carried.get(v.name, 0.0) for v in op.inputs if v is not None), default=0.0)
        for v in op.outputs:
            carried[v.name] = errors.get(v.name, before)
            if v.name in errors:
                own[v.name] = max(0.0, errors[v.name] - before)
    return own


def value_errors(built: BuiltCandidate, feeds: Sequence[Feeds]) -> ValueErrors:
    """The errors of the values that a candidate changed."""
    source = built.builder.source
    quantized = model_source(built.path, inline=True)
    whole = output_errors(source, quantized, sorted(p for _, p in built.candidate.keys), feeds)
    return ValueErrors(whole, own_errors(source.load().graph, whole))


def orders_to_leave(built: BuiltCandidate, feeds: Sequence[Feeds]) -> Iterator[list[ChangeKey]]:
    """Orders of the changes of a candidate: that with the greatest error of its own first, and the last op first.

    An error that is small beside a value may still be large in values that are computed of it, such as the boxes
    and the scores of a detector. Changes without a measured error come last.
    """
    own = value_errors(built, feeds).own
    yield sorted(built.candidate.keys, key=lambda key: (-own.get(key[1], -1.0), key))
    position = {name: i for i, name in enumerate(main_values(built.builder.source.load().graph))}
    yield sorted(built.candidate.keys, key=lambda key: (-position.get(key[1], -1), key))


def main_values(graph: Graph) -> list[str]:
    """The names of the values of known type that ops of a graph compute."""
    ops: Iterator[Op] = iter(graph.sorted_ops())
    return [v.name for op in ops for v in op.outputs if v.name and v.known_dtype]
