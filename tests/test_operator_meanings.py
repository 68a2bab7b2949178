"""Meanings of operators on each type of arrays, against onnxruntime, on node cases of ONNX at each opset."""

import itertools
from collections.abc import Callable, Collection, Mapping
from functools import partial
from locale import getencoding
from typing import Any

import numpy as np
import onnx
import pytest
from node_cases import RANDOM, BackendCase, backend_cases, model_outputs
from onnx import defs, helper, numpy_helper
from opset_cases import at_older_opsets, opset_of
from passwright.core import Graph, from_onnx
from passwright.core.errors import EvaluationError
from passwright.core.ir.expressions import as_integers
from passwright.core.operators.effects import is_nondeterministic
from passwright.core.operators.table import DOMAINS, find_meaning
from passwright.core.ort.backends import LoadedModel, OnnxReference
from passwright.core.ort.kernels import highest_opset_of_onnxruntime
from passwright.core.proof.obligation import Fragment, NotApplicable
from passwright.core.proof.smt_evaluation import TermEvaluation, TermTensor
from passwright.core.proof.smt_terms import Arithmetic, z3
from passwright.core.proof.smt_worker import number_of
from passwright.core.verify.noise import NOISE_MULTIPLE, float_info
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64, evaluate_with_ordered_sums
from passwright.passes.folding.fold_constants import evaluate_arrays
from rewriting import each, load
from tiers import slow_unless

MAX_EPSILONS = 32  # of the type in the model, at the largest magnitude
DIFFERENT = {
    "test_dynamicquantizelinear": "-2.5 lies halfway between two codes",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal": "it has the lowest float for -inf",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal": "it has the lowest float for -inf",
}


def difference(expected: Any, actual: Any, epsilons: int = MAX_EPSILONS) -> str:
    """How a float64 value differs from onnxruntime's by more than rounding."""
    if isinstance(expected, list | dict) or expected is None:
        if type(expected) is not type(actual) or (expected is not None and len(expected) != len(actual)):
            return f"{type(expected)} became {type(actual)}"
        keys = range(len(expected)) if isinstance(expected, list) else expected or ()
        return next(filter(None, (difference(expected[k], actual[k], epsilons) for k in keys)), "")
    o, d = np.asarray(expected), np.asarray(actual)
    if o.shape != d.shape:
        return f"{list(o.shape)} became {list(d.shape)}"
    if o.dtype.kind != "f" and o.dtype.name != "bfloat16":
        is_same = o.dtype.kind in "OUS" or o.dtype == d.dtype
        return "" if is_same and (o == d).all() else f"{np.count_nonzero(np.asarray(o != d))} differ"
    if d.dtype != np.float64:
        return f"it is {d.dtype}"
    x = o.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(d)
    x_finite, d_finite = x[finite], d[finite]
    if not ((x == d) | (np.isnan(x) & np.isnan(d)) | finite).all():
        return "not finite alike"
    scale, error = (float(v.max(initial=0)) for v in (np.abs(x_finite), np.abs(x_finite - d_finite)))
    allowed = epsilons * float(float_info(o.dtype).eps) * max(scale, 1e-3)
    return f"off by {error:.3g} of {scale:.3g}" if error > allowed else ""


def in_float64(case: BackendCase, names: list[str]) -> dict[str, Any]:
    """All outputs. Raises EvaluationError."""
    return {name: v.value for name, v in evaluate_in_float64(case.model, case.feeds, names).items()}


def in_ordered_sums(case: BackendCase, names: list[str]) -> dict[str, Any]:
    """All outputs, with sums added from their ends. Raises EvaluationError."""
    return dict(evaluate_with_ordered_sums(case.model, case.feeds, names, 1))


