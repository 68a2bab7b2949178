"""The oracle: runs of the original, and verdicts on rewritten models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from equivalent_models import compare as require_equivalent
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper
from passwright.app.report.verdict_text import difference_lines, sizes_text, verdict_line
from passwright.core.errors import (
    EvaluationError,
    MemoryExhausted,
    ModelError,
    ModelLoadError,
    UnverifiableError,
    VerificationError,
)
from passwright.core.ort.backends import LoadedModel, OnnxReference
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.input_generation import COMBINED_KINDS, KINDS
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.oracle import Verdict
from passwright.core.verify.regions.region_comparison import ChangedRegions
from passwright.core.verify.verdict import Mismatch, MismatchError
from rewriting import cases, each, load, oracle_of, table

if TYPE_CHECKING:
    from collections.abc import Sequence

ML = "ai.onnx.ml"


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 17,
    **weights: Any,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def info(name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[int | str | None] | None = None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def check(before: onnx.ModelProto, after: onnx.ModelProto, *, exact: bool = False, **options: Any) -> Verdict:
    return oracle_of(before, **options).check(after.SerializeToString(), ComparisonOptions(exact=exact))


X = "g (float[N,3] x) => (float[N,3] y)"

WRONG = table("""
    negative numbers kept: y = Relu(x) => y = Identity(x)
    negative numbers turned: y = Relu(x) => y = Abs(x)
    alike near zero: y = Erf(x) => y = Tanh(x)
    differs at whole numbers: y = Ceil(x) => z = Floor(x) y = Add(z, o)
    differs at ties: y = Round(x) => h = Add(x, f) y = Floor(h)
    differs at zero: y = Div(x, x) => z = Sub(x, x) y = Add(z, o)
    differs for large numbers: y = Clip(x, n, s) => y = Identity(x)
    axis: y = Softmax<axis=-1>(x) => y = Softmax<axis=0>(x)
    shape: y = Identity(x) => t = Transpose(x) y = Transpose<perm=[0,1]>(t)
    sum: y = Add(x, x) => z = ReduceSum(x) y = Add(z, x)
    operands swapped: g (float[N] x, float[N] z) => (float[N] y) { y = Sub(x, z) }
        => g (float[N] x, float[N] z) => (float[N] y) { y = Sub(z, x) }
    dims swapped: g (float[N,M] x) => (int64[2] y) { y = Shape(x) }
        => g (float[N,M] x) => (int64[2] y) { t = Transpose(x) y = Shape(t) }
    only equal sizes fit: g (float[N,3] x, float[M,3] z) => (float[n,3] y) { y = Add(x, z) }
        => g (float[N,3] x, float[M,3] z) => (float[n,3] y) { y = Max(x, z) }
    bools: g (bool[N] x) => (bool[N] y) { y = Not(x) } => g (bool[N] x) => (bool[N] y) { y = Identity(x) }
    unsigned beyond 127: g (uint8[N] x) => (uint8[N] y) { y = Identity(x) }
        => g (uint8[N] x) => (uint8[N] y) { c = Cast<to=3>(x) d = Abs(c) y = Cast<to=2>(d) }
    strings: g (string[N] s) => (string[N] y) { y = Identity(s) }
        => g (string[N] s) => (string[N] y) { y = StringNormalizer<case_change_action="UPPER">(s) }
    the last row of a table: g (int64[4] i) => (float[4] y) <float[9] w = {0,1,2,3,4,5,6,7,8}> { y = Gather(w, i) }
        => g (int64[4] i) => (float[4] y) <float[9] w = {0,1,2,3,4,5,6,7,7}> { y = Gather(w, i) }
    a default taken for a constant: g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,2}> { y = Add(x, w) }
        => g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,2}, float[2] v = {1,2}> { y = Add(x, v) }
