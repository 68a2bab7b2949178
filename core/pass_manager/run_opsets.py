"""Opsets of a model in a run, compared with those that plugins support."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from .report import SkippedPass


@dataclass(frozen=True, slots=True)
class RunOpsets:
    """The opsets of the standard domain that a model has one after the other, none if it imports none; and in words."""

    opsets: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, opset: int | None) -> Self:
        """Those of a model that stays as it is."""
        return cls((), "imports no standard one") if opset is None else cls((opset,), f"has {opset}")

    def then(self, opset: int, words: str, *, is_first: bool = False) -> Self:
        """Those of a model that gets another opset; `is_first`: before anything else."""
        return replace(self, opsets=(opset,) if is_first else (*self.opsets, opset), text=f"{self.text} and is {words}")

    def misfit(self, name: str, source: str, supported: tuple[int, int] | None) -> SkippedPass | None:
        """The pass `name` of the plugin `source` as left out, unless it supports all of them.

        `supported`: the first and the last opset, None for any.
        """
        if supported is None or (self.opsets and all(supported[0] <= o <= supported[1] for o in self.opsets)):
            return None
        first, last = supported
        return SkippedPass(name, f"{source} supports opsets {first} to {last}, the model {self.text}")
