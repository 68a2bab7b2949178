"""Inputs on which a model runs, found by trying, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import EvaluationError, Unverifiable
from .dim_expressions import Sizes
from .input_generation import ORDER, UNMIXED, Draw, candidates, is_finite, is_same, kinds, variants
from .input_specs import DRAWABLE, Input, symbols
from .size_assignments import decided, elements, size_plans, unusual, with_more, with_ones, with_zeros

Run = Callable[[Draw], dict[str, Any]]
"""Runs a model on a draw; gives its outputs by name. Raises EvaluationError."""
RANKS = (0, 1, 2, 3, 4, 5)  # tried for inputs whose rank is not stated
IN_TURN = ("normal", "negative", "large", "zeros")  # kinds drawn at the accepted sizes in turn
FEW_EMPTY = 2
CHEAP = 1 << 16  # elements: above that, all kinds are drawn at the smallest sizes that were accepted


@dataclass(frozen=True, slots=True)
class Answer:
    """What the original gives for a draw, by output name."""

    draw: Draw
    outputs: dict[str, Any] = field(repr=False)


@dataclass(slots=True)
class Search:
    """Looks for draws that `run` accepts, with `fixed` sizes for some symbols; `notes` tells what was not found.

    `boundaries` are drawn around in every input of numbers, besides those that its consumers have.
    """

    run: Run
    inputs: list[Input]
    fixed: Sizes
    seed: int = 0
    notes: list[str] = field(default_factory=list[str])
    boundaries: Collection[float] = ()

    def answers(self) -> Iterator[Answer]:
        """One answer for each kind of draw, at the model's usual sizes and with dims of 1 in turn.

        Raises Unverifiable if inputs cannot be made up, or none of those tried is accepted.
        """
        require_drawable(self.inputs)
        if self.boundaries:
            self.inputs = [replace(i, around=i.around.and_at(self.boundaries)) for i in self.inputs]
        first = self._first()
        yield first
        plans, seen = [first.draw.sizes], [first.draw]
        for answer in self._other_sizes(plans[0]):
            plans.append(answer.draw.sizes)
            seen.append(answer.draw)
            yield answer
        self._note_sizes(plans)
        is_large = min(elements(self.inputs, plan) for plan in plans) > CHEAP
        if not is_large and all(i.may_be_empty for i in self.inputs):
            yield from self._empty(plans[0])
        for kind in kinds(self.inputs, few=is_large)[1:]:
            for answer in self._of_kind(kind, plans):
                if not any(is_same(answer.draw, draw) for draw in seen):
                    seen.append(answer.draw)
                    yield answer

    def _of_kind(self, kind: str, plans: list[Sizes]) -> Iterator[Answer]:
        """The answers to all variants of a kind of draw, at one of the plans or else the first of them."""
        in_turn = self._cheap(plans)
        if kind in IN_TURN and in_turn == plans[0]:
            in_turn = plans[IN_TURN.index(kind) % len(plans)]
        tried = [p for p in unusual(kind, plans[0], self._held()) if elements(self.inputs, p) <= CHEAP]
        tried += [in_turn, plans[0]]
        found = False
        for variant in range(variants(self.inputs, kind, in_turn)):
            for plan in dict.fromkeys(map(_frozen, tried)):
                answer, _ = self._accepted(kind, dict(plan), ORDER.index(kind) + 1, variant=variant)
                if answer is not None:
                    found = True
                    yield answer
                    break
        if not found and is_finite(kind):
            self.notes.append(f"the original accepts no {kind} inputs")

    def _held(self) -> frozenset[str]:
        """The symbols that the user or the weights leave no choice about."""
        return frozenset(self.fixed.keys() | decided(self.inputs, self.fixed).keys())

    def _empty(self, base: Sizes) -> list[Answer]:
        """Answers at a size of 0, no more than `FEW_EMPTY`, those with most to compare first."""
        found: dict[frozenset[str], Answer] = {}
        for plan in with_zeros(self.inputs, base, self._held()):
            zeros = frozenset(s for s, size in plan.items() if size == 0)
            answer = self._accepted("normal", plan, 1)[0] if zeros not in found and plan != base else None
            if answer is not None:
                found[zeros] = answer
        return sorted(found.values(), key=_empty_outputs)[:FEW_EMPTY]

    def _cheap(self, plans: list[Sizes]) -> Sizes:
        """The usual sizes, or the smallest if those are large."""
        if elements(self.inputs, plans[0]) <= CHEAP:
            return plans[0]
        return min(plans, key=lambda plan: elements(self.inputs, plan))

    def _first(self) -> Answer:
        """The first draw that is accepted; from then on open ranks are settled."""
        why, shares = "", with_shares(self.inputs)
        for inputs in (*ranked(self.inputs), *(ranked(shares) if shares else ())):
            for plan in size_plans(inputs, self.fixed):
                answer, said = self._accepted("normal", plan, 0, inputs)
                if answer is not None:
                    self.inputs = inputs
                    return answer
                why = why or said
        if not why:
            count = elements(self.inputs, dict.fromkeys(symbols(self.inputs), 1) | self.fixed)
            why = f"they would have {count:,} elements or more; give inputs of your own"
            raise Unverifiable(f"no inputs are made up for the original: {why}")
        raise Unverifiable(f"the original runs on none of the inputs tried: {why}")

    def _other_sizes(self, base: Sizes) -> Iterator[Answer]:
        """Answers at 1 and, where only 1 was accepted so far, at more. What the weights decide stays."""
        held = self.fixed | {s: n for s, n in decided(self.inputs, self.fixed).items() if base[s] == n}
        tried = [base]
        for plan in (*with_ones(self.inputs, base, held), *with_more(self.inputs, base, held)):
            answer, _ = self._accepted("normal", plan, 1) if plan not in tried else (None, "")
            tried.append(plan)
            if answer is not None:
                yield answer
                if all(size == 1 for s, size in plan.items() if s not in held):
                    break

    def _note_sizes(self, plans: list[Sizes]) -> None:
        held = self._held()
        for symbol in (s for s in plans[0] if s not in held):
            seen = {p[symbol] for p in plans}
            if 1 not in seen:
                self.notes.append(f"the original accepts no {symbol}=1")
            elif len(seen) == 1:
                self.notes.append(f"the original accepts no {symbol} but 1")

    def _accepted(
        self, kind: str, plan: Sizes, number: int, inputs: list[Input] | None = None, variant: int = 0
    ) -> tuple[Answer | None, str]:
        """The first draw of a kind that the original runs on, or None and what it said to the first."""
        why, seed = "", (self.seed, number, variant) if variant else (self.seed, number)
        for draw in candidates(self.inputs if inputs is None else inputs, kind, plan, seed, variant):
            try:
                return Answer(draw, self.run(draw)), ""
            except EvaluationError as e:
                why = why or str(e)
        return None, why


def require_drawable(inputs: list[Input]) -> None:
    """Raise Unverifiable for an input that is no tensor, nor a sequence or optional of tensors."""
    for i in inputs:
        if i.form not in DRAWABLE:
            raise Unverifiable(
                f"the original's input {i.name} is a {i.form}, which cannot be made up; give inputs of your own"
            )


def ranked(inputs: list[Input]) -> Iterator[list[Input]]:
    """The inputs, with several ranks in turn for those whose rank is not stated."""
    if all(i.is_ranked for i in inputs):
        yield inputs
        return
    for rank in RANKS:
        yield [i if i.is_ranked else i.of_rank(rank) for i in inputs]


def with_shares(inputs: list[Input]) -> list[Input]:
    """The inputs with floats between 0 and 1, for models that take no others; none if all are already as they are."""
    found = [replace(i, role=replace(i.role, kind="share")) if _is_free_float(i) else i for i in inputs]
    return found if found != inputs else []


def _is_free_float(i: Input) -> bool:
    return i.role.kind == "free" and i.dtype not in UNMIXED


def _frozen(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sizes.items())


def _empty_outputs(answer: Answer) -> int:
    return sum(isinstance(r, np.ndarray) and r.size == 0 for r in answer.outputs.values())
