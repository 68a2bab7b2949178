"""`passes diff` of two JSON reports: differences of sizes, times and verdicts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, ValidationError, convert, structs, to_builtins
from rich.filesize import decimal

from ...core.errors import ModelError, UsageError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_report
from ...core.ort.engines import ONNXRUNTIME
from ...core.support.confidence_intervals import RatioInterval
from ...core.support.printable_text import json_text
from ...core.support.regular_files import read_text, unreadable
from ..report.document import CARD, PAGE, TERMINAL, Document, Lines, Media, Section, Table, TableRow, Tile, table
from ..report.finding import Finding, Level
from ..report.number_text import bounds, duration, plural, ratio_with_bounds
from ..report.page import page_html
from ..report.result_row import VERIFIED, WRONG
from .diff_options import DiffOptions

Outcome = Literal["same", "better", "worse", "inconclusive", "changed", "new", "missing"]
UNVERIFIED = "not verified"
RAN = "ran"
TONES = {"worse": "wrong", "better": "ours"}
GRADES = {VERIFIED: 0, RAN: 0, UNVERIFIED: 1}
"""The order of verdicts, from best to worst; all others are worse."""
SIZE_SHARE = 0.01
"""The growth of a file from which on it is worse: names and metadata alone take less."""
MAX_BYTES = 1 << 28  # of a report: a batch has the reports of thousands of models
MAX_FIGURE = 1e300
CONDITIONS = ("threads", "provider", "level", "machine", "batches", "pipeline", "engine")


class Figure(Struct, frozen=True):
    """A figure of a report: a number, with its interval if it was measured, or a verdict in words.

    `inconclusive` says why the measurement decides nothing.
    """

    kind: Literal["count", "bytes", "seconds", "ratio", "verdict", "accuracy"]
    value: int | float | str
    low: float | None = None
    high: float | None = None
    inconclusive: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for words in place of a number, and for numbers that no measurement gives."""
        numbers = [n for n in (self.value, self.low, self.high) if not isinstance(n, str | None)]
        is_text = isinstance(self.value, str)
        if is_text is not (self.kind == "verdict") or any(not abs(n) <= MAX_FIGURE for n in numbers):
            raise ValueError(f"{self.kind} of {self.value!r}")

    @property
    def text(self) -> str:
        """The figure as tables show it."""
        if isinstance(self.value, str):
            return self.value
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        match self.kind:
            case "ratio":
                interval = RatioInterval(self.value, low, high, self.inconclusive)
                return ratio_with_bounds(interval) if interval.is_significant else bounds(interval)
            case "seconds":
                return f"{duration(self.value)} ({duration(low)}-{duration(high)})"
            case "bytes":
                return decimal(int(self.value))
            case "accuracy":
                return f"{self.value:.4g}"
            case _:
                return f"{self.value:,}"


class FigureChange(Struct, frozen=True):
    """A figure of one subject in both reports; None if a report does not have it."""

    subject: str
    name: str
    before: Figure | None
    after: Figure | None

    @property
    def outcome(self) -> Outcome:
        """Whether the figure is better or worse; measured figures only if their intervals do not overlap."""
        a, b = self.before, self.after
        if a is None or b is None:
            return "new" if a is None else "missing"
        if isinstance(a.value, str) or isinstance(b.value, str):
            grades = [GRADES.get(str(f.value), len(GRADES)) for f in (a, b)]
            return "same" if grades[0] == grades[1] else "worse" if grades[1] > grades[0] else "better"
        if a.inconclusive or b.inconclusive:
            return "inconclusive"
        if a.kind == "accuracy":  # without an interval
            return "same" if a.value == b.value else "changed"
        if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
            return "worse" if b.low > a.high else "better" if b.high < a.low else "same"
        if a.kind == "bytes" and abs(b.value - a.value) <= SIZE_SHARE * a.value:
            return "same"
        return "same" if a.value == b.value else "worse" if b.value > a.value else "better"


