"""Combined input sets: each input with a kind of its own, near the constants of both models."""

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from passwright.core import from_onnx
from passwright.core.verify import run_budgets
from passwright.core.verify.combined_plans import InputPlan, KindRecord, combined_plans, plans_near
from passwright.core.verify.input_generation import COMBINED_KINDS, generate_combined, own_kinds, special_kinds
from passwright.core.verify.input_specs import InputSpec, input_specs
from passwright.core.verify.model_changes import InputHints
from passwright.core.verify.model_constants import NO_CONSTANTS, ModelConstants
from passwright.core.verify.number_generation import adjacent_integers, integer_limits
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.run_budgets import RunCosts
from passwright.core.verify.sensitivity import has_generic_values
from passwright.core.verify.size_assignments import combined_sizes, sizes_near
from rewriting import cases, each, load, oracle_of

NO_SYMBOLS: frozenset[str] = frozenset()
REPEATED = """g (int64 n, bool c, float[N,50] x) => (y) {
    y = Loop (n, c, x) <body = b (int64 i, bool d, float[N,50] v) => (bool e, float[N,50] w) {
        w = Neg(v) e = Identity(d)
    }>
}"""
FOR_EACH_ROW = """g (bool c, float[N,50] x) => (y) <int64[1] zero = {0}> {
    s = Shape(x) n = Gather<axis=0>(s, zero)
    y = Loop (n, c, x) <body = b (int64 i, bool d, float[N,50] v) => (bool e, float[N,50] w) {
        w = Neg(v) e = Identity(d)
    }>
}"""
SCANNED = """g (float[50] s, float[N,50] x) => (y, z) {
    y, z = Scan <num_scan_inputs = 1, body = b (float[50] t, float[50] v) => (float[50] u, float[50] w) {
        u = Add(t, v) w = Identity(u)
    }> (s, x)
}"""
INDICES = "g (float[N,4] x, int64[2] i) => (y) { t = Transpose(x) y = Gather<axis=1>(t, i) }"


def inputs_of(text: str, opset: int = 18) -> list[InputSpec]:
    return input_specs(from_onnx(load(text, opset)))


def drawn(
    text: str, kinds: dict[str, str], number: int = 0, constants: ModelConstants = NO_CONSTANTS
) -> dict[str, Any]:
    """The inputs of one combined set, with symbols of 64."""
    inputs = inputs_of(text)
    sizes = {str(d): 64 for i in inputs for d in i.shape if isinstance(d, str)}
    return dict(generate_combined(inputs, "adjacent", kinds, sizes, (0, number), constants).feeds)


def test_kinds_of_inputs_are_independent() -> None:
    oracle = oracle_of(load("g (float[N] a, float[N] b, bool[N] c) => (y) { y = Where(c, a, b) }"))
    sets = [a.input_set for a in oracle.runs if a.input_set.kind in COMBINED_KINDS]
    assert len(sets) > 10
    assert len({frozenset(s.all_kinds) for s in sets}) > 5
    assert any(len(s.all_kinds) == 3 for s in sets)


def test_a_finite_set_has_only_finite_kinds() -> None:
    oracle = oracle_of(load("g (float[N] a, float[N] b) => (y) { y = Add(a, b) }"))
    for run in oracle.runs:
        assert all(np.isfinite(x).all() for x in run.input_set.feeds.values()) or not run.input_set.is_finite


def test_sets_at_constants_excuse_no_jumps() -> None:
    oracle = oracle_of(load("g (float[N] x) => (y) <float[1] c = {7.0}> { y = Less(x, c) }"))
    kinds = {a.input_set.kind for a in oracle.runs if has_generic_values(a.input_set)}
    assert "constants" not in kinds
    assert "normal" in kinds


@pytest.mark.parametrize("seed", [0, 7])
def test_draws_are_reproducible(seed: int) -> None:
    def contents() -> list[Any]:
        return [a.input_set.content() for a in oracle_of(load(INDICES), seed=seed).runs]

    assert contents() == contents()


