"""Reshape merging."""

import onnx
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.movement import reshapes
from passwright.passes.movement.reshapes import merge_reshapes, transpose_to_reshape
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, initializers, load, op_types, require_equivalent, stays, to_onnx

MERGE_RESHAPES = rule_pass(reshapes, "merge-reshapes")
TRANSPOSE_TO_RESHAPE = rule_pass(reshapes, "transpose-to-reshape")


rewrites = Rewrites("g ({x}) => (float[] y)", merge_reshapes, x="float[N,4] x")

test_becomes = rewrites.all_become("""
    reshape of reshape [x=float[2,3,4] x]: u = Reshape(x, [6,4]) y = Reshape(u, [4,3,2]) => y = Reshape(x, t)
    and back [x=float[2,3,4] x]: u = Reshape(x, [6,4]) y = Reshape(u, [2,3,4]) => y = Identity(x)
    and back with an open batch [x=float[N,3,4] x]: u = Reshape(x, [-1,12]) y = Reshape(u, [-1,3,4]) => y = Identity(x)
    and back with copied batch [x=float[N,3,4] x]: u = Reshape(x, [0,12]) y = Reshape(u, [0,3,-1]) => y = Identity(x)
    a copy of the inner extent [x=float[N,6] x]: u = Reshape(x, [-1,4]) y = Reshape(u, [0,2,2]) => y = Reshape(x, t)
    unknown rank [x=float[N,M] x, int64[k] r]: q = Reshape(x, r) u = Reshape(q, [-1]) y = Reshape(u, [-1,1])
        => y = Reshape(x, t)
    inner shape computed [x=float[N,M] x, int64[2] s]: u = Reshape(x, s) y = Reshape(u, [-1,1]) => y = Reshape(x, t)
    unsqueeze of unsqueeze [x=float[N,M] x]: u = Unsqueeze(x, [0]) y = Unsqueeze(u, [-1]) => y = Unsqueeze(x, a)
    squeeze of squeeze [x=float[1,N,M,1] x]: u = Squeeze(x, [0]) y = Squeeze(u, [-1]) => y = Squeeze(x, a)
    squeeze of unsqueeze [x=float[N,M] x]: u = Unsqueeze(x, [1]) y = Squeeze(u, [-2]) => y = Identity(x)
    unsqueeze of squeeze [x=float[N,1,M] x]: u = Squeeze(x, [1]) y = Unsqueeze(u, [-2]) => y = Identity(x)
    unsqueeze of squeeze next to it [x=float[N,1,1,M] x]: u = Squeeze(x, [1]) y = Unsqueeze(u, [2]) => y = Identity(x)
    more taken than given [x=float[N,1,M] x]: u = Unsqueeze(x, [0,2]) y = Squeeze(u, [0,2,3]) => y = Squeeze(x, b)
    less taken than given [x=float[N,M] x]: u = Unsqueeze(x, [0,2]) y = Squeeze(u, [2]) => y = Unsqueeze(x, b)
    a 1 changes places [x=float[N,1,4] x]: u = Squeeze(x, [1]) y = Unsqueeze(u, [2]) => y = Reshape(x, b)
    squeeze without axes [x=float[1,3,1] x]: u = Squeeze(x) y = Unsqueeze(u, [1]) => y = Squeeze(x, b)
    flatten of flatten [x=float[N,M,K] x]: u = Flatten<axis=2>(x) y = Flatten<axis=-1>(u) => y = Flatten<axis=2>(x)
    flatten of all [x=float[N,M,K] x]: u = Flatten<axis=2>(x) y = Flatten<axis=2>(u) => y = Flatten<axis=3>(x)
    flatten of squeeze [x=float[N,M,1,1] x]: u = Squeeze(x, [2,3]) y = Flatten(u) => y = Flatten<axis=1>(x)
    flatten of unsqueeze [x=float[N,M,K] x]: u = Unsqueeze(x, [0]) y = Flatten<axis=2>(u) => y = Flatten<axis=1>(x)
    flatten of reshape [x=float[N,12] x]: u = Reshape(x, [0,3,4]) y = Flatten(u) => y = Identity(x)
    flatten of reshape, with the rest [x=float[N,3,M] x]: u = Reshape(x, [0,3,-1]) y = Flatten(u) => y = Reshape(x, s)
    reshape of flatten [x=float[N,3,4] x]: u = Flatten(x) y = Reshape(u, [-1,6]) => y = Reshape(x, t)
    reshape of flatten, and back [x=float[N,3,M] x]: u = Flatten(x) y = Reshape(u, [0,3,-1]) => y = Identity(x)
    squeeze of reshape [x=float[N,6] x]: u = Reshape(x, [-1,1,3]) y = Squeeze(u, [1]) => y = Reshape(x, b)
    unsqueeze of reshape [x=float[N,6] x]: u = Reshape(x, [-1,3]) y = Unsqueeze(u, [1]) => y = Reshape(x, b)
    a chain of all [x=float[N,3,1,4] x]: u = Squeeze(x, [2]) v = Flatten(u) w = Reshape(v, [-1,2]) y = Unsqueeze(w, [0])
        => y = Reshape(x, s)
    no elements, allowed [x=float[0,3] x]: u = Reshape<allowzero=1>(x, [3,0]) y = Reshape(u, [-1]) => y = Reshape(x, t)
    no elements, copied no more [x=float[0,6,2] x]: u = Reshape(x, [3,2,-1]) y = Reshape<allowzero=1>(u, [0,0,3])
        => y = Reshape<allowzero=1>(x, t)
    strings [graph=g (string[2,3] x) => (string[] y)]: u = Reshape(x, [6]) y = Reshape(u, [3,2]) => y = Reshape(x, t)
    to a scalar [x=float[1,1] x]: u = Squeeze(x, [0]) y = Squeeze(u, [0]) => y = Squeeze(x, a)
    shared inner value [x=float[2,6] x]: u = Reshape(x, [3,4]) r = Relu(u) v = Reshape(u, [4,3]) p = Reshape(v, [-1])
        q = Reshape(r, [-1]) y = Add(p, q)
        => u = Reshape(x, s) r = Relu(u) p = Reshape(x, t) q = Reshape(r, f) y = Add(p, q)
""")


