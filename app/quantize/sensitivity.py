"""Errors of quantized ops on real activations, and the effect of each op on the outputs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from math import inf, prod
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from onnx import TensorProto, helper

from ...core.errors import MemoryExhausted
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, TransformFunction, model_source, transformed_source
from ...core.ir.dtypes import FLOATS
from ...core.ir.values import Value, inferred_type_proto
from ...core.ort.remote_backend import RemoteBackend
from ...core.rewriting.builder import RewriteBuilder
from ...core.rewriting.change_log import ChangeKey
from ...core.serialization.importer import declare_computed, declare_input
from ...core.transform.extract import cut_inputs, keep_outputs
from ..measure.agreement import OutputFigures
from .candidates import changed_weights
from .search import BuiltCandidate

VALUES_AT_ONCE = 16  # values whose elements are in memory
MAX_BYTES = 64 << 20  # of these elements; after the first sample, only values of this size are compared
SAMPLES_ALONE = 2  # on which each op is quantized separately
Feeds = Mapping[str, Any]


class ValueErrors(Struct, frozen=True):
    """The power of values' noise, relative to their signal: the `whole` noise, and that of their `own` op.

    The latter is the noise of an op that reads the original's operands.
    """

    whole: Mapping[str, float]
    own: Mapping[str, float]


class ValuesAlone(NamedTuple):
    """Values of the original on a sample, and what quantized ops compute from the original's operands, by name."""

    given: Feeds
    wanted: Mapping[str, Any]
    found: Mapping[str, Any]


def value_errors(built: BuiltCandidate, feeds: Sequence[Feeds], until: float = inf) -> ValueErrors:
    """The errors of the values that a candidate changed. Of large values only the first of `feeds` count.

    Those that are not begun before `until`, a time of `monotonic`, or do not fit into memory, are left out.
    """
    source, quantized = built.builder.source, _quantized(built)
    places = _places(built)
    whole: dict[str, float] = {}
    own: dict[str, float] = {}
    parts = [places[i : i + VALUES_AT_ONCE] for i in range(0, len(places), VALUES_AT_ONCE)]
    with RemoteBackend() as one, RemoteBackend() as other:
        for part in takewhile(lambda _: monotonic() <= until, parts):
            original, made = _values(one, source, part), _values(other, quantized, part)
            with suppress(MemoryExhausted):
                whole |= _noises(part, ((original(given), made(given)) for given in feeds))
        for part, operands in takewhile(lambda _: monotonic() <= until, _parts_alone(source, quantized, places)):
            alone = _values_alone((one, other), source, quantized, part, operands, feeds)
            with suppress(MemoryExhausted):
                own |= _noises(part, ((list(v.wanted.values()), list(v.found.values())) for v in alone))
    return ValueErrors(whole, own)


def losses_alone(
    built: BuiltCandidate, feeds: Sequence[Feeds], outputs: Sequence[str], until: float = inf
) -> dict[str, float]:
    """By value that a candidate changed: the noise of the worst of the outputs if its op alone is quantized.

    As the power relative to the signal, on the first samples. Values that are not begun before `until`, a time of
    `monotonic`, or do not fit into memory, are left out.
    """
    source, quantized, places = built.builder.source, _quantized(built), _places(built)
    noises: dict[str, list[OutputFigures]] = {}
    stand_ins = {place: StandIn.of(v, i) for i, (place, v) in enumerate(_main_values(source, places).items())}
    absent = {name: array for s in stand_ins.values() for name, array in s.absent.items()}
    with RemoteBackend() as one, RemoteBackend() as other, RemoteBackend() as third:
        replaced = _values(third, source, outputs, partial(_make_replaceable, stand_ins=stand_ins))
        for part, operands in takewhile(lambda _: monotonic() <= until, _parts_alone(source, quantized, places)):
            with suppress(MemoryExhausted):
                for values in _values_alone((one, other), source, quantized, part, operands, feeds[:SAMPLES_ALONE]):
                    wanted = replaced({**values.given, **absent})
                    for place, array in values.found.items():
                        found = replaced({**values.given, **absent, **stand_ins[place].present(array)})
                        known = noises.setdefault(place, [OutputFigures() for _ in outputs])
                        for figures, a, b in zip(known, wanted, found, strict=True):
                            figures.add(a, b)
    return {place: max((f.relative_noise for f in found), default=0.0) for place, found in noises.items()}


