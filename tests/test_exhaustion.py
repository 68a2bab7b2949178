"""Exactness by exhaustion over all numbers of a float type, and the models of which that says something."""

import numpy as np
import pytest
from onnx import TensorProto
from passwright.core import RewriteBuilder, Rule, Value, rule
from passwright.core.proof.element_dependence import require_single_dependence
from passwright.core.proof.exhaustion import Exhaustion, _shapes
from passwright.core.proof.exhaustion_worker import numbers_of
from passwright.core.proof.obligation import NO_FACTORS, Fragment, NotApplicable, Obligation, input_types
from passwright.core.proof.rule_obligation import obligation_of, retyped_model
from passwright.core.proof.verdict import ProofVerdict
from passwright.core.rewriting.rules import EXACT, ROUNDING, Contract
from passwright.core.verify.proof_guarantees import Guarantee
from rewriting import load

TYPES = "(float[N] x) => (float[M] y)"


@pytest.fixture(scope="module")
def exhaustion() -> Exhaustion:
    return Exhaustion()


def halves(before: str, after: str, contract: Contract = EXACT) -> Obligation:
    """The obligation that two graphs give equal bits on float16."""
    first, second = (retyped_model(load(f"g {TYPES} {g}"), TensorProto.FLOAT16) for g in (before, after))
    return Obligation(Fragment(first), Fragment(second), input_types(first), contract)


def verdict_on(exhaustion: Exhaustion, before: str, after: str) -> ProofVerdict:
    (found,) = exhaustion.prove(halves(before, after))
    return found


def test_equal_bits_on_every_float16(exhaustion: Exhaustion) -> None:
    found = verdict_on(exhaustion, "{ a = Relu(x) y = Sqrt(a) }", "{ a = Relu(x) b = Relu(a) y = Sqrt(b) }")
    assert (found.guarantee, found.coverage) == (Guarantee.EXACT, ("every float16",))


def branches(then: str, otherwise: str) -> Obligation:
    """The obligation that an If on an input has the bits of another one that applies Relu in one branch."""
    text = """g (float16[N] x, bool c) => (float16[M] y) {{ y = If(c) <
        then_branch = t () => (float16[M] a) {{ a = {}(x) }},
        else_branch = e () => (float16[M] b) {{ b = {}(x) }}> }}"""
    first, second = load(text.format("Relu", "Neg")), load(text.format(then, otherwise))
    return Obligation(Fragment(first), Fragment(second), input_types(first), EXACT)


def test_conditions_have_both_values(exhaustion: Exhaustion) -> None:
    (same,) = exhaustion.prove(branches("Relu", "Neg"))
    assert (same.guarantee, same.coverage) == (Guarantee.EXACT, ("every float16", "every bool"))
    for then, otherwise in (("Abs", "Neg"), ("Relu", "Abs")):
        (other,) = exhaustion.prove(branches(then, otherwise))
        assert other.guarantee is Guarantee.UNKNOWN
        assert "elements differ in their bits" in other.reason


def test_a_counterexample_has_the_bools(exhaustion: Exhaustion) -> None:
    text = "g (uint8[4] x, bool c) => (uint8[4] y) <uint8 zero = {0}> { y = Where(c, x, %s) }"
    first, second = (load(text % name) for name in ("zero", "x"))
    (found,) = exhaustion.prove(Obligation(Fragment(first), Fragment(second), input_types(first), EXACT))
    assert found.guarantee is Guarantee.REFUTED
    assert found.counterexample is not None
    assert found.counterexample["c"].tolist() is False
    assert found.counterexample["x"].any()


def test_empty_inputs_have_no_numbers(exhaustion: Exhaustion) -> None:
    first, second = (load(f"g (float16[0,3] x) => (float16[0,3] y) {{ y = {op}(x) }}") for op in ("Relu", "Abs"))
    (found,) = exhaustion.prove(Obligation(Fragment(first), Fragment(second), input_types(first), EXACT))
    assert found.guarantee is Guarantee.EXACT


