"""`diff`: two models, and where their structure differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ...core.io.model_source import model_source
from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ..environment import versions
from .diff_result import ModelDifference
from .graph_diff import diff_models


@dataclass(slots=True)
class DiffReport:
    """How two models differ. `include_names`: whether names, doc strings, metadata of nodes and the like count."""

    original: str
    other: str
    difference: ModelDifference
    include_names: bool = False
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_equal(self) -> bool:
        """Whether nothing that counts differs."""
        return self.difference.is_identical if self.include_names else self.difference.is_empty

    def to_data(self) -> dict[str, Any]:
        """All of it, names and notes included, as JSON has it. The same models give the same."""
        told = {
            "original": self.original,
            "other": self.other,
            "equal": self.is_equal,
            "names_count": self.include_names,
        }
        return {**told, "counts": asdict(self.difference.counts), **asdict(self.difference), "versions": self.versions}

    def to_json(self) -> str:
        """The difference as JSON text."""
        return json.dumps(self.to_data(), indent=1, allow_nan=False)


def diff(
    original: onnx.ModelProto | str | Path,
    other: onnx.ModelProto | str | Path,
    *,
    include_names: bool = False,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> DiffReport:
    """Match the ops of two models by what they compute, and tell what was removed, added, replaced and changed.

    Names, doc strings, metadata of nodes and where constants are kept count only with `include_names`. Linear in the
    ops; of the weights those are read that look alike, and those that changed. Raises ModelError for an unusable model.
    """
    watch = PhaseTimer(progress)
    first, second = (model_source(m, inline=False) for m in (original, other))
    places = OutputPaths(report=Path(report_to) if report_to is not None else None)
    with gc_paused():
        with watch.phase("loading"):
            a, b = first.load(), second.load()
        places.require_writable((*first.files, *second.files))
        with watch.phase("comparing"):
            found = DiffReport(first.label, second.label, diff_models(a, b), include_names, versions())
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found
