"""Criteria of accuracy: the user's metric, agreement with the original, and noise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, log10
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from ...core.errors import EvaluationError, ModelError, UsageError, format_error
from ...core.io.split_models import Loadable
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.ort.remote_backend import RemoteBackend, RemoteSession
from ...core.ort.sessions import ENABLE_ALL, SessionConfig
from ...core.verify.input_specs import InputSpec
from ..measure.accuracy import LabelledSet, Metric, accuracy

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
LEAST_SQNR = 10.0  # dB, of each output of a classifier; of other models, the budget bounds the noise
SCORING_OPS = frozenset({"Gemm", "MatMul", "Add", "Softmax", "LogSoftmax", "Sigmoid"})
AS_USERS_RUN = SessionConfig(ENABLE_ALL, prepack_weights=True, memory_patterns=True)
"""Integer kernels are those of onnxruntime with all its optimizations, as users have them."""


class Budget(Struct, frozen=True):
    """The loss that is allowed: a share of the original's figure, or with `is_absolute` a difference from it."""

    amount: float
    is_absolute: bool = False

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget in `1%`, relative, or `0.5pt`, absolute in hundredths. Raises UsageError."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(%|pt)", text.strip())
        if found is None:
            raise UsageError(f"--budget {text}: not of the form 1% (relative) or 0.5pt (absolute)")
        if found[2] == "%" and float(found[1]) >= 100:
            raise UsageError(f"--budget {text}: it allows any loss; give less than 100%")
        return cls(float(found[1]) / 100, found[2] == "pt")

    def allows(self, loss: float) -> bool:
        """Whether a loss is within it; one that equals it, as rounded, is."""
        return loss <= self.amount + 1e-9

    def __str__(self) -> str:
        return f"{self.amount * 100:g}{'pt' if self.is_absolute else '%'}"


class Score(Struct, frozen=True):
    """The `figure` of a model, and its `loss` against the original, in the unit of the budget.

    `sqnr` is the least signal-to-noise ratio of the float outputs, in dB, None where it was not computed. `failure`:
    why the model does not run.
    """

    figure: float
    loss: float
    sqnr: float | None = None
    failure: str = ""


class Criterion(Protocol):
    """A measure of models on one set of inputs; `name` is that of the figure, `reference` that of the original."""

    @property
    def name(self) -> str: ...  # noqa: D102 - described above
    @property
    def reference(self) -> float: ...  # noqa: D102 - described above

    def score(self, model: Loadable) -> Score:
        """The score of a model."""
        ...

    def allows(self, score: Score) -> bool:
        """Whether a score is within the budget."""
        ...


@dataclass
class MetricCriterion:
    """A metric on labelled rows, of which more is better."""

    name: str
    metric: Metric
    examples: LabelledSet
    inputs: Sequence[InputSpec]
    outputs: Sequence[str]
    budget: Budget
    reference: float = field(init=False, default=0.0)

    def measure_original(self, model: Loadable) -> None:
        """Set the reference. Raises ModelError if the original does not run on the labelled set."""
        score = self.score(model)
        if score.failure:
            raise ModelError(f"{self.examples.name}: the original does not run on it: {score.failure}")
        self.reference = score.figure

    def score(self, model: Loadable) -> Score:
        """The metric of a model, and its loss against the reference."""
        try:
            with RemoteBackend(AS_USERS_RUN) as remote:
                figure = accuracy(remote(model), self.inputs, self.outputs, self.examples, self.metric)
        except EvaluationError as e:
            return Score(-inf, inf, failure=format_error(e))
        lost = self.reference - figure
        return Score(figure, lost if self.budget.is_absolute else lost / (abs(self.reference) or 1.0))

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget."""
        return self.budget.allows(score.loss)


@dataclass
class AgreementCriterion:
    """Agreement with the outputs of the original on inputs without labels.

    For a classifier the figure is the share of rows with the same class, for other models the signal-to-noise ratio of
    the worst output in dB; its loss is then the power of the noise divided by that of the signal. Outputs that are not
    floats count as classes.
    """

    feeds: Sequence[Feeds]
    outputs: Sequence[str]
    budget: Budget
    is_classifier: bool
    reference: float = field(init=False, default=0.0)
    _expected: list[list[Any]] = field(init=False, default_factory=list[list[Any]], repr=False)

    @property
    def name(self) -> str:
        """The name of the figure."""
        return "agreement" if self.is_classifier else "SQNR (dB)"

    def measure_original(self, model: Loadable) -> None:
        """Keep the outputs of the original. Raises ModelError if it does not run."""
        try:
            self._expected = list(self._run(model))
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the inputs: {format_error(e)}") from e
        self.reference = 1.0 if self.is_classifier else inf

    def score(self, model: Loadable) -> Score:
        """The agreement of a model with the original."""
        noises = [SignalToNoise() for _ in self.outputs]
        hits = _Hits()
        try:
            for wanted, found in zip(self._expected, self._run(model), strict=True):
                for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
                    noises[i].add(a, b)
                    hits.add(a, b, is_scores=self.is_classifier and i == 0)
        except EvaluationError as e:
            return Score(-inf, inf, failure=format_error(e))
        noise = max((n.relative for n in noises if n.signal or n.noise), default=0.0)
        sqnr = -10 * log10(noise) if noise > 0 else inf
        if self.is_classifier or not any(n.signal or n.noise for n in noises):
            return Score(hits.share, 1 - hits.share, sqnr)
        return Score(sqnr, max(noise, 1 - hits.share), sqnr)

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget, and of a classifier the noise not too loud."""
        is_clear = not self.is_classifier or score.sqnr is None or score.sqnr >= LEAST_SQNR
        return self.budget.allows(score.loss) and is_clear

    def _run(self, model: Loadable) -> Iterable[list[Any]]:
        with RemoteBackend(AS_USERS_RUN) as remote:
            session: RemoteSession = remote(model)
            for feeds in self.feeds:
                yield session.run(self.outputs, feeds)


