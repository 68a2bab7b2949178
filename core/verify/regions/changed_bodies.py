"""Comparison of the bodies of changed ops on the inputs that they get in runs of the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...io.split_models import SplitModel
from ...ort.backends import Arrays
from ..input_sets import InputSet
from ..kept_values import value_bytes
from ..seeded_session import Session
from .bodies import BodyPair
from .loaded_region import LoadRegion
from .sites import SiteDifference

MAX_BODY_SETS = 24  # iterations of one body on all input sets; from then on the first on each
MAX_FIRST_ITERATIONS = 256  # of one body, and those before
MAX_BODY_BYTES = 64 << 20  # bytes of their inputs, from which on there are no more

CompareModels = Callable[[SplitModel, SplitModel, Sequence[InputSet]], SiteDifference | None]
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
    """The bodies of ops that compute a site in both models.

    `load` makes the sessions that run those of the original, and `compare` compares them.
    """

    load: LoadRegion
    compare: CompareModels
    timeout: float | None
    _bodies: dict[tuple[str, ...], _Body | None] = field(default_factory=dict[tuple[str, ...], "_Body | None"])

    def add(self, site: str, pair: BodyPair, input_set: InputSet, values: Arrays) -> None:
        """Run the first iterations of the original's body on values of the original, and keep their inputs.

        Raises EvaluationError and ModelLoadError.
        """
        if (names := pair.names(values)) is None:
            return
        key, bodies = (site, *names), pair.bodies(names)

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

    def first_difference(self) -> tuple[str, SiteDifference] | None:
        """The first wrong site in a body, after that of its op; None if all are right."""
        for (op, *_), body in self._bodies.items():
            if body is None or not body.iterations:
                continue
            found = self.compare(body.original, body.rewritten, [own for own, _, _ in body.iterations])
            if found is not None:
                input_set, number = next(i[1:] for i in body.iterations if i[0] is found.input_set)
                reason = f"{found.difference.reason}, in run {number + 1} of the body of {op}"
                return op, replace(found, input_set=input_set, difference=replace(found.difference, reason=reason))
        return None
