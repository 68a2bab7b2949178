"""Proofs by the finite field: its laws, shadow arrays, the traps of random evaluation, and rules that are wrong."""

import re
from typing import Any

import numpy as np
import onnx
import pytest
from node_cases import backend_cases
from onnx import numpy_helper, parser
from passwright.core import EXACT, ROUNDING, require, rule
from passwright.core.errors import EvaluationError
from passwright.core.ort.backends import LoadedModel
from passwright.core.proof import finite_field as ff
from passwright.core.proof.field_functions import MAX_TERMS, bilinear
from passwright.core.proof.field_symbols import SymbolicInputs
from passwright.core.proof.finite_field import FieldArray
from passwright.core.proof.finite_field_constants import irrational_columns, lift
from passwright.core.proof.finite_field_proof import Difference, Evaluator, Points, prove_by_field
from passwright.core.proof.obligation import Fragment, NotApplicable, Obligation, input_types
from passwright.core.proof.prover import Prover, prove_rule
from passwright.core.proof.rule_branches import RuleCode
from passwright.core.proof.rule_obligation import obligation_of
from passwright.core.proof.shadow_array import ShadowArray, lifted
from passwright.core.proof.verdict import ProofVerdict, Technique
from passwright.core.rewriting.rules import Contract
from passwright.core.verify.proof_guarantees import Guarantee
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64
from rewriting import each, table

HEADER = '<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>'


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEADER} {text}")


def obligation(before: str, after: str, contract: Contract = ROUNDING) -> Obligation:
    first, second = model(before), model(after)
    return Obligation(Fragment(first), Fragment(second), input_types(first), contract)


def guarantee(before: str, after: str, contract: Contract = ROUNDING) -> Guarantee:
    try:
        return prove_by_field(obligation(before, after, contract))[0].guarantee
    except Difference as found:
        return found.guarantee


X = "g (float[N,4] x) => (float[a,b] y)"
XZ = "g (float[N,4] x, float[N,4] z) => (float[a,b] y)"


@each("modulus", [ff.P, ff.Q])
def test_inverses(modulus: int) -> None:
    residues = np.array([0, 1, 2, modulus - 1, 12345])
    assert (residues * ff.inverse(residues, modulus) % modulus).tolist() == [0, 1, 1, 1, 1]


@each("terms", [MAX_TERMS, MAX_TERMS + 1])
def test_products_of_the_largest_residues_are_exact(terms: int) -> None:
    largest = FieldArray(np.full((ff.ROWS, 1, 1, terms), ff.P - 1, np.int64))
    column = FieldArray(np.full((ff.ROWS, 1, terms, 1), ff.P - 1, np.int64))
    found = bilinear(np.matmul, largest, column, terms=terms)
    assert found is not None
    assert found.data[ff.MODULUS].item() == terms % ff.P


@each("index", [1, (0, -1), (..., None, 2), slice(None, None, -1), (slice(1), np.array([2, 0])), [1, 0]])
def test_indices_move_floats_and_shadow_alike(index: Any) -> None:
    numbers = lifted(np.arange(12.0).reshape(3, 4))
    assert np.array_equal(numbers[index].field.data[ff.MODULUS][0], np.asarray(numbers)[index])


def test_the_numbers_are_primes_with_the_roots_that_models_use() -> None:
    assert 2 * ff.Q + 1 == ff.P
    for number in (ff.P, ff.Q):
        assert all(number % d for d in range(2, int(number**0.5) + 1))
    assert all(pow(s, ff.Q, ff.P) == 1 for s in (2, 3, 5, 7))
    assert pow(ff.P - 1, ff.Q, ff.P) == ff.P - 1  # so that no number and its negative both have roots


