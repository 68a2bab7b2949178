"""Constants of two models: numbers that identify equal constants, and differences between constants."""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b
from typing import Any

import numpy as np
import onnx

from ...core.ir.graph import Graph, is_counted
from ...core.ir.op import Op
from ...core.ir.tensor import STRING, MappedFile, Tensor, digest, dims_text, element_type, sample_key
from ...core.ir.values import Value
from .diff_result import ConstantDifference

CHUNK_ELEMENTS = 1 << 20  # elements compared at a time
Constant = Tensor | onnx.SparseTensorProto


class Constants:
    """The constants of two models by value; `numbers` are equal if elements, element types and dims are equal.

    A tensor is read completely only if the other model has a tensor with the same type and sample in another location.
    """

    def __init__(self, a: Graph, b: Graph) -> None:
        sides = _constants_of(a), _constants_of(b)
        self.contents = sides[0] | sides[1]
        self.numbers: dict[Value, int] = {}
        by_sample: dict[Hashable, tuple[list[Value], list[Value]]] = {}
        for side, constants in enumerate(sides):
            for value, constant in constants.items():
                by_sample.setdefault(_sample_key(constant), ([], []))[side].append(value)
        numbers: dict[Hashable, int] = {}
        for left, right in by_sample.values():
            for value, key in self._keys(left, right).items():
                self.numbers[value] = numbers.setdefault(key, len(numbers))

    def _keys(self, left: list[Value], right: list[Value]) -> dict[Value, Hashable]:
        """Keys of constants that have the same sample: locations if they share a file, otherwise digests.

        A constant whose sample occurs in only one model equals no other constant.
        """
        if not left or not right:
            return {v: v for v in (*left, *right)}
        locations = {v: _file_location(self.contents[v]) for v in (*left, *right)}
        if len({*locations.values()}) == 1 and None not in locations.values():
            return locations
        return {v: constant_digest(self.contents[v]) for v in locations}

    def __contains__(self, value: Value | None) -> bool:
        return value in self.numbers

    def __getitem__(self, value: Value) -> int:
        return self.numbers[value]


def constants_equal(a: Constant, b: Constant) -> bool:
    """Whether two constants have equal elements, element types and dims."""
    location = _file_location(a)
    is_same_place = location is not None and location == _file_location(b)
    return is_same_place or (_type_key(a) == _type_key(b) and constant_digest(a) == constant_digest(b))


def constant_difference(location: str, names: tuple[str, str], a: Constant, b: Constant) -> ConstantDifference:
    """Compare two constants."""
    types = constant_type(a), constant_type(b)
    size = a.size if isinstance(a, Tensor) else 0
    differing, largest = (None, None) if types[0] != types[1] else _element_difference(a, b)
    return ConstantDifference(location, *names, types, size, differing, largest)


def constant_type(constant: Constant) -> str:
    """The element type and dims, in ONNX's text format."""
    is_sparse = isinstance(constant, onnx.SparseTensorProto)
    dtype = constant.values.data_type if is_sparse else constant.dtype
    return "sparse " * is_sparse + element_type(dtype) + dims_text(constant.dims)


def _element_difference(a: Constant, b: Constant) -> tuple[int | None, float | None]:
    """The number of elements that differ, and the largest absolute difference; None if unknown."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return (0 if constant_digest(a) == constant_digest(b) else None), None
    if a.dtype == STRING:
        texts = (tensor.to_proto("").string_data for tensor in (a, b))
        return sum(s != t for s, t in zip(*texts, strict=True)), None
    differing, largest = 0, 0.0
    x, y = a.array.reshape(-1), b.array.reshape(-1)
    for start in range(0, a.size, CHUNK_ELEMENTS):
        n, far = _chunk_difference(x[start : start + CHUNK_ELEMENTS], y[start : start + CHUNK_ELEMENTS])
        differing, largest = differing + n, max(largest, far)
        for tensor in (a, b):
            if tensor.mapped is not None:
                tensor.mapped.file.release_pages()
    return differing, largest if np.isfinite(largest) else None


def _chunk_difference(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[int, float]:
    """The number of elements whose bits differ, and the largest difference; infinite for NaN."""
    bits = [np.ascontiguousarray(p).view(np.uint8).reshape(p.size, -1) for p in (x, y)]
    where = (bits[0] != bits[1]).any(axis=1)
    if not where.any():
        return 0, 0.0
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        far = np.abs(x[where].astype(wide) - y[where].astype(wide))
    return int(where.sum()), float(np.where(np.isnan(far), np.inf, far).max())


def _constants_of(graph: Graph) -> dict[Value, Constant]:
    """The constants of a graph and its bodies: initializers and Constant ops."""
    found: dict[Value, Constant] = {}
    for g in graph.with_subgraphs():
        found.update(g.sparse_initializers)
        found.update((v, v.tensor) for v in g.initializers if v.tensor is not None)
        found.update((op.outputs[0], held) for op in g.ops("Constant") if (held := held_constant(op)) is not None)
    return found


def held_constant(op: Op) -> Constant | None:
    """The constant of a Constant op; None for other ops, and for a reference to an attribute of a local function."""
    if is_counted(op) or len(op.outputs) != 1:
        return None
    sparse = op.attrs.get("sparse_value")
    return sparse if isinstance(sparse, onnx.SparseTensorProto) else op.outputs[0].tensor


def constant_digest(constant: Constant) -> bytes:
    """A hash of type, shape and elements, without collisions in practice."""
    if isinstance(constant, Tensor):
        return digest(constant)
    found = blake2b(repr(_type_key(constant)).encode())
    for part in (constant.values, constant.indices):
        found.update(digest(Tensor.from_proto(part)))
    return found.digest()


def _type_key(constant: Constant) -> Hashable:
    if isinstance(constant, Tensor):
        return constant.dtype, constant.dims
    return "sparse", constant.values.data_type, tuple(constant.dims), tuple(constant.values.dims)


def _sample_key(constant: Constant) -> Hashable:
    """A few bytes of the elements; the type for strings and sparse tensors, whose encoding is not unique."""
    return sample_key(constant) if isinstance(constant, Tensor) and constant.dtype != STRING else _type_key(constant)


def _file_location(constant: Constant) -> Hashable:
    """The file and offset of the elements; None for constants in memory."""
    mapped = constant.mapped if isinstance(constant, Tensor) else None
    if mapped is None or not isinstance(mapped.file, MappedFile):
        return None
    return mapped.file.path, mapped.field_number, mapped.begin, mapped.end