def with_constants(case: BackendCase, kept: Collection[str] = ()) -> Graph:
    """The graph of a case whose feeds are constants, but for those `kept`."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = [i for i in model.graph.input if i.name in kept or i.name not in case.feeds]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in case.feeds.items() if n not in kept)
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return from_onnx(model).graph


def in_own_types(case: BackendCase, names: list[str]) -> dict[str, Any]:
    """The outputs that folding computes, as floats of 64 bits where they have the bits of their type."""
    if not all(isinstance(a, np.ndarray) for a in case.feeds.values()):
        return {}
    graph = with_constants(case)
    found, _ = evaluate_arrays(graph.sorted_ops(), graph.outputs, 1 << 20)
    return {v.name: tensor.array for v, tensor in found.items() if v.name in names}


def in_symbols(case: BackendCase, names: list[str]) -> dict[str, Any]:
    """The outputs with tracked elements, where the elements of the inputs are numbers."""
    if not all(isinstance(a, np.ndarray) for a in case.feeds.values()):
        return {}
    tracked = {
        n for n, a in case.feeds.items() if a.dtype in (np.int64, np.int32, np.bool_) and a.ndim < 2 and a.size < 9
    }
    graph = with_constants(case, tracked)
    for v in graph.inputs:
        v.elements = tuple(map(int, case.feeds[v.name].reshape(-1).tolist()))
    known = {v.name: v.known_elements for v in graph.outputs if v.name in names}
    numbers = {name: as_integers(found) for name, found in known.items() if found is not None}
    return {name: np.array(found) for name, found in numbers.items() if found is not None}


MAX_TERMS = 12  # elements of an input


def in_terms(case: BackendCase, names: list[str]) -> dict[str, Any]:
    """The outputs whose terms of z3 simplify to numbers, of floats bit for bit."""
    if any(not isinstance(a, np.ndarray) or a.dtype.kind not in "biuf" for a in case.feeds.values()):
        return {}
    evaluation = TermEvaluation(Arithmetic(over_reals=False))
    try:
        given = {n: evaluation.constant(a) for n, a in case.feeds.items() if a.size <= MAX_TERMS}
        floats = {n: TermTensor(v.dtype, v.elements) for n, v in given.items() if case.feeds[n].dtype.kind == "f"}
        found = evaluation.run(Fragment(case.model), given | floats)
    except NotApplicable:
        return {}
    numbers: dict[str, Any] = {}
    for name, v in found.items():
        terms = [z3.simplify(e.term) for e in v.elements.reshape(-1)] if isinstance(v, TermTensor) else []
        if name in names and terms and all(map(is_number, terms)):
            dtype = helper.tensor_dtype_to_np_dtype(v.dtype)
            numbers[name] = np.array([number_of(x, dtype) for x in terms], dtype).reshape(v.elements.shape)
    return numbers


def is_number(term: Any) -> bool:
    return z3.is_true(term) or z3.is_false(term) or z3.is_bv_value(term) or z3.is_fp_value(term)


def number_difference(expected: Any, actual: Any) -> str:
    """How numbers differ from onnxruntime's; all NaN are one."""
    if expected.shape != actual.shape:
        return f"{expected.shape} became {actual.shape}"
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual) if expected.dtype.kind == "f" else False)
    return "" if np.all(same) else f"{expected} became {actual}"


def exact_difference(expected: Any, actual: Any) -> str:
    """How an array differs from onnxruntime's in a bit."""
    same = expected.dtype == actual.dtype and expected.shape == actual.shape
    if expected.dtype.hasobject:
        return "" if expected.tolist() == actual.tolist() else "it differs"
    return "" if same and expected.tobytes() == actual.tobytes() else f"{expected} became {actual}"


def integer_difference(expected: Any, actual: Any) -> str:
    """How integers differ from onnxruntime's."""
    return "" if expected.reshape(-1).tolist() == actual.reshape(-1).tolist() else f"{expected} became {actual}"


ARRAY_TYPES: Mapping[str, tuple[Callable[[BackendCase, list[str]], dict[str, Any]], Callable[[Any, Any], str], int]] = {
    "float64": (in_float64, difference, 900),
    "ordered sums": (in_ordered_sums, partial(difference, epsilons=MAX_EPSILONS * NOISE_MULTIPLE), 900),
    "own types": (in_own_types, exact_difference, 150),
    "symbols": (in_symbols, integer_difference, 15),
    "terms": (in_terms, number_difference, 100),
}
"""The outputs by type of arrays, their difference from onnxruntime's, and of how many cases there are some."""


def problem(case: BackendCase, want: Mapping[str, Any], arrays: str = "float64") -> str | None:
    """The problem of the values of a case, beside onnxruntime's; None where there are none."""
    evaluate, differs, _ = ARRAY_TYPES[arrays]
    try:
        got = evaluate(case, list(want))
    except EvaluationError as e:
        return str(e)
    found = [f"{n}: {text}" for n in got if (text := differs(want[n], got[n]))]
    return (found[0] if found else "") if got else None