@each(
    ("before", "after"),
    table("""
    log of exp: { a = Exp(x) b = Log(a) y = Tanh(b) } => { y = Tanh(x) }
    root of a square: { a = Mul(x, x) y = Sqrt(a) } => { y = Abs(x) }
    exp: { a = Exp(x) b = Neg(x) c = Exp(b) y = Mul(a, c) } => { a = Sub(x, x) y = Exp(a) }
    softmax of what is no polynomial: <int64[1] l = {-1}> { t = Tanh(x) e = Exp(t) s = ReduceSum(e, l) y = Div(e, s) }
        => { t = Tanh(x) y = Softmax<axis=-1>(t) }
    roots as exporters write them:
        <float r = {1.4142135}, float h = {0.5}, float o = {1}>
        { a = Div(x, r) e = Erf(a) p = Add(e, o) m = Mul(x, p) y = Mul(m, h) }
        => <float r = {0.70710677}, float h = {0.5}, float o = {1}>
        { a = Mul(x, r) e = Erf(a) p = Add(o, e) m = Mul(p, h) y = Mul(x, m) }
    maximum: { a = Max(x, x) y = Identity(a) } => { y = Identity(x) }
    movement: <int64[2] i = {1,0}> { a = Gather<axis=1>(x, i) y = Neg(a) }
        => <int64[2] i = {1,0}> { a = Neg(x) y = Gather<axis=1>(a, i) }
    """),
)
def test_right_equations_are_proved(before: str, after: str) -> None:
    assert guarantee(f"{X} {before}", f"{X} {after}") is Guarantee.REALS


@each(
    ("before", "after"),
    table("""
    an epsilon is not 0: <float e = {1e-5}> { a = Mul(x, x) b = Add(a, e) y = Sqrt(b) } => { a = Mul(x, x) y = Sqrt(a) }
    less than any tolerance: <float e = {1e-12}> { a = Mul(x, x) b = Add(a, e) y = Log(b) }
        => { a = Mul(x, x) y = Log(a) }
    nearly 1: <float c = {1.000001}> { y = Mul(x, c) } => { y = Identity(x) }
    a bound: <float c = {3}> { a = Max(x, c) y = Neg(a) } => <float c = {2.75}> { a = Max(x, c) y = Neg(a) }
    half of the numbers: { y = Relu(x) } => { y = Identity(x) }
    functions of which nothing is known: { a = Sin(x) y = Sin(a) } => { y = Sin(x) }
    """),
)
def test_wrong_equations_are_not_proved(before: str, after: str) -> None:
    assert guarantee(f"{X} {before}", f"{X} {after}") is Guarantee.UNKNOWN


def test_ties_are_drawn() -> None:
    """< and <= are equal at random points, but not where an element is the constant that it is compared with."""
    text = f"{X} <float c = {{{{0.375}}}}, float z = {{{{0}}}}> {{{{ a = {{}}(x, c) y = Where(a, x, z) }}}}"
    assert guarantee(text.format("Less"), text.format("LessOrEqual")) is Guarantee.UNKNOWN
    with pytest.raises(NotApplicable, match="results jump between drawn numbers"):
        guarantee(text.format("Less"), text.format("Less"))


def test_fewer_inputs_are_a_verdict_of_their_own() -> None:
    found = guarantee(f"{XZ} {{ a = Mul(x, z) y = Log(a) }}", f"{XZ} {{ a = Log(x) b = Log(z) y = Add(a, b) }}")
    assert found is Guarantee.FEWER_INPUTS


def test_every_size_is_tried() -> None:
    """A rule that is right for two rows alone differs at other sizes."""
    before = f"{X} <int64[1] z = {{0}}> {{ y = ReduceSum<keepdims=1>(x, z) }}"
    after = f"{X} <int64[1] s = {{0}}, int64[1] m = {{2}}, int64[1] a = {{0}}, int64[1] z = {{0}}> {{ p = Slice(x, s, m, a) y = ReduceSum<keepdims=1>(p, z) }}"  # noqa: E501
    assert guarantee(before, after) is Guarantee.UNKNOWN
    (verdict,) = prove_by_field(obligation(before, before))
    assert verdict.sizes == {1, 2, 3, 4, 5, 6, 130}


