"""`diff`: two models, and where their structure differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ...core.io.model_source import source_of
from ...core.io.output_paths import Places
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ..environment import versions
from .diff_result import ModelDifference
from .graph_diff import model_difference


@dataclass(slots=True)
class Difference:
    """How two models differ. `names`: whether names, doc strings, metadata of nodes and the like count."""

    original: str
    other: str
    found: ModelDifference
    names: bool = False
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def equal(self) -> bool:
        """Whether nothing that counts differs."""
        return self.found.is_identical if self.names else self.found.is_empty

    def to_data(self) -> dict[str, Any]:
        """All of it, names and notes included, as JSON has it. The same models give the same."""
        told = {"original": self.original, "other": self.other, "equal": self.equal, "names_count": self.names}
        return {**told, "counts": asdict(self.found.counts), **asdict(self.found), "versions": self.versions}

    def to_json(self) -> str:
        """The difference as JSON text."""
        return json.dumps(self.to_data(), indent=1, allow_nan=False)


def diff(
    original: onnx.ModelProto | str | Path,
    other: onnx.ModelProto | str | Path,
    *,
    names: bool = False,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Difference:
    """Match the ops of two models by what they compute, and tell what was removed, added, replaced and changed.

    Names, doc strings, metadata of nodes and where constants are kept count only with `names`. Linear in the ops; of
    the weights those are read that look alike, and those that changed. Raises ModelError for an unusable model.
    """
    watch = Stopwatch(progress)
    first, second = (source_of(m, inline=False) for m in (original, other))
    places = Places(report=Path(report_to) if report_to is not None else None)
    with no_collection():
        with watch.phase("loading"):
            a, b = first.load(), second.load()
        places.require((*first.files, *second.files))
        with watch.phase("comparing"):
            found = Difference(first.label, second.label, model_difference(a, b), names, versions())
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found
