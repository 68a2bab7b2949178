"""Bodies of If, Loop and Scan as models of their own, and the inputs that they get in a run of the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ...io.split_models import SplitModel
from ...ir.op_schemas import canonical_domain
from ...ir.tensor import Tensor
from ...serialization.proto_queries import captured_names, opset_versions
from .region_models import value_type
from .value_graph import ValueGraph

MAX_ITERATIONS = 4  # of a Loop or Scan on one input set
SCAN_WITHOUT_BATCH = 9  # the opset since which a Scan has no batch and no lengths

RunBody = Callable[[Mapping[str, Any]], Sequence[Any]]
"""Computes the outputs of a body. Raises EvaluationError."""


@dataclass(frozen=True, slots=True)
class BodyPair:
    """An op with bodies that is in both models, by the positions of its nodes in `original` and `rewritten`.

    `is_given` selects the values of the original that the rewritten op gets. `reads` are the computed values of the
    original that the op reads in either model.
    """

    original: ValueGraph
    rewritten: ValueGraph
    before: int
    after: int
    is_given: Callable[[str], bool]
    reads: tuple[str, ...] = ()

    @classmethod
    def at(
        cls, original: ValueGraph, rewritten: ValueGraph, site: str, is_given: Callable[[str], bool]
    ) -> BodyPair | None:
        """The op that computes the same output in both models; None if there is none, or it has no bodies."""
        before, after = (graph.producers.get(site) for graph in (original, rewritten))
        if before is None or after is None or before[1] != after[1]:
            return None
        a, b = original.nodes[before[0]], rewritten.nodes[after[0]]
        is_old_scan = a.op_type == "Scan" and opset_versions(original.model.message)[""] < SCAN_WITHOUT_BATCH
        if a.op_type not in {"If", "Loop", "Scan"} or canonical_domain(a.domain) or is_old_scan:
            return None
        if a.op_type != b.op_type or canonical_domain(b.domain):
            return None
        new = rewritten.reads[after[0]]
        _, outside = rewritten.ancestors([n for n in new if not is_given(n)], is_given)
        old = (n for n in original.reads[before[0]] if n in original.producers and n not in original.constants)
        reads = tuple(dict.fromkeys((*old, *filter(is_given, (*new, *outside)))))
        return cls(original, rewritten, before[0], after[0], is_given, reads)

    def names(self, values: Mapping[str, Any]) -> tuple[str, str] | None:
        """The attributes with the bodies that run on these values, in both models; None if that is not known."""
        old, new = self.original.nodes[self.before], self.rewritten.nodes[self.after]
        if old.op_type != "If":
            return "body", "body"
        conditions = _value(self.original, old.input[0], values), _value(self.rewritten, new.input[0], values)
        if any(c is None for c in conditions):
            return None
        before, after = ("then_branch" if bool(np.asarray(c).item()) else "else_branch" for c in conditions)
        return before, after

    def bodies(self, names: tuple[str, str]) -> tuple[onnx.GraphProto, onnx.GraphProto]:
        """The bodies in attributes of these names."""
        return _body(self.original.nodes[self.before], names[0]), _body(self.rewritten.nodes[self.after], names[1])

    def models(
        self, bodies: tuple[onnx.GraphProto, onnx.GraphProto], values: Mapping[str, Any]
    ) -> tuple[SplitModel, SplitModel] | None:
        """Both bodies as models, which read `values` of the original; None if names of one mean two things."""
        old = _body_model(self.original, self.before, bodies[0], self._is_read, values)
        new = _body_model(self.rewritten, self.after, bodies[1], self.is_given, values)
        return None if old is None or new is None else (old, new)

    def _is_read(self, name: str) -> bool:
        return name in self.reads

    def iterations(self, body: onnx.GraphProto, values: Mapping[str, Any], run: RunBody) -> Iterator[dict[str, Any]]:
        """The inputs of the original's body in its first iterations, of which `run` computes outputs.

        Raises EvaluationError.
        """
        node = self.original.nodes[self.before]
        inputs = [_value(self.original, name, values) if name else None for name in node.input]
        if node.op_type == "If":
            yield {}
        elif node.op_type == "Loop":
            yield from _loop_iterations(body, inputs, run)
        else:
            yield from _scan_iterations(node, body, inputs, run)


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _value(graph: ValueGraph, name: str, values: Mapping[str, Any]) -> Any:
    """A value that is given or constant; None for another one."""
    constant = graph.constants.get(name)
    return constant.array if isinstance(constant, Tensor) else values.get(name)


def _loop_iterations(body: onnx.GraphProto, inputs: Sequence[Any], run: RunBody) -> Iterator[dict[str, Any]]:
    trips, keep, *carried = (*inputs, *[None] * (2 - len(inputs)))
    state = [np.array(True) if keep is None else keep, *carried]
    count = MAX_ITERATIONS if trips is None else min(int(np.asarray(trips).item()), MAX_ITERATIONS)
    for i in range(count):
        if not np.asarray(state[0]).item():
            return
        number, condition = (
            np.reshape(x, (1,) * len(v.type.tensor_type.shape.dim))
            for x, v in zip((np.array(i), np.asarray(state[0])), body.input, strict=False)
        )
        feeds = dict(zip((v.name for v in body.input), (number, condition, *state[1:]), strict=True))
        yield feeds
        if i + 1 < count:
            state = list(run(feeds)[: len(state)])


def _scan_iterations(
    node: onnx.NodeProto, body: onnx.GraphProto, inputs: Sequence[Any], run: RunBody
) -> Iterator[dict[str, Any]]:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}
    first = len(inputs) - attributes["num_scan_inputs"]
    state, scanned = list(inputs[:first]), inputs[first:]
    axes = attributes.get("scan_input_axes", [0] * len(scanned))
    backwards = attributes.get("scan_input_directions", [0] * len(scanned))
    count = min(np.shape(scanned[0])[axes[0]], MAX_ITERATIONS)
    for i in range(count):
        places = [-1 - i if b else i for b in backwards]
        slices = [np.take(x, at, axis) for x, at, axis in zip(scanned, places, axes, strict=True)]
        feeds = dict(zip((v.name for v in body.input), (*state, *slices), strict=True))
        yield feeds
        if i + 1 < count:
            state = list(run(feeds)[:first])


def _body_model(
    graph: ValueGraph, node: int, body: onnx.GraphProto, is_given: Callable[[str], bool], values: Mapping[str, Any]
) -> SplitModel | None:
    """A body, and what it reads from outside: `values` that are given, and the part of the graph behind others.

    None if a name is defined in both.
    """
    captured = captured_names(body)
    kept, outside = graph.ancestors([n for n in captured if not is_given(n)], is_given)
    names = [n for n in dict.fromkeys((*captured, *outside)) if n in values or n in graph.initializers]
    given = [n for n in names if n in values and (is_given(n) or n in graph.inputs)]
    constants = [n for n in names if n in graph.initializers and n not in given]
    before = [graph.nodes[n] for n in kept]
    own = {
        *(v.name for v in body.input),
        *(t.name for t in body.initializer),
        *(o for n in body.node for o in n.output),
    }
    if own & {*given, *constants, *(o for n in before for o in n.output)}:
        return None
    message = onnx.ModelProto(ir_version=graph.model.message.ir_version)
    message.opset_import.extend(graph.model.message.opset_import)
    message.functions.extend(graph.called_functions((*kept, node)))
    message.graph.CopyFrom(body)
    del message.graph.node[:], message.graph.input[:]
    message.graph.node.extend((*before, *body.node))
    for info in (*body.input, *(onnx.ValueInfoProto(name=n) for n in given)):
        known = isinstance(values.get(info.name), np.ndarray)
        message.graph.input.add(name=info.name, type=value_type(values[info.name]) if known else info.type)
    for name in constants:
        proto = graph.initializers[name]
        if isinstance(proto, onnx.SparseTensorProto):
            message.graph.sparse_initializer.append(proto)
        else:
            message.graph.initializer.append(proto)
    return SplitModel(message, {n: graph.model.tensors[n] for n in constants if n in graph.model.tensors})
