"""Generated inputs: kinds of numbers, sizes of symbols, ranges of integers."""

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto, helper
from passwright.core import from_onnx
from passwright.core.errors import ModelError, UnverifiableError
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.dim_expressions import dim_symbols, extent
from passwright.core.verify.input_generation import KINDS, distinct_kinds, generate_input_sets
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.input_specs import InputSpec, free_symbols, input_specs
from passwright.core.verify.size_assignments import MAX_ELEMENTS, element_count, size_assignments, with_ones
from rewriting import each, load, oracle_of

Feeds = dict[str, Any]


def inputs_of(text: str, opset: int = 17) -> list[InputSpec]:
    return input_specs(from_onnx(load(text, opset)))


def model_of(op_type: str, *ends: ValueInfoProto, opset: int = 17, **attributes: Any) -> ModelProto:
    """A model of one op, for types and shapes that the text form lacks; the output comes last."""
    *inputs, output = ends
    node = helper.make_node(op_type, [i.name for i in inputs], [output.name], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def first_plan(inputs: list[InputSpec], **fixed: int) -> dict[str, int]:
    return next(size_assignments(inputs, fixed))


def first_input_set(text: str, kind: str = "normal", seed: int = 0, **fixed: int) -> InputSet:
    """The first input set of a kind, at the first sizes tried."""
    inputs = inputs_of(text)
    return next(generate_input_sets(inputs, kind, first_plan(inputs, **fixed), (seed, 0)))


MAX = np.finfo(np.float32).max
BIG = "g (float[100,100] x) => (float[100,100] y) { y = Relu(x) }"


@each(
    ("kind", "holds"),
    {
        "normal": ("normal", lambda x: abs(x.mean()) < 0.1 and 0.9 < x.std() < 1.1),
        "shifted below zero": ("negative", lambda x: -3.1 < x.mean() < -2.9 and (x < 0).mean() > 0.99),
        "zeros": ("zeros", lambda x: not x.any()),
        "limits of the type among normal numbers": (
            "extremes",
            lambda x: {MAX, -MAX, MAX / 2, np.float32(1.1754944e-38)} <= set(x.flat) and (abs(x) < 5).mean() > 0.8,
        ),
        "some NaN, none in the first half": (
            "nan",
            lambda x: 0 < np.isnan(x).sum() < x.size / 4 and np.isfinite(x[:50]).all(),
        ),
        "infinities of both signs": (
            "inf",
            lambda x: (
                np.isposinf(x).any() and np.isneginf(x).any() and np.isfinite(x[:50]).all() and not np.isnan(x).any()
            ),
        ),
        "larger deviation": ("wide", lambda x: (x[:50] > 0).all() and 2.8 < x[50:].std() < 3.2),
    },
)
def test_kinds_of_floats(kind: str, holds: Any) -> None:
    assert holds(first_input_set(BIG, kind).feeds["x"])


def test_every_kind_is_tested() -> None:
    tested = {"normal", "negative", "wide", "zeros", "extremes", "nan", "inf"}
    assert {*KINDS} - tested == {"boundaries", "mixed"}  # see test_decision_boundaries.py, and below


DTYPES = (
    "float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip


@each("dtype", DTYPES)
def test_inputs_have_declared_types(dtype: str) -> None:
    wanted = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(dtype.upper()))
    for kind in KINDS:
        x = first_input_set(f"g ({dtype}[50] x) => ({dtype}[50] y) {{ y = Identity(x) }}", kind).feeds["x"]
        assert (x.dtype, x.shape) == (wanted, (50,)), kind
        if dtype.startswith("float") or dtype == "double":
            assert np.isfinite(x).all() == (kind not in {"nan", "inf"}), kind
            assert np.isfinite(x[:25]).all(), kind


@each("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT4E2M1", "INT4", "UINT4", "COMPLEX64"])
def test_types_unknown_to_numpy(name: str) -> None:
    code = TensorProto.DataType.Value(name)
    info, out = (helper.make_tensor_value_info(v, code, [20]) for v in "xy")
    inputs = input_specs(from_onnx(model_of("Identity", info, out, opset=21)))
    for kind in KINDS:
        x = next(generate_input_sets(inputs, kind, {}, (0,))).feeds["x"]
        assert x.dtype == helper.tensor_dtype_to_np_dtype(code), kind
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.complex128)
        assert (wide == 0).all() is np.bool_(kind == "zeros"), kind
        assert np.isfinite(wide[:10]).all(), kind
        assert np.isfinite(wide).all() or kind in {"nan", "inf"}, kind


def test_bools_of_each_kind() -> None:
    seen = {
        k: set(first_input_set("g (bool[64] x) => (bool[64] y) { y = Not(x) }", k).feeds["x"].tolist()) for k in KINDS
    }
    assert seen["normal"] == {True, False}
    assert seen["zeros"] == {False}
    assert seen["negative"] == {True}