X = "(float[4, 6] x)"
WITHOUT_NODE_CASES = [
    ("GlobalLpPool<p = 3>(x)", "(float[1, 2, 3, 4] x)"),
    ("MaxRoiPool<pooled_shape = [2, 2], spatial_scale = 0.5>(x, rois)", "(float[2, 2, 8, 8] x, float[3, 5] rois)"),
    ("ConvTranspose<strides = [2]>(e, w)", "(float[2, 3, 4] x, float[3, 2, 4] w)",
     "i = Constant<value_ints = [0]>() o = Constant<value_ints = [2]>() e = Slice(x, i, i, o)"),
    ("Dropout(x, r, t)", X, "r = Constant<value_float = 0.0>() n = Constant<value_int = 1>() t = Cast<to = 9>(n)"),
    ("SequenceAt(s, i)", X, "t = Neg(x) s = SequenceConstruct(x, t) i = Constant<value_int = -1>()"),
    ("SequenceErase(s)", X, "t = Neg(x) s = SequenceConstruct(x, t)"),
    ("ConcatFromSequence<axis = 1, new_axis = 1>(s)", X, "t = Neg(x) s = SequenceConstruct(x, t)"),
    ("ml.LinearRegressor<coefficients = [0.3, -0.1, 0.7, 0.2, 0.9, -2.0], intercepts = [0.4]>(x)", X),
    ('ml.Normalizer<norm = "L2">(x)', X),
    ("ml.Scaler<offset = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], scale = [1.1, 2.0, 3.0, 0.3, 0.7, 5.0]>(x)", X),
    ("ml.Imputer<imputed_value_floats = [0.5], replaced_value_float = 0.0>(r)", X, "r = Relu(x)"),
    ("ml.OneHotEncoder<cats_int64s = [0, 1, 3]>(i)", X, "i = ArgMax<axis = 1, keepdims = 0>(x)"),
    ("ml.FeatureVectorizer<inputdimensions = [6, 6]>(x, t)", X, "t = Neg(x)"),
    ("ml.ZipMap<classlabels_int64s = [1, 2, 3, 4, 5, 6]>(x)", X),
    ('ml.CategoryMapper<cats_strings = ["a", "b"], cats_int64s = [0, 1]>(i)', X, "i = ArgMax<axis = 1>(x)"),
    ("Squeeze(x, n)", "(float[1, 4, 1] x)", "n = Constant<value = int64[0] {}>()"),
    ("ms.Gelu(x)", X),
    ("ms.FastGelu(x)", X),
    ("ms.QuickGelu<alpha = 1.5>(x)", X),
    ("ms.BiasGelu(x, b)", "(float[4, 6] x, float[6] b)"),
    ("ms.FusedMatMul<alpha = 0.5, transA = 1>(x, w)", "(float[2, 4, 6] x, float[2, 4, 3] w)"),
    ("ms.FusedMatMul<transBatchA = 1, transBatchB = 1, transB = 1>(x, w)", "(float[4, 2, 6] x, float[3, 2, 6] w)"),
    ('ms.FusedGemm<activation = "LeakyRelu", activation_alpha = 0.2, transB = 1>(x, w, b)',
     "(float[4, 6] x, float[3, 6] w, float[3] b)"),
    ('ms.FusedConv<activation = "Relu", pads = [1, 1, 1, 1]>(x, w, b)',
     "(float[1, 2, 5, 5] x, float[3, 2, 3, 3] w, float[3] b)"),
    ("ms.SkipLayerNormalization<epsilon = 0.001>(x, s, g, b)",
     "(float[2, 4, 6] x, float[2, 4, 6] s, float[6] g, float[6] b)"),
    ("ms.SkipSimplifiedLayerNormalization<epsilon = 0.1>(x, s, g)", "(float[2, 4, 6] x, float[2, 4, 6] s, float[6] g)"),
    ("SimplifiedLayerNormalization(x, g)", "(float[2, 4, 6] x, float[6] g)"),
    ("ms.MultiHeadAttention<num_heads = 2>(x, k, v, b)",
     "(float[2, 4, 6] x, float[2, 5, 6] k, float[2, 5, 6] v, float[18] b)"),
    ("ms.MultiHeadAttention<num_heads = 2, unidirectional = 1>(x, k, v)",
     "(float[2, 4, 6] x, float[2, 4, 6] k, float[2, 4, 6] v)"),
    ("ms.RotaryEmbedding<interleaved = 1>(x, p, c, s)", "(float[1, 2, 3, 8] x, float[9, 4] c, float[9, 4] s)",
     "p = Constant<value_ints = [4]>()"),
    *((f"ms.{name}(q, a, z, {rest}c, z)", X) for name, rest in (
        ("QLinearAdd", "r, b, z, "), ("QLinearMul", "r, b, z, "), ("QLinearSigmoid", ""), ("QLinearLeakyRelu", ""))),
    ("ms.QLinearConcat<axis = 0>(c, z, q, a, z, r, b, z)", X),
    ("ms.QLinearGlobalAveragePool(i, a, z, c, z)", X, "e = Constant<value_ints = [2, 2, 3, 2]>() i = Reshape(q, e)"),
    ("ms.QLinearAveragePool<kernel_shape = [3, 2]>(i, a, z, c, z)", X,
     "e = Constant<value_ints = [1, 2, 4, 3]>() i = Reshape(q, e)"),
    ("ms.MatMulIntegerToFloat(q, t, a, b, z, z, w)", "(float[4, 6] x, float[4] w)", "t = Transpose(r)"),
]  # fmt: skip
QUANTIZED = (
    "a = Constant<value_float = 0.02>() b = Constant<value_float = 0.03>() c = Constant<value_float = 0.05>() "
    "z = Constant<value = uint8 {100}>() q = QuantizeLinear(x, a, z) n = Neg(x) r = QuantizeLinear(n, b, z) "
)


