"""Tests of channels that are removed, and of weights that make up for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker, numpy_helper
from passwright.core import from_onnx
from passwright.core.calibration.collection import collect_statistics
from passwright.passes.quantization.channels import ChannelClasses
from passwright.passes.quantization.pruning import PruneChannels, Pruning, PruningPlan, input_rows, linear_ops
from quantized_accuracy import decibels
from rewriting import apply_passes, cases, load, run, to_onnx

Array = np.ndarray[Any, Any]
Constants = Mapping[str, Array]


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *dims]).normal(0.05, 0.3, dims).astype(np.float32)


def pruning_of(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> Pruning:
    graph = from_onnx(model).graph
    names, rows = (
        [op.outputs[0].name for op in linear_ops(graph)],
        input_rows(r.op for r in ChannelClasses(graph).readers),
    )
    return Pruning(graph, collect_statistics(model, names, [feeds], grams=rows, histograms=False))


def pruned(model: onnx.ModelProto, plan: PruningPlan) -> onnx.ModelProto:
    result, change_log = apply_passes(model, PruneChannels(plan))
    assert change_log.counts == {"prune-channels": {"prune-channels": 1}}
    after = to_onnx(result)
    checker.check_model(after, full_check=True)
    return after


def extents(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {t.name.partition("|")[0].partition("_pw")[0]: list(t.dims) for t in model.graph.initializer}


IMAGES, VECTORS, TEXTS = (
    f"g (float[{dims}] x) => (float[{made}] y) {{"
    for dims, made in (("N,4,8,8", "a,b,c,d"), ("N,12", "a,b"), ("N,6,12", "a,b,c"))
)
INPUTS = {IMAGES: normal(400, 4, 8, 8, seed=1), VECTORS: normal(512, 12, seed=1), TEXTS: normal(64, 6, 12, seed=1)}
NORM = {name: np.abs(normal(16, seed=i)) + 0.5 for i, name in enumerate(("scale", "shift", "mean", "variance"))}
"""Each model has 16 channels in `r`, or heads; with it, the axes of what reads them, and how many may be unused."""
NETWORKS: dict[str, Any] = {
    "residual, Concat, groups, BatchNormalization": (
        IMAGES
        + "a = Conv<pads=[1,1,1,1]>(x, u, b) n = BatchNormalization(a, scale, shift, mean, variance) r = Relu(n) "
        "t = Conv(r, v) s = Add(r, t) d = Conv<group=16, pads=[1,1,1,1]>(s, w) e = Conv<group=2>(s, z) "
        "c = Concat<axis=1>(d, e) y = Conv(c, o) }",
        {"u": normal(16, 4, 3, 3), "b": normal(16), **NORM, "v": normal(16, 16, 1, 1), "w": normal(16, 1, 3, 3),
         "z": normal(8, 8, 1, 1), "o": normal(4, 24, 1, 1)},
        {"v": 1, "z": 1, "o": 1},
        2,
    ),
    "Split, Slice, Pad, pools, gates": (
        IMAGES
        + "a = Conv(x, u, b) r = LeakyRelu(a) p, q = Split<axis=1, num_outputs=2>(r) h = Slice(p, two, seven, one) "
        "g = GlobalAveragePool(q) k = Sigmoid(g) m = Mul(q, k) c = Concat<axis=1>(h, m) f = Pad(c, pads) "
        "l = MaxPool<kernel_shape=[2,2]>(f) i = Resize(l, , scales) y = Conv(i, v) }",
        {"u": normal(16, 4, 3, 3), "b": normal(16), "v": normal(4, 13, 1, 1), "two": np.array([2]),
         "seven": np.array([7]), "one": np.array([1]), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
         "scales": np.array([1, 1, 2, 2], np.float32)},
        {"v": 1},
        7,
    ),
    "Gemm, PRelu and a transposed Gemm": (
        VECTORS + "a = Gemm(x, u, b) r = PRelu(a, p) y = Gemm<transB=1>(r, v, c) }",
        {"u": normal(12, 16), "b": normal(16), "p": normal(16), "v": normal(5, 16), "c": normal(5)},
        {"v": 1},
        4,
    ),
    "MatMul, bias, Gelu and Flatten": (
        TEXTS + "a = MatMul(x, u) s = Add(a, b) r = Gelu(s) m = MatMul(r, v) y = Add(m, c) }",
        {"u": normal(12, 16), "b": normal(16), "v": normal(16, 5), "c": normal(5)},
        {"v": 0},
        4,
    ),
    "Reshape to rows": (
        IMAGES.replace("a,b,c,d", "a,b")
        + "a = Conv<strides=[2,2]>(x, u, b) r = Relu(a) f = Reshape(r, shape) y = MatMul(f, v) }",
        {"u": normal(16, 4, 2, 2), "b": normal(16), "shape": np.array([0, 256]), "v": normal(256, 5)},
        {"v": 0},
        4,
    ),
    "heads of products": (
        TEXTS
        + "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) "
        "q1 = Reshape(q, apart) k1 = Reshape(k, apart) v1 = Reshape(v, apart) q2 = Transpose<perm=[0,2,1,3]>(q1) "
        "k2 = Transpose<perm=[0,2,3,1]>(k1) v2 = Transpose<perm=[0,2,1,3]>(v1) s = MatMul(q2, k2) p = Softmax(s) "
        "h = MatMul(p, v2) t = Transpose<perm=[0,2,1,3]>(h) f = Reshape(t, whole) y = MatMul(f, o) }",
        {"wq": normal(12, 64), "wk": normal(12, 64), "wv": normal(12, 64), "apart": np.array([0, 0, 16, 4]),
         "whole": np.array([0, 0, 64]), "o": normal(64, 5)},
        {"o": 0},
        4,
    ),
    "heads of Attention": (
        TEXTS
        + "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) "
        "f = Attention<q_num_heads=16, kv_num_heads=16>(q, k, v) y = MatMul(f, o) }",
        {"wq": normal(12, 64), "wk": normal(12, 64), "wv": normal(12, 32), "o": normal(32, 5)},
        {"o": 0},
        4,
    ),
}  # fmt: skip


def planted(constants: Constants, readers: Mapping[str, int], dead: list[int]) -> dict[str, Array]:
    """The constants with zeros in place of what reads channels `dead` of 16, in weights by the axis of these."""
    found = dict(constants)
    for name, axis in readers.items():
        w = found[name] = found[name].copy()
        rows, count = np.moveaxis(w, axis, 0), w.shape[axis]
        if name == "z":  # of each group
            rows[[d for d in dead if d < 8]] = 0
        elif count == 13:  # channels 2 to 7 and 8 to 16
            rows[[d - 2 if d < 7 else d - 3 for d in dead]] = 0
        elif count == 24:  # the other 8 are those of the other operand of a Concat
            rows[dead] = 0
        else:
            rows.reshape(16, count // 16, *rows.shape[1:])[dead] = 0
    return found


@cases(("text", "constants", "readers", "unused"), NETWORKS)
def test_channels_that_nothing_uses_are_removed_exactly(
    text: str, constants: Constants, readers: Any, unused: int
) -> None:
    dead = [2, 5, 10, 13]
    model = load(text, opset=24, weights=planted(constants, readers, dead))
    feeds = {"x": INPUTS[next(start for start in INPUTS if text.startswith(start[:24]))]}
    found = pruning_of(model, feeds)
    group = found.groups[0]
    gone = group.order[:unused]
    assert np.allclose(group.errors[len(gone) - 1], 0, atol=1e-9)
    assert group.errors[len(gone)] > 1e-7
    plan = found.plan_without(gone)
    assert plan.share < 0.9
    after = pruned(model, plan)
    for wanted, made in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=1e-4)
    assert sum(map(np.prod, extents(after).values())) < sum(a.size for a in constants.values())


@cases(("text", "constants", "readers", "unused"), NETWORKS)
@pytest.mark.parametrize("share", [0.7, 0.4])
def test_any_plan_gives_a_model_with_the_share_of_multiplications(
    text: str, constants: Constants, readers: Any, unused: int, share: float
) -> None:
    model = load(text, opset=24, weights=constants)
    feeds = {"x": INPUTS[next(start for start in INPUTS if text.startswith(start[:24]))]}
    found = pruning_of(model, feeds)
    plan = found.plan(share)
    assert plan.share <= share
    after = pruned(model, plan)
    assert [a.shape for a in run(after, feeds)] == [a.shape for a in run(model, feeds)]
    again = pruning_of(after, feeds)
    assert again.total == pytest.approx(plan.share * found.total)
    assert {c.value: c.channels - c.removed for c in plan.removed}.items() <= {
        g.value: len(g.classes) for g in again.groups
    }.items() or len(again.groups) < len(found.groups)


TWICE = np.repeat(normal(12, 16), 2, axis=1)
MLPS: dict[str, Any] = {
    "Gemm": VECTORS + "a = Gemm(x, u, b) r = Relu(a) y = Gemm(r, v, c) }",
    "without a bias": VECTORS + "a = Gemm(x, u, b) r = Relu(a) y = MatMul(r, v) }",
}


@cases("text", MLPS)
def test_weights_of_a_copy_are_added_to_those_of_the_channel_that_stays(text: str) -> None:
    """Neurons that are there twice: without one of each pair, and without new weights, the rest is another network."""
    constants = {"u": TWICE, "b": np.repeat(normal(16), 2), "v": normal(32, 5), "c": normal(5)}
    model = load(text, opset=24, weights={k: v for k, v in constants.items() if f" {k})" in text or f" {k}," in text})
    feeds, unseen = {"x": normal(2000, 12, seed=3)}, {"x": normal(100, 12, seed=4)}
    found = pruning_of(model, feeds)
    (group,) = found.groups
    assert {(c - group.classes[0]) // 2 for c in group.order[:16]} == {*range(16)}
    plan = found.plan_without(group.order[:16])
    assert plan.share == 0.5
    assert decibels(run(model, unseen), run(pruned(model, plan), unseen)) > 40
    kept = sorted({*group.classes} - plan.classes)
    fitted = {
        name: type(fit)(constants["v"][np.array(kept) - group.classes[0]], None) for name, fit in plan.fitted.items()
    }
    unrepaired = pruned(model, type(plan)(plan.share, plan.classes, fitted, plan.removed))
    assert decibels(run(model, unseen), run(unrepaired, unseen)) < 15


def test_error_of_a_plan_is_that_of_its_layer() -> None:
    """The errors that order channels are those that the fitted weights have on the data."""
    constants = {"u": normal(16, 4, 3, 3), "b": normal(16), "v": normal(5, 16, 3, 3), "c": normal(5)}
    model = load(IMAGES + "a = Conv(x, u, b) r = Relu(a) y = Conv(r, v, c) }", opset=24, weights=constants)
    feeds = {"x": INPUTS[IMAGES]}
    found = pruning_of(model, feeds)
    (group,) = found.groups
    for count in group.sizes:
        (wanted,), (made,) = run(model, feeds), run(pruned(model, found.plan_without(group.order[:count])), feeds)
        varying = np.square(wanted - wanted.mean(axis=(0, 2, 3), keepdims=True)).sum()
        assert np.square(made - wanted).sum() / varying == pytest.approx(group.errors[count - 1], rel=0.1, abs=1e-3)


WHOLE: dict[str, Any] = {
    "an output": VECTORS.replace("y)", "y, float[a,16] r)") + "a = Gemm(x, u, b) r = Relu(a) y = MatMul(r, v) }",
    "Softmax": VECTORS + "a = Gemm(x, u, b) r = Softmax(a) y = MatMul(r, v) }",
    "LayerNormalization": VECTORS + "a = Gemm(x, u, b) r = LayerNormalization(a, b) y = MatMul(r, v) }",
    "a sum over channels": VECTORS
    + "a = Gemm(x, u, b) r = Relu(a) s = ReduceSum(r, one) t = Div(r, s) y = MatMul(t, v) }",
    "the number of channels": VECTORS
    + "a = Gemm(x, u, b) r = Relu(a) n = Shape(r) m = Cast<to=1>(n) k = ReduceSum(m) t = Div(r, k) y = MatMul(t, v) }",
    "the input": VECTORS.replace("12", "16") + "a = Relu(x) y = MatMul(a, v) }",
    "a subgraph": VECTORS
    + "a = Gemm(x, u, b) r = Relu(a) s = If (yes) <then_branch = t () => (p) { p = Neg(r) }, "
    "else_branch = e () => (q) { q = Abs(r) }> y = MatMul(s, v) }",
    "Reshape that mixes": VECTORS + "a = Gemm(x, u, b) r = Relu(a) s = Reshape(r, turned) t = Transpose(s) "
    "z = Reshape(t, back) y = MatMul(z, v) }",
    "an unknown rank": VECTORS.replace("x)", "x, int64[k] dims)") + "a = Gemm(x, u, b) r = Relu(a) "
    "s = Reshape(r, dims) t = Transpose<perm=[1,0]>(s) z = Transpose(t) y = MatMul(z, v) }",
    "another product": VECTORS + "a = Gemm(x, u, b) r = Relu(a) t = Transpose(r) s = MatMul(r, t) y = Relu(s) }",
    "shared weights": VECTORS
    + "a = Gemm(x, u, b) r = Relu(a) p = MatMul(r, v) q = Abs(r) k = MatMul(q, v) y = Add(p, k) }",
    "an unknown operator": VECTORS + "a = Gemm(x, u, b) r = com.unknown.Mix(a) y = MatMul(r, v) }",
    "vectors": VECTORS.replace("a,b", "a") + "a = Gemm(x, u, b) r = Relu(a) y = MatMul(r, one_column) }",
}  # fmt: skip


@cases("text", WHOLE)
def test_channels_that_something_else_reads_stay(text: str) -> None:
    constants = {
        "u": normal(12, 16), "b": normal(16), "v": normal(16, 5), "one": np.array([1]), "yes": np.array(True),
        "turned": np.array([-1, 3, 16]), "back": np.array([-1, 16]), "one_column": normal(16),
    }  # fmt: skip
    used = {k: v for k, v in constants.items() if f" {k})" in text or f" {k}," in text or f"({k})" in text}
    model = load(text, opset=24, weights=used)
    classes = ChannelClasses(from_onnx(model).graph)
    for v, axes in classes.axes.items():
        if v.name in {"a", "r"}:
            assert all(labels is None or not classes.roots(labels).any() for labels in axes), v.name


def test_no_axis_loses_all_its_channels() -> None:
    """Of two convolutions that are one after a Split, each part keeps a channel, whatever is wanted."""
    text = IMAGES + "a = Conv(x, u, b) p, q = Split<axis=1>(a, sizes) m = Conv(p, v) n = Conv(q, w) y = Add(m, n) }"
    constants = {
        "u": normal(16, 4, 3, 3), "b": normal(16), "sizes": np.array([2, 14]),
        "v": np.zeros((5, 2, 1, 1), np.float32), "w": normal(5, 14, 1, 1),
    }  # fmt: skip
    model = load(text, opset=24, weights=constants)
    feeds = {"x": INPUTS[IMAGES]}
    after = pruned(model, pruning_of(model, feeds).plan(0.0))
    integers = (t for t in after.graph.initializer if t.data_type == onnx.TensorProto.INT64)
    assert [numpy_helper.to_array(t).tolist() for t in integers] == [[1, 3]]
    assert run(after, feeds)[0].shape == run(model, feeds)[0].shape


def test_channels_of_weights_that_are_not_finite_stay() -> None:
    infinite = normal(16, 5)
    infinite[3, 2] = np.inf
    constants = {"u": normal(12, 16), "b": normal(16), "v": infinite}
    model = load(VECTORS + "a = Gemm(x, u, b) r = Sigmoid(a) y = MatMul(r, v) }", opset=24, weights=constants)
    assert not pruning_of(model, {"x": INPUTS[VECTORS]}).groups


def test_nothing_to_remove_changes_nothing() -> None:
    model = load(VECTORS + "y = Gemm(x, u) }", opset=24, weights={"u": normal(12, 5)})
    plan = pruning_of(model, {"x": INPUTS[VECTORS]}).plan(0.5)
    assert plan.share == 1
    assert apply_passes(model, PruneChannels(plan))[1].counts == {}
