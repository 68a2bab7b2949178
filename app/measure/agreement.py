"""Agreement of a model with the original, measured on outputs without labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf, isfinite, log10
from typing import Any, cast

import numpy as np
from msgspec import Struct

from ...core.ir.dtypes import FLOATS
from ...core.ir.graph import Graph
from ...core.ir.values import Value
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.support.confidence_intervals import share_interval
from ...core.verify.output_comparison import dtype_key
from .ready_metrics import CLASS_METRICS

Array = np.ndarray[Any, Any]
AGREEMENT, INTERVAL = "agreement", "95 % interval "
FLOATS_AT_ONCE = 1 << 20  # of outputs at a time; computing figures takes ten times their memory
SCORING_OPS = frozenset({"Gemm", "MatMul", "Add", "Softmax", "LogSoftmax", "Sigmoid"})
CLASSIFYING_OPS = frozenset({
    "Softmax", "LogSoftmax", "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"
})  # fmt: skip
"""Operators whose result rows are scores of classes."""
DECIDING_OPS = frozenset({"ArgMax", "TopK", "Hardmax"})
"""Operators that choose among scores of classes."""
ADDING_UP = 1e-3  # tolerance of a sum of probabilities, sufficient for 16 bits
FEW_NUMBERS = 32  # numbers in a row; up to this many, each is a separate quantity
VARYING = 1e-8  # share of the power of a number; smaller variances are rounding


class Score(Struct, frozen=True):
    """The `figure` of a model, and its `loss` against the original, in the unit of the budget.

    `snr` is the lowest signal-to-noise ratio of the float outputs, in dB; None if it was not computed. `failure` says
    why the model does not run. `interval` is the 95 % confidence interval of the loss for other samples of the same
    kind; None if it is not known.
    """

    figure: float
    loss: float
    snr: float | None = None
    failure: str = ""
    interval: tuple[float, float] | None = None

    def loss_text(self, budget: str, words: str = "") -> str:
        """The loss in the unit of a budget, with its interval after `words`: `0.2% (-0.6% to 1%)`; "" if unknown."""
        if not isfinite(self.loss) or (not self.loss and self.interval is None):
            return ""
        unit = "pt" if budget.endswith("pt") else "%"
        loss, *ends = (f"{100 * number:.2g}{unit}" for number in (self.loss, *(self.interval or ())))
        return f"{loss} ({words}{' to '.join(ends)})" if ends else loss


def score_text(figure: str, score: Score | None) -> str:
    """The number of a score with the name `figure`; "" without a score."""
    if score is None or score.failure or score.figure in {float("inf"), float("-inf")}:
        return ""
    return f"{score.figure:.1f}" if figure.endswith("(dB)") else f"{score.figure:.4g}"


@dataclass(slots=True)
class OutputFigures:
    """Figures of one output of two models: sums over its elements and their differences, on all inputs.

    With `has_classes`, its rows are scores of classes; with `is_observed`, also if those of the original are
    probabilities that add up to 1. Otherwise, with `varies`, the signal is the variance of the numbers in rows: of each
    number separately if there are few in a row, so that noise divided by signal is 1 - R2.

    `elements` counts floats; `nonfinite` counts those that are finite in only one model. `rows` counts rows of scores,
    or elements that are not floats; `same` counts those in which the models agree. `first` is the class of the first
    row in the original, or its first element, and `is_varied` says whether others differ. `change` has the types of
    both models if they are not equal.
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
        """Record properties of the original's outputs on some inputs."""
        for a in arrays_in(wanted):
            if a.dtype.kind in "fV":
                self.is_float = True
                self._has_rows = self._has_rows and a.ndim in {1, 2}
                if self.is_observed:
                    self._adds_up = self._adds_up is not False and adds_up(a)

    @property
    def names_classes(self) -> bool:
        """Whether rows are scores of classes."""
        return self.has_classes or bool(self._adds_up)

    def add(self, wanted: Any, found: Any) -> None:
        """Add the outputs of the original and of another model on some inputs."""
        ours, theirs = arrays_in(wanted), arrays_in(found) if keys_in(wanted) == keys_in(found) else []
        if len(ours) != len(theirs):
            self.change = self.change or f"a sequence of {len(ours)} became one of {len(theirs)}, or has other keys"
        for a, b in zip_longest(ours, theirs, fillvalue=np.zeros(0)):
            self._add_array(a, b)

    def _add_array(self, a: Array, b: Array) -> None:
        if a.shape != b.shape or dtype_key(a) != dtype_key(b):
            self.change = self.change or f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
        if a.shape != b.shape:
            self.rows += max(1, len(np.atleast_1d(a)))
            self._has_rows = False
            self._add_floats(a, np.zeros_like(a))
            signal = self.signal
            self._add_floats(b, np.zeros_like(b))  # the elements of both are noise, as none has a counterpart
            self.signal = signal
        elif a.dtype.kind not in "fV" or b.dtype.kind not in "fViub":
            self._count(a, b)
        else:
            if (self.has_scores or self.names_classes) and a.ndim and a.size:
                self._count(np.argmax(a.astype(np.float64), -1), np.argmax(b.astype(np.float64), -1))
            if self.varies and self._has_rows and a.size:
                rows = (a.reshape(len(a), -1).astype(np.float64), b.reshape(len(b), -1).astype(np.float64))
                self._numbers = self._numbers or VaryingNumbers(rows[0][0])
                self._has_rows = self._numbers.add(*rows)
            self._add_floats(a, b)

    def _add_floats(self, a: Array, b: Array) -> None:
        """Add floats, some at a time; elements that are not floats are left out."""
        a, b = a.reshape(-1), b.reshape(-1)
        for start in range(0, a.size if a.dtype.kind in "fV" else 0, FLOATS_AT_ONCE):
            part = slice(start, start + FLOATS_AT_ONCE)
            self._add_some_floats(a[part].astype(np.float64), b[part].astype(np.float64))

    def _add_some_floats(self, a: Array, b: Array) -> None:
        """Add floats; elements that are equal or both NaN add no noise."""
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
        """The power of the noise divided by the power of the signal; infinite instead of NaN."""
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
        """The signal-to-noise ratio; a word if it is infinite."""
        return f"{self.snr:.1f}" if isfinite(self.snr) else "exact" if self.snr > 0 else "none"

    @property
    def mean_error(self) -> float:
        """The mean of the absolute differences of finite elements."""
        return self._total_error / max(1, self.elements - self.nonfinite)

    @property
    def agreement(self) -> float | None:
        """The share of rows, or of elements that are not floats, in which the models agree; None without any."""
        return self.same / self.rows if self.rows else None

    def to_data(self) -> dict[str, Any]:
        """The figures as data for JSON."""
        floats = {"largest_error": self.largest_error, "mean_error": self.mean_error, "snr": self.snr}
        found = {**floats, "magnitude": self.magnitude} if self.elements else dict.fromkeys((*floats, "magnitude"))
        return {**found, "agreement": self.agreement, "nonfinite": self.nonfinite, "change": self.change}