@dataclass(slots=True)
class SignalToNoise:
    """Sums of squares of an output and of its differences."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: Any, found: Any) -> None:
        """Add an output of two models, unless it is not of floats; elements that are equal or both NaN are no noise."""
        if not isinstance(wanted, np.ndarray) or wanted.dtype.kind not in "fV" or np.shape(wanted) != np.shape(found):
            return
        a, b = np.asarray(wanted, np.float64), np.asarray(found, np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        a, b = np.where(same & ~np.isfinite(a), 0, a), np.where(same & ~np.isfinite(a), 0, b)
        with np.errstate(all="ignore"):
            self.signal += float(np.square(np.where(np.isfinite(a), a, 0)).sum())
            self.noise += float(np.square(a - b).sum())

    @property
    def relative(self) -> float:
        """The power of the noise divided by that of the signal; infinite where it is not a number."""
        found = self.noise / self.signal if self.signal else inf * bool(self.noise) if self.noise else 0.0
        return found if isfinite(found) else inf


@dataclass(slots=True)
class _Hits:
    """Rows, or elements that are not floats, that agree."""

    same: int = 0
    all: int = 0

    def add(self, wanted: Any, found: Any, *, is_scores: bool) -> None:
        if not isinstance(wanted, np.ndarray):
            self._count(np.array([repr(wanted) == repr(found)]))
        elif np.shape(wanted) != np.shape(found):
            self._count(np.zeros(max(1, len(np.atleast_1d(wanted))), bool))
        elif wanted.dtype.kind not in "fV":
            self._count(np.asarray(wanted == found))
        elif is_scores and wanted.size:
            self._count(_classes(wanted) == _classes(found))

    def _count(self, equal: Array) -> None:
        self.same += int(equal.sum())
        self.all += equal.size

    @property
    def share(self) -> float:
        """The share that agrees, 1 of nothing."""
        return self.same / self.all if self.all else 1.0


def _classes(scores: Any) -> Array:
    return np.argmax(np.asarray(scores, np.float64), -1)


def scores_classes(graph: Graph) -> bool:
    """Whether the first output has scores of classes: rows of two or more numbers, by a product or a Softmax."""
    out = graph.outputs[0] if graph.outputs else None
    shape = None if out is None else out.known_shape
    if out is None or shape is None or len(shape) != 2 or shape[-1] == 1:
        return False
    maker: Op | None = out.producer
    movements = ops_with(Trait.MOVES_DATA) | {"Cast", "Identity", "DequantizeLinear"}
    while maker is not None and maker.type in movements and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer
    return maker is not None and maker.type in SCORING_OPS
