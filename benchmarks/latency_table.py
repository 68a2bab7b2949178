"""The Markdown of latency.py: a table for each family, and conclusions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from gemm_floor import Peak, Product
from speedup_table import Ratio
from table import markdown

ORIGINAL = "original"
OVERHEAD_BOUND = 0.1  # the share of the floor in the time of the original, below which the overhead of nodes dominates


@dataclass(frozen=True)
class Cell:
    """A model at a workload, a batch and a number of threads: the seconds of the original, and ratios by pipeline."""

    model: str
    group: str
    family: str
    workload: str
    batch: int
    threads: int
    seconds: float
    floor: float | None
    ratios: Mapping[str, Ratio]

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.model, self.workload, f"x{self.batch}")))

    @property
    def is_overhead_bound(self) -> bool:
        return self.floor is not None and self.floor < OVERHEAD_BOUND * self.seconds

    def distance(self, pipeline: str) -> float | None:
        """The time above the floor as a share of that of the original; None where the original is at the floor."""
        if self.floor is None or pipeline not in self.ratios or self.seconds <= self.floor:
            return None
        return (self.ratios[pipeline].value * self.seconds - self.floor) / (self.seconds - self.floor)

    def row(self, pipelines: Sequence[str]) -> list[str]:
        floor = "" if self.floor is None else f"{self.floor / self.seconds:.2f}"
        ratios = [str(self.ratios.get(p, "")) for p in pipelines]
        milliseconds = self.seconds * 1e3
        digits = f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"
        return [self.label, str(self.threads), digits, *ratios, floor]


def format_results(results: Mapping[str, Any]) -> Iterator[str]:
    """All lines."""
    peaks = {threads: Peak.of(measured) for threads, measured in results["peaks"].items()}
    cells = list(measured_cells(results["models"], peaks))
    pipelines = list(dict.fromkeys(p for cell in cells for p in cell.ratios))
    header = ["model, workload, batch", "threads", "original, ms", *pipelines, "floor"]
    for family, found in groupby(sorted(cells, key=lambda c: c.family), lambda c: c.family):
        yield from (f"### {family}", "", *markdown(header, (c.row(pipelines) for c in found)), "")
    for pipeline in pipelines:
        yield from (f"### {pipeline}", "", *_summary(pipeline, cells), "")
        yield from _distances(pipeline, cells)
        yield from _left_out(pipeline, results["models"])
    yield from _failures(results["models"])
    yield from sorted({_conditions(race) for facts in results["models"].values() for race in _races(facts).values()})
    for threads, peak in peaks.items():
        rates = ", ".join(f"{rate / 1e9:.0f} at {size >> 20} MB" for size, rate in peak.bytes.items())
        yield f"- peak, threads {threads}: {peak.flops / 1e9:.0f} GFLOP/s; GB/s of one-row products: {rates}"


def measured_cells(models: Mapping[str, Any], peaks: Mapping[str, Peak]) -> Iterator[Cell]:
    for name, facts in models.items():
        for threads, race in _races(facts).items():
            for cell in race["cells"]:
                rows = cell["rows"]
                ratios = {p: Ratio(*row["ratio"]) for p, row in rows.items() if p != ORIGINAL and "ratio" in row}
                products = _products(cell["products"])
                if ORIGINAL in rows:
                    yield Cell(
                        name, facts["group"], facts["family"], cell["workload"], cell["batch"], int(threads),
                        rows[ORIGINAL]["median"], None if products is None else peaks[threads].floor(products), ratios,
                    )  # fmt: skip


def _products(counts: Sequence[tuple[int, int, int]] | None) -> dict[Product, int] | None:
    return None if counts is None else {Product(flops, size): count for flops, size, count in counts}


def _races(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {threads: race for threads, race in facts["races"].items() if "cells" in race}


def _summary(pipeline: str, cells: Sequence[Cell]) -> Iterator[str]:
    """Means of the ratios, and how many are above and below 1 beyond their intervals."""
    timed = [c for c in cells if pipeline in c.ratios]
    selections: dict[str, Callable[[Cell], bool]] = {"all": lambda _: True}
    selections |= {f"threads: {n}": lambda c, n=n: c.threads == n for n in sorted({c.threads for c in timed})}
    selections |= {group: lambda c, group=group: c.group == group for group in sorted({c.group for c in timed})}
    selections["overhead-bound"] = lambda c: c.is_overhead_bound
    rows = [_mean_row(name, pipeline, [c for c in timed if chosen(c)]) for name, chosen in selections.items()]
    yield from markdown(["models", "cells", "geometric mean", "faster", "no difference", "slower"], filter(None, rows))
    slower = [(c, r) for c in timed if (r := c.ratios[pipeline]).direction > 0]
    yield ""
    yield f"Slower beyond the interval: {len(slower)} of {len(timed)}"
    yield from (f"- {c.label}, threads {c.threads}: {r}" for c, r in sorted(slower, key=lambda s: -s[1].value))
    yield ""


def _mean_row(name: str, pipeline: str, cells: Sequence[Cell]) -> list[str]:
    if not cells:
        return []
    ratios = [c.ratios[pipeline] for c in cells]
    counts = [str(sum(r.direction == sign for r in ratios)) for sign in (-1, 0, 1)]
    return [name, str(len(cells)), f"{geometric_mean(r.value for r in ratios):.3f}", *counts]


def _distances(pipeline: str, cells: Sequence[Cell]) -> Iterator[str]:
    """The time above the floor by family, and the mean of the ratios."""
    rows: list[list[str]] = []
    for family, found in groupby(sorted(cells, key=lambda c: (c.family, c.group)), lambda c: (c.family, c.group)):
        pairs = [(c.ratios[pipeline].value, d) for c in found if (d := c.distance(pipeline)) is not None]
        if pairs:
            ratio, distance = geometric_mean(r for r, _ in pairs), sum(d for _, d in pairs) / len(pairs)
            rows.append([" ".join(family), str(len(pairs)), f"{ratio:.2f}", f"{distance:.2f}"])
    yield from markdown(["family", "cells", "geometric mean", "distance to the floor"], rows)
    yield ""


def _left_out(pipeline: str, models: Mapping[str, Any]) -> Iterator[str]:
    """The models in which verification left changes out."""
    for name, facts in models.items():
        if count := facts["pipelines"].get(pipeline, {}).get("left_out"):
            yield f"- {name}: verification left out {count} changes"


def _failures(models: Mapping[str, Any]) -> Iterator[str]:
    for name, facts in models.items():
        for pipeline, found in facts["pipelines"].items():
            if "failure" in found:
                yield f"- {name}, {pipeline}: {found['failure']}"
        for threads, race in facts["races"].items():
            failures = {"": race["failure"]} if "failure" in race else race["failures"]
            yield from (f"- {name}, threads {threads}{', ' * bool(who)}{who}: {f}" for who, f in failures.items())


def _conditions(race: Mapping[str, Any]) -> str:
    return f"- {race['machine']}; {race['min_time']:g} s of calls of each cell in {race['sets']} sets of processes"
