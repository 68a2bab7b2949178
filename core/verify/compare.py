"""Comparing one output of the original with the same output of what was made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

Array = np.ndarray[Any, Any]

# How far a float output may be off, as a share of its largest magnitude, by type. Below `FLOOR` the magnitude
# counts as `FLOOR`.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2, "complex64": 1e-4, "complex128": 1e-9}
COARSE = 0.25  # 8-bit and smaller floats
FLOOR = 1e-4


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest absolute `error` of an output and what was `allowed`; `reason` is set where that is too much."""

    error: float = 0.0
    allowed: float = 0.0
    reason: str = ""

    @property
    def share(self) -> float:
        """Error in parts of what is allowed."""
        return self.error / self.allowed if self.allowed else float(self.error > 0)


def compare(want: Any, got: Any, *, exact: bool, values: bool = True) -> Difference:
    """Compare two results: types, shapes, then values. NaN equals NaN; bit for bit if `exact`.

    Without `values`, only types and ranks count: what is random may decide on extents too.
    """
    maps, others = _float_maps(want), _float_maps(got)
    if maps is not None and others is not None and maps.keys == others.keys:
        return compare(maps.values, others.values, exact=exact, values=values)
    if _is_container(want) or _is_container(got):
        return _compare_containers(want, got, exact=exact, values=values)
    a, b = np.asarray(want), np.asarray(got)
    if a.dtype != b.dtype or a.ndim != b.ndim or (values and a.shape != b.shape):
        return Difference(reason=f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}")
    if not values or a.size == 0:
        return Difference()
    if a.dtype.name in TOLERANCE or a.dtype.name.startswith("float"):
        return _same_bits(a, b) if exact else _close(a, b)
    if (wrong := int(np.count_nonzero(a != b))) == 0:
        return Difference()
    return Difference(float(wrong), 0.0, f"{wrong} of {a.size} elements differ")


class _Maps(NamedTuple):
    keys: list[list[Any]]
    values: Array


def _float_maps(result: Any) -> _Maps | None:
    """A map from keys to floats, or a sequence of them (ZipMap): Python floats there are float32 results."""
    maps = cast("list[Any]", result) if isinstance(result, list) else [result]
    if not maps or not all(isinstance(m, dict) for m in maps):
        return None
    numbers = [v for m in maps for v in m.values()]
    if not all(type(v) is float for v in numbers):
        return None
    return _Maps([list(m) for m in maps], np.array(numbers, np.float32))


def _is_container(result: Any) -> bool:
    """Whether a result is a sequence, a map, an empty optional, or a sparse tensor of `onnx.reference`."""
    return result is None or isinstance(result, list | dict) or hasattr(result, "indices")


def _compare_containers(want: Any, got: Any, *, exact: bool, values: bool) -> Difference:
    if type(want) is not type(got):
        return Difference(reason=f"{type(want).__name__} became {type(got).__name__}")
    (keys, wanted), (others, given) = _entries(want), _entries(got)
    if keys != others and values:
        return Difference(reason=f"{len(keys)} entries became {len(others)}, or other keys")
    found = [compare(a, b, exact=exact, values=values) for a, b in zip(wanted, given, strict=values)]
    failed = next((d for d in found if d.reason), None)
    return failed or max(found, key=lambda d: d.share, default=Difference())


def _entries(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and the values of a map, a sequence, an optional that holds nothing, or the parts of a sparse tensor."""
    if container is None:
        return [], []
    if hasattr(container, "indices"):
        return ["values", "indices", "shape"], [container.values, container.indices, container.shape]
    if hasattr(container, "items"):
        return list(container.keys()), list(container.values())
    return list(range(len(container))), list(container)


def _same_bits(a: Array, b: Array) -> Difference:
    """NaNs count as equal whatever their payload; zeros must agree in sign."""
    wide_a, wide_b = _wide(a), _wide(b)
    signs = (np.signbit(wide_a.real) == np.signbit(wide_b.real)) & (np.signbit(wide_a.imag) == np.signbit(wide_b.imag))
    same = (np.isnan(wide_a) & np.isnan(wide_b)) | ((wide_a == wide_b) & signs)
    if same.all():
        return Difference()
    with np.errstate(all="ignore"):
        error = float(np.nan_to_num(np.abs(wide_a - wide_b)).max())
    wrong = int(np.count_nonzero(~same))
    return Difference(error, 0.0, f"{wrong} of {a.size} elements differ in their bits, by up to {error:.3g}")


def _close(a: Array, b: Array) -> Difference:
    wide_a, wide_b = _wide(a), _wide(b)
    finite = np.isfinite(wide_a)
    with np.errstate(all="ignore"):
        agree = (np.isnan(wide_a) & np.isnan(wide_b)) | (wide_a == wide_b)
    if not (agree | finite).all() or not np.isfinite(wide_b[finite]).all():
        wrong = int(np.count_nonzero(~(agree | (finite & np.isfinite(wide_b)))))
        return Difference(float("inf"), 0.0, f"{wrong} of {a.size} elements are not finite in the same way")
    if not finite.any():
        return Difference()
    scale = max(float(np.abs(wide_a[finite]).max()), FLOOR)
    allowed = TOLERANCE.get(a.dtype.name, COARSE) * scale
    with np.errstate(over="ignore"):
        error = float(np.abs(wide_a[finite] - wide_b[finite]).max())
    reason = f"off by up to {error:.3g} (allowed {allowed:.3g})" if error > allowed else ""
    return Difference(error, allowed, reason)


def _wide(a: Array) -> Array:
    return a.astype(np.complex128) if a.dtype.kind == "c" else a.astype(np.float64)
