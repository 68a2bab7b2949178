"""Collection of statistics over the samples of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from passwright.core.calibration.collection import collect_statistics
from passwright.core.calibration.exposure import expose
from passwright.core.calibration.statistics import StatisticsCollector, ValueStatistics
from rewriting import load, run

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


@pytest.mark.parametrize("memory_bytes", [1 << 20, 100], ids=["one group", "several groups"])
def test_statistics_of_values_of_all_graphs(memory_bytes: int) -> None:
    samples = SAMPLES
    found = collect_statistics(
        load(TEXT), [*OUTER, *INNER], iter(samples), channels={"a": 1}, memory_bytes=memory_bytes
    )
    wanted = expected(samples)
    assert list(found) == [name for name in (*OUTER, *INNER) if name != "i"]  # an integer
    for name, statistics in found.items():
        if name == "ls":  # the condition of the Loop holds wherever its body runs
            assert (statistics.low, statistics.high) == (0, 0)
            continue
        other = wanted[name]
        low, high = (
            (other.low, other.high) if name not in {"v", "m", "l", "lq"} else (min(other.low, 0), max(other.high, 0))
        )
        assert [statistics.low, statistics.high] == pytest.approx([low, high], rel=1e-6)
        if name in {"v", "m", "l", "lq", "ls"}:
            assert statistics.histogram is None
            continue
        assert (statistics.count, statistics.zeros) == (other.count, other.zeros)
        assert statistics.histogram is not None
        assert other.histogram is not None
        assert statistics.histogram.exponent == other.histogram.exponent
        assert statistics.histogram.counts.sum() == other.histogram.counts.sum()
    channels = found["a"].channels
    assert channels is not None
    rows = np.concatenate([feeds["x"] for feeds in samples]) + np.float32([1, 2, 3])
    assert channels.maxima == pytest.approx(np.abs(rows).max(0))
    assert channels.means == pytest.approx(rows.astype(np.float64).mean(0))


def test_values_of_a_scan() -> None:
    model = load("""g (float[N,3] x) => (float[3] t, float[3,N] y) <float[3] zero = {0,0,0}> {
        t, y = Scan<num_scan_inputs = 1, scan_output_axes = [1], scan_output_directions = [1],
            body = body (float[3] s, float[3] e) => (float[3] f, float[3] d) {
                f = Add(s, e) k = Constant<value = float[3] {0,1,-2}>() d = Div(f, k)
            }>(zero, x)
    }""")
    x = np.float32([[1, 2, 3], [1, -7, 2]])
    found = collect_statistics(model, ["d", "e"], [{"x": x}])
    assert (found["d"].low, found["d"].high, found["d"].infinities) == (-5, 2, 1)
    assert (found["e"].low, found["e"].high) == (-7, 3)


@pytest.mark.parametrize("opset", [9, 13, 18, 21])
def test_exposed_models_are_valid(opset: int) -> None:
    model = load(TEXT, opset)
    dtypes = dict.fromkeys([*OUTER, *INNER], TensorProto.FLOAT) | {"f": TensorProto.FLOAT16, "p": TensorProto.DOUBLE}
    found = expose(model, [*OUTER, *INNER], dtypes)
    assert set(found) == {*OUTER, *INNER}
    assert run(model, SAMPLES[1])
