"""Regions that are equal at small extents and wrong from a limit on: none is proved; and right ones that are."""

import numpy as np
import onnx
import pytest
from passwright.core import from_onnx
from passwright.core.io.files import split_model
from passwright.core.proof.prover import Prover
from passwright.core.proof.region_obligations import Regions, RewrittenModel
from passwright.core.proof.region_proofs import ProofSeconds, RegionProofs, prove_regions
from rewriting import cases, load
from tiers import slow_unless

X = "g (float[N,3] x) => (float[A,B] y)"
TWO = "g (float[N,M] x) => (float[A,B] y)"
LINE = "g (float[N] x) => (float[A] y)"
MASK = "g (float[N,3] x, bool[N] m) => (float[A,B] y)"
IMAGE = "g (float[1,1,H,W] x) => (float[A,B,C,D] y)"
CONSTANTS = (
    " <int64 zero = {{0}}, int64 one = {{1}}, int64[1] zeros = {{0}}, int64[1] ones = {{1}}, int64 c = {{{c}}},"
    " int64[1] cs = {{{c}}}, float f = {{{c}}}, float h = {{{c}.5}}, float unit = {{1}}, float two = {{2}},"
    " int64[2] last = {{-1, 1}}, float o = {{0}}>"
)
EXTENT = "s = Shape(x) n = Gather<axis=0>(s, zero) e = Cast<to=1>(n) "
RANGE = EXTENT + "i = Range(zero, n, one) r = Cast<to=1>(i) p = Reshape(r, last) "
OF_TWO = "s = Shape(x) n = Gather<axis=0>(s, zero) m = Gather<axis=0>(s, one) "
LOOP = (
    EXTENT
    + "t = Cast<to=9>(one) y = Loop(n, t, x) <body = b (int64 k, bool go, float[L,3] v) => (bool on, float[L,3] w)"
    " {{ on = Identity(go) {inner} }}>"
)
NEG, SWITCH, SCALE = "y = Neg(x)", " t = Neg(x) y = Where(b, x, t)", " t = Neg(x) y = Mul(t, g)"
COUNT, BEYOND = "o = Cast<to=1>(m) q = ReduceSum<keepdims=0>(o) ", "n = Shape(x) d = Sub(n, cs) k = Max(d, zeros) "
ONES = EXTENT + "z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{{1}}>(z) "
TABLE = RANGE + "k = Min(i, c) j = Gather<axis=0>({name}, k) b = Reshape(j, last) y = Add(x, b)"
FAMILIES: dict[str, tuple[str, str, str]] = {
    "limited positions": (X, RANGE + "q = Sin(p) y = Add(x, q)", RANGE + "l = Min(p, h) q = Sin(l) y = Add(x, q)"),
    "clipped positions": (X, RANGE + "q = Sin(p) y = Add(x, q)", RANGE + "l = Clip(p, o, h) q = Sin(l) y = Add(x, q)"),
    "a slice": (X, NEG, "t = Slice(x, zeros, cs) y = Neg(t)"),
    "a slice of the last": (X, NEG, "k = Neg(cs) e = Shape<start=0,end=1>(x) t = Slice(x, k, e) y = Neg(t)"),
    "a share": (X, EXTENT + "d = Div(e, f) y = Mul(x, d)", EXTENT + "d = Div(e, f) l = Min(d, unit) y = Mul(x, l)"),
    "a square": (X, NEG, EXTENT + "q = Mul(n, n) k = Mul(c, c) b = Greater(q, k)" + SWITCH),
    "an extent alone": (X, NEG, EXTENT + "b = Equal(n, c)" + SWITCH),
    "an extent and more": (X, NEG, EXTENT + "b = GreaterOrEqual(n, c)" + SWITCH),
    "a float extent": (X, NEG, EXTENT + "b = Greater(e, h)" + SWITCH),
    "a multiple": (X, NEG, EXTENT + "q = Mod(n, c) b = Equal(q, zero)" + SWITCH),
    "a quotient": (X, NEG, EXTENT + "q = Div(n, c) k = Add(q, one) g = Cast<to=1>(k)" + SCALE),
    "a floor": (X, NEG, EXTENT + "d = Div(e, f) q = Floor(d) g = Add(q, unit)" + SCALE),
    "a half that is rounded": (X, NEG, EXTENT + "d = Div(e, f) q = Round(d) g = Add(q, unit)" + SCALE),
    "a cast": (X, NEG, EXTENT + "d = Div(e, f) q = Cast<to=7>(d) k = Add(q, one) g = Cast<to=1>(k)" + SCALE),
    "one position": (X, NEG, RANGE + "u = Equal(i, c) b = Reshape(u, last)" + SWITCH),
    "positions from one on": (X, NEG, RANGE + "u = Greater(i, c) b = Reshape(u, last)" + SWITCH),
    "a triangle": (TWO, OF_TWO + NEG, OF_TWO + "k = Neg(c) l = Trilu<upper=1>(x, k) y = Neg(l)"),
    "a product": (TWO, NEG, OF_TWO + "q = Mul(n, m) k = Mul(c, c) b = Greater(q, k)" + SWITCH),
    "a sum": (TWO, NEG, OF_TWO + "q = Add(n, m) b = Greater(q, c)" + SWITCH),
    "a size": (TWO, NEG, "n = Size(x) b = Greater(n, c)" + SWITCH),
    "the larger extent": (
        TWO,
        OF_TWO + "k = Max(n, m) g = Cast<to=1>(k) y = Mul(x, g)",
        OF_TWO
        + "q = Min(m, c) k = Max(n, q) l = Max(n, m) u = Min(l, c) v = Max(u, k) g = Cast<to=1>(v) y = Mul(x, g)",
    ),
    "a root": (X, NEG, EXTENT + "q = Sqrt(e) k = Sqrt(f) b = Greater(q, k)" + SWITCH),
    "a logarithm": (X, NEG, EXTENT + "q = Log(e) k = Log(f) b = Greater(q, k)" + SWITCH),
    "a power": (X, NEG, EXTENT + "q = Pow(e, two) k = Pow(f, two) b = Greater(q, k)" + SWITCH),
    "an If": (
        X,
        NEG,
        EXTENT + "b = Less(n, c) y = If(b) <then_branch = g1 () => (float[L,3] v) {{ v = Neg(x) }},"
        " else_branch = g2 () => (float[L,3] w) {{ w = Identity(x) }}>",
    ),
    "a sum of ones": (X, NEG, ONES + "q = ReduceSum<keepdims=0>(o) b = Greater(q, f)" + SWITCH),
    "sums of ones": (X, NEG, ONES + "q = CumSum(o, zero) p = Reshape(q, last) b = Greater(p, f)" + SWITCH),
    "the largest position": (X, NEG, RANGE + "q = ReduceMax<keepdims=0>(r) b = Greater(q, f)" + SWITCH),
    "a count of bools": (
        MASK,
        "b = Reshape(m, last)" + SWITCH,
        COUNT + "p = Reshape(m, last) v = Neg(x) u = Where(p, x, v) g = Less(q, h) w = Neg(u) y = Where(g, u, w)",
    ),
    "a number beside an extent": (
        X,
        "y = Sigmoid(x)",
        EXTENT + "d = Div(e, f) l = Sub(d, two) q = Sigmoid(x) y = Max(q, l)",
    ),
    "a relu": (X, NEG, EXTENT + "d = Sub(e, f) l = Relu(d) t = Neg(x) y = Sub(t, l)"),
    "an absolute number": (
        X,
        EXTENT + "d = Sub(f, e) y = Mul(x, d)",
        EXTENT + "d = Sub(f, e) l = Abs(d) y = Mul(x, l)",
    ),
    "padding": (LINE, NEG, BEYOND + "g = Concat<axis=0>(zeros, k) t = Pad(x, g) l = Slice(t, k, n) y = Neg(l)"),
    "a table": (X, TABLE.format(name="w"), TABLE.format(name="v")),
    "a loop": (X, LOOP.format(inner="w = Neg(v)"), LOOP.format(inner="q = Equal(k, c) t = Neg(v) w = Where(q, v, t)")),
}
LIMITS = (7, 20, 300, 3000)
FIRST = {"limited positions, 20", "a slice, 3000"}


