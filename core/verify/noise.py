"""Noise of the original's outputs when its float inputs move by one unit in the last place (ulp).

Correct rewrites of the golden models, random models, 50-layer CNNs, products over 4096 elements and 24-layer
attention differ by up to 1.7 noise floors (2.7 on zeros), or by 5 epsilons if the floor is lower. A batch norm without
its epsilon differs by 10 to 370 floors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, cast

import ml_dtypes
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from ..io.split_models import SplitModel
from ..ir.tensor import Tensor

Array = np.ndarray[Any, Any]
Directions = Callable[[Array], Array]
"""Gives the direction in which each number of a flat array moves: 1 or -1, or 0 if it stays."""

PERTURBATION_RUNS = 4  # runs with moved inputs: a single one may cancel in an output of few elements, or miss a jump
NOISE_MULTIPLE = 8  # the error of an output may be up to this multiple of its noise floor
LARGER_ULPS = (2, 4, 8)  # ulps: a correct rewrite may differ by up to 8 floors, and jump where that leads to a jump
GRID_BITS = 8  # bits of a fraction on a grid; a random float16 has more in 7 of 8 cases
STEPPED_ELEMENTS = 1 << 18  # elements that are moved at a time; few enough to stay in the cache
MAX_PERTURBED_WEIGHTS = 64 << 20  # elements up to which weights are moved if no input is a float


MIN_SCALE = 1e-4  # smaller magnitudes are treated as this one, unless the output is typically smaller


class Noise(Struct, frozen=True):
    """The `perturbed` outputs of an original, and its `typical_floor` relative to the scale of the output.

    `more_perturbed` are outputs under larger perturbations, perturbed weights, and other kernels, with their ulps; they
    are the last check before an output is considered wrong. All are computed on first use. Perturbations on which the
    original does not run are omitted. `excuses_jumps`: elements at which the original jumps may differ. `is_cheap`: the
    typical floor may be computed even if only reports need it. A magnitude below `min_scale` is treated as `min_scale`.
    """

    perturbed: Callable[[], Sequence[Any]]
    typical_floor: Callable[[], float]
    more_perturbed: Callable[[], Sequence[tuple[Any, int]]] = tuple
    excuses_jumps: bool = True
    is_cheap: bool = False
    min_scale: float = MIN_SCALE

    def of_part(self, pick: Callable[[Any], Any]) -> Noise:
        """The noise of a part of the output."""
        return replace(
            self,
            perturbed=lambda: [pick(m) for m in self.perturbed()],
            more_perturbed=lambda: [(pick(m), far) for m, far in self.more_perturbed()],
        )

    def perturbed_like(self, a: Array) -> list[Array]:
        """The outputs under perturbed inputs, if they have the type and shape of `a`."""
        return [np.asarray(m) for m in self.perturbed() if _is_like(a, m)]

    def more_perturbed_like(self, a: Array) -> list[tuple[Array, int]]:
        """The outputs under all other perturbations, with their ulps, if they have the type and shape of `a`."""
        return [(np.asarray(m), far) for m, far in self.more_perturbed() if _is_like(a, m)]


def _is_like(a: Array, output: Any) -> bool:
    return hasattr(output, "dtype") and output.dtype == a.dtype and output.shape == a.shape


NO_NOISE = Noise(list[Any], lambda: 0.0)


def perturb(feeds: Mapping[str, Any], seed: int, ulps: int = 1) -> dict[str, Any]:
    """The feeds with every finite float moved up or down by `ulps` at random; other elements do not change."""
    directions = partial(_random_directions, np.random.default_rng(seed))
    return {name: _perturb_value(value, directions, ulps) for name, value in feeds.items()}


def has_floats(feeds: Mapping[str, Any]) -> bool:
    """Whether the feeds have floats to perturb."""
    return any(map(_has_floats, feeds.values()))


def has_generic_floats(feeds: Mapping[str, Any]) -> bool:
    """Whether most floats of some feed are neither whole numbers nor fractions of few bits, such as those on a grid."""
    return any(map(_has_generic_floats, feeds.values()))


def perturb_weights(model: SplitModel, seed: int, ulps: int = 1) -> SplitModel | None:
    """`model` with perturbed float initializers of rank 2 or more, because vectors may be bounds, scales or exponents.

    Numbers of one magnitude move together, so that those that cancel still do; whole numbers stay, because they are not
    rounded. None if there are no such initializers, or they are too large.
    """
    directions = _directions_by_magnitude(seed)
    tensors = {t.name: model.tensors.get(t.name) or Tensor.from_proto(t) for t in model.message.graph.initializer}
    floats = {n: t for n, t in tensors.items() if is_float(helper.tensor_dtype_to_np_dtype(t.dtype))}
    chosen = {n: t for n, t in floats.items() if len(t.dims) > 1}
    if not chosen or sum(t.size for t in chosen.values()) > MAX_PERTURBED_WEIGHTS:
        return None
    for name, t in chosen.items():
        if t.size > 1:
            tensors[name] = Tensor.from_array(_perturb_value(t.array, directions, ulps))
    message = deepcopy(model.message)
    del message.graph.initializer[:]
    return SplitModel.of(message, tensors.items())


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether elements are real or complex floats, including types that NumPy lacks."""
    return dtype.kind in "fc" or dtype.name.startswith(("float", "bfloat"))


