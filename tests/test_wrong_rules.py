"""Rules that are right in branches, constants or extents of their models and wrong in others. None is proved."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from passwright.core import EXACT, ROUNDING, Contract, Rule, require, rule
from passwright.core.proof.prover import Prover, RuleProof, prove_rule
from passwright.core.verify.proof_guarantees import PROOFS
from rewriting import cases, each, load
from tiers import slow_unless

X = "g (float[N,3] x) => (float[A,B] y)"
PLANE, SQUARE = "g (float[2,3] x) => (float[A,B] y)", "g (float[4,4] x) => (float[A,B] y)"
TWICE = "{ a = Neg(x) y = Neg(a) }"


def proof(build: Callable[..., Any], pattern: Callable[..., Any], text: str, contract: Contract = EXACT) -> RuleProof:
    found = prove_rule(rule(pattern, contract=contract)(build), [load(text)], Prover())
    assert found.models, "the rule fires"
    return found


def twice(g: Any, x: Any) -> Any:
    return g.Neg(g.Neg(x))


def by_elements(g: Any, x: Any) -> Any:
    if math.prod(x.static_shape) >= 64:
        return g.Neg(x)
    return x


def by_if_alone(g: Any, x: Any) -> Any:
    y = x
    if x.static_shape[-1] > 8:
        y = g.Neg(x)
    return y


def by_case(g: Any, x: Any) -> Any:
    match x.rank:
        case 2:
            return x
        case rank if rank >= 3:
            return g.Neg(x)
    return x


def by_inner_function(g: Any, x: Any) -> Any:
    def replacement() -> Any:
        if x.dtype == TensorProto.FLOAT16:
            return g.Neg(x)
        return x

    return replacement()


def helper(g: Any, x: Any) -> Any:
    if x.static_shape[0] > 9:
        return g.Neg(x)
    return x


def sign(x: Any) -> int:
    return -1 if x.static_shape[0] > 9 else 1


def is_long(x: Any) -> bool:
    return x.static_shape[0] > 9


def results(g: Any, x: Any) -> Any:
    if is_long(x):
        yield g.Neg(x)
    yield x


class Replacement:
    def __call__(self, g: Any, x: Any) -> Any:
        return g.Neg(x) if is_long(x) else x

    @staticmethod
    def of(g: Any, x: Any) -> Any:
        if is_long(x):
            return g.Neg(x)
        return x


def negated_if_long(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(g: Any, x: Any) -> Any:
        y = function(g, x)
        if is_long(x):
            return g.Neg(y)
        return y

    return inner


@negated_if_long
def decorated(_: Any, x: Any) -> Any:
    return x


def by_variable(g: Any, x: Any) -> Any:
    large = x.static_shape[0] > 9
    return g.Neg(x) if large else x


def by_while(g: Any, x: Any) -> Any:
    n, y = x.static_shape[0], x
    while n > 9:
        n, y = n - 100, g.Neg(y)
    return y


def by_for(g: Any, x: Any) -> Any:
    y = x
    for _ in range(x.static_shape[0] // 64):
        y = g.Neg(y)
    return y


def by_filter(g: Any, x: Any) -> Any:
    y = x
    for _ in [d for d in x.static_shape if d > 9]:
        y = g.Neg(y)
    return y


def by_exception(g: Any, x: Any) -> Any:
    try:
        y = {2: x}[x.static_shape[0]]
    except KeyError:
        y = g.Neg(x)
    return y


def by_case_alone(g: Any, x: Any) -> Any:
    y = g.Neg(x)
    match x.rank:
        case 2:
            y = x
    return y


CODE: dict[str, Callable[..., Any]] = {
    "if and else": by_elements,
    "if alone": by_if_alone,
    "the opset": lambda g, x: g.Neg(x) if g.opset > 17 else x,
    "a case with a condition": by_case,
    "an inner function": by_inner_function,
    "a function that it calls": lambda g, x: helper(g, g.Identity(x)),
    "a partial function": lambda g, x: functools.partial(helper, g)(x),
    "a number that a function returns": lambda g, x: g.Mul(x, g.const(np.float32(sign(x)))),
    "a generator": lambda g, x: next(made for made in results(g, x)),
    "an object": lambda g, x: Replacement()(g, g.Identity(x)),
    "a static method": lambda g, x: Replacement.of(g, g.Identity(x)),
    "a decorator": decorated,
    "a lambda": lambda g, x: g.Neg(x) if x.static_shape[0] > 9 else x,
    "a variable": by_variable,
    "and, or": lambda g, x: (x.static_shape[0] > 9 and g.Neg(x)) or x,
    "a table of functions": lambda g, x: {2: lambda: x, 3: lambda: g.Neg(x)}[x.rank](),
    "while": by_while,
    "for": by_for,
    "a filter": by_filter,
    "an exception": by_exception,
    "a case alone": by_case_alone,
}


TABLE = {2: 1.0, 3: -1.0, 100: -1.0}
OF_TYPES = {TensorProto.FLOAT: 1.0, TensorProto.FLOAT16: -1.0}
SCALES = (1.0, 1.0, 1.0, -1.0)


def by_quotient_in_place(g: Any, x: Any) -> Any:
    n = x.static_shape[0]
    n //= 64
    return times(g, x, 1.0 + n)


def by_local_table(g: Any, x: Any) -> Any:
    scales = [1.0, 1.0, 1.0, -1.0]
    return times(g, x, scales[x.rank])


def by_divmod(g: Any, x: Any) -> Any:
    quotient, _ = divmod(x.static_shape[0], 64)
    return times(g, x, 1.0 + quotient)


def by_bool(g: Any, x: Any) -> Any:
    large = x.static_shape[0] > 9
    return times(g, x, 1 + large)


def by_bool_of_quotient(g: Any, x: Any) -> Any:
    large = bool(x.static_shape[0] // 64)
    return times(g, x, 1 + large)


def by_predicate_in_a_variable(g: Any, x: Any) -> Any:
    large = is_long(x)
    return times(g, x, 1 + large)


def by_steps(g: Any, x: Any) -> Any:
    return times(g, x, len([*range(0, x.static_shape[0], 64)]))


def by_trips(g: Any, x: Any) -> Any:
    y = x
    for _ in range(x.static_shape[0]):
        y = times(g, y, -1.0)
    return y


def by_trips_over_extents(g: Any, x: Any) -> Any:
    y = x
    for _ in x.static_shape:
        y = times(g, y, -1.0)
    return y


def by_trips_of_while(g: Any, x: Any) -> Any:
    y, left = x, x.static_shape[0]
    while left:
        y, left = times(g, y, -1.0), left - 1
    return y


def quotient_of(x: Any, n: int) -> int:
    return x.static_shape[0] // n


def times(g: Any, x: Any, number: float) -> Any:
    return g.Mul(x, g.const(np.float32(number)))


def by_last_of_list(g: Any, x: Any) -> Any:
    extents = [*x.static_shape]
    return times(g, x, min(extents.pop(), 9) / 3)


def by_iterator(g: Any, x: Any) -> Any:
    extents = iter(x.static_shape)
    return times(g, x, min(2, *extents) / 2)


NUMBERS: dict[str, tuple[Callable[..., Any], str]] = {
    "an index": (lambda g, x: [x, g.Neg(x)][int(x.static_shape[0] > 9)], "1, True"),
    "an index by any": (lambda g, x: [x, g.Neg(x)][any(d > 9 for d in x.static_shape)], "True"),
    "a comparison as a number": (lambda g, x: g.Mul(x, g.const(np.float32(1 - 2 * (x.static_shape[0] > 9)))), "True"),
    "comparisons in an array": (
        lambda g, x: times(g, x, np.where(np.array(x.static_shape) > 9, -1.0, 1.0).prod()),
        "True",
    ),
    "a sum of comparisons": (
        lambda g, x: g.Mul(x, g.const(np.float32((-1) ** sum(d > 9 for d in x.static_shape)))),
        "True",
    ),
    "a quotient": (lambda g, x: times(g, x, 1 + x.static_shape[0] // 64), "1, more, no rest"),
    "a quotient in place": (by_quotient_in_place, "1, more, no rest"),
    "a quotient of a function": (lambda g, x: times(g, x, 1 + quotient_of(x, 64)), "1, more, no rest"),
    "a quotient of divmod": (by_divmod, "1, more, no rest"),
    "a quotient of NumPy": (lambda g, x: times(g, x, 1 + np.floor_divide(x.static_shape[0], 64)), "1, more, no rest"),
    "a quotient of floats": (lambda g, x: times(g, x, 1 + int(x.static_shape[0] / 64)), "1, more, no rest"),
    "a remainder": (lambda g, x: times(g, x, x.static_shape[0] % 64 / x.static_shape[0]), "less, no rest"),
    "a shift": (lambda g, x: times(g, x, 1 + (x.static_shape[0] >> 6)), "1, more, no rest"),
    "bits": (lambda g, x: times(g, x, 1 + (x.static_shape[0] & 64)), "all, some"),
    "the least": (lambda g, x: times(g, x, min(x.static_shape[0], 9) / x.static_shape[0]), "1"),
    "the least of a generator": (
        lambda g, x: times(g, x, min(n for n in (x.static_shape[0], 9)) / x.static_shape[0]),
        "1",
    ),
    "the least by NumPy": (lambda g, x: times(g, x, np.minimum(x.static_shape[0], 9) / x.static_shape[0]), "1"),
    "the least of extents": (lambda g, x: times(g, x, min(x.static_shape) / x.static_shape[0]), "1"),
    "the least of a list that changes": (by_last_of_list, "other numbers"),
    "the least of an iterator": (by_iterator, "other numbers"),
    "the greatest": (lambda g, x: times(g, x, max(9, x.static_shape[0]) / 9), "1"),
    "a clipped number": (
        lambda g, x: times(g, x, np.clip(x.static_shape[0], 1, 9) / x.static_shape[0]),
        "above, below",
    ),
    "a distance": (lambda g, x: times(g, x, abs(9 - x.static_shape[0]) / (9 - x.static_shape[0])), "negative"),
    "a table of extents": (lambda g, x: times(g, x, TABLE[x.static_shape[0]]), "3, 100"),
    "a table with a default": (lambda g, x: times(g, x, TABLE.get(x.static_shape[0], 5.0)), "3, 100, none"),
    "a table with a default alone": (lambda g, x: times(g, x, {2: 1.0}.get(x.static_shape[0], 5.0)), "none"),
    "a table of types": (lambda g, x: times(g, x, OF_TYPES[x.dtype]), "1, 10"),
    "a list by rank": (lambda g, x: times(g, x, SCALES[x.rank]), "0, 1, 3"),
    "a list in place": (lambda g, x: times(g, x, (1.0, 1.0, 1.0, -1.0)[x.rank]), "0, 1, 3"),
    "a list in a variable": (by_local_table, "0, 1, 3"),
    "a list of NumPy": (lambda g, x: times(g, x, np.array([1.0, 1.0, 1.0, -1.0])[x.rank]), "0, 1, 3"),
    "a bool": (by_bool, "True"),
    "a bool of a quotient": (by_bool_of_quotient, "1, more, no rest"),
    "a predicate": (lambda g, x: times(g, x, 1 + is_long(x)), "True"),
    "a predicate in a variable": (by_predicate_in_a_variable, "True"),
    "a predicate of elements": (lambda g, x: times(g, x, 1 + sum(map(is_long, [x, x]))), "True"),
    "quotients in an array": (lambda g, x: times(g, x, 1 + (np.array(x.static_shape) // 64).sum()), "1, more, no rest"),
    "a power": (lambda g, x: times(g, x, (-1.0) ** x.rank), "three numbers"),
    "the length of a part": (lambda g, x: times(g, x, 1 + len(x.static_shape[2:])), "some"),
    "the steps of a range": (by_steps, "1, more, no rest, even, three numbers"),
    "a number in 16 bits": (lambda g, x: times(g, x, np.float16(x.static_shape[0]) / x.static_shape[0]), "rounded"),
    "an array in 16 bits": (
        lambda g, x: times(g, x, np.array(x.static_shape[0], np.float16) / x.static_shape[0]),
        "rounded",
    ),
    "a Cast to 16 bits": (
        lambda g, x: times(g, x, np.int64(x.static_shape[0]).astype("int16") / x.static_shape[0]),
        "rounded",
    ),
    "a count of bits": (lambda g, x: times(g, x, x.static_shape[0].bit_length() - 1), "other numbers"),
    "a root": (lambda g, x: times(g, x, math.isqrt(x.static_shape[0])), "other numbers"),
    "a whole logarithm": (lambda g, x: times(g, x, int(math.log2(x.static_shape[0]))), "0, more, rest"),
    "digits": (lambda g, x: times(g, x, len(str(x.static_shape[0]))), "other numbers"),
    "a step of NumPy": (lambda g, x: times(g, x, 1 - np.heaviside(x.static_shape[0] - 9.0, 0.0)), "other numbers"),
    "a predicate of math": (lambda g, x: times(g, x, 0 + math.isclose(x.static_shape[0], 2)), "other numbers"),
    "a product with itself": (lambda g, x: times(g, x, x.static_shape[0] * x.static_shape[0] / 4), "three numbers"),
    "a square of NumPy": (lambda g, x: times(g, x, np.square(x.static_shape[0]) / 4), "three numbers"),
    "a power of math": (lambda g, x: times(g, x, math.pow(2, x.rank) / 4), "three numbers"),
    "a sum of a range": (lambda g, x: times(g, x, sum(range(x.static_shape[0]))), "odd, three numbers"),
    "trips of a range": (by_trips, "odd, three numbers"),
    "trips over extents": (by_trips_over_extents, "odd, three numbers"),
    "trips of while": (by_trips_of_while, "odd, three numbers"),
    "an order": (lambda g, x: times(g, x, sorted([x.static_shape[0], 9])[1] / 9), "0"),
}
"""Numbers that a rule computes, and the outcomes that its model lacks."""


def by_named_shape(g: Any, x: Any) -> Any:
    shape = x.static_shape
    return times(g, x, shape[0] / 4)


def by_named_extent(g: Any, x: Any) -> Any:
    n, _ = x.static_shape
    return times(g, x, n / 4)


def by_last_named_extent(g: Any, x: Any) -> Any:
    *_, n = x.static_shape
    return times(g, x, n / 4)


EXTENTS: dict[str, tuple[Callable[..., Any], str]] = {
    "an extent of another axis": (
        lambda g, x: times(g, x, x.static_shape[0] / x.static_shape[1]),
        "two numbers, unlike others",
    ),
    "an extent": (lambda g, x: times(g, x, x.static_shape[0] / 4), "two numbers, unlike others"),
    "the rank": (lambda g, x: times(g, x, x.rank - 1), "two numbers"),
    "an extent of a shape with a name": (by_named_shape, "two numbers, unlike others"),
    "an extent with a name": (by_named_extent, "two numbers, unlike others"),
    "the last extent with a name": (by_last_named_extent, "two numbers, unlike others"),
    "an extent of a shape that is known": (
        lambda g, x: times(g, x, x.known_shape[0] / 4),
        "two numbers, unlike others",
    ),
}


@each(
    ("build", "lacking", "plane"),
    {n: (build, "code", PLANE) for n, build in CODE.items()}
    | {n: (*row, PLANE) for n, row in NUMBERS.items()}
    | {n: (*row, SQUARE) for n, row in EXTENTS.items()},
)
def test_code_of_which_models_run_a_part_is_not_proved(build: Callable[..., Any], lacking: str, plane: str) -> None:
    found = proof(build, twice, f"{plane} {TWICE}", ROUNDING)
    assert found.guarantee in PROOFS, "on the code that is run"
    assert not found.is_proved
    assert {b.outcome or "code" for b in found.unreached} >= set(lacking.split(", "))
    assert next(found.lines()).startswith("unknown: no model with a proof takes the branch")


def test_iterators_are_read_by_the_rule_alone() -> None:
    def wrong(g: Any, x: Any) -> Any:
        negated = (g.Neg(x) for _ in range(2))
        return g.Sum(x, *negated)

    def right(g: Any, x: Any) -> Any:
        same = map(g.Identity, [x])
        return g.Sum(*same)

    assert proof(wrong, twice, f"{PLANE} {TWICE}", ROUNDING).guarantee not in PROOFS
    assert proof(right, twice, f"{PLANE} {TWICE}", ROUNDING).is_proved


def test_a_rule_is_proved_whose_numbers_are_all_taken() -> None:
    def padded(g: Any, x: Any) -> Any:
        rest = min(x.static_shape[0], 2) + max(x.static_shape[0], 2) - x.static_shape[0] - 1
        return times(g, x, rest * (1.0, 1.0)[x.static_shape[1] % 2])

    made = rule(twice, contract=ROUNDING)(padded)
    models = [load(f"{PLANE.replace('2,3', shape)} {TWICE}") for shape in ("1,1", "3,4")]
    assert not prove_rule(made, models[:1], Prover()).is_proved
    assert prove_rule(made, models, Prover()).is_proved


def test_a_predicate_in_a_variable_that_is_tested_is_part_of_the_test() -> None:
    def declining(_: Any, x: Any) -> Any:
        large = is_long(x)
        if large:
            return None
        return x

    assert proof(declining, twice, f"{PLANE} {TWICE}").is_proved


def test_a_quotient_without_a_remainder_has_none_to_be_taken() -> None:
    def halved(g: Any, x: Any) -> Any:
        require(x.static_shape[0] % 2 == 0, "it is odd")
        return times(g, x, 2 * (x.static_shape[0] // 2) / x.static_shape[0])

    made = rule(twice, contract=ROUNDING)(halved)
    models = [load(f"{PLANE.replace('2,3', shape)} {TWICE}") for shape in ("2,3", "6,3")]
    assert not prove_rule(made, models[:1], Prover()).is_proved
    assert prove_rule(made, models, Prover()).is_proved


def test_a_predicate_is_part_of_the_test_that_calls_it() -> None:
    def declining(g: Any, x: Any) -> Any:
        require(not is_long(x), "it is long")
        return x

    assert proof(declining, twice, f"{PLANE} {TWICE}").is_proved


def test_a_rule_is_proved_whose_branches_are_all_taken() -> None:
    def by_size(g: Any, x: Any) -> Any:
        return x if math.prod(x.static_shape) >= 5 else g.Identity(x)

    made = rule(twice, contract=EXACT)(by_size)
    models = [load(f"{PLANE.replace('2,3', shape)} {TWICE}") for shape in ("2,3", "1,3")]
    assert not prove_rule(made, models[:1], Prover()).is_proved
    found = prove_rule(made, models, Prover())
    assert found.is_proved
    assert "2 of 2 branches" in next(found.lines())


SQUARES = (0.5, 0.125, 2.0, 1 / 3, 1 / 96, 3.0)
OF_ROOTS = [(square, ulps, "float") for square in SQUARES for ulps in (-1, 1)]
OF_ROOTS += [(square, ulps, "double") for square in (0.5, 0.125) for ulps in (-1, 1)]


def beside(number: float, ulps: int, dtype: Any) -> Any:
    return np.nextafter(dtype(number), dtype(math.copysign(math.inf, ulps))) if ulps else dtype(number)


def scaled(square: float) -> Rule:
    def merged(g: Any, x: Any, c: Any) -> Any:
        return g.Mul(x, square)

    return rule(lambda g, x, c: g.Mul(g.Mul(x, g.const(c)), c), contract=ROUNDING)(merged)


@pytest.mark.parametrize("case", slow_unless({(0.5, 1, "float"), (0.5, -1, "double")}, OF_ROOTS))
def test_a_float_beside_a_root_is_not_the_root(case: tuple[float, int, str]) -> None:
    """(x c) c => x c^2, where c is the root that is rounded, and not where it is a float beside it."""
    square, ulps, dtype = case
    kind: Any = np.float32 if dtype == "float" else np.float64
    text = f"{X} {{ a = Mul(x, c) y = Mul(a, c) }}".replace("float[", f"{dtype}[")
    root, other = (beside(math.sqrt(square), n, kind) for n in (0, ulps))
    right, wrong = (
        prove_rule(scaled(square), [load(text, weights={"c": np.array(c)})], Prover()) for c in (root, other)
    )
    assert right.is_proved
    assert wrong.guarantee not in PROOFS


FRACTIONS = (1 / 3, 0.1, 1e-5, 0.7, 100.0)
OF_FRACTIONS = [(number, ulps) for number in FRACTIONS for ulps in (-1, 1)]


@pytest.mark.parametrize("case", slow_unless({(0.1, 1)}, OF_FRACTIONS))
def test_a_float_beside_a_fraction_is_not_the_fraction(case: tuple[float, int]) -> None:
    """(x + 1) c - c => x times the number."""
    number, ulps = case

    def folded(g: Any, x: Any, c: Any, o: Any) -> Any:
        return g.Mul(x, number)

    made = rule(lambda g, x, c, o: g.Sub(g.Mul(g.Add(x, g.const(o)), g.const(c)), c), contract=ROUNDING)(folded)
    text = f"{X} <float o = {{1}}> {{ a = Add(x, o) b = Mul(a, c) y = Sub(b, c) }}"
    right, wrong = (
        prove_rule(made, [load(text, weights={"c": np.array(beside(number, n, np.float32))})], Prover())
        for n in (0, ulps)
    )
    assert right.is_proved
    assert wrong.guarantee not in PROOFS


LIMITS = (7, 100, 3000)


@pytest.mark.parametrize("limit", slow_unless({3000}, LIMITS))
def test_a_slice_that_seldom_cuts_is_not_dropped(limit: int) -> None:
    def dropped(_: Any, x: Any, starts: Any, ends: Any) -> Any:
        return x

    text = f"g (float[N] x) => (float[M] y) <int64[1] s = {{0}}, int64[1] e = {{{limit}}}> {{ y = Slice(x, s, e) }}"
    found = proof(dropped, lambda g, x, starts, ends: g.Slice(x, g.const(starts), g.const(ends)), text)
    assert found.guarantee not in PROOFS


@pytest.mark.parametrize("limit", slow_unless({7}, LIMITS))
def test_a_limit_of_positions_is_not_dropped(limit: int) -> None:
    def dropped(g: Any, x: Any, r: Any, c: Any) -> Any:
        return g.Add(x, r)

    text = (
        f"g (float[N] x) => (float[M] y) <int64 z = {{0}}, int64 o = {{1}}, float c = {{{limit}.5}}>"
        " { s = Shape(x) n = Squeeze(s) i = Range(z, n, o) r = Cast<to=1>(i) l = Min(r, c) y = Add(x, l) }"
    )
    found = proof(dropped, lambda g, x, r, c: g.Add(x, g.Min(r, g.const(c))), text, ROUNDING)
    assert found.guarantee not in PROOFS


@pytest.mark.parametrize("scale", slow_unless({0.125}, (0.5, 0.125, 0.01)))
def test_a_scale_behind_a_product_of_halves_is_not_proved(scale: float) -> None:
    def moved(g: Any, q: Any, k: Any, c: Any) -> Any:
        return g.Mul(g.MatMul(q, k), c)

    made = rule(lambda g, q, k, c: g.MatMul(g.Mul(q, g.const(c)), k), contract=ROUNDING)(moved)
    text = "g (float16[N,4,64] q, float16[N,64,4] k) => (float16[A,B,C] y) { s = Mul(q, c) y = MatMul(s, k) }"
    found = prove_rule(made, [load(text, weights={"c": np.array(scale, np.float16)})], Prover())
    assert found.guarantee not in PROOFS


NARROW = {"float": ("10", "16"), "double": ("1", "10"), "float16": ("16",), "bfloat16": ("10",)}
TYPES = {"float": "1", "double": "11", "float16": "10", "bfloat16": "16"}
OF_CASTS = [(dtype, to) for dtype, narrow in NARROW.items() for to in narrow]


@pytest.mark.parametrize("case", slow_unless({("float", "10")}, OF_CASTS))
def test_a_cast_to_fewer_bits_is_not_dropped(case: tuple[str, str]) -> None:
    dtype, to = case

    def dropped(_: Any, x: Any, a: Any, b: Any) -> Any:
        return x

    made = rule(lambda g, x, a, b: g.Cast(g.Cast(x) @ a) @ b, contract=ROUNDING)(dropped)
    text = f"g ({dtype}[N] x) => ({dtype}[A] y) {{ a = Cast<to=TO>(x) y = Cast<to={TYPES[dtype]}>(a) }}"
    assert prove_rule(made, [load(text.replace("TO", to))], Prover()).guarantee not in PROOFS
    assert dtype == "double" or prove_rule(made, [load(text.replace("TO", "11"))], Prover()).guarantee in PROOFS


def summed(g: Any, x: Any, op: Any) -> Any:
    return g.Mul(g.ReduceSum(x, g.const([1]), keepdims=1), g.const(np.float16(1 / 64)))


def factored(g: Any, x: Any, c: Any, z: Any) -> Any:
    return g.Mul(g.Add(x, z), c)


HALVES: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "a mean": (summed, lambda g, x, op: g.ReduceMean(x) @ op, "y = ReduceMean<axes=[1]>(x)"),
    "a sum of scaled numbers": (
        factored, lambda g, x, c, z: g.Add(g.Mul(x, g.const(c)), g.Mul(z, c)),
        "a = Mul(x, c) b = Mul(z, c) y = Add(a, b)",
    ),
}  # fmt: skip


@cases(("build", "pattern", "text"), HALVES)
def test_halves_that_overflow_in_sums_are_not_proved(
    build: Callable[..., Any], pattern: Callable[..., Any], text: str
) -> None:
    model = f"g (float16[N,64] x, float16[N,64] z) => (float16[A,B] y) {{ {text} }}"
    found = prove_rule(
        rule(pattern, contract=ROUNDING)(build), [load(model, weights={"c": np.array(0.25, np.float16)})], Prover()
    )
    assert found.models
    assert found.guarantee not in PROOFS


def multiplied(g: Any, x: Any, a: Any, b: Any) -> Any:
    return g.Mul(x, g.const(a.const * b.const))


UNDERFLOWS = [("float", 1e-30, 1e-30), ("float16", 2.0**-12, 2.0**-14), ("float16", 1.3 * 2.0**-10, 1.7 * 2.0**-13)]


@pytest.mark.parametrize("case", UNDERFLOWS)
def test_a_constant_that_underflows_is_not_proved(case: tuple[str, float, float]) -> None:
    dtype, *numbers = case
    made = rule(lambda g, x, a, b: g.Mul(g.Mul(x, g.const(a)), g.const(b)), contract=ROUNDING)(multiplied)
    kind = np.float32 if dtype == "float" else np.float16
    weights = {name: np.array(number, kind) for name, number in zip("ab", numbers, strict=True)}
    text = f"{X} {{ t = Mul(x, a) y = Mul(t, b) }}".replace("float[", f"{dtype}[")
    assert prove_rule(made, [load(text, weights=weights)], Prover()).guarantee not in PROOFS
    right = {name: np.array(0.3, kind) for name in "ab"}
    assert prove_rule(made, [load(text, weights=right)], Prover()).is_proved


def unbounded(_: Any, t: Any, c: Any) -> Any:
    return t


FAR: dict[str, tuple[str, str, float]] = {
    "a bound": ("Min", "Identity(x)", 1e7),
    "a bound of single precision": ("Min", "Identity(x)", 1e30),
    "a negative bound": ("Max", "Identity(x)", -3e6),
    "a bound of a small product": ("Min", "Mul(x, d)", 5.0),
    "a bound of a square": ("Min", "Mul(x, x)", 9e8),
    "a bound of a sum": ("Max", "MatMul(x, w)", -50.0),
    "a bound of an exponential": ("Min", "Exp(x)", 1e35),
}


@each(("op", "text", "bound"), FAR)
def test_a_far_bound_is_not_dropped(op: str, text: str, bound: float) -> None:
    made = rule(lambda g, t, c: getattr(g, op)(t, g.const(c)), contract=ROUNDING)(unbounded)
    given = {"c": np.float32(bound), "d": np.float32(0.001), "w": np.full((3, 3), 0.01, np.float32)}
    weights = {name: np.asarray(a) for name, a in given.items() if f" {name})" in f"{text} c)"}
    model = load(f"{X} {{ t0 = {text} t = Neg(t0) u = Neg(t) y = {op}(u, c) }}", weights=weights)
    found = prove_rule(made, [model], Prover())
    assert found.models
    assert found.guarantee not in PROOFS


ABSORBED: dict[str, tuple[str, Callable[..., Any]]] = {
    "a large constant": ("float", lambda g, x: g.Sub(g.Add(x, g.const(np.float32(1e30))), g.const(np.float32(1e30)))),
    "a square in 16 bits": ("bfloat16", lambda g, x: g.Sub(g.Add(x, g.Mul(x, x)), g.Mul(x, x))),
}


@cases(("dtype", "build"), ABSORBED)
def test_numbers_that_absorb_others_are_not_proved(dtype: str, build: Callable[..., Any]) -> None:
    found = proof(build, twice, f"{X} {TWICE}".replace("float[", f"{dtype}["), ROUNDING)
    assert found.guarantee not in PROOFS