def test_original_and_result_determine_sizes() -> None:
    before = load("g (float[N,T] x) => (y) { y = Neg(x) }")
    constants = "<int64[1] s = {0}, int64[1] e = {90}, int64[1] a = {1}>"
    text = f"g (float[N,T] x) => (y) {constants} {{ b = Slice(x, s, e, a) y = Neg(b) }}"
    oracle = oracle_of(before)
    assert max(a.input_set.sizes["T"] for a in oracle.runs) < 90
    failure = oracle.compare(load(text).SerializeToString()).failure
    assert failure is not None
    assert failure.input_set is not None
    assert failure.input_set.kind == "sizes"
    assert failure.input_set.sizes["T"] > 90
    count = len(oracle.runs)
    oracle.compare(load(text).SerializeToString())
    assert len(oracle.runs) == count


@each(
    ("constants", "base", "want"),
    [
        ((90,), {"N": 2, "T": 3}, [{"N": 92, "T": 3}, {"N": 2, "T": 92}, {"N": 92, "T": 92}, {"N": 90, "T": 3}]),
        ((), {"N": 2}, []),
        ((5, 90), {"N": 2}, [{"N": 7}, {"N": 92}, {"N": 5}, {"N": 90}]),
        ((90,), {"past": 2, "seq": 3, "all": 5}, [{"past": 92, "seq": 3, "all": 5}, {"past": 92, "seq": 3, "all": 95}]),
    ],
)
def test_sizes_near_constants(constants: tuple[int, ...], base: dict[str, int], want: list[dict[str, int]]) -> None:
    assert [*sizes_near(constants, base, NO_SYMBOLS)][: len(want)] == want


@cases(
    ("text", "sizes"),
    {
        "by axis": (
            "g (float[a,b] x, float[c,d] m) => (y) { s = Sub(x, m) p = Concat<axis=0>(x, m) y = Gemm<transB=1>(p, s) }",
            {"a": 2, "b": 3, "c": 2, "d": 3},
        ),
        "thirds": ("g (float[N,4] x) => (a, b, c) { a, b, c = Split(x) }", {"N": 6}),
        "multiples": ("g (float[N,1,H,W] x) => (y) { y = SpaceToDepth<blocksize=8>(x) }", {"N": 9, "H": 16, "W": 24}),
        "pairs": (
            "g (float[a,b] x, float[c,d] m) => (y) { t = Transpose(m) y = Sub(x, t) }",
            {"a": 3, "b": 4, "c": 4, "d": 3},
        ),
    },
)
def test_sizes_differ_where_they_may(text: str, sizes: dict[str, int]) -> None:
    assert oracle_of(load(text, opset=13)).runs[0].input_set.sizes == sizes


@each(
    ("text", "kind", "holds"),
    {
        "offset": ("g (float[N,4] x) => (y) { y = Neg(x) }", "offset", lambda x: (abs(x.mean(1)) > 5).all()),
        "subnormal": ("g (float[N] x) => (y) { y = Neg(x) }", "tiny", lambda x: 0 < abs(x).max() < 1e-38),
        "one channel": ("g (float[N,9] x) => (y) { y = Neg(x) }", "sparse", lambda x: ((x != 0).sum(1) == 1).all()),
        "one true": ("g (bool[N,9] x) => (y) { y = Not(x) }", "wide", lambda x: x.sum() == 1 or (x.sum(1) == 1).all()),
        "one false": ("g (bool[N,9] x) => (y) { y = Not(x) }", "mixed", lambda x: (x.sum(1) >= 8).all()),
        "integers of all magnitudes": (
            "g (int64[N] x) => (y) { y = Neg(x) }",
            "magnitudes",
            lambda x: (abs(x) > 2**40).any() and (abs(x) < 2**20).any() and x.min() > np.iinfo(np.int64).min,
        ),
        "bytes": ("g (uint8[N] x) => (y) { y = Identity(x) }", "magnitudes", lambda x: x.max() > 100),
        "adjacent integers": ("g (int64[N] x) => (y) { y = Neg(x) }", "adjacent", lambda x: np.ptp(x) <= 4),
        "adjacent floats": (
            "g (float[N] x) => (y) { y = Neg(x) }",
            "adjacent",
            lambda x: 0 < min(np.diff(np.unique(x)) / abs(np.unique(x)[1:])) < 0.004,
        ),
        "index": ("g (int64 x, float[N] z) => (y) { y = Gather(z, x) }", "far", lambda x: -128 <= x < 128),
        "pads": ("g (int64[4] x, float[N,4] z) => (y) { y = Pad(z, x) }", "far", lambda x: abs(x).max() <= 1),
    },
)
def test_values_of_special_kinds(text: str, kind: str, holds: Any) -> None:
    assert holds(drawn(text, {"x": kind})["x"])


