"""Common subexpressions."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper
from passwright.core import Fixpoint, to_onnx
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from rewrite_tables import Rewrites
from rewriting import apply_passes, each, load, op_types, require_equivalent, stays

rewrites = Rewrites(
    "g ({x}) => (float[] y)", MergeDuplicates(), weights={"t": np.bool_(1)}, x="float[6,3] x, float[6,3] w"
)

test_becomes = rewrites.all_become("""
    of one input: a = Relu(x) b = Relu(x) y = Add(a, b) => a = Relu(x) y = Add(a, a)
    of two inputs: a = Sub(x, w) b = Sub(x, w) y = Mul(a, b) => a = Sub(x, w) y = Mul(a, a)
    commutative: a = Add(x, w) b = Add(w, x) y = Sub(a, b) => a = Add(x, w) y = Sub(a, a)
    three of a kind: a = Relu(x) b = Relu(x) c = Relu(x) d = Add(a, b) y = Add(c, d)
        => a = Relu(x) d = Add(a, a) y = Add(a, d)
    transitive: a = Relu(x) b = Relu(x) c = Neg(a) d = Neg(b) y = Add(c, d) => a = Relu(x) c = Neg(a) y = Add(c, c)
    equal attributes: a = Softmax<axis=1>(x) b = Softmax<axis=1>(x) y = Add(a, b)
        => a = Softmax<axis=1>(x) y = Add(a, a)
    default attribute spelled out, first: a = Softmax<axis=-1>(x) b = Softmax(x) y = Add(a, b)
        => a = Softmax<axis=-1>(x) y = Add(a, a)
    an axis from the front and from the back: a = Softmax<axis=0>(x) b = Softmax<axis=-2>(x) y = Add(a, b)
        => a = Softmax<axis=0>(x) y = Add(a, a)
    an axis of a normalization: a = LpNormalization<axis=0>(x) b = LpNormalization<axis=-2>(x) y = Add(a, b)
        => a = LpNormalization<axis=0>(x) y = Add(a, a)
    the last axis, by default and by number: a = Softmax(x) b = Softmax<axis=1>(x) y = Add(a, b)
        => a = Softmax(x) y = Add(a, a)
    default attribute spelled out, second: a = LeakyRelu(x) b = LeakyRelu<alpha=0.01>(x) y = Add(a, b)
        => a = LeakyRelu(x) y = Add(a, a)
    optional input left out: a = Clip(x, , 0.5) b = Clip(x, , 0.5) y = Add(a, b) => a = Clip(x, , s) y = Add(a, a)
    several outputs, transitive: a, i = TopK(x, [2]) b, j = TopK(x, [2]) c = Cast<to=1>(i) d = Cast<to=1>(j)
        e = Add(a, b) f = Add(c, d) y = Add(e, f)
        => a, i = TopK(x, k) c = Cast<to=1>(i) e = Add(a, a) f = Add(c, c) y = Add(e, f)
    different outputs used: a, i = TopK(x, [2]) b = Neg(a) c, j = TopK(x, [2]) d = Cast<to=1>(j) y = Add(b, d)
        => a, i = TopK(x, k) b = Neg(a) d = Cast<to=1>(i) y = Add(b, d)
    Dropout: a = Dropout(x) b = Dropout(x) y = Add(a, b) => a = Dropout(x) y = Add(a, a)
    default integer spelled out: a = Shape<start=0>(x) b = Shape(x) c = Expand(x, a) y = Expand(c, b)
        => a = Shape<start=0>(x) c = Expand(x, a) y = Expand(c, a)
""")

test_becomes_elsewhere = rewrites.all_become("""
    the first is a graph output [graph=g (float[n] x) => (float[n] y, float[n] z)]: y = Relu(x) b = Relu(x) z = Neg(b)
        => y = Relu(x) z = Neg(y)
    the second is a graph output [graph=g (float[n] x) => (float[n] y, float[n] z)]: b = Relu(x) z = Neg(b) y = Relu(x)
        => y = Relu(x) z = Neg(y)
    inside an If body [x=bool c, float[n] x]: y = If(c) <then_branch = p () => (float[n] r) { a = Abs(x) b = Abs(x)
        r = Add(a, b) }, else_branch = q () => (float[n] s) { s = Neg(x) }> =>
        y = If(c) <then_branch = p () => (float[n] r) { a = Abs(x) r = Add(a, a) }, else_branch = q () => (float[n] s) {
        s = Neg(x) }>
    captured by If bodies [x=bool c, float[n] x]: a = Abs(x) b = Abs(x) y = If(c) <then_branch = p () => (float[n] r) {
        r = Neg(a) }, else_branch = q () => (float[n] s) { s = Relu(b) }> => a = Abs(x)
        y = If(c) <then_branch = p () => (float[n] r) { r = Neg(a) }, else_branch = q () => (float[n] s) {
        s = Relu(a) }>
    of an overridable initializer [x=float[n] x, float[2] w = {1,2}]: a = Add(x, w) b = Add(w, x) y = Mul(a, b)
        => a = Add(x, w) y = Mul(a, a)
    strings [graph=g (string[n] x) => (string[] y)]: a = Identity(x) b = Identity(x) y = Concat<axis=0>(a, b)
        => a = Identity(x) y = Concat<axis=0>(a, a)
    sequences, transitive [x=float[n] x]: s = SequenceConstruct(x, x) t = SequenceConstruct(x, x)
        u = ConcatFromSequence<axis=0>(s) v = ConcatFromSequence<axis=0>(t) y = Add(u, v)
        => s = SequenceConstruct(x, x) u = ConcatFromSequence<axis=0>(s) y = Add(u, u)
