"""Bodies of If, Loop and Scan: models of their own, compared on the inputs that they get in runs of the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from ...io.split_models import SplitModel
from ...ir.op_schemas import canonical_domain
from ...ir.tensor import Tensor
from ...ort.backends import Arrays
from ...serialization.proto_queries import captured_names, opset_versions
from ..input_sets import InputSet
from ..kept_values import value_bytes
from ..seeded_session import Session
from .region_models import LoadRegion, value_type
from .shared_values import RegionDifference
from .value_graph import ValueGraph

MAX_BODY_SETS = 24  # iterations of one body on all input sets; from then on the first on each
MAX_FIRST_ITERATIONS = 256  # of one body, and those before
MAX_BODY_BYTES = 64 << 20  # bytes of their inputs, from which on there are no more
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
        cls, original: ValueGraph, rewritten: ValueGraph, cut_point: str, is_given: Callable[[str], bool]
    ) -> BodyPair | None:
        """The op that computes the same output in both models; None if there is none, or it has no bodies."""
        before, after = (graph.producers.get(cut_point) for graph in (original, rewritten))
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
    part = graph.part((*kept, node), constants)
    whole = part.message.graph
    whole.node.extend(before)
    whole.MergeFrom(body)
    del whole.input[:]
    for info in (*body.input, *(onnx.ValueInfoProto(name=n) for n in given)):
        known = isinstance(values.get(info.name), np.ndarray)
        whole.input.add(name=info.name, type=value_type(values[info.name]) if known else info.type)
    return part


CompareModels = Callable[[SplitModel, SplitModel, Sequence[InputSet]], RegionDifference | None]
"""Compares the regions of two models on input sets."""


@dataclass(slots=True)
class _Body:
    """One body of both models, and the inputs of iterations of the original's, by their input set and number."""

    original: SplitModel
    rewritten: SplitModel
    session: Session
    iterations: list[tuple[InputSet, InputSet, int]] = field(default_factory=list[tuple[InputSet, InputSet, int]])
    byte_count: int = 0

    def takes(self, number: int) -> bool:
        """Whether an iteration of this number is kept."""
        most = MAX_BODY_SETS if number else MAX_FIRST_ITERATIONS
        return len(self.iterations) < most and self.byte_count < MAX_BODY_BYTES

    def run(self, feeds: Mapping[str, Any], timeout: float | None) -> list[Any]:
        """The outputs of the original's body. Raises EvaluationError."""
        graph = self.original.message.graph
        return self.session.run([o.name for o in graph.output], {i.name: feeds[i.name] for i in graph.input}, timeout)

    def read(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of both models; raises KeyError if one is not there."""
        return {i.name: feeds[i.name] for m in (self.original, self.rewritten) for i in m.message.graph.input}


@dataclass(slots=True)
class ChangedBodies:
    """The bodies of ops that compute a cut point in both models.

    `load` makes the sessions that run those of the original, and `compare` compares them.
    """

    load: LoadRegion
    compare: CompareModels
    timeout: float | None
    _bodies: dict[tuple[str, ...], _Body | None] = field(default_factory=dict[tuple[str, ...], "_Body | None"])

    def add(self, cut_point: str, pair: BodyPair, input_set: InputSet, values: Arrays) -> None:
        """Run the first iterations of the original's body on values of the original, and keep their inputs.

        Raises EvaluationError and ModelLoadError.
        """
        if (names := pair.names(values)) is None:
            return
        key, bodies = (cut_point, *names), pair.bodies(names)

        def run(own: Mapping[str, Any]) -> list[Any]:
            body = self._bodies[key]
            assert body is not None
            return body.run({**values, **own}, self.timeout)

        for number, own in enumerate(pair.iterations(bodies[0], values, run)):
            feeds = {**values, **own}
            if key not in self._bodies:
                models = pair.models(bodies, feeds)
                self._bodies[key] = None if models is None else _Body(*models, self.load(models[0]))
            if (body := self._bodies[key]) is None or not body.takes(number):
                return
            try:
                read = body.read(feeds)
            except KeyError:
                return
            body.iterations.append(
                (InputSet(input_set.kind, input_set.sizes, read, input_set.all_kinds), input_set, number)
            )
            body.byte_count += value_bytes(read)

    def first_difference(self) -> tuple[str, RegionDifference] | None:
        """The first wrong cut point in a body, after the cut point of its op; None if all are right."""
        for (op, *_), body in self._bodies.items():
            if body is None or not body.iterations:
                continue
            found = self.compare(body.original, body.rewritten, [own for own, _, _ in body.iterations])
            if found is not None:
                input_set, number = next(i[1:] for i in body.iterations if i[0] is found.input_set)
                reason = f"{found.difference.reason}, in run {number + 1} of the body of {op}"
                return op, replace(found, input_set=input_set, difference=replace(found.difference, reason=reason))
        return None
