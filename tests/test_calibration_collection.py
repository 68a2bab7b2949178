"""Collection of statistics over the samples of a model."""

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.core import from_onnx
from passwright.core.calibration import collection
from passwright.core.calibration.collection import _groups, _write_samples, collect_statistics
from passwright.core.calibration.collection_worker import Observation, ObservedGraph
from passwright.core.calibration.methods import METHODS, Method, calibrated_ranges
from passwright.core.calibration.statistics import Rows, StatisticsCollector, ValueStatistics
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source
from passwright.core.ir.graph import defined_values
from passwright.core.ort.sessions import UNOPTIMIZED
from passwright.core.ort.value_files import read_value
from passwright.core.serialization.proto_queries import copy_without
from rewriting import each, load

Array = np.ndarray[Any, Any]
TEXT = """g (float[N,3] x, bool c, int64 n, double[2] p) => (float[N,3] y, float[N,3] z, double[2] h)
<float[3] w = {1,2,3}> {
    a = Add(x, w) b = Relu(a) i = Cast<to=7>(b) f = Cast<to=10>(a) h = Neg(p)
    y = If (c) <then_branch = t () => (float[N,3] r) { q = Neg(b) r = Abs(q) },
                else_branch = e () => (float[N,3] s) { q = Mul(b, b) u = Exp(q) s = Log(u) }>
    z, k = Loop (n, c, b) <body = body (int64 j, bool d, float[N,3] v) => (bool o, float[N,3] m, float[N,3] l) {
        o = Identity(d) m = Add(v, a)
        l = If (d) <then_branch = lt () => (float[N,3] lr) { lq = Sub(v, x) lr = Abs(lq) },
                    else_branch = le () => (float[N,3] ls) { ls = Mul(b, b) }>
    }>
}"""
OUTER = ["x", "p", "w", "a", "b", "i", "f", "h", "y", "z"]
INNER = ["q", "r", "u", "s", "v", "m", "l", "lq", "ls"]
RNG = np.random.default_rng(0)


def sample(rows: int) -> dict[str, Array]:
    return {
        "x": RNG.normal(size=(rows, 3)).astype(np.float32),
        "c": np.array(rows % 2 == 0),
        "n": np.array(rows % 4),
        "p": RNG.normal(size=2),
    }


SAMPLES = [sample(rows) for rows in range(1, 8)]


def expected(samples: list[dict[str, Array]]) -> dict[str, ValueStatistics]:
    """The statistics of the values of `TEXT`, computed in numpy."""
    found: dict[str, StatisticsCollector] = {}

    def note(number: int, **values: Array) -> None:
        for name, value in values.items():
            found.setdefault(name, StatisticsCollector(name)).add(value, number)

    for number, feeds in enumerate(samples):
        x, w = feeds["x"], np.float32([1, 2, 3])
        a = x + w
        b = np.maximum(a, 0)
        note(number, x=x, w=w, a=a, b=b, p=feeds["p"], h=-feeds["p"], f=a.astype(np.float16))
        if feeds["c"]:
            note(number, q=-b, r=b, y=b)
        else:
            note(number, q=b * b, u=np.exp(b * b), s=np.log(np.exp(b * b)), y=b * b)
        v = b
        for _ in range(int(feeds["n"]) if feeds["c"] else 0):
            note(number, v=v, m=v + a, l=np.abs(v - x), lq=v - x)
            v = v + a
        note(number, z=v)
    return {name: collector.statistics() for name, collector in found.items()}


