"""A comparison: what it came to in a sentence, then tables by theme, each narrow enough for any terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.filesize import decimal
from rich.table import Table

from ..measure.metrics import Interval
from ..terminal import Screen, add_row, plural
from .comparison_report import OURS, Compared, Row

NOTHING = "-"
LONGEST_NAME = 13  # characters of what stands first in a row
LONGEST_SYMBOL = 12  # characters of a dim that a cell may name
MANY = 1e6  # samples a second, beyond which digits say nothing
LONG = 1e5  # milliseconds with which there is no room for a comma


def show_compared(screen: Screen, found: Compared) -> None:
    """All there is to see of it; the rest is in its JSON."""
    screen.line(found.source, "bold")
    screen.line(headline(found))
    for table in tables_of(found):
        screen.out.print(table)
    for line in (*legend(found.rows), *complaints(found.rows), *conditions(found)):
        screen.line(line)


def headline(found: Compared) -> str:
    """What this optimizer did for the model, in a sentence."""
    written, online = (found.made_by(OURS, online=o) for o in (False, True))
    original = found.rows[0].anatomy
    if written is None or online is None or written.anatomy is None or original is None:
        return f"{OURS} made nothing that can be run"
    said = f"{OURS}: {original.nodes} -> {written.anatomy.nodes} nodes, {word(written)}"
    if wrong := found.misled(OURS):
        return f"{said}; ORT ALL is wrong about {wrong}, so no time counts"
    ratio = next(iter(online.ratios.values()), None)
    if ratio is None:
        return f"{said}; nothing was measured under ORT ALL"
    if not ratio.is_difference:
        return f"{said}; with ORT ALL no difference in time measured ({_interval(ratio)})"
    return f"{said}; with ORT ALL {_share(ratio.ratio)} ({_interval(ratio)}) of the original's time"


def tables_of(found: Compared) -> Iterator[Table]:
    """The tables, in order, none wider than 80 characters."""
    yield verdict_table(found.rows)
    yield size_table(found.rows)
    for batch in found.batches:
        yield speed_table(found, batch)
    yield loading_table(found.rows)
    if found.left:
        yield left_table(found)


def verdict_table(rows: Sequence[Row]) -> Table:
    """Whether each computes the same, as it is written and then under ORT ALL, and what kind of file it is."""
    table = _table("Right?", "as written", "then ORT ALL", "valid", "portable")
    for written, online in _pairs(rows):
        a = written.anatomy
        kind = [_yes(not a.invalid), _yes(a.is_portable)] if a is not None else [NOTHING, NOTHING]
        then = _verdict(online) if online is not None else ""
        add_row(table, written.made_by, _verdict(written), then, *kind, style=_style(written.made_by))
    return table


def size_table(rows: Sequence[Row]) -> Table:
    """What each file is made of, and how long making it took."""
    table = _table("Size", "nodes", "op types", "parameters", "bytes", "optimizing")
    for row, _ in _pairs(rows):
        a = row.anatomy
        cells = (
            [str(a.nodes), str(len(a.ops)), f"{a.parameters:,}", decimal(a.bytes)] if a is not None else [NOTHING] * 4
        )
        took = "" if row.made_by == rows[0].made_by else NOTHING if row.seconds is None else f"{_ms(row.seconds)} ms"
        add_row(table, row.made_by, *cells, took, style=_style(row.made_by))
    return table


def speed_table(found: Compared, batch: int) -> Table:
    """How long a call takes, in milliseconds, and how many samples a second that makes."""
    what = "one sample" if batch == 1 else f"batch of {batch}"
    times = ("median\nms", "95 %\nms", "99 %\nms")
    table = _table(f"Speed,\n{what}", *times, "samples\na second", "time against\noriginal, ORT ALL")
    for online, title in ((False, "as written:"), (True, "then ORT ALL:")):
        add_row(table, title, *[""] * 5, style="dim")
        for i, row in enumerate(found.rows):
            if row.online is online:
                cells = _speeds(row, batch, is_baseline=i == found.baseline)
                add_row(table, row.made_by, *cells, style=_style(row.made_by))
        if not online:
            add_row(table, "", *[""] * 5)
    return table


def loading_table(rows: Sequence[Row]) -> Table:
    """What making a session takes, in milliseconds, and what a process holds that has run it."""
    one = ("memory", "peak")
    table = _table("Loading", "ms as\nwritten", *one, "ms then\nORT ALL", *one)
    for written, online in _pairs(rows):
        cells = [*_loading(written), *(_loading(online) if online is not None else [""] * 3)]
        add_row(table, written.made_by, *cells, style=_style(written.made_by))
    return table


def left_table(found: Compared) -> Table:
    """What onnxruntime's own optimizer still finds to do, what that takes and what it gains."""
    table = _table("Left for ORT", "nodes", "removed", "loading\n+ ms", "time with it\nagainst without")
    for left in found.left:
        time = NOTHING if left.latency is None else _told(left.latency)
        longer = f"{'-' if left.creation < 0 else ''}{_ms(abs(left.creation))}"
        removed = str(left.nodes - left.nodes_after)
        add_row(table, left.made_by, str(left.nodes), removed, longer, time, style=_style(left.made_by))
    return table


