"""Search for input sets on which the original runs, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import helper

from ..errors import EvaluationError, UnverifiableError
from .dim_expressions import Sizes
from .input_generation import KIND_ORDER, InputSet, distinct_kinds, generate_input_sets, variant_count
from .input_specs import GENERATABLE, InputSpec, free_symbols
from .noise import is_float
from .number_generation import NONFINITE_VALUES
from .size_assignments import (
    element_count,
    required_sizes,
    size_assignments,
    unusual_sizes,
    with_more,
    with_ones,
    with_zeros,
)

RunModel = Callable[[InputSet], Mapping[str, Any]]
"""Runs a model on an input set; returns its outputs by name. Raises EvaluationError."""
TRIED_RANKS = (0, 1, 2, 3, 4, 5)  # tried for inputs whose rank is not stated
ROTATING_KINDS = ("normal", "negative", "large", "zeros")  # kinds drawn at the accepted sizes in turn
MAX_EMPTY_ANSWERS = 2
CHEAP_ELEMENTS = 1 << 16  # elements: above that, all kinds are drawn at the smallest sizes that were accepted


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The outputs of the original for an input set, by name."""

    input_set: InputSet
    outputs: Mapping[str, Any] = field(repr=False)


@dataclass(slots=True)
class InputSearch:
    """Searches for input sets that `run` accepts, with `fixed` sizes for some symbols; `notes` list those not found.

    Numbers around `boundaries` are generated for every numeric input, besides those of its transitive uses.
    """

    run: RunModel
    inputs: list[InputSpec]
    fixed: Sizes
    seed: int = 0
    notes: list[str] = field(default_factory=list[str])
    boundaries: Collection[float] = ()

    def answers(self) -> Iterator[Answer]:
        """One answer for each kind of input set, at the model's usual sizes and with dims of 1 in turn.

        Raises UnverifiableError if inputs cannot be generated, or the model accepts none of those tried.
        """
        require_generatable(self.inputs)
        if self.boundaries:
            self.inputs = [replace(i, boundaries=i.boundaries.with_points(self.boundaries)) for i in self.inputs]
        first = self._first_answer()
        yield first
        plans, seen = [first.input_set.sizes], [first.input_set]
        for answer in self._answers_at_other_sizes(plans[0]):
            plans.append(answer.input_set.sizes)
            seen.append(answer.input_set)
            yield answer
        self._note_sizes(plans)
        is_large = min(element_count(self.inputs, plan) for plan in plans) > CHEAP_ELEMENTS
        if not is_large and all(i.may_be_empty for i in self.inputs):
            yield from self._empty_answers(plans[0])
        for kind in distinct_kinds(self.inputs, are_large=is_large)[1:]:
            for answer in self._answers_of_kind(kind, plans):
                if not any(answer.input_set.is_same(other) for other in seen):
                    seen.append(answer.input_set)
                    yield answer

    def _answers_of_kind(self, kind: str, plans: list[Sizes]) -> Iterator[Answer]:
        """The answers to all variants of a kind, at the first size assignment that is accepted for them."""
        in_turn = plans[0]  # the usual sizes, or the smallest if those are large
        if element_count(self.inputs, plans[0]) > CHEAP_ELEMENTS:
            in_turn = min(plans, key=lambda plan: element_count(self.inputs, plan))
        if kind in ROTATING_KINDS and in_turn == plans[0]:
            in_turn = plans[ROTATING_KINDS.index(kind) % len(plans)]
        unusual = unusual_sizes(kind, plans[0], self._fixed_symbols())
        tried = [p for p in unusual if element_count(self.inputs, p) <= CHEAP_ELEMENTS] + [in_turn, plans[0]]
        found = False
        for variant in range(variant_count(self.inputs, kind, in_turn)):
            for plan in dict.fromkeys(tuple(sizes.items()) for sizes in tried):
                answer, _ = self._first_accepted(kind, dict(plan), KIND_ORDER.index(kind) + 1, variant=variant)
                if answer is not None:
                    found = True
                    yield answer
                    break
        if not found and kind not in NONFINITE_VALUES:
            self.notes.append(f"the original accepts no {kind} inputs")

    def _fixed_symbols(self) -> frozenset[str]:
        """The symbols whose sizes the user or the weights determine."""
        return frozenset(self.fixed.keys() | required_sizes(self.inputs, self.fixed).keys())

    def _empty_answers(self, base: Sizes) -> list[Answer]:
        """Answers at a size of 0, at most `MAX_EMPTY_ANSWERS`, those with the most output elements first."""
        found: dict[frozenset[str], Answer] = {}
        for plan in with_zeros(self.inputs, base, self._fixed_symbols()):
            zeros = frozenset(s for s, size in plan.items() if size == 0)
            answer = self._first_accepted("normal", plan, 1)[0] if zeros not in found and plan != base else None
            if answer is not None:
                found[zeros] = answer

        def empty_output_count(answer: Answer) -> int:
            return sum(isinstance(r, np.ndarray) and r.size == 0 for r in answer.outputs.values())

        return sorted(found.values(), key=empty_output_count)[:MAX_EMPTY_ANSWERS]

    def _first_answer(self) -> Answer:
        """The answer to the first accepted input set, which also fixes undeclared ranks."""
        why, shares = "", with_unit_interval_floats(self.inputs)
        for inputs in (*with_tried_ranks(self.inputs), *(with_tried_ranks(shares) if shares else ())):
            for plan in size_assignments(inputs, self.fixed):
                answer, error = self._first_accepted("normal", plan, 0, inputs)
                if answer is not None:
                    self.inputs = inputs
                    return answer
                why = why or error
        if not why:
            count = element_count(self.inputs, dict.fromkeys(free_symbols(self.inputs), 1) | self.fixed)
            why = f"they would have {count:,} elements or more; give inputs of your own"
            raise UnverifiableError(f"no inputs are generated for the original: {why}")
        raise UnverifiableError(f"the original runs on none of the inputs tried: {why}")

    def _answers_at_other_sizes(self, base: Sizes) -> Iterator[Answer]:
        """Answers at sizes of 1 and, where only 1 was accepted so far, at larger ones. Required sizes do not change."""
        kept = self.fixed | {s: n for s, n in required_sizes(self.inputs, self.fixed).items() if base[s] == n}
        tried = [base]
        for plan in (*with_ones(self.inputs, base, kept), *with_more(self.inputs, base, kept)):
            answer, _ = self._first_accepted("normal", plan, 1) if plan not in tried else (None, "")
            tried.append(plan)
            if answer is not None:
                yield answer
                if all(size == 1 for s, size in plan.items() if s not in kept):
                    break

    def _note_sizes(self, plans: list[Sizes]) -> None:
        kept = self._fixed_symbols()
        for symbol in (s for s in plans[0] if s not in kept):
            seen = {p[symbol] for p in plans}
            if 1 not in seen:
                self.notes.append(f"the original accepts no {symbol}=1")
            elif len(seen) == 1:
                self.notes.append(f"the original accepts no {symbol} but 1")

    def _first_accepted(
        self, kind: str, plan: Sizes, number: int, inputs: list[InputSpec] | None = None, variant: int = 0
    ) -> tuple[Answer | None, str]:
        """The answer to the first accepted input set of a kind, or None and the error of the first one."""
        why, seed = "", (self.seed, number, variant) if variant else (self.seed, number)
        for input_set in generate_input_sets(self.inputs if inputs is None else inputs, kind, plan, seed, variant):
            try:
                return Answer(input_set, self.run(input_set)), ""
            except EvaluationError as e:
                why = why or str(e)
        return None, why


def require_generatable(inputs: list[InputSpec]) -> None:
    """Raise UnverifiableError for an input other than a tensor, or a sequence or optional of tensors."""
    for i in inputs:
        if i.type_kind not in GENERATABLE:
            raise UnverifiableError(
                f"the original's input {i.name} is a {i.type_kind}, which cannot be generated; give inputs of your own"
            )


def with_tried_ranks(inputs: list[InputSpec]) -> Iterator[list[InputSpec]]:
    """The inputs, with several ranks in turn for those whose rank is not declared."""
    if all(i.is_ranked for i in inputs):
        yield inputs
        return
    for rank in TRIED_RANKS:
        yield [i if i.is_ranked else i.with_rank(rank) for i in inputs]


def with_unit_interval_floats(inputs: list[InputSpec]) -> list[InputSpec]:
    """The inputs with floats between 0 and 1, for models that accept no others; empty if all are restricted already."""
    free = {i.name for i in inputs if i.role.kind == "free" and is_float(helper.tensor_dtype_to_np_dtype(i.dtype))}
    return [replace(i, role=replace(i.role, kind="share")) if i.name in free else i for i in inputs] if free else []
