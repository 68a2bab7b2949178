"""Rules and regions that are right over the reals, of which one form alone loses numbers in floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from passwright.core import ROUNDING, from_onnx, rule
from passwright.core.io.files import split_model
from passwright.core.proof.float_rounding import LOSES_LESS, LOST_EXTREMES, OTHER_DECISIONS, rounding_of_models
from passwright.core.proof.obligation import Fragment, Obligation, input_types
from passwright.core.proof.prover import Prover, RuleProof, prove_rule
from passwright.core.proof.region_obligations import Regions, RewrittenModel
from passwright.core.proof.region_proofs import prove_regions
from passwright.core.proof.traced_array import Leaf, rounding_of, traced
from passwright.core.proof.verdict import ProofVerdict
from passwright.core.verify.proof_guarantees import PROOFS
from rewriting import load, table
from tiers import slow_unless

Form = Callable[..., Any]
INPUTS = "float[N,4] x, float[N,4] z"
INPUT_NAMES = ("x", "z")


@dataclass
class Text:
    """Writes the ops of a form as the text of a model, whose constants are tensors."""

    dtype: str = "float"
    nodes: list[str] = field(default_factory=list[str])
    constants: dict[str, str] = field(default_factory=dict[str, str])

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        def add(*operands: Any, **attributes: Any) -> str:
            names = [self.named(o) for o in operands]
            options = ", ".join(f"{n}={str(v).replace(' ', '')}" for n, v in attributes.items())
            self.nodes.append(f"{op_type}{options and f'<{options}>'}({', '.join(names)})")
            return f"t{len(self.nodes) - 1}"

        return add

    def named(self, operand: Any) -> str:
        if isinstance(operand, str):
            return operand
        kind, numbers = ("int64[1]", operand) if isinstance(operand, list) else (self.dtype, [operand])
        name = f"c{len(self.constants)}"
        self.constants[name] = f"{kind} {name} = {{{', '.join(map(str, numbers))}}}"
        return name

    def model(self, form: Form) -> onnx.ModelProto:
        """The model of a form of one or two inputs."""
        end = form(self, *INPUT_NAMES[: len(signature(form).parameters) - 1])
        made = [f"{'y' if f't{i}' == end else f't{i}'} = {node}" for i, node in enumerate(self.nodes)]
        weights = f"<{', '.join(self.constants.values())}>" if self.constants else ""
        given = INPUTS.replace("float", self.dtype)
        return load(f"g ({given}) => ({self.dtype}[A,B] y) {weights} {{ {' '.join(made)} }}")


def proved_rule(before: Form, after: Form, dtype: str = "float") -> RuleProof:
    model = Text(dtype).model(before)
    found = prove_rule(rule(before, contract=ROUNDING)(after), [model], Prover())
    assert found.models
    return found


def proved_region(before: Form, after: Form, dtype: str = "float") -> ProofVerdict:
    first, second = (Text(dtype).model(f) for f in (before, after))
    models = RewrittenModel(*(split_model(m.SerializeToString()) for m in (first, second)), from_onnx(first).graph)
    return next(r.verdict for r in prove_regions(Regions.of(models), [Prover().prove]).regions if r.cut_point == "y")


def summed(g: Any, a: Any) -> Any:
    return g.ReduceSum(a, [1], keepdims=1)


def mean(g: Any, a: Any) -> Any:
    return g.ReduceMean(a, axes=[1], keepdims=1)


def squared(g: Any, a: Any) -> Any:
    return g.Mul(a, a)


def centred(g: Any, a: Any) -> Any:
    return g.Sub(a, mean(g, a))


def kept(g: Any, a: Any) -> Any:
    return g.Neg(g.Neg(a))


def of_numbers(g: Any, op: str, a: Any, b: Any) -> Any:
    return getattr(g, op)(g.Abs(a), g.Abs(b))


FORMS: dict[str, tuple[Form, Form]] = {
    "root of a square": (lambda g, x: g.Abs(x), lambda g, x: g.Sqrt(squared(g, x))),
    "root of a power": (lambda g, x: g.Abs(x), lambda g, x: g.Sqrt(g.Pow(x, 2.0))),
    "square by a fourth power": (
        lambda g, x: kept(g, squared(g, x)), lambda g, x: g.Sqrt(squared(g, squared(g, x))),
    ),
    "root of a product": (
        lambda g, x, z: g.Mul(g.Sqrt(g.Abs(x)), g.Sqrt(g.Abs(z))), lambda g, x, z: g.Sqrt(of_numbers(g, "Mul", x, z)),
    ),
    "logarithm of an exponential": (lambda g, x: kept(g, g.Relu(x)), lambda g, x: g.Log(g.Exp(g.Relu(x)))),
    "logarithm of a negative exponential": (
        lambda g, x: kept(g, g.Relu(x)), lambda g, x: g.Neg(g.Log(g.Exp(g.Neg(g.Relu(x))))),
    ),
    "logarithm of a product": (
        lambda g, x, z: g.Add(g.Log(g.Abs(x)), g.Log(g.Abs(z))), lambda g, x, z: g.Log(of_numbers(g, "Mul", x, z)),
    ),
    "logarithm of a power": (
        lambda g, x: g.Mul(g.Log(g.Abs(x)), 2.0), lambda g, x: g.Log(squared(g, g.Abs(x))),
    ),
    "quotient of exponentials": (lambda g, x, z: g.Exp(g.Sub(x, z)), lambda g, x, z: g.Div(g.Exp(x), g.Exp(z))),
    "inverse of an exponential": (
        lambda g, x: g.Neg(g.Abs(x)), lambda g, x: g.Log(g.Reciprocal(g.Exp(g.Abs(x)))),
    ),
    "softplus": (lambda g, x: g.Softplus(x), lambda g, x: g.Log(g.Add(g.Exp(x), 1.0))),
    "sigmoid by a quotient": (lambda g, x: g.Sigmoid(x), lambda g, x: g.Div(g.Exp(x), g.Add(g.Exp(x), 1.0))),
    "tangent by a quotient": (
        lambda g, x: g.Tanh(x),
        lambda g, x: g.Div(g.Sub(g.Exp(x), g.Exp(g.Neg(x))), g.Add(g.Exp(x), g.Exp(g.Neg(x)))),
    ),
    "tangent by a difference": (
        lambda g, x: g.Tanh(x), lambda g, x: g.Sub(1.0, g.Div(2.0, g.Add(g.Exp(g.Mul(x, 2.0)), 1.0))),
    ),
    "variance by a difference": (
        lambda g, x: mean(g, squared(g, centred(g, x))),
        lambda g, x: g.Sub(mean(g, squared(g, x)), squared(g, mean(g, x))),
    ),
    "expanded square": (
        lambda g, x, z: squared(g, g.Sub(x, z)),
        lambda g, x, z: g.Add(g.Sub(squared(g, x), g.Mul(g.Mul(x, z), 2.0)), squared(g, z)),
    ),
    "expanded square beside a constant": (
        lambda g, x: squared(g, g.Sub(x, 1000.0)), lambda g, x: g.Add(g.Mul(g.Sub(x, 2000.0), x), 1e6),
    ),
    "difference of squares": (
        lambda g, x, z: g.Mul(g.Sub(x, z), g.Add(x, z)), lambda g, x, z: g.Sub(squared(g, x), squared(g, z)),
    ),
    "difference by a quotient": (
        lambda g, x, z: kept(g, g.Sub(x, z)), lambda g, x, z: g.Mul(g.Sub(g.Div(x, z), 1.0), z),
    ),
    "an absorbing sum": (lambda g, x: g.Neg(x), lambda g, x: g.Sub(g.Sub(1e30, x), 1e30)),
    "an absorbing product": (
        lambda g, x: g.Neg(g.Mul(x, 3.0)), lambda g, x: g.Sub(3e6, g.Mul(g.Add(x, 1e6), 3.0)),
    ),
    "small and large factors": (lambda g, x: g.Neg(x), lambda g, x: g.Mul(g.Mul(x, -(2.0**-100)), 2.0**100)),
    "large and small factors": (lambda g, x: g.Neg(x), lambda g, x: g.Div(g.Mul(x, -1e30), 1e30)),
}  # fmt: skip
"""A form that keeps the numbers of floats, and another one that loses some on the way."""


OF_RULES = frozenset({
    "root of a product", "logarithm of a product", "logarithm of a power", "square by a fourth power",
    "logarithm of an exponential", "an absorbing product", "quotient of exponentials", "variance by a difference",
    "expanded square", "difference by a quotient", "difference of squares", "expanded square beside a constant",
})  # fmt: skip
"""Forms whose regions are cut where both compute alike, so that signs are not known."""
QUICK = {"root of a square", "logarithm of a negative exponential", "an absorbing sum"}


@pytest.mark.parametrize("name", slow_unless(QUICK, FORMS))
def test_a_form_that_loses_numbers_is_not_proved(name: str) -> None:
    good, bad = FORMS[name]
    assert proved_rule(good, bad).guarantee not in PROOFS
    assert proved_region(good, bad).guarantee not in PROOFS


@pytest.mark.parametrize("name", slow_unless(QUICK, FORMS))
def test_a_form_that_keeps_more_is_proved(name: str) -> None:
    good, bad = FORMS[name]
    found = proved_rule(bad, good)
    assert found.is_proved
    assert name == "an absorbing sum" or LOSES_LESS in next(found.lines())
    assert name in OF_RULES or proved_region(bad, good).guarantee in PROOFS


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "double"])
def test_a_difference_of_squares_is_not_proved_in_other_types(dtype: str) -> None:
    good, bad = FORMS["difference of squares"]
    assert proved_rule(good, bad, dtype).guarantee not in PROOFS
    assert proved_rule(bad, good, dtype).is_proved


DECISIONS = table("""
    softmax [first; int64]: s = Softmax<axis=1>(x) y = ArgMax<axis=1>(s) => y = ArgMax<axis=1>(x)
    hard softmax [float]: s = Softmax<axis=1>(x) y = Hardmax<axis=1>(s) => y = Hardmax<axis=1>(x)
    sum [first; int64]: s = Add(x, c) y = ArgMax<axis=1>(s) => y = ArgMax<axis=1>(x)
    places [int64]: s = Tanh(x) v, y = TopK<axis=1>(s, two) => v, y = TopK<axis=1>(x, two)
    threshold [first; bool]: p = Sigmoid(x) y = Greater(p, half) => y = Greater(x, zero)
    difference [bool]: d = Sub(x, z) y = Less(d, one) => s = Add(z, one) y = Less(x, s)
    equal sums [bool]: p = Add(x, one) q = Add(z, one) y = Equal(p, q) => y = Equal(x, z)
    choice [float]: p = Exp(x) b = Greater(p, one) y = Where(b, z, x) => b = Greater(x, zero) y = Where(b, z, x)
    sign [first; float]: a = Add(x, c) b = Add(z, c) d = Sub(a, b) y = Sign(d) => d = Sub(x, z) y = Sign(d)
    whole numbers [int64]: s = Add(x, c) d = Sub(s, c) y = Cast<to=7>(d) => y = Cast<to=7>(x)