@pytest.mark.parametrize("opset", [8, 9, 13, 18, 21])
def test_statistics_of_values_of_all_graphs(opset: int) -> None:
    memory_bytes = 100 if opset == 18 else 1 << 20  # for several groups, or one
    found = collect_statistics(
        load(TEXT, opset), [*OUTER, *INNER], iter(SAMPLES), channels={"a": 1}, memory_bytes=memory_bytes
    )
    wanted = expected(SAMPLES)
    assert list(found) == [name for name in (*OUTER, *INNER) if name != "i"]  # an integer
    for name, statistics in found.items():
        if name == "ls":  # the condition of the Loop holds wherever its body runs
            assert (statistics.low, statistics.high, statistics.samples) == (0, 0, 0)
            continue
        other = wanted[name]
        assert [statistics.low, statistics.high] == pytest.approx([other.low, other.high], rel=1e-6)
        assert (statistics.count, statistics.zeros) == (other.count, other.zeros)
        assert statistics.samples == other.samples
        assert statistics.histogram is not None
        assert other.histogram is not None
        assert statistics.histogram.exponent == other.histogram.exponent
        assert statistics.histogram.counts.sum() == other.histogram.counts.sum()
    channels = found["a"].channels
    assert channels is not None
    rows = np.concatenate([feeds["x"] for feeds in SAMPLES]) + np.float32([1, 2, 3])
    assert channels.maxima == pytest.approx(np.abs(rows).max(0))


def test_values_of_a_loop_with_omitted_outputs() -> None:
    model = load("""g (float[3] x, int64 n, bool c) => (float[3] y) {
        y = Loop (n, c, x) <body = body (int64 i, bool d, float[3] v) => (bool o, float[3] w, float[3] s) {
            o = Identity(d) w = Add(v, v) s = Neg(w)
        }>
    }""")
    x = np.float32([1, 2, 3])
    found = collect_statistics(model, ["s"], [{"x": x, "n": np.array(n), "c": np.array(True)} for n in (2, 0)])
    assert (found["s"].low, found["s"].high, found["s"].samples, found["s"].count) == (-12, -2, 1, 6)


def test_values_of_a_scan() -> None:
    model = load("""g (float[N,3] x) => (float[3] t, float[3,N] y) <float[3] zero = {0,0,0}> {
        t, y = Scan<num_scan_inputs = 1, scan_output_axes = [1], scan_output_directions = [1],
            body = body (float[3] s, float[3] e) => (float[3] f, float[3] d) {
                f = Add(s, e) k = Constant<value = float[3] {0,1,-2}>() d = Div(f, k)
            }>(zero, x)
    }""")
    x = np.float32([[1, 2, 3], [1, -7, 2]])
    found = collect_statistics(model, ["d", "e"], [{"x": x}])
    assert (found["d"].low, found["d"].high, found["d"].infinities) == (-5, 2, 2)
    assert (found["e"].low, found["e"].high) == (-7, 3)


BODIES = """g (float[4,4] x, float[4] h, bool c, int64 n, int64 k) => (float[N] y)
<float[4,4] w = {1,0,-1,0.5, 2,-1,0,0, 0,0.25,1,1, -0.5,1,0,2}> {
    half = Constant<value = float {0.5}>() flat = Constant<value = int64[1] {-1}>()
    y = If (c) <then_branch = t () => (float[N] r) {
        last, outs = Loop (n, c, h) <body = steps (int64 i, bool d, float[4] state)
                => (bool on, float[4] next, float[4] out) {
            inner = Loop (k, , state) <body = refine (int64 j, bool f, float[4] v) => (bool l, float[4] u) {
                l = Identity(f) m = MatMul(v, w) u = Mul(m, half)
            }>
            e = Gather(x, i) next = Add(inner, e) out = Neg(next) on = Less(i, k)
        }>
        r = Reshape(outs, flat)
    }, else_branch = e () => (float[N] s) {
        sum, rows = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [1, 0],
            body = pairs (float[4] a, float[4] p, float[4] q) => (float[4] b, float[4] z) {
                z = Sub(p, q) b = Add(a, z)
            }>(h, x, x)
        s = Reshape(rows, flat)
    }>
}"""
IN_BODIES = ["state", "next", "out", "inner", "e", "v", "m", "u", "a", "p", "q", "z", "b"]


