"""Roles of inputs: every kind of input set runs, and both sides of a decision are reached."""

from typing import Any

import numpy as np
from passwright.core import from_onnx
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.input_generation import distinct_kinds, generate_input_sets
from passwright.core.verify.input_specs import control_values, input_role, input_specs
from passwright.core.verify.transitive_uses import is_selection_only
from rewriting import each, load, oracle_of

BRANCHES = "<then_branch = t () => (float[2] a) { a = Exp(x) }, else_branch = e () => (float[2] b) { b = Sub(x, x) }>"
NESTED = (
    "<then_branch = t () => (float[2] a) { a = If(d) <then_branch = p () => (float[2] f) { f = Exp(x) }, "
    "else_branch = q () => (float[2] h) { h = Sub(x, x) }> }, else_branch = e () => (float[2] b) { b = Sub(x, x) }>"
)
COUNT = "<body = l (int64 j, bool c, float[2] s) => (bool d, float[2] e) { d = Identity(c) e = Add(s, o) }>"
ONE = {"o": np.ones(2, np.float32)}


@each(
    ("inputs", "body"),
    {
        "bool": ("bool c", f"y = If(c) {BRANCHES}"),
        "Not": ("bool c", f"n = Not(c) y = If(n) {BRANCHES}"),
        "And": ("bool c, bool d", f"n = And(c, d) y = If(n) {BRANCHES}"),
        "Xor": ("bool c, bool d", f"n = Xor(c, d) y = If(n) {BRANCHES}"),
        "If in a branch": ("bool c, bool d", f"y = If(c) {NESTED}"),
        "integer": ("int64 i", f"c = Cast<to=9>(i) y = If(c) {BRANCHES}"),
        "integer of rank 1": ("int64[1] i", f"c = Cast<to=9>(i) n = Squeeze(c) y = If(n) {BRANCHES}"),
        "integer equal to a number": ("int64 i", f"k = Constant<value_int=37>() c = Equal(i, k) y = If(c) {BRANCHES}"),
        "integer above a number": (
            "int32 i",
            f"k = Constant<value = int32 {{5000}}>() c = Less(k, i) y = If(c) {BRANCHES}",
        ),
        "a mean": (
            "float[3] z",
            f"k = Constant<value_float=77.0>() m = ReduceMean<keepdims=0>(z) c = Greater(m, k) y = If(c) {BRANCHES}",
        ),
    },
)
def test_both_branches_are_taken(inputs: str, body: str) -> None:
    oracle = oracle_of(load(f"g (float[2] x, {inputs}) => (y) {{ {body} }}", 17))
    kept = [a.outputs["y"].any() for a in oracle.runs if a.input_set.is_finite]
    assert {bool(k) for k in kept} == {True, False}
    assert oracle.notes == []


@each(
    "text",
    {
        "trip count": f"g (int64 n, float[2] x) => (y) <bool t = {{1}}> {{ y = Loop(n, t, x) {COUNT} }}",
        "first condition": f"g (bool t, float[2] x) => (y) <int64 n = {{3}}> {{ y = Loop(n, t, x) {COUNT} }}",
        "carried condition": (
            "g (float[2] x, bool t) => (y) <int64 n = {3}, bool g = {1}> { y, u = Loop(n, g, x, t) <body = l"
            " (int64 j, bool c, float[2] s, bool w) => (bool w, float[2] e, bool v) { e = Add(s, o) v = Identity(w) }>"
            " }"
        ),
    },
)
def test_loops_have_different_trip_counts(text: str) -> None:
    oracle = oracle_of(load(text, 17, ONE))
    trips = {
        round(float((a.outputs["y"] - a.input_set.feeds["x"])[0]))
        for a in oracle.runs
        if a.input_set.kind in MODERATE_KINDS
    }
    assert len(trips) >= 2
    assert max(trips) <= 6


MODERATE_KINDS = {"normal", "negative", "zeros"}


