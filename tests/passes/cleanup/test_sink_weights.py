"""Weights of one repeated body are constants of this body."""

from typing import Any

import numpy as np
from onnx import helper
from passwright.core import to_onnx
from passwright.passes.cleanup.constants import SinkWeights
from rewriting import apply_passes, cases, load, require_equivalent

LONG = "a = Tanh(m) q = Sigmoid(a) r = Mul(q, a) u = Add(r, a) p = Neg(u) b = Abs(p) j = Sin(b)"
PRODUCT, OF_OUTER = (f"m = MatMul({v}, w) {LONG}" for v in "sx")
SMALL, LARGE = (np.linspace(-1, 1, n * n, dtype=np.float32).reshape(n, n) for n in (3, 600))


def loop(body: str, result: str = "y") -> str:
    head = "(int64 i, bool f, float[1,A] s) => (bool d, float[1,A] z)"
    return f"{result} = Loop(n, c, x) <body = {result}0 {head} {{ d = Identity(f) {body} }}>"


def scan(body: str) -> str:
    head = "(float[1,A] s, float[1,A] e) => (float[1,A] z, float[1,A] f)"
    return f"y, o = Scan <num_scan_inputs = 1, body = b {head} {{ {body} f = Add(s, e) }}> (x, k)"


def branch(body: str) -> str:
    first, second = f"(float[1,A] t0) {{ {body} t0 = Neg(j) }}", "(float[1,A] e0) { e0 = Neg(x) }"
    return f"If(c) <then_branch = t () => {first}, else_branch = e () => {second}>"


def sunk(text: str, weight: np.ndarray[Any, Any] = SMALL, ir_version: int = 10) -> list[str]:
    """The constants that the pass moves."""
    size = len(weight)
    head = f"g (int64 n, bool c, float[1,{size}] x, float[4,1,{size}] k) => (float[1,{size}] y)"
    model = load(f"{head} {{ {text} }}", weights={"w": weight})
    model.ir_version = ir_version
    if ir_version < 4:
        inputs = (helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in model.graph.initializer)
        model.graph.input.extend(inputs)
    result = to_onnx(apply_passes(model, SinkWeights())[0])
    require_equivalent(model, result)
    return [t.name for t in model.graph.initializer if t not in result.graph.initializer]


@cases(
    "text",
    {
        "Loop": loop(f"{PRODUCT} z = Neg(j)"),
        "Scan": scan(f"{PRODUCT} z = Neg(j)"),
        "two products": loop(f"{PRODUCT} z = MatMul(j, w)"),
        "branch in a Loop": loop(f"z = {branch(OF_OUTER)}"),
        "Loop in a branch": f"y = {branch(loop(f'{PRODUCT} z = Neg(j)', 'j'))}",
    },
)
def test_moves(text: str) -> None:
    assert sunk(text) == ["w"]


@cases(
    ("text", "changes"),
    {
        "short body": (loop("m = MatMul(s, w) z = Tanh(m)"), {}),
        "read outside": (f"{loop(f'{PRODUCT} z = Neg(j)', 'l')} y = MatMul(l, w)", {}),
        "two bodies": (f"{loop(f'{PRODUCT} z = Neg(j)', 'l')} {loop(f'{PRODUCT} z = Add(j, l)')}", {}),
        "no product": (loop(f"m = Add(s, w) {LONG} z = ReduceSum<keepdims=1>(j)"), {}),
        "body that runs once": (f"y = {branch(OF_OUTER)}", {}),
        "large": (loop(f"{PRODUCT} z = Neg(j)"), {"weight": LARGE}),
        "old IR": (loop(f"{PRODUCT} z = Neg(j)"), {"ir_version": 3}),
    },
)
def test_stays(text: str, changes: dict[str, Any]) -> None:
    assert sunk(text, **changes) == []
