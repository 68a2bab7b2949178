"""Judgements of regions by their float64 values: right rewrites, wrong ones, and those that saturate less."""

from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from node_cases import model_outputs
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64, evaluate_rounded
from passwright.core.verify.reference.judgement import Decision, Judgement, differ_by_rounding, judge, narrows
from rewriting import cases, each

Feeds = dict[str, np.ndarray]
MATRIX = "(float[N, M] x) => (float[N, M] y)"
IMAGE = "(float[N, C, H, W] x) => (float[N, C, P, Q] y)"
RIGHT, WRONG = Decision.RIGHT, Decision.WRONG


def judgement(before: str, after: str, feeds: Feeds, head: str = MATRIX, opset: int = 20) -> Judgement:
    """The judgement of the output y of two graphs."""
    texts = (f'<ir_version: 8, opset_import: ["": {opset}]> g {head} {{ {body} }}' for body in (before, after))
    models = [onnx.parser.parse_model(text) for text in texts]
    found = [model_outputs(m, feeds) for m in models]
    assert found[0] is not None
    assert found[1] is not None
    truths = [evaluate_in_float64(m, feeds, ["y"])["y"] for m in models]
    return judge(found[0]["y"], found[1]["y"], *truths)


def normal(*shape: int, scale: float = 1.0, offset: float = 0.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * scale + offset).astype(np.float32)


def cancelling(*shape: int, seed: int = 0) -> np.ndarray:
    """Large numbers, each followed by nearly its negative."""
    rng = np.random.default_rng(seed)
    big = rng.normal(size=shape) * 1e4
    big[..., 1::2] = -big[..., : big.shape[-1] - 1 : 2] + rng.normal(size=big[..., 1::2].shape) * 1e-2
    return big.astype(np.float32)


def constant(name: str, array: np.ndarray) -> str:
    """A constant in the text of a graph."""
    shape = ",".join(map(str, array.shape))
    return f"{name} = Constant<value = float[{shape}] {{{','.join(map(repr, array.reshape(-1).tolist()))}}}>()"


def matrices(seed: int) -> list[Feeds]:
    """Ordinary matrices, with cancellation, large, and so small that float64 loses them beside 1."""
    scaled = [normal(6, 64, scale=scale, seed=seed) for scale in (1, 30, 1e-30)]
    return [{"x": x} for x in (*scaled, cancelling(6, 64, seed=seed))]


def images(seed: int) -> list[Feeds]:
    return [{"x": x} for x in (normal(2, 3, 9, 9, seed=seed), cancelling(2, 3, 9, 9, seed=seed))]


class Pair(NamedTuple):
    """Two forms of a region, and inputs on which the second has to be judged."""

    before: str
    after: str
    head: str = MATRIX


