"""What a package or file says of the passes that it brings: where they want to stand, what they were made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from .errors import PluginError
from .pipeline import Pass, RulePass
from .rules import Rule

Stage = Literal["cleanup", "fold", "fuse", "layout", "final"]
STAGES: tuple[Stage, ...] = get_args(Stage)
FINAL: Stage = "final"


@dataclass(frozen=True, slots=True)
class Placed:
    """A pass, or a rule, and where in a pipeline it wants to stand if it is enabled there.

    `stage`: behind the last pass of that stage; `final` is once, after the loop. `before`, `after`: names of passes;
    those that are not in the pipeline do not count. With `after` alone it stands behind the last of them, with
    `before` alone just before the first, with nothing at the end of the loop. Raises PluginError for what is no stage.
    """

    item: Pass | Rule
    stage: Stage | None = None
    before: Sequence[str] = ()
    after: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check what no type checker may have seen."""
        _require_item(self.item)
        if self.stage is not None and self.stage not in STAGES:
            raise PluginError(f"{self.item.name}: no stage is called {self.stage} (there are {', '.join(STAGES)})")
        for what, names in (("before", self.before), ("after", self.after)):
            given: Any = names
            if isinstance(given, str) or not all(isinstance(n, str) for n in given):
                raise PluginError(
                    f'{self.item.name}: {what} is to be names, as in {what}=("fuse-gemm",), not {given!r}'
                )

    @property
    def is_free(self) -> bool:
        """Whether it may stand anywhere."""
        return self.stage is None and not self.before and not self.after


@dataclass(frozen=True, slots=True)
class Plugin:
    """All that a package or file brings.

    `passes`: passes and rules, each loose rule as a pass of its own. `pipelines`: by name, as `--pipeline` takes
    them or as a Pass. `passwright`: the versions of passwright that it works with, as in `>=0.1,<1` (PEP 440).
    `opsets`: the first and the last standard opset that it supports; None for any. Raises PluginError.
    """

    passes: Sequence[Pass | Rule | Placed] = ()
    pipelines: Mapping[str, str | Pass] = field(default_factory=dict[str, "str | Pass"])
    passwright: str = ""
    opsets: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check what no type checker may have seen."""
        if not isinstance(self.passes, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PluginError(f"passes is to be a tuple or a list, not {self.passes!r}")
        for item in self.passes:
            if not isinstance(item, Placed):
                _require_item(item)
        for name, content in self.pipelines.items():
            _require_name(name)
            given: Any = content
            if not isinstance(given, str):
                _require_item(given, f"pipeline {name} is no text and no pass")
        _require_opsets(self.opsets)
        try:
            SpecifierSet(self.passwright)
        except InvalidSpecifier as e:
            raise PluginError(f"passwright={self.passwright!r} is not of the form >=0.1,<1") from e

    def supports(self, version: str) -> bool:
        """Whether it says that it works with that version of passwright."""
        return SpecifierSet(self.passwright).contains(version, prereleases=True)


def as_pass(item: Pass | Rule) -> Pass:
    """A pass; of a rule, one of its name in kebab-case."""
    return RulePass(item.name.replace("_", "-"), (item,)) if isinstance(item, Rule) else item


def _require_item(item: Any, otherwise: str = "is no pass and no rule") -> None:
    if not isinstance(item, Pass | Rule) or isinstance(item, type):
        raise PluginError(f"{otherwise}: {item!r}")
    _require_name(item.name)


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name or any(c in name for c in ",{}\n"):
        raise PluginError(f"{name!r} is no name: nobody could ask for it among others, as in a,b{{n=3}}")


def _require_opsets(opsets: Any) -> None:
    match opsets:
        case None:
            return
        case (int(first), int(last)) if 1 <= first <= last:
            return
        case _:
            raise PluginError(f"opsets={opsets!r} is not the first and the last opset, as in (13, 25)")
