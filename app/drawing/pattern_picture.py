"""Pictures of patterns: operators, variables, constants and attributes."""

from __future__ import annotations

from ...core.rewriting.pattern import OpPattern, Var, VariadicVar
from .picture import Box, BoxKind, Picture
from .picture_text import attribute_text, cut_end, limit_lines, qualified_op_type


def pattern_picture(pattern: OpPattern) -> Picture:
    """The pattern with its root at the bottom. A variable that occurs twice is one box."""
    picture = Picture()
    _add(picture, pattern, {})
    return picture


def _add(picture: Picture, pattern: OpPattern, variables: dict[str, int]) -> int:
    place = picture.add(Box(BoxKind.OP, tuple(map(cut_end, _lines(pattern))), marked=True))
    for wanted in pattern.inputs:
        if isinstance(wanted, OpPattern):
            tooltip = f"output {wanted.output}" if wanted.output else ""
            picture.link(_add(picture, wanted, variables), place, tooltip)
        elif isinstance(wanted, VariadicVar) and not wanted.name:
            picture.link(picture.add(_variable(wanted)), place)
        elif wanted is not None:
            if wanted.name not in variables:
                variables[wanted.name] = picture.add(_variable(wanted))
            picture.link(variables[wanted.name], place)
    return place


def _lines(pattern: OpPattern) -> list[str]:
    titles = limit_lines([qualified_op_type(pattern.domain, t) for t in pattern.types])
    wanted = [f"{name}: {want.name if isinstance(want, Var) else attribute_text(want)}" for name, want in pattern.attrs]
    return [f"{title} or" for title in titles[:-1]] + [titles[-1], *limit_lines(wanted)]


def _variable(variable: Var | VariadicVar) -> Box:
    if isinstance(variable, VariadicVar):
        return Box(BoxKind.VALUE, (f"{variable.name} ...".lstrip(),), "any number of values")
    if variable.constant:
        return Box(BoxKind.CONSTANT, (variable.name, "constant"))
    return Box(BoxKind.VALUE, (variable.name, "or none") if variable.optional else (variable.name,))