NINTHS = constant("w", np.full((3, 1, 3, 3), 1 / 9, np.float32))
POOL = "AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>"
PADS = "p = Constant<value = int64[8] {0,0,1,1,0,0,1,1}>() s = Pad(x, p)"
TWO, THREE = (f"{n} = Constant<value_float = {v}>()" for n, v in (("a", 0.3), ("b", 0.7)))
SUM = constant("c", np.array([0.3 + 0.7], np.float32))
SHIFT = "c = Constant<value_float = 12345.0>() s = Add(x, c) y = Sub(s, c)"
MEAN = "n = Constant<value_ints = [-1]>() m = ReduceMean(x, n)"
SQUARE = "q = Mul(x, x) e = ReduceMean(q, n)"
EPSILON = "z = Constant<value_float = 1e-5>()"
ROOT = "s = Add(v, z) r = Sqrt(s) y = Div(d, r)"
NORMALIZE = f"{MEAN} {EPSILON} d = Sub(x, m) dd = Mul(d, d) v = ReduceMean(dd, n) {ROOT}"
GELU = "h = Constant<value_float = 0.5>() o = Constant<value_float = 1.0>() k = Constant<value_float = 1.41421354>()"
GELU += " t = Div(x, k) f = Erf(t) g = Add(f, o) p = Mul(x, g) y = Mul(p, h)"
SAME = [
    pytest.param(Pair("y = GlobalAveragePool(x)", "n = Constant<value_ints = [2, 3]>() y = ReduceMean(x, n)", IMAGE),
                 id="average-of-image"),
    pytest.param(Pair(f"y = {POOL}(x)", f"{NINTHS} y = Conv<group = 3, pads = [1, 1, 1, 1]>(x, w)", IMAGE),
                 id="pool-as-convolution"),
    pytest.param(Pair(f"{PADS} y = AveragePool<kernel_shape = [3, 3]>(s)", f"y = {POOL}(x)", IMAGE), id="pad-and-pool"),
    pytest.param(Pair(f"{TWO} {THREE} s = Add(x, a) y = Add(s, b)", f"{SUM} y = Add(x, c)"), id="sum-of-constants"),
    pytest.param(Pair("s = Mul(x, x) y = Mul(s, x)", "e = Constant<value_float = 3.0>() y = Pow(x, e)"), id="cube"),
    pytest.param(Pair(SHIFT, "y = Identity(x)"), id="shift-and-back"),
    pytest.param(Pair(GELU, "y = Gelu(x)"), id="gelu"),
    pytest.param(Pair("a = Constant<value_float = 1.0>() s = Add(x, a) y = Sub(s, a)", "y = Identity(x)"), id="one"),
    pytest.param(Pair("n = Constant<value_ints = [1]>() y = ReduceSum(x, n)", "o = Constant<value = float[64, 1] {"
                      + ",".join(["1"] * 64) + "}>() y = MatMul(x, o)"), id="sum-as-product"),
    pytest.param(Pair(NORMALIZE, constant("g", np.ones(64, np.float32)) + " y = LayerNormalization(x, g)"), id="norm"),
]  # fmt: skip


@pytest.mark.parametrize("pair", SAME)
def test_right_rewrites_are_right(pair: Pair) -> None:
    feeds = [f for seed in range(4) for f in (images(seed) if pair.head == IMAGE else matrices(seed))]
    found = [judgement(pair.before, pair.after, f, pair.head) for f in feeds]
    assert [j for j in found if j.decision != RIGHT] == []


ONE_PASS = f"{MEAN} {EPSILON} d = Sub(x, m) {SQUARE} mm = Mul(m, m) v = Sub(e, mm) {ROOT}"
UNGUARDED = NORMALIZE.replace(EPSILON, "z = Constant<value_float = 0.0>()")
UNCOUNTED = POOL.replace("= 1>", "= 0>")
MASKED = "k = Constant<value_float = 10.0>() l = Constant<value_float = -3.4028234663852886e38>() b = Greater(x, k)"
MASKED += " y = Where(b, l, s)"
OVERFLOW = "k = Constant<value_float = 3.4e38>() s = Mul(x, k) y = Div(s, k)"
BEYOND = {"x": np.where(normal(6, 64, seed=1) > 2, np.float32(20), normal(6, 64))}


@each(
    ("pair", "feeds"),
    {
        "loses digits": (Pair("y = Identity(x)", SHIFT), {"x": normal(6, 64)}),
        "variance in one pass": (Pair(NORMALIZE, ONE_PASS), {"x": normal(6, 64, offset=100)}),
        "epsilon forgotten": (Pair(NORMALIZE, UNGUARDED), {"x": normal(6, 64)}),
        "constant cut short": (Pair(GELU, GELU.replace("1.41421354", "1.414")), {"x": normal(6, 64)}),
        "pads": (Pair(f"y = {POOL}(x)", f"y = {UNCOUNTED}(x)", IMAGE), images(0)[0]),
        "tanh": (Pair("y = Gelu(x)", 'y = Gelu<approximate = "tanh">(x)'), {"x": normal(6, 64)}),
        "other function": (Pair("y = Relu(x)", "s = Sigmoid(x) y = Mul(x, s)"), {"x": normal(6, 64)}),
        "another shape": (Pair("y = Relu(x)", "y = Transpose(x)"), {"x": normal(6, 64)}),
        "rounded otherwise": (Pair("y = Floor(x)", "y = Round(x)"), {"x": normal(6, 64)}),
        "beside a sentinel": (Pair(f"s = Exp(x) {MASKED}", f"s = Sub(x, x) {MASKED}"), BEYOND),
        "overflows": (Pair("y = Identity(x)", OVERFLOW), {"x": normal(6, 64)}),
    },
)  # fmt: skip
def test_wrong_rewrites_are_wrong(pair: Pair, feeds: Feeds) -> None:
    assert judgement(pair.before, pair.after, feeds, pair.head).decision == WRONG