@each("row", WITHOUT_NODE_CASES)
def test_operators_without_node_cases_agree_with_onnxruntime(row: tuple[str, ...]) -> None:
    call, head, before = (*row, "")[:3]
    body = f"{QUANTIZED if '(q' in call + before or 'z, q' in call else ''}{before} y = {call}"
    body = body.replace("ml.", "ai.onnx.ml.").replace("ms.", "com.microsoft.")
    domains = '"": 17, "ai.onnx.ml": 3, "com.microsoft": 1'
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{domains}]> g {head} => (y) {{ {body} }}")
    rng = np.random.default_rng(0)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    feeds: dict[str, Any] = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    if "rois" in feeds:
        feeds["rois"] = np.array([[0, 0, 0, 9, 9], [1, 2, 3, 12, 7], [1, 5, 5, 5, 5]], np.float32)
    want = model_outputs(model, feeds)
    assert want is not None
    assert problem(BackendCase(call, model, feeds), want) == ""


@pytest.mark.parametrize("at_older", slow_unless({False}, (False, True)), ids=["newest", "all"])
def test_node_cases_agree_with_onnxruntime(at_older: bool) -> None:
    """Each case that onnxruntime runs, perhaps at each opset of its operator too, on each type of arrays."""
    newest = highest_opset_of_onnxruntime()
    chosen = [c for n, c in backend_cases().items() if not n.startswith(RANDOM) and not n.endswith("_expanded")]
    problems: dict[str, dict[str, str]] = {arrays: {} for arrays in ARRAY_TYPES}
    for case in (c for both in chosen for c in (both, *(at_older_opsets(both) if at_older else ()))):
        want = model_outputs(case.model, case.feeds) if opset_of(case.model) <= newest else None
        for arrays in ARRAY_TYPES if want is not None else ():
            if (text := problem(case, want, arrays)) is not None:
                problems[arrays][case.name] = text
    wrong = {(arrays, name): text for arrays, found in problems.items() for name, text in found.items() if text}
    assert {pair: text for pair, text in wrong.items() if not is_different(*pair)} == {}
    assert {n for n in DIFFERENT if wrong.get(("float64", n))} == {*DIFFERENT}
    for arrays, (_, _, least) in ARRAY_TYPES.items():
        assert len(problems[arrays]) > (2 * least if at_older else least), arrays


def is_different(arrays: str, name: str) -> bool:
    """Whether a case, perhaps at an older opset, is known to differ."""
    return arrays in ("float64", "ordered sums") and name.startswith(tuple(DIFFERENT))


