"""Models with random ops: dependent outputs, and comparison of their values with fixed seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from passwright.core import from_onnx
from passwright.core.errors import VerificationError
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.seeded_session import add_seeds, random_outputs
from rewriting import each, load, oracle_of

from passwright import optimize

if TYPE_CHECKING:
    from passwright.core.ort.backends import Loadable
    from passwright.core.verify.verdict import Verdict

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = Path(__file__).parent.parent / "golden_models"
NOISY = "g (float[N,8] x) => (y, z) { r = RandomNormalLike(x) y = %s(r) z = Relu(x) }"
IF = """g (bool c, float[2] x) => (float[2] y, float[2] z) {
    %s
    y = If(c) <then_branch = t () => (float[2] a) { a = %s(%s) }, else_branch = e () => (float[2] b) { b = Neg(x) }>
    z = Relu(x)
}"""


def random_of(model: onnx.ModelProto) -> list[str]:
    return sorted(random_outputs(from_onnx(model, inline=True).graph))


def check(before: onnx.ModelProto, after: onnx.ModelProto, original: Loadable | None = None) -> Verdict:
    return oracle_of(before, original).check(after.SerializeToString(), ComparisonOptions(exact=True))


@each(
    ("text", "want"),
    {
        "none": ("g (float[2] x) => (float[2] y) { y = Relu(x) }", []),
        "downstream": ("g (float[2] x) => (y, s) { y = RandomNormalLike(x) s = Shape(y) }", ["s", "y"]),
        "Dropout in training": ("g (float[2] x) => (float[2] y) <bool t = {1}> { y = Dropout(x, , t) }", ["y"]),
        "Dropout in inference": ("g (float[2] x) => (float[2] y) { y = Dropout(x) }", []),
        "custom domain": ("g (float[2] x) => (float[2] y) { y = my.Op(x) }", []),
        "inside a branch": (IF % ("", "RandomNormalLike", "x"), ["y"]),
        "captured by a branch": (IF % ("r = RandomNormalLike(x)", "Neg", "r"), ["y"]),
    },
)
def test_random_outputs(text: str, want: list[str]) -> None:
    assert random_of(load(text)) == want


PAIR = "g (float[N,4] x) => (y) { a = RandomNormalLike(x) b = %s y = %s }"
LOOP = """g (float[4] x, int64 n, bool c) => (float[4] y) {
    y = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s) => (bool e, float[4] t) {
        e = Identity(d) p = RandomNormalLike(s) q = %s r = Sub(p, q) t = Add(s, r)
    }>
}"""
LIKE = "RandomNormalLike(x)"
TWO = "g (float[N,4] x) => (a, b) { a = RandomNormalLike(x) b = %s }"

INTEGERS = "g (int16[2,2] x) => (y, z) { a = RandomNormal<shape=[4]>() %s z = Gemm(x, x) }"


@each(
    ("before", "after"),
    {
        "in a difference": (PAIR % (LIKE, "Sub(a, b)"), PAIR % ("Identity(a)", "Sub(a, b)")),
        "joined": (PAIR % (LIKE, "Concat<axis=0>(a, b)"), PAIR % ("Identity(a)", "Concat<axis=0>(a, b)")),
        "two outputs": (TWO % LIKE, TWO % "Identity(a)"),
        "in the body of a Loop": (LOOP % "RandomNormalLike(s)", LOOP % "Identity(p)"),
        "in the reference evaluator": (
            INTEGERS % "b = RandomNormal<shape=[4]>() y = Sub(a, b)", INTEGERS % "y = Sub(a, a)"),
    },
)  # fmt: skip
def test_separate_random_ops_differ(before: str, after: str) -> None:
    with pytest.raises(VerificationError, match="elements differ"):
        check(load(before), load(after))
    assert check(load(before), load(before)).random == ()


@each(
    "op",
    {
        "RandomNormal": "RandomNormal<shape=[9]>()",
        "RandomUniform": "RandomUniform<shape=[9]>()",
        "RandomNormalLike": "RandomNormalLike(x)",
        "RandomUniformLike": "RandomUniformLike(x)",
        "Bernoulli": "Bernoulli(h)",
        "Dropout": "Dropout(x, s, t)",
        "Multinomial": "Multinomial<sample_size=9>(l)",
    },
)
def test_random_ops_are_seeded_independently_of_position(op: str) -> None:
    text = "g (float[9] x) => (y) <bool t = {1}, float s = {0.5}> { %s h = Sigmoid(x) r = %s y = Identity(r) }"
    weights = {"l": np.zeros((1, 4), np.float32)}
    dead = " ".join(f"d{n} = Relu(x)" for n in range(5))
    before, after = (load(text % (other, op), 20, weights) for other in (dead, ""))
    assert check(before, after).random == ()
    wrong = load((text % ("", op)).replace("y = Identity(r)", "c = Cast<to=1>(r) e = Neg(c) y = CastLike(e, r)"), 20)
    wrong.graph.initializer.append(numpy_helper.from_array(weights["l"], "l"))
    with pytest.raises(VerificationError, match="y: "):
        check(before, wrong)


def test_types_and_other_outputs_are_compared() -> None:
    with pytest.raises(VerificationError, match="y: "):
        check(load(NOISY % "Abs"), load(NOISY.replace("y = %s(r)", "y = Size(r)")))
    with pytest.raises(VerificationError, match="z: "):
        check(load(NOISY % "Abs"), load((NOISY % "Abs").replace("z = Relu(x)", "z = Abs(x)")))


@each(
    ("before", "after"),
    {
        "an Identity less": ("r = RandomNormalLike(x) y = Identity(r)", "y = RandomNormalLike(x)"),
        "a seed of its own": (
            "r = RandomNormalLike<seed=7.0>(x) y = Neg(r)",
            "q = RandomNormalLike<seed=7.0>(x) y = Neg(q)",
        ),
        "one less that nothing reads": ("d = RandomNormalLike(x) y = RandomNormalLike(x)", "y = RandomNormalLike(x)"),
        "a numbered copy": ("r = RandomNormalLike(x) y = Neg(r)", "r_pw3 = RandomNormalLike(x) y = Neg(r_pw3)"),
    },
)
def test_random_ops_keep_their_seeds(before: str, after: str) -> None:
    models = (load(f"g (float[4] x) => (y) {{ {body} }}") for body in (before, after))
    assert check(*models).random == ()


INNER = IF % ("", "RandomNormalLike", "x")
SEVERAL = "g (float[4] x) => (y, z) { r = RandomNormalLike(x) s = RandomNormalLike(x) y = Neg(r) z = Neg(s) }"


@each(
    ("before", "after"),
    {
        "another name": (SEVERAL, SEVERAL.replace("r =", "q =").replace("(r)", "(q)")),
        "another name in a branch": (
            INNER,
            INNER.replace("a = Random", "k = Random").replace("(x) }, e", "(x) a = Abs(k) }, e"),
        ),
    },
)
def test_new_random_op_is_rejected(before: str, after: str) -> None:
    with pytest.raises(VerificationError, match="y: comes from a random operator that the original does not have"):
        check(load(before), load(after))


def test_runs_are_repeatable() -> None:
    model = load("g (float[N] x) => (y) { y = RandomNormalLike(x) }")
    oracle = oracle_of(model)
    same = [a.outputs["y"] for a in oracle.runs if a.input_set.sizes["N"] == 2]
    assert len(same) > 1
    assert all(np.array_equal(same[0], other) for other in same)


FUNCTIONS = """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
g (float[4] x) => (y, z) { y = my.f(x) z = my.f(%s) }
<domain: "my", opset_import: ["" : 20]> f (a) => (b) { r = RandomNormalLike(a) b = Add(a, r) }"""


def test_functions_that_are_inlined() -> None:
    before = parser.parse_model(FUNCTIONS % "x")
    assert random_of(before) == ["y", "z"]
    after = optimize(before, verify=False).model
    assert not after.functions
    assert check(before, after).random == ()
    with pytest.raises(VerificationError, match="z: "):
        check(before, optimize(parser.parse_model(FUNCTIONS % "y"), verify=False).model)


def test_an_operator_that_the_opset_lacks() -> None:
    """onnx.reference runs it, other than onnxruntime."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[9] x) => (float[9] y) { y = Bernoulli(x) }'
    )
    assert random_of(model) == ["y"]
    assert check(model, model).random == ("y",)


def test_external_weights_stay_external(tmp_path: Path) -> None:
    text = "g (float[4] x) => (y) { r = RandomNormalLike(x) a = Mul(r, w) y = Add(a, x) }"
    model = load(text, weights={"w": np.arange(1200, dtype=np.float32).reshape(300, 4)})
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    model = onnx.load(path)
    assert check(model, model, path).random == ()
    assert not add_seeds(path).model.message.graph.initializer[0].raw_data
    other = onnx.ModelProto.FromString(model.SerializeToString())
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((300, 4), np.float32), "w"))
    with pytest.raises(VerificationError, match="y: "):
        check(model, other, path)


@each("name", ["bert_training", "mlp_dropout", "mlp_dropout_zero", "script_branching"])
def test_golden_models(name: str) -> None:
    verdict = optimize(GOLDEN / f"{name}.onnx").report.verification
    assert verdict is not None
    assert verdict.random == ()