@dataclass(slots=True)
class ReportsDifference:
    """Two reports: their figures, and the `conditions` of measurements that differ."""

    original: str
    other: str
    changes: list[FigureChange]
    conditions: list[str]

    @property
    def worse(self) -> list[FigureChange]:
        """The figures that are worse."""
        return [c for c in self.changes if c.outcome == "worse"]

    def __bool__(self) -> bool:
        """Whether nothing is worse."""
        return not self.worse

    def to_json(self) -> str:
        """The difference as JSON text."""
        changes = [to_builtins(c) | {"outcome": c.outcome} for c in self.changes]
        return json_text({
            "original": self.original,
            "other": self.other,
            "is_worse": not self,
            "conditions": self.conditions,
            "changes": changes,
        })  # fmt: skip


def compare_reports(original: Path, other: Path, options: DiffOptions) -> ReportsDifference:
    """Compare two reports that the same command wrote with `--json`.

    Times are compared by their intervals; if the report has a ratio to the original, measured side by side, the ratio
    is compared instead. Raises ModelError for files that cannot be read, and UsageError for reports of other commands.
    """
    paths = OutputPaths.of(report=options.json, page=options.html)
    paths.require_distinct((original, other))
    a, b = _read(original), _read(other)
    differing = (n for n in CONDITIONS if n in a and n in b and a[n] != b[n])
    conditions = [f"{name}: {a[name]} and {b[name]}" for name in differing]
    before, after = _all_figures(original, a), _all_figures(other, b)
    if before.keys() and not before.keys() & after.keys():
        raise UsageError(f"{original} and {other} have no model in common, or are of different commands")
    changes = [FigureChange(*key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    if conditions:
        changes = [_undecided(c, conditions) for c in changes]
    found = ReportsDifference(str(original), str(other), changes, conditions)
    publish_report(paths, found.to_json, lambda: page_html(describe_reports(found)))
    return found


def _undecided(change: FigureChange, conditions: list[str]) -> FigureChange:
    """Mark a change as undecided if it was measured under other conditions."""
    after = change.after
    if after is None or after.low is None:
        return change
    why = f"other conditions: {'; '.join(conditions)}"
    return structs.replace(change, after=structs.replace(after, inconclusive=why))


def _read(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(read_text(path, MAX_BYTES))
    except OSError as e:
        raise ModelError(unreadable(path, e, "report")) from e
    except (ValueError, RecursionError) as e:
        raise ModelError(f"{path}: not a report in JSON: {e}") from e
    if not isinstance(data, dict):
        raise UsageError(f"{path}: not a report of passes")
    return cast("dict[str, Any]", data)


def _all_figures(path: Path, data: Mapping[str, Any]) -> dict[tuple[str, str], Figure]:
    try:
        found = convert(to_builtins([*_figures(data)]), list[tuple[str, str, Figure]])
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, ValidationError) as e:
        raise UsageError(f"{path}: not a report of run, batch, verify, bench, compare, quantize or tune") from e
    return {(subject, name): figure for subject, name, figure in found}


def _figures(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Figure]]:
    """Yield the subject and name of each figure of a report, with the figure."""
    if "outcomes" in data:
        for row in data["models"]:
            if row["error"]:
                yield row["model"], "verdict", Figure("verdict", f"fails: {row['error']}")
            elif row["report"]:
                yield row["model"], "verdict", Figure("verdict", RAN)  # unless the report has one
                yield from ((row["model"], name, figure) for _, name, figure in _figures(row["report"]))
    elif "rows" in data:
        yield from _of_rows(data["rows"])
    elif "agrees" in data:
        yield Path(data["other"]).name, "verdict", Figure("verdict", VERIFIED if data["agrees"] else WRONG)
    elif "trials" in data:
        yield from _of_search(data)
    elif "passes" in data:
        yield from _of_run(data)
    else:
        yield from _of_bench(data["models"])


def _of_run(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Figure]]:
    subject, after, verification = Path(data["source"]).name, data["after"], data["verification"]
    yield subject, "nodes", Figure("count", after["nodes"])
    yield subject, "bytes", Figure("bytes", after["bytes"])
    is_wrong = verification is not None and verification.get("failure")
    yield subject, "verdict", Figure("verdict", WRONG if is_wrong else VERIFIED if verification else UNVERIFIED)
    yield subject, "wrong changes skipped", Figure("count", len(data["rejected"]))
    for race in data["speed"]["races"] if data["speed"] else ():
        if race["ratio"]:
            yield subject, "time against the original", _ratio(race["ratio"])


