"""DepthToSpace and SpaceToDepth as Reshape, Transpose and Reshape."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule


@rule(lambda g, x, op: g.DepthToSpace(x) @ op, contract=EXACT, group="spell-out-blocks")
def decompose_depth_to_space(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """DepthToSpace(x) => Reshape(Transpose(Reshape(x)))"""
    channels, height, width = _image_dims(x)
    b = op.attr("blocksize")
    depth, size = channels // b**2, (height * b, width * b)
    if op.attr("mode", "DCR") == "DCR":
        return _reshape_transpose_reshape(g, x, (b, b, depth, height, width), (0, 3, 4, 1, 5, 2), (depth, *size))
    return _reshape_transpose_reshape(g, x, (depth, b, b, height, width), (0, 1, 4, 2, 5, 3), (depth, *size))


@rule(lambda g, x, op: g.SpaceToDepth(x) @ op, contract=EXACT, group="spell-out-blocks")
def decompose_space_to_depth(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """SpaceToDepth(x) => Reshape(Transpose(Reshape(x)))"""
    channels, height, width = _image_dims(x)
    b = op.attr("blocksize")
    rows, columns = height // b, width // b
    return _reshape_transpose_reshape(
        g, x, (channels, rows, b, columns, b), (0, 3, 5, 1, 2, 4), (channels * b**2, rows, columns)
    )


def _image_dims(x: Value) -> tuple[int, int, int]:
    """Channels, height and width, which have to be numbers: only the size of the batch may be open."""
    require(x.rank == 4, "it is not a batch of images")
    numbers = [d for d in x.shape[1:] if isinstance(d, int) and d > 0]
    require(len(numbers) == 3, "the size of the images is open, or 0")
    channels, height, width = numbers
    return channels, height, width


def _reshape_transpose_reshape(
    g: RewriteBuilder, x: Value, inner: tuple[int, ...], perm: tuple[int, ...], outer: tuple[int, ...]
) -> Value:
    """Both shapes are without the batch dim, which 0 copies from the input of the Reshape."""
    taken_apart = g.Reshape(x, g.const([0, *inner]))
    return g.Reshape(g.Transpose(taken_apart, perm=list(perm)), g.const([0, *outer]))
