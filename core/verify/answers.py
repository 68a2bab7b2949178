"""Inputs on which a model runs, found by trying, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import EvaluationError, Unverifiable
from .dims import Sizes
from .draws import KINDS, Draw, candidates
from .signature import DRAWABLE, Input, symbols
from .sizes import decided, elements, size_plans, with_more, with_ones

Run = Callable[[Draw], dict[str, Any]]
"""Runs a model on a draw; gives its outputs by name. Raises EvaluationError."""
RANKS = (0, 1, 2, 3, 4, 5)  # tried for inputs whose rank is not stated


@dataclass(frozen=True, slots=True)
class Answer:
    """What the original gives for a draw, by output name."""

    draw: Draw
    outputs: dict[str, Any] = field(repr=False)


@dataclass(slots=True)
class Search:
    """Looks for draws that `run` accepts, with `fixed` sizes for some symbols; `notes` tells what was not found."""

    run: Run
    inputs: list[Input]
    fixed: Sizes
    seed: int = 0
    notes: list[str] = field(default_factory=list[str])

    def answers(self) -> Iterator[Answer]:
        """One answer for each kind of draw, at the model's usual sizes and with dims of 1 in turn.

        Raises Unverifiable if inputs cannot be made up, or none of those tried is accepted.
        """
        require_drawable(self.inputs)
        first = self._first()
        yield first
        plans = [first.draw.sizes]
        for answer in self._other_sizes(plans[0]):
            plans.append(answer.draw.sizes)
            yield answer
        self._note_sizes(plans)
        for i, kind in enumerate(KINDS[1:], 1):
            for plan in dict.fromkeys(map(_frozen, (plans[i % len(plans)], plans[0]))):
                answer, _ = self._accepted(kind, dict(plan), i + 1)
                if answer is not None:
                    yield answer
                    break
            else:
                self.notes.append(f"the original accepts no {kind} inputs")

    def _first(self) -> Answer:
        """The first draw that is accepted; from then on open ranks are settled."""
        why = ""
        for inputs in ranked(self.inputs):
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
        held = self.fixed.keys() | decided(self.inputs, self.fixed).keys()
        for symbol in (s for s in plans[0] if s not in held):
            seen = {p[symbol] for p in plans}
            if 1 not in seen:
                self.notes.append(f"the original accepts no {symbol}=1")
            elif len(seen) == 1:
                self.notes.append(f"the original accepts no {symbol} but 1")

    def _accepted(
        self, kind: str, plan: Sizes, number: int, inputs: list[Input] | None = None
    ) -> tuple[Answer | None, str]:
        """The first draw of a kind that the original runs on, or None and what it said to the first."""
        why = ""
        for draw in candidates(self.inputs if inputs is None else inputs, kind, plan, (self.seed, number)):
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


def _frozen(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sizes.items())