RUNS = {
    "TopK": ("g (float[3,7] x, int64[1] k) => (y, z) { y, z = TopK(x, k) }", "k", {1, 7}),
    "TopK, axis": ("g (float[3,7] x, int64[1] k) => (y, z) { y, z = TopK<axis=0>(x, k) }", "k", {1, 3}),
    "Gather": ("g (float[5,2] x, int64[2] i) => (y) { y = Gather(x, i) }", "i", {-5, 0, 4}),
    "GatherND": ("g (float[4,4] x, int64[9,2] i) => (y) { y = GatherND(x, i) }", "i", {-4, 0, 3}),
    **{
        f"RoiAlign, {role}": (
            (
                "g (float[3,1,4,4] x, float[2,4] r, int64[2] i) => (y)"
                " { y = RoiAlign<output_height=2,output_width=2>(x, r, i) }"
            ),
            name,
            want,
        )
        for name, want, role in (("i", {0, 1, 2}, "index"), ("r", {-5, 0, 5}, "regions that are sampled in few steps"))
    },
    "Gather of Trilu": ("g (float[5,2] x, int64[2,2] i) => (y) { j = Trilu(i) y = Gather(x, j) }", "i", {-5, 0, 4}),
    "Scatter": ("g (float[6] x, int64[2] i, float[2] u) => (y) { y = ScatterElements(x, i, u) }", "i", {-6, 5}),
    "ScatterND": ("g (float[4] x, int64[2,1] i, float[2] u) => (y) { y = ScatterND(x, i, u) }", "i", {-4, 3}),
    "OneHot of any depth": ("g (int64[3] i, int64 d, float[2] v) => (y) { y = OneHot(i, d, v) }", "d", {1, 2}),
    "ReduceSum": ("g (float[2,3,4] x, int64[1] a) => (y) { y = ReduceSum(x, a) }", "a", {-3, 0, 2}),
    "two axes": ("g (float[2,3,4] x, int64[2] a) => (y) { y = ReduceSum(x, a) }", "a", {-3, 0, 2}),
    "Unsqueeze": ("g (float[2,3] x, int64[2] a) => (y) { y = Unsqueeze(x, a) }", "a", {-4, 3}),
    "Squeeze": ("g (float[2,1,3,1] x, int64[1] a) => (y) { y = Squeeze(x, a) }", "a", {1, 3}),
    "CumSum": ("g (float[2,3] x, int64 a) => (y) { y = CumSum(x, a) }", "a", {0, 1}),
    "Reshape": ("g (float[4,6] x, int64[2] s) => (y) { y = Reshape(x, s) }", "s", {-1, 24}),
    "Reshape, longer": ("g (float[4,6] x, int64[3] s) => (y) { y = Reshape(x, s) }", "s", {-1, 24}),
    "Expand": ("g (float[4,1] x, int64[2] s) => (y) { y = Expand(x, s) }", "s", {1, 4}),
    "Expand, longer": ("g (float[4,1] x, int64[3] s) => (y) { y = Expand(x, s) }", "s", {1, 4}),
    "ConstantOfShape": ("g (int64[2] s) => (y) { y = ConstantOfShape(s) }", "s", {1, 2}),
    "Tile": ("g (float[2,3] x, int64[2] r) => (y) { y = Tile(x, r) }", "r", {1, 2}),
    "Split": ("g (float[7,2] x, int64[2] s) => (y, z) { y, z = Split(x, s) }", "s", {0, 7}),
    "symbolic Split": ("g (float[N,2] x, int64[2] s) => (y, z) { y, z = Split(x, s) }", "s", {0, 1}),
    "Pad": ("g (float[2,3] x, int64[4] p) => (y) { y = Pad(x, p) }", "p", {0, 2}),
    "Range": ("g (int64 a, int64 b, int64 s) => (y) { y = Range(a, b, s) }", "s", {-1, 1, 2}),
    "Range of floats": ("g (float a, float b, float s) => (y) { y = Range(a, b, s) }", "s", {-1, 1, 2}),
    "Slice, start": ("g (float[9] x, int64[1] a, int64[1] b) => (y) { y = Slice(x, a, b) }", "a", {-2, 0, 1}),
    "Slice, step": (
        "g (float[9] x, int64[1] a, int64[1] b, int64[1] c, int64[1] d) => (y) { y = Slice(x, a, b, c, d) }",
        "d",
        {-1, 1},
    ),
    "Resize, sizes": ("g (float[1,1,4,4] x, int64[4] s) => (y) { y = Resize(x, , , s) }", "s", {1, 2}),
    "Resize, scales": ("g (float[1,1,4,4] x, float[4] s) => (y) { y = Resize(x, , s) }", "s", {1, 2}),
    "Div": ("g (int64[9] x, int64[9] d) => (y) { y = Div(x, d) }", "d", {-10, 1, 10}),
    "Mod": ("g (int32[9] x, int32 d) => (y) { y = Mod(x, d) }", "d", {1}),
    "unsigned Div": ("g (uint8[9] x, uint8[9] d) => (y) { y = Div(x, d) }", "d", {1, 10}),
    "ReverseSequence": ("g (float[5,2,3] x, int64[2] n) => (y) { y = ReverseSequence(x, n) }", "n", {1, 5}),
    "float index": ("g (float[3,5] x, float[3] f) => (y) { i = Cast<to=7>(f) y = Gather(x, i) }", "f", {-3, 0, 2}),
    "read in a branch": (
        (
            "g (float[4,2] x, int64[3] i, bool c) => (y) { y = If(c) <then_branch = t () => (float[3,2] a)"
            " { a = Gather(x, i) }, else_branch = e () => (float[2,2] b) { b = Gather(x, k) }> }"
        ),
        "i",
        {-4, 0, 3},
    ),
    "read in a Loop": (
        (
            "g (float[4] x, int64 i) => (y) { y, u = Loop(n, t, i, x) <body = l (int64 j, bool c, int64 p, float[4] s)"
            " => (bool d, int64 q, float[4] e) { d = Identity(c) q = Identity(p) h = Gather(s, p) e = Add(s, h) }> }"
        ),
        "i",
        {-4, 0, 3},
    ),
    "read in a Scan": (
        (
            "g (float[4] x, int64[3] i) => (y) { y = Scan<num_scan_inputs=1, body = s (int64 p) => (float h)"
            " { h = Gather(x, p) }>(i) }"
        ),
        "i",
        {-4, 0, 3},
    ),
}
WEIGHTS = {"k": np.array([0, 1]), "n": np.int64(2), "t": np.bool_(True)}