def arrays_in(value: Any) -> list[Array]:
    """The arrays of an output: of each element of a sequence, a row of the values of a map; none for a None."""
    if isinstance(value, Mapping):
        return [np.array([[v for _, v in sorted(cast("Mapping[Any, Any]", value).items())]])]
    if isinstance(value, list):
        return [a for element in cast("list[Any]", value) for a in arrays_in(element)]
    return [] if value is None else [np.asarray(value)]


def keys_in(value: Any) -> list[list[Any]]:
    """The keys of each map in an output."""
    if isinstance(value, Mapping):
        return [sorted(cast("Mapping[Any, Any]", value))]
    return [k for element in cast("list[Any]", value) for k in keys_in(element)] if isinstance(value, list) else []


def decibels(noise: float) -> float:
    """The signal-to-noise ratio in dB, from the power of the noise divided by the power of the signal."""
    return -10 * log10(noise) if noise > 0 else inf


@dataclass(slots=True)
class VaryingNumbers:
    """Sums of the numbers in rows and of their differences, relative to the first row for precision."""

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
        """Add rows of both models; return False for rows of another length."""
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
        """The noise divided by the variance, or by the power if nothing varies; for few numbers, of the worst."""
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
    """Whether rows of two or more numbers are probabilities, or logarithms of them, that add up to 1."""
    if output.ndim != 2 or output.shape[1] < 2 or not output.size:
        return False
    a = output.astype(np.float64)
    if np.all(a <= 0):
        a = np.exp(a)
    return bool(np.all(a >= 0) and np.all(np.abs(np.sum(a, 1) - 1) <= ADDING_UP))


