"""Pictures of patterns, with variables at the top and roots at the bottom."""

from __future__ import annotations

from typing import Any

from passwright.app.report.descriptions import condition_text
from passwright.app.report.picture import Box, BoxKind, Picture
from passwright.app.report.picture_text import attribute_text, cut_end, limit_lines
from passwright.core.ir.op_schemas import qualified_op_type
from passwright.core.rewriting.pattern import EachInput, OpPattern, Var, VariadicVar


def pattern_picture(pattern: OpPattern) -> Picture:
    """Draw a pattern with its root at the bottom. A variable that occurs twice is one box."""
    picture, variables = Picture(), dict[str, int]()
    for root in (pattern, *pattern.others):
        _add_pattern(picture, root, variables)
    return picture


def _add_pattern(picture: Picture, pattern: OpPattern, variables: dict[str, int]) -> int:
    place = picture.add(Box(BoxKind.OP, tuple(map(cut_end, _pattern_lines(pattern))), marked=True))
    for wanted in pattern.inputs:
        if isinstance(wanted, OpPattern | EachInput):
            part = wanted.pattern if isinstance(wanted, EachInput) else wanted
            tooltip = "each of several inputs" if isinstance(wanted, EachInput) else ""
            tooltip = f"output {part.output}" if part.output else tooltip
            picture.link(_add_pattern(picture, part, variables), place, tooltip)
        elif isinstance(wanted, int | float):
            picture.link(picture.add(Box(BoxKind.CONSTANT, (f"{wanted:g}", "constant"))), place)
        elif isinstance(wanted, VariadicVar) and not wanted.name:
            picture.link(picture.add(_variable(wanted)), place)
        elif wanted is not None:
            if wanted.name not in variables:
                variables[wanted.name] = picture.add(_variable(wanted))
            picture.link(variables[wanted.name], place)
    return place


def _pattern_lines(pattern: OpPattern) -> list[str]:
    titles = limit_lines([qualified_op_type(pattern.domain, t) for t in pattern.types])
    wanted = [f"{name}: {_wanted_text(want)}" for name, want in pattern.attrs]
    return [f"{title} or" for title in titles[:-1]] + [titles[-1], *limit_lines(wanted)]


def _wanted_text(want: Any) -> str:
    if isinstance(want, Var):
        return want.name if want.accepts is None else f"{want.name}, {condition_text(want)}"
    return condition_text(want) if callable(want) else attribute_text(want)


def _variable(variable: Var | VariadicVar) -> Box:
    if isinstance(variable, VariadicVar):
        return Box(BoxKind.VALUE, (f"{variable.name} ...".lstrip(),), "any number of values")
    if variable.constant:
        return Box(BoxKind.CONSTANT, (variable.name, "constant"))
    return Box(BoxKind.VALUE, (variable.name, "or none") if variable.optional else (variable.name,))
