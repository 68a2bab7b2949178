"""The report of `diff`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from ...core.support.printable_text import json_text
from ..report.notebook import report_card, report_line
from .diff_result import ModelDifference


@dataclass(slots=True)
class DiffReport:
    """The differences of two models.

    `include_names`: whether names, doc strings, metadata of nodes and the storage of constants are compared.

    Examples:
        >>> diff("model.onnx", "model.onnx").difference.is_identical
        True
    """

    original: str
    other: str
    difference: ModelDifference
    include_names: bool = False
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_equal(self) -> bool:
        """Whether the models are equal in everything that was compared."""
        return self.difference.is_identical if self.include_names else self.difference.is_empty

    def __bool__(self) -> bool:
        """Whether the models are equal."""
        return self.is_equal

    def to_json(self) -> str:
        """The differences as deterministic JSON text, including names and notes."""
        data = {
            "original": self.original,
            "other": self.other,
            "equal": self.is_equal,
            "names_count": self.include_names,
            "counts": to_builtins(self.difference.counts),
            **to_builtins(self.difference),
            "versions": self.versions,
            "options": self.options,
        }
        return json_text(data)

    __repr__, _repr_html_ = report_line, report_card
