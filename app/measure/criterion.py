"""Criteria of accuracy: the user's metric, agreement with the original, and noise; and figures of outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, isfinite, log10
from typing import Any, Protocol, cast

import numpy as np
from msgspec import Struct

from ...core.errors import EvaluationError, ModelError, UsageError, format_error
from ...core.io.split_models import Loadable
from ...core.ir.dtypes import FLOATS
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.ort import value_files
from ...core.ort.remote_backend import RemoteBackend, RemoteSession
from ...core.ort.sessions import ENABLE_ALL, SessionConfig
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import KEPT_BYTES
from ...core.verify.input_specs import InputSpec
from ...core.verify.kept_values import value_bytes
from ...core.verify.output_comparison import dtype_key
from ...core.verify.sample_rows import batch_symbol, fixed_batch
from .accuracy import LabelledSet, labelled_outputs, load_metric, rows_of
from .ready_metrics import CLASS_METRICS, Metric

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
AGREEMENT = "agreement"
LEAST_SNR = 10.0  # dB, of each output of a classifier; of other models, the budget bounds the noise
ROWS_AT_ONCE = 8  # of labelled inputs
FLOATS_AT_ONCE = 1 << 20  # of outputs: figures of so many take ten times their memory
SCORING_OPS = frozenset({"Gemm", "MatMul", "Add", "Softmax", "LogSoftmax", "Sigmoid"})
CLASSIFYING_OPS = frozenset({
    "Softmax", "LogSoftmax", "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"
})  # fmt: skip
"""Operators whose results, in rows, are scores of classes."""
DECIDING_OPS = frozenset({"ArgMax", "TopK", "Hardmax"})
"""Operators that choose among scores of classes."""
ADDING_UP = 1e-3  # of 1, by which a sum of probabilities may be off: of 16 bits, too
FEW_NUMBERS = 32  # of a row, up to which each is a quantity of its own
VARYING = 1e-8  # of the power of a number, from which its variance is no rounding
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

    `snr` is the least signal-to-noise ratio of the float outputs, in dB, None where it was not computed. `failure`:
    why the model does not run.
    """

    figure: float
    loss: float
    snr: float | None = None
    failure: str = ""


def score_text(figure: str, score: Score | None) -> str:
    """The number of a score with the name `figure`; "" if there is none."""
    if score is None or score.failure or score.figure in {float("inf"), float("-inf")}:
        return ""
    return f"{score.figure:.1f}" if figure.endswith("(dB)") else f"{score.figure:.4g}"


class Criterion(Protocol):
    """A measure of models on one set of inputs; `name` names the figure, `reference` is the value for the original.

    `notes` say what of the outputs counts in another way than a user may expect.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above
    @property
    def reference(self) -> float: ...  # noqa: D102 - described above
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102 - described above

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The score of a model, in a session of this config."""
        ...

    def allows(self, score: Score) -> bool:
        """Whether a score is within the budget."""
        ...


@dataclass
class MetricCriterion:
    """A metric on labelled rows. `notes` say which outputs have no axis of rows."""

    metric: Metric
    examples: LabelledSet
    inputs: Sequence[InputSpec]
    outputs: Sequence[str]
    budget: Budget
    reference: float = field(init=False, default=0.0)
    notes: list[str] = field(init=False, default_factory=list[str])

    @property
    def name(self) -> str:
        """The name of the figure."""
        return self.metric.name

    def measure_original(self, model: Loadable) -> None:
        """Set the reference. Raises ModelError if the original does not run on the labelled set."""
        score = self.score(model)
        if score.failure:
            raise ModelError(f"{self.examples.name}: the original does not run on it: {score.failure}")
        self.reference = score.figure

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The metric of a model, and its loss against the reference."""
        try:
            with RemoteBackend(config) as remote:
                found = labelled_outputs(remote(model), self.inputs, self.outputs, self.examples)
        except EvaluationError as e:
            return Score(-inf, inf, failure=format_error(e))
        self.notes = [
            f"{name} has no batch axis: a metric gets a list of what each run gives"
            for name, value in found.items()
            if isinstance(value, list) and value and isinstance(value[0], np.ndarray)
        ]
        figure = self.metric(found, self.examples.labels(self.inputs))
        if not isfinite(figure):
            return Score(-inf, inf, failure=f"its {self.name} is {figure}")
        lost = figure - self.reference if self.metric.less_is_better else self.reference - figure
        return Score(figure, lost if self.budget.is_absolute else lost / (abs(self.reference) or 1.0))

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget."""
        return self.budget.allows(score.loss)