def test_seed_determines_inputs() -> None:
    one, again, other = (first_input_set(BIG, seed=s).feeds["x"] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).mean() > 0.99


def test_inputs_of_one_set_differ() -> None:
    feeds = first_input_set("g (float[64] a, float[64] b) => (float[64] y) { y = Add(a, b) }").feeds
    assert (feeds["a"] != feeds["b"]).all()


def test_only_two_kinds_are_not_finite() -> None:
    assert {kind for kind in KINDS if not InputSet(kind).is_finite} == {"nan", "inf"}


@each(
    ("head", "want"),
    {
        "floats": ("float[8] x", {*KINDS} - {"boundaries"}),
        "integers": ("int32[8] x", {"normal", "negative", "mixed", "zeros", "extremes"}),
        "bools": ("bool[8] x", {"normal", "negative", "wide", "mixed", "zeros"}),
        "strings": ("string[8] x", {"normal", "negative"}),
        "floats and bools": ("float[8] x, bool[8] c", {*KINDS} - {"boundaries"}),
    },
)
def test_redundant_kinds_are_omitted(head: str, want: set[str]) -> None:
    inputs = inputs_of(f"g ({head}) => (y) {{ y = Identity(x) }}")
    assert set(distinct_kinds(inputs, are_large=False)) == want


@each("count", [1, 2])
def test_single_bools_take_all_combinations(count: int) -> None:
    head = ", ".join(f"bool[1] x{n}" for n in range(count))
    inputs = inputs_of(f"g ({head}) => (y) {{ y = Not(x0) }}")
    chosen = distinct_kinds(inputs, are_large=False)
    combinations = {
        tuple(bool(v) for v in next(generate_input_sets(inputs, k, {}, (0,))).feeds.values()) for k in chosen
    }
    assert len(combinations) == 2**count


@each(
    ("dtype", "lowest", "highest"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)],
)
def test_extremes_of_integer_types(dtype: str, lowest: int, highest: int) -> None:
    x = first_input_set(f"g ({dtype}[64] x) => ({dtype}[64] y) {{ y = Identity(x) }}", "extremes").feeds["x"]
    assert {highest, highest - 1, lowest + 1} <= set(x.tolist())
    assert (lowest in x.tolist()) or lowest == 0


def test_extremes_avoid_overflow_in_arithmetic() -> None:
    for body, top in (("y = Neg(x)", MAX), ("a = Neg(x) b = Max(a, x) y = Mul(b, b)", MAX**0.25)):
        x = first_input_set(f"g (float[64] x) => (y) {{ {body} }}", "extremes").feeds["x"]
        assert abs(x).max() == np.float32(top)


def test_single_element_is_nan() -> None:
    assert np.isnan(first_input_set("g (float[1] x) => (y) { y = Neg(x) }", "nan").feeds["x"]).all()
    two = first_input_set("g (float[2] x) => (y) { y = Neg(x) }", "nan").feeds["x"]
    assert np.isnan(two).tolist() == [False, True]


def test_equal_input_sets_are_recognized() -> None:
    a, b = (first_input_set("g (int64[3] x) => (y) { y = Neg(x) }", k) for k in ("zeros", "normal"))
    again = InputSet("other", a.sizes, {"x": a.feeds["x"].copy()})
    assert a.content() == again.content()
    assert a.content() != b.content()
    positive, negative = (InputSet("zeros", {}, {"x": np.array([zero, 1])}) for zero in (0.0, -0.0))
    assert positive.content() != negative.content()


def shapes_at(inputs: list[InputSpec], sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    return {i.name: tuple(extent(d, sizes) for d in i.shape) for i in inputs}


def declared(*shapes: tuple[int | str | None, ...]) -> list[InputSpec]:
    """Float inputs `x0`, `x1`, ... of the given shapes; the text form has no unnamed dims and no sums."""
    infos = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, shape) for n, shape in enumerate(shapes)]
    nodes = [helper.make_node("Identity", [i.name], [f"y_{i.name}"]) for i in infos]
    outs = [helper.make_tensor_value_info(n.output[0], TensorProto.FLOAT, None) for n in nodes]
    graph = helper.make_graph(nodes, "g", infos, outs)
    return input_specs(from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)))