""")
CONSTANTS = {"o": np.float32(1), "f": np.float32(0.5), "n": np.float32(-9), "s": np.float32(9)}


def rows_of(text: str) -> onnx.ModelProto:
    """The model of a graph, or of a body on rows of three numbers."""
    return load(text if text.startswith("g ") else f"{X} {{ {text} }}", weights=CONSTANTS)


@cases(("before", "after"), WRONG)
def test_wrong_models_are_found(before: str, after: str) -> None:
    with pytest.raises(VerificationError, match=r"^(y: .* on \w+ inputs|the rewritten model)"):
        require_equivalent(rows_of(before), rows_of(after))


@each("model", {name: before for name, (before, _) in WRONG.items()})
def test_model_agrees_with_itself(model: str) -> None:
    proto = rows_of(model)
    verdict = require_equivalent(proto, proto, exact=True)
    assert verdict.exact
    assert len(verdict.input_sets) >= 3
    assert all(d.error == 0 for d in verdict.differences.values())


@cases(
    ("before", "after"),
    {
        "scaled late": ("a = Mul(x, c) y = MatMul(a, w)", "b = MatMul(x, w) y = Mul(b, c)"),
        "sum for a mean": ("y = ReduceMean<axes=[1]>(x)", "b = ReduceSum(x, ax) y = Mul(b, d)"),
    },
)
def test_overflows_in_16_bits_are_found(before: str, after: str) -> None:
    """onnxruntime computes in 32 bits, in which neither overflows."""
    constants = "<float16 c = {10240}, float16 d = {6144}, int64[1] ax = {1}>"  # c is 1/32, d is 1/512
    head = f"g (float16[N,512] x, float16[512,8] w) => (float16[N,M] y) {constants}"
    with pytest.raises(MismatchError, match=r"^y: .* overflow where each op rounds to its own type"):
        check(load(f"{head} {{ {before} }}", 17), load(f"{head} {{ {after} }}", 17))
    check(load(f"{head} {{ {after} }}", 17), load(f"{head} {{ {before} }}", 17))


def test_message_names_output_error_tolerance_and_inputs() -> None:
    two = "g (float[N] x) => (float[N] a, float[N] b) { a = Abs(x) b = %s(x) }"
    with pytest.raises(VerificationError) as caught:
        require_equivalent(load(two % "Relu"), load(two % "Identity"))
    assert str(caught.value).startswith("b: off by up to ")
    assert "(allowed " in str(caught.value)
    assert str(caught.value).endswith("on normal inputs with N=2")


@each(
    ("body", "what"),
    {
        "type": ("y = Cast<to=11>(x)", "float32[2, 3] became float64[2, 3]"),
        "shape": ("y = Transpose(x)", "float32[2, 3] became float32[3, 2]"),
        "no such operator": ("y = Foo(x)", "the rewritten model does not load"),
        "output lost": ("z = Relu(x)", "the rewritten model does not load"),
        "fails": ("y = Reshape(x, k)", "the rewritten model fails on normal inputs"),
    },
)
def test_other_failures(body: str, what: str) -> None:
    before = load("g (float[N,3] x) => (y) { y = Identity(x) }")
    after = load(f"g (float[N,3] x) => (y) <int64[1] k = {{5}}> {{ {body} }}")
    with pytest.raises(VerificationError) as caught:
        require_equivalent(before, after)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("op", "is_told"), [("Identity", True), ("Neg", False)])
def test_untrue_declaration_is_told(op: str, *, is_told: bool) -> None:
    model = "g (float[1,3,1] x, int64[2] s) => (float[1,3,1] y) { y = %s }"
    with pytest.raises(VerificationError) as caught:
        require_equivalent(load(model % "Expand(x, s)"), load(model % f"{op}(x)"))
    told = "y: float32[1, 3, 2] became float32[1, 3, 1]; the model declares [1, 3, 1] and computes another shape, on "
    assert str(caught.value).startswith(told) is is_told


def test_exact_is_bit_for_bit() -> None:
    before, after = (
        load(f"g (float[64] x) => (float[64] y) {{ {b} }}", weights={"k": np.float32(3)})
        for b in ("y = Div(x, k)", "i = Reciprocal(k) y = Mul(x, i)")
    )
    verdict = require_equivalent(before, after)
    assert 0 < verdict.differences["y"].error < verdict.differences["y"].allowed
    with pytest.raises(VerificationError, match="differ in their bits"):
        require_equivalent(before, after, exact=True)


def test_the_sign_of_zero_counts_when_exact() -> None:
    before, after = (load(f"g (float[9] x) => (float[9] y) {{ {b} }}") for b in ("y = Identity(x)", "y = Add(x, x)"))
    with pytest.raises(VerificationError):
        require_equivalent(before, after, exact=True)
    zero = load("g (float[9] x) => (float[9] y) { y = Sub(x, x) }")
    negative = load("g (float[9] x) => (float[9] y) { z = Sub(x, x) y = Neg(z) }")
    require_equivalent(zero, negative)
    with pytest.raises(VerificationError, match="sign of zero"):
        require_equivalent(zero, negative, exact=True)


RELU = "g (float[N] x) => (float[N] a, float[N] y) { a = Abs(x) y = Relu(x) }"
WRONG_RELU = RELU.replace("Relu", "Identity")


def draw(kind: str, *numbers: float) -> InputSet:
    return InputSet(kind, {"N": len(numbers)}, {"x": np.array(numbers, np.float32)})


def test_wrong_model_has_a_failing_verdict() -> None:
    oracle = oracle_of(load(RELU))
    verdict = oracle.compare(load(WRONG_RELU).SerializeToString())
    found = verdict.failure
    assert found is not None
    assert found.input_set is oracle.runs[0].input_set
    assert found.difference is verdict.differences["y"]
    assert (found.output, found.is_nonfinite_only) == ("y", False)
    assert str(found) == f"y: {found.reason}, on normal inputs with N=2"
    assert verdict.input_sets == ("normal inputs with N=2",)  # the first failure ends it
    with pytest.raises(VerificationError) as caught:
        oracle.check(load(WRONG_RELU).SerializeToString())
    assert str(caught.value) == str(found)
    assert isinstance(caught.value, MismatchError)
    assert caught.value.mismatch.output == "y"
    data = json.loads(json.dumps(verdict.to_data(), allow_nan=False))
    assert data["failure"]["input_set"] == "normal inputs with N=2"
    assert data["failure"]["difference"]["reason"] == found.reason


@cases(
    ("body", "start"),
    {
        "refused": ("y = Foo(x)", "the rewritten model does not load: "),
        "fails": ("y = Reshape(x, k)", "the rewritten model fails on normal inputs with N=2: "),
    },
)
def test_failing_model_has_a_failing_verdict(body: str, start: str) -> None:
    after = load(f"g (float[N] x) => (float[N] a, float[N] y) <int64[1] k = {{5}}> {{ a = Abs(x) {body} }}")
    found = oracle_of(load(RELU)).compare(after.SerializeToString()).failure
    assert found is not None
    assert (found.output, found.difference) == ("", None)
    assert str(found) == start + found.reason


def test_sizes_of_0_are_said_to_be_untried_if_the_result_may_fail_on_them() -> None:
    graph = "g (float[b,2,5,4] x) => (float[b,2,5,4] y)"
    parts = load(f"{graph} {{ t = Transpose<perm=[0,1,3,2]>(x) z = MatMul(x, t) e = Softmax(z) y = MatMul(e, x) }}", 23)
    fused = load(f"{graph} {{ y = Attention<scale=1.0>(x, x, x) }}", 23)
    oracle = oracle_of(parts)
    assert any("sizes of 0" in note for note in oracle.compare(fused.SerializeToString()).notes)
    assert not any("sizes of 0" in note for note in oracle.compare(parts.SerializeToString()).notes)


def test_subset_of_input_sets() -> None:
    oracle = oracle_of(load(RELU))
    zeros = [a.input_set for a in oracle.runs if a.input_set.kind == "zeros"]
    verdict = oracle.compare(load(WRONG_RELU).SerializeToString(), ComparisonOptions(input_sets=zeros))
    assert verdict.failure is None
    assert verdict.input_sets == tuple(map(str, zeros))
    last = [a.input_set for a in oracle.runs if a.input_set.kind == "wide"]
    failure = oracle.compare(load(WRONG_RELU).SerializeToString(), ComparisonOptions(input_sets=last)).failure
    assert failure is not None
    assert failure.input_set is last[0]


def test_one_input_set_takes_one_session_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    load_session, run = LoadedModel.__init__, LoadedModel.run

    def counting_load(self: LoadedModel, *given: Any, **options: Any) -> None:
        counted.append("load")
        load_session(self, *given, **options)

    def counting_run(self: LoadedModel, *given: Any) -> list[Any]:
        counted.append("run")
        return run(self, *given)

    for text, random in ((WRONG_RELU, []), (WRONG_RELU.replace("Abs(x)", "RandomNormalLike(x)"), ["a"])):
        oracle = oracle_of(load(text.replace("Identity", "Relu")), random_outputs=random)
        with monkeypatch.context() as patch:
            patch.setattr(LoadedModel, "__init__", counting_load)
            patch.setattr(LoadedModel, "run", counting_run)
            oracle.compare(
                load(text).SerializeToString(), ComparisonOptions(exact=True, input_sets=[oracle.runs[0].input_set])
            )
        assert counted == ["load", "run"]
        counted.clear()


NAN, INF = float("nan"), float("inf")
CLIP, MIN = (
    f"g (float[N] x) => (float[N] y) {{ {b} }}" for b in ("y = Relu(x)", "p = Greater(x, z) y = Where(p, x, z)")
)


def test_nonfinite_inputs_are_reported_apart() -> None:
    weights = {"z": np.float32(0)}
    given = [draw("inf", INF, -INF), draw("nan", NAN, 1), draw("normal", 1, -1)]
    oracle = oracle_of(load(CLIP), given_inputs=given)
    same = oracle.compare(load(CLIP).SerializeToString())
    assert same.input_sets == ("normal inputs with N=2",)
    assert same.nonfinite_input_sets == ("inf inputs with N=2", "nan inputs with N=2")
    assert same.differences.keys() == same.nonfinite_differences.keys() == {"y"}
    found = oracle.compare(load(MIN, weights=weights).SerializeToString()).failure
    assert found is not None
    assert found.is_nonfinite_only
    assert str(found) == "y: 1 of 2 elements are finite instead of NaN, on nan inputs with N=2 (finite inputs agree)"
    worse = oracle.compare(load(CLIP.replace("Relu", "Neg")).SerializeToString()).failure
    assert worse is not None
    assert not worse.is_nonfinite_only
    assert str(worse).endswith("on normal inputs with N=2")


DIVIDED = "g (float[N] x) => (int64[N] y) { d = %s(x, t) f = Floor(d) y = Cast<to=7>(f) }"


@cases(
    ("divisor", "first", "others", "excused"),
    {"arbitrary numbers": (0.7, 13.999999, 8.1234, 1), "whole numbers are on jumps on purpose": (41, 41, 9, None)},
)
def test_jumps_of_given_inputs_are_noted(divisor: float, first: float, others: float, excused: int | None) -> None:
    t = np.float32(divisor)
    before, after = load(DIVIDED % "Div", weights={"t": t}), load(DIVIDED % "Mul", weights={"t": 1 / t})
    x = np.array([first, *[others] * 7], np.float32)
    oracle = oracle_of(before, given_inputs=[InputSet("given", {}, {"x": x})] * 2)
    verdict = oracle.compare(after.SerializeToString())
    assert (verdict.failure is None) is (excused is not None)
    assert oracle.compare(after.SerializeToString(), ComparisonOptions(exact=True)).failure is not None
    if excused is not None:
        assert verdict.differences["y"].excused == 2 * excused
        assert set(verdict.notes) == {
            f"{excused} elements of y differ on given inputs at discontinuities of the original"
        }
        assert verdict_line(verdict).startswith("verified: within tolerance, on 2 given samples; 2 elements differ at ")
        assert next(difference_lines(verdict)) == "y: 2 elements differ at discontinuities of the original"


def test_input_sets_have_every_kind_and_two_sizes() -> None:
    draws = [a.input_set for a in oracle_of(load("g (float[N,T] x) => (float[N,T] y) { y = Relu(x) }")).runs]
    assert {d.kind for d in draws} - {*COMBINED_KINDS} == {*KINDS} - {"boundaries"}
    for symbol in "NT":
        sizes = {d.sizes[symbol] for d in draws}
        assert 1 in sizes
        assert len(sizes) >= 2


@cases(
    ("text", "accepted"),
    {
        "sizes in lockstep are searched for": (
            "g (float[N] x, float[M] z) => (float[k] y) { a = Concat<axis=0>(x, z) y = Mul(a, w) }",
            {"N": 4, "M": 4},
        ),
        "a sum without a formula": (
            "g (float[P] p, float[S] s, float[T] m) => (float[k] y) { a = Concat<axis=0>(p, s) y = Mul(a, m) }",
            None,
        ),
    },
)
def test_sizes_are_searched_for(text: str, accepted: dict[str, int] | None) -> None:
    runs = oracle_of(load(text, weights={"w": np.ones(8, np.float32)} if accepted else {})).runs
    for run in runs:
        sizes = run.input_set.sizes
        if accepted is None:
            assert sizes["T"] in {sizes["P"] + sizes["S"], 1} or sizes["P"] + sizes["S"] == 1
        else:
            assert sizes["N"] + sizes["M"] in {1, 8}
    assert any(min(a.input_set.sizes.values()) > 1 for a in runs)


def test_rejected_size_is_noted() -> None:
    text = "g (float[N,2] x) => (float[k,4] y) <int64[2] s = {-1, 4}> { y = Reshape(x, s) }"
    oracle = oracle_of(load(text))
    (note,) = oracle.notes
    assert note.startswith("the original fails with N=1; that size was skipped: ")
    assert "reshape" in note.casefold()
    assert {a.input_set.sizes["N"] for a in oracle.runs} == {0, 2, 64}


def test_fixed_sizes_are_kept() -> None:
    oracle = oracle_of(load("g (float[N,T] x) => (float[N,T] y) { y = Relu(x) }"), fixed_sizes={"N": 5})
    assert {a.input_set.sizes["N"] for a in oracle.runs} == {5}
    assert {a.input_set.feeds["x"].shape[0] for a in oracle.runs} == {5}
    assert oracle.notes == []


@pytest.mark.parametrize("rank", [0, 2, 3])
def test_unknown_ranks_are_searched_for(rank: int) -> None:
    perm = [list(range(rank))[::-1]] if rank else []
    node = helper.make_node("Transpose" if perm else "Squeeze", ["x"], ["y"], **({"perm": perm[0]} if perm else {}))
    untyped = info("x")
    untyped.type.tensor_type.ClearField("shape")
    model = model_of([node], [untyped], [info("y")])
    ranks = {a.input_set.feeds["x"].ndim for a in oracle_of(model).runs}
    assert ranks == {rank}


def test_model_for_batches_of_one() -> None:
    text = "g (float[T,B,2] x) => (y) { y = GRU<hidden_size=3>(x, w, r, , , h) }"
    weights = {"w": (1, 9, 2), "r": (1, 9, 3), "h": (1, 1, 3)}
    oracle = oracle_of(load(text, weights={n: np.ones(s, np.float32) for n, s in weights.items()}))
    assert {a.input_set.sizes["B"] for a in oracle.runs} == {1}
    assert {a.input_set.sizes["T"] for a in oracle.runs} > {1}
    assert oracle.notes == []


def test_model_for_dims_of_one() -> None:
    text = "g (float[N] x) => (float[N] y) <int64[1] k = {1}> { y = Reshape(x, k) }"
    oracle = oracle_of(load(text))
    assert {a.input_set.sizes["N"] for a in oracle.runs} == {1}
    (note,) = oracle.notes
    assert note.startswith("the original fails unless N=1; other sizes were skipped: ")
    assert "reshape" in note.casefold()


@cases(
    ("text", "note"),
    {
        "zeros": ("(int8[N] x) => (int8[N] y) { y = Sub(x, x) }", "y is 0 in all elements on all inputs, so little"),
        "one class": (
            "(float[N,1] x) => (int64[N,1] y) { y = ArgMax<axis=1>(x) }",
            "y is 0 in all elements on all inputs",
        ),
        "false": ("(float[N] x) => (bool[N] y) { y = Greater(x, x) }", "y is False in all elements on all inputs, so"),
        "others": ("(float[N] x) => (float[N] y) { y = Relu(x) }", ""),
        "half": (
            "(float16[N] x) => (float16[N] y) { y = Relu(x) }",
            "onnxruntime computes most ops of 16-bit floats in 32",
        ),
    },
)
def test_notes_on_what_is_not_seen(text: str, note: str) -> None:
    verdict = check(*[load(f"g {text}")] * 2)
    assert [n for n in verdict.notes if n.startswith(note)] == list(verdict.notes)
    assert bool(verdict.notes) == bool(note)


def test_sizes_of_a_verdict() -> None:
    verdict = check(*[load("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")] * 2)
    assert verdict.sizes["N"][:3] == [0, 1, 2]
    assert next(difference_lines(verdict)).startswith("sizes: N of 0, 1, 2")
    many = {"N": list(range(30)), "M": [7]} | {s: [1, 2] for s in "ABCD"}
    assert list(sizes_text(many)) == [
        "N of 0, 1, 2, 3, 4, ..., 28, 29 (30 sizes)", "M of 7", "A of 1, 2", "B of 1, 2", "2 other dims",
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "words"), [({"N": 2}, "inputs with N=2 and numbers"), ({}, "inputs with numbers")])
def test_mismatch_names_a_large_magnitude(size: dict[str, int], words: str) -> None:
    inputs = InputSet("constants", size, {"x": np.array([1, -3e24, np.inf]), "i": np.array([[2**40]])})
    found = Mismatch("y", "off", inputs, None, magnitude=inputs.magnitude)
    assert found.describe("it") == f"y: off, on constants {words} up to 3.0e+24"
    assert replace(found, magnitude=5.0).describe("it") == f"y: off, on {inputs}"


def test_both_backends_say_why_they_do_not_run_the_original() -> None:
    """onnxruntime has no such version of the operator, and the reference runs none that places operands."""
    model = load("g (float[2,3,4] x, float[3] b) => (float[2,3,4] y) { y = Add<broadcast=1, axis=1>(x, b) }", 6)
    with pytest.raises(UnverifiableError, match=r"cannot load it: .*Add\(6\).*; onnx.reference cannot run"):
        oracle_of(model).check(model.SerializeToString())


def test_empty_outputs_are_not_verified() -> None:
    text = "g (float[N,3] x) => (float[N,3] y%s) { y = Relu(x) z = Sum(o, o) }"
    with pytest.raises(UnverifiableError, match="with N of 0 every output of the original is empty"):
        oracle_of(load(text % "", weights=CONSTANTS), fixed_sizes={"N": 0})
    verdict = check(*[load(text % ", float z", weights=CONSTANTS)] * 2, fixed_sizes={"N": 0})
    assert verdict.notes == ("y is empty on all inputs, so only its type and shape were compared",)


def test_sizes_that_a_model_needs_are_asked_for() -> None:
    """An exporter may write the sizes of its example into constants, and symbols into the declarations."""
    texts = {
        "g (float[N,4] x) => (float[7] y) <int64[1] s = {7}> { y = Reshape(x, s) }": True,
        "g (float[2,4] x) => (float[7] y) <int64[1] s = {7}> { y = Reshape(x, s) }": False,
        "g (float[N] x) => (float[N] y) { y = NoSuchOp(x) }": False,
    }
    for text, is_asked in texts.items():
        with pytest.raises(UnverifiableError) as caught:
            oracle_of(load(text))
        assert str(caught.value).endswith("; if it needs certain sizes, give --shape x:N,...") == is_asked


def test_oversized_inputs_are_not_generated() -> None:
    with pytest.raises(
        UnverifiableError, match=r"no inputs are generated for the original: .* 1,099,511,627,776 elements"
    ):
        oracle_of(load("g (float[1048576,1048576] x) => (float[N] y) { y = ReduceMax<axes=[0], keepdims=0>(x) }"))


def test_given_inputs_are_the_only_ones() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
    given = [InputSet("given", {}, {"x": np.array([1, 2], np.float32)})]
    oracle = oracle_of(load(text), given_inputs=given)
    assert [a.input_set for a in oracle.runs] == given
    oracle.check(load("g (float[N] x) => (float[N] y) { y = Identity(x) }").SerializeToString())


def test_failing_given_inputs_raise_model_error() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    with pytest.raises(ModelError, match="the original does not run on the given inputs"):
        oracle_of(load(text), given_inputs=[InputSet("given", {}, {"x": np.ones(3, np.float32)})])


def test_a_rejected_draw_is_replaced() -> None:
    # Gather rejects wide integers; the signature does not show it, because of the Mul in between.
    text = "g (int64[9] i) => (float[9] y) <float[2] w = {1, 2}> { k = Mul(i, i) y = Gather(w, k) }"
    oracle = oracle_of(load(text))
    kinds = {a.input_set.kind for a in oracle.runs}
    assert kinds - {*COMBINED_KINDS} == {"normal", "negative", "mixed", "zeros", "extremes"}
    assert oracle.notes == []
    assert {int(v) for a in oracle.runs for v in a.input_set.feeds["i"]} <= {-1, 0, 1}


def test_the_seed_changes_the_numbers() -> None:
    text = "g (float[8] x) => (float[8] y) { y = Relu(x) }"
    first, again, other = (oracle_of(load(text), seed=s).runs[0].input_set.feeds["x"] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@cases(
    "model",
    {
        "type without a kernel": load("g (int16[2,2] x) => (int16[2,2] y) { y = Gemm(x, x) }"),
        "complex numbers": (
            model_of(
                [helper.make_node("Identity", ["x"], ["y"])],
                [info("x", TensorProto.COMPLEX64, [3])],
                [info("y", TensorProto.COMPLEX64, [3])],
            )
        ),
    },
)
def test_reference_evaluator_is_the_fallback(model: onnx.ModelProto) -> None:
    with pytest.raises(EvaluationError):
        LoadedModel(model.SerializeToString())
    assert check(model, model, exact=True).backend == "onnx.reference"


@pytest.mark.parametrize(
    "dtype", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.INT4], ids=["bfloat16", "float8", "int4"]
)
def test_types_without_numpy_dtype_are_supported(dtype: int) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Cast", ["y"], ["z"], to=dtype)]
    model = model_of(nodes, [info("x", dtype, ["N", 3])], [info("y", TensorProto.FLOAT), info("z", dtype)], 21)
    assert check(model, model, exact=True).backend == "onnxruntime"
    other = model_of(nodes, [info("x", dtype, ["N", 3])], [info("y", TensorProto.FLOAT), info("z", dtype)], 21)
    other.graph.node[1].input[0] = "n"
    other.graph.node.insert(1, helper.make_node("Neg", ["y"], ["n"]))
    with pytest.raises(VerificationError, match="z: "):
        check(model, other)


def test_strings_beside_extended_types_use_the_reference() -> None:
    nodes = [helper.make_node("Identity", ["s"], ["t"]), helper.make_node("Identity", ["x"], ["y"])]
    model = model_of(
        nodes,
        [info("s", TensorProto.STRING, [2]), info("x", TensorProto.BFLOAT16, [2])],
        [info("t", TensorProto.STRING, [2]), info("y", TensorProto.BFLOAT16, [2])],
    )
    assert check(model, model, exact=True).backend == "onnx.reference"


@each(
    ("op", "version"),
    [("Softmax(z)", 12), ("LogSoftmax(z)", 11), ("Hardmax(z)", 1), ("BatchNormalization(z, w, w, w, w)", 13)],
)
def test_operators_of_which_the_reference_is_wrong_are_refused(op: str, version: int) -> None:
    header = "g (float[2,3,4] x) => (float[2,3,4] y) { z = Identity(x)"
    model = load(f"{header} y = {op} }}", version, weights={"w": np.ones(3, np.float32)})
    assert run(LoadedModel(model.SerializeToString()))
    op_type = op.partition("(")[0]
    with pytest.raises(ModelLoadError, match=f"^onnx.reference is wrong for {op_type} of opset {version}$"):
        OnnxReference(model.SerializeToString())
    result = "() => (float[2,3,4] r)"
    branches = f"then_branch = t {result} {{ r = {op} }}, else_branch = e {result} {{ r = Neg(z) }}"
    text = f"g (float[2,3,4] x, bool c) => (float[2,3,4] y) {{ z = Identity(x) y = If(c) <{branches}> }}"
    with pytest.raises(ModelLoadError, match=op_type):
        OnnxReference(load(text, version, weights={"w": np.ones(3, np.float32)}).SerializeToString())


def run(session: LoadedModel | OnnxReference) -> list[Any]:
    return session.run(["y"], {"x": np.ones((2, 3, 4), np.float32)})


def test_reference_evaluator_finds_errors() -> None:
    text = "g (int16[2,2] x) => (int16[2,2] y) { z = Gemm(x, x) y = %s(z) }"
    with pytest.raises(VerificationError, match=r"y: .* elements differ"):
        check(load(text % "Abs"), load(text % "Neg"))


@each(
    "model",
    {
        "unknown operator": load("g (float[2] x) => (float[2] y) { y = NoSuchOp(x) }"),
        "unknown domain": model_of(
            [helper.make_node("Foo", ["x"], ["y"], domain="my")], [info("x", 1, [2])], [info("y", 1, [2])]
        ),
        "fails on all inputs": load("g (float[2] x) => (float[n] y) <int64[1] s = {7}> { y = Reshape(x, s) }"),
        "axis out of range": load("g (float[2] x, int64[1] i) => (y) { y = Gather<axis=5>(x, i) }"),
        "input without a type": model_of(
            [helper.make_node("Relu", ["x"], ["y"])], [onnx.ValueInfoProto(name="x")], [info("y", 1, [2])]
        ),
    },
)
def test_model_that_cannot_run_is_unverifiable(model: onnx.ModelProto) -> None:
    with pytest.raises(UnverifiableError, match="the original") as caught:
        oracle_of(model)
    assert "\n" not in str(caught.value)


def test_sequences() -> None:
    text = "g (seq(float[2]) s) => (seq(float[2]) y) { y = %s }"
    joined = load("g (seq(float[2]) s) => (float[k] y) { y = ConcatFromSequence<axis=0>(s) }")
    assert check(joined, joined).input_sets
    kept, erased = load(text % "Identity(s)"), load(text % "SequenceErase(s)")
    assert check(kept, kept, exact=True).input_sets
    with pytest.raises(VerificationError, match="2 entries became 1"):
        check(kept, erased)


def test_an_optional_input() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    node = helper.make_node("OptionalHasElement", ["o"], ["y"])
    model = model_of([node], [helper.make_value_info("o", kind)], [info("y", TensorProto.BOOL, [])], 18)
    assert check(model, model).input_sets


MAP = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))


@cases(
    "kind",
    {
        "map": MAP,
        "sparse": helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]),
        "optional sequence": (
            helper.make_optional_type_proto(
                helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
            )
        ),
    },
)
def test_inputs_that_cannot_be_generated_are_unverifiable(kind: onnx.TypeProto) -> None:
    node = helper.make_node("Identity", ["m"], ["y"])
    model = model_of([node], [helper.make_value_info("m", kind)], [helper.make_value_info("y", kind)])
    with pytest.raises(UnverifiableError, match=r"input m of the original \(.*\) cannot be generated|cannot be run"):
        check(model, model)


def classifier(scale: float = 1.0) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Mul", ["m", "k"], ["a"]),
        helper.make_node("Softmax", ["a"], ["s"]),
        helper.make_node("ZipMap", ["s"], ["y"], domain=ML, classlabels_int64s=list(range(7))),
    ]
    out = helper.make_value_info("y", helper.make_sequence_type_proto(MAP))
    weights = {"w": rng.standard_normal((64, 7)).astype(np.float32), "k": np.float32(scale)}
    return model_of(nodes, [info("x", 1, ["N", 64])], [out], **weights)


def test_float32_in_maps_may_round() -> None:
    with pytest.raises(VerificationError, match="y: "):
        check(classifier(), classifier(1.1))
    rounded = classifier()
    rounded.graph.node[1].op_type = "Div"
    rounded.graph.node[1].input[1] = "i"
    rounded.graph.initializer.append(numpy_helper.from_array(np.float32(1) / np.float32(0.7), "i"))
    before = classifier(0.7)
    verdict = check(before, rounded)
    assert 0 < verdict.differences["y"].error < 1e-4


@cases(
    ("body", "want"),
    {
        "never": (
            "z = Sub(x, x) y = Div(x, z)",
            ["y is not finite on any inputs, so only its non-finite elements were compared"],
        ),
        "on some": ("y = Log(x)", []),
        "where a row is above zero": ("l = Log(x) y = ReduceMean<axes=[1]>(l)", []),
        "integers": ("y = Shape(x)", []),
    },
)
def test_never_finite_outputs_are_noted(body: str, want: list[str]) -> None:
    assert oracle_of(load(f"g (float[N,4] x) => (y) {{ {body} }}")).notes == want


def test_comparison_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    oracle = oracle_of(model)
    whole = oracle.compare(model.SerializeToString())
    monkeypatch.setattr("passwright.core.verify.oracle.COMPARISON_SECONDS", {"default": -1.0})
    verdict = oracle.compare(model.SerializeToString())
    count = len(whole.input_sets) + len(whole.nonfinite_input_sets)
    assert verdict.notes == (*whole.notes, f"{count - 1} of {count} input sets were skipped after -1 s")
    assert len(verdict.input_sets) == 1


def test_regions_are_compared_on_sets_of_each_kind_that_are_affordable(monkeypatch: pytest.MonkeyPatch) -> None:
    original = load("g (float[N] x) => (float[N] y) { n = Neg(x) a = Abs(n) y = Relu(a) }")
    result = load("g (float[N] x) => (float[N] y) { a = Abs(x) y = Relu(a) }").SerializeToString()
    oracle = oracle_of(original)
    whole = oracle.compare(result, ComparisonOptions(compare_regions=True))
    monkeypatch.setattr("passwright.core.verify.oracle.REGION_SECONDS", {"default": 0.0})
    compared: list[str] = []
    first_difference = ChangedRegions.first_difference
    monkeypatch.setattr(
        ChangedRegions,
        "first_difference",
        lambda regions, sets: compared.extend(s.kind for s in sets) or first_difference(regions, sets),
    )
    verdict = oracle.compare(result, ComparisonOptions(compare_regions=True))
    usual = sum(a.input_set.is_finite and 0 not in a.input_set.sizes.values() for a in oracle.runs)
    note = f"changed regions were compared on 2 of {usual} input sets: runs take too long"
    assert verdict.notes == (*whole.notes, note)
    assert verdict.changed_regions == whole.changed_regions > 0
    assert len(set(compared)) == len(compared) == 2


def test_lack_of_memory_is_a_fault_of_the_rewritten_model_only_where_values_are_small() -> None:
    class Exhausted(LoadedModel):
        def run(self, outputs: Any, feeds: Any, timeout: float | None = None) -> list[Any]:
            if feeds["x"].size > least:
                raise MemoryExhausted("onnxruntime ran out of memory")
            return super().run(outputs, feeds, timeout)

    model, least = load("g (float[N] x) => (float[N] y) { y = Neg(x) }"), 10
    oracle = oracle_of(model)
    spec = oracle.spec
    oracle.spec = replace(spec, memory=1 << 30)
    failure = oracle.compare(model.SerializeToString(), backend=Exhausted).failure
    assert failure is not None
    assert failure.reason == "onnxruntime ran out of memory"
    oracle.spec = replace(spec, memory=1 << 6)
    verdict = oracle.compare(model.SerializeToString(), backend=Exhausted)
    assert verdict.failure is None
    assert 0 < len(verdict.input_sets) < len(oracle.runs)
    assert any("ran out of memory for the values of both models on" in note for note in verdict.notes)
    least = 0
    on_first = ComparisonOptions(input_sets=[oracle.runs[0].input_set])
    with pytest.raises(UnverifiableError, match="ran out of memory for the values of both models on"):
        oracle.compare(model.SerializeToString(), on_first, backend=Exhausted)
