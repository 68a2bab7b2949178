"""Dictionaries of the literals in a rule's code, and constants made from them, with which the rule fires sooner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import isinf
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np
from msgspec import Struct
from onnx import TensorProto, helper

from ...core import Rule
from ...core.ir import op_schemas
from ...core.rewriting.pattern import Var
from .choices import Choices, Distribution
from .model_builder import Array, Shape

MAX_CALL_DEPTH = 6
COMMON_NUMBERS = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, 6.0, -3.0, 0.25, 4.0, 300.0)
DEFAULT_PRODUCERS = ("Relu", "Neg", "Abs", "Add", "Exp", "Identity", "Transpose", "Concat", "Unsqueeze", "Mul")
MAX_ARRAY_ELEMENTS = 16  # elements
MAX_MAGNITUDE = 1e6
MAX_INTEGER = 1 << 31  # moduli and multipliers of hashes are smaller
LARGE_EXTENT = 150  # more than 128, up to which tables and lengths are often built
MIN_LARGE_EXTENT, MAX_LARGE_EXTENT = 6, 2048
CONTAINER_TYPES = (tuple, list, frozenset, set)


class Dictionary(Struct, frozen=True):
    """Numbers for constants, strings for attributes, and operators for the producers of operands.

    `own_numbers` are numbers of the rule itself, `own_integers` its whole numbers, including larger ones.
    """

    own_numbers: tuple[float, ...] = COMMON_NUMBERS[:3]
    own_integers: tuple[int, ...] = (1, 0, 2)
    numbers: tuple[float, ...] = COMMON_NUMBERS
    strings: tuple[str, ...] = ()
    operators: tuple[str, ...] = DEFAULT_PRODUCERS

    def draw_number(self, choices: Choices) -> float:
        """One of the numbers; with probability 1/2 one of the rule's own."""
        return choices.pick(choices.pick((self.numbers, self.own_numbers)))

    def draw_integer(self, choices: Choices) -> int:
        """A whole number: with probability 1/2 one of the rule's own, else one next to these, or a rounded number."""
        rounded = (round(n) for n in self.numbers if abs(n) < MAX_INTEGER)
        next_to_own = (n + side for side in (1, -1) for n in self.own_integers)
        return choices.pick(choices.pick(([*dict.fromkeys((*rounded, *next_to_own))], self.own_integers)))

    @property
    def own_extents(self) -> tuple[int, ...]:
        """The rule's own whole numbers that may be large extents."""
        return tuple(n for n in self.own_integers if MIN_LARGE_EXTENT <= n <= MAX_LARGE_EXTENT)

    def draw_large_extent(self, choices: Choices) -> int:
        """An extent larger than in most models, or one of the rule's own whole numbers, or one more than that."""
        return choices.pick([*(n + more for more in (1, 0) for n in self.own_extents), LARGE_EXTENT])


def dictionary_of(rule: Rule) -> Dictionary:
    """The literals in the code that `rule` reaches in its own package, in its pattern and in its contract."""
    numbers: dict[float, None] = dict.fromkeys(rule.critical_values)
    integers: dict[int, None] = {}
    texts: dict[str, None] = {}
    for word in (
        *(word for pattern in rule.patterns for p in pattern.walk() for _, want in p.attrs for word in _literals(want)),
        *(word for function in _conditions(rule) for word in _literals(function.__code__.co_consts)),
        *_reachable_literals(rule.build, ".".join(rule.build.__module__.split(".")[:2]), MAX_CALL_DEPTH, set()),
    ):
        if isinstance(word, str):
            texts[word] = None
            continue
        if isinf(word) or abs(word) < MAX_MAGNITUDE:
            numbers[word] = None
        if abs(word) <= MAX_INTEGER and word == int(word):
            integers[int(word)] = None
    operators = tuple(t for t in texts if op_schemas.schema(t, "", op_schemas.latest_opset_version("")) is not None)
    derived = [f for n in numbers if not isinf(n) for f in (-n, 1 / n if n else n, abs(n) ** 0.5)]
    derived += [n / 2 for n in numbers if not isinf(n) and n != int(n)]  # below a bound
    derived += [n + side for n in integers if MIN_LARGE_EXTENT < n < MAX_MAGNITUDE for side in (1.0, -1.0)]
    others = tuple(t for t in texts if t.isidentifier() and t not in operators)
    return Dictionary(
        tuple(numbers) or COMMON_NUMBERS[:3],
        tuple(integers) or (1, 0, 2),
        tuple(dict.fromkeys([*COMMON_NUMBERS, *derived])),
        others,
        operators or DEFAULT_PRODUCERS,
    )


