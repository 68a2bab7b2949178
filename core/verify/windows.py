"""Convolutions that sum over nothing: on some onnxruntime hangs, of others it gives what happens to be in memory."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Unverifiable
from ..ir.dims import Shape
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value

NOT_RIGHT = "sums over nothing, which onnxruntime does not do right"
WINDOWS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")


def require_windows(graph: Graph) -> None:
    """Raise Unverifiable for a convolution that sums over nothing whatever the inputs."""
    for op in _convolutions(graph):
        if 0 in summed(_filters(op)):
            raise Unverifiable(f"{op.label} {NOT_RIGHT}")


def has_fixed_windows(graph: Graph) -> bool:
    """Whether no convolution may sum over nothing, whatever the sizes of the inputs. A filter has two dims or more."""
    return all(_is_fixed(summed(_filters(op))) for op in _convolutions(graph))


def summed(v: Value | None) -> Shape:
    """The dims of an operand but the first, as far as they are known."""
    return (v.known_shape or ())[1:] if v is not None else ()


def _convolutions(graph: Graph) -> Iterator[Op]:
    return (op for g in graph.with_subgraphs() for op in g.ops(*WINDOWS))


def _filters(op: Op) -> Value | None:
    return op.input(3 if op.type == "QLinearConv" else 1)


def _is_fixed(dims: Shape) -> bool:
    return bool(dims) and all(isinstance(d, int) and d > 0 for d in dims)
