"""Value ranges."""

from math import inf

import numpy as np
from passwright.core import from_onnx
from passwright.passes.arithmetic.value_ranges import ValueRange, range_of
from rewriting import each, load, run

CONSTANTS = "<{0} one = {{1}}, {0} two = {{2}}, {0} three = {{3}}, {0}[2] pair = {{2, 5}}>"


def found(body: str, dtype: str = "float") -> ValueRange:
    text = f"g ({dtype}[2,2] x, bool[2,2] b) => ({dtype}[n,m] y) {CONSTANTS.format(dtype)} {{ {body} }}"
    return range_of(from_onnx(load(text)).graph.outputs[0])


@each(
    ("body", "low", "high"),
    {
        "hard sigmoid": ("y = HardSigmoid(x)", 0, 1),
        "relu": ("y = Relu(x)", 0, inf),
        "clip": ("y = Clip(x, one, three)", 1, 3),
        "clip upside down": ("y = Clip(x, three, one)", 1, 1),
        "min": ("y = Min(x, two)", -inf, 2),
        "max above the range": ("t = HardSigmoid(x) y = Max(two, t)", 2, 2),
        "a square": ("y = Mul(x, x)", 0, inf),
        "a product": ("y = Mul(x, two)", -inf, inf),
        "a sum": ("t = Abs(x) y = Add(t, pair)", 2, inf),
        "constants": ("y = Add(pair, pair)", 2, inf),
        "an even power": ("y = Pow(x, two)", 0, inf),
        "an odd power": ("y = Pow(x, three)", -inf, inf),
        "a negative": ("t = Abs(x) u = Neg(t) y = Transpose(u)", -inf, inf),
        "an integer of unknown sign": ("t = Cast<to=6>(b) y = Cast<to=1>(t)", -inf, inf),
        "a bool": ("y = Cast<to=1>(b)", 0, inf),
        "tanh": ("y = Tanh(x)", -inf, inf),
        "a difference": ("y = Sub(x, x)", -inf, inf),
    },
)
def test_range_of_floats(body: str, low: float, high: float) -> None:
    assert found(body) == ValueRange(low, high)


@each(
    ("body", "low", "high"),
    {
        "squares wrap around": ("y = Mul(x, x)", -128, 127),
        "the least integer has no absolute value": ("y = Abs(x)", -128, 127),
        "clip": ("y = Clip(x, one)", 1, 127),
    },
)
def test_range_of_integers(body: str, low: float, high: float) -> None:
    assert found(body, "int8") == ValueRange(low, high)


def test_long_chain_is_not_followed() -> None:
    steps = " ".join(f"t{i + 1} = Identity(t{i})" for i in range(10))
    assert found(f"t0 = Relu(x) {steps} y = Identity(t10)") == ValueRange()


def test_results_of_onnxruntime_are_in_range() -> None:
    x = np.linspace(-120, 120, 200_001, dtype=np.float32)
    for op in ("Sigmoid", "HardSigmoid", "Softplus", "Exp", "Softmax"):
        model = load(f"g (float[n] x) => (float[n] y) {{ y = {op}(x) }}")
        (y,) = run(model, {"x": x})
        low, high = range_of(from_onnx(model).graph.outputs[0])
        assert low <= y.min()
        assert y.max() <= high
