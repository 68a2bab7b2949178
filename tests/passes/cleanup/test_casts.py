"""No-op casts, and pairs of casts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from passwright.core import rule_pass
from passwright.passes.cleanup import casts
from passwright.passes.cleanup.casts import (
    NUMERIC_FORMATS,
    cast_fill,
    cast_like_to_cast,
    drop_cast_before_arg_reduction,
    drop_cast_to_same_type,
    equals_direct_cast,
    merge_casts,
    merge_casts_around_movement,
)
from rewrite_tables import Rewrites
from rewriting import becomes, each, stays

MERGE_CASTS = rule_pass(casts, "merge-casts")

RULES = (
    cast_like_to_cast, drop_cast_to_same_type, merge_casts, merge_casts_around_movement, drop_cast_before_arg_reduction,
    cast_fill,
)  # fmt: skip
F32, U8, I8, I16, I32, I64, STR, BOOL, F16, F64 = 1, 2, 3, 5, 6, 7, 8, 9, 10, 11
NAMES = {
    "bool": BOOL, "int8": I8, "uint8": U8, "int16": I16, "int32": I32, "int64": I64, "float16": F16, "float": F32,
    "double": F64,
}  # fmt: skip


def pair(a: str, b: str, c: str, last: str = "") -> str:
    """A cast of `a` to `b` and on to `c`, or `last` instead of both."""
    both = f"t = Cast<to={NAMES[b]}>(x) y = Cast<to={NAMES[c]}>(t)"
    return f"g ({a}[n] x) => ({c}[m] y) {{ {last or both} }}"


rewrites = Rewrites("g ({x}) => (float[] y)", *RULES, x="float[n] x", opset=19)

test_becomes = rewrites.all_become("""
    to its own type: t = Cast<to=1>(x) y = Neg(t) => y = Neg(x)
    from input to output: y = Cast<to=1>(x) => y = Identity(x)
    strings to strings [graph=g (string[n] x) => (string[] y)]: t = Cast<to=8>(x) y = Concat<axis=0>(t, x)
        => y = Concat<axis=0>(x, x)
    three times the same [x=int32[n] x]: t = Cast<to=1>(x) u = Cast<to=1>(t) v = Cast<to=1>(u) y = Neg(v)
        => t = Cast<to=1>(x) y = Neg(t)
    CastLike, the same type [x=float[n] x, float z]: t = CastLike(x, z) y = Neg(t) => y = Neg(x)
    CastLike, a known type [graph=g (float[n] x, int64 z) => (int64[m] y, int64 u)]: u = Abs(z) y = CastLike(x, u)
        => u = Abs(z) y = Cast<to=7>(x)
    CastLike back [x=float[n] x, float z]: t = Cast<to=11>(x) y = CastLike(t, z) => y = Identity(x)
    the value between is an output [graph=g (float16[n] x) => (float[m] t, double[] y)]:
        t = Cast<to=1>(x) y = Cast<to=11>(t) => t = Cast<to=1>(x) y = Cast<to=11>(x)
    inside an If body, of a captured value [x=bool c, float[n] x]: y = If(c) <then_branch = a () => (float[n] r) {
        t = Cast<to=11>(x) u = Cast<to=1>(t) r = Neg(u) }, else_branch = b () => (float[n] s) { s = Relu(x) }> =>
        y = If(c) <then_branch = a () => (float[n] r) { r = Neg(x) }, else_branch = b () => (float[n] s) {
        s = Relu(x) }>
    overridable initializer [x=float[2] x = {1,2}; dtype=int32]: t = Cast<to=7>(x) u = Cast<to=6>(t) y = Neg(u)
        => y = Neg(x)
    saturation, which is the default [x=float16[n] x; dtype=double]: s = Cast<to=1,saturate=1>(x) y = Cast<to=11>(s)
        => y = Cast<to=11>(x)
