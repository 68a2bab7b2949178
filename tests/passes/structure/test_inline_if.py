"""An If whose condition is constant."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx import checker, helper
from passwright.core import from_onnx, to_onnx
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.structure.conditionals import InlineIf
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, canonical_nodes, each, load, op_types, require_equivalent

THEN = "then_branch = p () => (float[2] r) {{ {} }}"
ELSE = "else_branch = q () => (float[2] s) {{ {} }}"
YES, NO = "bool c = {1}", "bool c = {0}"


def branches(then: str, otherwise: str, condition: str = "c") -> str:
    return f"If ({condition}) <{THEN.format(then)}, {ELSE.format(otherwise)}>"


def model(constants: str, text: str, outputs: str = "float[2] y") -> str:
    return f"g (float[2] x) => ({outputs}) {f'<{constants}>' if constants else ''} {{ {text} }}"


W = "float[2] w = {1,2}"
CHOICE = branches("r = Neg(x)", "s = Relu(x)")
TWO = (
    "If (c) <then_branch = p () => (float[2] r, float[2] t) { r = Neg(x) t = Exp(r) }, "
    "else_branch = q () => (float[2] s, float[2] u) { s = Relu(x) u = Abs(s) }>"
)
WEIGHTS = {"c": np.bool_(1), "also": np.bool_(1), "no": np.bool_(0), "list": np.array([True]), "w": [1.0, 2.0]}
OTHER = "then_branch = m () => (float[2] o) { o = Neg(x) }, else_branch = l () => (float[2] h) { h = Exp(x) }"
LOOP = (
    "y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool d, float[2] o) {{ d = Identity(k) o = {} }}>"
)


def nested(condition: str) -> str:
    inner = f"If ({condition}) <then_branch = u () => (float[2] a) {{ a = Exp(t) }}"
    return branches(f"t = Neg(x) r = {inner}, else_branch = v () => (float[2] b) {{ b = Abs(t) }}>", "s = Relu(x)")


ifs = Rewrites("g ({x}) => (float[2] y)", InlineIf(), RemoveUnused(), weights=WEIGHTS, x="float[2] x")

test_becomes = ifs.all_become(f"""
    then, graph output: y = {CHOICE} => y = Neg(x)
    else, graph output: y = {CHOICE.replace("(c)", "(no)")} => y = Relu(x)
    condition of rank 1: y = {CHOICE.replace("(c)", "(list)")} => y = Neg(x)
    condition is a Constant node: k = Constant<value=bool {{1}}>() y = {CHOICE.replace("(c)", "(k)")} => y = Neg(x)
    before an op: t = {CHOICE} y = Exp(t) => t = Neg(x) y = Exp(t)
    captured values: e = Exp(x) t = {branches("a = Neg(e) r = Mul(a, x)", "s = Relu(x)")} y = Add(t, e)
        => e = Exp(x) a = Neg(e) t = Mul(a, x) y = Add(t, e)
    values used by the other branch only are removed: e = Exp(x) y = {branches("r = Neg(e)", "s = Relu(x)", "no")}
        => y = Relu(x)
    the same name in both branches: y = {branches("t = Neg(x) r = Exp(t)", "t = Abs(x) s = Relu(t)")}
        => t = Neg(x) y = Exp(t)
    the same names in two Ifs: a = {branches("t = Neg(x) r = Exp(t)", "s = Relu(x)")}
        b = {branches("t = Abs(a) r = Sqrt(t)", "s = Relu(x)")} y = Add(a, b)
        => t = Neg(x) a = Exp(t) u = Abs(a) b = Sqrt(u) y = Add(a, b)
    nested, both known: y = {nested("also")} => t = Neg(x) y = Exp(t)
    nested, else: y = {nested("no")} => t = Neg(x) y = Abs(t)
    a branch's own constants: y = If (c) <then_branch = p () => (float[2] r) <float[2] w = {{1,2}}> {{ r = Mul(x, w) }},
        else_branch = q () => (float[2] s) <float[2] w = {{3,4}}> {{ s = Add(x, w) }}> => y = Mul(x, w)
    branch output is a constant: t = If (c) <then_branch = p () => (float[2] r) <float[2] r = {{1,2}}> {{ }},
        {ELSE.format("s = Relu(x)")}> y = Add(x, t) => y = Add(x, w)
    several outputs, one made of the other [graph=g (float[2] x) => (float[2] y, float[2] z)]: y, z = {TWO}
        => y = Neg(x) z = Exp(y)
    one of several outputs is read: a, b = {TWO} y = Relu(b) => a = Neg(x) b = Exp(a) y = Relu(b)
    one If reads another's result [x=float[n] x]: t = {CHOICE} a = {branches("r = Exp(t)", "s = Relu(t)")} y = Add(a, t)
        => t = Neg(x) a = Exp(t) y = Add(a, t)
    inside another If [x=bool k, float[2] x]: y = If (k) <{OTHER.replace("Neg(x)", CHOICE)}> => y = If (k) <{OTHER}>
    inside a Loop [x=int64 n, float[2] x]: {LOOP.format(branches("r = Neg(v)", "s = Relu(x)"))}
        => {LOOP.format("Neg(v)")}
    an unknown If inside a known one [x=bool k, float[2] x]: y = {branches(f"r = If (k) <{OTHER}>", "s = Relu(x)")}
        => y = If (k) <{OTHER}>
""")


def test_a_branch_that_gives_a_constant_to_a_graph_output() -> None:
    constant = "y = If (c) <then_branch = p () => (float[2] r) <float[2] r = {1,2}> { }, "
    text = model(YES, f"{constant}{ELSE.format('s = Relu(x)')}>")
    becomes(text, model("float[2] y = {1,2}", ""), InlineIf(), RemoveUnused())


@each(
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


test_stays = ifs.using(InlineIf()).all_stay(f"""
    condition is a graph input [x=bool k, float[2] x]: y = {CHOICE.replace("(c)", "(k)")}
    condition is overridable [x=float[2] x, bool k = {{1}}]: y = {CHOICE.replace("(c)", "(k)")}
    condition is computed [x=bool k, float[2] x]: j = Not(k) y = {CHOICE.replace("(c)", "(j)")}
    condition is computed from a constant, which is for folding: d = Not(c) y = {CHOICE.replace("(c)", "(d)")}
    another op with a constant condition: y = Where(c, x, x)
    condition is an input of a Loop body [x=int64 n, float[2] x]:
        {LOOP.format(branches("r = Neg(v)", "s = Relu(x)", "k"))}
    condition is a captured graph input [x=bool k, float[2] x]:
        y = If (k) <{OTHER.replace("Neg(x)", CHOICE.replace("(c)", "(k)"))}>
""")

test_every_opset = ifs.using(InlineIf()).all_become(
    {
        str(n): (f"y = {branches('r = Neg(x)', 's = Abs(x)')} => y = Neg(x)", {"opset": n, "runs": n >= 7})
        for n in (1, 7, 11, 13, 16, 21)
    }
)


@each(("condition", "left"), [(YES, "Relu"), (NO, "QuickGelu")])
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
