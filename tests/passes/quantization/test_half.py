"""Tests of the conversion of single precision to half."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, checker, numpy_helper
from passwright.core import ChangeLog, Pipeline, QuantizationSpec, Range, from_onnx
from passwright.core.errors import UsageError
from passwright.core.ort.backends import OnnxReference
from passwright.core.rewriting.change_log import Exclusions
from passwright.passes.quantization.half import ConvertToHalf, StoreWeights, crashes_onnxruntime
from rewriting import apply_passes, each, initializers, load, op_types, run, table, to_onnx
from weights import read_by

RNG = np.random.default_rng(0)
W = RNG.normal(0, 0.3, (4, 4)).astype(np.float32)
NAME = ConvertToHalf().name


def converted(
    model: onnx.ModelProto, ranges: Mapping[str, Range] | None = None, **weights: Any
) -> tuple[onnx.ModelProto, ChangeLog]:
    """The valid model after the conversion, and its change log."""
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in weights.items())
    spec = None if ranges is None else QuantizationSpec(ranges)
    result, change_log = apply_passes(model, Pipeline("half", (ConvertToHalf(),), quantization=spec))
    made = to_onnx(result)
    checker.check_model(made, full_check=True)
    return made, change_log


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    """Moderate numbers for each input of single precision, of 2 for each symbol."""
    rng = np.random.default_rng(1)
    shapes = {v.name: [d.dim_value or 2 for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def require_near(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Mapping[str, Any], share: float) -> None:
    """Compare outputs; differences are at most that share of the largest number."""
    for old, new in zip(run(before, feeds), run(after, feeds), strict=True):
        assert old.dtype == new.dtype
        assert old.shape == new.shape
        assert np.abs(old - new).max(initial=0) <= share * np.abs(old).max(initial=1e-3)


@each(
    ("text", "left"),
    table("""
    chain: a = MatMul(x, w) y = Relu(a) => Cast MatMul Relu Cast
    movement between products: a = MatMul(x, w) b = Transpose<perm=[1,0]>(a) y = MatMul(b, w)
        => Cast MatMul Transpose MatMul Cast
    wide op between halves: a = MatMul(x, w) e = Exp(a) y = MatMul(e, w) => Cast MatMul Cast Exp Cast MatMul Cast
    an op behind halves joins them: a = Cast<to=10>(x) b = Relu(a) c = Cast<to=1>(b) y = Tanh(c) => Cast Relu Tanh Cast
    truth values become halves: i = Constant<value_int=1>() b = Cast<to=9>(x) f = Cast<to=1>(b) a = MatMul(x, w)
        y = Mul(a, f) => Constant Cast Cast Cast MatMul Mul Cast
    before halves: a = MatMul(x, w) b = Cast<to=10>(a) c = Relu(b) y = Cast<to=1>(c) => Cast MatMul Relu Cast
    shape of a half: a = MatMul(x, w) s = Shape(a) y = Reshape(a, s) => Cast MatMul Shape Reshape Cast
    constant op: z = Constant<value = float[1] {0.5}>() a = MatMul(x, w) y = Add(a, z) => Cast MatMul Add Cast
"""),
)
def test_neighbours_share_one_cast(text: str, left: str) -> None:
    graph = f"g (float[4,4] x) => (float[4,4] y) {{ {text} }}"
    weights = {"w": W} if "w)" in text else {}
    model = load(graph, weights=weights)
    made, _ = converted(load(graph), **weights)
    assert [t for t in op_types(made) if t != "Constant"] == [t for t in left.split() if t != "Constant"]
    require_near(model, made, feeds_of(model), 4e-3)
    assert all(a.dtype == np.float16 for a in initializers(made).values())


@each(
    ("text", "place", "reason"),
    table("""
    steep: a = MatMul(x, w) y = Exp(a) => y => may overflow
    sum: a = MatMul(x, w) y = ReduceMean<axes=[1]>(a) => y => not calibrated
    computed divisor: a = MatMul(x, w) y = Div(x, a) => y => not calibrated
    large weight: a = MatMul(x, w) y = Add(a, big) => y => big has elements beyond 65504
    small weight: a = MatMul(x, w) y = Add(a, tiny) => y => tiny is as small as 1e-10
    slow kernel: a = MatMul(x, w) y = Max(a, tiny) => y => takes much longer
    grid: a = MatMul(x, w) p = Reshape(a, image) y = GridSample(p, q) => y => coordinates
    counts: s = Shape(x) f = Cast<to=1>(s) a = MatMul(x, w) m = ReduceSum(f) y = Mul(a, m)
        => f => integers may exceed 2048
    schema: a = MatMul(x, w) y = Celu(a) => y => no form of half precision at opset 17
    quantized: q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) y = MatMul(d, w) => y => quantized group
    sequence: s = SequenceConstruct(x, x) y = SequenceAt(s, zero) a = MatMul(x, w) => y => sequence
    of constants: u = Neg(w) t = Transpose(u) y = MatMul(x, t) => u => from constants
    nothing to gain: y = Tanh(x) => y => no op with weights
    operator of another domain: y = local.f(x) => y => ONNX defines no