def test_drawn_integers_are_no_proof() -> None:
    """An integer division needs its numbers, and small ones do not overflow."""
    text = "g (int32[3] x) => (int32[3] y) <int32 two = {{2}}> {{ {} }}"
    before, after = text.format("a = Mul(x, two) y = Div(a, two)"), text.format("y = Identity(x)")
    assert guarantee(before, after) in (Guarantee.DRAWN_INTEGERS, Guarantee.UNKNOWN)


def test_sums_and_products_of_integers_are_exact_with_overflow() -> None:
    text = "g (int32[3] x, int32[3] z) => (int32[3] y) {{ {} }}"
    before, after = text.format("a = Sub(x, z) y = Mul(a, a)"), text.format("a = Sub(z, x) y = Mul(a, a)")
    (verdict,) = prove_by_field(obligation(before, after))
    assert verdict.guarantee is Guarantee.EXACT
    assert verdict.coverage == ("every integer, with overflow",)


def test_moved_strings_are_exact() -> None:
    text = "g (string[2] x, string[3] z) => (string[n] y) {{ {} }}"
    both = "s = SequenceConstruct(x, z) y = ConcatFromSequence<axis=0>(s)"
    assert guarantee(text.format(both), text.format("y = Concat<axis=0>(x, z)"), EXACT) is Guarantee.EXACT


def test_equal_bits_need_equal_operations() -> None:
    text = "g (float[N,4] x) => (float[a,b] y) {{ {} }}"
    moved = "a = Transpose<perm=[1,0]>(x) b = Exp(a) y = Transpose<perm=[1,0]>(b)"
    assert guarantee(text.format(moved), text.format("y = Exp(x)"), EXACT) is Guarantee.EXACT
    for rounding in ("a = Add(x, x) y = Sub(a, x)", "a = Mul(x, x) y = Div(a, x)"):
        assert guarantee(text.format(rounding), text.format("y = Identity(x)"), EXACT) is Guarantee.REALS


def test_a_refutation_needs_an_input() -> None:
    with pytest.raises(ValueError, match="counterexample"):
        ProofVerdict(Guarantee.REFUTED, Technique.FINITE_FIELD)


@each("number", [1e-5, 1e-12, 0.1, 1 / 3, 2.5, 6.0, -0.70710677, 3.1415927, 0.044715])
def test_constants_are_the_numbers_that_they_round(number: float) -> None:
    """The same in float32 and float64, never 0, and another one for another number."""
    single, double = lift(np.float32(number)), lift(np.float64(np.float32(number)))
    other = lift(np.float64(number * 1.001))
    assert ff.same(single, double)[1]
    assert not ff.same(single, other)[1]
    assert single.data[ff.MODULUS] != 0


def test_shadows_follow_the_constants_of_a_rule() -> None:
    w = lifted(np.array([[1.5, 2.0], [0.25, -3.0]], np.float32))
    made: Any = np.concatenate([w * np.float32(3), w.T @ w], axis=1)[:, ::2].astype(np.float32)
    assert isinstance(made, ShadowArray)
    assert made.field is not None
    assert made.dtype == np.float32
    expected = lifted(np.asarray(made, np.float64))
    assert expected.field is not None
    assert ff.same(made.field, expected.field)[1].all()


def test_a_write_keeps_floats_and_shadow_together() -> None:
    w = lifted(np.arange(4.0))
    copy = w.copy()
    copy[1:3] = w[0]
    assert np.asarray(copy).tolist() == [0, 0, 0, 3]
    assert copy.field is not None
    assert copy.field.data[ff.MODULUS][0].tolist() == [0, 0, 0, 3]
    with pytest.raises(ValueError, match="read-only"):
        w[1:3][0] = 7.0
    np.add.at(copy, np.array([0]), 1.0)
    assert copy.field is None


