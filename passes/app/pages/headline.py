"""What a page says first: the verdict, and the numbers that matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....core.measure.figures import Interval
from ....core.report import Report
from ..comparing.compared import OURS, Compared
from ..profiling.profiled import Profiled
from ..screens.verdict import verdict_lines
from . import numbers


@dataclass(frozen=True, slots=True)
class Tile:
    """A number, what it was, and a word on it. `tone`: good, bad, or nothing."""

    label: str
    value: str
    was: str = ""
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What can be said for a result: `tone` is good, open or bad."""

    lines: list[str]
    tone: str


def claim_of(report: Report) -> Claim:
    """What verification came to."""
    verdict = report.verification
    if verdict is not None and verdict.failure is not None:
        return Claim([f"wrong: {verdict.failure}"], "bad")
    return Claim(list(verdict_lines(verdict)), "open" if verdict is None else "good")


def run_tiles(report: Report) -> Iterator[Tile]:
    """Sizes before and after, and how much was done."""
    b, a = report.before, report.after
    yield _less("nodes", b.nodes, a.nodes, numbers.thousands(b.nodes), numbers.thousands(a.nodes))
    yield _less("file", b.bytes, a.bytes, numbers.size(b.bytes), numbers.size(a.bytes))
    yield _less("parameters", b.parameters, a.parameters, numbers.compact(b.parameters), numbers.compact(a.parameters))
    changes = sum(p.changes for p in report.passes)
    rules = sum(bool(n) for p in report.passes for n in p.rules.values())
    yield Tile("rewrites", numbers.thousands(changes), note=f"of {rules} rule{'s' * (rules != 1)}")
    left_out = len(report.quarantined) + len(report.unfit)
    if left_out:
        yield Tile("left out", numbers.thousands(left_out), note="see below", tone="bad" if report.quarantined else "")


def compare_tile(compared: Compared) -> Iterator[Tile]:
    """How fast our result is in the end, beside the original under the same optimization of onnxruntime's."""
    ours = compared.made_by(OURS, online=True)
    batch = compared.batches[0] if compared.batches else 0
    if wrong := compared.misled(OURS):
        yield Tile("latency under ORT ALL", "wrong", note=f"onnxruntime, about {wrong}: no time counts", tone="bad")
    elif ours is not None and batch in ours.ratios:
        yield _latency(ours.ratios[batch], "latency under ORT ALL")


def profile_tile(profiled: Profiled) -> Iterator[Tile]:
    """How long a run took under the profiler, with no interval that says how sure it is: so no praise, no blame."""
    before, after = profiled.before, profiled.after
    last = after or before
    was = numbers.duration(before.seconds) if after is not None else ""
    yield Tile("one run, profiled", numbers.duration(last.seconds), was, f"medians of {last.runs}")


def _latency(interval: Interval, label: str) -> Tile:
    if not interval.is_difference:
        return Tile(label, "no difference", note=f"{numbers.bounds(interval)} of the original's")
    tone, said = ("good", "faster") if interval.ratio < 1 else ("bad", "slower")
    return Tile(label, numbers.ratio(interval), note=f"{said}: {numbers.bounds(interval)} of the original's", tone=tone)


def _less(label: str, before: float, after: float, was: str, is_now: str) -> Tile:
    """What had better become less."""
    if before == after:
        return Tile(label, is_now, note="as before")
    return Tile(label, is_now, was, numbers.change(before, after), "good" if after < before else "bad")