def _of_rows(rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, Figure]]:
    for row in rows:
        stats, verdict = row["stats"], row["verdict"]
        wrong: str = row["failure"] or (verdict["wrong"] if verdict else "")
        yield row["label"], "verdict", Figure("verdict", wrong or (VERIFIED if verdict else UNVERIFIED))
        if stats:
            yield row["label"], "nodes", Figure("count", stats["nodes"])
            yield row["label"], "bytes", Figure("bytes", stats["bytes"])
        for batch, ratio in row["ratios"].items():
            yield row["label"], f"time against the original, batch of {batch}", _ratio(ratio)


def _of_bench(models: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, Figure]]:
    folders = defaultdict[str, set[Path]](set)
    for path in (Path(model["model"]) for model in models):
        folders[path.name].add(path.parent)
    for number, model in enumerate(models):
        measured, engine, path = model["measured"], model["engine"], Path(model["model"])
        shown = path.name if len(folders[path.name]) == 1 else str(path)
        subject = shown + f" on {engine}" * (engine != ONNXRUNTIME)
        yield subject, "bytes", Figure("bytes", model["bytes"])
        failure = measured["failure"]
        yield subject, "verdict", Figure("verdict", f"fails: {failure}" if failure else RAN)
        if model["accuracy"] is not None:
            yield subject, "accuracy", Figure("accuracy", model["accuracy"])
        for batch, ratio in model["ratios"].items():
            yield subject, f"time against the first, batch of {batch}", _ratio(ratio)
        for batch, x in measured["latencies"].items() if not number else ():
            why = "the machine was busy" if x["is_disturbed"] else ""
            figure = Figure("seconds", x["median"], x["median_low"], x["median_high"], why)
            yield subject, f"median, batch of {batch}", figure


def _of_search(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Figure]]:
    subject, result = Path(data["source"]).name, data["result"]
    yield subject, "bytes", Figure("bytes", result["bytes"])
    ratios = result.get("ratios") or ({"": result["ratio"]} if result.get("ratio") else {})
    for batch, ratio in ratios.items():
        yield subject, "against the original" + (f", batch of {batch}" if batch else ""), _ratio(ratio)
    if (score := result.get("score")) and score["figure"] is not None:
        yield subject, data["figure"], Figure("accuracy", score["figure"])


def _ratio(data: Mapping[str, Any]) -> Figure:
    return Figure("ratio", data["ratio"], data["low"], data["high"], data["inconclusive"])


def describe_reports(found: ReportsDifference) -> Document:
    """Describe the figures that are worse or better; the page and the summary have all of them."""
    worse = found.worse
    better = [c for c in found.changes if c.outcome == "better"]
    others = [c for c in found.changes if c.outcome not in {"worse", "better", "same"}]
    models = len({c.subject for c in found.changes})
    counts = f"{plural(len(worse), 'figure')} worse" if worse else "nothing is worse"
    figures = f"{plural(len(found.changes), 'figure')} of {plural(models, 'model')}"
    shown = [*worse, *better, *others]
    return Document(
        "passes diff",
        f"{found.other} against {Path(found.original).name}",
        f"{counts}, {len(better)} better, of {figures}",
        "bad" if worse else "good",
        tiles=[
            Tile("worse", str(len(worse)), tone="bad" if worse else ""),
            Tile("better", str(len(better)), tone="good" if better else ""),
            Tile("figures", str(len(found.changes)), note=f"of {plural(models, 'model')}"),
        ],
        evidence=[Section("figures", "Figures", [_table(shown, TERMINAL), _table(found.changes, CARD | PAGE)])],
        blocks=[Lines([f"times are not compared, as conditions differ: {c}" for c in found.conditions], "note")],
        findings=[Finding(Level.ERROR, "regression", "worse", _line(c), found.other) for c in worse],
    )


def _table(changes: Iterable[FigureChange], media: Media) -> Table:
    rows, last = list[TableRow](), ""
    for c in changes:
        name = c.subject if c.subject != last else ""
        rows.append(TableRow((name, c.name, _text(c.before), _text(c.after), c.outcome), TONES.get(c.outcome, "")))
        last = c.subject
    return table("Figures", ("model", "figure", "before", "after", ""), rows, texts=["figure", ""], on=media)


def _line(change: FigureChange) -> str:
    return f"{change.subject}: {change.name}: {_text(change.before)} -> {_text(change.after)}"


def _text(figure: Figure | None) -> str:
    return "" if figure is None else figure.text
