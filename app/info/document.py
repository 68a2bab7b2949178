"""The document about models, with a table column for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from os.path import commonpath
from pathlib import Path

from rich.filesize import decimal

from ..report.document import Cell, Document, Lines, Table, TableRow
from ..report.number_text import compact, plural
from .info import InfoReport, ModelInfo

INDENT = "  "
WIDE_MODELS = 2  # with as many columns as they need
NARROW = 15  # characters of a line in a cell of more models, of which three fit a terminal of 80 columns


def describe(report: InfoReport) -> Document:
    """Describe the models side by side, and those that cannot be loaded."""
    names = column_names([m.model for m in report.models])
    width = NARROW if len(names) > WIDE_MODELS else None
    rows = [
        TableRow([name, *(_broken(cell, width) for cell in cells)], "" if cells else "total")
        for name, *cells in (info_rows(report) if names else ())
    ]
    return Document(
        "passes info",
        ", ".join(names),
        "",
        errors=[*report.failures.values(), *_misfit_lines(report)],
        blocks=[Table("Models", ["", *names], rows, splits=True), Lines([*_provider_lines(report)])],
    )


def _misfit_lines(report: InfoReport) -> Iterator[str]:
    """Yield all unsupported ops, for each model that the target does not support."""
    for m in report.models:
        if m.target is not None and m.target.misfits:
            yield f"{m.model}: not supported by {m.target.target}"
            yield from (f"{INDENT}{line}" for line in m.target.lines())


def _provider_lines(report: InfoReport) -> Iterator[str]:
    """Yield the nodes that the execution provider does not support, for each model."""
    for m in report.models:
        if m.providers is not None:
            fit = m.providers.fit
            count, on = sum(m.providers.nodes.values()), m.providers.nodes.get(fit.target, 0)
            yield f"{m.model}: {on:,} of {plural(count, 'node')} on {fit.target}"
            yield from (f"{INDENT}{line}" for line in fit.lines())
            yield from (f"{INDENT}onnxruntime: {remark}" for remark in m.providers.remarks)


def column_names(models: Sequence[str]) -> list[str]:
    """Distinct names of models: their file names, with as many folders as needed."""
    short = [Path(m).name for m in models]
    if len(set(short)) == len(set(models)):
        return short
    shared = commonpath([Path(m).absolute().parent for m in models])
    if shared == Path(shared).anchor:
        return list(models)
    return [str(Path(m).absolute().relative_to(shared)) for m in models]


def _broken(text: str, width: int | None) -> Cell:
    """A text in lines of at most `width` characters, broken behind commas, spaces and products."""
    if width is None or len(text) <= width:
        return text
    lines = [""]
    for part in re.findall(r"[^,* ]*[,* ]?", text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return tuple(line.rstrip() for line in lines)


def info_rows(report: InfoReport) -> Iterator[Sequence[str]]:
    """Yield the rows of the table; a heading is the only cell of its row."""
    models = report.models

    def row(label: str, text: Callable[[ModelInfo], str]) -> Sequence[str]:
        return [label, *map(text, models)]

    yield row("nodes", lambda m: f"{m.nodes:,}")
    for op in report.ops:
        yield row(f"{INDENT}{op}", lambda m, op=op: f"{m.ops[op]:,}" if op in m.ops else "")
    yield ["size"]
    yield row(f"{INDENT}on disk", lambda m: decimal(m.bytes))
    yield row(f"{INDENT}external", _external_text)
    yield row(f"{INDENT}parameters", lambda m: f"{m.parameters:,}")
    for dtype in dict.fromkeys(d for m in models for d in m.weights):
        yield row(f"{INDENT}{dtype}", lambda m, d=dtype: _weights_text(m, d))
    if any(m.peak_bytes is not None for m in models):
        yield row(f"{INDENT}activations", _peak_text)
    for name in dict.fromkeys(n for m in models for n in m.analyses):
        yield row(f"{INDENT}{name}", lambda m, name=name: m.analyses.get(name, ""))
    yield ["model"]
    for domain in dict.fromkeys(d for m in models for d in m.opsets):
        yield row(f"{INDENT}opset {domain}", lambda m, d=domain: str(m.opsets.get(d, "")))
    yield row(f"{INDENT}IR version", lambda m: str(m.ir_version))
    yield row(f"{INDENT}producer", lambda m: m.producer)
    yield row(f"{INDENT}functions", lambda m: str(m.functions or ""))
    yield row(f"{INDENT}overridable", lambda m: str(len(m.overridable_initializers) or ""))
    if any(m.target is not None for m in models):
        yield row(f"{INDENT}target", _target_text)
    yield from _provider_rows(models)
    yield row(f"{INDENT}metadata", lambda m: str(len(m.metadata) or ""))
    for heading, types in (("inputs", [m.inputs for m in models]), ("outputs", [m.outputs for m in models])):
        yield [heading]
        for name in dict.fromkeys(n for t in types for n in t):
            yield [f"{INDENT}{name}", *(t.get(name, "") for t in types)]


MAX_EXPRESSION = 60  # characters of a peak


def _peak_text(m: ModelInfo) -> str:
    """The peak memory of computed values, if it fits into one line."""
    more = f" and {plural(m.unsized_values, 'value')} of unknown size" if m.unsized_values else ""
    if isinstance(m.peak_bytes, int):
        return f"{decimal(m.peak_bytes)}{more}"
    if m.peak_bytes is None:
        return ""
    text = f"{m.peak_bytes} bytes{more}"
    return text if len(text) <= MAX_EXPRESSION else "give --dim"


def _external_text(m: ModelInfo) -> str:
    return f"{decimal(m.external_bytes)} in {plural(len(m.external_files), 'file')}" if m.external_files else ""


def _target_text(m: ModelInfo) -> str:
    if m.target is None:
        return ""
    return f"not supported by {m.target.target}" if m.target.misfits else str(m.target)


def _provider_rows(models: Sequence[ModelInfo]) -> Iterator[Sequence[str]]:
    """The number of nodes on each execution provider."""
    found = [m.providers.nodes if m.providers is not None else {} for m in models]
    for name in dict.fromkeys(n for nodes in found for n in nodes):
        yield [f"{INDENT}nodes on {name}", *(f"{nodes[name]:,}" if name in nodes else "" for nodes in found)]


def _weights_text(m: ModelInfo, dtype: str) -> str:
    found = m.weights.get(dtype)
    return f"{compact(found.elements)}, {decimal(found.bytes)}" if found is not None else ""
