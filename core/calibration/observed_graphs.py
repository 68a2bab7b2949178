"""Runs of a model that give the values of all its graphs: those of bodies of Loop and Scan in each iteration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..ir.op_schemas import canonical_domain
from ..ort.backends import OnnxRuntime
from ..ort.sessions import SessionConfig
from ..serialization.proto_queries import (
    all_nodes,
    captured_names,
    copy_without,
    named_subgraphs,
    needed_nodes,
    opset_versions,
    subgraphs,
)

OPTIONAL_INPUTS_IR = 4  # the IR version since which initializers need not be inputs
Array = np.ndarray[Any, Any]
Constant = onnx.TensorProto | onnx.SparseTensorProto | onnx.NodeProto
Observe = Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class Observation:
    """The values to observe, by name, or only their shapes. `folder` has external weights of the model."""

    names: Collection[str]
    config: SessionConfig
    folder: Path | None = None
    shapes: bool = False


@dataclass(slots=True)
class ObservedGraph:
    """A graph as a model of its own, and the bodies in it with values to observe, each again as such a model.

    onnxruntime gives no values of bodies. So the model also outputs what these bodies read, and they run on that.
    `header` is the model without graph. `graph` is changed, and empty once the model is loaded. `results` are the
    values that a run returns. `constants` of enclosing graphs are copied where they are read; None for the main graph.
    """

    header: onnx.ModelProto
    graph: onnx.GraphProto
    observation: Observation
    results: Sequence[str] = ()
    constants: Mapping[str, Constant] | None = None
    names: list[str] = field(init=False)
    """The values to observe, those of bodies last; some may be there more than once."""
    outer: list[str] = field(init=False)
    """The values of enclosing graphs that a run needs."""
    _bodies: list[_Body] = field(init=False)
    _observed: dict[str, str] = field(init=False)  # by name: the output or input of the model
    _needed: list[str] = field(init=False)  # outputs, or inputs
    _session: OnnxRuntime | None = None

    @classmethod
    def of_model(cls, model: onnx.ModelProto, observation: Observation) -> ObservedGraph:
        """The main graph of a model, which is changed."""
        return cls(copy_without(model, "graph"), model.graph, observation)

    def __post_init__(self) -> None:
        graph = self.graph
        defined = _defined_names(graph)
        own = [name for name in defined if name in self.observation.names]
        enclosing = {name: c for name, c in (self.constants or {}).items() if name not in defined}
        bodies = (body for node in graph.node for body in self._bodies_of(node, enclosing | _constants(graph)))
        self._bodies = [body for body in bodies if body.observed.names]
        self.names = own + [name for body in self._bodies for name in body.observed.names]
        self._observed = _append_shapes(graph, own) if self.observation.shapes else dict(zip(own, own, strict=True))
        read = (name for body in self._bodies for name in body.reads)
        self._needed = list(dict.fromkeys((*self._observed.values(), *self.results, *read)))
        del graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._needed)
        _keep_needed_nodes(graph)
        free = captured_names(graph)
        for name in free:
            _add_constant(graph, enclosing.get(name))
        self.outer = [name for name in free if name not in enclosing]

    def _bodies_of(self, node: onnx.NodeProto, constants: Mapping[str, Constant]) -> Iterator[_Body]:
        run = None if canonical_domain(node.domain) else RUNS.get(node.op_type)
        if run is None or opset_versions(self.header).get("", 0) < FIRST_OPSETS.get(node.op_type, 0):
            return
        for attribute, subgraph in named_subgraphs(node):
            inputs, body = [copy_without(v) for v in subgraph.input], copy_without(subgraph)
            results = [o.name for o in body.output][: _result_count(node)]
            yield _Body(
                node, attribute, inputs, ObservedGraph(self.header, body, self.observation, results, constants), run
            )

    def run(self, feeds: Mapping[str, Any], observe: Observe) -> list[Any]:
        """Run on the inputs and the `outer` values, call `observe` with names and values, and return the `results`.

        Raises ModelLoadError and EvaluationError.
        """
        found = {**feeds, **self._computed(feeds)}
        for name, output in self._observed.items():
            observe(name, found[output])
        for body in self._bodies:
            body.run(body, found, observe)
        return [found[name] for name in self.results]

    def _computed(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the model that are not fed."""
        outputs = [name for name in self._needed if name not in feeds]
        if not outputs:
            return {}
        if self._session is None:
            self._session = self._load(feeds)
        return dict(zip(outputs, self._session.run(outputs, feeds), strict=True))

    def _load(self, feeds: Mapping[str, Any]) -> OnnxRuntime:
        """A session of the model. The model of a body takes the types of its inputs from their first values."""
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
        return OnnxRuntime(model.SerializeToString(), self.observation.config, folder=self.observation.folder)