def missing_weights(text: str) -> dict[str, Any]:
    own = text.partition("=>")[0]
    return {k: v for k, v in WEIGHTS.items() if f" {k}," not in own and f" {k})" not in own}


@each(("text", "name", "want"), RUNS)
def test_first_input_sets_run_and_reach_range(text: str, name: str, want: set[int]) -> None:
    model = load(text, 17, missing_weights(text))
    oracle = oracle_of(model)
    assert oracle.notes == [n for n in oracle.notes if "=" in n]  # notes on sizes only
    reached = {int(v) for a in oracle.runs if a.input_set.is_finite for v in np.asarray(a.input_set.feeds[name]).flat}
    assert want <= reached
    assert oracle.check(model.SerializeToString(), ComparisonOptions(exact=True)).exact


@each("op", ["Div", "Mod"])
@each("dtype", ["int8", "int32", "int64", "uint8"])
def test_divisions_do_not_trap(op: str, dtype: str) -> None:
    inputs = input_specs(from_onnx(load(f"g ({dtype}[99] x, {dtype}[99] d) => (y) {{ n = Neg(x) y = {op}(n, d) }}")))
    for kind in distinct_kinds(inputs, are_large=False):
        for input_set in generate_input_sets(inputs, kind, {}, (0,)):
            assert input_set.feeds["d"].all()
            assert kind != "extremes"
            assert (input_set.feeds["x"] != np.iinfo(input_set.feeds["x"].dtype).min).all() or dtype == "uint8"