def test_operators_without_kernel_are_known() -> None:
    """All others have one, or are defined by functions, or random."""
    specs = [s for s in defs.get_all_schemas() if s.domain in DOMAINS and not s.deprecated]
    missing = {
        s.name
        for s in specs
        if find_meaning(s.domain, s.name) is None
        and not s.has_function
        and not s.has_context_dependent_function
        and not is_nondeterministic(s.name, s.domain, s.since_version)
    }
    assert missing == {
        "CastMap",  # from a map, whose values are not told apart from the keys
        "ImageDecoder",  # of bytes
    }


def test_operator_without_kernel_is_named() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 18, "com.example": 1]> g (float[2] x) => (y) { y = com.example.Twirl(x) }'
    )
    model = onnx.parser.parse_model(text)
    with pytest.raises(EvaluationError, match=r"com\.example\.Twirl has no float64 kernel"):
        evaluate_in_float64(model, {"x": np.zeros(2, np.float32)}, ["y"])


def test_batch_normalization_demands_a_scale_for_each_channel() -> None:
    """NumPy would broadcast a single channel, which onnxruntime refuses."""
    model = load(
        "g (float[2,N] x) => (float[2,M] y) { y = BatchNormalization(x, s, s, s, s) }",
        weights={"s": np.ones(3, np.float32)},
    )
    with pytest.raises(EvaluationError, match="3 scales for 1 channels"):
        evaluate_in_float64(model, {"x": np.ones((2, 1), np.float32)}, ["y"])


def test_results_may_have_other_names() -> None:
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    model = onnx.parser.parse_model(text)
    found = evaluate_in_float64(model, {"x": np.ones(2, np.float32)}, {"a": "y", "b": "x"})
    assert {name: v.value.tolist() for name, v in found.items()} == {"a": [-1.0, -1.0], "b": [1.0, 1.0]}


@each(("opset", "modes"), [(16, ("bilinear", "nearest", "bicubic")), (20, ("linear", "nearest"))])
def test_grid_sample(opset: int, modes: tuple[str, ...]) -> None:
    """The node cases have few positions beyond the borders, and none of a cubic mode; 3 dims since opset 20."""
    rng = np.random.default_rng(0)
    size = "N,2,A,B,C" if opset == 20 else "N,2,A,B"
    extents = (3, 4, 5) if opset == 20 else (5, 7)
    feeds = {
        "x": rng.standard_normal((2, 2, *extents)).astype(np.float32),
        "g": rng.uniform(-2.6, 2.6, (2, *extents, len(extents))).astype(np.float32),
    }
    for mode, padding, align in itertools.product(modes, ("zeros", "border", "reflection"), (0, 1)):
        op = f'GridSample<mode="{mode}", padding_mode="{padding}", align_corners={align}>(x, g)'
        grid = size.replace("2,", "") + f",{len(extents)}"
        model = load(f"g (float[{size}] x, float[{grid}] g) => (float[{size}] y) {{ y = {op} }}", opset)
        want = model_outputs(model, feeds)
        assert want is not None
        assert difference(want["y"], evaluate_in_float64(model, feeds, ["y"])["y"].value) == "", (mode, padding, align)


STRINGS = ["a\u00e9", "The cat", "the", "THE", "", "\u00df", "\u0130", "\u1f80", "x\u01c6Y"]


@each("locale", ["C", "C.UTF-8"])
@each("shape", ["n", "1,n"])
def test_strings_are_normalized_as_in_onnxruntime(shape: str, locale: str) -> None:
    before = getencoding()
    feeds = {"x": np.array(STRINGS, object).reshape((1, -1) if shape == "1,n" else -1)}
    words = ("", ', stopwords = ["the"]', ', stopwords = ["THE", "", "A\u00c9"]', ', stopwords = ["cat"]')
    for action, is_case_sensitive, stopwords in itertools.product(("NONE", "LOWER", "UPPER"), (0, 1), words):
        attributes = f'case_change_action = "{action}", is_case_sensitive = {is_case_sensitive}, locale = "{locale}"'
        node = f"StringNormalizer<{attributes}{stopwords}>(x)"
        model = load(f"g (string[{shape}] x) => (string[{shape.replace('n', 'm')}] y) {{ y = {node} }}", 17)
        expected, reference = (s(model.SerializeToString()).run(["y"], feeds)[0] for s in (LoadedModel, OnnxReference))
        for found in (reference, evaluate_in_float64(model, feeds, ["y"])["y"].value):
            assert found.tolist() == expected.tolist(), node
    assert getencoding() == before
