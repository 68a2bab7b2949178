"""Tests of cross-layer equalization."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import checker
from passwright.core import ChangeLog
from passwright.passes.quantization.channel_scales import EqualizeChannels
from quantized_accuracy import decibels, quantized_with
from rewriting import apply_passes, initializers, load, op_types, require_equivalent, run, to_onnx
from weights import read_by

RNG = np.random.default_rng(0)
NAME = EqualizeChannels().name


def weights(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 0.4, dims).astype(np.float32)


def uneven(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Weights whose output channels differ in size by up to 400 times."""
    scales = np.exp(np.random.default_rng(seed + 1).uniform(-3, 3, dims[0]))
    return (weights(*dims, seed=seed) * scales.reshape(-1, *[1] * (len(dims) - 1))).astype(np.float32)


def equalized(model: onnx.ModelProto) -> tuple[onnx.ModelProto, ChangeLog]:
    """The model after the pass, and the change log; the ops are the same."""
    result, change_log = apply_passes(model, EqualizeChannels())
    made = to_onnx(result)
    checker.check_model(made, full_check=True)
    assert op_types(made) == op_types(model)
    return made, change_log


CONVS = "g (float[1,3,6,6] x) => (float[1,n,h,w] y) {"
MATRICES = "g (float[5,4] x) => (float[5,n] y) {"
BALANCED = [
    pytest.param(CONVS + "a = Conv(x, u, b) r = Relu(a) y = Conv(r, v) }",
                 {"u": uneven(4, 3, 3, 3), "b": weights(4), "v": weights(2, 4, 1, 1)}, id="Conv"),
    pytest.param(CONVS + "a = Conv(x, u, b) r = LeakyRelu(a) y = Conv<group=4>(r, v) }",
                 {"u": uneven(4, 3, 1, 1), "b": weights(4), "v": weights(4, 1, 3, 3)}, id="depthwise"),
    pytest.param(CONVS + "a = Conv<group=3>(x, u, b) y = Conv<group=2>(a, v) }",
                 {"u": uneven(6, 1, 1, 1), "b": weights(6), "v": weights(4, 3, 3, 3)}, id="groups"),
    pytest.param(CONVS + "a = ConvTranspose(x, u, b) r = Relu(a) y = ConvTranspose(r, v) }",
                 {"u": weights(3, 4, 2, 2), "b": weights(4), "v": uneven(4, 2, 2, 2)}, id="ConvTranspose"),
    pytest.param(CONVS + """a = Conv(x, u, b) r = Relu(a) p = MaxPool<kernel_shape=[2,2]>(r)
                 q = AveragePool<kernel_shape=[2,2]>(p) y = Conv(q, v) }""",
                 {"u": uneven(4, 3, 1, 1), "b": weights(4), "v": weights(2, 4, 3, 3)}, id="pools"),
    pytest.param("g (float[1,3,6,6] x) => (float[1,2] y) { a = Conv(x, u, b) f = Flatten(a) y = Gemm<transB=1>(f, v) }",
                 {"u": uneven(4, 3, 5, 5), "b": weights(4), "v": weights(2, 16)}, id="Flatten of channels of 4"),
    pytest.param("""g (float[1,3,6,6] x) => (float[1,2] y) { a = Conv(x, u, b) p = GlobalAveragePool(a)
                 f = Reshape(p, s) y = MatMul(f, v) }""",
                 {"u": uneven(4, 3, 5, 5), "b": weights(4), "v": weights(4, 2), "s": np.array([1, 4])}, id="Reshape"),
    pytest.param(MATRICES + "a = MatMul(x, u) c = Add(a, b) r = Relu(c) y = MatMul(r, v) }",
                 {"u": uneven(6, 4).T, "b": weights(6), "v": weights(6, 3)}, id="MatMul"),
    pytest.param(MATRICES + "a = Gemm<transB=1>(x, u, b) r = Relu(a) y = Gemm<alpha=0.5>(r, v, c) }",
                 {"u": uneven(6, 4), "b": weights(6), "v": weights(6, 3), "c": weights(3)}, id="Gemm"),
    pytest.param("""g (float[5,4] x) => (float[3,5] y) { a = MatMul(x, u) t = Transpose<perm=[1,0]>(a)
                 q = Transpose<perm=[1,0]>(t) z = MatMul(q, v) y = Transpose<perm=[1,0]>(z) }""",
                 {"u": uneven(6, 4).T, "v": weights(6, 3)}, id="Transpose"),
    pytest.param("""g (float[5,4] x) => (float[5,3] y, float[5,2] z) {
                 a = MatMul(x, u) y = MatMul(a, v) z = MatMul(a, vv) }""",
                 {"u": uneven(6, 4).T, "v": weights(6, 3), "vv": weights(6, 2)}, id="two readers"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants"), BALANCED)
def test_channels_become_alike_and_the_outputs_stay(text: str, constants: dict[str, Any]) -> None:
    model = load(text, weights=constants)
    made, change_log = equalized(model)
    assert change_log.counts[NAME][NAME] == 1
    require_equivalent(model, made, compare_regions=False)
    again, change_log = equalized(made)
    assert not change_log.changes
    assert again == made


def test_the_maxima_of_channels_meet_in_the_middle() -> None:
    u, v = uneven(4, 3, 1, 1), weights(2, 4, 1, 1)
    model = load(CONVS + "a = Conv(x, u, b) r = Relu(a) y = Conv(r, v) }", weights={"u": u, "b": weights(4), "v": v})
    made, _ = equalized(model)
    found = initializers(made)
    first, second = (found[n.input[1]] for n in made.graph.node if n.op_type == "Conv")
    sizes = np.abs(u).max(axis=(1, 2, 3)), np.abs(v).max(axis=(0, 2, 3))
    wanted = np.sqrt(sizes[0] * sizes[1])  # equation 9 of the paper
    assert np.allclose(np.abs(first).max(axis=(1, 2, 3)), wanted, rtol=1e-5)
    assert np.allclose(np.abs(second).max(axis=(0, 2, 3)), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        pytest.param("a = MatMul(x, u) r = Sigmoid(a) y = MatMul(r, v)", "r", "is not computed by", id="Sigmoid"),
        pytest.param("a = MatMul(x, u) r = Clip(a, low, high) y = MatMul(r, v)", "r", "is not computed by", id="Relu6"),
        pytest.param("a = MatMul(x, u) r = Relu(a) z = ReduceMax(a) w = MatMul(r, v) y = Add(w, z)", "r",
                     "a is used elsewhere", id="another reader"),
        pytest.param("r = MatMul(x, u) w = MatMul(r, v) z = ReduceMax(r) y = Add(w, z)", "r",
                     "no product with weights, reads r", id="a reader without weights"),
        pytest.param("a = MatMul(x, u) e = Exp(a) r = Add(a, e) y = MatMul(r, v)", "r", "is not of one constant",
                     id="residual"),
        pytest.param("a = MatMul(x, u) r = LayerNormalization(a, b) y = MatMul(r, v)", "r", "no weights", id="norm"),
        pytest.param("r = MatMul(x, u) w = MatMul(r, v) o = MatMul(x, u) z = ReduceMax(o) y = Add(w, z)", "r",
                     "u is used elsewhere", id="shared"),
        pytest.param("a = MatMul(x, u) c = Add(a, one) y = MatMul(c, v)", "c", "not one number for each channel",
                     id="one number for all channels"),
        pytest.param("y = MatMul(x, v4)", "x", "x is an input or output", id="input"),
        pytest.param("r = MatMul(x, u) t = Transpose<perm=[1,0]>(r) y = Gemm<transA=1>(t, v)", "t",
                     "sums over the rows of t", id="transA"),
    ],
)  # fmt: skip
def test_values_that_are_not_scaled_say_why(text: str, place: str, reason: str) -> None:
    numbers = {"u": uneven(6, 4).T, "v": weights(6, 3), "b": weights(6), "low": np.float32(0), "high": np.float32(6),
               "one": np.ones(1, np.float32), "v4": weights(4, 3)}  # fmt: skip
    text = f"{MATRICES} {text} }}"
    model = load(text, weights=read_by(text, numbers))
    result, change_log = apply_passes(model, EqualizeChannels())
    assert not change_log.changes
    assert to_onnx(result) == model
    assert reason in change_log.declines[NAME][place]


def mobile_net(seed: int = 3) -> onnx.ModelProto:
    """Three blocks of a depthwise and a pointwise Conv whose channels differ a lot in size, as in MobileNetV2."""
    rng = np.random.default_rng(seed)
    lines, constants, last = [], {}, "x"
    for i, (channels, made) in enumerate(((3, 16), (16, 16), (16, 8))):
        factors = np.exp(rng.uniform(-3, 3, channels))
        depthwise = rng.normal(0, 0.5, (channels, 1, 3, 3)) * factors.reshape(-1, 1, 1, 1)
        pointwise = rng.normal(0, 1 / np.sqrt(channels), (made, channels, 1, 1)) / factors.reshape(1, -1, 1, 1)
        constants |= {f"dw{i}": depthwise, f"db{i}": rng.normal(0, 0.1, channels) * factors}
        constants |= {f"pw{i}": pointwise, f"pb{i}": rng.normal(0, 0.1, made)}
        lines.append(f"d{i} = Conv<group={channels}, pads=[1,1,1,1]>({last}, dw{i}, db{i}) e{i} = Relu(d{i})")
        lines.append(f"p{i} = Conv(e{i}, pw{i}, pb{i}) q{i} = Relu(p{i})")
        last = f"q{i}"
    text = f"g (float[N,3,16,16] x) => (float[N,8,1,1] y) {{ {' '.join(lines)} y = GlobalAveragePool({last}) }}"
    return load(text, weights={name: a.astype(np.float32) for name, a in constants.items()})


def test_equalization_restores_per_tensor_integers_of_a_mobile_net() -> None:
    model = mobile_net()
    feeds = {"x": RNG.uniform(-1, 1, (8, 3, 16, 16)).astype(np.float32)}
    wanted = run(model, feeds)
    made, _ = equalized(model)
    assert decibels(wanted, run(made, feeds)) > 100
    plain = decibels(wanted, run(quantized_with(model, feeds, per_channel=False), feeds))
    better = decibels(wanted, run(quantized_with(made, feeds, per_channel=False), feeds))
    assert better > plain + 10, (plain, better)


@given(st.lists(st.sampled_from(["Relu", "LeakyRelu", "Abs", "MaxPool", "Sigmoid", ""]), min_size=1, max_size=4),
       st.integers(0, 5))  # fmt: skip
def test_outputs_stay_for_random_chains(between: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines, constants, last, channels = [], {}, "x", 3
    for i, op in enumerate(between):
        made = int(rng.integers(1, 4)) * channels
        group = channels if rng.random() < 0.5 else 1
        constants |= {f"w{i}": uneven(made, channels // group, 2, 2, seed=seed), f"b{i}": weights(made, seed=seed)}
        lines.append(f"c{i} = Conv<group={group}, pads=[1,1,0,0]>({last}, w{i}, b{i})")
        kernel = "<kernel_shape=[2,2]>" if op == "MaxPool" else ""
        lines.append(f"a{i} = {op or 'Identity'}{kernel}(c{i})")
        last, channels = f"a{i}", made
    constants["v"] = weights(2, channels, 1, 1)
    text = f"g (float[1,3,9,9] x) => (float[1,2,h,w] y) {{ {' '.join(lines)} y = Conv({last}, v) }}"
    model = load(text, weights=constants)
    made, change_log = equalized(model)
    feeds = {"x": rng.uniform(-1, 1, (1, 3, 9, 9)).astype(np.float32)}
    assert decibels(run(model, feeds), run(made, feeds)) > 100
    assert len(change_log.changes) == sum(op != "Sigmoid" for op in between)
