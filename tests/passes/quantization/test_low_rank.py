"""Tests of products and convolutions that become two narrow ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker
from passwright.core import from_onnx
from passwright.core.calibration.collection import collect_statistics
from passwright.passes.quantization.low_rank import FactorLayers, LowRank, LowRankPlan, factorable_ops
from passwright.passes.quantization.pruning import input_rows, linear_ops
from rewriting import apply_passes, cases, load, op_types, run, to_onnx

Array = np.ndarray[Any, Any]
Constants = Mapping[str, Array]
RANK = 8
INFINITE = np.pad(np.full((1, 1), np.inf, np.float32), ((0, 31), (0, 47)))


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *dims]).normal(0.05, 0.3, dims).astype(np.float32)


def narrow(*dims: int) -> Array:
    """Weights of RANK, as a matrix of the first axis and all others."""
    return (normal(dims[0], RANK) @ normal(RANK, int(np.prod(dims[1:])), seed=1)).reshape(dims)


def low_rank_of(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> LowRank:
    graph = from_onnx(model).graph
    names, rows = [op.outputs[0].name for op in linear_ops(graph)], input_rows(factorable_ops(graph))
    return LowRank(graph, collect_statistics(model, names, [feeds], grams=rows, histograms=False))


def factored(model: onnx.ModelProto, plan: LowRankPlan) -> onnx.ModelProto:
    result, change_log = apply_passes(model, FactorLayers(plan))
    assert change_log.counts == {"factor-layers": {"factor-layers": len(plan.ranks)}}
    after = to_onnx(result)
    checker.check_model(after, full_check=True)
    return after


IMAGES, VECTORS, TEXTS, VECTOR = (
    f"g (float[{dims}] x) => (float[{made}] y) {{"
    for dims, made in (("N,4,9,9", "a,b,c,d"), ("N,32", "a,b"), ("N,6,32", "a,b,c"), ("32", "a"))
)
INPUTS = {IMAGES: normal(40, 4, 9, 9), VECTORS: normal(512, 32), TEXTS: normal(64, 6, 32), VECTOR: normal(32)}
LAYERS: dict[str, tuple[str, Constants]] = {
    "MatMul": (VECTORS + "y = MatMul(x, w) }", {"w": narrow(32, 48)}),
    "MatMul and bias": (TEXTS + "a = MatMul(x, w) y = Add(b, a) }", {"w": narrow(32, 48), "b": normal(48)}),
    "MatMul of a vector": (VECTOR + "y = MatMul(x, w) }", {"w": narrow(32, 48)}),
    "wide MatMul": (TEXTS + "y = MatMul(x, w) }", {"w": narrow(32, 200)}),
    "Gemm": (VECTORS + "y = Gemm(x, w, b) }", {"w": narrow(32, 48), "b": normal(48)}),
    "Gemm without a bias": (VECTORS + "y = Gemm<alpha=0.5>(x, w) }", {"w": narrow(32, 48)}),
    "turned Gemm with factors": (
        VECTORS + "y = Gemm<transB=1, alpha=2.0, beta=0.5>(x, w, b) }", {"w": narrow(48, 32), "b": normal(1, 48)}
    ),
    "Conv": (
        IMAGES + "y = Conv<strides=[2,1], dilations=[1,2], pads=[1,0,2,1]>(x, w, b) }",
        {"w": narrow(48, 4, 3, 3), "b": normal(48)},
    ),
    "Conv without a bias": (
        IMAGES + 'y = Conv<auto_pad="SAME_LOWER", strides=[2,2], kernel_shape=[3,3]>(x, w) }',
        {"w": narrow(48, 4, 3, 3)},
    ),
    "1 x 1": (
        IMAGES.replace("N,4,9,9", "N,32,3,3") + "y = Conv<pads=[1,1,1,1]>(x, w, b) }",
        {"w": narrow(48, 32, 1, 1), "b": normal(48)},
    ),
    "Conv of sounds": (
        TEXTS.replace("N,6,32", "N,8,40") + "y = Conv<strides=[2]>(x, w) }", {"w": narrow(48, 8, 5)}
    ),
    "halves": (
        VECTORS.replace("float", "float16") + "y = Gemm(x, w, b) }",
        {"w": narrow(32, 48).astype(np.float16), "b": normal(48).astype(np.float16)},
    ),
}  # fmt: skip


def feeds_of(model: onnx.ModelProto) -> dict[str, Array]:
    kind = model.graph.input[0].type.tensor_type
    dims = [d.dim_value or 64 for d in kind.shape.dim]
    return {"x": normal(*dims, seed=2).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))}


@cases(("text", "constants"), LAYERS)
def test_weights_of_low_rank_are_replaced_exactly(text: str, constants: Constants) -> None:
    model = load(text, opset=21, weights=constants)
    feeds, unseen = feeds_of(model), {"x": -feeds_of(model)["x"] + 1}
    found = low_rank_of(model, feeds)
    (layer,) = found.layers
    plan = found.plan(layer.shares[layer.ranks.index(RANK)] + 1e-9)
    assert [r.rank for r in plan.ranks] == [RANK]
    after = factored(model, plan)
    tolerance = 2e-2 if "float16" in text else 1e-4
    for given in (feeds, unseen) if len(feeds["x"]) > 32 or feeds["x"].ndim > 1 else (feeds,):
        np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=tolerance, atol=tolerance)
    again = low_rank_of(after, feeds)
    assert again.total == pytest.approx(plan.share * found.total)
    before, kinds = op_types(model), op_types(after)
    assert len(kinds) == len(before) + 1
    assert plan.share < 0.9


def test_error_is_that_of_the_layer_and_the_least_for_the_inputs() -> None:
    """Of inputs that hardly vary in most directions, which the weights alone do not show."""
    mixed = normal(8192, 32) @ (normal(32, 32, seed=5) * np.logspace(0, -1, 32)).astype(np.float32)
    model = load(VECTORS + "y = Gemm(x, w, b) }", opset=21, weights={"w": normal(32, 48, seed=6), "b": normal(48)})
    feeds = {"x": mixed + 3}
    found = low_rank_of(model, feeds)
    (layer,) = found.layers
    for rank, error in zip(layer.ranks[:-1], layer.errors, strict=False):
        plan = LowRankPlan(0.5, {"y": layer.factors(rank)})
        (wanted,), (made,) = run(model, feeds), run(factored(model, plan), feeds)
        power = np.square(wanted - wanted.mean(axis=0)).sum()
        assert np.square(made - wanted).sum() / power == pytest.approx(error, rel=0.1, abs=1e-4)
    u, s, v = np.linalg.svd(normal(32, 48, seed=6))
    plain = feeds["x"] @ ((u[:, :RANK] * s[:RANK]) @ v[:RANK])
    lost = np.square((wanted - normal(48)) - plain).sum() / power
    assert layer.errors[layer.ranks.index(RANK)] < 0.5 * lost


def test_layers_of_least_error_have_the_lowest_ranks() -> None:
    """And more of them, the fewer multiplications are left."""
    text = VECTORS + "a = MatMul(x, u) b = Relu(a) c = MatMul(b, v) d = Relu(c) y = MatMul(d, w) }"
    weights = {"u": normal(32, 64), "v": narrow(64, 64), "w": normal(64, 64)}
    model = load(text, opset=21, weights=weights)
    found = low_rank_of(model, {"x": INPUTS[VECTORS]})
    plans = [found.plan(share) for share in (0.9, 0.7, 0.3)]
    assert [r.value for r in plans[0].ranks] == ["c"]
    assert [plan.share <= share for plan, share in zip(plans, (0.9, 0.7, 0.3), strict=True)] == [True] * 3
    assert len(plans[2].ranks) == 3
    assert low_rank_of(factored(model, plans[2]), {"x": INPUTS[VECTORS]}).total == pytest.approx(
        plans[2].share * found.total
    )


LEFT: dict[str, tuple[str, Constants]] = {
    "nothing is saved": (VECTORS + "y = MatMul(x, w) }", {"w": narrow(32, 1)}),
    "groups": (IMAGES + "y = Conv<group=2>(x, w) }", {"w": narrow(48, 2, 3, 3)}),
    "ConvTranspose": (IMAGES + "y = ConvTranspose(x, w) }", {"w": narrow(4, 48, 3, 3)}),
    "weights on the left": (
        IMAGES.replace("N,4,9,9", "N,4,32,9") + "y = MatMul(w, x) }", {"w": narrow(48, 32)}
    ),
    "transA": (VECTORS.replace("N,32", "32,48") + "y = Gemm<transA=1>(x, w) }", {"w": narrow(32, 48)}),
    "several matrices": (TEXTS + "y = MatMul(x, w) }", {"w": narrow(64, 32, 48)}),
    "shared weights": (
        VECTORS + "a = MatMul(x, w) b = Abs(x) c = MatMul(b, w) y = Add(a, c) }", {"w": narrow(32, 48)}
    ),
    "weights that are an output": (
        VECTORS.replace("y)", "y, float[32,48] w)") + "y = MatMul(x, w) }", {"w": narrow(32, 48)}
    ),
    "a subgraph": (
        VECTORS + "y = If (yes) <then_branch = t () => (p) { p = MatMul(x, w) }, "
        "else_branch = e () => (q) { q = Gemm(x, w) }> }",
        {"w": narrow(32, 48), "yes": np.array(True)},
    ),
    "a subgraph as well": (
        VECTORS + "a = MatMul(x, w) b = If (yes) <then_branch = t () => (p) { p = MatMul(x, w) }, "
        "else_branch = e () => (q) { q = Neg(a) }> y = Add(a, b) }",
        {"w": narrow(32, 48), "yes": np.array(True)},
    ),
    "infinite weights": (VECTORS + "y = MatMul(x, w) }", {"w": narrow(32, 48) + INFINITE}),
    "integers": (VECTORS.replace("float", "int32") + "y = MatMul(x, w) }", {"w": np.ones((32, 48), np.int32)}),
}  # fmt: skip


@cases(("text", "constants"), LEFT)
def test_other_layers_stay(text: str, constants: Constants) -> None:
    model = load(text, opset=21, weights=constants)
    plan = low_rank_of(model, feeds_of(model)).plan(0.0)
    assert (plan.share, plan.ranks) == (1, ())
    assert apply_passes(model, FactorLayers(plan))[1].counts == {}