""")

test_stays = rewrites.all_stay("""
    other ops: a = Relu(x) b = Abs(x) y = Add(a, b)
    other inputs: a = Relu(x) b = Relu(w) y = Add(a, b)
    not commutative: a = Sub(x, w) b = Sub(w, x) y = Mul(a, b)
    not commutative, Div: a = Div(x, w) b = Div(w, x) y = Mul(a, b)
    attributes differ: a = Softmax<axis=0>(x) b = Softmax<axis=1>(x) y = Add(a, b)
    non-default attribute: a = Softmax<axis=0>(x) b = Softmax(x) y = Add(a, b)
    another input left out: a = Clip(x, 0.5) b = Clip(x, , 0.5) y = Add(a, b)
    Max of 0 and -0: a = Max(x, w) b = Max(w, x) y = Div(x, a) z = Div(x, b)
    three inputs in another order: a = Sum(x, w, x) b = Sum(x, x, w) y = Sub(a, b)
    random [runs=False]: a = RandomNormalLike(x) b = RandomNormalLike(x) y = Add(a, b)
    random, seeded [runs=False]: a = RandomNormalLike<seed=1.0>(x) b = RandomNormalLike<seed=1.0>(x) y = Add(a, b)
    random uniform [runs=False]: a = RandomUniformLike(x) b = RandomUniformLike(x) y = Add(a, b)
    random, of a function operator [runs=False]: p = Sigmoid(x) a = Bernoulli(p) b = Bernoulli(p) y = Add(a, b)
    Dropout in training [runs=False]: a = Dropout(x, 0.5, t) b = Dropout(x, 0.5, t) y = Add(a, b)
    batchnorm outputs that select training stay [opset=9; graph=g (float[2,3] x, float[3] s) => (float[n,m] y, float[k]
        z); runs=False]: a, b, c, d, e = BatchNormalization(x, s, s, s, s) f = BatchNormalization(x, s, s, s, s)
        y = Sub(a, f) z = Add(b, c)
    bodies with random ops stay [x=bool c, int64 k, float[2] x, float[2] z; runs=False]:
        a = If(c) <then_branch = then () => (float[2] r) { u = RandomNormalLike(x) r = Neg(u) },
        else_branch = else () => (float[2] s) { s = Neg(x) }> b = If(c) <then_branch = then () => (float[2] r) {
        u = RandomNormalLike(x) r = Neg(u) }, else_branch = else () => (float[2] s) { s = Neg(x) }> y = Sub(a, b)
""")

test_stays_elsewhere = rewrites.all_stay("""
    both are graph outputs [graph=g (float[n] x) => (float[n] y, float[n] z)]: y = Relu(x) z = Relu(x)
    how many outputs there are says how to split [graph=g (float[6] x) => (float[n] y, float[m] z)]:
        a, b, c = Split(x) d, e = Split(x) f = Add(a, b) y = Add(f, c) z = Add(d, e)
    in different If bodies [x=bool c, float[n] x]: y = If(c) <then_branch = p () => (float[n] r) { r = Relu(x) },
        else_branch = q () => (float[n] s) { s = Relu(x) }>
    an axis of an unknown rank [graph=g (float[n,m] x, int64[r] k) => (float[a,b] y)]:
        r = Reshape(x, k) a = Softmax<axis=-1>(r) b = Softmax<axis=1>(r) y = Add(a, b)
    two different Ifs [x=bool c, float[n] x]: a = If(c) <then_branch = p () => (float[n] r) { r = Abs(x) },
        else_branch = q () => (float[n] s) { s = Neg(x) }> b = If(c) <then_branch = v () => (float[n] t) { t = Neg(x) },
        else_branch = w () => (float[n] u) { u = Abs(x) }> y = Add(a, b)
    random, without inputs [graph=g () => (float[] y); runs=False]:
        a = RandomUniform<shape=[3]>() b = RandomUniform<shape=[3]>() y = Sub(a, b)
    random, Multinomial [graph=g (float[2,3] x) => (int32[] y); runs=False]:
        a = Multinomial<sample_size=9>(x) b = Multinomial<sample_size=9>(x) y = Sub(a, b)
