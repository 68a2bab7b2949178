"""Comparison of fragments with an extent of 0 by numbers, because the field has no infinities.

A reduction, product or padding can make numbers from no elements: the maximum of none is the lowest number of its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EvaluationError
from ..operators.declaration import Trait
from ..operators.table import MOVING, ops_with
from ..verify.reference.float64_evaluation import NO_ARRAYS, EvaluationOrder, evaluate_by_policy, unchanged
from .float_rounding import HALF, drawn_feeds, holds, of_scale
from .obligation import NotApplicable, Obligation

OF_ELEMENTS = ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | (MOVING - {"Pad"})
"""Operators that return no elements for no elements."""
SEEDS = 2  # for which other inputs are generated
OTHER_EXTENT = 2
AGREEMENT = 1e-6
DIFFERS = "it differs where an extent is 0"


def require_equal_when_empty(obligation: Obligation) -> None:
    """Raise NotApplicable if fragments return different numbers when the extent of one symbol is 0.

    Sizes at which a fragment cannot be evaluated are ignored, as are symbols that only have sizes from runs.
    """
    if obligation.runs or obligation.unsaid or all(n.op_type in OF_ELEMENTS for n in obligation.nodes):
        return
    orders = [EvaluationOrder.of(m, [o.name for o in m.graph.output]) for m in obligation.models]
    for symbol in obligation.symbols:
        sizes = {s: 0 if s == symbol else OTHER_EXTENT for s in obligation.symbols}
        for seed in range(SEEDS):
            try:
                feeds = drawn_feeds(obligation, sizes, of_scale(1.0), np.random.default_rng(seed), HALF)
                if not holds(obligation, feeds):
                    continue
                found: list[list[Any]] = []
                for model, order in zip(obligation.models, orders, strict=True):
                    if not found or any(np.size(a) for a in found[0]):
                        found.append([*evaluate_by_policy(model, feeds, NO_ARRAYS, unchanged, order).values()])
            except (EvaluationError, NotApplicable, TypeError, ValueError):
                continue
            if len(found) > 1 and not all(map(is_same, *found)):
                raise NotApplicable(DIFFERS)


def is_same(before: Any, after: Any) -> bool:
    """Whether all elements are equal, except for rounding and where the original has no number."""
    if isinstance(before, list) or np.shape(before) != np.shape(after):
        return isinstance(before, list)
    if np.asarray(before).dtype.kind != "f":
        return np.array_equal(before, after)
    x, y = np.asarray(before), np.asarray(after)
    return bool((np.isnan(x) | np.isclose(x, y, AGREEMENT, AGREEMENT)).all())
