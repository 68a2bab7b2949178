"""A picture of what a rule looks for: operators, variables, constants, and the attributes that it asks for."""

from __future__ import annotations

from typing import Any

from ...core.rewriting.pattern import OpPattern, Rest, Var
from .picture import Box, Kind, Picture
from .picture_text import beginning, few, op_title, plain


def picture_of_pattern(pattern: OpPattern) -> Picture:
    """The pattern with its root at the bottom. A variable that occurs twice is one box."""
    picture = Picture()
    _add(picture, pattern, {})
    return picture


def _add(picture: Picture, pattern: OpPattern, variables: dict[str, int]) -> int:
    place = picture.add(Box(Kind.OP, tuple(map(beginning, _lines(pattern))), marked=True))
    for wanted in pattern.inputs:
        if isinstance(wanted, OpPattern):
            picture.link(_add(picture, wanted, variables), place, _told(wanted))
        elif wanted is not None:
            if wanted.name not in variables:
                variables[wanted.name] = picture.add(_variable(wanted))
            picture.link(variables[wanted.name], place)
    return place


def _lines(pattern: OpPattern) -> list[str]:
    titles = few([op_title(pattern.domain, t) for t in pattern.types])
    wanted = [f"{name}: {want.name if isinstance(want, Var) else plain(want)}" for name, want in pattern.attrs]
    return [f"{title} or" for title in titles[:-1]] + [titles[-1], *few(wanted)]


def _variable(variable: Var | Rest) -> Box:
    if isinstance(variable, Rest):
        return Box(Kind.VALUE, (f"{variable.name} ...",), "any number of values")
    if variable.constant:
        return Box(Kind.CONSTANT, (variable.name, "constant"))
    return Box(Kind.VALUE, (variable.name, "or none") if variable.optional else (variable.name,))


def _told(pattern: Any) -> str:
    return f"output {pattern.output}" if pattern.output else ""
