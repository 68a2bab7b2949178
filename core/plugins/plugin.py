"""Plugins: the passes that a package or file provides, their positions, and the versions that they support."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from ..errors import PluginError
from ..rewriting.rules import Rule
from ..run.pipeline import Pass, RulePass
from ..run.transforms import ModelTransform, TransformPass

PipelineStage = Literal["cleanup", "fold", "fuse", "layout", "final"]
STAGES: tuple[PipelineStage, ...] = get_args(PipelineStage)
FINAL: PipelineStage = "final"
RESERVED_CHARACTERS = set(",{}")  # of the texts that select passes


@dataclass(frozen=True, slots=True)
class PassPlacement:
    """A pass, or a rule, and its position in a pipeline where it is enabled; transforms, which come first, have none.

    `stage`: after the last pass of that stage; `final` is once, after the loop. `before`, `after`: names of passes;
    those that are not in the pipeline do not count. With `after` alone, it comes after the last of them, with `before`
    alone just before the first, with neither at the end of the loop. Raises PluginError for an unknown stage.
    """

    item: Pass | Rule | ModelTransform
    stage: PipelineStage | None = None
    before: Sequence[str] = ()
    after: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check arguments, as plugins may not be type-checked."""
        _require_item(self.item)
        if self.stage is not None and self.stage not in STAGES:
            raise PluginError(f"{self.item.name}: unknown stage {self.stage}; choose from {', '.join(STAGES)}")
        positions: dict[str, Any] = {"before": self.before, "after": self.after}
        for option, given in positions.items():
            names = cast("Collection[Any]", given)
            is_several = isinstance(given, Collection) and not isinstance(given, str)
            if not is_several or not all(isinstance(n, str) for n in names):
                example = f'{option}=("fuse-gemm",)'
                raise PluginError(
                    f"{self.item.name}: {option} must be names, as in {example}, not {reprlib.repr(names)}"
                )

    @property
    def named(self) -> frozenset[str]:
        """The names of the passes that it comes before or after."""
        return frozenset((*self.before, *self.after))

    @property
    def is_unconstrained(self) -> bool:
        """Whether any position will do."""
        return self.stage is None and not self.named


@dataclass(frozen=True, slots=True)
class Plugin:
    """All passes and pipelines of a package or file.

    `passes`: passes, transforms and rules; rules of one group are one pass, each other rule is a pass of its own.
    `pipelines`: by name, as `--pipeline` takes them or as a Pass. `passwright`: the versions of passwright that it
    works with, as in `>=0.1,<1` (PEP 440). `opsets`: the first and the last standard opset that it supports; None for
    any. Raises PluginError.
    """

    passes: Sequence[Pass | Rule | ModelTransform | PassPlacement] = ()
    pipelines: Mapping[str, str | Pass] = field(default_factory=dict[str, "str | Pass"])
    passwright: str = ""
    opsets: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check arguments, as plugins may not be type-checked."""
        if not isinstance(self.passes, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins are not type-checked
            raise PluginError(f"passes must be a tuple or a list, not {reprlib.repr(self.passes)}")
        for item in self.passes:
            if not isinstance(item, PassPlacement):
                _require_item(item)
        _require_pipelines(self.pipelines)
        match cast("Any", self.opsets):
            case None:
                pass
            case (int(first), int(last)) if 1 <= first <= last:
                pass
            case wrong:
                raise PluginError(f"opsets={wrong!r} is not the first and the last opset, as in (13, 25)")
        if self.passwright != "":
            from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - seldom needed

            try:
                wanted = cast("Any", self.passwright)
                SpecifierSet(wanted if isinstance(wanted, str) else repr(wanted))
            except InvalidSpecifier as e:
                raise PluginError(f"passwright={self.passwright!r} is not of the form >=0.1,<1") from e

    def placed_passes(self) -> list[PassPlacement]:
        """The passes with their positions; the rules of a group are one pass, at the place of the first rule."""
        groups: dict[str, list[Rule]] = {}
        for r in self.passes:
            if isinstance(r, Rule) and r.group:
                groups.setdefault(r.group, []).append(r)
        placed: list[PassPlacement] = []
        for item in self.passes:
            if isinstance(item, PassPlacement):
                placed.append(item)
            elif not isinstance(item, Rule) or not item.group:
                placed.append(PassPlacement(item))
            elif rules := groups.pop(item.group, None):
                placed.append(PassPlacement(RulePass(item.group, tuple(dict.fromkeys(rules)))))
        return placed

    def supports(self, version: str) -> bool:
        """Whether the plugin declares that it works with that version of passwright."""
        if not self.passwright:
            return True
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - seldom needed

        return SpecifierSet(self.passwright).contains(version, prereleases=True)


def as_pass(item: Pass | Rule | ModelTransform) -> Pass:
    """The pass itself, or a pass of a transform, or of a single rule, named after its group or in kebab-case."""
    if isinstance(item, Rule):
        return RulePass(item.group or item.name.replace("_", "-"), (item,))
    return item if isinstance(item, Pass) else TransformPass(item)


def _require_item(item: Any, complaint: str = "is neither a pass nor a rule") -> None:
    if isinstance(item, type):
        raise PluginError(f"{complaint}: {item.__name__} is a class; an instance may be one, as in {item.__name__}()")
    if not isinstance(item, Pass | Rule | ModelTransform):
        raise PluginError(f"{complaint}: {reprlib.repr(item)}")
    _require_name(item.name)


def _require_name(name: Any) -> None:
    is_text = isinstance(name, str) and name != "" and name == name.strip() and name.isprintable()
    if not is_text or set(name) & RESERVED_CHARACTERS:
        raise PluginError(f"{reprlib.repr(name)} is not a name that a text such as a,b{{n=3}} can select")


def _require_pipelines(pipelines: Any) -> None:
    if not isinstance(pipelines, Mapping):
        raise PluginError(f"pipelines must be a dict by name, not {reprlib.repr(pipelines)}")
    for name, content in cast("Mapping[Any, Any]", pipelines).items():
        _require_name(name)
        if not isinstance(content, str):
            _require_item(content, f"pipeline {name} is neither a text nor a pass")
