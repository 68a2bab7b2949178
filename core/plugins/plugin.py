"""What a package or file says of the passes that it brings: where they want to stand, what they were made for."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from ..errors import PluginError
from ..pass_manager.pipeline import Pass, RulePass
from ..rewriting.rules import Rule

Stage = Literal["cleanup", "fold", "fuse", "layout", "final"]
STAGES: tuple[Stage, ...] = get_args(Stage)
FINAL: Stage = "final"
RESERVED_CHARACTERS = set(",{}")  # of the texts that ask for passes


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
        _require_names(self.item.name, "before", self.before)
        _require_names(self.item.name, "after", self.after)

    @property
    def is_unconstrained(self) -> bool:
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
        if not isinstance(self.passes, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins are not type-checked
            raise PluginError(f"passes is to be a tuple or a list, not {reprlib.repr(self.passes)}")
        for item in self.passes:
            if not isinstance(item, Placed):
                _require_item(item)
        _require_pipelines(self.pipelines)
        _require_opsets(self.opsets)
        _require_version_specifier(self.passwright)

    def supports(self, version: str) -> bool:
        """Whether it says that it works with that version of passwright."""
        if not self.passwright:
            return True
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only plugins that say so need it

        return SpecifierSet(self.passwright).contains(version, prereleases=True)


def as_pass(item: Pass | Rule) -> Pass:
    """A pass; of a rule, one of its name in kebab-case."""
    return RulePass(item.name.replace("_", "-"), (item,)) if isinstance(item, Rule) else item


def _require_item(item: Any, complaint: str = "is no pass and no rule") -> None:
    if isinstance(item, type):
        raise PluginError(f"{complaint}: {item.__name__} is a class; an instance may be one, as in {item.__name__}()")
    if not isinstance(item, Pass | Rule):
        raise PluginError(f"{complaint}: {reprlib.repr(item)}")
    _require_name(item.name)


def _require_name(name: Any) -> None:
    if (
        not isinstance(name, str)
        or not name
        or name != name.strip()
        or not name.isprintable()
        or set(name) & RESERVED_CHARACTERS
    ):
        raise PluginError(f"{reprlib.repr(name)} is no name: nobody could ask for it among others, as in a,b{{n=3}}")


def _require_names(owner: str, what: str, names: Any) -> None:
    is_several = isinstance(names, Collection) and not isinstance(names, str)
    given = cast("Collection[Any]", names)
    if not is_several or not all(isinstance(n, str) for n in given):
        wrong = reprlib.repr(given)
        raise PluginError(f'{owner}: {what} is to be names, as in {what}=("fuse-gemm",), not {wrong}')


def _require_pipelines(pipelines: Any) -> None:
    if not isinstance(pipelines, Mapping):
        raise PluginError(f"pipelines is to be a dict by name, not {reprlib.repr(pipelines)}")
    for name, content in cast("Mapping[Any, Any]", pipelines).items():
        _require_name(name)
        if not isinstance(content, str):
            _require_item(content, f"pipeline {name} is no text and no pass")


def _require_version_specifier(wanted: Any) -> None:
    if wanted == "":
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - only plugins that say so need it

    try:
        SpecifierSet(wanted if isinstance(wanted, str) else repr(wanted))
    except InvalidSpecifier as e:
        raise PluginError(f"passwright={wanted!r} is not of the form >=0.1,<1") from e


def _require_opsets(opsets: Any) -> None:
    match opsets:
        case None:
            return
        case (int(first), int(last)) if 1 <= first <= last:
            return
        case _:
            raise PluginError(f"opsets={opsets!r} is not the first and the last opset, as in (13, 25)")