def unrolled(x: Array, h: Array, c: Array, n: Array, k: Array) -> dict[str, list[Array]]:
    """The values in the bodies of `BODIES`, of each iteration."""
    w = np.float32([[1, 0, -1, 0.5], [2, -1, 0, 0], [0, 0.25, 1, 1], [-0.5, 1, 0, 2]])
    found: dict[str, list[Array]] = {name: [] for name in IN_BODIES}

    def note(**values: Array) -> None:
        for name, value in values.items():
            found[name].append(value)

    state = h
    for i in range(min(n, k + 1) if c else 0):  # `on` is false behind the iteration k
        v = state
        for _ in range(k):
            note(v=v, m=v @ w, u=(v @ w) / 2)
            v = (v @ w) / 2
        note(state=state, inner=v, e=x[i], next=v + x[i], out=-v - x[i])
        state = v + x[i]
    for t in range(0 if c else 4):
        p, q = x[3 - t], x[:, t]
        note(p=p, q=q, z=p - q, a=state, b=state + p - q)
        state = state + p - q
    return found


def body_samples() -> list[dict[str, Array]]:
    """Samples of multiples of 1/4, whose sums are the same in any order."""
    trips = [(True, 4, 2), (False, 0, 0), (True, 4, 1), (True, 0, 3), (False, 1, 1), (True, 3, 3), (True, 2, 0)]
    return [
        {
            "x": np.rint(RNG.normal(size=(4, 4)) * 16).astype(np.float32) / 4,
            "h": np.rint(RNG.normal(size=4) * 16).astype(np.float32) / 4,
            "c": np.array(c),
            "n": np.array(n),
            "k": np.array(k),
        }
        for c, n, k in trips
    ]


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 21])
def test_bodies_are_as_if_unrolled(opset: int) -> None:
    samples = body_samples()
    axes = dict.fromkeys(IN_BODIES, 0)
    found = collect_statistics(
        load(BODIES, opset), IN_BODIES, samples, channels=axes, grams={name: [Rows(4)] for name in "vmz"}
    )
    values = [unrolled(**feeds) for feeds in samples]
    assert list(found) == IN_BODIES
    for name, statistics in found.items():
        rows = np.array([row for value in values for row in value[name]], np.float64)
        assert (statistics.low, statistics.high, statistics.count) == (rows.min(), rows.max(), rows.size)
        assert statistics.samples == sum(bool(value[name]) for value in values)
        assert statistics.histogram is not None
        counts, _ = np.histogram(rows[rows != 0], statistics.histogram.edges)
        assert np.array_equal(counts, statistics.histogram.counts)
        assert statistics.channels is not None
        assert np.array_equal(statistics.channels.maxima, np.abs(rows).max(0))
        for gram in statistics.grams.values():
            assert np.array_equal(gram.sums, [rows.T @ rows])
            assert gram.rows == len(rows)
    assert [name for name in IN_BODIES if found[name].grams] == ["v", "m", "z"]


def test_ranges_in_a_body_are_those_of_the_unrolled_loop() -> None:
    """With the loop in a function, too, which is inlined."""
    steps = 12
    loop = """y = Loop (n, , h) <body = steps (int64 i, bool d, float[200] v) => (bool l, float[200] u) {
        l = Identity(d) k = Constant<value = float {0.75}>() s = Mul(v, k) u = Add(s, x) }>"""
    by_hand = " ".join(f"s{t} = Mul(v{t}, k) v{t + 1} = Add(s{t}, x)" for t in range(steps))
    joined = ", ".join(f"s{t}" for t in range(steps))
    head = "g (float[200] x, float[200] h, int64 n) => (float[N] y)"
    constant = "k = Constant<value = float {0.75}>()"
    models = {
        "s": f"{head} {{ {loop} }}",
        "s_": f"""{head} {{ y = local.steps(x, h, n) }}
            <domain: "local", opset_import: ["" : 17]> steps (x, h, n) => (y) {{ {loop} }}""",
        "all": f"{head} {{ v0 = Identity(h) {constant} {by_hand} all = Concat<axis=0>({joined}) y = Identity(all) }}",
    }
    draw = np.random.default_rng(3)
    feeds = [
        {
            "x": draw.laplace(size=200).astype(np.float32),
            "h": draw.normal(size=200).astype(np.float32),
            "n": np.array(steps),
        }
        for _ in range(5)
    ]
    ranges: dict[Method, list[Any]] = {m: [] for m in METHODS}
    for name, text in models.items():
        source = model_source(load(text), inline=True)
        values = [v.name for g in source.load().graph.with_subgraphs() for v in defined_values(g)]
        (wanted,) = (v for v in values if v == name or (name == "s_" and v.startswith("s")))
        found = collect_statistics(source, [wanted], feeds)
        assert found[wanted].count == 5 * steps * 200
        for method in METHODS:
            ranges[method] += calibrated_ranges(found, method).values()
    for in_body, in_function, unrolled_range in ranges.values():
        assert in_body == in_function == pytest.approx(unrolled_range, rel=1e-6)