LOOP = (
    "g (float[1] x) => (y) <int64 n = {9}, bool t = {1}, float[1] k = {50}> { y = Loop(n, t, x) <body = l"
    " (int64 j, bool c, float[1] s) => (bool d, float[1] e) { e = Add(s, k) l = %s(e) d = Cast<to=9>(l) }> }"
)


@each(
    ("text", "want"),
    {
        "none": ("g (int64[2] x) => (y) { y = Neg(x) }", False),
        "computed shape": ("g (int64[2] x) => (y) { a = Mul(x, x) y = ConstantOfShape(a) }", True),
        "only its shape": ("g (float[2] x) => (y) { a = Shape(x) y = ConstantOfShape(a) }", False),
        "divided": ("g (int64[2] x) => (y) { a = Add(x, x) y = Div(a, a) }", True),
        "floats divided": ("g (float[2] x) => (y) { a = Add(x, x) y = Div(a, a) }", False),
        "a Range, cast": ("g (float x) => (y) { a = Cast<to=7>(x) y = Range(a, a, a) }", True),
        "the condition of a Loop": (LOOP % "Neg", True),
        "the shape of a MaxUnpool": (
            "g (int64[4] s, float[1,1,2,2] x, int64[1,1,2,2] i) => (y) { y = MaxUnpool<kernel_shape=[2,2]>(x, i, s) }",
            True,
        ),
        "EyeLike": ("g (float[2,2] x) => (y) { a = EyeLike<dtype=7>(x) y = Tile(x, a) }", False),
        "shifted": ('g (int64[2] x) => (y) { a = BitShift<direction="LEFT">(x, x) y = Div(a, a) }', True),
    },
)
def test_control_values(text: str, want: bool) -> None:
    graph = from_onnx(load(text)).graph
    assert (graph.inputs[0] in control_values(graph)) == want


@each(
    ("body", "want"),
    {
        "Relu": ("y = Relu(x)", True),
        "transposed and selected": ("a = Transpose(x) y = Max(a, a)", True),
        "Trilu and threshold": ("a = Trilu(x) y = ThresholdedRelu(a)", True),
        "compared, and combined": ("a = Greater(x, x) b = Not(a) y = And(a, b)", True),
        "Hardmax": ("y = Hardmax(x)", True),
        "normalized": ("a = Relu(x) y = Softmax(a)", False),
        "added": ("y = Add(x, x)", False),
        "multiplied later": ("a = Neg(x) y = MatMul(a, a)", False),
        "only its shape is used": ("a = Shape(x) y = Mul(a, a)", True),
        "only its comparison is used": ("a = Greater(x, x) b = Cast<to=1>(a) y = Exp(b)", True),
    },
)
def test_selection_only_inputs(body: str, want: bool) -> None:
    assert is_selection_only(from_onnx(load(f"g (float[2,2] x) => (y) {{ {body} }}")).graph.inputs[0]) == want


@each(
    ("body", "opset", "signed"),
    [("y = Gather(x, i)", 10, False), ("y = Gather(x, i)", 11, True), ("y = Gather(x, i)", 17, True)],
)
def test_negative_indices_since_opset_11(body: str, opset: int, signed: bool) -> None:
    graph = from_onnx(load(f"g (float[3,2] x, int64[2] i) => (y) {{ {body} }}", opset)).graph
    found = input_role(graph.inputs[1])
    assert (found.kind, found.bound, found.signed) == ("index", 3, signed)


def test_narrower_of_two_roles() -> None:
    text = "g (float[3,2] x, int64[2] i) => (y, z) { y = Gather(x, i) z = ConstantOfShape(i) }"
    assert input_role(from_onnx(load(text)).graph.inputs[1]).kind == "index"


