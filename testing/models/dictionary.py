"""What a rule's own code speaks of: its numbers, and the operators it names. Models made of them fire it sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import isinf, isnan
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

from ...core import Rule
from ...core.ir import op_schemas
from ...core.rewriting.pattern import OpPattern
from .choices import Choices
from .model_builder import Array

DEPTH = 6
USUAL = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, 6.0, -3.0, 0.25, 4.0, 300.0)
FEEDERS = ("Relu", "Neg", "Abs", "Add", "Exp", "Identity", "Transpose", "Concat", "Unsqueeze", "Mul")
SMALL = 16  # elements
LARGE = 1e6
NESTED = (tuple, list, frozenset, set)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Numbers to fill constants with, strings for attributes, and operators to feed a rule's operands from.

    `own` are the numbers that are likeliest to matter.
    """

    own: tuple[float, ...] = USUAL[:3]
    numbers: tuple[float, ...] = USUAL
    texts: tuple[str, ...] = ()
    operators: tuple[str, ...] = FEEDERS

    def number(self, choices: Choices) -> float:
        """One of the numbers, as often one of the rule's own as any other."""
        return choices.pick(choices.pick((self.numbers, self.own)))

    def slope(self, choices: Choices) -> float:
        """The same, but 1 for an infinite one: no operator is as steep as that."""
        number = self.number(choices)
        return 1.0 if isinf(number) else number


def dictionary_of(rule: Rule) -> Dictionary:
    """The numbers and names in the code that `rule` reaches in its own package, in its pattern and its promises."""
    numbers: dict[float, None] = dict.fromkeys(rule.fragile)
    texts: dict[str, None] = {}
    for word in (*_in_pattern(rule.pattern), *_reached(rule.build, _package(rule.build), DEPTH, set())):
        if isinstance(word, str):
            texts[word] = None
        elif not isnan(word) and (isinf(word) or abs(word) < LARGE):
            numbers[word] = None
    operators = tuple(t for t in texts if op_schemas.schema(t, "", op_schemas.newest("")) is not None)
    derived = [f for n in numbers if not isinf(n) for f in (-n, 1 / n if n else n, abs(n) ** 0.5)]
    others = tuple(t for t in texts if t.isidentifier() and t not in operators)
    return Dictionary(
        tuple(numbers) or USUAL[:3], tuple(dict.fromkeys([*USUAL, *derived])), others, operators or FEEDERS
    )


def _package(build: Callable[..., Any]) -> str:
    """The modules that count as the rule's own: those below the same two leading names."""
    return ".".join(build.__module__.split(".")[:2])


def _in_pattern(pattern: OpPattern) -> Iterator[Any]:
    for _, want in pattern.attrs:
        yield from _words(want)
    for want in pattern.inputs:
        if isinstance(want, OpPattern):
            yield from _in_pattern(want)


def _reached(function: Any, package: str, depth: int, seen: set[int]) -> Iterator[Any]:
    """The words in a function and in those of its package that it calls."""
    if not isinstance(function, FunctionType) or id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    yield from _words(function.__defaults__ or ())
    for code in _codes(function.__code__):
        yield from _words(code.co_consts)
        for name in code.co_names:
            found = function.__globals__.get(name)
            if isinstance(found, FunctionType):
                if found.__module__.startswith(package):
                    yield from _reached(found, package, depth - 1, seen)
            else:
                yield from _words(found)
            if "inf" in name:  # numpy.isneginf, math.inf
                yield from (float("-inf"), float("inf"))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _words(value: Any) -> Iterator[float | str]:
    """The numbers and short strings in a value, nested ones too."""
    if isinstance(value, str):
        if value.isidentifier():
            yield value
        return
    with suppress(TypeError, ValueError, OverflowError):  # whatever is no number
        yield float(value)
        return
    for inner in _inside(value):
        yield from _words(inner)


def _inside(value: Any) -> list[Any]:
    """The entries of a container, in an order of their own; of a small array, its elements."""
    if isinstance(value, dict):
        return [x for pair in cast("dict[Any, Any]", value).items() for x in pair]
    if isinstance(value, NESTED):
        return sorted(cast("tuple[Any, ...]", value), key=repr)
    if isinstance(value, np.ndarray) and cast("Array", value).size < SMALL:
        return list(cast("Array", value).reshape(-1).tolist())
    return []
