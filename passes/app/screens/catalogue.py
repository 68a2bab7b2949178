"""What passes and rules there are."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.pipeline import Fixpoint, Pass, Pipeline, RulePass
from ....core.plugins import Found
from .terminal import Screen


def show_catalogue(screen: Screen, found: Mapping[str, Found], pipelines: Mapping[str, Pass]) -> None:
    """All passes and rules."""
    for name, entry in found.items():
        p = entry.item
        rules = p.rules if isinstance(p, RulePass) else ()
        summary = "" if rules else (type(p).__doc__ or "").partition("\n")[0]
        screen.line(f"{name}  ({entry.source})")
        if summary:
            screen.line(f"    {summary}")
        for r in rules:
            screen.line(f"    {r.name}  [{r.contract}]")
            screen.line(f"        {r.equation}")
    for name, p in pipelines.items():
        inner = [q.name for q in p.passes] if isinstance(p, Pipeline | Fixpoint) else [p.name]
        again = ", until nothing changes" if isinstance(p, Fixpoint) else ""
        screen.line(f"pipeline {name}: {', '.join(inner) or 'no passes'}{again}")