@each(
    ("shapes", "want"),
    {
        "equal names, equal sizes": ([("N", "C", 3), ("N", "T")], [(2, 3, 3), (2, 4)]),
        "fixed": ([(2, 3)], [(2, 3)]),
        "scalar": ([()], [()]),
        "unnamed first dims are one batch": ([(None, None), (None, 4)], [(2, 3), (2, 4)]),
        "so are those that tf2onnx numbers": ([("unk__7", "unk__8"), ("unk__9", 4)], [(2, 3), (2, 4)]),
        "and those that torch numbers": ([("a_dynamic_axes_1", 4), ("b_dynamic_axes_1", 4)], [(2, 4), (2, 4)]),
        "sum": ([("past", 2), ("seq",), ("past + seq",)], [(2, 2), (3,), (5,)]),
        "product and sum with a number": ([("n",), ("2*n",), ("n+1",)], [(2,), (4,), (3,)]),
        "quotient": ([("n",), ("n//2",), ("n/2",)], [(2,), (1,), (1,)]),
        "name with a blank": ([("batch size",)], [(2,)]),
        "odd names": ([("unk__12",), ("?",)], [(2,), (3,)]),
        "a number as a name": ([("8",)], [(8,)]),
        "name that looks like code": ([("f(n)", "n[0]")], [(2, 3)]),
    },
)
def test_first_sizes(shapes: list[tuple[int | str | None, ...]], want: list[tuple[int, ...]]) -> None:
    inputs = declared(*shapes)
    assert list(shapes_at(inputs, first_plan(inputs)).values()) == want


@each("name", ["batch-size", "seq_len-1", "a-b-c", "batch/size"])
def test_sizes_leave_elements_to_compare(name: str) -> None:
    inputs = declared((name, 4))
    assert max(element_count(inputs, plan) for plan in size_assignments(inputs, {})) > 0
    assert element_count(inputs, first_plan(inputs)) > 0


def test_sizes_differ_first_and_agree_later() -> None:
    inputs = declared(("a", "b", "c"))
    plans = [tuple(p.values()) for p in size_assignments(inputs, {})]
    assert plans[0] == (2, 3, 4)
    assert {(2, 2, 2), (4, 4, 4), (64, 64, 64)} <= set(plans)
    assert any(p[0] == p[1] + p[2] or p[2] == p[0] + p[1] for p in plans)


