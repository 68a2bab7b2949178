"""Plans for combined input sets, in which each input has a kind of its own: sizes and kinds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import islice
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir.dtypes import FLOAT16_DTYPES, INTEGER_DTYPES
from .decision_boundaries import MAX_BOUNDARIES, evenly_spread
from .dim_expressions import Sizes, extent
from .input_generation import own_kinds, special_kinds
from .input_specs import InputSpec
from .model_changes import InputHints
from .model_constants import MAX_SIZE, ModelConstants
from .number_generation import MIXED
from .size_assignments import CHEAP_ELEMENTS, MANY_ROWS, combined_sizes, element_count, ladder_of_sizes, sizes_near

# Plans of each kind at the default effort; kinds that no input of the model has are left out.
COUNTS = {
    "sizes": 24, "constants": 10, "adjacent": 6, "magnitudes": 8, "offset": 2, "tiny": 3,
    "sparse": 3, "far": 8, "lengths": 12, "boundaries": 10, "nonfinite": 3,
}  # fmt: skip
MAX_LADDER_PLANS = 128  # of normal inputs at other sizes, where a change depends on extents
MOST_ROWS, ROWS_OF_POINT = 16_384, 4  # numbers in the lists with which inputs are compared
MAX_COMBINED_SIZES = 6  # of the plans of sizes, and of sums and products of constants
MAX_GROWN_ELEMENTS = 1 << 20  # of the inputs of plans with unusual sizes
NORMAL_SHARE = 0.6  # of the inputs that do not have the kind of the plan
HIDING_KINDS = frozenset({"nan", "inf", "nonfinite"})  # no other input has these kinds
# Some rows of these show a mistake; indices lie in larger extents.
MANY_ROW_KINDS = frozenset({"adjacent", "constants", "far", "magnitudes", "nonfinite", "sparse"})
PAIRED_KINDS = frozenset({"boundaries", "nonfinite"})
VARIED_KINDS = frozenset({"far", "lengths"})  # each set has a different range or length, which the model may accept
MAX_DRAWN_KINDS = 100_000  # of inputs in the plans of one kind; models with many inputs get fewer plans
MAX_REFUSALS = 4  # of a kind for an input, before it is no longer drawn


class InputPlan(NamedTuple):
    """The sizes, and the kinds of the inputs that are not normal, by name; `number` seeds the random numbers."""

    kind: str
    sizes: Sizes
    kinds: Mapping[str, str]
    number: int


@dataclass(slots=True)
class KindRecord:
    """How often sets with a kind of an input were accepted and refused; kinds always refused are not drawn."""

    refused: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    accepted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def add(self, plan: InputPlan, *, accepted: bool) -> None:
        """Record the outcome of a plan."""
        for key in plan.kinds.items():
            if accepted:
                self.accepted.add(key)
            else:
                self.refused[key] = self.refused.get(key, 0) + 1

    def useful_part(self, plan: InputPlan) -> InputPlan | None:
        """The plan without kinds that the model refuses; None if it has only such kinds."""
        kept = {k: v for k, v in plan.kinds.items() if (k, v) in self.accepted or self._may_run(k, v)}
        return plan._replace(kinds=kept) if kept or not plan.kinds else None

    def _may_run(self, name: str, kind: str) -> bool:
        return kind in VARIED_KINDS or self.refused.get((name, kind), 0) < MAX_REFUSALS


def combined_plans(
    inputs: Sequence[InputSpec], accepted: Sequence[Sizes], constants: ModelConstants, fixed: frozenset[str], seed: int
) -> list[InputPlan]:
    """Plans for combined input sets: all kinds in turn, starting with the kinds that find most mistakes.

    `accepted` are sizes that the model accepts, starting with the usual ones.
    """
    rng = np.random.default_rng([seed, *map(ord, "combined")])
    planner = _Planner(inputs, accepted, constants, fixed, rng)
    usual = element_count(list(inputs), planner.base)
    by_kind: dict[str, list[InputPlan]] = {}
    for kind, count in COUNTS.items():
        number, drawn = len(by_kind) * 1000, min(count, planner.max_plans)
        if kind == "sizes":
            combined = evenly_spread(combined_sizes(constants.sizes, MAX_SIZE), MAX_COMBINED_SIZES)
            near = [
                *islice(sizes_near(constants.sizes, planner.base, fixed), count - MAX_COMBINED_SIZES),
                *islice(sizes_near(combined, planner.base, fixed), MAX_COMBINED_SIZES),
            ]
            found = (InputPlan(kind, s, planner.some_kinds(inputs), number + n) for n, s in enumerate(near[:drawn]))
            by_kind[kind] = planner.fitting(found, max(MAX_GROWN_ELEMENTS, usual))
        else:
            by_kind[kind] = planner.fitting(planner.plans(kind, drawn, number), max(CHEAP_ELEMENTS, usual))
    return _evenly_mixed(by_kind.values())


def plans_near(
    inputs: Sequence[InputSpec], accepted: Sequence[Sizes], hints: InputHints, fixed: frozenset[str], seed: int
) -> list[InputPlan]:
    """Plans for what a rewritten model changes."""
    constants = hints.constants
    rng = np.random.default_rng([seed, *repr(constants).encode()[:64]])
    planner = _Planner(inputs, accepted, constants, fixed, rng)
    near = islice(sizes_near(constants.sizes, planner.base, fixed), min(COUNTS["sizes"], planner.max_plans))
    ladder = islice(ladder_of_sizes(planner.base, fixed), MAX_LADDER_PLANS if hints.extents else 0)
    plans = [
        [InputPlan("sizes", p, {}, start + n) for n, p in enumerate(sizes)]
        for sizes, start in ((near, 10_000), (ladder, 11_000))
    ]
    if constants.numbers or constants.words:
        plans.append([*planner.plans("constants", min(COUNTS["constants"] // 2, planner.max_plans), 12_000)])
        plans.append([*planner.plans("sparse", 1, 15_000)])
    if hints.vocabularies or constants.numbers:
        plans.append([*planner.plans_of_most_rows(13_000, of_lists=hints.vocabularies)])
    if constants.sizes:
        plans.append([*planner.plans("lengths", min(COUNTS["lengths"], planner.max_plans), 16_000)])
    plans.append([*planner.plans_of_tables(hints.tables, 14_000)])
    return _evenly_mixed(planner.fitting(p, MAX_GROWN_ELEMENTS) for p in plans)


def _evenly_mixed(groups: Iterable[Sequence[InputPlan]]) -> list[InputPlan]:
    """All plans; the plans of each group are evenly spread."""
    places = (((n + 0.5) / len(plans), plan) for plans in groups for n, plan in enumerate(plans))
    return [plan for _, plan in sorted(places, key=lambda placed: placed[0])]


@dataclass(slots=True)
class _Planner:
    """Draws plans for inputs with constants, at `accepted` sizes, of which `base` are the first of few elements.

    `many_rows` are these with more rows, `others` the kinds of each input but normal ones, in order.
    """

    inputs: Sequence[InputSpec]
    accepted: Sequence[Sizes]
    constants: ModelConstants
    fixed: InitVar[frozenset[str]]
    rng: np.random.Generator
    base: Sizes = field(init=False)
    many_rows: Sizes = field(init=False)
    others: Mapping[str, Sequence[str]] = field(init=False)

    def __post_init__(self, fixed: frozenset[str]) -> None:
        self.base = self.accepted[0]
        if element_count(list(self.inputs), self.base) > CHEAP_ELEMENTS:
            self.base = min(self.accepted, key=lambda sizes: element_count(list(self.inputs), sizes))
        first = next((s for s in self.base if s not in fixed), None)
        more = self.base if first is None else self.base | {first: MANY_ROWS}
        self.many_rows = more if element_count(list(self.inputs), more) <= CHEAP_ELEMENTS else self.base
        self.others = {i.name: sorted((own_kinds(i) | special_kinds(i)) - {"normal"}) for i in self.inputs}

    @property
    def max_plans(self) -> int:
        """The plans of one kind that are drawn at most: each takes time for each input."""
        return max(1, MAX_DRAWN_KINDS // max(len(self.inputs), 1))

    def fitting(self, plans: Iterable[InputPlan], most: int) -> list[InputPlan]:
        """The plans with at most so many elements; most plans have the same sizes."""
        known: dict[int, bool] = {}

        def fits(sizes: Sizes) -> bool:
            if id(sizes) not in known:
                known[id(sizes)] = element_count(list(self.inputs), sizes) <= most
            return known[id(sizes)]

        return [p for p in list(plans) if fits(p.sizes)]  # a list, in which no two sizes have one identity

    def plans(self, kind: str, count: int, number: int) -> Iterator[InputPlan]:
        """Plans in which some inputs have the kind, and the rest any of their `others`."""
        able = [i for i in self.inputs if kind in self.others[i.name] and self._is_served(i, kind)]
        able = able if kind not in PAIRED_KINDS or len(able) > 1 else []  # each alone had such numbers before
        for n in range(count if able else 0):
            leading = (
                able
                if n % 2 or kind == "boundaries"
                else [i for i in able if self.rng.random() < 0.6] or [able[n // 2 % len(able)]]
            )
            chosen = {i.name: kind for i in leading}
            beside = [i for i in self.inputs if i.name not in chosen]
            # Each second draw of constants of one input has zeros beside it: a sum with them is at the constant.
            are_zeros = kind == "constants" and n % 4 == 0
            chosen |= dict.fromkeys((i.name for i in beside), "zeros") if are_zeros else self.some_kinds(beside)
            is_usual = self.rng.random() < 0.5
            sizes = self.base if is_usual else self.accepted[int(self.rng.integers(len(self.accepted)))]
            sizes = self.many_rows if kind in MANY_ROW_KINDS and n % 2 == 0 else sizes
            yield InputPlan(kind, sizes, chosen, number + n)

    def plans_of_most_rows(self, number: int, *, of_lists: bool) -> Iterator[InputPlan]:
        """Plans with many rows, where inputs are compared with many numbers; thousands for lists, as of trees."""
        first = next((s for s in self.base if s in self.many_rows and self.many_rows[s] != self.base[s]), None)
        points = {i.name: len(i.boundaries.all_points) for i in self.inputs}
        able = [name for name, count in points.items() if count > MAX_BOUNDARIES]
        if first is not None and able:
            most = MAX_GROWN_ELEMENTS * self.base[first] // element_count(list(self.inputs), self.base)
            wanted = ROWS_OF_POINT * max(points.values()), *((MOST_ROWS,) if of_lists else ())
            for n, rows in enumerate(wanted):
                sizes = self.base | {first: min(rows, MOST_ROWS, most)}
                yield InputPlan("constants", sizes, dict.fromkeys(able, "constants"), number + n)

    def plans_of_tables(self, tables: Collection[int], number: int) -> Iterator[InputPlan]:
        """Plans in which each row of a table is chosen once: mixed indices are evenly spread."""
        for n, i in enumerate(self.inputs):
            symbol = next((d for d in i.shape if isinstance(d, str) and d in self.base), None)
            if i.role.kind != "index" or i.role.bound not in tables or not isinstance(i.role.bound, int):
                continue
            others = prod(extent(d, self.base) for d in i.shape if d != symbol)
            if symbol is not None and others:
                sizes = self.base | {symbol: -(-i.role.bound // others)}
                yield InputPlan("constants", sizes, {i.name: MIXED}, number + n)

    def _is_served(self, i: InputSpec, kind: str) -> bool:
        """Whether plans for a kind are worth their cost for an input with such values."""
        if kind == "constants":
            known = self.constants.numbers or self.constants.words
            return bool(i.boundaries.all_points or i.role.words or known)
        # Mixed and wide floats have most magnitudes, but not those whose sums overflow in 16 bits.
        return kind != "magnitudes" or i.dtype in INTEGER_DTYPES | FLOAT16_DTYPES

    def some_kinds(self, inputs: Sequence[InputSpec]) -> dict[str, str]:
        """One of its `others` for each of the inputs but a normal share of them."""
        found: dict[str, str] = {}
        for i in inputs:
            names = self.others[i.name]
            if names and self.rng.random() >= NORMAL_SHARE:
                name = names[int(self.rng.integers(len(names)))]
                if name not in HIDING_KINDS:
                    found[i.name] = name
        return found
