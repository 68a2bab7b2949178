"""Changed regions: shared values, cut points, models of regions, and their comparison on the original's values."""

from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core.io.files import split_model
from passwright.core.ort.backends import LoadedModel
from passwright.core.processes.worker_process import WorkerExit
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.oracle_process import OracleProcess
from passwright.core.verify.oracle_protocol import CHANGED_REGION
from passwright.core.verify.regions import region_comparison
from passwright.core.verify.regions.region_comparison import ChangedRegions, plan_groups
from passwright.core.verify.regions.region_judgement import is_close
from passwright.core.verify.regions.region_models import cut_region, value_type
from passwright.core.verify.regions.shared_values import SharedValues
from passwright.core.verify.regions.value_graph import ValueGraph
from passwright.core.verify.verdict import Mismatch
from rewriting import cases, each, load, oracle_of, table

X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
ENDS = "g (float[2,4] x, bool c) => (float[2,4] y)"


def graph_of(body: str, weights: dict[str, Any] | None = None) -> ValueGraph:
    text = body if body.startswith("g ") else f"{ENDS} {{ {body} }}"
    return ValueGraph.of(split_model(load(text, weights=weights).SerializeToString()))


def regions_of(before: str, after: str, weights: dict[str, Any] | None = None) -> ChangedRegions:
    original, rewritten = (graph_of(text, weights) for text in (before, after))
    return ChangedRegions(original, rewritten, LoadedModel)


def wrong_cut_point(regions: ChangedRegions, x: np.ndarray[Any, Any] = X) -> str | None:
    found = regions.first_difference([InputSet("normal", {}, {"x": x, "c": np.array(True)})])
    return None if found is None else found.cut_point


ABS, EXP, RELU = (
    f"""y = If(c) <then_branch = g1 () => (float[2,4] r) {{ r = {op}(t) }},
        else_branch = g2 () => (float[2,4] r) {{ r = Identity(x) }}>"""
    for op in ("Abs", "Exp", "Relu")
)


@each(
    ("before", "after", "cut_points"),
    table(f"""
    same: a = Abs(x) y = Neg(a) => a = Abs(x) y = Neg(a) => none
    one-more: a = Abs(x) y = Neg(a) => a = Abs(x) b = Neg(a) y = Identity(b) => y
    inner-only: a = Abs(x) b = Neg(a) y = Exp(b) => a = Relu(x) b = Neg(a) y = Exp(b) => a
    renamed: a = Abs(x) b = Neg(a) y = Exp(b) => q = Relu(x) b = Neg(q) y = Exp(b) => b
    other-op: a = Add(x, x) y = Abs(a) => a = Sub(x, x) y = Abs(a) => a
    other-order: a = Sub(x, x) y = Sub(a, x) => a = Sub(x, x) y = Sub(x, a) => y
    other-output: p, q = Split <axis=1> (x, s) y = Concat <axis=1> (p, q)
        => p, q = Split <axis=1> (x, s) y = Concat <axis=1> (q, p) => y
    attribute: y = Softmax <axis=0> (x) => y = Softmax <axis=1> (x) => y
    body-same: t = Neg(x) {ABS} => t = Neg(x) {ABS} => none
    body: t = Neg(x) {ABS} => t = Neg(x) {EXP} => y
    captured: t = Neg(x) {ABS} => t = Exp(x) {ABS} => t
    folded: k = Abs(v) y = Add(k, x) => y = Add(k, x) => k
"""),
)
def test_cut_points(before: str, after: str, cut_points: str) -> None:
    weights = {"s": np.array([2, 2]), "v": np.arange(4, dtype=np.float32), "k": np.arange(4, dtype=np.float32)}
    graphs = [graph_of(b, {n: w for n, w in weights.items() if f"{n} = " not in b}) for b in (before, after)]
    assert " ".join(SharedValues.of(*graphs).cut_points) == cut_points.replace("none", "")