def orders_to_leave(
    built: BuiltCandidate, feeds: Sequence[Feeds], outputs: Sequence[str] = (), until: float = inf
) -> Iterator[list[ChangeKey]]:
    """Orders of a candidate's changes: by their separate losses, largest first, and reversed model order.

    Where the scheme is for products, a loss counts for each of its weights, which is what leaving it in float costs.
    The loss of `outputs` counts, by default of all that are floats. Changes without a measured loss come last, as
    those that are not begun before `until`, a time of `monotonic`.
    """
    model = built.builder.source.load()
    known = [v.name for v in model.graph.outputs if v.known_dtype in FLOATS]
    losses = losses_alone(built, feeds, [name for name in outputs if name in known] or known, until)
    worth = {key: losses.get(key[1], -1.0) for key in built.candidate.keys}
    if not built.builder.scheme.needs_ranges:
        for key, weights in changed_weights(model, built.candidate.changes).items():
            worth[key] /= max(1, sum(prod(v.static_shape) for v in weights))
    yield sorted(worth, key=lambda key: (-worth[key], key))
    position = {name: i for i, name in enumerate(_main_values(built.builder.source))}
    yield sorted(worth, key=lambda key: (-position.get(key[1], -1), key))


class StandIn(Struct, frozen=True):
    """Inputs that replace a value: the `data`, and whether to use it."""

    data: str
    is_taken: str
    dtype: int
    rank: int

    @classmethod
    def of(cls, value: Value, number: int) -> StandIn:
        """The inputs for a value."""
        return cls(f"stand-in {number}", f"is taken {number}", value.dtype, value.rank)

    @property
    def absent(self) -> dict[str, Any]:
        """An array that is not used, which broadcasts to the value."""
        numbers = np.zeros([1] * self.rank, helper.tensor_dtype_to_np_dtype(self.dtype))
        return {self.data: numbers, self.is_taken: np.array(False)}

    def present(self, array: Any) -> dict[str, Any]:
        """An array that is used."""
        return {self.data: array, self.is_taken: np.array(True)}


def _make_replaceable(model: Model, stand_ins: Mapping[str, StandIn]) -> None:
    """Make values of the main graph replaceable by new inputs, controlled by further inputs."""
    graph = model.graph
    values = {v.name: v for op in graph.ops() for v in op.outputs}
    for place, inputs in stand_ins.items():
        made = values[place]
        assert made.producer is not None  # it is the output of an op
        build = RewriteBuilder(graph, made.producer)
        protos = {
            inputs.data: helper.make_tensor_type_proto(inputs.dtype, [None] * inputs.rank),
            inputs.is_taken: helper.make_tensor_type_proto(TensorProto.BOOL, []),
        }
        data, is_taken = (declare_input(Value(name), proto, graph.context) for name, proto in protos.items())
        graph.inputs = [*graph.inputs, data, is_taken]
        infos = (helper.make_value_info(name, proto).SerializeToString() for name, proto in protos.items())
        graph.declared.inputs += zip((data, is_taken), infos, strict=True)
        graph.insert_behind(made, build.Where(is_taken, data, made), build.added_ops)


def _quantized(built: BuiltCandidate) -> ModelSource:
    """The candidate, with types from the float model where those after onnxruntime's operators are unknown."""
    types = {v.name: inferred_type_proto(v) for v in _main_values(built.builder.source).values()}

    def declare(model: Model) -> None:
        for v in (v for op in model.graph.sorted_ops() for v in op.outputs):
            proto = types.get(v.name)
            if proto is not None and (not v.known_dtype or v.known_shape is None):
                declare_computed(v, proto, model.graph.context)

    return transformed_source(model_source(built.path, inline=True), [declare])


def _places(built: BuiltCandidate) -> list[str]:
    """The values that a candidate changed and that both models compute in the main graph, in order."""
    known, made = (_main_values(source) for source in (built.builder.source, _quantized(built)))
    changed = {place for _, place in built.candidate.keys}
    return [name for name in known if name in changed and name in made]