def test_ones_together_then_alone() -> None:
    inputs = declared(("a", "b"))
    assert list(with_ones(inputs, {"a": 2, "b": 3}, {})) == [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": 2, "b": 1}]


def test_total_follows_its_parts() -> None:
    inputs = declared(("past",), ("seq",), ("total",))
    plans = list(with_ones(inputs, {"past": 2, "seq": 3, "total": 5}, {}))
    assert {"past": 2, "seq": 1, "total": 3} in plans
    assert {"past": 1, "seq": 3, "total": 4} in plans


@each("fixed", [{"N": 7}, {"N": 1, "T": 9}])
def test_fixed_sizes_are_kept_in_every_plan(fixed: dict[str, int]) -> None:
    inputs = declared(("N", "C", 3), ("N", "T"))
    base = first_plan(inputs, **fixed)
    for plan in (*size_assignments(inputs, fixed), *with_ones(inputs, base, fixed)):
        assert plan.items() >= fixed.items()


def test_sum_may_be_fixed() -> None:
    inputs = declared(("past + seq",), ("seq",))
    assert shapes_at(inputs, first_plan(inputs, **{"past + seq": 12}))["x0"] == (12,)


def test_huge_inputs_are_not_tried() -> None:
    inputs = declared(("a", "b", "c", "d"))
    plans = list(size_assignments(inputs, {}))
    assert len(plans) > 4
    assert max(element_count(inputs, p) for p in plans) <= MAX_ELEMENTS


@given(st.text(max_size=12))
def test_any_dim_name_has_an_extent(name: str) -> None:
    inputs = declared((name, 2)) if name else declared((None, 2))
    (shape,) = shapes_at(inputs, first_plan(inputs)).values()
    assert shape[0] >= 0
    assert isinstance(shape[0], int)
    assert free_symbols(inputs) is not None


BOTH = "g (float[N,M] x) => (y) { y = Relu(x) }"


@each(
    ("kind", "want"),
    {
        "more than the first 16": ("mixed", {"N": 17, "M": 17}),
        "all the same": ("negative", {"N": 3, "M": 3}),
        "a large batch": ("wide", {"N": 64, "M": 17}),
    },
)
def test_kinds_with_special_sizes(kind: str, want: dict[str, int]) -> None:
    assert [a.input_set.sizes for a in oracle_of(load(BOTH)).runs if a.input_set.kind == kind] == [want]


def test_refused_sizes_are_replaced() -> None:
    text = "g (float[N,M] x) => (y) <int64[3] s = {-1,2,4}> { y = Reshape(x, s) }"
    oracle = oracle_of(load(text, 17))
    assert all(a.input_set.sizes["N"] * a.input_set.sizes["M"] % 8 == 0 for a in oracle.runs)
    assert {"mixed", "wide", "negative"} <= {a.input_set.kind for a in oracle.runs}
    assert not any("inputs" in note for note in oracle.notes)


def test_sums_hold_at_special_sizes() -> None:
    text = "g (float[P,2] p, float[T,2] x, float[S,2] m) => (y) { c = Concat<axis=0>(p, x) y = Add(c, m) }"
    seen = {a.input_set.kind: a.input_set.sizes for a in oracle_of(load(text)).runs}
    assert seen["mixed"] == {"P": 17, "T": 17, "S": 34}
    assert seen["negative"] == {"P": 3, "T": 3, "S": 6}


@each(
    ("text", "want"),
    {
        "an empty batch": ("g (float[N] x) => (y) { y = Relu(x) }", [{"N": 0}]),
        "two at most": (BOTH, [{"N": 0, "M": 3}, {"N": 2, "M": 0}]),
        "each alone": (
            "g (float[N] x, float[P] p) => (y) { y = Concat<axis=0>(x, p) }",
            [{"N": 0, "P": 3}, {"N": 2, "P": 0}],
        ),
        "refused": ("g (float[N] x) => (y) <int64 i = {0}> { y = Gather(x, i) }", []),
        "fixed": ("g (float[2] x) => (y) { y = Relu(x) }", []),
        "may end the process": ('g (float[N,M] x) => (y) { y = Einsum<equation="ij->ji">(x) }', []),
        "fixed windows": ("g (float[N,2,4,4] x, float[2,2,2,2] w) => (y) { y = Conv(x, w) }", [{"N": 0}]),
        "may have no window": ("g (float[1,2,4,4] x, float[2,2,K,K] w) => (y) { y = Conv(x, w) }", []),
        "computed": ("g (float[1,2,4,4] x, float[2,2,K,K] w) => (y) { v = Neg(w) y = Conv(x, v) }", []),
        "may have no channels": ("g (float[1,C,4,4] x, float[2,C,2,2] w) => (y) { y = Conv(x, w) }", []),
        "may have no window, in a branch": (
            """g (float[1,2,4,4] x, float[2,2,K,K] w, bool c) => (y) {
                y = If (c) <then_branch = t () => (a) { a = Conv(x, w) }, else_branch = e () => (b) { b = Neg(x) }>
            }""",
            [],
        ),
        "past": ("g (float[2,P,3] x, float[2,2,3] z) => (y) { y = Concat<axis=1>(x, z) }", [{"P": 0}]),
    },
)
def test_size_of_zero_is_tried_where_it_runs(text: str, want: list[dict[str, int]]) -> None:
    oracle = oracle_of(load(text))
    assert [a.input_set.sizes for a in oracle.runs if 0 in a.input_set.sizes.values()] == want
    late = "combined input sets were skipped: runs take too long"  # on a loaded machine
    assert [n for n in oracle.notes if not n.endswith(late)] == []


def test_crashing_rewrite_is_not_run_on_empty_inputs() -> None:
    before = load("g (float[N,M] x) => (y) { y = Transpose(x) }")
    after = load('g (float[N,M] x) => (y) { y = Einsum<equation="ij->ji">(x) }')
    oracle = oracle_of(before)
    whole, fewer = (oracle.check(m.SerializeToString()).input_sets for m in (before, after))
    empty = ["normal inputs with N=0, M=3", "normal inputs with N=2, M=0"]
    assert [d for d in whole if d not in fewer] == empty
    found = oracle.compare(after.SerializeToString(), backend=LoadedModel).input_sets
    assert set(empty) <= set(found)
    found = oracle.compare(
        after.SerializeToString(), ComparisonOptions(avoids_empty=True), backend=LoadedModel
    ).input_sets
    assert not set(empty) & set(found)


CONV = "g (float[1,2,4,4] x, float[2,2,K,K] w) => (y) { y = Conv(x, w) }"


def test_rewrite_to_convolution_is_not_run_on_empty_window() -> None:
    before = load("g (float[1,2,4,4] x, float[2,2,K,K] w) => (y) { y = Neg(w) }")
    assert {a.input_set.sizes["K"] for a in oracle_of(before).runs} >= {0, 2}
    verdict = oracle_of(before).compare(load(CONV).SerializeToString())
    assert verdict.failure is not None
    assert not any("K=0" in d for d in verdict.input_sets)


def test_windows_of_convolutions_are_not_empty() -> None:
    text = 'g (float[1,2,4,4] x, float[2,2,"K-1","K-1"] w, float[K] k) => (y) { y = Conv(x, w) }'
    assert {a.input_set.feeds["w"].shape[-1] for a in oracle_of(load(text)).runs} == {1, 2}


EMPTY_WINDOW = InputSet("given", {}, {"x": np.ones((1, 2, 4, 4), np.float32), "w": np.ones((2, 2, 0, 0), np.float32)})


@each("options", {"given": {"given_inputs": [EMPTY_WINDOW]}, "fixed": {"fixed_sizes": {"K": 0}}})
def test_empty_window_of_convolution_is_refused(options: dict[str, Any]) -> None:
    model = load(CONV)
    message = "if w is empty, a convolution may be one that sums over no elements"
    with pytest.raises((ModelError, UnverifiableError), match=message):
        oracle_of(model, **options)


def test_inputs_that_concat_leaves_out_are_not_empty() -> None:
    """onnxruntime leaves out an empty one, whatever its other extents are, and does not write its part."""
    oracle = oracle_of(load("g (float[1,2,2] x, float[1,2,N] z) => (y) { y = Concat<axis=1>(x, z) }"))
    assert {a.input_set.sizes["N"] for a in oracle.runs} == {2}
    oracle = oracle_of(load("g (float[N,2] x, float[N,3] z) => (y) { y = Concat<axis=-1>(x, z) }"))
    assert 0 in {a.input_set.sizes["N"] for a in oracle.runs}


def test_sequences_have_several_lengths() -> None:
    inputs = inputs_of("g (seq(float[K,3]) s) => (int64 y) { y = SequenceLength(s) }")
    lengths = {
        len(next(generate_input_sets(inputs, k, {"K": 2}, (0,))).feeds["s"])
        for k in distinct_kinds(inputs, are_large=False)
    }
    assert lengths == {0, 1, 2, 3}
    assert [len(d.feeds["s"]) for d in generate_input_sets(inputs, "mixed", {"K": 2}, (0,))] == [3, 2, 2, 2]


def test_tensors_of_sequence_differ_in_unnamed_dims() -> None:
    info = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [None, 3])
    model = model_of("ConcatFromSequence", info, helper.make_tensor_value_info("y", TensorProto.FLOAT, None), axis=0)
    s = next(generate_input_sets(input_specs(from_onnx(model)), "mixed", {"[0]": 2}, (0,))).feeds["s"]
    assert [a.shape for a in s] == [(2, 3), (3, 3), (4, 3)]
    assert not any("inputs" in note for note in oracle_of(model).notes)