""")


def custom(text: str, domain: str, opset: int = 17) -> ModelProto:
    """A model that imports another domain."""
    model = load(text, opset)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def test_unknown_domain_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { a = my.own.Draw(x) b = my.own.Draw(x) y = Add(a, b) }"
    model = custom(text, "my.own")
    result, change_log = apply_passes(model, MergeDuplicates())
    assert not change_log.changes
    assert to_onnx(result) == model


def test_known_domain_merges() -> None:
    binarizer = "ai.onnx.ml.Binarizer<threshold=0.5>(x)"
    text = f"g (float[n] x) => (float[n] y) {{ a = {binarizer} b = {binarizer} y = Sub(a, b) }}"
    model = custom(text, "ai.onnx.ml")
    result, _ = apply_passes(model, MergeDuplicates())
    assert op_types(to_onnx(result)) == ["Binarizer", "Sub"]
    require_equivalent(model, to_onnx(result), exact=True)


def with_constants(first: np.ndarray, second: np.ndarray) -> ModelProto:
    """x plus the difference of two Constant nodes."""
    model = load("g (float[512] x) => (float[512] y) { d = Sub(a, b) y = Add(x, d) }")
    for name, array in (("a", first), ("b", second)):
        node = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        model.graph.node.insert(0, node)
    return model


@each("size", [512, 1])
def test_constants_of_other_content_stay(size: int) -> None:
    model = with_constants(np.zeros(size, np.float32), np.ones(size, np.float32))
    result, change_log = apply_passes(model, MergeDuplicates())
    require_equivalent(model, to_onnx(result), exact=True)
    assert not change_log.changes


def test_deep_equal_chains_merge_in_few_rounds() -> None:
    """Two equal chains do not need one round per op."""
    storeys = 120
    towers = [" ".join(f"{t}{o} = Neg({t}{i})" for i, o in pairwise(range(storeys))) for t in "ab"]
    top = storeys - 1
    text = f"a0 = Neg(x) b0 = Neg(x) {' '.join(towers)} y = Sub(a{top}, b{top})"
    model = load(f"g (float[n] x) => (float[n] y) {{ {text} }}")
    result, _ = apply_passes(model, Fixpoint("all", (MergeDuplicates(),)))
    assert len(op_types(to_onnx(result))) == storeys + 1


@given(
    ops=st.lists(
        st.tuples(st.sampled_from(["Add", "Sub", "Mul", "Max"]), st.integers(0, 3), st.integers(0, 3)),
        min_size=2,
        max_size=8,
    )
)
def test_any_expressions_become_distinct(ops: list[tuple[str, int, int]]) -> None:
    """All ops read two graph inputs: one op remains per distinct expression."""
    inputs = [f"x{i}" for i in range(4)]
    lines = [f"v{i} = {op}({inputs[a]}, {inputs[b]})" for i, (op, a, b) in enumerate(ops)]
    kinds = {(op, *((a, b) if op in {"Sub", "Max"} else sorted((a, b)))) for op, a, b in ops}
    head = f"g ({', '.join(f'float[3] {i}' for i in inputs)}) => (float[n] y)"
    names = ", ".join(f"v{i}" for i in range(len(ops)))
    model = load(f"{head} {{ {' '.join(lines)} y = Concat<axis=0>({names}) }}")
    result, _ = apply_passes(model, MergeDuplicates())
    assert len(op_types(to_onnx(result))) == len(kinds) + 1
    require_equivalent(model, to_onnx(result), exact=True)


H = "g (bool c, int64 k, float[2] x, float[2] z) => (float[n] y) <bool t = {1}>"


def branch(name: str, out: str, ops: str, constants: str = "") -> str:
    return f"{name}_branch = {name} () => (float[2] {out}) {constants} {{ {ops} }}"


def when(then: str, otherwise: str) -> str:
    return f"If (c) <{branch('then', 'r', then)}, {branch('else', 's', otherwise)}>"


def loop(ops: str, inits: str = "k, t, x") -> str:
    return f"Loop ({inits}) <body = b (int64 i, bool p, float[2] v) => (bool o, float[2] w) {{ {ops} }}>"


test_bodies_merge = rewrites.using(graph=H.partition(" <")[0]).all_become(f"""
    equal Ifs: a = {when("r = Exp(x)", "s = Neg(x)")} b = {when("r = Exp(x)", "s = Neg(x)")} y = Mul(a, b)
        => a = {when("r = Exp(x)", "s = Neg(x)")} y = Mul(a, a)
    in another order, under other names: a = {when("u = Exp(x) q = Abs(z) r = Add(u, q)", "s = Neg(x)")}
        b = {when("h = Abs(z) f = Exp(x) r = Add(h, f)", "s = Neg(x)")} y = Mul(a, b)
        => a = {when("u = Exp(x) q = Abs(z) r = Add(u, q)", "s = Neg(x)")} y = Mul(a, a)
    equal Loops: a = {loop("o = Identity(p) w = Add(v, z)")} b = {loop("w = Add(z, v) o = Identity(p)")} y = Mul(a, b)
        => a = {loop("o = Identity(p) w = Add(v, z)")} y = Mul(a, a)
    that read equal values: m = Abs(z) n = Abs(z) a = {loop("o = Identity(p) w = Add(v, m)")}
        b = {loop("o = Identity(p) w = Add(v, n)")} y = Mul(a, b)
        => m = Abs(z) a = {loop("o = Identity(p) w = Add(v, m)")} y = Mul(a, a)
    nested: a = {when("u = " + loop("o = Identity(p) w = Exp(v)") + " r = Neg(u)", "s = Abs(x)")}
        b = {when("u = " + loop("w = Exp(v) o = Identity(p)") + " r = Neg(u)", "s = Abs(x)")} y = Mul(a, b)
        => a = {when("u = " + loop("o = Identity(p) w = Exp(v)") + " r = Neg(u)", "s = Abs(x)")} y = Mul(a, a)
    done outside already: a = Exp(x) q = {when("u = Exp(x) r = Neg(u)", "s = Abs(x)")} y = Mul(a, q)
        => a = Exp(x) q = {when("r = Neg(a)", "s = Abs(x)")} y = Mul(a, q)
    done before a Loop: a = Exp(z) q = {loop("o = Identity(p) e = Exp(z) w = Add(v, e)")} y = Mul(a, q)
        => a = Exp(z) q = {loop("o = Identity(p) w = Add(v, a)")} y = Mul(a, q)