""")
ALIKE = table("""
    negated [first; int64]: s = Neg(x) y = ArgMax<axis=1>(s) => y = ArgMin<axis=1>(x)
    doubled [int64]: s = Mul(x, doubling) y = ArgMax<axis=1>(s) => y = ArgMax<axis=1>(x)
    first place [int64]: v, y = TopK<axis=1>(x, single) => y = ArgMax<axis=1>(x)
    swapped [bool]: y = Greater(x, z) => y = Less(z, x)
    difference of equals [first; bool]: d = Sub(x, z) y = Greater(d, zero) => y = Greater(x, z)
    positive [bool]: p = Relu(x) y = Greater(p, zero) => y = Greater(x, zero)
    maximum [float]: b = Greater(x, z) y = Where(b, x, z) => y = Max(x, z)
    ceiling [float]: y = Ceil(x) => s = Neg(x) f = Floor(s) y = Neg(f)
    whole thirds [float]: d = Div(x, three) y = Ceil(d) => d = Mul(x, third) y = Ceil(d)
    tens [int64]: s = Mul(x, ten) d = Div(s, ten) y = Cast<to=7>(d) => y = Cast<to=7>(x)
""")
NUMBERS = (
    " <float zero = {0}, float half = {0.5}, float one = {1}, float doubling = {2}, float three = {3},"
    " float ten = {10}, float third = {0.3333333433}, float c = {100}, int64[1] single = {1}, int64[1] two = {2}>"
)


def loss_of(rows: Any, name: str) -> str:
    before, after, kind = rows[name]
    dtype = next(k for k in kind if k != "first")
    models = [load(f"g ({INPUTS}) => ({dtype}[A,B] y){NUMBERS} {{ {text} }}") for text in (before, after)]
    first, second = map(Fragment, models)
    return rounding_of_models(Obligation(first, second, input_types(models[0]), ROUNDING))[0]


def first_of(rows: Any) -> set[str]:
    return {name for name, (*_, kind) in rows.items() if "first" in kind}


@pytest.mark.parametrize("name", slow_unless(first_of(DECISIONS), DECISIONS))
def test_decisions_that_rounding_changes_are_not_proved(name: str) -> None:
    assert loss_of(DECISIONS, name) == OTHER_DECISIONS


@pytest.mark.parametrize("name", slow_unless(first_of(ALIKE), ALIKE))
def test_decisions_that_rounding_keeps_are_proved(name: str) -> None:
    assert not loss_of(ALIKE, name)


@pytest.mark.parametrize("dtype", ["double", "bfloat16"])
def test_other_types_of_floats_lose_numbers(dtype: str) -> None:
    good, bad = FORMS["root of a square"]
    assert [*proved_rule(good, bad, dtype).reasons] == [LOST_EXTREMES]
    assert proved_rule(bad, good, dtype).is_proved


@rule(lambda g, x, a, b: g.Add(g.Add(x, g.const(a)), g.const(b)), contract=ROUNDING)
def sum_of_two(g: Any, x: Any, a: Any, b: Any) -> Any:
    return g.Add(x, g.const(a.const + b.const))


@rule(lambda g, x, a, b: g.Sub(g.Sub(x, g.const(a)), g.const(b)), contract=ROUNDING)
def difference_of_two(g: Any, x: Any, a: Any, b: Any) -> Any:
    return g.Sub(x, g.const(a.const + b.const))


@rule(lambda g, x, a, b, c: g.Add(g.Mul(g.Add(x, g.const(a)), g.const(b)), g.const(c)), contract=ROUNDING)
def affine(g: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    return g.Add(g.Mul(x, b), g.const(a.const * b.const + c.const))


@rule(lambda g, x, a, b: g.Mul(g.Mul(x, g.const(a)), g.const(b)), contract=ROUNDING)
def product_of_two(g: Any, x: Any, a: Any, b: Any) -> Any:
    return g.Mul(x, g.const(a.const * b.const))


TEXTS = {
    "sum": (sum_of_two, "t = Add(x, a) y = Add(t, b)"),
    "difference": (difference_of_two, "t = Sub(x, a) y = Sub(t, b)"),
    "affine": (affine, "s = Add(x, a) t = Mul(s, b) y = Add(t, c)"),
    "product": (product_of_two, "t = Mul(x, a) y = Mul(t, b)"),
}
DROPPED = [
    ("sum", "float", (0.1, 1.5 * 2**23)), ("sum", "float16", (0.1, 1536.0)), ("affine", "float", (1e7, 2.0, 0.3)),
    ("sum", "float", (2.0**23, 0.3)), ("sum", "float", ((0.1, 0.2, 0.3, 0.4), 2.0**24)),
    ("sum", "bfloat16", (0.1, 192.0)), ("difference", "float", (0.1, 2.0**23)), ("difference", "float", (3e7, 0.7)),
    ("difference", "float16", (0.1, 1030.0)), ("affine", "float", (0.1, 3.0, 2.0**24)),
    ("affine", "float", (0.3, -1.0, 1.5 * 2**23)), ("product", "float", (1e-30, 1e-12)),
    ("product", "float", (1e30, 1e12)), ("product", "bfloat16", (1e-30, 1e-15)),
    ("product", "double", (1e-200, 1e-200)), ("sum", "double", (1.7e308, 1.7e308)),
]  # fmt: skip
MERGED = [
    ("sum", "float", (0.1, 0.2)), ("sum", "float", (2.0, 2.0**23)), ("sum", "float", (0.5, 1000.0)),
    ("sum", "float16", (0.5, 3.0)), ("sum", "bfloat16", (1.0, 2.0)), ("sum", "double", (0.1, 2.0**23)),
    ("sum", "float", ((0.1, 0.2, 0.3, 0.4), 5.0)), ("difference", "float", (0.7, 30.0)),
    ("affine", "float", (0.1, 3.0, 0.2)), ("affine", "float", ((1.0, 2.0, 3.0, 4.0), 2.0, 0.3)),
    ("product", "float", (0.3, 0.7)), ("product", "float", (1e-10, 1e10)), ("product", "float", (1e-20, 1e-10)),
    ("product", "double", (1e-30, 1e-30)),
]  # fmt: skip


def proof_of_constants(case: tuple[str, str, tuple[Any, ...]]) -> RuleProof:
    kind, dtype, numbers = case
    made, text = TEXTS[kind]
    element: Any = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(dtype.upper()))
    weights = {name: np.asarray(number).astype(element) for name, number in zip("abc", numbers, strict=False)}
    found = prove_rule(made, [load(f"g ({dtype}[N,4] x) => ({dtype}[A,B] y) {{ {text} }}", weights=weights)], Prover())
    assert found.models
    return found


@pytest.mark.parametrize("case", slow_unless(DROPPED[:3], DROPPED))
def test_constants_that_lose_bits_are_not_proved(case: tuple[str, str, tuple[Any, ...]]) -> None:
    assert proof_of_constants(case).guarantee not in PROOFS


@pytest.mark.parametrize("case", slow_unless({MERGED[0], MERGED[8]}, MERGED))
def test_constants_that_keep_their_bits_are_proved(case: tuple[str, str, tuple[Any, ...]]) -> None:
    assert proof_of_constants(case).is_proved


def test_a_folded_weight_that_drops_a_constant_is_no_exact_one() -> None:
    def origin(a: float, b: float) -> tuple[Any, Any, dict[str, Any]]:
        constants = {name: np.array([n], np.float32) for name, n in (("a", a), ("b", b))}
        traces = [traced(array, Leaf(name)) for name, array in constants.items()]
        made = traces[0] + traces[1]
        return np.array(made), made.origin, constants

    assert rounding_of(*origin(0.1, 2.0**23)) is None
    found = rounding_of(*origin(0.1, 0.7))
    assert found is not None
    assert found <= 0.5
