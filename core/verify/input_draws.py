"""Plans for combined input sets: the kind of each input, drawn independently, and the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..ir.dtypes import FLOAT16_DTYPES, INTEGER_DTYPES
from .decision_boundaries import evenly_spread
from .dim_expressions import Sizes
from .input_generation import own_kinds, special_kinds
from .input_specs import InputSpec
from .model_constants import MAX_SIZE, ModelConstants
from .size_assignments import MANY_ROWS, combined_sizes, element_count, sizes_near

# Plans of each kind at the default effort; kinds that no input of the model has are left out.
COUNTS = {
    "sizes": 42, "constants": 14, "combined": 26, "adjacent": 6, "whole": 4, "magnitudes": 8, "far": 8, "lengths": 10,
    "boundaries": 10, "nonfinite": 3,
}  # fmt: skip
MAX_COMBINED_SIZES = 6  # of the plans of sizes, and of sums and products of constants
MAX_GROWN_ELEMENTS = 1 << 20  # of the inputs of plans with unusual sizes
NORMAL_SHARE = 0.5  # of the inputs beside those with the kind of the plan
RARE_KINDS = frozenset({"nan", "inf", "nonfinite"})  # they hide others, so they are drawn half as often
# Some rows of these show a mistake; indices lie in larger extents.
MANY_ROW_KINDS = frozenset({"adjacent", "constants", "far", "magnitudes", "nonfinite", "whole"})
PAIRED_KINDS = frozenset({"boundaries", "nonfinite"})
VARIED_KINDS = frozenset({"far", "lengths"})  # each set has another range or length, which may be accepted
MAX_DRAWN_KINDS = 100_000  # of inputs in the plans of one kind, which are fewer where a model has many inputs
MAX_REFUSALS = 4  # of a kind of an input, before it is no longer drawn


class Plan(NamedTuple):
    """The sizes and the kinds of the inputs, by name, that are not normal; `number` seeds its random numbers."""

    kind: str
    sizes: Sizes
    kinds: Mapping[str, str]
    number: int


@dataclass(slots=True)
class KindRecord:
    """How often sets with a kind of an input were accepted and refused; kinds that are only refused are not drawn."""

    refused: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    accepted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def add(self, plan: Plan, *, accepted: bool) -> None:
        """Record the outcome of a plan."""
        for key in plan.kinds.items():
            if accepted:
                self.accepted.add(key)
            else:
                self.refused[key] = self.refused.get(key, 0) + 1

    def useful_part(self, plan: Plan) -> Plan | None:
        """The plan without kinds that the model refuses; None if it had such kinds only."""
        kept = {k: v for k, v in plan.kinds.items() if (k, v) in self.accepted or self._may_run(k, v)}
        return plan._replace(kinds=kept) if kept or not plan.kinds else None

    def _may_run(self, name: str, kind: str) -> bool:
        return kind in VARIED_KINDS or self.refused.get((name, kind), 0) < MAX_REFUSALS


def combined_plans(
    inputs: Sequence[InputSpec],
    accepted: Sequence[Sizes],
    constants: ModelConstants,
    fixed: frozenset[str],
    seed: int,
    max_elements: int,
) -> list[Plan]:
    """Plans for combined input sets, those of all kinds in turn, the ones that find most first.

    `accepted` are sizes that the model accepts, usual ones first.
    """
    rng = np.random.default_rng([seed, *map(ord, "combined")])
    base = _usual_sizes(inputs, accepted, max_elements)
    limits = [max(n, element_count(list(inputs), base)) for n in (max_elements, MAX_GROWN_ELEMENTS)]
    by_kind: dict[str, list[Plan]] = {}
    most, others = _max_plans(inputs), _other_kinds(inputs)
    many_rows = _with_many_rows(inputs, base, fixed, max_elements)
    for kind, count in COUNTS.items():
        number = len(by_kind) * 1000
        if kind == "sizes":
            combined = evenly_spread(combined_sizes(constants.sizes, MAX_SIZE), MAX_COMBINED_SIZES)
            near = [
                *islice(sizes_near(constants.sizes, base, fixed), count - MAX_COMBINED_SIZES),
                *islice(sizes_near(combined, base, fixed), MAX_COMBINED_SIZES),
            ]
            found = [
                Plan(kind, sizes, _some_kinds(inputs, "", rng, others), number + n)
                for n, sizes in enumerate(near[:most])
            ]
        else:
            drawn = min(count, most)
            found = list(_plans_of_kind(kind, drawn, inputs, others, accepted, base, constants, many_rows, rng, number))
        by_kind[kind] = _fitting(found, inputs, limits[kind == "sizes"])[: min(count, most)]
    return [plan for _, plan in sorted(_ranked(by_kind), key=lambda ranked: ranked[0])]


def plans_near(
    inputs: Sequence[InputSpec],
    accepted: Sequence[Sizes],
    constants: ModelConstants,
    fixed: frozenset[str],
    seed: int,
    max_elements: int,
) -> list[Plan]:
    """Plans for the constants that only a rewritten model has."""
    text = repr(constants).encode()
    rng = np.random.default_rng([seed, *text[:64]])
    base = _usual_sizes(inputs, accepted, max_elements)
    near = islice(sizes_near(constants.sizes, base, fixed), min(COUNTS["sizes"] // 2, _max_plans(inputs)))
    plans = [Plan("sizes", sizes, {}, 10_000 + n) for n, sizes in enumerate(near)]
    if constants.numbers or constants.words:
        count, others = min(COUNTS["constants"] // 2, _max_plans(inputs)), _other_kinds(inputs)
        many_rows = _with_many_rows(inputs, base, fixed, max_elements)
        plans += _plans_of_kind("constants", count, inputs, others, accepted, base, constants, many_rows, rng, 11_000)
    return _fitting(plans, inputs, MAX_GROWN_ELEMENTS)


def _fitting(plans: Sequence[Plan], inputs: Sequence[InputSpec], most: int) -> list[Plan]:
    """The plans with at most so many elements; most plans have the same sizes."""
    distinct = {id(p.sizes): p.sizes for p in plans}
    fitting = {key for key, sizes in distinct.items() if element_count(list(inputs), sizes) <= most}
    return [p for p in plans if id(p.sizes) in fitting]


def _ranked(by_kind: Mapping[str, list[Plan]]) -> Iterator[tuple[float, Plan]]:
    """The plans with their place in the order: those of a kind evenly spread."""
    for plans in by_kind.values():
        yield from (((n + 0.5) / len(plans), plan) for n, plan in enumerate(plans))


def _usual_sizes(inputs: Sequence[InputSpec], accepted: Sequence[Sizes], max_elements: int) -> Sizes:
    first = accepted[0]
    if element_count(list(inputs), first) <= max_elements:
        return first
    return min(accepted, key=lambda sizes: element_count(list(inputs), sizes))


def _plans_of_kind(
    kind: str,
    count: int,
    inputs: Sequence[InputSpec],
    others: Mapping[str, Sequence[str]],
    accepted: Sequence[Sizes],
    base: Sizes,
    constants: ModelConstants,
    many_rows: Sizes,
    rng: np.random.Generator,
    number: int,
) -> Iterator[Plan]:
    """Plans in which some inputs have the kind, and the rest any of their `others`; "combined" ones have any kinds."""
    if kind == "combined":
        able = [i for i in inputs if own_kinds(i) - {"normal"}]
        count = count if len(inputs) > 1 else count // 3
    else:
        able = [i for i in inputs if kind in others[i.name] and _is_served(i, kind, constants)]
        able = able if kind not in PAIRED_KINDS or len(able) > 1 else []  # each input alone had such numbers before
    for n in range(count if able else 0):
        chosen = _some_kinds(inputs, kind, rng, others) if kind == "combined" else {}
        if kind != "combined":
            leading = able if n % 2 else [i for i in able if rng.random() < 0.6] or [able[n // 2 % len(able)]]
            chosen = {i.name: kind for i in leading}
            beside = [i for i in inputs if i.name not in chosen]
            # Every second draw of constants of one input alone has zeros beside it: a sum with them is at the constant.
            are_zeros = kind == "constants" and n % 4 == 0
            chosen |= (
                dict.fromkeys((i.name for i in beside), "zeros") if are_zeros else _some_kinds(beside, "", rng, others)
            )
        sizes = base if rng.random() < 0.5 else accepted[int(rng.integers(len(accepted)))]
        if kind in MANY_ROW_KINDS and n % 2 == 0:
            sizes = many_rows
        yield Plan(kind, sizes, chosen, number + n)


def _is_served(i: InputSpec, kind: str, constants: ModelConstants) -> bool:
    """Whether plans for a kind are worth their cost for an input with such values."""
    if kind == "constants":
        return bool(i.boundaries.all_points or i.role.words or constants.numbers or constants.words)
    # Large and wide floats have most magnitudes, but not those whose sums overflow in 16 bits.
    return kind != "magnitudes" or i.dtype in INTEGER_DTYPES | FLOAT16_DTYPES


def _with_many_rows(inputs: Sequence[InputSpec], base: Sizes, fixed: frozenset[str], max_elements: int) -> Sizes:
    first = next((s for s in base if s not in fixed), None)
    more = base if first is None else base | {first: MANY_ROWS}
    return more if element_count(list(inputs), more) <= max_elements else base


def _max_plans(inputs: Sequence[InputSpec]) -> int:
    """The plans of one kind that are drawn at most: each takes time for each input."""
    return max(1, MAX_DRAWN_KINDS // max(len(inputs), 1))


def _other_kinds(inputs: Sequence[InputSpec]) -> dict[str, list[str]]:
    """The kinds of each input but normal ones, in order."""
    return {i.name: sorted((own_kinds(i) | special_kinds(i)) - {"normal"}) for i in inputs}


def _some_kinds(
    inputs: Sequence[InputSpec], kind: str, rng: np.random.Generator, others: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """One of its `others` for about half of the inputs; if `kind` is "combined", for at least one."""
    found: dict[str, str] = {}
    share = NORMAL_SHARE if kind == "combined" else 0.8
    for i in inputs:
        names = others[i.name]
        if names and rng.random() >= share:
            name = names[int(rng.integers(len(names)))]
            if name in RARE_KINDS and (kind != "combined" or rng.random() < 0.5):
                continue
            found[i.name] = name
    return found
