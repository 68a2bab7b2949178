"""Optional values whose content is known."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass, to_onnx
from passwright.passes.structure import sequences
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, run

DROP_OPTIONALS = rule_pass(sequences, "drop-optionals")

RULES = DROP_OPTIONALS.rules

optionals = Rewrites("g ({x}) => (float[] y)", *RULES, opset=18, x="float[n] x")

test_becomes = optionals.all_become("""
    the wrapped value: o = Optional(x) t = OptionalGetElement(o) y = Neg(t) => y = Neg(x)
    from input to output: o = Optional(x) y = OptionalGetElement(o) => y = Identity(x)
    a tensor: t = OptionalGetElement(x) y = Neg(t) => y = Neg(x)
    a sequence [x=float[n] x, int64 i]: s = SequenceConstruct(x, x) t = OptionalGetElement(s) y = SequenceAt(t, i)
        => s = SequenceConstruct(x, x) y = SequenceAt(s, i)
    a sequence that was put in [x=float[n] x, int64 i]:
        s = SequenceConstruct(x, x) o = Optional(s) t = OptionalGetElement(o) y = SequenceAt(t, i)
        => s = SequenceConstruct(x, x) y = SequenceAt(s, i)
    inside an If body, captured [x=bool c, float[n] x]: y = If(c) <then_branch = a () => (float[n] r) { o = Optional(x)
        t = OptionalGetElement(o) r = Neg(t) }, else_branch = b () => (float[n] s) { s = Relu(x) }> =>
        y = If(c) <then_branch = a () => (float[n] r) { r = Neg(x) }, else_branch = b () => (float[n] s) {
        s = Relu(x) }>
""")

test_every_opset = optionals.all_become(
    {
        case: ("o = Optional(x) t = OptionalGetElement(o) y = Neg(t) => y = Neg(x)", settings)
        for case, settings in {"15": {"opset": 15}, "18": {}, "26": {"opset": 26}}.items()
    }
)


@each(
    ("nodes", "expected"),
    {
        "something was put in": ("o = Optional(x) t = OptionalHasElement(o)", True),
        "a tensor": ("t = OptionalHasElement(x)", True),
        "a sequence": ("s = SequenceConstruct(x) t = OptionalHasElement(s)", True),
        "nothing": ("t = OptionalHasElement()", False),
    },
)
def test_optional_has_element_is_folded(nodes: str, expected: bool) -> None:
    text = f"g (float[n] x) => (bool y) {{ {nodes} y = Not(t) }}"
    after = to_onnx(apply_passes(load(text, 18), *RULES)[0])
    assert op_types(after) == ["Not"]
    assert [v.item() for v in initializers(after).values()] == [expected]
    assert run(after, {"x": [1.0]})[0] == (not expected)


test_stays = optionals.using(runs=False).all_stay("""
    given at run time [graph=g (optional(float[n]) o) => (float[] y)]: y = OptionalGetElement(o)
    asked at run time [graph=g (optional(float[n]) o) => (bool[] y)]: y = OptionalHasElement(o)
    the requested element [graph=g (float[n] x) => (optional(float[n]) y)]: y = Optional(x)
    decided at run time [graph=g (bool c, float[n] x) => (bool[] y)]:
        o = If(c) <then_branch = a () => (optional(float[n]) r) { r = Optional(x) },
        else_branch = b () => (optional(float[n]) s) { z = Neg(x) s = Optional(z) }> y = OptionalHasElement(o)
    an Identity is not its business: y = Identity(x)
""")


@given(depth=st.integers(1, 3))
def test_nested_optionals(depth: int) -> None:
    steps = [f"o{i} = Optional(v{i}) v{i + 1} = OptionalGetElement(o{i})" for i in range(depth)]
    before = f"g (float[n] x) => (float[m] y) {{ v0 = Relu(x) {' '.join(steps)} y = Neg(v{depth}) }}"
    becomes(before, "g (float[n] x) => (float[m] y) { v0 = Relu(x) y = Neg(v0) }", *RULES, opset=18)