def float_info(dtype: np.dtype[Any]) -> Any:
    """The `finfo` of a real type, including types that NumPy lacks."""
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


def _has_floats(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_floats, cast("Sequence[Any]", value)))
    if value is None:
        return False
    array = np.asarray(value)
    return is_float(array.dtype) and array.size > 0


def _has_generic_floats(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_generic_floats, cast("Sequence[Any]", value)))
    if not _has_floats(value):
        return False
    array: Array = np.asarray(value)
    numbers = (array.real if array.dtype.kind == "c" else array).astype(np.float64)
    with np.errstate(all="ignore"):
        mantissas = np.frexp(numbers)[0] * (1 << GRID_BITS)
        on_grid = (mantissas == np.round(mantissas)) | (numbers == np.round(numbers)) | ~np.isfinite(numbers)
    return 2 * int(np.count_nonzero(on_grid)) < on_grid.size


def _perturb_value(value: Any, directions: Directions, ulps: int) -> Any:
    if isinstance(value, list):
        return [_perturb_value(v, directions, ulps) for v in cast("Sequence[Any]", value)]
    if not _has_floats(value):
        return value
    array: Array = np.asarray(value)
    if array.dtype.kind == "c":
        parts = _step_ulps(array.reshape(-1, 1).view(np.dtype(f"f{array.dtype.itemsize // 2}")), directions, ulps)
        return parts.view(array.dtype).reshape(array.shape)
    return _step_ulps(array, directions, ulps)


def _random_directions(rng: np.random.Generator, numbers: Array) -> Array:
    return rng.integers(0, 2, numbers.size, np.int8) * 2 - 1


def _directions_by_magnitude(seed: int) -> Directions:
    """Directions that are a hash of the magnitude; 0 for whole numbers."""
    factor = int(np.random.default_rng(seed).integers(1 << 62)) * 2 + 1

    def directions(numbers: Array) -> Array:
        kind = np.dtype(f"u{numbers.dtype.itemsize}")
        top = 8 * kind.itemsize - 1
        magnitudes = numbers.view(kind) & kind.type((1 << top) - 1)
        hashed = (magnitudes * kind.type(factor % (2 << top))) >> kind.type(top)
        return np.where(np.rint(numbers) == numbers, 0, hashed.astype(np.int8) * 2 - 1).astype(np.int8)

    return directions


def _step_ulps(a: Array, directions: Directions, ulps: int) -> Array:
    """`a` moved by `ulps`: zeros become subnormal, the largest numbers move inwards; non-finite ones stay."""
    if a.dtype.itemsize == 1:
        return _step_8_bit(a, directions, ulps)
    out = np.array(a, order="C")
    numbers = out.reshape(-1)
    for start in range(0, numbers.size, STEPPED_ELEMENTS):
        part = numbers[start : start + STEPPED_ELEMENTS]
        bits = part.view(np.dtype(f"u{a.dtype.itemsize}"))
        _step_bits(bits, directions(part), ulps, np.array(np.inf, a.dtype))
    return out


def _step_bits(bits: Array, directions: Array, ulps: int, infinity: Array) -> None:
    """Move floats, given as unsigned integers, by `ulps` away from 0 or towards it; beyond 0, the sign changes."""
    top = int(infinity.view(bits.dtype))
    sign_bit: Any = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    magnitudes = bits & ~sign_bit
    edge = np.flatnonzero((magnitudes < ulps) | (magnitudes >= top - ulps))
    kept, magnitude = bits[edge], magnitudes[edge].astype(np.int64)
    bits += (directions * ulps).astype(bits.dtype)
    moved: Array = magnitude + ulps * directions[edge].astype(np.int64)
    flips: Array = np.where(moved < 0, sign_bit, 0).astype(bits.dtype)
    size: Array = np.abs(moved)
    size = np.where(size >= top, magnitude - ulps, size).astype(bits.dtype)
    bits[edge] = np.where(magnitude >= top, kept, np.bitwise_or(size, np.bitwise_xor(kept & sign_bit, flips)))


def _step_8_bit(a: Array, directions: Directions, ulps: int) -> Array:
    """Like `_step_ulps`, for 8-bit types, some of which have no infinities or no zeros."""
    most: Array = np.asarray(float_info(a.dtype).max, a.dtype)
    chosen = directions(np.ascontiguousarray(a).reshape(-1)).reshape(a.shape)
    towards: Array = chosen.astype(a.dtype) * most
    with np.errstate(all="ignore"):
        for _ in range(ulps):
            step: Array = np.nextafter(a, towards)
            step = np.where(step == a, np.nextafter(a, np.zeros_like(a)), step)
            a = np.where(np.isfinite(a) & np.isfinite(step) & (chosen != 0), step, a)
    return a