def test_memory_does_not_depend_on_the_trips() -> None:
    model = load("""g (float[20000] x, int64 n) => (float[20000] y) {
        y = Loop (n, , x) <body = steps (int64 i, bool d, float[20000] v) => (bool l, float[20000] u) {
            l = Identity(d) s = Mul(v, v) u = Sub(s, v) }>
    }""")
    peaks: list[int] = []
    for trips in (3, 60):
        collector = StatisticsCollector("s")
        observed = ObservedGraph.of_model(copy_without(model), Observation({"s"}, UNOPTIMIZED))
        feeds = {"x": np.full(20000, 0.5, np.float32), "n": np.array(trips)}
        tracemalloc.start()
        observed.run(feeds, lambda _, value, to=collector: to.add(value, 0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert collector.count == trips * 20000
    assert peaks[1] < 1.1 * peaks[0]


@each(
    ("names", "change", "message"),
    {
        "unknown name": (["aa"], {}, "the model has no value named 'aa'; did you mean a?"),
        "NaN": (["a"], {"x": np.full((2, 3), np.nan, np.float32)}, "a is NaN in sample 1; "),
        "NaN in a Loop": (["m"], {"x": np.full((2, 3), np.nan, np.float32)}, "m is NaN in sample 1; "),
        "shape": (["a"], {"x": np.zeros((2, 4), np.float32)}, "the model does not run on sample 1: onnx"),
    },
)
def test_errors(names: list[str], change: dict[str, Array], message: str) -> None:
    with pytest.raises(ModelError) as e:
        collect_statistics(load(TEXT), names, [SAMPLES[1], SAMPLES[1] | change])
    assert str(e.value).startswith(message)


def test_sequences_as_inputs() -> None:
    model = load(
        """g (seq(float[N]) x) => (float[N] y) { a = ConcatFromSequence<axis=0>(x) y = Neg(a) n = SequenceLength(x) }"""
    )
    arrays = [np.float32([1, 2]), np.float32([-3, 0, 5])]
    found = collect_statistics(model, ["x", "a", "y", "n"], [{"x": arrays}])
    assert {name: (s.low, s.high) for name, s in found.items()} == {"a": (-3, 5), "y": (-5, 3)}


def test_nan_is_allowed_where_the_model_tests_for_it() -> None:
    model = load("""g (float[N,2] x, float z) => (float[N,2] y) {
        s = Softmax(x) n = IsNaN(s) y = Where(n, z, s)
    }""")
    x = np.float32([[-np.inf, -np.inf], [1, 1]])
    found = collect_statistics(model, "sy", [{"x": x, "z": np.float32(0)}])
    assert (found["s"].low, found["s"].high, found["s"].nans, found["s"].has_masks) == (0.5, 0.5, 2, True)
    assert (found["y"].low, found["y"].high, found["y"].zeros, found["y"].has_masks) == (0, 0.5, 2, False)


def test_samples_are_needed() -> None:
    with pytest.raises(ModelError, match=r"^there are no samples to calibrate with$"):
        collect_statistics(load(TEXT), ["a"], iter([]))


def test_weights_in_other_files_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.arange(3000, dtype=np.float32).reshape(3, 1000)
    model = load("g (float[N,3] x) => (float[N,1000] y) { z = Relu(x) y = MatMul(z, w) }", weights={"w": weights})
    path = tmp_path / "model.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    monkeypatch.setattr("passwright.core.calibration.collection.write_for_sessions", None)  # it would copy them
    x = np.float32([[1, -1, 2]])
    found = collect_statistics(model_source(path, inline=False), ["y", "z"], [{"x": x}], memory_bytes=1)
    assert (found["y"].high, found["z"].high) == ((np.maximum(x, 0) @ weights).max(), 2)


def test_models_with_weights_over_the_limit_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passwright.core.io.writer.MAX_WHOLE_BYTES", 100)
    weights = np.arange(3000, dtype=np.float32).reshape(3, 1000)
    model = load("g (float[N,3] x) => (float[N,1000] y) { z = Relu(x) y = MatMul(z, w) }", weights={"w": weights})
    found = collect_statistics(from_onnx(model), ["y", "z"], [{"x": np.float32([[1, -1, 2]])}], memory_bytes=1)
    assert found["y"].high == weights[0, -1] + 2 * weights[2, -1]


def test_groups_keep_to_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("""g (float[N,3] x) => (float[N,3] e) {
        a = Relu(x) t = Concat<axis=0>(a, a) b = Relu(t) c = Neg(b) d = Abs(x) f = Cast<to=11>(d) e = Neg(d) }""")
    groups: list[list[str]] = []
    monkeypatch.setattr(collection, "_groups", lambda *given: groups.extend(_groups(*given)) or groups)
    samples = [{"x": np.zeros((rows, 3), np.float32)} for rows in (1, 10, 2)]
    collect_statistics(model, "abcdeft", samples, memory_bytes=4 * 60)
    assert groups == [["a"], ["t"], ["b"], ["c"], ["d"], ["f"], ["e"]]
    groups.clear()
    collect_statistics(model, "abcdeft", samples, memory_bytes=4 * 120)
    assert groups == [["a", "t"], ["b", "c"], ["d", "f", "e"]]


def test_one_sample_is_run_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each group of values."""
    model = load("g (float[N] x) => (float[N] y) { a = Neg(x) y = Abs(a) }")
    samples = [{"x": np.full(4, i, np.float32)} for i in range(3)]
    times = iter([1.0, 3.0, 3.0])
    monkeypatch.setattr(collection, "monotonic", lambda: next(times))
    found = collect_statistics(model, "ay", samples, memory_bytes=16, until=2.0)
    assert [(s.samples, s.low) for s in found.values()] == [(2, -1), (1, 0)]


def test_memory_does_not_depend_on_the_samples() -> None:
    """Of the statistics, and of the samples in the process that reads them."""
    peaks: list[int] = []
    for count in (3, 40):
        feeds = ({"x": RNG.normal(size=(40_000, 3)).astype(np.float32)} for _ in range(count))
        tracemalloc.start()
        collector = StatisticsCollector("x", channel_axis=1)
        with TemporaryDirectory() as folder:
            for number, path in enumerate(_write_samples(feeds, Path(folder))):
                collector.add(read_value(path)["x"], number)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_samples_of_different_lengths() -> None:
    """The range is that of all numbers, however they are divided."""
    model = load("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    numbers = np.random.default_rng(0).normal(0, 1, 100).astype(np.float32)
    parts = [{"x": part} for part in np.split(numbers, [1, 4, 4, 50])]
    found, whole = (collect_statistics(model, ["y"], feeds) for feeds in (parts, [{"x": numbers}]))
    for method in METHODS:
        assert calibrated_ranges(found, method) == calibrated_ranges(whole, method)
    assert found["y"].count == 100
