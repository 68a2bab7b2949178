"""How far two constants are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from ..ir.tensor import STRING, Tensor
from .contents import Constant, fingerprint
from .difference import Weight

PIECE = 1 << 20  # elements compared at a time


def weight_change(place: str, names: tuple[str, str], a: Constant, b: Constant) -> Weight:
    """What differs between two constants."""
    types = constant_type(a), constant_type(b)
    size = a.size if isinstance(a, Tensor) else 0
    differing, largest = (None, None) if types[0] != types[1] else _difference(a, b)
    return Weight(place, *names, types, size, differing, largest)


def constant_type(constant: Constant) -> str:
    """Element type and dims, as ONNX's text form has them."""
    sparse = not isinstance(constant, Tensor)
    dtype = constant.values.data_type if isinstance(constant, onnx.SparseTensorProto) else constant.dtype
    name = onnx.TensorProto.DataType.Name(dtype).lower()
    return f"{'sparse ' * sparse}{name}[{','.join(map(str, constant.dims))}]"


def _difference(a: Constant, b: Constant) -> tuple[int | None, float | None]:
    """The number of elements that differ, and the largest absolute difference; None where that cannot be said."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return (0 if fingerprint(a) == fingerprint(b) else None), None
    if a.dtype == STRING:
        texts = (tensor.to_proto("").string_data for tensor in (a, b))
        return sum(s != t for s, t in zip(*texts, strict=True)), None
    differing, largest = 0, 0.0
    x, y = a.array.reshape(-1), b.array.reshape(-1)
    for start in range(0, a.size, PIECE):
        n, far = _pieces_apart(x[start : start + PIECE], y[start : start + PIECE])
        differing, largest = differing + n, max(largest, far)
        for tensor in (a, b):
            if tensor.place is not None:
                tensor.place.source.forget_pages()
    return differing, largest if np.isfinite(largest) else None


def _pieces_apart(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[int, float]:
    """The number of elements whose bits differ; the largest difference, infinite where one is no number."""
    bits = [np.ascontiguousarray(p).view(np.uint8).reshape(p.size, -1) for p in (x, y)]
    where = (bits[0] != bits[1]).any(axis=1)
    if not where.any():
        return 0, 0.0
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        far = np.abs(x[where].astype(wide) - y[where].astype(wide))
    return int(where.sum()), float(np.where(np.isnan(far), np.inf, far).max())