def test_indices_cover_whole_table() -> None:
    inputs = inputs_of("g (int64[N,T] i) => (y) <float[100] w = {" + ",".join("0" * 100) + "}> { y = Gather(w, i) }")
    i = next(generate_input_sets(inputs, "mixed", {"N": 10, "T": 10}, (0,))).feeds["i"]
    assert sorted(i.flat) == list(range(100))


def test_floats_stay_in_their_domain() -> None:
    body = "{ h = Add(r, z) y = Dropout(x, h) }"
    text = f"g (float[20] x, float r) => (y) <float z = {{0}}> {body}"
    seen = [float(first_input_set(text, kind).feeds["r"]) for kind in KINDS]
    assert all(0 <= r < 1 for r in seen)
    assert 0 in seen
    assert max(seen) >= 0.9
    assert oracle_of(load(text)).notes == []


def test_fractions_are_tried_if_nothing_else_runs() -> None:
    text = (
        "g (float[1,4,4] b, float[1,1,4] s, float t) => (y) <int64 k = {3}, float c = {1}>"
        " { u = Sqrt(t) v = Mul(u, c) y = NonMaxSuppression(b, s, k, v) }"
    )
    oracle = oracle_of(load(text))
    assert all(0 <= float(a.input_set.feeds["t"]) < 1 for a in oracle.runs)
    assert len(oracle.runs) > 3


@each(("head", "count"), [("bool[1] z", 3), ("float[4] z", 7)])
def test_no_two_bools_are_always_equal(head: str, count: int) -> None:
    text = ", ".join(f"bool x{n}" for n in range(count))
    inputs = inputs_of(f"g ({text}, {head}) => (y) {{ y = Not(x0) }}")
    seen = [next(generate_input_sets(inputs, k, {}, (0,))).feeds for k in distinct_kinds(inputs, are_large=False)]
    names = [i.name for i in inputs if i.dtype == TensorProto.BOOL]
    assert len({tuple(bool(feeds[n]) for feeds in seen) for n in names}) == len(names)


def reached(text: str, name: str, opset: int = 17) -> set[int]:
    """All values of an integer input in the first input set of each kind."""
    inputs = inputs_of(text, opset)
    plan = first_plan(inputs)
    return {int(v) for k in KINDS for v in next(generate_input_sets(inputs, k, plan, (0, 1))).feeds[name].flat}


INDEX = "g (int64[200] i) => (float[n] y)"
GATHER = f"{INDEX} <float[5] w = {{1,2,3,4,5}}, int64[1] a = {{0}}>"
ROWS = f"{INDEX} <float[2,3] w = {{1,2,3,4,5,6}}>"
TABLES = "g (int64[200] i) => (float[n] y, float[m] z) <float[5] w = {1,2,3,4,5}, float[3] v = {1,2,3}>"
DEPTH = "g (int64[200] i) => (float[n,k] y) <int64 d = {4}, float[2] v = {0,1}>"