def _conditions(rule: Rule) -> Iterator[FunctionType]:
    """The conditions on attributes in the patterns of a rule."""
    for want in (want for pattern in rule.patterns for p in pattern.walk() for _, want in p.attrs):
        accepts = want.accepts if isinstance(want, Var) else want
        if isinstance(accepts, FunctionType):
            yield accepts


def _reachable_literals(function: Any, package: str, depth: int, seen: set[int]) -> Iterator[Any]:
    """The literals in a function and in functions of its package that it calls."""
    if not isinstance(function, FunctionType) or id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    yield from _literals(function.__defaults__ or ())
    for code in _code_objects(function.__code__):
        yield from _literals(code.co_consts)
        for name in code.co_names:
            owner = function.__globals__.get(function.__qualname__.partition(".")[0])
            method = vars(owner).get(name) if isinstance(owner, type) else None
            found = function.__globals__.get(name, method)
            if isinstance(found, FunctionType):
                if found.__module__.startswith(package):
                    yield from _reachable_literals(found, package, depth - 1, seen)
            else:
                yield from _literals(found)
            if "inf" in name:  # numpy.isneginf, math.inf
                yield from (float("-inf"), float("inf"))


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _code_objects(const)


def _literals(value: Any) -> Iterator[float | str]:
    """Yield the numbers and short strings in a value, including nested ones."""
    if isinstance(value, str):
        if value.isidentifier():
            yield value
        return
    with suppress(TypeError, ValueError, OverflowError):  # values other than numbers
        yield float(value)
        return
    for inner in _entries(value):
        yield from _literals(inner)


def _entries(value: Any) -> list[Any]:
    """The entries of a container in a fixed order, or the elements of a small array."""
    if isinstance(value, dict):
        return [x for pair in cast("dict[Any, Any]", value).items() for x in pair]
    if isinstance(value, CONTAINER_TYPES):
        return sorted(cast("tuple[Any, ...]", value), key=repr)
    if isinstance(value, np.ndarray) and cast("Array", value).size < MAX_ARRAY_ELEMENTS:
        return list(cast("Array", value).reshape(-1).tolist())
    return []


STRINGS = ("a", "", "b", "nan")
FRACTIONS = (1.5, -0.5, 0.25, 2.0, -1.0, 0.75, -2.25, 3.0, 1.0, 0.5)
LARGE_HALF = 300.0  # its square overflows in float16
DISTINCT = 3  # the fillings in which elements differ


def constant_array(
    choices: Choices,
    dictionary: Dictionary,
    dtype: int,
    shape: Shape,
    distribution: Distribution,
    *,
    positive: bool = False,
) -> Array:
    """An array of one number of the dictionary, with or without one different element, or of distinct numbers."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == TensorProto.STRING:
        return np.array([choices.pick(STRINGS) for _ in range(count)], object).reshape(shape)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    if distribution.filling == "plain" or count == 1:
        form = 0
    else:
        form = DISTINCT if distribution.filling == "various" else choices.draw_below(4)
    is_large = distribution.large_halves and dtype == TensorProto.FLOAT16
    draw = dictionary.draw_integer if kind.kind in "iu" else dictionary.draw_number
    number = LARGE_HALF if is_large else draw(choices)
    values = np.full(count, number, np.float64)
    if form > 1:
        various = np.resize(np.roll(FRACTIONS, -choices.draw_below(len(FRACTIONS))), count)
        values = various if form == DISTINCT else np.where(np.arange(count) == count - 1, various, values)
    if kind.kind == "b":
        return (values > 0).reshape(shape)
    if kind.kind in "iu":
        whole = np.round(np.abs(values) if kind.kind == "u" else values)
        return np.clip(whole, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind).reshape(shape)
    with np.errstate(over="ignore"):  # of half floats
        return (np.abs(values) + 0.5 * (values == 0) if positive else values).astype(kind).reshape(shape)
