"""Which inputs an op of a pattern gets, where the pattern leaves their number open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import defs

from ...core.pattern import OpPattern, Rest, Var
from .site import VARIADIC, Want
from .sketch import Unmade

if TYPE_CHECKING:
    from .grower import Grower

MOST_OPERANDS = 4
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional


def slots_of(grower: Grower, pattern: OpPattern, spec: defs.OpSchema) -> list[Want]:
    """What each input is to be: `*xs` stand for some, and what may be left out is so at times."""
    variadic = bool(spec.inputs) and spec.inputs[-1].option == VARIADIC
    most = max(MOST_OPERANDS, len(pattern.inputs)) if variadic else len(spec.inputs)
    wants = pattern.inputs if variadic else pattern.inputs[: max(len(spec.inputs), _needed(pattern.inputs))]
    fixed = sum(not isinstance(want, Rest) for want in wants)
    rests = len(wants) - fixed
    least = max(spec.min_input, fixed)
    if least > most:
        raise Unmade(f"{spec.name} takes no {fixed} inputs at this opset")
    room = least - fixed + grower.choices.below(most - least + 1) if rests else 0
    slots: list[Want] = []
    for want in wants:
        if not isinstance(want, Rest):
            slots.append(_present(grower, want))
            continue
        rests -= 1
        size = room if rests == 0 else grower.choices.below(room + 1)
        room -= size
        slots += [_maybe(grower, Var(f"{want.name} {i}"), len(slots) + i, spec) for i in range(size)]
    while slots and slots[-1] is None:
        slots.pop()
    return slots


def _needed(wants: tuple[Any, ...]) -> int:
    """How many inputs there must be at least for those to be among them that may not be left out."""
    return max((i for i, w in enumerate(wants, 1) if not (isinstance(w, Var) and w.optional)), default=0)


def _present(grower: Grower, want: Any) -> Want:
    """An optional input is left out of half of all models."""
    if not isinstance(want, Var) or not want.optional:
        return want
    if want.name in grower.bound:
        return want if grower.bound[want.name] is not None else None
    if grower.choices.below(2):
        return want
    grower.bound[want.name] = None
    grower.note("an optional input is left out")
    return None


def _maybe(grower: Grower, var: Var, index: int, spec: defs.OpSchema) -> Want:
    optional = index < len(spec.inputs) and spec.inputs[index].option == OPTIONAL
    return None if optional and grower.choices.one_in(3) else var
