"""The equation of an Einsum, taken apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...core import require

Term = tuple[str, ...]
DOTS = "..."


@dataclass(frozen=True, slots=True)
class Equation:
    """A label for each axis of each operand and of the result; those of an ellipsis are numbers."""

    terms: tuple[Term, ...]
    result: Term


def equation_of(text: str, ranks: Sequence[int]) -> Equation:
    """Read an equation for operands of these ranks (operator Einsum); declines what takes diagonals."""
    left, arrow, right = text.replace(" ", "").partition("->")
    sides = left.split(",")
    require(len(sides) == len(ranks), "the operands are not as many as the terms")
    widths = {rank - len(side) + len(DOTS) for side, rank in zip(sides, ranks, strict=True) if DOTS in side}
    require(len(widths) <= 1, "an ellipsis stands for as many axes everywhere")
    dots = tuple(map(str, range(max(widths, default=0))))
    terms = tuple(_labels(side, dots) for side in sides)
    require(tuple(map(len, terms)) == tuple(ranks), "the terms do not fit the ranks")
    counts = Counter(label for term in terms for label in term)
    if not arrow:
        right = DOTS + "".join(sorted(label for label, n in counts.items() if n == 1 and not label.isdigit()))
    result = _labels(right, dots)
    require(counts.keys() >= set(result), "the result has labels of its own")
    require(set(dots) <= set(result), "an ellipsis is summed over")
    return Equation(terms, result)


def _labels(side: str, dots: Term) -> Term:
    """The labels of a term, each once."""
    before, ellipsis, after = side.partition(DOTS)
    labels = (*before, *(dots if ellipsis else ()), *after)
    require(all(c.isascii() and c.isalpha() for c in before + after), "a label is no letter")
    require(len(set(labels)) == len(labels), "a label is named twice")
    return labels