def bytes_through_floats(scale: float) -> Obligation:
    text = "g (uint8[N] x) => (uint8[N] y) <float s = {0.1}, float t = {%s}>"
    quantized = load(text % scale + "{ a = DequantizeLinear(x, s) y = QuantizeLinear(a, t) }")
    same = load("g (uint8[N] x) => (uint8[N] y) { y = Identity(x) }")
    return Obligation(Fragment(quantized), Fragment(same), input_types(same), EXACT)


def test_every_integer_of_8_bits(exhaustion: Exhaustion) -> None:
    (found,) = exhaustion.prove(bytes_through_floats(0.1))
    assert (found.guarantee, found.coverage) == (Guarantee.EXACT, ("every uint8",))
    (other,) = exhaustion.prove(bytes_through_floats(0.1002))  # which shows from 250 on
    assert other.guarantee is Guarantee.REFUTED
    assert other.counterexample is not None
    assert other.counterexample["x"].dtype == np.uint8


def test_halves_are_rounded_after_each_op(exhaustion: Exhaustion) -> None:
    """onnxruntime computes both ops with 32 bits, where nothing overflows."""
    found = verdict_on(exhaustion, "<float c = {4096.0}> { a = Mul(x, c) y = Div(a, c) }", "{ y = Identity(x) }")
    assert found.guarantee is Guarantee.UNKNOWN
    assert "on float16, y: " in found.reason


def test_a_cast_is_another_one_of_float16(exhaustion: Exhaustion) -> None:
    model = load(f"g {TYPES} {{ a = Cast <to=10> (x) y = Cast <to=1> (a) }}")

    @rule(lambda g, x: g.Cast(g.Cast(x, to=TensorProto.FLOAT16), to=TensorProto.FLOAT), contract=EXACT)
    def drop_rounding(g: RewriteBuilder, x: Value) -> Value:
        """Cast(Cast(x)) => x"""
        return x

    given = obligation_of(drop_rounding, model)
    assert given is not None
    with pytest.raises(NotApplicable, match="a Cast rounds float32 differently"):
        exhaustion.prove(given)


ONE_OF_65536 = "<float c = {0.33325195}, float d = {1.0}> { a = Equal(x, c) y = Where(a, d, x) }"


@pytest.mark.parametrize(
    "after",
    [ONE_OF_65536, "<float zero = {0.0}> { y = Add(x, zero) }", "{ y = Relu(x) }"],
    ids=["one number", "the sign of zero", "half of them"],
)
def test_one_number_is_enough(exhaustion: Exhaustion, after: str) -> None:
    found = verdict_on(exhaustion, "{ y = Identity(x) }", after)
    assert found.guarantee is Guarantee.UNKNOWN  # as no contract promises equal bits of float16
    assert found.reason.startswith("on float16, y: ")


@pytest.mark.slow
def test_a_place_that_is_cut_off_is_not_the_only_one(exhaustion: Exhaustion) -> None:
    cut = "<int64[1] b = {1}, int64[1] e = {9}, float c = {0.33325195}, float d = {1.0}> "
    same, other = cut + "{ y = Slice(x, b, e) }", cut + "{ a = Equal(x, c) s = Where(a, d, x) y = Slice(s, b, e) }"
    assert verdict_on(exhaustion, same, same).guarantee is Guarantee.EXACT
    assert verdict_on(exhaustion, same, other).guarantee is Guarantee.UNKNOWN


@pytest.mark.parametrize(
    ("graph", "is_uniform"),
    [
        ("{ a = Relu(x) y = Neg(a) }", True),
        ("{ a = Sigmoid(x) y = Mul(x, a) }", True),
        ("<int64[2] s = {1, -1}> { a = Reshape(x, s) y = Exp(a) }", True),
        ("{ s = Shape(x) y = Identity(s) }", True),
        ("<float[2] w = {1.0, 2.0}> { y = Mul(x, w) }", False),
        ("{ y = Concat<axis=0>(x, x) }", False),
        ("<int64[1] b = {1}, int64[1] e = {9}> { y = Slice(x, b, e) }", False),
    ],
)
def test_each_element_depends_on_one(graph: str, is_uniform: bool) -> None:
    assert require_single_dependence(load(f"g {TYPES} {graph}"), "x") is is_uniform