class OutputUses(Struct, frozen=True):
    """Outputs used as scores of `classes`, and outputs that `may_score` classes, without evidence in the graph.

    With a `metric`, no other outputs have classes; otherwise, outputs whose rows are probabilities that add up to 1 do.
    """

    classes: frozenset[str] = frozenset()
    may_score: tuple[str, ...] = ()
    metric: str = ""

    @classmethod
    def of(cls, graph: Graph, metric: str = "") -> OutputUses:
        """Find the uses in a graph: results of Softmax or a classifier, and operands of ArgMax or TopK.

        A `metric` without labels decides: top1 or tokens for scores in the first float output, r2 or snr for none.
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

    If outputs are scores of classes, or there are no floats, the figure is the share of rows with the same class;
    otherwise it is the signal-to-noise ratio of the worst output in dB. The loss is the greater of the share of
    differing classes and of noise divided by signal (in power) of outputs that are not scores. Outputs that are not
    floats count as classes.
    """

    outputs: dict[str, OutputFigures]
    uses: OutputUses

    @classmethod
    def of(cls, names: Sequence[str], uses: OutputUses, *, scores: Collection[str] = ()) -> Agreement:
        """An empty agreement; rows of `scores` are counted in addition to their noise."""
        how = not uses.metric, uses.metric != "snr"
        return cls({n: OutputFigures(n in scores, n in uses.classes, *how) for n in names}, uses)

    @property
    def is_classifier(self) -> bool:
        """Whether the figure is the share of rows with the same class, according to what was observed."""
        found = self.outputs.values()
        return any(o.names_classes for o in found) or (bool(found) and not any(o.is_float for o in found))

    @property
    def name(self) -> str:
        """The name of the figure."""
        return figure_name(is_classifier=self.is_classifier)

    @property
    def notes(self) -> list[str]:
        """Notes on outputs that are compared as numbers but may be scores of classes."""
        names = [n for n in self.uses.may_score if n in self.outputs and not self.outputs[n].names_classes]
        why = "as nothing shows that it contains class scores; if it does, choose the metric top1"
        return [f"{name} is compared as numbers, {why}" for name in names]

    def observe(self, wanted: Sequence[Any]) -> None:
        """Record properties of the original's outputs on some inputs."""
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
        interval = None
        if rows and loss == 1 - share:
            interval = share_interval(rows - sum(o.same for o in classes), rows)
        return Score(share if self.is_classifier else decibels(noise), loss, decibels(noise), interval=interval)


def scores_classes(output: Value) -> bool:
    """Whether rows of an output come from Softmax or a classifier, or ArgMax or TopK choose among them."""
    value = _moved_from(output)
    maker = value.producer
    if maker is not None and maker.type in CLASSIFYING_OPS:
        return not (len(value.known_shape or ()) == 2 and maker.attr("axis", 1) in {0, -2})
    return any(op.type in DECIDING_OPS for v in (output, value) for op in v.consumers)


def has_scores(output: Value) -> bool:
    """Whether an output has scores of classes along its last axis, computed by a product or a Softmax."""
    shape = output.known_shape
    if shape is None or len(shape) < 2 or shape[-1] == 1:
        return False
    maker = _moved_from(output, {"DequantizeLinear"}).producer
    return maker is not None and maker.type in SCORING_OPS


def _moved_from(output: Value, others: Collection[str] = ()) -> Value:
    """The value whose elements an output contains, moved or cast, also through `others` of operators."""
    value, movements = output, ops_with(Trait.MOVES_DATA) | {"Cast", "Identity", *others}
    while (op := value.producer) is not None and op.type in movements and op.inputs and op.inputs[0] is not None:
        value = op.inputs[0]
    return value
