"""Rules and passes that are wrong, by family; README.md has what finds each."""

from planted import (
    comparison,
    constants,
    control,
    element_types,
    elementwise,
    failures,
    graph_access,
    hidden,
    interactions,
    interface,
    linear,
    movement,
    reach,
    reduction,
    sequence,
    shapes,
    window,
)
from planted.mistake import Mistake

FAMILIES = (
    comparison, constants, control, element_types, elementwise, failures, graph_access, hidden, interactions, interface,
    linear, movement, reach, reduction, sequence, shapes, window,
)  # fmt: skip
MISTAKES = dict(sorted((n, m) for family in FAMILIES for n, m in vars(family).items() if isinstance(m, Mistake)))
