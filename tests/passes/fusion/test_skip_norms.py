"""Order of the sums before layer normalizations."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from passwright.core import rule_pass, to_onnx
from passwright.passes.fusion import norms
from rewrite_tables import Rewrites
from rewriting import apply_passes, load

KEEP_NORMS_APART = rule_pass(norms, "keep-norms-apart")

WEIGHTS = {"b": [1.0, 2.0, 3.0, 4.0], "w": [1.0, 2.0, 1.0, 2.0], "v": np.eye(4, dtype=np.float32)}
sums = Rewrites("g (float[{x}] x, float[{x}] s) => (float[] y)", KEEP_NORMS_APART, weights=WEIGHTS, x="2,5,4")
NORM = "y = LayerNormalization(t, w, b)"
test_becomes = sums.all_become(f"""
    a bias: a = Add(x, b) t = Add(a, s) {NORM} => a = Add(x, s) t = Add(a, b) {NORM}
    a bias, other order: a = Add(x, b) t = Add(s, a) {NORM} => a = Add(x, s) t = Add(a, b) {NORM}
    no bias: t = Add(x, s) {NORM} => t = Sum(x, s) {NORM}
    used elsewhere: t = Add(x, s) r = Relu(t) z = Neg(r) {NORM} => t = Sum(x, s) r = Relu(t) z = Neg(r) {NORM}
    a bias of three dims: a = Add(x, [[[1.0,2.0,3.0,4.0]]]) t = Add(a, s) {NORM} => a = Add(x, [[[1.0,2.0,3.0,4.0]]])
        t = Sum(a, s) {NORM}
    a summand of three dims: r = ReduceMax(s) a = Add(x, b) t = Add(a, r) {NORM}
        => r = ReduceMax(s) a = Add(x, b) t = Sum(a, r) {NORM}
""")
test_stays = sums.all_stay(f"""
    four dims [x=2,3,5,4]: t = Add(x, s) {NORM}
    two dims [x=5,4]: t = Add(x, s) {NORM}
    doubles [dtype=double]: t = Add(x, s) {NORM}
    no norm: a = Add(x, b) t = Add(a, s) y = Relu(t)
    apart: a = Add(x, s) t = Add(a, b) {NORM}
    a bias of three dims behind: a = Add(x, s) t = Add(a, [[[1.0,2.0,3.0,4.0]]]) {NORM}
""")


@pytest.mark.parametrize("bias", ["a = Add(m, b)", "a = Identity(m)"])
def test_onnxruntime_fuses_the_norm_only_before(tmp_path: Path, bias: str) -> None:
    text = f"g (float[2,5,4] x, float[2,5,4] s) => (float[2,5,4] y) {{ m = MatMul(x, v) {bias} t = Add(a, s) {NORM} }}"
    before = load(text, 17, {name: np.float32(WEIGHTS[name]) for name in ("v", "b", "w")})
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
