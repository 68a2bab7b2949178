"""Comparing one output of the original with the same output of what was made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    """Compare two results: names of types, shapes, then `values`. NaN equals NaN; bit for bit if `exact`."""
    if isinstance(want, list | dict) or want is None or isinstance(got, list | dict) or got is None:
        return _compare_containers(want, got, exact=exact, values=values)
    a, b = np.asarray(want), np.asarray(got)
    if a.dtype != b.dtype or a.shape != b.shape:
        return Difference(reason=f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}")
    if not values or a.size == 0:
        return Difference()
    if a.dtype.name in TOLERANCE or a.dtype.name.startswith("float"):
        return _same_bits(a, b) if exact else _close(a, b)
    if (wrong := int(np.count_nonzero(a != b))) == 0:
        return Difference()
    return Difference(float(wrong), 0.0, f"{wrong} of {a.size} elements differ")


def _compare_containers(want: Any, got: Any, *, exact: bool, values: bool) -> Difference:
    if type(want) is not type(got):
        return Difference(reason=f"{type(want).__name__} became {type(got).__name__}")
    (keys, wanted), (others, given) = _entries(want), _entries(got)
    if keys != others:
        return Difference(reason=f"{len(keys)} entries became {len(others)}, or other keys")
    pairs = zip(wanted, given, strict=True)
    found = [compare(a, b, exact=exact, values=values) for a, b in pairs]
    failed = next((d for d in found if d.reason), None)
    return failed or max(found, key=lambda d: d.share, default=Difference())


def _entries(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and the values of a map, a sequence, or an optional that holds nothing."""
    if container is None:
        return [], []
    if hasattr(container, "items"):
        return list(container.keys()), list(container.values())
    return list(range(len(container))), list(container)


def _same_bits(a: Array, b: Array) -> Difference:
    """NaNs count as equal whatever their payload; zeros must agree in sign."""
    wide_a, wide_b = _wide(a), _wide(b)
    same = (np.isnan(wide_a) & np.isnan(wide_b)) | (
        (wide_a == wide_b) & (np.signbit(wide_a.real) == np.signbit(wide_b.real))
    )
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
    error = float(np.abs(wide_a[finite] - wide_b[finite]).max())
    reason = f"off by up to {error:.3g} (allowed {allowed:.3g})" if error > allowed else ""
    return Difference(error, allowed, reason)


def _wide(a: Array) -> Array:
    return a.astype(np.complex128) if a.dtype.kind == "c" else a.astype(np.float64)