@each("attributes", ["", "<time_axis = 1, batch_axis = 0>"])
def test_a_meaning_writes_to_no_view(attributes: str) -> None:
    head = "g (float[4,4] x) => (float[a,b] y) <int64[4] n = {2, 0, 3, 4}>"
    before = f"{head} {{ a = Neg(x) b = ReverseSequence{attributes}(a, n) y = Neg(b) }}"
    assert guarantee(before, f"{head} {{ y = ReverseSequence{attributes}(x, n) }}") is Guarantee.REALS


@pytest.mark.slow
def test_operators_write_to_no_views() -> None:
    """Their results are the same numbers on shadow arrays, whose views are read-only."""
    for name, case in backend_cases().items():
        if not all(isinstance(x, np.ndarray) for x in case.feeds.values()):
            continue
        outputs = [o.name for o in case.model.graph.output]
        floats = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in case.feeds.items()}
        shadows = {n: lifted(x) if x.dtype.kind == "f" else x for n, x in floats.items()}
        try:
            found = Evaluator(Fragment(case.model))(shadows)
        except NotApplicable:
            continue
        except EvaluationError as why:
            with pytest.raises(EvaluationError, match=re.escape(str(why))):
                evaluate_in_float64(case.model, floats, outputs)
            continue
        wanted = evaluate_in_float64(case.model, floats, outputs)
        for output, x in zip(outputs, found, strict=True):
            if isinstance(x, np.ndarray) and x.dtype.kind in "iufb":
                np.testing.assert_allclose(np.asarray(x), wanted[output].value, rtol=1e-9, atol=1e-9, err_msg=name)


@rule(lambda g, x, w, v: g.MatMul(g.MatMul(x, g.const(w)), g.const(v)))
def merge_products(g: Any, x: Any, w: Any, v: Any) -> Any:
    """(x w) v => x (w v)"""
    return g.MatMul(x, g.const((w.const.astype(np.float64) @ v.const.astype(np.float64)).astype(np.float32)))


@rule(lambda g, x, w, v: g.MatMul(g.MatMul(x, g.const(w)), g.const(v)))
def merge_transposed(g: Any, x: Any, w: Any, v: Any) -> Any:
    """(x w) v => x (v w)"""
    require(w.shape == v.shape, "not square")
    return g.MatMul(x, g.const(v.const @ w.const))


@rule(lambda g, x, c: g.Mul(x, g.const(c)))
def drop_nearly_one(g: Any, x: Any, c: Any) -> Any:
    """x * c => x for c of nearly 1"""
    require(np.allclose(c.const, 1, atol=1e-3), "c is not 1")
    return x


WEIGHTS = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)


def weighted() -> onnx.ModelProto:
    made = model("g (float[N,3] x) => (float[N,3] y) { a = MatMul(x, w) y = MatMul(a, v) }")
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in zip(WEIGHTS, "wv", strict=True))
    return made


def test_real_weights_are_proved() -> None:
    assert prove_rule(merge_products, [weighted()], Prover()).guarantee is Guarantee.REALS
    assert prove_rule(merge_transposed, [weighted()], Prover()).guarantee is Guarantee.UNKNOWN


def test_a_rule_that_no_tolerance_shows_is_not_proved() -> None:
    text = "g (float[N,3] x) => (float[N,3] y) <float c = {1.000001}> { a = Mul(x, c) y = Tanh(a) }"
    proof = prove_rule(drop_nearly_one, [model(text), model(text.replace("1.000001", "1"))], Prover())
    assert proof.guarantee is Guarantee.UNKNOWN
    assert not proof.is_proved


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def by_type(g: Any, x: Any) -> Any:
    """--x => x"""
    if x.rank == 1:
        return x
    return g.Identity(x)


