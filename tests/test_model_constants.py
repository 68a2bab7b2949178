"""Constants of models near which inputs are drawn: numbers, extents, words."""

import re
from typing import Any

import numpy as np
import pytest
from onnx import parser
from passwright.core.verify.model_constants import NO_CONSTANTS, ModelConstants, constants_of
from passwright.core.verify.word_generation import case_variants, delimited_words, matching_words
from rewriting import each, load

WEIGHTS: dict[str, Any] = {
    "three": np.float32(3.5),
    "c128": np.array([128]),
    "one": np.array([1]),
    "c40": np.int64(40),
    "shape": np.array([-1, 77]),
    "w": np.full((4, 4), 55, np.float32),
    "table": np.arange(90, dtype=np.float32),
    "i": np.array([3]),
    "inf": np.float32(np.inf),
}


def constants(
    body: str, opset: int = 17, head: str = "g (float[N,4] x, int64[N] n, string[N] s) => (y)"
) -> ModelConstants:
    return constants_of(load(f"{head} {{ {body} }}", opset, WEIGHTS).SerializeToString())


@pytest.mark.parametrize(
    ("body", "numbers", "sizes"),
    [
        pytest.param("y = Mul(x, three)", (3.5,), (), id="factor"),
        pytest.param("y = Mod(n, c40)", (40,), (40,), id="divisor"),
        pytest.param("y = Slice(x, one, c128, one)", (1, 128), (128,), id="ends of a slice"),
        pytest.param("a = Squeeze(c128) b = Cast<to=1>(a) y = Min(x, b)", (128,), (128,), id="behind other operators"),
        pytest.param("y = Reshape(x, shape)", (), (), id="shape"),
        pytest.param("y = MatMul(x, w)", (), (), id="weight"),
        pytest.param("y = Add(n, table)", (), (), id="too large"),
        pytest.param("y = Max(x, inf)", (), (), id="infinite"),
        pytest.param("k = Constant<value_int = 300>() y = Less(n, k)", (300,), (300,), id="Constant"),
        pytest.param("a = Cast<to=10>(x) y = Cast<to=1>(a)", (2048, 65504), (2048,), id="limits of a narrow type"),
        pytest.param("a, b, c, d, e = Split(n) y = Neg(b)", (5,), (5,), id="parts"),
        pytest.param("y = Elu<alpha=7.0>(x)", (7,), (7,), id="attribute"),
        pytest.param(
            "c = Greater(n, c40) d = ReduceMin<keepdims=0>(n) e = Cast<to=9>(d) y = If(e)"
            " <then_branch = t () => (p) { p = Add(n, i) }, else_branch = f () => (q) { q = Neg(n) }>",
            (3, 40),
            (3, 40),
            id="in a branch",
        ),
    ],
)
def test_numbers_and_sizes(body: str, numbers: tuple[float, ...], sizes: tuple[int, ...]) -> None:
    found = constants(body)
    assert found.numbers == numbers
    assert found.sizes == sizes


def test_deciding_operators_have_priority() -> None:
    sums = " ".join(f"k{n} = Constant<value_int = {n}>() a{n + 1} = Add(a{n}, k{n})" for n in range(100, 140))
    found = constants(f"a100 = Identity(n) {sums} k = Constant<value_int = 999>() y = Less(a140, k)")
    assert 999 in found.sizes
    assert len(found.sizes) == 6


def test_vocabulary_of_a_tree_and_of_an_encoder() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (string[N] s) => (float[N] y)'
        ' { e = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"], values_floats = [9.0, 8.0]>(s)'
        " y = ai.onnx.ml.Binarizer<threshold = 4.5>(e) }"
    )
    words = ("cat", "dog", "CAT", "DOG", "Cat", "Dog")
    assert constants_of(parser.parse_model(text).SerializeToString()) == ModelConstants((4.5,), (), words)


def test_difference_of_constants() -> None:
    assert ModelConstants((1, 2), (5,), ("a",)).without(ModelConstants((2,), (), ("a",))) == ModelConstants(
        (1,), (5,), ()
    )
    found = constants("y = Mod(n, c40)")
    assert found.without(found) == NO_CONSTANTS


def test_functions_are_read() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 17, "f" : 1]> g (float[N] x) => (float[N] y) { y = f.one <eps = 1.0>(x) }'
        ' <domain: "f", opset_import: ["" : 17]> one <eps> (x) => (y)'
        " { e = Constant <value_float: float = @eps>() k = Constant<value_float = 6.5>() a = Max(x, k) y = Add(a, e) }"
    )
    assert constants_of(parser.parse_model(text).SerializeToString()).numbers == (6.5,)


@each(
    "pattern",
    [
        "a",
        "[a-z]+@[a-z]+[.]com",
        r"\d{3}-\d{4}",
        "(foo|bar)+x?",
        r"[^a]\w*\s?",
        ".*cat.*",
        "^ab$",
        "(?:x|y){2}",
        "a*?b",
    ],
)
def test_words_that_match_a_pattern(pattern: str) -> None:
    words = matching_words(pattern)
    matches = {bool(re.fullmatch(pattern, w)) for w in words}
    assert True in matches
    assert matches == {True, False} or pattern == ".*cat.*"
    assert words == matching_words(pattern)


def test_a_pattern_that_is_not_read_has_no_words() -> None:
    assert matching_words("(") == []
    assert matching_words(r"\pN") == []


def test_delimited_words() -> None:
    assert {len(w.split(";")) for w in delimited_words(";")} >= {1, 2, 3, 4}
    assert any(w.split() != w.split(" ") for w in delimited_words(""))


def test_case_variants() -> None:
    assert case_variants(["the"]) == ["the", "THE", "The"]


def test_words_of_operators() -> None:
    def words(body: str) -> tuple[str, ...]:
        return constants(body, opset=20).words

    assert words('y = RegexFullMatch<pattern = "x">(s)')[0] == "x"
    assert ";" in words('y, z = StringSplit<delimiter = ";">(s)')
    assert "THE" in words('y = StringNormalizer<stopwords = ["the"]>(s)')


def test_segments_of_tensors_are_left_out() -> None:
    model = load("f (float[2] x) => (float[2] y) { c = Constant <value = float[2] {3, 4}> () y = Add (x, c) }", 17, {})
    model.graph.node[0].attribute[0].t.segment.end = 1  # which onnxruntime ignores, and onnx does not read
    assert constants_of(model.SerializeToString()) == NO_CONSTANTS
