"""An If whose condition is constant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import checker, helper
from passwright.core import from_onnx, to_onnx
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.structure.conditionals import InlineIf
from rewriting import apply_passes, becomes, canonical_nodes, cases, load, op_types, require_equivalent, stays

THEN = "then_branch = p () => (float[2] r) {{ {} }}"
ELSE = "else_branch = q () => (float[2] s) {{ {} }}"
YES, NO = "bool c = {1}", "bool c = {0}"


def branches(then: str, otherwise: str, condition: str = "c") -> str:
    return f"If ({condition}) <{THEN.format(then)}, {ELSE.format(otherwise)}>"


def model(constants: str, text: str, outputs: str = "float[2] y") -> str:
    return f"g (float[2] x) => ({outputs}) {f'<{constants}>' if constants else ''} {{ {text} }}"


W = "float[2] w = {1,2}"
NESTED = branches(
    "t = Neg(x) r = If (d) <then_branch = u () => (float[2] a) { a = Exp(t) }, "
    "else_branch = v () => (float[2] b) { b = Abs(t) }>",
    "s = Relu(x)",
)


@cases(
    ("before", "after"),
    {
        "then, graph output": (model(YES, f"y = {branches('r = Neg(x)', 's = Relu(x)')}"), model("", "y = Neg(x)")),
        "else, graph output": (model(NO, f"y = {branches('r = Neg(x)', 's = Relu(x)')}"), model("", "y = Relu(x)")),
        "condition of rank 1": (
            model("bool[1] c = {1}", f"y = {branches('r = Neg(x)', 's = Relu(x)')}"),
            model("", "y = Neg(x)"),
        ),
        "condition is a Constant node": (
            model("", f"c = Constant<value=bool {{1}}>() y = {branches('r = Neg(x)', 's = Relu(x)')}"),
            model("", "y = Neg(x)"),
        ),
        "before an op": (
            model(YES, f"t = {branches('r = Neg(x)', 's = Relu(x)')} y = Exp(t)"),
            model("", "t = Neg(x) y = Exp(t)"),
        ),
        "captured values": (
            model(YES, f"e = Exp(x) t = {branches('a = Neg(e) r = Mul(a, x)', 's = Relu(x)')} y = Add(t, e)"),
            model("", "e = Exp(x) a = Neg(e) t = Mul(a, x) y = Add(t, e)"),
        ),
        "values used by the other branch only are removed": (
            model(NO, f"e = Exp(x) y = {branches('r = Neg(e)', 's = Relu(x)')}"),
            model("", "y = Relu(x)"),
        ),
        "the same name in both branches": (
            model(YES, f"y = {branches('t = Neg(x) r = Exp(t)', 't = Abs(x) s = Relu(t)')}"),
            model("", "t = Neg(x) y = Exp(t)"),
        ),
        "the same names in two Ifs": (
            model(
                YES,
                f"a = {branches('t = Neg(x) r = Exp(t)', 's = Relu(x)')}"
                f" b = If (c) <then_branch = k () => (float[2] r) {{ t = Abs(a) r = Sqrt(t) }}, "
                f"else_branch = l () => (float[2] s) {{ s = Relu(x) }}> y = Add(a, b)",
            ),
            model("", "t = Neg(x) a = Exp(t) u = Abs(a) b = Sqrt(u) y = Add(a, b)"),
        ),
        "nested, both known": (model(f"{YES}, bool d = {{1}}", f"y = {NESTED}"), model("", "t = Neg(x) y = Exp(t)")),
        "nested, else": (model(f"{YES}, bool d = {{0}}", f"y = {NESTED}"), model("", "t = Neg(x) y = Abs(t)")),
        "a branch's own constants": (
            model(
                YES,
                "y = If (c) <then_branch = p () => (float[2] r) <float[2] w = {1,2}> { r = Mul(x, w) }, "
                "else_branch = q () => (float[2] s) <float[2] w = {3,4}> { s = Add(x, w) }>",
            ),
            model(W, "y = Mul(x, w)"),
        ),
        "branch output is a constant, If output a graph output": (
            model(
                YES,
                "y = If (c) <then_branch = p () => (float[2] r) <float[2] r = {1,2}> { }, "
                "else_branch = q () => (float[2] s) { s = Relu(x) }>",
            ),
            model("float[2] y = {1,2}", ""),
        ),
        "branch output is a constant": (
            model(
                YES,
                "t = If (c) <then_branch = p () => (float[2] r) <float[2] r = {1,2}> { }, "
                "else_branch = q () => (float[2] s) { s = Relu(x) }> y = Add(x, t)",
            ),
            model(W, "y = Add(x, w)"),
        ),
        "several outputs, one made of the other": (
            model(
                YES,
                "y, z = If (c) <then_branch = p () => (float[2] r, float[2] t) { r = Neg(x) t = Exp(r) }, "
                "else_branch = q () => (float[2] s, float[2] u) { s = Relu(x) u = Abs(s) }>",
                "float[2] y, float[2] z",
            ),
            model("", "y = Neg(x) z = Exp(y)", "float[2] y, float[2] z"),
        ),
        "one of several outputs is read": (
            model(
                YES,
                "a, b = If (c) <then_branch = p () => (float[2] r, float[2] t) { r = Neg(x) t = Exp(r) }, "
                "else_branch = q () => (float[2] s, float[2] u) { s = Relu(x) u = Abs(s) }> y = Relu(b)",
            ),
            model("", "a = Neg(x) b = Exp(a) y = Relu(b)"),
        ),
        "one If reads another's result": (
            "g (float[n] x) => (float[2] y) <bool c = {1}> { t = "
            + branches("r = Neg(x)", "s = Relu(x)")
            + " a = If (c) <then_branch = k () => (float[2] h) { h = Exp(t) }, "
            "else_branch = l () => (float[2] o) { o = Relu(t) }> y = Add(a, t) }",
            "g (float[n] x) => (float[2] y) { t = Neg(x) a = Exp(t) y = Add(a, t) }",
        ),
        "inside another If": (
            "g (bool k, float[2] x) => (float[2] y) <bool c = {1}> { y = If (k) <"
            "then_branch = m () => (float[2] o) { o = " + branches("r = Neg(x)", "s = Relu(x)") + " }, "
            "else_branch = l () => (float[2] h) { h = Exp(x) }> }",
            (
                "g (bool k, float[2] x) => (float[2] y) { y = If (k) <then_branch = m () => (float[2] o) { o ="
                " Neg(x) }, "
                "else_branch = l () => (float[2] h) { h = Exp(x) }> }"
            ),
        ),
        "inside a Loop": (
            "g (int64 n, float[2] x) => (float[2] y) <bool c = {1}> { y = Loop (n, c, x) <body = b"
            " (int64 i, bool k, float[2] v) => (bool d, float[2] o) { d = Identity(k) o = "
            + branches("r = Neg(v)", "s = Relu(x)")
            + " }> }",
            (
                "g (int64 n, float[2] x) => (float[2] y) <bool c = {1}> { y = Loop (n, c, x) <body = b"
                " (int64 i, bool k, float[2] v) => (bool d, float[2] o) { d = Identity(k) o = Neg(v) }> }"
            ),
        ),
        "an unknown If inside a known one": (
            "g (bool k, float[2] x) => (float[2] y) <bool c = {1}> { y = "
            + branches(
                "r = If (k) <then_branch = m () => (float[2] o) { o = Neg(x) }, "
                "else_branch = l () => (float[2] h) { h = Exp(x) }>",
                "s = Relu(x)",
            )
            + " }",
            (
                "g (bool k, float[2] x) => (float[2] y) { y = If (k) <then_branch = m () => (float[2] o) { o ="
                " Neg(x) }, "
                "else_branch = l () => (float[2] h) { h = Exp(x) }> }"
            ),
        ),
    },
)
def test_becomes(before: str, after: str) -> None:
    becomes(before, after, InlineIf(), RemoveUnused())


@cases(
    ("before", "after"),
    {
        "an outer value, to a graph output": (
            model(YES, f"e = Exp(x) y = {branches('', 's = Relu(x)').replace('float[2] r', 'float[2] e')}"),
            model("", "y = Exp(x)"),
        ),
        "a graph input, to a graph output": (
            model(YES, f"y = {branches('', 's = Relu(x)').replace('float[2] r', 'float[2] x')}"),
            model("", "y = Identity(x)"),
        ),
        "an outer constant": (
            model(
                f"{YES}, {W}", f"t = {branches('', 's = Relu(x)').replace('float[2] r', 'float[2] w')} y = Add(x, t)"
            ),
            model(W, "y = Add(x, w)"),
        ),
        "an outer value beside another": (
            model(
                YES,
                "e = Exp(x) y, z = If (c) <then_branch = p () => (float[2] e, float[2] t) { t = Neg(e) }, "
                "else_branch = q () => (float[2] s, float[2] u) { s = Relu(x) u = Abs(s) }>",
                "float[2] y, float[2] z",
            ),
            model("", "y = Exp(x) z = Neg(y)", "float[2] y, float[2] z"),
        ),
        "an outer value that is a graph output itself": (
            model(
                YES,
                f"z = Exp(x) y = {branches('', 's = Relu(x)').replace('float[2] r', 'float[2] z')}",
                "float[2] y, float[2] z",
            ),
            model("", "z = Exp(x) y = Identity(z)", "float[2] y, float[2] z"),
        ),
    },
)
def test_branch_output_from_outside(before: str, after: str) -> None:
    """ONNX lets a branch return a value of the enclosing graph (onnxruntime does not: nothing to compare with)."""
    m = load(before)
    result, _ = apply_passes(m, InlineIf())
    checker.check_model(to_onnx(result))
    assert canonical_nodes(to_onnx(result).graph) == canonical_nodes(to_onnx(from_onnx(load(after))).graph)


@cases(
    "text",
    {
        "condition is a graph input": (
            "g (bool c, float[2] x) => (float[2] y) { y = " + branches("r = Neg(x)", "s = Relu(x)") + " }"
        ),
        "condition is overridable": (
            "g (float[2] x, bool c = {1}) => (float[2] y) { y = " + branches("r = Neg(x)", "s = Relu(x)") + " }"
        ),
        "condition is computed": (
            "g (bool k, float[2] x) => (float[2] y) { c = Not(k) y = " + branches("r = Neg(x)", "s = Relu(x)") + " }"
        ),
        "condition is computed from a constant: that is for folding": (
            model(YES, f"d = Not(c) y = {branches('r = Neg(x)', 's = Relu(x)', 'd')}")
        ),
        "another op with a constant condition": (model(YES, "y = Where(c, x, x)")),
        "condition is an input of a Loop body": (
            "g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> { y = Loop (n, t, x) <body = b"
            " (int64 i, bool c, float[2] v) => (bool d, float[2] o) { d = Identity(c) o = "
            + branches("r = Neg(v)", "s = Relu(x)")
            + " }> }"
        ),
        "condition is a captured graph input": (
            "g (bool k, float[2] x) => (float[2] y) { y = If (k) <then_branch = m () => (float[2] o) { o = "
            + branches("r = Neg(x)", "s = Relu(x)", "k")
            + " }, else_branch = l () => (float[2] h) { h = Exp(x) }> }"
        ),
    },
)
def test_stays(text: str) -> None:
    stays(text, InlineIf())


@pytest.mark.parametrize("opset", [1, 7, 11, 13, 16, 21])
def test_every_opset(opset: int) -> None:
    before = model(YES, f"y = {branches('r = Neg(x)', 's = Abs(x)')}")
    becomes(before, model("", "y = Neg(x)"), InlineIf(), opset=opset, runs=opset >= 7)


@pytest.mark.parametrize(("condition", "left"), [(YES, "Relu"), (NO, "QuickGelu")])
def test_an_opaque_op_in_a_branch(condition: str, left: str) -> None:
    """It is part of the branch alone: taken or not, no If stays."""
    other = branches("r = Relu(x)", "s = com.microsoft.QuickGelu(x)")
    m = load(model(condition, f"y = {other}"))
    m.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    result, _ = apply_passes(m, InlineIf())
    out = to_onnx(result)
    assert op_types(out) == [left]
    checker.check_model(out)
    require_equivalent(m, out, exact=True)


def test_names_clash_with_the_outer_graph() -> None:
    """A branch may hide an outer name; moved out, its value needs another."""
    text = model(YES, f"t = Exp(x) a = {branches('t = Neg(x) r = Abs(t)', 's = Relu(x)')} y = Add(a, t)")
    m = load(text)
    result, _ = apply_passes(m, InlineIf())
    out = to_onnx(result)
    assert op_types(out) == ["Exp", "Neg", "Abs", "Add"]
    checker.check_model(out)
    require_equivalent(m, out, exact=True)


def test_names_clash_with_later_values() -> None:
    text = model(YES, f"a = {branches('t = Neg(x) r = Abs(t)', 's = Relu(x)')} t = Exp(a) y = Add(a, t)")
    m = load(text)
    result, _ = apply_passes(m, InlineIf())
    out = to_onnx(result)
    checker.check_model(out)
    require_equivalent(m, out, exact=True)


def test_sparse_constants_move_along() -> None:
    """Both branches have a sparse constant of the same name."""
    m = load(model(YES, f"y = {branches('r = Add(x, w)', 's = Mul(x, w)')}"))
    for a, number in zip(m.graph.node[0].attribute, (2.0, 3.0), strict=True):
        values = helper.make_tensor("w", 1, [1], [number])
        a.g.sparse_initializer.append(helper.make_sparse_tensor(values, helper.make_tensor("", 7, [1], [1]), [2]))
    result, _ = apply_passes(m, InlineIf())
    out = to_onnx(result)
    assert op_types(out) == ["Add"]
    require_equivalent(m, out, exact=True)


def nest(conditions: list[bool], depth: int = 0) -> str:
    """Ifs in Ifs; level i negates or doubles."""
    if depth == len(conditions):
        return f"o{depth} = Abs(v{depth})"
    inner = nest(conditions, depth + 1)
    return (
        f"o{depth} = If (c{depth}) <"
        f"then_branch = p{depth} () => (float[2] o{depth + 1}) {{ v{depth + 1} = Neg(v{depth}) {inner} }}, "
        f"else_branch = q{depth} () => (float[2] o{depth + 1}) {{ v{depth + 1} = Add(v{depth}, v{depth}) {inner} }}>"
    )


@given(st.lists(st.booleans(), min_size=1, max_size=3))
def test_any_nest(conditions: list[bool]) -> None:
    constants = ", ".join(f"bool c{i} = {{{int(c)}}}" for i, c in enumerate(conditions))
    m = load(model(constants, f"v0 = Exp(x) {nest(conditions)} y = Identity(o0)"))
    result, _ = apply_passes(m, InlineIf())
    out = to_onnx(result)
    assert op_types(out) == ["Exp", *("Neg" if c else "Add" for c in conditions), "Abs", "Identity"]
    assert not out.graph.initializer
    require_equivalent(m, out, exact=True)