def models(family: str, limit: int) -> list[onnx.ModelProto]:
    types, before, after = FAMILIES[family]
    table = np.arange(limit + 1, dtype=np.float32)
    changed = table + (table == limit)
    given = {"w": table, "v": changed} if family == "a table" else {}
    return [
        load(f"{types}{CONSTANTS.format(c=limit)} {{ {text.replace('{{', '{').replace('}}', '}')} }}", weights=given)
        for text in (before, after)
    ]


def proofs(before: onnx.ModelProto, after: onnx.ModelProto, seconds: float = 60.0) -> RegionProofs:
    first, second = (split_model(m.SerializeToString()) for m in (before, after))
    regions = Regions.of(RewrittenModel(first, second, from_onnx(before).graph))
    return prove_regions(regions, [Prover().prove], seconds=ProofSeconds(seconds))


WRONG = {f"{family}, {limit}": (family, limit) for family in FAMILIES for limit in LIMITS}


@pytest.mark.parametrize("name", slow_unless(FIRST, WRONG))
def test_a_region_that_is_wrong_from_a_limit_on_is_not_proved(name: str) -> None:
    found = proofs(*models(*WRONG[name]))
    assert len(found.regions) == 1
    assert not found.regions[0].is_proved, str(found.regions[0].verdict)


