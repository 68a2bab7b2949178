"""Sessions for large, wide and long models: segments of a model are loaded and run one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from sys import maxsize
from time import perf_counter
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from ..errors import EvaluationError, ModelLoadError
from ..io.files import split_model
from ..io.split_models import Loadable, SplitModel
from ..ir.op_schemas import canonical_domain, is_foreign
from ..ir.tensor import Tensor
from ..ort.backends import Arrays, LoadedModel
from ..ort.kernels import runs_on_cpu
from ..ort.sessions import UNOPTIMIZED, SessionConfig
from ..processes.custom_operators import custom_operators
from ..serialization.proto_queries import all_nodes, copy_without, is_constant_node, opset_versions, subgraphs
from .regions.region_models import value_type
from .regions.value_graph import ValueGraph, sorted_nodes

MAX_WHOLE_BYTES = 1 << 30  # bytes of weights up to which a model is run whole
SESSION_BYTES = 32 << 20  # of memory for each session that is kept: its threads and its arena
MIN_SESSIONS = 8
SEGMENT_SHARE = 256  # a segment gets further weights up to the limit of memory divided by this
MAX_WIDTH = 5000  # edges of a graph or op, and ops without a path between them, up to which a model is run whole
MAX_WHOLE_NODES = 50_000  # nodes up to which a model is run whole
MAX_SEGMENT_NODES = 1000  # of a model that is wider or longer

_SESSIONS = WeakValueDictionary[tuple[SessionConfig, bytes], LoadedModel]()
"""The sessions in use; unchanged segments are loaded once for an original and the models compared with it."""


class Segment(Struct, frozen=True):
    """Nodes of a model, by position, values and constants that they read from outside, and values read from them.

    Each segment has the Constant nodes that it reads. `released` are values that no later segment reads.
    """

    nodes: tuple[int, ...]
    reads: tuple[str, ...]
    constants: tuple[str, ...]
    made: tuple[str, ...]
    released: tuple[str, ...]


class SegmentLimits(Struct, frozen=True):
    """Limits of the bytes of large weights in a segment and of its nodes, or one of them, and of kept sessions."""

    weight_bytes: int = maxsize
    nodes: int = maxsize
    sessions: int = maxsize

    @classmethod
    def of_memory(cls, memory: int) -> SegmentLimits:
        """The limits for a model such that the weights of one segment at a time take about `memory` bytes at most."""
        return cls(max(1, memory // SEGMENT_SHARE), sessions=max(MIN_SESSIONS, memory // SESSION_BYTES))


class SegmentedRuntime:
    """A `Session` of onnxruntime that runs segments of a model within `limits`, one at a time.

    Large weights are fed to a segment. Equal segments, such as the layers of a language model, thus share one
    session, which is created when the first of them runs; the least recently used sessions are closed, because each has
    threads with stacks of its own. Empty sequences, optionals and maps cannot be passed between segments. Raises
    EvaluationError for a failing run.
    """

    name = "onnxruntime"

    def __init__(self, model: Loadable, limits: SegmentLimits, config: SessionConfig = UNOPTIMIZED) -> None:
        self.config = config
        self._graph = ValueGraph.of(split_model(model))
        self._limits = limits
        self._sessions: dict[bytes, LoadedModel | None] = {}  # the most recently used last
        self._outputs: tuple[str, ...] = ()  # of the last run; the segments compute these
        self._segments: list[Segment] = []
        self._models: dict[int, tuple[tuple[Hashable, ...], _SegmentModel]] = {}

    @property
    def session_count(self) -> int:
        """The number of different segments with a session, or marked as having none because they must be whole."""
        return len(self._sessions)

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run all segments that `outputs` need once, for at most `timeout` seconds."""
        end = None if timeout is None else perf_counter() + timeout
        values = dict(feeds)
        if self._outputs != tuple(outputs):
            self._outputs, self._models = tuple(outputs), {}
            self._segments = list(segments(self._graph, outputs, self._limits))
        for number, segment in enumerate(self._segments):
            left = None if end is None else end - perf_counter()
            if left is not None and left <= 0:
                raise EvaluationError(f"onnxruntime does not end within {timeout:g} s")
            values.update(self._run_segment(number, values, left))
            for name in segment.released:
                del values[name]
        constants = self._graph.constants
        return [values[n] if n in values else cast("Tensor", constants[n]).array for n in outputs]

    def _model(self, number: int, values: Arrays) -> _SegmentModel:
        """The model of a segment for values of these types and ranks, kept for the next run. Raises EvaluationError."""
        reads = self._segments[number].reads
        key = tuple(_kind(name, values[name]) for name in reads)
        known = self._models.get(number)
        if known is None or known[0] != key:
            types = [_fed_type(name, values[name]) for name in reads]
            self._models[number] = known = key, _SegmentModel.of(self._graph, self._segments[number], types)
        return known[1]

    def _run_segment(self, number: int, values: Arrays, timeout: float | None) -> dict[str, Any]:
        segment, model = self._segments[number], self._model(number, values)
        weights = {model.names[name]: self._graph.model.tensors[name] for name in model.weights}
        given = {model.names[name]: values[name] for name in segment.reads}
        wanted = [model.names[name] for name in segment.made]
        session, found = self._session(model.data), None
        if session is not None:
            try:
                found = session.run(wanted, given | {name: t.array for name, t in weights.items()}, timeout)
            except EvaluationError:  # a kernel may require that its weights are constant
                if not weights:
                    raise
                self._sessions[model.data] = None
        if found is None:
            found = LoadedModel(model.with_weights(weights), self.config).run(wanted, given, timeout)
        for weight in weights.values():
            weight.release_pages()
        return dict(zip(segment.made, found, strict=True))

    def _session(self, data: bytes) -> LoadedModel | None:
        """The session of a model whose weights are inputs; it is now the most recently used one. See `_fed_session`."""
        if data in self._sessions:
            self._sessions[data] = self._sessions.pop(data)
        else:
            while len(self._sessions) >= self._limits.sessions:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[data] = self._fed_session(data)
        return self._sessions[data]

    def _fed_session(self, data: bytes) -> LoadedModel | None:
        """A session whose weights are inputs, possibly of another model; None if a kernel requires constant weights."""
        key = self.config, data
        if (session := _SESSIONS.get(key)) is None:
            try:
                session = _SESSIONS[key] = LoadedModel(data, self.config)
            except ModelLoadError:
                return None
        return session


