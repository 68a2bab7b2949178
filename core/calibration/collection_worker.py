"""Worker process that runs a model, including bodies of Loop and Scan, and collects statistics of its values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import helper

from ..ir.op_schemas import canonical_domain
from ..operators.declaration import OperatorCall
from ..operators.table import OPERATORS
from ..ort import value_files
from ..ort.backends import LoadedModel
from ..ort.sessions import UNOPTIMIZED, SessionConfig
from ..processes.worker_process import serve
from ..serialization.proto_queries import (
    all_nodes,
    captured_names,
    copy_without,
    has_subgraphs,
    is_constant_node,
    named_subgraphs,
    needed_nodes,
    opset_versions,
    subgraphs,
)
from .statistics import Array, StatisticsCollector, ValueStatistics

OPTIONAL_INPUTS_IR = 4  # the IR version since which initializers need not be inputs
Constant = onnx.TensorProto | onnx.SparseTensorProto | onnx.NodeProto
Observe = Callable[[str, Any], None]


class Observation(Struct, frozen=True):
    """The values to observe, by name, or only their shapes. `folder` contains external weights of the model."""

    names: Collection[str]
    config: SessionConfig
    folder: Path | None = None
    shapes: bool = False


@dataclass(slots=True)
class ObservedGraph:
    """A graph as a separate model, and the bodies in it that contain observed values, as such models again.

    onnxruntime does not return values of bodies. The model therefore also outputs what these bodies read, and the
    bodies run on that. `header` is the model without graph. `graph` is modified, and empty once the model is loaded.
    `results` are the values that a run returns. `constants` of enclosing graphs are copied where they are read; None
    for the main graph.
    """

    header: onnx.ModelProto
    graph: onnx.GraphProto
    observation: Observation
    results: Sequence[str] = ()
    constants: Mapping[str, Constant] | None = None
    names: list[str] = field(init=False)
    """The values to observe, with the values in bodies last; may contain duplicates."""
    outer: list[str] = field(init=False)
    """The values of enclosing graphs that a run needs."""
    _nodes: list[_NodeWithBodies] = field(init=False)
    _observed: dict[str, str] = field(init=False)  # maps names to the output or input of the model
    _needed: list[str] = field(init=False)  # names of outputs or inputs
    _session: LoadedModel | None = None

    @classmethod
    def of_model(cls, model: onnx.ModelProto, observation: Observation) -> ObservedGraph:
        """The main graph of a model; the model is modified."""
        return cls(copy_without(model, "graph"), model.graph, observation)

    def __post_init__(self) -> None:
        graph = self.graph
        defined = _defined_names(graph)
        own = [name for name in defined if name in self.observation.names]
        enclosing = {name: c for name, c in (self.constants or {}).items() if name not in defined}
        nodes = (self._node_with_bodies(node, enclosing | _constants(graph)) for node in graph.node)
        self._nodes = [node for node in nodes if node is not None]
        bodies = [body for node in self._nodes for body in node.bodies.values()]
        self.names = own + [name for body in bodies for name in body.names]
        self._observed = _append_shapes(graph, own) if self.observation.shapes else dict(zip(own, own, strict=True))
        read = (
            *(name for node in self._nodes for name in node.node.input if name),
            *(n for b in bodies for n in b.outer),
        )
        self._needed = list(dict.fromkeys((*self._observed.values(), *self.results, *read)))
        del graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._needed)
        _keep_needed_nodes(graph)
        free = captured_names(graph)
        for name in free:
            _add_constant(graph, enclosing.get(name))
        self.outer = [name for name in free if name not in enclosing]

    def _node_with_bodies(self, node: onnx.NodeProto, constants: Mapping[str, Constant]) -> _NodeWithBodies | None:
        """A node of the graph if values in its bodies are observed; otherwise None."""
        version = opset_versions(self.header).get("", 0)
        operator = OPERATORS.get(node.op_type) if has_subgraphs(node) and not canonical_domain(node.domain) else None
        if operator is None or operator.meaning(version) is None:
            return None
        kept = (a for a in node.attribute if not a.name.startswith("scan_output_"))
        attributes = {a.name: helper.get_attribute_value(a) for a in kept}
        bodies = dict[str, ObservedGraph]()
        for name, subgraph in named_subgraphs(node):
            carried = subgraph.output[: _result_count(node, version)]
            attributes[name] = onnx.GraphProto(input=subgraph.input, output=carried)
            results = [o.name for o in carried]
            observed = ObservedGraph(self.header, copy_without(subgraph), self.observation, results, constants)
            if observed.names:
                bodies[name] = observed
        return _NodeWithBodies(node, version, attributes, bodies) if bodies else None

    def run(self, feeds: Mapping[str, Any], observe: Observe) -> list[Any]:
        """Run on the inputs and the `outer` values, call `observe` with names and values, and return the `results`.

        Raises ModelLoadError and EvaluationError.
        """
        found = {**feeds, **self._computed(feeds)}
        for name, output in self._observed.items():
            observe(name, found[output])
        for node in self._nodes:
            node.run(found, observe)
        return [found[name] for name in self.results]

    def _computed(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the model that are not inputs."""
        outputs = [name for name in self._needed if name not in feeds]
        if not outputs:
            return {}
        if self._session is None:
            self._session = self._load(feeds)
        return dict(zip(outputs, self._session.run(outputs, feeds), strict=True))

    def _load(self, feeds: Mapping[str, Any]) -> LoadedModel:
        """Create a session of the model. The inputs of a body's model get the types of their first values."""
        model = copy_without(self.header)
        model.graph.CopyFrom(self.graph)
        model.graph.name = model.graph.name or "body"
        if self.constants is not None:
            model.ir_version = max(model.ir_version, OPTIONAL_INPUTS_IR)
            declared = {v.name: v.type for v in self.graph.input}
            del model.graph.input[:]
            model.graph.input.extend(
                onnx.ValueInfoProto(name=name, type=_type_of(value, declared.get(name)))
                for name, value in feeds.items()
            )
        return LoadedModel(model.SerializeToString(), self.observation.config, folder=self.observation.folder)


