"""Order of the sums before layer normalizations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import norms
from rewriting import apply_passes, becomes, cases, load, stays

KEEP_NORMS_APART = rule_pass(norms, "keep-norms-apart")

G = "g (float[2,5,4] x, float[2,5,4] s) => (float[2,5,4] y)"
C = "<float[4] b = {1, 2, 3, 4}, float[4] w = {1, 2, 1, 2}, float[1,1,4] wide = {1, 2, 3, 4}>"


@pytest.mark.parametrize("total", ["Add(a, s)", "Add(s, a)"])
def test_becomes(total: str) -> None:
    before = f"{G} {C} {{ a = Add(x, b) t = {total} y = LayerNormalization(t, w, b) }}"
    after = f"{G} {C} {{ a = Add(x, s) t = Add(a, b) y = LayerNormalization(t, w, b) }}"
    becomes(before, after, KEEP_NORMS_APART, opset=17)


def test_sum_without_bias_becomes() -> None:
    for inner in ("", "r = Relu(t) z = Neg(r)"):
        before = f"{G} {C} {{ t = Add(x, s) {inner} y = LayerNormalization(t, w, b) }}"
        becomes(before, before.replace("Add", "Sum"), KEEP_NORMS_APART, opset=17)


@pytest.mark.parametrize(
    "shapes", ["float[2,3,5,4] x, float[2,3,5,4] s", "float[5,4] x, float[5,4] s", "double[2,5,4] x, double[2,5,4] s"]
)
def test_sum_that_onnxruntime_does_not_fuse_stays(shapes: str) -> None:
    kind = shapes.partition("[")[0]
    text = f"g ({shapes}, {kind}[4] w, {kind}[4] b) => ({kind}[{shapes[shapes.index('[') + 1 : shapes.index(']')]}] y)"
    stays(f"{text} {{ t = Add(x, s) y = LayerNormalization(t, w, b) }}", KEEP_NORMS_APART, opset=17)


@cases(
    "body",
    {
        "no norm": ("a = Add(x, b) t = Add(a, s) y = Relu(t)"),
        "apart": ("a = Add(x, s) t = Add(a, b) y = LayerNormalization(t, w, b)"),
        "a bias of three dims": ("a = Add(x, s) t = Add(a, wide) y = LayerNormalization(t, w, b)"),
    },
)
def test_stays(body: str) -> None:
    stays(f"{G} {C} {{ {body} }}", KEEP_NORMS_APART, opset=17)


@pytest.mark.parametrize("total", ["a = Add(x, wide) t = Add(a, s)", "r = ReduceMax(s) a = Add(x, b) t = Add(a, r)"])
def test_sum_with_another_bias_becomes(total: str) -> None:
    before, after = (
        f"{G} {C} {{ {text} y = LayerNormalization(t, w, b) }}" for text in (total, total.replace("t = Add", "t = Sum"))
    )
    becomes(before, after, KEEP_NORMS_APART, opset=17)


@pytest.mark.parametrize("bias", ["a = Add(m, b)", "a = Identity(m)"])
def test_onnxruntime_fuses_the_norm_only_before(tmp_path: Path, bias: str) -> None:
    body = f"m = MatMul(x, v) {bias} t = Add(a, s) y = LayerNormalization(t, w, b)"
    before = load(f"{G} {C} {{ {body} }}", 17, {"v": np.eye(4, dtype=np.float32)})
    after = to_onnx(apply_passes(before, KEEP_NORMS_APART)[0])
    counts = [
        operators_as_loaded(model, tmp_path / "loaded.onnx")["SkipLayerNormalization"] for model in (before, after)
    ]
    assert counts == [1, 0]


def operators_as_loaded(model: onnx.ModelProto, path: Path) -> Counter[str]:
    """The ops that onnxruntime runs."""
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level, options.intra_op_num_threads = str(path), 4, 1
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(path).graph.node)