def legend(rows: Sequence[Row]) -> Iterator[str]:
    """What the cells mean, as far as there are such cells."""
    if any(_is_off(row) for row in rows):
        yield "errors: as a share of the largest magnitude of that output; in brackets, of what is allowed"
    if any(row.ratios for row in rows):
        yield "time against: with its 95 % interval; where that holds 1, no difference was measured"


def complaints(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with rows, those with the same complaint in one line, and what to do."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.is_bad:
            how = f"fails: {row.failure}" if row.failure or row.judged is None else f"WRONG: {row.judged.wrong}"
            said.setdefault(how, []).append(row.label)
        if row.anatomy is not None and row.anatomy.invalid and not row.online:
            said.setdefault(f"not valid: {row.anatomy.invalid}", []).append(row.label)
    for how, labels in said.items():
        yield how
        yield f"    {', '.join(labels)}"
    advice = dict.fromkeys(row.advice for row in rows if row.advice)
    yield from (f"what is to blame: {text}" for text in advice)


def conditions(found: Compared) -> Iterator[str]:
    """With what all of it was measured and judged."""
    yield found.verification + (
        f"; verifying {OURS}'s run took {found.seconds['verifying']:.1f} s" if "verifying" in found.seconds else ""
    )
    ran = sorted({p for row in found.rows if row.measured is not None for p in row.measured.providers})
    missing = "" if not ran or found.provider in ran else f", nothing on {found.provider}"
    yield f"ran on {', '.join(ran) or found.provider}{missing}, {plural(found.threads, 'thread')}; {found.machine}"
    yield ", ".join(f"{name} {version}" for name, version in found.versions.items())
    if found.sizes:
        yield f"measured with {', '.join(f'{name}={size}' for name, size in found.sizes.items())}"
    if found.batch_note:
        yield f"note: {found.batch_note}"
    yield from (f"note: {note}" for note in found.notes)
    yield from (f"left out: {name}, {why}" for name, why in found.left_out.items())
    if found.kept:
        yield f"files kept in {found.kept}"


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, no_wrap=True, min_width=LONGEST_NAME)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _pairs(rows: Sequence[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each model as it is written, and under ORT ALL where it was run so."""
    online = {row.made_by: row for row in rows if row.online}
    return ((row, online.get(row.made_by)) for row in rows if not row.online)


def _verdict(row: Row) -> str:
    """The word, the worst error, and that in parts of what is allowed."""
    judged = row.judged
    if judged is None or judged.relative is None or not _is_off(row):
        return word(row)
    share = f" ({_percent(judged.share)})" if judged.share is not None and not judged.wrong else ""
    return f"{word(row)}, {judged.relative:.1e}{share}"


def _is_off(row: Row) -> bool:
    """Whether there is an error to tell of."""
    return not row.failure and row.judged is not None and bool(row.judged.relative) and not row.judged.only


def word(row: Row) -> str:
    """Whether a row computes what the original does: exact is bit for bit, equal within what is allowed."""
    if row.failure:
        return "fails"
    if row.judged is None:
        return "not judged"
    if row.judged.wrong:
        return f"WRONG at {_edge(row.judged.only)}" if row.judged.only else "WRONG"
    return "exact" if row.judged.is_exact else "equal"


def _edge(only: str) -> str:
    """A cell has no room for long symbols; a complaint has."""
    return only if len(only) <= LONGEST_SYMBOL else "a size of 0"


def _style(made_by: str) -> str:
    return "bold" if made_by == OURS else ""


def _speeds(row: Row, batch: int, *, is_baseline: bool) -> list[str]:
    latency = row.measured.latencies.get(batch) if row.measured is not None else None
    if latency is None:
        return [NOTHING] * 5
    times = [_ms(t) for t in (latency.median, latency.p95, latency.p99)]
    ratio = "1" if is_baseline else _told(row.ratios[batch]) if batch in row.ratios else NOTHING
    return [*times, _rate(latency.throughput), ratio]


def _loading(row: Row) -> list[str]:
    m = row.measured
    if m is None or m.failure:
        return [NOTHING] * 3
    return [_ms(m.creation), decimal(m.resident), decimal(m.peak)]


def _ms(seconds: float) -> str:
    """Milliseconds, to three digits or more, in six characters at most."""
    ms = seconds * 1e3
    if ms >= LONG:
        return f"{ms:.0f}"
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:,.0f}"


def _rate(throughput: float) -> str:
    """Samples a second, to three digits or more."""
    if throughput >= MANY:
        return f"{throughput:.2e}"
    return f"{throughput:,.0f}" if throughput >= 10 else f"{throughput:.3g}"


def _percent(share: float) -> str:
    return "<1%" if share < 0.005 else f"{share:.0%}"


def _told(ratio: Interval) -> str:
    """A ratio with its interval, or that there is no difference."""
    what = _share(ratio.ratio) if ratio.is_difference else "no difference"
    return f"{what} ({_share(ratio.low)}-{_share(ratio.high)})"


def _interval(ratio: Interval) -> str:
    return f"{_share(ratio.low)} to {_share(ratio.high)}"


def _share(number: float) -> str:
    """Five characters at most, as intervals of two sets of processes may be very wide."""
    if not 5e-4 <= number < 999.5:
        return f"{number:.0e}"
    return f"{number:.{3 if number < 0.0995 else 2 if number < 9.995 else 1 if number < 99.95 else 0}f}"


def _yes(right: bool) -> str:
    return "yes" if right else "no"