@each(
    ("dims", "body", "target", "want"),
    {
        "its own dims": ("N,M", "y = Reshape(x, k)", [7, 8], {0: 7, 1: 8}),
        "one dim for all": ("N", "y = Reshape(x, k)", [7, 8], {0: 56}),
        "beside a known dim": ("N,8", "y = Reshape(x, k)", [8, 7], {0: 7}),
        "equal dims": ("3,H,W", "y = Reshape(x, k)", [588], {1: 14, 2: 14}),
        "no equal dims": ("N,M", "y = Reshape(x, k)", [56], {0: 1, 1: 56}),
        "copied dims": ("B,S,D", "y = Reshape(x, k)", [0, 0, 4, 77], {2: 308}),
        "behind other ops": ("N,M", "a = Relu(x) b = Transpose(a) y = Reshape(b, k)", [7, 8], {1: 7, 0: 8}),
        "no such dim": ("N,3", "y = Reshape(x, k)", [7, 8], {}),
        "any number of elements": ("N,M", "y = Reshape(x, k)", [-1, 8], {}),
    },
)
def test_dims_before_a_constant_shape(dims: str, body: str, target: list[int], want: dict[int, int]) -> None:
    model = from_onnx(load(f"g (float[{dims}] x) => (y) {{ {body} }}", weights={"k": np.array(target)}))
    assert input_specs(model)[0].required_extents == want


@each(
    ("body", "want"),
    {
        "the sequence of a network": ("u = Unsqueeze(x, one) y, h = RNN<hidden_size=4>(u, w, r)", {1: 6}),
        "counted from the end": ("u = Unsqueeze(x, end) y, h = RNN<hidden_size=4>(u, w, r)", {1: 6}),
        "not the new dim": ("u = Unsqueeze(x, end) y = MatMul(u, a)", {1: 4}),
        "two new dims, then turned": ("u = Unsqueeze(x, two) t = Transpose<perm=[0,3,1,2]>(u) y = Conv(t, k)", {1: 6}),
        "unknown new dims": ("u = Unsqueeze(x, n) y, h = RNN<hidden_size=4>(u, w, r)", {}),
    },
)
def test_extents_are_required_behind_new_dims(body: str, want: dict[int, int]) -> None:
    weights = {
        "w": np.zeros((1, 4, 6), np.float32),
        "r": np.zeros((1, 4, 4), np.float32),
        "a": np.zeros((4, 2), np.float32),
        "k": np.zeros((3, 6, 1, 1), np.float32),
        **{name: np.array(axes, np.int64) for name, axes in {"one": [1], "end": [-2], "two": [0, 1]}.items()},
    }
    model = from_onnx(load(f"g (float[T,F] x, int64[1] n) => (y) {{ {body} }}", 17, weights))
    assert input_specs(model)[0].required_extents == want


def test_sizes_are_those_of_a_constant_shape() -> None:
    model = load("g (float[N,M] x) => (float[P,Q] y) { y = Reshape(x, k) }", weights={"k": np.array([7, 8])})
    assert {(s["N"], s["M"]) for s in (r.input_set.sizes for r in oracle_of(model).runs)} == {(7, 8)}


@each(("one", "low", "role"), [(1, -3.4e38, "mask"), (1, -1e4, "mask"), (2, -1e4, "free"), (1, -2, "free")])
def test_complement_of_a_mask(one: float, low: float, role: str) -> None:
    numbers = {"one": np.float32(one), "low": np.float32(low)}
    text = "g (int64[2,3] m) => (float[2,1,3] y) <int64[1] axis = {1}>"
    body = "u = Unsqueeze(m, axis) f = Cast<to=1>(u) s = Sub(one, f) y = Mul(s, low)"
    graph = from_onnx(load(f"{text} {{ {body} }}", 17, numbers)).graph
    assert input_role(graph.inputs[0]).kind == role
