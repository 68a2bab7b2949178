"""Rules whose fault is at one point, at the end of a type, or in a size, beside planted ones: no proof contradicts it.

Each has a model on which it fires, and the guarantees that its fault does not contradict: over the reals where only the
bits, the range or NaN are wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from passwright.core import EXACT, ROUNDING, Contract, Rule, Value, conditional, rule
from passwright.core.ir.tensor import Tensor
from passwright.core.proof.prover import Prover, prove_rule
from passwright.core.verify.proof_guarantees import PROOFS, Guarantee
from passwright.testing.check import default_prover
from rewriting import load
from tiers import slow_unless

FLOAT, INT32, INT64, HALF = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16
REALS = frozenset({Guarantee.REALS})
NOTHING: frozenset[Guarantee] = frozenset()
X, XY = "g (float[N] x) => (float[N] y)", "g (int32[N] x, int32[N] z) => (bool[N] y)"


@dataclass(frozen=True, slots=True)
class Hidden:
    """A wrong rule: its pattern, its replacement, and a model in which it fires."""

    model: str
    pattern: Callable[..., Any]
    build: Callable[..., Any]
    contract: Contract = EXACT
    allowed: frozenset[Guarantee] = NOTHING
    opset: int = 17

    def rule(self) -> Rule:
        self.build.__name__ = "wrong"
        return rule(self.pattern, contract=self.contract)(self.build)


def identity(g: Any, x: Value) -> Value:
    return x


HIDDEN = {
    "at one point": Hidden(
        X + " <float c = {0.5}, float one = {1}> { e = Equal(x, c) y = Where(e, one, x) }",
        lambda g, x, c, one: g.Where(g.Equal(x, g.const(c)), g.const(one), x),
        identity,
        ROUNDING,
    ),
    "for an extent of 1": Hidden(
        "g (float[N,1] x) => (float[M] y) { y = Squeeze(x) }",
        lambda g, x: g.Squeeze(x),
        lambda g, x: g.Squeeze(x, axes=[1]),
        ROUNDING,
    ),
    "for no elements": Hidden(
        "g (float[N] x) => (float[1] y) <float zero = {0}> { a = Mul(x, zero) y = ReduceProd(a) }",
        lambda g, x, c: g.ReduceProd(g.Mul(x, g.const(c))),
        lambda g, x, c: g.ReduceSum(g.Mul(x, c)),
        ROUNDING,
        REALS,  # at sizes from 1 on
    ),
    "where a sum overflows": Hidden(
        XY + " <int32 one = {1}> { a = Add(x, one) y = Greater(a, z) }",
        lambda g, x, z, c: g.Greater(g.Add(x, g.const(c)), z),
        lambda g, x, z: g.GreaterOrEqual(x, z),
    ),
    "where a product overflows": Hidden(
        "g (int32[N] x) => (int32[N] y) <int32 c = {3}> { a = Mul(x, c) y = Div(a, c) }",
        lambda g, x, c: g.Div(g.Mul(x, g.const(c)), c),
        identity,
    ),
    "where a difference wraps around": Hidden(
        "g (uint32[N] x, uint32[N] z) => (bool[N] y) <uint32 c = {0}> { a = Sub(x, z) y = Greater(a, c) }",
        lambda g, x, z, c: g.Greater(g.Sub(x, z), g.const(c)),
        lambda g, x, z: g.Greater(x, z),
    ),
    "where halves overflow": Hidden(
        "g (float16[N] x) => (float16[N] y) <float16 c = {4096}> { a = Mul(x, c) y = Div(a, c) }",
        lambda g, x, c: g.Div(g.Mul(x, g.const(c)), c),
        identity,
        EXACT,
        REALS,
    ),
    "for repeated indices": Hidden(
        "g (float[4] x, int64[3] i, float[3] u) => (float[3] y)"
        " { s = ScatterElements(x, i, u) y = GatherElements(s, i) }",
        lambda g, x, i, u: g.GatherElements(g.ScatterElements(x, i, u), i),
        lambda _, u: u,
        ROUNDING,
    ),
    "an epsilon of 1e-12 for 1e-5": Hidden(
        X + " <float c = {1e-5}> { a = Mul(x, x) b = Add(a, c) y = Sqrt(b) }",
        lambda g, x, c: g.Sqrt(g.Add(x, g.const(c))),
        lambda g, x: g.Sqrt(g.Sub(x, g.const(np.float32(-1e-12)))),
        ROUNDING,
    ),
    "an epsilon of 0 for 1e-12": Hidden(
        X + " <float c = {1e-12}> { a = Mul(x, x) b = Add(a, c) y = Sqrt(b) }",
        lambda g, x, c: g.Sqrt(g.Add(x, g.const(c))),
        lambda g, x: g.Sqrt(x),
        ROUNDING,
    ),
    "a cast of integers through floats": Hidden(
        "g (int64[N] x) => (int64[N] y) { a = Cast <to=1> (x) y = Cast <to=7> (a) }",
        lambda g, x: g.Cast(g.Cast(x, to=FLOAT), to=INT64),
        identity,
    ),
    "integers compared as floats": Hidden(
        XY + " { a = Cast <to=1> (x) b = Cast <to=1> (z) y = Equal(a, b) }",
        lambda g, x, z: g.Equal(g.Cast(x, to=FLOAT), g.Cast(z, to=FLOAT)),
        lambda g, x, z: g.Equal(x, z),
        EXACT,
        REALS,
    ),
    "integers scaled and compared as floats": Hidden(
        "g (int32[N] x, int32[N] z) => (bool[N] y) <float c = {0.1}> { a = Cast <to=1> (x) b = Cast <to=1> (z)"
        " p = Mul(a, c) q = Mul(b, c) y = Less(p, q) }",
        lambda g, x, z, c: g.Less(g.Mul(x, g.const(c)), g.Mul(z, g.const(c))),
        lambda g, x, z: g.Less(x, z),
        EXACT,
        REALS,
    ),
    "order of two casts": Hidden(
        X + " { a = Cast <to=6> (x) b = Cast <to=10> (a) y = Cast <to=1> (b) }",
        lambda g, x: g.Cast(g.Cast(x, to=INT32), to=HALF),
        lambda g, x: g.Cast(g.Cast(g.Cast(x, to=HALF), to=INT64), to=HALF),
    ),
    "a scale that differs by one percent": Hidden(
        "g (uint8[N] x) => (uint8[N] y) <float s = {0.1}, float t = {0.101}>"
        " { a = DequantizeLinear(x, s) y = QuantizeLinear(a, t) }",
        lambda g, x, s, t: g.QuantizeLinear(g.DequantizeLinear(x, s), t),
        identity,
    ),
    "a bound one code within": Hidden(
        "g (float[N] x) => (uint8[N] y) <float s = {0.1}, uint8 z = {0}, float low = {0}, float high = {25.4}>"
        " { a = Clip(x, low, high) y = QuantizeLinear(a, s, z) }",
        lambda g, x, s, z, low, high: g.QuantizeLinear(g.Clip(x, min=low, max=high), s, z),
        lambda g, x, s, z: g.QuantizeLinear(x, s, z),
    ),
    "padding that is the greatest": Hidden(
        "g (int8[1,1,N] x) => (int8[1,1,M] y) <int64[6] p = {0,0,1,0,0,1}>"
        " { t = Pad(x, p) y = MaxPool <kernel_shape=[2]> (t) }",
        lambda g, x, p: g.MaxPool(g.Pad(x, p), kernel_shape=[2]),
        lambda g, x: g.MaxPool(x, kernel_shape=[2], pads=[1, 1]),
    ),
    "padding beside the zero point": Hidden(
        "g (uint8[1,1,N] x) => (int32[1,1,M] y) <int64[6] p = {0,0,1,0,0,1}, uint8[1,1,2] w = {1,2}, uint8 z = {3}>"
        " { t = Pad(x, p) y = ConvInteger(t, w, z) }",
        lambda g, x, p, w, z: g.ConvInteger(g.Pad(x, p), w, z),
        lambda g, x, w, z: g.ConvInteger(x, w, z, pads=[1, 1]),
    ),
    "a fill rounded to the nearest": Hidden(
        "g (int64[2] s) => (int64[A,B] y) { t = ConstantOfShape <value=float[1] {1.5}> (s) y = Cast <to=7> (t) }",
        lambda g, s, f: g.Cast(g.ConstantOfShape(s) @ f, to=INT64),
        lambda g, s: g.ConstantOfShape(s, value=Tensor.from_array(np.array([2]))),
    ),
    "a condition that lets small negatives through": Hidden(
        X + " { y = Relu(x) }",
        lambda g, x: g.Relu(x),
        identity,
        conditional(assume=lambda g, x: g.Greater(x, -1e-6)),
    ),
    "a condition on the product alone": Hidden(
        "g (float[N] x, float[N] z) => (float[N] y) { a = Mul(x, z) y = Log(a) }",
        lambda g, x, z: g.Log(g.Mul(x, z)),
        lambda g, x, z: g.Add(g.Log(x), g.Log(z)),
        conditional(assume=lambda g, x, z: g.Greater(g.Mul(x, z), 0)),
    ),
}  # fmt: skip
FIRST = {"at one point", "where a sum overflows", "integers compared as floats", "padding that is the greatest"}


@pytest.fixture(scope="module")
def prover() -> Prover:
    return default_prover()


@pytest.mark.parametrize("name", slow_unless(FIRST, HIDDEN))
def test_no_proof_contradicts_a_hidden_fault(name: str, prover: Prover) -> None:
    hidden = HIDDEN[name]
    found = prove_rule(hidden.rule(), [load(hidden.model, hidden.opset)], prover)
    assert found.models, "the rule fires"
    assert found.guarantee not in PROOFS - hidden.allowed, list(found.lines())
    assert not any(0 in v.sizes for m in found.models for v in m.verdicts)