def test_numbers_near_constants() -> None:
    constants = ModelConstants((1000.0,), (), ("cat",))
    text = "g (float[N] x, int64[N] n, string[N] s) => (y) { y = Identity(x) }"
    feeds = drawn(text, dict.fromkeys("xns", "constants"), constants=constants)
    assert {999, 1000, 1001, 2000} <= set(feeds["n"].tolist())
    assert np.float32(1000) in feeds["x"]
    assert np.nextafter(np.float32(1000), np.float32(np.inf)) in feeds["x"]
    assert "cat" in feeds["s"]


def test_special_numbers_meet_in_pairs() -> None:
    text = "g (float[N] a, float[N] b, int32[N] i) => (y) { y = Add(a, b) }"
    assert {0, 1, -8, 255} < set(drawn(text, {"i": "mixed"})["i"].tolist())
    feeds = drawn(text, dict.fromkeys("ab", "nonfinite"))
    assert len({*zip(feeds["a"].tolist(), feeds["b"].tolist(), strict=True)}) > 40
    assert np.isnan(feeds["a"]).any()
    assert np.isinf(feeds["b"]).any()
    oracle = oracle_of(load(text.replace("int32[N] i", "float[2] i")))
    assert "nonfinite" in {a.input_set.kind for a in oracle.runs}


def test_halves_of_one_sign_and_magnitude() -> None:
    arrays = [drawn("g (float16[N] x) => (y) { y = Neg(x) }", {"x": "magnitudes"}, n)["x"] for n in range(8)]
    alike = [x for x in arrays if abs(x).max() <= 2 * abs(x).min() and abs(np.sign(x).sum()) == x.size]
    assert 2 <= len(alike) <= 6
    assert max(abs(x.astype(np.float32).sum()) for x in alike) > np.finfo(np.float16).max


def test_inputs_of_other_shapes_coincide() -> None:
    feeds = drawn("g (int64[N,1] a, int64[1,3] b) => (y) { y = Equal(a, b) }", dict.fromkeys("ab", "adjacent"))
    assert abs(feeds["b"] - feeds["a"]).max() <= 5
    assert (feeds["a"] == feeds["b"]).any()


def test_a_range_runs_backwards() -> None:
    text = "g (int64 a, int64 b) => (y) <int64 step = {-2}> { y = Range(a, b, step) }"
    assert oracle_of(load(text)).runs[0].outputs["y"].size


def test_sums_and_products_of_constants_are_sizes() -> None:
    assert combined_sizes([40, 100], 200) == [80, 140, 200]
    text = "g (float[N,M] x) => (y) <int64 most = {3000}> { n = Size(x) y = Less(n, most) }"
    assert {bool(a.outputs["y"]) for a in oracle_of(load(text)).runs} == {True, False}


def test_strings_that_become_numbers() -> None:
    oracle = oracle_of(load("g (string[N] s) => (y) { y = Cast<to=1>(s) }"))
    assert len({float(v) for a in oracle.runs for v in a.outputs["y"]}) > 3


def test_inputs_nearly_coincide() -> None:
    text = "g (float[N] a, float[N] b, int64[N] i, int64[N] j) => (y) { y = Add(a, b) }"
    feeds = drawn(text, dict.fromkeys("abij", "adjacent"))
    assert 0 < (feeds["a"] == feeds["b"]).sum() < 64
    np.testing.assert_allclose(feeds["a"], feeds["b"], rtol=0.004)
    assert set((feeds["i"] - feeds["j"]).tolist()) == {-1, 0, 1}


