"""Hints: passes that would change the result of a run if they were enabled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..errors import format_error
from ..io.model import Model
from .edits import definition
from .pipeline import Pass
from .report import Report, RunHint


@dataclass(frozen=True, slots=True)
class Hint:
    """The gain from a pass for a model, in words with counts, and the `options` of the pass, by name, for it."""

    text: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@runtime_checkable
class HintingPass(Protocol):
    """A pass or edit that can tell from the result of a run without it whether it would change that."""

    def hint(self, model: Model, report: Report) -> Hint | None:
        """The hint for a run with this result, which is not to be changed; None if there is nothing to gain."""
        ...


def option_of(p: Pass) -> str:
    """The option of `passes run` that enables a pass, with its options in braces as in `--opset {to}`; "" for none.

    A pass or edit declares it as its attribute `option`.
    """
    found: Any = getattr(definition(p), "option", "")
    return found if isinstance(found, str) else ""


def enabling_text(p: Pass, options: Mapping[str, str]) -> str:
    """The text to type for a pass with these options."""
    if option := option_of(p):
        return option.format_map(options)
    given = ",".join(f"{name}={text}" for name, text in options.items())
    return f'--enable "{p.name}{{{given}}}"' if given else f"--enable {p.name}"


def run_hints(passes: Iterable[Pass], model: Model, report: Report) -> list[RunHint]:
    """The hints of passes that are not in a run, for its result. One that fails is a note of the report."""
    found: list[RunHint] = []
    for p in passes:
        item = definition(p)
        if not isinstance(item, HintingPass):
            continue
        try:
            if (hint := item.hint(model, report)) is not None:
                found.append(RunHint(p.name, hint.text, enabling_text(p, hint.options)))
        except Exception as e:  # noqa: BLE001 - of a plugin, and the run does not need it
            report.notes.append(f"{p.name} gives no hint: {format_error(e)}")
    return found
