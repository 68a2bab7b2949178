"""The Markdown of speedup.py: measurements and conclusions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from table import markdown

ORIGINAL, OURS, ORT_SUFFIX = "original", "passwright", " + ORT ALL"
BASELINE, OURS_ONLINE = ORIGINAL + ORT_SUFFIX, OURS + ORT_SUFFIX
PEERS = tuple(peer + ORT_SUFFIX for peer in ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript"))
COMPARED_LABELS = ("ORT basic", "ORT extended", "ORT all", *PEERS)
HEADER = (
    "model",
    "original, ms",
    "passwright",
    *(label.removesuffix(ORT_SUFFIX) for label in COMPARED_LABELS),
    "to load",
    "memory",
)


@dataclass(frozen=True)
class Ratio:
    """A share of the time of something, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def direction(self) -> int:
        """-1 faster, 1 slower, 0 where no difference was measured."""
        return (self.low > 1) - (self.high < 1)

    def __str__(self) -> str:
        told = f"{self.value:.2f} ± {(self.high - self.low) / 2:.2f}"
        return f"**{told}**" if self.direction else told


@dataclass(frozen=True)
class ModelResult:
    """The results of a model: rows that were verified, and those that were timed."""

    name: str
    verified_rows: dict[str, Any]
    timed_rows: dict[str, Any]

    def verdict(self, label: str) -> str:
        """`right`, `fails`, `wrong` or `invalid`, of the file as it is written."""
        row = self.verified_rows.get(label.removesuffix(ORT_SUFFIX), {})
        parts = {"fails": "failure", "wrong": "wrong", "invalid": "invalid"}
        return next((word for word, part in parts.items() if row.get(part)), "right")

    def ratio(self, label: str, key: str = "ratio") -> Ratio | None:
        """Of the original under ORT ALL; with `ours`, passwright's share of this row."""
        ends = self.timed_rows.get(label, {}).get(key)
        return Ratio(*ends) if ends else None

    def metric_ratio(self, metric: str) -> float | None:
        """A figure of passwright as a share of that of the original, both under ORT ALL."""
        ours, original = self.timed_rows.get(OURS_ONLINE, {}), self.timed_rows.get(BASELINE, {})
        return ours[metric] / original[metric] if metric in ours and metric in original else None

    @property
    def best_peer(self) -> str | None:
        """The fastest one that is right."""
        found = [(r.value, label) for label in PEERS if (r := self.ratio(label))]
        return min(found)[1] if found else None

    def cell(self, label: str) -> str:
        if (verdict := self.verdict(label)) != "right":
            return verdict
        ratio, row = self.ratio(label), self.verified_rows.get(label, {})
        if ratio is None:
            return "fails" if label in self.timed_rows or row.get("failure") or row.get("wrong") else ""
        # Where onnxruntime is wrong about the original too, the optimizer is not to blame.
        is_wrong = row.get("wrong") and not self.verified_rows[BASELINE]["wrong"]
        return f"{ratio} (wrong)" if is_wrong else str(ratio)

    def row(self) -> list[str]:
        shares = [f"{s:.2f}" if (s := self.metric_ratio(figure)) else "" for figure in ("creation", "resident")]
        median = self.timed_rows.get(BASELINE, {}).get("median")
        return [
            self.name,
            f"{median * 1e3:.3g}" if median else "",
            *map(self.cell, (OURS_ONLINE, *COMPARED_LABELS)),
            *shares,
        ]


def format_results(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """All lines."""
    races = {name: facts["races"][-1] for name, facts in results.items() if facts["races"]}
    models = [ModelResult(name, results[name]["judged"]["rows"], race["rows"]) for name, race in races.items()]
    if models:
        yield from markdown(HEADER, [m.row() for m in models])
        yield ""
        yield from _summary_lines(models)
        yield from sorted({_conditions_line(race) for race in races.values()})
    yield from (f"- {name}: {facts['failure']}" for name, facts in results.items() if "failure" in facts)


def _summary_lines(models: list[ModelResult]) -> Iterator[str]:
    yield _ratio_summary(f"{OURS}, against the original (both with ORT ALL)", models, lambda m: m.ratio(OURS_ONLINE))
    yield _ratio_summary(f"{OURS}, against the best right peer", models, lambda m: m.ratio(m.best_peer or "", "ours"))
    for label in COMPARED_LABELS:
        ratios = _ratio_summary(f"{label}, against the original", models, lambda m, label=label: m.ratio(label))
        yield "; ".join([ratios, *_verdict_lines(models, label)])
    for what, figure in (("seconds to create a session", "creation"), ("memory", "resident")):
        shares = [s for m in models if (s := m.metric_ratio(figure))]
        if shares:
            mean = f"{geometric_mean(shares):.2f} in the geometric mean"
            yield f"- {what}, {OURS} against the original: {mean}, {min(shares):.2f} to {max(shares):.2f}"


def _verdict_lines(models: list[ModelResult], label: str) -> Iterator[str]:
    """The models on which a result is not right, by verdict."""
    for verdict in ("wrong", "invalid", "fails"):
        names = [m.name for m in models if m.verdict(label) == verdict]
        yield f"{verdict} on {len(names)}{': ' * bool(names)}{', '.join(names)}"


def _ratio_summary(title: str, models: list[ModelResult], ratio: Callable[[ModelResult], Ratio | None]) -> str:
    found = [(m.name, r) for m in models if (r := ratio(m))]
    if not found:
        return f"- {title}: nothing measured"
    counts = [sum(r.direction == sign for _, r in found) for sign in (-1, 0, 1)]
    slower = ", ".join(f"{name} {r}" for name, r in found if r.direction > 0).replace("*", "")
    mean = geometric_mean(r.value for _, r in found)
    told = f"faster on {counts[0]}, no difference measured on {counts[1]}, slower on {counts[2]}"
    return f"- {title}: {told}{f' ({slower})' if slower else ''} of {len(found)}; {mean:.2f} in the geometric mean"


def _conditions_line(race: dict[str, Any]) -> str:
    effort = f"{race['min_time']:g} s of calls a row in {race['sets']} sets of processes"
    return f"- {race['machine']}; threads: {race['threads']}; batch {race['batch']}; {effort}"