class _NodeWithBodies(Struct, frozen=True):
    """A `node` at the opset `version` with observed values in `bodies`, by attribute.

    Bodies in its `attributes` only declare the inputs and the results that the next iteration takes.
    """

    node: onnx.NodeProto
    version: int
    attributes: Mapping[str, Any]
    bodies: Mapping[str, ObservedGraph]

    def run(self, found: Mapping[str, Any], observe: Observe) -> None:
        """Run the bodies on values of the node's graph, as often as the operator does."""

        def run_body(graph: onnx.GraphProto, given: Sequence[Any]) -> list[Any]:
            body = next((b for name, b in self.bodies.items() if self.attributes[name] is graph), None)
            if body is None:
                return []
            outer = {name: found[name] for name in body.outer}
            return body.run(
                outer | {v.name: _as_declared(x, v) for v, x in zip(graph.input, given, strict=True)}, observe
            )

        call = OperatorCall(self.node, self.version, self.attributes, (), run_body)
        OPERATORS[self.node.op_type].run(call, *(found[name] if name else None for name in self.node.input))


def _result_count(node: onnx.NodeProto, version: int) -> int:
    """The number of a body's first results that the next iteration takes."""
    if node.op_type == "Loop":
        return max(1, len(node.input) - 1)
    scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), len(node.input))
    return len(node.input) - scanned - (node.op_type == "Scan" and version < 9)  # its first input has lengths


def _as_declared(value: Any, declared: onnx.ValueInfoProto) -> Any:
    """Convert a value for an input; a number becomes an array with one dimension if declared, as onnxruntime does."""
    if not hasattr(value, "dtype"):
        return value
    array: Array = np.asarray(value, order="C")
    return array if array.ndim else array.reshape((1,) * len(declared.type.tensor_type.shape.dim))


def _type_of(value: Any, declared: onnx.TypeProto | None) -> onnx.TypeProto:
    """The type of a value with any shape; None and empty lists have the `declared` type."""
    if hasattr(value, "dtype"):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)
    if declared is not None and declared.WhichOneof("value"):
        return declared
    return helper.make_sequence_type_proto(_type_of(value[0] if value else np.float32(0), None))


def _defined_names(graph: onnx.GraphProto) -> dict[str, None]:
    """The names that a graph defines outside of its bodies, in order."""
    initializers = (*(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer))
    names = chain((v.name for v in graph.input), initializers, *(node.output for node in graph.node))
    return dict.fromkeys(filter(None, names))


