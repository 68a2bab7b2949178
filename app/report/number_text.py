"""Numbers as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...core.support.confidence_intervals import RatioInterval

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float) -> str:
    """A time in three digits with a suitable unit."""
    size = abs(seconds)
    factor, unit = next(((f, u) for f, u in UNITS if size >= f * 0.9995), UNITS[-1])
    return f"{three_digits(seconds / factor)} {unit}" if size else "0 s"


def three_digits(number: float) -> str:
    """`1.23`, `12.3`, `123`, `1,230`."""
    size = abs(number)
    return f"{number:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def duration_range(seconds: Iterable[float]) -> str:
    """The shortest and longest of some times, ignoring zeros: `89.7 µs-12.5 ms`, `5.31-6.12 µs`."""
    times = sorted(filter(None, seconds))
    if not times:
        return ""
    low, high = duration(times[0]), duration(times[-1])
    same = low.rpartition(" ")[0] if low.split()[-1] == high.split()[-1] else low
    return low if low == high else f"{same}-{high}"


def compact(number: float) -> str:
    """A number with three digits: `25.6 M`."""
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= factor * 0.9995:
            return f"{three_digits(number / factor)} {unit}"
    return f"{number:.3g}"


def change(before: float, after: float) -> str:
    """The relative change; "" if there is none."""
    if not before or before == after:
        return ""
    text = f"{(after - before) / before:+.1%}"
    return text if text[1:] != "0.0%" else "<0.1%"


def ratio_with_bounds(interval: RatioInterval) -> str:
    """`0.87 (0.85-0.89)`, `no difference (0.98-1.04)` or `inconclusive (0.41-1.05)`."""
    return f"{ratio(interval)} ({bounds(interval)})"


def time_against_original(ratio: RatioInterval, where: str = "with ORT ALL") -> str:
    """A time divided by the original's, in words; by default both under ORT ALL."""
    return f"{where} {ratio_with_bounds(ratio)} {'of' if ratio.is_significant else 'compared with'} the original's time"


def ratio(interval: RatioInterval) -> str:
    """A ratio, unless its interval contains 1, or words; a wide interval is inconclusive."""
    if interval.is_significant:
        return _short(interval.ratio)
    return "no difference" if interval.is_alike else "inconclusive"


def bounds(interval: RatioInterval) -> str:
    """The 95 % interval."""
    return f"{_short(interval.low)}-{_short(interval.high)}"


def _short(number: float) -> str:
    """A ratio in at most five characters; intervals from few processes may be very wide."""
    if not 5e-4 <= number < 999.5:
        return f"{number:.0e}"
    return f"{number:.3f}" if number < 0.0995 else three_digits(number)


def with_version(name: str, versions: Mapping[str, str]) -> str:
    """An engine, including its settings, with its version if known: `openvino:GPU 2026.4`."""
    return f"{name} {versions.get(name.partition(':')[0], '')}".strip()


def plural(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}{'s' * (n != 1)}"