@each(
    ("text", "want"),
    {
        "index": (f"{GATHER} {{ y = Gather(w, i) }}", {*range(-5, 5)}),
        "index behind an Identity": (f"{GATHER} {{ j = Identity(i) y = Gather(w, j) }}", {*range(-5, 5)}),
        "index behind two ops": (
            f"{GATHER} {{ j = Cast<to=6>(i) k = Unsqueeze(j, a) y = Gather(w, k) }}",
            {*range(-5, 5)},
        ),
        "GatherElements": (f"{GATHER} {{ y = GatherElements(w, i) }}", {*range(-5, 5)}),
        "along the axis": (f"{ROWS} {{ y = Gather<axis=1>(w, i) }}", {*range(-3, 3)}),
        "along an axis from the end": (f"{ROWS} {{ y = Gather<axis=-1>(w, i) }}", {*range(-3, 3)}),
        "the smaller of two tables": (f"{TABLES} {{ y = Gather(w, i) z = Gather(v, i) }}", {0, 1, 2}),
        "OneHot": (f"{DEPTH} {{ y = OneHot(i, d, v) }}", {*range(-4, 4)}),
        "cast to bool": ("g (int64[200] i) => (bool[n] y) { y = Cast<to=9>(i) }", {*range(-9, 2)}),
        "extent": ("g (int64[2] s, float[1,1] x) => (float[n,m] y) { y = Expand(x, s) }", {1, 2, 3}),
    },
)
def test_integers_stay_in_range(text: str, want: set[int]) -> None:
    found = reached(text, "s" if "int64[2] s" in text else "i")
    assert found <= want
    assert {min(want), max(want)} <= found


@each(
    "text",
    {
        "depth": "g (int64[2] i) => (y) <int64[0] d = {}, float[2] v = {0,1}> { y = OneHot(i, d, v) }",
        "axis": f"{GATHER} {{ y = Gather<axis=5>(w, i) }}",
        "negative axis": f"{GATHER} {{ y = Gather<axis=-3>(w, i) }}",
    },
)
def test_invalid_operands_are_tolerated(text: str) -> None:
    assert reached(text, "i")


def test_index_follows_symbolic_dim() -> None:
    text = "g (float[N,3] x, int64[300] i) => (float[m,3] y) { y = Gather(x, i) }"
    inputs = inputs_of(text)
    for n in (1, 2, 6):
        i = next(generate_input_sets(inputs, "normal", {"N": n}, (0,))).feeds["i"]
        assert set(i.tolist()) == set(range(n))


def test_free_integers_are_of_any_sign_and_magnitude() -> None:
    found = reached("g (int64[100] i) => (int64[100] y) { y = Neg(i) }", "i")
    assert min(found) < 0
    assert max(found) > 100


def test_later_candidates_are_simpler() -> None:
    inputs = inputs_of("g (int64[100] i) => (int64[100] y) { y = Neg(i) }")
    seen = [set(d.feeds["i"].tolist()) for d in generate_input_sets(inputs, "large", {}, (0,))]
    assert seen[1:] == [{0, 1}, {0}, {1}]
    assert len(seen[0]) > 10


def test_model_without_integers_has_one_candidate() -> None:
    assert len(list(generate_input_sets(inputs_of(BIG), "normal", {}, (0,)))) == 1


def test_strings_include_keys_of_model() -> None:
    node = helper.make_node(
        "LabelEncoder", ["s"], ["y"], domain="ai.onnx.ml", keys_strings=["cat", "dog"], values_int64s=[1, 2]
    )
    info = helper.make_tensor_value_info("s", TensorProto.STRING, [100])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [100])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph([node], "g", [info], [out]), opset_imports=opsets, ir_version=10)
    inputs = input_specs(from_onnx(model))
    first, second, *_ = (next(generate_input_sets(inputs, k, {}, (0,))).feeds["s"] for k in KINDS)
    assert first.dtype == object
    assert {"cat", "dog"} < set(first) | set(second)
    assert all(isinstance(s, str) for s in first)


def test_sequences_are_lists_of_tensors() -> None:
    s = first_input_set("g (seq(float[2,N]) s) => (int64 y) { y = SequenceLength(s) }").feeds["s"]
    assert [a.shape for a in s] == [(2, 2), (2, 2)]
    assert s[0].dtype == np.float32


def test_optional_tensors_are_tensors() -> None:
    inner = helper.make_tensor_type_proto(TensorProto.FLOAT, [3])
    info = helper.make_value_info("o", helper.make_optional_type_proto(inner))
    model = model_of("OptionalHasElement", info, helper.make_tensor_value_info("y", TensorProto.BOOL, []), opset=18)
    o = next(generate_input_sets(input_specs(from_onnx(model)), "normal", {}, (0,))).feeds["o"]
    assert (o.dtype, o.shape) == (np.float32, (3,))


OVERRIDABLE = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, -2.0}> { y = Add(x, w) }"