@dataclass
class AgreementCriterion:
    """Agreement with the outputs of the original on inputs without labels, as `Agreement` measures it.

    Of these outputs, KEPT_BYTES are in memory; the others are in files.
    """

    feeds: Sequence[Feeds]
    outputs: Sequence[str]
    budget: Budget
    uses: OutputUses
    reference: float = field(init=False, default=0.0)
    is_classifier: bool = field(init=False, default=False)
    notes: list[str] = field(init=False, default_factory=list[str])
    _expected: list[Callable[[], list[Any]]] = field(init=False, default_factory=list[Any], repr=False)
    _folder: ScratchFolder = field(init=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the figure."""
        return figure_name(is_classifier=self.is_classifier)

    def measure_original(self, model: Loadable) -> None:
        """Keep the outputs of the original. Raises ModelError if it does not run."""
        self._expected, budget = [], KEPT_BYTES
        seen = Agreement.of(self.outputs, self.uses)
        try:
            for outputs in self._run(model, AS_USERS_RUN):
                seen.observe(outputs)
                budget -= value_bytes(outputs)
                self._expected.append(partial(list[Any], outputs) if budget >= 0 else self._stored(outputs))
        except EvaluationError as e:
            raise ModelError(f"the original does not run on the inputs: {format_error(e)}") from e
        self.is_classifier, self.notes = seen.is_classifier, seen.notes
        self.reference = 1.0 if self.is_classifier else inf

    def _stored(self, outputs: list[Any]) -> Callable[[], list[Any]]:
        """The outputs in a file of their own, which is read by a call."""
        if not hasattr(self, "_folder"):
            self._folder = ScratchFolder()
        path = self._folder.path / str(len(self._expected))
        value_files.write_value(outputs, path)
        return partial(value_files.read_value, path)

    def score(self, model: Loadable, config: SessionConfig = AS_USERS_RUN) -> Score:
        """The agreement of a model with the original."""
        agreement = Agreement.of(self.outputs, self.uses)
        try:
            for wanted, found in zip(self._expected, self._run(model, config), strict=True):
                agreement.add(wanted(), found)
        except EvaluationError as e:
            return Score(-inf, inf, failure=format_error(e))
        return agreement.score()

    def allows(self, score: Score) -> bool:
        """Whether the loss is within the budget, and of a classifier the noise not too loud."""
        return allows_agreement(self.budget, score, is_classifier=self.is_classifier)

    def _run(self, model: Loadable, config: SessionConfig) -> Iterable[list[Any]]:
        with RemoteBackend(config) as remote:
            session: RemoteSession = remote(model)
            for feeds in self.feeds:
                yield session.run(self.outputs, feeds)


def allows_agreement(budget: Budget, score: Score, *, is_classifier: bool) -> bool:
    """Whether the loss of agreement is within the budget, and of a classifier the noise not too loud."""
    return budget.allows(score.loss) and not (is_classifier and score.snr is not None and score.snr < LEAST_SNR)


class LabelledPart(Struct, frozen=True):
    """Rows of a labelled set, and its metric."""

    examples: LabelledSet
    inputs: Sequence[InputSpec]
    metric: str

    def __len__(self) -> int:
        return len(self.examples.labels(self.inputs))

    def feeds(self) -> Iterator[Feeds]:
        """The inputs, some rows at a time."""
        rows = len(self)
        arrays, axes = self.examples.feeds(self.inputs, rows)
        size = ROWS_AT_ONCE if batch_symbol(self.inputs) is not None else fixed_batch(self.inputs)
        for start in range(0, rows - rows % size or size, size):
            part = np.minimum(np.arange(start, start + size), rows - 1)
            yield rows_of(arrays, axes, part)

    def criterion(self, outputs: Sequence[str], budget: Budget, original: Loadable) -> MetricCriterion:
        """The criterion on these rows. Raises ModelError if the original does not run on them."""
        metric = load_metric(self.metric, self.examples.labels(self.inputs), self.examples.arrays)
        found = MetricCriterion(metric, self.examples, self.inputs, outputs, budget)
        found.measure_original(original)
        return found


@dataclass(slots=True)
class OutputFigures:
    """Figures of an output of two models: sums over its elements, and over their differences, on all inputs.

    With `has_classes`, its rows are scores of classes; with `is_observed`, also if the original's are probabilities
    that add up to 1. Else, with `varies`, the signal in rows of numbers is what varies of them: of each number apart if
    there are few in a row, so that the noise divided by the signal is 1 - R2.

    `elements` counts floats, of which `nonfinite` are not finite in one model alone. `rows` counts rows of scores, or
    elements that are not floats, `same` those of them in which the models agree; `first` is the class of the first row
    in the original, or the first element, and `is_varied` whether there are others. `change`: the types of both, where
    they are not equal.
    """

    has_scores: bool = False
    has_classes: bool = False
    is_observed: bool = False
    varies: bool = False
    signal: float = 0.0
    noise: float = 0.0
    largest_error: float = 0.0
    magnitude: float = 0.0
    elements: int = 0
    nonfinite: int = 0
    same: int = 0
    rows: int = 0
    first: Any = None
    is_varied: bool = False
    change: str = ""
    is_float: bool = False
    _total_error: float = 0.0
    _adds_up: bool | None = None
    _numbers: VaryingNumbers | None = None
    _has_rows: bool = True

    def observe(self, wanted: Any) -> None:
        """Note what the outputs of the original on some inputs are."""
        if not isinstance(wanted, np.ndarray) or wanted.dtype.kind not in "fV":
            return
        a = cast("Array", wanted)
        self.is_float = True
        self._has_rows = self._has_rows and a.ndim in {1, 2}
        if self.is_observed:
            self._adds_up = self._adds_up is not False and adds_up(a)

    @property
    def names_classes(self) -> bool:
        """Whether its rows are scores of classes."""
        return self.has_classes or bool(self._adds_up)

    def add(self, wanted: Any, found: Any) -> None:
        """Add the outputs of the original and of another model, on some inputs."""
        if not isinstance(wanted, np.ndarray):
            self._count(np.array([repr(wanted)]), np.array([repr(found)]))
            return
        a, b = cast("Array", wanted), np.asarray(found)
        if a.shape != b.shape or dtype_key(a) != dtype_key(b):
            self.change = self.change or f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
        if a.shape != b.shape:
            self.rows += max(1, len(np.atleast_1d(a)))
        elif a.dtype.kind not in "fV" or b.dtype.kind not in "fViub":
            self._count(a, b)
        else:
            if (self.has_scores or self.names_classes) and a.ndim and a.size:
                self._count(np.argmax(a.astype(np.float64), -1), np.argmax(b.astype(np.float64), -1))
            if self.varies and self._has_rows and a.size:
                rows = (a.reshape(len(a), -1).astype(np.float64), b.reshape(len(b), -1).astype(np.float64))
                self._numbers = self._numbers or VaryingNumbers(rows[0][0])
                self._has_rows = self._numbers.add(*rows)
            a, b = a.reshape(-1), b.reshape(-1)
            for start in range(0, a.size, FLOATS_AT_ONCE):
                part = slice(start, start + FLOATS_AT_ONCE)
                self._add_floats(a[part].astype(np.float64), b[part].astype(np.float64))

    def _add_floats(self, a: Array, b: Array) -> None:
        """Add floats; elements that are equal or both NaN are no noise."""
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        is_finite = np.isfinite(a) & np.isfinite(b)
        signal = np.where(np.isfinite(a), a, 0)
        with np.errstate(all="ignore"):
            errors = np.where(same, 0, np.abs(a - b))
            self.signal += float(np.square(signal).sum())
            self.noise += float(np.square(errors).sum())
        finite_errors = np.where(is_finite, errors, 0)
        self.largest_error = max(self.largest_error, float(finite_errors.max(initial=0)))
        self.magnitude = max(self.magnitude, float(np.abs(signal).max(initial=0)))
        self._total_error += float(finite_errors.sum())
        self.nonfinite += int(np.count_nonzero(~same & ~is_finite))
        self.elements += a.size

    def _count(self, a: Array, b: Array) -> None:
        """Count rows, or elements that are not floats."""
        self.same += int(np.count_nonzero(a == b))
        self.first = a.flat[0] if self.first is None and a.size else self.first
        self.is_varied |= bool(np.any(a != self.first))
        self.rows += a.size

    @property
    def relative_noise(self) -> float:
        """The power of the noise divided by the power of the signal; infinite where it is not a number."""
        if self._numbers is not None and self._has_rows and not self.names_classes:
            return self._numbers.relative_noise
        found = self.noise / self.signal if self.signal else inf * bool(self.noise) if self.noise else 0.0
        return found if isfinite(found) else inf

    @property
    def snr(self) -> float:
        """The signal-to-noise ratio in dB."""
        return decibels(self.relative_noise)

    @property
    def snr_text(self) -> str:
        """The signal-to-noise ratio; words where it is infinite."""
        return f"{self.snr:.1f}" if isfinite(self.snr) else "exact" if self.snr > 0 else "none"

    @property
    def mean_error(self) -> float:
        """The mean of the absolute differences of finite elements."""
        return self._total_error / max(1, self.elements - self.nonfinite)

    @property
    def agreement(self) -> float | None:
        """The share of rows, or elements that are not floats, in which the models agree; None without any."""
        return self.same / self.rows if self.rows else None

    def to_data(self) -> dict[str, Any]:
        """The figures as data for JSON."""
        floats = {"largest_error": self.largest_error, "mean_error": self.mean_error, "snr": self.snr}
        found = {**floats, "magnitude": self.magnitude} if self.elements else dict.fromkeys((*floats, "magnitude"))
        return {**found, "agreement": self.agreement, "nonfinite": self.nonfinite, "change": self.change}


def decibels(noise: float) -> float:
    """The signal-to-noise ratio in dB for the power of the noise divided by the power of the signal."""
    return -10 * log10(noise) if noise > 0 else inf


@dataclass(slots=True)
class VaryingNumbers:
    """Sums of the numbers of rows, and of their differences, by number; the first row is subtracted, for precision."""

    origin: Array
    rows: int = 0
    _sums: Array = field(init=False)
    _squares: Array = field(init=False)
    _powers: Array = field(init=False)
    _noise: Array = field(init=False)

    def __post_init__(self) -> None:
        """Begin with sums of 0."""
        self.origin = np.where(np.isfinite(self.origin), self.origin, 0)
        self._sums, self._squares, self._powers, self._noise = np.zeros((4, len(self.origin)))

    def add(self, a: Array, b: Array) -> bool:
        """Add rows of both models; False for rows of another length."""
        if a.shape[1] != len(self.origin):
            return False
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        known = np.where(np.isfinite(a), a, self.origin)
        with np.errstate(all="ignore"):
            self._sums += np.sum(known - self.origin, 0)
            self._squares += np.sum(np.square(known - self.origin), 0)
            self._powers += np.sum(np.square(known), 0)
            self._noise += np.sum(np.square(np.where(same, 0, a - b)), 0)
        self.rows += len(a)
        return True

    @property
    def relative_noise(self) -> float:
        """The noise divided by the variance, or by the power of what does not vary: of the worst of few numbers."""
        variances = self._squares - np.square(self._sums) / max(self.rows, 1)
        signals = np.where(variances > VARYING * self._powers, variances, self._powers)
        noise = self._noise
        if len(signals) > FEW_NUMBERS:
            signals, noise = np.sum(signals, keepdims=True), np.sum(noise, keepdims=True)
        with np.errstate(all="ignore"):
            found = np.where(noise == 0, 0.0, np.where(signals > 0, noise / signals, inf))
        worst = float(np.max(found, initial=0.0))
        return worst if isfinite(worst) else inf


def adds_up(output: Array) -> bool:
    """Whether rows of two or more numbers are probabilities, or their logarithms, that add up to 1."""
    if output.ndim != 2 or output.shape[1] < 2 or not output.size:
        return False
    a = output.astype(np.float64)
    if np.all(a <= 0):
        a = np.exp(a)
    return bool(np.all(a >= 0) and np.all(np.abs(np.sum(a, 1) - 1) <= ADDING_UP))


class OutputUses(Struct, frozen=True):
    """Outputs that are used as scores of `classes`, and those that `may_score` some, without a sign that they do.

    With a `metric`, no others have classes; else those do whose rows are probabilities that add up to 1.
    """

    classes: frozenset[str] = frozenset()
    may_score: tuple[str, ...] = ()
    metric: str = ""

    @classmethod
    def of(cls, graph: Graph, metric: str = "") -> OutputUses:
        """The uses in a graph: scores of a Softmax or a classifier, or of which an ArgMax or TopK chooses.

        A `metric` without labels says it: top1 or tokens for scores in the first output of floats, r2 or snr for none.
        """
        floats = [v for v in graph.outputs if v.known_dtype in FLOATS]
        if metric:
            first = floats[:1] if metric in CLASS_METRICS else []
            return cls(frozenset(v.name for v in first), metric=metric)
        rows = [v for v in floats if v.known_shape is None or (len(v.known_shape) == 2 and v.known_shape[1] != 1)]
        classes = frozenset(v.name for v in rows if scores_classes(v))
        return cls(classes, tuple(v.name for v in rows if v.name not in classes and has_scores(v)))


def figure_name(*, is_classifier: bool) -> str:
    """The name of the figure of agreement."""
    return AGREEMENT if is_classifier else "SNR (dB)"


@dataclass(slots=True)
class Agreement:
    """The agreement of a model with the original, from the figures of each output.

    With outputs that are scores of classes, or without floats, the figure is the share of rows with the same class,
    for other models the signal-to-noise ratio of the worst output in dB. The loss is the greater one of the share of
    other classes, and of the power of the noise divided by the power of the signal in outputs that are no scores.
    Outputs that are no floats count as classes.
    """

    outputs: dict[str, OutputFigures]
    uses: OutputUses

    @classmethod
    def of(cls, names: Sequence[str], uses: OutputUses, *, scores: Collection[str] = ()) -> Agreement:
        """The agreement before anything is added; rows of `scores` are counted beside their noise."""
        how = not uses.metric, uses.metric != "snr"
        return cls({n: OutputFigures(n in scores, n in uses.classes, *how) for n in names}, uses)

    @property
    def is_classifier(self) -> bool:
        """Whether the figure is the share of rows with the same class, by what was observed."""
        found = self.outputs.values()
        return any(o.names_classes for o in found) or (bool(found) and not any(o.is_float for o in found))

    @property
    def name(self) -> str:
        """The name of the figure."""
        return figure_name(is_classifier=self.is_classifier)

    @property
    def notes(self) -> list[str]:
        """The outputs that count as numbers, and may be scores of classes."""
        names = [n for n in self.uses.may_score if n in self.outputs and not self.outputs[n].names_classes]
        why = "as nothing shows that it scores classes: if it does, give --metric top1"
        return [f"{name} counts as numbers, {why}" for name in names]

    def observe(self, wanted: Sequence[Any]) -> None:
        """Note what the outputs of the original on some inputs are."""
        for figures, a in zip(self.outputs.values(), wanted, strict=True):
            figures.observe(a)

    def add(self, wanted: Sequence[Any], found: Sequence[Any]) -> None:
        """Add the outputs of the original and of the model on some inputs."""
        self.observe(wanted)
        for figures, a, b in zip(self.outputs.values(), wanted, found, strict=True):
            figures.add(a, b)

    def score(self) -> Score:
        """The figure, and the loss against the original."""
        outputs = self.outputs.values()
        classes = [o for o in outputs if o.names_classes or not o.elements]
        rows = sum(o.rows for o in classes)
        share = sum(o.same for o in classes) / rows if rows else 1.0
        noise = max((o.relative_noise for o in outputs), default=0.0)
        loss = max([1 - share, *(o.relative_noise for o in outputs if not o.names_classes)])
        return Score(share if self.is_classifier else decibels(noise), loss, decibels(noise))


def scores_classes(output: Value) -> bool:
    """Whether rows of an output are made by a Softmax or a classifier, or an ArgMax or TopK chooses among them."""
    maker, value = output.producer, output
    movements = ops_with(Trait.MOVES_DATA) | {"Cast", "Identity"}
    while maker is not None and maker.inputs and maker.inputs[0] is not None:
        if maker.type in CLASSIFYING_OPS or maker.type not in movements:
            break
        value, maker = maker.inputs[0], maker.inputs[0].producer
    if maker is not None and maker.type in CLASSIFYING_OPS:
        return not (len(value.known_shape or ()) == 2 and maker.attr("axis", 1) in {0, -2})
    return any(op.type in DECIDING_OPS for v in (output, value) for op in v.consumers)


def has_scores(output: Value) -> bool:
    """Whether an output has scores of classes along its last axis, made by a product or a Softmax."""
    shape = output.known_shape
    if shape is None or len(shape) < 2 or shape[-1] == 1:
        return False
    maker: Op | None = output.producer
    movements = ops_with(Trait.MOVES_DATA) | {"Cast", "Identity", "DequantizeLinear"}
    while maker is not None and maker.type in movements and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer
    return maker is not None and maker.type in SCORING_OPS
