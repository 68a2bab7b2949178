"""Noise of the original: inputs moved by an ulp, and the resulting tolerance of its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from passwright.core.io.files import split_model
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.noise import NOISE_MULTIPLE, Noise, has_floats, has_generic_floats, perturb, perturb_weights
from passwright.core.verify.output_comparison import MAX_TOLERANCE, compare_outputs, max_ulps, relative_noise_floor
from rewriting import each, load, op_types, oracle_of
from tiers import slow_unless

from passwright import optimize, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passwright.core.verify.verdict import Verdict

Array = np.ndarray[Any, Any]
NAN, INF = float("nan"), float("inf")


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


@each("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_floats_move_by_one_ulp(dtype: Any) -> None:
    most = float(ml_dtypes.finfo(dtype).max)
    a = np.array([0, -0.0, 1, -1, 1.5, most, -most] * 9, dtype)
    b = perturb({"x": a}, 0)["x"]
    assert b.dtype == a.dtype
    assert all(max_ulps(a[i : i + 1], b[i : i + 1]) == 1 for i in range(a.size))
    assert np.isfinite(b).all()
    assert len({float(v) for v in b[2::7]}) == 2  # up and down
    assert np.array_equal(b, perturb({"x": a}, 0)["x"])
    assert not np.array_equal(b, perturb({"x": a}, 1)["x"])


@each(
    "value",
    {
        "not finite": f32(NAN, INF, -INF),
        "integers": np.array([1, 2]),
        "bools": np.array([True]),
        "strings": np.array(["a"], object),
        "int4": np.array([1], ml_dtypes.int4),
        "an optional without a value": None,
        "an empty sequence": [],
    },
)
def test_non_floats_stay(value: Any) -> None:
    assert compare_outputs(value, perturb({"x": value}, 0)["x"], exact=True).reason == ""


def test_elements_and_complex_parts_move() -> None:
    assert max_ulps(f32(1), perturb({"x": [f32(1), f32(2)]}, 0)["x"][0]) == 1
    z = np.array([[1 + 2j], [3 - 4j]], np.complex64)
    other = perturb({"x": z}, 0)["x"]
    assert other.shape == z.shape
    assert (other.real != z.real).all()
    assert (other.imag != z.imag).all()


@each(
    ("feeds", "want"),
    {
        "one of two": ({"i": np.array([1]), "x": f32(1)}, True),
        "in a sequence": ({"s": [f32(1)]}, True),
        "none": ({"i": np.array([1]), "s": [], "o": None}, False),
        "no elements": ({"x": f32()}, False),
    },
)
def test_has_floats(feeds: dict[str, Any], want: bool) -> None:
    assert has_floats(feeds) is want


def test_weights_move_except_scalars() -> None:
    thirds = np.float32([[1 / 3, -1 / 3], [0.1, 3]])
    weights = {"w": thirds, "v": thirds[:1], "e": np.float32(0.2), "i": np.array([1, 2])}
    model = load("g (int64[2] x) => (int64[2] y) { y = Add(x, i) }", weights=weights)
    perturbed = perturb_weights(split_model(model.SerializeToString()), 0)
    assert perturbed is not None
    found = {t.name: numpy_helper.to_array(t) for t in perturbed.whole_message().graph.initializer}
    assert max_ulps(weights["w"], found["w"]) == 1
    assert found["w"][1, 1] == 3  # a whole number is no rounded one
    assert found["w"][0, 0] == -found["w"][0, 1] == found["v"][0, 0] != thirds[0, 0]  # what cancels still does
    assert (found["e"], list(found["i"])) == (np.float32(0.2), [1, 2])


def noise(*moves: Any, usual: float = 0.0, excuses: bool = True, more: Sequence[tuple[Any, int]] = ()) -> Noise:
    return Noise(lambda: list(moves), lambda: usual, lambda: more, excuses_jumps=excuses)


HUNDRED = np.linspace(0.5, 1, 100, dtype=np.float32)


@each(
    ("off", "found", "allowed"),
    {
        "no movement: the base": (1e-5, noise(HUNDRED), 16 * 2**-23),
        "a multiple of the floor": (1e-5, noise(HUNDRED + f32(1e-6)), NOISE_MULTIPLE * 1e-6),
        "of the largest movement": (1e-5, noise(HUNDRED, HUNDRED - f32(1e-6)), NOISE_MULTIPLE * 1e-6),
        "of the usual noise elsewhere": (1e-5, noise(HUNDRED, usual=1e-6), NOISE_MULTIPLE * 1e-6),
        "of other kernels": (1e-5, noise(HUNDRED, more=[(HUNDRED + f32(1.5e-6), 1)]), NOISE_MULTIPLE * 1.5e-6),
        "not of larger moves": (1e-5, noise(HUNDRED, more=[(HUNDRED + f32(1.5e-6), 2)]), 16 * 2**-23),
        "never more than the cap": (1e-3, noise(HUNDRED + f32(1e-2)), MAX_TOLERANCE["float32"]),
        "the cap for unknown noise": (1e-3, noise(), MAX_TOLERANCE["float32"]),
        "a moved output of another shape": (1e-3, noise(HUNDRED[:9]), MAX_TOLERANCE["float32"]),
    },
)
def test_tolerance_by_noise(off: float, found: Noise, allowed: float) -> None:
    difference = compare_outputs(HUNDRED, HUNDRED + f32(off), exact=False, noise=found)
    assert difference.allowed == pytest.approx(allowed, rel=0.1)
    assert (difference.reason != "") is (off > allowed)


@each(
    ("count", "allowed"),
    {
        "a single element, whose noise those that are no larger show": (1, NOISE_MULTIPLE * 5e-6),
        "many": (99, NOISE_MULTIPLE * 1e-6),
    },
)
def test_noise_is_that_of_elements_that_differ(count: int, allowed: float) -> None:
    want = np.array([*HUNDRED[:99], 0.1, 1e5], np.float32)
    moved = want + f32(*[1e-6] * 99, 5e-6, 1)
    got = want + f32(*[2e-5] * count, *[0] * (101 - count))
    found = compare_outputs(want, got, exact=False, noise=noise(moved))
    assert found.allowed == pytest.approx(allowed, rel=0.1)
    assert (found.reason != "") is (allowed < 2e-5)
    assert found.magnitude == 1e5


def test_typical_noise_is_relative_to_what_moves() -> None:
    want, moved = f32(-1e9, 1, 0.5), f32(-1e9, 1 + 1e-5, 0.5)
    assert relative_noise_floor(want, noise(moved)) == pytest.approx(1e-5, rel=0.1)
    assert relative_noise_floor(want, noise(want)) == 0
    assert relative_noise_floor(want, noise()) == 0


@each(
    ("value", "want"),
    {
        "fractions": (np.linspace(0.1, 0.9, 9, dtype=np.float32), True),
        "fractions in 16 bits": (np.linspace(0.1, 0.9, 9).astype(np.float16), True),
        "fractions in a sequence": ([np.linspace(0.1, 0.9, 9)], True),
        "complex fractions": (np.linspace(0.1, 0.9, 9) * (1 + 1j), True),
        "one-hot": (np.eye(3), False),
        "a grid": (np.arange(9) * 0.25, False),
        "large whole numbers": (np.arange(9) + 1e6, False),
        "most not finite": (np.array([NAN, INF, 0.1]), False),
        "integers": (np.arange(3), False),
        "no value": (None, False),
    },
)
def test_generic_floats(value: Any, want: bool) -> None:
    assert has_generic_floats({"x": value}) is want
    assert has_generic_floats({"m": np.eye(2), "x": value}) is want


def test_noise_is_measured_only_if_needed() -> None:
    def asked() -> Sequence[Any]:
        raise AssertionError("asked")

    silent = Noise(asked, lambda: 0.0)
    assert compare_outputs(HUNDRED, HUNDRED + f32(1e-6), exact=False, noise=silent).error > 0
    assert compare_outputs(np.arange(3), np.arange(3), exact=False, noise=silent).error == 0
    assert compare_outputs(HUNDRED, HUNDRED + f32(1e-6), exact=True, noise=silent).reason
    with pytest.raises(AssertionError, match="asked"):
        compare_outputs(HUNDRED, HUNDRED + f32(1e-5), exact=False, noise=silent)
    moving = Noise(lambda: [HUNDRED + f32(2e-6)], lambda: 0.0, asked)
    assert compare_outputs(HUNDRED, HUNDRED + f32(1e-5), exact=False, noise=moving).reason == ""
    with pytest.raises(AssertionError, match="asked"):
        compare_outputs(HUNDRED, HUNDRED + f32(1e-4), exact=False, noise=moving)


def test_numbers_of_a_difference() -> None:
    found = compare_outputs(f32(1, 100, 0), f32(1 + 2**-22, 100, 0), exact=False, noise=noise(f32(1, 100 + 2**-17, 0)))
    assert (found.error, found.relative, found.ulps) == (2**-22, 2**-22, 2)
    assert found.noise_floor is None  # within the base tolerance
    found = compare_outputs(f32(1, 1), f32(1, 1 + 5e-5), exact=False, noise=noise(f32(1, 1 + 2**-14)))
    assert (found.reason, found.noise_floor) == ("", 2**-14)
    assert (
        compare_outputs(np.array([1e-300, 0.0]), np.array([1e300, 0.0]), exact=False).relative
        == np.finfo(np.float64).max
    )
    assert compare_outputs(f32(-0.0), f32(0.0), exact=True).ulps == 0
    assert compare_outputs(f32(-1e-45), f32(1e-45), exact=False).ulps == 2
    wild = compare_outputs(f32(1, INF), f32(2, 3), exact=False)
    assert wild.error == 1
    assert wild.reason == "1 of 2 elements are finite instead of inf"
    wild = compare_outputs(f32(1, INF, NAN, 2), f32(INF, -INF, NAN, 2), exact=False)
    assert wild.reason == "2 of 4 elements are -inf or inf instead of finite or inf"


INTS = np.array([4, 7, 1, 0])


def plus(*numbers: int) -> Array:
    return np.asarray(INTS + np.array(numbers))


def further(*more: Any) -> Noise:
    """No movement under one ulp of the inputs, and this one under four ulps of the weights."""
    return Noise(list[Any], lambda: 1e-9, lambda: [(m, 4) for m in more])


def at_jumps(more: Any) -> Noise:
    """Inputs that lie on jumps on purpose, and what four ulps of the weights change."""
    return Noise(list[Any], lambda: 1e-9, lambda: [(more, 4)], excuses_jumps=False)


MANY = np.arange(200)
WORDS = np.array(["a", "b"], object)


def steps(count: int, start: int = 0) -> Array:
    """As many of `MANY` one higher."""
    return np.asarray(MANY + ((start <= MANY) & (start + count > MANY)))


@each(
    ("want", "got", "found", "excused"),
    {
        "the original changes it too": (INTS, plus(1, 0, 0, 0), noise(INTS, plus(2, 0, 0, 0)), 1),
        "it changes another": (INTS, plus(1, 0, 0, 0), noise(plus(0, 1, 0, 0)), None),
        "it changes one of two": (INTS, plus(1, 1, 0, 0), noise(plus(1, 0, 0, 0)), None),
        "never most of an output": (INTS, INTS + 1, noise(INTS + 1), None),
        "it does not change it as far": (INTS, plus(9, 0, 0, 0), noise(plus(2, 0, 0, 0)), None),
        "not under larger moves where sides matter": (
            INTS,
            plus(1, 0, 0, 0),
            Noise(list[Any], lambda: 0.0, lambda: [(plus(1, 0, 0, 0), 1)], False),
            None,
        ),
        "more than in any single run": (MANY, steps(9), noise(*[steps(1, i) for i in range(9)]), None),
        "some more than in a single run": (MANY, steps(4), noise(*[steps(1, i) for i in range(9)]), 4),
        "one in a hundred where sides matter": (MANY, steps(2), at_jumps(steps(2)), 2),
        "more than one in a hundred where sides matter": (MANY, steps(3), at_jumps(steps(3)), None),
        "a word": (WORDS, np.array(["b", "b"], object), noise(np.array(["b", "b"], object)), 1),
        "another word": (WORDS, np.array(["c", "b"], object), noise(np.array(["b", "b"], object)), None),
        "a float on a side": (f32(1, 2, 3), f32(1, 2, 4), noise(f32(1, 2, 4), excuses=False), None),
        "not where sides matter": (INTS, plus(1, 0, 0, 0), noise(INTS + 1, excuses=False), None),
        "a float that jumps": (f32(1, 2, 3), f32(1, 2, 4), noise(f32(1, 2, 4)), 1),
        "a float that jumps further": (f32(1, 2, 3), f32(1, 2, 9), noise(f32(1, 2, 4)), None),
        "another float jumps": (f32(1, 2, 3), f32(1, 2, 3.01), noise(f32(1, 2.1, 3)), None),
        "a float that overflows": (f32(1, 2, 3), f32(1, 2, INF), noise(f32(1, 2, INF)), 1),
        "NaN is not an overflow": (f32(1, 2, 3), f32(1, 2, NAN), noise(f32(1, 2, INF)), None),
        "never most floats": (f32(1, 2, 3), f32(2, 3, 4), noise(f32(2, 3, 4)), None),
        "in a sequence": ([INTS], [plus(1, 0, 0, 0)], noise([plus(2, 0, 0, 0)]), 1),
        "a shorter sequence": ([INTS], [plus(1, 0, 0, 0)], noise([]), None),
        "under larger moves": (INTS, plus(1, 0, 0, 0), further(plus(2, 0, 0, 0)), 1),
        "another under larger moves": (INTS, plus(1, 0, 0, 0), further(plus(0, 1, 0, 0)), None),
        "one of two under larger moves": (INTS, plus(1, 1, 0, 0), further(plus(1, 0, 0, 0)), None),
        "each under another": (INTS, plus(1, 1, 0, 0), further(plus(1, 0, 0, 0), plus(0, 1, 0, 0)), 2),
        "never most, under larger moves": (INTS, INTS + 1, further(INTS + 1), None),
        "a float under larger moves": (f32(1, 2, 3), f32(1, 2, 4), further(f32(1, 2, 4)), 1),
        "further than under larger moves": (f32(1, 2, 3), f32(1, 2, 9), further(f32(1, 2, 4)), None),
        "another float under them": (f32(1, 2, 3), f32(1, 2, 3.01), further(f32(1, 2.1, 3)), None),
        "never most floats under them": (f32(1, 2, 3), f32(2, 3, 4), further(f32(2, 3, 4)), None),
        "an overflow under larger moves": (f32(1, 2, 3), f32(1, 2, INF), further(f32(1, 2, INF)), 1),
        "larger moves of a sequence": ([INTS], [plus(1, 0, 0, 0)], further([plus(2, 0, 0, 0)]), 1),
    },
)
def test_jumps_are_excused(want: Any, got: Any, found: Noise, excused: int | None) -> None:
    difference = compare_outputs(want, got, exact=False, noise=found)
    assert (difference.reason == "") is (excused is not None)
    assert difference.excused == (excused or 0)
    assert compare_outputs(want, got, exact=True, noise=found).reason


def judge(before: onnx.ModelProto, after: onnx.ModelProto) -> Verdict:
    return oracle_of(before).compare(after.SerializeToString())


def convolutions(layers: int) -> onnx.ModelProto:
    """Conv, BatchNormalization and Relu, repeated; variances about 1."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, Array] = {}
    for i in range(layers):
        weights[f"w{i}"] = rng.normal(0, 0.17, (8, 8, 3, 3))
        weights |= {f"s{i}": rng.uniform(0.5, 1.5, 8), f"b{i}": rng.normal(0, 0.3, 8)}
        weights |= {f"m{i}": rng.normal(0, 0.3, 8), f"v{i}": rng.uniform(0.8, 1.2, 8)}
        names = [f"{n}{i}" for n in "sbmv"]
        nodes += [
            helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], pads=[1] * 4),
            helper.make_node("BatchNormalization", [f"c{i}", *names], [f"n{i}"]),
            helper.make_node("Relu", [f"n{i}"], [f"x{i + 1}"]),
        ]
    shape = ["N", 8, 6, 6]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x0", f"x{layers}")]
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def without_epsilon(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without BatchNormalization's epsilon of 1e-5 in the last layer."""
    other = onnx.ModelProto.FromString(model.SerializeToString())
    last = [n for n in other.graph.node if n.op_type == "BatchNormalization"][-1]
    last.attribute.append(helper.make_attribute("epsilon", 0.0))
    return other


@each("layers", [1, 5, 30])
def test_folded_batch_norms_are_within_tolerance(layers: int) -> None:
    model = convolutions(layers)
    verdict = judge(model, optimize(model, verify=False).model)
    assert verdict.failure is None
    assert verdict.differences[f"x{layers}"].error > 0


@each("layers", [1, 5])
def test_missing_epsilon_is_found(layers: int) -> None:
    model = convolutions(layers)
    verdict = judge(model, optimize(without_epsilon(model), verify=False).model)
    assert verdict.failure is not None
    assert verdict.failure.difference is not None
    assert verdict.failure.difference.noise_floor is not None
    assert verdict.failure.difference.error < MAX_TOLERANCE["float32"]  # a fixed tolerance does not see it


def perceptron(bias: float, half: bool = False, ids: bool = False) -> onnx.ModelProto:
    """A matrix product, and a bias of 1e-3 times `bias`."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((256, 8)).astype(np.float16 if half else np.float32).astype(np.float32)
    weights = {"w": w, "c": f32(*rng.standard_normal(8)) * f32(1e-3 * bias), "t": rng.standard_normal((9, 256))}
    weights["t"] = weights["t"].astype(np.float32)
    x, first = ("int64[N] x", "e = Gather(t, x)") if ids else ("float[N,256] x", "e = Identity(x)")
    return load(f"g ({x}) => (float[N,8] y) {{ {first} m = MatMul(e, w) y = Add(m, c) }}", weights=weights)


@each("ids", [False, True])
@each("wrong", {"bias lost": {"bias": 0}, "a weight through float16": {"bias": 1, "half": True}})
def test_small_errors_are_found(wrong: dict[str, Any], ids: bool) -> None:
    model = perceptron(1, ids=ids)
    assert judge(model, perceptron(**wrong, ids=ids)).failure is not None
    assert judge(model, optimize(model, verify=False).model).failure is None


def test_tanh_gelu_differs_from_erf_gelu() -> None:
    text = 'g (float[N,64] x) => (float[N,64] y) { y = Gelu<approximate="%s">(x) }'
    assert judge(load(text % "none", 20), load(text % "tanh", 20)).failure is not None


@pytest.mark.parametrize("seed", slow_unless({3}, (3, 7)))
def test_reordered_long_sum_is_within_tolerance(seed: int) -> None:
    """onnxruntime sums a product of one row in another order than other products, and Gemm in a third."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {"w": (rng.standard_normal((25088, 100)) / np.sqrt(25088)).astype(np.float32)}
    weights["c"] = rng.standard_normal(100).astype(np.float32)
    model = load("g (float[1,25088] x) => (float[1,100] y) { m = MatMul(x, w) y = Add(m, c) }", weights=weights)
    after = optimize(model, verify=False).model
    assert op_types(after) == ["Gemm"]
    assert judge(model, after).failure is None
    weights["w"][:, 0] *= f32(1 + 1e-4)
    wrong = load("g (float[1,25088] x) => (float[1,100] y) { y = Gemm(x, w, c) }", weights=weights)
    assert judge(model, wrong).failure is not None


def rounded(seed: int, kind: str) -> onnx.ModelProto:
    """Three times Conv and BatchNormalization, as initialized for training, then rounding to eight bits."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    lines: list[str] = []
    last, channels = "x", 3
    for i in range(3):
        weights[f"w{i}"] = rng.standard_normal((16, channels, 3, 3)) * np.sqrt(2 / (9 * channels))
        weights |= {f"s{i}": rng.uniform(0.5, 1.5, 16), f"b{i}": rng.normal(0, 0.3, 16)}
        weights |= {f"m{i}": rng.normal(0, 0.3, 16), f"v{i}": np.exp(rng.uniform(np.log(0.3), np.log(3), 16))}
        lines.append(f"c{i} = Conv<pads = [1, 1, 1, 1]>({last}, w{i})")
        lines.append(f"n{i} = BatchNormalization(c{i}, s{i}, b{i}, m{i}, v{i}) r{i} = Relu(n{i})")
        last, channels = f"r{i}" if i < 2 else f"n{i}", 16
        if kind == "float":
            lines.append(f"q{i} = QuantizeLinear({last}, step, zero) d{i} = DequantizeLinear(q{i}, step, zero)")
            last = f"d{i}"
    end = "a = Mul(n2, fifty) e = Add(a, mid) f = Clip(e, low, high) y = Cast<to = 2>(f)"
    lines.append(f"y = Identity({last})" if kind == "float" else end)
    scalars = {"step": 0.05, "fifty": 50, "mid": 128, "low": 0, "high": 255}
    arrays = {name: np.asarray(a, np.float32) for name, a in (weights | scalars).items()}
    text = f"g (float[N,3,8,8] x) => ({kind}[N,16,8,8] y) {{ {' '.join(lines)} }}"
    return load(text, weights={**arrays, "zero": np.uint8(0)})


@pytest.mark.parametrize("models", slow_unless({2}, (2, 4)))
@pytest.mark.parametrize("kind", slow_unless({"float"}, ["float", "uint8"]), ids=["quantized", "cast"])
def test_most_batch_norms_fold_before_rounding(kind: str, models: int) -> None:
    """Three in each model; without jumps of the original under larger moves and moved weights, few would be folded."""
    left = [optimize(rounded(seed, kind)).report.after.ops.get("BatchNormalization", 0) for seed in range(models)]
    assert sum(left) <= 3 * models // 4


def test_cancellation_is_within_noise_of_the_original() -> None:
    text = "g (float[512,64] x) => (float[512] y) { %s b = Add(a, o) y = Sub(b, o) }"
    sums = ("a = ReduceSum<keepdims=0>(x, k)", "m = MatMul(x, u) a = Squeeze(m)")
    weights = {"o": np.float32(1e3), "k": np.array([1]), "u": np.ones((64, 1), np.float32)}
    before, after = (load(text % s, weights=weights) for s in sums)
    oracle = oracle_of(before)
    verdict = oracle.compare(after.SerializeToString(), ComparisonOptions(input_sets=[oracle.runs[0].input_set]))
    assert verdict.failure is None
    found = verdict.differences["y"]
    assert found.noise_floor is not None
    assert found.error > 1e-5
    assert found.allowed == pytest.approx(NOISE_MULTIPLE * found.noise_floor)


@each(("factor", "is_right"), [(0.0, False), (0.999, False), (1.0, True)])
def test_scale_of_outputs_that_are_typically_tiny(factor: float, is_right: bool) -> None:
    weights = {"k": np.float32(1e-5), "l": np.float32(1e-6), "kl": np.float32(1e-11 * factor)}
    bodies = "s = Sigmoid(x) a = Mul(s, k) y = Mul(a, l)", "s = Sigmoid(x) y = Mul(s, kl)"
    before, after = (load(f"g (float[N,8] x) => (float[N,8] y) {{ {b} }}", weights=weights) for b in bodies)
    assert verify(before, after).agrees is is_right


def test_verdicts_are_deterministic() -> None:
    model = convolutions(5)
    folded = optimize(model, verify=False).model
    assert judge(model, folded) == judge(model, folded)
    assert judge(model, without_epsilon(model)).differences == judge(model, without_epsilon(model)).differences
