"""Support of onnxruntime's kernels for empty tensors, and for convolutions with empty filters.

Some kernels crash on empty tensors; with empty filters, some hang, and others return uninitialized memory. Concat also
does that if it skips an empty input whose other extents differ from the other inputs, which ONNX does not allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..errors import UnverifiableError
from ..ir.expressions import Shape, SymInt, atoms, is_symbolic_only, is_tentative
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.table import ops_with

EMPTY_SUM_ERROR = "sums over no elements, for which onnxruntime returns wrong results"
UNWRITTEN_ERROR = "joins inputs of different extents, for which onnxruntime returns uninitialized memory"
CONVOLUTIONS = ops_with(Trait.CONVOLUTION)
EMPTY_SAFE_OPS = ops_with(Trait.EMPTY_SAFE)


def require_nonempty_filters(graph: Graph) -> None:
    """Raise UnverifiableError for a convolution whose filter is empty for all inputs."""
    for op, dims in _convolutions(graph):
        if 0 in dims:
            raise UnverifiableError(f"{op.label} {EMPTY_SUM_ERROR}")


def has_nonempty_filters(graph: Graph) -> bool:
    """Whether the filters of all convolutions are nonempty for all input sizes. Filters have at least two dims."""
    return all(dims and all(isinstance(d, int) and d > 0 for d in dims) for _, dims in _convolutions(graph))


def reduced_dims(v: Value | None) -> Shape:
    """The dims of an operand except the first, if known."""
    return (v.known_shape or ())[1:] if v is not None else ()


def _convolutions(graph: Graph) -> Iterator[tuple[Op, Shape]]:
    """Yield the convolutions, with the dims of the filter that each sums over."""
    for g in graph.with_subgraphs():
        yield from ((op, reduced_dims(op.input(3 if op.type == "QLinearConv" else 1))) for op in g.ops(*CONVOLUTIONS))


def supports_empty_tensors(graph: Graph) -> bool:
    """Whether all ops of a graph and its subgraphs are known to run on empty tensors."""
    return all(not op.domain and op.type in EMPTY_SAFE_OPS for g in graph.with_subgraphs() for op in g.ops())


def joins_equal_extents(graph: Graph) -> bool:
    """Whether no Concat is known to join extents of different symbols in other axes, one of which may be 0."""
    concats = (op for g in graph.with_subgraphs() for op in g.ops("Concat"))
    beside = (zip(*dims, strict=False) for op in concats for dims in pairwise(_dims_beside_axis(op)))
    return all(d is None or other is None or atoms(d) == atoms(other) for pairs in beside for d, other in pairs)


def _dims_beside_axis(concat: Op) -> Iterator[list[SymInt | None]]:
    """Yield the dims of each input except the joined one; None for dims that may still change."""
    axis = concat.attr("axis", 1)
    for shape in (v.known_shape or () if v is not None else () for v in concat.inputs):
        beside = [d for i, d in enumerate(shape) if i != axis % len(shape)]
        yield [None if d is None or is_tentative(d) or not is_symbolic_only(d) else d for d in beside]