def test_behind_an_operator_of_unknown_type() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[N,8] x) => (float[N,1,8] y)
    <int64[2] s = {-1,8}, int64[3] t = {0,1,8}> {
        q = com.microsoft.QuickGelu(x) u = Reshape(q, s) y = Reshape(u, t) }"""
    model = onnx.parser.parse_model(text)
    result, _ = apply_passes(model, merge_reshapes)
    assert op_types(to_onnx(result)) == ["QuickGelu", "Reshape"]
    require_equivalent(model, to_onnx(result), exact=True)


@each(
    ("given_", "constants", "before"),
    [
        ("float[N,6] x", "int64[2] s = {-1,4}", "y = Reshape(x, s)"),
        ("float[N,M] x", "int64[2] s = {-1,4}", "r = Relu(x) u = Reshape(r, s) y = Relu(u)"),
        ("float[N,M] x, int64[2] t", "int64[1] s = {-1}", "u = Reshape(x, s) y = Reshape(u, t)"),
        ("float[] x", "int64[2] s = {4,-1}, int64[3] t = {0,-1,2}", "u = Flatten(x) y = Reshape(u, t)"),
        ("float[1,N,M] x", "int64[1] a = {0}, int64[1] b = {2}", "u = Squeeze(x, a) y = Unsqueeze(u, b)"),
        ("float[N,M] x", "int64[1] b = {0}", "u = Squeeze(x) y = Unsqueeze(u, b)"),
        ("float[N,M,K] x", "int64[1] b = {0}", "u = Flatten(x) y = Unsqueeze(u, b)"),
        ("float[] x", "int64[1] b = {0}", "u = Unsqueeze(x, b) v = Relu(u) y = Squeeze(v, b)"),
        ("float[] x", "int64[1] b = {0}", "u = Unsqueeze(x, b) y = Squeeze(u, b)"),
        ("float[] x", "int64[2] s = {0,0}, int64[3] t = {0,1,0}", "u = Reshape(x, s) y = Reshape(u, t)"),
        ("float[N,2,3] x", "int64[2] s = {-1,2}, int64[3] t = {0,-1,3}", "u = Flatten(x) y = Expand(u, s)"),
    ],
)
def test_stays(given_: str, constants: str, before: str) -> None:
    stays(f"g ({given_}) => (float[] y) <{constants}> {{ {before} }}", merge_reshapes, runs=False)


@each(
    ("opset", "rank", "before", "after"),
    [
        (4, 2, "u = Reshape<shape=[6]>(x) y = Reshape<shape=[3,-1]>(u)", "y = Reshape<shape=[3,2]>(x)"),
        (7, 4, "u = Unsqueeze<axes=[0]>(x) y = Unsqueeze<axes=[0]>(u)", "y = Unsqueeze<axes=[0,1]>(x)"),
        (12, 2, "u = Unsqueeze<axes=[0]>(x) y = Squeeze<axes=[0]>(u)", "y = Identity(x)"),
        (13, 2, "u = Unsqueeze(x, a) y = Squeeze(u, a)", "y = Identity(x)"),
        (25, 2, "u = Unsqueeze(x, a) y = Squeeze(u, a)", "y = Identity(x)"),
        (25, 4, "u = Unsqueeze(x, a) y = Unsqueeze(u, a)", "y = Unsqueeze(x, a)"),
    ],
)
def test_every_opset(opset: int, rank: int, before: str, after: str) -> None:
    g = f"g (float[2,3] x) => (float[{','.join('abcd'[:rank])}] y)" + (" <int64[1] a = {0}>" if "a)" in before else "")
    becomes(f"{g} {{ {before} }}", f"{g} {{ {after} }}", merge_reshapes, opset=opset, runs=opset >= 7)


@each(
    ("shape", "perm", "after"),
    [
        ("N,4,1,1", "0,2,3,1", [0, 1, 1, 4]),
        ("1,N,4", "1,0,2", [-1, 1, 4]),
        ("2,1,3", "1,0,2", [1, 2, 3]),
        ("N,M,1,4", "0,1,3,2", [0, 0, 4, 1]),
        ("N,1,4", "0,2,1", [0, 4, 1]),
        ("0,1", "1,0", [1, -1]),
        ("N,1,M", "1,0,2", None),
        ("N,4", "1,0", None),
        ("N,1,4", "2,1,0", None),
        ("", "0,2,1", None),
        ("1,4", "", [4, 1]),
        ("1,1", "1,0", []),
    ],
)
def test_transpose_of_ones(shape: str, perm: str, after: list[int] | None) -> None:
    dims = shape.split(",")
    attribute = f"<perm=[{perm}]>" if perm else ""
    g = f"g (float[{shape}] x) => (float[{','.join('abcd'[: len(dims)])}] y)"
    text = f"{g} {{ r = Relu(x) t = Transpose{attribute}(r) y = Neg(t) }}"
    if after is None:
        stays(text, transpose_to_reshape, runs=len(dims) > 1)
        return
    if not after:
        becomes(text, f"{g} {{ r = Relu(x) y = Neg(r) }}", transpose_to_reshape)
        return
    new = f"{g} <int64[1] s = {{0}}> {{ r = Relu(x) t = Reshape(r, s) y = Neg(t) }}"
    model = becomes(text, new, transpose_to_reshape)
    assert [list(a) for a in initializers(model).values()] == [after]


test_becomes_reshape_and_transpose_of_unit_axes_cancel = rewrites.using(
    transpose_to_reshape, merge_reshapes
).all_become("""
    reshape and transpose of unit axes cancel:
        u = Reshape(x, [0,1,4]) v = Transpose<perm=[0,2,1]>(u) w = Reshape(v, [0,4]) y = Neg(w) => y = Neg(x)