def adjacent(*shape: int, seed: int = 0) -> np.ndarray:
    """Two numbers, each moved by some ulps: sums of them round in one direction for long."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-256, 257, shape) * np.finfo(np.float32).eps
    return (rng.choice(rng.normal(size=2) * 2, shape) * (1 + steps)).astype(np.float32)


BLOCKS = "(float[a, b, c, d, e] x) => (float[f, g, h, i, j] y)"
AXES = " ".join(f"a{n} = Constant<value_ints = [{n.replace('_', ',')}]>()" for n in ("1", "4", "1_4", "3"))
HALVES_OF_ROWS = f"{AXES} p, q = Split<axis = 4, num_outputs = 2>(x) s = ReduceSum(p, a4) t = ReduceSum(q, a4)"
EINSUM = f'{AXES} o = Einsum<equation = "abcde->acd">(x) y = Unsqueeze(o, a1_4)'
CUMULATED = (
    "i = Constant<value = int32 {4}>() c = CumSum(x, i) l = Constant<value_ints = [-1]>() y = Gather<axis = 4>(c, l)"
)


def of_one_image(body: str) -> str:
    """A body on an image i of one channel, which holds all that `x` does."""
    return f"{AXES} h = Constant<value_ints = [1, 1, 1, -1]>() i = Reshape(x, h) {body}"


@each(
    ("before", "after"),
    {
        **{f"{n} of {n}": (f"{AXES} s = {n}(x, a1) y = {n}(s, a4)", f"{AXES} y = {n}(x, a1_4)")
           for n in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp")},
        "split": (f"{HALVES_OF_ROWS} y = Add(s, t)", f"{AXES} y = ReduceSum(x, a4)"),
        "cumulated": (f"{AXES} y = ReduceSum(x, a4)", CUMULATED),
        "of cumulated": (CUMULATED, f"{AXES} y = ReduceSum(x, a4)"),
        "product": (f"{AXES} s = ReduceSum(x, a1) y = ReduceSumSquare(s, a4)",
                    f"{AXES} s = ReduceSum(x, a1) u = Transpose<perm = [0, 1, 2, 4, 3]>(s) y = MatMul(s, u)"),
        "einsum": (f"{AXES} s = ReduceSum(x, a1) y = ReduceSum(s, a4)", EINSUM),
        "of einsum": (EINSUM, f"{AXES} y = ReduceSum(x, a1_4)"),
        "image": (of_one_image("g = ReduceMean(i, a3) l = Constant<value_ints = [1,1,1,1,1]>() y = Reshape(g, l)"),
                  of_one_image("g = GlobalAveragePool(i) l = Constant<value_ints = [1,1,1,1,1]>() y = Reshape(g, l)")),
    },
)  # fmt: skip
def test_sums_may_be_added_in_any_order(before: str, after: str) -> None:
    for seed in range(3):
        found = judgement(before, after, {"x": adjacent(1, 64, 1, 1, 640, seed=seed)}, BLOCKS)
        assert found.decision == RIGHT, (seed, found)


@each(
    "after",
    {
        "digits lost": "k = Constant<value_float = 2048.0>() t = Add(x, k) u = Sub(t, k) y = ReduceSum(u, a1_4)",
        "more lost in two sums": "k = Constant<value_float = 8192.0>() t = Add(x, k) u = Sub(t, k)"
                                 " s = ReduceSum(u, a1) y = ReduceSum(s, a4)",
        "half": "h = Cast<to = 10>(x) t = Cast<to = 1>(h) y = ReduceSum(t, a1_4)",
        "scaled": "k = Constant<value_float = 1.00001>() s = ReduceSum(x, a1_4) y = Mul(s, k)",
    },
)  # fmt: skip
def test_other_orders_of_sums_excuse_no_lost_digits(after: str) -> None:
    before = f"{AXES} s = ReduceSum(x, a1) y = ReduceSum(s, a4)"
    for seed in range(3):
        feeds = {"x": normal(2, 2, 2, 1, 150, seed=seed)}
        assert judgement(before, f"{AXES} {after}", feeds, BLOCKS).decision == WRONG, seed


def test_product_of_one_long_row_is_right() -> None:
    w, c = normal(25088, 3, scale=0.01, seed=1), normal(3, seed=2)
    head = "(float[1, 25088] x, float[25088, 3] w, float[3] c) => (float[1, 3] y)"
    for x in (normal(1, 25088), cancelling(1, 25088), np.abs(normal(1, 25088))):
        feeds = {"x": x, "w": w, "c": c}
        assert judgement("s = MatMul(x, w) y = Add(s, c)", "y = Gemm(x, w, c)", feeds, head).decision == RIGHT
        transposed = "t = Transpose(w) s = Gemm<transB = 1>(x, t) y = Add(c, s)"
        assert judgement("s = MatMul(x, w) y = Add(s, c)", transposed, feeds, head).decision == RIGHT


def test_folded_weights_may_round_where_a_product_cancels() -> None:
    head = "(float[1, 64] x) => (float[1, 1] y)"
    for seed in range(40):
        x, w, scale = normal(1, 64, seed=seed), normal(64, 1, seed=seed + 100), normal(1, 1, seed=seed + 200)
        x = (x - (x @ w) / (w.T @ w) * w.T).astype(np.float32)
        before = f"{constant('w', w)} {constant('s', scale)} p = MatMul(x, w) y = Mul(p, s)"
        assert judgement(before, f"{constant('w', w * scale)} y = MatMul(x, w)", {"x": x}, head).decision != WRONG


def _quantized(layers: int, product: str) -> str:
    body = "q = Constant<value_float = 0.05>() z = Constant<value = uint8 {128}>() r0 = Identity(x) "
    for i in range(layers):
        body += f"c{i} = QuantizeLinear(r{i}, q, z) f{i} = DequantizeLinear(c{i}, q, z) "
        body += product.format(i=i, n=i + 1)
    return body + f"y = QuantizeLinear(r{layers}, q, z)"


def test_deep_quantized_network_is_right() -> None:
    head = "(float[N, 32] x, float[32, 32] w, float[32] b) => (uint8[N, 32] y)"
    plain = _quantized(12, "m{i} = MatMul(f{i}, w) r{n} = Add(m{i}, b) ")
    fused = _quantized(12, "g{i} = Gemm(f{i}, w, b) r{n} = Identity(g{i}) ")
    other = _quantized(12, "m{i} = MatMul(f{i}, w) r{n} = Sub(m{i}, b) ")
    for seed in range(3):
        feeds = {"x": normal(5, 32, seed=seed), "w": normal(32, 32, scale=0.25, seed=seed + 1), "b": normal(32) * 0.1}
        assert judgement(plain, fused, feeds, head).decision == RIGHT
        assert judgement(plain, other, feeds, head).decision == WRONG


def test_integers_of_other_elements_are_wrong() -> None:
    head = "(float[N, M] x) => (int64[N] y)"
    found = judgement(
        "y = ArgMax<axis = 1, keepdims = 0>(x)", "y = ArgMin<axis = 1, keepdims = 0>(x)", matrices(0)[0], head
    )
    assert found.decision == WRONG
    assert "of 6 elements differ" in found.reason


def test_saturating_less_is_right() -> None:
    log_of_softmax, log_softmax = "s = Softmax(x) y = Log(s)", "y = LogSoftmax(x)"
    for scale in (100, 3000):  # the latter underflows in float64 too
        feeds = {"x": normal(8, 64, scale=scale)}
        found = judgement(log_of_softmax, log_softmax, feeds)
        assert found.decision == RIGHT
        assert found.saturating > 0
        assert judgement(log_softmax, log_of_softmax, feeds).decision == WRONG


@pytest.mark.parametrize("y", ["z", "one"])
def test_guard_that_was_added_redefines_elements(y: str) -> None:
    """An element that is not finite by definition, as 0 / 0, is not saturated."""
    constants = "z = Sub(x, x) one = Exp(z)"
    guarded = f"{constants} q = Div(x, x) n = IsNaN(q) y = Where(n, {y}, q)"
    x = normal(6, 64)
    x[0, :3] = 0
    found = judgement(f"{constants} y = Div(x, x)", guarded, {"x": x})
    assert (found.decision, found.saturating, found.redefined) == (RIGHT, 0, 3)
    assert judgement(guarded, f"{constants} y = Div(x, x)", {"x": x}).decision == WRONG


def test_other_value_where_the_original_overflows_redefines_elements() -> None:
    before = "s = Exp(x) r = Exp(s) l = Log(r) y = Sub(l, s)"
    x = np.linspace(0, 5, 12, dtype=np.float32).reshape(2, 6)
    found = [judgement(before, after, {"x": x}) for after in ("y = Sub(x, x)", "s = Sub(x, x) y = Exp(s)")]
    assert (found[0].decision, found[0].redefined) == (RIGHT, 0)
    assert found[0].saturating > 0
    assert found[1].decision == WRONG  # by its other elements
    assert (found[1].saturating, found[1].redefined) == (0, found[0].saturating)


def test_parts_of_sequences_are_judged() -> None:
    head = "(float[N, M] x) => (seq(float[N, M]) y)"
    split = "SplitToSequence<axis = 0>"
    feeds = {"x": normal(4, 6)}
    assert judgement(f"y = {split}(x)", f"s = Neg(x) t = Neg(s) y = {split}(t)", feeds, head).decision == RIGHT
    assert judgement(f"y = {split}(x)", f"s = Neg(x) y = {split}(s)", feeds, head).decision == WRONG
    assert judgement(f"y = {split}(x)", "y = SequenceConstruct(x)", feeds, head).decision == WRONG


HALVES = "(float16[N, M] x) => (float16[N, M] y)"
ISLAND = "w = Cast<to = 1>(x) s = Mul(w, w) k = Constant<value = float {0.001}>() t = Mul(s, k) y = Cast<to = 10>(t)"
# 5145 is 0.001 in 16 bits.
IN_16_BITS = "s = Mul(x, x) k = Constant<value = float16 {5145}>() y = Mul(s, k)"
REORDERED = "w = Cast<to = 1>(x) k = Constant<value = float {0.001}>() s = Mul(w, k) t = Mul(s, w) y = Cast<to = 10>(t)"


@pytest.mark.parametrize(("after", "decision"), [(IN_16_BITS, WRONG), (REORDERED, RIGHT)])
def test_overflow_in_16_bits_is_wrong(after: str, decision: Decision) -> None:
    """onnxruntime's CPU provider computes both in 32 bits."""
    feeds = {"x": normal(6, 64, scale=200).astype(np.float16)}
    assert judgement(ISLAND, after, feeds, HALVES).decision == RIGHT
    texts = (f'<ir_version: 8, opset_import: ["": 20]> g {HALVES} {{ {body} }}' for body in (ISLAND, after))
    models = [onnx.parser.parse_model(text) for text in texts]
    assert narrows(*models) == (decision == WRONG)
    results = [evaluate_rounded(m, feeds, ["y"])["y"] for m in models]
    assert [r.dtype for r in results] == [np.float16, np.float16]
    assert judge(*results, *(evaluate_in_float64(m, feeds, ["y"])["y"] for m in models)).decision == decision


