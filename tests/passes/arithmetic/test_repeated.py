"""Idempotent ops."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.arithmetic import no_op_arithmetic
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, op_types, require_equivalent

DROP_IDEMPOTENT = rule_pass(no_op_arithmetic, "drop-idempotent")


def model(body: str, dtype: str = "float") -> str:
    return f"g ({dtype}[2,3] x, int32[2,3] i, bool[2,3] b) => ({dtype}[n,m] y) {{ {body} }}"


@each("dtype", ["float", "double", "float16"])
@each(
    ("before", "after"),
    {
        "floor of floor": ("t = Floor(x) y = Floor(t)", "y = Floor(x)"),
        "round of ceil": ("t = Ceil(x) y = Round(t)", "y = Ceil(x)"),
        "floor of round": ("t = Round(x) y = Floor(t)", "y = Round(x)"),
        "ceil of minus floor": ("t = Floor(x) u = Neg(t) y = Ceil(u)", "t = Floor(x) y = Neg(t)"),
        "round of sign": ("t = Sign(x) y = Round(t)", "y = Sign(x)"),
        "sign of sign": ("t = Sign(x) y = Sign(t)", "y = Sign(x)"),
        "abs of abs": ("t = Abs(x) y = Abs(t)", "y = Abs(x)"),
        "abs of neg": ("t = Neg(x) y = Abs(t)", "y = Abs(x)"),
        "a chain": ("t = Neg(x) u = Abs(t) v = Neg(u) y = Abs(v)", "y = Abs(x)"),
        "abs of relu": ("t = Relu(x) y = Abs(t)", "y = Relu(x)"),
        "abs of a root": ("t = Sqrt(x) y = Abs(t)", "y = Sqrt(x)"),
        "abs of exp": ("t = Exp(x) y = Abs(t)", "y = Exp(x)"),
        "abs of a square": ("t = Mul(x, x) y = Abs(t)", "y = Mul(x, x)"),
    },
)
def test_becomes(before: str, after: str, dtype: str) -> None:
    becomes(model(before, dtype), model(after, dtype), DROP_IDEMPOTENT)


repeated = Rewrites("g (float[2,3] x, int32[2,3] i, bool[2,3] b) => (float[] y)", DROP_IDEMPOTENT)

test_becomes_of_float = repeated.all_become("""
    of an integer: t = Cast<to=1>(i) y = Floor(t) => y = Cast<to=1>(i)
    of a bool: t = Cast<to=1>(b) y = Round(t) => y = Cast<to=1>(b)
    a bool is not negative: t = Cast<to=1>(b) y = Abs(t) => y = Cast<to=1>(b)
    moved: t = Floor(x) u = Transpose(t) v = Relu(u) y = Round(v) => t = Floor(x) u = Transpose(t) y = Relu(u)
    above 0: c = Constant<value_float=1.0>() t = Max(x, c) y = Abs(t) => c = Constant<value_float=1.0>() y = Max(x, c)
    the inner one is read too: t = Abs(x) u = Abs(t) y = Add(t, u) => t = Abs(x) y = Add(t, t)
    abs of unsigned integers [dtype=uint8]: t = Clip(x) u = Abs(t) y = Clip(u) => t = Clip(x) y = Clip(t)
""")


@each("dtype", ["int8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    before = "t = Neg(x) u = Abs(t) y = Sign(u)"
    becomes(model(before, dtype), model("u = Abs(x) y = Sign(u)", dtype), DROP_IDEMPOTENT)


@each("opset", [7, 13, 22])
def test_every_opset(opset: int) -> None:
    before = "t = Floor(x) u = Ceil(t) v = Neg(u) y = Abs(v)"
    becomes(model(before), model("t = Floor(x) y = Abs(t)"), DROP_IDEMPOTENT, opset=opset)


test_stays = repeated.all_stay("""
    floor: y = Floor(x)
    abs: y = Abs(x)
    sign: y = Sign(x)
    of a possibly negative value: t = Tanh(x) y = Abs(t)
    a root of integral values: t = Floor(x) u = Sqrt(t) y = Floor(u)
    a sum with a fraction: t = Floor(x) u = Add(t, x) y = Floor(u)
    sign of abs: t = Abs(x) y = Sign(t)
    neg of abs: t = Abs(x) y = Neg(t)
    a float in another type: t = Cast<to=11>(x) u = Floor(t) y = Cast<to=1>(u)
    no second rounding: t = Round(x) y = Add(t, x)
""")

test_stays_elsewhere = repeated.all_stay("""
    a square wraps around [graph=g (int32[2] x) => (int32[] y)]: t = Mul(x, x) y = Abs(t)
    inside an If body [graph=g (bool c, float[2] x) => (float[] y)]: t = Abs(x)
        y = If(c) <then_branch = a () => (float[n] r) { u = Neg(t) r = Exp(u) }, else_branch = b () => (float[n] s) {
        s = Abs(x) }>
""")


@given(
    steps=st.lists(st.sampled_from(["Floor", "Ceil", "Round", "Sign", "Abs", "Neg", "Relu"]), min_size=2, max_size=6)
)
def test_any_chain_is_equivalent(steps: list[str]) -> None:
    lines = [f"t{i} = {s}({f't{i - 1}' if i else 'x'})" for i, s in enumerate(steps)]
    before = load(model(f"{' '.join(lines)} y = Identity(t{len(steps) - 1})"))
    after = to_onnx(apply_passes(before, DROP_IDEMPOTENT)[0])
    assert len(op_types(after)) <= len(steps) + 1
    require_equivalent(before, after)
