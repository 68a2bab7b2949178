"""Bodies of If, Loop and Scan: separate models, compared on the inputs that they get in runs of the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace

from ...io.split_models import SplitModel
from ...ir.op_schemas import canonical_domain
from ...ir.tensor import Tensor
from ...operators.declaration import BodyRunner, OperatorCall
from ...operators.table import OPERATORS
from ...ort.backends import Arrays
from ...serialization.proto_queries import captured_names, opset_versions
from ..input_sets import InputSet
from ..kept_values import value_bytes
from ..seeded_session import Session
from .region_models import LoadRegion, value_type
from .shared_values import RegionDifference
from .value_graph import ValueGraph

MAX_BODY_SETS = 24  # iterations of one body on all input sets; after that, only the first iteration on each
MAX_FIRST_ITERATIONS = 256  # of one body, including iterations that are not kept
MAX_BODY_BYTES = 64 << 20  # bytes of their inputs, above which no more are kept
MAX_ITERATIONS = 4  # of a Loop or Scan on one input set


class _EnoughIterations(Exception):
    """Raised to end the run of an op."""


class BodyPair(Struct, frozen=True):
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
        if a.op_type not in {"If", "Loop", "Scan"} or canonical_domain(a.domain):
            return None
        if a.op_type != b.op_type or canonical_domain(b.domain):
            return None
        new = rewritten.reads[after[0]]
        _, outside = rewritten.ancestors([n for n in new if not is_given(n)], is_given)
        old = (n for n in original.reads[before[0]] if n in original.producers and n not in original.constants)
        reads = tuple(dict.fromkeys((*old, *filter(is_given, (*new, *outside)))))
        return cls(original, rewritten, before[0], after[0], is_given, reads)

    def names(self, values: Mapping[str, Any]) -> tuple[str, str] | None:
        """The attributes of the bodies that run on these values, in both models; None if they are not known."""
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
        """Both bodies as models that read `values` of the original; None if a name has two meanings."""
        old = _body_model(self.original, self.before, bodies[0], self._is_read, values)
        new = _body_model(self.rewritten, self.after, bodies[1], self.is_given, values)
        return None if old is None or new is None else (old, new)

    def _is_read(self, name: str) -> bool:
        return name in self.reads

    def run(self, values: Mapping[str, Any], run_body: BodyRunner) -> None:
        """Run the original's op by its definition, with `run_body` for each iteration. Raises EvaluationError."""
        node, version = self.original.nodes[self.before], opset_versions(self.original.model.message)[""]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [_value(self.original, name, values) if name else None for name in node.input]
        OPERATORS[node.op_type].run(OperatorCall(node, version, attributes, (), run_body), *inputs)


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _value(graph: ValueGraph, name: str, values: Mapping[str, Any]) -> Any:
    """A value that is given or constant; None otherwise."""
    constant = graph.constants.get(name)
    return constant.array if isinstance(constant, Tensor) else values.get(name)


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
    """A body of both models, and the inputs of iterations of the original's, by their input set and number."""

    original: SplitModel
    rewritten: SplitModel
    session: Session
    iterations: list[tuple[InputSet, InputSet, int]] = field(default_factory=list[tuple[InputSet, InputSet, int]])
    byte_count: int = 0

    def takes(self, number: int) -> bool:
        """Whether the iteration with this number is kept."""
        most = MAX_BODY_SETS if number else MAX_FIRST_ITERATIONS
        return len(self.iterations) < most and self.byte_count < MAX_BODY_BYTES

    def run(self, feeds: Mapping[str, Any], timeout: float | None) -> list[Any]:
        """The outputs of the original's body. Raises EvaluationError."""
        graph = self.original.message.graph
        return self.session.run([o.name for o in graph.output], {i.name: feeds[i.name] for i in graph.input}, timeout)

    def add(self, input_set: InputSet, feeds: Mapping[str, Any], number: int) -> None:
        """Keep the inputs of both models in an iteration. Raises _EnoughIterations if an input is missing."""
        names = dict.fromkeys(i.name for m in (self.original, self.rewritten) for i in m.message.graph.input)
        if not names.keys() <= feeds.keys():
            raise _EnoughIterations
        read = {name: feeds[name] for name in names}
        own = InputSet(input_set.kind, input_set.sizes, read, input_set.all_kinds)
        self.iterations.append((own, input_set, number))
        self.byte_count += value_bytes(read)


@dataclass(slots=True)
class ChangedBodies:
    """The bodies of ops that compute a cut point in both models.

    `load` makes the sessions that run the original's bodies, and `compare` compares two bodies.
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
        op_type = pair.original.nodes[pair.before].op_type
        key, bodies, numbers = (cut_point, *names), pair.bodies(names), count()
        last = 0 if op_type == "If" else MAX_ITERATIONS - 1

        def run_body(graph: onnx.GraphProto, given: Sequence[Any]) -> list[Any]:
            own, number = dict(zip((v.name for v in graph.input), given, strict=True)), next(numbers)
            for v in graph.input[:2] if op_type == "Loop" else ():  # the number and the condition
                own[v.name] = np.reshape(own[v.name], (1,) * len(v.type.tensor_type.shape.dim))
            feeds = {**values, **own}
            if key not in self._bodies:
                models = pair.models(bodies, feeds)
                self._bodies[key] = None if models is None else _Body(*models, self.load(models[0]))
            body = self._bodies[key]
            if body is None or not body.takes(number):
                raise _EnoughIterations
            body.add(input_set, feeds, number)
            if number == last:
                raise _EnoughIterations
            return body.run(feeds, self.timeout)

        with suppress(_EnoughIterations):
            pair.run(values, run_body)

    def first_difference(self) -> tuple[str, RegionDifference] | None:
        """The first wrong cut point in a body, and the cut point of its op; None if all are right."""
        for (op, *_), body in self._bodies.items():
            if body is None or not body.iterations:
                continue
            found = self.compare(body.original, body.rewritten, [own for own, _, _ in body.iterations])
            if found is not None:
                input_set, number = next(i[1:] for i in body.iterations if i[0] is found.input_set)
                reason = f"{found.difference.reason}, in run {number + 1} of the body of {op}"
                return op, replace(found, input_set=input_set, difference=replace(found.difference, reason=reason))
        return None