def test_lengths_of_sequences_and_loops() -> None:
    body = "l (int64 j, bool k, float[2] v) => (bool d, float[2] w) { w = Neg(v) d = Identity(k) }"
    text = f"g (int64 n, bool c, float[2] x) => (y) {{ y = Loop (n, c, x) <body = {body}> }}"
    assert {int(drawn(text, {"n": "lengths"}, v)["n"]) for v in range(5)} == {0, 1, 2, 33, 65}
    near = {int(drawn(text, {"n": "lengths"}, v, ModelConstants((), (300,)))["n"]) for v in range(8)}
    assert near >= {301, 302}  # in which the number of an iteration is 300, and more
    text = "g (seq(float[2]) s, optional(float[2]) o) => (y) { y = SequenceLength(s) }"
    feeds = [drawn(text, {"s": "lengths", "o": "lengths"}, v) for v in range(7)]
    assert {len(f["s"]) for f in feeds} == {0, 1, 3, 4, 5, 6, 7}
    assert all(f["o"] is None for f in feeds)
    assert drawn(text, {})["o"] is not None
    text = "g (seq(bool) s) => (y) { y = SequenceLength(s) }"
    assert {len(drawn(text, {"s": "lengths"}, v)["s"]) for v in range(2)} <= {0, 1, 3, 4, 5, 6, 7}


def test_integers_that_control_a_run_stay_small() -> None:
    text = "g (int64 n) => (y) <int64 zero = {0}, int64 one = {1}> { m = Mul(n, n) y = Range(zero, m, one) }"
    (i,) = inputs_of(text)
    assert special_kinds(i) == {"constants"}
    n = drawn(text, {"n": "constants"}, constants=ModelConstants((1e6, 50.0)))["n"]
    assert abs(int(n)) <= 2048


def test_unchecked_indices_stay_in_range() -> None:
    text = "g (float[N,5] x, int64[N] i) => (y) { y = SoftmaxCrossEntropyLoss(x, i) }"
    _, i = inputs_of(text, opset=13)
    assert "far" not in special_kinds(i)


def test_no_kind_is_planned_that_no_input_has() -> None:
    inputs = inputs_of("g (float[4] x) => (y) { y = Relu(x) }")
    plans = combined_plans(inputs, [{}], NO_CONSTANTS, NO_SYMBOLS, 0)
    counts = Counter(p.kind for p in plans)
    assert counts.keys() == {"adjacent", "offset", "tiny", "sparse"}
    assert {*counts} < {*COMBINED_KINDS}
    for plan in plans:
        assert {*plan.kinds.values()} <= own_kinds(inputs[0]) | special_kinds(inputs[0])


def test_plans_for_a_result_use_its_constants_alone() -> None:
    inputs = inputs_of("g (float[N] x) => (y) { y = Relu(x) }")
    plans = plans_near(inputs, [{"N": 2}], InputHints(ModelConstants((9.0,), (30,))), NO_SYMBOLS, 0)
    assert {p.kind for p in plans} == {"sizes", "constants", "sparse"}
    assert {p.sizes["N"] for p in plans if p.kind == "sizes"} == {29, 30, 31, 32}


def test_iterations_reach_the_constants_of_a_result() -> None:
    text = "g (int64 n, float[2] x) => (y) <bool c = {1}, float k = {%s}> { y = Loop (n, c, x) <body = b"
    text += " (int64 i, bool c, float[2] v) => (bool d, float[2] w) { f = Cast<to=1>(i) m = Min(f, k) w = Add(v, m)"
    text += " d = Identity(c) }> }"
    oracle = oracle_of(load(text % "1e9"))
    assert max(int(r.input_set.feeds["n"]) for r in oracle.runs) < 700
    oracle.add_runs_near(load(text % "700").SerializeToString())
    assert max(int(r.input_set.feeds["n"]) for r in oracle.runs) == 702


def test_kinds_that_are_refused_are_dropped() -> None:
    record = KindRecord()
    plan = InputPlan("adjacent", {}, {"x": "extremes", "z": "mixed"}, 0)
    for _ in range(4):
        record.add(plan, accepted=False)
    record.add(plan._replace(kinds={"z": "mixed"}), accepted=True)
    assert record.useful_part(plan) == plan._replace(kinds={"z": "mixed"})
    assert record.useful_part(plan._replace(kinds={"x": "extremes"})) is None