""")

test_becomes_inner_value_is_a_graph_output = rewrites.all_become("""
    inner value is a graph output [graph=g (float[2,6] x) => (float[a,b] u, float[] y)]:
        u = Reshape(x, [3,4]) y = Reshape(u, [-1]) => u = Reshape(x, s) y = Reshape(x, t)
    inside an if body [x=bool c, float[2,3] x]: y = If(c) <then_branch = p () => (float[n,m] r) { u = Unsqueeze(x, [0])
        v = Squeeze(u, [0]) r = Neg(v) }, else_branch = q () => (float[n,m] s) { s = Relu(x) }> =>
        y = If(c) <then_branch = p () => (float[n,m] r) { r = Neg(x) }, else_branch = q () => (float[n,m] s) {
        s = Relu(x) }>
""")

test_stays_an_overridable_shape_is_no_constant = rewrites.using(runs=False).all_stay("""
    an overridable shape is no constant [x=float[2,3] x, int64[1] t = {0}]:
        u = Flatten(x) y = Unsqueeze(u, t) z = Unsqueeze(y, t)
""")


def test_passes() -> None:
    assert MERGE_RESHAPES.rules == (merge_reshapes,)
    assert TRANSPOSE_TO_RESHAPE.rules == (transpose_to_reshape,)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("Unsqueeze"), st.integers(-3, 2)),
        st.tuples(st.just("Squeeze"), st.integers(-2, 1)),
        st.tuples(st.just("Flatten"), st.integers(0, 2)),
        st.tuples(
            st.just("Reshape"), st.sampled_from([(-1,), (0, -1), (2, -1), (-1, 6), (1, 0, -1), (12, 1), (2, 2, 3)])
        ),
    ),
    min_size=2,
    max_size=4,
)


@given(steps=STEPS, open_batch=st.booleans())
def test_any_chain_becomes_at_most_one(steps: list[tuple[str, object]], *, open_batch: bool) -> None:
    lines, constants = ["v0 = Neg(x)"], []
    for i, (kind, arg) in enumerate(steps):
        if kind == "Flatten":
            lines.append(f"v{i + 1} = Flatten<axis={arg}>(v{i})")
            continue
        data = list(arg) if isinstance(arg, tuple) else [arg]
        constants.append(f"int64[{len(data)}] c{i} = {{{','.join(map(str, data))}}}")
        lines.append(f"v{i + 1} = {kind}(v{i}, c{i})")
    shape = "N,1,6" if open_batch else "2,1,6"
    head = f"g (float[{shape}] x) => (float[] y)" + (f" <{', '.join(constants)}>" if constants else "")
    text = f"{head} {{ {' '.join(lines)} y = Abs(v{len(steps)}) }}"
    check(text, 2 if not open_batch else None, **({"N": 2} if open_batch else {}))


def check(text: str, most: int | None, **fixed: int) -> None:
    import numpy as np
    from passwright.core.errors import EvaluationError
    from rewriting import run

    model = load(text)
    x = np.arange(12, dtype=np.float32).reshape(2, 1, 6)
    try:
        want = run(model, {"x": x})
    except EvaluationError:
        return  # the chain itself is invalid
    out = to_onnx(apply_passes(model, merge_reshapes)[0])
    np.testing.assert_array_equal(run(out, {"x": x})[0], want[0])
    if most is not None:
        assert len(out.graph.node) <= most + 1
