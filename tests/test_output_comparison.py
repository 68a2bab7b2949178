"""Comparison of outputs: equal in bits, within tolerance, or different."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx.reference.op_run import SparseTensor
from passwright.core.verify.output_comparison import compare_outputs
from rewriting import cases

NAN, INF = float("nan"), float("inf")


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def f64(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float64)


def up(value: float, kind: type[np.floating[Any]] = np.float32) -> float:
    """The next representable number of a type."""
    return float(np.nextafter(kind(value), kind(INF)))


def sparse(values: list[float], indices: list[int]) -> SparseTensor:
    return SparseTensor(np.array(values, np.float32), np.array(indices), (4,))


F32 = np.finfo(np.float32)
NEGATIVE_NAN = np.array([0xFFC00001], np.uint32).view(np.float32)

AGREE_IN_BITS = [
    pytest.param(f32(1, -2), f32(1, -2), id="equal"),
    pytest.param(f32(NAN, 1), f32(NAN, 1), id="NaN equals NaN"),
    pytest.param(f32(NAN), NEGATIVE_NAN, id="NaN of another payload"),
    pytest.param(f32(INF, -INF), f32(INF, -INF), id="infinities"),
    pytest.param(f32(-0.0), f32(-0.0), id="negative zeros"),
    pytest.param(f32(), f32(), id="no elements"),
    pytest.param(np.float32(3), np.float32(3), id="scalar"),
    pytest.param(np.array([1, -2], np.int64), np.array([1, -2], np.int64), id="integers"),
    pytest.param(np.array([True, False]), np.array([True, False]), id="bools"),
    pytest.param(np.array(["a", ""], object), np.array(["a", ""], object), id="strings"),
    pytest.param(np.array(["a", "bc"]), np.array(["a", "bc"], object), id="strings of fixed and of any length"),
    pytest.param(np.array(["a", ""], object), np.array(["a", ""]), id="strings of any and of fixed length"),
    pytest.param(f32(1).astype(ml_dtypes.bfloat16), f32(1).astype(ml_dtypes.bfloat16), id="bfloat16"),
    pytest.param(f32(1).astype(ml_dtypes.float8_e4m3fn), f32(1).astype(ml_dtypes.float8_e4m3fn), id="float8"),
    pytest.param(f32(1).astype(ml_dtypes.int4), f32(1).astype(ml_dtypes.int4), id="int4"),
    pytest.param(np.array([1 + 2j, NAN], np.complex64), np.array([1 + 2j, NAN], np.complex64), id="complex"),
    pytest.param([f32(1), f32(2, 3)], [f32(1), f32(2, 3)], id="sequence"),
    pytest.param([], [], id="empty sequence"),
    pytest.param(None, None, id="optional without a value"),
    pytest.param([{"a": 0.5, "b": NAN}], [{"a": 0.5, "b": NAN}], id="sequence of maps"),
    pytest.param(sparse([1], [3]), sparse([1], [3]), id="sparse tensor"),
]

AGREE_CLOSELY = [
    pytest.param(f32(1), f32(up(1)), id="next float32"),
    pytest.param(f32(0.0), f32(-0.0), id="zeros of different sign"),
    pytest.param(f32(1e6, 0), f32(up(1e6), 1e-1), id="small beside the largest that differs"),
    pytest.param(f32(1e-20), f32(0), id="below the floor"),
    pytest.param(f32(INF, 1), f32(INF, up(1)), id="beside an infinity"),
    pytest.param(f32(NAN, 1), f32(NAN, up(1)), id="beside a NaN"),
    pytest.param(f64(1), f64(up(1, np.float64)), id="next float64"),
    pytest.param(f32(1).astype(np.float16), f32(1.001).astype(np.float16), id="next float16"),
    pytest.param(f32(1).astype(ml_dtypes.bfloat16), f32(1.01).astype(ml_dtypes.bfloat16), id="next bfloat16"),
    pytest.param(f32(1).astype(ml_dtypes.float8_e5m2), f32(1.25).astype(ml_dtypes.float8_e5m2), id="next float8"),
    pytest.param(np.array([1 + 2j], np.complex64), np.array([1 + 2.00001j], np.complex64), id="complex"),
    pytest.param([f32(1)], [f32(up(1))], id="in a sequence"),
    pytest.param([{0: 0.1, 1: 0.9}], [{0: up(0.1), 1: up(0.9)}], id="float32 in a map, which comes as Python floats"),
    pytest.param([{0: 1e-6}, {0: 1.0}], [{0: up(1e-6)}, {0: 1.0}], id="small beside the largest of another map"),
    pytest.param(sparse([1], [3]), sparse([up(1)], [3]), id="in a sparse tensor"),
    pytest.param([{0: 1e-6, 1: 1.0}], [{0: up(1e-6), 1: 1.0}], id="small beside the largest of a map"),
]

DIFFER = [
    pytest.param(f32(1), f32(1.01), "off by up to 0.01", id="float32"),
    pytest.param(f32(1e-3), f32(2e-3), "off by up to", id="relative to small outputs too"),
    pytest.param(f32(1e6, 1), f32(1e6, 1.001), "allowed 0.0001", id="small beside a large one that does not differ"),
    pytest.param(f32(F32.min, 1), f32(F32.min, 1.001), "allowed 0.0001", id="beside a sentinel"),
    pytest.param([f32(F32.min, 1)], [f32(F32.min, 1.001)], "allowed 0.0001", id="beside a sentinel in a sequence"),
    pytest.param([{0: 1e-3, 1: 1e9}], [{0: 2e-3, 1: 1e9}], "off by", id="beside a large one in a map"),
    pytest.param(f64(1), f64(up(1)), "off by up to", id="float64 is held to float64"),
    pytest.param(f64(1e308), f64(-1e308), "off by up to", id="a difference that overflows"),
    pytest.param(np.array([1 + 2j], np.complex64), np.array([1 + 2.1j], np.complex64), "off by", id="imaginary part"),
    pytest.param(f32(1), f32(NAN), "finite", id="becomes NaN"),
    pytest.param(f32(NAN), f32(1), "finite", id="was NaN"),
    pytest.param(f32(1), f32(INF), "finite", id="becomes infinite"),
    pytest.param(f32(INF), f32(3e38), "finite", id="was infinite"),
    pytest.param(f32(INF), f32(-INF), "-inf instead of inf", id="infinity of the other sign"),
    pytest.param(f32(INF), f32(NAN), "NaN instead of inf", id="infinity becomes NaN"),
    pytest.param(f32(1), f64(1), "float32[1] became float64[1]", id="other type"),
    pytest.param(f32(1), np.array([1], np.int32), "became int32", id="integers"),
    pytest.param(f32(1), f32(1)[0], "float32[1] became float32[]", id="other rank"),
    pytest.param(f32(1, 2), f32(1, 2).reshape(1, 2), "float32[2] became float32[1, 2]", id="a dim more"),
    pytest.param(f32(), f32().reshape(0, 3), "float32[0] became float32[0, 3]", id="other shape of nothing"),
    pytest.param(np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ", id="integers by one"),
    pytest.param(np.array([2**62]), np.array([2**62 + 1]), "1 of 1", id="integers beyond float64"),
    pytest.param(np.array([255], np.uint8), np.array([254], np.uint8), "1 of 1", id="uint8"),
    pytest.param(f32(1).astype(ml_dtypes.int4), f32(2).astype(ml_dtypes.int4), "1 of 1", id="int4"),
    pytest.param(np.array([True]), np.array([False]), "1 of 1", id="bools"),
    pytest.param(np.array(["a"], object), np.array(["A"], object), "1 of 1", id="strings"),
    pytest.param(np.array(["a", "b"]), np.array(["a", "B"], object), "1 of 2", id="strings of fixed and of any length"),
    pytest.param(np.array(["1"], object), np.array([1]), "became int64", id="strings become numbers"),
    pytest.param([f32(1)], [f32(1), f32(1)], "1 entries became 2", id="longer sequence"),
    pytest.param([f32(1), f32(1)], [f32(1), f32(2)], "off by", id="in a sequence"),
    pytest.param([f32(1)], f32(1), "list became ndarray", id="sequence becomes a tensor"),
    pytest.param(f32(1), None, "became NoneType", id="optional loses its value"),
    pytest.param([{0: 1.0}], [{1: 1.0}], "keys", id="other keys"),
    pytest.param([{0: 1.0, 1: 0.0}], [{0: 1.0}], "2 entries became 1", id="a key less"),
    pytest.param([{0: 0.5}], [{0: 0.6}], "off by", id="in a map"),
    pytest.param([{"a": "x"}], [{"a": "y"}], "1 of 1", id="strings in a map"),
    pytest.param(sparse([1], [3]), sparse([2], [3]), "off by", id="an element of a sparse tensor"),
    pytest.param(sparse([1], [3]), sparse([1], [2]), "1 of 1", id="its place in a sparse tensor"),
    pytest.param(sparse([1], [3]), f32(0, 0, 0, 1), "SparseTensor became", id="sparse becomes dense"),
]

DIFFER_IN_BITS = [
    pytest.param(f32(0.0), f32(-0.0), id="sign of zero"),
    pytest.param(f32(1), f32(up(1)), id="next float32"),
    pytest.param(f64(1), f64(up(1, np.float64)), id="next float64"),
    pytest.param(f32(1e-45), f32(0), id="subnormal"),
    pytest.param(f32(0).astype(np.float16), f32(-0.0).astype(np.float16), id="sign of zero in float16"),
    pytest.param(np.array([1 + 0j], np.complex64), np.array([complex(1, -0.0)], np.complex64), id="imaginary zero"),
    pytest.param([f32(1)], [f32(up(1))], id="in a sequence"),
    pytest.param([{0: 0.1}], [{0: up(0.1)}], id="in a map"),
]


@pytest.mark.parametrize(("want", "got"), AGREE_IN_BITS)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "close"])
def test_equal(want: Any, got: Any, exact: bool) -> None:
    found = compare_outputs(want, got, exact=exact)
    assert found.reason == ""
    assert found.error == 0


@pytest.mark.parametrize(("want", "got"), AGREE_CLOSELY)
def test_within_tolerance(want: Any, got: Any) -> None:
    found = compare_outputs(want, got, exact=False)
    assert found.reason == ""
    assert found.error <= found.allowed or found.error == 0


@pytest.mark.parametrize(("want", "got", "reason"), DIFFER)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "close"])
def test_different(want: Any, got: Any, reason: str, exact: bool) -> None:
    found = compare_outputs(want, got, exact=exact).reason
    assert found
    if not exact:
        assert reason in found


@pytest.mark.parametrize(("want", "got"), DIFFER_IN_BITS)
def test_different_in_bits(want: Any, got: Any) -> None:
    assert compare_outputs(want, got, exact=True).reason


@cases(
    ("want", "got", "same"),
    {
        "values do not count": (f32(1), f32(2), True),
        "values in a sequence do not count": ([f32(1)], [f32(2)], True),
        "the type does": (f32(1), f64(1), False),
        "extents do not count": (f32(1), f32(1, 2), True),
        "the rank does": (f32(1), f32(1).reshape(1, 1), False),
        "the length does not count": ([f32(1)], [f32(1), f32(1)], True),
        "the type in a sequence does": ([f32(1)], [f64(1), f64(1)], False),
        "being a sequence does": ([f32(1)], f32(1), False),
    },
)
def test_comparison_of_type_and_rank_only(want: Any, got: Any, same: bool) -> None:
    assert (not compare_outputs(want, got, exact=True, compare_values=False).reason) is same


def test_share_of_tolerance() -> None:
    half = compare_outputs(f32(100), f32(100.005), exact=False)
    assert half.share_of_allowed == pytest.approx(0.5, rel=0.02)
    assert compare_outputs(f32(1), f32(1), exact=False).share_of_allowed == 0