@each("default", [np.array([1, -2], np.float32), np.array(3, np.float32), np.array([1, 127], np.int8), np.array(True)])
def test_default_is_overridden_in_two_kinds(default: np.ndarray[Any, Any]) -> None:
    dtype = {"f": "float", "i": "int8", "b": "bool"}[default.dtype.kind]
    shape = f"[{default.size}]" if default.ndim else ""
    text = f"g (float[2] x, {dtype}{shape} w) => (float[2] y, {dtype}{shape} z) {{ y = Neg(x) z = Identity(w) }}"
    inputs = input_specs(from_onnx(load(text, weights={"w": default})))
    feeds = {kind: next(generate_input_sets(inputs, kind, {}, (0, 0))).feeds for kind in KINDS}
    assert {kind for kind in KINDS if "w" in feeds[kind]} == {"negative", "mixed"}
    for w in (feeds["negative"]["w"], feeds["mixed"]["w"]):
        assert (w != default).all()
        assert (w.dtype, w.shape) == (default.dtype, default.shape)


def test_later_candidates_keep_defaults() -> None:
    inputs = inputs_of(OVERRIDABLE)
    names = [sorted(d.feeds) for d in generate_input_sets(inputs, "negative", {}, (0,))]
    assert names == [["w", "x"], ["x"], ["x"], ["x"]]


def test_text_of_input_set() -> None:
    assert str(InputSet("wide", {"N": 2, "T": 1})) == "wide inputs with N=2, T=1"
    assert str(InputSet("zeros")) == "zeros inputs"


LARGE = "g (float[N,3,200,200] x, float[N,8] s) => (float[N,3,200,200] y, float[N,8] z) { y = Relu(x) z = Neg(s) }"


def test_large_inputs_get_few_input_sets_at_smallest_size() -> None:
    oracle = oracle_of(load(LARGE))
    assert [(a.input_set.kind, a.input_set.sizes["N"]) for a in oracle.runs][:7] == [
        ("normal", 2), ("normal", 1), ("mixed", 1), ("nan", 1), ("zeros", 1), ("inf", 1), ("negative", 1)
    ]  # fmt: skip


def test_mixed_inputs_are_runs_of_several_kinds() -> None:
    (x,) = (a.input_set.feeds["x"] for a in oracle_of(load(LARGE)).runs if a.input_set.kind == "mixed")
    negative, large, tiny, zeros, ties, normal = (
        next(run for run in np.array_split(x.reshape(-1), 6) if holds(run)) for holds in (
            lambda r: -3.1 < r.mean() < -2.9, lambda r: 900 < r.std() < 1100, lambda r: 0 < abs(r).max() < 1.1e-6,
            lambda r: not r.any(), lambda r: len(np.unique(r)) == 5, lambda r: 0.9 < r.std() < 1.1 and r.mean() > -0.1,
        )
    )  # fmt: skip
    assert (tiny < 0).any()
    assert (tiny > 0).any()
    assert abs(tiny[tiny != 0]).min() < 1e-43
    assert set(np.signbit(ties[ties == 0]).tolist()) == {True, False}
    assert sum(r.size for r in (negative, large, tiny, zeros, ties, normal)) == x.size


def test_few_mixed_numbers_are_drawn_several_times() -> None:
    mixed = [a.input_set for a in oracle_of(load("g (float[4] x) => (y) { y = Neg(x) }")).runs]
    assert len({tuple(i.feeds["x"].tolist()) for i in mixed if i.kind == "mixed"}) == 3


def weighted(text: str, **weights: Any) -> dict[str, int]:
    """The first sizes for a model with weights."""
    return first_plan(
        input_specs(from_onnx(load(text, weights={n: np.zeros(s, np.float32) for n, s in weights.items()})))
    )