def test_renamed_values_of_a_body_make_no_site() -> None:
    body = """y = If(c) <then_branch = g1 () => (float[2,4] r) {{ {0} = Abs(x) r = Neg({0}) }},
        else_branch = g2 () => (float[2,4] r) {{ r = Exp(x) }}>"""
    assert SharedValues.of(graph_of(body.format("p")), graph_of(body.format("q"))).cut_points == ()


def test_equal_constants_of_other_names_make_no_site() -> None:
    w = np.arange(8, dtype=np.float32).reshape(2, 4)
    a, b = (graph_of(f"y = Mul(x, {name})", {name: w}) for name in ("v", "w"))
    assert SharedValues.of(a, b).cut_points == ()


@each("shape", [(2, 4), (2, 40_000)])
def test_other_elements_of_a_constant_make_a_site(shape: tuple[int, int]) -> None:
    w = np.zeros(shape, np.float32)
    changed = w.copy()
    changed[1, shape[1] // 2] = 1e-3
    text = f"g (float[2,{shape[1]}] x) => (float[2,{shape[1]}] y) {{ y = Mul(x, w) }}"
    assert SharedValues.of(graph_of(text, {"w": w}), graph_of(text, {"w": changed})).cut_points == ("y",)


def test_nodes_in_any_order_are_sorted() -> None:
    proto = load(f"{ENDS} {{ a = Abs(x) b = Neg(a) y = Exp(b) }}")
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    graph = ValueGraph.of(split_model(proto.SerializeToString()))
    assert [n.op_type for n in graph.nodes] == ["Abs", "Neg", "Exp"]


def test_long_chains_are_linear() -> None:
    body = "a0 = Neg(x)" + "".join(f" a{i} = Add(a{i - 1}, a{i - 1})" for i in range(1, 3000)) + " y = Neg(a2999)"
    a = graph_of(body)
    b = graph_of(body.replace("a0 = Neg", "z = Abs").replace("Add(a0, a0)", "Add(z, z)"))
    assert SharedValues.of(a, b).cut_points == ("a1",)


def test_region_reads_given_values() -> None:
    graph = graph_of("a = Abs(x) b = Neg(a) y = Add(b, x)")
    region = cut_region(graph, ["b", "y"], {"a", "b"}.__contains__, {"a": value_type(X), "b": value_type(X)})
    assert region.inputs == ("a", "b", "x")
    session = LoadedModel(region.model)
    got = session.run([region.outputs["b"], region.outputs["y"]], {"a": X, "b": 10 * X, "x": X})
    assert np.array_equal(got[0], -X)
    assert np.array_equal(got[1], 10 * X + X)


@each(
    ("before", "after", "cut_point"),
    table(f"""
    inner: a = Exp(x) b = Mul(a, a) y = Abs(b) => a = Exp(x) b = Add(a, a) y = Abs(b) => b
    right: a = Exp(x) b = Add(a, a) y = Abs(b) => a = Exp(x) b = Mul(a, two) y = Abs(b) => none
    hidden-by-sign: a = Exp(x) b = Mul(a, two) y = Sign(b) => a = Exp(x) b = Mul(a, a) y = Sign(b) => b
    first-of-two: a = Exp(x) b = Mul(a, a) c1 = Neg(b) y = Exp(c1)
        => a = Exp(x) b = Add(a, a) c1 = Abs(b) y = Exp(c1) => b
    type: a = Add(x, two) y = Neg(a) => a = Cast <to=11> (x) y0 = Neg(x) y = Sub(y0, two) => a
    wrong-constant: a = Add(two, two) y = Mul(x, a) => y = Mul(x, a) => a
    body: t = Neg(x) {ABS} z = Sign(y) => t = Neg(x) {RELU} z = Sign(y) => y
    sequence: q = SequenceConstruct(x, two) p = SequenceAt(q, zero) y = Neg(p)
        => q = SequenceConstruct(two, x) p = SequenceAt(q, zero) y = Neg(p) => p
    optional: q = Optional(x) p = OptionalGetElement(q) y = Sign(p)
        => r = Abs(x) q = Optional(r) p = OptionalGetElement(q) y = Sign(p) => p
    shape: s = Shape(x) r = Reshape(x, s) y = Abs(r) => r = Reshape(x, wide) y = Abs(r) => r
    fails: a = Neg(x) y = Reshape(a, minus) => a = Neg(x) y = Reshape(a, three) => y
"""),
)
def test_first_wrong_site(before: str, after: str, cut_point: str) -> None:
    weights: dict[str, Any] = {
        "two": np.full((2, 4), 2, np.float32),
        "zero": np.array(0),
        "wide": np.array([4, 2]),
        "minus": np.array([-1]),
        "three": np.array([3, 3]),
        "a": np.full((2, 4), 3, np.float32),
    }

    def own(body: str) -> dict[str, Any]:
        return {n: w for n, w in weights.items() if f"{n} = " not in body}

    original, rewritten = graph_of(before, own(before)), graph_of(after, own(after))
    regions = ChangedRegions(original, rewritten, LoadedModel)
    assert (wrong_cut_point(regions) or "none") == cut_point
    assert regions.notes == []


def test_rounding_before_a_region_does_not_matter() -> None:
    """Differences of 1e-5 become large ones where they cancel."""
    before = "a = Mul(x, big) b = Add(a, one) d = Sub(b, a) y = Neg(d)"
    after = "h = Mul(x, half) a = Add(h, h) b = Add(a, one) d = Sub(b, a) y = Neg(d)"
    weights = {
        "big": np.full((2, 4), 12345.6, np.float32),
        "half": np.full((2, 4), 6172.8, np.float32),
        "one": np.ones((2, 4), np.float32),
    }
    regions = regions_of(before, after, weights)
    assert regions.cut_points == ("a",)
    assert wrong_cut_point(regions) is None


def test_elements_that_are_finite_now_are_left_to_the_outputs() -> None:
    weights = {"zero": np.zeros((2, 4), np.float32), "low": np.full((2, 4), -1e4, np.float32)}
    before = "a = Log(zero) b = Add(a, x) y = Exp(b)"
    regions = regions_of(before, "a = Add(low, zero) b = Add(a, x) y = Exp(b)", weights)
    assert wrong_cut_point(regions) is None
    assert regions.notes == ["a is finite where it is not in the original; there only outputs were compared"]


IN_FLOATS = (
    "h = Cast <to=10> (x) f = Cast <to=1> (h) q = Mul(f, f) r = Sqrt(q) m = Cast <to=10> (r) y = Cast <to=1> (m)"
)
IN_HALVES = "h = Cast <to=10> (x) q0 = Mul(h, h) m = Sqrt(q0) y = Cast <to=1> (m)"


@each(
    ("before", "after", "scale", "cut_point"),
    {
        "in range": (IN_FLOATS, IN_HALVES, 1, None),
        "overflow": (IN_FLOATS, IN_HALVES, 1000, "m"),
        "in both": (IN_HALVES, IN_HALVES.replace("q0 = Mul(h, h)", "a = Abs(h) q0 = Mul(a, a)"), 1000, None),
        "digits": (
            "q = Mul(x, x) y = Sign(q)",
            "h = Cast <to=10> (x) p = Mul(h, h) q = Cast <to=1> (p) y = Sign(q)",
            1,
            "q",
        ),
        "overflow in another order": (
            "h = Cast<to=10>(x) a = Mul(h, half) m = Mul(a, h) y = Cast<to=1>(m)",
            "h = Cast<to=10>(x) q0 = Mul(h, h) m = Mul(q0, half) y = Cast<to=1>(m)",
            300,
            "m",
        ),
        "another order in range": (
            "h = Cast<to=10>(x) a = Mul(h, half) m = Mul(a, h) y = Cast<to=1>(m)",
            "h = Cast<to=10>(x) q0 = Mul(h, h) m = Mul(q0, half) y = Cast<to=1>(m)",
            1,
            None,
        ),
    },
)
def test_ops_of_16_bits_round_their_results(before: str, after: str, scale: float, cut_point: str | None) -> None:
    """onnxruntime removes casts between them, and its results of both versions are the same."""
    weights = {"half": np.full((2, 4), 0.125, np.float16)}
    assert wrong_cut_point(regions_of(before, after, weights), X * np.float32(scale)) == cut_point


def test_float64_decides_about_cancellation() -> None:
    """Less rounding than in the original is right, more is wrong."""
    weights = {"k": np.full((2, 4), 12345, np.float32), "one": np.ones((2, 4), np.float32)}
    cancels, direct = ("a = Neg(x) p = Add(a, k) b = Sub(p, k) y = Sign(b)", "a = Neg(x) b = Mul(a, one) y = Sign(b)")
    assert wrong_cut_point(regions_of(cancels, direct, weights)) is None
    assert wrong_cut_point(regions_of(direct, cancels, weights)) == "b"


@each(("limit", "value"), [("max_bytes", 40), ("max_bytes", 1), ("max_cut_points", 1), ("max_cut_points", 2)])
def test_values_come_in_groups(limit: str, value: int) -> None:
    before = "a = Exp(x) b = Mul(a, a) d = Mul(b, b) y = Sign(d)"
    after = "a0 = Exp(x) a = Identity(a0) b0 = Mul(a, a) b = Identity(b0) d = Add(b, b) y = Sign(d)"
    regions = regions_of(before, after)
    setattr(regions, limit, value)
    assert regions.cut_points == ("a", "b", "d")
    assert wrong_cut_point(regions) == "d"


def test_sequences_keep_groups_together() -> None:
    before = "a = Exp(x) q = SequenceConstruct(a, x) p = SequenceAt(q, zero) b = Mul(p, p) y = Sign(b)"
    after = "a0 = Exp(x) a = Identity(a0) q = SequenceConstruct(a, a) p = SequenceAt(q, zero) b = Add(p, p) y = Sign(b)"
    regions = regions_of(before, after, {"zero": np.array(0)})
    regions.max_bytes = 1
    assert wrong_cut_point(regions) == "b"
    assert regions.notes == []


def test_each_node_of_the_original_runs_in_one_group() -> None:
    body = "a0 = Exp(x)" + "".join(f" b{i} = Neg(a{i}) a{i + 1} = Add(b{i}, a{i})" for i in range(20)) + " y = Exp(a20)"
    original = graph_of(body)
    cut_points = [f"a{i}" for i in range(1, 21)]
    plans = plan_groups(original, [cut_points[i : i + 5] for i in range(0, 20, 5)], tuple)
    assert [p.cut_points for p in plans] == [tuple(cut_points[i : i + 5]) for i in range(0, 20, 5)]
    assert [set(p.computed) for p in plans] == [set(p.cut_points) for p in plans]
    assert [p.taken for p in plans] == [(), ("a5",), ("a10",), ("a15",)]
    assert [set(p.released) for p in plans[:2]] == [{"a1", "a2", "a3", "a4"}, {"a5", "a6", "a7", "a8", "a9"}]


def test_names_of_a_region() -> None:
    regions = regions_of(
        "a = Exp(x) p = Mul(a, a) b = Abs(p) y = Sign(b)", "a = Exp(x) q = Add(a, a) b = Abs(q) y = Sign(b)"
    )
    found = regions.first_difference([InputSet("normal", {}, {"x": X, "c": np.array(True)})])
    assert found is not None
    assert found.names == {"p", "q", "b"}


def test_oracle_names_the_site() -> None:
    before = load("g (float[N,4] x) => (float[N,4] y) { a = Sigmoid(x) b = Mul(a, a) y = Sign(b) }")
    after = load("g (float[N,4] x) => (float[N,4] y) { a = Sigmoid(x) b = Add(a, a) y = Sign(b) }")
    oracle = oracle_of(before)
    assert oracle.compare(after.SerializeToString()).failure is None
    failure = oracle.compare(after.SerializeToString(), ComparisonOptions(compare_regions=True)).failure
    assert isinstance(failure, Mismatch)
    assert (failure.output, failure.cut_point) == ("b", "b")
    assert "from the original's values before it" in str(failure)


def test_oracle_adds_the_site_to_a_wrong_output() -> None:
    before = load("g (float[N,4] x) => (float[N,4] y) { a = Exp(x) b = Mul(a, a) y = Neg(b) }")
    after = load("g (float[N,4] x) => (float[N,4] y) { a = Exp(x) b = Add(a, a) y = Neg(b) }")
    failure = oracle_of(before).compare(after.SerializeToString(), ComparisonOptions(compare_regions=True)).failure
    assert failure is not None
    assert (failure.output, failure.cut_point, "b" in failure.region) == ("y", "b", True)


def test_random_models_are_compared_by_their_outputs() -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { a = RandomNormalLike(x) y = Add(a, x) }")
    verdict = oracle_of(model).compare(model.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert (verdict.failure, verdict.changed_regions) == (None, 0)


@each(
    ("a", "b", "close"),
    [
        ([1.0, 1e30], [1.0, 1e30], True),
        ([1.0, 1e30], [1.0 + 1e-6, 1e30], True),
        ([1.0, 1e30], [1.0 + 1e-5, 1e30], False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.inf], [1.0, -np.inf], False),
    ],
)
def test_close_values_are_so_beside_the_elements_that_differ(a: list[float], b: list[float], close: bool) -> None:
    x, y = (np.array(v, np.float32) for v in (a, b))
    assert is_close(x, y) is close


SATURATING = "(float[N, 4] x) => (float[N, 4] y)"


@each(
    ("before", "after", "is_right"),
    {
        "log-softmax": ("s = Softmax(x) y = Log(s)", "y = LogSoftmax(x)", True),
        "before-it": ("s = Softmax(x) l = Log(s) y = Add(l, x)", "l = LogSoftmax(x) y = Add(l, x)", True),
        "reciprocal": ("r = Reciprocal(x) y = Mul(x, r)", "y = Div(x, x)", True),
        "other-values": ("s = Softmax(x) y = Log(s)", "s = LogSoftmax(x) y = Clip(s, m)", False),
        "guard": ("y = Div(x, x)", "q = Div(x, x) n = IsNaN(q) y = Where(n, m, q)", False),
        "saturates-more": ("y = LogSoftmax(x)", "s = Softmax(x) y = Log(s)", False),
    },
)
def test_outputs_may_saturate_less(before: str, after: str, is_right: bool) -> None:
    weights = {"m": np.array(-50, np.float32)}
    original, rewritten = (load(f"g {SATURATING} {{ {body} }}", weights=weights) for body in (before, after))
    oracle = oracle_of(original)
    verdict = oracle.compare(rewritten.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert (verdict.failure is None) == is_right
    said = "y is finite where it is not in the original, which saturates"
    assert (said in verdict.notes) == is_right
    assert (oracle.compare(rewritten.SerializeToString()).failure is None) == is_right  # as `passes verify` does
    alone = ComparisonOptions(explain_by_regions=False)
    assert oracle.compare(rewritten.SerializeToString(), alone).failure is not None


@each(
    ("before", "after", "is_right"),
    {
        "half-of-double": ("d = Add(m, m) y = Mul(d, h)", "y = Identity(m)", True),
        "other-values": ("d = Add(m, m) y = Mul(d, h)", "y = Mul(m, h)", False),
        "nan-dropped": (
            "d = Add(m, x) y = Mul(d, h)",
            "n = IsNaN(x) z = Where(n, m, x) a = Add(m, z) y = Mul(a, h)",
            False,
        ),
    },
)
def test_outputs_may_saturate_less_on_nan_inputs(before: str, after: str, is_right: bool) -> None:
    """MaxPool of onnxruntime gives the lowest number for NaN, which doubled is infinite."""
    header = "g (float[N,1,4] x) => (float[N,1,4] y)"
    pool = "m = MaxPool<kernel_shape=[1]>(x)"
    original, rewritten = (
        load(f"{header} {{ {pool} {body} }}", weights={"h": np.array(0.5, np.float32)}) for body in (before, after)
    )
    verdict = oracle_of(original).compare(rewritten.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert (verdict.failure is None) == is_right


@each(
    ("before", "after", "is_right"),
    {
        "less-cancellation": ("a = Add(x, k) y = Sub(a, k)", "y = Identity(x)", True),
        "more-cancellation": ("y = Identity(x)", "a = Add(x, k) y = Sub(a, k)", False),
        "another-function": ("a = Add(x, k) y = Sub(a, k)", "y = Mul(x, e)", False),
        "of-two": ("a = Mul(x, k) b = Sub(a, k) y = Exp(b)", "b = Mul(x, k) y = Exp(b)", False),
    },
)
def test_outputs_may_differ_by_rounding_alone(before: str, after: str, is_right: bool) -> None:
    """No tolerance of outputs counts if all regions are right, and the same in float64."""
    weights = {"k": np.full((2, 4), 12345, np.float32), "e": np.full((2, 4), 1.0001, np.float32)}
    original, rewritten = (load(f"{ENDS} {{ {body} }}", weights=weights) for body in (before, after))
    verdict = oracle_of(original).compare(rewritten.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert (verdict.failure is None) is is_right
    assert any("due to rounding: float64 gives the same" in note for note in verdict.notes) is is_right


def test_input_sets_are_compared_in_batches_that_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_comparison, "MAX_HELD_BYTES", 100)
    regions = regions_of(
        "a = Relu(x) b = Mul(a, a) y = Sign(b)", "a0 = Relu(x) a = Identity(a0) b = Add(a, a) y = Sign(b)"
    )
    regions.max_cut_points = 1
    feeds = [InputSet("normal", {}, {"x": np.full((2, 4), n, np.float32)}) for n in (0, 2, -1, 3)]
    found = regions.first_difference(feeds)  # 2 * 2 = 2 + 2
    assert found is not None
    assert (found.cut_point, found.input_set) == ("b", feeds[3])
    assert regions.first_difference(feeds[:3]) is None


def test_crash_of_a_region_alone_is_none_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    request = vars(OracleProcess)["_request"]

    def crashing(oracle: OracleProcess, method: Any, *arguments: Any) -> Any:
        if method.name == "compare" and arguments[1].compare_regions:
            raise WorkerExit(-6, 1.0, "", {"facts": {"model": CHANGED_REGION}})
        return request(oracle, method, *arguments)

    monkeypatch.setattr(OracleProcess, "_request", crashing)
    before, after = (
        load(f"g (float[N,4] x) => (float[N,4] y) {{ {b} }}") for b in ("y = Neg(x)", "z = Neg(x) y = Identity(z)")
    )
    with OracleProcess(before.SerializeToString(), oracle_of(before).spec) as oracle:
        verdict = oracle.compare(after.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert verdict.failure is None
    assert "changed regions were not compared: onnxruntime crashed (SIGABRT) on one of them" in verdict.notes


@each(("factor", "is_right"), [(1.0, True), (1.00001, False)])
def test_rounding_that_an_output_amplifies_is_right(factor: float, is_right: bool) -> None:
    """A sum in another order differs by an ulp, of which later ops make any number."""
    weights = {"w": np.random.default_rng(0).random((64, 64), np.float32), "k": np.array(3e5, np.float32)}
    weights["v"] = weights["w"] * np.float32(factor)
    header, rest = "g (float[8,64] x) => (float[8,64] y)", "q = Mul(s, k) r = Floor(q) d = Sub(q, r) y = Mul(d, q)"
    before = load(f"{header} {{ t = Sigmoid(x) s = MatMul(t, w) {rest} }}", weights=weights)
    split = "a, b = Split<axis=1>(t, n) c, d0 = Split<axis=0>(v, n) e = MatMul(a, c) f = MatMul(b, d0) s = Add(e, f)"
    after = load(f"{header} {{ t = Sigmoid(x) {split} {rest} }}", weights={**weights, "n": np.array([32, 32])})
    oracle = oracle_of(before)
    alone = ComparisonOptions(explain_by_regions=False)
    assert oracle.compare(after.SerializeToString(), alone).failure is not None
    assert (oracle.compare(after.SerializeToString()).failure is None) == is_right
    verdict = oracle.compare(after.SerializeToString(), ComparisonOptions(compare_regions=True))
    assert (verdict.failure is None) == is_right
    assert any("due to rounding: float64" in note for note in verdict.notes) == is_right


def test_scale_folded_into_weights_is_right_on_far_inputs() -> None:
    """Rounding the weights once more changes as much as moving the inputs by an ulp."""
    weights = {"w": np.random.default_rng(0).random((4, 4), np.float32), "p": np.array(2 * np.pi, np.float32)}
    weights["v"] = weights["w"] * weights["p"]
    head = "g (float[64,4] x) => (float[64,4] y)"
    bodies = ("m = MatMul(x, w) a = Mul(m, p) y = Cos(a)", "a = MatMul(x, v) y = Cos(a)")
    original, rewritten = (load(f"{head} {{ {body} }}", weights=weights) for body in bodies)
    x = (np.random.default_rng(1).normal(size=(64, 4)) * 1e10).astype(np.float32)
    oracle = oracle_of(original, given_inputs=[InputSet("far", {}, {"x": x})])
    assert oracle.compare(rewritten.SerializeToString()).failure is None
    alone = ComparisonOptions(explain_by_regions=False)
    assert oracle.compare(rewritten.SerializeToString(), alone).failure is not None


BODIES = {
    "Loop": """n = Constant <value_int = 3> () t = Constant <value = bool {{1}}> ()
        s, i = Loop (n, t, x) <body = b (int64 k, bool p, float[2,4] v) => (bool q, float[2,4] w, int64[2] m) {{
            q = Identity(p) {0} m = ArgMax <axis = 1, keepdims = 0> (j) d = Tanh(j) z = Sign(d) w = Add(v, z) }}>
        y = Identity(s)""",
    "Loop on a captured value": """n = Constant <value_int = 3> () t = Constant <value = bool {{1}}> () o = Exp(x)
        s, i = Loop (n, t, o) <body = b (int64 k, bool p, float[2,4] v) => (bool q, float[2,4] w, int64[2] m) {{
            q = Identity(p) u = Add(o, v) {0} m = ArgMax <axis = 1, keepdims = 0> (j) w = Sign(u) }}>
        y = Identity(s)""",
    "Scan": """s, i = Scan (x, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
        body = b (float[2,4] v, float[2] r) => (float[2,4] w, int64[2] m) {{
            {0} m = ArgMax <axis = 1, keepdims = 0> (j) z = Sign(j) w = Add(v, z) }}>
        y = Identity(s)""",
    "If in a Loop": """n = Constant <value_int = 2> () t = Constant <value = bool {{1}}> ()
        s, i = Loop (n, t, x) <body = b (int64 k, bool p, float[2,4] v) => (bool q, float[2,4] w, int64[2] m) {{
            q = Identity(p)
            m = If (p) <then_branch = g1 () => (int64[2] e) {{ {0} e = ArgMax <axis = 1, keepdims = 0> (j) }},
                else_branch = g2 () => (int64[2] f) {{ h = Abs(v) f = ArgMax <axis = 1, keepdims = 0> (h) }}>
            w = Neg(v) }}>
        y = Identity(s)""",
}
SHOWN = {"If in a Loop": "v", "Loop on a captured value": "u"}


def body_regions(body: str, before: str, after: str) -> ChangedRegions:
    """The regions of two models with other ops in their bodies, which compute `j` of `v` or `u`."""
    texts = (f"{ENDS} {{ {BODIES[body].format(op.format(SHOWN.get(body, 'v')))} }}" for op in (before, after))
    return regions_of(*texts)


@pytest.mark.parametrize("body", BODIES)
@cases(
    ("before", "after", "cut_point"),
    {
        "other values": ("k1 = Softmax({0}) j = Sqrt(k1)", "k1 = Softmax({0}) j = Identity(k1)", "j"),
        "the same order": ("a = Exp({0}) j = Mul(a, a)", "a = Exp({0}) j = Identity(a)", "j"),
        "renamed": ("a = Exp({0}) j = Neg(a)", "h1 = Exp({0}) j = Neg(h1)", None),
        "right": ("a = Exp({0}) d1 = Add(a, a) j = Neg(d1)", "a = Exp({0}) d1 = Sum(a, a) j = Neg(d1)", None),
        "moved": ("a = Add({0}, {0}) j = Abs(a)", "k2 = Abs({0}) j = Add(k2, k2)", None),
    },
)
def test_changes_in_bodies_that_outputs_do_not_show(body: str, before: str, after: str, cut_point: str | None) -> None:
    regions = body_regions(body, before, after)
    assert wrong_cut_point(regions) == cut_point
    assert regions.notes == []
    own = [LoadedModel(g.model.whole_message().SerializeToString()) for g in (regions.original, regions.rewritten)]
    outputs = [session.run(["y"], {"x": X, "c": np.array(True)})[0] for session in own]
    assert np.array_equal(*outputs)


def test_oracle_names_the_site_in_a_body() -> None:
    def model(ops: str) -> onnx.ModelProto:
        return load(f"{ENDS} {{ {BODIES['Loop'].format(ops)} }}")

    oracle = oracle_of(model("j = Sign(v)"))
    after = model("j0 = Sign(v) j = Add(j0, j0)")
    assert oracle.compare(after.SerializeToString()).failure is None
    failure = oracle.compare(after.SerializeToString(), ComparisonOptions(compare_regions=True)).failure
    assert isinstance(failure, Mismatch)
    assert failure.cut_point == "j"
    assert "in run 1 of the body of s" in str(failure)
    assert {"j", "s"} < failure.region


def test_sequences_that_bodies_carry_are_not_compared() -> None:
    body = """n = Constant <value_int = 3> () t = Constant <value = bool {{1}}> () e = SequenceConstruct(x)
        s = Loop (n, t, e) <body = b (int64 k, bool p, seq(float[2,4]) v) => (bool q, seq(float[2,4]) w) {{
            q = Identity(p) h = Constant <value_int = 0> () f = SequenceAt(v, h) g1 = {0}(f) a = Sign(g1)
            w = SequenceInsert(v, a) }}>
        y = ConcatFromSequence <axis = 0> (s)"""
    before, after = (f"g (float[2,4] x) => (float[A,4] y) {{ {body.format(op)} }}" for op in ("Tanh", "Identity"))
    assert wrong_cut_point(regions_of(before, after)) is None
    assert wrong_cut_point(regions_of(before, before.replace("Tanh", "Neg"))) == "y"


@each("trips", [0, 3])
def test_loops_without_iterations_have_none_to_compare(trips: int) -> None:
    before, after = (
        BODIES["Loop"].format(f"j0 = Neg(v) j = {op}(j0, j0)").replace("= 3", f"= {trips}") for op in ("Add", "Max")
    )
    assert wrong_cut_point(regions_of(before, after)) == ("j" if trips else None)


def test_branches_of_one_name_are_two_bodies() -> None:
    text = """i = If(c) <
            then_branch = g1 () => (int64[2] e) {{ a1 = Sign(x) e = ArgMax <axis = 1, keepdims = 0> (a1) }},
            else_branch = g1 () => (int64[2] f) {{ a2 = Sign(x) {0} f = ArgMax <axis = 1, keepdims = 0> (j) }}>
        y = Identity(x)"""
    regions = regions_of(*(f"{ENDS} {{ {text.format(f'j = {op}(a2, a2)')} }}" for op in ("Add", "Max")))
    sets = [InputSet("normal", {}, {"x": X, "c": np.array(c)}) for c in (True, False)]
    assert regions.first_difference(sets[:1]) is None
    found = regions.first_difference(sets)
    assert found is not None
    assert (found.cut_point, found.input_set) == ("j", sets[1])