"""),
)
def test_ops_that_stay_wide_say_why(text: str, place: str, reason: str) -> None:
    numbers = {
        "w": W,
        "big": np.array([1e5], np.float32),
        "tiny": np.array([1e-10], np.float32),
        "s": np.array(0.1, np.float32),
        "zero": np.array(0, np.int64),
        "image": np.array([1, 1, 4, 4]),
        "q": np.zeros((1, 2, 2, 2), np.float32),
    }
    text = f"g (float[4,4] x) => (float[n,m] y) {{ {text} }}"
    model = load(text, weights=read_by(text, numbers), domains={"local": 1} if "local." in text else {})
    _, change_log = apply_passes(model, ConvertToHalf())
    assert reason in change_log.declines[NAME][place]


def test_calibrated_ranges_decide() -> None:
    text = "g (float[4,4] x) => (float[4,1] y) { a = MatMul(x, w) b = Mul(a, a) y = ReduceMean<axes=[1]>(b) }"
    moderate = {"a": Range(-3, 3), "b": Range(0, 9), "y": Range(0, 9)}
    made, change_log = converted(load(text), moderate, w=W)
    assert op_types(made) == ["Cast", "MatMul", "Mul", "ReduceMean", "Cast"]
    made, change_log = converted(load(text), moderate | {"b": Range(0, 4e4), "y": Range(0, 1e-6)}, w=W)
    assert op_types(made) == ["Cast", "MatMul", "Cast", "Mul", "ReduceMean"]
    assert change_log.declines[NAME]["b"] == "b reaches 40000, and halves end at 65504"
    assert change_log.declines[NAME]["y"] == "b reaches 40000, and halves end at 65504"
    _, change_log = converted(load(text), moderate | {"y": Range(0, 1e-6)}, w=W)
    assert change_log.declines[NAME]["y"] == "y is at most 1e-06, where halves lose digits"


def test_an_overflow_without_the_calibrated_range_would_show() -> None:
    text = "g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, w) b = Mul(a, k) y = Mul(b, r) }"
    weights = {"w": W, "k": np.array([6e4], np.float32), "r": np.array([1 / 6e4 * 10], np.float32)}
    model = load(text, weights=weights)
    feeds = {"x": np.full((4, 4), 5, np.float32)}
    blind, _ = converted(load(text), **weights)
    with np.errstate(over="ignore", invalid="ignore"):
        (found,) = OnnxReference(blind.SerializeToString()).run(["y"], feeds)  # onnxruntime keeps to single precision
    assert not np.isfinite(found).all()
    informed, _ = converted(load(text), {"b": Range(-3e5, 3e5)}, **weights)
    require_near(model, informed, feeds, 4e-3)


def test_infinite_masks_and_wide_bounds_are_kept() -> None:
    text = """g (float[4,4] x) => (float[4,4] y) {
        a = MatMul(x, w) b = Add(a, mask) c = Softmax(b) d = Clip(c, low, high) y = MatMul(d, w) }"""
    mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
    limit = np.finfo(np.float32).max
    weights = {"w": W, "mask": mask, "low": np.array(0.01, np.float32), "high": np.array(limit)}
    model = load(text, weights=weights)
    made, _ = converted(load(text), **weights)
    assert op_types(made) == ["Cast", "MatMul", "Add", "Softmax", "Cast", "Clip", "Cast", "MatMul", "Cast"]
    require_near(model, made, feeds_of(model), 2e-3)


def test_masks_larger_than_halves_stay_finite() -> None:
    """A row that is masked as a whole has equal shares; with infinities it would have none."""
    text = """g (float[4,4] x, float[4,4] m) => (float[4,4] y) {
        i = Sub(one, m) f = Mul(i, low) t = Transpose(f)
        a = MatMul(x, w) b = Add(a, t) c = Softmax(b) y = MatMul(c, w) }"""
    weights = {"w": W, "one": np.ones((1, 1), np.float32), "low": np.full((1, 1), -3.4e38, np.float32)}
    model = load(text, weights=weights)
    made, change_log = converted(load(text), **weights)
    feeds = {"x": feeds_of(model)["x"], "m": np.tril(np.ones((4, 4), np.float32), -1)}
    require_near(model, made, feeds, 2e-3)
    assert change_log.declines[NAME]["b"] == "t may have elements beyond the largest half"
    assert change_log.declines[NAME].keys() == {"i", "f", "t", "b", "c"}
    ranges = {"i": Range(0, 1), "t": Range(-100, 0), "b": Range(-100, 9), "c": Range(0, 1)}
    _, change_log = converted(load(text), ranges, **weights)
    assert change_log.declines[NAME].keys() == {"i", "f", "t"}


def test_a_mask_of_attention_leaves_its_result_half() -> None:
    text = """g (float[1,4,4] x, float[4,4] m) => (float[1,4,4] y) {
        f = Mul(m, low) a = Attention<q_num_heads = 2, kv_num_heads = 2>(x, x, x, f) b = MatMul(a, w) y = Relu(b) }"""
    weights = {"w": W, "low": np.full((1, 1), -3.4e38, np.float32)}
    made, change_log = converted(load(text, 23), **weights)
    assert change_log.declines[NAME].keys() == {"f", "a"}
    model = load(text, 23, weights=weights)
    feeds = {"x": feeds_of(model)["x"], "m": np.tril(np.ones((4, 4), np.float32), -1)}
    require_near(model, made, feeds, 4e-3)


def test_an_excluded_op_is_left_wide() -> None:
    model = load("g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, w) b = MatMul(a, w) y = MatMul(b, w) }",
                 weights={"w": W})  # fmt: skip
    graph = from_onnx(model)
    change_log = ChangeLog(exclusions=Exclusions(changes={(NAME, "b"): 0}))
    ConvertToHalf().run(graph.graph, change_log)
    made = to_onnx(graph)
    assert op_types(made) == ["Cast", "MatMul", "Cast", "MatMul", "Cast", "MatMul", "Cast"]
    assert sorted(str(a.dtype) for a in initializers(made).values()) == ["float16", "float32"]
    require_near(model, made, feeds_of(model), 4e-3)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("""c = ReduceMax<keepdims=0>(x) b = Greater(c, zero) y = If(b) <
            then_branch = t () => (float[4,4] p) { q = MatMul(x, w) p = Relu(q) },
            else_branch = e () => (float[4,4] r) { r = MatMul(x, w) }>""", id="If with captured values and weights"),
        pytest.param("""h = MatMul(x, w) y = Loop(n, yes, h) <
            body = l (int64 i, bool k, float[4,4] s) => (bool k2, float[4,4] s2) {
                k2 = Identity(k) q = MatMul(s, w) o = Add(q, h) s2 = Tanh(o) }>""", id="Loop with a captured half"),
        pytest.param("""h = ReduceMax<axes=[0], keepdims=0>(x) f, y = Scan<num_scan_inputs=1,
            body = l (float[4] s, float[4] e) => (float[4] s2, float[4] o) {
                m = MatMul(e, w) s2 = Add(s, m) o = Tanh(s2) }>(h, x)""", id="Scan"),
    ],
)  # fmt: skip
def test_bodies_are_converted(text: str) -> None:
    model = load(f"g (float[4,4] x) => (float[4,4] y) {{ {text} }}")
    read = {name for n in model.graph.node for name in n.input}
    weights: dict[str, Any] = {"w": W}
    weights |= {"zero": np.array(0, np.float32)} if "zero" in read else {}
    weights |= {"n": np.array(3), "yes": np.array(True)} if "n" in read else {}
    made, change_log = converted(load(f"g (float[4,4] x) => (float[4,4] y) {{ {text} }}"), **weights)
    before = load(f"g (float[4,4] x) => (float[4,4] y) {{ {text} }}", weights=weights)
    body = next(a.g for n in made.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH)
    assert "Cast" in [n.op_type for n in body.node]
    assert change_log.counts[NAME][NAME] >= 2
    dtypes = [a.dtype for a in initializers(made).values() if a.size > 1]
    assert dtypes == [np.float16]  # one copy of the weights for all bodies
    require_near(before, made, feeds_of(before), 4e-3)


def test_moved_weights_are_halved() -> None:
    text = "g (float[4,4] x) => (float[4,4] y) { t = Transpose(w) u = Neg(t) a = MatMul(x, t) y = MatMul(a, u) }"
    model = load(text, weights={"w": W})
    made, change_log = converted(load(text), w=W)
    assert list(change_log.declines[NAME]) == ["u"]
    assert [a.dtype for a in initializers(made).values()] == [np.float16]
    require_near(model, made, feeds_of(model), 4e-3)


def test_sizes_are_halved_and_weights_shared_with_wide_ops_are_there_twice() -> None:
    big = RNG.normal(0, 0.1, (64, 64)).astype(np.float32)
    text = "g (float[4,64] x) => (float[4,64] y, float[64,64] z) { a = MatMul(x, w) y = MatMul(a, w) z = Exp(w) }"
    model = load(text, weights={"w": big})
    made, _ = converted(load(text), w=big)
    assert sorted((str(a.dtype), a.size) for a in initializers(made).values()) == [("float16", 4096), ("float32", 4096)]
    alone = load(text.replace(", float[64,64] z", "").replace("z = Exp(w)", ""))
    assert converted(alone, w=big)[0].ByteSize() < 0.55 * model.ByteSize()


def test_a_transpose_that_crashes_onnxruntime_stays_wide() -> None:
    text = "g (float[2,3,4] x) => (float[3,2,4] y) { a = Relu(x) t = Transpose<perm=[1,0,2]>(a) y = MatMul(t, w) }"
    model = load(text, weights={"w": W})
    (transpose,) = from_onnx(model).graph.ops("Transpose")
    assert crashes_onnxruntime(transpose)
    made, change_log = converted(model)
    assert change_log.declines[NAME]["t"] == "onnxruntime may crash where a MatMul follows it"
    onnxruntime.InferenceSession(made.SerializeToString())
    assert [n.op_type for n in made.graph.node if n.output[0] == "t"] == ["Transpose"]


def stored(model: onnx.ModelProto, to: str = "float16") -> tuple[onnx.ModelProto, ChangeLog]:
    """The valid model after the weights are stored in 16 bits, and the change log."""
    result, change_log = apply_passes(model, StoreWeights(to))
    made = to_onnx(result)
    checker.check_model(made, full_check=True)
    return made, change_log


@pytest.mark.parametrize(("to", "share"), [("float16", 1e-3), ("bfloat16", 8e-3)])
def test_stored_weights_are_cast_when_onnxruntime_loads(to: str, share: float, tmp_path: Path) -> None:
    big = RNG.normal(0, 0.1, (64, 64)).astype(np.float32)
    text = """g (float[4,64] x, bool b) => (float[4,64] y) { a = MatMul(x, w) h = Tanh(a) y = If(b) <
        then_branch = t () => (float[4,64] p) { p = MatMul(h, w) },
        else_branch = e () => (float[4,64] q) { u = Constant<value = float[2] {1, 2}>() q = MatMul(h, v) }> }"""
    model = load(text, weights={"w": big, "v": -big})
    made, change_log = stored(model, to)
    assert change_log.counts["store-half-weights"]["store-half-weights"] == 2
    assert made.ByteSize() < 0.53 * model.ByteSize()
    feeds = {"x": RNG.uniform(-1, 1, (4, 64)).astype(np.float32)}
    for b in (True, False):
        require_near(model, made, feeds | {"b": np.array(b)}, share)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.intra_op_num_threads = str(tmp_path / "loaded.onnx"), 1
    onnxruntime.InferenceSession(made.SerializeToString(), options)
    loaded = onnx.load(tmp_path / "loaded.onnx")
    inner = [n.op_type for n in loaded.graph.node for a in n.attribute for n in a.g.node]
    assert "Cast" not in [*op_types(loaded), *inner]


def filled(number: float) -> np.ndarray:
    return np.full((99, 4), number, np.float32)


@each(
    ("weights", "to", "opset", "reason"),
    {
        "overflow": (filled(1e5), "float16", 17, "w has elements beyond 65504, the largest half"),
        "underflow": (filled(1e-6), "float16", 17, "w is as small as 1e-06, where halves lose digits"),
        "overflow of bfloat16": (filled(3.4e38), "bfloat16", 17, "w overflows"),
        "older opset": (filled(1), "bfloat16", 12, "bfloat16 needs opset 13"),
        "double": (filled(1).astype(np.float64), "float16", 17, "w is not of single precision"),
        "small": (W[:1], "float16", 17, "w is small or not read"),
        "scales": (np.ones(300, np.float32), "float16", 17, "w belongs to quantized groups"),
    },
)
def test_weights_that_are_not_stored_say_why(weights: np.ndarray, to: str, opset: int, reason: str) -> None:
    quantized = "q = QuantizeLinear<axis=0>(x, w) y = DequantizeLinear<axis=0>(q, w)"
    text = quantized if weights.ndim == 1 else "y = Mul(x, w)"
    model = load(f"g (float[99,4] x) => (float[n,m] y) {{ {text} }}", opset, {"w": weights})
    result, change_log = apply_passes(model, StoreWeights(to))
    assert to_onnx(result) == model
    assert reason in change_log.declines["store-half-weights"].values()


def test_scales_of_weights_of_4_bits_stay_constant() -> None:
    """onnxruntime's MatMulNBits computes with scales that it knows as it loads the model, by default on integers."""
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[4,192] x) => (float[4,192] y) {
        h = Mul(x, v) y = com.microsoft.MatMulNBits<K=192, N=192, bits=4, block_size=32, accuracy_level=4>(h, b, s) }"""
    weights = {
        "v": RNG.uniform(0.5, 1, (4, 192)).astype(np.float32),
        "b": RNG.integers(0, 256, (192, 6, 16)).astype(np.uint8),
        "s": RNG.uniform(0.01, 0.02, (192, 6)).astype(np.float32),
    }
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in weights.items())
    result, change_log = apply_passes(model, StoreWeights())
    assert change_log.declines["store-half-weights"]["s"] == "s belongs to quantized groups"
    assert change_log.counts["store-half-weights"]["store-half-weights"] == 1
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {"x": RNG.uniform(-1, 1, (4, 192)).astype(np.float32)}
    before, after = (
        onnxruntime.InferenceSession(m.SerializeToString(), options).run(None, feeds)[0]
        for m in (model, to_onnx(result))
    )
    assert np.abs(after - before).max() < 0.05 * np.abs(before).max()


def test_other_types_are_refused() -> None:
    with pytest.raises(UsageError, match=re.escape("to=int8 is not a type for weights: float16 or bfloat16")):
        StoreWeights("int8")


OPS = ("Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Softmax", "Identity", "Exp", "Sqrt", "ReduceMax", "MatMul", "Gemm",
       "Add", "Mul", "Concat", "Where", "Transpose", "LayerNormalization", "Clip")  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_random_nets_stay_valid_and_near(steps: list[tuple[str, int, int]]) -> None:
    """The result is valid, of the same interface, and near the float model where its values are moderate."""
    lines, names = ["x0 = Tanh(x)"], ["x0"]
    for i, (op, first, second) in enumerate(steps, 1):
        a, b, out = names[first % len(names)], names[second % len(names)], f"x{i}"
        lines.append({
            "MatMul": f"{out} = MatMul({a}, w)",
            "Gemm": f"{out} = Gemm<alpha = 0.5>({a}, w, c)",
            "Add": f"{out} = Add({a}, {b})",
            "Mul": f"m{i} = Tanh({b}) {out} = Mul({a}, m{i})",
            "Exp": f"m{i} = Tanh({a}) {out} = Exp(m{i})",
            "Sqrt": f"m{i} = Sigmoid({a}) {out} = Sqrt(m{i})",
            "ReduceMax": f"m{i} = ReduceMax<axes = [1]>({a}) {out} = Add(m{i}, {b})",
            "Concat": f"m{i} = Concat<axis = 1>({a}, {b}) {out} = MatMul(m{i}, ww)",
            "Where": f"{out} = Where(mask, {a}, {b})",
            "Transpose": f"{out} = Transpose<perm = [1, 0]>({a})",
            "LayerNormalization": f"{out} = LayerNormalization({a}, c)",
            "Clip": f"{out} = Clip({a}, low, high)",
        }.get(op, f"{out} = {op}({a})"))  # fmt: skip
        names.append(out)
    text = f"g (float[4,4] x) => (float[4,4] {names[-1]}, float[4,4] {names[len(names) // 2]}x) {{ {' '.join(lines)}"
    text += f" {names[len(names) // 2]}x = Identity({names[len(names) // 2]}) }}"
    weights = {"w": W, "ww": np.concatenate([W, -W]), "c": W[0], "mask": W > 0, "low": np.array(-2, np.float32),
               "high": np.array(3e38, np.float32)}  # fmt: skip
    model = load(text, weights=read_by(text, weights))
    made, _ = converted(model)
    assert [v.type.tensor_type.elem_type for v in made.graph.output] == [TensorProto.FLOAT] * 2
    require_near(model, made, feeds_of(model), 0.03)