@each(
    ("text", "weights", "want"),
    {
        "Conv": ("(float[N,C,H,W] x) => (y) { y = Conv(x, w) }", {"w": (5, 7, 3, 3)}, {"C": 7}),
        "groups": ("(float[N,C,H] x) => (y) { y = Conv<group=4>(x, w) }", {"w": (8, 1, 3)}, {"C": 4}),
        "transposed": ("(float[N,C,H] x) => (y) { y = ConvTranspose(x, w) }", {"w": (8, 1, 3)}, {"C": 8}),
        "MatMul": ("(float[N,K] x) => (y) { y = MatMul(x, w) }", {"w": (9, 2)}, {"K": 9}),
        "MatMul, on the right": ("(float[N,K] x) => (y) { y = MatMul(w, x) }", {"w": (2, 9)}, {"N": 9}),
        "vector": ("(float[N,K] x) => (y) { y = MatMul(x, w) }", {"w": (9,)}, {"K": 9}),
        "Gemm": ("(float[N,K] x) => (y) { y = Gemm<transB=1>(x, w) }", {"w": (2, 9)}, {"K": 9}),
        "transposed A": ("(float[N,K] x) => (y) { y = Gemm<transA=1>(x, w) }", {"w": (9, 2)}, {"N": 9}),
        "BatchNorm": ("(float[N,C,H] x) => (y) { y = BatchNormalization(x, s, s, s, s) }", {"s": (6,)}, {"C": 6}),
        "LayerNorm": ("(float[N,H] x) => (y) { y = LayerNormalization(x, s) }", {"s": (6,)}, {"H": 6}),
        "Add": ("(float[N,H] x) => (y) { y = Add(s, x) }", {"s": (1, 6)}, {"H": 6}),
        "Max": ("(float[N,H] x) => (y) { y = Max(s, x) }", {"s": (1, 6)}, {"H": 6}),
        "PRelu": ("(float[N,C,H] x) => (y) { y = PRelu(x, s) }", {"s": (6, 1)}, {"C": 6}),
        "behind elementwise ops": (
            "(float[N,C] x) => (y) { a = HardSwish(x) b = Pow(a, two) y = MatMul(b, w) }",
            {"two": (), "w": (9, 2)},
            {"C": 9},
        ),
        "GRU with a constant state": (
            "(float[T,B,I] x) => (y) { y = GRU<hidden_size=3>(x, w, r, , , h) }",
            {"w": (1, 9, 6), "r": (1, 9, 3), "h": (1, 1, 3)},
            {"I": 6, "B": 1},
        ),
        "behind a Transpose": (
            "(float[N,H,W,C] x) => (y) { r = Relu(x) t = Transpose<perm=[0,3,1,2]>(r) y = Conv(t, w) }",
            {"w": (5, 7, 3, 3)},
            {"C": 7},
        ),
    },
)
def test_weights_determine_sizes(text: str, weights: dict[str, tuple[int, ...]], want: dict[str, int]) -> None:
    assert weighted(f"g {text}", **weights).items() >= want.items()


def test_ones_are_tried_last() -> None:
    plans = list(size_assignments(declared(("a", "b")), {}))
    assert plans[-1] == {"a": 1, "b": 1}


@each("shapes", {"terabytes": [(1 << 40, 22)], "a product": [("1000000*1000000",)], "at any size": [("N", 1 << 30)]})
def test_oversized_inputs_are_not_generated(shapes: list[tuple[int | str | None, ...]]) -> None:
    assert list(size_assignments(declared(*shapes), {})) == []


def test_large_fixed_inputs_are_generated() -> None:
    inputs = declared((1, 3, 2048, 2048))
    assert list(size_assignments(inputs, {})) == [{}]


@each("name", ["+".join("n" * 3000), "(" * 5000, "n*" * 999 + "n", "9" * 5000, "1is", "0x"])
def test_overlong_names_are_symbols(name: str) -> None:
    assert list(shapes_at(declared((name,)), first_plan(declared((name,)))).values()) == [(2,)]


def test_plans_of_many_symbols_are_limited() -> None:
    plans = list(size_assignments(declared(*((f"a{i}", f"b{i}") for i in range(50))), {}))
    assert len(plans) < 1000


@each("make_type", [helper.make_optional_type_proto, helper.make_sequence_type_proto])
def test_unknown_element_types_are_refused(make_type: Callable[[TypeProto], TypeProto]) -> None:
    model = load("g (float[4] x, seq(float) s) => (y) { y = Neg(x) }")
    model.graph.input[1].type.CopyFrom(make_type(helper.make_tensor_type_proto(TensorProto.UNDEFINED, [4])))
    with pytest.raises(UnverifiableError, match=r"input s of the original \(\w+ of an unknown type\)"):
        oracle_of(model)


def test_inputs_of_more_dims_than_numpy_has_are_refused() -> None:
    with pytest.raises(UnverifiableError, match="input x of the original has 65 dims, more than 64"):
        oracle_of(load(f"g (int64[{','.join('1' * 65)}] x) => (int64[n] y) {{ y = Shape(x) }}"))


def test_no_sizes_beyond_what_numpy_addresses() -> None:
    text = "g (float[A,B,C,D,E,F,64,0] x, float[K] k) => (float[2] y) { y = Constant<value_floats = [1.0, 2.0]>() }"
    inputs = inputs_of(text)
    found = list(size_assignments(inputs, {}))
    assert {sizes["K"] for sizes in found} > {2, 3}
    for sizes in found:
        np.empty([extent(d, sizes) for d in inputs[0].shape], np.complex64)


def test_names_that_are_no_formula_are_read_in_linear_time() -> None:
    """A name of exporters such as StatefulPartitionedCall.0 took twice as long for each letter before the dot."""
    for name in ("a" * 150 + ".0", "1" * 150 + ".0", f"2 * {'a' * 150} + b:0"):
        start = process_time()
        assert dim_symbols(name) == [name]
        assert process_time() - start < 1
    assert sorted(dim_symbols("2 * a_b + (c1 - 3) // d")) == ["a_b", "c1", "d"]