""")


@each(
    ("a", "b", "c"),
    [
        ("float", "double", "float"), ("float16", "float", "float16"), ("float16", "double", "float16"),
        ("int32", "int64", "int32"), ("int32", "double", "int32"), ("int8", "float16", "int8"),
        ("bool", "int64", "bool"), ("bool", "float", "bool"), ("int8", "uint8", "int8"), ("int16", "float", "int16"),
    ],
)  # fmt: skip
def test_lossless_pair_becomes_identity(a: str, b: str, c: str) -> None:
    becomes(pair(a, b, c), pair(a, b, c, "y = Identity(x)"), *RULES)


@each(
    ("a", "b", "c"),
    [
        ("float16", "float", "double"), ("int8", "int32", "float"), ("bool", "int32", "float"),
        ("int64", "int32", "int8"), ("int64", "float", "bool"), ("int32", "double", "float"),
        ("uint8", "float", "int32"), ("float", "double", "float16"), ("float", "double", "bool"),
        ("uint8", "int8", "bool"),
    ],
)  # fmt: skip
def test_pair_becomes_one_cast(a: str, b: str, c: str) -> None:
    becomes(pair(a, b, c), pair(a, b, c, f"y = Cast<to={NAMES[c]}>(x)"), *RULES)


@each(
    ("a", "b", "c"),
    [
        ("double", "float", "double"), ("double", "float", "float16"), ("float", "float16", "float"),
        ("float", "int64", "float"), ("float", "double", "int32"), ("float16", "float", "int32"),
        ("int64", "int32", "int64"), ("int64", "double", "int64"), ("int32", "float", "int32"),
        ("int8", "uint8", "int32"), ("int16", "float", "int8"), ("int32", "uint8", "bool"), ("int32", "bool", "int32"),
        ("float", "bool", "float"), ("float", "float16", "bool"), ("double", "float", "bool"),
        ("int16", "float16", "int16"), ("int32", "bool", "float"),
    ],
)  # fmt: skip
def test_both_casts_stay(a: str, b: str, c: str) -> None:
    stays(pair(a, b, c), *RULES)


test_stays = rewrites.all_stay("""
    another type [graph=g (float[n] x) => (double[] y)]: y = Cast<to=11>(x)
    between ops [graph=g (float[n] x) => (double[] y)]: t = Cast<to=11>(x) y = Neg(t)
    narrowing [x=double[n] x]: t = Neg(x) u = Cast<to=1>(t) y = Relu(u)
    by way of strings: t = Cast<to=8>(x) y = Cast<to=1>(t)
    an op between: t = Cast<to=11>(x) u = Neg(t) y = Cast<to=1>(u)
    by way of float8: t = Cast<to=17>(x) y = Cast<to=1>(t)
    by way of float8, not saturated: t = Cast<to=17,saturate=0>(x) y = Cast<to=1>(t)
    ties [x=float[n,2] x; dtype=int64]: t = Cast<to=1>(x) y = ArgMax<keepdims=0>(t)