@cases(
    ("types", "before", "after", "sizes"),
    {
        "no decision": (X, "y = Neg(x)", "u = Neg(x) v = Neg(u) y = Neg(v)", {2, 3}),
        "positions": (
            X,
            RANGE + "u = Less(i, c) b = Reshape(u, last)" + SWITCH,
            RANGE + "v = Greater(c, i) w = Reshape(v, last) k = Neg(x) y = Where(w, x, k)",
            {20, 21, 22},
        ),
        "a slice": (
            X, "t = Slice(x, zeros, cs) y = Neg(t)", "u = Neg(x) y = Slice(u, zeros, cs)", {19, 20, 21},
        ),
        "a square": (
            X, EXTENT + "q = Mul(n, n) k = Mul(c, c) b = Greater(q, k) t = Neg(x) y = Where(b, x, t)",
            EXTENT + "b = Greater(n, c) t = Neg(x) y = Where(b, x, t)", {19, 20, 21},
        ),
    },
)  # fmt: skip
def test_both_sides_of_each_limit_are_compared(types: str, before: str, after: str, sizes: set[int]) -> None:
    given = (f"{types}{CONSTANTS.format(c=20)} {{ {text} }}" for text in (before, after))
    found = proofs(*map(load, given)).regions
    assert [r.is_proved for r in found] == [True]
    assert sizes <= found[0].verdict.sizes


def test_a_limit_that_is_too_large_to_compare_leaves_a_region_unknown() -> None:
    wide = "g (float[N,4000] x) => (float[A,B] y)"
    texts = "y = Neg(x)", EXTENT + "b = Greater(n, c) t = Neg(x) y = Where(b, x, t)"
    found = proofs(*(load(f"{wide}{CONSTANTS.format(c=300)} {{ {text} }}") for text in texts)).regions
    assert "it differs in form from extent 300 on, where input" in str(found[0].verdict)


def test_a_maximum_that_the_original_lacks_takes_more_draws() -> None:
    """Each draw has one number for `d`."""
    types = "g (float[N,3] x, float d) => (float[A,B] y) <float one = {1}>"
    before, after = (load(f"{types} {{ {text} }}") for text in ("y = Mul(x, d)", "l = Min(d, one) y = Mul(x, l)"))
    assert [r.is_proved for r in proofs(before, after).regions] == [False]


HALF = "g (float16[N,4,8] q, float16[N,8,4] k) => (float16[A,B,C] y)"


def test_sixteen_bits_overflow() -> None:
    weights = {"c": np.array(0.125, np.float16)}
    texts = "{ s = Mul(q, c) y = MatMul(s, k) }", "{ t = MatMul(q, k) y = Mul(t, c) }"
    small, large = (load(f"{HALF} {text}", weights=weights) for text in texts)
    found = [str(proofs(a, b).regions[0].verdict) for a, b in ((small, large), (large, small))]
    assert found == [
        "unknown: rounded to 16 bits after each op, it overflows where the original does not",
        "proved over the reals: sizes 2 to 3",
    ]