""")


@each(
    "other",
    {
        "other inputs": (when("r = Exp(x)", "s = Neg(z)")),
        "branches the other way round": (when("r = Neg(x)", "s = Exp(x)")),
        "other ops": (when("r = Softmax<axis=0>(x)", "s = Neg(x)")),
        "a constant": (
            f"If (c) <{branch('then', 'r', '', '<float[2] r = {1,2}>')}, {branch('else', 's', 's = Neg(x)')}>"
        ),
        "another operator": (loop("o = Identity(p) w = Exp(v)")),
    },
)
def test_other_bodies_stay(other: str) -> None:
    stays(f"{H} {{ a = {when('r = Exp(x)', 's = Neg(x)')} b = {other} y = Mul(a, b) }}", MergeDuplicates())


@each(
    "text",
    {
        "Loops that start from other values": (
            f"a = {loop('o = Identity(p) w = Exp(v)')} b = {loop('o = Identity(p) w = Exp(v)', 'k, t, z')}"
            " y = Mul(a, b)"
        ),
        "Loops that end otherwise": (
            f"a = {loop('o = Identity(p) w = Exp(v)')} b = {loop('o = Not(p) w = Exp(v)')} y = Mul(a, b)"
        ),
        "done outside, but later": (f"q = {when('u = Exp(x) r = Neg(u)', 's = Abs(x)')} a = Exp(x) y = Mul(a, q)"),
        "a body may not return an outer value itself": (
            f"a = Exp(x) q = {when('r = Exp(x)', 's = Abs(x)')} y = Mul(a, q)"
        ),
        "the outer op depends on the inner one": (
            f"q = {when('u = Exp(x) r = Neg(u)', 's = Abs(x)')} a = Exp(q) y = Mul(a, q)"
        ),
    },
)
def test_scopes_stay(text: str) -> None:
    stays(f"{H} {{ {text} }}", MergeDuplicates())


def test_constants_in_bodies_count() -> None:
    def text(first: str, second: str) -> str:
        ifs = [f"If (c) <{branch('then', 'r', 'r = Mul(x, w)', f'<float[2] w = {{{w}}}>')}, "
               f"{branch('else', 's', 's = Neg(x)')}>" for w in (first, second)]  # fmt: skip
        return f"{H} {{ a = {ifs[0]} b = {ifs[1]} y = Mul(a, b) }}"

    stays(text("1,2", "1,3"), MergeDuplicates())
    result, change_log = apply_passes(load(text("1,2", "1,2")), MergeDuplicates())
    assert len(change_log.changes) == 1
    assert op_types(to_onnx(result)) == ["If", "Mul"]