def _constants(graph: onnx.GraphProto) -> dict[str, Constant]:
    """The constants of a graph, by name."""
    found: dict[str, Constant] = {t.name: t for t in graph.initializer}
    found |= {s.values.name: s for s in graph.sparse_initializer}
    for v in graph.input:
        found.pop(v.name, None)  # it can be overridden
    return found | {node.output[0]: node for node in filter(is_constant_node, graph.node)}


def _add_constant(graph: onnx.GraphProto, constant: Constant | None) -> None:
    if isinstance(constant, onnx.NodeProto):
        graph.node.insert(0, constant)
    elif isinstance(constant, onnx.TensorProto):
        graph.initializer.append(constant)
    elif constant is not None:
        graph.sparse_initializer.append(constant)


def _append_shapes(graph: onnx.GraphProto, names: Iterable[str]) -> dict[str, str]:
    """Append Shape nodes for values; return the names of the shapes by the names of the values."""
    graphs = [graph, *(g for node in all_nodes(graph.node) for g in subgraphs(node))]
    used = {name for g in graphs for node in g.node for name in (*node.input, *node.output)}
    used.update(name for g in graphs for name in _defined_names(g))
    fresh = (name for i in count() if (name := f"shape{i}") not in used)
    shapes = {name: next(fresh) for name in names}
    graph.node.extend(helper.make_node("Shape", [name], [shape]) for name, shape in shapes.items())
    return shapes


def _keep_needed_nodes(graph: onnx.GraphProto) -> None:
    """Remove the nodes that no output needs."""
    kept = needed_nodes(graph.node, [o.name for o in graph.output])
    if len(kept) < len(graph.node):
        kept = [copy_without(node) for node in kept]
        del graph.node[:]
        graph.node.extend(kept)


FLOAT_KINDS = frozenset({"float16", "bfloat16", "float32", "float64"})  # names of dtypes


@dataclass(slots=True)
class CollectionWorker:
    """The file of a model, the collectors of values, and the graph that is run for them."""

    path: Path = Path()
    config: SessionConfig = UNOPTIMIZED
    collectors: dict[str, StatisticsCollector] = field(default_factory=dict[str, StatisticsCollector])
    observed: ObservedGraph | None = None

    def load(self, path: Path, config: SessionConfig) -> None:
        """Set the model file, which has its external weights next to it."""
        self.path, self.config = path, config

    def unload(self) -> None:
        """Free the memory of the model and of the statistics."""
        self.collectors, self.observed = {}, None

    def sizes(self, names: Iterable[str], feeds: Path) -> dict[str, int]:
        """The maximum number of elements that each observable value has on a sample."""
        observed = self._observe(names, shapes=True)
        found = dict.fromkeys(observed.names, 0)

        def measure(name: str, shape: Array) -> None:
            found[name] = max(found[name], prod(shape.tolist()))

        observed.run(value_files.read_value(feeds), measure)
        return found

    def collect(self, collectors: Sequence[StatisticsCollector]) -> None:
        """Start collecting the statistics of some values."""
        self.collectors = {c.name: c for c in collectors}
        self.observed = self._observe(self.collectors)

    def add(self, sample: int, feeds: Path) -> None:
        """Add the values of a sample to the statistics. Raises ModelError for NaN, EvaluationError."""
        assert self.observed is not None

        def collect(name: str, value: Any) -> None:
            if not hasattr(value, "dtype") or value.dtype.name not in FLOAT_KINDS:  # a sequence, map or optional
                self.collectors.pop(name, None)
            elif value.size and name in self.collectors:
                self.collectors[name].add(np.asarray(value), sample)

        self.observed.run(value_files.read_value(feeds), collect)

    def statistics(self) -> list[ValueStatistics]:
        """The statistics of the values that are floats."""
        return [c.statistics() for c in self.collectors.values()]

    def _observe(self, names: Iterable[str], *, shapes: bool = False) -> ObservedGraph:
        """The model that outputs some values, or their shapes."""
        self.observed = None  # frees its memory first
        observation = Observation(frozenset(names), self.config, self.path.parent, shapes)
        return ObservedGraph.of_model(onnx.ModelProto.FromString(self.path.read_bytes()), observation)


def main() -> None:
    """Serve the parent until it ends."""
    serve(CollectionWorker())