def _fed_type(name: str, value: Any) -> onnx.TypeProto:
    """The type of a value that is fed to a segment. Raises EvaluationError for a value that cannot be passed."""
    if not isinstance(value, list):
        return value_type(value)
    elements = cast("list[Any]", value)
    if not elements or not isinstance(elements[0], np.ndarray):
        raise EvaluationError(f"{name} is not handed on between segments: an empty sequence, or not of tensors")
    return helper.make_sequence_type_proto(value_type(elements[0]))


def _kind(name: str, value: Any) -> Hashable:
    """A key that differs for values of different types or ranks. Raises EvaluationError like `_fed_type`."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.dtype, array.ndim
    return _fed_type(name, value).SerializeToString(deterministic=True)


def segment_memory(model: SplitModel, memory: int | None) -> int | None:
    """The memory for the segments of a model whose weights exceed 1 GB or half of `memory`; None for other models."""
    limit = MAX_WHOLE_BYTES if memory is None else min(MAX_WHOLE_BYTES, memory // 2)
    return limit if sum(t.nbytes for t in model.tensors.values()) > limit else None


def load_by_size(model: Loadable, config: SessionConfig = UNOPTIMIZED) -> LoadedModel | SegmentedRuntime:
    """A session of a model; a wide or long one is loaded in segments of few nodes, with one thread each.

    Raises ModelLoadError.
    """
    split, single = split_model(model), replace(config, intra_op_threads=1)
    if not takes_quadratic_time(split.message):
        return LoadedModel(split, single)
    _require_kernels(split.message)
    return SegmentedRuntime(split, SegmentLimits(nodes=MAX_SEGMENT_NODES), single)


def _require_kernels(message: onnx.ModelProto) -> None:
    """Raise ModelLoadError for an operator that onnxruntime lacks, because segments are only loaded when they run."""
    versions, local = opset_versions(message), {(canonical_domain(f.domain), f.name) for f in message.functions}
    used = dict.fromkeys((canonical_domain(n.domain), n.op_type) for n in all_nodes(message.graph.node))
    for domain, op_type in used:
        if custom_operators() is not None and is_foreign(domain):
            continue  # a segment without a kernel fails when it is loaded
        if (domain, op_type) not in local and not runs_on_cpu(op_type, domain, versions.get(domain, 1)):
            raise ModelLoadError(f"onnxruntime cannot load it: it has no kernel for {op_type}")


def takes_quadratic_time(message: onnx.ModelProto) -> bool:
    """Whether onnxruntime loads a model in time quadratic in its number of nodes or its width, and that is large.

    The width is the number of inputs or outputs of the graph, or of ops on one level, by the longest path from the
    inputs. O(V + E) for a graph of more than MAX_WIDTH edges.
    """
    graph = message.graph
    if max(len(graph.input), len(graph.output)) > MAX_WIDTH or len(graph.node) > MAX_WHOLE_NODES:
        return True
    if len(graph.node) <= MAX_WIDTH:
        return False
    levels, widths = dict[str, int](), Counter[int]()
    for node, reads in sorted_nodes(graph.node):
        level = 1 + max((levels.get(name, 0) for name in reads), default=0)
        levels.update(dict.fromkeys(node.output, level))
        widths[level] += 1
    return max(widths.values()) > MAX_WIDTH


def segments(graph: ValueGraph, outputs: Sequence[str], limits: SegmentLimits) -> Iterator[Segment]:
    """Yield the nodes that `outputs` need, in segments within limits."""
    wanted = dict.fromkeys(n for n in outputs if n not in graph.constants)
    needed, _ = graph.ancestors(wanted, lambda _: False)
    order = [n for n in needed if not is_constant_node(graph.nodes[n])]
    last_read = {name: position for position, n in enumerate(order) for name in graph.reads[n]}
    last_read |= dict.fromkeys(wanted, len(order))
    for begin, end in _spans(graph, order, limits):
        own = dict.fromkeys(o for n in order[begin:end] for o in graph.nodes[n].output if o)
        read = dict.fromkeys(name for n in order[begin:end] for name in graph.reads[n] if name not in own)
        inside = [graph.producers[n][0] for n in read if n in graph.producers and is_constant_node(_producer(graph, n))]
        outside = [n for n in read if n not in graph.producers or not is_constant_node(_producer(graph, n))]
        yield Segment(
            (*dict.fromkeys(inside), *order[begin:end]),
            tuple(n for n in outside if n not in graph.initializers),
            tuple(n for n in outside if n in graph.initializers),
            tuple(n for n in own if last_read.get(n, -1) >= end),
            tuple(n for n in outside if n in graph.producers and last_read[n] < end),
        )


def _spans(graph: ValueGraph, order: Sequence[int], limits: SegmentLimits) -> Iterator[tuple[int, int]]:
    """Yield spans of positions in `order`; a new one begins where the nodes or the weights would exceed their limit."""
    begin, held = 0, dict[str, int]()
    for position, n in enumerate(order):
        read = {name: t.nbytes for name in graph.reads[n] if (t := graph.model.tensors.get(name)) is not None}
        is_heavy = held and read.keys() - held.keys() and sum((held | read).values()) > limits.weight_bytes
        if is_heavy or position - begin == limits.nodes:
            yield begin, position
            begin, held = position, {}
        held |= read
    if begin < len(order):
        yield begin, len(order)


def _producer(graph: ValueGraph, name: str) -> onnx.NodeProto:
    return graph.nodes[graph.producers[name][0]]


class _SegmentModel(Struct, frozen=True):
    """The model of a segment without its large `weights`, and its `names` by the names in the whole model.

    Names are numbered, so that segments that differ only in names and weights have the same message. Segments with
    subgraphs, which may read any outer name, keep their names.
    """

    message: onnx.ModelProto
    data: bytes  # of the same model with the weights as inputs
    names: Mapping[str, str]
    weights: tuple[str, ...]

    @classmethod
    def of(cls, graph: ValueGraph, segment: Segment, types: Sequence[onnx.TypeProto]) -> _SegmentModel:
        """The plan for values of these types."""
        nodes = [graph.nodes[n] for n in segment.nodes]
        weights = tuple(name for name in segment.constants if name in graph.model.tensors)
        small = [name for name in segment.constants if name not in graph.model.tensors]
        defined = (o for node in nodes for o in node.output if o)
        everything = dict.fromkeys((*segment.reads, *segment.constants, *defined))
        keeps_names = any(True for node in nodes for _ in subgraphs(node))
        names = {name: name if keeps_names else f"v{i}" for i, name in enumerate(everything)}
        message = graph.part(segment.nodes, small).message
        message.graph.name = "segment"
        for tensor in (*message.graph.initializer, *(s.values for s in message.graph.sparse_initializer)):
            tensor.name = names[tensor.name]
        message.graph.node.extend(_renamed(node, names) for node in nodes)
        given = zip(segment.reads, types, strict=True)
        message.graph.input.extend(onnx.ValueInfoProto(name=names[name], type=kind) for name, kind in given)
        message.graph.output.extend(onnx.ValueInfoProto(name=names[name]) for name in segment.made)
        fed = deepcopy(message)
        tensors = ((names[name], graph.model.tensors[name]) for name in weights)
        fed.graph.input.extend(helper.make_tensor_value_info(name, t.dtype, t.dims) for name, t in tensors)
        return cls(message, fed.SerializeToString(deterministic=True), names, weights)

    def with_weights(self, weights: Mapping[str, Tensor]) -> SplitModel:
        """The model with weights as initializers."""
        message = deepcopy(self.message)
        message.graph.initializer.extend(t.proto_without_elements(name) for name, t in weights.items())
        return SplitModel(message, weights)


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    found = copy_without(node, "input", "output", "name", "doc_string", "metadata_props")
    found.input.extend(names.get(name, name) for name in node.input)
    found.output.extend(names.get(name, name) for name in node.output)
    return found