""")

test_every_opset = rewrites.using(x="float16[n] x", dtype="double").all_become(
    {
        case: ("s = Cast<to=10>(x) t = Cast<to=1>(s) y = Cast<to=11>(t) => y = Cast<to=11>(x)", settings)
        for case, settings in {
            "7": {"opset": 7},
            "9": {"opset": 9},
            "12": {"opset": 12},
            "13": {"opset": 13},
            "19": {},
            "21": {"opset": 21},
            "23": {"opset": 23},
            "24": {"opset": 24},
        }.items()
    }
)


@each("opset", [7, 11, 12, 13, 18])
@each("op", ["ArgMax<axis=1,keepdims=0>", "ArgMin<axis=1>"])
@each(("a", "b"), [("float", "double"), ("int32", "double")])
def test_comparison_needs_no_cast(op: str, a: str, b: str, opset: int) -> None:
    text = f"g ({a}[4,5] x) => (int64[n] y) {{{{ {{}} }}}}"
    becomes(text.format(f"t = Cast<to={NAMES[b]}>(x) y = {op}(t)"), text.format(f"y = {op}(x)"), *RULES, opset=opset)


MOVES = {
    "Reshape(t, s)": {"s": np.array([-1, 2])},
    "Transpose(t)": {},
    "Transpose<perm=[1,0]>(t)": {},
    "Flatten<axis=0>(t)": {},
    "Slice(t, s, e)": {"s": np.array([1]), "e": np.array([3])},
    "Gather<axis=1>(t, s)": {"s": np.array([[1, 0]])},
    "Unsqueeze(t, s)": {"s": np.array([0])},
    "Squeeze(t, s)": {"s": np.array([1])},
}


@pytest.mark.parametrize("node", MOVES)
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ("float16", "float", "float16"),
        ("int32", "int64", "int32"),
        ("bool", "float", "int32"),
        ("float", "double", "bool"),
    ],
)
def test_becomes_around_movement(node: str, a: str, b: str, c: str) -> None:
    last = "k" if "Squeeze" in node else "4"
    rank = 1 if "Squeeze" in node else 3 if "Unsqueeze" in node or "Gather" in node else 2
    dims = "3,1" if last == "k" else "3,4"
    head = f"g ({a}[{dims}] x) => ({c}[{','.join('pqr'[:rank])}] y)"
    moved = node.replace("(t", "(x")
    after = f"y = {moved}" if a == c else f"u = {moved} y = Cast<to={NAMES[c]}>(u)"
    weights = MOVES[node]
    constants = "".join(f"int64{list(w.shape)} {k} = {{{', '.join(map(str, w.flat))}}}, " for k, w in weights.items())
    before = f"{head} {{ t = Cast<to={NAMES[b]}>(x) u = {node} y = Cast<to={NAMES[c]}>(u) }}"
    becomes(
        before,
        f"{head} <{constants[:-2]}> {{ {after} }}" if constants else f"{head} {{ {after} }}",
        *RULES,
        weights=weights,
    )


test_stays_around_movement = rewrites.using(runs=False, opset=17).all_stay("""
    the type between is narrower [x=float[3,4] x]: t = Cast<to=10>(x) u = Transpose(t) y = Cast<to=1>(u)
    the moved value is an output [graph=g (float[3,4] x) => (float[p,q] y, double[p,q] u)]:
        t = Cast<to=11>(x) u = Transpose(t) y = Cast<to=1>(u)
    the first cast is read elsewhere [graph=g (float[3,4] x) => (float[p,q] y, double[p,q] z)]:
        t = Cast<to=11>(x) z = Neg(t) u = Transpose(t) y = Cast<to=1>(u)
    an op between that computes [x=float[3,4] x]: t = Cast<to=11>(x) u = Exp(t) y = Cast<to=1>(u)
    the cast is not of the moved value [graph=g (float[3,4] x, int32[2] s) => (int32[] y)]:
        t = Cast<to=7>(s) u = Reshape(x, t) y = Cast<to=6>(u)
""")


# the first version of Flatten takes floats alone
test_movement_of_types_that_it_takes = rewrites.using(merge_casts_around_movement).all_become("""
    9 [opset=9; x=uint8[4] x]: t = Cast<to=1>(x) u = Flatten<axis=0>(t) y = Cast<to=1>(u)
        => v = Flatten<axis=0>(x) y = Cast<to=1>(v)
""")
test_movement_of_types_that_it_takes_stays = rewrites.using(merge_casts_around_movement, runs=False).all_stay("""
    8 [opset=8; x=uint8[4] x]: t = Cast<to=1>(x) u = Flatten<axis=0>(t) y = Cast<to=1>(u)