def _main_values(source: ModelSource, names: Sequence[str] | None = None) -> dict[str, Value]:
    """The values in `names`, with known type and rank, that ops of the main graph compute, by name in order."""
    graph = source.load().graph
    made = (v for op in graph.sorted_ops() for v in op.outputs)
    found = {v.name: v for v in made if v.name and v.known_dtype and v.known_shape is not None}
    return found if names is None else {name: found[name] for name in names}


def _values(
    remote: RemoteBackend, source: ModelSource, names: Sequence[str], *transforms: TransformFunction
) -> Callable[[Feeds], list[Any]]:
    """Return a function from an input to the values with some names in a model.

    The model is transformed when they are its outputs. The function serves until the backend gets another model.
    """
    exposed = transformed_source(source, [partial(keep_outputs, names=list(names)), *transforms])
    inputs = {v.name for v in exposed.load().graph.inputs}
    session = remote(exposed.loadable())

    def values(given: Feeds, wanted: Sequence[str] = names) -> list[Any]:
        """The values of a run, or of one for each half if they do not fit into the memory for outputs together."""
        try:
            return session.run(wanted, {name: v for name, v in given.items() if name in inputs})
        except MemoryExhausted:
            if len(wanted) == 1:
                raise
        half = len(wanted) // 2
        return [*values(given, wanted[:half]), *values(given, wanted[half:])]

    return values


def _parts_alone(
    source: ModelSource, quantized: ModelSource, places: Sequence[str]
) -> list[tuple[list[str], frozenset[str]]]:
    """Split places into parts; ops of a part read no value of the same part. Also returns the values read. O(V + E)."""
    types = {name: v.known_dtype for name, v in _main_values(source).items()}
    types |= {v.name: v.known_dtype for v in source.load().graph.inputs}
    parts: list[tuple[list[str], frozenset[str]]] = []
    for place, v in _main_values(quantized, places).items():
        operands = _operands(v, types)
        for i, (part, read) in enumerate(parts):
            if len(part) < VALUES_AT_ONCE and place not in read and not operands.intersection(part):
                part.append(place)
                parts[i] = part, read | operands
                break
        else:
            parts.append(([place], operands))
    return parts


def _operands(value: Value, types: Mapping[str, int]) -> frozenset[str]:
    """The names of the nearest upstream values in `types` with the same element type."""
    found: set[str] = set()
    waiting, seen = [value], {value}
    while waiting:
        op = waiting.pop().producer
        for v in () if op is None else op.inputs:
            if v is None or v in seen:
                continue
            seen.add(v)
            if types.get(v.name, 0) == v.known_dtype != 0:
                found.add(v.name)
            else:
                waiting.append(v)
    return frozenset(found)


def _values_alone(
    remotes: tuple[RemoteBackend, RemoteBackend],
    source: ModelSource,
    quantized: ModelSource,
    part: Sequence[str],
    operands: frozenset[str],
    feeds: Sequence[Feeds],
) -> Generator[ValuesAlone]:
    """Yield the values of a part on each sample."""
    inputs = {v.name for v in source.load().graph.inputs}
    names = [*part, *sorted(operands - inputs)]
    cut = partial(cut_inputs, names=sorted(operands))
    original, alone = _values(remotes[0], source, names), _values(remotes[1], quantized, part, cut)
    for given in feeds:
        values = dict(zip(names, original(given), strict=True))
        found = alone({**given, **values})
        yield ValuesAlone(given, {name: values[name] for name in part}, dict(zip(part, found, strict=True)))


def _noises(names: Sequence[str], pairs: Iterable[tuple[Sequence[Any], Sequence[Any]]]) -> dict[str, float]:
    """The relative noise of values, by name; for large values, only in the first pair."""
    noises = [OutputFigures() for _ in names]
    compared = 0
    for wanted, found in pairs:
        for noise, a, b in zip(noises, wanted, found, strict=True):
            noise.add(a, b)
        compared += sum(getattr(a, "nbytes", 0) for a in wanted)
        if compared > MAX_BYTES:
            break
    return {name: noise.relative_noise for name, noise in zip(names, noises, strict=True)}