@dataclass(frozen=True, slots=True)
class _Body:
    """A body of `node`, in its `attribute`, and its `run` on the values of the graph with the node."""

    node: onnx.NodeProto
    attribute: str
    inputs: Sequence[onnx.ValueInfoProto]
    observed: ObservedGraph
    run: Callable[[_Body, Mapping[str, Any], Observe], None]

    @property
    def reads(self) -> list[str]:
        """The values of the graph with the node that a run needs."""
        return [*filter(None, self.node.input), *self.observed.outer]

    def step(self, given: Sequence[Any], found: Mapping[str, Any], observe: Observe) -> list[Any]:
        """Run once on the inputs `given`; the results."""
        outer = {name: found[name] for name in self.observed.outer}
        named = {v.name: value for v, value in zip(self.inputs, given, strict=True)}
        return self.observed.run(outer | named, observe)

    def scalar(self, index: int, value: Any) -> Array:
        """`value` for an input of one element, in one dimension if that is declared, as onnxruntime gives it."""
        rank = len(self.inputs[index].type.tensor_type.shape.dim)
        return np.asarray(value).reshape((1,) * rank)


def _run_branch(body: _Body, found: Mapping[str, Any], observe: Observe) -> None:
    if body.attribute == ("then_branch" if _is_true(found[body.node.input[0]]) else "else_branch"):
        body.step([], found, observe)


def _run_loop(body: _Body, found: Mapping[str, Any], observe: Observe) -> None:
    limit, goes_on, *states = (found[name] if name else None for name in _padded(body.node.input, 2))
    limit = inf if limit is None else int(np.asarray(limit).item())
    condition = body.scalar(1, True if goes_on is None else goes_on)
    trip = 0
    while trip < limit and _is_true(condition):
        given = [body.scalar(0, np.int64(trip)), condition, *states]
        condition, *states = body.step(given, found, observe)
        trip += 1


def _run_scan(body: _Body, found: Mapping[str, Any], observe: Observe) -> None:
    attributes = {a.name: helper.get_attribute_value(a) for a in body.node.attribute}
    values = [found[name] for name in body.node.input]
    states, scanned = values[: _result_count(body.node)], values[_result_count(body.node) :]
    axes = attributes.get("scan_input_axes") or [0] * len(scanned)
    directions = attributes.get("scan_input_directions") or [0] * len(scanned)
    turned = [
        np.moveaxis(x, axis, 0)[:: -1 if back else 1] for x, axis, back in zip(scanned, axes, directions, strict=True)
    ]
    for elements in zip(*turned, strict=True):
        states = body.step([*states, *(np.asarray(e, order="C") for e in elements)], found, observe)


RUNS = MappingProxyType({"If": _run_branch, "Loop": _run_loop, "Scan": _run_scan})
FIRST_OPSETS = MappingProxyType({"Scan": 9})  # without batches


def _result_count(node: onnx.NodeProto) -> int:
    """The number of the first results of a body that the next iteration takes."""
    if node.op_type == "Loop":
        return max(1, len(node.input) - 1)
    scanned = (a.i for a in node.attribute if a.name == "num_scan_inputs")
    return len(node.input) - next(scanned) if node.op_type == "Scan" else 0


def _padded(names: Iterable[str], count: int) -> list[str]:
    found = list(names)
    return [*found, *[""] * (count - len(found))]


def _is_true(condition: Any) -> bool:
    return bool(np.asarray(condition).item())


def _type_of(value: Any, declared: onnx.TypeProto | None) -> onnx.TypeProto:
    """The type of a value, of any shape; lists that are empty and None have the `declared` one."""
    if hasattr(value, "dtype"):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)
    if declared is not None and declared.WhichOneof("value"):
        return declared
    return helper.make_sequence_type_proto(_type_of(value[0] if value else np.float32(0), None))


def _defined_names(graph: onnx.GraphProto) -> dict[str, None]:
    """The names that a graph defines, without its bodies, in order."""
    initializers = (*(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer))
    names = chain((v.name for v in graph.input), initializers, *(node.output for node in graph.node))
    return dict.fromkeys(filter(None, names))


def _constants(graph: onnx.GraphProto) -> dict[str, Constant]:
    """The constants of a graph, by name."""
    found: dict[str, Constant] = {t.name: t for t in graph.initializer}
    found |= {s.values.name: s for s in graph.sparse_initializer}
    for v in graph.input:
        found.pop(v.name, None)  # it can be overridden
    nodes = (node for node in graph.node if node.op_type == "Constant" and not canonical_domain(node.domain))
    return found | {node.output[0]: node for node in nodes}


def _add_constant(graph: onnx.GraphProto, constant: Constant | None) -> None:
    if isinstance(constant, onnx.NodeProto):
        graph.node.insert(0, constant)
    elif isinstance(constant, onnx.TensorProto):
        graph.initializer.append(constant)
    elif constant is not None:
        graph.sparse_initializer.append(constant)


def _append_shapes(graph: onnx.GraphProto, names: Iterable[str]) -> dict[str, str]:
    """Append nodes with the shapes of values; the names of these by those of the values."""
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