""")


def test_the_pass_has_all_rules() -> None:
    assert MERGE_CASTS.rules == RULES


def representable(kind: int) -> st.SearchStrategy[float | int]:
    """Numbers representable in the type."""
    k = NUMERIC_FORMATS[kind]
    if not k.exponent_bits:
        return st.integers(-(2**k.significand_bits) if k.signed else 0, 2**k.significand_bits - 1)
    return st.floats(width=64 if kind == F64 else 32 if kind == F32 else 16)


@given(data=st.data(), a=st.sampled_from(sorted(NAMES.values())), b=st.sampled_from(sorted(NAMES.values())))
def test_lossless_casts_round_trip(data: st.DataObject, a: int, b: int) -> None:
    types = {
        BOOL: np.bool_, I8: np.int8, U8: np.uint8, I16: np.int16, I32: np.int32, I64: np.int64, F16: np.float16,
        F32: np.float32, F64: np.float64,
    }  # fmt: skip
    x = np.array(data.draw(representable(a)), types[a])
    if equals_direct_cast(a, b, a):
        back = x.astype(types[b]).astype(types[a])
        assert np.array_equal(x, back, equal_nan=NUMERIC_FORMATS[a].exponent_bits > 0)


@given(
    a=st.sampled_from(sorted(NAMES)), b=st.sampled_from(sorted(NAMES)), c=st.sampled_from(["bool", "int8", "double"])
)
def test_any_pair_is_equivalent(a: str, b: str, c: str) -> None:
    if b in {a, c}:
        return
    if not equals_direct_cast(NAMES[a], NAMES[b], NAMES[c]):
        stays(pair(a, b, c), *RULES, runs=False)
    else:
        becomes(pair(a, b, c), pair(a, b, c, "y = Identity(x)" if a == c else f"y = Cast<to={NAMES[c]}>(x)"), *RULES)


def test_unsupported_types_are_excluded() -> None:
    assert not {TensorProto.STRING, TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.COMPLEX64} & set(
        NUMERIC_FORMATS
    )


@each(
    ("value", "to", "after", "opset"),
    {
        "whole number to float": ("<value = int64[1] {3}>", "float", "<value = float[1] {3}>", 9),
        "no value": ("", "int64", "<value = int64[1] {0}>", 13),
        "fraction cut off": ("<value = float[1] {-3.7}>", "int32", "<value = int32[1] {-3}>", 17),
        "to truth": ("<value = float[1] {0.3}>", "bool", "<value = bool[1] {1}>", 17),
        "wraps": ("<value = int64[1] {-1}>", "uint8", "<value = uint8[1] {255}>", 21),
        "from truth": ("<value = bool[1] {1}>", "double", "<value = double[1] {1}>", 25),
    },
)
def test_cast_of_a_fill_becomes(value: str, to: str, after: str, opset: int) -> None:
    text = f"g (int64[2] s) => ({to}[a,b] y)"
    before = f"{text} {{ t = ConstantOfShape{value}(s) y = Cast<to={NAMES[to]}>(t) }}"
    becomes(before, f"{text} {{ y = ConstantOfShape{after}(s) }}", cast_fill, opset=opset)


def test_cast_of_a_fill_overflows_to_infinity() -> None:
    text = "g (int64[2] s) => (float16[a,b] y) { t = ConstantOfShape<value = float[1] {70000}>(s) y = Cast<to=10>(t) }"
    model = becomes(
        text, "g (int64[2] s) => (float16[a,b] y) { y = ConstantOfShape<value = float16[1] {31744}>(s) }", cast_fill
    )
    assert np.isposinf(numpy_helper.to_array(model.graph.node[0].attribute[0].t)).all()


@each(
    ("body", "kind", "opset"),
    {
        "out of range": ("t = ConstantOfShape<value = float[1] {1e20}>(s) y = Cast<to=6>(t)", "int32", 17),
        "beyond a byte": ("t = ConstantOfShape<value = float[1] {300}>(s) y = Cast<to=2>(t)", "uint8", 17),
        "strings": ("t = ConstantOfShape(s) y = Cast<to=8>(t)", "string", 17),
        "bfloat16": ("t = ConstantOfShape(s) y = Cast<to=16>(t)", "bfloat16", 17),
        "8-bit float": ("t = ConstantOfShape(s) y = Cast<to=17>(t)", "float8e4m3fn", 19),
        "read elsewhere": ("t = ConstantOfShape(s) u = Neg(t) y = Cast<to=7>(t)", "int64", 17),
        "something between": ("t = ConstantOfShape(s) u = Neg(t) y = Cast<to=7>(u)", "int64", 17),
    },
)
def test_cast_of_a_fill_stays(body: str, kind: str, opset: int) -> None:
    stays(f"g (int64[2] s) => ({kind}[a,b] y) {{ {body} }}", cast_fill, opset=opset)


def test_cast_to_a_name_stays() -> None:
    """Before opset 6, the attribute is the name of a type."""
    stays('g (float[n] x) => (float[n] y) { t = Cast<to="FLOAT">(x) y = Neg(t) }', *RULES, opset=5, runs=False)
