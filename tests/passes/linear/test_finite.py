"""Values that are never infinite."""

import numpy as np
from passwright.core import from_onnx
from passwright.passes.linear.matmul_merging import is_finite
from rewriting import each, load, run, table

G = (
    "g (float[2,3] x, float[2,3] z, int64[2,3] i) => (float[n,m] y)"
    " <float[3] c = {1,2,3}, float[3] f = {inf,2,3}, int64[2] s = {3,2}>"
)

FAR = " ".join(f"v{n} = Neg({f'v{n - 1}' if n else 't'})" for n in range(40))


@each(
    "body",
    table("""
    saturates: y = Tanh(x)
    softmax: y = Softmax(x)
    other bounded ones: a = Atan(x) b = Hardmax(x) d = Sign(x) y = Sum(a, b, d)
    others that keep it: t = Tanh(x) r = Round(t) h = ThresholdedRelu(r) y = Trilu(h)
    normalizes: y = LayerNormalization(x, c, c)
    a chain: t = Tanh(x) a = Add(t, c) r = Reshape(a, s) y = Relu(r)
"""),
)
def test_is_finite(body: str) -> None:
    model = load(f"{G} {{ {body} }}")
    assert is_finite(from_onnx(model).graph.outputs[0])
    for x in (np.inf, -np.inf, np.nan, 3e38):
        feeds = {"x": np.array([[1, x, -2], [x, x, -x]], np.float32)}
        assert not np.isinf(run(model, feeds | {"z": feeds["x"], "i": np.ones((2, 3), np.int64)})[0]).any()


@each(
    "body",
    table(f"""
    normalizes, infinite scale: y = LayerNormalization(x, f, c)
    normalizes, open scale: y = LayerNormalization(x, z)
    one open operand: t = Tanh(x) y = Mul(t, z)
    infinite constant: t = Tanh(x) y = Mul(t, f)
    an operator that is not known to keep it: t = Tanh(x) y = Div(t, c)
    an input: y = Identity(x)
    converted: y = Cast<to=1>(i)
    too far: t = Tanh(x) {FAR} y = Neg(v39)
"""),
)
def test_may_be_infinite(body: str) -> None:
    assert not is_finite(from_onnx(load(f"{G} {{ {body} }}")).graph.outputs[0])


def test_integers_are_finite() -> None:
    model = load("g (int64[2] x) => (int64[n] y) { y = Identity(x) }")
    assert is_finite(from_onnx(model).graph.outputs[0])
