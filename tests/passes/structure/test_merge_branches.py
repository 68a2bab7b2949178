"""Ops that both branches of an If compute."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from passwright.core import to_onnx
from passwright.passes.structure.conditionals import MergeBranches
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays

G = "g (bool c, float[2] x, float[2] z) => (float[n] y)"
G2 = "g (bool c, float[2] x, float[2] z) => (float[n] y, float[n] u)"


def branch(name: str, out: str, ops: str, constants: str = "") -> str:
    return f"{name}_branch = {name} () => ({', '.join(f'float[n] {o}' for o in out.split())}) {constants} {{ {ops} }}"


def when(then: str, otherwise: str, out: str = "r", other: str = "s") -> str:
    return f"If (c) <{branch('then', out, then)}, {branch('else', other, otherwise)}>"


INNER = when("p = Neg(x)", "q = Exp(x)", "p", "q")

merges = Rewrites(G, MergeBranches())

test_becomes = merges.all_become(f"""
    equal branches, graph output: y = {when("r = Neg(x)", "s = Neg(x)")} => y = Neg(x)
    equal branches, before an op: t = {when("a = Neg(x) r = Add(a, z)", "b = Neg(x) s = Add(z, b)")} y = Exp(t)
        => a = Neg(x) t = Add(a, z) y = Exp(t)
    an outer value: t = {when("r = Identity(x)", "s = Identity(x)")} y = Exp(t) => y = Exp(x)
    Identities do not count: y = {when("a = Identity(x) r = Neg(a)", "b = Identity(x) d = Identity(b) s = Neg(d)")}
        => a = Identity(x) y = Neg(a)
    input to output: y = {when("r = Identity(x)", "s = Identity(x)")} => y = Identity(x)
    captured value: e = Exp(x) y = {when("r = Neg(e)", "s = Neg(e)")} => e = Exp(x) y = Neg(e)
    names that are borne outside: t = {when("a = Neg(x) r = Exp(a)", "a = Neg(x) s = Exp(a)")} a = Abs(x) y = Add(a, t)
        => b = Neg(x) t = Exp(b) a = Abs(x) y = Add(a, t)
    one of two Ifs: i = {when("r = Abs(x)", "s = Abs(x)")} y = {when("r = Neg(i)", "s = Exp(i)")}
        => i = Abs(x) y = {when("r = Neg(i)", "s = Exp(i)")}
    inside a branch: y = {when("r = " + when("p = Neg(x)", "q = Neg(x)", "p", "q"), "s = Exp(x)")}
        => y = {when("r = Neg(x)", "s = Exp(x)")}
    branches with branches: y = {when("r = " + INNER, "s = " + INNER)}
        => y = {when("p = Neg(x)", "q = Exp(x)", "p", "q")}
""")

test_several_outputs = merges.using(graph=G2).all_become(f"""
    the first output: y, u = {when("r = Neg(x) t = Exp(x)", "s = Neg(x) o = Abs(x)", "r t", "s o")}
        => y = Neg(x) u = {when("t = Exp(x)", "o = Abs(x)", "t", "o")}
    the second, made of the first in one branch:
        y, u = {when("r = Neg(x) t = Exp(r)", "s = Abs(x) k = Neg(x) o = Exp(k)", "r t", "s o")}
        => m = Neg(x) u = Exp(m) y = {when("r_pw1 = Identity(m)", "s = Abs(x)", "r_pw1")}
    ops needed by the others too:
        y, u = {when("a = Abs(z) r = Neg(a) t = Exp(a)", "a = Abs(z) s = Neg(a) o = Sqrt(a)", "r t", "s o")}
        => a = Abs(z) y = Neg(a) u = {when("t = Exp(a)", "b = Abs(z) o = Sqrt(b)", "t", "o")}
    both: y, u = {when("r = Neg(x) t = Abs(x)", "s = Neg(x) o = Abs(x)", "r t", "s o")} => y = Neg(x) u = Abs(x)
    the other is not read: y, k = {when("r = Neg(x) t = Abs(x)", "s = Neg(x) o = Exp(x)", "r t", "s o")} u = Neg(z)
        => y = Neg(x) u = Neg(z)