@pytest.mark.parametrize(
    "graph",
    [
        "{ y = Softmax(x) }",
        "{ y = ReduceMax(x) }",
        "{ y = MatMul(x, x) }",
        "{ a = Transpose(x) y = Add(x, a) }",
        "<float[2] w = {1.0, 2.0}> { a = Mul(x, w) y = Add(x, a) }",
        "{ a = NonZero(x) y = Cast<to=1>(a) }",
        "<int64[1] i = {0}> { a = Cast<to=7>(x) y = Gather(x, a) }",
        "{ y = com.microsoft.QuickGelu(x) }",
    ],
)
def test_an_element_depends_on_several(graph: str) -> None:
    domains = {"com.microsoft": 1} if "com." in graph else None
    with pytest.raises(NotApplicable, match="depend on several"):
        require_single_dependence(load(f"g {TYPES} {graph}", domains=domains), "x")


@pytest.mark.parametrize("count", [1, 6, 4096, 65536, 100000])
def test_every_number_is_there(count: int) -> None:
    arrays = list(numbers_of(16, count, every_place=False))
    assert all(a.shape == (count,) and a.dtype == np.uint16 for a in arrays)
    assert len(np.unique(np.concatenate(arrays))) == 1 << 16


def test_every_number_is_at_every_place() -> None:
    found = np.stack(list(numbers_of(16, 3, every_place=True)))
    assert all(len(np.unique(column)) == 1 << 16 for column in found.T)


@rule(lambda g, x: g.Exp(g.Relu(x)), contract=EXACT)
def keep_exp_of_relu(g, x):  # noqa: ANN001, ANN201
    """Exp(Relu(x)) => Exp(Max(x, 0))"""
    return g.Exp(g.Max(x, g.const(0.0, like=x)))


def of_rule(tested: Rule, types: str = TYPES) -> Obligation:
    found = obligation_of(tested, load(f"g {types} {{ a = Relu(x) y = Exp(a) }}"))
    assert found is not None
    return found


def test_a_rule_makes_its_own_replacement_of_float16(exhaustion: Exhaustion) -> None:
    given = of_rule(keep_exp_of_relu)
    assert given.retyped is not None
    made = given.retyped(TensorProto.FLOAT16, NO_FACTORS)
    assert made is not None
    assert {t.data_type for t in made.after.model.graph.initializer} == {TensorProto.FLOAT16}
    (found,) = exhaustion.prove(given)
    # Max of two zeros gives either: the replacement keeps 0 where Relu keeps -0, and Exp gives 1 for both.
    assert found.guarantee is Guarantee.EXACT


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (halves("{ y = Relu(x) }", "{ y = Relu(x) }", ROUNDING), "does not promise equal bits"),
        (of_rule(keep_exp_of_relu, "(double[N] x) => (double[N] y)"), "neither float32 nor float16"),
    ],
)
def test_not_applicable(exhaustion: Exhaustion, given: Obligation, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        exhaustion.prove(given)


def test_float32_needs_a_large_input() -> None:
    given = of_rule(keep_exp_of_relu, "(float[6] x) => (float[6] y)")
    with pytest.raises(NotApplicable, match="6 elements takes too many runs"):
        next(_shapes(given, given.inputs[0], TensorProto.FLOAT, is_uniform=True))


def test_float32_takes_few_runs_on_a_large_input() -> None:
    given = of_rule(keep_exp_of_relu, "(float[N,3] x) => (float[N,3] y)")
    shape = next(_shapes(given, given.inputs[0], TensorProto.FLOAT, is_uniform=True))
    assert shape == ((1 << 22) // 3, 3)


@pytest.mark.parametrize("text", ["{ y = Cast<to=1>(x) }", "{ c = Constant<value_float=0.1>() y = Mul(x, c) }"])
def test_retyping(text: str) -> None:
    made = retyped_model(load(f"g {TYPES} {text}"), TensorProto.FLOAT16)
    assert {v.type.tensor_type.elem_type for v in (*made.graph.input, *made.graph.output)} == {TensorProto.FLOAT16}
    first = made.graph.node[0].attribute[0]
    assert (first.i or first.t.data_type) == TensorProto.FLOAT16