ONES = np.linspace(0.5, 1, 100)
WHOLE = np.arange(100)
SMALL = np.where(ONES > 0.9, ONES * 1e-6, ONES)


@cases(
    ("values", "truths", "moved", "is_rounding"),
    {
        "the same": ((ONES, ONES), (ONES, ONES), ONES, True),
        "nearer to float64": ((ONES + 1e-3, ONES), (ONES, ONES), ONES, True),
        "as far from it": ((ONES + 1e-3, ONES - 4e-3), (ONES, ONES), ONES, True),
        "farther from it": ((ONES, ONES + 1e-3), (ONES, ONES), ONES, False),
        "farther, as under moves": ((ONES, ONES + 1e-3), (ONES, ONES), ONES + 1e-3, True),
        "rounded on purpose": ((np.round(ONES), ONES), (ONES, ONES), ONES, False),
        "garbage": ((np.round(ONES), ONES), (ONES, ONES), ONES[::-1], True),
        "a constant that lost bits": ((ONES, ONES), (ONES, ONES + 0.1), ONES, False),
        "as much as under moves": ((ONES, ONES), (ONES, ONES + 0.1), ONES + 0.1, True),
        "farther than under moves": ((ONES, ONES), (ONES, ONES + 0.1), ONES + 0.01, False),
        "more elements than under moves": ((ONES, ONES), (ONES, ONES + 0.1), ONES + 0.1 * (ONES > 0.9), False),
        "a row that lost its small numbers": ((SMALL, ONES * (SMALL > 0.1)),) * 2 + (SMALL * (1 + 1e-7), False),
        "as much as under moves, of the row": ((SMALL, ONES * (SMALL > 0.1)),) * 2
        + (SMALL + 1e-6 * (SMALL < 0.1), True),
        "not finite": ((ONES, ONES), (ONES, ONES * np.inf), ONES, False),
        "the same integers": ((WHOLE, WHOLE), (WHOLE, WHOLE), WHOLE, True),
        "other integers": ((WHOLE, WHOLE), (WHOLE, WHOLE + 1), WHOLE, False),
        "as under moves, integers": ((WHOLE, WHOLE), (WHOLE, WHOLE + 1), WHOLE + 1, True),
        "integers rounded on purpose": ((WHOLE + 1, WHOLE), (WHOLE, WHOLE), WHOLE, False),
        "sequences": ((ONES, ONES), ([ONES], [ONES]), ONES, False),
    },
)
def test_outputs_that_differ_by_rounding(values: Any, truths: Any, moved: np.ndarray, is_rounding: bool) -> None:
    given = [v.astype(np.float32) if v.dtype == np.float64 else v for v in values]
    assert differ_by_rounding(given, truths, lambda: [moved], list, rounds_on_purpose=True) is is_rounding


def test_an_original_far_from_float64_on_some_inputs_only() -> None:
    values = [np.array(x, np.float32) for x in ([1.0, 0.0], [1.0, 0.289])]
    truths = [np.array([1.0, 0.3])] * 2
    assert differ_by_rounding(values, truths, list, list, rounds_on_purpose=False)
    assert not differ_by_rounding(values, truths, list, list, rounds_on_purpose=True)


def test_an_original_in_16_bits_may_round_each_op() -> None:
    """onnxruntime does not, but for ops that were fused; what constants lost still counts."""
    values, far = [ONES.astype(np.float16), (ONES + 0.01).astype(np.float16)], ONES - 0.02
    for rounded, truth, is_rounding in (far, ONES, True), (ONES, ONES, False), (far, ONES + 0.4, False):
        found = differ_by_rounding(values, (ONES, truth), list, lambda r=rounded: [r], rounds_on_purpose=False)
        assert found is is_rounding


def test_a_number_without_16_bit_floats() -> None:
    values, truth = [np.float32(1), np.float32(1.001)], np.float64(1)
    assert not differ_by_rounding(values, (truth, truth), list, list, rounds_on_purpose=False)