""")


@each(
    "text",
    {
        "other ops": (when("r = Neg(x)", "s = Exp(x)")),
        "other inputs": (when("r = Neg(x)", "s = Neg(z)")),
        "operands the other way round": (when("r = Sub(x, z)", "s = Sub(z, x)")),
        "Max, which picks a zero by its place": (when("r = Max(x, z)", "s = Max(z, x)")),
        "other attributes": (when("r = LeakyRelu<alpha=0.1>(x)", "s = LeakyRelu<alpha=0.2>(x)")),
        "other outer values": (when("r = Identity(x)", "s = Identity(z)")),
        "equal at the end alone": (
            when("a = Neg(x) r = Neg(a)", "a = Exp(x) s = Neg(a)")),
        "other constants": (
            f"If (c) <{branch('then', 'r', 'r = Mul(x, w)', '<float[2] w = {1,2}>')}, "
            f"{branch('else', 's', 's = Mul(x, v)', '<float[2] v = {1,3}>')}>"),
        "constants of another shape": (
            f"If (c) <{branch('then', 'r', 'r = Mul(x, w)', '<float[2] w = {1,2}>')}, "
            f"{branch('else', 's', 's = Mul(x, v)', '<float[1] v = {1}>')}>"),
        "other constants, as outputs": (
            f"If (c) <{branch('then', 'r', '', '<float[2] r = {1,2}>')}, "
            f"{branch('else', 's', '', '<float[2] s = {1,-2}>')}>"),
    },
)  # fmt: skip
def test_stays(text: str) -> None:
    stays(f"{G} {{ y = {text} }}", MergeBranches())


def test_random_ops_stay() -> None:
    both = when("a = RandomNormalLike(x) r = Abs(a)", "b = RandomNormalLike(x) s = Abs(b)")
    stays(f"{G} {{ y = {both} }}", MergeBranches(), runs=False)


def test_opaque_ops_stay() -> None:
    model = load(f"{G} {{ y = {when('r = Neg(x) k = my.own.Log(x)', 's = Neg(x)')} }}")
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    result, change_log = apply_passes(model, MergeBranches())
    assert not change_log.changes
    assert to_onnx(result) == model


def test_annotated_bodies_stay() -> None:
    model = load(f"{G} {{ y = {when('r = Neg(x)', 's = Neg(x)')} }}")
    model.graph.node[0].attribute[0].g.quantization_annotation.add(tensor_name="r")
    result, change_log = apply_passes(model, MergeBranches())
    assert not change_log.changes
    assert to_onnx(result) == model


@each("size", [2, 1000])
def test_constants_of_the_branches(size: int) -> None:
    """Large constants are compared up to the last element."""
    text = f"g (bool c, float[{size}] x) => (float[n] y) {{ y = {when('r = Mul(x, w)', 's = Mul(x, v)')} }}"
    weights = [np.arange(size, dtype=np.float32) for _ in range(2)]

    def model() -> object:
        m = load(text)
        for a, name, w in zip(m.graph.node[0].attribute, "wv", weights, strict=True):
            a.g.initializer.append(numpy_helper.from_array(w, name))
        result, _ = apply_passes(m, MergeBranches())
        require_equivalent(m, to_onnx(result), exact=True)
        return to_onnx(result)

    assert op_types(model()) == ["Mul"]
    assert list(initializers(model())) == ["w"]
    weights[1][size // 3] = 7
    assert op_types(model()) == ["If"]


def test_both_branches_return_a_constant() -> None:
    text = (
        f"If (c) <{branch('then', 'r', '', '<float[2] r = {1,2}>')}, {branch('else', 's', '', '<float[2] s = {1,2}>')}>"
    )
    out = becomes(f"{G} {{ t = {text} y = Add(t, x) }}", f"{G} <float[2] r = {{1,2}}> {{ y = Add(x, r) }}".replace(
        "Add(x, r)", "Add(r, x)"), MergeBranches())  # fmt: skip
    assert len(initializers(out)) == 1


@given(st.lists(st.tuples(st.sampled_from(["Neg", "Exp", "Abs"]), st.sampled_from(["Neg", "Exp", "Abs"])),
                min_size=1, max_size=4))  # fmt: skip
def test_outputs_merge_independently(pairs: list[tuple[str, str]]) -> None:
    rs, ss, us = ([f"{p}{i}" for i in range(len(pairs))] for p in "rsu")
    then = " ".join(f"{r} = {a}(x)" for r, (a, _) in zip(rs, pairs, strict=True))
    otherwise = " ".join(f"{s} = {b}(x)" for s, (_, b) in zip(ss, pairs, strict=True))
    text = f"{', '.join(us)} = {when(then, otherwise, ' '.join(rs), ' '.join(ss))} y = Concat<axis=0>({', '.join(us)})"
    model = load(f"{G} {{ {text} }}")
    result, _ = apply_passes(model, MergeBranches())
    out = to_onnx(result)
    equal = sum(a == b for a, b in pairs)
    assert op_types(out).count("If") == (equal < len(pairs))
    assert len(op_types(out)) == equal + (equal < len(pairs)) + 1
    require_equivalent(model, out, exact=True)