@each(
    ("text", "ratio"),
    {
        "elements": ("g (float[N,50] x) => (y) { y = Relu(x) }", 4),
        "square": ("g (float[N,2] x) => (y) { t = Transpose(x) y = MatMul(x, t) }", 16),
        "unknown": ("g (float[N,20] x) => (y) { y = NonZero(x) }", 4),
        "quotient": ("g (float[1,3,N] x, float[9,3,4] w) => (y) { y = Conv<strides=[4]>(x, w) }", 4),
        "window": ("g (float[1,3,N,N] x, float[4,3,3,3] w) => (y) { y = Conv(x, w) }", 16),
        "body": (REPEATED, 4),
        "body for each row": (FOR_EACH_ROW, 16),
        "trips of a Scan": (SCANNED, 4),
    },
)
def test_work_grows_with_what_is_computed(text: str, ratio: int) -> None:
    costs = RunCosts.of(from_onnx(load(text)).graph)
    small, large = (costs.seconds({"N": n}) - costs.fixed for n in (1000, 4000))
    assert large / small == pytest.approx(ratio, rel=0.1)


def test_what_is_tried_depends_on_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("g (float[N,S] x) => (y) { s = Shape(x) f = Cast<to=1>(s) y = ReduceMax(f) }")
    other = load(
        "g (float[N,S] x) => (y) <float c = {5e6}> { s = Shape(x) f = Cast<to=1>(s) g = Min(f, c) y = ReduceMax(g) }"
    )

    def contents(seconds: float) -> list[Any]:
        clock = count(0.0, seconds)
        monkeypatch.setattr(run_budgets, "thread_time", lambda: next(clock))
        oracle = oracle_of(model)
        oracle.add_runs_near(other.SerializeToString())
        return [r.input_set.content() for r in oracle.runs]

    assert contents(0.0) == contents(0.005)


def test_far_more_time_than_estimated_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(0.0, 100.0)
    monkeypatch.setattr(run_budgets, "thread_time", lambda: next(clock))
    oracle = oracle_of(load("g (float[N] x) => (y) { y = Relu(x) }"))
    (note,) = oracle.notes
    assert note.endswith("combined input sets were skipped: runs take far longer than estimated")


def test_left_out_sets_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunCosts, "seconds", lambda *_: 1.0)
    oracle = oracle_of(load("g (float[N] x) => (y) { y = Relu(x) }"))
    (note,) = oracle.notes
    assert note.endswith("combined input sets were skipped: runs take too long")
    assert all(a.input_set.kind not in COMBINED_KINDS for a in oracle.runs)


def test_given_inputs_are_not_combined() -> None:
    info, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [info], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    given = generate_combined(input_specs(from_onnx(model)), "given", {}, {}, (0, 0), NO_CONSTANTS)
    oracle: Oracle = oracle_of(model, given_inputs=[given])
    oracle.add_runs_near(load("g (float[2] x) => (y) <float[1] k = {9}> { y = Max(x, k) }").SerializeToString())
    assert [a.input_set for a in oracle.runs] == [given]


@each("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_adjacent_integers_fit_their_type(dtype: str) -> None:
    limits = integer_limits(np.dtype(dtype))
    for seed in range(20):
        drawn = [int(n) for n in adjacent_integers((9,), np.random.default_rng(seed), limits)]
        assert limits[0] <= min(drawn)
        assert max(drawn) <= limits[1]
        assert max(drawn) - min(drawn) <= 4


def test_sets_at_boundaries_of_rules_come_behind_all_others() -> None:
    """What `verify` draws, which knows no rules, a run draws too."""
    model = load("g (float[N,4] x, float[N,4] z, int64[N] i) => (y, w) { a = Add(x, z) y = Relu(a) w = Neg(i) }")
    plain, beside = (
        [r.input_set.content() for r in oracle_of(model, boundaries=points).runs] for points in ((), (-3.0, 3.0))
    )
    assert beside[: len(plain)] == plain
    assert len(beside) > len(plain)