def test_build_sites_are_counted() -> None:
    assert len(RuleCode.of(by_type).sites) == 2
    flat = model("g (float[N] x) => (float[a] y) { a = Neg(x) b = Neg(a) y = Tanh(b) }")
    proof = prove_rule(by_type, [flat], Prover())
    assert proof.guarantee is Guarantee.EXACT
    assert not proof.is_proved
    unreached, others = proof.lines()
    assert unreached == "unknown: no model with a proof takes the branches at line 3 of its function"
    assert others.startswith(
        "on the branches that are taken, exact (1 of 1 models, 1 of 2 build sites, 1 of 2 branches,"
    )
    found = obligation_of(by_type, flat)
    assert found is not None
    assert found.build_site in RuleCode.of(by_type).sites


def test_a_rule_that_does_not_fire_has_no_obligation() -> None:
    assert obligation_of(by_type, model("g (float[N] x) => (float[a] y) { y = Neg(x) }")) is None


def test_inputs_that_are_no_tensors_do_not_apply() -> None:
    with pytest.raises(NotApplicable, match="not a tensor"):
        input_types(model("g (seq(float[N]) x) => (seq(float[N]) y) { y = Identity(x) }"))


def test_a_condition_is_assumed() -> None:
    before, after = f"{X} {{ y = Abs(x) }}", f"{X} {{ y = Identity(x) }}"
    claim = obligation(before.replace("N,4", "1,2"), after.replace("N,4", "1,2"))
    condition = model("g (float[1,2] x) => (bool[a,b] y) <float z = {0}> { y = Greater(x, z) }")
    with pytest.raises(Difference):
        prove_by_field(claim)
    assumed = Obligation(claim.before, claim.after, claim.inputs, ROUNDING, condition)
    with pytest.raises(NotApplicable, match="ends of a condition"):  # no difference, and no proof
        prove_by_field(assumed)


OPERATORS = {
    "Conv": "g (float[1,2,5] x) => (float[a,b,c] y) <float[2,2,3] w = {1,2,3,4,5,6,1,0,1,2,0,2}> { y = Conv<pads=[1,0], strides=[2]>(x, w) }",  # noqa: E501
    "ConvTranspose": "g (float[1,2,3] x) => (float[a,b,c] y) <float[2,1,2] w = {1,2,3,4}> { y = ConvTranspose<strides=[2]>(x, w) }",  # noqa: E501
    "AveragePool": "g (float[1,2,6] x) => (float[a,b,c] y) { y = AveragePool<kernel_shape=[3], pads=[1,1]>(x) }",
    "MaxPool": "g (float[1,2,6] x) => (float[a,b,c] y) { y = MaxPool<kernel_shape=[3], pads=[1,1]>(x) }",
    "BatchNormalization": "g (float[2,2,3] x) => (float[a,b,c] y) <float[2] s = {1,2}, float[2] b = {3,1}, float[2] m = {1,0}, float[2] v = {4,9}> { y = BatchNormalization<epsilon=0.0>(x, s, b, m, v) }",  # noqa: E501
    "LayerNormalization": "g (float[2,4] x) => (float[a,b] y) <float[4] s = {1,2,3,4}> { y = LayerNormalization(x,s) }",
    "InstanceNormalization": "g (float[1,2,4] x) => (float[a,b,c] y) <float[2] s = {1,2}> { y = InstanceNormalization(x, s, s) }",  # noqa: E501
    "Softmax": "g (float[2,4] x) => (float[a,b] y) { y = Softmax(x) }",
    "LogSoftmax": "g (float[2,4] x) => (float[a,b] y) { y = LogSoftmax(x) }",
    "ReduceLogSumExp": "g (float[2,4] x) => (float[a,b] y) <int64[1] l = {1}> { y = ReduceLogSumExp(x, l) }",
    "ReduceL2": "g (float[2,4] x) => (float[a,b] y) <int64[1] l = {1}> { y = ReduceL2(x, l) }",
    "ReduceMax": "g (float[2,4] x) => (float[a,b] y) <int64[1] l = {1}> { y = ReduceMax(x, l) }",
    "CumSum": "g (float[2,4] x) => (float[a,b] y) <int64 l = {1}> { y = CumSum<reverse=1>(x, l) }",
    "Pad": "g (float[2,4] x) => (float[a,b] y) <int64[4] p = {1,0,0,2}> { y = Pad(x, p) }",
    "Einsum": 'g (float[2,4] x) => (float[a] y) { y = Einsum<equation="ij,ij->i">(x, x) }',
    "Gelu": "g (float[2,4] x) => (float[a,b] y) { y = com.microsoft.Gelu(x) }",
    "Elu": "g (float[2,4] x) => (float[a,b] y) { y = Elu(x) }",
    "HardSwish": "g (float[2,4] x) => (float[a,b] y) { y = HardSwish(x) }",
    "Clip": "g (float[2,4] x) => (float[a,b] y) <float l = {-1}, float h = {2}> { y = Clip(x, l, h) }",
    "Pow": "g (float[2,4] x) => (float[a,b] y) <float e = {3}> { y = Pow(x, e) }",
    "Trilu": "g (float[4,4] x) => (float[a,b] y) { y = Trilu(x) }",
    "DepthToSpace": "g (float[1,4,1,2] x) => (float[a,b,c,d] y) { y = DepthToSpace<blocksize=2>(x) }",
    "ScatterND": "g (float[3,2] x) => (float[a,b] y) <int64[1,1] i = {1}, float[1,2] u = {5,6}> { y = ScatterND(x, i, u) }",  # noqa: E501
    "If": "g (float[2] x, bool c) => (float[a] y) { y = If(c)<then_branch = t () => (float[2] z) { z = Neg(x) }, else_branch = e () => (float[2] z) { z = Exp(x) }> }",  # noqa: E501
    "Resize": "g (float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1,1,2,2}> { y = Resize(x, , s) }",
}


@each("text", OPERATORS)
def test_operators_compute_what_onnxruntime_does(text: str) -> None:
    """The floats of an evaluation in the field are those of onnxruntime, and none is without its field element."""
    tested = model(text)
    claim = Obligation(Fragment(tested), Fragment(tested), input_types(tested), ROUNDING)
    feeds = Points(SymbolicInputs()).draw(claim, {}, 1, integer_limit=3)
    (found,) = Evaluator(claim.before)(feeds)
    plain = {i.name: np.asarray(feeds[i.name]).astype(np.float32 if i.dtype == 1 else bool) for i in claim.inputs}
    (expected,) = LoadedModel(tested.SerializeToString()).run(["y"], plain)
    assert np.allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5)
    assert isinstance(found, ShadowArray)
    assert found.field is not None
    verdicts = prove_by_field(claim)
    assert verdicts[0].guarantee in (Guarantee.REALS, Guarantee.DRAWN_INTEGERS)


def test_the_nearest_float64_of_a_root_is_the_root() -> None:
    """As kernels compute it: 1 / sqrt(n) is another float64 for one n of four."""
    for n in (n for n in range(2, 257) if f"root 1/{n}" in irrational_columns()):
        single, double = (lift(np.array(n**-0.5, dtype)).data for dtype in (np.float32, np.float64))
        assert np.array_equal(single, double), n


def test_inputs_with_another_shape_than_the_model_declares_are_not_drawn() -> None:
    def dropped(_: Any, x: Any, s: Any) -> Any:
        return x

    drop = rule(lambda g, x, s: g.Expand(x, s), contract=EXACT)(dropped)
    given = model("g (float[1] x, int64[1] s) => (float[1] y) <int64[1] s = {1}> { y = Expand(x, s) }")
    found = prove_rule(drop, [given], Prover())
    assert [m.contradicts for m in found.models] == [False]
